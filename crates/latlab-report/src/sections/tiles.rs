//! Key figures of a page: for each kind of experiment what its reader asks first.

#[cfg(feature = "host")]
use super::compare;
use super::{generic, memory, timer, wakeup};
use crate::doc::Tile;
use crate::messages;
use crate::values::{figure, grouped, quantile_name};
use latlab_model::bench::BenchDetail;
use latlab_model::cache::CacheDetail;
#[cfg(feature = "host")]
use latlab_model::compare::{CompareDetail, Verdict};
use latlab_model::finding::Severity;
use latlab_model::latency::WhyResult;
use latlab_model::run::{Detail, Part, Run};
use latlab_model::sched::expectation::Decision;
use latlab_model::sched::schedule::SchedDetail;
use latlab_model::sweep::SweepDetail;
use latlab_model::timer::TimerDetail;
use latlab_model::units::format_ns;
use latlab_model::wakeup::result::WakeupResult;
use latlab_stats::total::Total;

/// Tiles of a page, at most.
const MOST: usize = 6;

/// The tiles of a run: those of `one` part that it is about, or the first of each part.
pub(super) fn of_run(run: &Run, one: Option<&Part>) -> Vec<Tile> {
    let mut tiles: Vec<Tile> = match one {
        Some(part) => of_part(part),
        None => {
            // The latencies first; one place is for the problems.
            let (wakeups, others): (Vec<&Part>, Vec<&Part>) =
                run.parts.iter().partition(|p| matches!(p.detail, Some(Detail::Wakeup(_))));
            wakeups.into_iter().chain(others).filter_map(of_several).take(MOST - 1).collect()
        }
    };
    tiles.truncate(MOST);
    let findings = run.parts.iter().flat_map(|p| &p.findings);
    let problems = findings.filter(|f| f.severity == Severity::Problem).count();
    if one.is_none() {
        tiles.push(problem_tile(problems));
    }
    tiles
}

fn tile(label: &str, value: impl Into<String>) -> Tile {
    Tile { label: label.into(), value: value.into(), ..Tile::default() }
}

impl Tile {
    fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
    fn verdict(mut self, severity: Severity) -> Self {
        self.verdict = Some(severity);
        self
    }
    /// Green, or the colour of a problem.
    fn good_if(self, good: bool) -> Self {
        self.verdict(if good { Severity::Ok } else { Severity::Problem })
    }
}

fn problem_tile(n: usize) -> Tile {
    tile("problems", n.to_string()).good_if(n == 0)
}

fn of_part(part: &Part) -> Vec<Tile> {
    match &part.detail {
        Some(Detail::Wakeup(r)) => of_wakeup(r),
        Some(Detail::Why(r)) => of_why(r),
        Some(Detail::Memory(d)) => of_memory(d),
        Some(Detail::Bench(d)) => of_bench(d),
        #[cfg(feature = "host")]
        Some(Detail::Compare(d)) => of_compare(d),
        #[cfg(not(feature = "host"))]
        Some(Detail::Compare(_)) => of_records(part),
        Some(Detail::Sweep(d)) => of_sweep(d),
        Some(Detail::Sched(d)) => of_sched(d),
        Some(Detail::Timer(d)) => of_timer(d),
        Some(Detail::Profile(_) | Detail::Path(_) | Detail::Sections(_)) => of_records(part),
        Some(Detail::Bound(_) | Detail::Bisect(_) | Detail::Worst(_)) => of_records(part),
        Some(Detail::Noise(_) | Detail::Check(_) | Detail::Tune(_) | Detail::Twin(_)) => {
            of_records(part)
        }
        Some(Detail::Doctor(_)) => of_doctor(part),
        None | Some(Detail::Unknown) => of_records(part),
    }
}

/// The figure by which a part of several is known.
fn of_several(part: &Part) -> Option<Tile> {
    let (at, label) = match &part.detail {
        Some(Detail::Wakeup(_)) => (0, format!("worst wake-up, {}", wakeup::circumstance(part))),
        Some(Detail::Bench(_)) => (1, "context switch".into()),
        Some(Detail::Memory(d)) => (d.levels.len(), "memory latency".into()),
        None if part.name == "gaps" => (0, "longest OS noise".into()),
        _ => return None,
    };
    let found = of_part(part).into_iter().nth(at)?;
    Some(Tile { label, note: String::new(), ..found })
}

