//! From causes to findings: mechanism, values, evidence and remedies.

use super::execution_findings;
use super::source_location;
use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity, Value};
use latlab_model::latency::FunctionPlace;
use latlab_model::latency::{
    Alternative, CauseEvidence, Explanation, FunctionShare, IpiSender, Mechanism, RootCause, Stage,
    SystemContext,
};

/// Share of unexplained lateness from which it is a finding.
const UNEXPLAINED: f64 = 0.1;
/// Functions and stack frames of a cause that become evidence.
const FUNCTIONS: usize = 3;
const FRAMES: usize = 6;

/// The findings of an explanation, the cause with the largest share of the lateness first.
pub fn findings(
    explanation: &Explanation,
    context: &SystemContext,
    places: &[FunctionPlace],
) -> Vec<Finding> {
    let of = |c| finding(c, explanation, context, places);
    let mut findings: Vec<Finding> = explanation.causes.iter().map(of).collect();
    if let Some((before, after)) = context.clock_source.as_ref() {
        let id = "why.clock-source-changed";
        findings.push(
            Finding::typed(id, Severity::Warning, Confidence::High)
                .value("before", before)
                .value("after", after)
                .remedy(Note::new("why.remedy-clock-source")),
        );
    }
    if explanation.unexplained_share > UNEXPLAINED && explanation.contrast.late > 0 {
        let id = "why.unexplained-share";
        findings.push(
            Finding::typed(id, Severity::Info, Confidence::High)
                .value("share", Quantity::Ratio(explanation.unexplained_share))
                .remedy(Note::new("why.remedy-trace-more")),
        );
    }
    findings
}

fn finding(
    c: &RootCause,
    e: &Explanation,
    context: &SystemContext,
    places: &[FunctionPlace],
) -> Finding {
    let severity = match c.mechanism {
        Mechanism::SlowPath | Mechanism::Unexplained | Mechanism::Alternatives => {
            Severity::Inconclusive
        }
        Mechanism::Measurement => Severity::Warning,
        _ => Severity::Problem,
    };
    let mut f = with_values(Finding::typed(c.mechanism.id(), severity, c.confidence), c, context);
    f = f
        .with(
            Evidence::new("main-cause-share", Quantity::Ratio(c.share_of_late))
                .of(c.main_of.len() as u64),
        )
        .with(Evidence::new("lateness-share", Quantity::Ratio(c.share_of_lateness)))
        .with(Evidence::new("delay-median", Quantity::Ns(c.excess_ns)).of(c.part_of.len() as u64));
    if c.size_ns > 1.05 * c.excess_ns {
        let size = Quantity::Ns(c.size_ns);
        f = match c.size_interval_ns {
            None => f.with(Evidence::new("cause-duration-median", size)),
            Some((low, high)) => {
                let interval = vec![Quantity::Ns(low), Quantity::Ns(high)];
                f.with(Evidence::new("cause-duration-estimated", size))
                    .with(Evidence::new("cause-duration-interval", interval))
            }
        };
    }
    if c.times > 1.5 * c.times_on_time.max(1.0) {
        f = f
            .with(Evidence::new("occurrences-late", Quantity::Number(c.times)))
            .with(Evidence::new("occurrences-on-time", Quantity::Number(c.times_on_time)));
    }
    if let Some((period, jitter)) = c.period_ns {
        f = f
            .with(Evidence::new("period", Quantity::Ns(period)).of(c.part_of.len() as u64))
            .with(Evidence::new("period-jitter", Quantity::Ns(jitter)));
    }
    for function in c.functions.iter().take(FUNCTIONS) {
        f = f.with(function_evidence(function));
    }
    if !c.stack.is_empty() {
        let frames: Vec<&str> = c.stack.iter().take(FRAMES).map(String::as_str).collect();
        f = f.with(Evidence::new("kernel-stack", frames));
    }
    f = c.execution.iter().flat_map(execution_findings::evidence).fold(f, Finding::with);
    f = source_location::evidence(c, places).into_iter().fold(f, Finding::with);
    f = c.evidence.iter().flat_map(cause_evidence).fold(f, Finding::with);
    let controls = Quantity::Count(e.contrast.on_time as u64);
    f = f.with(Evidence::new("on-time-windows", controls));
    remedies(c, context.preempt_rt).into_iter().fold(f, Finding::remedy)
}

