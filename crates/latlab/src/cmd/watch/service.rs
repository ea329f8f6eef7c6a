//! The watch itself: looks at the detector's buffer, counts, takes captures, writes, and keeps its budget.

use super::alarm::Alarm;
use super::detector::{Detector, Looked};
use super::flight::{Flight, event_ns};
use super::server::{Server, Shared};
use super::store::Store;
use super::tasks::{Place, Tasks};
use crate::cli::watch::Config;
use crate::outcome::{Outcome, OwnHintExt};
use latlab_analysis::latency::activations::from_capture::Thread;
use latlab_analysis::watch::budget::{Change, Controller};
use latlab_analysis::watch::choice::{Choice, Incident};
use latlab_analysis::watch::clocks::{Reading, passed};
use latlab_analysis::watch::counts::{count, late_part, merge, usual};
use latlab_analysis::watch::thinning::Limits;
use latlab_model::latency::PeriodEstimate;
use latlab_model::units::{Nanos, TraceNs};
use latlab_model::watch::{Level, Slice, Status};
use latlab_sys::service::{Notifier, clocks, cpu_ns};
use latlab_sys::signal;
use latlab_sys::tracefs::{LateRule, LateTrigger, Tracefs};
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime};

mod captures;

/// Between two looks at the detector's buffer; shorter, until the hour ends, where incidents began before the ring buffer;
/// twice as long while the kernel stops the buffer for captures where a task is late.
const LOOK: Duration = Duration::from_millis(500);
const SHORTEST_LOOK: Duration = Duration::from_millis(100);
/// Between two looks for a signal, or whether the kernel stopped the buffer.
const SLICE: Duration = Duration::from_millis(100);
/// Between two writes.
const SECOND: Duration = Duration::from_secs(1);
/// Between two checks whether others changed the buffers' events.
const CHECK: Duration = Duration::from_secs(10);
/// The kernel's trigger takes as long as so many events for each activation: `bench/watch-trigger`.
const TRIGGER_EVENTS: f64 = 3.0;
/// CPU time of captures that may be saved up, ns: some at once, then as many as half of the budget allows.
const CREDIT_NS: f64 = 3e9;
/// Captures of the state.
const LATEST: usize = 20;
/// Time constant of the shares of the state, s.
const AVERAGE_S: f64 = 60.0;

/// A running watch.
struct Service {
    config: Config,
    tracefs: Tracefs,
    tasks: Tasks,
    detector: Detector,
    flight: Option<Flight>,
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
    switches: u64,
    /// Averages of own and of the kernel's share.
    shares: (f64, f64),
    /// The level is to change.
    changed: Option<Change>,
    look: Duration,
    /// The end of the last look, and looks since the kernel stopped the buffer.
    looked: Instant,
    stopped: u32,
    /// The hour in which captures of the latest activation are not wanted: the kernel does not stop the buffer.
    sated: Option<String>,
    /// Whether the kernel can stop the buffer, and rules for which it cannot.
    can_stop: bool,
    refused: Option<Vec<LateRule>>,
    written: Instant,
    checked: Instant,
}

