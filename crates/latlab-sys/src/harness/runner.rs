//! Runner of a benchmark suite: rounds of fresh processes, in random order over all probes,
//! until every figure is sure enough or the time is over.

use crate::harness::account;
use crate::harness::worker::{Trial, TrialError, finished, not_started};
use crate::probe::registry::Instance;
use crate::scratch::ScratchDir;
use crate::signal::{self, Signal};
use latlab_model::bench::trial::{Slice, SliceReply, SliceSpec};
use latlab_model::finding::Note;
use latlab_stats::estimate::Estimate;
use latlab_stats::rng::SplitMix64;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Time beyond its limit after which a silent trial is killed.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Fewest processes behind a figure that is called sure: two in each of the estimate's blocks of time.
const PROCESSES_MIN: usize = 12;

/// How often a probe may fail before it ever measured.
const FAILURES_MAX: u32 = 3;

/// The statistics that decide which batches count and when a result is precise enough; the caller
/// supplies them, because this crate only measures.
#[derive(Clone, Copy, Debug)]
pub struct StopRule {
    /// The undisturbed level of the control workload, ns; `None` with too few readings.
    pub level: fn(&[&Slice]) -> Option<f64>,
    /// From a level, the reading up to which a batch is undisturbed, ns.
    pub threshold_ns: fn(f64) -> f64,
    /// The estimate so far at a level.
    pub estimate: fn(&[Slice], Option<f64>) -> Option<Estimate>,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What to measure.
    pub instances: Vec<Instance>,
    /// Half the 95% interval, as a share of the median, that is sure enough.
    pub target: f64,
    /// When to stop at the latest.
    pub budget: Duration,
    /// Order of the trials.
    pub seed: u64,
    /// Length of a batch to aim at, ns.
    pub batch_ns: u64,
    /// Batches a trial.
    pub batches: u32,
    /// Longest trial, ns.
    pub limit_ns: u64,
    /// CPU to measure on.
    pub cpu: Option<u32>,
    /// CPUs of the copies of each trial, which measure at the same time, that of `cpu` among them; empty: no copies.
    pub copies: Vec<u32>,
    /// Where to make a directory for files.
    pub dir: PathBuf,
    /// When a result is precise enough.
    pub stop: StopRule,
    /// Program and arguments that run [`crate::harness::trial::run`]; the trial is added as JSON.
    pub worker: Vec<String>,
}

/// Removes the System V semaphores of killed trials, on every return.
struct SemaphoreCleanup;

impl Drop for SemaphoreCleanup {
    fn drop(&mut self) {
        crate::probe::sync_channels::remove_orphaned();
    }
}

/// What came of one instance.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Its trials, in order of time.
    pub slices: Vec<Slice>,
    /// Why it was given up, and whether that is for want of the thing itself.
    pub given_up: Option<(Note, bool)>,
    /// Whether it became sure enough.
    pub target_met: bool,
    /// Processes that failed before any measured, or one after the other for want of a server.
    failed: u32,
}

/// What came of all.
#[derive(Clone, Debug, Default)]
pub struct SuiteOutcome {
    /// One for each instance of the plan.
    pub outcomes: Vec<Outcome>,
    /// The signal that ended it early.
    pub stopped: Option<Signal>,
    /// Buffers of the kernel's tracing that somebody had events recorded into meanwhile.
    pub traced: Vec<String>,
    /// Share of the measuring CPU's time that other processes had meanwhile; `None` where not known.
    pub others: Option<f64>,
}

/// CPU time so far, ns: of a CPU, by anybody, and of our children that have ended, anywhere.
fn cpu_time(cpu: Option<u32>) -> Option<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let times = account::cpu_ns(&stat, Some(cpu?))?;
    // user nice system irq softirq: neither idle nor stolen.
    let busy = [0, 1, 2, 5, 6].iter().filter_map(|&i| times.get(i)).sum();
    let usage = account::usage(libc::RUSAGE_CHILDREN);
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    Some((busy, ns(usage.ru_utime) + ns(usage.ru_stime)))
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// From 0 to 1: the larger of time used and figures that are sure.
    pub done: f64,
    /// What is being measured.
    pub name: &'a str,
    /// Round, from 1.
    pub round: usize,
}