/// Who acts, at which priority, for how long.
fn with_values(f: Finding, c: &RootCause, context: &SystemContext) -> Finding {
    let who = (!c.who.is_empty()).then_some(&c.who);
    let mut f = f.value_if("who", who).value("delay", Quantity::Ns(c.excess_ns));
    f = f.value_if("thread", c.thread.as_ref().filter(|t| **t != c.who));
    f = f.value_if("waited_for", c.waited_for.as_ref());
    match c.prio {
        Some(p) if p < 0 => f = f.value("class", "deadline"),
        Some(p) if p < 100 => {
            f = f.value("class", "realtime").value("priority", Quantity::Priority(99 - p));
        }
        Some(_) => f = f.value("class", "fair"),
        None => {}
    }
    match c.mechanism {
        Mechanism::Ipi => {
            let f = f.value("times", Quantity::Number(c.times.max(1.0).round()));
            let sent = c.evidence.iter().find_map(|fact| match fact {
                CauseEvidence::IpiSender { sender, .. } => Some(sender),
                _ => None,
            });
            let Some(sender) = sent else { return f };
            f.value("sender_cpu", Quantity::Count(u64::from(sender.cpu)))
                .value_if("sender", Some(&sender.task).filter(|t| !t.is_empty()))
                .value_if("function", Some(&sender.function).filter(|t| !t.is_empty()))
        }
        // Another CPU woke the task, and its interrupt came late.
        Mechanism::InterruptsOff if c.stage == Some(Stage::Schedule) => {
            f.value("after_waking", true)
        }
        Mechanism::PriorityInversion => f.value("instead", strings(&c.instead)),
        Mechanism::Execution => c.execution.iter().fold(f, execution_findings::values),
        Mechanism::Stall => {
            let rose = |p: &Option<f64>| p.is_some_and(|p| p < 0.01);
            let has = |is: &dyn Fn(&CauseEvidence) -> bool| c.evidence.iter().any(is);
            f.value_if("hypervisor", context.hypervisor.as_ref())
                .value(
                    "steal",
                    has(&|e| matches!(e, CauseEvidence::StealThen { p, .. } if rose(p))),
                )
                .value("smi", has(&|e| matches!(e, CauseEvidence::SmiThen { p, .. } if rose(p))))
        }
        Mechanism::Alternatives => {
            let code = c.alternatives.iter().filter(|a| a.mechanism != Mechanism::Stall);
            let one = |a: &Alternative| {
                let id = a.mechanism.id().trim_start_matches("why.");
                Value::List(vec![Value::from(id), Value::from(a.who.as_str())])
            };
            let stall = c.alternatives.iter().any(|a| a.mechanism == Mechanism::Stall);
            f.value("alternatives", code.map(one).collect::<Vec<_>>())
                .value("no_stall", !stall)
                .value_if("hypervisor", context.hypervisor.as_ref())
        }
        _ => f,
    }
}

