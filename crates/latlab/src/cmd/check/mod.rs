//! `latlab check`: reads requirements, measures or reads runs, decides, and says so by its exit code.

pub mod parse;
mod profiles;

use crate::cli::Global;
use crate::cli::check::{Args, Format};
use crate::cmd::compare::read;
use crate::outcome::{HintExt, Outcome};
use crate::own_run;
use crate::rundir::write_asked;
use crate::session::Session;
use crate::term;
use anyhow::{Context, anyhow, bail};
use latlab_analysis::check::{decide, part};
use latlab_model::check::{CheckDetail, Circumstances, Decision, Requirement, Subject};
use latlab_model::run::{Detail, Run};
use latlab_report::dialect::check as dialect;
use latlab_sys::signal;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

/// Duration where a requirement has none.
const DEFAULT_SECONDS: u64 = 60;

/// Runs the command.
///
/// # Errors
/// When the requirements or a run cannot be read, or a measurement fails.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    if args.list {
        return list();
    }
    let Some(file) = &args.file else { bail!("no FILE with requirements") };
    if global.json && args.format != Format::Latlab {
        return Err(anyhow!("--json: not available with this --format")).hint("use --json alone");
    }
    let (source, requirements) = requirements(file)?;
    let names: Vec<String> = args.runs.iter().map(|r| r.display().to_string()).collect();
    let config = serde_json::json!({ "requirements": source, "runs": names });
    let (mut session, runs) = if args.runs.is_empty() {
        let session = Session::begin(global, "check", &config)?;
        let Some(dir) = session.dir().map(|d| d.path().to_owned()) else {
            bail!("the run has no directory");
        };
        let runs = match measure(&requirements, &dir) {
            Ok(runs) => runs,
            Err(error) => {
                return session.abandon(error);
            }
        };
        (session, runs)
    } else {
        let load = |path: &std::path::PathBuf| -> anyhow::Result<(String, Run)> {
            Ok((path.display().to_string(), read::source(path)?.run))
        };
        let runs = args.runs.iter().map(load).collect::<anyhow::Result<Vec<_>>>()?;
        (Session::begin_ephemeral(global, "check", &config)?, runs)
    };
    let named: Vec<(&str, &Run)> = runs.iter().map(|(name, run)| (name.as_str(), run)).collect();
    let items = requirements.iter().map(|r| decide(r, &named)).collect();
    let detail = CheckDetail { source, items };
    let decision = detail.decision();
    session.run.parts.push(part(detail));
    let json = global.json;
    let stopped = signal::stop_requested().map(signal::Signal::name);
    let outcome = session.finish_with(stopped, |run, out| print(args, json, run, out))?;
    Ok(match (outcome, decision) {
        (Outcome::Done, Decision::Fail) => Outcome::LimitExceeded,
        // Nobody may take "not decided" for passed.
        (Outcome::Done, Decision::Undecided) => Outcome::Code(1),
        (outcome, _) => outcome,
    })
}

/// The requirements of a file or profile, and its name.
///
/// # Errors
/// When it cannot be read, or a line is none.
pub fn requirements(file: &Path) -> anyhow::Result<(String, Vec<Requirement>)> {
    let (source, text) = text_of(file)?;
    let requirements = parse::parse(&text).map_err(|e| anyhow!("{source}: {e}")).hint(
        "a line is such as `p99.9 < 80 us, max < 150 us, under vm:128M, interval 500 us, 1 h`; latlab check --list shows examples",
    )?;
    Ok((source, requirements))
}

/// Name and text of the requirements.
fn text_of(file: &Path) -> anyhow::Result<(String, String)> {
    let name = file.display().to_string();
    if let Some(profile) = name.strip_prefix('@') {
        let found = profiles::find(profile).ok_or_else(|| anyhow!("{name}: no such profile"));
        let found = found.hint("latlab check --list names the profiles")?;
        return Ok((name, found.text.to_owned()));
    }
    let opened = fs::File::open(file).with_context(|| format!("{name}: cannot be opened"))?;
    let mut bytes = Vec::new();
    let most = parse::SIZE_MAX as u64;
    opened.take(most + 1).read_to_end(&mut bytes).with_context(|| format!("{name}: reading"))?;
    if bytes.len() as u64 > most {
        bail!("{name}: longer than {most} bytes, which no file of requirements is");
    }
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("{name}: not a text in UTF-8"))?;
    Ok((name, text))
}

