//! What theory expects of an experiment, and what was measured.
//!
//! The expectations are those of `sched(7)`: a round-robin task runs for `sched_rr_timeslice_ms`
//! among its equals; a task of higher real-time priority is never kept waiting by a lower one;
//! equals under FIFO do not alternate unless they give the CPU up; fair tasks share by weight
//! (nice 0 is 1024, one step a factor of 1.25); real-time tasks leave what
//! `sched_rt_runtime_us`, or since 6.12 the fair server, keeps for the others; a deadline task
//! gets its runtime in each period.

use super::experiment::{Cell, CellTask};
use super::result::{End, KeptSlice, Schedule, Throttle};
use crate::histogram::Histogram;
use crate::units::format_ns;
use crate::wakeup::Policy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A round-robin slice may differ by this from what the kernel says.
const RR_TOLERANCE: f64 = 0.02;
/// Shares of the CPU may differ by this from the ideal.
const SHARE_TOLERANCE: f64 = 0.02;
/// Throttled time and its period may differ by this from what the kernel says.
const THROTTLE_TOLERANCE: f64 = 0.2;

/// Whether it is as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// As expected.
    Met,
    /// Otherwise; `how` says how.
    Deviates,
    /// It could not be decided; `how` says why.
    CannotTell,
}

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Stable name (`rr-slice`).
    pub id: String,
    /// What theory says.
    pub statement: String,
    /// What follows for this experiment.
    pub expected: String,
    /// What was measured.
    pub measured: String,
    /// The verdict.
    pub decision: Decision,
    /// How it deviates, or why it could not be decided.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub how: String,
}

impl Check {
    fn new(id: &str, statement: &str) -> Self {
        Self {
            id: id.into(),
            statement: statement.into(),
            expected: String::new(),
            measured: String::new(),
            decision: Decision::CannotTell,
            how: String::new(),
        }
    }
    fn decide(mut self, met: bool, how: impl Into<String>) -> Self {
        self.decision = if met { Decision::Met } else { Decision::Deviates };
        if !met {
            self.how = how.into();
        }
        self
    }
    fn because(mut self, how: impl Into<String>) -> Self {
        self.how = how.into();
        self
    }
}

/// All that theory says of this experiment. The schedule must have kept the slices of the cell's tasks.
pub fn check(cell: &Cell, schedule: &Schedule) -> Vec<Check> {
    let facts = Facts::of(cell, schedule);
    let mut checks = Vec::new();
    if cell.tasks.iter().all(|t| t.is_rt()) && cell.tasks.len() > 1 {
        let first = cell.tasks[0].priority;
        let equal = cell.tasks.iter().all(|t| t.priority == first);
        let cpu = cell.tasks.iter().all(|t| t.work.is_cpu());
        match (equal, cell.tasks[0].policy) {
            (false, _) => checks.push(unequal(cell, &facts)),
            (true, Policy::Rr) if cpu => checks.push(rr_slice(cell, &facts)),
            (true, Policy::Fifo) => checks.push(fifo_equals(cell, &facts)),
            _ => {}
        }
    }
    if cell.tasks.iter().any(CellTask::is_rt) {
        checks.extend(throttled(cell, schedule));
    }
    checks.extend(fair_shares(cell, &facts));
    checks.extend(fair_lag(cell, &facts));
    checks.extend(asked_slices(cell, &facts));
    checks.extend(deadline(cell, &facts));
    checks.extend(io_gives_up(cell, schedule));
    checks
}

/// Slices of the cell's tasks, by task.
struct Facts<'a> {
    /// Of all of them, by their start.
    all: Vec<&'a KeptSlice>,
    of: Vec<Vec<&'a KeptSlice>>,
    throttles: &'a [Throttle],
    run_ns: Vec<u64>,
    length_ns: u64,
    complete: bool,
}

