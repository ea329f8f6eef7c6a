//! Tasks of known policy and work that compete for one CPU, each a process of its own.
//!
//! ```text
//! runner                        worker (this program again, `sched-task`)
//!   spawn ──────────────────────▶ limits, name, memory and file, CPU, policy
//!   ◀─────────────── `ready TID` or `refused WHY`
//!   moment at which to end ─────▶ works until then, and ends by itself
//! ```
//!
//! A worker cannot keep a CPU: it looks at the clock after each piece of work, RLIMIT_RTTIME and
//! RLIMIT_CPU end it when it does not, and the kernel kills it when its runner is gone.

mod facts;
mod task;

pub use facts::facts;
pub use task::{Order, work};

use crate::process;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long a worker may take to get ready: making its file on a slow card takes a while.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// Why tasks could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerPoolError {
    /// The worker process could not be started.
    #[error("cannot start the task {name}")]
    Start {
        /// Which.
        name: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It could not become what it should be.
    #[error("task {name}: {reason}")]
    Refused {
        /// Which.
        name: String,
        /// What the kernel said.
        reason: String,
        /// Whether it is the policy or priority that was refused.
        policy: bool,
    },
    /// It did not answer.
    #[error("task {name} did not get ready within {} s", READY_TIMEOUT.as_secs())]
    Silent {
        /// Which.
        name: String,
    },
}

/// Workers that are ready; they end when this is dropped.
#[derive(Debug)]
pub struct WorkerPool {
    members: Vec<Member>,
}

/// One worker.
#[derive(Debug)]
struct Member {
    child: Child,
    tid: i32,
    notes: Vec<String>,
}

impl WorkerPool {
    /// Starts a worker for each order and waits until all are ready.
    ///
    /// # Errors
    /// When one cannot be started or refuses; the others are ended.
    pub fn start(program: &Path, orders: &[Order]) -> Result<Self, WorkerPoolError> {
        let mut pool = Self { members: Vec::new() };
        for order in orders {
            pool.members.push(Member::start(program, order)?);
        }
        Ok(pool)
    }

    /// Thread ids, in the order of the orders.
    pub fn tids(&self) -> Vec<i32> {
        self.members.iter().map(|m| m.tid).collect()
    }

    /// What they could not have and did instead.
    pub fn notes(&self) -> Vec<String> {
        self.members.iter().flat_map(|m| m.notes.clone()).collect()
    }

    /// Lets all work until this moment of CLOCK_MONOTONIC.
    pub fn go(&mut self, until_ns: u64) {
        for member in &mut self.members {
            if let Some(stdin) = &mut member.child.stdin {
                // A worker that is gone is noticed by `all_ended`.
                let _ = stdin.write_all(format!("{until_ns}\n").as_bytes());
            }
        }
    }

    /// Whether every worker has ended.
    pub fn all_ended(&mut self) -> bool {
        self.members.iter_mut().all(|m| !matches!(m.child.try_wait(), Ok(None)))
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        // All of them first: one that is starved cannot be waited for while the other runs.
        for member in &mut self.members {
            let _ = member.child.kill();
        }
        for member in &mut self.members {
            let _ = member.child.wait();
        }
    }
}

impl Member {
    fn start(program: &Path, order: &Order) -> Result<Self, WorkerPoolError> {
        let name = || order.name.clone();
        let json = serde_json::to_string(order).unwrap_or_default();
        let mut command = Command::new(program);
        command.args(["sched-task", &json]).stdin(Stdio::piped()).stdout(Stdio::piped());
        process::tie_to_us(&mut command);
        let mut child =
            command.spawn().map_err(|source| WorkerPoolError::Start { name: name(), source })?;
        let stdout = child.stdout.take();
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            if let Some(out) = stdout {
                let _ = BufReader::new(out).read_line(&mut line);
            }
            let _ = send.send(line);
        });
        let line = receive.recv_timeout(READY_TIMEOUT).unwrap_or_default();
        let mut member = Self { child, tid: 0, notes: Vec::new() };
        let end = |mut member: Self| {
            let _ = member.child.kill();
            let _ = member.child.wait();
        };
        match line.trim().split_once(' ') {
            Some(("ready", rest)) => {
                let (tid, notes) = rest.split_once(' ').unwrap_or((rest, ""));
                member.tid = tid.parse().unwrap_or(0);
                member.notes.extend((!notes.is_empty()).then(|| notes.to_owned()));
                Ok(member)
            }
            Some((refused @ ("refused" | "failed"), reason)) => {
                end(member);
                let policy = refused == "refused";
                Err(WorkerPoolError::Refused { name: name(), reason: reason.to_owned(), policy })
            }
            _ => {
                end(member);
                Err(WorkerPoolError::Silent { name: name() })
            }
        }
    }
}
