//! What `--smi` and `--resolution` print: counters and clocks of the machine, on stderr.

use crate::term;
use latlab_report::messages;
use latlab_sys::clock;
use latlab_sys::platform_counters::{CounterSample, PlatformCounters};
use std::io::Write;

/// System-management interrupts since a moment.
pub struct Counted {
    counters: PlatformCounters,
    before: CounterSample,
}

impl Counted {
    /// Begins to count, as far as this machine does.
    pub fn begin() -> Self {
        let counters = PlatformCounters::open();
        let before = counters.sample_all();
        Self { counters, before }
    }

    /// Prints their number, or why it is not known.
    pub fn print(&self) {
        let line = match self.counters.sample().delta(&self.before).1 {
            Some(n) => {
                format!("{n} system-management interrupts on all CPUs during the measurement")
            }
            None => {
                let missing = self.before.missing();
                let smi = missing.iter().find(|n| n.id().is_some_and(|id| id.starts_with("smi-")));
                format!("--smi: {}", smi.map(messages::note).unwrap_or_default())
            }
        };
        // A diagnostic: a failed write to stderr loses no result.
        let _ = writeln!(term::stderr(), "latlab: {line}");
    }
}

/// Prints the resolution of CLOCK_MONOTONIC, as reported and as measured.
pub fn print_resolution() {
    let (reported, measured) = (clock::resolution_ns(), clock::measure().step_ns);
    // As above.
    let _ = writeln!(
        term::stderr(),
        "latlab: clock resolution {reported} ns as reported, {measured} ns as measured"
    );
}
