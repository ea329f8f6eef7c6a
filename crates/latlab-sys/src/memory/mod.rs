//! The memory of this machine as a [`Meter`]: areas of ordinary and of huge pages, and a clock.

pub mod area;
pub mod beside;
pub mod chase;
pub mod declared;

use crate::{clock, signal};
use area::Area;
use latlab_core::memory::clock as core_clock;
use latlab_core::memory::{Limits, Meter, MeterError, Pages};
use latlab_core::units::CpuId;
use std::io;

/// Loads that warm up at the most: a round of 38 MiB in lines of 64 bytes.
const WARM_MAX: usize = 600_000;
/// Loads that warm up at the least: rounds of a small ring, until its sets have settled.
const WARM_MIN: usize = 8_192;
/// Batches of reading in order; the second fastest is taken.
const BATCHES: usize = 5;
/// Batches of one figure, at the least and at the most; the shortest is taken: others only ever add.
const BATCHES_LEAST: u64 = 3;
const BATCHES_MOST: u64 = 12;
/// A batch goes round the whole ring where that takes no longer than this, ns: parts of it differ.
const ROUND_NS: f64 = 4e6;

/// Smallest area of arrays that is tried, bytes: with less nothing can be told.
pub const LEAST: usize = 4 << 20;
/// Computing before anything is measured, and until the clock has come to rest at the most, ns.
const SPIN_NS: u64 = 50_000_000;
const SETTLE_NS: u64 = 600_000_000;
/// Steps of the arithmetic by which the clock is watched: some ten thousand cycles.
const STEPS: u32 = 2_000;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Largest array, bytes.
    pub bytes: usize,
    /// Look for huge pages.
    pub huge: bool,
    /// Time for everything, ns.
    pub budget_ns: u64,
    /// Time of one batch, ns.
    pub batch_ns: u64,
    /// CPU to which this process was bound; measuring ends when it runs elsewhere.
    pub cpu: Option<CpuId>,
}

/// What is told to whoever watches: words, and the share of the time that is over.
pub type Watch<'a> = Box<dyn FnMut(&str, f64) + 'a>;

/// This machine.
pub struct Host<'a> {
    base: Area,
    huge: Option<Area>,
    limits: Limits,
    settings: Settings,
    begun_ns: u64,
    stage: String,
    watch: Watch<'a>,
    /// Times of one piece of arithmetic, ns, in the order in which they were taken.
    readings: Vec<f64>,
    notes: Vec<String>,
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl<'a> Host<'a> {
    /// Maps and touches the memory; halves what it asks for until it gets it.
    ///
    /// # Errors
    /// When there are not even 4 MiB.
    pub fn new(settings: Settings, watch: Watch<'a>) -> io::Result<Self> {
        let huge_page = area::huge_page_bytes().filter(|_| settings.huge);
        let wanted = settings.bytes.clamp(LEAST, 1 << 31) & !((1 << 20) - 1);
        let mut bytes = wanted;
        let base = loop {
            match Area::new(bytes, Pages::Base, huge_page.unwrap_or(1)) {
                Ok(area) => break area,
                Err(_) if bytes > LEAST => bytes = (bytes / 2).max(LEAST),
                Err(error) => return Err(error),
            }
        };
        let mut notes = Vec::new();
        if bytes < wanted {
            notes.push(format!(
                "of {} MiB for arrays the system gave {}: what only shows in larger ones was not seen",
                wanted >> 20,
                bytes >> 20
            ));
        }
        let huge = huge_page.and_then(|page| huge_area(bytes, page));
        let got = huge.as_ref().map_or(0, Area::bytes);
        if let Some(page) = huge_page.filter(|page| got < bytes / page * page) {
            let had = if got == 0 { "none were".into() } else { format!("{} MiB were", got >> 20) };
            notes.push(format!(
                "of {} MiB in huge pages of {} KiB {had} to be had",
                bytes >> 20,
                page >> 10
            ));
        }
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let limits = Limits {
            page_bytes: number(rustix::param::page_size()),
            base_bytes: number(base.bytes()),
            huge_bytes: huge.as_ref().map_or(0, |a| number(a.bytes())),
            huge_page_bytes: huge.as_ref().and(huge_page).map_or(0, number),
        };
        let begun_ns = clock::now().0;
        let mut readings = Vec::new();
        spin(SPIN_NS);
        while !core_clock::settled(&readings) && clock::now().0 - begun_ns < SETTLE_NS {
            spin(SPIN_NS / 5);
            readings.push(arithmetic());
        }
        let stage = String::new();
        readings.clear();
        Ok(Self { base, huge, limits, settings, begun_ns, stage, watch, readings, notes })
    }

    /// What went otherwise than asked for, in sentences.
    pub fn notes(&self) -> Vec<String> {
        let changed = core_clock::changed(&self.readings).map(|(slow, quick)| {
            format!(
                "the processor took up to {:.0}% longer for the same arithmetic at times (its clock changed, or somebody used the same core): not all times are of one clock",
                (slow / quick - 1.0) * 100.0
            )
        });
        self.notes.iter().cloned().chain(changed).collect()
    }

    fn check(&mut self) -> Result<(), MeterError> {
        if signal::stop_requested().is_some() {
            return Err(MeterError::Stopped);
        }
        let over = self.over();
        (self.watch)(&self.stage, over);
        if over > 1.0 {
            return Err(MeterError::OutOfTime);
        }
        if let Some(cpu) = self.settings.cpu
            && rustix::thread::sched_getcpu() != cpu.0 as usize
        {
            return Err(MeterError::Machine(format!(
                "CPU {cpu} was taken away from this process (the CPU went offline, or somebody changed the affinity)"
            )));
        }
        self.readings.push(arithmetic());
        Ok(())
    }

    fn area(&mut self, pages: Pages) -> Result<&mut Area, MeterError> {
        match pages {
            Pages::Base => Ok(&mut self.base),
            Pages::Huge => self
                .huge
                .as_mut()
                .ok_or_else(|| MeterError::Machine("there are no huge pages".into())),
        }
    }
}

