//! One point: the load starts, settles, wake-ups are measured under it, the load ends.

use latlab_model::finding::{Finding, Note, Statement};
use latlab_model::sweep::Point;
use latlab_model::sweep::plan::{Job, Plan};
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::{Policy, WakeupConfig};
use latlab_model::wakeup::result::WakeupResult;
use latlab_stats::histogram::Histogram;
use latlab_sys::load::{Load, LoadSpec};
use latlab_sys::wakeup::{Hooks, LiveThread, Next, WakeupError};
use latlab_sys::{clock, signal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Measures points.
pub struct Meter {
    config: WakeupConfig,
    /// Why the task is an ordinary one.
    ordinary: Option<String>,
    /// Where causes are looked for, if they are.
    why: Option<PathBuf>,
}

impl Meter {
    /// A meter for a plan.
    pub fn new(plan: &Plan, priority: u32, why: Option<PathBuf>) -> Self {
        let config = WakeupConfig {
            threads: vec![plan.measured_cpu.map(CpuId)],
            interval_ns: plan.interval_ns,
            duration_ns: Some(plan.point_ns),
            priority,
            ..WakeupConfig::default()
        };
        Self { config, ordinary: None, why }
    }

    /// Why the measured task was no real-time task, if it was none.
    pub fn ordinary_task(&self) -> Option<String> {
        self.ordinary.clone()
    }

    /// One point; `None` when a signal came before it was whole.
    ///
    /// # Errors
    /// When wake-ups cannot be measured at all. A load that dies makes a failed point.
    pub fn measure(
        &mut self,
        plan: &Plan,
        job: &Job,
        refined: bool,
        show: &mut dyn FnMut(f64),
    ) -> anyhow::Result<Option<Point>> {
        let loads = plan.loads(&job.place);
        let mut point = Point {
            job: job.number,
            place: job.place.clone(),
            load: loads.clone(),
            refined,
            start_ns: clock::now().0,
            ..Point::default()
        };
        let specs: Result<Vec<LoadSpec>, _> = loads.iter().map(|l| l.parse()).collect();
        let specs = specs.map_err(|e| anyhow::anyhow!("the load {}: {e}", loads.join(" ")))?;
        let program = crate::program::own_program()?;
        let mut load = match Load::start_specs(&program, &specs, None) {
            Ok(load) => load,
            Err(e) => {
                point.failed =
                    Some(failed(crate::outcome::format_error_chain(&anyhow::Error::new(e))));
                return Ok(Some(point));
            }
        };
        settle(Duration::from_nanos(plan.settle_ns));
        self.config.interval_ns = plan.interval_of(&job.place);
        let result = self.wakeups(show)?;
        if signal::stop_requested().is_some() {
            return Ok(None);
        }
        point.failed = load.ended().map(|e| failed(e.to_string()));
        drop(load);
        point.length_ns = result.duration_ns;
        point.steal_ns = result.steal_ns;
        for t in &result.threads {
            point.latency.merge(&t.per_period());
            point.missed += t.missed_periods;
        }
        let [_, of_periods] = result.summaries();
        point.summary = Some(of_periods).filter(|s| s.count > 0);
        if point.latency == Histogram::default() && point.failed.is_none() {
            point.failed = Some(Note::new("sweep.no-wakeups"));
        }
        if let Some(dir) = self.why.clone().filter(|_| point.failed.is_none()) {
            point.why = Some(cause(&program, &dir, plan, &point));
        }
        Ok(Some(point))
    }

    /// SCHED_FIFO, or as an ordinary task where this user may not have that.
    fn wakeups(&mut self, show: &mut dyn FnMut(f64)) -> anyhow::Result<WakeupResult> {
        loop {
            let (started, length) = (Instant::now(), self.config.duration_ns.unwrap_or(1));
            let mut on_tick = |_: &[LiveThread]| {
                show(started.elapsed().as_nanos() as f64 / length as f64);
                Next::Continue
            };
            let hooks = Hooks { on_tick: Some(&mut on_tick), ..Hooks::default() };
            match latlab_sys::wakeup::run(&self.config, hooks) {
                Ok(result) => return Ok(result),
                Err(WakeupError::StoppedBefore) => return Ok(WakeupResult::default()),
                Err(error @ WakeupError::Policy { .. }) if self.config.policy != Policy::Other => {
                    self.ordinary = Some(error.to_string());
                    self.config.policy = Policy::Other;
                    self.config.priority = 0;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn settle(time: Duration) {
    let end = Instant::now() + time;
    while signal::stop_requested().is_none() && Instant::now() < end {
        std::thread::sleep(
            end.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)),
        );
    }
}

/// The first cause that `latlab why` names under the point's load, as a run of its own below the sweep's.
fn cause(program: &Path, dir: &Path, plan: &Plan, point: &Point) -> Note {
    let out = dir.join("why").join(format!("{:04}", point.job));
    let mut command = Command::new(program);
    command.args(["why", "--json", "-q", "-D", "5s", "--captures", "10", "-i"]);
    command.arg((plan.interval_of(&point.place) / 1_000).to_string()).arg("--out").arg(&out);
    if let Some(cpu) = plan.measured_cpu {
        command.args(["-a", &cpu.to_string(), "-t1"]);
    }
    for load in &point.load {
        command.args(["--load", load]);
    }
    let done = command.stdin(Stdio::null()).output();
    let said =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().unwrap_or("").to_owned();
    match done {
        Ok(o) if o.status.code().is_some_and(|c| c == 0 || c == 2) => {
            first_cause(&o.stdout).unwrap_or_else(|| Note::new("sweep.no-cause"))
        }
        Ok(o) => not_searched(said(&o.stderr)),
        Err(e) => not_searched(e.to_string()),
    }
}

fn failed(error: String) -> Note {
    Note::new("sweep.load-failed").value("error", error)
}

fn not_searched(error: String) -> Note {
    Note::new("sweep.cause-not-searched").value("error", error)
}

/// The first finding of a `why` run, as a note.
fn first_cause(json: &[u8]) -> Option<Note> {
    let mut run: serde_json::Value = serde_json::from_slice(json).ok()?;
    let finding = run.get_mut("parts")?.get_mut(0)?.get_mut("findings")?.get_mut(0)?.take();
    let finding: Finding = serde_json::from_value(finding).ok()?;
    Some(if finding.claim.is_empty() {
        Note::Typed(Statement { id: finding.id, values: finding.values })
    } else {
        Note::Recorded(finding.claim)
    })
}
