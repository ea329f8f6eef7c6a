//! The hunt: calibrate, choose what to trace, capture late wake-ups, explain them.
//!
//! The measuring loop itself writes the marker and stops the ring buffer, at its own
//! priority; the main thread, below all of them, saves the capture and arms the recorder
//! again. What is late meanwhile is counted as not captured.

use super::capture_session::{CaptureRunner, system_context};
use super::load::start_load;
use super::places::Places;
use super::{blind, prove};
use crate::cli::Global;
use crate::cli::why::{Args, Late, Trace};
use crate::outcome::{Outcome, OwnHintExt};
use crate::session::Session;
use latlab_analysis::latency::part::part;
use latlab_sys::tracefs::Tracefs;
use latlab_sys::{policy, signal};
use std::time::Instant;

/// Hunts, explains, keeps.
///
/// # Errors
/// When it cannot be measured or traced, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let asked = args.config(&policy::allowed()?, &policy::online()?)?;
    let places = Places::open(&args.vmlinux)?;
    let found = match Tracefs::find() {
        Ok(found) => found,
        // Who asks for a trace, or for what only a trace can name, is told that there is none.
        Err(error) if args.prove || asked.trace != Trace::Auto || !asked.functions.is_empty() => {
            return Err(error).with_hint();
        }
        Err(error) => return blind::run(global, args, &asked, &error),
    };
    let mut session = Session::begin(global, "why", &asked)?;
    let folder = match session.dir() {
        Some(dir) => dir.captures()?,
        None => anyhow::bail!("a capture session needs a run directory"),
    };
    places.check_here(&session.run.machine.kernel.release)?;
    let mut captures = CaptureRunner::new(asked, found.tracefs, folder);
    let started = Instant::now();
    let load = start_load(args)?;
    let captured = captures.hunt();
    load.finish()?;
    let (captured, limit, reason) = match captured {
        Ok(captured) => captured,
        Err(error) => return session.abandon(error),
    };
    let cut = signal::stop_requested()
        .map(|s| s.name())
        .or_else(|| captures.failed.as_ref().map(|_| "a capture could not be saved".into()));
    let context = system_context(&session.run.machine, &captures, limit);
    let mut result = captures.explain(captured, limit, reason, context)?;
    places.tell(&mut result)?;
    if args.prove && captures.failed.is_none() {
        result.mitigation_tests = prove::run(&mut captures, args, &result)?;
    }
    let duration_ns = started.elapsed().as_nanos() as u64;
    let exceeded = result.session.as_ref().is_some_and(|h| h.late > 0)
        && matches!(captures.asked.late, Late::Over(_));
    session.run.parts.push(part(result, cut.is_none(), duration_ns));
    if let Some(wakeup) = &captures.measured {
        let part = latlab_analysis::wakeup::part::part(
            "wakeup-traced",
            "Wake-up latency while traced",
            wakeup,
        );
        session.run.parts.push(part);
    }
    // The mitigations may have been stopped since.
    let cut = cut.or_else(|| signal::stop_requested().map(|s| s.name()));
    let outcome = session.finish(cut)?;
    captures.failed.map_or(Ok(outcome.exceeded_if(exceeded)), Err)
}
