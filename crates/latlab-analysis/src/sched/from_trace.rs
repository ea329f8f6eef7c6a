//! The analysis of who ran in a trace.

use crate::sched::analyse::{Analyzer, Options};
use crate::sched::{groups, missing};
use crate::timeline::from_trace::{Analysis, scan};
use latlab_model::event::{Event, Names};
use latlab_model::sched::schedule::{Schedule, Slice};
use latlab_trace::decode::Groups;
use latlab_trace::{Diagnostics, Select, TraceFile};
use std::ops::ControlFlow;

impl Analysis for Analyzer {
    fn groups(&self) -> Groups {
        groups()
    }
    /// The slices go to nobody.
    #[inline]
    fn take(&mut self, event: &Event, names: &Names) {
        self.push(event, names, &mut |_| {});
    }
}

/// Why it is not known who ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSwitches {
    /// The trace does not know the event.
    #[error("no format of sched_switch: running tasks unknown")]
    Format,
    /// None was chosen.
    #[error("no sched_switch events: running tasks unknown")]
    Events,
}

/// Called with each event, the names of its symbols and the run segments that it ended.
pub type EachEvent<'a> = dyn FnMut(&Event, &Names, &[Slice]) -> ControlFlow<()> + 'a;

/// Analyses the chosen events; `each` sees every one, until it breaks.
///
/// # Errors
/// When there is no `sched_switch` among them.
pub fn analyse(
    file: &TraceFile<'_>,
    source: &str,
    select: &Select,
    threads: usize,
    options: Options,
    each: &mut EachEvent<'_>,
) -> Result<(Schedule, Diagnostics), NoSwitches> {
    let mut analyzer = Analyzer::new(options);
    let mut ended: Vec<Slice> = Vec::with_capacity(8);
    let (names, damage) = scan(file, select, threads, groups(), |event, names| {
        ended.clear();
        analyzer.push(event, names, &mut |s| ended.push(*s));
        each(event, names, &ended)
    });
    if analyzer.switches() == 0 {
        let unknown = missing(file).contains(&"sched_switch");
        return Err(if unknown { NoSwitches::Format } else { NoSwitches::Events });
    }
    Ok((analyzer.finish(source, &names, &mut |_| {}), damage))
}
