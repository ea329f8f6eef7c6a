//! Why a task's own code took longer: more work, a slower clock, or more cycles for the same instructions.
//!
//! The time of an activation is the product `t = I · (C / I) · (t / C)` of its instructions I, the cycles of an
//! instruction and the time of a cycle, so that the logarithms of the three ratios, late against usual, add up to that
//! of the times: their shares are exact and leave no rest. A factor with seven tenths of it is the reason; what it stands
//! for is then looked at in the other counters. Nothing is named that does not separate late activations from the
//! others, and where a counter is missing that would decide it, the result says so.

mod counted;

pub use counted::{Counted, assign};

use super::activations::Late;
use latlab_model::finding::Confidence;
use latlab_model::latency::{
    ActivationWork, Execution, ExecutionDoubt, ExecutionKind, ExecutionShares, Mechanism,
    WhyResult, WorkCounts,
};
use latlab_stats::quantile::median;
use std::collections::BTreeMap;

/// A factor with this share of the additional time is the reason: the others together are less than half of it.
const MOST: f64 = 0.7;
/// A factor below this share is not named in a mixture.
const PART: f64 = 0.2;
/// Fewer others are no comparison.
const OTHERS: usize = 5;
/// A factor differs in late activations: Cliff's delta. 0.6: of five pairs four are in the right order.
const SEPARATES: f64 = 0.6;
/// An activation took longer: 5 %, above what the counters' own reading adds to a short one.
const LONGER: f64 = 1.05;
/// Cycles at most that a cache miss can cost: memory of a remote node under load, some 300 ns at 3 GHz.
const MISS_CYCLES: f64 = 1_000.0;
/// Instructions at least and at most that the kernel needs for a page fault: an existing page is mapped in a few
/// hundred, a huge one is cleared in some 100 000.
const FAULT: (f64, f64) = (200.0, 200_000.0);
/// The CPU executed nothing for this share of the additional time, by its reference cycles.
const HALF: f64 = 0.5;
/// Enough of both for high confidence.
const MANY: (usize, usize) = (3, 20);

/// Tells, for each cause that is the task's own execution, why that took longer.
pub fn tell(result: &mut WhyResult, late: Late) {
    let Some(work) = &result.work else { return };
    let context = &result.system_context;
    let varied = |(low, high): (u64, u64)| low as f64 * LONGER < high as f64;
    let clock_changes = context.hypervisor.is_none() && context.khz.is_some_and(varied);
    let known: BTreeMap<u64, &ActivationWork> =
        work.activations.iter().map(|a| (a.intended_ns, a)).collect();
    let is_late = |a: &ActivationWork| match late {
        Late::Never => false,
        Late::Response(limit) => a.response_ns > limit.0,
        Late::Start(limit) => a.start_ns > limit.0,
    };
    let on_time: Vec<WorkCounts> =
        work.activations.iter().filter(|a| !is_late(a)).map(|a| a.counts).collect();
    let windows = &result.windows;
    for cause in &mut result.explanation.causes {
        if cause.mechanism != Mechanism::Execution {
            continue;
        }
        let intended = cause.part_of.iter().filter_map(|&i| Some(windows.get(i)?.intended_ns));
        let late: Vec<WorkCounts> =
            intended.filter_map(|ns| known.get(&ns)).map(|a| a.counts).collect();
        let found = judge(&late, &on_time, clock_changes);
        let is_named = !matches!(found.kind, ExecutionKind::Inconclusive);
        let many = late.len() >= MANY.0 && on_time.len() >= MANY.1;
        if is_named && !many {
            cause.confidence = cause.confidence.min(Confidence::Medium);
        }
        cause.execution = Some(found);
    }
}

