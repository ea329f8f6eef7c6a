//! Where every sample goes: a binary file, or text on stdout.

use crate::cli::wakeup::Config;
use crate::outcome::HintExt;
use crate::term::{self, StdoutClosed};
use anyhow::Context;
use latlab_model::samples;
use latlab_model::wakeup::config::WakeupConfig;
use latlab_sys::scratch::{self, Replacement};
use latlab_sys::wakeup::Sample;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Takes samples away from the measurement.
pub struct Sink {
    to: To,
    /// `--samples FILE`, for the sentence.
    name: String,
    failed: Option<io::Error>,
}

enum To {
    /// Nobody asked for samples.
    Nowhere,
    /// A file.
    File(Output),
    /// `thread intended_ns latency_ns`, a line each.
    Stdout,
    /// cyclictest's `thread:cycle:latency`, with the state of each thread and the ns of its unit.
    Verbose(Vec<Cycles>, u64),
}

/// A file, which has another name until it has samples: an earlier one stays until then.
struct Output {
    file: File,
    /// Bytes of the head and of whole blocks; `None` for a stream, from which nothing is taken back.
    whole: Option<u64>,
    /// Of a file.
    name: Option<Replacement>,
    /// The block that is being made.
    block: Vec<u8>,
}

impl Output {
    fn create(path: &Path, config: &WakeupConfig) -> io::Result<Self> {
        let block = samples::header(config);
        let mut output = if scratch::is_replaceable(path) {
            let (file, name) = Replacement::create_checked(path)?;
            Self { file, whole: Some(0), name: Some(name), block }
        } else {
            Self { file: scratch::open_stream(path)?, whole: None, name: None, block }
        };
        output.write()?;
        Ok(output)
    }

    /// Writes the block. Of one that a full disk cuts short nothing stays.
    fn write(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.block);
        if let Some(whole) = &mut self.whole {
            match &written {
                Ok(()) => *whole += self.block.len() as u64,
                Err(_) => drop(self.file.set_len(*whole)),
            }
        }
        written
    }

    fn rename(&mut self) -> io::Result<()> {
        self.name.as_mut().map_or(Ok(()), Replacement::rename)
    }
}

/// Where a thread's output stands.
#[derive(Clone, Copy)]
struct Cycles {
    /// Values so far.
    passed: u64,
    /// Of so many values the largest is printed.
    reduction: u64,
    /// The largest since the last that was printed, and its cycle.
    largest: (u64, u64),
}

impl Cycles {
    /// Counts a value; cycle and value of the line that is due with it.
    fn pass(&mut self, latency_ns: u64) -> Option<(u64, u64)> {
        if self.passed.is_multiple_of(self.reduction) || latency_ns > self.largest.1 {
            self.largest = (self.passed, latency_ns);
        }
        self.passed += 1;
        self.passed.is_multiple_of(self.reduction).then_some(self.largest)
    }
}

impl Sink {
    /// Makes the file before anything is measured, and writes its head.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(asked: &Config) -> anyhow::Result<Self> {
        let to = |to, name| Ok(Self { to, name, failed: None });
        if asked.verbose {
            let reduction = asked.cyclictest.oscope.unwrap_or(1);
            let none = Cycles { passed: 0, reduction, largest: (0, 0) };
            let cycles = vec![none; asked.measure.threads.len()];
            return to(To::Verbose(cycles, asked.unit_ns()), "-v".to_owned());
        }
        let Some(path) = asked.samples.as_deref() else { return to(To::Nowhere, String::new()) };
        let name = format!("--samples {}", path.display());
        if asked.samples_on_stdout() {
            let mut out = term::stdout_by_line();
            writeln!(out, "# thread intended_ns latency_ns").and_then(|()| out.flush())?;
            return to(To::Stdout, name);
        }
        let output = Output::create(path, &asked.measure).context(name.clone()).hint(
            "name a file on a file system with space that this user may write to, or - for text",
        )?;
        to(To::File(output), name)
    }

    /// Writes samples of one thread.
    ///
    /// # Errors
    /// The file's or stdout's.
    pub fn write(&mut self, thread: usize, all: &[Sample]) -> io::Result<()> {
        self.to.write(thread, all).inspect_err(|error| {
            // Not every error can be cloned; its kind and its words are what is needed.
            self.failed = Some(match StdoutClosed::is(error) {
                true => io::Error::new(error.kind(), StdoutClosed),
                false => io::Error::new(error.kind(), error.to_string()),
            });
        })
    }

    /// Ends a complete measurement: its file gets its name also without samples. Returns why samples
    /// could not be written, if they could not.
    pub fn finish(&mut self) -> Option<anyhow::Error> {
        if let (To::File(output), None) = (&mut self.to, &self.failed) {
            self.failed = output.rename().err();
        }
        self.failed.take().map(|error| anyhow::Error::new(error).context(self.name.clone()))
    }
}

impl To {
    fn write(&mut self, thread: usize, all: &[Sample]) -> io::Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::File(output) => {
                let samples = all.iter().map(|s| (s.intended_ns, s.latency_ns));
                output.block.clear();
                samples::block(thread, samples, &mut output.block);
                output.write()?;
                output.rename()
            }
            Self::Stdout => {
                let mut out = term::stdout();
                for s in all {
                    writeln!(out, "{thread} {} {}", s.intended_ns, s.latency_ns)?;
                }
                out.flush()
            }
            Self::Verbose(cycles, unit) => {
                let Some(cycles) = cycles.get_mut(thread) else { return Ok(()) };
                let mut out = term::stdout();
                for (cycle, ns) in all.iter().filter_map(|s| cycles.pass(s.latency_ns)) {
                    writeln!(out, "{thread:8}:{cycle:8}:{:8}", ns / *unit)?;
                }
                out.flush()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_values_the_largest_is_printed_with_its_cycle() {
        let lines = |reduction| {
            let mut cycles = Cycles { passed: 0, reduction, largest: (0, 0) };
            [5, 9, 2, 7, 1, 1, 8].into_iter().filter_map(|v| cycles.pass(v)).collect::<Vec<_>>()
        };
        assert_eq!(lines(1), [(0, 5), (1, 9), (2, 2), (3, 7), (4, 1), (5, 1), (6, 8)]);
        assert_eq!(lines(3), [(1, 9), (3, 7)]);
    }
}
