//! The analysis of a trace's timers and interrupts.

use crate::timeline::from_trace::scan;
use crate::timer::trace::Analyzer;
use latlab_model::timer::TimerTrace;
use latlab_trace::decode::Groups;
use latlab_trace::{Diagnostics, Select, TraceFile};
use std::ops::ControlFlow;

/// Analyses the chosen events; `None` when there was no event of a timer or interrupt among them.
pub fn analyse(
    file: &TraceFile<'_>,
    source: &str,
    select: &Select,
    threads: usize,
) -> (Option<TimerTrace>, Diagnostics) {
    let mut analyzer = Analyzer::default();
    let groups = Groups::SWITCH | Groups::INTERRUPT | Groups::EXPIRY | Groups::TIMER;
    let (names, damage) = scan(file, select, threads, groups, |event, names| {
        analyzer.push(event, names);
        ControlFlow::Continue(())
    });
    let found = analyzer.relevant() > 0;
    (found.then(|| analyzer.finish(source, &names)), damage)
}