fn list() -> anyhow::Result<Outcome> {
    let mut out = term::stdout();
    for p in profiles::PROFILES {
        writeln!(out, "@{}: {}", p.name, p.what)?;
        for line in p.text.lines() {
            writeln!(out, "    {line}")?;
        }
        writeln!(out)?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn print(args: &Args, json: bool, run: &Run, mut out: &mut dyn Write) -> anyhow::Result<()> {
    let detail = run.parts.iter().find_map(|p| match &p.detail {
        Some(Detail::Check(d)) => Some(d),
        _ => None,
    });
    let Some(d) = detail else { return Ok(()) };
    if let Some(path) = &args.junit {
        write_asked(path, "--junit", |mut file| dialect::junit(d, &run.started, &mut file))?;
    }
    match args.format {
        Format::Latlab if json => crate::output::json(run, out)?,
        Format::Latlab => crate::output::text(run, out)?,
        Format::Tap => dialect::tap(d, &mut out)?,
        Format::Ktap => dialect::ktap(d, &mut out)?,
        Format::Lava => dialect::lava(d, &mut out)?,
        Format::Github => dialect::github(d, &mut out)?,
    }
    Ok(())
}

/// One measurement for all requirements of one kind and the same circumstances, each a latlab of its own
/// that keeps its run beside this one.
fn measure(requirements: &[Requirement], dir: &Path) -> anyhow::Result<Vec<(String, Run)>> {
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut probes: BTreeSet<&str> = BTreeSet::new();
    for r in requirements {
        let command = match &r.subject {
            Subject::Wakeup => wakeup(&r.circumstances),
            Subject::Noise => noise(&r.circumstances),
            Subject::Doctor => vec!["doctor".to_owned()],
            Subject::Record(name) if name.starts_with("memory.") => vec!["memory".to_owned()],
            Subject::Record(name) => {
                probes.insert(name);
                continue;
            }
        };
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    if !probes.is_empty() {
        let names = probes.into_iter().map(str::to_owned);
        commands.push(std::iter::once("bench".to_owned()).chain(names).collect());
    }
    let mut runs = Vec::new();
    for (n, words) in commands.iter().enumerate() {
        if signal::stop_requested().is_some() {
            break;
        }
        // A diagnostic: a failed write to stderr loses no result.
        let _ = writeln!(term::stderr(), "measuring: latlab {}", words.join(" "));
        let out = dir.join(format!("{}-{}", n + 1, words.first().map_or("run", String::as_str)));
        let mut command = own_run::command()?;
        command.args(words).arg("--out").arg(&out);
        let measured = own_run::measure(&mut command, &out)?;
        // A doctor's or a measurement's own limits are no error here, a missing run is one.
        let ended = || format!("latlab {} ended with {}", words.join(" "), measured.status);
        let run = measured.run.with_context(ended)?;
        runs.push((out.display().to_string(), run));
    }
    Ok(runs)
}

fn seconds(c: &Circumstances) -> String {
    let default = DEFAULT_SECONDS as f64;
    format!("{}", c.duration_ns.map_or(default, |ns| ns as f64 / 1e9))
}

fn wakeup(c: &Circumstances) -> Vec<String> {
    let mut words = vec!["wakeup".to_owned(), "-q".into(), "-m".into(), "-D".into(), seconds(c)];
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|v| [name.to_owned(), v]));
    };
    option("-i", c.interval_ns.map(|ns| (ns / 1_000).max(1).to_string()));
    option("-p", c.priority.map(|p| p.to_string()));
    option("-a", c.cpus.clone());
    option("--by", c.by.map(|by| by.id().to_owned()));
    c.load.iter().for_each(|load| option("--load", Some(load.clone())));
    words
}

fn noise(c: &Circumstances) -> Vec<String> {
    let mut words = vec!["noise".to_owned(), "-D".into(), seconds(c)];
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|v| [name.to_owned(), v]));
    };
    option("--queue", c.packets.map(|(rate, ns)| format!("{rate}:{ns}")));
    option("-T", c.threshold_ns.map(|ns| (ns / 1_000).max(1).to_string()));
    option("-P", c.priority.map(|p| format!("f:{p}")));
    option("-c", c.cpus.clone());
    c.load.iter().for_each(|load| option("--load", Some(load.clone())));
    words
}
