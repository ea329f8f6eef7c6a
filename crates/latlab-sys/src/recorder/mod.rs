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
//! every moment ([`latlab_trace::write::live`]); what a killed recorder flushed can be read. It gets
//! its name once its head is on the disk and tracing is on; an earlier file stays until then.

pub mod child;
mod config;
pub mod dump_request;
mod error;
mod finish;
mod flight;
mod latency;
mod metadata;
mod reader;
mod session;
mod summary;

pub use config::{EventSpec, RecordConfig};
pub use error::{RecordError, Result};
pub(crate) use finish::compacted;
pub use finish::{Format, Kallsyms, recover};
pub use flight::{FlightRecorder, INCOMPLETE, Pages, Snapshot, append};
pub use latency::{LATENCY_TRACERS, LatencyRecorder, Longest};
pub(crate) use metadata::page_size;
pub use metadata::threads;
pub use session::Session;
pub use summary::{CpuSummary, Summary};

use crate::scratch::{self, Replacement};
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
    name: Replacement,
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
        if !scratch::is_replaceable(path) {
            return Err(RecordError::NotAFile { path: path.to_owned() });
        }
        let (file, name) = Replacement::create_checked(path).map_err(output("creating"))?;
        let meta = metadata::collect(&session)?;
        let cpus = session.control().cpus()?;
        let live = lay_out(&file, path, &meta, &cpus)?;
        file.write_all_at(&live.head, 0)
            .and_then(|()| file.sync_all())
            .map_err(output("writing"))?;
        let mut readers = Vec::new();
        for place in &live.data {
            readers.push(Reader::new(session.control(), *place, meta.page_size, &file)?);
        }
        Ok(Self {
            session,
            meta,
            path: path.to_owned(),
            file,
            name,
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

    /// Starts the readers, then tracing, and gives the file its name.
    ///
    /// # Errors
    /// When a thread cannot be started, tracing not be switched on, or the file not be renamed.
    pub fn begin(&mut self) -> Result<()> {
        for reader in &mut self.readers {
            reader.start().map_err(RecordError::Thread)?;
        }
        self.started = Instant::now();
        self.session.control().set_tracing(true)?;
        self.name.rename().map_err(|source| RecordError::Output {
            action: "renaming to",
            path: self.path.clone(),
            source,
        })
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
    /// When tracing cannot be switched off. What kept the file from being complete and compact is
    /// in [`Summary::failures`]; the file then holds what was recorded.
    pub fn stop(self) -> Result<Summary> {
        let Self { session, mut meta, path, file, live, readers, format, started, .. } = self;
        session.control().set_tracing(false)?;
        let duration = started.elapsed();
        let mut failures = Vec::new();
        let mut sizes = Vec::new();
        for reader in readers {
            let (bytes, error) = reader.finish();
            sizes.push(bytes);
            if let Some(error) = error {
                failures.push(error);
            }
        }
        failures.sort();
        failures.dedup();
        let stats = metadata::stats(session.control(), &live);
        let cpus = stats.iter().zip(&sizes);
        let cpus = cpus.map(|((cpu, s), &bytes)| CpuSummary::parse(*cpu, bytes, s)).collect();
        meta.cpu_stats = stats;
        metadata::complete(&mut meta, &session);
        let removed = session.finish();
        let parts: Vec<_> = live.data.iter().zip(&sizes).map(|(p, &n)| (*p, n)).collect();
        if let Err(error) = finish::compact(&file, &path, meta, &parts, format) {
            failures
                .push(format!("{}; the file stays sparse and is not compressed", chain(&error)));
        }
        let file_bytes = std::fs::metadata(&path).map_or(0, |m| {
            use std::os::unix::fs::MetadataExt;
            m.len().min(m.blocks() * 512 + u64::from(u16::MAX))
        });
        Ok(Summary { path, file_bytes, duration, cpus, failures, removed })
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
            Err(e) if !is_too_large(&e) => {
                let path = path.to_owned();
                return Err(RecordError::Output { action: "writing", path, source: e });
            }
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

/// Whether the file system says that it holds no file of that size: beyond its largest (`EFBIG`;
/// some of FUSE: `EINVAL`), or one without holes for which there is no space.
fn is_too_large(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EFBIG | libc::EINVAL | libc::ENOSPC))
}
