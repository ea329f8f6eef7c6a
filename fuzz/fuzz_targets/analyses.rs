//! Any bytes as a trace.dat: what `sched`, `timer` and `why` conclude from it, and their reports.
#![no_main]

use latlab_analysis::latency::{findings, from_trace, summary};
use latlab_analysis::timeline::from_trace::{Analysis, scan};
use latlab_analysis::{sched, timer};
use latlab_fuzz::{MEMORY, render};
use latlab_model::latency::SystemContext;
use latlab_model::run::{Detail, Part, Run};
use latlab_model::sched::schedule::SchedDetail;
use latlab_model::timer::TimerDetail;
use latlab_model::units::Nanos;
use latlab_trace::{Select, TraceFile};
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;

/// What one input may cost: compressed files of a few bytes hold millions of events.
const EVENTS: u64 = 50_000;
const SOURCE: &str = "trace.dat";

fuzz_target!(|data: &[u8]| {
    let Ok(file) = TraceFile::parse_within(data, MEMORY) else { return };
    let mut who_ran = sched::Analyzer::default();
    let mut timers = timer::trace::Analyzer::default();
    let mut reader = from_trace::Reader::new(&file, SOURCE);
    let mut all = (&mut who_ran, (&mut timers, &mut reader));
    let (groups, mut count) = (all.groups(), 0);
    let (names, _) = scan(&file, &Select::default(), 1, groups, |event, names| {
        all.take(event, names);
        count += 1;
        if count < EVENTS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let schedule = who_ran.finish(SOURCE, &names, &mut |_| {});
    let trace = (timers.relevant() > 0).then(|| timers.finish(SOURCE, &names));
    let mut capture = reader.finish(names);
    let limit_ns = 20_000;
    let digest = summary::digest(&mut capture, Nanos(limit_ns));
    let context = SystemContext { limit_ns, ..SystemContext::default() };
    let why = summary::conclude(vec![digest], context);
    let sched = SchedDetail { schedule, ..SchedDetail::default() };
    let timer = TimerDetail { trace, ..TimerDetail::default() };
    let why_part = Part {
        name: "why".into(),
        findings: findings::findings(&why.explanation, &why.system_context, &why.places),
        detail: Some(Detail::Why(Box::new(why))),
        ..Part::default()
    };
    let parts = vec![
        sched::part::part("sched", "Scheduling", sched, true),
        timer::part::part("timer", "Timers", timer, true),
        why_part,
    ];
    render(&Run { parts, ..Run::default() });
});
