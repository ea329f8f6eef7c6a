//! Experiments: tasks compete, the scheduler's events are recorded, theory is held against them.

use super::cgroup::Groups;
use super::file;
use crate::cli::Global;
use crate::cli::sched::{Args, Config};
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::progress::Progress;
use crate::session::Session;
use anyhow::{Context, anyhow};
use latlab_analysis::sched::analyse::Options;
use latlab_analysis::sched::{expectations, part};
use latlab_model::finding::{Confidence, Finding, Note, Severity};
use latlab_model::run::Part;
use latlab_model::sched::experiment::{Cell, CellTask};
use latlab_model::sched::schedule::SchedDetail;
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::Policy;
use latlab_sys::files::Root;
use latlab_sys::policy::{self, Budget};
use latlab_sys::recorder::{EventSpec, Format, RecordConfig, Recorder};
use latlab_sys::schedload::{self, Order, WorkerPool, WorkerPoolError};
use latlab_sys::scratch::ScratchDir;
use latlab_sys::settings::Settings;
use latlab_sys::tracefs::Tracefs;
use latlab_sys::{clock, signal};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Without these nothing can be said.
const NEEDED: &[&str] = &["sched:sched_switch"];
/// These say more, where the kernel has them.
const WANTED: &[&str] = &[
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exit",
    "sched:sched_stat_runtime",
    "sched:sched_pi_setprio",
    "task:task_rename",
];
/// Slices of the experiment's tasks that are looked at.
const SLICES: usize = 200_000;
/// How much longer than the experiment its tasks may take to end.
const GRACE_NS: u64 = 2_000_000_000;
/// From the order to begin to the beginning of what is analysed.
const SETTLE_NS: u64 = 20_000_000;

/// Makes the experiments that were asked for.
///
/// # Errors
/// When none can be made, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let asked = args.config(&policy::allowed()?, &policy::online()?)?;
    let mut session = Session::begin(global, "sched", &asked)?;
    let scratch;
    let folder = match session.dir() {
        Some(dir) => dir.captures()?,
        None => {
            scratch = scratch_folder()?;
            scratch.path().to_owned()
        }
    };
    let single = asked.cells.len() == 1;
    let mut bench = match Bench::new(&asked, &session.run.machine, folder) {
        Ok(bench) => bench,
        Err(error) => {
            return session.abandon(error);
        }
    };
    for (n, cell) in asked.cells.iter().enumerate() {
        if signal::stop_requested().is_some() {
            break;
        }
        bench.progress.set(Some(n as f64 / asked.cells.len() as f64), &cell.name);
        match bench.measure(cell.clone()) {
            Ok(part) => session.run.parts.push(part),
            Err(error) if single => {
                return session.abandon(error);
            }
            Err(error) => session.run.parts.push(not_made(cell, &error)),
        }
        session.checkpoint()?;
    }
    drop(bench);
    if session.run.parts.is_empty() {
        return session.abandon(anyhow!("no experiment was made"));
    }
    let stopped = signal::stop_requested().map(signal::Signal::name);
    let json = global.json;
    session.finish_with(stopped, |run, out| {
        if json {
            crate::output::json(run, out)?;
        } else if single || crate::term::details() {
            crate::output::text(run, out)?;
        } else {
            // The page has every experiment's tables and plots.
            crate::output::document(&latlab_report::sections::sched::matrix(run), out)?;
        }
        Ok(())
    })
}

/// Experiments as a survey's step; recordings are not kept.
///
/// # Errors
/// When nothing can be recorded.
pub fn survey(
    asked: &Config,
    machine: &latlab_model::machine::Machine,
) -> anyhow::Result<Vec<Part>> {
    let scratch = scratch_folder()?;
    let mut bench = Bench::new(asked, machine, scratch.path().to_owned())?;
    bench.keep = false;
    let mut parts = Vec::new();
    for cell in &asked.cells {
        if signal::stop_requested().is_some() {
            break;
        }
        parts.push(bench.measure(cell.clone()).unwrap_or_else(|e| not_made(cell, &e)));
    }
    Ok(parts)
}

