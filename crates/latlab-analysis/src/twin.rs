//! A plan by which a virtual machine repeats what made another machine's task late, and the comparison of both.
//!
//! ```text
//! run of `why` ─ plan ─▶ a fault for each cause: kind, length, distance ─▶ virtual machine, `why` ─▶ compare
//! ```
//!
//! A cause of length S makes a wake-up late when it began so long before the intended time that more of it than the limit L
//! less the ordinary latency m is left. Of causes that begin at any time, one every E makes the share (S + m − L) / E of all
//! wake-ups late. The recording has that share; E is what follows from it. The period of late wake-ups is not that of their
//! cause: where both periods walk past each other, one in many causes meets the task.

use latlab_model::latency::{Mechanism, RootCause, WhyResult};
use latlab_model::record::{Record, Unit};
use latlab_model::run::{Detail, Part, Run};
use latlab_model::twin::{MainCause, Replay, TwinCause, TwinDetail, TwinSide};
use latlab_stats::histogram::Histogram;
use latlab_stats::quantile::median;
use std::collections::BTreeMap;

/// Distances differ at random by up to this share, percent, so that every phase is met.
const JITTER: u64 = 30;
/// Part of its period that a fault may last, with the jitter: `latlab vm run --fault` refuses longer ones.
const BUSY_MAX: f64 = 0.6;
/// Of a cause that is hardly longer than the limit, at least this share of its length makes late.
const WINDOW_MIN: f64 = 0.1;
/// Two counts differ by chance by less than so many standard deviations, 95 times out of 100.
const DEVIATIONS: f64 = 1.96;

/// Why a run cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It has no causes of late wake-ups.
    NoCauses,
    /// It has neither the interval of latlab's own thread nor a period of the explained task.
    NoPeriod,
    /// It does not tell how many wake-ups there were.
    NoCount,
    /// There is no virtual machine of its processor.
    NoMachine,
}

/// What the measured task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Distance of its intended times, ns.
    pub interval_ns: u64,
    /// SCHED_FIFO priority; `None`: an ordinary task.
    pub priority: Option<u32>,
}

/// What is replayed.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The virtual machine, with its options.
    pub machine: String,
    /// The measured task.
    pub task: Task,
    /// The recording.
    pub recorded: TwinSide,
    /// Its causes with their faults.
    pub causes: Vec<TwinCause>,
}

impl Plan {
    /// The faults.
    pub fn faults(&self) -> impl Iterator<Item = &str> {
        self.causes.iter().filter_map(|cause| match &cause.replay {
            Replay::Fault(fault) => Some(fault.as_str()),
            _ => None,
        })
    }

    /// Virtual time in which five times as many wake-ups are late as are captured, at most a minute, ns. While a capture is
    /// saved, none is taken.
    pub fn duration_ns(&self, captures: u64) -> u64 {
        let share = self.recorded.late.max(1) as f64 / self.recorded.wakeups.max(1) as f64;
        let wakeups = 5.0 * captures as f64 / share;
        let ns = wakeups * self.task.interval_ns as f64;
        (ns as u64).clamp(2_000_000_000, 60_000_000_000)
    }
}

/// Makes a plan of a run of `latlab why`, for the machine of this name, or the one that is most like the recording's.
///
/// # Errors
/// When the run lacks what a plan needs.
pub fn plan(run: &Run, machine: Option<&str>) -> Result<Plan, Refused> {
    let why = why_of(run).ok_or(Refused::NoCauses)?;
    let task = task(run, why).ok_or(Refused::NoPeriod)?;
    let is_rt = run.machine.kernel.preemption.as_deref() == Some("rt");
    let machine = match (run.machine.arch.as_str(), is_rt) {
        _ if machine.is_some() => machine.unwrap_or_default(),
        // Virtual time is that of 32-bit ARM and x86-64.
        ("armv7l" | "armv6l" | "aarch64", true) => "armv7-rt",
        ("armv7l" | "armv6l" | "aarch64", false) => "armv7",
        ("x86_64", true) => "x86_64-rt",
        ("x86_64", false) => "x86_64",
        _ => return Err(Refused::NoMachine),
    };
    let recorded = side(run, why, task.interval_ns);
    if recorded.wakeups == 0 || recorded.late == 0 {
        return Err(Refused::NoCount);
    }
    let rates = Rates::of(why, &recorded);
    let mut causes: Vec<&RootCause> = why.explanation.causes.iter().collect();
    causes.sort_by_key(|c| std::cmp::Reverse(c.main_of.len()));
    if causes.is_empty() {
        return Err(Refused::NoCauses);
    }
    // A fault stands for all causes of its kind.
    let mut of_kind: BTreeMap<&str, usize> = BTreeMap::new();
    for cause in &causes {
        if let Some((kind, _)) = kind(cause) {
            *of_kind.entry(kind).or_default() += cause.main_of.len();
        }
    }
    let causes = causes.into_iter().map(|cause| TwinCause {
        recorded: main_cause(cause),
        replay: replay(cause, machine, &rates, &mut of_kind),
        found: None,
    });
    let causes = causes.collect();
    Ok(Plan { machine: machine.to_owned(), task, causes, recorded })
}

