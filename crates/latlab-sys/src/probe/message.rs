//! Messages from process to process and back: the whole round trip, nothing subtracted.

use super::peer::{CLASS, PLACE};
use super::{ParamSpec, Spec, ipc_channels, pair, sync_channels};

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
    Spec::new("ipc.tcp", "a message over TCP on loopback and back", "lat_tcp", |s| {
        pair::round_trip(s, ipc_channels::tcp)
    })
    .with(&[SIZE, PLACE, CLASS]),
    Spec::new("ipc.udp", "a message over UDP on loopback and back", "lat_udp", |s| {
        pair::round_trip(s, ipc_channels::udp)
    })
    .with(&[DATAGRAM, PLACE, CLASS]),
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
