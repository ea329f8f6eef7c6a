//! The life of a worker process: works until its standard input ends, says how many rounds it did.

use super::spec::{Kind, Worker};
use super::work::Work;
use super::{kernel, memory};
use crate::files::Root;
use crate::{policy, signal};
use latlab_model::units::CpuId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::hint::black_box;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a task under SCHED_FIFO or SCHED_RR may compute without sleeping where that starves others.
const REAL_TIME_MAX: Duration = Duration::from_secs(1);
/// Period of a CPU that is busy for a part of the time.
const DUTY: Duration = Duration::from_millis(10);

/// Works until standard input ends or a signal asks to stop: the whole life of a worker process.
///
/// # Errors
/// When the work cannot be done (no space, no memory, data that are not what was written).
pub fn work_until_stdin_ends(worker: Worker) -> io::Result<()> {
    if let Some(cpu) = worker.cpu {
        policy::bind(&[CpuId(cpu)])?;
    }
    spare_others();
    let rounds = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&rounds);
    let (failed, failure) = rustix::pipe::pipe()?;
    let at_work = thread::Builder::new().name("load".to_owned()).spawn(move || {
        let error = work(worker, &counter);
        // Closing it wakes the main thread.
        drop(failure);
        error
    })?;
    let stdin = io::stdin();
    let mut buffer = [0u8; 64];
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(failed.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) if signal::stop_requested().is_some() => break,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
            Ok(_) => {}
        }
        if !fds[1].revents().is_empty() {
            return at_work
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the work ended by a panic")));
        }
        if !fds[0].revents().is_empty() && rustix::io::read(&stdin, &mut buffer)? == 0 {
            break;
        }
    }
    // Whoever stopped us may be gone.
    let _ = writeln!(io::stdout(), "{}", rounds.load(Ordering::Relaxed));
    Ok(())
}

/// When memory is used up it is the load that has to go, not what the machine is for. And where
/// the kernel keeps no time from real-time tasks, one that uses the CPUs of all others and computes
/// for longer than [`REAL_TIME_MAX`] without sleeping is ended: a login or SSH gets no time from it.
fn spare_others() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let (Ok(ours), Ok(housekeeping)) = (policy::allowed(), policy::housekeeping()) else { return };
    let cpu = housekeeping.first().map(|cpu| cpu.0);
    let facts = crate::schedload::facts(&Root::here(), &crate::init::release(), None, cpu);
    if facts.lets_starve(&ours, &housekeeping) {
        let us = REAL_TIME_MAX.as_micros() as u64;
        let limit = Rlimit { current: Some(us), maximum: Some(us + us / 2) };
        let _ = setrlimit(Resource::Rttime, limit);
    }
}

/// Kills its process group when the process at the other end of its standard input is gone, even
/// by SIGKILL.
fn guard() -> io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "read _; kill -KILL 0"]).stdin(Stdio::piped()).stdout(Stdio::null());
    command.process_group(0).spawn()
}

/// Runs a command line again and again while it ends well, until standard input ends; then kills it with
/// everything that it started (and did not take out of its process group), as its guard does
/// when this process is killed.
///
/// # Errors
/// When it cannot be started, or ended badly.
pub fn keep_command_until_stdin_ends(line: &str) -> io::Result<()> {
    spare_others();
    let mut guard = guard()?;
    let ended = keep_command(line, guard.id());
    let _ = crate::process::kill_group(guard.id());
    guard.wait()?;
    ended
}

fn keep_command(line: &str, group: u32) -> io::Result<()> {
    let group = i32::try_from(group).map_err(io::Error::other)?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(group);
    crate::process::tie_to_us(&mut command);
    let stdin = io::stdin();
    loop {
        let mut child = command.spawn()?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
            let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let over = match poll(&mut fds, Some(&wait)) {
                Ok(0) | Err(Errno::INTR) => false,
                Ok(_) => rustix::io::read(&stdin, &mut [0u8; 64])? == 0,
                Err(errno) => return Err(errno.into()),
            };
            if over || signal::stop_requested().is_some() {
                return Ok(());
            }
        };
        if !status.success() {
            let why = if was_limited(status) {
                format!(
                    ": a real-time task of it computed for {} s without sleeping, and the kernel keeps no time for other tasks (sched_rt_runtime_us)",
                    REAL_TIME_MAX.as_secs()
                )
            } else {
                String::new()
            };
            return Err(io::Error::other(format!("{line}: {status}{why}")));
        }
    }
}

/// Whether the kernel ended it by SIGXCPU; a shell tells so by its exit code.
fn was_limited(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGXCPU) || status.code() == Some(128 + libc::SIGXCPU)
}

/// Rounds without end, at most so many a second.
fn work(worker: Worker, rounds: &AtomicU64) -> io::Result<()> {
    let mut work = begin(worker.kind)?;
    let begun = Instant::now();
    for n in 1u64.. {
        work.round()?;
        rounds.store(n, Ordering::Relaxed);
        if let Some(rate) = worker.rate {
            let next = Duration::from_secs_f64(n as f64 / rate);
            thread::sleep(next.saturating_sub(begun.elapsed()));
        }
    }
    Ok(())
}

/// One round of a kind of work at each call.
pub(crate) fn rounds(kind: Kind) -> io::Result<impl FnMut() -> io::Result<()>> {
    let mut work = begin(kind)?;
    Ok(move || work.round())
}

fn begin(kind: Kind) -> io::Result<Box<dyn Work>> {
    Ok(match kind {
        Kind::Cpu { percent } => Box::new(move || {
            busy(percent);
            Ok(())
        }),
        Kind::Vm { bytes, stride, keep, hang } => {
            let mut kept = memory::Vm::new(bytes, stride, keep, hang);
            Box::new(move || kept.round())
        }
        Kind::Bandwidth { way, bytes } => memory::bandwidth(way, bytes)?,
        Kind::Cache { size } => memory::cache(size)?,
        Kind::Tlb { threads } => memory::shootdown(threads)?,
        Kind::Io => Box::new(|| {
            rustix::fs::sync();
            Ok(())
        }),
        Kind::Hdd { bytes } => kernel::file(bytes, false),
        Kind::PageCache { bytes } => kernel::file(bytes, true),
        Kind::Fork => Box::new(crate::process::fork_and_reap),
        Kind::Net => kernel::loopback()?,
        Kind::Timers { count } => kernel::timers(count)?,
        Kind::Ipi => kernel::wake_each_other()?,
    })
}

/// Square roots for a part of the period; the rest is slept.
fn busy(percent: u8) {
    let begun = Instant::now();
    let end = DUTY * u32::from(percent) / 100;
    let mut value = 2.0f64;
    while begun.elapsed() < end {
        for _ in 0..1_000 {
            value = black_box(value + 1.0).sqrt() + 1.0;
        }
    }
    black_box(value);
    if percent < 100 {
        thread::sleep(DUTY.saturating_sub(begun.elapsed()));
    }
}