fn of_wakeup(r: &WakeupResult) -> Vec<Tile> {
    let [s, _] = r.summaries();
    let Some((thread, worst)) = r.max() else { return vec![tile("wake-ups", "0")] };
    let missed = r.missed_periods();
    let at = wakeup::place(r, thread, worst);
    let mut tiles = vec![tile("worst", format_ns(worst.latency_ns as f64)).note(at)];
    if missed > 0 || r.limit_exceeded() {
        tiles[0].verdict = Some(Severity::Problem);
    }
    // A quantile over several mechanisms is that of none.
    let one = r.config.by.is_none();
    tiles.extend(wakeup::highest(&s).filter(|_| one).map(|q| {
        let between = format!("95 %: {} to {}", format_ns(q.low), format_ns(q.high));
        tile(&quantile_name(q.q), format_ns(q.value)).note(between)
    }));
    tiles.extend(s.median.filter(|_| one).map(|m| tile("median", format_ns(m))));
    let each = format!("of {} each", format_ns(r.config.interval_ns as f64));
    let periods = tile("missed periods", grouped(missed)).note(each);
    tiles.push(periods.good_if(missed == 0));
    let threads = match r.threads.len() {
        n if r.config.by.is_some() => format!("{n} mechanisms"),
        1 => "1 thread".to_owned(),
        n => format!("{n} threads"),
    };
    tiles.push(tile("wake-ups", grouped(s.count)).note(threads));
    tiles
}

fn of_why(r: &WhyResult) -> Vec<Tile> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let contrast = &r.explanation.contrast;
    let late = tile("late wake-ups", contrast.late.to_string());
    let mut tiles = vec![match r.limit_ns {
        0 => late,
        limit => late.note(format!("later than {}", format_ns(limit as f64))),
    }];
    if let Some(cause) = r.explanation.causes.first() {
        let share = format!("{} of the lateness", percent(cause.share_of_lateness));
        let who = if cause.who.is_empty() { share } else { format!("{}; {share}", cause.who) };
        tiles.push(tile("main cause", messages::mechanism(cause.mechanism)).note(who));
        tiles.push(tile("its delay, median", format_ns(cause.excess_ns)));
        let confidence = messages::confidence(cause.confidence);
        tiles.push(tile("confidence", confidence));
    }
    if contrast.late > 0 {
        let unexplained = r.explanation.unexplained_share;
        let severity = match unexplained {
            u if u < 0.05 => Severity::Ok,
            u if u < 0.5 => Severity::Warning,
            _ => Severity::Problem,
        };
        tiles.push(tile("unexplained", percent(unexplained)).verdict(severity));
    }
    let compared = format!("{} on-time wake-ups", contrast.on_time);
    tiles.push(tile("captures", r.captures.len().to_string()).note(compared));
    tiles
}

fn of_memory(d: &CacheDetail) -> Vec<Tile> {
    let size = messages::bytes;
    let level = |l: &latlab_model::cache::Level| {
        tile(&format!("L{}", l.level), size(l.bytes)).note(format!("{} a load", format_ns(l.ns)))
    };
    let mut tiles: Vec<Tile> = d.levels.iter().map(level).collect();
    tiles.extend(d.memory_ns.map(|ns| {
        let rate = memory::rate(d.memory_bytes_per_s);
        tile("memory", format_ns(ns)).note(rate)
    }));
    let line = d.line.as_ref().filter(|l| l.bytes > 0);
    tiles.extend(line.map(|l| tile("line", format!("{} bytes", l.bytes))));
    tiles.extend(d.tlbs.first().map(|t| {
        let miss = format!("a miss adds {}", format_ns(t.penalty_ns));
        tile("data TLB", format!("{} entries", t.entries)).note(miss)
    }));
    tiles.extend(d.switch_knees.iter().take(2).map(|k| {
        let per = format!("{} to {} a KiB", format_ns(k.before_ns), format_ns(k.after_ns));
        tile("knee", format!("{} – {}", size(k.from_bytes), size(k.to_bytes))).note(per)
    }));
    tiles
}

fn of_bench(d: &BenchDetail) -> Vec<Tile> {
    let cost = |(label, name): &(&str, &str)| {
        let row = d.rows.iter().find(|r| r.name == *name)?;
        let e = &row.estimate;
        let value = |v| figure(v, row.unit);
        let between = format!("95 %: {} to {}", value(e.low), value(e.high));
        let note = if e.interval_is_95 { between } else { String::new() };
        Some(tile(label, value(e.median)).note(note))
    };
    let known = [
        ("kernel entry and exit", "syscall.getppid"),
        ("context switch", "ctx.futex"),
        ("pipe round trip", "ipc.pipe"),
        ("process creation", "process.fork-exit"),
        ("page fault", "memory.page-fault"),
    ];
    let mut tiles: Vec<Tile> = known.iter().filter_map(cost).collect();
    let exact = d.rows.iter().filter(|r| r.target_met).count();
    let most = exact * 2 >= d.rows.len();
    let severity = if most { Severity::Ok } else { Severity::Warning };
    let within = format!("with a 95 % interval within ±{} %", d.target * 100.0);
    let of = format!("{exact} of {}", d.rows.len());
    tiles.push(tile("precise results", of).note(within).verdict(severity));
    tiles
}

