//! A machine that is known: caches, TLBs and page placement, with a noisy clock.
//!
//! Latency is the sum of the hit that serves a load and what its translation costs; there is no
//! prefetcher and no overlap, since the loads depend on one another.

pub mod catalog;
pub mod score;
pub mod tags;

use latlab_model::cache::detail::Pages;
use latlab_model::cache::request::{Limits, Request};
use latlab_model::cache::timer::{LoadTimer, Stage, TimerError};
use latlab_stats::rng::SplitMix64;
use tags::{Policy, Tags};

/// How an outer cache relates to the inner ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Filled by each miss; what it gives up stays further in.
    Plain,
    /// What it gives up is taken from the inner ones, too.
    Inclusive,
    /// Holds what the inner one gave up, and nothing that the inner one has.
    Exclusive,
}

/// One cache of a hierarchy.
#[derive(Clone, Copy, Debug)]
pub struct CacheSpec {
    /// Size in bytes.
    pub bytes: u32,
    /// Ways.
    pub ways: u32,
    /// Latency of a hit, ns.
    pub ns: f64,
    /// Replacement.
    pub policy: Policy,
    /// Relation to the inner ones.
    pub fill: Fill,
    /// Sets chosen by a hash.
    pub hashed: bool,
}

/// One TLB.
#[derive(Clone, Copy, Debug)]
pub struct TlbSpec {
    /// Entries.
    pub entries: u32,
    /// Ways.
    pub ways: u32,
    /// Cost of a miss in it, ns.
    pub miss_ns: f64,
}

/// What the inference has no model of, beside replacement policies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hostile {
    /// Share of the hits in the first cache whose way was predicted wrongly.
    pub way_misses: f64,
    /// Each line that misses in the first cache brings its neighbour (of a pair) into the second, as a spatial
    /// prefetcher does.
    pub pairs: bool,
    /// Lines that a neighbour on another core puts into the last cache, per load.
    pub neighbour: f64,
    /// Pages of code, stack and kernel that use the TLBs, too.
    pub other_pages: u32,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    /// Name.
    pub name: &'static str,
    /// Line in bytes, of all caches.
    pub line: u32,
    /// Caches, from the processor outwards.
    pub caches: Vec<CacheSpec>,
    /// Lines of a fully associative victim buffer behind the first cache; 0 for none.
    pub victim_lines: u32,
    /// TLBs, from the processor outwards.
    pub tlbs: Vec<TlbSpec>,
    /// Latency of memory, ns.
    pub memory_ns: f64,
    /// Huge pages of 2 MiB are available.
    pub huge: bool,
    /// The hypervisor backs huge pages with base pages: translated and placed 4 KiB at a time.
    pub splintered: bool,
    /// Standard deviation of a batch, share.
    pub noise: f64,
    /// Share of batches that something else disturbed.
    pub outliers: f64,
    /// What the inference has no model of.
    pub hostile: Hostile,
}

const PAGE: u32 = 4096;
const HUGE: u32 = 2 << 20;

/// A machine that is being measured.
#[derive(Debug)]
pub struct Simulated {
    spec: Hierarchy,
    limit: u32,
    frames: Vec<u32>,
    huge_frames: Vec<u32>,
    caches: Vec<Tags>,
    victims: Option<Tags>,
    tlbs: Vec<Tags>,
    rng: SplitMix64,
    /// Loads that were simulated.
    pub loads: u64,
}

impl Simulated {
    /// The machine with up to `limit` bytes for arrays; its pages lie at random.
    pub fn new(spec: Hierarchy, limit: u32, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let pages = limit / PAGE;
        // Twice the memory, so that neighbours in an array are rarely neighbours in memory.
        let mut frames: Vec<u32> = (0..pages * 2).collect();
        rng.shuffle(&mut frames);
        frames.truncate(pages as usize);
        let mut huge_frames: Vec<u32> =
            (0..(limit / HUGE) * 2).map(|i| pages * 2 / 512 + i).collect();
        rng.shuffle(&mut huge_frames);
        let mut sim = Self {
            spec,
            limit,
            frames,
            huge_frames,
            caches: vec![],
            victims: None,
            tlbs: vec![],
            rng,
            loads: 0,
        };
        sim.flush();
        sim
    }

    fn flush(&mut self) {
        let line = self.spec.line;
        let tags = |c: &CacheSpec| {
            Tags::new((c.bytes / line / c.ways) as usize, c.ways as usize, c.policy, c.hashed)
        };
        self.caches = self.spec.caches.iter().map(tags).collect();
        self.victims = (self.spec.victim_lines > 0)
            .then(|| Tags::new(1, self.spec.victim_lines as usize, Policy::Lru, false));
        let tlb = |t: &TlbSpec| {
            Tags::new((t.entries / t.ways) as usize, t.ways as usize, Policy::Lru, false)
        };
        self.tlbs = self.spec.tlbs.iter().map(tlb).collect();
    }

    fn physical_line(&self, pages: Pages, offset: u32) -> u32 {
        let lines_per_page = PAGE / self.spec.line;
        let frame = match pages {
            Pages::Base => self.frames[(offset / PAGE) as usize],
            Pages::Huge if self.spec.splintered => {
                self.frames[self.frames.len() - 1 - (offset / PAGE) as usize]
            }
            Pages::Huge => {
                self.huge_frames[(offset / HUGE) as usize] * (HUGE / PAGE) + offset % HUGE / PAGE
            }
        };
        frame * lines_per_page + offset % PAGE / self.spec.line
    }