impl<'a> Facts<'a> {
    fn of(cell: &Cell, schedule: &'a Schedule) -> Self {
        let mut all: Vec<&KeptSlice> =
            schedule.slices.iter().filter(|s| cell.tasks.iter().any(|t| t.tid == s.tid)).collect();
        all.sort_by_key(|s| s.at_ns);
        let of =
            cell.tasks.iter().map(|t| all.iter().copied().filter(|s| s.tid == t.tid).collect());
        let run = |t: &CellTask| schedule.task(t.tid).map_or(0, |l| l.run_ns);
        Self {
            of: of.collect(),
            all,
            throttles: &schedule.throttles,
            run_ns: cell.tasks.iter().map(run).collect(),
            length_ns: schedule.length_ns,
            complete: schedule.more_slices == 0,
        }
    }

    /// How long each task ran until one of the others got the CPU: interruptions and throttling
    /// by third parties do not end a turn. The first and the last are cut by the experiment itself.
    fn turns(&self) -> Vec<u64> {
        let mut turns = Vec::new();
        let mut current: Option<(i32, u64)> = None;
        for slice in &self.all {
            match &mut current {
                Some((tid, ns)) if *tid == slice.tid => *ns += slice.run_ns,
                _ => {
                    turns.extend(current.map(|(_, ns)| ns));
                    current = Some((slice.tid, slice.run_ns));
                }
            }
        }
        if turns.is_empty() { turns } else { turns.split_off(1) }
    }

    /// Furthest that one was from an equal part of what all had until then.
    fn worst_lag_ns(&self, cell: &Cell) -> u64 {
        let mut got = vec![0u64; cell.tasks.len()];
        let mut worst = 0;
        for slice in &self.all {
            let Some(n) = cell.tasks.iter().position(|t| t.tid == slice.tid) else { continue };
            got[n] += slice.run_ns;
            let equal = got.iter().sum::<u64>() / got.len() as u64;
            worst = got.iter().map(|g| g.abs_diff(equal)).fold(worst, u64::max);
        }
        worst
    }

    /// Time in which task `low` ran while task `high` was ready, without throttling.
    fn kept_waiting(&self, high: usize, low: usize) -> (u64, u64) {
        let ready: Vec<(u64, u64)> = self.of[high]
            .iter()
            .filter_map(|s| s.delay_ns.map(|d| (s.at_ns.saturating_sub(d), s.at_ns)))
            .collect();
        let mut kept = 0;
        for slice in &self.of[low] {
            let (from, to) = (slice.at_ns, slice.at_ns + slice.run_ns);
            let first = ready.partition_point(|r| r.1 <= from);
            for r in ready[first..].iter().take_while(|r| r.0 < to) {
                let (a, b) = (from.max(r.0), to.min(r.1));
                let throttled = self.throttles.iter().any(|t| a < t.at_ns + t.ns && t.at_ns < b);
                kept += if throttled { 0 } else { b.saturating_sub(a) };
            }
        }
        (kept, ready.iter().map(|r| r.1 - r.0).sum())
    }
}

fn median(values: &[u64]) -> Option<u64> {
    Histogram::of(values.iter().copied()).quantile(0.5)
}

fn percent(x: f64) -> String {
    format!("{:.1} %", x * 100.0)
}

fn rr_slice(cell: &Cell, facts: &Facts) -> Check {
    let mut check = Check::new(
        "rr-slice",
        "SCHED_RR tasks of equal priority take turns of sched_rr_timeslice_ms",
    );
    let Some(slice_ms) = cell.kernel.rr_timeslice_ms else {
        return check.because("/proc/sys/kernel/sched_rr_timeslice_ms cannot be read");
    };
    let expected = slice_ms as f64 * 1e6;
    check.expected = format!("{} ± {}", format_ns(expected), percent(RR_TOLERANCE));
    let turns = facts.turns();
    let Some(measured) = median(&turns).filter(|_| turns.len() >= 3) else {
        check.measured = format!("{} turns", turns.len());
        return check.because("it takes three turns at least: measure longer (-D)");
    };
    check.measured = format!("median {} of {} turns", format_ns(measured as f64), turns.len());
    let off = measured as f64 / expected - 1.0;
    check.decide(off.abs() <= RR_TOLERANCE, format!("turns are {} off", percent(off)))
}