/// The result of `latlab why` of a run.
pub fn why_of(run: &Run) -> Option<&WhyResult> {
    run.parts.iter().find_map(|part| match &part.detail {
        Some(Detail::Why(why)) => Some(&**why),
        _ => None,
    })
}

/// One machine of the comparison.
pub fn side(run: &Run, why: &WhyResult, interval_ns: u64) -> TwinSide {
    let session = why.session.as_ref();
    TwinSide {
        machine: run.machine.host.clone(),
        release: run.machine.kernel.release.clone(),
        wakeups: session.map_or(0, |s| s.wakeups),
        late: session.map_or(0, |s| s.late),
        captured: why.windows.iter().filter(|w| w.late).count() as u64,
        limit_ns: why.limit_ns,
        interval_ns,
    }
}

/// Latlab's own thread by its configuration, or the explained task by its activations.
fn task(run: &Run, why: &WhyResult) -> Option<Task> {
    if let Some(activations) = why.activations.first() {
        let interval_ns = activations.period?.median_ns;
        let priority = activations.prio.and_then(real_time);
        return (interval_ns > 0).then_some(Task { interval_ns, priority });
    }
    let measure = &run.config["wakeup"]["measure"];
    let interval_ns = measure["interval_ns"].as_u64().filter(|ns| *ns > 0)?;
    let is_fifo = matches!(measure["policy"].as_str(), Some("fifo" | "rr"));
    let priority = measure["priority"].as_u64().and_then(|p| u32::try_from(p).ok());
    Some(Task { interval_ns, priority: priority.filter(|_| is_fifo) })
}

/// The SCHED_FIFO priority of a kernel priority, which is 0 for the highest one.
fn real_time(prio: i32) -> Option<u32> {
    u32::try_from(99 - prio).ok().filter(|p| (1..=99).contains(p))
}

/// What turns counts into distances.
struct Rates {
    /// Late wake-ups for each captured one.
    scale: f64,
    /// Wake-ups.
    wakeups: f64,
    /// Limit less the median of on-time wake-ups, ns.
    above_ns: f64,
    interval_ns: f64,
}

impl Rates {
    fn of(why: &WhyResult, recorded: &TwinSide) -> Self {
        let on_time = why.windows.iter().filter(|w| !w.late).map(|w| w.latency_ns as f64);
        let ordinary = median(&on_time.collect::<Vec<_>>()).unwrap_or(0.0);
        Self {
            scale: recorded.late as f64 / recorded.captured.max(1) as f64,
            wakeups: recorded.wakeups as f64,
            above_ns: (recorded.limit_ns as f64 - ordinary).max(0.0),
            interval_ns: recorded.interval_ns as f64,
        }
    }

    /// Distance of a cause of this length that is the main one of so many captured wake-ups, ns.
    fn distance_ns(&self, size_ns: f64, main_of: usize) -> f64 {
        let share = main_of as f64 * self.scale / self.wakeups;
        let window = (size_ns - self.above_ns).max(WINDOW_MIN * size_ns);
        let ns = window / share;
        // A multiple of the interval would meet the task always or never.
        let intervals = ns / self.interval_ns;
        if (intervals - intervals.round()).abs() < 0.05 { ns + 0.27 * self.interval_ns } else { ns }
    }
}

