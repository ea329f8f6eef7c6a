//! The state and the metrics over HTTP: on a socket in the folder of the watch, and on a loopback address.

use crate::outcome::HintExt;
use anyhow::{Context, anyhow};
use latlab_model::watch::Status;
use latlab_report::watch::open_metrics;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A request is at most so long, bytes, and takes at most so long.
const HEAD: usize = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(2);

/// The state that requests are answered from.
pub(super) type Shared = Arc<Mutex<Status>>;

/// The name of the socket in the folder of a watch.
pub(super) const SOCKET: &str = "watch.sock";

/// Answers until it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    socket: PathBuf,
    /// The folder, locked.
    _folder: File,
}

impl Server {
    /// Listens in the folder, and at the address.
    ///
    /// # Errors
    /// When another watch has the folder, or a socket cannot be made.
    pub(super) fn start(
        dir: &Path,
        listen: Option<SocketAddrV4>,
        shared: &Shared,
    ) -> anyhow::Result<Self> {
        let socket = dir.join(SOCKET);
        let folder = File::open(dir).with_context(|| dir.display().to_string())?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(anyhow!("{}: a watch uses this folder", dir.display()))
                    .hint("latlab watch status --dir DIR; or choose another folder with --dir");
            }
            Err(TryLockError::Error(e)) => {
                return Err(e).with_context(|| dir.display().to_string());
            }
        }
        match fs::remove_file(&socket) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(e).with_context(|| socket.display().to_string());
            }
            _ => {}
        }
        let unix = UnixListener::bind(&socket).with_context(|| socket.display().to_string())?;
        fs::set_permissions(&socket, Permissions::from_mode(0o660))?;
        let server = Self { socket, _folder: folder };
        if let Some(address) = listen {
            let tcp = TcpListener::bind(address).with_context(|| format!("--listen {address}"))?;
            let shared = Arc::clone(shared);
            let limit = |stream: &TcpStream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))
            };
            spawn("watch-tcp", move || serve(tcp.incoming(), limit, &shared, true))?;
        }
        let shared = Arc::clone(shared);
        let limit = |stream: &UnixStream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))
        };
        spawn("watch-unix", move || serve(unix.incoming(), limit, &shared, false))?;
        Ok(server)
    }
}

/// Answers one request of each connection, whose reads and writes `limit` gives a time limit.
fn serve<S: Read + Write>(
    connections: impl Iterator<Item = io::Result<S>>,
    limit: impl Fn(&S) -> io::Result<()>,
    shared: &Shared,
    check_host: bool,
) {
    for stream in connections {
        let Ok(mut stream) = stream else {
            pause_on_error();
            continue;
        };
        if limit(&stream).is_ok() {
            let _ = answer(&mut stream, shared, check_host);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    // It ends with the process.
    std::thread::Builder::new().name(name.into()).spawn(run).context("starting a thread")?;
    Ok(())
}

/// Without file descriptors accept(2) fails at once, each time.
fn pause_on_error() {
    std::thread::sleep(Duration::from_millis(200));
}

/// Reads a request and answers it. Over TCP a `Host` that is not this machine is refused: a page of another site
/// could reach the loopback address by its own name (DNS rebinding).
fn answer(stream: &mut (impl Read + Write), shared: &Shared, check_host: bool) -> io::Result<()> {
    let Some(head) = head(stream)? else {
        return reply(stream, "400 Bad Request", "text/plain", "");
    };
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, url) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let host = lines.find_map(|l| {
        let (name, value) = l.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
    });
    if check_host && !host.as_deref().is_some_and(is_local) {
        return reply(stream, "403 Forbidden", "text/plain", "Host: 127.0.0.1 or localhost\n");
    }
    if method != "GET" {
        return reply(stream, "405 Method Not Allowed", "text/plain", "GET\n");
    }
    let status = || shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match url.split('?').next().unwrap_or_default() {
        "/metrics" => {
            let text = open_metrics::text(&status());
            reply(stream, "200 OK", open_metrics::CONTENT_TYPE, &text)
        }
        "/status" => match serde_json::to_string(&status()) {
            Ok(text) => reply(stream, "200 OK", "application/json", &text),
            Err(_) => reply(stream, "500 Internal Server Error", "text/plain", ""),
        },
        _ => reply(stream, "404 Not Found", "text/plain", "/metrics, /status\n"),
    }
}

fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|b| b.is_ascii_digit()) { name } else { host }
    });
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
}

/// Up to the empty line; `None` for one that is too long or no text.
fn head(stream: &mut impl Read) -> io::Result<Option<String>> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1024]);
    let began = Instant::now();
    loop {
        let n = stream.read(&mut buffer)?;
        bytes.extend_from_slice(&buffer[..n]);
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            bytes.truncate(end);
            return Ok(String::from_utf8(bytes).ok());
        }
        if n == 0 || bytes.len() > HEAD || began.elapsed() > PATIENCE {
            return Ok(None);
        }
    }
}

fn reply(out: &mut impl Write, status: &str, kind: &str, body: &str) -> io::Result<()> {
    write!(
        out,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    struct Both {
        request: Cursor<Vec<u8>>,
        reply: Vec<u8>,
    }

    impl Read for Both {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.request.read(buffer)
        }
    }

    impl Write for Both {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.reply.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ask(request: &str, check_host: bool) -> String {
        let mut both = Both { request: Cursor::new(request.into()), reply: Vec::new() };
        let status = Status { pid: 77, ..Status::default() };
        answer(&mut both, &Arc::new(Mutex::new(status)), check_host).unwrap();
        String::from_utf8(both.reply).unwrap()
    }

    #[test]
    fn metrics_and_state_are_answered_and_nothing_else() {
        let ok = ask("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9464\r\n\r\n", true);
        assert!(ok.starts_with("HTTP/1.1 200") && ok.ends_with("# EOF\n"), "{ok}");
        let state = ask("GET /status HTTP/1.1\r\n\r\n", false);
        assert!(state.contains("\"pid\":77"), "{state}");
        for (request, code) in [
            ("GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
            ("GET /metrics HTTP/1.1\r\n\r\n", "403"),
            ("GET /metrics", "400"),
            (&"x".repeat(20_000), "400"),
        ] {
            let reply = ask(request, true);
            assert!(reply.starts_with(&format!("HTTP/1.1 {code}")), "{request}: {reply}");
        }
    }
}