fn strings(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// More calls and longer calls are different evidence.
fn function_evidence(f: &FunctionShare) -> Evidence {
    // Runs of earlier versions have no time per call.
    let known =
        |each: f64, ns: f64, calls: f64| if each > 0.0 { each } else { ns / calls.max(1.0) };
    let late_each = known(f.late_each_ns, f.late_ns, f.late_calls);
    let on_time_each = known(f.on_time_each_ns, f.on_time_ns, f.on_time_calls);
    let more = f.late_calls > 1.5 * f.on_time_calls.max(1.0);
    let longer = on_time_each > 0.0 && late_each > 1.5 * on_time_each;
    let name = Value::from(f.function.as_str());
    let calls = [f.late_calls, f.on_time_calls].map(|n| Value::from(Quantity::Number(n.round())));
    let each = [late_each, on_time_each].map(|ns| Value::from(Quantity::Ns(ns)));
    let evidence = |id: &str, values: &[Value]| {
        let all: Vec<Value> = std::iter::once(&name).chain(values).cloned().collect();
        Evidence::new(id, Value::List(all))
    };
    let [late_calls, on_time_calls] = calls;
    let [late, on_time] = each;
    let found = match (more, longer) {
        (true, false) => evidence("function-more-calls", &[late_calls, on_time_calls, late]),
        (true, true) => {
            evidence("function-more-and-longer-calls", &[late_calls, on_time_calls, late, on_time])
        }
        (false, true) => evidence("function-longer-calls", &[late, on_time]),
        (false, false) if on_time_each > 0.0 => {
            evidence("function-equal-calls", &[Quantity::Ns(f.late_ns).into()])
        }
        (false, false) => evidence("function-late-only", &[Quantity::Ns(f.late_ns).into()]),
    };
    match longer && f.on_time_calls < 1.0 && f.on_time_windows > 0 {
        true => found.of(f.on_time_windows as u64),
        false => found,
    }
}

fn cause_evidence(fact: &CauseEvidence) -> Vec<Evidence> {
    let count = |id: &str, n: usize| Evidence::new(id, Quantity::Count(n as u64));
    let of = |id: &str, n: usize, all: usize| vec![count(id, n).of(all as u64)];
    match fact {
        CauseEvidence::Covers { share } => {
            vec![Evidence::new("excess-covered", Quantity::Ratio(*share))]
        }
        CauseEvidence::Separates { delta } => {
            vec![Evidence::new("cliffs-delta", Quantity::Number(*delta))]
        }
        CauseEvidence::NotCompared { share } => {
            vec![Evidence::new("excess-not-compared", Quantity::Ratio(*share))]
        }
        // The number of on-time windows is evidence of every cause.
        CauseEvidence::NoControls => Vec::new(),
        CauseEvidence::Few { windows } => vec![count("late-windows", *windows)],
        CauseEvidence::Victim { hits, of, occupancy, p } => vec![
            Evidence::new("coincidence-p", Quantity::Probability(*p)),
            count("event-free-intervals-of-actor", *hits).of(*of as u64),
            Evidence::new("cpu-occupancy", Quantity::Ratio(*occupancy)),
        ],
        CauseEvidence::Place { function, hits, on_time, p } => {
            let counts = [*hits, *on_time].map(|n| Value::from(Quantity::Count(n as u64)));
            let all = std::iter::once(Value::from(function.as_str())).chain(counts).collect();
            vec![
                Evidence::new("interrupted-in", Value::List(all)),
                Evidence::new("interrupted-in-p", Quantity::Probability(*p)),
            ]
        }
        CauseEvidence::UsualLength { windows, usual_ns } => vec![
            count("usual-length-windows", *windows),
            Evidence::new("usual-length", Quantity::Ns(*usual_ns as f64)),
        ],
        CauseEvidence::InUser { windows } => vec![count("event-free-in-user-code", *windows)],
        CauseEvidence::AllSilent { windows, of: all } => {
            of("event-free-on-all-cpus", *windows, *all)
        }
        CauseEvidence::Simultaneous { windows, of: all } => {
            of("other-cpu-late-at-once", *windows, *all)
        }
        CauseEvidence::AlikeLengths { median_ns, mad_ns } => vec![
            Evidence::new("similar-durations-median", Quantity::Ns(*median_ns)),
            Evidence::new("similar-durations-mad", Quantity::Ns(*mad_ns)),
        ],
        CauseEvidence::Hypervisor { name } => vec![Evidence::new("hypervisor", name)],
        CauseEvidence::Steal { ns } => {
            vec![Evidence::new("steal-time", Quantity::Ns(*ns as f64))]
        }
        CauseEvidence::Smi { count } => {
            vec![Evidence::new("smi-count", Quantity::Count(*count))]
        }
        CauseEvidence::DeclaredExit { ns } => {
            vec![Evidence::new("idle-exit-latency-max", Quantity::Ns(*ns as f64))]
        }
        CauseEvidence::Lost { windows } => vec![count("windows-with-lost-events", *windows)],
        CauseEvidence::Uncovered { windows } => {
            vec![count("windows-not-covered-from-start", *windows)]
        }
        CauseEvidence::InterruptsOn { windows } => {
            vec![count("event-free-with-interrupts-enabled", *windows)]
        }
        CauseEvidence::SectionRecorded { windows } => {
            vec![count("event-free-with-interrupts-or-preemption-disabled", *windows)]
        }
        CauseEvidence::Hwlat { windows } => vec![count("hwlat-gaps", *windows)],
        CauseEvidence::OtherTimerSilent { windows, of: all } => {
            of("timer-of-another-cpu-late-at-once", *windows, *all)
        }
        CauseEvidence::StealThen { windows, of: all, p } => {
            let p = p.map(|p| Evidence::new("captures-with-steal-p", Quantity::Probability(p)));
            of("captures-with-steal", *windows, *all).into_iter().chain(p).collect()
        }
        CauseEvidence::SmiThen { windows, of: all, p } => {
            let p = p.map(|p| Evidence::new("captures-with-smi-p", Quantity::Probability(p)));
            of("captures-with-smi", *windows, *all).into_iter().chain(p).collect()
        }
        CauseEvidence::IdleState { state, declared_ns, on_time_ns } => {
            let state = Quantity::Count(u64::from(*state));
            let declared = Quantity::Ns(*declared_ns as f64);
            let exit = vec![Value::from(state), Value::from(declared)];
            let on_time = on_time_ns
                .map(|ns| Evidence::new("idle-exit-on-time-max", Quantity::Ns(ns as f64)));
            std::iter::once(Evidence::new("idle-state-left", Value::List(exit)))
                .chain(on_time)
                .collect()
        }
        CauseEvidence::Frequency { low_khz, high_khz } => {
            let hz = [low_khz, high_khz].map(|k| Value::from(Quantity::Hz(*k as f64 * 1e3)));
            vec![Evidence::new("cpu-frequency", Value::List(hz.to_vec()))]
        }
        CauseEvidence::Speed { ratio } => {
            vec![Evidence::new("cpu-speed", Quantity::Ratio(*ratio))]
        }
        CauseEvidence::IpiSender { sender, windows } => {
            let IpiSender { cpu, task, function } = sender;
            let cpu = Quantity::Count(u64::from(*cpu));
            let all = vec![cpu.into(), task.as_str().into(), function.as_str().into()];
            vec![Evidence::new("ipi-sender", Value::List(all)).of(*windows as u64)]
        }
        CauseEvidence::Missing { what } => vec![missing(what)],
    }
}

/// A counter that is not readable: its identifier, and the error where there is one.
fn missing(what: &Note) -> Evidence {
    match what {
        Note::Typed(s) => {
            let error = s.values.get("error").cloned().unwrap_or_else(|| Value::from(""));
            Evidence::new(s.id.as_str(), error)
        }
        Note::Recorded(text) => Evidence::new("counter-not-available", text),
    }
}

/// Whether a limit of the control group is one of the alternatives.
fn is_of_bandwidth(c: &RootCause) -> bool {
    c.alternatives.iter().any(|a| a.mechanism == Mechanism::Bandwidth)
}

/// What to change or to measure next, by mechanism.
fn remedies(c: &RootCause, preempt_rt: Option<bool>) -> Vec<Note> {
    let placed = c.evidence.iter().any(|fact| matches!(fact, CauseEvidence::Place { .. }));
    let ids: &[&str] = match c.mechanism {
        Mechanism::InterruptsOff => &["why.remedy-locate-irqs-off", "why.remedy-isolate-or-split"],
        Mechanism::PreemptionOff => &[
            "why.remedy-preempt-rt",
            "why.remedy-locate-preempt-off",
            "why.remedy-keep-task-off-cpu",
        ],
        Mechanism::InterruptHandler => &["why.remedy-move-interrupt", "why.remedy-threaded-irqs"],
        Mechanism::Ipi => &["why.remedy-avoid-ipi", "why.remedy-nohz-full"],
        Mechanism::HrtimerHandler => &["why.remedy-shorten-handler", "why.remedy-move-hrtimer"],
        Mechanism::TimerCallback => &["why.remedy-check-call-rate", "why.remedy-migrate-timers"],
        Mechanism::Softirq => {
            &["why.remedy-move-raising-interrupt", "why.remedy-softirq-thread-priority"]
        }
        Mechanism::Workqueue => &["why.remedy-workqueue-cpumask", "why.remedy-realtime-policy"],
        Mechanism::HigherPriority | Mechanism::EqualPriority => {
            &["why.remedy-priorities", "why.remedy-separate-cpus"]
        }
        Mechanism::Measurement => &["why.remedy-measurement"],
        Mechanism::Throttling => &["why.remedy-rt-runtime"],
        Mechanism::FairServer => &["why.remedy-fair-server"],
        Mechanism::Bandwidth => &["why.remedy-cpu-max"],
        Mechanism::Blocked => &["why.remedy-record-locks"],
        Mechanism::Lock | Mechanism::PriorityInversion => {
            &["why.remedy-prio-inherit", "why.remedy-shorten-critical-section"]
        }
        Mechanism::PageFault => &["why.remedy-mlockall"],
        Mechanism::Nmi => &["why.remedy-nmi-watchdog"],
        Mechanism::IdleExit => &["why.remedy-dma-latency"],
        Mechanism::TimerSlack => &["why.remedy-timer-slack"],
        Mechanism::Execution => execution_findings::remedies(c.execution.as_ref()),
        Mechanism::Wait => &["why.remedy-waker"],
        Mechanism::Sleep => &["why.remedy-inner-sleep"],
        Mechanism::Overrun => &["why.remedy-period"],
        Mechanism::Stall => &["why.remedy-stall-bare-metal", "why.remedy-stall-virtual"],
        Mechanism::Alternatives if is_of_bandwidth(c) => {
            &["why.remedy-cpu-stat", "why.remedy-cpu-max"]
        }
        Mechanism::Alternatives => &[
            "why.remedy-interrupted",
            "why.remedy-preemptirq",
            "why.remedy-more-captures",
            "why.remedy-stall-bare-metal",
        ],
        Mechanism::SlowPath | Mechanism::Unexplained => &["why.remedy-trace-more-captures"],
    };
    let note = |id: &&str| match *id {
        "why.remedy-move-interrupt" => Note::new(id).value("who", &c.who),
        _ => Note::new(id),
    };
    let applies = |id: &&&str| match (**id, preempt_rt) {
        // What PREEMPT_RT does already.
        ("why.remedy-preempt-rt" | "why.remedy-threaded-irqs", Some(true)) => false,
        ("why.remedy-softirq-thread-priority", Some(false)) => false,
        // What timers interrupt was recorded, and does not decide it.
        ("why.remedy-interrupted", _) => !placed,
        _ => true,
    };
    ids.iter().filter(applies).map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_calls_and_longer_calls_are_different_evidence() {
        let of = |late: (f64, f64), on_time: (f64, f64), seen: usize| {
            let f = FunctionShare {
                function: "poll".into(),
                late_ns: late.0 * late.1,
                late_calls: late.0,
                late_each_ns: late.1,
                on_time_ns: on_time.0 * on_time.1,
                on_time_calls: on_time.0,
                on_time_each_ns: on_time.1,
                on_time_windows: seen,
            };
            function_evidence(&f)
        };
        let list = |values: &[Quantity]| {
            let values = values.iter().map(|&q| Value::from(q));
            Value::List(std::iter::once(Value::from("poll")).chain(values).collect())
        };
        let (ns, n) = (Quantity::Ns, Quantity::Number);
        assert_eq!(
            of((38.0, 500.0), (2.0, 500.0), 40),
            Evidence::new("function-more-calls", list(&[n(38.0), n(2.0), ns(500.0)]))
        );
        assert_eq!(
            of((1.0, 300_000.0), (1.0, 3_000.0), 40),
            Evidence::new("function-longer-calls", list(&[ns(300_000.0), ns(3_000.0)]))
        );
        assert_eq!(
            of((1.0, 300_000.0), (0.0, 3_000.0), 7),
            Evidence::new("function-longer-calls", list(&[ns(300_000.0), ns(3_000.0)])).of(7)
        );
        assert_eq!(
            of((8.0, 6_000.0), (2.0, 3_000.0), 40),
            Evidence::new(
                "function-more-and-longer-calls",
                list(&[n(8.0), n(2.0), ns(6_000.0), ns(3_000.0)])
            )
        );
        assert_eq!(
            of((1.0, 5_000.0), (0.0, 5_000.0), 3),
            Evidence::new("function-equal-calls", list(&[ns(5_000.0)]))
        );
        assert_eq!(
            of((1.0, 5_000.0), (0.0, 0.0), 0),
            Evidence::new("function-late-only", list(&[ns(5_000.0)]))
        );
    }

    #[test]
    fn kernel_priorities_become_user_priorities() {
        let values = |prio| {
            let cause = RootCause { prio, ..cause(Mechanism::HigherPriority) };
            let f = Finding::typed("x", Severity::Problem, Confidence::High);
            with_values(f, &cause, &SystemContext::default()).values
        };
        let realtime = values(Some(9));
        assert_eq!(realtime["priority"], Value::from(Quantity::Priority(90)));
        assert_eq!(realtime["class"], Value::from("realtime"));
        assert_eq!(values(Some(120))["class"], Value::from("fair"));
        assert_eq!(values(Some(-1))["class"], Value::from("deadline"));
        assert!(!values(None).contains_key("class"));
    }

    fn cause(mechanism: Mechanism) -> RootCause {
        RootCause {
            mechanism,
            who: "other".into(),
            stage: None,
            prio: None,
            main_of: vec![0],
            part_of: vec![0],
            share_of_late: 1.0,
            share_of_lateness: 1.0,
            excess_ns: 100.0,
            size_ns: 100.0,
            size_interval_ns: None,
            times: 1.0,
            times_on_time: 1.0,
            functions: vec![],
            stack: vec![],
            thread: None,
            alternatives: vec![],
            waited_for: None,
            execution: None,
            instead: vec![],
            period_ns: None,
            confidence: Confidence::High,
            evidence: vec![],
            example: None,
        }
    }

    #[test]
    fn what_timers_interrupt_is_asked_for_unless_it_was_recorded() {
        let asks = |evidence| {
            let cause = RootCause { evidence, ..cause(Mechanism::Alternatives) };
            remedies(&cause, None).contains(&Note::new("why.remedy-interrupted"))
        };
        assert!(asks(vec![]));
        let function = "compute".to_owned();
        assert!(!asks(vec![CauseEvidence::Place { function, hits: 2, on_time: 40, p: 0.8 }]));
    }

    #[test]
    fn remedies_that_the_kernel_has_already_are_left_out() {
        let ids = |mechanism, rt| -> Vec<String> {
            let all = remedies(&cause(mechanism), rt);
            all.iter().filter_map(|n| n.id().map(str::to_owned)).collect()
        };
        let has = |mechanism, rt, id: &str| ids(mechanism, rt).iter().any(|i| i == id);
        for (mechanism, id) in [
            (Mechanism::PreemptionOff, "why.remedy-preempt-rt"),
            (Mechanism::InterruptHandler, "why.remedy-threaded-irqs"),
        ] {
            assert!(!has(mechanism, Some(true), id) && has(mechanism, Some(false), id), "{id}");
            assert!(has(mechanism, None, id) && !ids(mechanism, Some(true)).is_empty(), "{id}");
        }
        assert!(!has(Mechanism::Softirq, Some(false), "why.remedy-softirq-thread-priority"));
    }

    #[test]
    fn counters_that_are_not_readable_are_evidence() {
        let typed = Note::new("smi-counter-unreadable").value("error", "EIO");
        assert_eq!(missing(&typed), Evidence::new("smi-counter-unreadable", "EIO"));
        let recorded = Note::from("the counter of SMIs: not there");
        assert_eq!(missing(&recorded).id, "counter-not-available");
    }
}
