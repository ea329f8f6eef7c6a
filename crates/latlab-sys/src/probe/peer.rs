//! The other process of a probe: forked, placed, counted, and never left behind.
//!
//! A peer dies with the measuring process (PR_SET_PDEATHSIG), is killed when it
//! is dropped, and is in the process group that the runner kills after every
//! trial: three ways out, so that no spinning orphan survives any of them.

use super::{Calling, ParamSpec, ProbeError, Setting};
use crate::policy;
use latlab_model::finding::{Note, Quantity};
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::Policy;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io;

/// Where the second process runs.
pub const PLACE: ParamSpec = ParamSpec {
    name: "place",
    what: "same CPU, other CPU, sibling thread of a core, or free (the scheduler's choice)",
    default: &["same"],
    full: &["same", "other"],
};
/// As whom both run.
pub const CLASS: ParamSpec = ParamSpec {
    name: "class",
    what: "scheduling class: other or fifo",
    default: &["other"],
    full: &[],
};
/// The same, with both in the full suite.
pub const BOTH_CLASSES: ParamSpec = ParamSpec { full: &["other", "fifo"], ..CLASS };

/// Priority of SCHED_FIFO probes: above ordinary tasks, below threaded interrupts (50).
const PRIORITY: u32 = 40;

/// CPU time that a SCHED_FIFO process may use without ever blocking, µs; a batch is a thousandth of it.
const RT_LIMIT_US: u64 = 400_000;

/// CPUs and scheduling class of both processes: of this one at once, of the peer when it is forked.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    peer: Vec<CpuId>,
    /// Whether both are under SCHED_FIFO.
    pub fifo: bool,
    /// Whether both are bound to one CPU, so that every hand-over is a switch there.
    pub one_cpu: bool,
}

impl Placement {
    /// Reads `place` and `class` (where the probe has them) and placement this process.
    ///
    /// # Errors
    /// When there is no such CPU, or SCHED_FIFO is not permitted.
    pub fn take(setting: &Setting) -> Result<Self, ProbeError> {
        let here = setting.cpu.map(CpuId);
        let bound = |cpus: Vec<CpuId>| Placement { peer: cpus, fifo: false, one_cpu: false };
        let mut placement = match (setting.text("place"), here) {
            ("free", _) | ("", None) => {
                policy::bind(&setting.allowed).calling("sched_setaffinity")?;
                bound(setting.allowed.clone())
            }
            ("same" | "", Some(cpu)) => Placement { one_cpu: true, ..bound(vec![cpu]) },
            ("same", None) => {
                let cpu = *setting.allowed.last().ok_or_else(no_cpu)?;
                policy::bind(&[cpu]).calling("sched_setaffinity")?;
                Placement { one_cpu: true, ..bound(vec![cpu]) }
            }
            (place @ ("other" | "sibling"), here) => {
                let cpu = here.or(setting.allowed.last().copied()).ok_or_else(no_cpu)?;
                policy::bind(&[cpu]).calling("sched_setaffinity")?;
                bound(vec![second_cpu(cpu, &setting.allowed, place == "sibling")?])
            }
            _ => return Err(setting.bad("place", "same, other, sibling or free")),
        };
        placement.fifo = match setting.text("class") {
            "other" | "" => false,
            "fifo" => true,
            _ => return Err(setting.bad("class", "other or fifo")),
        };
        placement.enter()?;
        Ok(placement)
    }

    /// Both on one CPU under SCHED_FIFO, for what makes sense in no other way.
    ///
    /// # Errors
    /// As [`Placement::take`].
    pub fn take_fifo(setting: &Setting) -> Result<Self, ProbeError> {
        let mut setting = setting.clone();
        setting.params.insert("place".into(), "same".into());
        setting.params.insert("class".into(), "fifo".into());
        Self::take(&setting)
    }

    /// The CPU of the peer, where it is bound to one.
    pub fn cpu(&self) -> Option<u32> {
        match self.peer[..] {
            [cpu] => Some(cpu.0),
            _ => None,
        }
    }

