//! Where every sample goes: a binary file, or text on stdout.

use crate::cli::wakeup::Asked;
use crate::outcome::HintExt;
use anyhow::Context;
use latlab_core::wakeup::{WakeupConfig, samples};
use latlab_sys::wakeup::Sample;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Takes samples away from the measurement.
pub enum Sink {
    /// Nobody asked for samples.
    None,
    /// A file, and the block that is being made.
    File(File, Vec<u8>),
    /// `thread intended_ns latency_ns`, a line each.
    Stdout,
}

/// Whether `--samples` means stdout.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl Sink {
    /// Opens the file before anything is measured, and writes its head.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(asked: &Asked) -> anyhow::Result<Self> {
        match asked.samples.as_deref() {
            None => Ok(Self::None),
            Some(path) if is_stdout(path) => {
                writeln!(io::stdout().lock(), "# thread intended_ns latency_ns")?;
                Ok(Self::Stdout)
            }
            Some(path) => Self::create(path, &asked.measure)
                .with_context(|| format!("--samples {}", path.display()))
                .hint("name a file on a file system with space that this user may write to, or - for text"),
        }
    }

    fn create(path: &Path, config: &WakeupConfig) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(&samples::header(config))?;
        Ok(Self::File(file, Vec::new()))
    }

    /// Writes samples of one thread.
    ///
    /// # Errors
    /// The file's or stdout's.
    pub fn write(&mut self, thread: usize, all: &[Sample]) -> io::Result<()> {
        match self {
            Self::None => Ok(()),
            Self::File(file, bytes) => {
                bytes.clear();
                samples::block(thread, all.iter().map(|s| (s.intended_ns, s.latency_ns)), bytes);
                file.write_all(bytes)
            }
            Self::Stdout => {
                let mut out = io::BufWriter::new(io::stdout().lock());
                for s in all {
                    writeln!(out, "{thread} {} {}", s.intended_ns, s.latency_ns)?;
                }
                out.flush()
            }
        }
    }
}
