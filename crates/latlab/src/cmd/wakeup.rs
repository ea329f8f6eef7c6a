//! `latlab wakeup`: measures, shows, keeps.

use crate::cli::Global;
use crate::cli::wakeup::{Args, Asked};
use crate::outcome::{HintExt, Outcome};
use crate::progress::Progress;
use crate::session::Session;
use latlab_core::units::format_ns;
use latlab_core::wakeup::{StopReason, WakeupConfig, WakeupResult, part};
use latlab_sys::wakeup::{Hooks, LiveThread, Next, WakeupError};
use latlab_sys::{policy, wakeup};

/// Runs the command.
///
/// # Errors
/// When it cannot be measured, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let asked = args.config(&policy::allowed()?, &policy::online()?)?;
    let mut session = Session::begin(global, "wakeup", &asked)?;
    let result = measure(&asked)?;
    session.run.parts.push(part("wakeup", "Wake-up latency", &result));
    let stopped_by = stopped_by(&result);
    let outcome = session.finish(stopped_by)?;
    Ok(if result.limit_exceeded() { Outcome::LimitExceeded } else { outcome })
}

fn measure(asked: &Asked) -> anyhow::Result<WakeupResult> {
    let config = &asked.measure;
    let mut progress = Progress::new("wakeup");
    let started = std::time::Instant::now();
    let mut on_tick = |threads: &[LiveThread]| {
        progress.set(share_done(config, threads, started.elapsed()), &so_far(threads));
        Next::Continue
    };
    let mut hooks = Hooks::default();
    if !asked.quiet {
        hooks.on_tick = Some(&mut on_tick);
    }
    wakeup::run(config, hooks).map_err(hinted)
}

fn hinted(error: WakeupError) -> anyhow::Error {
    let hint = error.hint();
    let error = anyhow::Error::new(error);
    match hint {
        Some(hint) => Err::<(), _>(error).hint(hint).unwrap_err(),
        None => error,
    }
}

/// How far it is, from 0 to 1, where it has an end.
fn share_done(
    config: &WakeupConfig,
    threads: &[LiveThread],
    elapsed: std::time::Duration,
) -> Option<f64> {
    let by_time = config.duration_ns.map(|ns| elapsed.as_nanos() as f64 / ns as f64);
    let slowest = threads.iter().map(|t| t.wakeups).min().unwrap_or(0);
    let by_loops = config.loops.map(|n| slowest as f64 / n as f64);
    match (by_time, by_loops) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

fn so_far(threads: &[LiveThread]) -> String {
    let wakeups: u64 = threads.iter().map(|t| t.wakeups).sum();
    let missed: u64 = threads.iter().map(|t| t.missed_periods).sum();
    let max = threads.iter().map(|t| t.max_ns).max().unwrap_or(0);
    let mean = threads.iter().map(|t| t.sum_ns).sum::<u64>().checked_div(wakeups).unwrap_or(0);
    let missed = if missed > 0 { format!("  {missed} periods missed") } else { String::new() };
    format!(
        "{wakeups} wake-ups  mean {}  max {}{missed}",
        format_ns(mean as f64),
        format_ns(max as f64)
    )
}

fn stopped_by(result: &WakeupResult) -> Option<String> {
    Some(match result.stopped_by.as_ref()? {
        StopReason::Signal { name } => name.clone(),
        StopReason::BreakValue { latency_ns, .. } => {
            format!("break value exceeded: {}", format_ns(*latency_ns as f64))
        }
        StopReason::Runaway { percent, .. } => format!("a thread took {percent}% of its CPU"),
        StopReason::Hook => "asked to".into(),
        StopReason::Samples => "the samples could not be written".into(),
    })
}