/// What the counters of late activations say against those of others. `clock_changes`: the frequency of a machine
/// that is not virtual was seen to change meanwhile.
pub fn judge(late: &[WorkCounts], on_time: &[WorkCounts], clock_changes: bool) -> Execution {
    let (of_late, usual) = (medians(late), medians(on_time));
    let result = |kind, doubt, shares| Execution {
        kind,
        doubt,
        shares,
        late: of_late,
        on_time: usual,
        late_counted: late.len(),
        on_time_counted: on_time.len(),
    };
    let doubt = |doubt, shares| result(ExecutionKind::Inconclusive, Some(doubt), shares);
    let longer: Vec<WorkCounts> = late
        .iter()
        .copied()
        .filter(|l| l.time_ns as f64 >= LONGER * usual.time_ns as f64)
        .collect();
    if 2 * longer.len() < late.len().max(1) || on_time.len() < OTHERS || usual.time_ns == 0 {
        return doubt(ExecutionDoubt::TooFew, None);
    }
    let c = Contrast { late: &longer, on_time, late_median: medians(&longer), usual };
    match (positive(usual.instructions), positive(usual.cycles)) {
        (None, None) => doubt(ExecutionDoubt::NoCounters, None),
        (Some(_), None) => {
            let grew = c.share_of(&|w| count(w.instructions));
            if grew < MOST {
                return doubt(ExecutionDoubt::NoCycles, None);
            }
            match c.work() {
                Ok(kind) => result(kind, None, None),
                Err(why) => doubt(why, None),
            }
        }
        (None, Some(_)) => match c.share_of(&|w| c_time(w)) {
            share if share >= MOST => match c.clock(clock_changes) {
                Ok(kind) => result(kind, None, None),
                Err(why) => doubt(why, None),
            },
            _ => doubt(ExecutionDoubt::NoInstructions, None),
        },
        (Some(_), Some(_)) => {
            let shares = c.shares();
            match c.named(shares, clock_changes) {
                Ok(kind) => result(kind, None, Some(shares)),
                Err(why) => doubt(why, Some(shares)),
            }
        }
    }
}

/// A count that was made, and is not 0.
fn positive(count: Option<u64>) -> Option<u64> {
    count.filter(|n| *n > 0)
}

fn count(count: Option<u64>) -> f64 {
    count.unwrap_or(0) as f64
}

/// Time of a cycle, ns.
fn c_time(w: &WorkCounts) -> f64 {
    w.time_ns as f64 / count(w.cycles).max(1.0)
}

/// Cycles of an instruction.
fn per_instruction(w: &WorkCounts) -> f64 {
    count(w.cycles) / count(w.instructions).max(1.0)
}

fn misses_per_instruction(w: &WorkCounts) -> f64 {
    count(w.cache_misses) / count(w.instructions).max(1.0)
}

/// Median of each count.
fn medians(all: &[WorkCounts]) -> WorkCounts {
    let of = |f: &dyn Fn(&WorkCounts) -> u64| {
        median(&all.iter().map(|w| f(w) as f64).collect::<Vec<_>>()).unwrap_or(0.0).round() as u64
    };
    let each = |f: &dyn Fn(&WorkCounts) -> Option<u64>| {
        let known = !all.is_empty() && all.iter().all(|w| f(w).is_some());
        known.then(|| of(&|w| f(w).unwrap_or(0)))
    };
    WorkCounts {
        time_ns: of(&|w| w.time_ns),
        counted_ns: of(&|w| w.counted_ns),
        instructions: each(&|w| w.instructions),
        user_instructions: each(&|w| w.user_instructions),
        cycles: each(&|w| w.cycles),
        reference_cycles: each(&|w| w.reference_cycles),
        cache_misses: each(&|w| w.cache_misses),
        page_faults: each(&|w| w.page_faults),
    }
}

/// A figure of an activation.
type Figure<'a> = &'a dyn Fn(&WorkCounts) -> f64;

/// Late activations that took longer, against others.
struct Contrast<'a> {
    late: &'a [WorkCounts],
    on_time: &'a [WorkCounts],
    late_median: WorkCounts,
    usual: WorkCounts,
}

