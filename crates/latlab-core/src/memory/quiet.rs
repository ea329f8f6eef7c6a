//! What others do on a shared machine, and what a hypervisor does to pages.
//!
//! Somebody on the same core, or at the same cache, only ever makes a load slower, mostly for less than
//! a millisecond, at times for seconds. So the lowest time of each place counts, and places are visited
//! again, later, as long as that finds lower times.

use super::curve::{Curve, CurvePoint, Pages};
use super::explore::{DISTURBED, Explorer};
use super::levels::{Found, level_of};
use super::plateau::{self, Plateau};
use super::together::together;
use super::{Limits, MeterError, pattern};

/// Times that a curve is looked through for such points.
const STEADIER: u32 = 3;
/// Arrays that are measured once more have at most so many bytes.
const QUIET_MOST: u64 = 4 << 20;
/// Times at most, points to begin with, and the share of the time before that is news.
const QUIET_TIMES: u32 = 6;
const QUIET_FEW: usize = 8;
const QUIET: f64 = 0.96;
/// Pages by which huge pages are told from what only looks like them, and how often that is measured.
const PIECES: u32 = 256;
const PIECES_TIMES: u32 = 5;
/// Lines are at most so long, bytes: nothing is known of them yet, and as many have to be touched beside one
/// another as in pages of their own.
const LINE_MOST: u32 = 128;

impl Explorer<'_> {
    /// Whether a huge page costs as many translations as the ordinary pages that it is made of: a
    /// hypervisor whose own pages are small gives its guests nothing larger, whatever they see, and
    /// what lies side by side in such a page may lie anywhere in memory.
    pub(super) fn look_for_pieces(&mut self) -> Result<(), MeterError> {
        let Limits { page_bytes: page, huge_page_bytes: huge, huge_bytes, .. } = self.limits;
        // More pages than a first TLB holds, in few enough lines for a first cache.
        let n = PIECES.min(huge / page.max(1)).min(self.limits.base_bytes / page.max(1));
        if huge_bytes < huge || n < PIECES {
            return Ok(());
        }
        let least = |e: &mut Self, pages: Pages, apart: u32| {
            let mut least = f64::INFINITY;
            for _ in 0..PIECES_TIMES {
                let start = e.start(pages, n * page);
                let cycle = pattern::line_per_page(start, n, apart, LINE_MOST, &mut e.rng);
                least = least.min(e.meter.chase(pages, &cycle)?);
            }
            Ok::<f64, MeterError>(least)
        };
        let beside = least(self, Pages::Base, LINE_MOST)?;
        let ordinary = least(self, Pages::Base, page)? - beside;
        let in_huge = least(self, Pages::Huge, page)? - beside;
        self.pieces = ordinary > 0.2 * beside && in_huge > 0.6 * ordinary;
        if self.pieces {
            self.detail.missing.push(
                "huge pages are translated in pieces (a hypervisor whose own pages are small): ordinary ones were used, whose places in memory are left to chance".into(),
            );
        }
        Ok(())
    }

    /// Measures again what cannot be: a load in an array does not take longer than in a larger one.
    /// Then others had the caches for that long, and the lower value counts.
    pub(super) fn steadier(&mut self, curve: &mut Curve) -> Result<(), MeterError> {
        for _ in 0..STEADIER {
            let mut least = f64::INFINITY;
            let mut high = Vec::new();
            for p in curve.points.iter().rev() {
                if p.ns > least * DISTURBED {
                    high.push(*p);
                }
                least = least.min(p.ns);
            }
            for old in high {
                let x = u32::try_from(old.x).unwrap_or(u32::MAX);
                let point = self.point(curve, x, old.repeats)?;
                curve.insert_lower(point);
            }
        }
        Ok(())
    }

    /// Measures all places of the smaller arrays again, as often as that finds lower times: somebody
    /// on the same core or at the same cache may be at work for seconds. Then everything is concluded anew.
    pub(super) fn until_quiet(
        &mut self,
        curve: &mut Curve,
        mut before: Vec<Plateau>,
        mut levels: Vec<Found>,
    ) -> Result<(), MeterError> {
        if !self.quick {
            // Others take entries away for seconds: some time has gone by.
            self.meter.stage("translation once more");
            self.find_tlbs()?;
        }
        let low = levels.first().map_or(0, |l| l.onset.0 / 2);
        let high = levels.last().map_or(0, |l| l.window.1).min(QUIET_MOST);
        let mut changed = false;
        for _ in 0..if self.quick { 1 } else { QUIET_TIMES } {
            self.meter.stage("once more");
            if !self.once_more(curve, (low, high))? {
                break;
            }
            changed = true;
            self.find_tlbs()?;
            self.keep(curve.clone());
            let fresh = plateau::levels(&curve.points);
            let mut found = if fresh.len() == before.len() { fresh } else { before.clone() };
            let page = self.limits.page_bytes;
            if look_again(curve, page, &mut found, &mut levels) {
                together(curve, &found, page, &mut levels);
                self.detail.levels = levels.iter().map(|l| l.level.clone()).collect();
                before = found;
                continue;
            }
            // A level that only the one model showed has no plateau of its own to be seen again.
            if levels.len() + 1 != found.len() {
                continue;
            }
            let (mut inner, mut anew) = (0, levels.clone());
            for (i, level) in anew.iter_mut().enumerate() {
                *level = level_of(curve, &found, i, page, (inner, level.ways));
                inner = level.level.bytes;
            }
            together(curve, &found, page, &mut anew);
            // A quieter curve is nearer to its laws; one that is not has been cut into other stretches.
            let left = |f: &Found| f.level.residual.unwrap_or(f64::INFINITY);
            if anew.len() != levels.len()
                || anew.iter().zip(&levels).any(|(new, old)| left(new) > left(old) * 1.1 + 0.005)
            {
                continue;
            }
            levels = anew;
            self.detail.levels = levels.iter().map(|l| l.level.clone()).collect();
        }
        if changed {
            self.detail.missing.push(
                "others were at work on this core or its caches: of several visits to the same places the quickest count".into(),
            );
        }
        Ok(())
    }

    /// Visits the places of all points between two sizes again; whether that changed much.
    fn once_more(
        &mut self,
        curve: &mut Curve,
        (low, high): (u64, u64),
    ) -> Result<bool, MeterError> {
        let mut all: Vec<CurvePoint> =
            curve.points.iter().filter(|p| p.x >= low && p.x <= high).copied().collect();
        // A few first: on a quiet machine they say that there is nothing to do.
        self.rng.shuffle(&mut all);
        let few = all.len().min(QUIET_FEW);
        let mut lower = 0;
        for (i, old) in all.iter().enumerate() {
            if i == few && lower == 0 {
                return Ok(false);
            }
            let point = self.point(curve, u32::try_from(old.x).unwrap_or(u32::MAX), old.repeats)?;
            lower += usize::from(point.ns < old.ns * QUIET);
            curve.insert(point);
        }
        Ok(lower * 10 > all.len())
    }
}

