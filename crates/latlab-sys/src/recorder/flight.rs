//! A flight recorder: the ring buffer keeps the last megabytes, and is taken out on demand.

use super::finish::{choose_symbols, replace, write};
use super::{CpuSummary, Format, Kallsyms, RecordConfig, RecordError, Result, Session, metadata};
use crate::tracefs::{Marker, TraceStopper, Tracefs, TracefsError};
use latlab_model::units::Nanos;
use latlab_trace::write::{CpuData, Metadata};
use std::fs::{File, OpenOptions};
use std::io::{self, Cursor, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Pages of the ring buffer of each CPU, oldest first.
pub type Pages = Vec<(u32, Vec<u8>)>;

/// What is read while it is recorded may lack events so long before: their records are not complete yet.
pub const INCOMPLETE: Nanos = Nanos(2_000_000);

/// A ring buffer in overwrite mode that is read when it is stopped, or in parts while it goes on.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use latlab_sys::recorder::{EventSpec, FlightRecorder, Format, RecordConfig};
/// let tracefs = latlab_sys::tracefs::Tracefs::find()?.tracefs;
/// let config = RecordConfig { events: vec![EventSpec::new("sched")], ..Default::default() };
/// let mut flight = FlightRecorder::start(&tracefs, &config)?;
/// let trace_stopper = flight.trace_stopper()?; // for the thread that knows when it is late
/// trace_stopper.stop()?;
/// flight.snapshot()?.save("late.dat".as_ref(), Format::default())?;
/// flight.rearm()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct FlightRecorder {
    // Before the session: its instance cannot be removed while a file of it is open.
    pipes: Vec<(u32, File)>,
    session: Session,
    meta: Metadata,
    /// Of the symbols only some are left.
    has_chosen: bool,
}

/// What was in the buffer when it was stopped.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Everything that a trace.dat needs besides the pages.
    pub meta: Metadata,
    /// Pages of each CPU, whole.
    pub pages: Pages,
    /// Each CPU's counts. What a flight recorder overwrote is no loss and is counted as overrun.
    pub cpus: Vec<CpuSummary>,
}

impl FlightRecorder {
    /// Prepares everything; tracing starts with [`FlightRecorder::rearm`].
    ///
    /// # Errors
    /// When tracefs refuses a setting.
    pub fn prepare(tracefs: &Tracefs, config: &RecordConfig) -> Result<Self> {
        let session = Session::prepare(tracefs, config)?;
        let meta = metadata::collect(&session)?;
        let control = session.control();
        let mut pipes = Vec::new();
        for cpu in control.cpus()? {
            let path = control.dir().join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            pipes.push((cpu, file.map_err(|e| TracefsError::io("opening", path, e))?));
        }
        Ok(Self { pipes, session, meta, has_chosen: false })
    }

    /// Prepares and starts.
    ///
    /// # Errors
    /// As [`FlightRecorder::prepare`].
    pub fn start(tracefs: &Tracefs, config: &RecordConfig) -> Result<Self> {
        let flight = Self::prepare(tracefs, config)?;
        flight.session.control().set_tracing(true)?;
        Ok(flight)
    }

    /// Its settings.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// A handle that stops it by one system call, for real-time threads.
    ///
    /// # Errors
    /// When there are no file descriptors left.
    pub fn trace_stopper(&self) -> Result<TraceStopper> {
        Ok(self.session.control().trace_stopper()?)
    }

    /// A handle that writes into the trace by one system call.
    ///
    /// # Errors
    /// When there are no file descriptors left, or lockdown forbids it.
    pub fn marker(&self) -> Result<Marker> {
        Ok(self.session.control().marker()?)
    }

    /// Whether it records; a trigger may have stopped it.
    pub fn is_on(&self) -> bool {
        self.session.is_on()
    }

