//! One thread a CPU: moves whole pages from the ring buffer into the file by splice(2).

use super::Result;
use crate::tracefs::{Control, TracefsError};
use latlab_trace::write::live::Place;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the pipe between buffer and file holds: as many pages go in one system call.
const PIPE_BYTES: usize = 1 << 20;
/// Pages that a pipe holds unless it is asked to hold more (pipe(7)).
const PIPE_SLOTS: usize = 16;
/// What was recorded is in the file after this, also where events are so rare that they fill no page:
/// a killed recorder loses little.
const FLUSH: Duration = Duration::from_secs(1);
/// Older kernels (before 6.1) hand out no whole page by splice(2) while one is half read. This often the
/// rest of that page is read there.
const UNSTICK: Duration = Duration::from_millis(100);
/// After a round that brought fewer pages than this, the thread rests, for kernels whose poll(2)
/// returns at the first byte.
const FEW_PAGES: u64 = 64;
const REST: Duration = Duration::from_millis(20);

/// A CPU's reader, started or not.
#[derive(Debug)]
pub(super) struct Reader {
    work: Option<Work>,
    thread: Option<JoinHandle<Work>>,
    stop: Arc<OwnedFd>,
    failed: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Work {
    place: Place,
    page: u64,
    raw: File,
    file: File,
    pipe: (OwnedFd, OwnedFd),
    /// What it holds: it counts pages of the buffer, however large they are.
    pipe_bytes: usize,
    stop: Arc<OwnedFd>,
    failed: Arc<AtomicBool>,
    /// Bytes in the file.
    bytes: u64,
    /// When pages were last moved.
    moved: Instant,
    /// Whether the page that is being written to was read up to where it was then.
    half_read: bool,
    error: Option<io::Error>,
}

impl Reader {
    /// Opens the CPU's buffer; nothing is read before [`Reader::start`].
    pub(super) fn new(control: &Control, place: Place, page: u32, file: &File) -> Result<Self> {
        let path = control.dir().join(format!("per_cpu/cpu{}/trace_pipe_raw", place.cpu));
        let raw = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let raw = raw.map_err(|e| TracefsError::io("opening", path.clone(), e))?;
        let system = |e: io::Error| TracefsError::io("preparing to read", path.clone(), e);
        let pipe = pipe_with(PipeFlags::CLOEXEC).map_err(|e| system(e.into()))?;
        // Without CAP_SYS_RESOURCE the limit may be lower; the default size then has to do.
        let slots = fcntl_setpipe_size(&pipe.1, PIPE_BYTES)
            .map_or(PIPE_SLOTS, |bytes| bytes / rustix::param::page_size());
        let stop = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)
            .map_err(|e| system(e.into()))?;
        let stop = Arc::new(stop);
        let failed = Arc::new(AtomicBool::new(false));
        let work = Work {
            place,
            page: u64::from(page),
            raw,
            file: file.try_clone().map_err(system)?,
            pipe,
            pipe_bytes: slots * page as usize,
            stop: Arc::clone(&stop),
            failed: Arc::clone(&failed),
            bytes: 0,
            moved: Instant::now(),
            half_read: false,
            error: None,
        };
        Ok(Self { work: Some(work), thread: None, stop, failed })
    }

    /// Starts the thread.
    pub(super) fn start(&mut self) -> io::Result<()> {
        if let Some(work) = self.work.take() {
            let name = format!("latlab-read{}", work.place.cpu);
            let builder = std::thread::Builder::new().name(name).stack_size(128 << 10);
            self.thread = Some(builder.spawn(move || work.run())?);
        }
        Ok(())
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Has the thread read the rest and end. Tracing must be off. Returns the bytes in the file
    /// and, in a sentence, what prevented more.
    pub(super) fn finish(mut self) -> (u64, Option<String>) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        let Some(thread) = self.thread.take() else { return (0, None) };
        match thread.join() {
            Ok(work) => (work.bytes, work.error.map(|e| sentence(work.place.cpu, &e))),
            Err(_) => (0, Some("a reader thread panicked; its CPU's data are lost".into())),
        }
    }
}

