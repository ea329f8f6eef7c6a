//! `latlab tune`: interleaved blocks with and without settings, through the settings journal.

mod board;
mod boot;
mod factorial;
mod means;
mod rounds;
mod settings;

use crate::cli::tune::{Args, Format};
use crate::cli::{Global, cpus};
use crate::cmd::check::parse;
use crate::outcome::{HintExt, Outcome, OwnHintExt, printed_error};
use crate::own_run;
use crate::session::Session;
use crate::term;
use anyhow::{Context, anyhow, bail};
use latlab_analysis::tune::factorial::SETTINGS;
use latlab_analysis::tune::part;
use latlab_model::check::{Statistic, Subject};
use latlab_model::record::Record;
use latlab_model::run::{Detail, Run};
use latlab_model::tune::{FileValue, TuneDetail};
use latlab_model::wakeup::config::{Policy, WakeupConfig};
use latlab_report::sections::tune as section;
use latlab_sys::scratch::ScratchDir;
use latlab_sys::settings::{DmaLatency, Settings};
use latlab_sys::wakeup::{Hooks, WakeupError};
use latlab_sys::{policy, signal, wakeup};
use means::Means;
use rounds::Measured;
use settings::{Chosen, KNOWN, Known, choose, value};
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

/// The kernel is left alone for so long after a change.
const SETTLE: Duration = Duration::from_millis(150);

/// Runs the command.
///
/// # Errors
/// When a setting is refused, nothing can be measured, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    if args.list {
        return list();
    }
    let mut args = args.clone();
    require(&mut args)?;
    let args = &args;
    if args.require.is_none() && !(50.0..=99.99).contains(&args.quantile) {
        bail!("--quantile {}: expected from 50 to 99.99", args.quantile);
    }
    if global.json && args.format != Format::Latlab {
        return Err(anyhow!("--json: not available with this --format")).hint("use --json alone");
    }
    if args.eliminate && rounds::looks(args.rounds) < 2 {
        return Err(anyhow!("--eliminate: {} rounds are judged once only", args.rounds))
            .hint("--rounds 8, or more");
    }
    let mut chosen = match &args.boot {
        Some(_) => boot::choose(&args.tries)?,
        None => {
            let boot = args
                .tries
                .iter()
                .find(|word| !settings::is_known(word) && boot::is_parameter(word));
            if let Some(word) = boot {
                return Err(anyhow!("--try {word}: a boot parameter"))
                    .hint("--boot vm:NAME boots a machine with it");
            }
            choose(&args.tries)?
        }
    };
    if args.boot.is_some() && args.apply {
        return Err(anyhow!(
            "--apply: not possible with --boot, which leaves each machine as it was"
        ))
        .hint("--format cmdline prints the boot parameters that improve");
    }
    if chosen.is_empty() {
        return Err(anyhow!("no setting to try: this machine has all of the list already"))
            .hint("name one with --try");
    }
    if args.boot.as_deref().is_some_and(boot::is_board) && !args.fault.is_empty() {
        return Err(anyhow!("--fault: not on a board")).hint("--boot vm:NAME has faults");
    }
    if args.boot.is_some() && !args.bench.is_empty() {
        return Err(anyhow!("--bench with --boot: side effects are measured on this machine"))
            .hint("latlab --on vm:NAME bench measures in a machine");
    }
    if args.together {
        if chosen.len() < 2 {
            return Err(anyhow!("--together: there is one setting to try only"))
                .hint("name several with --try");
        }
        let all = Chosen::together(&chosen).context("--together")?;
        if !chosen.iter().any(|c| c.name == all.name) {
            chosen.push(all);
        }
    }
    if args.factorial && !SETTINGS.contains(&chosen.len()) {
        let (least, most) = (SETTINGS.start(), SETTINGS.end());
        return Err(anyhow!(
            "--factorial: {least} to {most} settings can be tried, not {}",
            chosen.len()
        ))
        .hint("name those to try with --try");
    }
    if args.factorial && args.boot.is_none() {
        // Some combination has any two of them.
        Chosen::together(&chosen).context("--factorial")?;
    }
    let names: Vec<&str> = chosen.iter().map(|c| c.name.as_str()).collect();
    let load: Vec<String> = args.load.iter().map(ToString::to_string).collect();
    let config = serde_json::json!({
        "try": names, "rounds": args.rounds, "eliminate": args.eliminate, "factorial": args.factorial,
        "block_ns": args.block.as_nanos() as u64,
        "quantile": args.quantile / 100.0, "interval_ns": args.interval * 1_000,
        "priority": args.priority, "load": load, "seed": args.seed, "apply": args.apply,
        "bench": args.bench, "require": args.require, "boot": args.boot, "fault": args.fault, "cpus": args.affinity,
    });
    let mut session = Session::begin(global, "tune", &config)?;
    let (measured, lasted) = match &args.boot {
        // The load is the machine's, and so is what it takes.
        Some(machine) => {
            let dir = session.dir().map(|d| d.path().join("boots"));
            let dir = dir.ok_or_else(|| anyhow!("--boot: the runs of the boots need a directory"));
            (dir.and_then(|d| boot::measure(args, machine, &chosen, &d)), Ok(()))
        }
        None => match crate::cmd::load::start(&args.load) {
            Ok(load) => (measure(args, &chosen), crate::cmd::load::finish(load)),
            Err(error) => (Err(error), Ok(())),
        },
    };
    let mut detail = match measured {
        Ok(detail) => detail,
        Err(error) => {
            return session.abandon(error);
        }
    };
    let cut = signal::stop_requested().map(signal::Signal::name);
    if args.apply && cut.is_none() {
        apply(&mut detail, &chosen)?;
    }
    session.run.parts.push(part(detail, cut.is_none()));
    let (json, format) = (global.json, args.format);
    let outcome = session.finish_with(cut, |run, out| print(format, json, run, out))?;
    lasted?;
    Ok(outcome)
}

