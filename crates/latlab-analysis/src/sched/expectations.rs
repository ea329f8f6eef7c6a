//! What theory expects of an experiment, and what was measured.
//!
//! The expectations are those of `sched(7)`: a round-robin task runs for `sched_rr_timeslice_ms`
//! among its equals; a task of higher real-time priority is never kept waiting by a lower one;
//! equals under FIFO do not alternate unless they give the CPU up; fair tasks share by weight
//! (nice 0 is 1024, one step a factor of 1.25); real-time tasks leave what
//! `sched_rt_runtime_us`, or since 6.12 the fair server, keeps for the others; a deadline task
//! gets its runtime in each period.

use super::fair::weight;
use latlab_model::finding::{Note, Quantity};
use latlab_model::sched::expectation::Expectation;
use latlab_model::sched::experiment::{Cell, CellTask};
use latlab_model::sched::schedule::{End, KeptSlice, Schedule, Throttle};
use latlab_model::wakeup::config::Policy;
use latlab_stats::histogram::Histogram;

/// A round-robin slice may differ by this from what the kernel says.
const RR_TOLERANCE: f64 = 0.02;
/// Shares of the CPU may differ by this from the ideal.
const SHARE_TOLERANCE: f64 = 0.02;
/// Throttled time and its period may differ by this from what the kernel says.
const THROTTLE_TOLERANCE: f64 = 0.2;

