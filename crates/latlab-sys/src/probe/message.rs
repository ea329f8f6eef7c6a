//! Messages from process to process and back: the whole round trip, nothing subtracted.

use super::operation::Operation;
use super::peer::{CLASS, PLACE, Placement};
use super::remote::{Datagrams, Echo, HOST, Service};
use super::{ParamSpec, Probe, ProbeError, Setting, Spec, ipc_channels, pair, sync_channels};

const SIZE: ParamSpec = ParamSpec {
    name: "size",
    what: "bytes in each direction",
    default: &["1", "4K"],
    full: &["1", "64", "512", "4K", "16K", "64K"],
};
const DATAGRAM: ParamSpec =
    ParamSpec { full: &["0", "1", "64", "512", "4K", "16K", "60000"], ..SIZE };

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("ipc.pipe", "a byte through a pipe and back", "lat_pipe", |s| {
        pair::round_trip(s, ipc_channels::pipe)
    })
    .with(&[PLACE, CLASS]),
    Spec::new("ipc.fifo", "a byte through a FIFO and back", "lat_fifo", |s| {
        pair::round_trip(s, ipc_channels::fifo)
    })
    .with(&[PLACE, CLASS]),
    Spec::new(
        "ipc.unix-stream",
        "a message over a local stream socket and back",
        "lat_unix",
        |s| pair::round_trip(s, ipc_channels::unix_stream),
    )
    .with(&[SIZE, PLACE, CLASS]),
    Spec::new("ipc.unix-dgram", "a message over a local datagram socket and back", "", |s| {
        pair::round_trip(s, ipc_channels::unix_dgram)
    })
    .with(&[DATAGRAM, PLACE, CLASS]),
    Spec::new("ipc.tcp", "a message over TCP and back, on loopback or from a host", "lat_tcp", tcp)
        .with(&[SIZE, HOST, PLACE, CLASS]),
    Spec::new("ipc.udp", "a message over UDP and back, on loopback or from a host", "lat_udp", udp)
        .with(&[DATAGRAM, HOST, PLACE, CLASS]),
    Spec::new("ipc.sem-sysv", "round trip over System V semaphores", "lat_sem", |s| {
        pair::round_trip(s, sync_channels::sysv_semaphores)
    })
    .with(&[PLACE, CLASS]),
    Spec::new("ipc.sem-posix", "round trip over POSIX semaphores", "", |s| {
        pair::round_trip(s, sync_channels::posix_semaphores)
    })
    .with(&[PLACE, CLASS]),
    Spec::new("ipc.mqueue", "a byte through POSIX message queues and back", "", |s| {
        pair::round_trip(s, ipc_channels::mqueue)
    })
    .with(&[PLACE, CLASS]),
    Spec::new("ipc.shm-futex", "round trip over a word in shared memory and a futex", "", |s| {
        pair::round_trip(s, sync_channels::futexes)
    })
    .with(&[PLACE, CLASS]),
];

fn tcp(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let Some(address) = setting.peer else { return pair::round_trip(setting, ipc_channels::tcp) };
    let placement = Placement::take(setting)?;
    let mut echo = Echo::open(setting, address)?;
    Ok(Operation::new(move || echo.once(), placement).boxed())
}

fn udp(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let Some(address) = setting.peer else { return pair::round_trip(setting, ipc_channels::udp) };
    let placement = Placement::take(setting)?;
    let datagram = vec![0; ipc_channels::datagram_size(setting)?];
    let mut far = Datagrams::open(address, Service::Datagrams, datagram.len())?;
    Ok(Operation::new(move || far.once(&datagram).map(drop), placement).boxed())
}
