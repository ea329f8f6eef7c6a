//! Settings of the kernel that are no files: the policy of a thread, the interrupt coalescing of a network interface.
//!
//! Each has a path that names it and a text for its value, so that the journal keeps it as it keeps a file's.

use crate::policy;
use crate::process;
use latlab_model::wakeup::config::Policy;
use rustix::net::{AddressFamily, SocketType};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// What such a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Means {
    /// Policy and priority of an interrupt's thread, `/proc/TID`: `fifo 50`.
    Policy,
    /// Interrupt coalescing of an interface, `/sys/class/net/NAME`: the numbers of `struct ethtool_coalesce`.
    Coalescing,
}

impl Means {
    /// Whether the path is one of these settings.
    pub fn is_path(self, path: &Path) -> bool {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        match self {
            Self::Policy => {
                path.parent() == Some(Path::new("/proc")) && name.parse::<u32>().is_ok()
            }
            Self::Coalescing => {
                path.parent() == Some(Path::new("/sys/class/net")) && !name.is_empty()
            }
        }
    }

    /// What tells a thread from a later one of the same number; 0 for what has no lifetime.
    pub fn started(self, path: &Path) -> u64 {
        match self {
            Self::Policy => thread(path).ok().and_then(process::start_ticks).unwrap_or(0),
            Self::Coalescing => 0,
        }
    }

    /// Its value.
    ///
    /// # Errors
    /// `NotFound` when it is gone, `InvalidInput` for what is none.
    pub fn read(self, path: &Path) -> io::Result<String> {
        match self {
            Self::Policy => {
                let (policy, priority) = policy::of(interrupt_thread(path)? as i32)?;
                Ok(format!("{policy} {priority}"))
            }
            Self::Coalescing => Ok(text(&coalescing(path, GET, Coalescing::default())?)),
        }
    }

    /// Sets it.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` for a value that is none.
    pub fn write(self, path: &Path, value: &str) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        match self {
            Self::Policy => {
                let (policy, priority) = value.split_once(' ').ok_or_else(invalid)?;
                let policy = [Policy::Fifo, Policy::Rr, Policy::Other, Policy::Batch, Policy::Idle]
                    .into_iter()
                    .find(|p| p.to_string() == policy);
                let priority = priority.parse().map_err(|_| invalid())?;
                let thread = interrupt_thread(path)? as i32;
                policy::set_of(
                    thread,
                    policy.ok_or_else(invalid)?,
                    priority,
                    policy::Budget::default(),
                )
            }
            Self::Coalescing => {
                let numbers: Vec<u32> = value
                    .split(' ')
                    .map(str::parse)
                    .collect::<Result<_, _>>()
                    .map_err(|_| invalid())?;
                let numbers = numbers.try_into().map_err(|_| invalid())?;
                coalescing(path, SET, numbers).map(drop)
            }
        }
    }
}

fn thread(path: &Path) -> io::Result<u32> {
    let name = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok());
    name.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Only threads of interrupts are set: others have a latency or a deadline of their own.
fn interrupt_thread(path: &Path) -> io::Result<u32> {
    match fs::read_to_string(path.join("comm"))?.starts_with("irq/") {
        true => thread(path),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// A thread of an interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptThread {
    /// Its directory, `/proc/TID`.
    pub path: PathBuf,
    /// Its name, `irq/27-eth0`; the kernel keeps 15 bytes.
    pub name: String,
}

impl InterruptThread {
    /// Its number.
    pub fn tid(&self) -> Option<u32> {
        thread(&self.path).ok()
    }

    /// Whether it is that of the interrupt of a name, of which the kernel keeps what fits into 15 bytes.
    pub fn is_of(&self, interrupt: &str) -> bool {
        let own = self.name.split_once('-').map_or("", |(_, own)| own);
        let is_cut = self.name.len() == 15 && !own.is_empty();
        own == interrupt || is_cut && interrupt.starts_with(own)
    }
}

/// The threads of interrupts that run now, in the order of their numbers.
pub fn interrupt_threads() -> Vec<InterruptThread> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<(u32, InterruptThread)> = entries
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?.trim().to_owned();
            name.starts_with("irq/").then(|| (number, InterruptThread { path: entry.path(), name }))
        })
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, thread)| thread).collect()
}

