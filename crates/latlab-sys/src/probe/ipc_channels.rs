//! What can be handed from process to process through a descriptor: pipes,
//! FIFOs, local sockets, TCP, UDP, event counters, POSIX message queues.

use super::pair::Channel;
use super::syscall::{read, write};
use super::{Calling, ProbeError, Setting};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Messages of `message.len()` bytes over four ends: near out, far in, far out, near in.
/// For a socket both ends of a side are the same.
#[derive(Debug)]
pub struct Bytes {
    near_out: OwnedFd,
    near_in: OwnedFd,
    far_out: OwnedFd,
    far_in: OwnedFd,
    /// A loop to oneself, for the calls without a partner.
    self_out: OwnedFd,
    self_in: OwnedFd,
    message: Vec<u8>,
    /// Whether one read is one message (datagrams), so that short reads are not gone on with.
    whole: bool,
}

impl Bytes {
    fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8], whole: bool) -> Result<(), ProbeError> {
        if whole && buffer.is_empty() {
            // A read of no bytes takes no datagram, not even an empty one.
            return read(fd, &mut [0u8; 1]).calling("read").map(drop);
        }
        let mut got = 0;
        loop {
            let n = read(fd, &mut buffer[got..]).calling("read")?;
            got += n;
            if whole || got == buffer.len() {
                return Ok(());
            }
            if n == 0 {
                return Err(ProbeError::failed("probe.peer-ended"));
            }
        }
    }

    fn send(fd: BorrowedFd<'_>, mut message: &[u8]) -> Result<(), ProbeError> {
        loop {
            let n = write(fd, message).calling("write")?;
            if n >= message.len() {
                return Ok(());
            }
            message = &message[n..];
        }
    }
}

impl Channel for Bytes {
    fn ping(&mut self) -> Result<(), ProbeError> {
        Self::send(self.near_out.as_fd(), &self.message)?;
        Self::receive(self.near_in.as_fd(), &mut self.message, self.whole)
    }

    fn serve(&mut self) -> Result<(), ProbeError> {
        Self::receive(self.far_in.as_fd(), &mut self.message, self.whole)?;
        Self::send(self.far_out.as_fd(), &self.message)
    }

    fn alone(&mut self) -> Result<(), ProbeError> {
        for _ in 0..2 {
            Self::send(self.self_out.as_fd(), &self.message)?;
            Self::receive(self.self_in.as_fd(), &mut self.message, self.whole)?;
        }
        Ok(())
    }
}

fn from_pipes(message: usize) -> Result<Bytes, ProbeError> {
    let pipe = || rustix::pipe::pipe().calling("pipe");
    let ((far_in, near_out), (near_in, far_out), (self_in, self_out)) = (pipe()?, pipe()?, pipe()?);
    let message = vec![0; message];
    Ok(Bytes { near_out, near_in, far_out, far_in, self_out, self_in, message, whole: false })
}

/// A pair of pipes and one byte.
///
/// # Errors
/// When there are no descriptors left.
pub fn pipe(_: &Setting) -> Result<Bytes, ProbeError> {
    from_pipes(1)
}

/// Two FIFOs in the file system and one byte.
///
/// # Errors
/// When they cannot be made.
pub fn fifo(setting: &Setting) -> Result<Bytes, ProbeError> {
    let open = |name: &str| -> Result<(OwnedFd, OwnedFd), ProbeError> {
        use rustix::fs::{Mode, OFlags, open};
        let path = setting.file(name);
        crate::fifo::make(&path).calling("mkfifo")?;
        // A reader that does not wait for a writer, then the writer, then blocking again.
        let input = open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
        let input = input.calling("opening a FIFO")?;
        let output = open(&path, OFlags::WRONLY, Mode::empty()).calling("opening a FIFO")?;
        rustix::fs::fcntl_setfl(&input, OFlags::empty()).calling("fcntl")?;
        Ok((input, output))
    };
    let ((far_in, near_out), (near_in, far_out), (self_in, self_out)) =
        (open("there")?, open("back")?, open("self")?);
    let message = vec![0; 1];
    Ok(Bytes { near_out, near_in, far_out, far_in, self_out, self_in, message, whole: false })
}

fn from_sockets(
    near: OwnedFd,
    far: OwnedFd,
    loops: (OwnedFd, OwnedFd),
    message: usize,
    whole: bool,
) -> Result<Bytes, ProbeError> {
    let again = |fd: &OwnedFd| fd.try_clone().calling("dup");
    Ok(Bytes {
        near_in: again(&near)?,
        near_out: near,
        far_in: again(&far)?,
        far_out: far,
        self_out: loops.0,
        self_in: loops.1,
        message: vec![0; message],
        whole,
    })
}

fn local(setting: &Setting, kind: SocketType) -> Result<Bytes, ProbeError> {
    let size = setting.size("size")?;
    if size > 1 << 20 {
        return Err(setting.bad("size", "0 to 1M"));
    }
    if size == 0 && kind == SocketType::STREAM {
        return Err(setting.bad("size", "1 to 1M"));
    }
    let make = || socketpair(AddressFamily::UNIX, kind, SocketFlags::empty(), None);
    let (near, far) = make().calling("socketpair")?;
    for fd in [&near, &far] {
        // A datagram must fit in whole; a stream need not, but then it is not copied piecemeal either.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(fd, 2 * size + 65_536);
    }
    let loops = make().calling("socketpair")?;
    from_sockets(near, far, loops, size, kind == SocketType::DGRAM)
}

/// A local stream socket.
///
/// # Errors
/// When it cannot be made.
pub fn unix_stream(setting: &Setting) -> Result<Bytes, ProbeError> {
    local(setting, SocketType::STREAM)
}