fn scratch_folder() -> anyhow::Result<ScratchDir> {
    let parent = std::env::temp_dir();
    ScratchDir::create(&parent)
        .with_context(|| {
            format!("{}: no directory for recordings can be created", parent.display())
        })
        .hint("set TMPDIR to another directory")
}

/// A part for a cell that failed, with the error as a finding.
fn not_made(cell: &Cell, error: &anyhow::Error) -> Part {
    let finding = Finding::typed("sched.not-made", Severity::Inconclusive, Confidence::High)
        .value("experiment", &cell.name)
        .value("error", crate::outcome::format_error_chain(error));
    let finding = match crate::outcome::hint_of(error) {
        Some(hint) => finding.remedy(hint.to_owned()),
        None => finding,
    };
    Part {
        name: format!("sched-{}", cell.name),
        title: title(cell),
        complete: true,
        findings: vec![finding],
        ..Part::default()
    }
}

fn title(cell: &Cell) -> String {
    let tasks: Vec<String> = cell.tasks.iter().map(CellTask::label).collect();
    tasks.join(" against ")
}

/// What experiments are made with.
struct Bench {
    tracefs: Tracefs,
    events: Vec<String>,
    missing: Vec<&'static str>,
    release: String,
    hz: Option<u32>,
    dir: PathBuf,
    folder: PathBuf,
    program: PathBuf,
    progress: Progress,
    /// Whether recordings stay.
    keep: bool,
    /// CPUs of ours before anything was bound.
    allowed: Vec<CpuId>,
    /// CPUs of tasks that nobody has bound.
    housekeeping: Vec<CpuId>,
    force: bool,
}

impl Bench {
    fn new(
        asked: &Config,
        machine: &latlab_model::machine::Machine,
        folder: PathBuf,
    ) -> anyhow::Result<Self> {
        let tracefs = Tracefs::find().with_hint()?.tracefs;
        let has: Vec<String> =
            tracefs.events().with_hint()?.iter().map(ToString::to_string).collect();
        let known = |name: &str| has.iter().any(|h| h == name);
        if let Some(name) = NEEDED.iter().find(|n| !known(n)) {
            return Err(anyhow!(
                "this kernel has no event {name}: running tasks cannot be determined"
            ))
            .hint("`latlab doctor` shows what this kernel can trace");
        }
        let events: Vec<String> =
            NEEDED.iter().chain(WANTED).filter(|n| known(n)).map(|n| (*n).to_owned()).collect();
        Ok(Self {
            tracefs,
            events,
            missing: WANTED.iter().copied().filter(|n| !known(n)).collect(),
            release: machine.kernel.release.clone(),
            hz: machine.kernel.hz.or_else(crate::cmd::timer::measured_hz),
            dir: asked.dir.clone(),
            folder,
            program: crate::program::own_program()?,
            progress: Progress::new("sched"),
            keep: true,
            allowed: policy::allowed()?,
            housekeeping: policy::housekeeping()?,
            force: asked.force,
        })
    }