fn unequal(cell: &Cell, facts: &Facts) -> Check {
    let mut check = Check::new(
        "unequal-priorities",
        "of unequal real-time priorities the lower one runs only while the higher one does not want to",
    );
    let by = |low: bool| {
        let key = |t: &(usize, &CellTask)| if low { u32::MAX - t.1.priority } else { t.1.priority };
        cell.tasks.iter().enumerate().max_by_key(key).map(|(n, _)| n)
    };
    let (Some(high), Some(low)) = (by(false), by(true)) else { return check };
    check.expected = "the lower one never runs while the higher one is ready".into();
    let (kept, ready) = facts.kept_waiting(high, low);
    let share = facts.run_ns[low] as f64 / facts.length_ns.max(1) as f64;
    let alternations = facts.of[high]
        .iter()
        .filter(|s| s.why == End::Preempted && s.next == cell.tasks[low].tid)
        .count();
    check.measured = format!(
        "{} of {} for which the higher one was ready; preempted it {alternations} times; its share of the CPU {}",
        format_ns(kept as f64),
        format_ns(ready as f64),
        percent(share)
    );
    let limit = facts.length_ns / 1000;
    check.decide(kept <= limit && alternations == 0, "the lower one kept the higher one waiting")
}

fn fifo_equals(cell: &Cell, facts: &Facts) -> Check {
    let mut check = Check::new(
        "fifo-equals",
        "SCHED_FIFO tasks of equal priority do not alternate unless one gives the CPU up",
    );
    check.expected = "none of them preempts another".into();
    let peers: Vec<i32> = cell.tasks.iter().map(|t| t.tid).collect();
    let taken = facts
        .all
        .iter()
        .filter(|s| s.why == End::Preempted && s.next != s.tid && peers.contains(&s.next))
        .count();
    let shares: Vec<String> =
        facts.run_ns.iter().map(|r| percent(*r as f64 / facts.length_ns.max(1) as f64)).collect();
    check.measured =
        format!("{taken} preemptions among them; shares of the CPU {}", shares.join(" and "));
    if !facts.complete {
        return check.because("not every slice was kept: measure for less time (-D)");
    }
    check.decide(taken == 0, format!("{taken} times one lost the CPU to its equal"))
}

fn throttled(cell: &Cell, schedule: &Schedule) -> Option<Check> {
    let busy = |t: &CellTask| t.is_rt() && t.work.is_cpu();
    if !cell.tasks.iter().any(busy) {
        return None;
    }
    let server = cell.kernel.has_fair_server() == Some(true);
    if server && cell.tasks.iter().all(|t| t.weight().is_none()) {
        // A fair server acts only for fair tasks that wait: none of them is sure to be here.
        return None;
    }
    let mut check = Check::new(
        "rt-reserve",
        "real-time tasks that never rest leave the reserve of each period to the others",
    );
    let rt = cell.tasks.iter().filter(|t| t.is_rt()).map(|t| t.tid);
    let rt: Vec<i32> = rt.collect();
    let seen: Vec<&Throttle> = schedule.throttles.iter().filter(|t| rt.contains(&t.tid)).collect();
    let off = median(&seen.iter().map(|t| t.ns).collect::<Vec<_>>());
    // The first stretch began before anything ran.
    let ran = median(&seen.iter().skip(1).map(|t| t.ran_ns).collect::<Vec<_>>());
    let idle: u64 = seen.iter().map(|t| t.idle_ns).sum();
    let all: u64 = seen.iter().map(|t| t.ns).sum();
    let what = if idle * 2 > all || !server { "real-time throttling" } else { "the fair server" };
    check.measured = match (off, ran) {
        (Some(off), Some(ran)) => format!(
            "{what}: {} of running, then {} for others, {} times",
            format_ns(ran as f64),
            format_ns(off as f64),
            seen.len()
        ),
        (Some(off), None) => format!("{what}: {} for others, once", format_ns(off as f64)),
        _ => "the CPU was never taken from them".into(),
    };
    let Some((share, period)) = cell.kernel.reserve() else {
        check.expected =
            "no reserve: sched_rt_runtime_us is −1, or the fair server has no runtime".into();
        return Some(
            check.decide(
                seen.is_empty(),
                "the CPU was taken from them although nothing is reserved",
            ),
        );
    };
    let reserved = share * period as f64;
    let kept = period as f64 - reserved;
    check.expected =
        format!("{} of running, then {} for others", format_ns(kept), format_ns(reserved));
    if cell.duration_ns < 2 * period {
        return Some(check.because("it takes two periods at least: measure longer (-D)"));
    }
    let Some(off) = off else {
        return Some(check.decide(false, "real-time tasks kept the whole CPU"));
    };
    let near =
        |a: f64, b: f64| (a - b).abs() <= THROTTLE_TOLERANCE * b + cell.kernel.tick_ns() as f64;
    let met = near(off as f64, reserved) && ran.is_none_or(|r| near(r as f64, kept));
    Some(check.decide(met, "the pattern has other times"))
}