impl Contrast<'_> {
    /// The share of the additional time that is in proportion to `of`, weighted by that time.
    fn share_of(&self, of: Figure<'_>) -> f64 {
        let usual = of(&self.usual).max(f64::MIN_POSITIVE);
        let (mut sum, mut weight) = (0.0, 0.0);
        for w in self.late {
            let excess = w.time_ns.saturating_sub(self.usual.time_ns) as f64;
            let longer = (w.time_ns as f64 / self.usual.time_ns as f64).ln();
            sum += excess * (of(w) / usual).max(f64::MIN_POSITIVE).ln() / longer;
            weight += excess;
        }
        if weight > 0.0 { sum / weight } else { 0.0 }
    }

    fn shares(&self) -> ExecutionShares {
        ExecutionShares {
            instructions: self.share_of(&|w| count(w.instructions)),
            cycles_per_instruction: self.share_of(&per_instruction),
            clock: self.share_of(&c_time),
        }
    }

    /// Cliff's delta of `of`: from -1 to 1.
    fn delta(&self, of: Figure<'_>) -> f64 {
        let mut others: Vec<f64> = self.on_time.iter().map(of).collect();
        others.sort_by(f64::total_cmp);
        let one = |w: &WorkCounts| {
            let value = of(w);
            let below = others.partition_point(|o| *o < value);
            let above = others.len() - others.partition_point(|o| *o <= value);
            below as f64 - above as f64
        };
        let pairs = (self.late.len() * others.len()).max(1) as f64;
        self.late.iter().map(one).sum::<f64>() / pairs
    }

    fn separates(&self, of: Figure<'_>) -> bool {
        self.delta(of) >= SEPARATES
    }

    fn named(
        &self,
        shares: ExecutionShares,
        clock_changes: bool,
    ) -> Result<ExecutionKind, ExecutionDoubt> {
        if shares.instructions >= MOST {
            return self.work();
        }
        if shares.cycles_per_instruction >= MOST {
            return self.stalls();
        }
        if shares.clock >= MOST {
            return self.clock(clock_changes);
        }
        let factors: [(f64, Figure<'_>); 3] = [
            (shares.instructions, &|w| count(w.instructions)),
            (shares.cycles_per_instruction, &per_instruction),
            (shares.clock, &c_time),
        ];
        let parts = factors.iter().filter(|f| f.0 >= PART);
        match parts.clone().count() >= 2 && parts.clone().all(|f| self.separates(f.1)) {
            true => Ok(ExecutionKind::Mixed),
            false => Err(ExecutionDoubt::NotSeparated),
        }
    }

    /// More instructions: whose?
    fn work(&self) -> Result<ExecutionKind, ExecutionDoubt> {
        if !self.separates(&|w| count(w.instructions)) {
            return Err(ExecutionDoubt::NotSeparated);
        }
        let more = |of: &dyn Fn(&WorkCounts) -> Option<u64>| {
            count(of(&self.late_median)) - count(of(&self.usual))
        };
        let all = more(&|w| w.instructions).max(1.0);
        if self.usual.user_instructions.is_none() {
            return Ok(ExecutionKind::MoreWork);
        }
        let in_kernel = all - more(&|w| w.user_instructions);
        if in_kernel < HALF * all {
            return Ok(ExecutionKind::MoreWork);
        }
        let faults = more(&|w| w.page_faults);
        let is_faults = faults >= 1.0
            && (FAULT.0..=FAULT.1).contains(&(in_kernel / faults))
            && self.separates(&|w| count(w.page_faults));
        Ok(if is_faults { ExecutionKind::PageFaults } else { ExecutionKind::KernelWork })
    }

    /// More cycles for an instruction: cache misses, where there are enough more of them.
    fn stalls(&self) -> Result<ExecutionKind, ExecutionDoubt> {
        if !self.separates(&per_instruction) {
            return Err(ExecutionDoubt::NotSeparated);
        }
        // Nothing missed at all: the counter is there, and counts nothing.
        if self.usual.cache_misses.is_none() || count(self.late_median.cache_misses) == 0.0 {
            return Err(ExecutionDoubt::NoCacheMisses);
        }
        let same = count(self.late_median.instructions);
        let cycles = (per_instruction(&self.late_median) - per_instruction(&self.usual)) * same;
        let misses = (misses_per_instruction(&self.late_median)
            - misses_per_instruction(&self.usual))
            * same;
        match misses * MISS_CYCLES >= HALF * cycles && self.separates(&misses_per_instruction) {
            true => Ok(ExecutionKind::CacheMisses),
            false => Err(ExecutionDoubt::OtherStalls),
        }
    }

    /// Fewer cycles in a second: the clock's frequency, or a CPU that did not run.
    fn clock(&self, clock_changes: bool) -> Result<ExecutionKind, ExecutionDoubt> {
        if !self.separates(&c_time) {
            return Err(ExecutionDoubt::NotSeparated);
        }
        if positive(self.usual.reference_cycles).is_none() {
            return match clock_changes {
                true => Ok(ExecutionKind::SlowerClock),
                false => Err(ExecutionDoubt::ClockOrStopped),
            };
        }
        let stopped = self.share_of(&|w| w.time_ns as f64 / count(w.reference_cycles).max(1.0));
        match stopped {
            s if s >= MOST => Ok(ExecutionKind::NotExecuted),
            s if s <= 1.0 - MOST => Ok(ExecutionKind::SlowerClock),
            _ => Ok(ExecutionKind::Mixed),
        }
    }
}

#[cfg(test)]
mod tests;