/// An area of huge pages, half as large as long as the kernel gives fewer than nine in ten; `None`
/// where it does not give one.
fn huge_area(bytes: usize, page: usize) -> Option<Area> {
    let mut bytes = bytes / page * page;
    while bytes >= page.max(1) {
        let before = area::huge_bytes_in_use()?;
        let area = Area::new(bytes, Pages::Huge, page).ok()?;
        let got = area::huge_bytes_in_use()?.saturating_sub(before);
        if got >= bytes as u64 / 10 * 9 {
            return Some(area);
        }
        bytes = bytes / 2 / page * page;
    }
    None
}

/// The same short piece of arithmetic each time, of which each step needs the one before: its time is
/// that of so many cycles, ns.
fn arithmetic() -> f64 {
    let mut x = std::hint::black_box(0x9E37_79B9_u32);
    let start = clock::now().0;
    for _ in 0..STEPS {
        x = (x ^ (x >> 7)).wrapping_mul(0x85EB_CA6B);
    }
    std::hint::black_box(x);
    (clock::now().0 - start) as f64
}

/// Computes for a while, so that the clock of the processor rises before anything is measured.
fn spin(ns: u64) {
    let end = clock::now().0 + ns;
    while clock::now().0 < end {
        std::hint::spin_loop();
    }
}

fn no_room() -> MeterError {
    MeterError::Machine("an array reaches past its area".into())
}

/// Times `run(loads)` in batches for about five times `batch_ns`; the shortest, ns a load. `round`:
/// loads of the whole ring.
///
/// What disturbs a shared machine mostly lasts for less than half a millisecond, so that some of
/// many short batches is free of it where few long ones are not.
fn timed(batch_ns: u64, round: usize, mut run: impl FnMut(usize) -> usize) -> f64 {
    let start = clock::now().0;
    let done = run(round.clamp(WARM_MIN, WARM_MAX));
    let each = (clock::now().0 - start).max(1) as f64 / done.max(1) as f64;
    let whole = (round as f64).min(ROUND_NS / each);
    let loads = (batch_ns as f64 / 2.0 / each).max(whole).clamp(256.0, 4e6) as usize;
    let of_one = (loads as f64 * each).max(1.0) as u64;
    let batches = (batch_ns * 5 / of_one).clamp(BATCHES_LEAST, BATCHES_MOST);
    let mut least = f64::INFINITY;
    for _ in 0..batches {
        let start = clock::now().0;
        let done = run(loads);
        least = least.min((clock::now().0 - start) as f64 / done.max(1) as f64);
    }
    least
}

