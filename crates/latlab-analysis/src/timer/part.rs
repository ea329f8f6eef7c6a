//! The part of a run that `latlab timer` makes.

use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity, Value};
use latlab_model::record::{Record, Unit};
use latlab_model::run::{Detail, Part};
use latlab_model::timer::{Live, TickMode, TimerDetail, TimerTrace};
use latlab_stats::histogram::Histogram;

/// Makes the part.
pub fn part(name: &str, title: &str, detail: TimerDetail, complete: bool) -> Part {
    let mut results = Vec::new();
    let mut findings = Vec::new();
    let mut duration_ns = 0;
    if let Some(live) = &detail.live {
        duration_ns = live.length_ns;
        results.extend(live_records(live));
        findings.extend(live_findings(live));
    }
    if let Some(trace) = &detail.trace {
        duration_ns = duration_ns.max(trace.length_ns);
        results.extend(trace_records(trace));
        findings.extend(trace_findings(trace));
    }
    Part {
        name: name.into(),
        title: title.into(),
        complete,
        duration_ns,
        results,
        findings,
        detail: Some(Detail::Timer(Box::new(detail))),
    }
}

fn one(name: &str, params: &[(&str, String)], unit: Unit, value: f64) -> Record {
    let mut summary = Histogram::default().summary();
    summary.count = 1;
    (summary.min, summary.median, summary.mean, summary.max) =
        (Some(value), Some(value), Some(value), Some(value));
    Record {
        name: name.into(),
        params: params.iter().map(|(k, v)| ((*k).to_owned(), v.clone().into())).collect(),
        unit,
        samples: vec![value],
        summary,
        ..Record::default()
    }
}

fn live_records(live: &Live) -> Vec<Record> {
    let mut records = Vec::new();
    if let Some(hz) = live.hz {
        records.push(one("timer.hz", &[], Unit::Hz, f64::from(hz)));
    }
    let rates = crate::timer::live::by_cpu(&live.interrupts, live.cpus.len(), true);
    for (cpu, rate) in live.cpus.iter().zip(rates) {
        records.push(one("timer.interrupts", &[("cpu", cpu.to_string())], Unit::PerSecond, rate));
    }
    records
}

fn trace_records(trace: &TimerTrace) -> Vec<Record> {
    let mut records = Vec::new();
    let mut add = |name: &str, h: &Option<Histogram>| {
        if let Some(h) = h {
            records.push(Record {
                name: name.into(),
                unit: Unit::Ns,
                summary: h.summary(),
                histogram: Some(h.clone()),
                ..Record::default()
            });
        }
    };
    add("timer.hrtimer-late", &trace.late);
    add("timer.softirq-latency", &trace.softirq_latency);
    for t in trace.ticks.iter().filter(|t| t.interrupt_ns > 0) {
        records.push(one("timer.tick-share", &[("cpu", t.cpu.to_string())], Unit::Ratio, t.share));
    }
    records
}

/// What the configuration and the command line say of NO_HZ.
fn configured(live: &Live) -> Option<TickMode> {
    if live.cmdline.iter().any(|w| w == "nohz=off") {
        return Some(TickMode::Periodic);
    }
    if live.cmdline.iter().any(|w| w.starts_with("nohz_full=")) {
        return Some(TickMode::StopsWhenBusy);
    }
    match live.config_nohz.as_deref()? {
        "periodic" => Some(TickMode::Periodic),
        // Full dynticks without a list of CPUs is idle dynticks.
        _ => Some(TickMode::StopsWhenIdle),
    }
}

/// A mode as a value of a finding.
fn mode_name(mode: TickMode) -> &'static str {
    match mode {
        TickMode::Unknown => "unknown",
        TickMode::Periodic => "periodic",
        TickMode::StopsWhenIdle => "stops-when-idle",
        TickMode::StopsWhenBusy => "stops-when-busy",
    }
}

fn live_findings(live: &Live) -> Vec<Finding> {
    vec![tick_rate(live), tick_mode(live)]
}

