//! Wake-ups by the reply of a UDP echo on another machine.
//!
//! A datagram has the number and the time of the call, both of which come back: a reply that is late or was sent twice
//! is told from the one that is waited for. The kernel stamps the receipt (`SO_TIMESTAMPNS`, socket(7)).

use super::brought::Brought;
use crate::probe::remote::{LOST, Service, parse_address, session};
use crate::wakeup::os;
use latlab_model::wakeup::mechanism::EchoHost;
use rustix::time::ClockId;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number and time of a call.
const LENGTH: usize = 16;
/// The same option on all architectures of the lab (include/uapi/asm-generic/socket.h), with 64-bit seconds.
const SO_TIMESTAMPNS_NEW: libc::c_int = 64;
/// A session that is older begins anew before the next block: the server ends those that last or are silent.
const SESSION: Duration = Duration::from_secs(5);
/// A call whose reply has not come for so long is lost, ns.
const LOST_NS: u64 = LOST.as_nanos() as u64;
/// Calls that are lost one after the other until the machine counts as gone.
const LOST_MAX: u32 = 12;
/// Datagrams that find out whether there is an echo.
const ATTEMPTS: u64 = 4;

/// A socket that is connected to an echo.
pub struct Echo {
    socket: UdpSocket,
    address: SocketAddr,
    /// That of a server of latlab, and when it began.
    session: Option<Mutex<(TcpStream, Instant)>>,
    /// Calls without a reply, and those of them that came one after the other.
    lost: AtomicU64,
    in_a_row: AtomicU32,
}

impl Echo {
    /// Connects, and sees that a reply comes.
    ///
    /// # Errors
    /// When there is no server or no reply.
    pub fn open(host: &EchoHost) -> io::Result<Self> {
        let address = parse_address(&host.address).ok_or(io::ErrorKind::InvalidInput)?;
        let any = match address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any)?;
        stamp(&socket);
        let mut echo = Self {
            socket,
            address,
            session: None,
            lost: AtomicU64::new(0),
            in_a_row: AtomicU32::new(0),
        };
        if host.is_latlab {
            echo.session = Some(Mutex::new((echo.begin_session()?, Instant::now())));
        } else {
            echo.socket.connect(address)?;
        }
        echo.try_it(&host.name)?;
        Ok(echo)
    }

    /// Another port of the server, for which it has a session.
    fn begin_session(&self) -> io::Result<TcpStream> {
        let own = self.socket.local_addr()?.port();
        let begun = session(self.address, Service::Datagrams, own.into());
        let (stream, port) = begun.map_err(|_| {
            io::Error::other(
                "its server does not answer; on that machine: latlab bench --serve ADDRESS",
            )
        })?;
        let mut far = self.address;
        far.set_port(port as u16);
        self.socket.connect(far)?;
        Ok(stream)
    }

    fn try_it(&self, name: &str) -> io::Result<()> {
        self.socket.set_read_timeout(Some(LOST))?;
        // Numbers of calls begin with 1, and these are larger than any.
        for number in u64::MAX - ATTEMPTS..u64::MAX {
            let sent = self.send(number, os::now_ns());
            if sent.and_then(|()| self.receive()).is_ok_and(|b| b.number == number) {
                self.socket.set_read_timeout(None)?;
                return Ok(());
            }
        }
        let ms = u64::from(LOST.subsec_millis()) * ATTEMPTS;
        Err(io::Error::other(format!(
            "no reply from {name} within {ms} ms; on that machine: latlab bench --serve ADDRESS, or a UDP echo server on the port that is named"
        )))
    }

    /// Sends the call of this number.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn send(&self, number: u64, at_ns: u64) -> io::Result<()> {
        let mut datagram = [0; LENGTH];
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        datagram[8..].copy_from_slice(&at_ns.to_be_bytes());
        match self.socket.send(&datagram) {
            // What an earlier datagram came to: the port is closed at the moment, or the queue is full.
            Err(e) if is_loss(&e) => Ok(()),
            sent => sent.map(drop),
        }
    }

    /// Waits for a reply.
    ///
    /// # Errors
    /// The kernel's; `Interrupted` also where an error of the network came in its place.
    #[inline]
    pub fn receive(&self) -> io::Result<Brought> {
        match receive_stamped(&self.socket) {
            Ok((Some(datagram), stamp_ns)) => {
                let word = |at: usize| {
                    u64::from_be_bytes(datagram[at..at + 8].try_into().unwrap_or_default())
                };
                Ok(Brought { number: word(0), sent_ns: word(8), stamp_ns })
            }
            // Not one of ours.
            Ok((None, _)) => Err(io::ErrorKind::Interrupted.into()),
            Err(e) if is_loss(&e) => Err(io::ErrorKind::Interrupted.into()),
            Err(e) => Err(e),
        }
    }

    /// Before a block: the server's session is a new one from time to time.
    pub fn begin(&self) {
        let Some(session) = &self.session else { return };
        let Ok(mut session) = session.lock() else { return };
        if session.1.elapsed() > SESSION
            && let Ok(stream) = self.begin_session()
        {
            *session = (stream, Instant::now());
        }
    }

    /// Whether a call that is so many ns old is lost; it is counted then.
    pub fn is_lost(&self, age_ns: u64) -> bool {
        let lost = age_ns > LOST_NS;
        if lost {
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.in_a_row.fetch_add(1, Ordering::Relaxed);
        }
        lost
    }

    /// A reply came in time.
    pub fn heard(&self) {
        self.in_a_row.store(0, Ordering::Relaxed);
    }

    /// Whether so many calls are lost one after the other that the other machine is gone.
    pub fn is_gone(&self) -> bool {
        self.in_a_row.load(Ordering::Relaxed) >= LOST_MAX
    }

    /// Calls without a reply.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Errors that a socket has from the network: the datagram is lost.
