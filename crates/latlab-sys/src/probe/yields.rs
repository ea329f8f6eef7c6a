//! Two tasks of one CPU and one real-time priority that give way to each other:
//! by `sched_yield`, and by sleeping.
//!
//! Both peers hold a CPU under SCHED_FIFO while a batch runs. Between batches
//! they wait on a futex, so that everybody else gets the CPU; a limit on real-time
//! CPU time (RLIMIT_RTTIME) ends a task that does not come to wait.

use super::peer::{Peer, Placement};
use super::shared::SharedPage;
use super::{Calling, Probe, ProbeError, Setting, Spec};
use latlab_model::finding::Note;
use rustix::thread::futex;
use std::sync::atomic::Ordering;

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new(
        "ctx.yield",
        "one switch: sched_yield between two SCHED_FIFO tasks of one CPU, less the call",
        "",
        |s| Turns::boxed(s, Way::Yield),
    ),
    Spec::new(
        "ctx.nanosleep",
        "waking from a sleep of 10 µs while another task does the same (biased; no switch alone)",
        "",
        |s| Turns::boxed(s, Way::Sleep),
    ),
];

/// Long enough that the task really sleeps: a timer that has expired before the task is off the
/// CPU (as with a sleep of 0 or 1 ns on today's kernels) makes no switch at all.
const SLEEP_NS: libc::c_long = 10_000;

/// A batch has some hundred turns. A peer that is never told to stop ends itself: on a CPU that
/// it holds under SCHED_FIFO nobody else might come to do it.
const TURNS_MAX: u32 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By `sched_yield`.
    Yield,
    /// By a short sleep.
    Sleep,
}

impl Way {
    #[inline]
    fn give(self) -> Result<(), ProbeError> {
        match self {
            Self::Yield => {
                // SAFETY: sched_yield(2) has no arguments and cannot fail.
                unsafe { libc::sched_yield() };
                Ok(())
            }
            Self::Sleep => {
                let time = libc::timespec { tv_sec: 0, tv_nsec: SLEEP_NS };
                let none = std::ptr::null_mut();
                // SAFETY: a whole timespec that outlives the call; the rest is not asked for.
                let r = unsafe { libc::nanosleep(&time, none) };
                super::syscall::check("nanosleep", r.into()).map(drop)
            }
        }
    }
}

/// The pair.
pub(super) struct Turns {
    way: Way,
    page: SharedPage,
    peer: Peer,
    cpu: u32,
}

impl Turns {
    fn boxed(setting: &Setting, way: Way) -> Result<Box<dyn Probe>, ProbeError> {
        Ok(Box::new(Self::new(setting, way)?))
    }

    /// This task and the other.
    pub(super) fn pair(&self) -> [i32; 2] {
        [std::process::id() as i32, self.peer.pid()]
    }

    /// The CPU that they share.
    pub(super) fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Places both processes.
    ///
    /// # Errors
    /// Unavailable without the right to SCHED_FIFO.
    pub(super) fn new(setting: &Setting, way: Way) -> Result<Self, ProbeError> {
        let placement = Placement::take_fifo(setting)?;
        let cpu = placement.cpu().unwrap_or_default();
        let page = SharedPage::new()?;
        let (go, here) = (&page.line(0).word, &page.line(1).word);
        let peer = Peer::fork(&placement, || {
            loop {
                while go.load(Ordering::Acquire) == 0 {
                    let _ = futex::wait(go, futex::Flags::empty(), 0, None);
                }
                here.store(1, Ordering::Release);
                let mut given = 0;
                while go.load(Ordering::Acquire) != 0 {
                    given += 1;
                    if given > TURNS_MAX || way.give().is_err() {
                        return;
                    }
                }
                here.store(0, Ordering::Release);
            }
        })?;
        Ok(Self { way, page, peer, cpu })
    }

    fn set_running(&self, running: bool) -> Result<(), ProbeError> {
        let word = &self.page.line(0).word;
        word.store(u32::from(running), Ordering::Release);
        if running {
            futex::wake(word, futex::Flags::empty(), 1).calling("futex")?;
        }
        Ok(())
    }

    fn wait_until(&self, there: u32) -> Result<(), ProbeError> {
        // The peer says in line 1 whether it is in its loop. One sleep lets it run.
        for _ in 0..2000 {
            if self.page.line(1).word.load(Ordering::Acquire) == there {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        Err(ProbeError::failed("probe.peer-not-ready"))
    }
}

impl Probe for Turns {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            self.way.give()?;
        }
        Ok(())
    }

    fn before_batch(&mut self) -> Result<(), ProbeError> {
        self.set_running(true)?;
        self.wait_until(1)
    }

    fn after_batch(&mut self) -> Result<(), ProbeError> {
        self.set_running(false)?;
        self.wait_until(0)
    }

    fn baseline(&mut self, n: u64) -> Result<bool, ProbeError> {
        if self.way == Way::Sleep {
            return Ok(false);
        }
        // The peer is off its loop: a yield comes back to the caller. Two, for there are two sides.
        for _ in 0..2 * n {
            self.way.give()?;
        }
        Ok(true)
    }

    fn per_turn(&self) -> f64 {
        if self.way == Way::Yield { 2.0 } else { 1.0 }
    }

    fn value(&self, ns: f64) -> f64 {
        if self.way == Way::Yield { ns } else { ns - SLEEP_NS as f64 }
    }

    fn peer_switches(&mut self) -> Option<u64> {
        self.peer.switches()
    }

    fn partner(&self) -> Option<i32> {
        Some(self.peer.pid())
    }

    fn switches_expected(&self) -> f64 {
        if self.way == Way::Yield { 1.0 } else { 2.0 }
    }

    fn switches_must_match(&self) -> bool {
        self.way == Way::Yield
    }

    fn is_fifo(&self) -> bool {
        true
    }

    fn notes(&self) -> Vec<Note> {
        match self.way {
            Way::Yield => vec![Note::new("probe.switch-only")],
            Way::Sleep => vec![Note::new("probe.timer-included")],
        }
    }
}
