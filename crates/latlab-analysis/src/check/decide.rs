//! Requirements against runs.

use latlab_model::check::{Checked, Comparison, Decision, Requirement, Statistic, Subject};
use latlab_model::cpulist;
use latlab_model::finding::{Note, Quantity, Severity};
use latlab_model::record::{Record, Unit};
use latlab_model::run::{Detail, Part, Run};
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::Level;
use latlab_model::wakeup::mechanism::Mechanism;
use latlab_model::wakeup::result::{Timeline, WakeupResult};
use latlab_stats::binomial::{below, times_to_decide};
use latlab_stats::histogram::{Histogram, bucket_high};
use latlab_stats::stretches::{self, Stretch};
use std::collections::BTreeSet;

/// Probability of a wrong decision on a requirement, at most.
const ERROR: f64 = 0.05;
/// Power of the duration that is named where the measurements do not decide.
pub(super) const POWER: f64 = 0.8;
/// What late values count for where their order is not known: clusters of four.
const ASSUMED_INFLATION: f64 = 7.0;

/// A run with its name.
pub type Named<'a> = (&'a str, &'a Run);

/// Decides one requirement.
pub fn decide(requirement: &Requirement, runs: &[Named<'_>]) -> Checked {
    let mut checked = Checked {
        requirement: requirement.clone(),
        decision: Decision::Undecided,
        value: None,
        interval: None,
        samples: 0,
        effective: 0.0,
        duration_ns: 0,
        needed_ns: None,
        notes: Vec::new(),
        runs: Vec::new(),
    };
    match &requirement.subject {
        Subject::Wakeup => wakeup(&mut checked, runs),
        Subject::Noise => noise(&mut checked, runs),
        Subject::Record(name) => record(&mut checked, name, runs),
        Subject::Doctor => state(&mut checked, runs),
    }
    if checked.runs.is_empty() && checked.notes.is_empty() {
        checked.notes.push(Note::new("check.no-run"));
    }
    checked
}

/// CPU of a thread, and that of the thread which wakes it.
type Row = (Option<CpuId>, Option<CpuId>);

/// Values of one thread or CPU in all runs.
#[derive(Default)]
struct Values {
    histogram: Histogram,
    effective: f64,
    /// What the values at the limit or beyond it count for, at least and at most.
    least: f64,
    most: f64,
    missed: u64,
    duration_ns: u64,
}

fn wakeup(checked: &mut Checked, runs: &[Named<'_>]) {
    let r = checked.requirement.clone();
    let mut threads: Vec<(Row, Values)> = Vec::new();
    let mut assumed = false;
    let mut silent: BTreeSet<Option<CpuId>> = BTreeSet::new();
    let on = cpus(&r);
    for (name, run) in runs {
        let by = r.circumstances.by;
        let of = |part| of_wakeup(part, by);
        let parts = run.parts.iter().filter_map(of).filter(|w| applies(&r, run, w));
        for w in parts {
            checked.runs.push((*name).to_owned());
            for t in &w.threads {
                if on.as_ref().is_some_and(|on| !t.cpu.is_some_and(|c| on.contains(&c.0))) {
                    continue;
                }
                if w.config.by.is_some() && t.woken.map(|w| w.by) != by {
                    continue;
                }
                let h = t.per_period();
                if h.count == 0 {
                    silent.insert(t.cpu);
                    continue;
                }
                let row = (t.cpu, t.woken.and_then(|w| w.from));
                let at = threads.iter().position(|(known, _)| *known == row && t.cpu.is_some());
                let at = at.unwrap_or_else(|| {
                    threads.push((row, Values::default()));
                    threads.len() - 1
                });
                let values = &mut threads[at].1;
                let (inflation, known) = inflation(&stretches(&t.timeline), &h, r.limit as u64);
                assumed |= !known;
                values.add(&h, Beyond::of(&h, &r), inflation);
                values.missed += t.missed_periods;
                values.duration_ns += w.duration_ns;
            }
        }
    }
    if assumed && matches!(r.statistic, Statistic::Quantile(_)) {
        checked.notes.push(Note::new("check.clusters-assumed"));
    }
    let known: BTreeSet<CpuId> = threads.iter().filter_map(|t| t.0.0).collect();
    let mut missing = missing(on, &known);
    missing.extend(silent.iter().flatten().map(|cpu| cpu.0));
    conclude(checked, threads.into_iter().map(|t| t.1).collect());
    unmeasured(checked, &missing, silent.contains(&None));
}

/// The CPUs that a requirement names.
fn cpus(r: &Requirement) -> Option<BTreeSet<u32>> {
    let list = r.circumstances.cpus.as_ref()?;
    Some(cpulist::parse(list).unwrap_or_default().into_iter().collect())
}

/// Those of which nothing is known.
fn missing(named: Option<BTreeSet<u32>>, known: &BTreeSet<CpuId>) -> BTreeSet<u32> {
    let named = named.unwrap_or_default().into_iter();
    named.filter(|&cpu| !known.contains(&CpuId(cpu))).collect()
}

/// A requirement is not met on CPUs without a value, or if a thread that is bound to none never woke up.
fn unmeasured(checked: &mut Checked, cpus: &BTreeSet<u32>, unbound: bool) {
    if checked.runs.is_empty() || (cpus.is_empty() && !unbound) {
        return;
    }
    if checked.decision != Decision::Fail {
        checked.decision = Decision::Undecided;
        checked.needed_ns = None;
    }
    if !cpus.is_empty() {
        let list: Vec<u32> = cpus.iter().copied().collect();
        let list = cpulist::format(&list);
        checked.notes.push(Note::new("check.unmeasured").value("cpus", list.as_str()));
    }
    if unbound {
        checked.notes.push(Note::new("check.never-woke"));
    }
}

/// A measurement in user space: of one kind of wake-ups, or with those of the mechanism that is named.
fn of_wakeup(part: &Part, by: Option<Mechanism>) -> Option<&WakeupResult> {
    let Some(Detail::Wakeup(w)) = &part.detail else { return None };
    let has = match (by, &w.config.by) {
        (None, several) => several.is_none(),
        (Some(by), None) => w.config.timer == by,
        (Some(by), Some(several)) => several.mechanisms.contains(&by),
    };
    (w.config.level == Level::User && has).then_some(w)
}

/// Whether a measurement was made under the circumstances of a requirement.
fn applies(r: &Requirement, run: &Run, w: &WakeupResult) -> bool {
    let c = &r.circumstances;
    c.interval_ns.is_none_or(|i| w.config.interval_ns == i)
        && c.priority.is_none_or(|p| w.config.policy.has_priority() && w.config.priority == p)
        && same_load(&c.load, run)
}

fn same_load(wanted: &[String], run: &Run) -> bool {
    let had = run.config.get("load").and_then(serde_json::Value::as_array);
    let had = had.into_iter().flatten().filter_map(serde_json::Value::as_str);
    let (mut had, mut wanted): (Vec<&str>, Vec<&str>) =
        (had.collect(), wanted.iter().map(String::as_str).collect());
    had.sort_unstable();
    wanted.sort_unstable();
    had == wanted
}

fn stretches(t: &Timeline) -> Vec<Stretch> {
    let stretch = |s: &latlab_model::wakeup::result::Slot| Stretch {
        count: s.count,
        max: s.max_ns,
        sum: s.sum_ns as f64,
    };
    t.slots.iter().map(stretch).collect()
}

/// How much values at a limit cluster; false where it had to be assumed.
fn inflation(stretches: &[Stretch], h: &Histogram, limit: u64) -> (f64, bool) {
    // Where nothing is at the limit, the highest level that the values have tells.
    let levels = [Some(limit), h.quantile(0.999), h.quantile(0.99)];
    let of = |l: u64| stretches::cautious_inflation(stretches, h, l);
    match levels.into_iter().flatten().find_map(of) {
        Some(i) => (i.factor.max(1.0), true),
        None => (ASSUMED_INFLATION, false),
    }
}

/// Values at the limit or beyond it: how many there are at least, and at most. Those of the limit's own bucket may
/// lie on either side, unless minimum or maximum tell.
#[derive(Clone, Copy)]
struct Beyond {
    least: u64,
    most: u64,
}

impl Beyond {
    fn of(h: &Histogram, r: &Requirement) -> Self {
        let beyond = |value: u64| match r.comparison {
            Comparison::Below => value as f64 >= r.limit,
            _ => value as f64 > r.limit,
        };
        let count = |value: &dyn Fn(u64) -> u64| {
            let of = h.buckets.iter().filter(|&&(low, _)| beyond(value(low)));
            of.fold(0u64, |sum, &(_, n)| sum.saturating_add(n))
        };
        Self {
            least: count(&|low| low.max(h.min)),
            most: count(&|low| bucket_high(low).min(h.max)),
        }
    }
}

impl Values {
    fn add(&mut self, h: &Histogram, beyond: Beyond, inflation: f64) {
        self.histogram.merge(h);
        self.effective += h.count as f64 / inflation;
        self.least += beyond.least as f64 / inflation;
        self.most += beyond.most as f64 / inflation;
    }
}

/// The decision on several threads or CPUs: each has to meet the requirement. The probability of a wrong
/// failure is shared among them.
fn conclude(checked: &mut Checked, all: Vec<Values>) {
    if all.is_empty() {
        return;
    }
    let r = checked.requirement.clone();
    checked.samples = all.iter().map(|v| v.histogram.count).sum();
    checked.effective = all.iter().map(|v| v.effective).sum();
    checked.duration_ns = all.iter().map(|v| v.duration_ns).min().unwrap_or(0);
    match r.statistic {
        Statistic::Quantile(q) => quantile(checked, &all, q),
        Statistic::Max => {
            let max = all.iter().map(|v| v.histogram.max).max().unwrap_or(0);
            observed(checked, max as f64);
            // What no value exceeds may still be exceeded: the bound of its probability.
            if checked.decision == Decision::Pass {
                let least = all.iter().map(|v| v.effective).fold(f64::INFINITY, f64::min);
                let bound = 1.0 - ERROR.powf(1.0 / least.max(1.0));
                checked.notes.push(
                    Note::new("check.not-seen").value("probability", Quantity::Probability(bound)),
                );
            }
        }
        Statistic::Missed => {
            let missed: u64 = all.iter().map(|v| v.missed).sum();
            observed(checked, missed as f64);
        }
        _ => {}
    }
}

fn quantile(checked: &mut Checked, all: &[Values], q: f64) {
    let bound = 1.0 - q;
    let of = |v: &Values| v.histogram.quantile(q).unwrap_or(0);
    let worst = all.iter().max_by_key(|v| of(v));
    checked.value = worst.map(|v| of(v) as f64);
    let pass = |v: &Values| below(v.effective, v.most, bound, ERROR) > 0;
    let shared = ERROR / all.len() as f64;
    let fail = |v: &Values| below(v.effective, v.least, bound, shared) < 0;
    let decision = if all.iter().any(fail) {
        Decision::Fail
    } else if all.iter().all(pass) {
        Decision::Pass
    } else {
        Decision::Undecided
    };
    checked.decision = decision;
    if decision == Decision::Undecided {
        let times = |v: &Values| {
            // No duration decides where the limit's own bucket has the quantile.
            let of = |cases| times_to_decide(v.effective, cases, bound, shared, POWER);
            match (v.most < v.effective * bound, v.least > v.effective * bound) {
                (true, _) => of(v.most),
                (_, true) => of(v.least),
                _ => None,
            }
        };
        let times: Option<Vec<f64>> = all.iter().filter(|v| !pass(v)).map(times).collect();
        match times {
            Some(times) => {
                let most = times.into_iter().fold(1.0, f64::max);
                checked.needed_ns = Some(most * checked.duration_ns as f64);
            }
            None => checked.notes.push(Note::new("check.too-close")),
        }
    }
    long_enough(checked);
}

/// A figure that is as observed; only a failure needs no duration.
fn observed(checked: &mut Checked, value: f64) {
    let r = &checked.requirement;
    checked.value = Some(value);
    let met = match r.comparison {
        Comparison::Below => value < r.limit,
        Comparison::AtMost => value <= r.limit,
        Comparison::Above => value > r.limit,
    };
    checked.decision = if met { Decision::Pass } else { Decision::Fail };
    long_enough(checked);
}

/// Nothing has passed that was measured for less than the requirement's duration.
fn long_enough(checked: &mut Checked) {
    let Some(wanted) = checked.requirement.circumstances.duration_ns else { return };
    // A measurement ends by the clock, up to an interval early.
    let short = (checked.duration_ns as f64) < wanted as f64 * 0.99;
    if checked.decision == Decision::Pass && short {
        checked.decision = Decision::Undecided;
        checked.needed_ns = Some(wanted as f64);
        checked.notes.push(
            Note::new("check.too-short")
                .value("measured", Quantity::Ns(checked.duration_ns as f64))
                .value("wanted", Quantity::Ns(wanted as f64)),
        );
    }
}

fn noise(checked: &mut Checked, runs: &[Named<'_>]) {
    let r = checked.requirement.clone();
    let c = &r.circumstances;
    let mut worst: Option<f64> = None;
    // Whether something that was not recorded may exceed the limit, and below which length that was.
    let (mut censored, mut threshold) = (false, 0);
    let mut durations: Vec<(CpuId, u64)> = Vec::new();
    let mut silent: BTreeSet<CpuId> = BTreeSet::new();
    let on = cpus(&r);
    for (name, run) in runs {
        for part in &run.parts {
            let Some(Detail::Noise(d)) = &part.detail else { continue };
            let fits = c.threshold_ns.is_none_or(|t| t == d.threshold_ns)
                && c.priority.is_none_or(|p| d.priority == Some(p))
                && c.packets
                    .is_none_or(|p| d.queue.map(|q| (q.per_second, q.service_ns)) == Some(p))
                && same_load(&c.load, run);
            if !fits {
                continue;
            }
            checked.runs.push((*name).to_owned());
            for cpu in &d.cpus {
                if on.as_ref().is_some_and(|on| !on.contains(&cpu.cpu.0)) {
                    continue;
                }
                let value = match r.statistic {
                    _ if cpu.looped_ns == 0 => None,
                    // Shorter than the threshold is no interruption, and a distance all the same.
                    Statistic::Max => Some(cpu.interruptions.max.max(cpu.distances.max) as f64),
                    Statistic::Lost => Some(cpu.lost()),
                    Statistic::PerSecond => Some(cpu.rate()),
                    Statistic::Queue => cpu.queue_max,
                    _ => None,
                };
                let Some(value) = value else {
                    silent.insert(cpu.cpu);
                    continue;
                };
                censored |= match r.statistic {
                    Statistic::Max => cpu.distances.count == 0 && d.threshold_ns as f64 > r.limit,
                    Statistic::Queue => cpu.not_listed > 0,
                    _ => false,
                };
                threshold = threshold.max(d.threshold_ns);
                worst = Some(worst.map_or(value, |w: f64| w.max(value)));
                checked.samples += cpu.interruptions.count;
                // The pauses between windows belong to the measurement.
                let pause = d.period_ns.saturating_sub(d.runtime_ns);
                let lasted = cpu.looped_ns.saturating_add(cpu.windows.saturating_mul(pause));
                match durations.iter_mut().find(|(id, _)| *id == cpu.cpu) {
                    Some(known) => known.1 += lasted,
                    None => durations.push((cpu.cpu, lasted)),
                }
            }
        }
    }
    checked.duration_ns = durations.iter().map(|d| d.1).min().unwrap_or(0);
    if let Some(worst) = worst {
        observed(checked, worst);
        below_threshold(checked, threshold, censored);
    }
    let known: BTreeSet<CpuId> = durations.iter().map(|d| d.0).collect();
    let mut missing = missing(on, &known);
    missing.extend(silent.difference(&known).map(|cpu| cpu.0));
    unmeasured(checked, &missing, false);
}

/// What the threshold of the measurement, or the length of its list, leaves open.
fn below_threshold(checked: &mut Checked, threshold_ns: u64, censored: bool) {
    let note = match checked.requirement.statistic {
        Statistic::Lost | Statistic::PerSecond => Some("check.threshold"),
        Statistic::Max if censored => Some("check.threshold-above"),
        Statistic::Queue if censored => Some("check.queue-not-listed"),
        _ => None,
    };
    if censored && checked.decision == Decision::Pass {
        checked.decision = Decision::Undecided;
    }
    let threshold = |id| Note::new(id).value("threshold", Quantity::Ns(threshold_ns as f64));
    checked.notes.extend(note.map(threshold));
}

/// A record by its name: decided by the intervals of its summary. Of several runs each has to pass.
fn record(checked: &mut Checked, name: &str, runs: &[Named<'_>]) {
    let r = checked.requirement.clone();
    let mut decisions = Vec::new();
    for (run_name, run) in runs {
        for record in run.records().map(|(_, record)| record).filter(|x| x.name == name) {
            if record.unit != r.unit {
                checked.notes.push(Note::new("check.other-unit").value("record", name));
                continue;
            }
            checked.runs.push((*run_name).to_owned());
            let Some((value, low, high)) = figure(record, &r.statistic) else { continue };
            let above = r.comparison == Comparison::Above;
            let worse = |a: f64, b: f64| if above { a < b } else { a > b };
            if checked.value.is_none_or(|v| worse(value, v)) {
                checked.value = Some(value);
                checked.interval = Some((low, high));
            }
            checked.samples += record.summary.count;
            let (good_end, bad_end) = if above { (high, low) } else { (low, high) };
            decisions.push(if worse(good_end, r.limit) {
                Decision::Fail
            } else if worse(r.limit, bad_end) {
                Decision::Pass
            } else {
                Decision::Undecided
            });
        }
    }
    checked.decision = decisions.into_iter().max().unwrap_or(Decision::Undecided);
    if checked.decision == Decision::Undecided && checked.value.is_some() {
        checked.notes.push(Note::new("check.interval-has-limit"));
    }
}

/// Value and 95 % interval.
fn figure(record: &Record, statistic: &Statistic) -> Option<(f64, f64, f64)> {
    match statistic {
        Statistic::Max => record.summary.max.map(|v| (v, v, v)),
        Statistic::Quantile(q) => {
            let quantile = record.summary.quantile(*q).map(|q| (q.value, q.low, q.high));
            let median = record.summary.median.filter(|_| *q == 0.5);
            // Without an interval it does not decide.
            quantile.or(median.map(|v| (v, f64::NEG_INFINITY, f64::INFINITY)))
        }
        _ => None,
    }
}

fn state(checked: &mut Checked, runs: &[Named<'_>]) {
    let Statistic::State(id) = checked.requirement.statistic.clone() else { return };
    let mut decisions = Vec::new();
    for (name, run) in runs {
        let doctor = run.parts.iter().filter(|p| matches!(p.detail, Some(Detail::Doctor(_))));
        for finding in doctor.flat_map(|p| &p.findings).filter(|f| f.id == id) {
            checked.runs.push((*name).to_owned());
            decisions.push(match finding.severity {
                Severity::Ok | Severity::Info => Decision::Pass,
                Severity::Warning | Severity::Problem => Decision::Fail,
                Severity::Inconclusive => Decision::Undecided,
            });
        }
    }
    checked.requirement.unit = Unit::Count;
    checked.decision = decisions.into_iter().max().unwrap_or(Decision::Undecided);
}