fn tick_rate(live: &Live) -> Finding {
    let (severity, confidence) = match (live.hz, live.config_hz) {
        (Some(hz), Some(config)) if hz == config => (Severity::Ok, Confidence::High),
        (Some(_), Some(_)) => (Severity::Warning, Confidence::Medium),
        (Some(_), None) => (Severity::Info, Confidence::High),
        (None, _) => (Severity::Inconclusive, Confidence::Low),
    };
    let hz = |n: u32| Quantity::Hz(f64::from(n));
    let mut finding = Finding::typed("timer.hz", severity, confidence)
        .value_if("measured", live.hz.map(hz))
        .value_if("configured", live.config_hz.map(hz));
    for b in &live.busy {
        let mut value: Vec<Value> =
            vec![Quantity::Cpu(b.cpu).into(), Quantity::Ns(b.step_ns as f64).into()];
        value.extend(b.interrupts.map(|i| Value::from(Quantity::PerSecond(i))));
        finding = finding.with(Evidence::new("tick-of-busy-cpu", value).of(b.steps));
    }
    if let Some(j) = live.jiffies_hz {
        let rate = Quantity::PerSecond(j);
        finding = finding.with(Evidence::new("jiffies", rate).from("/proc/timer_list"));
    }
    if let Some(ns) = live.stated_tick_ns {
        let tick = Quantity::Ns(ns as f64);
        finding = finding.with(Evidence::new("tick-period", tick).from("clock_getres"));
    }
    finding
}

/// The observation behind the mode is in the values: `observation`, and the values of that note.
fn tick_mode(live: &Live) -> Finding {
    let expected = configured(live);
    let (severity, confidence) = match (live.mode, expected) {
        (TickMode::Unknown, _) => (Severity::Inconclusive, Confidence::Low),
        // nohz_full stops ticks only on the CPUs of its list, and only with a single task.
        (mode, Some(e)) if mode != e && e != TickMode::StopsWhenBusy => {
            (Severity::Warning, Confidence::Medium)
        }
        (_, Some(_)) => (Severity::Ok, Confidence::High),
        (_, None) => (Severity::Info, Confidence::Medium),
    };
    let mut finding = Finding::typed("timer.nohz", severity, confidence)
        .value("mode", mode_name(live.mode))
        .value_if("configured", expected.map(mode_name));
    if let Some(Note::Typed(why)) = &live.mode_why {
        finding = finding.value("observation", &why.id);
        finding.values.extend(why.values.clone());
    }
    finding
}

/// Share of a CPU in timer interrupts and their softirqs from which on it is a warning.
const TICK_SHARE: f64 = 0.05;
/// Length of a single call of a timer function from which on it is a problem.
const LONG_CALL_NS: u64 = 100_000;

fn trace_findings(trace: &TimerTrace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let ns = |n: u64| Quantity::Ns(n as f64);
    if let Some(most) =
        trace.ticks.iter().max_by(|a, b| a.share.total_cmp(&b.share)).filter(|t| t.interrupt_ns > 0)
    {
        let severity = if most.share > TICK_SHARE { Severity::Warning } else { Severity::Info };
        findings.push(
            Finding::typed("timer.tick-cost", severity, Confidence::High)
                .value("cpu", Quantity::Cpu(most.cpu))
                .value("share", Quantity::Ratio(most.share))
                .with(Evidence::new("timer-interrupts", ns(most.interrupt_ns)))
                .with(Evidence::new("interrupts-with-tick", ns(most.tick_ns)).of(most.ticks))
                .with(Evidence::new("timer-softirqs", ns(most.softirq_ns))),
        );
    }
    let longest = trace.functions.iter().max_by_key(|f| f.cost.max_ns);
    if let Some(f) = longest.filter(|f| f.cost.max_ns >= LONG_CALL_NS) {
        findings.push(
            Finding::typed("timer.long-function", Severity::Problem, Confidence::High)
                .value("function", &f.name)
                .value("longest", ns(f.cost.max_ns)),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::timer::BusyTick;

    fn live() -> Live {
        Live {
            hz: Some(250),
            config_hz: Some(250),
            config_nohz: Some("idle".into()),
            mode: TickMode::StopsWhenIdle,
            busy: vec![BusyTick { cpu: 0, steps: 50, step_ns: 4_000_000, interrupts: Some(250.0) }],
            ..Live::default()
        }
    }

    fn verdicts(live: Live) -> Vec<(String, Severity)> {
        let detail = TimerDetail { live: Some(live), trace: None };
        part("timer", "", detail, true).findings.into_iter().map(|f| (f.id, f.severity)).collect()
    }

    #[test]
    fn what_is_measured_is_held_against_the_configuration() {
        let good = |id: &str| (id.to_owned(), Severity::Ok);
        assert_eq!(verdicts(live()), [good("timer.hz"), good("timer.nohz")]);
        let off = Live { mode: TickMode::Periodic, cmdline: vec!["nohz=off".into()], ..live() };
        assert_eq!(verdicts(off), [good("timer.hz"), good("timer.nohz")]);
        let odd = Live { mode: TickMode::Periodic, hz: Some(100), ..live() };
        assert!(verdicts(odd).iter().all(|(_, v)| *v == Severity::Warning));
        let nothing = Live { hz: None, mode: TickMode::Unknown, ..live() };
        assert!(verdicts(nothing).iter().all(|(_, v)| *v == Severity::Inconclusive));
    }
}
