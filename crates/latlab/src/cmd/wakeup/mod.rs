//! `latlab wakeup`: measures, shows, keeps.

mod display;
mod finish;
mod samples;

use crate::cli::Global;
use crate::cli::wakeup::{Args, Asked, Format};
use crate::outcome::{HintExt, Outcome};
use crate::session::Session;
use anyhow::{anyhow, bail};
use display::Display;
use latlab_core::units::format_ns;
use latlab_core::wakeup::{Level, StopReason, WakeupResult, part};
use latlab_sys::wakeup::{Hooks, LiveThread, Sample, WakeupError};
use latlab_sys::{policy, wakeup};
use samples::Sink;

/// Runs the command.
///
/// # Errors
/// When it cannot be measured, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let asked = args.config(&policy::allowed()?, &policy::online()?)?;
    check(&asked, global.json)?;
    let mut sink = Sink::open(&asked)?;
    let mut session = Session::begin(global, "wakeup", &asked)?;
    let mut display = Display::new(&asked, global.json);
    let measured = measure(&asked, &mut display, &mut sink);
    display.close();
    let result = match measured {
        Ok(result) => result,
        Err(error) => {
            session.abandon();
            return Err(error);
        }
    };
    session.run.parts.push(part("wakeup", "Wake-up latency", &result));
    let outcome = session.finish_with(stopped_by(&result), |run, out| {
        finish::print(&asked, global.json, run, &result, out)
    })?;
    display.failed().or_else(|| sink.failed()).map_or(Ok(()), Err)?;
    Ok(if result.limit_exceeded() { Outcome::LimitExceeded } else { outcome })
}

fn check(asked: &Asked, json: bool) -> anyhow::Result<()> {
    if json && !matches!(asked.format, Format::Latlab | Format::Cyclictest) {
        return Err(anyhow!("--json: there is no JSON of this --format"))
            .hint("--json alone, or with --format cyclictest");
    }
    if json && asked.samples.as_deref().is_some_and(samples::is_stdout) {
        bail!("--json and --samples -: both would write to stdout");
    }
    if asked.measure.level != Level::User {
        return Err(anyhow!(
            "--level {}: the timerlat tracer is not read by this version",
            asked.measure.level
        ))
        .hint("--level user");
    }
    Ok(())
}

fn measure(asked: &Asked, display: &mut Display, sink: &mut Sink) -> anyhow::Result<WakeupResult> {
    let mut on_tick = |threads: &[LiveThread]| display.tick(threads);
    let mut on_samples = |thread: usize, samples: &[Sample]| sink.write(thread, samples);
    let hooks = Hooks {
        on_tick: Some(&mut on_tick),
        on_samples: asked.measure.samples.then_some(&mut on_samples),
        ..Hooks::default()
    };
    wakeup::run(&asked.measure, hooks).map_err(hinted)
}

fn hinted(error: WakeupError) -> anyhow::Error {
    let hint = error.hint();
    let error = anyhow::Error::new(error);
    match hint {
        Some(hint) => Err::<(), _>(error).hint(hint).unwrap_err(),
        None => error,
    }
}

fn stopped_by(result: &WakeupResult) -> Option<String> {
    Some(match result.stopped_by.as_ref()? {
        StopReason::Signal { name } => name.clone(),
        StopReason::BreakValue { latency_ns, .. } => {
            format!("break value exceeded: {}", format_ns(*latency_ns as f64))
        }
        StopReason::Runaway { percent, .. } => format!("a thread took {percent}% of its CPU"),
        StopReason::Hook => "nobody read the output any longer".into(),
        StopReason::Samples => "the samples could not be written".into(),
    })
}
