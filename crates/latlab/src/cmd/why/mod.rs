//! `latlab why`: captures late wake-ups, or reads captures made elsewhere, and finds their causes.

mod activations;
mod analyse;
mod attach;
mod blind;
mod capture_session;
mod counting;
#[cfg(feature = "host")]
mod debug_info;
pub(super) mod ends;
mod family;
mod hunt;
mod levels;
mod limit;
mod load;
#[cfg(feature = "host")]
mod map;
mod on_time;
#[cfg(feature = "host")]
mod place;
#[cfg(not(feature = "host"))]
#[path = "place_none.rs"]
mod place;
#[cfg(feature = "host")]
mod places;
#[cfg(not(feature = "host"))]
#[path = "places_none.rs"]
mod places;
mod prove;
mod prove_task;
mod recording;
pub(super) mod target;
mod trap;
#[cfg(feature = "host")]
pub(super) mod user_stacks;
#[cfg(not(feature = "host"))]
#[path = "user_stacks_none.rs"]
mod user_stacks;
mod window;

use crate::cli::Global;
use crate::cli::why::Args;
use crate::outcome::{HintExt, Outcome};
use crate::session::Session;
use latlab_analysis::latency::part::part;
use latlab_model::latency::{CaptureCounters, SystemContext, WhyResult};
use latlab_model::run::Detail;
use latlab_model::units::Nanos;
use places::Places;
use std::path::PathBuf;

/// Runs the command.
///
/// # Errors
/// When nothing can be measured or read, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    if let (Some(task), false) = (&args.task, args.command.is_empty()) {
        return Err(anyhow::anyhow!(
            "--task {task}: not available with a command, whose threads are all looked at"
        ))
        .hint("give the command alone, or --task for a program that runs");
    }
    if !args.files.is_empty() {
        from_files(global, args)
    } else if args.task.is_some() || !args.command.is_empty() || args.ends().is_some() {
        attach::run(global, args)
    } else if args.user_stacks() {
        Err(anyhow::anyhow!("--user-stacks: needs --task, or a command")).hint(
            "latlab why --task NAME --user-stacks; latlab's own threads wait for their timer alone",
        )
    } else if let Some(option) = args.of_task() {
        Err(anyhow::anyhow!("{option}: needs --task, a command, or --from and --to")).hint(format!(
            "latlab why --task NAME {option} 1ms; --limit is for latlab's own threads"
        ))
    } else {
        hunt::run(global, args)
    }
}

fn from_files(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    if args.has_window() {
        return Err(anyhow::anyhow!(
            "--window: not available with files, whose wake-ups were captured above a limit"
        ))
        .hint("--limit TIME, as in latlab why FILE --limit 100us");
    }
    let limit = args.file_limit()?;
    if let (Some(option), None, None) = (args.of_task(), &args.task, args.ends()) {
        return Err(anyhow::anyhow!("{option}: needs --task"))
            .hint(format!("latlab why FILE --task NAME {option} 1ms"));
    }
    #[cfg(feature = "host")]
    if args.map {
        return map::run(&analyse::captures_of(&args.files)?, limit, args.task.as_deref());
    }
    let places = Places::open(&args.vmlinux)?;
    let files = analyse::captures_of(&args.files)?;
    let mut session = Session::begin_ephemeral(global, "why", &files)?;
    let explained = explain_files(&files, args, limit, &places);
    let result = match explained {
        Ok(result) => result,
        Err(error) => {
            return session.abandon(error);
        }
    };
    session.run.parts.push(part(result, true, 0));
    session.finish(None)
}

/// Explains what is late in files.
fn explain_files(
    files: &[PathBuf],
    args: &Args,
    limit: Nanos,
    places: &Places,
) -> anyhow::Result<WhyResult> {
    let known = known_of(args.files.as_slice())?;
    let counters = known.as_ref().map(counters_of).unwrap_or_default();
    let (machine, work) = known.map_or_else(Default::default, |r| (r.system_context, r.work));
    let limit = if limit.0 == 0 { Nanos(machine.limit_ns) } else { limit };
    let machine = SystemContext { limit_ns: limit.0, ..machine };
    let task = args.task.as_deref();
    let activations = match task.is_some() || args.ends().is_some() {
        true => activations::of_files(files, task, args, machine.clone(), &counters, work)?,
        false => None,
    };
    let mut result = match activations {
        Some(result) => result,
        None => analyse::explain(files, limit, args.task.as_deref(), machine, &counters)?,
    };
    places.tell(&mut result)?;
    Ok(result)
}

/// What a `latlab why` run knew, where all captures are of one. A board's latlab reads no runs.
///
/// # Errors
/// When its `run.json` is damaged: without the machine, limit and counters in it the answer would be another one.
fn known_of(paths: &[PathBuf]) -> anyhow::Result<Option<WhyResult>> {
    let [run] = paths else { return Ok(None) };
    if cfg!(not(feature = "host")) || !run.join(crate::rundir::RUN_FILE).is_file() {
        return Ok(None);
    }
    let parts = crate::rundir::load(run)?.parts;
    Ok(parts.into_iter().find_map(|part| match part.detail {
        Some(Detail::Why(result)) => Some(*result),
        _ => None,
    }))
}

/// What was counted between its captures.
fn counters_of(result: &WhyResult) -> Vec<CaptureCounters> {
    result.captures.iter().filter_map(|c| c.counters).collect()
}
