//! The latency limit over which a wake-up is late, where the user gives none.

use crate::cli::why::Config;
use latlab_model::finding::{Note, Quantity};
use latlab_stats::histogram::Histogram;

/// Late wake-ups that `--limit auto` expects in the hunt.
const EXPECTED: f64 = 25.0;

/// A captured latency range, ns: over the first, up to the second.
pub(super) type Range = (u64, u64);

/// The limit, ns, over which as many of the wake-ups are to be expected as make a cause sure, and how it
/// came about.
pub(super) fn auto_limit(asked: &Config, untraced: &Histogram) -> (u64, Note) {
    let measure = &asked.wakeup.measure;
    let per_thread = asked.duration_ns as f64 / measure.interval_ns.max(1) as f64;
    let expected = per_thread * measure.threads.len().max(1) as f64;
    let q = (1.0 - EXPECTED / expected.max(EXPECTED * 4.0)).clamp(0.9, 0.999_99);
    let median = untraced.quantile(0.5).unwrap_or(0);
    let tail = untraced.quantile(q).unwrap_or(0);
    let limit = tail.max(2 * median).max(1_000);
    let reason = Note::new("why.limit-auto")
        .value("quantile", Quantity::Ratio(q))
        .value("wakeups", Quantity::Count(untraced.count));
    (limit, reason)
}

/// A limit that was found before the hunt and is never reached in it, on a machine that was busier
/// then (it had just been started): at each quarter of the hunt it is set to what was seen.
#[derive(Debug)]
pub(super) struct Lowering {
    /// Largest latency of each look, ns.
    seen: Vec<u64>,
    /// Below this nothing is late, ns.
    least: u64,
    quarter: u32,
}

impl Lowering {
    pub(super) fn new(least: u64) -> Self {
        Self { seen: Vec::new(), least: least.max(1_000), quarter: 1 }
    }

    /// A new limit, ns, once a quarter: what as many looks of the rest will be over as are expected.
    pub(super) fn look(&mut self, done: f64, recent_max_ns: u64) -> Option<u64> {
        self.seen.push(recent_max_ns);
        if done * 4.0 < f64::from(self.quarter) || self.quarter > 3 {
            return None;
        }
        let wanted = EXPECTED * done / (1.0 - done).max(0.25);
        self.quarter = (done * 4.0) as u32 + 1;
        self.seen.sort_unstable_by(|a, b| b.cmp(a));
        let at = (wanted as usize).min(self.seen.len() / 2);
        self.seen.get(at).map(|&ns| ns.saturating_sub(1).max(self.least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_nothing_reaches_is_lowered_to_what_is_seen() {
        let mut lowering = Lowering::new(20_000);
        let mut lowered = Vec::new();
        for tick in 0..100_u32 {
            // One look in ten sees 70 to 79 µs, the others 30.
            let seen = if tick % 10 == 0 { 70_000 + u64::from(tick) } else { 30_000 };
            lowered.extend(lowering.look(f64::from(tick) / 100.0, seen).map(|ns| (tick, ns)));
        }
        assert_eq!(lowered.len(), 3, "{lowered:?}");
        assert_eq!(lowered[0].0, 25);
        // A quarter of the time saw few: the next of the rest are to be expected below.
        assert!(lowered.iter().all(|l| (29_999..70_100).contains(&l.1)), "{lowered:?}");
        let mut idle = Lowering::new(20_000);
        assert_eq!(idle.look(0.5, 9_000), Some(20_000), "never below what is usual");
    }
}
