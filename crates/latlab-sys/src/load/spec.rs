//! How a load is written: `KIND[:DETAIL…][@CPU][/RATE]`, with `N*` in front for several of them.
//!
//! ```text
//! cpu   cpu:60%   io   hdd:256M   vm:128M:4096   vm:128M:1:keep   vm:64M:4096:hang=2s
//! bandwidth:copy:64M   cache:L2   tlb:2   pagecache:64M   fork   net   timers:64   ipi
//! 4*vm:128M@0          four of them, pinned to CPU 0
//! fork/100             at most 100 rounds a second
//! stress-ng --vm 2     any command, run again and again while it ends well
//! ```
//!
//! `memory:BYTES:STRIDE` is `vm:BYTES:STRIDE` under its earlier name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Why a text is no load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadSpecError {
    /// The number in front of `*`.
    #[error("'{0}' is not a number of workers from 1 to 1024")]
    Workers(String),
    /// The number behind `/`.
    #[error("'{0}' is not a number of rounds a second")]
    Rate(String),
    /// The number behind `@`.
    #[error("'{0}' is not a CPU")]
    Cpu(String),
    /// A size of memory.
    #[error("'{0}' is more than this machine can address")]
    TooLarge(String),
    /// A number of threads, timers or a level.
    #[error("'{word}' is not a number from 1 to {most}")]
    Count {
        /// The word.
        word: String,
        /// The largest number.
        most: usize,
    },
    /// The share of a CPU.
    #[error("'{0}' is not a share of a CPU (cpu:60%)")]
    Share(String),
    /// An option of a vm worker.
    #[error("'{0}': a vm worker has keep and hang=TIME")]
    VmOption(String),
    /// The access of a bandwidth worker.
    #[error("'{0}' is none of read, write, copy, stream")]
    Access(String),
    /// A number of bytes.
    #[error("'{0}' is not a number of bytes above zero (4096, 64K, 128M, 1G)")]
    Bytes(String),
    /// A time.
    #[error("'{0}' is not a time (2s, 500ms)")]
    Time(String),
    /// The kind of the worker.
    #[error(
        "expected cpu[:PERCENT], io, hdd[:BYTES], vm[:BYTES[:STRIDE[:keep][:hang=TIME]]], bandwidth:WAY[:BYTES], cache:LEVEL, tlb, pagecache, fork, net, timers, ipi, or a command with its arguments"
    )]
    Kind,
}

/// Bytes of a `vm` worker of `stress` that was given none.
pub const VM_BYTES: usize = 256 << 20;
/// Stride of a `vm` worker of `stress` that was given none.
pub const VM_STRIDE: usize = 4096;
/// Bytes of an `hdd` worker of `stress` that was given none.
pub const HDD_BYTES: u64 = 1 << 30;

/// What is done with memory at a bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Every word is read.
    Read,
    /// Every word is written.
    Write,
    /// One half is copied to the other.
    Copy,
    /// Written past the caches.
    Stream,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Square roots, so many per cent of the time.
    Cpu {
        /// 1 to 100.
        percent: u8,
    },
    /// `sync(2)`, again and again.
    Io,
    /// A file is written and removed, again and again.
    Hdd {
        /// Its size.
        bytes: u64,
    },
    /// Memory is allocated, written every stride, checked, freed, again.
    Vm {
        /// Size of the allocation.
        bytes: usize,
        /// Distance between two bytes that are touched.
        stride: usize,
        /// Never freed: written and checked again.
        keep: bool,
        /// Sleep before it is freed; zero sleeps for ever.
        hang: Option<Duration>,
    },
    /// Memory is read or written as fast as it goes.
    Bandwidth {
        /// How.
        way: Way,
        /// Size of the memory.
        bytes: usize,
    },
    /// As much memory as a cache has is read and written in random order of lines.
    Cache {
        /// A level's size, looked up where it runs (1 to 9), or bytes.
        size: usize,
    },
    /// Threads that map, protect and unmap memory: every CPU of theirs must flush its TLB each time.
    Tlb {
        /// Number of threads.
        threads: usize,
    },
    /// A file is written, read, and dropped from the page cache.
    PageCache {
        /// Its size.
        bytes: u64,
    },
    /// Processes that end at once.
    Fork,
    /// Bytes over a TCP connection on the loopback.
    Net,
    /// Timers that expire every millisecond.
    Timers {
        /// How many.
        count: usize,
    },
    /// Two threads on two CPUs that wake each other: an interrupt each time.
    Ipi,
}

/// A worker: what, where, how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worker {
    /// What it does.
    pub kind: Kind,
    /// The CPU that it is pinned to.
    pub cpu: Option<u32>,
    /// Rounds a second at most.
    pub rate: Option<f64>,
}

impl From<Kind> for Worker {
    fn from(kind: Kind) -> Self {
        Self { kind, cpu: None, rate: None }
    }
}

