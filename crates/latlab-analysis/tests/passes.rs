//! Analyses that share one pass over a trace find what each finds alone.

use latlab_analysis::timeline::from_trace::{Analysis, analyse};
use latlab_analysis::{latency, sched, timer};
use latlab_model::units::Nanos;
use latlab_trace::{Select, TraceFile};
use std::path::Path;

/// Traces with switches, interrupts, timers and lost events; two architectures.
const TRACES: [&str; 5] =
    ["f6.dat", "events7-armv7-zlib.dat", "events7-x86_64.dat", "lost7.dat", "rt-lossy.dat"];

fn pass(file: &TraceFile<'_>, analysis: impl Analysis) -> latlab_model::event::Names {
    analyse(file, &Select::default(), 1, analysis).0
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads fixtures")]
fn one_pass_serves_several_analyses() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/trace");
    for name in TRACES {
        let data = std::fs::read(fixtures.join(name)).unwrap();
        let file = TraceFile::parse(&data).unwrap();

        let mut who_ran = sched::Analyzer::default();
        let names = pass(&file, &mut who_ran);
        let alone = who_ran.finish(name, &names, &mut |_| {});
        let (timers_alone, _) = timer::from_trace::analyse(&file, name, &Select::default(), 1);
        let mut capture = latency::from_trace::capture(&file, name);
        let late_alone = latency::summary::digest(&mut capture, Nanos::from_us(20));

        let mut who_ran = sched::Analyzer::default();
        let mut timers = timer::trace::Analyzer::default();
        let mut reader = latency::from_trace::Reader::new(&file, name);
        let names = pass(&file, (&mut who_ran, (&mut timers, &mut reader)));
        assert_eq!(who_ran.finish(name, &names, &mut |_| {}), alone, "{name}");
        let found = (timers.relevant() > 0).then(|| timers.finish(name, &names));
        assert_eq!(found, timers_alone, "{name}");
        let late = latency::summary::digest(&mut reader.finish(names), Nanos::from_us(20));
        assert_eq!(late, late_alone, "{name}");
        assert!(alone.switches > 0, "{name}");
    }
}
