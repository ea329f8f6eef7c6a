//! The part of a run that `latlab timer` makes.

use super::result::{Live, TickMode, TimerDetail, TimerTrace};
use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::histogram::Histogram;
use crate::run::{Detail, Part, Record, Unit};
use crate::units::format_ns;

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
    let rates = super::live::by_cpu(&live.interrupts, live.cpus.len(), true);
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

/// A mode in words.
pub fn mode_words(mode: TickMode) -> &'static str {
    match mode {
        TickMode::Unknown => "unknown",
        TickMode::Periodic => "it never stops",
        TickMode::StopsWhenIdle => "it stops on idle CPUs",
        TickMode::StopsWhenBusy => "it stops on idle CPUs and on CPUs with a single task",
    }
}

fn live_findings(live: &Live) -> Vec<Finding> {
    let mut findings = Vec::new();
    let hz = match (live.hz, live.config_hz) {
        (Some(hz), Some(config)) if hz == config => Finding::new(
            "timer.hz",
            Verdict::Good,
            Confidence::Sure,
            format!("the tick comes {hz} times a second, as configured"),
        ),
        (Some(hz), Some(config)) => Finding::new(
            "timer.hz",
            Verdict::InTheWay,
            Confidence::Likely,
            format!("the tick comes {hz} times a second; the kernel's configuration says {config}"),
        ),
        (Some(hz), None) => Finding::new(
            "timer.hz",
            Verdict::Note,
            Confidence::Sure,
            format!(
                "the tick comes {hz} times a second; the kernel's configuration cannot be read"
            ),
        ),
        (None, _) => Finding::new(
            "timer.hz",
            Verdict::CannotTell,
            Confidence::CannotTell,
            "how often the tick comes could not be measured",
        ),
    };
    let mut hz = hz;
    for b in &live.busy {
        hz = hz.with(
            Evidence::new(
                format!("tick of busy CPU {}", b.cpu),
                format!(
                    "every {}{}",
                    format_ns(b.step_ns as f64),
                    b.interrupts
                        .map_or(String::new(), |i| format!(", {i:.0} timer interrupts a second"))
                ),
            )
            .of(b.steps),
        );
    }
    if let Some(j) = live.jiffies_hz {
        hz = hz.with(Evidence::new("jiffies a second", format!("{j:.1}")).from("/proc/timer_list"));
    }
    if let Some(ns) = live.stated_tick_ns {
        hz = hz.with(
            Evidence::new("tick as the kernel states it", format_ns(ns as f64))
                .from("clock_getres"),
        );
    }
    findings.push(hz);
    let expected = configured(live);
    let (verdict, confidence, claim) = match (live.mode, expected) {
        (TickMode::Unknown, _) => (
            Verdict::CannotTell,
            Confidence::CannotTell,
            format!("whether the tick stops could not be seen: {}", live.mode_why),
        ),
        (mode, Some(e)) if mode != e && e != TickMode::StopsWhenBusy => (
            Verdict::InTheWay,
            Confidence::Likely,
            format!(
                "the tick: {}, while the configuration says that {}",
                mode_words(mode),
                mode_words(e)
            ),
        ),
        (mode, Some(_)) => (
            Verdict::Good,
            Confidence::Sure,
            format!("the tick: {}, as configured", mode_words(mode)),
        ),
        (mode, None) => {
            (Verdict::Note, Confidence::Likely, format!("the tick: {}", mode_words(mode)))
        }
    };
    findings.push(
        Finding::new("timer.nohz", verdict, confidence, claim)
            .with(Evidence::new("seen", live.mode_why.clone())),
    );
    findings
}

fn trace_findings(trace: &TimerTrace) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(most) =
        trace.ticks.iter().max_by(|a, b| a.share.total_cmp(&b.share)).filter(|t| t.interrupt_ns > 0)
    {
        let verdict = if most.share > 0.05 { Verdict::InTheWay } else { Verdict::Note };
        findings.push(
            Finding::new(
                "timer.tick-cost",
                verdict,
                Confidence::Sure,
                format!(
                    "timer interrupts and their softirqs take {:.2} % of CPU {}",
                    most.share * 100.0,
                    most.cpu
                ),
            )
            .with(Evidence::new("in timer interrupts", format_ns(most.interrupt_ns as f64)))
            .with(
                Evidence::new("of it in interrupts with the tick", format_ns(most.tick_ns as f64))
                    .of(most.ticks),
            )
            .with(Evidence::new("in softirqs TIMER and HRTIMER", format_ns(most.softirq_ns as f64)))
            .because("tracing itself is in these times: without it they are shorter"),
        );
    }
    if let Some(f) =
        trace.functions.iter().max_by_key(|f| f.cost.max_ns).filter(|f| f.cost.max_ns >= 100_000)
    {
        findings.push(
            Finding::new(
                "timer.long-function",
                Verdict::InTheWay,
                Confidence::Sure,
                format!(
                    "the timer function {} ran for {} at once",
                    f.name,
                    format_ns(f.cost.max_ns as f64)
                ),
            )
            .because("whoever should have run on that CPU waited for it"),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::result::BusyTick;
    use super::*;

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

    fn verdicts(live: Live) -> Vec<(String, Verdict)> {
        let detail = TimerDetail { live: Some(live), trace: None };
        part("timer", "", detail, true).findings.into_iter().map(|f| (f.id, f.verdict)).collect()
    }

    #[test]
    fn what_is_measured_is_held_against_the_configuration() {
        let good = |id: &str| (id.to_owned(), Verdict::Good);
        assert_eq!(verdicts(live()), [good("timer.hz"), good("timer.nohz")]);
        let off = Live { mode: TickMode::Periodic, cmdline: vec!["nohz=off".into()], ..live() };
        assert_eq!(verdicts(off), [good("timer.hz"), good("timer.nohz")]);
        let odd = Live { mode: TickMode::Periodic, hz: Some(100), ..live() };
        assert!(verdicts(odd).iter().all(|(_, v)| *v == Verdict::InTheWay));
        let nothing = Live { hz: None, mode: TickMode::Unknown, ..live() };
        assert!(verdicts(nothing).iter().all(|(_, v)| *v == Verdict::CannotTell));
    }
}
