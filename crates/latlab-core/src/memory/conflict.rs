//! Ways of a cache whose sets nobody can name: places that fight for one set are found by
//! measuring, not by address.
//!
//! One line in each of many pages, all at the same place in the page, surely crowds some set. Lines
//! are taken away, group by group, as long as something still misses. What remains when no line
//! can be spared is one set's ways and one line more: of any set that is not over-full every line
//! could go, and of two over-full ones all of one. Replacement does not matter: whatever a set gives
//! up, `a` ways cannot hold `a + 1` lines, so that each round misses at least once.
//!
//! Source: P. Vila, B. Köpf, J. F. Morales, "Theory and practice of finding eviction sets", IEEE
//! S&P 2019 (reduction by groups); A. Zeller, R. Hildebrandt, "Simplifying and isolating
//! failure-inducing input", TSE 28, 2002 (how the groups become smaller).

use super::MeterError;
use super::curve::Pages;
use super::explore::Explorer;

/// Misses in a round from which a set counts as over-full; one is the least that it can have.
const CONFLICT: f64 = 0.5;
/// Relative error of one timing, and how many of them a difference must be.
const TIMING: f64 = 0.012;
/// Lines that are tried at most to begin with.
const MOST_LINES: usize = 1_024;
/// Timings that one reduction may take.
const MOST_TIMINGS: u32 = 1_500;
/// Reductions at most.
const RUNS: usize = 5;
/// Share of all time in which reductions of one level begin; the last may take as much again.
const SHARE: f64 = 0.1;
/// Reductions that have to agree.
const AGREE: usize = 2;
/// Lines that each line of a conflict is replaced by, to see whether it matters.
const REPLACED: u32 = 12;
/// With so many of these it still misses: the line did not matter. A line from anywhere falls into the set
/// by chance, with two colours every other time, so that less says nothing.
const STILL: u32 = 10;

/// The step between two levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Level that is looked at, 0 for the first.
    pub(super) level: usize,
    /// Latency of a hit in the first cache, ns.
    pub(super) first: f64,
    /// Latency of a hit here, ns.
    pub(super) hit: f64,
    /// Latency of a miss, ns.
    pub(super) miss: f64,
    /// Bytes at which about half of all loads miss.
    pub(super) half: u64,
}

