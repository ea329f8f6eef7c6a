//! `latlab bench --serve`: the other end of probes that go over a network ([`super::remote`] has the protocol).
//!
//! It does what a session asks for and nothing else: bytes come back, bytes of no meaning are sent, an RPC of a
//! character and a page of `x` are answered. No file is opened, and nothing that is received is kept. What it can be
//! made to use is bounded: `SESSIONS` at once, each with a thread, at most one message of memory, `IDLE` without a
//! byte and `LONGEST` in all. Datagrams are exchanged with the one port of the client that the session named, so
//! that a forged source gets no reply.

use super::remote::{
    ACCEPTED, BUSY, HEAD, MESSAGE_MAX, PAGE_MAX, REFUSED, SERVICES, Service, VERSION, head, parse,
};
use super::services::{CALL, page_head, receive_record, reply, send_record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Sessions at once.
const SESSIONS: usize = 16;
/// How long a session may be silent.
const IDLE: Duration = Duration::from_secs(10);
/// How long a session may last.
const LONGEST: Duration = Duration::from_mins(10);
/// Bytes of a write.
const BLOCK: usize = 64 << 10;
/// Bytes of a request by HTTP.
const REQUEST: usize = 1024;
/// Stack of a session's thread, bytes.
const STACK: usize = 64 << 10;
/// Looks at the connection of a session of datagrams that is silent.
const SILENT: u32 = 10;
/// Datagrams between two looks at the connection of the session.
const LOOK: u32 = 4096;

/// A session that may still run.
struct Running {
    began: Instant,
    stream: TcpStream,
    thread: JoinHandle<()>,
}

/// Serves until `ends` is true; how many sessions there were.
///
/// # Errors
/// When the listener fails.
pub fn serve(listener: &TcpListener, ends: &dyn Fn() -> bool) -> io::Result<u64> {
    listener.set_nonblocking(true)?;
    let mut running: Vec<Running> = Vec::new();
    let mut sessions = 0;
    let wait = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    while !ends() {
        let mut ready = [PollFd::new(listener, PollFlags::IN)];
        let ready = poll(&mut ready, Some(&wait)).unwrap_or(0) > 0;
        running.retain(|session| {
            let ended = session.thread.is_finished();
            if !ended && session.began.elapsed() > LONGEST {
                let _ = session.stream.shutdown(std::net::Shutdown::Both);
            }
            !ended
        });
        if !ready {
            continue;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                let is_full = running.len() >= SESSIONS;
                match begin(stream, is_full) {
                    Ok(Some(session)) => {
                        running.push(session);
                        sessions += 1;
                    }
                    Ok(None) => {}
                    Err(e) => log::debug!("no session: {e}"),
                }
            }
            Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                std::thread::sleep(Duration::from_millis(200));
            }
            // A client that has gone already.
            Err(_) => {}
        }
    }
    Ok(sessions)
}

fn begin(mut stream: TcpStream, is_full: bool) -> io::Result<Option<Running>> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    if is_full {
        stream.write_all(&head(BUSY, 0))?;
        return Ok(None);
    }
    let mut own = stream.try_clone()?;
    let run = move || {
        if let Err(e) = session(&mut own) {
            log::debug!("a session ended: {e}");
        }
        // The main thread has a copy of the descriptor, which it drops later.
        let _ = own.shutdown(std::net::Shutdown::Both);
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run)?;
    Ok(Some(Running { began: Instant::now(), stream, thread }))
}

/// One session, to its end.
fn session(stream: &mut TcpStream) -> io::Result<()> {
    let mut request = [0; HEAD];
    stream.read_exact(&mut request)?;
    if request.starts_with(b"GET ") {
        return page(stream, &request);
    }
    let Some((version, service, argument)) = parse(&request) else { return Ok(()) };
    let service = SERVICES.get(usize::from(service)).filter(|_| version == VERSION);
    match service {
        Some(Service::Hello) => answer(stream, ACCEPTED, 0),
        Some(Service::Echo) if (1..=MESSAGE_MAX).contains(&argument) => {
            answer(stream, ACCEPTED, 0)?;
            let mut message = vec![0; argument as usize];
            loop {
                stream.read_exact(&mut message)?;
                stream.write_all(&message)?;
            }
        }
        Some(Service::Blocks) => {
            answer(stream, ACCEPTED, 0)?;
            let block = vec![1; BLOCK];
            loop {
                stream.write_all(&block)?;
            }
        }
        Some(Service::Rpc) => {
            answer(stream, ACCEPTED, 0)?;
            let mut call = [0; CALL];
            loop {
                receive_record(stream, &mut call)?;
                let Some(reply) = reply(&call) else { return Ok(()) };
                send_record(stream, &reply)?;
            }
        }
        Some(Service::Datagrams | Service::RpcDatagrams) => {
            let socket = UdpSocket::bind(SocketAddr::new(stream.local_addr()?.ip(), 0))?;
            let mut peer = stream.peer_addr()?;
            peer.set_port(argument as u16);
            socket.connect(peer)?;
            socket.set_read_timeout(Some(IDLE / SILENT))?;
            answer(stream, ACCEPTED, socket.local_addr()?.port().into())?;
            datagrams(stream, &socket, service == Some(&Service::RpcDatagrams))
        }
        _ => answer(stream, REFUSED, 0),
    }
}

fn answer(stream: &mut TcpStream, verdict: u8, argument: u32) -> io::Result<()> {
    stream.write_all(&head(verdict, argument))
}

/// Answers datagrams as long as the connection of the session lasts.
fn datagrams(stream: &TcpStream, socket: &UdpSocket, is_rpc: bool) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let mut buffer = vec![0; BLOCK];
    let (mut heard, mut silent) = (0u32, 0);
    loop {
        match socket.recv(&mut buffer) {
            Ok(n) => {
                (heard, silent) = (heard.wrapping_add(1), 0);
                if !is_rpc {
                    socket.send(&buffer[..n])?;
                } else if let Some(reply) = reply(&buffer[..n]) {
                    socket.send(&reply)?;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => silent += 1,
            Err(e) => return Err(e),
        }
        if silent > 0 || heard % LOOK == 0 {
            // Nothing is sent on the connection: what can be read is its end.
            match stream.peek(&mut [0]) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && silent < SILENT => {}
                _ => return Ok(()),
            }
        }
    }
}

/// A page of as many bytes as the path of a request says, by HTTP/1.0.
fn page(stream: &mut TcpStream, begun: &[u8]) -> io::Result<()> {
    let mut request = [0; REQUEST];
    request[..begun.len()].copy_from_slice(begun);
    let mut had = begun.len();
    while !request[..had].windows(4).any(|w| w == b"\r\n\r\n") {
        match stream.read(&mut request[had..])? {
            0 => return Ok(()),
            n => had += n,
        }
    }
    let path = std::str::from_utf8(&request[..had]).ok().and_then(|r| r.split(' ').nth(1));
    let size = path.and_then(|p| p.strip_prefix('/')?.parse().ok());
    let Some(size) = size.filter(|size: &usize| *size <= PAGE_MAX as usize) else {
        return stream.write_all(b"HTTP/1.0 404 Not Found\r\n\r\n");
    };
    let mut out = page_head(size).into_bytes();
    let all = out.len() + size;
    out.resize(all.min(BLOCK), b'x');
    stream.write_all(&out)?;
    let mut left = all - out.len();
    out.fill(b'x');
    while left > 0 {
        let n = left.min(out.len());
        stream.write_all(&out[..n])?;
        left -= n;
    }
    Ok(())
}