/// All that theory says of this experiment. The schedule must have kept the slices of the cell's tasks.
pub fn check(cell: &Cell, schedule: &Schedule) -> Vec<Expectation> {
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
    checks.extend(custom_slices(cell, &facts));
    checks.extend(deadline(cell, &facts));
    checks.extend(voluntary_switches(cell, schedule));
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
    /// Places where events were lost.
    holes: u64,
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
            holes: schedule.cpus.iter().map(|c| c.holes).fold(0, u64::saturating_add),
        }
    }

    /// Why what was not seen in these slices may have been all the same.
    fn unseen(&self, slices: &[&KeptSlice]) -> Option<Note> {
        match (slices.is_empty(), self.complete, self.holes) {
            (true, ..) => Some(Note::new("sched.no-run-time")),
            (_, false, _) => Some(Note::new("sched.slices-dropped")),
            (.., 0) => None,
            (.., n) => {
                Some(Note::new("sched.slices-with-holes").value("count", Quantity::Count(n)))
            }
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

fn ns(ns: u64) -> Quantity {
    Quantity::Ns(ns as f64)
}

fn ratios(shares: &[f64]) -> Vec<Quantity> {
    shares.iter().copied().map(Quantity::Ratio).collect()
}

/// Too few samples within the experiment's duration.
fn too_short(needed: u64, unit: &str) -> Note {
    Note::new("sched.too-short").value("needed", Quantity::Count(needed)).value("unit", unit)
}

fn rr_slice(cell: &Cell, facts: &Facts) -> Expectation {
    let check = Expectation::new("rr-slice");
    let Some(slice_ms) = cell.kernel.rr_timeslice_ms else {
        return check.inconclusive(Note::new("sched.timeslice-unreadable"));
    };
    let expected = slice_ms as f64 * 1e6;
    let turns = facts.turns();
    let check = check
        .expected("turn", Quantity::Ns(expected))
        .expected("tolerance", Quantity::Ratio(RR_TOLERANCE))
        .measured("turns", Quantity::Count(turns.len() as u64));
    let Some(measured) = median(&turns).filter(|_| turns.len() >= 3) else {
        return check.inconclusive(too_short(3, "turns"));
    };
    let off = measured as f64 / expected - 1.0;
    let deviation = Note::new("sched.rr-slice.deviation").value("difference", Quantity::Ratio(off));
    check.measured("median", ns(measured)).decide_with(off.abs() <= RR_TOLERANCE, deviation)
}

fn unequal(cell: &Cell, facts: &Facts) -> Expectation {
    let check = Expectation::new("unequal-priorities").expect();
    let by = |low: bool| {
        let key = |t: &(usize, &CellTask)| if low { u32::MAX - t.1.priority } else { t.1.priority };
        cell.tasks.iter().enumerate().max_by_key(key).map(|(n, _)| n)
    };
    let (Some(high), Some(low)) = (by(false), by(true)) else { return check };
    let (kept, ready) = facts.kept_waiting(high, low);
    let share = facts.run_ns[low] as f64 / facts.length_ns.max(1) as f64;
    let alternations = facts.of[high]
        .iter()
        .filter(|s| s.why == End::Preempted && s.next == cell.tasks[low].tid)
        .count();
    let limit = facts.length_ns / 1000;
    let check = check
        .measured("blocked", ns(kept))
        .measured("ready", ns(ready))
        .measured("preemptions", Quantity::Count(alternations as u64))
        .measured("share", Quantity::Ratio(share));
    let met = kept <= limit && alternations == 0;
    match facts.unseen(&facts.of[high]).filter(|_| met) {
        Some(reason) => check.inconclusive(reason),
        None => check.decide(met),
    }
}

fn fifo_equals(cell: &Cell, facts: &Facts) -> Expectation {
    let peers: Vec<i32> = cell.tasks.iter().map(|t| t.tid).collect();
    let taken = facts
        .all
        .iter()
        .filter(|s| s.why == End::Preempted && s.next != s.tid && peers.contains(&s.next))
        .count();
    let share = |r: &u64| *r as f64 / facts.length_ns.max(1) as f64;
    let shares: Vec<f64> = facts.run_ns.iter().map(share).collect();
    let check = Expectation::new("fifo-equals")
        .expect()
        .measured("preemptions", Quantity::Count(taken as u64))
        .measured("shares", ratios(&shares));
    match facts.unseen(&facts.all).filter(|_| taken == 0) {
        Some(reason) => check.inconclusive(reason),
        None => check.decide(taken == 0),
    }
}

/// Times that the CPU was taken from the experiment's real-time tasks.
struct Throttles {
    count: usize,
    /// Median time for others, ns.
    off: Option<u64>,
    /// Median run time before, ns; the first interval began before anything ran and is left out.
    ran: Option<u64>,
    /// Whether the CPU was idle for more than half of the time.
    idle: bool,
}

impl Throttles {
    fn of(cell: &Cell, schedule: &Schedule) -> Self {
        let rt: Vec<i32> = cell.tasks.iter().filter(|t| t.is_rt()).map(|t| t.tid).collect();
        let seen: Vec<&Throttle> =
            schedule.throttles.iter().filter(|t| rt.contains(&t.tid)).collect();
        let idle: u64 = seen.iter().map(|t| t.idle_ns).sum();
        let all: u64 = seen.iter().map(|t| t.ns).sum();
        Self {
            count: seen.len(),
            off: median(&seen.iter().map(|t| t.ns).collect::<Vec<_>>()),
            ran: median(&seen.iter().skip(1).map(|t| t.ran_ns).collect::<Vec<_>>()),
            idle: idle * 2 > all,
        }
    }
}

fn throttled(cell: &Cell, schedule: &Schedule) -> Option<Expectation> {
    let busy = |t: &CellTask| t.is_rt() && t.work.is_cpu();
    if !cell.tasks.iter().any(busy) {
        return None;
    }
    let server = cell.kernel.has_fair_server() == Some(true);
    if server && cell.tasks.iter().all(|t| weight(t).is_none()) {
        // A fair server acts only for fair tasks that wait: none of them is sure to be here.
        return None;
    }
    let seen = Throttles::of(cell, schedule);
    let mechanism = if seen.idle || !server { "rt-throttling" } else { "fair-server" };
    let mut check = Expectation::new("rt-reserve")
        .measured("mechanism", mechanism)
        .measured("times", Quantity::Count(seen.count as u64));
    if let Some(off) = seen.off {
        check = check.measured("reserve", ns(off));
    }
    if let Some(ran) = seen.ran {
        check = check.measured("run", ns(ran));
    }
    let Some((share, period)) = cell.kernel.reserve() else {
        let deviation = Note::new("sched.rt-reserve.unexpected");
        return Some(check.expect().decide_with(seen.count == 0, deviation));
    };
    let reserved = share * period as f64;
    let kept = period as f64 - reserved;
    let check =
        check.expected("run", Quantity::Ns(kept)).expected("reserve", Quantity::Ns(reserved));
    if cell.duration_ns < 2 * period {
        return Some(check.inconclusive(too_short(2, "periods")));
    }
    let Some(off) = seen.off else {
        return Some(check.decide_with(false, Note::new("sched.rt-reserve.absent")));
    };
    let near =
        |a: f64, b: f64| (a - b).abs() <= THROTTLE_TOLERANCE * b + cell.kernel.tick_ns() as f64;
    let met = near(off as f64, reserved) && seen.ran.is_none_or(|r| near(r as f64, kept));
    Some(check.decide(met))
}

fn fair_shares(cell: &Cell, facts: &Facts) -> Option<Expectation> {
    let weights: Option<Vec<f64>> = cell.tasks.iter().map(weight).collect();
    let weights = weights.filter(|w| w.len() > 1)?;
    if !cell.tasks.iter().all(|t| t.work.is_cpu()) {
        return None;
    }
    let sum: f64 = weights.iter().sum();
    let ideal: Vec<f64> = weights.iter().map(|w| w / sum).collect();
    let ran: u64 = facts.run_ns.iter().sum();
    let check = Expectation::new("fair-shares")
        .expected("shares", ratios(&ideal))
        .expected("tolerance", Quantity::Ratio(SHARE_TOLERANCE));
    if ran == 0 {
        return Some(check.inconclusive(Note::new("sched.no-run-time")));
    }
    let shares: Vec<f64> = facts.run_ns.iter().map(|r| *r as f64 / ran as f64).collect();
    let jain =
        crate::sched::fair::jain(shares.iter().zip(&ideal).map(|(s, i)| s / i)).unwrap_or(0.0);
    let off = shares.iter().zip(&ideal).map(|(s, i)| (s - i).abs()).fold(0.0, f64::max);
    let deviation =
        Note::new("sched.fair-shares.deviation").value("difference", Quantity::Ratio(off));
    Some(
        check
            .measured("shares", ratios(&shares))
            .measured("jain", Quantity::Number(jain))
            .decide_with(off <= SHARE_TOLERANCE, deviation),
    )
}

/// A fair task is at most a few slices and ticks behind the ideal: EEVDF bounds lag by the
/// slice, and a kernel that decides at ticks adds one. The ideal here divides what the tasks of
/// the experiment had together: what others had of the CPU was not theirs to share.
fn fair_lag(cell: &Cell, facts: &Facts) -> Option<Expectation> {
    let grouped = cell.tasks.iter().any(|t| t.group_weight.is_some());
    let equal = cell.tasks.iter().all(|t| t.policy == Policy::Other && t.nice == 0);
    if grouped || !equal || cell.tasks.len() < 2 || !cell.tasks.iter().all(|t| t.work.is_cpu()) {
        return None;
    }
    let slice = |t: &CellTask| t.slice_ns.or(cell.kernel.base_slice_ns).unwrap_or(6_000_000);
    let slice = cell.tasks.iter().map(slice).max().unwrap_or(0);
    let bound = cell.tasks.len() as u64 * (slice + 2 * cell.kernel.tick_ns());
    let worst = facts.worst_lag_ns(cell);
    Some(
        Expectation::new("fair-lag")
            .expected("bound", ns(bound))
            .measured("lag", ns(worst))
            .decide(worst <= bound),
    )
}

fn custom_slices(cell: &Cell, facts: &Facts) -> Vec<Expectation> {
    let tick = cell.kernel.tick_ns();
    let one = |(n, task): (usize, &CellTask)| {
        let asked = task.slice_ns?;
        let most = asked.div_ceil(tick) * tick + tick;
        let least = asked as f64 * 0.9;
        let peer =
            |s: &&&KeptSlice| s.why == End::Preempted && cell.tasks.iter().any(|t| t.tid == s.next);
        let turns: Vec<u64> = facts.of[n].iter().filter(peer).map(|s| s.run_ns).collect();
        let check = Expectation::new("custom-slice")
            .of_task(&task.name)
            .expected("least", Quantity::Ns(least))
            .expected("most", ns(most))
            .measured("slices", Quantity::Count(turns.len() as u64));
        let Some(measured) = median(&turns).filter(|_| turns.len() >= 5) else {
            return Some(check.inconclusive(too_short(5, "slices")));
        };
        let met = measured as f64 >= least && measured <= most;
        let longer = measured > most;
        let id = if longer { "sched.custom-slice.longer" } else { "sched.custom-slice.shorter" };
        Some(check.measured("median", ns(measured)).decide_with(met, Note::new(id)))
    };
    cell.tasks.iter().enumerate().filter_map(one).collect()
}

fn deadline(cell: &Cell, facts: &Facts) -> Vec<Expectation> {
    let of = |(n, task): (usize, &CellTask)| {
        if task.policy != Policy::Deadline || task.period_ns == 0 {
            return None;
        }
        let share = task.runtime_ns as f64 / task.period_ns as f64;
        let got = facts.run_ns[n] as f64 / facts.length_ns.max(1) as f64;
        let longest = facts.of[n].iter().map(|s| s.run_ns).max().unwrap_or(0);
        let deviation =
            Note::new("sched.deadline.deviation").value("received", Quantity::Ratio(got / share));
        Some(
            Expectation::new("deadline")
                .of_task(&task.name)
                .expected("share", Quantity::Ratio(share))
                .expected("tolerance", Quantity::Ratio(SHARE_TOLERANCE))
                .measured("share", Quantity::Ratio(got))
                .measured("longest", ns(longest))
                .decide_with((got - share).abs() <= SHARE_TOLERANCE, deviation),
        )
    };
    cell.tasks.iter().enumerate().filter_map(of).collect()
}

fn voluntary_switches(cell: &Cell, schedule: &Schedule) -> Option<Expectation> {
    let io: Vec<&CellTask> = cell.tasks.iter().filter(|t| !t.work.is_cpu()).collect();
    if io.is_empty() {
        return None;
    }
    let ends: Vec<_> = io.iter().filter_map(|t| schedule.task(t.tid)).map(|l| l.ends).collect();
    let total: u64 = ends.iter().map(|e| e.total() - e.open).sum();
    let own: u64 = ends.iter().map(|e| e.slept + e.blocked).sum();
    let check = Expectation::new("voluntary-switches")
        .expect()
        .measured("voluntary", Quantity::Count(own))
        .measured("slices", Quantity::Count(total));
    if total == 0 {
        return Some(check.inconclusive(Note::new("sched.no-run-time")));
    }
    Some(check.decide(own * 2 > total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::scenarios;
    use latlab_model::sched::expectation::Decision;
    use latlab_model::sched::experiment::Work;
    use latlab_model::sched::schedule::CpuLine;

    fn task(tid: i32, policy: Policy, priority: u32) -> CellTask {
        let alone = scenarios::task("cpu", Work::Cpu { size: 64 }, policy);
        CellTask { tid, priority, ..alone }
    }

    #[test]
    fn what_was_not_recorded_is_not_as_expected() {
        let slice = |tid, at_ns, why, next| KeptSlice {
            tid,
            cpu: 0,
            at_ns,
            run_ns: 1_000_000,
            delay_ns: None,
            why,
            next,
            doubtful: false,
        };
        let found = |priority, slices: Vec<KeptSlice>, holes, more_slices| {
            let tasks = vec![task(1, Policy::Fifo, 80), task(2, Policy::Fifo, priority)];
            let cell = Cell { tasks, ..Cell::default() };
            let cpus = vec![CpuLine { holes, ..CpuLine::default() }];
            let length_ns = 10_000_000;
            let schedule = Schedule { slices, cpus, more_slices, length_ns, ..Default::default() };
            let check = check(&cell, &schedule).remove(0);
            let reason = check.deviation.as_ref().and_then(Note::id).map(str::to_owned);
            (check.decision, reason.unwrap_or_default())
        };
        let because = |id: &str| (Decision::Inconclusive, id.to_owned());
        for priority in [80, 70] {
            let alone = || vec![slice(1, 0, End::Slept, 0)];
            assert_eq!(found(priority, alone(), 0, 0).0, Decision::Met);
            assert_eq!(found(priority, vec![], 0, 0), because("sched.no-run-time"));
            assert_eq!(found(priority, alone(), 2, 0), because("sched.slices-with-holes"));
            assert_eq!(found(priority, alone(), 0, 5), because("sched.slices-dropped"));
            // What was seen is a deviation whatever else was not.
            let preempted =
                vec![slice(1, 0, End::Preempted, 2), slice(2, 1_000_000, End::Slept, 1)];
            assert_eq!(found(priority, preempted, 2, 0).0, Decision::Deviates);
        }
    }
}
