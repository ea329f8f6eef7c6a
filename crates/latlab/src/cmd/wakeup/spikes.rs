//! Late wake-ups that `--spike` records, as cyclictest prints them.

use crate::cli::wakeup::Config;
use latlab_sys::wakeup::Sample;
use std::io::{self, Write};

/// Wake-ups over a limit, of which the first are kept.
#[derive(Default)]
pub struct Spikes {
    limit_ns: Option<u64>,
    most: usize,
    unit: u64,
    found: Vec<(usize, Sample)>,
}

impl Spikes {
    /// None yet.
    pub fn new(asked: &Config) -> Self {
        Self {
            limit_ns: asked.cyclictest.spike.map(|us| us.saturating_mul(1_000)),
            most: asked.cyclictest.spike_nodes,
            unit: asked.unit_ns(),
            found: Vec::new(),
        }
    }

    /// Looks at samples of one thread.
    pub fn note(&mut self, thread: usize, all: &[Sample]) {
        let Some(limit) = self.limit_ns else { return };
        let room = self.most.saturating_sub(self.found.len());
        let late = all.iter().filter(|s| s.latency_ns > limit).take(room);
        self.found.extend(late.map(|s| (thread, *s)));
    }

    /// Prints thread, latency and time of each (µs of CLOCK_MONOTONIC), and their number.
    ///
    /// # Errors
    /// The writer's.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.limit_ns.is_none() {
            return Ok(());
        }
        writeln!(out)?;
        for (thread, s) in &self.found {
            let (latency, at) = (s.latency_ns / self.unit, (s.intended_ns + s.latency_ns) / 1_000);
            writeln!(out, "T:{thread:2} Spike:{latency:8}: TS: {at:12}")?;
        }
        writeln!(out, "spikes = {}\n", self.found.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_late_wakeups_are_printed_as_cyclictest_prints_them() {
        let mut spikes = Spikes { limit_ns: Some(60_000), most: 2, unit: 1_000, found: Vec::new() };
        let sample =
            |latency_ns| Sample { intended_ns: 17_259_577_943_000 - latency_ns, latency_ns };
        spikes.note(0, &[sample(60_000), sample(991_000)]);
        spikes.note(1, &[sample(68_000), sample(70_000)]);
        let mut out = Vec::new();
        spikes.print(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\nT: 0 Spike:     991: TS:  17259577943\nT: 1 Spike:      68: TS:  17259577943\nspikes = 2\n\n"
        );
    }
}
