//! The flight recorder of a watch: everything that delays a task, in a ring buffer that is read only for captures.

use crate::outcome::OwnHintExt;
use crate::trace_input;
use latlab_analysis::latency::activations::from_capture::Known;
use latlab_analysis::latency::activations::{Job, Late};
use latlab_analysis::latency::from_trace;
use latlab_analysis::watch::lead::{Lead, lead};
use latlab_model::units::{Tid, TraceNs};
use latlab_model::watch::Level;
use latlab_sys::clock;
use latlab_sys::recorder::{EventSpec, FlightRecorder, Format, RecordConfig, Snapshot};
use latlab_sys::tracefs::{LateRule, LateTrigger, Tracefs};
use std::time::{Duration, Instant};

const SCHEDULER: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_pi_setprio",
    "timer:hrtimer_start",
    "timer:hrtimer_expire_entry",
    "timer:hrtimer_expire_exit",
];
const INTERRUPTS: &[&str] = &[
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq_vectors:local_timer_entry",
    "irq_vectors:local_timer_exit",
    "irq_vectors:reschedule_entry",
    "irq_vectors:reschedule_exit",
    "irq_vectors:call_function_single_entry",
    "irq_vectors:call_function_single_exit",
    "ipi:ipi_entry",
    "ipi:ipi_exit",
    "nmi:nmi_handler",
    "sched:sched_migrate_task",
    "timer:timer_expire_entry",
    "timer:timer_expire_exit",
];
const ALL: &[&str] = &[
    "workqueue:workqueue_execute_start",
    "workqueue:workqueue_execute_end",
    "lock:contention_begin",
    "lock:contention_end",
];

/// A ring buffer with what a level records.
#[derive(Debug)]
pub(super) struct Flight {
    // Before the recorder: it holds the instance.
    _trigger: Option<LateTrigger>,
    recorder: FlightRecorder,
    /// The kernel stops it where one of these tasks is late.
    rules: Option<Vec<LateRule>>,
    seen: u64,
    /// Events of buffers that were emptied since the last count.
    emptied: u64,
    /// Since when it records without a gap.
    since: TraceNs,
}

/// A frozen ring buffer.
#[derive(Debug)]
pub(super) struct Frozen {
    snapshot: Snapshot,
    /// How long it did not record.
    pub(super) dead: Duration,
}

impl Flight {
    /// Begins to record, until a task is late by one of the rules where the kernel can tell; `None` at the level that
    /// records nothing.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn start(
        tracefs: &Tracefs,
        level: Level,
        buffer: u64,
        rules: Vec<LateRule>,
    ) -> anyhow::Result<Option<Self>> {
        let sets: &[&[&str]] = match level {
            Level::All => &[SCHEDULER, INTERRUPTS, ALL],
            Level::Interrupts => &[SCHEDULER, INTERRUPTS],
            Level::Scheduler => &[SCHEDULER],
            Level::Off => return Ok(None),
        };
        let known = tracefs.events().with_hint()?;
        let has = |name: &&&str| known.iter().any(|e| format!("{}:{}", e.system, e.name) == **name);
        let names = sets.iter().flat_map(|set| set.iter());
        let config = RecordConfig {
            events: names.filter(has).map(|name| EventSpec::new(*name)).collect(),
            clock: Some("mono".into()),
            buffer_total_kb: Some(buffer >> 10),
            ..RecordConfig::default()
        };
        let refused =
            |error| log::warn!("the kernel does not stop the buffer where a task is late: {error}");
        let trigger = if rules.is_empty() { Ok(None) } else { LateTrigger::new(tracefs) };
        let mut trigger = trigger.map_err(refused).unwrap_or_default();
        let recorder = FlightRecorder::start(tracefs, &config).with_hint()?;
        let control = recorder.session().control();
        let set = trigger.as_mut().map(|t| t.set(control, &rules).map_err(refused));
        let rules = matches!(set, Some(Ok(true))).then_some(rules);
        let since = TraceNs(clock::now().0);
        Ok(Some(Self { recorder, _trigger: trigger, rules, seen: 0, emptied: 0, since }))
    }

    /// The rules by which the kernel stops it; `None`: it does not.
    pub(super) fn rules(&self) -> Option<&[LateRule]> {
        self.rules.as_deref()
    }

    /// Whether the kernel stopped it.
    pub(super) fn is_triggered(&self) -> bool {
        self.rules.is_some() && !self.recorder.is_on()
    }

    /// Forgets what it holds, and goes on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn go_on(&mut self) -> anyhow::Result<()> {
        self.emptied = self.events();
        self.begin_anew()
    }

    fn begin_anew(&mut self) -> anyhow::Result<()> {
        self.recorder.rearm().with_hint()?;
        (self.seen, self.since) = (0, TraceNs(clock::now().0));
        Ok(())
    }

    /// Since when it records without a gap. What it has overwritten since then it does not have either.
    pub(super) fn since(&self) -> TraceNs {
        self.since
    }

    /// Whether it still records.
    pub(super) fn is_on(&self) -> bool {
        self.recorder.is_on()
    }

    /// Events since the last call.
    pub(super) fn events(&mut self) -> u64 {
        let all = self.recorder.counts().0;
        let fresh = all.saturating_sub(self.seen);
        self.seen = all;
        fresh + std::mem::take(&mut self.emptied)
    }

    /// Takes out what it holds, and begins anew.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub(super) fn freeze(&mut self) -> anyhow::Result<Frozen> {
        let since = Instant::now();
        self.emptied = self.events();
        let snapshot = self.recorder.snapshot().with_hint()?;
        self.begin_anew()?;
        Ok(Frozen { snapshot, dead: since.elapsed() })
    }
}

impl Frozen {
    /// The main part of an activation; `None`: the buffer does not have it.
    ///
    /// # Errors
    /// When the recording cannot be read.
    pub(super) fn lead(
        &self,
        tid: Tid,
        job: Job,
        late: Late,
        known: &Known,
    ) -> anyhow::Result<Option<Lead>> {
        let bytes = self.snapshot.to_bytes(Format::uncompressed()).with_hint()?;
        let file = trace_input::open(&bytes, "capture".as_ref())?;
        Ok(lead(from_trace::capture(&file, "capture"), tid, job, late, known))
    }

    /// Writes it as a trace.dat.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn save(
        &self,
        path: &std::path::Path,
    ) -> Result<(), latlab_sys::recorder::RecordError> {
        self.snapshot.save(path, Format::default())
    }
}

/// Time that an event takes, ns: that of a marker written to this buffer, which includes a system call. The least
/// of several rounds.
pub(super) fn event_ns(recorder: &FlightRecorder) -> f64 {
    const EACH: u32 = 100;
    let Ok(marker) = recorder.marker() else { return 500.0 };
    let round = |_| {
        let since = Instant::now();
        let written =
            (0..EACH).filter(|_| marker.write(b"latlab watch: cost of an event\n").is_ok());
        let n = written.count() as f64;
        since.elapsed().as_nanos() as f64 / n.max(1.0)
    };
    (0..20).map(round).fold(f64::INFINITY, f64::min).min(1e6)
}
