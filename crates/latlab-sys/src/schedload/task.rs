//! One worker: what it becomes, and what it does.

use crate::clock;
use crate::policy::{self, Budget, Fair};
use latlab_model::sched::experiment::Work;
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::Policy;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What one read or write moves, bytes.
const BLOCK: usize = 16 << 10;
/// Written blocks between two fdatasync.
const SYNC_EVERY: u64 = 4;

/// What a worker is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Its name.
    pub name: String,
    /// What it does.
    pub work: Work,
    /// Its policy.
    pub policy: Policy,
    /// Real-time priority.
    pub priority: u32,
    /// Nice value.
    pub nice: i32,
    /// Slice that it asks for, ns.
    pub slice_ns: Option<u64>,
    /// Latency nice value.
    pub latency_nice: Option<i32>,
    /// SCHED_DEADLINE: runtime, ns.
    pub runtime_ns: u64,
    /// SCHED_DEADLINE: period, ns.
    pub period_ns: u64,
    /// The CPU that it is bound to.
    pub cpu: Option<u32>,
    /// Where its file is made.
    pub dir: PathBuf,
    /// It is ended by the kernel when it has computed for longer, s.
    pub seconds_max: u64,
}

/// Why a worker does not begin.
enum Refusal {
    /// The policy, priority, nice value or slice.
    Policy(String),
    /// Anything else.
    Other(String),
}

/// The whole life of a worker process.
///
/// # Errors
/// When nobody listens, or its work fails half way.
pub fn work(order: &Order) -> io::Result<()> {
    let prepared = Prepared::new(order);
    let mut out = io::stdout().lock();
    let (mut prepared, note) = match prepared {
        Ok(prepared) => prepared,
        Err(Refusal::Policy(reason)) => return writeln!(out, "refused {reason}"),
        Err(Refusal::Other(reason)) => return writeln!(out, "failed {reason}"),
    };
    writeln!(out, "ready {} {note}", rustix::thread::gettid().as_raw_nonzero())?;
    out.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    // An empty line is a runner that is gone.
    let Ok(until) = line.trim().parse::<u64>() else { return Ok(()) };
    prepared.run(until)
}

/// What it works with.
enum Prepared {
    Matrix(Matrix),
    Blocks(Blocks),
}

impl Prepared {
    fn new(order: &Order) -> Result<(Self, String), Refusal> {
        let other = |what: &str| {
            let what = what.to_owned();
            move |e: io::Error| Refusal::Other(format!("{what}: {e}"))
        };
        limit(order.seconds_max).map_err(other("setting its limits"))?;
        let _ = rustix::thread::set_name(&name(&order.name));
        let prepared = match order.work {
            Work::Cpu { size } => Self::Matrix(Matrix::new(size as usize)),
            Work::Io { bytes, direct } => {
                let path = order.dir.join(format!("{}-{}", order.name, std::process::id()));
                let what = if direct {
                    format!("a file past the page cache (O_DIRECT) in {}", order.dir.display())
                } else {
                    format!("a file in {}", order.dir.display())
                };
                Self::Blocks(Blocks::new(&path, bytes, direct).map_err(other(&what))?)
            }
        };
        if let Some(cpu) = order.cpu {
            policy::bind(&[CpuId(cpu)]).map_err(other(&format!("binding to CPU {cpu}")))?;
        }
        Ok((prepared, become_it(order)?))
    }

    fn run(&mut self, until: u64) -> io::Result<()> {
        match self {
            Self::Matrix(matrix) => {
                while !matrix.multiply(until) {}
                Ok(())
            }
            Self::Blocks(blocks) => {
                while now_ns() < until {
                    blocks.step()?;
                }
                Ok(())
            }
        }
    }
}

fn name(name: &str) -> std::ffi::CString {
    let plain: Vec<u8> = name.bytes().filter(|b| *b != 0).take(15).collect();
    std::ffi::CString::new(plain).unwrap_or_default()
}

/// The kernel ends what does not end itself.
fn limit(seconds: u64) -> io::Result<()> {
    let at = |n: u64| Rlimit { current: Some(n), maximum: Some(n + 1) };
    setrlimit(Resource::Cpu, at(seconds.saturating_add(2)))?;
    let us = seconds.saturating_add(2).saturating_mul(1_000_000);
    setrlimit(Resource::Rttime, Rlimit { current: Some(us), maximum: Some(us + 1_000_000) })?;
    Ok(())
}

/// Takes on the policy. The note says what the kernel would not give.
fn become_it(order: &Order) -> Result<String, Refusal> {
    let set = || match order.policy {
        Policy::Other | Policy::Batch | Policy::Idle => policy::set_fair(
            order.policy,
            Fair { nice: order.nice, slice_ns: order.slice_ns, latency_nice: order.latency_nice },
        ),
        _ => {
            let (runtime_ns, period_ns) = (order.runtime_ns, order.period_ns);
            policy::set(order.policy, order.priority, Budget { runtime_ns, period_ns })
        }
    };
    let mut note = String::new();
    let mut result = set();
    if order.policy == Policy::Deadline
        && order.cpu.is_some()
        && result.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EPERM))
    {
        // A deadline task may not be bound to fewer CPUs than its root domain has.
        let all = policy::online().unwrap_or_default();
        if policy::bind(&all).is_ok() {
            note = "unbound".into();
            result = set();
        }
    }
    result.map_err(|e| Refusal::Policy(refusal(order, &e)))?;
    if let Some(asked) = order.slice_ns
        && policy::noted_runtime_ns().is_ok_and(|noted| noted != asked)
    {
        return Err(Refusal::Policy("this kernel takes no slice from a fair task".into()));
    }
    Ok(note)
}

