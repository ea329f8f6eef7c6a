//! What a service tells its manager (sd_notify(3)), readings of clocks and of its own CPU time, and its memory.

use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The manager's socket.
#[derive(Debug)]
pub struct Notifier {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Notifier {
    /// The manager that `NOTIFY_SOCKET` names; `None` without one, or where it cannot be reached.
    pub fn from_environment() -> Option<Self> {
        Self::to(&std::env::var_os("NOTIFY_SOCKET")?).ok()
    }

    /// A path, or `@` and a name in the abstract namespace (unix(7)).
    fn to(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        Ok(Self { socket: UnixDatagram::unbound()?, address })
    }

    /// Sends lines such as `READY=1`. A manager that does not listen is no error of the service.
    pub fn tell(&self, lines: &str) {
        let _ = self.socket.send_to_addr(lines.as_bytes(), &self.address);
    }
}

/// The longest time between two signs of life (`WATCHDOG=1`) that the manager accepts, where it asks this
/// process for them.
pub fn watchdog() -> Option<Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|us| *us > 0 && is_ours).map(Duration::from_micros)
}

/// `CLOCK_MONOTONIC`, `CLOCK_BOOTTIME` and `CLOCK_REALTIME`, ns, one after the other.
pub fn clocks() -> [u64; 3] {
    [ClockId::Monotonic, ClockId::Boottime, ClockId::Realtime].map(read)
}

/// CPU time of this process, all threads, ns.
pub fn cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// Returns freed memory to the kernel, where the C library can (malloc_trim(3), glibc): otherwise a process keeps what it
/// once took. Takes some milliseconds.
pub fn return_memory() {
    // SAFETY: no pointer is passed; it locks the allocator itself.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

fn read(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    u64::try_from(t.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(t.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_reads_what_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        Notifier::to(path.as_os_str()).unwrap().tell("READY=1\nSTATUS=2 tasks");
        let mut text = [0; 64];
        let n = manager.recv(&mut text).unwrap();
        assert_eq!(&text[..n], b"READY=1\nSTATUS=2 tasks");
        let name = format!("latlab-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        Notifier::to(OsStr::new(&format!("@{name}"))).unwrap().tell("STOPPING=1");
        let n = manager.recv(&mut text).unwrap();
        assert_eq!(&text[..n], b"STOPPING=1");
    }

    #[test]
    fn clocks_go_on() {
        let (before, used) = (clocks(), cpu_ns());
        let now = clocks();
        assert!(now[0] >= before[0] && now[1] >= now[0] && now[2] > 1_600_000_000_000_000_000);
        assert!(cpu_ns() >= used);
    }
}