/// Watches until a signal or the end of the duration. The last state, and whether a limit was exceeded.
///
/// # Errors
/// When nothing can be watched.
pub(super) fn run(config: Config) -> anyhow::Result<(Status, Outcome)> {
    let mut tasks = Tasks::new(config.tasks.clone())?;
    crate::session::restore_orphaned_settings();
    let tracefs = Tracefs::find().with_hint()?.tracefs;
    tasks.look();
    let shared = Shared::default();
    std::fs::create_dir_all(&config.dir)
        .map_err(|e| anyhow::anyhow!("{}: {e}", config.dir.display()))?;
    let _server = Server::start(&config.dir, config.listen, &shared)?;
    let limits = Limits { each: config.captures, bytes: config.disk };
    let (store, hour) = Store::open(&config.dir, limits, config.keep_days, &hour_now())?;
    let detector = Detector::start(&tracefs, &tasks.tids(), config.buffer / 2)?;
    let event_ns = event_ns(detector.flight());
    let can_stop = LateTrigger::is_possible(&tracefs);
    let rules = if can_stop { tasks.rules() } else { Vec::new() };
    let flight = Flight::start(&tracefs, Level::All, config.buffer, rules)?;
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
        switches: switches(),
        shares: (0.0, 0.0),
        changed: None,
        look: LOOK,
        looked: Instant::now(),
        stopped: 0,
        sated: None,
        can_stop,
        refused: None,
        written: Instant::now(),
        checked: Instant::now(),
        started: SystemTime::now(),
        config,
        tracefs,
        tasks,
        detector,
        flight,
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
        let started = Instant::now();
        let over = |d: Option<Duration>| d.is_some_and(|d| started.elapsed() >= d);
        while signal::stop_requested().is_none() && !over(self.config.duration) {
            self.pause();
            self.step()?;
            tell("WATCHDOG=1");
        }
        tell("STOPPING=1");
        // What was recorded since the last look.
        if let Ok(looked) = self.detector.look() {
            let (late, _) = self.count(looked);
            self.pending.counters.not_captured += late;
        }
        self.second();
        let late = self.tasks.has_limit() && self.total.tasks.iter().any(|t| t.counts.late > 0);
        let outcome = match signal::stop_requested() {
            Some(signal) => Outcome::Stopped(signal),
            None => Outcome::Done.exceeded_if(late),
        };
        Ok((self.state(), outcome))
    }

    /// Sleeps until the next look or a signal, or until the kernel stops the buffer for captures. The activation that stopped
    /// it may not have ended then: the look after that one comes as without the kernel's help.
    fn pause(&self) {
        let stops = self.flight.as_ref().filter(|f| f.rules().is_some() && self.stopped == 0);
        let look = if stops.is_some() { self.look * 2 } else { self.look };
        let since = Instant::now();
        while since.elapsed() < look && signal::stop_requested().is_none() {
            std::thread::sleep((look - since.elapsed().min(look)).min(SLICE));
            if stops.is_some_and(Flight::is_triggered) {
                return;
            }
        }
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let suspended = self.read_clocks();
        if self.tasks.look()
            && let Err(error) = self.detector.watch(&self.tasks.tids())
        {
            return self.begin_again(&format!("{error:#}"));
        }
        self.check()?;
        let stopped = self.flight.as_ref().filter(|f| f.is_triggered()).map(Flight::since);
        let looked = match self.detector.look() {
            Ok(looked) => looked,
            // Somebody removed the instance.
            Err(error) => return self.begin_again(&format!("{error:#}")),
        };
        let (late, mut incidents) = self.count(looked);
        self.pending.counters.not_captured += late;
        if stopped.is_some() {
            keep_first(&mut incidents);
            self.stopped += 1;
        }
        // A suspension delays every task.
        if !suspended {
            self.capture_one(&incidents)?;
        }
        match stopped {
            Some(since) => self.go_on(since, !incidents.is_empty())?,
            None => self.keep_trigger()?,
        }
        self.looked = Instant::now();
        self.alarm.look();
        if self.written.elapsed() >= SECOND {
            self.second();
            self.keep_budget()?;
        }
        Ok(())
    }

    /// After the kernel stopped the buffer, at some moment since the last look. Where the activation that stopped it was not
    /// captured, its kind has its captures of this hour, and others are to be found by looks; one that is not known yet is
    /// known at the next look.
    fn go_on(&mut self, since: TraceNs, is_known: bool) -> anyhow::Result<()> {
        self.pending.counters.dead_ns += self.looked.elapsed().as_nanos() as u64;
        let Some(flight) = &mut self.flight else { return Ok(()) };
        if flight.since() != since {
            // Captured, and it goes on.
            self.stopped = 0;
            return Ok(());
        }
        if !is_known && self.stopped < 2 {
            return Ok(());
        }
        self.stopped = 0;
        if is_known {
            self.sated = Some(hour_now());
            return self.start_flight();
        }
        let gone_on = flight.go_on();
        gone_on.or_else(|error| self.begin_again(&format!("{error:#}")))
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
        self.credit_ns =
            (self.credit_ns + passed.monotonic_ns as f64 * self.config.budget / 2.0).min(CREDIT_NS);
        passed.suspended_ns > 0
    }

    /// Counts the activations of a look: how many are late, and those of them that are due since the flight
    /// recorder was started or emptied.
    fn count(&mut self, looked: Looked) -> (u64, Vec<Incident>) {
        let counters = &mut self.pending.counters;
        counters.events += looked.events;
        counters.lost_events += looked.lost;
        let (mut late, mut incidents) = (0, Vec::new());
        for (thread, period) in looked.fresh.threads {
            late += self.take(&thread, period, &mut incidents);
        }
        (late, incidents)
    }

    /// Counts the activations of a thread.
    fn take(
        &mut self,
        thread: &Thread,
        period: Option<PeriodEstimate>,
        incidents: &mut Vec<Incident>,
    ) -> u64 {
        let since = self.flight.as_ref().map(Flight::since);
        let Some(place) = self.tasks.of(thread.tid, &thread.name) else { return 0 };
        let Place { label, late, period_ns, known } = place;
        known.release = Some(thread.release.clone());
        known.period = period.or(known.period);
        let last = thread.jobs.last().map(|j| j.intended.0);
        let before = last.and_then(|last| known.last.insert(thread.tid, last));
        let so_far = |s: &Slice| s.tasks.iter().find(|t| t.task == label).map(|t| usual(&t.counts));
        let usual = so_far(&self.hour).or_else(|| so_far(&self.total)).unwrap_or_default();
        let counts = count(&label, &thread.jobs, late, usual, period_ns, before);
        let slice = Slice { tasks: vec![counts], ..Slice::default() };
        let (hour, seq) = (self.pending.hour.clone(), self.pending.seq);
        merge(&mut self.pending, &slice);
        (self.pending.hour, self.pending.seq) = (hour, seq);
        let late_ones = || thread.jobs.iter().filter(|job| late.is(job));
        let covered = late_ones().filter(|job| since.is_some_and(|since| job.intended >= since));
        incidents.extend(covered.map(|&job| {
            let part = late_part(&job, late, usual);
            Incident { label: label.clone(), tid: thread.tid, late, job, part }
        }));
        late_ones().count() as u64
    }

    /// Looks whether others stopped or changed the buffers.
    fn check(&mut self) -> anyhow::Result<()> {
        let is_right = |f: &Flight| f.is_on() || f.is_triggered();
        let is_on = self.detector.flight().is_on() && self.flight.as_ref().is_none_or(is_right);
        let is_due = self.checked.elapsed() >= CHECK;
        if is_due {
            self.checked = Instant::now();
        }
        if is_on && (!is_due || self.detector.is_intact()) {
            return Ok(());
        }
        self.begin_again("another program stopped it or changed its events")
    }

    /// Makes the buffers anew.
    fn begin_again(&mut self, reason: &str) -> anyhow::Result<()> {
        log::warn!("the trace buffer of the watch: {reason}; it is made anew");
        self.pending.counters.disturbed += 1;
        self.flight = None;
        self.detector = self.detector.again(&self.tracefs, &self.tasks.tids())?;
        self.start_flight()
    }

    /// The rules by which the kernel is to stop the buffer.
    fn rules(&self) -> Vec<LateRule> {
        if self.can_stop && self.sated.is_none() { self.tasks.rules() } else { Vec::new() }
    }

    /// Makes the buffer for captures anew; while captures are wanted the kernel stops it where a task is late.
    fn start_flight(&mut self) -> anyhow::Result<()> {
        let rules = self.rules();
        self.flight = None;
        self.flight =
            Flight::start(&self.tracefs, self.controller.level(), self.config.buffer, rules)?;
        self.stopped = 0;
        Ok(())
    }

    /// Sets the kernel's trigger anew where limits or threads have changed.
    fn keep_trigger(&mut self) -> anyhow::Result<()> {
        let hour = hour_now();
        self.sated.take_if(|sated| *sated != hour);
        let Some(flight) = &self.flight else { return Ok(()) };
        let wanted = self.rules();
        let is_set = match flight.rules() {
            Some(rules) => is_alike(rules, &wanted),
            None => {
                wanted.is_empty() || self.refused.as_ref().is_some_and(|r| is_alike(r, &wanted))
            }
        };
        if is_set {
            return Ok(());
        }
        self.start_flight()?;
        self.refused = self.flight.as_ref().is_some_and(|f| f.rules().is_none()).then_some(wanted);
        Ok(())
    }

    /// Adds up the last second and writes it.
    fn second(&mut self) {
        let seconds = self.written.elapsed().as_secs_f64();
        self.written = Instant::now();
        let used = cpu_ns();
        let own = used.saturating_sub(self.cpu_ns);
        self.cpu_ns = used;
        let events = self.flight.as_mut().map_or(0, Flight::events);
        let switches = switches();
        // A filter that fails takes about half of the time of an event, at each switch and each wake-up.
        let filtered = switches.saturating_sub(self.switches) as f64;
        self.switches = switches;
        let is_triggered = self.flight.as_ref().is_some_and(|f| f.rules().is_some());
        let jobs: u64 = self.pending.tasks.iter().map(|t| t.counts.activations).sum();
        let triggered = if is_triggered { jobs as f64 * TRIGGER_EVENTS } else { 0.0 };
        let counters = &mut self.pending.counters;
        let recorded = (counters.events + events) as f64;
        let kernel = ((recorded + filtered + triggered) * self.event_ns) as u64;
        counters.events += events;
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
            self.look = LOOK;
            let new = Slice { hour: hour.clone(), seq: self.hour.seq, ..Slice::default() };
            self.unwritten.push(std::mem::replace(&mut self.hour, new));
        }
        let unwritten = std::mem::take(&mut self.unwritten);
        self.unwritten =
            unwritten.into_iter().filter(|hour| !self.store.finish_hour(hour)).collect();
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
        self.start_flight()
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
            kernel_stops: self.flight.as_ref().is_some_and(|f| f.rules().is_some()),
            budget: self.config.budget,
            own_share: self.shares.0,
            kernel_share: self.shares.1,
            event_ns: self.event_ns,
            ring_bytes: self.config.buffer,
            disk_bytes: self.store.capture_bytes(),
            disk_limit: self.config.disk,
            captures,
            write_error: self.store.failing.clone(),
        }
    }
}