fn refusal(order: &Order, error: &io::Error) -> String {
    let what = match order.policy {
        Policy::Fifo | Policy::Rr => format!("SCHED_{} priority {}", order.policy, order.priority),
        Policy::Deadline => "SCHED_DEADLINE".into(),
        _ if order.latency_nice.is_some() => {
            return format!("this kernel takes no latency nice value ({error})");
        }
        _ => format!("nice {}", order.nice),
    };
    format!("the kernel refuses {}: {error}", what.to_uppercase().replace("PRIORITY", "priority"))
}

/// Two square matrices and their product.
struct Matrix {
    size: usize,
    a: Vec<i32>,
    b: Vec<i32>,
    product: Vec<i32>,
}

impl Matrix {
    fn new(size: usize) -> Self {
        let size = size.max(1);
        let filled = |seed: usize| (0..size * size).map(|n| (n * seed % 1000) as i32).collect();
        Self { size, a: filled(7), b: filled(11), product: vec![0; size * size] }
    }

    /// One product; true when the time was up, which it looks at after each row.
    fn multiply(&mut self, until: u64) -> bool {
        let n = self.size;
        for (row, out) in self.a.chunks_exact(n).zip(self.product.chunks_exact_mut(n)) {
            for (j, cell) in out.iter_mut().enumerate() {
                let column = self.b.iter().skip(j).step_by(n);
                let sum = |s: i32, (x, y): (&i32, &i32)| s.wrapping_add(x.wrapping_mul(*y));
                *cell = row.iter().zip(column).fold(0, sum);
            }
            if now_ns() >= until {
                black_box(&self.product);
                return true;
            }
        }
        // The product is the next factor: nothing can be computed in advance.
        black_box(&mut self.product);
        std::mem::swap(&mut self.a, &mut self.product);
        false
    }
}

/// Now, ns of CLOCK_MONOTONIC.
fn now_ns() -> u64 {
    clock::now().0
}

/// A file that is written and read block by block.
struct Blocks {
    file: File,
    buffer: Vec<u8>,
    /// Where the buffer's aligned part begins.
    at: usize,
    blocks: u64,
    step: u64,
    direct: bool,
}

impl Blocks {
    fn new(path: &Path, bytes: u64, direct: bool) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let flags = if direct { flags | OFlags::DIRECT } else { flags };
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        // It has no name from here on, and is gone with us.
        std::fs::remove_file(path)?;
        let buffer = vec![b'l'; BLOCK + 4096];
        let at = buffer.as_ptr().align_offset(4096).min(4096);
        let blocks = (bytes / BLOCK as u64).max(1);
        let mut made = Self { file, buffer, at, blocks, step: 0, direct };
        for block in 0..blocks {
            made.write(block)?;
        }
        made.file.sync_data()?;
        Ok(made)
    }

    fn write(&mut self, block: u64) -> io::Result<()> {
        self.file.write_all_at(&self.buffer[self.at..self.at + BLOCK], block * BLOCK as u64)
    }

    /// Writes a block, sees now and then that it is on the device, reads another.
    fn step(&mut self) -> io::Result<()> {
        self.step += 1;
        self.write(self.step % self.blocks)?;
        if !self.direct && self.step.is_multiple_of(SYNC_EVERY) {
            self.file.sync_data()?;
        }
        let other = (self.step.wrapping_mul(7919)) % self.blocks;
        let (at, end) = (self.at, self.at + BLOCK);
        self.file.read_exact_at(&mut self.buffer[at..end], other * BLOCK as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_multiplied_until_the_time_is_up() {
        let mut m = Matrix::new(2);
        (m.a, m.b) = (vec![1, 2, 3, 4], vec![5, 6, 7, 8]);
        assert!(!m.multiply(u64::MAX));
        assert_eq!(m.a, [19, 22, 43, 50]);
        assert!(m.multiply(0));
    }

    #[test]
    fn a_file_is_written_read_and_leaves_nothing_behind() {
        let t = tempfile::tempdir().unwrap();
        let mut blocks = Blocks::new(&t.path().join("io"), 64 << 10, false).unwrap();
        for _ in 0..20 {
            blocks.step().unwrap();
        }
        assert_eq!(std::fs::read_dir(t.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_order_survives_its_way() {
        let order = Order {
            name: "a".into(),
            work: Work::Io { bytes: 1 << 20, direct: true },
            policy: Policy::Rr,
            priority: 90,
            nice: 0,
            slice_ns: None,
            latency_nice: None,
            runtime_ns: 0,
            period_ns: 0,
            cpu: Some(1),
            dir: "/tmp".into(),
            seconds_max: 5,
        };
        let json = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&json).unwrap(), order);
    }
}
