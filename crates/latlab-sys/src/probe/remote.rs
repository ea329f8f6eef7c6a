//! The client of `latlab bench --serve`: sessions with a server on another machine, for the probes of `ipc` and `bw`
//! that go over a network.
//!
//! A session is a TCP connection. The client sends a request of twelve bytes, the server answers with twelve:
//!
//! ```text
//! request  "latlab"  version  service  argument (4 bytes, big-endian)
//! answer   "latlab"  version  verdict  argument
//! ```
//!
//! Then the connection, or for datagrams a pair of UDP ports that lives as long as it, is used as `Service` says.
//! A request that begins with `GET ` is HTTP/1.0 instead, for a page of as many bytes as its path says (`GET /1024`).

use super::{ParamSpec, ProbeError, Setting};
use latlab_model::finding::{Note, Quantity};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// The port of a server, unless another is named; TCP.
pub const PORT: u16 = 27_380;
/// Version of the protocol.
pub(super) const VERSION: u8 = 1;
/// Bytes of a request and of an answer.
pub(super) const HEAD: usize = 12;
const MAGIC: &[u8; 6] = b"latlab";

/// The identifier of the reason why a session ended that had begun.
pub const PEER_LOST: &str = "probe.peer-lost";

/// What a message or a page has at most, bytes.
pub(super) const MESSAGE_MAX: u32 = 1 << 20;
pub(super) const PAGE_MAX: u32 = 16 << 20;

/// How long a connection, an answer or a reply may take.
const LATE: Duration = Duration::from_secs(5);
/// A datagram without a reply for so long is lost.
pub(crate) const LOST: Duration = Duration::from_millis(250);
/// Datagrams that are lost one after the other until the server counts as lost.
const LOST_MAX: u32 = 20;

/// The parameter of probes that can have their other end on another machine.
pub const HOST: ParamSpec = ParamSpec {
    name: "host",
    what: "NAME[:PORT] of latlab bench --serve; a process of this machine without it",
    default: &[""],
    full: &[],
};

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Nothing: whether there is a server.
    Hello,
    /// Messages of as many bytes as the argument says come back.
    Echo,
    /// The server sends as fast as it can.
    Blocks,
    /// ONC RPC with record marks.
    Rpc,
    /// Datagrams come back; the arguments are the UDP ports of client and server.
    Datagrams,
    /// ONC RPC in datagrams, with ports as for `Datagrams`.
    RpcDatagrams,
}

/// In the order of their numbers.
#[cfg(any(test, feature = "host"))]
pub(super) const SERVICES: [Service; 6] = [
    Service::Hello,
    Service::Echo,
    Service::Blocks,
    Service::Rpc,
    Service::Datagrams,
    Service::RpcDatagrams,
];

/// The server's verdict.
pub(super) const ACCEPTED: u8 = 0;
#[cfg(feature = "host")]
pub(super) const REFUSED: u8 = 1;
pub(super) const BUSY: u8 = 2;

/// A request or an answer.
pub(super) fn head(kind: u8, argument: u32) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    bytes[..6].copy_from_slice(MAGIC);
    (bytes[6], bytes[7]) = (VERSION, kind);
    bytes[8..].copy_from_slice(&argument.to_be_bytes());
    bytes
}

/// Version, kind and argument; `None` for what is none of ours.
pub(super) fn parse(bytes: &[u8; HEAD]) -> Option<(u8, u8, u32)> {
    let rest = bytes.strip_prefix(MAGIC)?;
    Some((rest[0], rest[1], u32::from_be_bytes(*rest.last_chunk()?)))
}

/// An address with its port; IPv4 only in a board build.
pub fn parse_address(text: &str) -> Option<SocketAddr> {
    #[cfg(feature = "host")]
    return text.parse().ok();
    #[cfg(not(feature = "host"))]
    return text.parse().ok().map(SocketAddr::V4);
}

/// The same as text.
pub fn address_text(address: SocketAddr) -> String {
    #[cfg(not(feature = "host"))]
    let SocketAddr::V4(address) = address else { return String::new() };
    address.to_string()
}

fn note(id: &str, address: SocketAddr) -> Note {
    Note::new(id).value("address", address_text(address))
}

/// The connection to a server was lost.
pub(super) fn lost(address: SocketAddr, error: &io::Error) -> ProbeError {
    // A connection that ends says so by "failed to fill whole buffer"; a read without data by "try again".
    let error = match error.kind() {
        io::ErrorKind::UnexpectedEof => "it was closed".to_owned(),
        io::ErrorKind::WouldBlock => format!("no reply within {} s", LATE.as_secs()),
        _ => error.to_string(),
    };
    ProbeError::Failed(note(PEER_LOST, address).value("error", error))
}