/// Concludes levels anew where points that were added, or measured again, show a plateau between two others;
/// whether they do. Nothing is measured.
pub(super) fn look_again(
    curve: &Curve,
    page: u32,
    found: &mut Vec<Plateau>,
    levels: &mut Vec<Found>,
) -> bool {
    if levels.len() + 1 != found.len() {
        return false;
    }
    let Some(added) = plateau::add_between(&curve.points, found) else { return false };
    // The ways of the level that ended beyond it were counted for something that it is not.
    levels.truncate(added - 1);
    for i in levels.len()..found.len() - 1 {
        let inner = levels.last().map_or(0, |l| l.level.bytes);
        levels.push(level_of(curve, found, i, page, (inner, None)));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Meter;
    use crate::memory::explore::{Plan, explore};
    use crate::memory::from;
    use crate::memory::sim::cache::Policy;
    use crate::memory::sim::{CacheSpec, Fill, Hierarchy, Simulated, TlbSpec};

    /// A guest: what it takes for huge pages may be ordinary ones. Its time is over soon.
    struct Guest {
        machine: Simulated,
        pieces: bool,
        chases: u32,
    }

    impl Meter for Guest {
        fn limits(&self) -> Limits {
            let limits = self.machine.limits();
            Limits { huge_bytes: limits.base_bytes, huge_page_bytes: 2 << 20, ..limits }
        }

        fn chase(&mut self, pages: Pages, cycle: &[u32]) -> Result<f64, MeterError> {
            self.chases += 1;
            if self.chases > 60 {
                return Err(MeterError::OutOfTime);
            }
            self.machine.chase(if self.pieces { Pages::Base } else { pages }, cycle)
        }
    }

    #[test]
    fn huge_pages_that_are_translated_in_pieces_are_not_used() {
        let cache = |bytes, ways, ns| CacheSpec {
            bytes,
            ways,
            ns,
            policy: Policy::Lru,
            fill: Fill::Plain,
            hashed: false,
        };
        let machine = Hierarchy {
            name: "a guest",
            line: 64,
            caches: vec![cache(32 << 10, 8, 1.1), cache(1 << 20, 8, 3.8)],
            victim_lines: 0,
            tlbs: vec![TlbSpec { entries: 72, ways: 72, miss_ns: 1.9 }],
            memory_ns: 120.0,
            huge: true,
            noise: 0.01,
            outliers: 0.05,
        };
        for pieces in [true, false] {
            let machine = Simulated::new(machine.clone(), 8 << 20, 11);
            let mut guest = Guest { machine, pieces, chases: 0 };
            let plan = Plan { quick: true, seed: 11, cannot_tell: None };
            let found = explore(&mut guest, &plan).expect("enough of a curve");
            let said = found.missing.iter().any(|m| m.contains("translated in pieces"));
            let used = if pieces { Pages::Base } else { Pages::Huge };
            assert_eq!(said, pieces, "{:?}", found.missing);
            assert!(found.curves.iter().all(|c| c.pages == used), "{:?}", found.curves);
        }
    }

    #[test]
    fn a_plateau_that_shows_when_it_is_quiet_divides_a_level() {
        let text = include_str!("../../../../fixtures/memory/shared-host-whole.lat_mem_rd");
        let curve = from::lat_mem_rd(text, "shared").unwrap().remove(0);
        let at = Plateau::at;
        let mut found = vec![at(2048, 1.08), at(38 << 10, 3.77), at(8 << 20, 133.0)];
        let level = |i| level_of(&curve, &found, i, 4096, (0, None));
        let mut levels = vec![level(0), level(1)];
        assert!(levels[1].level.bytes > 1 << 20, "{:?}", levels[1].level);
        assert!(look_again(&curve, 4096, &mut found, &mut levels));
        let sizes: Vec<u64> = levels.iter().map(|l| l.level.bytes).collect();
        assert_eq!((sizes.len(), sizes[0], sizes[1]), (3, 32 << 10, 1 << 20), "{sizes:?}");
        assert!(!look_again(&curve, 4096, &mut found, &mut levels));
    }
}
