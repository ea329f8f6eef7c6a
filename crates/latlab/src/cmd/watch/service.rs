//! The watch itself: looks at what was recorded, counts, takes captures, writes, and keeps its budget.

use super::alarm::Alarm;
use super::recording::{Looked, Recording};
use super::server::{Server, Shared};
use super::spans::Spans;
use super::store::Store;
use super::tasks::{Overdue, Place, Tasks};
use crate::cli::watch::Config;
use crate::outcome::{Outcome, OwnHintExt};
use crate::term;
use latlab_analysis::latency::activations::Late;
use latlab_analysis::latency::activations::from_capture::Thread;
use latlab_analysis::watch::budget::{Change, Controller};
use latlab_analysis::watch::choice::{Choice, Incident};
use latlab_analysis::watch::clocks::{Reading, passed};
use latlab_analysis::watch::counts::{Gap, Periods, Usual, count, late_part, merge, usual};
use latlab_analysis::watch::follow::Open;
use latlab_analysis::watch::thinning::Limits;
use latlab_model::latency::PeriodEstimate;
use latlab_model::units::{CpuId, Nanos, format_ns};
use latlab_model::watch::{Level, Slice, Status, TaskCounts};
use latlab_sys::service::{Notifier, clocks, cpu_ns};
use latlab_sys::tracefs::Tracefs;
use latlab_sys::{machine, signal};
use std::io::Write;
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime};

mod aside;
mod captures;

use aside::Aside;

/// Between two looks at what was recorded.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks for a signal.
const SLICE: Duration = Duration::from_millis(100);
/// Between two writes.
const SECOND: Duration = Duration::from_secs(1);
/// Between two checks whether others changed the buffer's events.
const CHECK: Duration = Duration::from_secs(10);
/// CPU time of captures that may be saved up, ns: some at once, then as many as half of the budget allows.
const CREDIT_NS: f64 = 3e9;
/// Share of the available memory that is kept for captures, unless that is too little or more than they need.
const MEMORY_SHARE: u64 = 256;
/// Between two messages of a task that an activation has not ended.
const TELL: Duration = Duration::from_secs(3_600);
/// Captures of the state.
const LATEST: usize = 20;
/// Time constant of the shares of the state, s.
const AVERAGE_S: f64 = 60.0;

/// A running watch.
struct Service {
    config: Config,
    tracefs: Tracefs,
    tasks: Tasks,
    recording: Recording,
    aside: Aside,
    controller: Controller,
    store: Store,
    alarm: Alarm,
    shared: Shared,
    started: SystemTime,
    /// Since the start, the current hour, and what is not written yet.
    total: Slice,
    hour: Slice,
    pending: Slice,
    /// An hour whose line could not be written yet.
    unwritten: Vec<Slice>,
    choice: Choice,
    clocks: Reading,
    cpu_ns: u64,
    /// CPU time of captures since the last second.
    capture_cpu_ns: u64,
    credit_ns: f64,
    event_ns: f64,
    /// Events since the last second.
    events: u64,
    /// Context switches of the machine until then.
    switches: u64,
    /// Averages of own and of the kernel's share.
    shares: (f64, f64),
    /// The level is to change.
    changed: Option<Change>,
    written: Instant,
    checked: Instant,
}

/// Watches until a signal or the end of the duration. The last state, and whether a limit was exceeded.
///
/// # Errors
/// When nothing can be watched.
pub(super) fn run(config: Config) -> anyhow::Result<(Status, Outcome)> {
    let mut tasks = Tasks::new(config.tasks.clone(), &config.spans)?;
    let spans = Spans::new(&config.spans)?;
    crate::session::restore_orphaned_settings();
    let tracefs = Tracefs::find().with_hint()?.tracefs;
    tasks.look();
    let shared = Shared::default();
    std::fs::create_dir_all(&config.dir)
        .map_err(|e| anyhow::anyhow!("{}: {e}", config.dir.display()))?;
    let _server = Server::start(&config.dir, config.listen, &shared)?;
    let limits = Limits { each: config.captures, bytes: config.disk };
    let (store, hour) = Store::open(&config.dir, limits, config.keep_days, &hour_now())?;
    let buffer = config.buffer.unwrap_or_else(default_buffer);
    let recording = Recording::start(&tracefs, (tasks.threads(), spans), buffer)?;
    let event_ns = recording.event_ns();
    let pending = Slice { seq: hour.seq, ..Slice::default() };
    let mut service = Service {
        controller: Controller::new(config.budget),
        alarm: Alarm::new(config.exec.clone()),
        total: Slice::default(),
        unwritten: Vec::new(),
        choice: Choice::default(),
        clocks: reading(),
        cpu_ns: cpu_ns(),
        capture_cpu_ns: 0,
        credit_ns: CREDIT_NS,
        events: 0,
        switches: switches(),
        shares: (0.0, 0.0),
        changed: None,
        written: Instant::now(),
        checked: Instant::now(),
        started: SystemTime::now(),
        config,
        tracefs,
        tasks,
        recording,
        aside: Aside::new()?,
        store,
        shared,
        hour,
        pending,
        event_ns,
    };
    service.pending.counters.starts = 1;
    service.watch()
}