#[cfg(feature = "host")]
fn of_compare(d: &CompareDetail) -> Vec<Tile> {
    let all = || d.metrics.iter().flat_map(|m| &m.contrasts);
    let count = |v| all().filter(|c| c.verdict == v).count();
    let one = |verdict: Verdict, severity: Severity| {
        let n = count(verdict);
        let tile = tile(compare::verdict_words(verdict), n.to_string());
        if n > 0 { tile.verdict(severity) } else { tile }
    };
    let mut tiles = vec![
        one(Verdict::Worse, Severity::Problem),
        one(Verdict::Better, Severity::Ok),
        one(Verdict::NoDifference, Severity::Ok),
        one(Verdict::Inconclusive, Severity::Inconclusive),
    ];
    if count(Verdict::RunsDiffer) > 0 {
        tiles.push(one(Verdict::RunsDiffer, Severity::Inconclusive));
    }
    tiles
}

fn of_sweep(d: &SweepDetail) -> Vec<Tile> {
    let name = super::sweep::response_name(&d.plan);
    let without = match d.plan.base.as_slice() {
        [] => "without load".to_owned(),
        base => format!("with {} alone", base.join(" ")),
    };
    let value = |p: &latlab_model::sweep::Point| d.plan.response_ns(&p.latency);
    let loaded = d.points.iter().filter(|p| p.is_good() && !p.is_anchor());
    let worst = loaded.filter_map(|p| Some((value(p)?, p))).max_by(|a, b| a.0.total_cmp(&b.0));
    let mut tiles = Vec::new();
    let unloaded = d.analysis.unloaded_ns;
    tiles.extend(unloaded.map(|ns| tile(&format!("{name} {without}"), format_ns(ns))));
    tiles.extend(
        worst.map(|(v, p)| {
            tile(&format!("{name}, worst load"), format_ns(v)).note(p.load.join(" "))
        }),
    );
    tiles.extend(d.analysis.knees.first().map(|k| {
        let rise = format!("{} to {}", format_ns(k.before_ns), format_ns(k.after_ns));
        tile(&format!("knee of {}", k.axis), rise).verdict(Severity::Warning)
    }));
    tiles.extend(d.analysis.effects.first().map(|e| {
        let worst = format!("worst: {}", e.worst);
        tile(&format!("effect of {}", e.axis), format!("×{:.2}", e.factor)).note(worst)
    }));
    tiles.push(tile("points", d.points.len().to_string()));
    tiles
}

fn of_sched(d: &SchedDetail) -> Vec<Tile> {
    let s = &d.schedule;
    let mut tiles = Vec::new();
    if !d.expectations.is_empty() {
        let met = d.expectations.iter().filter(|e| e.decision == Decision::Met).count();
        let off = d.expectations.iter().any(|e| e.decision == Decision::Deviates);
        let severity = match (off, met == d.expectations.len()) {
            (true, _) => Severity::Problem,
            (false, true) => Severity::Ok,
            (false, false) => Severity::Inconclusive,
        };
        let of = format!("{met} of {}", d.expectations.len());
        tiles.push(tile("expectations met", of).verdict(severity));
    }
    let waits = s.tasks.iter().filter(|t| t.delay.count > 0);
    let longest = waits.max_by_key(|t| t.delay.max_ns);
    tiles.extend(
        longest.map(|t| {
            tile("longest wait for a CPU", format_ns(t.delay.max_ns as f64)).note(t.label())
        }),
    );
    let busy: u64 = s.cpus.iter().map(|c| c.busy_ns).total();
    let time = s.length_ns.max(1).saturating_mul(s.cpus.len().max(1) as u64);
    let cpus = format!("of {} CPUs", s.cpus.len());
    tiles.push(tile("busy", format!("{:.0} %", 100.0 * busy as f64 / time as f64)).note(cpus));
    let per = s.switches as f64 / (s.length_ns.max(1) as f64 / 1e9);
    let long = format!("{:.0} a second for {}", per, format_ns(s.length_ns as f64));
    tiles.push(tile("switches", grouped(s.switches)).note(long));
    tiles.push(tile("tasks", grouped((s.tasks.len() as u64).saturating_add(s.more_tasks))));
    tiles.extend(s.jain.map(|j| tile("fairness (Jain's index)", format!("{j:.3}"))));
    tiles
}

