//! Recording: from settings to a trace.dat, and a flight recorder that keeps the last megabytes.
//!
//! ```text
//! RecordConfig ─▶ Session (own instance, settings) ─┬▶ Recorder: reader threads ─▶ live file ─▶ trace.dat
//!                                                   └▶ FlightRecorder: stop ─▶ Snapshot ─▶ trace.dat
//! ```
//!
//! A reader thread a CPU sleeps until the kernel has half a buffer for it, then moves whole pages
//! by splice(2) from `trace_pipe_raw` into the file. When there was no whole page for a second, what
//! is in the page that is being written to is copied. The threads are not bound to the CPU that
//! they empty: the scheduler puts them where there is room. The file is a valid trace.dat at
//! every moment ([`latlab_trace::write::live`]); what a killed recorder flushed can be read.

pub mod child;
mod config;
pub mod dump_request;
mod error;
mod finish;
mod flight;
mod metadata;
mod reader;
mod session;
mod summary;

pub use config::{EventSpec, RecordConfig};
pub use error::{RecordError, Result};
pub(crate) use finish::compacted;
pub use finish::{Format, Kallsyms, recover};
pub use flight::{FlightRecorder, Snapshot};
pub(crate) use metadata::page_size;
pub use session::Session;
pub use summary::{CpuSummary, Summary};

use crate::scratch;
use crate::tracefs::Tracefs;
use latlab_trace::write::{Metadata, live};
use reader::Reader;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The most that one CPU's part of a live file may hold.
const ROOM: u64 = 64 << 30;
/// The least for which recording is worth starting.
const LEAST_ROOM: u64 = 1 << 30;

/// A recording in progress.
#[derive(Debug)]
pub struct Recorder {
    // Before the session: its instance cannot be removed while a file of it is open.
    readers: Vec<Reader>,
    session: Session,
    meta: Metadata,
    path: PathBuf,
    file: File,
    live: live::Live,
    format: Format,
    started: Instant,
}

impl Recorder {
    /// Prepares everything and opens the file; nothing is traced before [`Recorder::begin`].
    ///
    /// # Errors
    /// When tracefs refuses a setting or the file cannot be made.
    pub fn prepare(
        tracefs: &Tracefs,
        config: &RecordConfig,
        path: &Path,
        format: Format,
    ) -> Result<Self> {
        let session = Session::prepare(tracefs, config)?;
        let output =
            |action| move |source| RecordError::Output { action, path: path.to_owned(), source };
        let file = scratch::create_output(path).map_err(output("creating"))?;
        if !file.metadata().is_ok_and(|m| m.is_file()) {
            return Err(RecordError::NotAFile { path: path.to_owned() });
        }
        let meta = metadata::collect(&session)?;
        let cpus = session.control().cpus()?;
        let live = lay_out(&file, path, &meta, &cpus)?;
        file.write_all_at(&live.head, 0).map_err(output("writing"))?;
        let mut readers = Vec::new();
        for place in &live.data {
            readers.push(Reader::new(session.control(), *place, meta.page_size, &file)?);
        }
        Ok(Self {
            session,
            meta,
            path: path.to_owned(),
            file,
            live,
            readers,
            format,
            started: Instant::now(),
        })
    }

    /// Prepares and begins.
    ///
    /// # Errors
    /// As [`Recorder::prepare`].
    pub fn start(
        tracefs: &Tracefs,
        config: &RecordConfig,
        path: &Path,
        format: Format,
    ) -> Result<Self> {
        let mut recorder = Self::prepare(tracefs, config, path, format)?;
        recorder.begin()?;
        Ok(recorder)
    }

    /// Starts the readers, then tracing.
    ///
    /// # Errors
    /// When a thread cannot be started or tracing not be switched on.
    pub fn begin(&mut self) -> Result<()> {
        for reader in &mut self.readers {
            reader.start().map_err(RecordError::Thread)?;
        }
        self.started = Instant::now();
        self.session.control().set_tracing(true)?;
        Ok(())
    }

    /// The settings that it records with.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Whether it still records: false when a trigger or somebody else switched tracing off, or
    /// when a reader gave up (a full disk).
    pub fn is_running(&self) -> bool {
        self.session.is_on() && !self.readers.iter().any(Reader::has_failed)
    }

    /// Stops tracing, empties the buffers, completes the file and removes the instance.
    ///
    /// # Errors
    /// When the data cannot be read back. What prevents only the compact form of the file (no
    /// space for it) is a warning: the file is then kept as it was recorded.
    pub fn stop(self) -> Result<Summary> {
        let Self { session, mut meta, path, file, live, readers, format, started } = self;
        session.control().set_tracing(false)?;
        let duration = started.elapsed();
        let mut warnings = Vec::new();
        let mut sizes = Vec::new();
        for reader in readers {
            let (bytes, error) = reader.finish();
            sizes.push(bytes);
            if let Some(error) = error {
                warnings.push(error);
            }
        }
        warnings.sort();
        warnings.dedup();
        let stats = metadata::stats(session.control(), &live);
        let cpus = stats.iter().zip(&sizes);
        let cpus = cpus.map(|((cpu, s), &bytes)| CpuSummary::parse(*cpu, bytes, s)).collect();
        meta.cpu_stats = stats;
        metadata::complete(&mut meta, &session);
        let removed = session.finish();
        let parts: Vec<_> = live.data.iter().zip(&sizes).map(|(p, &n)| (*p, n)).collect();
        if let Err(error) = finish::compact(&file, &path, meta, &parts, format) {
            warnings.push(format!(
                "{:#}; {} is kept as it was recorded: complete, but sparse and not compressed",
                chain(&error),
                path.display()
            ));
        }
        let file_bytes = std::fs::metadata(&path).map_or(0, |m| {
            use std::os::unix::fs::MetadataExt;
            m.len().min(m.blocks() * 512 + u64::from(u16::MAX))
        });
        Ok(Summary { path, file_bytes, duration, cpus, warnings, removed })
    }
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

/// Makes the file as long as its places need. A file system that cannot hold 64 GiB a CPU gets
/// less.
fn lay_out(file: &File, path: &Path, meta: &Metadata, cpus: &[u32]) -> Result<live::Live> {
    let mut room = ROOM;
    loop {
        let live = live::write(meta, cpus, room)
            .map_err(|source| RecordError::Write { path: path.to_owned(), source })?;
        match file.set_len(live.length) {
            Ok(()) => return Ok(live),
            Err(_) if room > LEAST_ROOM => room /= 2,
            Err(_) => {
                return Err(RecordError::NoSparseFile {
                    path: path.to_owned(),
                    gib: live.length >> 30,
                    cpus: cpus.len(),
                });
            }
        }
    }
}