impl Worker {
    /// A `cpu` worker, as `stress -c 1`.
    pub const CPU: Self = Self { kind: Kind::Cpu { percent: 100 }, cpu: None, rate: None };

    /// A `vm` worker, as `stress -m 1 --vm-bytes … --vm-stride …`.
    pub fn vm(bytes: usize, stride: usize) -> Self {
        Kind::Vm { bytes, stride, keep: false, hang: None }.into()
    }
}

/// Workers, or a command of another program.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadSpec {
    /// So many of a worker.
    Built(usize, Worker),
    /// A command line for the shell.
    Command(String),
}

impl fmt::Display for LoadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Built(1, worker) => worker.fmt(f),
            Self::Built(n, worker) => write!(f, "{n}*{worker}"),
            Self::Command(command) => f.write_str(command),
        }
    }
}

impl FromStr for LoadSpec {
    type Err = LoadSpecError;

    fn from_str(text: &str) -> Result<Self, LoadSpecError> {
        let text = text.trim();
        if text.contains(' ') || text.starts_with('/') || text.starts_with("./") {
            return Ok(Self::Command(text.to_owned()));
        }
        match text.split_once('*') {
            None => Ok(Self::Built(1, text.parse()?)),
            Some((n, worker)) => match n.parse() {
                Ok(n @ 1..=1024) => Ok(Self::Built(n, worker.parse()?)),
                _ => Err(LoadSpecError::Workers(n.to_owned())),
            },
        }
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Cpu { percent: 100 } => f.write_str("cpu")?,
            Kind::Cpu { percent } => write!(f, "cpu:{percent}%")?,
            Kind::Io => f.write_str("io")?,
            Kind::Hdd { bytes } => write!(f, "hdd:{bytes}")?,
            Kind::Vm { bytes, stride, keep, hang } => {
                write!(f, "vm:{bytes}:{stride}")?;
                if keep {
                    f.write_str(":keep")?;
                }
                if let Some(hang) = hang {
                    write!(f, ":hang={}ms", hang.as_millis())?;
                }
            }
            Kind::Bandwidth { way, bytes } => {
                let way = match way {
                    Way::Read => "read",
                    Way::Write => "write",
                    Way::Copy => "copy",
                    Way::Stream => "stream",
                };
                write!(f, "bandwidth:{way}:{bytes}")?;
            }
            Kind::Cache { size: level @ 1..=9 } => write!(f, "cache:L{level}")?,
            Kind::Cache { size } => write!(f, "cache:{size}")?,
            Kind::Tlb { threads } => write!(f, "tlb:{threads}")?,
            Kind::PageCache { bytes } => write!(f, "pagecache:{bytes}")?,
            Kind::Fork => f.write_str("fork")?,
            Kind::Net => f.write_str("net")?,
            Kind::Timers { count } => write!(f, "timers:{count}")?,
            Kind::Ipi => f.write_str("ipi")?,
        }
        if let Some(cpu) = self.cpu {
            write!(f, "@{cpu}")?;
        }
        self.rate.map_or(Ok(()), |rate| write!(f, "/{rate}"))
    }
}

impl FromStr for Worker {
    type Err = LoadSpecError;

    fn from_str(text: &str) -> Result<Self, LoadSpecError> {
        let (text, rate) = match text.split_once('/') {
            None => (text, None),
            Some((rest, rate)) => match rate.parse::<f64>() {
                Ok(r) if r > 0.0 && r <= 1e6 => (rest, Some(r)),
                _ => return Err(LoadSpecError::Rate(rate.to_owned())),
            },
        };
        let (text, cpu) = match text.split_once('@') {
            None => (text, None),
            Some((rest, cpu)) => {
                (rest, Some(cpu.parse().map_err(|_| LoadSpecError::Cpu(cpu.to_owned()))?))
            }
        };
        let words: Vec<&str> = text.split(':').collect();
        Ok(Self { kind: kind(&words)?, cpu, rate })
    }
}

