//! Requests to a server on loopback or on another machine: a remote procedure call and a page of HTTP, as lmbench's
//! `lat_rpc` and `lat_http` have them.
//!
//! The call is ONC RPC (RFC 5531): version 2, no authentication, a procedure that takes an XDR character and returns it;
//! over TCP with a record mark. The page is fetched by HTTP/1.0 (RFC 1945): connect, request, reply until the end.

use super::operation::{Operation, PORTS};
use super::peer::{CLASS, PLACE, Peer, Placement};
use super::remote::{self, Datagrams, HOST, Service};
use super::{Calling, ParamSpec, Probe, ProbeError, Setting, Spec};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

const SIZE: ParamSpec = ParamSpec {
    name: "size",
    what: "bytes of the page",
    default: &["1K"],
    full: &["1K", "10K", "100K"],
};

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new(
        "ipc.rpc-udp",
        "a remote procedure call (ONC RPC) over UDP, on loopback or to a host",
        "lat_rpc",
        rpc_udp,
    )
    .with(&[HOST, PLACE, CLASS])
    .full(),
    Spec::new(
        "ipc.rpc-tcp",
        "a remote procedure call (ONC RPC) over TCP, on loopback or to a host",
        "lat_rpc",
        rpc_tcp,
    )
    .with(&[HOST, PLACE, CLASS])
    .full(),
    Spec::new(
        "ipc.http",
        "a page by HTTP/1.0, from loopback or a host: connect, request, reply",
        "lat_http",
        http,
    )
    .with(&[SIZE, HOST, PLACE, CLASS])
    .full(),
];

/// A reply that is this late is lost.
const LATE: Duration = Duration::from_secs(5);
/// Program number, version and procedure of the call: those of lmbench.
const PROGRAM: [u32; 3] = [3_956_456, 1, 1];
/// Bytes of a call: ten words and the argument.
pub(super) const CALL: usize = 44;
/// Bytes of a reply: six words and the result.
const REPLY: usize = 28;

/// A call with its transaction id: CALL, RPC version 2, program, version, procedure, no credential, no verifier, one
/// character.
fn call(xid: u32) -> [u8; CALL] {
    let words = [xid, 0, 2, PROGRAM[0], PROGRAM[1], PROGRAM[2], 0, 0, 0, 0, u32::from(b'1')];
    let mut out = [0; CALL];
    out.chunks_mut(4)
        .zip(words)
        .for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_be_bytes()));
    out
}

fn word(bytes: &[u8], i: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(i * 4..i * 4 + 4)?.try_into().ok()?))
}

/// The reply to a call: REPLY, accepted, no verifier, success, the character; `None` for what is no call of ours.
pub(super) fn reply(call: &[u8]) -> Option<[u8; REPLY]> {
    let expected = [0, 2, PROGRAM[0], PROGRAM[1], PROGRAM[2]];
    if call.len() != CALL || (0..5).any(|i| word(call, i + 1) != Some(expected[i])) {
        return None;
    }
    let words = [word(call, 0)?, 1, 0, 0, 0, 0, word(call, 10)?];
    let mut out = [0; REPLY];
    out.chunks_mut(4)
        .zip(words)
        .for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_be_bytes()));
    Some(out)
}

/// Whether it is the successful reply to the call with this id.
fn answers(xid: u32, reply: &[u8]) -> bool {
    reply.len() == REPLY
        && [xid, 1, 0, 0, 0, 0].into_iter().enumerate().all(|(i, w)| word(reply, i) == Some(w))
}

fn wrong() -> ProbeError {
    let source = io::Error::new(io::ErrorKind::InvalidData, "another reply than that to the call");
    ProbeError::Call { call: "a remote procedure call".into(), source }
}

fn rpc_udp(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let placement = Placement::take(setting)?;
    let mut xid = 0u32;
    if let Some(address) = setting.peer {
        let mut far = Datagrams::open(address, Service::RpcDatagrams, REPLY)?;
        let once = move || {
            xid = xid.wrapping_add(1);
            let reply = far.once(&call(xid))?;
            if answers(xid, reply) { Ok(()) } else { Err(wrong()) }
        };
        return Ok(Operation::new(once, placement).boxed());
    }
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).calling("binding to 127.0.0.1")?;
    let address = server.local_addr().calling("getsockname")?;
    let peer = Peer::fork(&placement, || {
        let mut buffer = [0; 256];
        while let Ok((n, from)) = server.recv_from(&mut buffer) {
            if let Some(reply) = reply(&buffer[..n]) {
                let _ = server.send_to(&reply, from);
            }
        }
    })?;
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).calling("binding to 127.0.0.1")?;
    client.connect(address).calling("connect")?;
    client.set_read_timeout(Some(LATE)).calling("setsockopt")?;
    let once = move || {
        xid = xid.wrapping_add(1);
        client.send(&call(xid)).calling("send")?;
        let mut buffer = [0; 256];
        let n = client.recv(&mut buffer).calling("recv")?;
        if answers(xid, &buffer[..n]) { Ok(()) } else { Err(wrong()) }
    };
    Ok(Operation::new(once, placement).with(peer).boxed())
}

/// Sends a record of one fragment.
pub(super) fn send_record(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    let mut out = [0; 4 + CALL];
    let mark = 0x8000_0000 | body.len() as u32;
    out[..4].copy_from_slice(&mark.to_be_bytes());
    out[4..4 + body.len()].copy_from_slice(body);
    stream.write_all(&out[..4 + body.len()])
}