impl Meter for Host<'_> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn chase(&mut self, pages: Pages, cycle: &[u32]) -> Result<f64, MeterError> {
        self.check()?;
        let batch_ns = self.settings.batch_ns;
        let mut ring = chase::link(self.area(pages)?, cycle).ok_or_else(no_room)?;
        Ok(timed(batch_ns, ring.length(), |loads| ring.run(loads)))
    }

    fn chains(&mut self, pages: Pages, cycles: &[Vec<u32>]) -> Result<Option<f64>, MeterError> {
        self.check()?;
        let batch_ns = self.settings.batch_ns * 4;
        let count = cycles.len().max(1);
        let longest = cycles.iter().map(Vec::len).max().unwrap_or(0);
        let mut rings = chase::link_many(self.area(pages)?, cycles).ok_or_else(no_room)?;
        let each = timed(batch_ns, longest, |steps| {
            rings.run(steps);
            steps
        });
        Ok(Some(each / count as f64))
    }

    fn stage(&mut self, words: &str) {
        words.clone_into(&mut self.stage);
    }

    fn over(&self) -> f64 {
        (clock::now().0 - self.begun_ns) as f64 / self.settings.budget_ns.max(1) as f64
    }
}

/// `a[i] *= a[i]` over `bytes` of an array in steps of `stride` bytes: ns an element.
///
/// # Errors
/// When there is not so much memory.
pub fn multiply(bytes: usize, strides: &[usize]) -> io::Result<Vec<(usize, f64)>> {
    let mut area = Area::new(bytes, Pages::Base, 1)?;
    let words = area.ints();
    let sweep = |stride: usize, words: &mut [u32]| {
        let step = (stride / size_of::<u32>()).max(1);
        let start = clock::now().0;
        for w in words.iter_mut().step_by(step) {
            *w = w.wrapping_mul(*w);
        }
        std::hint::black_box(&mut *words);
        (clock::now().0 - start) as f64 / words.len().div_ceil(step) as f64
    };
    // The shorter of two: an interrupt makes a sweep longer, nothing makes it shorter.
    Ok(strides.iter().map(|&s| (s, sweep(s, words).min(sweep(s, words)))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(budget_ns: u64) -> Host<'static> {
        let settings =
            Settings { bytes: 4 << 20, huge: false, budget_ns, batch_ns: 10_000, cpu: None };
        Host::new(settings, Box::new(|_, _| {})).unwrap()
    }

    #[test]
    fn a_chase_takes_time_and_a_wrong_one_is_refused() {
        let mut host = host(60_000_000_000);
        assert!(host.limits().base_bytes >= 4 << 20 && host.limits().huge_bytes == 0);
        let cycle: Vec<u32> = (0..256).map(|i| i * 64).collect();
        assert!(host.chase(Pages::Base, &cycle).unwrap() > 0.0);
        let together = host.chains(Pages::Base, &[cycle.clone(), vec![65536, 65600]]).unwrap();
        assert!(together.unwrap() > 0.0);
        assert!(matches!(host.chase(Pages::Base, &[u32::MAX - 7]), Err(MeterError::Machine(_))));
        assert!(matches!(host.chase(Pages::Huge, &cycle), Err(MeterError::Machine(_))));
    }

    #[test]
    fn the_time_ends() {
        assert_eq!(host(0).chase(Pages::Base, &[0, 64]), Err(MeterError::OutOfTime));
    }

    #[test]
    fn every_stride_is_swept() {
        let swept = multiply(1 << 16, &[4, 64, 4096]).unwrap();
        assert_eq!(swept.iter().map(|s| s.0).collect::<Vec<_>>(), [4, 64, 4096]);
        assert!(swept.iter().all(|s| s.1 > 0.0));
    }
}
