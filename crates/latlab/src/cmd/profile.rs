//! `latlab profile`: the functions of a trace, or of two.

use crate::cli::Global;
use crate::cli::profile::Args;
use crate::cmd::profile_live;
use crate::cmd::sched::file;
use crate::outcome::{HintExt, Outcome};
use crate::session::Session;
use anyhow::{Context, anyhow};
use latlab_model::profile::{Origin, Profile};
use std::path::Path;

const TITLE: &str = "Functions";

/// Runs the command.
///
/// # Errors
/// When a file cannot be read or has no functions, or the result cannot be printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let select = args.select()?;
    let recorded = match &args.file {
        Some(_) => None,
        None => Some(profile_live::record(args)?),
    };
    let file = args.file.as_ref().or(recorded.as_ref().map(|r| &r.file));
    let file = file.context("no trace")?;
    let mut profile = analyse(file, &select)?;
    if recorded.is_some() {
        profile.source = match args.command.first() {
            Some(command) => command.clone(),
            None => "recorded now".to_owned(),
        };
    }
    let other = args.other.as_deref().map(|path| analyse(path, &select)).transpose()?;
    if let Some(other) = other.as_ref().filter(|o| o.origin != profile.origin) {
        let (a, b) = (name(profile.origin), name(other.origin));
        return Err(anyhow!(
            "{} has {a}, {} has {b}: they cannot be compared",
            file.display(),
            args.other.as_deref().unwrap_or(file).display()
        ))
        .hint("record both with the same tracer, such as `latlab record -p function_graph`");
    }
    let files = [args.file.as_ref(), args.other.as_ref()];
    let files: Vec<_> = files.into_iter().flatten().map(|p| p.to_string_lossy()).collect();
    let config = serde_json::json!({ "files": files });
    let mut session = Session::begin_ephemeral(global, "profile", &config)?;
    let part = latlab_analysis::profile::part("profile", TITLE, profile, other);
    session.run.parts.push(part);
    let stopped = latlab_sys::signal::stop_requested().filter(|_| recorded.is_some());
    session.finish(stopped.map(|signal| signal.name()))
}

fn name(origin: Origin) -> &'static str {
    match origin {
        Origin::FunctionGraph => "calls with lengths (function_graph)",
        Origin::Stacks => "stacks of events",
        Origin::Function => "calls without lengths (function)",
    }
}

fn analyse(path: &Path, select: &latlab_trace::Select) -> anyhow::Result<Profile> {
    let data = file::open(path)?;
    let trace = file::parse(path, &data)?;
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let (found, damage) = latlab_analysis::profile::analyse(&trace, &name, select, threads);
    crate::trace_input::tell_damage(path, &trace.diagnostics, &damage);
    found.ok_or_else(|| anyhow!("{}: no functions and no kernel stacks", path.display())).hint(
        "record with `latlab record -p function_graph` (or -p function, or -T); or widen --from and --to",
    )
}
