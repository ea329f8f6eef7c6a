//! `--test-mitigation` of a program: its activations or spans in alternating blocks.

use super::ends::Finder;
use super::prove::{Blocks, Remedy};
use super::recording::Recording;
use super::target::Target;
use crate::outcome::OwnHintExt;
use crate::progress::Progress;
use anyhow::Context;
use latlab_analysis::latency::activations::Late;
use latlab_analysis::latency::activations::summary::Gathered;
use latlab_analysis::latency::captures::finish;
use latlab_model::latency::WhyResult;
use latlab_model::units::Nanos;
use latlab_model::wakeup::config::WakeupConfig;
use latlab_stats::histogram::Histogram;
use latlab_sys::recorder::FlightRecorder;
use latlab_sys::settings::DmaLatency;
use std::time::Duration;

/// Measures a program in blocks, with all events of the level with and without the remedy.
pub(super) struct TaskBlocks<'a> {
    /// The explained thread.
    task: String,
    tid: i32,
    late: Late,
    length: Duration,
    finder: &'a Finder,
    /// One for all: to enable events anew disturbs all CPUs.
    flight: FlightRecorder,
    /// Between two blocks.
    target: Option<Target>,
    progress: Progress,
    /// What is tested now.
    words: String,
}

impl<'a> TaskBlocks<'a> {
    /// The explained thread of a result, with what recorded it.
    pub(super) fn new(
        result: &WhyResult,
        late: Option<Late>,
        length: Duration,
        finder: &'a Finder,
        (flight, target): (FlightRecorder, Target),
    ) -> Self {
        let first = result.activations.first();
        let (task, tid) = first.map_or((String::new(), 0), |t| (t.task.clone(), t.tid));
        let late = late.unwrap_or(Late::Response(Nanos(result.limit_ns)));
        let progress = Progress::new("why");
        let target = Some(target);
        Self { task, tid, late, length, finder, flight, target, progress, words: String::new() }
    }
}

impl Blocks for TaskBlocks<'_> {
    fn own(&self) -> Option<&WakeupConfig> {
        None
    }

    fn duration_ns(&self) -> u64 {
        self.length.as_nanos() as u64
    }

    fn say(&mut self, words: &str) {
        words.clone_into(&mut self.words);
    }

    fn block(&mut self, time: Duration, remedy: &Remedy, away: bool) -> anyhow::Result<Histogram> {
        self.progress.set(None, &self.words);
        // It lasts as long as the value.
        let _idle = (away && *remedy == Remedy::IdleStates)
            .then(|| DmaLatency::hold(0).context("/dev/cpu_dma_latency"))
            .transpose()?;
        let target = self.target.take().context("the program is not there any more")?;
        let recording = Recording::new(self.finder, Some(self.late), time);
        self.flight.rearm().with_hint()?;
        let (mut found, target) = recording.run(&mut self.flight, || Ok(target))?;
        self.target = Some(target);
        finish(&mut found.threads);
        let own = |t: &&Gathered| t.tid.0 == self.tid || t.task == self.task;
        let jobs = found.threads.iter().find(own).into_iter().flat_map(|t| t.judged(self.late));
        Ok(Histogram::of(jobs.map(|job| self.late.judged(job).0)))
    }
}