fn sentence(cpu: u32, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => "the disk is full: recording stopped early".into(),
        _ => format!("saving the buffer of CPU {cpu} ended early: {error}"),
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A recorder that is dropped without `finish` still ends its threads.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Work {
    fn run(mut self) -> Self {
        if let Err(error) = self.read_all() {
            self.error = Some(error);
            self.failed.store(true, Ordering::Relaxed);
        }
        self
    }

    fn read_all(&mut self) -> io::Result<()> {
        loop {
            let stop = self.wait()?;
            let pages = self.move_full_pages()?;
            if stop {
                return self.read_rest();
            }
            if pages > 0 {
                self.moved = Instant::now();
                self.half_read = false;
            } else if self.moved.elapsed() >= if self.half_read { UNSTICK } else { FLUSH } {
                self.half_read = self.read_page()?;
                self.moved = Instant::now();
            }
            if pages < FEW_PAGES {
                let mut fds = [PollFd::new(&*self.stop, PollFlags::IN)];
                ignore_interrupt(poll(&mut fds, Some(&timespec(REST))))?;
            }
        }
    }

    /// Waits for half a buffer, the end, or [`FLUSH`]. Whether it is the end.
    fn wait(&self) -> io::Result<bool> {
        let mut fds =
            [PollFd::new(&*self.stop, PollFlags::IN), PollFd::new(&self.raw, PollFlags::IN)];
        ignore_interrupt(poll(&mut fds, Some(&timespec(FLUSH))))?;
        Ok(fds[0].revents().contains(PollFlags::IN))
    }

    /// Moves full pages until there are none. Returns how many.
    fn move_full_pages(&mut self) -> io::Result<u64> {
        let mut pages = 0;
        loop {
            let (bytes, more) = self.fill_pipe()?;
            if bytes > 0 {
                self.pipe_to_file(bytes)?;
                pages += bytes / self.page;
            }
            if !more {
                return Ok(pages);
            }
        }
    }

    /// Moves full pages into the pipe until there are none or it is full: a call moves 16 at most, and
    /// a file system takes 256 at once for much less than sixteen times 16. The bytes, and whether
    /// there may be more.
    fn fill_pipe(&self) -> io::Result<(u64, bool)> {
        let (mut bytes, mut room) = (0, self.pipe_bytes);
        while room > 0 {
            match splice(&self.raw, None, &self.pipe.1, None, room, SpliceFlags::NONBLOCK) {
                Ok(0) | Err(Errno::AGAIN) => return Ok((bytes, false)),
                Err(Errno::INTR) => {}
                Ok(n) => {
                    bytes += n as u64;
                    room = room.saturating_sub(n);
                }
                // What is in the pipe already must reach the file; the error comes again.
                Err(_) if bytes > 0 => return Ok((bytes, true)),
                Err(e) => return Err(e.into()),
            }
        }
        Ok((bytes, true))
    }

    fn pipe_to_file(&mut self, bytes: u64) -> io::Result<()> {
        if self.bytes + bytes > self.place.room {
            return Err(io::Error::other("the file's part for this CPU is full"));
        }
        let mut at = self.place.offset + self.bytes;
        let end = at + bytes;
        let mut result = Ok(());
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            // splice advances `at` itself.
            match splice(&self.pipe.0, None, &self.file, Some(&mut at), left, SpliceFlags::MOVE) {
                Ok(0) => {
                    result = Err(io::ErrorKind::WriteZero.into());
                    break;
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => {
                    result = Err(e.into());
                    break;
                }
            }
        }
        // Of what a full disk cut short, whole pages count.
        let written = at - self.place.offset;
        self.bytes = written - written % self.page;
        self.store_size()?;
        result
    }

    /// From now on the file says that the data are there.
    fn store_size(&self) -> io::Result<()> {
        self.file.write_all_at(&self.place.size_bytes(self.bytes), self.place.size_field)
    }

    /// Reads what is left, the page that was being written to included. Tracing is off.
    fn read_rest(&mut self) -> io::Result<()> {
        while self.read_page()? {}
        Ok(())
    }

    /// Copies the oldest page, or what is in it so far, into the file. Whether there was anything.
    fn read_page(&mut self) -> io::Result<bool> {
        let mut page = vec![0; usize::try_from(self.page).unwrap_or(4096)];
        loop {
            match (&self.raw).read(&mut page) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    page[n..].fill(0);
                    self.file.write_all_at(&page, self.place.offset + self.bytes)?;
                    self.bytes += self.page;
                    self.store_size()?;
                    return Ok(true);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

fn timespec(d: Duration) -> Timespec {
    Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() }
}

fn ignore_interrupt(result: rustix::io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