fn main_cause(cause: &RootCause) -> MainCause {
    let mut alternatives = Vec::new();
    for alternative in &cause.alternatives {
        if !alternatives.contains(&alternative.mechanism) {
            alternatives.push(alternative.mechanism);
        }
    }
    MainCause {
        mechanism: cause.mechanism,
        who: cause.who.clone(),
        alternatives,
        main_of: cause.main_of.len() as u64,
        size_ns: cause.size_ns,
    }
}

/// `of_kind`: wake-ups of all causes that a fault of that kind stands for, until one does.
fn replay(
    cause: &RootCause,
    machine: &str,
    rates: &Rates,
    of_kind: &mut BTreeMap<&str, usize>,
) -> Replay {
    if cause.main_of.is_empty() {
        return Replay::NeverMain;
    }
    let Some((kind, priority)) = kind(cause) else { return Replay::NoFault };
    if kind == "nmi" && !machine.starts_with("x86_64") {
        return Replay::OtherProcessor;
    }
    let Some(main_of) = of_kind.get(kind).copied() else { return Replay::Taken };
    let size = cause.size_ns.max(1000.0);
    let every = rates.distance_ns(size, main_of);
    if size > 0.9 * every {
        return Replay::Continuous;
    }
    of_kind.remove(kind);
    let mut fault =
        [kind, ":ns=", &(size as u64).to_string(), ",every=", &(every as u64).to_string()].concat();
    if size <= BUSY_MAX * every {
        fault.extend([",jitter=", &JITTER.to_string()]);
    }
    if let Some(priority) = priority {
        fault.extend([",prio=", &priority.to_string()]);
    }
    Replay::Fault(fault)
}

/// The fault of a cause, with the priority of its thread where that decides.
fn kind(cause: &RootCause) -> Option<(&'static str, Option<u32>)> {
    // Where the events do not distinguish mechanisms, that of most wake-ups stands for all.
    let mechanism = match cause.alternatives.first() {
        Some(first) if cause.mechanism == Mechanism::Alternatives => first.mechanism,
        _ => cause.mechanism,
    };
    Some(match mechanism {
        Mechanism::InterruptsOff => ("irqs-off", None),
        Mechanism::PreemptionOff => ("preempt-off", None),
        Mechanism::InterruptHandler => ("irq", None),
        Mechanism::HrtimerHandler => ("hardirq", None),
        Mechanism::TimerCallback => ("timer-calls", None),
        Mechanism::Softirq => match cause.who.as_str() {
            who if who.contains("NET_RX") => ("net-rx", None),
            who if who.contains("RCU") => ("rcu", None),
            who if who.contains("TIMER") => ("timer-calls", None),
            _ => ("tasklet", None),
        },
        Mechanism::Workqueue => ("workqueue", None),
        Mechanism::HigherPriority | Mechanism::EqualPriority => {
            if cause.who.starts_with("irq/") && cause.prio == Some(49) {
                ("irq-thread", None)
            } else {
                ("fifo", Some(cause.prio.and_then(real_time)?))
            }
        }
        Mechanism::Nmi => ("nmi", None),
        Mechanism::IdleExit => ("idle", None),
        _ => return None,
    })
}

/// The comparison with what happened in the virtual machine.
pub fn compare(plan: Plan, replayed: &Run, machine: &str, command: Vec<String>) -> TwinDetail {
    let mut detail = without_replay(plan, command);
    let Some(why) = why_of(replayed) else { return detail };
    detail.replayed = Some(TwinSide {
        machine: machine.to_owned(),
        ..side(replayed, why, detail.recorded.interval_ns)
    });
    let causes = why.explanation.causes.iter();
    let mut found: Vec<MainCause> =
        causes.filter(|c| !c.main_of.is_empty()).map(main_cause).collect();
    found.sort_by_key(|c| std::cmp::Reverse(c.main_of));
    // The same mechanism; then, for those that remain, one that the events there do not distinguish from it. Of several
    // that whose size is nearest: the machine has causes of its own, such as its timer tick.
    for is_match in [is_same, is_among] {
        let is_open =
            |c: &&mut TwinCause| matches!(c.replay, Replay::Fault(_)) && c.found.is_none();
        for cause in detail.causes.iter_mut().filter(is_open) {
            let matching = found.iter().enumerate().filter(|(_, f)| is_match(&cause.recorded, f));
            let unlike = |f: &MainCause| ratio(f.size_ns, cause.recorded.size_ns);
            let nearest = matching.min_by(|(_, a), (_, b)| unlike(a).total_cmp(&unlike(b)));
            cause.found = nearest.map(|(at, _)| at).map(|at| found.remove(at));
        }
    }
    detail.others = found;
    [detail.pairs, detail.same, detail.reversed] = order(&detail.causes);
    detail
}

