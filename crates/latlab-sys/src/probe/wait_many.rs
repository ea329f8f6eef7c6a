//! Waiting for one of many descriptors: select, poll and epoll with `fds` of them, none ready but the last.

use super::{Calling, ParamSpec, Probe, ProbeError, Setting, Spec, repeat};
use latlab_model::finding::{Note, Quantity};
use rustix::event::{Timespec, epoll};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

const FDS: ParamSpec = ParamSpec {
    name: "fds",
    what: "number of descriptors",
    default: &["100"],
    full: &["10", "100", "250", "500"],
};
const KIND: ParamSpec = ParamSpec {
    name: "kind",
    what: "file (pipes) or tcp (a connected pair)",
    default: &["file", "tcp"],
    full: &[],
};

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("syscall.select", "select() on n descriptors", "lat_select", select)
        .with(&[FDS, KIND]),
    Spec::new("syscall.poll", "poll() on n descriptors", "", poll).with(&[FDS, KIND]),
    Spec::new("syscall.epoll", "epoll_wait() on n descriptors", "", epoll_wait).with(&[FDS, KIND]),
];

/// `n` descriptors of which the last one is always readable, and what has to stay open beside them.
struct Descriptors {
    watched: Vec<OwnedFd>,
    _others: Vec<OwnedFd>,
}

fn descriptors(setting: &Setting) -> Result<Descriptors, ProbeError> {
    let n = setting.size("fds")?;
    if !(1..=100_000).contains(&n) {
        return Err(setting.bad("fds", "1 to 100000"));
    }
    let (first, other) = match setting.text("kind") {
        "file" => rustix::pipe::pipe().calling("pipe")?,
        "tcp" => tcp_pair()?,
        _ => return Err(setting.bad("kind", "file or tcp")),
    };
    // Something to read that nobody reads: it is ready for ever.
    rustix::io::write(&other, b"x").calling("write")?;
    let (quiet, quiet_other) = match setting.text("kind") {
        "file" => rustix::pipe::pipe().calling("pipe")?,
        _ => tcp_pair()?,
    };
    let mut watched = Vec::with_capacity(n);
    for _ in 1..n {
        watched.push(quiet.try_clone().calling("dup")?);
    }
    watched.push(first);
    Ok(Descriptors { watched, _others: vec![other, quiet, quiet_other] })
}

/// Two ends of a TCP connection over loopback.
pub(crate) fn tcp_pair() -> Result<(OwnedFd, OwnedFd), ProbeError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).calling("binding to 127.0.0.1")?;
    let near = TcpStream::connect(listener.local_addr().calling("getsockname")?)
        .calling("connecting to 127.0.0.1")?;
    let (far, _) = listener.accept().calling("accept")?;
    near.set_nodelay(true).calling("TCP_NODELAY")?;
    far.set_nodelay(true).calling("TCP_NODELAY")?;
    Ok((near.into(), far.into()))
}

fn select(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let d = descriptors(setting)?;
    let highest = d.watched.iter().map(AsRawFd::as_raw_fd).max().unwrap_or(0);
    if highest as usize >= libc::FD_SETSIZE {
        let last = Quantity::Count(libc::FD_SETSIZE as u64 - 1);
        return Err(ProbeError::Unavailable(Note::new("probe.select-range").value("last", last)));
    }
    // SAFETY: an all-zero fd_set is the empty set.
    let mut all: libc::fd_set = unsafe { std::mem::zeroed() };
    for fd in &d.watched {
        // SAFETY: the number is below FD_SETSIZE.
        unsafe { libc::FD_SET(fd.as_raw_fd(), &mut all) };
    }
    repeat(move || {
        let _open = &d;
        let mut set = all;
        let mut zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let none = std::ptr::null_mut();
        // SAFETY: `set` and `zero` outlive the call; the other sets are not given.
        let r = unsafe { libc::select(highest + 1, &mut set, none, none, &mut zero) };
        super::syscall::check("select", r.into()).map(drop)
    })
}

fn poll(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let d = descriptors(setting)?;
    // One list for all calls: poll only writes to `revents`.
    let mut list: Vec<libc::pollfd> = (d.watched.iter())
        .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    repeat(move || {
        let _open = &d;
        // SAFETY: `list` is an array of `list.len()` pollfds that outlives the call.
        let r = unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, 0) };
        super::syscall::check("poll", r.into()).map(drop)
    })
}

fn epoll_wait(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let d = descriptors(setting)?;
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).calling("epoll_create1")?;
    for (i, fd) in d.watched.iter().enumerate() {
        let data = epoll::EventData::new_u64(i as u64);
        epoll::add(&set, fd, data, epoll::EventFlags::IN).calling("epoll_ctl")?;
    }
    let mut events =
        [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    repeat(move || {
        let _open = &d;
        epoll::wait(&set, &mut events[..], Some(&zero)).calling("epoll_wait").map(drop)
    })
}
