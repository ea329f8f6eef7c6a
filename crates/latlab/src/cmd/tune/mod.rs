//! `latlab tune`: interleaved blocks with and without settings, through the settings journal.

#[cfg(feature = "host")]
mod board;
#[cfg(feature = "host")]
mod boot;
mod factorial;
#[cfg(feature = "host")]
mod host;
mod means;
mod rounds;
mod settings;

use crate::cli::tune::{Args, Format};
use crate::cli::{Global, cpus};
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::session::Session;
use crate::term;
use anyhow::{Context, anyhow, bail};
use latlab_analysis::tune::factorial::SETTINGS;
use latlab_analysis::tune::part;
use latlab_model::record::Record;
use latlab_model::run::{Detail, Run};
use latlab_model::tune::{FileValue, TuneDetail};
use latlab_model::wakeup::config::{Policy, WakeupConfig};
use latlab_report::sections::tune as section;
use latlab_sys::power::Meters;
use latlab_sys::settings::{DmaLatency, Settings};
use latlab_sys::wakeup::{Hooks, WakeupError};
use latlab_sys::{policy, signal, wakeup};
use means::Means;
use rounds::Measured;
use settings::{Chosen, KNOWN, Known, choose, value};
use std::io::Write;
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
    #[cfg(feature = "host")]
    let args = &host::with_requirement(args)?;
    if args.requirement().is_none() && !(50.0..=99.99).contains(&args.quantile) {
        bail!("--quantile {}: expected from 50 to 99.99", args.quantile);
    }
    if global.json && args.format != Format::Latlab {
        return Err(anyhow!("--json: not available with this --format")).hint("use --json alone");
    }
    if args.eliminate && rounds::looks(args.rounds) < 2 {
        return Err(anyhow!("--eliminate: {} rounds are judged once only", args.rounds))
            .hint("--rounds 8, or more");
    }
    let mut chosen = choose_all(args)?;
    if chosen.is_empty() {
        return Err(anyhow!("no setting to try: this machine has all of the list already"))
            .hint("name one with --try");
    }
    #[cfg(feature = "host")]
    host::check(args)?;
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
    if args.factorial && args.boot().is_none() {
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
        "cpus": args.affinity,
    });
    #[cfg(feature = "host")]
    let config = host::with_options(config, args);
    let mut session = Session::begin(global, "tune", &config)?;
    let (measured, lasted) = measure_all(args, &chosen, &session);
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

/// What is tried.
fn choose_all(args: &Args) -> anyhow::Result<Vec<Chosen>> {
    #[cfg(feature = "host")]
    if let Some(chosen) = host::choose(args)? {
        return Ok(chosen);
    }
    choose(&args.tries)
}

/// Measures; the second result is that of the load.
fn measure_all(
    args: &Args,
    chosen: &[Chosen],
    session: &Session,
) -> (anyhow::Result<TuneDetail>, anyhow::Result<()>) {
    #[cfg(feature = "host")]
    if let Some(machine) = args.boot() {
        // The load is the machine's, and so is what it takes.
        let dir = session.dir().map(|d| d.path().join("boots"));
        let dir = dir.ok_or_else(|| anyhow!("--boot: the runs of the boots need a directory"));
        return (dir.and_then(|d| boot::measure(args, machine, chosen, &d)), Ok(()));
    }
    #[cfg(not(feature = "host"))]
    let _ = session;
    match crate::cmd::load::start(&args.load) {
        Ok(load) => (measure(args, chosen), crate::cmd::load::finish(load)),
        Err(error) => (Err(error), Ok(())),
    }
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
    #[cfg(feature = "host")]
    host::list_parameters(&mut out)?;
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
    let meters = Meters::find();
    if args.factorial {
        return factorial::measure(
            args,
            chosen,
            |one| Held::new(one).map(|held| held.files.clone()),
            |_, left| {
                let combination = left.first().and_then(|(_, all)| *all);
                block(args, &config, &meters, combination.map(Held::new).transpose()?)
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
        block(args, &config, &meters, held)
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

/// The benchmarks of a block.
fn benches(args: &Args) -> anyhow::Result<Vec<Record>> {
    #[cfg(feature = "host")]
    return host::bench(args);
    #[cfg(not(feature = "host"))]
    {
        let _ = args;
        Ok(Vec::new())
    }
}

/// One block with a setting or without; `None` where a signal came.
fn block(
    args: &Args,
    config: &WakeupConfig,
    meters: &Meters,
    held: Option<Held>,
) -> anyhow::Result<Option<Measured>> {
    std::thread::sleep(SETTLE);
    let power = meters.begin().context("reading of electrical power")?;
    let result = wakeup::run(config, Hooks::default());
    let power = power.end();
    let measured = match result {
        Ok(result) if signal::stop_requested().is_none() => {
            let records = [power, benches(args)?].concat();
            Ok(Some(Measured { latency: result.all_wakeups(), records }))
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