/// Of the larger size to the smaller one, at least 1. Sizes below a nanosecond are equal.
fn ratio(a: f64, b: f64) -> f64 {
    a.max(b).max(1.0) / a.min(b).max(1.0)
}

fn is_same(cause: &MainCause, found: &MainCause) -> bool {
    found.mechanism == cause.mechanism
}

fn is_among(cause: &MainCause, found: &MainCause) -> bool {
    found.alternatives.contains(&cause.mechanism) || cause.alternatives.contains(&found.mechanism)
}

/// The plan alone.
pub fn without_replay(plan: Plan, command: Vec<String>) -> TwinDetail {
    TwinDetail { recorded: plan.recorded, causes: plan.causes, command, ..TwinDetail::default() }
}

/// Pairs of replayed causes whose order the recording determines, those that the replay determines to be the same, and
/// those that it reverses. A fault stands for all causes of its mechanism.
fn order(causes: &[TwinCause]) -> [u32; 3] {
    let all = |of: &TwinCause| -> u64 {
        let taken =
            |c: &&TwinCause| is_same(&c.recorded, &of.recorded) && c.replay == Replay::Taken;
        of.recorded.main_of + causes.iter().filter(taken).map(|c| c.recorded.main_of).sum::<u64>()
    };
    let replayed: Vec<[f64; 2]> = (causes.iter())
        .filter(|c| matches!(c.replay, Replay::Fault(_)))
        .map(|c| [all(c), c.found.as_ref().map_or(0, |f| f.main_of)].map(|n| n as f64))
        .collect();
    let exceeds = |a: f64, b: f64| a - b > DEVIATIONS * (a + b).sqrt();
    let [mut pairs, mut same, mut reversed] = [0; 3];
    for (i, a) in replayed.iter().enumerate() {
        for b in &replayed[i + 1..] {
            if exceeds(a[0], b[0]) {
                pairs += 1;
                same += u32::from(exceeds(a[1], b[1]));
                reversed += u32::from(exceeds(b[1], a[1]));
            }
        }
    }
    [pairs, same, reversed]
}

