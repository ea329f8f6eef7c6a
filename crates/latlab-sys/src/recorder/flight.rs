//! A flight recorder: the ring buffer keeps the last megabytes, and is taken out on demand.

use super::finish::{choose_symbols, replace, write};
use super::{CpuSummary, Format, Kallsyms, RecordConfig, RecordError, Result, Session, metadata};
use crate::tracefs::{Marker, TraceStopper, Tracefs, TracefsError};
use latlab_trace::write::{CpuData, Metadata};
use std::fs::{File, OpenOptions};
use std::io::{self, Cursor, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A ring buffer in overwrite mode that nobody reads until it is stopped.
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
}

/// What was in the buffer when it was stopped.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Everything that a trace.dat needs besides the pages.
    pub meta: Metadata,
    /// Pages of each CPU, whole.
    pub pages: Vec<(u32, Vec<u8>)>,
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
        Ok(Self { pipes, session, meta })
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
    pub fn take_pages(&mut self) -> Result<Vec<(u32, Vec<u8>)>> {
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

    /// Drops the pages at the front that end before `ns`, a time of the trace clock: those whose successor begins
    /// before it. The page that reaches beyond it stays, and the last one of each CPU.
    pub fn drop_before(&self, pages: &mut [(u32, Vec<u8>)], ns: u64) {
        for (_, bytes) in pages {
            drop_pages(bytes, self.meta.page_size as usize, ns);
        }
    }

    /// Pages of [`take_pages`](Self::take_pages) as a recording, with the names of tasks that were there when this
    /// recorder was prepared.
    pub fn recording(&self, pages: Vec<(u32, Vec<u8>)>) -> Snapshot {
        Snapshot { meta: self.meta.clone(), pages, cpus: Vec::new() }
    }

    /// Events that were written since the buffer was made or emptied, and those of them that no reader gets
    /// any more, of all CPUs.
    pub fn counts(&self) -> (u64, u64) {
        let control = self.session.control();
        let stats = self.pipes.iter().map(|(cpu, _)| metadata::cpu_stats(control, *cpu));
        stats.map(|text| written(&text)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Reads the kernel's symbols, some 10 MB, and keeps those that these pages point into.
    ///
    /// # Errors
    /// None that pages in memory can make.
    pub fn keep_symbols_of(&mut self, pages: &[(u32, Vec<u8>)]) -> Result<()> {
        let data = pages.iter().map(|(cpu, bytes)| CpuData {
            cpu: *cpu,
            bytes: bytes.len() as u64,
            pages: bytes.as_slice(),
        });
        let path = Path::new("memory");
        let error = |source| RecordError::Write { path: path.to_owned(), source };
        self.meta.kallsyms = metadata::symbols();
        choose_symbols(&mut self.meta, Kallsyms::Used, data.collect()).map_err(error)
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

/// Each page of the ring buffer begins with its time (`struct buffer_data_page`, `kernel/trace/ring_buffer.c`).
fn drop_pages(bytes: &mut Vec<u8>, page: usize, ns: u64) {
    if page == 0 {
        return;
    }
    let begin = |p: &[u8]| p.first_chunk().map(|time| u64::from_ne_bytes(*time));
    let later = bytes.chunks(page).skip(1);
    let gone = later.take_while(|p| begin(p).is_some_and(|time| time <= ns)).count();
    bytes.drain(..gone * page);
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
        choose_symbols(&mut meta, format.kallsyms, self.data()).map_err(error)?;
        write(out, &meta, format, &mut self.data()).map_err(error)
    }

    fn data(&self) -> Vec<CpuData<&[u8]>> {
        let data = |(cpu, bytes): &(u32, Vec<u8>)| (*cpu, bytes.len() as u64);
        self.pages
            .iter()
            .map(|part| {
                let (cpu, bytes) = data(part);
                CpuData { cpu, bytes, pages: part.1.as_slice() }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_end_before_a_time_are_dropped() {
        let page = |time: u64| [&time.to_ne_bytes()[..], &[7; 24]].concat();
        let all = [page(10), page(20), page(30)].concat();
        let left = |ns| {
            let mut bytes = all.clone();
            drop_pages(&mut bytes, 32, ns);
            bytes.len() / 32
        };
        assert_eq!([5, 19, 20, 29, 30, 99].map(left), [3, 3, 2, 2, 1, 1]);
        let mut torn = all[..40].to_vec();
        drop_pages(&mut torn, 32, 99);
        assert_eq!(torn.len(), 8, "eight bytes of a page have its time");
        drop_pages(&mut torn, 0, 99);
        assert_eq!(torn.len(), 8);
    }

    #[test]
    fn what_was_written_is_what_is_there_was_read_or_was_overwritten() {
        let stats =
            "entries: 40\noverrun: 7\ncommit overrun: 1\ndropped events: 2\nread events: 105\n";
        assert_eq!(written(stats), (152, 10));
        assert_eq!(written(""), (0, 0));
    }
}
