//! `latlab doctor`: looks at the machine, puts settings back, prints kernel options.

use super::kernel_config;
use crate::cli::Global;
use crate::cli::doctor::Args;
use crate::outcome::{HintExt, Outcome};
use crate::output;
use crate::restoration::{lines, remove_left_instances};
use crate::session::Session;
use crate::term;
use anyhow::anyhow;
use latlab_model::machine::Machine;
use latlab_model::run::Part;
use latlab_report::sections::{self, doctor as report};
use latlab_sys::settings::{self, OrphanedSettings, Place, Restoration};
use latlab_sys::signal;
use serde_json::json;
use std::io::Write;
use std::time::Duration;

/// Runs the command.
///
/// # Errors
/// When a file cannot be read, a setting cannot be put back, or the result cannot be printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    if args.restore {
        return restore(global);
    }
    #[cfg(feature = "host")]
    if args.vm {
        return super::vm::doctor(&[], global);
    }
    #[cfg(feature = "host")]
    if let (Some(None), Some(board)) = (&args.kernel_config, &args.board) {
        return kernel_config::print(
            global,
            Some(&super::image::debian_config(board, "rt", false)?),
        );
    }
    if let Some(file) = &args.kernel_config {
        return kernel_config::print(global, file.as_deref());
    }
    let config =
        json!({ "duration_ns": u64::try_from(args.duration.as_nanos()).unwrap_or(u64::MAX) });
    let mut session = Session::begin_ephemeral(global, "doctor", &config)?;
    let part = examine(&session.run.machine, args.duration);
    session.run.parts.push(part);
    let stopped_by = signal::stop_requested().map(signal::Signal::name);
    let json = global.json;
    session.finish_with(stopped_by, |run, out| match json {
        true => Ok(output::json(run, out)?),
        false if crate::term::details() => {
            Ok(output::document(&report::brief(run, sections::of_run(run)), out)?)
        }
        false => Ok(output::text(run, out)?),
    })
}

/// Title of the part.
pub const TITLE: &str = "Machine check: measurement and tracing capabilities";

/// The doctor as a part of a run, for a survey too.
pub fn examine(machine: &Machine, window: Duration) -> Part {
    latlab_analysis::doctor::part(TITLE, machine, latlab_sys::doctor::look(window))
}

/// Puts back what dead latlabs have left.
fn restore(global: &Global) -> anyhow::Result<Outcome> {
    let place = Place::default();
    let instances = remove_left_instances();
    let found = settings::restore_orphaned(&place)
        .hint("check that directory; remove it if it is not latlab's")?;
    let semaphores = latlab_sys::sysv::remove_abandoned();
    let mut out = term::stdout();
    if global.json {
        output::json(&as_json(&found, &instances, semaphores), &mut out)?;
    } else {
        for line in lines(&found) {
            writeln!(out, "{line}")?;
        }
        for name in &instances {
            writeln!(out, "tracing instance {name}: removed")?;
        }
        if semaphores > 0 {
            writeln!(
                out,
                "System V semaphores of killed latlab processes: {semaphores} sets removed"
            )?;
        }
        if found.undone.is_empty() && instances.is_empty() && semaphores == 0 {
            writeln!(out, "Nothing to restore (journal: {}).", place.dir().display())?;
        }
    }
    out.flush()?;
    let failed = found.undone.iter().filter(|r| r.failed()).count();
    let rejected = found.refused.len();
    if rejected > 0 {
        // Such a journal stays: it may be the only record of a setting.
        return Err(anyhow!("{failed} settings not restored, {rejected} lines or journals rejected")).hint(
            "the journal has a line for each setting, with its path and its earlier value: restore what is named above by hand, then remove the journal",
        );
    }
    if failed > 0 {
        return Err(anyhow!("{failed} settings not restored"))
            .hint("write the values above by hand, or remove what prevents it and restore again");
    }
    Ok(Outcome::Done)
}

/// Removes the tracing instances of dead latlabs; nothing is mounted for it.
fn as_json(found: &OrphanedSettings, instances: &[String], semaphores: usize) -> serde_json::Value {
    let of = |r: &Restoration| {
        let (path, what, detail) = match r {
            Restoration::Restored { path, value } => (path, "restored", json!({ "value": value })),
            Restoration::Removed { path } => (path, "removed", json!({})),
            Restoration::AlreadyRight { path } => (path, "already_right", json!({})),
            Restoration::ChangedSince { path, ours, now } => {
                (path, "changed_since", json!({ "ours": ours, "now": now }))
            }
            Restoration::Failed { path, value, reason } => {
                (path, "failed", json!({ "value": value, "reason": reason }))
            }
        };
        json!({ "path": path, "outcome": what, "detail": detail })
    };
    json!({
        "undone": found.undone.iter().map(of).collect::<Vec<_>>(),
        "alive": found.alive.iter().map(|h| json!({ "pid": h.pid, "command": h.command, "paths": h.paths })).collect::<Vec<_>>(),
        "instances_removed": instances,
        "semaphore_sets_removed": semaphores,
        "earlier_boot": found.earlier_boot,
        "refused": found.refused.iter().map(|(p, why)| json!({ "path": p, "reason": why })).collect::<Vec<_>>(),
    })
}