/// A local datagram socket.
///
/// # Errors
/// When it cannot be made.
pub fn unix_dgram(setting: &Setting) -> Result<Bytes, ProbeError> {
    local(setting, SocketType::DGRAM)
}

/// TCP over 127.0.0.1, without Nagle's delay.
///
/// # Errors
/// When there is no loopback.
pub fn tcp(setting: &Setting) -> Result<Bytes, ProbeError> {
    let size = setting.size("size")?;
    if !(1..=1 << 20).contains(&size) {
        return Err(setting.bad("size", "1 to 1M"));
    }
    let (near, far) = super::wait_many::tcp_pair()?;
    from_sockets(near, far, super::wait_many::tcp_pair()?, size, false)
}

/// Bytes of a datagram.
///
/// # Errors
/// When UDP has none of that size.
pub(super) fn datagram_size(setting: &Setting) -> Result<usize, ProbeError> {
    match setting.size("size")? {
        size @ 0..=65_507 => Ok(size),
        _ => Err(setting.bad("size", "0 to 65507")),
    }
}

/// UDP over 127.0.0.1.
///
/// # Errors
/// When there is no loopback.
pub fn udp(setting: &Setting) -> Result<Bytes, ProbeError> {
    let size = datagram_size(setting)?;
    let couple = || -> Result<(OwnedFd, OwnedFd), ProbeError> {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).calling("binding to 127.0.0.1");
        let (a, b) = (bind()?, bind()?);
        a.connect(b.local_addr().calling("getsockname")?).calling("connecting to 127.0.0.1")?;
        b.connect(a.local_addr().calling("getsockname")?).calling("connecting to 127.0.0.1")?;
        Ok((a.into(), b.into()))
    };
    let (near, far) = couple()?;
    from_sockets(near, far, couple()?, size, true)
}

/// Event counters.
#[derive(Debug)]
pub struct Events {
    there: OwnedFd,
    back: OwnedFd,
}

/// Two event counters (eventfd).
///
/// # Errors
/// When the kernel has none.
pub fn eventfd(_: &Setting) -> Result<Events, ProbeError> {
    use rustix::event::{EventfdFlags, eventfd};
    let make = || eventfd(0, EventfdFlags::empty()).calling("eventfd");
    Ok(Events { there: make()?, back: make()? })
}

impl Events {
    fn add(fd: &OwnedFd) -> Result<(), ProbeError> {
        write(fd, &1u64.to_ne_bytes()).calling("write").map(drop)
    }
    fn take(fd: &OwnedFd) -> Result<(), ProbeError> {
        read(fd, &mut [0u8; 8]).calling("read").map(drop)
    }
}

impl Channel for Events {
    fn ping(&mut self) -> Result<(), ProbeError> {
        Self::add(&self.there)?;
        Self::take(&self.back)
    }
    fn serve(&mut self) -> Result<(), ProbeError> {
        Self::take(&self.there)?;
        Self::add(&self.back)
    }
    fn alone(&mut self) -> Result<(), ProbeError> {
        for _ in 0..2 {
            Self::add(&self.back)?;
            Self::take(&self.back)?;
        }
        Ok(())
    }
}

/// POSIX message queues. Unlinked as soon as they are open.
#[derive(Debug)]
pub struct Queues {
    there: OwnedFd,
    back: OwnedFd,
}

/// Two message queues of one byte each.
///
/// # Errors
/// When the kernel has none, or the limits are used up.
pub fn mqueue(_: &Setting) -> Result<Queues, ProbeError> {
    let open = |which| open_queue(which).calling("mq_open");
    Ok(Queues { there: open("there")?, back: open("back")? })
}

/// The system call itself: the C library's wrapper takes variadic arguments.
pub(crate) fn open_queue(which: &str) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let name = format!("latlab-{}-{which}\0", std::process::id());
    // struct mq_attr: flags, maxmsg, msgsize, curmsgs, four reserved, all long.
    let attributes: [libc::c_long; 8] = [0, 2, 1, 0, 0, 0, 0, 0];
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
    // SAFETY: the name ends in zero, the attributes are a whole mq_attr; both outlive the call.
    let fd = unsafe { libc::syscall(libc::SYS_mq_open, name.as_ptr(), flags, 0o600, &attributes) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_mq_unlink, name.as_ptr()) };
    // SAFETY: a descriptor that the kernel has just given to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

impl Queues {
    fn send(queue: &OwnedFd) -> Result<(), ProbeError> {
        // SAFETY: one byte of a static string; no timeout.
        let r = unsafe { libc::mq_send(queue.as_raw_fd(), c"x".as_ptr(), 1, 0) };
        super::syscall::check("mq_send", r.into()).map(drop)
    }
    fn receive(queue: &OwnedFd) -> Result<(), ProbeError> {
        let mut byte: libc::c_char = 0;
        // SAFETY: room for the queue's message size, which is one byte; the priority is not asked for.
        let r = unsafe { libc::mq_receive(queue.as_raw_fd(), &mut byte, 1, std::ptr::null_mut()) };
        super::syscall::check("mq_receive", r as libc::c_long).map(drop)
    }
}

impl Channel for Queues {
    fn ping(&mut self) -> Result<(), ProbeError> {
        Self::send(&self.there)?;
        Self::receive(&self.back)
    }
    fn serve(&mut self) -> Result<(), ProbeError> {
        Self::receive(&self.there)?;
        Self::send(&self.back)
    }
    fn alone(&mut self) -> Result<(), ProbeError> {
        for _ in 0..2 {
            Self::send(&self.back)?;
            Self::receive(&self.back)?;
        }
        Ok(())
    }
}
