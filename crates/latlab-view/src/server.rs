//! The server: 127.0.0.1 only, a bounded number of connections, every reply from
//! [`crate::api::answer`].
//!
//! Host and token are looked at before the body is read, so nobody without the token has more than
//! a connection for some seconds.

use crate::api::{self, Door, POLICY, Reply, Request};
use crate::http::{Connection, Head};
use crate::view::View;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections at a time. A browser opens six; further ones are closed at once.
const CONNECTIONS_MAX: usize = 32;
/// How often the listener looks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A bound port.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    /// The port.
    pub port: u16,
}

/// Binds a port of 127.0.0.1; 0 takes a free one.
///
/// # Errors
/// What the system says: the port is in use, or not allowed.
pub fn bind(port: u16) -> io::Result<Bound> {
    let listener = TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok(Bound { listener, port })
}

impl Bound {
    /// Answers until `stop` says so; then connections that wait end too.
    /// `problem` tells what is wrong with the files meanwhile, in one sentence; the page shows it.
    pub fn serve(
        &self,
        view: &View<'_>,
        door: &Door,
        stop: &(dyn Fn() -> bool + Sync),
        problem: &(dyn Fn() -> Option<String> + Sync),
    ) {
        let open = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            while !stop() {
                let Ok((stream, _)) = self.listener.accept() else {
                    std::thread::sleep(POLL_INTERVAL);
                    continue;
                };
                if open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                    continue;
                }
                open.fetch_add(1, Ordering::Relaxed);
                let open = &open;
                let started = std::thread::Builder::new().spawn_scoped(scope, move || {
                    // A browser that went away is no error.
                    let _: io::Result<()> =
                        (|| one(view, door, Connection::new(stream, stop)?, problem))();
                    open.fetch_sub(1, Ordering::Relaxed);
                });
                if started.is_err() {
                    open.fetch_sub(1, Ordering::Relaxed);
                }
            }
        });
    }
}

fn one(
    view: &View<'_>,
    door: &Door,
    mut connection: Connection<'_>,
    problem: &(dyn Fn() -> Option<String> + Sync),
) -> io::Result<()> {
    let head = connection.head()?;
    let is_known = matches!(head.method.as_str(), "GET" | "POST");
    if !is_known || head.length > api::BODY {
        return send(connection, bad_request(), None);
    }
    if let Err(refused) = api::admit(door, &request(&head, &[])) {
        return send(connection, refused, None);
    }
    let body = connection.body(&head)?;
    let reply = api::answer(view, door, &request(&head, &body));
    let trouble = if reply.status == 403 { None } else { problem() };
    send(connection, reply, trouble.as_deref())
}

fn request<'a>(head: &'a Head, body: &'a [u8]) -> Request<'a> {
    Request {
        post: head.method == "POST",
        url: &head.url,
        host: &head.host,
        origin: head.origin.as_deref(),
        site: head.site.as_deref(),
        body,
    }
}

fn bad_request() -> Reply {
    let body = b"latlab view: bad request\n".into();
    Reply { status: 400, kind: "text/plain", body, report: false }
}

fn send(connection: Connection<'_>, reply: Reply, trouble: Option<&str>) -> io::Result<()> {
    let policy = if reply.report { "frame-ancestors 'none'" } else { POLICY };
    let trouble: Option<String> =
        trouble.map(|text| text.chars().filter(|c| matches!(c, ' '..='~')).collect());
    let mut headers = vec![
        ("Content-Type", reply.kind),
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ];
    if let Some(trouble) = &trouble {
        headers.push(("Latlab-Trouble", trouble));
    }
    connection.reply(reply.status, &headers, &reply.body)
}
