//! The conductor: rounds of fresh processes, in random order over all probes,
//! until every figure is sure enough or the time is over.

use crate::harness::temp::TempDir;
use crate::probe::registry::Instance;
use crate::signal::{self, Signal};
use latlab_core::bench::estimate::estimate;
use latlab_core::bench::slice::{Slice, SliceReply, SliceSpec};
use latlab_core::stats::rng::SplitMix64;
use rustix::process::{Pid, Signal as Kill, kill_process_group};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a process may be silent beyond its slice before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Fewest processes behind a figure that is called sure: an odd one on each side is then outside the interval.
const PROCESSES_MIN: usize = 9;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What to measure.
    pub instances: Vec<Instance>,
    /// Half the 95% interval, as a share of the median, that is sure enough.
    pub target: f64,
    /// When to stop at the latest.
    pub budget: Duration,
    /// Order of the slices.
    pub seed: u64,
    /// Length of a batch to aim at, ns.
    pub batch_ns: u64,
    /// Batches a slice.
    pub batches: u32,
    /// Longest slice, ns.
    pub limit_ns: u64,
    /// CPU to measure on.
    pub cpu: Option<u32>,
    /// Where to make a directory for files.
    pub dir: PathBuf,
    /// Program and arguments that run [`crate::harness::slice::run`]; the slice is added as JSON.
    pub worker: Vec<String>,
}

/// Removes what no kernel removes for a killed process, on every way out.
struct LeftOver;

impl Drop for LeftOver {
    fn drop(&mut self) {
        crate::probe::sync_wires::remove_left_over();
    }
}

/// What came of one instance.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Its slices, in order of time.
    pub slices: Vec<Slice>,
    /// Why it was given up, and whether that is for want of the thing itself.
    pub given_up: Option<(String, bool)>,
    /// Whether it became sure enough.
    pub target_met: bool,
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
pub fn conduct(
    plan: &Plan,
    progress: &mut dyn FnMut(Progress<'_>),
) -> io::Result<(Vec<Outcome>, Option<Signal>)> {
    let dir = TempDir::create(&plan.dir)?;
    let _semaphores = LeftOver;
    let start = Instant::now();
    let mut rng = SplitMix64::new(plan.seed);
    let mut outcomes = vec![Outcome::default(); plan.instances.len()];
    let mut open: Vec<usize> = (0..plan.instances.len()).collect();
    let mut round = 0;
    while !open.is_empty() && (round == 0 || start.elapsed() < plan.budget) {
        round += 1;
        rng.shuffle(&mut open);
        for &i in &open {
            if let Some(signal) = signal::stop_requested() {
                return Ok((outcomes, Some(signal)));
            }
            if round > 1 && start.elapsed() >= plan.budget {
                break;
            }
            let used = start.elapsed().as_secs_f64() / plan.budget.as_secs_f64().max(1e-9);
            let sure = 1.0 - open.len() as f64 / plan.instances.len() as f64;
            let name = plan.instances[i].spec.name;
            progress(Progress { done: used.max(sure).min(1.0), name, round });
            let reply = slice(plan, &plan.instances[i], &outcomes[i], &dir);
            take(&mut outcomes[i], reply);
            dir.clear();
        }
        open.retain(|&i| {
            let outcome = &mut outcomes[i];
            outcome.target_met = sure_enough(&outcome.slices, plan.target);
            outcome.given_up.is_none() && !outcome.target_met
        });
    }
    Ok((outcomes, signal::stop_requested()))
}

fn sure_enough(slices: &[Slice], target: f64) -> bool {
    let with_values = slices.iter().filter(|s| !s.values.is_empty());
    let values: Vec<&[f64]> = with_values.map(|s| s.values.as_slice()).collect();
    values.len() >= PROCESSES_MIN && estimate(&values).is_some_and(|e| e.half_width() <= target)
}

/// A process that fails once in a while (killed from outside) does not cost the figure; one that always fails does.
fn take(outcome: &mut Outcome, reply: Result<SliceReply, String>) {
    let give_up = match reply {
        Ok(SliceReply::Measured(slice)) => {
            outcome.slices.push(*slice);
            return;
        }
        Ok(SliceReply::Unavailable { reason }) => (reason, true),
        Ok(SliceReply::Failed { reason }) | Err(reason) => (reason, false),
    };
    log::debug!("{}", give_up.0);
    if outcome.slices.is_empty() {
        outcome.given_up = Some(give_up);
    }
}

fn slice(
    plan: &Plan,
    instance: &Instance,
    so_far: &Outcome,
    dir: &TempDir,
) -> Result<SliceReply, String> {
    let spec = SliceSpec {
        probe: instance.spec.name.to_owned(),
        params: instance.params.clone(),
        batch: so_far.slices.first().map(|s| s.batch),
        batch_ns: plan.batch_ns,
        batches: plan.batches,
        limit_ns: plan.limit_ns,
        cpu: plan.cpu,
        dir: dir.path().to_string_lossy().into_owned(),
    };
    let json = serde_json::to_string(&spec).map_err(|e| e.to_string())?;
    let (program, arguments) =
        plan.worker.split_first().ok_or("no program to measure with was given")?;
    let mut child = Command::new(program)
        .args(arguments)
        .arg(json)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|e| format!("starting a process: {e}"))?;
    let limit = Duration::from_nanos(plan.limit_ns) + PATIENCE;
    let line = first_line(&mut child, limit);
    // Whatever the process started is in its group; nothing of it outlives the slice.
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(group, Kill::KILL);
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    match line? {
        Some(line) => serde_json::from_str(&line).map_err(|e| format!("its answer: {e}")),
        None => Err(format!("the measuring process ended without an answer ({status})")),
    }
}

/// The line that the child writes; `None` when it ends without one.
fn first_line(child: &mut Child, limit: Duration) -> Result<Option<String>, String> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut out = child.stdout.take().ok_or("no pipe")?;
    let started = Instant::now();
    let mut line = Vec::new();
    let mut buffer = [0u8; 16384];
    loop {
        if signal::stop_requested().is_some() {
            return Err("stopped".to_owned());
        }
        if started.elapsed() > limit {
            return Err(format!("no answer after {} s; killed", limit.as_secs()));
        }
        let wait = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let ready = poll(&mut [PollFd::from_borrowed_fd(out.as_fd(), PollFlags::IN)], Some(&wait));
        if !ready.is_ok_and(|n| n > 0) {
            continue;
        }
        match out.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(n) => line.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e.to_string()),
        }
        if let Some(end) = line.iter().position(|&b| b == b'\n') {
            line.truncate(end);
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}
