//! The profile of a trace.

use super::analyzer::Analyzer;
use crate::timeline::from_trace::{self, Analysis};
use latlab_model::event::{Event, Names};
use latlab_model::profile::Profile;
use latlab_trace::decode::Groups;
use latlab_trace::{Diagnostics, Select, TraceFile};

impl Analysis for Analyzer {
    fn groups(&self) -> Groups {
        Groups::SWITCH | Groups::FUNCTION | Groups::CALL | Groups::REST
    }
    #[inline]
    fn take(&mut self, event: &Event, names: &Names) {
        self.push(event, names);
    }
}

/// Counts the functions of the chosen events; `None` when there was none among them.
pub fn analyse(
    file: &TraceFile<'_>,
    source: &str,
    select: &Select,
    threads: usize,
) -> (Option<Profile>, Diagnostics) {
    let mut analyzer = Analyzer::default();
    let (names, damage) = from_trace::analyse(file, select, threads, &mut analyzer);
    let task = |tid: i32| match tid {
        0 => String::new(),
        tid => String::from_utf8_lossy(file.comms.name(tid)).into_owned(),
    };
    let found = analyzer.is_relevant();
    (found.then(|| analyzer.finish(source, &names, &task)), damage)
}
