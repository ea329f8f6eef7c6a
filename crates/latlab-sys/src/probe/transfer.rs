//! Bandwidth between two processes: a pipe, a local socket, TCP over loopback or from a server
//! on another machine.

use super::peer::{CLASS, PLACE, Peer, Placement};
use super::remote::{self, HOST, Service};
use super::syscall::{read, write};
use super::{Calling, Probe, ProbeError, Setting, Spec};
use latlab_model::finding::Note;
use latlab_model::record::Unit;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Bytes of a write: what lmbench's users know.
const BLOCK: usize = 64 << 10;

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("bw.pipe", "64 KiB blocks through a pipe", "bw_pipe", |s| {
        transfer(s, || rustix::pipe::pipe().calling("pipe"))
    })
    .with(&[PLACE, CLASS])
    .unit(Unit::BytesPerSecond),
    Spec::new("bw.unix", "64 KiB blocks over a local stream socket", "bw_unix", |s| {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        transfer(s, || socketpair(family, kind, SocketFlags::empty(), None).calling("socketpair"))
    })
    .with(&[PLACE, CLASS])
    .unit(Unit::BytesPerSecond),
    Spec::new(
        "bw.tcp",
        "64 KiB blocks over TCP, on loopback or from a host",
        "bw_tcp",
        |s| match s.peer {
            Some(address) => receive(s, address),
            None => transfer(s, super::wait_many::tcp_pair),
        },
    )
    .with(&[HOST, PLACE, CLASS])
    .unit(Unit::BytesPerSecond),
];

struct Transfer {
    input: OwnedFd,
    buffer: Vec<u8>,
    _peer: Option<Peer>,
    /// The server that sends, where it is no peer.
    server: Option<SocketAddr>,
    placement: Placement,
}

impl Probe for Transfer {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        let mut left = n as usize * BLOCK;
        while left > 0 {
            let want = left.min(BLOCK);
            match (read(&self.input, &mut self.buffer[..want]), self.server) {
                (Ok(0), None) => return Err(ProbeError::failed("probe.peer-ended")),
                (Ok(0), Some(server)) => {
                    return Err(remote::lost(server, &io::ErrorKind::UnexpectedEof.into()));
                }
                (Ok(got), _) => left -= got,
                (Err(e), None) => return Err(e).calling("read"),
                (Err(e), Some(server)) => return Err(remote::lost(server, &e)),
            }
        }
        Ok(())
    }
    fn value(&self, ns: f64) -> f64 {
        BLOCK as f64 * 1e9 / ns
    }
    fn notes(&self) -> Vec<Note> {
        self.placement.note().into_iter().collect()
    }
}

fn transfer(
    setting: &Setting,
    ends: impl FnOnce() -> Result<(OwnedFd, OwnedFd), ProbeError>,
) -> Result<Box<dyn Probe>, ProbeError> {
    let placement = Placement::take(setting)?;
    let (input, out) = ends()?;
    let buffer = vec![1u8; BLOCK];
    let peer = Peer::fork(&placement, || while write(&out, &buffer).is_ok() {})?;
    Ok(Box::new(Transfer { input, buffer, _peer: Some(peer), server: None, placement }))
}

/// From a server on another machine.
fn receive(setting: &Setting, address: SocketAddr) -> Result<Box<dyn Probe>, ProbeError> {
    let placement = Placement::take(setting)?;
    let (stream, _) = remote::session(address, Service::Blocks, 0)?;
    let (input, buffer) = (stream.into(), vec![1u8; BLOCK]);
    Ok(Box::new(Transfer { input, buffer, _peer: None, server: Some(address), placement }))
}