/// Opens a session; the server's argument.
///
/// # Errors
/// When there is no server, another program, a server of another version, or one with too many sessions.
pub(crate) fn session(
    address: SocketAddr,
    service: Service,
    argument: u32,
) -> Result<(TcpStream, u32), ProbeError> {
    let none = |e: io::Error| {
        let note = note("probe.no-server", address).value("error", e.to_string());
        ProbeError::Unavailable(note)
    };
    let mut stream = TcpStream::connect_timeout(&address, LATE).map_err(none)?;
    stream.set_nodelay(true).map_err(none)?;
    stream.set_read_timeout(Some(LATE)).map_err(none)?;
    stream.set_write_timeout(Some(LATE)).map_err(none)?;
    let mut answer = [0; HEAD];
    // A server that has too many sessions may answer before it is asked, and close.
    let _ = stream.write_all(&head(service as u8, argument));
    let other = |error: Option<String>| {
        ProbeError::Unavailable(note("probe.other-server", address).value_if("error", error))
    };
    stream.read_exact(&mut answer).map_err(|e| other(Some(e.to_string())))?;
    match parse(&answer) {
        Some((VERSION, ACCEPTED, argument)) => Ok((stream, argument)),
        Some((VERSION, BUSY, _)) => {
            Err(ProbeError::Unavailable(note("probe.server-busy", address)))
        }
        Some((VERSION, _, _)) => Err(ProbeError::failed("probe.server-refused")),
        Some((theirs, _, _)) => Err(ProbeError::Unavailable(
            note("probe.server-version", address)
                .value("theirs", Quantity::Count(theirs.into()))
                .value("ours", Quantity::Count(VERSION.into())),
        )),
        None => Err(other(None)),
    }
}

/// Whether a server of this version answers.
///
/// # Errors
/// As the first trial would end.
pub fn check(address: SocketAddr) -> Result<(), ProbeError> {
    session(address, Service::Hello, 0).map(drop)
}

/// Messages of one size, there and back.
pub(super) struct Echo {
    stream: TcpStream,
    address: SocketAddr,
    message: Vec<u8>,
}

impl Echo {
    /// # Errors
    /// As [`session`], and for a size that is no message.
    pub(super) fn open(setting: &Setting, address: SocketAddr) -> Result<Self, ProbeError> {
        let size = setting.size("size")?;
        if !(1..=MESSAGE_MAX as usize).contains(&size) {
            return Err(setting.bad("size", "1 to 1M"));
        }
        let (stream, _) = session(address, Service::Echo, size as u32)?;
        Ok(Self { stream, address, message: vec![0; size] })
    }

    /// Sends a message, and waits for it.
    pub(super) fn once(&mut self) -> Result<(), ProbeError> {
        let sent = self.stream.write_all(&self.message);
        let done = sent.and_then(|()| self.stream.read_exact(&mut self.message));
        done.map_err(|e| lost(self.address, &e))
    }
}

/// A pair of UDP ports, and the connection that they live as long as.
pub(super) struct Datagrams {
    socket: UdpSocket,
    address: SocketAddr,
    reply: Vec<u8>,
    _session: TcpStream,
}

impl Datagrams {
    /// For datagrams of up to `largest` bytes.
    ///
    /// # Errors
    /// As [`session`].
    pub(super) fn open(
        address: SocketAddr,
        service: Service,
        largest: usize,
    ) -> Result<Self, ProbeError> {
        let all = |e| lost(address, &e);
        let any = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any).map_err(all)?;
        let own = socket.local_addr().map_err(all)?.port();
        let (session, port) = session(address, service, own.into())?;
        let mut far = address;
        far.set_port(port as u16);
        socket.connect(far).map_err(all)?;
        socket.set_read_timeout(Some(LOST)).map_err(all)?;
        Ok(Self { socket, address, reply: vec![0; largest + 1], _session: session })
    }

    /// Sends a datagram and waits for the reply. One that is lost is sent again; what comes late is read before the
    /// next one goes, so that it is not taken for its reply.
    pub(super) fn once(&mut self, datagram: &[u8]) -> Result<&[u8], ProbeError> {
        let all = |e| lost(self.address, &e);
        let mut again = 0;
        loop {
            self.socket.send(datagram).map_err(all)?;
            match self.socket.recv(&mut self.reply) {
                Ok(n) => {
                    if again > 0 {
                        let mut late = [0; 16];
                        while self.socket.recv(&mut late).is_ok() {}
                    }
                    return Ok(&self.reply[..n]);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && again < LOST_MAX => again += 1,
                Err(e) => return Err(all(e)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_nothing_else_is() {
        assert_eq!(parse(&head(Service::Rpc as u8, 77)), Some((VERSION, 3, 77)));
        assert_eq!(&head(1, 0x0102_0304), b"latlab\x01\x01\x01\x02\x03\x04");
        assert_eq!(parse(b"GET / HTTP/1"), None);
        for (i, service) in SERVICES.iter().enumerate() {
            assert_eq!(*service as usize, i);
        }
    }
}