fn fair_shares(cell: &Cell, facts: &Facts) -> Option<Check> {
    let weights: Option<Vec<f64>> = cell.tasks.iter().map(CellTask::weight).collect();
    let weights = weights.filter(|w| w.len() > 1)?;
    if !cell.tasks.iter().all(|t| t.work.is_cpu()) {
        return None;
    }
    let mut check = Check::new("fair-shares", "fair tasks share the CPU by weight");
    let sum: f64 = weights.iter().sum();
    let ideal: Vec<f64> = weights.iter().map(|w| w / sum).collect();
    let ran: u64 = facts.run_ns.iter().sum();
    let words = |shares: &[f64]| shares.iter().map(|s| percent(*s)).collect::<Vec<_>>().join(" : ");
    check.expected = format!("{} ± {}", words(&ideal), percent(SHARE_TOLERANCE));
    if ran == 0 {
        check.measured = "none of them ran".into();
        return Some(check.because("the CPU was never theirs"));
    }
    let shares: Vec<f64> = facts.run_ns.iter().map(|r| *r as f64 / ran as f64).collect();
    let jain = super::fair::jain(shares.iter().zip(&ideal).map(|(s, i)| s / i)).unwrap_or(0.0);
    check.measured = format!("{}; Jain's index {jain:.4}", words(&shares));
    let off = shares.iter().zip(&ideal).map(|(s, i)| (s - i).abs()).fold(0.0, f64::max);
    Some(check.decide(off <= SHARE_TOLERANCE, format!("one is {} of the CPU off", percent(off))))
}

/// A fair task is at most a few slices and ticks behind the ideal: EEVDF bounds lag by the
/// slice, and a kernel that decides at ticks adds one. The ideal here divides what the tasks of
/// the experiment had together: what others had of the CPU was not theirs to share.
fn fair_lag(cell: &Cell, facts: &Facts) -> Option<Check> {
    let grouped = cell.tasks.iter().any(|t| t.group_weight.is_some());
    let equal = cell.tasks.iter().all(|t| t.policy == Policy::Other && t.nice == 0);
    if grouped || !equal || cell.tasks.len() < 2 || !cell.tasks.iter().all(|t| t.work.is_cpu()) {
        return None;
    }
    let mut check = Check::new(
        "fair-lag",
        "a fair task is never further from its ideal service than some slices",
    );
    let slice = |t: &CellTask| t.slice_ns.or(cell.kernel.base_slice_ns).unwrap_or(6_000_000);
    let slice = cell.tasks.iter().map(slice).max().unwrap_or(0);
    let bound = cell.tasks.len() as u64 * (slice + 2 * cell.kernel.tick_ns());
    check.expected = format!("within {}", format_ns(bound as f64));
    let worst = facts.worst_lag_ns(cell);
    check.measured = format!("at most {}", format_ns(worst as f64));
    Some(check.decide(worst <= bound, "somebody was left behind for longer"))
}