    fn measure(&mut self, mut cell: Cell) -> anyhow::Result<Part> {
        let cpu = cell.cpu;
        let facts = || schedload::facts(&Root::here(), &self.release, self.hz, cpu);
        cell.kernel = facts();
        let mut settings = Settings::new();
        if cell.starves_others(&self.housekeeping) {
            if !self.force {
                return starves(cpu);
            }
            keep_a_share(&cell, &mut settings)?;
            cell.kernel = facts();
            if cell.starves_others(&self.housekeeping) {
                return starves(cpu);
            }
        }
        let orders: Vec<Order> = cell.tasks.iter().map(|t| self.order(t, &cell)).collect();
        let mut pool = WorkerPool::start(&self.program, &orders).map_err(refused)?;
        for (task, tid) in cell.tasks.iter_mut().zip(pool.tids()) {
            task.tid = tid;
        }
        if !pool.notes().is_empty() {
            cell.cpu = None;
            cell.notes.push(Note::new("sched.deadline-unbound"));
        }
        if !self.missing.is_empty() {
            cell.notes
                .push(Note::new("sched.missing-events").value("events", self.missing.clone()));
        }
        let groups = self.groups(&cell)?;
        let path = self.folder.join(format!("{}.dat", cell.name));
        let (from, to) = self.record(&cell, &mut pool, &path)?;
        // Groups can only be removed when their tasks are gone.
        drop(pool);
        drop(groups);
        let part = analyse(&cell, &path, from, to);
        if !self.keep {
            // A recording that cannot be removed is one file too many, and no failure.
            let _ = std::fs::remove_file(&path);
        }
        part
    }

    fn order(&self, task: &CellTask, cell: &Cell) -> Order {
        Order {
            name: task.name.clone(),
            work: task.work,
            policy: task.policy,
            priority: task.priority,
            nice: task.nice,
            slice_ns: task.slice_ns,
            latency_nice: task.latency_nice,
            runtime_ns: task.runtime_ns,
            period_ns: task.period_ns,
            cpu: cell.cpu,
            dir: self.dir.clone(),
            seconds_max: cell.duration_ns / 1_000_000_000 + 2,
        }
    }

    fn groups(&self, cell: &Cell) -> anyhow::Result<Option<Groups>> {
        let weights: Option<Vec<u64>> = cell.tasks.iter().map(|t| t.group_weight).collect();
        let Some(weights) = weights else { return Ok(None) };
        let groups = Groups::make(&weights).context("control groups with weights").hint(
            "root and the cpu controller are needed; `mount | grep cgroup` shows the mounted hierarchies",
        )?;
        for (n, task) in cell.tasks.iter().enumerate() {
            groups.enter(n, task.tid)?;
        }
        Ok(Some(groups))
    }

    /// Records while the pool works: from and to, in ns of the trace's clock.
    fn record(
        &mut self,
        cell: &Cell,
        pool: &mut WorkerPool,
        path: &Path,
    ) -> anyhow::Result<(u64, u64)> {
        let config = RecordConfig {
            events: self.events.iter().map(EventSpec::new).collect(),
            clock: Some("mono".into()),
            ..RecordConfig::default()
        };
        let recorder =
            Recorder::start(&self.tracefs, &config, path, Format::default()).with_hint()?;
        let stand_aside = StandAside::begin(cell, &self.allowed);
        let from = clock::now().0 + SETTLE_NS;
        let until = from + cell.duration_ns;
        pool.go(until);
        while clock::now().0 < until + GRACE_NS && !pool.all_ended() {
            if signal::stop_requested().is_some() || !recorder.is_running() {
                break;
            }
            let done = clock::now().0.saturating_sub(from) as f64 / cell.duration_ns as f64;
            self.progress.set(Some(done.min(1.0)), &cell.name);
            std::thread::sleep(stand_aside.nap());
        }
        let to = clock::now().0.min(until);
        drop(stand_aside);
        recorder.stop().and_then(|recorded| recorded.check()).with_hint()?;
        Ok((from, to))
    }
}

/// Keeps us off the experiment's CPU where there is another, and above its tasks where there is
/// none: whoever wants to stop it must be heard.
struct StandAside {
    raised: bool,
    bound: Option<Vec<CpuId>>,
}

impl StandAside {
    fn begin(cell: &Cell, allowed: &[CpuId]) -> Self {
        let others: Vec<CpuId> =
            allowed.iter().copied().filter(|c| Some(c.0) != cell.cpu).collect();
        let mut aside = Self { raised: false, bound: None };
        if cell.cpu.is_some() && !others.is_empty() {
            aside.bound = policy::bind(&others).is_ok().then(|| allowed.to_vec());
        } else if cell.tasks.iter().any(|t| t.policy.is_real_time()) {
            aside.raised = policy::set(Policy::Fifo, 99, Budget::default()).is_ok();
        }
        aside
    }
    /// Seldom, where each look takes the CPU from the experiment.
    fn nap(&self) -> Duration {
        Duration::from_millis(if self.bound.is_some() { 20 } else { 100 })
    }
}

