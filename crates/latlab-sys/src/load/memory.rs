//! Loads of memory: allocation as `stress` does it, bandwidth, caches, TLB shootdowns.

use super::spec::Way;
use super::work::Work;
use crate::files::Root;
use crate::memory::area::Area;
use crate::{machine, policy};
use latlab_model::cache::detail::Pages;
use std::hint::black_box;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

fn differs(what: &str, at: usize) -> io::Error {
    io::Error::other(format!(
        "{what}: byte {at} is not what was written: memory or its path is faulty"
    ))
}

/// `stress --vm`: allocate, write a `Z` every stride, check, hang, free (or keep), again.
pub struct Vm {
    bytes: usize,
    stride: usize,
    keep: bool,
    hang: Option<Duration>,
    kept: Vec<u8>,
}

impl Vm {
    pub fn new(bytes: usize, stride: usize, keep: bool, hang: Option<Duration>) -> Self {
        Self { bytes, stride, keep, hang, kept: Vec::new() }
    }

    pub fn round(&mut self) -> io::Result<()> {
        let mut memory = std::mem::take(&mut self.kept);
        if memory.try_reserve_exact(self.bytes).is_err() {
            // As stress: memory that cannot be had is asked for again.
            thread::sleep(Duration::from_millis(1));
            return Ok(());
        }
        touch(&mut memory, self.bytes, self.stride)?;
        match self.hang {
            Some(Duration::ZERO) => thread::sleep(Duration::from_secs(1 << 30)),
            Some(time) => thread::sleep(time),
            None => {}
        }
        if self.keep {
            self.kept = memory;
        }
        Ok(())
    }
}

fn touch(memory: &mut Vec<u8>, bytes: usize, stride: usize) -> io::Result<()> {
    // Spare capacity, not zeroes: each page must be faulted in by the touch itself.
    let slots = black_box(&mut memory.spare_capacity_mut()[..bytes]);
    for slot in slots.iter_mut().step_by(stride) {
        slot.write(b'Z');
    }
    let slots = black_box(slots);
    // SAFETY: exactly the slots of this stride were written above.
    let read = |slot: &MaybeUninit<u8>| unsafe { slot.assume_init() };
    match slots.iter().step_by(stride).position(|slot| read(slot) != b'Z') {
        Some(at) => Err(differs("vm", at * stride)),
        None => Ok(()),
    }
}

/// A whole array, read, written, copied or streamed each round; what was written is checked in passing.
pub fn bandwidth(way: Way, bytes: usize) -> io::Result<Box<dyn Work>> {
    use crate::probe::bandwidth::streaming;
    let words = (bytes / 8).max(64);
    let mut to = array(words)?;
    let from = if way == Way::Copy { array(words)? } else { Vec::new() };
    let mut value = 1u64;
    Ok(Box::new(move || {
        match way {
            Way::Read => {
                let sum = to.iter().fold(0u64, |sum, &w| sum ^ w);
                if black_box(sum) != 0 {
                    return Err(differs("bandwidth", 0));
                }
                return Ok(());
            }
            Way::Write => {
                value = value.wrapping_add(1);
                to.fill(black_box(value));
            }
            Way::Copy => to.copy_from_slice(black_box(&from)),
            Way::Stream if streaming::KNOWN => streaming::fill(&mut to),
            Way::Stream => to.fill(black_box(7)),
        }
        let (first, last) = (to[0], to[to.len() - 1]);
        if first == last { Ok(()) } else { Err(differs("bandwidth", to.len() * 8 - 8)) }
    }))
}

/// Zeroed words whose pages are there; without an abort when there is no memory.
fn array(words: usize) -> io::Result<Vec<u64>> {
    let mut v = Vec::new();
    v.try_reserve_exact(words).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    v.resize(words, black_box(0));
    Ok(v)
}

/// As much as a cache holds, a word of each line read and written in an order without a pattern.
/// Each word holds how often it was visited, which is checked.
pub fn cache(size: usize) -> io::Result<Box<dyn Work>> {
    let bytes = match size {
        level @ 1..=9 => level_bytes(level as u32)?,
        bytes => bytes,
    };
    const WORDS: usize = 8;
    let lines = (bytes / 64).next_power_of_two().max(64);
    let mut memory = array(lines * WORDS)?;
    let mut visits = 0u64;
    Ok(Box::new(move || {
        // A linear congruential step over a power of two visits every line once (Hull and Dobell, 1962).
        let mut at = 0usize;
        for _ in 0..lines {
            at = (at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)) & (lines - 1);
            let word = &mut memory[at * WORDS];
            if *word != visits {
                return Err(differs("cache", at * 64));
            }
            *word += 1;
        }
        visits += 1;
        Ok(())
    }))
}

/// Size of a data or unified cache of CPU 0 as the kernel declares it.
fn level_bytes(level: u32) -> io::Result<usize> {
    let caches = machine::declared_caches(&Root::here());
    let found = caches.iter().find(|c| c.level == level && c.kind != "Instruction");
    let bytes = found.and_then(|c| usize::try_from(c.size_bytes).ok()).filter(|b| *b > 0);
    bytes.ok_or_else(|| {
        io::Error::other(format!(
            "this kernel declares no L{level} cache: give its size (cache:256K)"
        ))
    })
}

/// Threads on as many CPUs as there are, each mapping, touching and unmapping pages: the kernel has to
/// interrupt the CPUs of the others each time.
pub fn shootdown(threads: usize) -> io::Result<Box<dyn Work>> {
    let cpus = policy::allowed()?;
    let failed: &'static Mutex<Option<io::Error>> = Box::leak(Box::new(Mutex::new(None)));
    for i in 1..threads {
        let cpu = cpus[i % cpus.len()];
        thread::Builder::new().name("load".into()).spawn(move || {
            let _ = policy::bind(&[cpu]);
            loop {
                if let Err(e) = map_and_unmap() {
                    if let Ok(mut f) = failed.lock() {
                        *f = Some(e);
                    }
                    return;
                }
            }
        })?;
    }
    Ok(Box::new(move || {
        let error = failed.lock().ok().and_then(|mut f| f.take());
        error.map_or_else(map_and_unmap, Err)
    }))
}

fn map_and_unmap() -> io::Result<()> {
    const BYTES: usize = 64 * 4096;
    const WORDS: usize = 4096 / size_of::<usize>();
    let mut area = Area::new(BYTES, Pages::Base, 1)?;
    area.words().chunks_mut(WORDS).for_each(|page| page[0] = 90);
    if let Some(page) = black_box(area.words()).chunks(WORDS).position(|page| page[0] != 90) {
        return Err(differs("tlb", page * 4096));
    }
    area.protect_and_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_works_and_finds_its_data_again() {
        let mut keep = Vm::new(1 << 16, 64, true, None);
        keep.round().unwrap();
        let place = keep.kept.as_ptr();
        keep.round().unwrap();
        assert_eq!(keep.kept.as_ptr(), place, "kept memory is not allocated again");
        for way in [Way::Read, Way::Write, Way::Copy, Way::Stream] {
            let mut work = bandwidth(way, 1 << 16).unwrap();
            work.round().and_then(|()| work.round()).unwrap();
        }
        let mut work = cache(1 << 15).unwrap();
        work.round().and_then(|()| work.round()).unwrap();
        let mut work = shootdown(1).unwrap();
        work.round().and_then(|()| work.round()).unwrap();
    }

    #[test]
    fn a_byte_that_is_not_what_was_written_is_said() {
        assert!(differs("vm", 4096).to_string().contains("byte 4096"));
    }
}