/// `struct ethtool_coalesce` without its command (include/uapi/linux/ethtool.h).
type Coalescing = [u32; 22];
/// `ETHTOOL_GCOALESCE`, `ETHTOOL_SCOALESCE`, `SIOCETHTOOL`.
const GET: u32 = 0x0e;
const SET: u32 = 0x0f;
const SIOCETHTOOL: u32 = 0x8946;
/// Places of `rx_coalesce_usecs` and `use_adaptive_rx_coalesce` in it.
const RX_USECS: usize = 0;
const ADAPTIVE_RX: usize = 9;

fn text(numbers: &Coalescing) -> String {
    numbers.map(|n| n.to_string()).join(" ")
}

/// The same with so many µs between a packet's arrival and its interrupt at most, and no adaptation.
pub(super) fn with_rx_usecs(value: &str, us: u32) -> String {
    let mut numbers: Vec<String> = value.split(' ').map(str::to_owned).collect();
    for (at, n) in [(RX_USECS, us), (ADAPTIVE_RX, 0)] {
        if let Some(number) = numbers.get_mut(at) {
            *number = n.to_string();
        }
    }
    numbers.join(" ")
}

/// `struct ifreq`: a name and a pointer, in the size that the kernel reads.
#[repr(C)]
struct Ifreq {
    name: [u8; 16],
    data: *mut u32,
    rest: [u8; 16],
}

fn coalescing(path: &Path, command: u32, numbers: Coalescing) -> io::Result<Coalescing> {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    if name.is_empty() || name.len() > 15 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut value = [0u32; 23];
    value[0] = command;
    value[1..].copy_from_slice(&numbers);
    let mut request = Ifreq { name: [0; 16], data: value.as_mut_ptr(), rest: [0; 16] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the request has a name that ends with 0 and the address of a live `struct ethtool_coalesce`.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if rc < 0 {
        let error = io::Error::last_os_error();
        // The interface is gone.
        let gone = error.raw_os_error() == Some(libc::ENODEV);
        return Err(if gone { io::ErrorKind::NotFound.into() } else { error });
    }
    let mut read = Coalescing::default();
    read.copy_from_slice(&value[1..]);
    Ok(read)
}

/// Takes the tasks out of a control group (version 2) into the one that it lies in, and removes it.
pub(super) fn remove_group(path: &Path) -> io::Result<()> {
    for file in ["cgroup.procs", "cgroup.threads"] {
        let tasks = fs::read_to_string(path.join(file)).unwrap_or_default();
        let Some(outer) = path.parent().map(|p| p.join(file)) else { continue };
        for task in tasks.lines() {
            // One that has ended meanwhile is no error.
            let _ = fs::write(&outer, task);
        }
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_of_interrupts_and_interfaces_are_settings() {
        let is = |means: Means, path: &str| means.is_path(Path::new(path));
        assert!(is(Means::Policy, "/proc/12") && is(Means::Coalescing, "/sys/class/net/eth0"));
        for wrong in ["/proc/self", "/proc/12/comm", "/proc/sys", "/12"] {
            assert!(!is(Means::Policy, wrong), "{wrong}");
        }
        assert!(!is(Means::Coalescing, "/sys/class/net/eth0/mtu"));
        // This process is no thread of an interrupt.
        let own = PathBuf::from(format!("/proc/{}", std::process::id()));
        let error = Means::Policy.read(&own).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(Means::Policy.write(&own, "fifo 1").is_err());
        let gone = Means::Coalescing.read(Path::new("/sys/class/net/none7")).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_thread_is_that_of_its_interrupt_also_where_the_kernel_cuts_its_name() {
        let thread = |name: &str| InterruptThread { path: "/proc/63".into(), name: name.into() };
        assert!(thread("irq/27-eth0").is_of("eth0") && thread("irq/27-eth0").tid() == Some(63));
        assert!(!thread("irq/27-eth01").is_of("eth0") && !thread("irq/27-eth0").is_of("eth01"));
        assert!(thread("irq/27-fault-de").is_of("fault-device"));
        assert!(!thread("irq/27-fault-de").is_of("fault"));
    }

    #[test]
    fn coalescing_changes_the_delay_of_receipt_and_ends_its_adaptation() {
        let mut before = Coalescing::default();
        (before[RX_USECS], before[1], before[ADAPTIVE_RX], before[21]) = (50, 8, 1, 4);
        let after: Vec<u32> =
            with_rx_usecs(&text(&before), 3).split(' ').map(|n| n.parse().unwrap()).collect();
        let mut expected = before;
        (expected[RX_USECS], expected[ADAPTIVE_RX]) = (3, 0);
        assert_eq!(after, expected);
    }
}
