//! `latlab sweep`: goes through a plan point by point; what is measured is kept at once.

mod measure;
mod save;

use crate::cli::Global;
use crate::cli::sweep::Args;
use crate::outcome::{HintExt, Outcome};
use crate::progress::Progress;
use crate::session::Session;
use crate::term;
use anyhow::{Context, anyhow};
use latlab_analysis::sweep::analyse;
use latlab_analysis::sweep::analyse::Landmark;
use latlab_model::finding::{Confidence, Finding, Severity};
use latlab_model::sweep::Point;
use latlab_model::sweep::plan::{INTERVAL, Job, Plan};
use latlab_sys::{policy, signal};
use measure::Meter;
use save::Kept;
use std::io::Write;
use std::time::{Duration, Instant};

/// Runs the command.
///
/// # Errors
/// When it cannot be measured, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let (mut session, kept, mut plan, mut points) = match &args.resume {
        Some(dir) => {
            let (kept, plan, points) = save::reopen(dir)?;
            (Session::resume(global, dir, &plan)?, kept, plan, points)
        }
        None => {
            let plan = args.plan(free_bytes())?;
            check_cpus(&plan)?;
            if args.dry_run {
                return dry_run(&plan);
            }
            let session = Session::begin(global, "sweep", &plan)?;
            let dir = session.dir().context("a sweep needs a run directory")?.path().to_owned();
            let kept = save::begin(&dir, &plan)
                .inspect_err(|_| session.dir().into_iter().for_each(|d| d.discard()))?;
            (session, kept, plan, Vec::new())
        }
    };
    if args.resume.is_some() {
        plan.budget_ns = args.budget.map(|b| u64::try_from(b.as_nanos()).unwrap_or(u64::MAX));
    }
    let mut sweep = Sweep {
        started: Instant::now(),
        progress: Progress::new("sweep"),
        meter: Meter::new(&plan, args.priority, args.why.then(|| kept.dir().to_owned())),
        kept,
        plan,
    };
    let left = sweep.grid(&mut points)?;
    if left == 0 {
        sweep.refine(&mut points)?;
    }
    let landmarks = landmarks(args, &session)?;
    let Sweep { plan, meter, progress, .. } = sweep;
    drop(progress);
    let mut part = analyse::part(plan, points, left, &landmarks);
    if let Some(reason) = meter.ordinary_task() {
        part.findings.insert(0, ordinary(&reason));
    }
    session.run.parts.push(part);
    let stopped = signal::stop_requested().map(signal::Signal::name);
    let over = (left > 0).then(|| "--budget: total time used up".to_owned());
    session.finish(stopped.or(over))
}

struct Sweep {
    plan: Plan,
    kept: Kept,
    meter: Meter,
    progress: Progress,
    started: Instant,
}

impl Sweep {
    /// Everything of the grid that is not measured yet; how much is left when the time is over.
    fn grid(&mut self, points: &mut Vec<Point>) -> anyhow::Result<usize> {
        let jobs = self.plan.left(points);
        let all = jobs.len();
        for (i, job) in jobs.into_iter().enumerate() {
            if self.is_over() || !self.point(&job, false, (i, all), points)? {
                return Ok(all - i);
            }
        }
        Ok(0)
    }

    /// Points round knees, as long as there is time.
    fn refine(&mut self, points: &mut Vec<Point>) -> anyhow::Result<()> {
        let grid = self.plan.jobs().len();
        loop {
            let added = points.iter().filter(|p| p.refined).count();
            let more =
                analyse::refinement(&self.plan, points, self.plan.refine.saturating_sub(added));
            if more.is_empty() {
                return Ok(());
            }
            let all = more.len();
            for (i, place) in more.into_iter().enumerate() {
                let job = Job { number: grid + added + i, place };
                if self.is_over() || !self.point(&job, true, (i, all), points)? {
                    return Ok(());
                }
            }
        }
    }

    /// Whether another point would be too much.
    fn is_over(&self) -> bool {
        let budget = self.plan.budget_ns.map(Duration::from_nanos);
        signal::stop_requested().is_some()
            || budget.is_some_and(|b| {
                self.started.elapsed() + Duration::from_nanos(self.plan.each_ns()) > b
            })
    }