fn asked_slices(cell: &Cell, facts: &Facts) -> Vec<Check> {
    let tick = cell.kernel.tick_ns();
    let one = |(n, task): (usize, &CellTask)| {
        let asked = task.slice_ns?;
        let mut check = Check::new(
            "asked-slice",
            "a fair task that asks for a slice runs that long, to the next tick, among its equals",
        );
        check.id = format!("asked-slice-{}", task.name);
        let most = asked.div_ceil(tick) * tick + tick;
        check.expected =
            format!("from {} to {}", format_ns(asked as f64 * 0.9), format_ns(most as f64));
        let peer =
            |s: &&&KeptSlice| s.why == End::Preempted && cell.tasks.iter().any(|t| t.tid == s.next);
        let turns: Vec<u64> = facts.of[n].iter().filter(peer).map(|s| s.run_ns).collect();
        let Some(measured) = median(&turns).filter(|_| turns.len() >= 5) else {
            check.measured = format!("{} slices", turns.len());
            return Some(check.because("it takes five slices at least: measure longer (-D)"));
        };
        check.measured = format!("median {} of {}", format_ns(measured as f64), turns.len());
        let met = measured as f64 >= asked as f64 * 0.9 && measured <= most;
        let how = if measured > most {
            "its slices are longer"
        } else {
            "its slices are shorter: its equal takes over at a tick as soon as it is eligible and its deadline is earlier"
        };
        Some(check.decide(met, how))
    };
    cell.tasks.iter().enumerate().filter_map(one).collect()
}

fn deadline(cell: &Cell, facts: &Facts) -> Vec<Check> {
    let of = |(n, task): (usize, &CellTask)| {
        if task.policy != Policy::Deadline || task.period_ns == 0 {
            return None;
        }
        let mut check = Check::new(
            "deadline",
            "a SCHED_DEADLINE task that never rests gets its runtime in each period, and no more",
        );
        check.id = format!("deadline-{}", task.name);
        let share = task.runtime_ns as f64 / task.period_ns as f64;
        check.expected = format!("{} ± {}", percent(share), percent(SHARE_TOLERANCE));
        let got = facts.run_ns[n] as f64 / facts.length_ns.max(1) as f64;
        let longest = facts.of[n].iter().map(|s| s.run_ns).max().unwrap_or(0);
        check.measured =
            format!("{} of a CPU, its longest slice {}", percent(got), format_ns(longest as f64));
        Some(check.decide(
            (got - share).abs() <= SHARE_TOLERANCE,
            format!("it got {} of what it is due", percent(got / share)),
        ))
    };
    cell.tasks.iter().enumerate().filter_map(of).collect()
}

fn io_gives_up(cell: &Cell, schedule: &Schedule) -> Option<Check> {
    let io: Vec<&CellTask> = cell.tasks.iter().filter(|t| !t.work.is_cpu()).collect();
    if io.is_empty() {
        return None;
    }
    let mut check =
        Check::new("io-gives-up", "IO-bound tasks end most of their slices themselves, by waiting");
    check.expected = "more than half of the slices".into();
    let ends: Vec<_> = io.iter().filter_map(|t| schedule.task(t.tid)).map(|l| l.ends).collect();
    let total: u64 = ends.iter().map(|e| e.total() - e.open).sum();
    let own: u64 = ends.iter().map(|e| e.slept + e.blocked).sum();
    check.measured = format!("{own} of {total} slices");
    if total == 0 {
        return Some(check.because("none of them ran"));
    }
    Some(check.decide(
        own * 2 > total,
        "this file system lets nobody wait (it is in memory, or its cache takes everything): this \
         is CPU work with system calls in it",
    ))
}