/// Measures. Ends early, with what there is, when a signal asks for it.
///
/// # Errors
/// When no directory can be made.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Progress<'_>)) -> io::Result<SuiteOutcome> {
    let dir = ScratchDir::create(&plan.dir)?;
    let _semaphores = SemaphoreCleanup;
    let start = Instant::now();
    let mut rng = SplitMix64::new(plan.seed);
    let mut outcomes = vec![Outcome::default(); plan.instances.len()];
    let mut open: Vec<usize> = (0..plan.instances.len()).collect();
    let mut round = 0;
    let mut traced = BTreeSet::new();
    let mut level = None;
    let before = cpu_time(plan.cpu);
    let others = || {
        let ((busy, ours), (busy_then, ours_then)) = (cpu_time(plan.cpu)?, before?);
        let others = (busy - busy_then).saturating_sub(ours - ours_then);
        Some(others as f64 / start.elapsed().as_nanos() as f64)
    };
    while !open.is_empty() && (round == 0 || start.elapsed() < plan.budget) {
        round += 1;
        rng.shuffle(&mut open);
        for &i in &open {
            if let Some(signal) = signal::stop_requested() {
                let traced = traced.into_iter().collect();
                return Ok(SuiteOutcome {
                    outcomes,
                    stopped: Some(signal),
                    traced,
                    others: others(),
                });
            }
            if round > 1 && start.elapsed() >= plan.budget {
                break;
            }
            let used = start.elapsed().as_secs_f64() / plan.budget.as_secs_f64().max(1e-9);
            let sure = 1.0 - open.len() as f64 / plan.instances.len() as f64;
            let name = plan.instances[i].spec.name;
            progress(Progress { done: used.max(sure).min(1.0), name, round });
            for reply in run_trial(plan, &plan.instances[i], &outcomes[i], level, &dir) {
                take(&mut outcomes[i], reply, plan.instances[i].peer.is_some());
            }
            dir.clear();
        }
        traced.extend(crate::tracefs::active());
        let slices: Vec<&Slice> = outcomes.iter().flat_map(|o| &o.slices).collect();
        level = (plan.stop.level)(&slices);
        open.retain(|&i| {
            let outcome = &mut outcomes[i];
            outcome.target_met = sure_enough(&outcome.slices, level, plan);
            let may_go_on = outcome.given_up.is_none() || outcome.failed < FAILURES_MAX;
            may_go_on && !outcome.target_met
        });
    }
    Ok(SuiteOutcome {
        outcomes,
        stopped: signal::stop_requested(),
        traced: traced.into_iter().collect(),
        others: others(),
    })
}

fn sure_enough(slices: &[Slice], level: Option<f64>, plan: &Plan) -> bool {
    slices.len() >= PROCESSES_MIN
        && (plan.stop.estimate)(slices, level)
            .is_some_and(|e| e.processes as usize >= PROCESSES_MIN && e.half_width() <= plan.target)
}

/// A process that fails once in a while (killed from outside) does not cost the figure; one that
/// always fails does, and what the machine does not have is not asked for again. A server on another machine that is
/// lost ends the measurement, too; what was measured before stays.
fn take(outcome: &mut Outcome, reply: Result<SliceReply, TrialError>, is_remote: bool) {
    let reply = match reply {
        Err(TrialError::NotStarted(error)) => Ok(not_started(error)),
        reply => reply,
    };
    let give_up = match reply {
        Ok(SliceReply::Measured(slice)) => {
            outcome.slices.push(*slice);
            (outcome.given_up, outcome.failed) = (None, 0);
            return;
        }
        Ok(SliceReply::Unavailable { reason }) => (reason, true),
        Ok(SliceReply::Failed { reason }) => (reason, false),
        Err(error) => (error.note(), false),
    };
    log::debug!("{:?}", give_up.0);
    if outcome.slices.is_empty() {
        outcome.failed = if give_up.1 { FAILURES_MAX } else { outcome.failed + 1 };
        outcome.given_up = Some(give_up);
    } else if is_remote {
        outcome.failed += 1;
        outcome.given_up = Some(give_up);
    }
}

fn run_trial(
    plan: &Plan,
    instance: &Instance,
    so_far: &Outcome,
    level: Option<f64>,
    dir: &ScratchDir,
) -> Vec<Result<SliceReply, TrialError>> {
    let spec = SliceSpec {
        each: 0,
        control_limit_ns: level.map(plan.stop.threshold_ns),
        probe: instance.spec.name.to_owned(),
        params: instance.params.clone(),
        batch: so_far.slices.first().map(|s| s.batch),
        batch_ns: plan.batch_ns,
        batches: plan.batches,
        limit_ns: plan.limit_ns,
        cpu: plan.cpu,
        dir: dir.path().to_string_lossy().into_owned(),
        // Once is enough to show it, and a trace is not free.
        watch: so_far.slices.is_empty(),
        peer: instance.peer.map(crate::probe::remote::address_text),
        together: false,
    };
    #[cfg(feature = "host")]
    if !plan.copies.is_empty() {
        return super::copies::run(&plan.worker, &spec, &plan.copies, reply_limit(&spec));
    }
    vec![trial(&plan.worker, &spec)]
}

/// How long a process may take.
fn reply_limit(spec: &SliceSpec) -> Duration {
    Duration::from_nanos(spec.limit_ns) + REPLY_TIMEOUT
}

fn trial(worker: &[String], spec: &SliceSpec) -> Result<SliceReply, TrialError> {
    Trial::start(worker, spec, Stdio::null()).and_then(|mut trial| {
        let line = trial.lines.next(reply_limit(spec));
        finished(trial, line)
    })
}

/// Measures one slice in a process of its own, which `worker` and the slice start; `None` after a signal.
pub fn slice(worker: &[String], spec: &SliceSpec) -> Option<SliceReply> {
    let _semaphores = SemaphoreCleanup;
    match trial(worker, spec) {
        Ok(reply) => Some(reply),
        Err(TrialError::Stopped) => None,
        Err(TrialError::NotStarted(error)) => Some(not_started(error)),
        Err(error) => Some(SliceReply::Failed { reason: error.note() }),
    }
}
