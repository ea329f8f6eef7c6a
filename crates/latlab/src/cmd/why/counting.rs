//! The counters of a program's threads while it is recorded.

use latlab_analysis::latency::activations::from_capture::Thread;
use latlab_analysis::latency::capture::Capture;
use latlab_analysis::latency::execution::{Counted, assign};
use latlab_model::latency::CountedWork;
use latlab_model::units::{Tid, TraceNs};
use latlab_sys::thread_counters::ThreadCounters;

/// Counters, and what they are of the activations found so far.
pub(super) struct Counting {
    /// `None`: spans do not end where a thread leaves its CPU.
    counters: Option<ThreadCounters>,
    counted: Counted,
}

impl Counting {
    /// Of no thread yet.
    pub(super) fn new(activations: bool) -> Self {
        let counters = activations.then(ThreadCounters::default);
        Self { counters, counted: Counted::default() }
    }

    /// Whether threads are counted.
    pub(super) fn is_on(&self) -> bool {
        self.counters.is_some()
    }

    /// Counts these threads from now on.
    pub(super) fn follow(&mut self, tids: &[Tid]) {
        if let Some(counters) = &mut self.counters {
            counters.follow(tids);
        }
    }

    /// Empties the kernel's rings.
    pub(super) fn take(&mut self) {
        if let Some(counters) = &mut self.counters {
            counters.take();
        }
    }

    /// Assigns the readings to activations; those before `needed_from` are not needed any more.
    pub(super) fn assign(&mut self, threads: &[Thread], capture: &Capture, needed_from: TraceNs) {
        let Some(counters) = &mut self.counters else { return };
        counters.take();
        if capture.clock_is_monotonic {
            for thread in threads {
                let works = assign(&thread.jobs, counters.readings(thread.tid));
                self.counted.add(thread.tid, works);
            }
        }
        counters.forget_before(needed_from.0);
    }

    /// What was counted of a thread; `None`: its kind of activations has no counters.
    pub(super) fn of(&self, tid: Tid) -> Option<CountedWork> {
        let counters = self.counters.as_ref()?;
        Some(self.counted.of(tid, counters.error().map(ToString::to_string)))
    }
}
