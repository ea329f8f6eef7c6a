//! A built-in load: something for the machine to do while a latency is measured.
//!
//! The workers do what the workers of the same name of `stress(1)` do, because
//! published latencies name them: `cpu` takes square roots, `memory` allocates
//! a number of bytes, writes a `Z` every stride, checks what it wrote, frees it
//! and begins again.
//!
//! Each worker is a process of its own, not a thread: threads that map and unmap
//! memory interrupt every CPU that runs a thread of the same process (TLB
//! shootdown), and would thereby disturb the very thread that measures. A worker
//! ends when its standard input ends, so that none is left behind when the
//! process that started it is killed.

use crate::signal;
use rustix::io::Errno;
use std::fmt;
use std::hint::black_box;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// Square roots, without end.
    Cpu,
    /// Allocate, write every stride, check, free, again.
    Memory {
        /// Size of the allocation.
        bytes: usize,
        /// Distance between two bytes that are touched.
        stride: usize,
    },
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Memory { bytes, stride } => write!(f, "memory:{bytes}:{stride}"),
        }
    }
}

impl FromStr for Worker {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |word: &str| match word.parse() {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(format!("'{word}' is no number of bytes above zero")),
        };
        match text.split(':').collect::<Vec<_>>()[..] {
            ["cpu"] => Ok(Self::Cpu),
            ["memory", bytes, stride] => {
                Ok(Self::Memory { bytes: number(bytes)?, stride: number(stride)? })
            }
            _ => Err("expected cpu or memory:BYTES:STRIDE".to_owned()),
        }
    }
}

/// A load that is running; it ends when this is dropped.
#[derive(Debug)]
pub struct Load {
    children: Vec<Child>,
}

/// Why a load could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The worker process could not be started.
    #[error("cannot start the load worker {worker}")]
    Start {
        /// Which worker.
        worker: Worker,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Load {
    /// Starts `program load-worker WORKER` for each worker.
    ///
    /// # Errors
    /// When a process cannot be started; those that were are ended again.
    pub fn start(program: &Path, workers: &[Worker]) -> Result<Self, LoadError> {
        let mut load = Self { children: Vec::with_capacity(workers.len()) };
        for &worker in workers {
            let child = Command::new(program)
                .args(["load-worker", &worker.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .map_err(|source| LoadError::Start { worker, source })?;
            load.children.push(child);
        }
        Ok(load)
    }

    /// Whether every worker is still at work: a latency under a load that was not there is no result.
    pub fn is_whole(&mut self) -> bool {
        self.children.iter_mut().all(|child| matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Works until standard input ends or a signal asks to stop: the whole life of a worker process.
///
/// # Errors
/// When standard input cannot be read.
pub fn work_until_stdin_ends(worker: Worker) -> io::Result<()> {
    thread::Builder::new().name("load".to_owned()).spawn(move || work(worker))?;
    let stdin = io::stdin();
    let mut buffer = [0u8; 64];
    // Not std's reader: it would try again when a signal interrupts it.
    loop {
        match rustix::io::read(&stdin, &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(Errno::INTR) if signal::stop_requested().is_some() => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn work(worker: Worker) -> ! {
    let mut value = 2.0f64;
    loop {
        match worker {
            Worker::Cpu => value = black_box(value + 1.0).sqrt() + 1.0,
            Worker::Memory { bytes, stride } => touch(bytes, stride),
        }
        black_box(value);
    }
}

/// One round of the memory worker. Memory that cannot be had is asked for again in the next round.
fn touch(bytes: usize, stride: usize) {
    let mut memory: Vec<u8> = Vec::new();
    if memory.try_reserve_exact(bytes).is_err() {
        thread::yield_now();
        return;
    }
    // Spare capacity, not zeroes: each page must be faulted in by the touch itself.
    let slots = black_box(memory.spare_capacity_mut());
    for slot in slots.iter_mut().step_by(stride) {
        slot.write(b'Z');
    }
    // SAFETY: exactly the slots of this stride were written above.
    let read = |slot: &MaybeUninit<u8>| unsafe { slot.assume_init() };
    let wrong = slots.iter().step_by(stride).filter(|slot| read(slot) != b'Z').count();
    black_box(wrong);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_written_as_it_is_read() {
        for worker in [Worker::Cpu, Worker::Memory { bytes: 64 << 20, stride: 4096 }] {
            assert_eq!(worker.to_string().parse(), Ok(worker));
        }
        for bad in ["", "disk", "memory", "memory:0:1", "memory:1:0", "memory:x:1", "cpu:1"] {
            assert!(bad.parse::<Worker>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_load_ends_with_its_owner() {
        let mut load = Load::start(Path::new("/bin/false"), &[Worker::Cpu]).unwrap();
        load.children[0].wait().unwrap();
        assert!(!load.is_whole());
        drop(load);
        let error = Load::start(Path::new("/nonexistent"), &[Worker::Cpu]).unwrap_err();
        assert_eq!(error.to_string(), "cannot start the load worker cpu");
    }
}
