//! `latlab memory`: caches and TLBs, measured here or read from elsewhere.

mod beside;
mod config;
mod rings;

use crate::cli::Global;
use crate::cli::memory::Args;
use crate::outcome::{HintExt, Outcome};
use crate::progress::Progress;
use crate::session::Session;
use crate::{output, rundir};
use anyhow::{Context, anyhow};
use config::{Config, limit};
use latlab_analysis::cache;
use latlab_analysis::cache::import_lat_mem_rd::{infer, lat_mem_rd as read_lat_mem_rd};
use latlab_analysis::cache::stride_regimes;
use latlab_model::cache::detail::{CacheDetail, Curve, Limitation, StridePoint};
use latlab_model::finding::{Note, Quantity};
use latlab_model::machine::Machine;
use latlab_model::run::{Detail, Part, Run};
use latlab_model::units::CpuId;
use latlab_report::dialect::lat_mem_rd;
use latlab_report::messages;
use latlab_sys::memory::reported::reported;
use latlab_sys::memory::{Host, LEAST, Settings, multiply};
use latlab_sys::{bounded_file, clock, policy, signal};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// Time for what levels are inferred from; what is measured beside it takes about ten seconds more.
const BUDGET: Duration = Duration::from_secs(90);
/// Time of a quick look, in which little is measured beside.
const QUICK_BUDGET: Duration = Duration::from_millis(8_500);
/// Largest text that is read: a full lat_mem_rd output has some hundred kilobytes.
const TEXT_MAX: u64 = 64 << 20;
/// Strides of `a[i] *= a[i]` in bytes: 1, 2, 4, 6, 8, 10, 12, 14, 16, 32, 64, 128 and 256 elements of 4 bytes.
const STRIDES: [usize; 13] = [4, 8, 16, 24, 32, 40, 48, 56, 64, 128, 256, 512, 1024];
const SWITCH_TITLE: &str = "Context switches with working sets";
const TITLE: &str = "Caches, lines, ways and TLBs";

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let machine = latlab_sys::machine::read();
    let mut config = config(args, &machine)?;
    let lmbench = args.format.is_some() && !global.json;
    let (mut session, part, stopped) = if let Some(plan) = config.switch.clone() {
        let session = Session::begin(global, "memory", &config)?;
        let begun = clock::now();
        let measured = rings::measure(&plan, &config, &machine);
        let (detail, rings, stopped) = match measured {
            Ok(measured) => measured,
            Err(error) => return session.abandon(error),
        };
        let length = clock::now().since(begun).0;
        let mut part = cache::part::part("memory", SWITCH_TITLE, detail, length);
        part.results = rings.results;
        part.complete = rings.complete;
        (session, part, stopped)
    } else if args.from.is_empty() {
        let session = Session::begin(global, "memory", &config)?;
        let part = match measure(&config, &machine) {
            Ok(part) => part,
            Err(error) => return session.abandon(error),
        };
        let stopped = signal::stop_requested().map(signal::Signal::name);
        (session, part, stopped)
    } else {
        config.from = args.from.iter().map(|p| p.display().to_string()).collect();
        let part = read(&args.from)?;
        (Session::begin_ephemeral(global, "memory", &config)?, part, None)
    };
    session.run.parts.push(part);
    let json = global.json;
    session.finish_with(stopped, |run, out| {
        if json {
            output::json(run, out)?;
        } else if lmbench {
            lat_mem_rd::write(run, out)?;
        } else {
            output::text(run, out)?;
        }
        Ok(())
    })
}

fn config(args: &Args, machine: &Machine) -> anyhow::Result<Config> {
    let allowed = policy::allowed().context("sched_getaffinity")?;
    let cpu = match args.cpu {
        Some(cpu) if !allowed.contains(&CpuId(cpu)) => {
            let names: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            return Err(anyhow!("this process may not run on CPU {cpu}"))
                .hint(format!("it may run on {}", names.join(", ")));
        }
        Some(cpu) => Some(cpu),
        None => allowed.last().map(|c| c.0),
    };
    let mut config = settings(args.quick, machine, cpu);
    if let Some(mib) = args.size {
        asked(&mut config, u64::from(mib) << 20, limit(machine));
    }
    if let Some(seed) = args.seed {
        config.seed = seed;
    }
    if let Some(time) = args.duration {
        config.budget_s = time.as_secs_f64();
        config.switch_budget = Some(time);
    }
    if let Some(plan) = &args.switch {
        let lists = (args.procs.as_deref(), args.working_sets.as_deref());
        config.switch = Some(rings::plan(plan, lists, (args.cold, args.class == "fifo"))?);
    }
    Ok(config)
}

/// Arrays as large as asked for, but not so that nothing is left: base and huge pages are an area
/// each, and the kernel kills who takes too much.
fn asked(config: &mut Config, bytes: u64, free: Option<u64>) {
    let most = free.map_or(bytes, |free| free / 8 * 3);
    config.bytes = bytes.min(most).max(LEAST as u64);
    if config.bytes < bytes {
        let note = Note::new("cache.limited-size")
            .value("wanted", Quantity::Bytes(bytes))
            .value("allowed", Quantity::Bytes(config.bytes));
        config.less = Some(note);
    }
}

/// What is usual: arrays of four times the largest cache, and not more than a quarter of what is free.
pub fn settings(quick: bool, machine: &Machine, cpu: Option<u32>) -> Config {
    let largest = machine.caches.iter().map(|c| c.size_bytes).max().unwrap_or(0);
    let most = if quick { 64 << 20 } else { 256 << 20 };
    let wanted = (largest * 4).clamp(64 << 20, most);
    // Two areas: base and huge pages.
    let free = limit(machine).unwrap_or(u64::MAX) / 4;
    Config {
        quick,
        bytes: wanted.min(free).max(LEAST as u64),
        budget_s: if quick { QUICK_BUDGET } else { BUDGET }.as_secs_f64(),
        cpu,
        seed: clock::now().0,
        from: Vec::new(),
        switch: None,
        switch_budget: None,
        less: None,
    }
}

