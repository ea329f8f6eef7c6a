//! Recording: from settings to a trace.dat, and a flight recorder that keeps the last megabytes.
//!
//! ```text
//! RecordConfig ─▶ Session (own instance, settings) ─┬▶ Recorder: reader threads ─▶ live file ─▶ trace.dat
//!                                                   └▶ FlightRecorder: freeze ─▶ Snapshot ─▶ trace.dat
//! ```
//!
//! A reader thread a CPU sleeps until the kernel has half a buffer for it, then moves whole pages
//! by splice(2) from `trace_pipe_raw` into the file. When there was no whole page for a second, what
//! is in the page that is being written to is copied. The threads are not bound to the CPU that
//! they empty: the scheduler puts them where there is room. The file is a valid trace.dat at
//! every moment ([`latlab_trace::write::live`]); what a killed recorder flushed can be read.

pub mod child;
pub mod dump_request;
mod finish;
mod flight;
mod metadata;
mod reader;
mod session;

pub(crate) use finish::compacted;
pub use finish::{Format, Kallsyms, recover};
pub use flight::{FlightRecorder, Snapshot};
pub(crate) use metadata::page_size;
pub use session::Session;

use crate::tracefs::{Control, RemovedInstance, Tracefs, TracefsError};
use latlab_trace::write::{Metadata, WriteError, live};
use reader::Reader;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What to record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordConfig {
    /// Events, each with what belongs to it.
    pub events: Vec<EventSpec>,
    /// Tracer (`function_graph`); `None` for events alone.
    pub tracer: Option<String>,
    /// Functions that `function_graph` draws.
    pub graph_functions: Vec<String>,
    /// Functions that are traced, all others not.
    pub functions: Vec<String>,
    /// Functions that are not traced.
    pub notrace_functions: Vec<String>,
    /// How deep `function_graph` descends.
    pub max_graph_depth: Option<u32>,
    /// Options to set, `no…` to clear.
    pub options: Vec<String>,
    /// Processes to trace; empty for all.
    pub pids: Vec<u32>,
    /// Whether the processes' children are traced too.
    pub follow_children: bool,
    /// CPUs to trace; `None` for all.
    pub cpus: Option<BTreeSet<u32>>,
    /// Size of each CPU's buffer in KiB; `None` for what suits this machine's free memory.
    pub buffer_kb: Option<u64>,
    /// Size of all CPUs' buffers together in KiB, instead of `buffer_kb`.
    pub buffer_total_kb: Option<u64>,
    /// Clock; `None` for the kernel's default (`local`).
    pub clock: Option<String>,
    /// Whether each event brings the kernel's stack.
    pub stack: bool,
}

/// Events by pattern (see [`Control::select`]), with their filter and triggers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventSpec {
    /// `sched`, `irq:*_entry`, `all`.
    pub pattern: String,
    /// `prev_prio < 100`.
    pub filter: Option<String>,
    /// `traceoff if …`.
    pub triggers: Vec<String>,
}

impl EventSpec {
    /// Events without filter or trigger.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self { pattern: pattern.into(), filter: None, triggers: Vec::new() }
    }
}

/// Why a recording failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// tracefs refused.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The output could not be made or written.
    #[error("{action} {path}")]
    Output {
        /// `creating`, `writing`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file system holds no sparse file of the size that the CPUs need.
    #[error(
        "{path} is on a file system that cannot hold a sparse file of {gib} GiB, which recording {cpus} CPUs needs while it runs"
    )]
    NoSparseFile {
        /// Which file.
        path: PathBuf,
        /// How large it would have to be.
        gib: u64,
        /// Number of CPUs.
        cpus: usize,
    },
    /// The output is a device, a pipe…
    #[error("{path} is not an ordinary file; a trace can only be recorded into one")]
    NotAFile {
        /// Which file.
        path: PathBuf,
    },
    /// Not what a killed recorder leaves behind.
    #[error("{path} is not a recording that was cut short: {reason}")]
    NotLive {
        /// Which file.
        path: PathBuf,
        /// What it is instead.
        reason: &'static str,
    },
    /// A thread could not be started.
    #[error("starting a reader thread")]
    Thread(#[source] io::Error),
    /// The trace could not be put into its format.
    #[error("writing {path}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl RecordError {
    /// What a user can do about it, where that is not obvious.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Tracefs(e) => e.hint(),
            Self::NoSparseFile { .. } => {
                Some("record to /tmp or /dev/shm with -o and copy the finished file".into())
            }
            _ => None,
        }
    }
}

/// Result of everything here.
pub type Result<T> = std::result::Result<T, RecordError>;

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub file_bytes: u64,
    /// How long it was traced.
    pub duration: Duration,
    /// Each CPU's part.
    pub cpus: Vec<CpuSummary>,
    /// What went wrong on the way without spoiling the file (disk full, no compression).
    pub warnings: Vec<String>,
    /// Instances of dead latlabs that were removed at the start.
    pub removed: Vec<RemovedInstance>,
}

impl Summary {
    /// Events in the file.
    pub fn events(&self) -> u64 {
        self.cpus.iter().map(|c| c.events).sum()
    }
    /// Events that were lost.
    pub fn lost(&self) -> u64 {
        self.cpus.iter().map(CpuSummary::lost).sum()
    }
}

/// One CPU's part of a recording, from the kernel's `per_cpu/cpuN/stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSummary {
    /// Which.
    pub cpu: u32,
    /// Events read.
    pub events: u64,
    /// Bytes of ring-buffer pages read.
    pub bytes: u64,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events lost because interrupts filled the buffer within one commit.
    pub commit_overrun: u64,
    /// Events dropped because the buffer was full (`nooverwrite`).
    pub dropped: u64,
}

impl CpuSummary {
    /// Events that happened and are not in the file.
    pub fn lost(&self) -> u64 {
        self.overrun + self.commit_overrun + self.dropped
    }

    fn parse(cpu: u32, bytes: u64, stats: &str) -> Self {
        let field = |name: &str| {
            let value = |l: &str| l.strip_prefix(name)?.strip_prefix(": ")?.trim().parse().ok();
            stats.lines().find_map(value).unwrap_or(0)
        };
        Self {
            cpu,
            bytes,
            events: field("read events"),
            overrun: field("overrun"),
            commit_overrun: field("commit overrun"),
            dropped: field("dropped events"),
        }
    }
}

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
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(path).map_err(output("creating"))?;
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

/// Size of each CPU's buffer in KiB: as asked for, or what suits the memory that is free.
fn buffer_kb(control: &Control, config: &RecordConfig) -> u64 {
    let cpus = control.cpus().map_or(1, |c| c.len().max(1)) as u64;
    if let Some(kb) = config.buffer_kb {
        return kb;
    }
    if let Some(total) = config.buffer_total_kb {
        return (total / cpus).max(1);
    }
    let available = crate::machine::condition().available_bytes.unwrap_or(256 << 20);
    // A sixteenth of what is free, for all CPUs together; from the kernel's own default up to
    // what a CPU fills in a good half second of saturating load.
    ((available / 16 / cpus) >> 10).clamp(1408, 32 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_statistics_are_read() {
        let stats = "entries: 0\noverrun: 7\ncommit overrun: 1\nbytes: 4556\noldest event ts:  12.3\nnow ts:  12.5\ndropped events: 2\nread events: 105\n";
        let cpu = CpuSummary::parse(3, 8192, stats);
        assert_eq!((cpu.events, cpu.overrun, cpu.commit_overrun, cpu.dropped), (105, 7, 1, 2));
        assert_eq!(cpu.lost(), 10);
    }
}
