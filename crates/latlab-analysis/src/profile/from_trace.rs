//! The profile of a trace.

use super::analyzer::Analyzer;
use super::steps::Steps;
use crate::timeline::from_trace::{self, Analysis};
use latlab_model::event::{Event, Names};
use latlab_model::profile::{LongestLatency, Profile};
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
    analyzer.steps = file.longest.as_ref().map(|_| Steps::default());
    let (names, damage) = from_trace::analyse(file, select, threads, &mut analyzer);
    let task = |tid: i32| match tid {
        0 => String::new(),
        tid => String::from_utf8_lossy(file.comms.name(tid)).into_owned(),
    };
    let steps = analyzer.steps.take().map(|s| s.finish(&names, &task)).unwrap_or_default();
    let latency = file.longest.as_ref().map(|l| LongestLatency {
        tracer: l.tracer.clone(),
        length_ns: l.ns,
        task: l.task.clone(),
        tid: l.tid,
        started_at: l.started_at.clone(),
        ended_at: l.ended_at.clone(),
        steps,
    });
    let is_found = analyzer.is_relevant() || latency.as_ref().is_some_and(|l| !l.steps.is_empty());
    let profile = || Profile { latency, ..analyzer.finish(source, &names, &task) };
    (is_found.then(profile), damage)
}