impl Service {
    fn watch(&mut self) -> anyhow::Result<(Status, Outcome)> {
        let notifier = Notifier::from_environment();
        let tell = |text: &str| notifier.iter().for_each(|n| n.tell(text));
        self.second();
        tell("READY=1");
        self.say_begun();
        let started = Instant::now();
        let over = |d: Option<Duration>| d.is_some_and(|d| started.elapsed() >= d);
        while signal::stop_requested().is_none() && !over(self.config.duration) {
            let left = self.config.duration.map(|d| d.saturating_sub(started.elapsed()));
            pause(left.map_or(LOOK, |left| left.min(LOOK)));
            self.step()?;
            tell("WATCHDOG=1");
        }
        tell("STOPPING=1");
        // What was recorded since the last look.
        if let Ok(looked) = self.recording.look() {
            let (late, _) = self.count(looked);
            self.pending.counters.not_captured += late;
        }
        self.second();
        let state = self.state();
        let is_late = |t: &TaskCounts| t.counts.late > 0 && self.tasks.has_limit(&t.task);
        let late = state.total.tasks.iter().any(is_late) || self.tasks.is_overdue();
        let outcome = match signal::stop_requested() {
            Some(signal) => Outcome::Stopped(signal),
            None => Outcome::Done.exceeded_if(late),
        };
        Ok((state, outcome))
    }

    /// Without this line a terminal is silent until the watch ends.
    fn say_begun(&self) {
        let dir = self.config.dir.display();
        let end = if term::stderr_is_terminal() { "; Ctrl-C ends the watch" } else { "" };
        let _ = writeln!(
            term::stderr(),
            "latlab: watching {}; state: latlab watch status --dir {dir}{end}",
            self.tasks.found()
        );
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let suspended = self.read_clocks();
        self.check()?;
        let looked = match self.recording.look() {
            Ok(looked) => looked,
            // Somebody removed the instance.
            Err(error) => return self.begin_again(&format!("{error:#}")),
        };
        let (late, incidents) = self.count(looked);
        self.pending.counters.not_captured += late;
        // A suspension delays every task.
        if !suspended {
            self.capture_one(&incidents);
        }
        // Only now: what a thread did that went meanwhile is counted.
        if self.tasks.look()
            && let Err(error) = self.recording.watch(self.tasks.threads())
        {
            self.begin_again(&format!("{error:#}"))?;
        }
        self.alarm.look();
        if self.written.elapsed() >= SECOND {
            self.second();
            self.keep_budget()?;
        }
        Ok(())
    }

    /// Whether the machine was suspended since the last look.
    fn read_clocks(&mut self) -> bool {
        let now = reading();
        let passed = passed(self.clocks, now);
        self.clocks = now;
        let counters = &mut self.pending.counters;
        counters.wall_ns += passed.monotonic_ns;
        counters.suspended_ns += passed.suspended_ns;
        counters.suspensions += u64::from(passed.suspended_ns > 0);
        counters.clock_steps += u64::from(passed.step_ns.is_some());
        if self.recording.since().is_none() {
            counters.dead_ns += passed.monotonic_ns;
        }
        self.credit_ns =
            (self.credit_ns + passed.monotonic_ns as f64 * self.config.budget / 2.0).min(CREDIT_NS);
        passed.suspended_ns > 0
    }

    /// Counts the activations of a look: how many are late, and those of them of which a capture can be made.
    fn count(&mut self, looked: Looked) -> (u64, Vec<Incident>) {
        let counters = &mut self.pending.counters;
        counters.events += looked.events;
        self.events += looked.events;
        counters.lost_events += looked.lost;
        let (mut late, mut incidents) = (0, Vec::new());
        let threads = looked.fresh.threads.iter().map(|t| &t.0);
        let threads = threads.chain(looked.spans.iter().map(|s| &s.1));
        let mut cpus: Vec<CpuId> = threads.flat_map(|t| t.jobs.iter().map(|job| job.cpu)).collect();
        cpus.sort_unstable();
        cpus.dedup();
        self.aside.keep_off(&cpus);
        let gaps = looked.fresh.gaps;
        for (thread, period) in looked.fresh.threads {
            late += self.take(&thread, period, &gaps, &mut incidents);
        }
        for (number, thread) in looked.spans {
            late += self.take_spans(number, &thread, &mut incidents);
        }
        self.tasks.keep_overdue(&looked.fresh.open);
        for open in &looked.fresh.open {
            incidents.extend(self.take_open(open));
        }
        (late, incidents)
    }