impl Explorer<'_> {
    /// Ways of a level: lines of a smallest conflict, less one. `None` when reductions disagree.
    ///
    /// Behind the second level all lines are chosen in the set of a smallest conflict of the level before:
    /// otherwise that one would hold them and this one never be asked.
    pub(super) fn ways_by_reduction(
        &mut self,
        pages: Pages,
        step: Step,
    ) -> Result<Option<(u32, Vec<u32>)>, MeterError> {
        let mut found: Vec<Vec<u32>> = Vec::new();
        let begun = self.meter.over();
        for run in 1..=if self.quick { RUNS.div_ceil(2) } else { RUNS } {
            if self.meter.over() > begun + SHARE {
                break;
            }
            let lines = self.crowd(pages, step)?;
            if let Some(set) = self.reduce(pages, lines, step, begun + 2.0 * SHARE)? {
                found.push(set);
            }
            // What is left over by mistake is larger, never smaller.
            let smallest = found.iter().min_by_key(|s| s.len()).cloned();
            let alike = |n: usize| found.iter().filter(|s| s.len() == n).count();
            // Where most fail, two that agree may do so by chance.
            let agree = |s: &Vec<u32>| alike(s.len()) >= AGREE.max(run.div_ceil(2));
            if let Some(set) = smallest.filter(agree) {
                return Ok(u32::try_from(set.len() - 1).ok().map(|ways| (ways, set)));
            }
        }
        Ok(None)
    }

    /// One line in each of so many pages that some set is over-full.
    fn crowd(&mut self, pages: Pages, step: Step) -> Result<Vec<u32>, MeterError> {
        let page = self.limits.page_bytes.max(1);
        let line = self.stride.max(1);
        let inside = self.rng.below((page / line).max(1) as usize) as u32 * line;
        let all = self.room(pages) / page;
        let mut places: Vec<u32> = (0..all).map(|p| p * page + inside).collect();
        self.rng.shuffle(&mut places);
        let wanted = (step.half * 3 / 2 / u64::from(page)).clamp(8, MOST_LINES as u64) as usize;
        if step.level < 2 {
            // Lines at one place in the page share few sets of a first cache: it cannot hold them.
            places.truncate(wanted);
            return Ok(places);
        }
        let Some(Some(inner)) = self.conflicts.get(step.level - 1).cloned() else {
            return Ok(Vec::new());
        };
        let before = self.detail.levels.get(step.level - 1).map_or(0, |l| l.bytes).max(1);
        let way = before as f64 / (inner.len() - 1).max(1) as f64;
        let lines = 1.3 * step.half as f64 / way;
        self.of_the_same_set(pages, &inner, &places, lines.clamp(24.0, 400.0) as usize)
    }

    /// Places that fall into the set of `inner`, a smallest conflict of the level before.
    fn of_the_same_set(
        &mut self,
        pages: Pages,
        inner: &[u32],
        places: &[u32],
        wanted: usize,
    ) -> Result<Vec<u32>, MeterError> {
        let Some(before) = self.steps.last().copied() else { return Ok(Vec::new()) };
        let page = self.limits.page_bytes.max(1);
        let full = &inner[1..];
        let inside = inner[0] % page;
        let mut kept = inner.to_vec();
        let candidates: Vec<u32> = places
            .iter()
            .map(|p| p / page * page + inside)
            .filter(|p| !inner.contains(p))
            .collect();
        for group in candidates.chunks(6) {
            if kept.len() >= wanted {
                break;
            }
            let with = |more: &[u32]| [full, more].concat();
            if self.misses(pages, &with(group), before)? < CONFLICT {
                continue;
            }
            for &one in group {
                if self.misses(pages, &with(&[one]), before)? >= CONFLICT {
                    kept.push(one);
                }
            }
        }
        Ok(kept)
    }

    /// The smallest part of `lines` in which something still misses. `None` when the share `until` of all time
    /// is over first.
    fn reduce(
        &mut self,
        pages: Pages,
        mut lines: Vec<u32>,
        step: Step,
        until: f64,
    ) -> Result<Option<Vec<u32>>, MeterError> {
        let inner = self.ways_before(step.level);
        if !self.conflicts_in(pages, &lines, step)? {
            return Ok(None);
        }
        let mut groups = 4;
        let mut timings = 0;
        while lines.len() > 2 {
            groups = groups.min(lines.len());
            self.rng.shuffle(&mut lines);
            let size = lines.len().div_ceil(groups);
            let mut best: Option<(f64, Vec<u32>)> = None;
            for k in 0..lines.len().div_ceil(size) {
                let rest: Vec<u32> = (lines.chunks(size).enumerate())
                    .filter(|(i, _)| *i != k)
                    .flat_map(|(_, c)| c.iter().copied())
                    .collect();
                timings += 1;
                let missing = self.misses(pages, &rest, step)?;
                if rest.len() > inner as usize
                    && missing >= threshold(rest.len(), step)
                    && best.as_ref().is_none_or(|b| missing > b.0)
                    // One disturbed timing must not take away what it is all about.
                    && self.conflicts_in(pages, &rest, step)?
                {
                    best = Some((missing, rest));
                    // One line at a time: the first that can go, goes.
                    if groups >= 16 {
                        break;
                    }
                }
            }
            match best {
                Some((_, rest)) => {
                    lines = rest;
                    groups = (groups - 1).max(4);
                }
                None if groups >= lines.len() => {
                    return Ok(self.conflicts_in(pages, &lines, step)?.then_some(lines));
                }
                None => groups *= 2,
            }
            if timings > MOST_TIMINGS || self.meter.over() > until {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Ways of a level in whose smallest conflict there are no more lines than the level before
    /// keeps of one set: some of them may be there only to push the others out of that one.
    ///
    /// Those can be replaced by a line of any page, the ones that fight for a set here cannot.
    pub(super) fn ways_behind(
        &mut self,
        pages: Pages,
        lines: &[u32],
        step: Step,
    ) -> Result<Option<u32>, MeterError> {
        let mut lines = lines.to_vec();
        let mut needed = self.needed(pages, &mut lines, step, false)?;
        if needed <= 2 {
            // Lines of two sets, both of them over-full, when none could go without emptying the level before.
            needed = self.needed(pages, &mut lines, step, true)?;
        }
        // One line less is one that was replaced by others of its set, each time by chance.
        let whole = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        let needed = if needed + 1 >= whole { whole } else { needed };
        Ok((needed > 2).then(|| needed - 1))
    }

    /// How many of `lines` another line cannot take the place of; with `stay` those that can be replaced are.
    fn needed(
        &mut self,
        pages: Pages,
        lines: &mut [u32],
        step: Step,
        stay: bool,
    ) -> Result<u32, MeterError> {
        let mut needed = 0;
        for k in 0..lines.len() {
            let old = lines[k];
            let mut other = old;
            let (mut still, mut not) = (0, 0);
            while still < STILL && not <= REPLACED - STILL {
                let new = self.beside(pages, old, step);
                let taken = lines.contains(&new);
                lines[k] = new;
                if !taken && self.conflicts_in(pages, lines, step)? {
                    (still, other) = (still + 1, new);
                } else {
                    not += 1;
                }
            }
            needed += u32::from(still < STILL);
            lines[k] = if stay && still >= STILL { other } else { old };
        }
        Ok(needed)
    }

    /// Bytes of a way of the level before: lines one way apart lie in one set of it.
    fn way_before(&self, step: Step) -> u64 {
        let before = step.level.checked_sub(1).and_then(|i| self.detail.levels.get(i));
        before.map_or(0, |l| l.bytes / u64::from(l.ways.unwrap_or(1).max(1)))
    }

    /// Another place of the same set of the level before, as far as addresses tell: in huge pages all of
    /// its set's number, in ordinary ones what lies in the page.
    fn beside(&mut self, pages: Pages, line: u32, step: Step) -> u32 {
        let page = self.limits.page_bytes.max(1);
        let unit = match (pages, u32::try_from(self.way_before(step))) {
            (Pages::Huge, Ok(way)) if way <= self.room(pages) / 64 => way.max(page),
            _ => page,
        };
        self.rng.below((self.room(pages) / unit) as usize) as u32 * unit + line % unit
    }

    fn conflicts_in(
        &mut self,
        pages: Pages,
        lines: &[u32],
        step: Step,
    ) -> Result<bool, MeterError> {
        Ok(lines.len() > 2 && self.misses(pages, lines, step)? >= threshold(lines.len(), step))
    }

    /// How many of `lines` miss in each round: their time, less what translating their pages costs.
    fn misses(&mut self, pages: Pages, lines: &[u32], step: Step) -> Result<f64, MeterError> {
        let page = self.limits.page_bytes.max(1);
        let line = self.stride.max(1);
        // Where a miss costs little, one timing does not tell one miss of many.
        let error = error(lines.len(), step);
        let repeats = ((error / (0.4 * CONFLICT)).powi(2).ceil() as usize).clamp(1, 5);
        let (mut together, mut apart) = (Vec::new(), Vec::new());
        let mut cycle = lines.to_vec();
        for _ in 0..repeats {
            self.rng.shuffle(&mut cycle);
            together.push(self.meter.chase(pages, &cycle)?);
            // The same pages, each at a place of its own: translation without the conflict.
            let alone: Vec<u32> = (cycle.iter().zip(0u32..))
                .map(|(p, i)| p / page * page + i * line % page)
                .collect();
            apart.push(self.meter.chase(pages, &alone)?);
        }
        // What others do only ever adds, and a conflict is there each time.
        let low = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
        let ns = low(&together) - (low(&apart) - step.first).max(0.0);
        Ok((ns - step.hit) / (step.miss - step.hit) * lines.len() as f64)
    }
}

/// Misses in a round of so many lines that may be an error of one timing.
fn error(lines: usize, step: Step) -> f64 {
    lines as f64 * TIMING * step.hit / (step.miss - step.hit)
}

/// Misses in a round that are no error of the timings.
fn threshold(lines: usize, step: Step) -> f64 {
    (2.0 * error(lines, step)).max(CONFLICT)
}

#[cfg(test)]
mod tests {
    use crate::memory::explore::{Plan, explore};
    use crate::memory::sim::cache::Policy;
    use crate::memory::sim::{CacheSpec, Fill, Hierarchy, Simulated, TlbSpec};

    /// Ordinary pages at random: no address names a set of the second cache.
    #[test]
    fn ways_are_counted_where_no_address_names_a_set() {
        let cache = |bytes, ways, ns, policy| CacheSpec {
            bytes,
            ways,
            ns,
            policy,
            fill: Fill::Plain,
            hashed: false,
        };
        let (ways, policy) = (8, Policy::Random);
        let machine = Hierarchy {
            name: "ordinary pages",
            line: 64,
            caches: vec![
                cache(16 << 10, 4, 2.0, Policy::Lru),
                cache(128 << 10, ways, 10.0, policy),
            ],
            victim_lines: 0,
            tlbs: vec![TlbSpec { entries: 32, ways: 32, miss_ns: 20.0 }],
            memory_ns: 120.0,
            huge: false,
            noise: 0.01,
            outliers: 0.05,
        };
        let mut machine = Simulated::new(machine, 4 << 20, 7);
        let plan = Plan { quick: true, seed: 7, cannot_tell: None };
        let found = explore(&mut machine, &plan).expect("a simulated machine is measured");
        let second = &found.levels[1];
        assert_eq!((second.bytes, second.ways), (128 << 10, Some(ways)), "{second:#?}");
        assert_eq!(second.ways_by, "conflict sets");
    }
}