    /// Freezes it, if it is not, and takes out what is in it, oldest first.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        self.session.control().set_tracing(false)?;
        self.read()
    }

    /// Takes out what is in it while it goes on, oldest first. CPUs are read one after another: of what is recorded
    /// meanwhile, the later ones have more.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub fn read(&mut self) -> Result<Snapshot> {
        let pages = self.take_pages()?;
        let stats: Vec<_> = pages
            .iter()
            .map(|(cpu, _)| (*cpu, metadata::cpu_stats(self.session.control(), *cpu)))
            .collect();
        let counts = stats.iter().zip(&pages);
        let cpus =
            counts.map(|((cpu, s), (_, p))| CpuSummary::parse(*cpu, p.len() as u64, s)).collect();
        metadata::complete(&mut self.meta, &self.session);
        let meta = Metadata { cpu_stats: stats, ..self.meta.clone() };
        Ok(Snapshot { meta, pages, cpus })
    }

    /// Takes out what is in it while it goes on, oldest first: pages of each CPU, the last one in part. What the
    /// kernel records meanwhile may be in it or not.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub fn take_pages(&mut self) -> Result<Pages> {
        let page = self.meta.page_size as usize;
        let mut pages = Vec::new();
        for (cpu, pipe) in &mut self.pipes {
            let bytes = drain(pipe, page).map_err(|e| {
                let path = self.session.control().dir().join(format!("per_cpu/cpu{cpu}"));
                TracefsError::io("reading", path, e)
            })?;
            pages.push((*cpu, bytes));
        }
        Ok(pages)
    }

    /// Pages of [`take_pages`](Self::take_pages) as a recording, with the names of tasks that were there when this
    /// recorder was prepared.
    pub fn recording(&self, pages: Pages) -> Snapshot {
        Snapshot { meta: self.meta.clone(), pages, cpus: Vec::new() }
    }

    /// As [`recording`](Self::recording), with the names of tasks and the symbols of now, of which those stay that the
    /// pages point into.
    ///
    /// # Errors
    /// None that pages in memory can make.
    pub fn complete_recording(&self, pages: Pages) -> Result<Snapshot> {
        let mut snapshot = self.recording(pages);
        metadata::complete(&mut snapshot.meta, &self.session);
        read_symbols(&mut snapshot.meta);
        choose_used(&mut snapshot.meta, &snapshot.pages)?;
        Ok(snapshot)
    }

    /// Events that were written since the buffer was made or emptied, and those of them that no reader gets
    /// any more, of all CPUs.
    pub fn counts(&self) -> (u64, u64) {
        let control = self.session.control();
        let stats = self.pipes.iter().map(|(cpu, _)| metadata::cpu_stats(control, *cpu));
        stats.map(|text| written(&text)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Keeps those of the kernel's symbols that these pages point into; from the second time on it reads all of them before,
    /// some 10 MB.
    ///
    /// # Errors
    /// None that pages in memory can make.
    pub fn keep_symbols_of(&mut self, pages: &[(u32, Vec<u8>)]) -> Result<()> {
        if std::mem::replace(&mut self.has_chosen, true) {
            read_symbols(&mut self.meta);
        }
        choose_used(&mut self.meta, pages)
    }

    /// Empties the buffer and records again.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn rearm(&mut self) -> Result<()> {
        let control = self.session.control();
        control.clear()?;
        control.set_tracing(true)?;
        Ok(())
    }
}

/// Of the symbols keeps those that pages point into.
fn choose_used(meta: &mut Metadata, pages: &[(u32, Vec<u8>)]) -> Result<()> {
    let path = Path::new("memory");
    let error = |source| RecordError::Write { path: path.to_owned(), source };
    choose_symbols(meta, Kallsyms::Used, data(pages)).map_err(error)
}

/// Reads the kernel's symbols.
fn read_symbols(meta: &mut Metadata) {
    // Megabytes: the earlier ones go first.
    meta.kallsyms = Vec::new();
    meta.kallsyms = metadata::symbols();
}

/// Adds pages behind those of their CPU.
pub fn append(pages: &mut Pages, cpu: u32, bytes: &[u8]) {
    match pages.iter_mut().find(|known| known.0 == cpu) {
        Some(known) => known.1.extend_from_slice(bytes),
        None => pages.push((cpu, bytes.to_vec())),
    }
}

/// Pages of each CPU, to be read.
fn data(pages: &[(u32, Vec<u8>)]) -> Vec<CpuData<&[u8]>> {
    let all = pages.iter().map(|(cpu, bytes)| (*cpu, bytes.as_slice()));
    all.map(|(cpu, pages)| CpuData { cpu, bytes: pages.len() as u64, pages }).collect()
}

/// Events that a CPU's `stats` tell of: all, and those that were overwritten or had no place.
fn written(stats: &str) -> (u64, u64) {
    let lost = CpuSummary::parse(0, 0, stats);
    let entries = stats.lines().find_map(|l| l.strip_prefix("entries: ")?.trim().parse().ok());
    (entries.unwrap_or(0u64) + lost.events + lost.overrun, lost.lost())
}

/// Everything that is left in one CPU's buffer, in whole pages.
fn drain(pipe: &mut File, page: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let start = bytes.len();
        bytes.resize(start + page, 0);
        let n = match pipe.read(&mut bytes[start..]) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                bytes.truncate(start);
                continue;
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(e),
        };
        if n == 0 {
            bytes.truncate(start);
            return Ok(bytes);
        }
    }
}

impl Snapshot {
    /// Events in it.
    pub fn events(&self) -> u64 {
        self.cpus.iter().map(|c| c.events).sum()
    }

    /// The trace.dat as bytes, for analysis in memory.
    ///
    /// # Errors
    /// When a compressor fails.
    pub fn to_bytes(&self, format: Format) -> Result<Vec<u8>> {
        let mut out = Cursor::new(Vec::new());
        self.write(&mut out, format, Path::new("memory"))?;
        Ok(out.into_inner())
    }

    /// Writes it to a file, under a temporary name that is then renamed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path, format: Format) -> Result<()> {
        replace(path, |out| self.write(out, format, path))
    }

    fn write(
        &self,
        out: &mut (impl io::Write + io::Seek),
        format: Format,
        path: &Path,
    ) -> Result<()> {
        let error = |source| RecordError::Write { path: path.to_owned(), source };
        let mut meta = self.meta.clone();
        choose_symbols(&mut meta, format.kallsyms, data(&self.pages)).map_err(error)?;
        write(out, &meta, format, &mut data(&self.pages)).map_err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_what_is_there_was_read_or_was_overwritten() {
        let stats =
            "entries: 40\noverrun: 7\ncommit overrun: 1\ndropped events: 2\nread events: 105\n";
        assert_eq!(written(stats), (152, 10));
        assert_eq!(written(""), (0, 0));
    }
}
