//! Evidence against a stall in intervals without events: where the interrupt came, and when the delay
//! began. A board leaves both to the analysis of its run on a host.

use super::classify::Judge;
use super::counters::BY_CHANCE;
use super::members::{CONTROLS, Members, Place};
use latlab_model::latency::{Cause, CauseEvidence, Group, Window};
use latlab_stats::discrete::{beta_binomial_tail, binomial_tail};
use std::collections::BTreeMap;

impl Judge<'_> {
    /// Whether a hypervisor may have stopped the machine without a trace: it counts no steal time.
    pub(super) fn is_guest(&self) -> bool {
        let counted =
            self.around.readings.map_or(0, |r| r.steal) + self.around.steal_ns.unwrap_or(0);
        self.around.hypervisor.is_some() && counted == 0
    }

    /// The function of a group's task that most of its interrupts with interrupts-off silence before them
    /// interrupted, and the chance of that many if they came wherever on-time ones interrupt that task,
    /// times the functions that there were to choose from.
    pub(super) fn place(&self, group: &Group, silent: &[usize], of: usize) -> Option<Place> {
        if !cfg!(feature = "host") || group.cause != Cause::InterruptsOff {
            return None;
        }
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for &i in silent {
            if let Some(f) = self.windows[i].interrupted.as_deref().filter(|f| !f.is_empty()) {
                *seen.entry(f).or_default() += 1;
            }
        }
        let choices = seen.len() as f64;
        let (function, hits) = seen.into_iter().max_by_key(|s| s.1)?;
        let known = || self.windows.iter().filter(|w| !w.late && w.interrupted.is_some());
        let there =
            |w: &&Window| w.at_intended == group.who && w.interrupted.as_deref() == Some(function);
        let (n, on_time) = (known().count(), known().filter(there).count());
        let (a, b) = (on_time as f64 + 1.0, (n - on_time) as f64 + 1.0);
        let p = (choices * beta_binomial_tail(of, hits, a, b)).min(1.0);
        (n >= CONTROLS).then(|| Place { function: function.to_owned(), hits, on_time, p })
    }

    /// Of what the events do not distinguish: the function that most of its interrupts came in.
    pub(super) fn place_of_alternatives(&self, m: &Members) -> Option<CauseEvidence> {
        let of_group = |group: &Group| {
            let has = |i: &usize| self.windows[*i].share(group).ns > 0;
            let windows: Vec<usize> = m.excess.keys().copied().filter(has).collect();
            self.place(group, &windows, m.excess.len())
        };
        let most = m.merged.iter().filter_map(of_group).max_by_key(|place| place.hits)?;
        let Place { function, hits, on_time, p } = most;
        Some(CauseEvidence::Place { function, hits, on_time, p })
    }

    /// Whether delays are so much alike that they begin when the timer is due, as the exit from an idle
    /// state does. A stall begins at any time before: what it delays a wake-up by is spread evenly, up to
    /// its length and over at most one interval of the task, unless it keeps step with the task. So far as
    /// the limit lets through, at least a quarter is then in the upper quarter by chance.
    pub(super) fn begins_with_the_interrupt(&self, group: &Group, m: &Members) -> bool {
        if !cfg!(feature = "host") {
            return false;
        }
        let delays: Vec<f64> =
            m.excess.keys().map(|&i| self.windows[i].share(group).ns as f64).collect();
        let interval = self.around.interval_ns.unwrap_or(0) as f64;
        let longest = delays.iter().copied().fold(0.0, f64::max);
        let least = (self.around.limit_ns as f64).max(longest - interval);
        if interval <= 0.0 || least >= longest {
            return false;
        }
        let upper = longest - (longest - least) / 4.0;
        let alike = delays.iter().filter(|d| **d >= upper).count();
        let p = binomial_tail(delays.len() - 1, alike.saturating_sub(1), 0.25);
        let in_step = self.period(m).is_some_and(|(_, jitter)| jitter < interval / 20.0);
        p <= BY_CHANCE && !in_step
    }
}
