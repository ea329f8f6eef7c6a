//! Loads that keep the kernel busy: files, the page cache, the network, timers, wake-ups across CPUs.

use super::work::Work;
use crate::policy;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Advice, Mode, OFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What is written at a time.
const BLOCK: usize = 1 << 20;

/// A file without a name is written in this directory, and goes with its last use; `again`: it is also synced,
/// dropped from the page cache, read and checked.
pub fn file(bytes: u64, again: bool) -> Box<dyn Work> {
    let block: Vec<u8> = (0..BLOCK).map(|i| (i % 251) as u8).collect();
    let mut back = vec![0u8; BLOCK];
    Box::new(move || {
        let mut file = nameless().map_err(|e| said("making a file in this directory", &e))?;
        let mut left = bytes;
        while left > 0 {
            let n = left.min(BLOCK as u64) as usize;
            file.write_all(&block[..n])
                .map_err(|e| said("writing a file in this directory", &e))?;
            left -= n as u64;
        }
        if !again {
            return Ok(());
        }
        file.sync_data()?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        file.seek(SeekFrom::Start(0))?;
        let mut left = bytes;
        while left > 0 {
            let n = left.min(BLOCK as u64) as usize;
            file.read_exact(&mut back[..n])?;
            if back[..n] != block[..n] {
                return Err(io::Error::other("a file does not hold what was written to it"));
            }
            left -= n as u64;
        }
        Ok(())
    })
}

fn said(what: &str, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{what}: {e}"))
}

/// A file that no directory names: by O_TMPFILE, or unlinked at once where the file system has no such thing.
fn nameless() -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(fd) = rustix::fs::open(".", flags, Mode::RUSR | Mode::WUSR) {
        return Ok(File::from(fd));
    }
    let name = format!(".latlab-load.{}", std::process::id());
    let file = File::options().read(true).write(true).create_new(true).open(&name)?;
    std::fs::remove_file(&name)?;
    Ok(file)
}

/// A connection with itself on the loopback: 16 KiB there and back.
pub fn loopback() -> io::Result<Box<dyn Work>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    thread::Builder::new().name("load".into()).spawn(move || {
        let mut buffer = vec![0u8; 16 << 10];
        while far.read_exact(&mut buffer).and_then(|()| far.write_all(&buffer)).is_ok() {}
    })?;
    let mut out = vec![0u8; 16 << 10];
    let mut back = out.clone();
    let mut n = 0u8;
    Ok(Box::new(move || {
        n = n.wrapping_add(1);
        out.fill(n);
        near.write_all(&out)?;
        near.read_exact(&mut back)?;
        if out == back {
            Ok(())
        } else {
            Err(io::Error::other("a connection did not bring back what was sent"))
        }
    }))
}

/// Timers that expire every millisecond, out of step with one another. A round is one expiry of each.
pub fn timers(count: usize) -> io::Result<Box<dyn Work>> {
    let mut all: Vec<OwnedFd> = Vec::with_capacity(count);
    for i in 0..count {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let period = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let first = Timespec {
            tv_sec: 0,
            tv_nsec: 1 + (i as i64 * 999_999 / count as i64) as rustix::fs::Nsecs,
        };
        timerfd_settime(
            &fd,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: period, it_value: first },
        )?;
        all.push(fd);
    }
    Ok(Box::new(move || {
        let mut seen = 0;
        while seen < all.len() {
            let mut fds: Vec<PollFd> =
                all.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
            poll(&mut fds, None)?;
            for (fd, ready) in all.iter().zip(&fds) {
                if ready.revents().contains(PollFlags::IN) {
                    let mut expiries = [0u8; 8];
                    rustix::io::read(fd, &mut expiries)?;
                    seen += 1;
                }
            }
        }
        Ok(())
    }))
}

/// Two threads, on two CPUs where there are two, that wake each other by futex. A round is a hundred wake-ups.
pub fn wake_each_other() -> io::Result<Box<dyn Work>> {
    let cpus = policy::allowed()?;
    let turn = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&turn);
    let us = thread::current();
    let other_cpu = cpus.last().copied();
    let other = thread::Builder::new().name("load".into()).spawn(move || {
        if let Some(cpu) = other_cpu {
            let _ = policy::bind(&[cpu]);
        }
        loop {
            while !theirs.swap(false, Ordering::AcqRel) {
                thread::park();
            }
            us.unpark();
        }
    })?;
    if cpus.len() > 1 {
        policy::bind(&cpus[..1])?;
    }
    let other = other.thread().clone();
    Ok(Box::new(move || {
        for _ in 0..100 {
            turn.store(true, Ordering::Release);
            other.unpark();
            // A wake-up that was meant for somebody else does no harm here.
            thread::park_timeout(Duration::from_millis(100));
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_does_a_round() {
        for mut work in
            [file(3 << 19, false), file(3 << 19, true), loopback().unwrap(), timers(3).unwrap()]
        {
            work.round().and_then(|()| work.round()).unwrap();
        }
    }
}
