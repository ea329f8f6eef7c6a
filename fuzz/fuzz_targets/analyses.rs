//! Any bytes as a trace.dat: what `sched`, `timer`, `profile` and `why` conclude from it, also of its tasks, and their
//! reports.
#![no_main]

use latlab_analysis::latency::activations::from_capture::{Chosen, Known, threads_to_the_end};
use latlab_analysis::latency::activations::summary::{Gathered, rank};
use latlab_analysis::latency::activations::{Job, Late};
use latlab_analysis::latency::summary::Examples;
use latlab_analysis::latency::{findings, from_trace, summary};
use latlab_analysis::path::{bound, bound_trace};
use latlab_analysis::timeline::from_trace::{Analysis, scan};
use latlab_analysis::{profile, sched, timer};
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
/// Tasks of which activations are looked for.
const TASKS: usize = 8;
const SOURCE: &str = "trace.dat";

fuzz_target!(|data: &[u8]| {
    let Ok(file) = TraceFile::parse_within(data, MEMORY) else { return };
    let mut who_ran = sched::Analyzer::default();
    let mut timers = timer::trace::Analyzer::default();
    let mut reader = from_trace::Reader::new(&file, SOURCE);
    let mut functions = profile::Analyzer::default();
    let mut all = (&mut who_ran, (&mut timers, (&mut functions, &mut reader)));
    let (groups, mut count) = (all.groups(), 0);
    let (names, _) = scan(&file, &Select::default(), 1, groups, |event, names| {
        all.take(event, names);
        count += 1;
        if count < EVENTS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let schedule = who_ran.finish(SOURCE, &names, &mut |_| {});
    let trace = (timers.relevant() > 0).then(|| timers.finish(SOURCE, &names));
    let calls =
        functions.is_relevant().then(|| functions.finish(SOURCE, &names, &|_| String::new()));
    let mut capture = reader.finish(names);
    let limit_ns = 20_000;
    let digest = summary::digest(&mut capture, Nanos(limit_ns));
    let context = SystemContext { limit_ns, ..SystemContext::default() };
    let mut tids: Vec<_> = capture.events.iter().map(|e| e.current).collect();
    tids.sort_unstable();
    tids.dedup();
    tids.truncate(TASKS);
    let mut digests = vec![digest];
    let (mut gathered, late) = (Vec::new(), Late::Response(Nanos(limit_ns)));
    for thread in threads_to_the_end(&capture, &Chosen::Tids(tids), &Known::default()) {
        let of = |job: &Job| job.activation(thread.tid, late);
        capture.activations = thread.jobs.iter().map(of).collect();
        digests.push(summary::digest_found(&capture, Examples::Typical));
        let (tid, release) = (thread.tid, thread.release.clone());
        let mut one = Gathered::new(String::new(), tid, release, None);
        one.take(thread);
        one.finish();
        let _ = one.propose();
        gathered.push(one);
    }
    rank(&mut gathered, late);
    let mut why = summary::conclude(digests, context);
    why.activations = gathered.iter().map(|g| g.summarize(late)).collect();
    let sched = SchedDetail { schedule, ..SchedDetail::default() };
    let timer = TimerDetail { trace, ..TimerDetail::default() };
    let why_part = Part {
        name: "why".into(),
        findings: findings::findings(&why.explanation, &why.system_context, &why.places),
        detail: Some(Detail::Why(Box::new(why))),
        ..Part::default()
    };
    let bounds = (count < EVENTS).then(|| bound_trace::read(&file).0).flatten();
    let bound = bounds.map(|recorded| {
        let kallsyms = file.symbols.text();
        let measured = bound::Measured { insn_ns: 1, kallsyms, ..bound::Measured::default() };
        bound::part(bound::detail(&recorded.file, &measured, &[]))
    });
    let mut parts = vec![
        sched::part::part("sched", "Scheduling", sched, true),
        timer::part::part("timer", "Timers", timer, true),
        why_part,
    ];
    parts.extend(bound);
    parts.extend(calls.map(|calls| profile::part("profile", "Functions", calls, None)));
    render(&Run { parts, ..Run::default() });
});