fn is_loss(error: &io::Error) -> bool {
    let lost =
        [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::ENOBUFS, libc::EHOSTDOWN];
    error.raw_os_error().is_some_and(|e| lost.contains(&e))
}

/// Asks for the time of receipt; a kernel before 5.1 does not have it in this form, and gives none.
fn stamp(socket: &UdpSocket) {
    let (on, length) = (1 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    let option = &raw const on;
    // SAFETY: the option's value is a live int of the length that is given.
    let rc = unsafe {
        let fd = socket.as_raw_fd();
        libc::setsockopt(fd, libc::SOL_SOCKET, SO_TIMESTAMPNS_NEW, option.cast(), length)
    };
    if rc != 0 {
        log::debug!("no time stamps of receipt: {}", io::Error::last_os_error());
    }
}

/// A datagram if it is as long as ours are, and when it was received, ns of CLOCK_MONOTONIC; 0: not known.
#[inline]
fn receive_stamped(socket: &UdpSocket) -> io::Result<(Option<[u8; LENGTH]>, u64)> {
    let mut datagram = [0u8; LENGTH + 1];
    // As aligned as a cmsghdr, and larger than one with a timespec of 64 bits.
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: datagram.as_mut_ptr().cast(), iov_len: datagram.len() };
    // SAFETY: a msghdr is integers and pointers, for which zero is a value.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    (head.msg_iov, head.msg_iovlen) = (&raw mut part, 1);
    head.msg_control = control.as_mut_ptr().cast();
    head.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header names live buffers with their lengths.
    let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut head, 0) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    let stamp_ns = stamp_of(&control, head.msg_controllen as usize);
    let ours = (n as usize == LENGTH).then(|| datagram.first_chunk().copied()).flatten();
    Ok((ours, stamp_ns))
}

/// The stamp in a control message: a header of length (as long as a pointer), level and type, then two words of 64 bits.
/// CLOCK_REALTIME, of which the difference to now is taken.
fn stamp_of(control: &[u64; 8], length: usize) -> u64 {
    let head = size_of::<usize>() + 2 * size_of::<libc::c_int>();
    let bytes: Vec8 = control.map(u64::to_ne_bytes);
    let flat = bytes.as_flattened();
    let int = |at: usize| {
        flat.get(at..at + 4).map(|b| i32::from_ne_bytes(b.try_into().unwrap_or_default()))
    };
    let word = |at: usize| {
        flat.get(at..at + 8).map(|b| i64::from_ne_bytes(b.try_into().unwrap_or_default()))
    };
    let level = size_of::<usize>();
    if length < head + 16
        || int(level) != Some(libc::SOL_SOCKET)
        || int(level + 4) != Some(SO_TIMESTAMPNS_NEW)
    {
        return 0;
    }
    // A header of 12 bytes is followed by the data at once: CMSG_DATA aligns it to a long.
    let (Some(s), Some(ns)) = (word(head), word(head + 8)) else { return 0 };
    let real = rustix::time::clock_gettime(ClockId::Realtime);
    let now = os::now_ns();
    let age = (real.tv_sec as i64 - s) * 1_000_000_000 + (real.tv_nsec as i64 - ns);
    // A clock that was set meanwhile.
    u64::try_from(age)
        .ok()
        .filter(|age| *age < 1_000_000_000)
        .map_or(0, |age| now.saturating_sub(age))
}

type Vec8 = [[u8; 8]; 8];

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP echo that sends its first reply twice.
    fn echo() -> (String, std::thread::JoinHandle<()>) {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = server.local_addr().unwrap().to_string();
        server.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let serve = move || {
            let mut buffer = [0; 64];
            let mut copies = 2;
            while let Ok((length, from)) = server.recv_from(&mut buffer) {
                for _ in 0..copies {
                    let _ = server.send_to(&buffer[..length], from);
                }
                copies = 1;
            }
        };
        (address, std::thread::spawn(serve))
    }

    #[test]
    fn a_reply_has_the_number_and_time_of_its_call_and_the_time_of_receipt() {
        let (address, server) = echo();
        let host = EchoHost { name: address.clone(), address, is_latlab: false };
        let echo = Echo::open(&host).unwrap();
        let before = os::now_ns();
        echo.send(7, before).unwrap();
        let mut brought = echo.receive().unwrap();
        // The first datagram came back twice.
        while brought.number != 7 {
            brought = echo.receive().unwrap();
        }
        assert_eq!(brought.sent_ns, before);
        assert!((before..=os::now_ns()).contains(&brought.stamp_ns), "{}", brought.stamp_ns);
        drop(echo);
        server.join().unwrap();
    }

    #[test]
    fn an_echo_that_is_not_there_is_an_error() {
        let closed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = closed.local_addr().unwrap().to_string();
        let host = EchoHost { name: address.clone(), address, is_latlab: false };
        let error = Echo::open(&host).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("no reply from 127.0.0.1:"), "{error}");
    }

    #[test]
    fn lost_replies_are_counted_and_many_in_a_row_end_it() {
        let (address, _server) = echo();
        let host = EchoHost { name: address.clone(), address, is_latlab: false };
        let echo = Echo::open(&host).unwrap();
        assert!(!echo.is_lost(LOST_NS) && echo.is_lost(LOST_NS + 1));
        echo.heard();
        for _ in 1..LOST_MAX {
            assert!(echo.is_lost(u64::MAX));
        }
        assert!(!echo.is_gone() && echo.is_lost(u64::MAX) && echo.is_gone());
        assert_eq!(echo.lost(), u64::from(LOST_MAX) + 1);
    }
}
