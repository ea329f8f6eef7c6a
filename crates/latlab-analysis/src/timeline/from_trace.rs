//! A trace file as one pass of events, for one analysis or for several at once.

use latlab_model::event::{Event, Names};
use latlab_trace::decode::{self, EventDecoder, Groups};
use latlab_trace::{Diagnostics, Select, TraceFile};
use std::ops::ControlFlow;

/// What takes the events of a trace in order of time.
pub trait Analysis {
    /// The groups of events that it takes. Others may come too, where another analysis wants them,
    /// or undecoded, as [`latlab_model::event::EventKind::Other`].
    fn groups(&self) -> Groups;
    /// Takes one event.
    fn take(&mut self, event: &Event, names: &Names);
}

impl<A: Analysis, B: Analysis> Analysis for (A, B) {
    fn groups(&self) -> Groups {
        self.0.groups() | self.1.groups()
    }
    #[inline]
    fn take(&mut self, event: &Event, names: &Names) {
        self.0.take(event, names);
        self.1.take(event, names);
    }
}

impl<A: Analysis> Analysis for &mut A {
    fn groups(&self) -> Groups {
        (**self).groups()
    }
    #[inline]
    fn take(&mut self, event: &Event, names: &Names) {
        (**self).take(event, names);
    }
}

/// Reads the chosen events once and gives each, decoded once, to the analysis: a pair of analyses is one,
/// too. Returns the names that the events refer to.
///
/// ```no_run
/// # fn f(file: &latlab_trace::TraceFile<'_>) {
/// use latlab_analysis::{sched, timeline::from_trace::analyse, timer};
/// let (mut who_ran, mut timers) = (sched::Analyzer::default(), timer::trace::Analyzer::default());
/// let (names, _) = analyse(file, &latlab_trace::Select::default(), 1, (&mut who_ran, &mut timers));
/// let schedule = who_ran.finish("trace.dat", &names, &mut |_| {});
/// let timers = timers.finish("trace.dat", &names);
/// # }
/// ```
pub fn analyse(
    file: &TraceFile<'_>,
    select: &Select,
    threads: usize,
    mut analysis: impl Analysis,
) -> (Names, Diagnostics) {
    let groups = analysis.groups();
    scan(file, select, threads, groups, |event, names| {
        analysis.take(event, names);
        ControlFlow::Continue(())
    })
}

/// Calls `each` with every chosen event in order of time, until it breaks. Events outside of
/// `groups` come undecoded, as [`latlab_model::event::EventKind::Other`].
pub fn scan(
    file: &TraceFile<'_>,
    select: &Select,
    threads: usize,
    groups: Groups,
    each: impl FnMut(&Event, &Names) -> ControlFlow<()>,
) -> (Names, Diagnostics) {
    let mut decoder = EventDecoder::new(file, groups);
    let damage = decode::scan(file, select, threads, &mut decoder, each);
    (decoder.into_names(), damage)
}
