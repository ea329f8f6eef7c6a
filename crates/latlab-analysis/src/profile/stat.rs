//! What is counted of one function.

use latlab_model::event::Symbol;
use latlab_stats::histogram::{Histogram, bucket_low};

/// Whether a function waits for work on an idle CPU, by the names of the kernel's drivers.
pub fn is_idle(name: &str) -> bool {
    ["idle", "safe_halt", "cpu_suspend", "cpu_startup_entry"].iter().any(|part| name.contains(part))
}

/// Whether the own time of a function is that of a switch to other tasks and back.
pub fn is_schedule(name: &str) -> bool {
    matches!(name, "schedule" | "__schedule" | "schedule_idle" | "schedule_rtlock")
        || name.starts_with("preempt_schedule")
}

/// Slots of an octave: a value is known to 0.8 %.
const SLOTS_BITS: u32 = 6;
/// Different callers that are kept; calls of further ones count without a caller.
const CALLERS_MAX: usize = 64;

fn slot(value: u64) -> usize {
    if value < 2 << SLOTS_BITS {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - SLOTS_BITS;
    ((u64::from(shift) << SLOTS_BITS) + (value >> shift)) as usize
}

/// The middle of a slot.
fn middle(slot: usize) -> u64 {
    let slot = slot as u64;
    if slot < 2 << SLOTS_BITS {
        return slot;
    }
    let shift = (slot >> SLOTS_BITS) - 1;
    ((slot - (shift << SLOTS_BITS)) << shift) + (1 << shift) / 2
}

/// Lengths of calls, in slots that grow with the longest.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    slots: Vec<u32>,
    pub count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Lengths {
    #[inline]
    pub fn add(&mut self, value: u64) {
        let at = slot(value);
        if at >= self.slots.len() {
            self.slots.resize(at + 1, 0);
        }
        self.slots[at] = self.slots[at].saturating_add(1);
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(value);
        self.count += 1;
    }

    pub fn histogram(&self) -> Histogram {
        let used = self.slots.iter().enumerate().filter(|(_, n)| **n > 0);
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for (at, n) in used {
            let low = bucket_low(middle(at).clamp(self.min, self.max));
            match buckets.last_mut() {
                Some((last, count)) if *last == low => *count += u64::from(*n),
                _ => buckets.push((low, u64::from(*n))),
            }
        }
        let count = buckets.iter().map(|b| b.1).sum();
        Histogram { count, min: self.min, max: self.max, sum: self.sum as f64, buckets }
    }
}

/// Calls by one function.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallsBy {
    pub by: Symbol,
    pub count: u64,
    pub ns: u64,
}

/// Callers of a function.
#[derive(Clone, Debug, Default)]
pub struct Callers(pub Vec<CallsBy>);

impl Callers {
    #[inline]
    pub fn add(&mut self, by: Symbol, ns: u64) {
        let found = match self.0.iter().position(|c| c.by == by) {
            Some(at) => at,
            None if self.0.len() < CALLERS_MAX => {
                self.0.push(CallsBy { by, ..CallsBy::default() });
                self.0.len() - 1
            }
            None => return,
        };
        self.0[found].count += 1;
        self.0[found].ns = self.0[found].ns.saturating_add(ns);
        // The frequent ones are found first.
        if found > 0 && self.0[found].count > self.0[found - 1].count {
            self.0.swap(found, found - 1);
        }
    }
}

/// One function, from each kind of event.
#[derive(Clone, Debug, Default)]
pub struct Stat {
    /// Whether it is one of the scheduler's, once that was asked.
    pub switches: Option<bool>,
    pub lengths: Lengths,
    pub total_ns: u64,
    pub self_ns: u64,
    pub off_ns: u64,
    pub callers: Callers,
    /// Calls of the tracer `function`.
    pub calls: u64,
    pub call_callers: Callers,
    /// Stacks that contain it, and in which it is innermost.
    pub stacks: u64,
    pub innermost: u64,
    pub stack_callers: Callers,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_keep_extremes_and_a_median_within_a_slot() {
        let mut lengths = Lengths::default();
        [28_117_000, 3_000, 3_100, 3_050, 2_990].into_iter().for_each(|v| lengths.add(v));
        let h = lengths.histogram();
        assert_eq!((h.count, h.min, h.max), (5, 2_990, 28_117_000));
        let median = h.quantile(0.5).unwrap() as f64;
        assert!((median / 3_050.0 - 1.0).abs() < 0.016, "{median}");
        assert!(h.buckets.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn a_slot_contains_its_middle() {
        for value in (0..40).map(|n| 3u64.pow(n)) {
            assert_eq!(slot(middle(slot(value))), slot(value), "{value}");
        }
    }
}
