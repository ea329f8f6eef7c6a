//! The memory of this machine as a [`LoadTimer`]: areas of base and of huge pages, and a clock.

pub mod area;
pub mod beside;
pub mod chase;
#[cfg(any(test, target_arch = "x86_64"))]
mod cpuid;
pub mod loops;
pub mod reported;

use crate::{clock, signal};
use area::Area;
use latlab_model::cache::detail::Pages;
use latlab_model::cache::request::{Limits, Request};
use latlab_model::cache::timer::{LoadTimer, Stage, TimerError};
use latlab_model::finding::{Note, Quantity};
use latlab_model::units::CpuId;
use latlab_stats::steady;
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

/// Progress: the stage, and the share of the time that is over.
pub type Watch<'a> = Box<dyn FnMut(Stage, f64) + 'a>;

/// This machine.
pub struct Host<'a> {
    base: Area,
    huge: Option<Area>,
    limits: Limits,
    settings: Settings,
    begun_ns: u64,
    watch: Watch<'a>,
    /// Times of one piece of arithmetic, ns, in the order in which they were taken.
    readings: Vec<f64>,
    notes: Vec<Note>,
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
            notes.push(
                Note::new("cache.less-memory")
                    .value("wanted", Quantity::Bytes(wanted as u64))
                    .value("available", Quantity::Bytes(bytes as u64)),
            );
        }
        let huge = huge_page.and_then(|page| huge_area(bytes, page));
        let got = huge.as_ref().map_or(0, Area::bytes);
        if let Some(page) = huge_page.filter(|page| got < bytes / page * page) {
            notes.push(
                Note::new("cache.fewer-huge-pages")
                    .value("wanted", Quantity::Bytes(bytes as u64))
                    .value("page", Quantity::Bytes(page as u64))
                    .value("available", Quantity::Bytes(got as u64)),
            );
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
        while !steady::settled(&readings) && clock::now().0 - begun_ns < SETTLE_NS {
            spin(SPIN_NS / 5);
            readings.push(arithmetic());
        }
        readings.clear();
        Ok(Self { base, huge, limits, settings, begun_ns, watch, readings, notes })
    }

    /// Differences from the settings: less memory, fewer huge pages, a clock that changed.
    pub fn notes(&self) -> Vec<Note> {
        let changed = steady::changed(&self.readings).map(|(slow, quick)| {
            Note::new("cache.clock-changed").value("longer", Quantity::Ratio(slow / quick - 1.0))
        });
        self.notes.iter().cloned().chain(changed).collect()
    }

    fn check(&mut self, stage: Stage) -> Result<(), TimerError> {
        if signal::stop_requested().is_some() {
            return Err(TimerError::Stopped);
        }
        let elapsed = (clock::now().0 - self.begun_ns) as f64;
        let over = elapsed / self.settings.budget_ns.max(1) as f64;
        (self.watch)(stage, over);
        if over > 1.0 {
            return Err(TimerError::OutOfTime);
        }
        if let Some(cpu) = self.settings.cpu
            && rustix::thread::sched_getcpu() != cpu.0 as usize
        {
            return Err(TimerError::CpuLost(cpu.0));
        }
        self.readings.push(arithmetic());
        Ok(())
    }

    fn area(&mut self, pages: Pages) -> Result<&mut Area, TimerError> {
        match pages {
            Pages::Base => Ok(&mut self.base),
            Pages::Huge => self.huge.as_mut().ok_or(TimerError::NoHugePages),
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

impl LoadTimer for Host<'_> {
    fn time(&mut self, request: &Request, stage: Stage) -> Result<Option<f64>, TimerError> {
        self.check(stage)?;
        let cycles = request.cycles(&self.limits);
        let batch_ns = self.settings.batch_ns;
        let area = self.area(request.pages)?;
        if let [cycle] = &cycles[..] {
            let mut ring = chase::link(area, cycle).ok_or(TimerError::OutOfArea)?;
            return Ok(Some(timed(batch_ns, ring.length(), |loads| ring.run(loads))));
        }
        let longest = cycles.iter().map(Vec::len).max().unwrap_or(0);
        let mut rings = chase::link_many(area, &cycles).ok_or(TimerError::OutOfArea)?;
        let each = timed(batch_ns * 4, longest, |steps| {
            rings.run(steps);
            steps
        });
        Ok(Some(each / cycles.len().max(1) as f64))
    }
}

impl Host<'_> {
    /// What this machine offers.
    pub fn limits(&self) -> Limits {
        self.limits
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
        multiplied(words, step);
        (clock::now().0 - start) as f64 / words.len().div_ceil(step) as f64
    };
    // The shorter of two: an interrupt makes a sweep longer, nothing makes it shorter.
    Ok(strides.iter().map(|&s| (s, sweep(s, words).min(sweep(s, words)))).collect())
}

/// `a[i] *= a[i]` for each `step`th element.
fn multiplied(words: &mut [u32], step: usize) {
    for w in words.iter_mut().step_by(step) {
        *w = w.wrapping_mul(*w);
    }
    std::hint::black_box(words);
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::cache::request::Work;

    fn host(budget_ns: u64) -> Host<'static> {
        let settings =
            Settings { bytes: 4 << 20, huge: false, budget_ns, batch_ns: 10_000, cpu: None };
        Host::new(settings, Box::new(|_, _| {})).unwrap()
    }

    fn request(pages: Pages, work: Work, start: u32) -> Request {
        Request { pages, work, start, seed: 1 }
    }

    #[test]
    fn a_pointer_chase_takes_time_and_a_wrong_one_is_refused() {
        let mut host = host(60_000_000_000);
        assert!(host.limits().base_bytes >= 4 << 20 && host.limits().huge_bytes == 0);
        let work = Work::SameSet { stride: 64, spread: 0, count: 256 };
        let chains = Work::Chains { chains: 2, stride: 64, bytes: 16384 };
        let mut time = |pages, work, start| host.time(&request(pages, work, start), Stage::Coarse);
        assert!(time(Pages::Base, work, 0).unwrap().unwrap() > 0.0);
        assert!(time(Pages::Base, chains, 0).unwrap().unwrap() > 0.0);
        assert!(matches!(time(Pages::Base, work, 1 << 30), Err(TimerError::OutOfArea)));
        assert!(matches!(time(Pages::Huge, work, 0), Err(TimerError::NoHugePages)));
    }

    #[test]
    fn the_time_ends() {
        let work = Work::SameSet { stride: 64, spread: 0, count: 2 };
        let over = host(0).time(&request(Pages::Base, work, 0), Stage::Coarse);
        assert_eq!(over, Err(TimerError::OutOfTime));
    }

    #[test]
    fn every_stride_is_swept() {
        let swept = multiply(1 << 16, &[4, 64, 4096]).unwrap();
        assert_eq!(swept.iter().map(|s| s.0).collect::<Vec<_>>(), [4, 64, 4096]);
        assert!(swept.iter().all(|s| s.1 > 0.0));
    }
}
