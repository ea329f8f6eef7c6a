//! Steal time and system-management interrupts: did they rise with late wake-ups more often than otherwise?

use latlab_model::latency::{CounterReadings, Window};
use latlab_stats::discrete::binomial_tail;

/// Largest p value of an actor or a counter that is not a coincidence.
pub(super) const BY_CHANCE: f64 = 0.01;

/// Counters that rose with late wake-ups more often than otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// Chance of as many rises of steal time; `None`: not known.
    pub(super) steal_p: Option<f64>,
    /// The same of system-management interrupts.
    pub(super) smi_p: Option<f64>,
}

impl Counted {
    /// Of these windows, each of a capture with two readings of its own.
    pub(super) fn of<'a>(
        windows: impl Iterator<Item = &'a Window> + Clone,
        readings: Option<CounterReadings>,
    ) -> Self {
        let Some(readings) = readings else { return Self::default() };
        let p = |count: &dyn Fn(&Window) -> Option<u64>, rose: u64| {
            let known = windows.clone().filter(|w| count(w).is_some()).count();
            let seen = windows.clone().filter(|w| count(w) > Some(0)).count();
            // With one imagined rise, so that what was never seen is not impossible.
            let chance = (rose as f64 + 1.0) / (readings.intervals as f64 + 2.0);
            (known > 0).then(|| binomial_tail(known, seen, chance))
        };
        Self { steal_p: p(&|w| w.steal_ns, readings.steal), smi_p: p(&|w| w.smi, readings.smi) }
    }

    /// Whether a counter rose with this window, by chance or not.
    pub(super) fn rose(w: &Window) -> bool {
        w.steal_ns > Some(0) || w.smi > Some(0)
    }

    /// Whether a counter tells of a stall in this window.
    pub(super) fn tells(self, w: &Window) -> bool {
        let is = |p: Option<f64>, count: Option<u64>| {
            p.is_some_and(|p| p < BY_CHANCE) && count > Some(0)
        };
        is(self.steal_p, w.steal_ns) || is(self.smi_p, w.smi)
    }
}
