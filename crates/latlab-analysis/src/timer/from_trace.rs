//! The analysis of a trace's timers and interrupts.

use crate::timeline::from_trace::{self, Analysis};
use crate::timer::trace::Analyzer;
use latlab_model::event::{Event, Names};
use latlab_model::timer::TimerTrace;
use latlab_trace::decode::Groups;
use latlab_trace::{Diagnostics, Select, TraceFile};

impl Analysis for Analyzer {
    fn groups(&self) -> Groups {
        Groups::SWITCH | Groups::INTERRUPT | Groups::EXPIRY | Groups::TIMER
    }
    #[inline]
    fn take(&mut self, event: &Event, names: &Names) {
        self.push(event, names);
    }
}

/// Analyses the chosen events; `None` when there was no event of a timer or interrupt among them.
pub fn analyse(
    file: &TraceFile<'_>,
    source: &str,
    select: &Select,
    threads: usize,
) -> (Option<TimerTrace>, Diagnostics) {
    let mut analyzer = Analyzer::default();
    let (names, damage) = from_trace::analyse(file, select, threads, &mut analyzer);
    let found = analyzer.relevant() > 0;
    (found.then(|| analyzer.finish(source, &names)), damage)
}
