//! Connecting: a new TCP or local connection, accepted by another process, and closed.

use super::operation::{Operation, PORTS};
use super::peer::{CLASS, PLACE, Peer, Placement};
use super::remote::{self, HOST};

use super::{Calling, Probe, ProbeError, Setting, Spec};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new(
        "ipc.tcp-connect",
        "connect over TCP, on loopback or to a host, and close",
        "lat_connect",
        tcp,
    )
    .with(&[HOST, PLACE, CLASS]),
    Spec::new("ipc.unix-connect", "connect to a local socket, and close", "lat_unix_connect", unix)
        .with(&[PLACE, CLASS]),
];

fn tcp(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let placement = Placement::take(setting)?;
    if let Some(address) = setting.peer {
        remote::check(address)?;
        let connect =
            move || TcpStream::connect(address).map(drop).map_err(|e| remote::lost(address, &e));
        return Ok(Operation::new(connect, placement).at_most(PORTS).boxed());
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).calling("binding to 127.0.0.1")?;
    let address: SocketAddr = listener.local_addr().calling("getsockname")?;
    let peer = Peer::fork(&placement, || {
        while let Ok((mut stream, _)) = listener.accept() {
            // Until the other side closes: it is then the one that keeps the port.
            let _ = stream.read(&mut [0u8; 1]);
        }
    })?;
    let connect = move || TcpStream::connect(address).calling("connecting to 127.0.0.1").map(drop);
    Ok(Operation::new(connect, placement).with(peer).at_most(PORTS).boxed())
}

fn unix(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let placement = Placement::take(setting)?;
    let path: PathBuf = setting.file("socket");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).calling("binding a local socket")?;
    let peer = Peer::fork(&placement, || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0u8; 1]);
        }
    })?;
    let connect = move || UnixStream::connect(&path).calling("connect").map(drop);
    Ok(Operation::new(connect, placement).with(peer).at_most(PORTS).boxed())
}