/// Makes the quantile of `--require` the response, and its circumstances those of the blocks.
fn require(args: &mut Args) -> anyhow::Result<()> {
    let Some(text) = args.require.clone() else { return Ok(()) };
    let named = || format!("--require {text}");
    let requirements = parse::parse(&text).map_err(|e| anyhow!(e.reason)).with_context(named)?;
    let [requirement] = &requirements[..] else {
        return Err(anyhow!("{}: one condition only", named()))
            .hint("latlab check decides on several");
    };
    args.quantile = match (&requirement.subject, &requirement.statistic) {
        (Subject::Wakeup, Statistic::Quantile(q)) => q * 100.0,
        (Subject::Wakeup, Statistic::Max) => 100.0,
        _ => {
            return Err(anyhow!("{}: not a quantile or maximum of wake-up latency", named()))
                .hint("such as `p99.9 < 80 us, under vm:128M`");
        }
    };
    let c = &requirement.circumstances;
    if c.by.is_some() || c.duration_ns.is_some() {
        return Err(anyhow!("{}: blocks have a timer's wake-ups, and their own length", named()))
            .hint("--block 10s is the length of a block");
    }
    args.interval = c.interval_ns.map_or(args.interval, |ns| ns / 1_000);
    args.priority = c.priority.unwrap_or(args.priority);
    args.affinity = c.cpus.clone().or_else(|| args.affinity.take());
    for load in &c.load {
        args.load.push(load.parse().map_err(|e| anyhow!("{}: {e}", named()))?);
    }
    args.requirement = Some(requirement.clone());
    Ok(())
}

