//! The steps of a survey: one line each, and one function each.

use super::step::{Context, Step};
use crate::cli::survey::Level;
use crate::cmd::{bench, doctor, memory, sched, timer};
use crate::progress::Progress;
use anyhow::Context as _;
use latlab_analysis::wakeup;
use latlab_model::finding::{Confidence, Finding, Severity};
use latlab_model::run::Part;
use latlab_model::wakeup::config::{Policy, WakeupConfig};
use latlab_model::wakeup::result::WakeupResult;
use latlab_sys::harness::runner;
use latlab_sys::load::{Load, Worker};
use latlab_sys::scratch::ScratchDir;
use latlab_sys::wakeup::{Hooks, LiveThread, Next, WakeupError};
use latlab_sys::{policy, signal};
use std::time::{Duration, Instant};

/// In the order in which they run: what the machine is, then the cheap, then the long.
#[rustfmt::skip]
pub(super) const STEPS: &[Step] = &[
    Step { name: "doctor", title: "System configuration", from: Level::Quick, seconds: [2, 2, 10], run: doctor },
    Step { name: "gaps", title: "OS noise", from: Level::Quick, seconds: [3, 30, 600], run: gaps },
    Step { name: "bench", title: "Micro-benchmarks: system calls, context switches, IPC, processes", from: Level::Quick, seconds: [13, 60, 330], run: bench },
    Step { name: "memory", title: "Caches and TLBs", from: Level::Quick, seconds: [9, 55, 55], run: memory },
    Step { name: "sched", title: "CPU shares by policy and priority", from: Level::Quick, seconds: [5, 50, 110], run: sched },
    Step { name: "timer", title: "Ticks, timers and interrupts", from: Level::Quick, seconds: [4, 10, 30], run: timer },
    Step { name: "wakeup", title: "Wake-up latency, idle", from: Level::Quick, seconds: [5, 60, 900], run: wakeup_idle },
    Step { name: "wakeup-cpu", title: "Wake-up latency, all CPUs busy computing", from: Level::Quick, seconds: [5, 60, 900], run: wakeup_cpu },
    Step { name: "wakeup-memory", title: "Wake-up latency, all CPUs allocating memory", from: Level::Quick, seconds: [5, 60, 900], run: wakeup_memory },
];

fn doctor(context: &Context) -> anyhow::Result<Vec<Part>> {
    Ok(vec![doctor::examine(context.machine, Duration::from_secs(context.seconds))])
}

fn gaps(context: &Context) -> anyhow::Result<Vec<Part>> {
    let seen = latlab_sys::gaps::measure(Duration::from_secs(context.seconds));
    let complete = signal::stop_requested().is_none();
    Ok(vec![latlab_analysis::osnoise::part(context.title, &seen, complete)])
}

/// The benchmarks; all of them, with every size, only in a full survey.
fn bench(context: &Context) -> anyhow::Result<Vec<Part>> {
    let mut config = bench::suite(context.level == Level::Full)?;
    config.budget_s = context.seconds as f64;
    let mut progress = Progress::new("bench");
    let mut show = |p: runner::Progress<'_>| progress.set(Some(p.done), p.name);
    let (mut part, _) = bench::measure(&config, &mut show)?;
    part.title = context.title.to_owned();
    Ok(vec![part])
}

/// Measured in a thread of its own, which is bound to a CPU: the steps after it are not.
fn memory(context: &Context) -> anyhow::Result<Vec<Part>> {
    let cpu = policy::allowed()?.last().map(|c| c.0);
    let config = memory::settings(context.level == Level::Quick, context.machine, cpu);
    let measured =
        std::thread::scope(|s| s.spawn(|| memory::measure(&config, context.machine)).join());
    let part = measured.map_err(|_| anyhow::anyhow!("the measuring thread ended by a panic"))??;
    Ok(vec![part])
}

