//! The server: 127.0.0.1 only, a few threads, every reply from [`crate::api::answer`].

use crate::api::{self, Door, POLICY, Reply, Request};
use crate::view::View;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::time::Duration;
use tiny_http::{Header, Method, Response, Server};

/// Threads that answer.
const THREADS: usize = 4;

/// A bound port.
pub struct Bound {
    server: Server,
    /// The port.
    pub port: u16,
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("port", &self.port).finish_non_exhaustive()
    }
}

/// Binds a port of 127.0.0.1; 0 takes a free one.
///
/// # Errors
/// What the system says: the port is in use, or not allowed.
pub fn bind(port: u16) -> io::Result<Bound> {
    let listener = TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    let port = listener.local_addr()?.port();
    let server = Server::from_listener(listener, None).map_err(io::Error::other)?;
    Ok(Bound { server, port })
}

impl Bound {
    /// Answers until `stop` says so. `problem` tells what is wrong with the files meanwhile, in one
    /// sentence; the page shows it.
    pub fn serve(
        &self,
        view: &View<'_>,
        door: &Door,
        stop: &(dyn Fn() -> bool + Sync),
        problem: &(dyn Fn() -> Option<String> + Sync),
    ) {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while !stop() {
                        if let Ok(Some(request)) =
                            self.server.recv_timeout(Duration::from_millis(200))
                        {
                            one(view, door, request, problem);
                        }
                    }
                });
            }
        });
    }
}

fn one(
    view: &View<'_>,
    door: &Door,
    mut request: tiny_http::Request,
    problem: &(dyn Fn() -> Option<String> + Sync),
) {
    let head = |request: &tiny_http::Request, name: &'static str| {
        let found = request.headers().iter().find(|h| h.field.equiv(name));
        found.map(|h| h.value.as_str().to_owned())
    };
    let host = head(&request, "Host").unwrap_or_default();
    let (origin, site) = (head(&request, "Origin"), head(&request, "Sec-Fetch-Site"));
    let url = request.url().to_owned();
    let method = request.method().clone();
    let mut body = Vec::new();
    let mut limited = request.as_reader().take(api::BODY as u64 + 1);
    let whole = limited.read_to_end(&mut body).is_ok() && body.len() <= api::BODY;
    let reply = if !whole || !matches!(method, Method::Get | Method::Post) {
        Reply {
            status: 400,
            kind: "text/plain",
            body: b"latlab view: bad request\n".into(),
            report: false,
        }
    } else {
        let asked = Request {
            post: method == Method::Post,
            url: &url,
            host: &host,
            origin: origin.as_deref(),
            site: site.as_deref(),
            body: &body,
        };
        api::answer(view, door, &asked)
    };
    let trouble = if reply.status == 403 { None } else { problem() };
    // A browser that went away is no error.
    let _ = request.respond(response(reply, trouble.as_deref()));
}

fn response(reply: Reply, trouble: Option<&str>) -> Response<io::Cursor<Vec<u8>>> {
    let mut response = Response::from_data(reply.body.into_owned()).with_status_code(reply.status);
    let mut add = |name: &str, value: &str| {
        if let Ok(header) = Header::from_bytes(name.as_bytes(), value.as_bytes()) {
            response.add_header(header);
        }
    };
    add("Content-Type", reply.kind);
    add("Content-Security-Policy", if reply.report { "frame-ancestors 'none'" } else { POLICY });
    add("X-Content-Type-Options", "nosniff");
    add("Referrer-Policy", "no-referrer");
    add("Cross-Origin-Resource-Policy", "same-origin");
    add("Cross-Origin-Opener-Policy", "same-origin");
    add("Cache-Control", "no-store");
    if let Some(trouble) = trouble {
        let plain: String = trouble.chars().filter(|c| matches!(c, ' '..='~')).collect();
        add("Latlab-Trouble", &plain);
    }
    response
}
