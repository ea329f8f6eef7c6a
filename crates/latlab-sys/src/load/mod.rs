//! Built-in loads: something for the machine to do while a latency is measured.
//!
//! ```text
//! spec.rs     how a load is written         worker.rs   the life of a worker process
//! memory.rs   vm, bandwidth, cache, tlb     kernel.rs   io, hdd, page cache, fork, net, timers, futexes
//! ```
//!
//! Workers of the same name as those of `stress(1)` do what those do, because
//! published latencies name them.
//!
//! Each worker is a process of its own, not a thread: threads that map and unmap
//! memory interrupt every CPU that runs a thread of the same process (TLB
//! shootdown), and would thereby disturb the very thread that measures. A worker
//! ends when its standard input ends, so that none is left behind when the
//! process that started it is killed; files that it writes have no name.

mod kernel;
mod memory;
pub mod spec;
mod work;
mod worker;

pub use spec::{Kind, LoadSpec, LoadSpecError, Way, Worker};
pub(crate) use worker::rounds;
pub use worker::{keep_command_until_stdin_ends, work_until_stdin_ends};

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a worker may take to say what it did.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// A load that is running; it ends when this is dropped.
#[derive(Debug)]
pub struct Load {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: String,
    child: Child,
    /// The supervisor of a command, which ends everything that the command started.
    group: bool,
}

/// Why a load could not be started, or did not last.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The worker process could not be started.
    #[error("cannot start the load {worker}")]
    Start {
        /// Which.
        worker: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ended by itself.
    #[error("the load {worker} ended: {how}")]
    Ended {
        /// Which.
        worker: String,
        /// How, in words.
        how: String,
    },
}

/// What a worker did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which.
    pub worker: String,
    /// Its rounds, where it could still say.
    pub rounds: Option<u64>,
}

impl Load {
    /// Starts `program load-worker WORKER` for each worker.
    ///
    /// # Errors
    /// When a process cannot be started; those that were are ended again.
    pub fn start(program: &Path, workers: &[Worker]) -> Result<Self, LoadError> {
        let specs: Vec<LoadSpec> = workers.iter().map(|&w| LoadSpec::Built(1, w)).collect();
        Self::start_specs(program, &specs, None)
    }

    /// Starts workers and commands; files are written in `dir`, or else where we are.
    ///
    /// # Errors
    /// When a process cannot be started; those that were are ended again.
    pub fn start_specs(
        program: &Path,
        specs: &[LoadSpec],
        dir: Option<&Path>,
    ) -> Result<Self, LoadError> {
        let mut load = Self { members: Vec::new() };
        for spec in specs {
            match spec {
                LoadSpec::Built(n, worker) => {
                    for _ in 0..*n {
                        let mut command = Command::new(program);
                        command.args(["load-worker", &worker.to_string()]).stdin(Stdio::piped());
                        load.add(worker.to_string(), command.stdout(Stdio::piped()), dir, false)?;
                    }
                }
                LoadSpec::Command(line) => {
                    let mut command = Command::new(program);
                    command.args(["load-worker", "--", line]).stdin(Stdio::piped());
                    load.add(line.clone(), command.stdout(Stdio::null()), dir, true)?;
                }
            }
        }
        Ok(load)
    }

    fn add(
        &mut self,
        name: String,
        command: &mut Command,
        dir: Option<&Path>,
        group: bool,
    ) -> Result<(), LoadError> {
        if let Some(dir) = dir {
            command.current_dir(dir);
        }
        let child =
            command.spawn().map_err(|source| LoadError::Start { worker: name.clone(), source })?;
        self.members.push(Member { name, child, group });
        Ok(())
    }

    /// Whether every worker is still at work: a latency under a load that was not there is no result.
    pub fn is_whole(&mut self) -> bool {
        self.ended().is_none()
    }

    /// The first that ended by itself, and how.
    pub fn ended(&mut self) -> Option<LoadError> {
        self.members.iter_mut().find_map(|m| match m.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(LoadError::Ended { worker: m.name.clone(), how: how(status) }),
            Err(e) => Some(LoadError::Ended { worker: m.name.clone(), how: e.to_string() }),
        })
    }

    /// Ends the load, and asks each worker for the number of its rounds.
    pub fn stop(mut self) -> Vec<Done> {
        self.members.iter_mut().for_each(|m| drop(m.child.stdin.take()));
        let end = Instant::now() + REPLY_TIMEOUT;
        let mut done = Vec::new();
        for m in &mut self.members {
            let mut rounds = None;
            if !m.group {
                while matches!(m.child.try_wait(), Ok(None)) && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let mut words = String::new();
                if let (Ok(Some(_)), Some(mut out)) = (m.child.try_wait(), m.child.stdout.take()) {
                    let _ = out.read_to_string(&mut words);
                    rounds = words.trim().parse().ok();
                }
            }
            done.push(Done { worker: m.name.clone(), rounds });
        }
        done
    }
}

fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => {
            "killed by SIGKILL, as the kernel does when memory is used up (dmesg says)".into()
        }
        (Some(n), _) => format!("killed by signal {n}"),
        (None, Some(n)) => format!("exit code {n}"),
        (None, None) => "nobody knows how".into(),
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Each step for all of them: what waits for the disk ends with the others, not after them.
        for m in &mut self.members {
            // A supervisor of a command ends what that started when its input ends.
            drop(m.child.stdin.take());
        }
        let end = Instant::now() + REPLY_TIMEOUT;
        for m in self.members.iter_mut().filter(|m| m.group) {
            while matches!(m.child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for m in &mut self.members {
            // It may have ended by itself; then there is nothing to kill.
            let _ = m.child.kill();
        }
        for m in &mut self.members {
            let _ = m.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_ends_with_its_owner() {
        let mut load = Load::start(Path::new("/bin/false"), &[Worker::CPU]).unwrap();
        load.members[0].child.wait().unwrap();
        assert!(!load.is_whole());
        assert_eq!(load.ended().unwrap().to_string(), "the load cpu ended: exit code 1");
        drop(load);
        let error = Load::start(Path::new("/nonexistent"), &[Worker::CPU]).unwrap_err();
        assert_eq!(error.to_string(), "cannot start the load cpu");
    }
}
