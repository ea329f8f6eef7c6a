//! Random changes of all sizes, kept unless the latency falls: a (1+1) evolution strategy.

use super::{Point, Search};

/// Sizes of changes are 2⁴ to 2¹⁹ ns.
const SIZES: std::ops::RangeInclusive<u64> = 4..=19;
/// Changes without a larger latency before a climb starts elsewhere.
const FAILURES: u32 = 400;

impl<E> Search<'_, E> {
    /// Climbs from random points until the budget is used up.
    pub(super) fn climbs(&mut self) -> Option<()> {
        loop {
            let mut point = self.random_point()?;
            self.climb(&mut point, FAILURES)?;
        }
    }

    /// Changes the point until so many changes in a row have not raised the latency.
    pub(super) fn climb(&mut self, point: &mut Point, failures: u32) -> Option<()> {
        if self.axes.is_empty() {
            return Some(());
        }
        let mut failed = 0;
        while failed < failures {
            let places = self.changed(&point.places);
            let latency_ns = self.at(&places)?;
            failed += 1;
            if latency_ns > point.latency_ns {
                failed = 0;
            }
            if latency_ns >= point.latency_ns {
                *point = Point { places, latency_ns };
            }
        }
        Some(())
    }

    /// One or more inputs begin earlier or later: each by a change of its own, or all by the same.
    fn changed(&mut self, places: &[u64]) -> Vec<u64> {
        let together = self.below(4) == 0;
        let n = self.axes.len() as u64;
        let surely = self.below(n) as usize;
        let common = self.change();
        let mut changed = places.to_vec();
        for (i, place) in changed.iter_mut().enumerate() {
            if i == surely || self.below(if together { 2 } else { n }) == 0 {
                let by = if together { common } else { self.change() };
                *place = place.saturating_add_signed(by).min(self.axes[i].span() - 1);
            }
        }
        changed
    }

    fn change(&mut self) -> i64 {
        let size = 1u64 << (SIZES.start() + self.below(SIZES.end() - SIZES.start() + 1));
        let by = (self.below(size) + 1) as i64;
        if self.random.next_u64() & 1 == 0 { by } else { -by }
    }
}