fn kind(words: &[&str]) -> Result<Kind, LoadSpecError> {
    let memory = |word: &str| -> Result<usize, LoadSpecError> {
        let bytes = usize::try_from(bytes(word)?);
        bytes.map_err(|_| LoadSpecError::TooLarge(word.to_owned()))
    };
    let count = |word: &str, most: usize| match word.parse() {
        Ok(n) if (1..=most).contains(&n) => Ok(n),
        _ => Err(LoadSpecError::Count { word: word.to_owned(), most }),
    };
    Ok(match words {
        ["cpu"] => Kind::Cpu { percent: 100 },
        ["cpu", share] => match share.trim_end_matches('%').parse() {
            Ok(percent @ 1..=100) => Kind::Cpu { percent },
            _ => return Err(LoadSpecError::Share((*share).to_owned())),
        },
        ["io"] => Kind::Io,
        ["hdd"] => Kind::Hdd { bytes: HDD_BYTES },
        ["hdd", size] => Kind::Hdd { bytes: bytes(size)? },
        ["vm"] => Kind::Vm { bytes: VM_BYTES, stride: VM_STRIDE, keep: false, hang: None },
        ["vm", size] => {
            Kind::Vm { bytes: memory(size)?, stride: VM_STRIDE, keep: false, hang: None }
        }
        ["vm" | "memory", size, stride, rest @ ..] => {
            let (mut keep, mut hang) = (false, None);
            for word in rest {
                match word.split_once('=') {
                    None if *word == "keep" => keep = true,
                    Some(("hang", time)) => hang = Some(time_of(time)?),
                    _ => return Err(LoadSpecError::VmOption((*word).to_owned())),
                }
            }
            Kind::Vm { bytes: memory(size)?, stride: memory(stride)?, keep, hang }
        }
        ["bandwidth", way, rest @ ..] if rest.len() < 2 => {
            let way = match *way {
                "read" => Way::Read,
                "write" => Way::Write,
                "copy" => Way::Copy,
                "stream" => Way::Stream,
                other => return Err(LoadSpecError::Access(other.to_owned())),
            };
            Kind::Bandwidth { way, bytes: rest.first().map_or(Ok(64 << 20), |w| memory(w))? }
        }
        ["cache", level] => match level.strip_prefix('L') {
            Some(n) => Kind::Cache { size: count(n, 9)? },
            None => Kind::Cache { size: memory(level)?.max(4096) },
        },
        ["tlb"] => Kind::Tlb { threads: 2 },
        ["tlb", n] => Kind::Tlb { threads: count(n, 256)? },
        ["pagecache"] => Kind::PageCache { bytes: 64 << 20 },
        ["pagecache", size] => Kind::PageCache { bytes: bytes(size)? },
        ["fork"] => Kind::Fork,
        ["net"] => Kind::Net,
        ["timers"] => Kind::Timers { count: 64 },
        ["timers", n] => Kind::Timers { count: count(n, 4096)? },
        ["ipi"] => Kind::Ipi,
        _ => return Err(LoadSpecError::Kind),
    })
}

/// `4096`, `64K`, `128M`, `1G`.
///
/// # Errors
/// When it is no size above zero.
pub fn bytes(text: &str) -> Result<u64, LoadSpecError> {
    let bytes = crate::size::parse(text.trim_end_matches(['B', 'b']));
    bytes.filter(|&n| n > 0).ok_or_else(|| LoadSpecError::Bytes(text.to_owned()))
}

/// `2s`, `500ms`; a bare number is seconds, as with `stress --vm-hang`.
///
/// # Errors
/// When it is no time from zero to a million seconds.
pub fn time_of(text: &str) -> Result<Duration, LoadSpecError> {
    let bad = || LoadSpecError::Time(text.to_owned());
    let (number, factor) = match text.strip_suffix("ms") {
        Some(ms) => (ms, 1e-3),
        None => (text.trim_end_matches('s'), 1.0),
    };
    let seconds = number.parse::<f64>().map_err(|_| bad())? * factor;
    if (0.0..=1e6).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_written_as_it_is_read() {
        for text in [
            "cpu",
            "cpu:60%",
            "io",
            "hdd:1048576",
            "vm:65536:4096",
            "vm:65536:1:keep",
            "vm:4096:1:hang=500ms",
            "bandwidth:stream:65536",
            "cache:L2",
            "cache:65536",
            "tlb:2",
            "pagecache:4096",
            "fork/100",
            "net@1",
            "timers:8",
            "ipi@0/2.5",
        ] {
            assert_eq!(text.parse::<Worker>().unwrap().to_string(), text);
        }
        assert_eq!("memory:64K:1".parse::<Worker>(), "vm:65536:1".parse());
        for bad in [
            "",
            "disk",
            "memory",
            "memory:0:1",
            "memory:1:0",
            "memory:x:1",
            "cpu:0",
            "cpu:101",
            "vm:1:1:weird",
            "hdd:99999999999999999999",
            "bandwidth:up",
            "cache:L0",
            "tlb:0",
            "fork/0",
            "cpu@x",
            "timers:5000",
        ] {
            assert!(bad.parse::<Worker>().is_err(), "{bad}");
        }
    }

    #[test]
    fn several_and_commands() {
        let LoadSpec::Built(4, w) = "4*vm:128M@0".parse().unwrap() else { panic!("four workers") };
        assert_eq!(
            (w.cpu, w.kind),
            (Some(0), Kind::Vm { bytes: 128 << 20, stride: 4096, keep: false, hang: None })
        );
        assert_eq!("stress-ng --vm 2".parse(), Ok(LoadSpec::Command("stress-ng --vm 2".into())));
        assert!("0*cpu".parse::<LoadSpec>().is_err() && "hackbench".parse::<LoadSpec>().is_err());
    }
}