/// Measures as configured; for `memory` itself and for `survey`.
///
/// # Errors
/// When there is not enough memory, or not even a coarse curve could be measured.
pub fn measure(config: &Config, machine: &Machine) -> anyhow::Result<Part> {
    let allowed = policy::allowed().context("sched_getaffinity")?;
    if let Some(cpu) = config.cpu {
        policy::bind(&[CpuId(cpu)]).with_context(|| format!("binding to CPU {cpu}"))?;
    }
    let mut progress = Progress::new("memory");
    let begun = clock::now();
    let watch = Box::new(|stage, done: f64| progress.set(Some(done), messages::stage(stage)));
    let bytes = usize::try_from(config.bytes).unwrap_or(1 << 30);
    let settings = Settings {
        bytes,
        huge: true,
        budget_ns: (config.budget_s * 1e9) as u64,
        batch_ns: if config.quick { 100_000 } else { 300_000 },
        cpu: config.cpu.map(CpuId),
    };
    let mut host = Host::new(settings, watch)
        .context("no memory for arrays")
        .hint("at least 4 MiB are needed; check the limits of the control group and `ulimit -v`")?;
    let plan =
        cache::Config { quick: config.quick, seed: config.seed, emulated: emulated(machine) };
    let mut session = cache::Session::new(host.limits(), plan);
    let stopped = cache::run(&mut session, &mut host)
        .context("measuring the memory")
        .hint("allow more time (-D), and select a CPU without other load (-a)")?;
    let mut detail = session.result();
    detail.limitations.extend(stopped.and_then(|e| e.limitation()));
    let notes = config.less.iter().cloned().chain(host.notes());
    detail.limitations.extend(notes.map(Limitation::Note));
    let limits = host.limits();
    drop(host);
    drop(progress);
    sweep(&mut detail, bytes);
    if detail.cannot_tell.is_none() {
        beside::bandwidth(&mut detail, config);
        beside::loop_times(&mut detail, config, &limits);
        beside::curves(&mut detail, config, machine, &allowed);
    }
    detail.regimes = detail.regimes.or_else(|| stride_regimes::of_curves(&detail.curves));
    detail.reported = reported(machine);
    let length = clock::now().since(begun).0;
    let mut part = cache::part::part("memory", TITLE, detail, length);
    part.complete = signal::stop_requested().is_none();
    Ok(part)
}

/// The loop `a[i] *= a[i]`: is the cache on at all?
fn sweep(detail: &mut CacheDetail, bytes: usize) {
    if signal::stop_requested().is_some() || detail.cannot_tell.is_some() {
        return;
    }
    match multiply(bytes.min(64 << 20), &STRIDES) {
        Ok(swept) => detail.strides.extend(swept.into_iter().map(|(stride, ns)| StridePoint {
            stride_bytes: u32::try_from(stride).unwrap_or(u32::MAX),
            ns,
        })),
        Err(error) => detail.limitations.push(config::not_measured("strides", &error)),
    }
}

/// Whether the processor is emulated and has no caches.
fn emulated(machine: &Machine) -> bool {
    let what = machine.virtualization.as_deref().unwrap_or_default();
    let first = what.split(',').next().unwrap_or_default();
    first == "qemu-tcg" || (first == "qemu" && !machine.arch.starts_with("x86"))
}

/// Curves of files, judged.
fn read(files: &[impl AsRef<Path>]) -> anyhow::Result<Part> {
    let mut curves = Vec::new();
    let mut machine = Machine::default();
    for file in files {
        let file = file.as_ref();
        let (found, of) = read_one(file)?;
        curves.extend(found);
        if let (1, Some(m)) = (files.len(), of) {
            machine = m;
        }
    }
    let page = u32::try_from(machine.page_bytes).ok().filter(|p| *p > 0).unwrap_or(4096);
    let detail = infer(curves, page);
    Ok(cache::part::part("memory", TITLE, detail, 0))
}

fn read_one(file: &Path) -> anyhow::Result<(Vec<Curve>, Option<Machine>)> {
    let shown = file.display();
    if file.is_dir() || file.extension().is_some_and(|e| e == "json") {
        let run: Run = rundir::load(file)?;
        let curves: Vec<Curve> = (run.parts.iter())
            .filter_map(|p| match &p.detail {
                Some(Detail::Memory(d)) => Some(d.curves.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        if curves.is_empty() {
            return Err(anyhow!("{shown}: this run has no memory curves"))
                .hint("runs of `latlab memory` and `latlab survey` have them");
        }
        return Ok((curves, Some(run.machine)));
    }
    let curves = read_text(file)
        .and_then(|text| Ok(read_lat_mem_rd(&text, &shown.to_string())?))
        .map_err(|e| anyhow!("--from {shown}: {e}"))
        .hint(
            "name a file with the output of lat_mem_rd (it prints on stderr), or a run directory",
        )?;
    Ok((curves, None))
}

/// A text of at most [`TEXT_MAX`] bytes.
fn read_text(file: &Path) -> anyhow::Result<String> {
    let bytes = bounded_file::read(file, TEXT_MAX).map_err(|e| match e.kind() {
        ErrorKind::FileTooLarge => anyhow!("{e}: not the output of lat_mem_rd"),
        _ => anyhow!("cannot be read: {e}"),
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