/// Three experiments in a quick survey, the study's ten in a normal one, the whole matrix in a full one.
fn sched(context: &Context) -> anyhow::Result<Vec<Part>> {
    let cpu = policy::allowed()?.last().map_or(0, |c| c.0);
    let quick = ["cpu-other", "cpu-rr-90-90", "cpu-fifo-90-45"];
    let length = Duration::from_millis(if context.level == Level::Quick { 1_200 } else { 4_000 });
    let mut asked = crate::cli::sched::some(&[], cpu, length);
    match context.level {
        Level::Quick => asked.cells.retain(|c| quick.contains(&c.name.as_str())),
        Level::Normal => asked.cells.truncate(10),
        Level::Full => {}
    }
    let mut parts = sched::survey(&asked, context.machine)?;
    if let Some(first) = parts.first_mut() {
        first.name = context.name.to_owned();
    }
    Ok(parts)
}

fn timer(context: &Context) -> anyhow::Result<Vec<Part>> {
    let scratch = ScratchDir::create(&std::env::temp_dir()).context("directory for recordings")?;
    let path = scratch.path().join("timer.dat");
    let length = Duration::from_secs(context.seconds.saturating_sub(2).max(1));
    let interval = Duration::from_secs(1);
    let part =
        timer::measure(context.name, context.title, context.machine, length, interval, Some(&path));
    Ok(vec![part?])
}

fn wakeup_idle(context: &Context) -> anyhow::Result<Vec<Part>> {
    wakeup_under(context, &[])
}

fn wakeup_cpu(context: &Context) -> anyhow::Result<Vec<Part>> {
    let cpus = policy::allowed()?.len();
    wakeup_under(context, &vec![Worker::CPU; cpus])
}

/// As `stress -m N` does: a large allocation, every page touched, freed, again.
fn wakeup_memory(context: &Context) -> anyhow::Result<Vec<Part>> {
    let cpus = policy::allowed()?.len();
    let available = context.machine.start.available_bytes.unwrap_or(64 << 20);
    // At most an eighth of what is free: a board must not start to swap or kill.
    let share = usize::try_from(available / 8).unwrap_or(usize::MAX) / cpus.max(1);
    let worker = Worker::vm(share.clamp(1 << 20, 64 << 20), 4096);
    wakeup_under(context, &vec![worker; cpus])
}

/// Wake-up latency on every CPU while the workers are at work.
fn wakeup_under(context: &Context, workers: &[Worker]) -> anyhow::Result<Vec<Part>> {
    let program = crate::program::own_program()?;
    let mut load = Load::start(&program, workers)?;
    let (result, policy_finding) = measure_wakeups(context.seconds)?;
    let mut part = wakeup::part(context.name, context.title, &result);
    // Ctrl-C ends the workers too: then the load was there until the end.
    if !load.is_whole() && signal::stop_requested().is_none() {
        anyhow::bail!("a worker of the load ended during the measurement");
    }
    part.findings.extend(policy_finding);
    part.findings.extend(latlab_analysis::survey::load_effect(context.earlier, &part));
    Ok(vec![part])
}

/// SCHED_FIFO on each CPU; as an ordinary task where this user may not have that, which is said.
fn measure_wakeups(seconds: u64) -> anyhow::Result<(WakeupResult, Option<Finding>)> {
    let mut config = WakeupConfig {
        threads: policy::allowed()?.into_iter().map(Some).collect(),
        duration_ns: Some(seconds.saturating_mul(1_000_000_000)),
        ..WakeupConfig::default()
    };
    match run_with_progress(&config, seconds) {
        Err(error @ WakeupError::Policy { .. }) => {
            let id = "survey.ordinary-task";
            let finding = Finding::typed(id, Severity::Problem, Confidence::High)
                .value("error", error.to_string());
            let finding = match error.hint() {
                Some(hint) => finding.remedy(hint),
                None => finding,
            };
            config.policy = Policy::Other;
            config.priority = 0;
            Ok((run_with_progress(&config, seconds)?, Some(finding)))
        }
        result => Ok((result?, None)),
    }
}

fn run_with_progress(config: &WakeupConfig, seconds: u64) -> Result<WakeupResult, WakeupError> {
    let mut progress = Progress::new("wakeup");
    let started = Instant::now();
    let mut on_tick = |_: &[LiveThread]| {
        progress.set(Some(started.elapsed().as_secs_f64() / seconds.max(1) as f64), "");
        Next::Continue
    };
    latlab_sys::wakeup::run(config, Hooks { on_tick: Some(&mut on_tick), ..Hooks::default() })
}