    /// Takes an activation that has not ended, if it is late and takes longer than a look: others are counted at the next one.
    /// The first time it may get a capture: its beginning may not be there any more when it ends.
    fn take_open(&mut self, open: &Open) -> Option<Incident> {
        let since = self.recording.since();
        let Place { label, late, period_ns, known } = self.tasks.of(open.tid, &open.name)?;
        let Open { tid, job, .. } = *open;
        let (intended, age) = (job.intended, job.response());
        if !late.is(&job) || u128::from(age.0) < LOOK.as_nanos() {
            return None;
        }
        if known.overdue.insert(tid, Overdue { intended, age }).is_some() {
            return None;
        }
        if known.told.is_none_or(|at| at.elapsed() >= TELL) {
            known.told = Some(Instant::now());
            log::warn!(
                "{label}: an activation of thread {} has not ended after {} (late above {})",
                tid.0,
                format_ns(age.0 as f64),
                format_ns(late.limit().0 as f64)
            );
        }
        let period = Nanos(period_ns.unwrap_or(0));
        let part = late_part(&job, late, self.usual(&label));
        let is_covered = since.is_some_and(|since| intended >= since);
        let (is_open, span) = (true, None);
        is_covered.then_some(Incident { label, tid, late, period, job, part, is_open, span })
    }

    /// The typical parts of a task's activations in this hour, or since the start.
    fn usual(&self, label: &str) -> Usual {
        let so_far = |s: &Slice| s.tasks.iter().find(|t| t.task == label).map(|t| usual(&t.counts));
        so_far(&self.hour).or_else(|| so_far(&self.total)).unwrap_or_default()
    }

    /// Counts the activations of a thread.
    fn take(
        &mut self,
        thread: &Thread,
        period: Option<PeriodEstimate>,
        gaps: &[Gap],
        incidents: &mut Vec<Incident>,
    ) -> u64 {
        let Some(place) = self.tasks.of(thread.tid, &thread.name) else { return 0 };
        let Place { label, late, period_ns, known } = place;
        known.release = Some(thread.release.clone());
        known.period = period.or(known.period);
        let last = thread.jobs.last().map(|j| j.intended.0);
        let before = last.and_then(|last| known.last.insert(thread.tid, last));
        let periods = Periods { period_ns, last: before, gaps };
        self.put(&label, late, thread, None, periods, incidents)
    }

    /// Counts the spans of an entry that end in a thread.
    fn take_spans(&mut self, number: usize, thread: &Thread, incidents: &mut Vec<Incident>) -> u64 {
        let Some(Place { label, late, .. }) = self.tasks.of_span(number) else { return 0 };
        self.put(&label, late, thread, Some(number), Periods::default(), incidents)
    }

    /// Counts activations or spans of a thread: how many are late, and those of them of which a capture can be made.
    fn put(
        &mut self,
        label: &str,
        late: Late,
        thread: &Thread,
        span: Option<usize>,
        periods: Periods<'_>,
        incidents: &mut Vec<Incident>,
    ) -> u64 {
        let since = self.recording.since();
        let usual = self.usual(label);
        let period = Nanos(periods.period_ns.unwrap_or(0));
        let counts = count(label, &thread.jobs, late, usual, periods);
        let slice = Slice { tasks: vec![counts], ..Slice::default() };
        let (hour, seq) = (self.pending.hour.clone(), self.pending.seq);
        merge(&mut self.pending, &slice);
        (self.pending.hour, self.pending.seq) = (hour, seq);
        let late_ones = || thread.jobs.iter().filter(|job| late.is(job));
        let covered = late_ones().filter(|job| since.is_some_and(|since| job.intended >= since));
        incidents.extend(covered.map(|&job| {
            let part = late_part(&job, late, usual);
            let (label, tid, is_open) = (label.to_owned(), thread.tid, false);
            Incident { label, tid, late, period, job, part, is_open, span }
        }));
        late_ones().count() as u64
    }

    /// Looks whether others stopped or changed the buffer.
    fn check(&mut self) -> anyhow::Result<()> {
        let is_due = self.checked.elapsed() >= CHECK;
        if is_due {
            self.checked = Instant::now();
        }
        if is_due && self.recording.is_replaced() {
            return self.begin_again("a program with a probe was replaced");
        }
        if self.recording.is_on() && (!is_due || self.recording.is_intact()) {
            return Ok(());
        }
        self.begin_again("another program stopped it or changed its events")
    }

    /// Makes the buffer anew.
    fn begin_again(&mut self, reason: &str) -> anyhow::Result<()> {
        log::warn!("the trace buffer of the watch: {reason}; it is made anew");
        self.pending.counters.disturbed += 1;
        self.recording.begin_again(&self.tracefs, self.tasks.threads())
    }

