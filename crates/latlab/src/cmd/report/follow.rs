//! `latlab report --follow FILE`: a recording while it is made, like `trace-cmd stream`.

use super::trace;
use crate::cli::{Global, report::Args};
use crate::outcome::Outcome;
use crate::trace_input;
use latlab_sys::{lease, signal};
use latlab_trace::{Select, TraceFile};
use std::collections::VecDeque;
use std::fs::File;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Between two looks at the file.
const PAUSE: Duration = Duration::from_millis(300);
/// A recorder writes the pages of a CPU that are not full once a second: what is older is complete.
const SETTLED: Duration = Duration::from_millis(1_500);

/// Prints events in the order of time until nobody writes the file, or a signal.
///
/// # Errors
/// As of `latlab report`.
pub(super) fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    // The first time that has not been printed; the newest event at each look.
    let (mut from, mut newest, mut head) = (None, VecDeque::new(), true);
    loop {
        // Looked at before the file is read: what its writer wrote last is printed.
        let written = File::open(&args.path).is_ok_and(|file| lease::is_written(&file));
        let data = trace::map(args)?;
        let file = trace_input::open(&data, &args.path)?;
        let mut options = trace::options(&file, args)?;
        options.select.from = options.select.from.max(from);
        let settled = if written { settled(&mut newest, &file, &options.select) } else { None };
        let last = options.select.to.unwrap_or(u64::MAX);
        if !written || settled.is_some() {
            let to = settled.map_or(last, |time| time.min(last));
            options.select.to = Some(to);
            let damage = trace::print(global, &file, options, std::mem::take(&mut head))?;
            from = Some(to.saturating_add(1));
            // A file that grows is incomplete where it ends.
            if !written {
                trace_input::tell_damage(&args.path, &file.diagnostics, &damage);
            }
        }
        if !written || settled.is_some_and(|time| time >= last) {
            return Ok(Outcome::Done);
        }
        signal::sleep(PAUSE);
        if let Some(signal) = signal::stop_requested() {
            return Ok(Outcome::Stopped(signal));
        }
    }
}

/// Notes the newest event, and returns the one that was the newest when all before it had been written.
fn settled(
    newest: &mut VecDeque<(Instant, u64)>,
    file: &TraceFile<'_>,
    select: &Select,
) -> Option<u64> {
    let now = Instant::now();
    let mut last = None;
    file.scan(select, 1, |event| {
        last = Some(event.time);
        ControlFlow::Continue(())
    });
    newest.extend(last.map(|time| (now, time)));
    let mut settled = None;
    while let Some((_, time)) = newest.pop_front_if(|(at, _)| now - *at >= SETTLED) {
        settled = Some(time);
    }
    settled
}