    /// What a reader of the figure must know.
    pub fn note(&self) -> Option<Note> {
        (self.peer.len() > 1).then(|| Note::new("probe.placed-by-scheduler"))
    }

    fn enter(&self) -> Result<(), ProbeError> {
        if !self.fifo {
            return Ok(());
        }
        // The kernel ends a task that runs this long without blocking: nothing of ours can take a
        // board's only CPU away, whatever goes wrong.
        let limit = Some(RT_LIMIT_US);
        let limit = rustix::process::Rlimit { current: limit, maximum: limit };
        rustix::process::setrlimit(rustix::process::Resource::Rttime, limit)
            .calling("setrlimit(RLIMIT_RTTIME)")?;
        policy::set(Policy::Fifo, PRIORITY, policy::Budget::default()).map_err(|e| {
            let note = Note::new("probe.no-realtime").value("error", e.to_string());
            ProbeError::Unavailable(note)
        })
    }
}

fn no_cpu() -> ProbeError {
    ProbeError::unavailable("probe.no-cpu")
}

/// Another CPU: of the same core for a sibling, of another core otherwise.
fn second_cpu(cpu: CpuId, allowed: &[CpuId], sibling: bool) -> Result<CpuId, ProbeError> {
    let path = format!("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu.0);
    let list = std::fs::read_to_string(path).unwrap_or_default();
    let siblings = latlab_model::cpulist::parse(&list).unwrap_or_default();
    let fits = |c: &&CpuId| **c != cpu && siblings.contains(&c.0) == sibling;
    allowed.iter().rev().find(fits).copied().ok_or_else(|| {
        ProbeError::Unavailable(match sibling {
            true => Note::new("probe.no-sibling").value("cpu", Quantity::Cpu(cpu.0)),
            false => Note::new("probe.no-second-core"),
        })
    })
}

/// A forked process.
#[derive(Debug)]
pub struct Peer {
    pid: Pid,
}

impl Peer {
    /// Forks; the child takes its seat, runs `body` and exits.
    ///
    /// # Errors
    /// When there can be no more processes, naming the limit.
    pub fn fork(placement: &Placement, body: impl FnOnce()) -> Result<Self, ProbeError> {
        // SAFETY: a measuring process has one thread when it sets a probe up, so the child may do anything.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            crate::process::die_with_parent();
            // The parent may have died before the line above.
            if std::os::unix::process::parent_id() != 1 && Self::seat(placement).is_ok() {
                body();
            }
            // SAFETY: _exit(2) ends the child without running the parent's destructors.
            unsafe { libc::_exit(0) };
        }
        match (pid > 0).then(|| Pid::from_raw(pid)).flatten() {
            Some(pid) => Ok(Self { pid }),
            None => Err(fork_error(io::Error::last_os_error())),
        }
    }

    fn seat(placement: &Placement) -> Result<(), ProbeError> {
        policy::bind(&placement.peer).calling("sched_setaffinity")?;
        placement.enter()
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Context switches that it has made so far; `None` when /proc does not say.
    pub fn switches(&self) -> Option<u64> {
        let path = format!("/proc/{}/status", self.pid.as_raw_nonzero());
        let status = std::fs::read_to_string(path).ok()?;
        let of = |key: &str| -> Option<u64> {
            status.lines().find_map(|l| l.strip_prefix(key))?.trim().parse().ok()
        };
        Some(of("voluntary_ctxt_switches:")? + of("nonvoluntary_ctxt_switches:")?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// EAGAIN says "try again"; what is meant is a limit.
pub fn fork_error(error: io::Error) -> ProbeError {
    if error.raw_os_error() == Some(libc::EAGAIN) {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nproc).current;
        let note = Note::new("probe.process-limit").value_if("limit", limit.map(Quantity::Count));
        return ProbeError::Unavailable(note);
    }
    ProbeError::Call { call: "fork".into(), source: error }
}