/// The one that ended first stopped the buffer; it does not have the others.
fn keep_first(incidents: &mut Vec<Incident>) {
    let first = incidents.iter().map(Incident::judged_at).min();
    incidents.retain(|i| Some(i.judged_at()) == first);
}

/// Whether rules are of the same threads, with limits that differ by a tenth at most: periods are estimates.
fn is_alike(one: &[LateRule], other: &[LateRule]) -> bool {
    let near = |a: Nanos, b: Nanos| a.0.abs_diff(b.0) * 10 <= a.0.max(b.0);
    let is = |a: &LateRule, b: &LateRule| {
        (&a.tids, a.until) == (&b.tids, b.until) && near(a.limit, b.limit)
    };
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is(a, b))
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
    use latlab_model::units::Tid;
    use latlab_sys::tracefs::Until;

    #[test]
    fn rules_are_alike_where_limits_hardly_differ() {
        let rule = |tid, us: u64| LateRule {
            tids: vec![Tid(tid)],
            until: Until::Sleep,
            limit: Nanos(us * 1_000),
        };
        assert!(is_alike(&[rule(1, 1_000)], &[rule(1, 1_050)]));
        assert!(!is_alike(&[rule(1, 1_000)], &[rule(1, 1_200)]));
        assert!(!is_alike(&[rule(1, 1_000)], &[rule(2, 1_000)]));
        assert!(!is_alike(&[rule(1, 1_000)], &[]));
    }

    #[test]
    fn an_hour_has_a_name() {
        assert_eq!(hour_now().len(), 13);
        assert!(switches() > 0);
    }
}