    /// Measures and keeps one point; false when it was interrupted, and is to be measured again.
    fn point(
        &mut self,
        job: &Job,
        refined: bool,
        (i, all): (usize, usize),
        points: &mut Vec<Point>,
    ) -> anyhow::Result<bool> {
        let each = Duration::from_nanos(self.plan.each_ns());
        let left = each.saturating_mul(u32::try_from(all - i).unwrap_or(u32::MAX));
        let kind = if refined { "around a knee, " } else { "" };
        let words = format!("{kind}{} of {all}, {} s left", i + 1, left.as_secs());
        let progress = &mut self.progress;
        let mut show = |part: f64| progress.set(Some((i as f64 + part) / all as f64), &words);
        let Some(point) = self.meter.measure(&self.plan, job, refined, &mut show)? else {
            return Ok(false);
        };
        self.kept.add(&point)?;
        points.push(point);
        Ok(true)
    }
}

fn dry_run(plan: &Plan) -> anyhow::Result<Outcome> {
    let mut out = term::stdout();
    let jobs = plan.jobs();
    for job in &jobs {
        let loads = plan.loads(&job.place).join(" ");
        let loads = if loads.is_empty() { "no load".into() } else { loads };
        let us = plan.interval_of(&job.place) / 1_000;
        let period = if plan.axes.iter().any(|a| a.name == INTERVAL) {
            format!("{us:>8} µs  ")
        } else {
            String::new()
        };
        writeln!(out, "{:>5}  {period}{loads}", job.number)?;
    }
    let seconds = (jobs.len() as u64).saturating_mul(plan.each_ns()) / 1_000_000_000;
    writeln!(
        out,
        "{} points of {} ms: {seconds} s in total, and up to {} more points around knees",
        jobs.len(),
        plan.point_ns / 1_000_000,
        plan.refine
    )?;
    out.flush()?;
    Ok(Outcome::Done)
}

/// Memory that may be used, bytes.
fn free_bytes() -> u64 {
    latlab_sys::machine::condition().available_bytes.unwrap_or(64 << 20)
}

fn check_cpus(plan: &Plan) -> anyhow::Result<()> {
    let allowed = policy::allowed().context("sched_getaffinity")?;
    for cpu in plan.cpus.iter().chain(&plan.measured_cpu) {
        if !allowed.iter().any(|c| c.0 == *cpu) {
            let names: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            return Err(anyhow!("this process may not run on CPU {cpu}"))
                .hint(format!("it may run on {}", names.join(", ")));
        }
    }
    Ok(())
}

/// Sizes that a knee may be: caches as the kernel declares them, or what a run of `latlab memory` found.
fn landmarks(args: &Args, session: &Session) -> anyhow::Result<Vec<Landmark>> {
    let Some(path) = &args.memory else {
        let caches = session.run.machine.caches.iter().filter(|c| c.kind != "Instruction");
        return Ok(caches.map(|c| (format!("L{}", c.level), c.size_bytes as f64)).collect());
    };
    let run = crate::rundir::load(path)?;
    let found: Vec<Landmark> = measured_landmarks(&run);
    if found.is_empty() {
        return Err(anyhow!("--memory {}: no caches in this run", path.display()))
            .hint("runs of `latlab memory` and `latlab survey` have them");
    }
    Ok(found)
}

#[cfg(feature = "host")]
fn measured_landmarks(run: &latlab_model::run::Run) -> Vec<Landmark> {
    let page = run.machine.page_bytes.max(4096) as f64;
    let mut out = Vec::new();
    for part in &run.parts {
        if let Some(latlab_model::run::Detail::Memory(d)) = &part.detail {
            out.extend(d.levels.iter().map(|l| (format!("L{}", l.level), l.bytes as f64)));
            out.extend(
                d.tlbs
                    .iter()
                    .map(|t| (format!("reach of TLB {}", t.level), f64::from(t.entries) * page)),
            );
        }
    }
    out
}

#[cfg(not(feature = "host"))]
fn measured_landmarks(_: &latlab_model::run::Run) -> Vec<Landmark> {
    Vec::new()
}

fn ordinary(reason: &str) -> Finding {
    Finding::typed("sweep.ordinary-task", Severity::Problem, Confidence::High)
        .value("error", reason)
}