    fn load(&mut self, pages: Pages, offset: u32) -> f64 {
        let page = match pages {
            Pages::Base => offset / PAGE,
            Pages::Huge if self.spec.splintered => (1 << 24) + offset / PAGE,
            Pages::Huge => (1 << 24) + offset / HUGE,
        };
        let line = self.physical_line(pages, offset);
        self.loads += 1;
        self.others();
        self.translate(page) + self.fetch(line)
    }

    fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && (self.rng.below(1 << 24) as f64) < share * f64::from(1 << 24)
    }

    /// What others do between two loads: one of their pages for every eight loads, and lines of a neighbour.
    fn others(&mut self) {
        let hostile = self.spec.hostile;
        if hostile.other_pages > 0 && self.loads.is_multiple_of(8) {
            let page = (1 << 28) + self.rng.below(hostile.other_pages as usize) as u32;
            self.translate(page);
        }
        if self.chance(hostile.neighbour) {
            // Far from the lines of the array, in any set.
            let line = (1 << 30) + self.rng.below(1 << 22) as u32;
            let last = self.caches.len().saturating_sub(1);
            if last > 0 && !self.caches[last].touch(line) {
                self.put(last, line);
            }
        }
    }

    fn translate(&mut self, page: u32) -> f64 {
        let mut cost = 0.0;
        for (tlb, spec) in self.tlbs.iter_mut().zip(&self.spec.tlbs) {
            if tlb.touch(page) {
                break;
            }
            tlb.insert(page);
            cost += spec.miss_ns;
        }
        cost
    }

    fn fetch(&mut self, line: u32) -> f64 {
        if self.caches.is_empty() {
            return self.spec.memory_ns;
        }
        if self.caches[0].touch(line) {
            let again = if self.chance(self.spec.hostile.way_misses) { 2.0 } else { 1.0 };
            return self.spec.caches[0].ns * again;
        }
        if self.spec.hostile.pairs && self.caches.len() > 1 && !self.caches[1].touch(line ^ 1) {
            self.put(1, line ^ 1);
        }
        if self.victims.as_mut().is_some_and(|v| v.remove(line)) {
            self.put(0, line);
            return self.spec.caches[0].ns * 1.5;
        }
        let hit = (1..self.caches.len()).find(|&i| self.caches[i].touch(line));
        let outermost = hit.unwrap_or(self.caches.len());
        if let Some(i) = hit.filter(|&i| self.spec.caches[i].fill == Fill::Exclusive) {
            self.caches[i].remove(line);
        }
        for i in (0..outermost).rev() {
            if i == 0 || self.spec.caches[i].fill != Fill::Exclusive {
                self.put(i, line);
            }
        }
        hit.map_or(self.spec.memory_ns, |i| self.spec.caches[i].ns)
    }

    /// Puts a line into cache `i`, and sees to what that one gives up.
    fn put(&mut self, i: usize, line: u32) {
        let Some(gone) = self.caches[i].insert(line) else { return };
        if i == 0 && self.victims.is_some() {
            let pushed = self.victims.as_mut().and_then(|v| v.insert(gone));
            if let Some(pushed) = pushed {
                self.hand_on(0, pushed);
            }
            return;
        }
        if self.spec.caches[i].fill == Fill::Inclusive {
            for inner in &mut self.caches[..i] {
                inner.remove(gone);
            }
        }
        self.hand_on(i, gone);
    }

    fn hand_on(&mut self, i: usize, gone: u32) {
        if self.spec.caches.get(i + 1).is_some_and(|c| c.fill == Fill::Exclusive)
            && !self.caches[i + 1].touch(gone)
        {
            self.put(i + 1, gone);
        }
    }

    /// A disturbed value: normal noise round `ns`, and now and then an outlier upwards.
    fn disturbed(&mut self, ns: f64) -> f64 {
        let mut uniform = || self.rng.below(1 << 24) as f64 / f64::from(1 << 24);
        let gauss = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let hit = uniform() < self.spec.outliers;
        let factor = if hit { 1.2 + 3.0 * uniform() } else { 1.0 };
        ns * (1.0 + self.spec.noise * gauss).max(0.5) * factor
    }
}

impl Simulated {
    /// What the machine offers.
    pub fn limits(&self) -> Limits {
        let huge = if self.spec.huge { self.limit / HUGE * HUGE } else { 0 };
        Limits {
            page_bytes: PAGE,
            base_bytes: self.limit,
            huge_bytes: huge,
            huge_page_bytes: if huge > 0 { HUGE } else { 0 },
        }
    }

    fn pointer_chase(&mut self, pages: Pages, cycle: &[u32]) -> f64 {
        // Small rings go round often, as on a machine: random replacement settles slowly.
        let n = cycle.len().max(1);
        let warm = ((1 << 17) / n).clamp(2, 8).max(((1 << 14) / n).min(64));
        let measured = (4096 / n).max(1);
        let mut sum = 0.0;
        for round in 0..warm + measured {
            for &offset in cycle {
                let ns = self.load(pages, offset);
                sum += if round < warm { 0.0 } else { ns };
            }
        }
        let ns = sum / (measured * n) as f64;
        let mut batches: Vec<f64> = (0..5).map(|_| self.disturbed(ns)).collect();
        batches.sort_unstable_by(f64::total_cmp);
        batches[1]
    }
}

impl LoadTimer for Simulated {
    fn time(&mut self, request: &Request, _: Stage) -> Result<Option<f64>, TimerError> {
        match &request.cycles(&self.limits())[..] {
            [cycle] => Ok(Some(self.pointer_chase(request.pages, cycle))),
            _ => Ok(None),
        }
    }
}