fn of_timer(d: &TimerDetail) -> Vec<Tile> {
    let mut tiles = Vec::new();
    if let Some(live) = &d.live {
        let hz = live.hz.map_or("unknown".into(), |hz| format!("{hz} Hz"));
        tiles.push(tile("tick", hz).note(messages::tick_mode(live.mode)));
    }
    if let Some(trace) = &d.trace {
        let most = trace.ticks.iter().max_by(|a, b| a.share.total_cmp(&b.share));
        tiles.extend(most.map(|t| {
            let where_ = format!("of CPU {}", t.cpu);
            tile("timer interrupts take", format!("{:.2} %", t.share * 100.0)).note(where_)
        }));
        let costly = trace.functions.iter().max_by_key(|f| f.cost.max_ns);
        tiles.extend(costly.map(|f| {
            tile("longest timer function", format_ns(f.cost.max_ns as f64)).note(f.name.clone())
        }));
        let late = trace.late.as_ref().filter(|h| h.count > 0);
        tiles.extend(late.map(|h| tile("worst expiry delay", format_ns(h.max as f64))));
        let calls: u64 = trace.functions.iter().map(|f| f.cost.count).total();
        let note = format!("of {} functions", trace.functions.len());
        tiles.push(tile("timer calls", grouped(calls)).note(note));
    }
    if let Some(live) = d.live.as_ref().filter(|l| d.trace.is_none() && !l.interrupts.is_empty()) {
        let most = timer::most_frequent(live);
        tiles.extend(most.map(|(name, rate)| {
            tile("most frequent interrupt", format!("{rate:.0}/s")).note(name)
        }));
    }
    tiles
}

fn of_doctor(part: &Part) -> Vec<Tile> {
    let n = |v: Severity| part.findings.iter().filter(|f| f.severity == v).count();
    let counted = |label: &str, v: Severity| {
        let tile = tile(label, n(v).to_string());
        if n(v) > 0 { tile.verdict(v) } else { tile }
    };
    vec![
        problem_tile(n(Severity::Problem)),
        counted("warnings", Severity::Warning),
        counted("inconclusive", Severity::Inconclusive),
        counted("passed", Severity::Ok),
    ]
}

fn of_records(part: &Part) -> Vec<Tile> {
    let key = |r: &&latlab_model::record::Record| r.summary.max.unwrap_or(f64::NEG_INFINITY);
    let all = part.results.iter().filter(|r| r.histogram.is_some());
    let Some(r) = all.max_by(|a, b| key(a).total_cmp(&key(b))) else { return vec![] };
    let mut tiles = Vec::new();
    let value = |v| figure(v, r.unit);
    tiles.extend(r.summary.max.map(|v| tile("largest", value(v)).note(generic::record_name(r))));
    tiles.extend(wakeup::highest(&r.summary).map(|q| tile(&quantile_name(q.q), value(q.value))));
    tiles.extend(r.summary.median.map(|v| tile("median", value(v))));
    tiles.push(tile("samples", grouped(r.summary.count)));
    tiles
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::wakeup::result::{Slot, ThreadResult, Timeline, Worst};
    use latlab_stats::histogram::Histogram;

    /// Bursts of twenty late wake-ups: twenty in every fiftieth stretch of sixty.
    #[test]
    fn the_interval_of_a_tile_is_that_of_the_table() {
        let stretches = (0..1_000u64).map(|i| -> Vec<u64> {
            let late = if i % 50 == 7 { 20 } else { 0 };
            let value =
                |j: u64| if j < late { 60_000 + (i * 37 + j * 101) % 9_000 } else { 15_000 + j };
            (0..60).map(value).collect()
        });
        let all: Vec<Vec<u64>> = stretches.collect();
        let slot = |v: &Vec<u64>| Slot {
            count: 60,
            min_ns: *v.iter().min().unwrap(),
            max_ns: *v.iter().max().unwrap(),
            sum_ns: v.iter().sum(),
        };
        let slots = all.iter().map(slot).collect();
        let timeline = Timeline { start_ns: 0, width_ns: 60_000_000, slots };
        let latency = Histogram::of(all.concat());
        let worst = vec![Worst { latency_ns: latency.max, ..Worst::default() }];
        let thread = ThreadResult { latency, timeline, worst, ..ThreadResult::default() };
        let r = WakeupResult { threads: vec![thread], ..WakeupResult::default() };
        let [table, _] = r.threads[0].summaries();
        let q = wakeup::highest(&table).unwrap();
        let tile = of_wakeup(&r).into_iter().find(|t| t.label == quantile_name(q.q)).unwrap();
        let said = format!("95 %: {} to {}", format_ns(q.low), format_ns(q.high));
        assert_eq!(tile.note, said);
        let independent = r.all_wakeups().summary();
        let narrow = independent.quantile(q.q).unwrap();
        assert!(q.high - q.low > 1.5 * (narrow.high - narrow.low), "{q:?} {narrow:?}");
    }
}