    /// Adds up the last second and writes it.
    fn second(&mut self) {
        let seconds = self.written.elapsed().as_secs_f64();
        self.written = Instant::now();
        let used = cpu_ns();
        let own = used.saturating_sub(self.cpu_ns);
        self.cpu_ns = used;
        let switches = switches();
        let switched = switches.saturating_sub(std::mem::replace(&mut self.switches, switches));
        // A filter that fails takes about half of the time of an event, at each switch and each wake-up.
        let filtered = if self.controller.level() == Level::Off { switched } else { 0 };
        let events = std::mem::take(&mut self.events);
        let kernel = ((events + filtered) as f64 * self.event_ns) as u64;
        let counters = &mut self.pending.counters;
        counters.own_cpu_ns += own;
        counters.kernel_ns += kernel;
        if seconds > 0.1 {
            let weight = 1.0 - (-seconds / AVERAGE_S).exp();
            let next = |average: f64, ns: u64| {
                let share = ns as f64 / 1e9 / seconds;
                if average == 0.0 { share } else { average + weight * (share - average) }
            };
            self.shares = (next(self.shares.0, own), next(self.shares.1, kernel));
            let counted = own.saturating_sub(self.capture_cpu_ns) + kernel;
            self.capture_cpu_ns = 0;
            self.changed = self.controller.take(counted as f64 / 1e9 / seconds, seconds);
        }
        self.write();
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = self.state();
    }

    fn write(&mut self) {
        let hour = hour_now();
        if self.hour.hour != hour {
            let new = Slice { hour: hour.clone(), seq: self.hour.seq, ..Slice::default() };
            self.unwritten.push(std::mem::replace(&mut self.hour, new));
        }
        let unwritten = std::mem::take(&mut self.unwritten);
        self.unwritten = unwritten
            .into_iter()
            .filter(|hour| !self.store.finish_hour(hour, &self.hour))
            .collect();
        self.pending.hour = hour;
        self.pending.seq = self.hour.seq.max(self.pending.seq) + 1;
        if !self.store.append(&self.pending) {
            // The counts stay, the number is used again.
            self.pending.counters.write_errors += 1;
            self.pending.seq -= 1;
            return;
        }
        merge(&mut self.hour, &self.pending);
        merge(&mut self.total, &self.pending);
        self.pending = Slice { seq: self.pending.seq, ..Slice::default() };
    }

    /// Records less, or more, where the controller says so.
    fn keep_budget(&mut self) -> anyhow::Result<()> {
        let Some(change) = self.changed.take() else { return Ok(()) };
        log::warn!(
            "overhead {:.2} % of one CPU, budget {:.2} %: recorded for captures is {}",
            change.share * 100.0,
            self.config.budget * 100.0,
            latlab_report::watch::status::level(change.to)
        );
        let set = self.recording.set_level(change.to);
        set.or_else(|error| self.begin_again(&format!("{error:#}")))
    }

    fn state(&self) -> Status {
        let with_pending = |slice: &Slice| {
            let mut all = slice.clone();
            merge(&mut all, &self.pending);
            all
        };
        let captures = self.store.captures().iter().rev().take(LATEST).cloned().collect();
        Status {
            pid: std::process::id(),
            started: humantime::format_rfc3339_seconds(self.started).to_string(),
            dir: self.config.dir.display().to_string(),
            tasks: self.tasks.status(),
            total: with_pending(&self.total),
            hour: with_pending(&self.hour),
            level: self.controller.level(),
            budget: self.config.budget,
            own_share: self.shares.0,
            kernel_share: self.shares.1,
            event_ns: self.event_ns,
            ring_bytes: self.recording.most(),
            disk_bytes: self.store.capture_bytes(),
            disk_limit: self.config.disk,
            captures,
            write_error: self.store.failing.clone(),
        }
    }
}

/// Bytes that are kept for captures where the user sets none.
fn default_buffer() -> u64 {
    let available = machine::condition().available_bytes.unwrap_or(u64::MAX);
    (available / MEMORY_SHARE).clamp(1 << 20, 8 << 20)
}

/// Sleeps for a time, or until a signal.
fn pause(time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time && signal::stop_requested().is_none() {
        std::thread::sleep(time.saturating_sub(since.elapsed()).min(SLICE));
    }
}

fn reading() -> Reading {
    let [monotonic, boottime, realtime] = clocks();
    Reading { monotonic, boottime, realtime }
}

/// Context switches of all CPUs since boot (proc_stat(5)).
fn switches() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().find_map(|l| l.strip_prefix("ctxt ")?.trim().parse().ok()).unwrap_or(0)
}

/// `2026-11-24T23`.
fn hour_now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string().chars().take(13).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_a_name() {
        assert_eq!(hour_now().len(), 13);
        assert!(switches() > 0);
    }
}