fn list() -> anyhow::Result<Outcome> {
    let mut out = term::stdout();
    for k in KNOWN {
        let now = k.paths().first().and_then(|p| value(p));
        let now = match (now, k.exists()) {
            (Some(now), _) => format!("now {now}"),
            (None, true) => "available".to_owned(),
            (None, false) => "not here".to_owned(),
        };
        writeln!(out, "{:<32} {:<44} {} ({now})", k.name, k.expected(), k.what)?;
    }
    writeln!(out, "\nBoot parameters, with --boot MACHINE:")?;
    for line in boot::list() {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn print(format: Format, json: bool, run: &Run, out: &mut dyn Write) -> anyhow::Result<()> {
    let detail = run.parts.iter().find_map(|p| match &p.detail {
        Some(Detail::Tune(d)) => Some(d),
        _ => None,
    });
    match (format, detail) {
        (Format::Sysctl, Some(d)) => write!(out, "{}", section::sysctl(d))?,
        (Format::Cmdline, Some(d)) => write!(out, "{}", section::cmdline(d))?,
        (Format::Tmpfiles, Some(d)) => write!(out, "{}", section::tmpfiles(d))?,
        (Format::Ansible, Some(d)) => write!(out, "{}", section::ansible(d))?,
        (Format::Tuned, Some(d)) => write!(out, "{}", section::tuned(d))?,
        _ if json => crate::output::json(run, out)?,
        _ => crate::output::text(run, out)?,
    }
    Ok(())
}

fn measure(args: &Args, chosen: &[Chosen]) -> anyhow::Result<TuneDetail> {
    let allowed = policy::allowed()?;
    let cpus = cpus::permitted("--affinity", args.affinity.as_deref(), &allowed)?;
    let threads = cpus.into_iter().map(Some).collect();
    let config = WakeupConfig {
        policy: if args.priority == 0 { Policy::Other } else { Policy::Fifo },
        priority: args.priority,
        threads,
        interval_ns: args.interval * 1_000,
        duration_ns: Some(args.block.as_nanos() as u64),
        lock_memory: args.priority > 0,
        ..WakeupConfig::default()
    };
    if args.factorial {
        return factorial::measure(
            args,
            chosen,
            |one| Held::new(one).map(|held| held.files.clone()),
            |_, left| {
                let combination = left.first().and_then(|(_, all)| *all);
                block(args, &config, combination.map(Held::new).transpose()?)
            },
        );
    }
    rounds::measure(args, chosen, |_, _, arm| {
        let held = match arm.map(|(i, tried)| (Held::new(&chosen[i]), tried)) {
            None => None,
            Some((Ok(held), tried)) => {
                tried.files.clone_from(&held.files);
                Some(held)
            }
            Some((Err(error), tried)) => {
                rounds::not_tried(tried, &error);
                return Ok(None);
            }
        };
        block(args, &config, held)
    })
}

/// A setting that is set until this is dropped: restored then, on a signal, and after a panic.
struct Held {
    files: Vec<FileValue>,
    _settings: Settings,
    _idle: Option<DmaLatency>,
}

impl Held {
    fn new(chosen: &Chosen) -> anyhow::Result<Self> {
        let mut settings = Settings::new();
        let idle = chosen.idle.then(|| DmaLatency::hold(0).context("/dev/cpu_dma_latency"));
        let idle = idle.transpose()?;
        let files = set_all(chosen, &mut settings)?;
        Ok(Self { files, _settings: settings, _idle: idle })
    }
}

/// Sets what is no idle state.
fn set_all(chosen: &Chosen, settings: &mut Settings) -> anyhow::Result<Vec<FileValue>> {
    let mut files = Vec::new();
    for (known, value) in &chosen.settings {
        let set = match known.means {
            Means::Files => set_files(known, value, settings),
            means => means.set(value, settings).with_context(|| format!("{}={value}", known.name)),
        };
        files.extend(set?);
    }
    Ok(files)
}

/// Writes to a setting's files; some of them have to take the value.
fn set_files(
    known: &Known,
    value: &str,
    settings: &mut Settings,
) -> anyhow::Result<Vec<FileValue>> {
    let (mut files, mut refused) = (Vec::new(), None);
    for path in known.paths() {
        match settings.set(&path, value) {
            Ok(change) => files.push(FileValue {
                path: path.display().to_string(),
                value: value.to_owned(),
                before: change.from,
                command: None,
            }),
            Err(error) if known.may_refuse => refused = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    match refused {
        Some(error) if files.is_empty() => Err(error.into()),
        _ => Ok(files),
    }
}

/// Time that the benchmarks of a block take, each.
const BENCH: Duration = Duration::from_millis(500);

/// The benchmarks, by a latlab of their own; none where a signal came.
fn bench(args: &Args) -> anyhow::Result<Vec<Record>> {
    if args.bench.is_empty() {
        return Ok(Vec::new());
    }
    let dir =
        ScratchDir::create(&std::env::temp_dir()).context("a directory for the benchmarks")?;
    let run = dir.path().join("run");
    let length = format!("{}", BENCH.as_secs_f64() * args.bench.len() as f64);
    let mut command = own_run::command()?;
    command.arg("bench").args(&args.bench).args(["-D", &length, "--out"]).arg(&run);
    let measured = own_run::measure(command.stderr(Stdio::piped()), &run)?;
    if signal::stop_requested().is_some() {
        return Ok(Vec::new());
    }
    let printed = |_| printed_error(&measured.stderr).context("--bench");
    let run = measured.run.map_err(printed)?;
    Ok(run.records().map(|(_, record)| record.clone()).collect())
}

/// One block with a setting or without; `None` where a signal came.
fn block(
    args: &Args,
    config: &WakeupConfig,
    held: Option<Held>,
) -> anyhow::Result<Option<Measured>> {
    std::thread::sleep(SETTLE);
    let measured = match wakeup::run(config, Hooks::default()) {
        Ok(result) if signal::stop_requested().is_none() => {
            Ok(Some(Measured { latency: result.all_wakeups(), records: bench(args)? }))
        }
        Ok(_) | Err(WakeupError::StoppedBefore) => Ok(None),
        Err(error) => Err(error).with_hint(),
    };
    drop(held);
    measured
}

/// Sets what improves, and leaves it set: not what a process has to hold, an idle limit or a partition.
fn apply(detail: &mut TuneDetail, chosen: &[Chosen]) -> anyhow::Result<()> {
    let names: Vec<String> = detail.improving().iter().map(|t| t.name.clone()).collect();
    for tried in detail.tried.iter_mut().filter(|t| names.contains(&t.name)) {
        let Some(one) = chosen.iter().find(|c| c.name == tried.name) else { continue };
        let lasts = |(known, _): &(&Known, String)| known.means != Means::Partition;
        if one.settings.is_empty() || !one.settings.iter().all(lasts) {
            continue;
        }
        let mut settings = Settings::new();
        set_all(one, &mut settings).with_context(|| format!("--apply {}", tried.name))?;
        settings.abandon();
        tried.applied = true;
    }
    Ok(())
}