/// Receives a record of one fragment with exactly the bytes of `body`.
pub(super) fn receive_record(stream: &mut TcpStream, body: &mut [u8]) -> io::Result<()> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    if u32::from_be_bytes(mark) != 0x8000_0000 | body.len() as u32 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a record of another length"));
    }
    stream.read_exact(body)
}

fn rpc_tcp(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let placement = Placement::take(setting)?;
    let (mut stream, peer) = match setting.peer {
        Some(address) => (remote::session(address, Service::Rpc, 0)?.0, None),
        None => {
            let (stream, peer) = rpc_peer(&placement)?;
            (stream, Some(peer))
        }
    };
    let (mut xid, server) = (0u32, setting.peer);
    let once = move || {
        xid = xid.wrapping_add(1);
        let mut buffer = [0; REPLY];
        let sent = send_record(&mut stream, &call(xid));
        let done = sent.and_then(|()| receive_record(&mut stream, &mut buffer));
        failed(server, done, "a remote procedure call")?;
        if answers(xid, &buffer) { Ok(()) } else { Err(wrong()) }
    };
    Ok(Operation::new(once, placement).with(peer).boxed())
}

/// A connection to a process that answers calls.
fn rpc_peer(placement: &Placement) -> Result<(TcpStream, Peer), ProbeError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).calling("binding to 127.0.0.1")?;
    let address = listener.local_addr().calling("getsockname")?;
    let peer = Peer::fork(placement, || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let _ = stream.set_nodelay(true);
        let mut buffer = [0; CALL];
        while receive_record(&mut stream, &mut buffer).is_ok() {
            let Some(reply) = reply(&buffer) else { return };
            if send_record(&mut stream, &reply).is_err() {
                return;
            }
        }
    })?;
    let stream = TcpStream::connect(address).calling("connecting to 127.0.0.1")?;
    stream.set_nodelay(true).calling("setsockopt")?;
    stream.set_read_timeout(Some(LATE)).calling("setsockopt")?;
    Ok((stream, peer))
}

/// What a failure means: of a server on another machine that it was lost.
fn failed<T>(server: Option<SocketAddr>, done: io::Result<T>, call: &str) -> Result<T, ProbeError> {
    match server {
        Some(address) => done.map_err(|e| remote::lost(address, &e)),
        None => done.calling(call),
    }
}

/// The head of a page of `size` bytes.
pub(super) fn page_head(size: usize) -> String {
    format!("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n\r\n")
}

fn http(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let size = setting.size("size")?;
    let placement = Placement::take(setting)?;
    let (address, peer) = match setting.peer {
        Some(_) if size > remote::PAGE_MAX as usize => {
            return Err(setting.bad("size", "0 to 16M from another machine"));
        }
        Some(address) => {
            remote::check(address)?;
            (address, None)
        }
        None => {
            let (address, peer) = http_peer(size, &placement)?;
            (address, Some(peer))
        }
    };
    let server = setting.peer;
    let request = format!("GET /{size} HTTP/1.0\r\n\r\n");
    let whole = page_head(size).len() + size;
    let mut buffer = vec![0; 64 << 10];
    let mut get = move || {
        let mut stream = TcpStream::connect(address)?;
        if server.is_some() {
            stream.set_read_timeout(Some(LATE))?;
        }
        stream.write_all(request.as_bytes())?;
        let mut all = 0;
        loop {
            match stream.read(&mut buffer)? {
                0 if all == whole => return Ok(()),
                0 => return Err(io::Error::other("a page of another length")),
                n => all += n,
            }
        }
    };
    let once = move || failed(server, get(), "GET");
    Ok(Operation::new(once, placement).with(peer).at_most(PORTS).boxed())
}

/// A process that sends a page, and where.
fn http_peer(size: usize, placement: &Placement) -> Result<(SocketAddr, Peer), ProbeError> {
    super::fits_memory(&[size, 2])?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).calling("binding to 127.0.0.1")?;
    let address = listener.local_addr().calling("getsockname")?;
    let mut page = page_head(size).into_bytes();
    page.resize(page.len() + size, b'x');
    let peer = Peer::fork(placement, || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = serve(&mut stream, &page);
        }
    })?;
    Ok((address, peer))
}

/// Reads one request up to its empty line, and sends the page.
fn serve(stream: &mut TcpStream, page: &[u8]) -> io::Result<()> {
    let mut request = [0; 1024];
    let mut had = 0;
    while !request[..had].windows(4).any(|w| w == b"\r\n\r\n") {
        match stream.read(&mut request[had..])? {
            0 => return Ok(()),
            n => had += n,
        }
    }
    stream.write_all(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_by_its_reply_only() {
        let good = reply(&call(7)).unwrap();
        assert!(answers(7, &good) && !answers(8, &good) && !answers(7, &good[..24]));
        // RFC 5531, 9: the words of a call and of a reply.
        assert_eq!(call(7)[..12], [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(good[..8], [0, 0, 0, 7, 0, 0, 0, 1]);
        assert_eq!(good[24..], [0, 0, 0, b'1'], "the character comes back");
        let mut other = call(7);
        other[15] ^= 1;
        assert!(reply(&other).is_none() && reply(&call(7)[..40]).is_none(), "another program");
    }
}
