//! Requests to a server on loopback: a remote procedure call and a page of HTTP, as lmbench's `lat_rpc` and `lat_http` have
//! them.
//!
//! The call is ONC RPC (RFC 5531): version 2, no authentication, a procedure that takes an XDR character and returns it;
//! over TCP with a record mark. The page is fetched by HTTP/1.0 (RFC 1945): connect, request, reply until the end.

use super::peer::{CLASS, PLACE, Peer, Placement};
use super::{Calling, ParamSpec, Probe, ProbeError, Setting, Spec};
use latlab_model::finding::Note;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
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
        "a remote procedure call (ONC RPC) over UDP on loopback",
        "lat_rpc",
        rpc_udp,
    )
    .with(&[PLACE, CLASS])
    .full(),
    Spec::new(
        "ipc.rpc-tcp",
        "a remote procedure call (ONC RPC) over TCP on loopback",
        "lat_rpc",
        rpc_tcp,
    )
    .with(&[PLACE, CLASS])
    .full(),
    Spec::new(
        "ipc.http",
        "a page by HTTP/1.0 from loopback: connect, request, reply",
        "lat_http",
        http,
    )
    .with(&[SIZE, PLACE, CLASS])
    .full(),
];

/// A reply that is this late is lost.
const LATE: Duration = Duration::from_secs(5);
/// Program number, version and procedure of the call: those of lmbench.
const PROGRAM: [u32; 3] = [3_956_456, 1, 1];
/// Bytes of a call: ten words and the argument.
const CALL: usize = 44;
/// Bytes of a reply: six words and the result.
const REPLY: usize = 28;

struct Service<F> {
    once: F,
    most: Option<u64>,
    _peer: Peer,
    placement: Placement,
}

impl<F: FnMut() -> Result<(), ProbeError>> Probe for Service<F> {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            (self.once)()?;
        }
        Ok(())
    }

    fn batch_max(&self) -> Option<u64> {
        self.most
    }

    fn notes(&self) -> Vec<Note> {
        self.placement.note().into_iter().collect()
    }
}

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
fn reply(call: &[u8]) -> Option<[u8; REPLY]> {
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
    let mut xid = 0u32;
    let once = move || {
        xid = xid.wrapping_add(1);
        client.send(&call(xid)).calling("send")?;
        let mut buffer = [0; 256];
        let n = client.recv(&mut buffer).calling("recv")?;
        if answers(xid, &buffer[..n]) { Ok(()) } else { Err(wrong()) }
    };
    Ok(Box::new(Service { once, most: None, _peer: peer, placement }))
}

/// Sends a record of one fragment.
fn send_record(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    let mut out = [0; 4 + CALL];
    let mark = 0x8000_0000 | body.len() as u32;
    out[..4].copy_from_slice(&mark.to_be_bytes());
    out[4..4 + body.len()].copy_from_slice(body);
    stream.write_all(&out[..4 + body.len()])
}

/// Receives a record of one fragment with exactly the bytes of `body`.
fn receive_record(stream: &mut TcpStream, body: &mut [u8]) -> io::Result<()> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    if u32::from_be_bytes(mark) != 0x8000_0000 | body.len() as u32 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a record of another length"));
    }
    stream.read_exact(body)
}

fn rpc_tcp(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let placement = Placement::take(setting)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).calling("binding to 127.0.0.1")?;
    let address = listener.local_addr().calling("getsockname")?;
    let peer = Peer::fork(&placement, || {
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
    let mut stream = TcpStream::connect(address).calling("connecting to 127.0.0.1")?;
    stream.set_nodelay(true).calling("setsockopt")?;
    stream.set_read_timeout(Some(LATE)).calling("setsockopt")?;
    let mut xid = 0u32;
    let once = move || {
        xid = xid.wrapping_add(1);
        send_record(&mut stream, &call(xid)).calling("send")?;
        let mut buffer = [0; REPLY];
        receive_record(&mut stream, &mut buffer).calling("recv")?;
        if answers(xid, &buffer) { Ok(()) } else { Err(wrong()) }
    };
    Ok(Box::new(Service { once, most: None, _peer: peer, placement }))
}

fn http(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let size = setting.size("size")?;
    super::fits_memory(&[size, 2])?;
    let placement = Placement::take(setting)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).calling("binding to 127.0.0.1")?;
    let address = listener.local_addr().calling("getsockname")?;
    let mut page =
        format!("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n\r\n")
            .into_bytes();
    let head = page.len();
    page.resize(head + size, b'x');
    let peer = Peer::fork(&placement, || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = serve(&mut stream, &page);
        }
    })?;
    let mut buffer = vec![0; 64 << 10];
    let once = move || {
        let mut stream = TcpStream::connect(address).calling("connecting to 127.0.0.1")?;
        stream.write_all(b"GET /page HTTP/1.0\r\n\r\n").calling("send")?;
        let mut all = 0;
        loop {
            match stream.read(&mut buffer).calling("recv")? {
                0 => break,
                n => all += n,
            }
        }
        let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "a page of another length");
        if all == head + size { Ok(()) } else { Err(short()).calling("GET") }
    };
    // As for connections: a closed one keeps its port for a minute.
    Ok(Box::new(Service { once, most: Some(50), _peer: peer, placement }))
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