impl Drop for StandAside {
    fn drop(&mut self) {
        if self.raised {
            // It cannot fail: to become ordinary needs no permission.
            let _ = policy::set(Policy::Other, 0, Budget::default());
        }
        if let Some(cpus) = &self.bound {
            let _ = policy::bind(cpus);
        }
    }
}

/// Refuses an experiment that would leave other tasks no time.
fn starves<T>(cpu: Option<u32>) -> anyhow::Result<T> {
    let cpu = cpu.map_or_else(String::new, |cpu| format!(" {cpu}"));
    Err(anyhow!(
        "CPU{cpu} is the only CPU for other tasks, and real-time throttling is off (sched_rt_runtime_us): these real-time tasks would block logins and SSH"
    ))
    .hint("select another CPU with --cpu, enable throttling with `sysctl kernel.sched_rt_runtime_us=950000`, or use --force to enable it during the experiment")
}

/// Has the kernel keep 5 % of each period from real-time tasks, by the fair server where there is one.
fn keep_a_share(cell: &Cell, settings: &mut Settings) -> anyhow::Result<()> {
    let (path, value) = match (cell.kernel.fair_server_ns, cell.cpu) {
        (Some((_, period)), Some(cpu)) => {
            let path = format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime");
            (path, period / 20)
        }
        _ => {
            let period = cell.kernel.rt_period_us.unwrap_or(1_000_000);
            ("/proc/sys/kernel/sched_rt_runtime_us".to_owned(), period / 100 * 95)
        }
    };
    settings.set(&path, &value.to_string()).with_context(|| {
        format!("{path}: no CPU time can be reserved for other tasks; experiment skipped")
    })?;
    Ok(())
}

fn analyse(cell: &Cell, path: &Path, from: u64, to: u64) -> anyhow::Result<Part> {
    let data = file::open(path)?;
    let trace = file::parse(path, &data)?;
    let select =
        latlab_trace::Select { from: Some(from), to: Some(to), ..latlab_trace::Select::default() };
    let weight = |t: &CellTask| Some((t.tid, latlab_analysis::sched::fair::weight(t)?));
    let options = Options {
        focus: cell.tasks.iter().map(|t| t.tid).collect(),
        slices: SLICES,
        window_ns: (cell.duration_ns / 20).max(100_000_000),
        weights: cell.tasks.iter().filter_map(weight).collect(),
        ..Options::default()
    };
    let (mut schedule, damage) =
        file::analyse(&trace, path, &select, options, &mut |_, _, _| Ok(()))?;
    crate::trace_input::tell_damage(path, &trace.diagnostics, &damage);
    // From the order to begin, not from the first event: a task that ran alone leaves few.
    schedule.length_ns = to.saturating_sub(from);
    let expectations = expectations::check(cell, &schedule);
    let detail = SchedDetail { cell: Some(cell.clone()), schedule, expectations };
    let name = format!("sched-{}", cell.name);
    Ok(part::part(&name, &title(cell), detail, signal::stop_requested().is_none()))
}

fn refused(error: WorkerPoolError) -> anyhow::Error {
    let policy = matches!(error, WorkerPoolError::Refused { policy: true, .. });
    let error: anyhow::Error = error.into();
    if !policy {
        return error;
    }
    let hint = "real-time priorities and negative nice values need root, CAP_SYS_NICE or a limit (ulimit -r, ulimit -e); see `latlab doctor`";
    match Err::<(), _>(error).hint(hint) {
        Err(hinted) => hinted,
        Ok(()) => anyhow!("unreachable"),
    }
}