/// The part of a run.
pub fn part(detail: TwinDetail, replayed: Option<&Run>) -> Part {
    let latencies = replayed.into_iter().flat_map(Run::records);
    let histogram = latencies.filter_map(|(_, r)| r.histogram.clone()).next();
    let record = histogram.map(|histogram: Histogram| Record {
        name: "wakeup.user".into(),
        unit: Unit::Ns,
        summary: histogram.summary(),
        histogram: Some(histogram),
        ..Record::default()
    });
    Part {
        name: "twin".into(),
        title: "Causes of a recording, repeated in a virtual machine".into(),
        complete: true,
        results: record.into_iter().collect(),
        detail: Some(Detail::Twin(Box::new(detail))),
        ..Part::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::finding::Confidence;
    use latlab_model::latency::{Alternative, CaptureSession, Window};

    fn cause(mechanism: Mechanism, windows: std::ops::Range<usize>, size_ns: f64) -> RootCause {
        RootCause {
            mechanism,
            who: String::new(),
            thread: None,
            stage: None,
            prio: None,
            main_of: windows.collect(),
            part_of: Vec::new(),
            share_of_late: 0.0,
            share_of_lateness: 0.0,
            excess_ns: size_ns,
            size_ns,
            size_interval_ns: None,
            times: 1.0,
            times_on_time: 0.0,
            functions: Vec::new(),
            stack: Vec::new(),
            alternatives: Vec::new(),
            waited_for: None,
            execution: None,
            instead: Vec::new(),
            period_ns: None,
            confidence: Confidence::High,
            evidence: Vec::new(),
            example: None,
        }
    }

    /// 40 late wake-ups of 10,000 at a limit of 110 µs, an ordinary one takes 10 µs.
    fn recorded(causes: Vec<RootCause>) -> Run {
        let window = |late| Window {
            late,
            latency_ns: if late { 200_000 } else { 10_000 },
            ..Window::default()
        };
        let mut why = WhyResult { limit_ns: 110_000, ..WhyResult::default() };
        why.windows = (0..100).map(|n| window(n < 20)).collect();
        why.session =
            Some(CaptureSession { wakeups: 10_000, late: 40, ..CaptureSession::default() });
        why.explanation.causes = causes;
        let mut run = Run {
            config: serde_json::json!({ "wakeup": { "measure": {
                "interval_ns": 1_000_000, "policy": "fifo", "priority": 80,
            } } }),
            parts: vec![Part { detail: Some(Detail::Why(Box::new(why))), ..Part::default() }],
            ..Run::default()
        };
        run.machine.arch = "armv7l".into();
        run.machine.kernel.preemption = Some("rt".into());
        run
    }

    fn fault(cause: &TwinCause) -> &str {
        match &cause.replay {
            Replay::Fault(fault) => fault,
            other => panic!("{other:?}"),
        }
    }

    /// Of sections of 300 µs, the first 200 µs make a wake-up late. 15 of 20 captured ones are theirs, so 30 of 10,000: one
    /// section in (200 µs / 0.003) = 66.7 ms.
    #[test]
    fn distances_follow_from_the_share_of_late_wake_ups() {
        let run = recorded(vec![
            cause(Mechanism::HrtimerHandler, 15..20, 200_000.0),
            cause(Mechanism::InterruptsOff, 0..15, 300_000.0),
        ]);
        let plan = plan(&run, None).unwrap();
        assert_eq!((plan.machine.as_str(), plan.task.priority), ("armv7-rt", Some(80)));
        assert_eq!((plan.recorded.late, plan.recorded.captured), (40, 20));
        assert_eq!(fault(&plan.causes[0]), "irqs-off:ns=300000,every=66666666,jitter=30");
        // 100 µs of each, 10 of 10,000: 100 ms would be a multiple of the interval.
        assert_eq!(fault(&plan.causes[1]), "hardirq:ns=200000,every=100270000,jitter=30");
        assert_eq!(plan.duration_ns(40), 50_000_000_000);
    }

    /// A period of late wake-ups is not that of the cause, which may meet the task every tenth time.
    #[test]
    fn a_priority_goes_along_and_a_period_does_not() {
        let task = RootCause {
            period_ns: Some((539_000_000.0, 40_000.0)),
            prio: Some(9),
            ..cause(Mechanism::HigherPriority, 0..20, 400_000.0)
        };
        let plan = plan(&recorded(vec![task]), None).unwrap();
        assert_eq!(fault(&plan.causes[0]), "fifo:ns=400000,every=75270000,jitter=30,prio=90");
    }

    #[test]
    fn what_has_no_fault_keeps_its_reason() {
        let either = RootCause {
            alternatives: vec![Alternative {
                mechanism: Mechanism::PreemptionOff,
                who: "worker".into(),
                windows: 4,
            }],
            ..cause(Mechanism::Alternatives, 0..4, 200_000.0)
        };
        let run = recorded(vec![
            either,
            cause(Mechanism::InterruptHandler, 4..9, 200_000.0),
            cause(Mechanism::InterruptHandler, 9..12, 200_000.0),
            cause(Mechanism::Stall, 12..14, 200_000.0),
            cause(Mechanism::Nmi, 14..15, 200_000.0),
            cause(Mechanism::Softirq, 0..0, 200_000.0),
        ]);
        let plan = plan(&run, None).unwrap();
        // 8 of 20 captured wake-ups, so 16 of 10,000; (200 + 10 - 110) µs of each.
        assert_eq!(fault(&plan.causes[0]), "irq:ns=200000,every=62500000,jitter=30");
        assert!(fault(&plan.causes[1]).starts_with("preempt-off:"));
        let rest: Vec<&Replay> = plan.causes[2..].iter().map(|c| &c.replay).collect();
        let none = [Replay::Taken, Replay::NoFault, Replay::OtherProcessor, Replay::NeverMain];
        assert_eq!(rest, none.iter().collect::<Vec<_>>());
        let on_x86 = super::plan(&run, Some("x86_64-rt")).unwrap();
        assert!(fault(&on_x86.causes[4]).starts_with("nmi:"));
    }

    #[test]
    fn what_is_no_run_of_why_is_refused() {
        assert_eq!(plan(&Run::default(), None), Err(Refused::NoCauses));
        let mut run = recorded(vec![cause(Mechanism::InterruptsOff, 0..20, 300_000.0)]);
        run.machine.arch = "riscv64".into();
        assert_eq!(plan(&run, None), Err(Refused::NoMachine));
        run.config = serde_json::Value::Null;
        assert_eq!(plan(&run, Some("armv7-rt")), Err(Refused::NoPeriod));
        let files = recorded(Vec::new());
        assert_eq!(plan(&files, None), Err(Refused::NoCauses));
    }

    /// Of 60 and 20 late wake-ups the order is certain, of 20 and 18 it is not.
    #[test]
    fn an_order_counts_where_the_recording_determines_it() {
        let cause = |mechanism, main_of| MainCause {
            mechanism,
            who: String::new(),
            alternatives: Vec::new(),
            main_of,
            size_ns: 0.0,
        };
        let of = |mechanism, n, found| TwinCause {
            recorded: cause(mechanism, n),
            replay: Replay::Fault(String::new()),
            found: Some(cause(mechanism, found)),
        };
        let three = |found: [u64; 3]| {
            let [a, b, c] = found;
            order(&[
                of(Mechanism::InterruptsOff, 60, a),
                of(Mechanism::Softirq, 20, b),
                of(Mechanism::Nmi, 18, c),
            ])
        };
        assert_eq!(three([50, 12, 30]), [2, 2, 0]);
        assert_eq!(three([10, 60, 30]), [2, 0, 2]);
        assert_eq!(three([30, 34, 10]), [2, 1, 0]);
        assert_eq!(three([0, 0, 0]), [2, 0, 0], "nothing captured determines nothing");
    }

    /// The machine's own timer tick makes more wake-ups late than the fault, of the same mechanism.
    #[test]
    fn a_cause_is_found_where_its_size_is() {
        let fault = cause(Mechanism::HrtimerHandler, 0..20, 413_000.0);
        let plan = plan(&recorded(vec![fault]), None).unwrap();
        let tick = cause(Mechanism::HrtimerHandler, 0..35, 33_000.0);
        let there = cause(Mechanism::HrtimerHandler, 35..53, 423_000.0);
        let detail = compare(plan, &recorded(vec![tick, there]), "x86_64-rt", Vec::new());
        assert_eq!(detail.causes[0].found.as_ref().unwrap().main_of, 18);
        assert_eq!(detail.others[0].main_of, 35);
    }

    #[test]
    fn a_replay_is_compared_mechanism_by_mechanism() {
        let causes = || {
            vec![
                cause(Mechanism::InterruptsOff, 0..15, 300_000.0),
                cause(Mechanism::Softirq, 15..20, 200_000.0),
            ]
        };
        let plan = plan(&recorded(causes()), None).unwrap();
        let mut there = causes();
        there[1].mechanism = Mechanism::PageFault;
        let detail = compare(plan.clone(), &recorded(there.clone()), "armv7-rt", Vec::new());
        let found: Vec<bool> = detail.causes.iter().map(|c| c.found.is_some()).collect();
        assert_eq!(found, [true, false]);
        assert_eq!(detail.others[0].mechanism, Mechanism::PageFault);
        assert_eq!([detail.pairs, detail.same, detail.reversed], [1, 1, 0]);
        assert_eq!(detail.replayed.unwrap().machine, "armv7-rt");
        // The events there do not distinguish it from another one.
        there[1].mechanism = Mechanism::Alternatives;
        let mechanisms = [Mechanism::Stall, Mechanism::Softirq];
        let alternative = |mechanism| Alternative { mechanism, who: String::new(), windows: 5 };
        there[1].alternatives = mechanisms.map(alternative).into();
        let detail = compare(plan, &recorded(there), "armv7-rt", Vec::new());
        assert_eq!(detail.causes[1].found.as_ref().unwrap().alternatives, mechanisms);
        assert!(detail.others.is_empty());
    }
}
