//! Line, ways and TLB: measurements made for one question each.

use super::curve::{Curve, CurvePoint, Order, Pages};
use super::explore::{Explorer, grid};
use super::levels::{Ways, onset};
use super::plateau::{Plateau, plateaus};
use super::setmodel::{Laws, Placement, plausible_sizes};
use super::{Grade, LineSize, MeterError, TlbLevel, pattern};
use crate::finding::Confidence;
use crate::stats::quantile::median;

/// Blocks in which pairs of loads lie, bytes.
const BLOCK: u32 = 1024;
/// Where both loads of a pair in one line take less than this many times a hit, neither missed.
const PAIR_FITS: f64 = 1.08;
/// Share of the step at which translation has begun to miss: one set of many counts.
const TLB_ONSET: f64 = 0.05;
/// Share of the largest step of a pair at which its second load is in another line: within one it is nothing.
const ANOTHER_LINE: f64 = 0.3;
/// A point that takes less than this share of what its neighbours take is a dip.
const DIP: f64 = 0.8;
/// Times that the end of a TLB is looked for, until two agree.
const TLB_ROUNDS: usize = 4;
/// Ways that are looked for.
const MOST_WAYS: u32 = 33;

impl Explorer<'_> {
    /// The line: two loads in one line cost one miss, two in two lines cost two.
    ///
    /// In an array that the second level holds, so that a prefetcher of neighbouring lines into
    /// the second level changes nothing.
    pub(super) fn find_line(
        &mut self,
        pages: Pages,
        curve: &Curve,
        found: &[Plateau],
    ) -> Result<LineSize, MeterError> {
        let plateau = found[1];
        let (first, last) = (curve.points[plateau.first].x, curve.points[plateau.last].x);
        let bytes = ((first as f64 * last as f64).sqrt()).clamp(16384.0, 4e6) as u32;
        let mut bytes = bytes.min(self.room(pages)) / BLOCK * BLOCK;
        loop {
            let pairs = self.pairs(pages, bytes)?;
            // Few lines of many bytes may fit into the first cache: then nothing missed.
            let fits = pairs.first().is_some_and(|p| p.1 < found[0].ns * PAIR_FITS);
            if !fits || bytes >= self.room(pages) / 4 {
                return Ok(line_of(pairs));
            }
            bytes *= 4;
        }
    }

    /// Time of a load, ns, by the distance of two in each block of an array.
    fn pairs(&mut self, pages: Pages, bytes: u32) -> Result<Vec<(u32, f64)>, MeterError> {
        // Each place for all distances: pages that happen to collide then do so for each of them.
        let distances = [8, 16, 32, 64, 128, 256, 512];
        let mut values = vec![Vec::new(); distances.len()];
        for _ in 0..if self.quick { 3 } else { 5 } {
            let start = self.start(pages, bytes);
            for (distance, values) in distances.iter().zip(&mut values) {
                let cycle = pattern::pairs(start, bytes, BLOCK, *distance, &mut self.rng);
                values.push(self.meter.chase(pages, &cycle)?);
            }
        }
        let medians = values.iter().map(|v| median(v).unwrap_or(0.0));
        Ok(distances.into_iter().zip(medians).collect())
    }

    /// Ways of level `i`, by places that fight for one set.
    ///
    /// With them comes a smallest set of places of which one has to miss.
    /// `None` where places in one set cannot be named (pages at random, no room). Each set of
    /// places has a twin on the same pages whose lines lie in different sets: what translation
    /// costs is in both.
    pub(super) fn probe_ways(
        &mut self,
        pages: Pages,
        i: usize,
        onset: (u64, u64),
        t0: f64,
        t1: f64,
    ) -> Result<Option<(Ways, Vec<u32>)>, MeterError> {
        let line = self.detail.line.as_ref().map_or(64, |l| l.bytes.max(16));
        // A power of two that no way exceeds; a size of 3·2^k has ways of 2^k / something.
        let size = u32::try_from(onset.1).unwrap_or(u32::MAX);
        let stride = size.checked_next_power_of_two().unwrap_or(0).max(self.limits.page_bytes);
        let most = (self.room(pages) / stride.max(1)).min(MOST_WAYS);
        if stride == 0 || most < 6 || (i > 0 && pages == Pages::Base) {
            return Ok(None);
        }
        // Past what the inner caches hold of one set, a conflict shows as the next level's latency.
        let limit = |n: u32| {
            if i == 0 {
                (0.06 * (t1 - t0)).max(0.06 * t0)
            } else {
                // One miss in a round: with random replacement one line too many causes hardly more.
                t0 * 1.1 + 0.7 * (t1 - t0) / f64::from(n)
            }
        };
        let mut counts = Vec::new();
        for _ in 0..if pages == Pages::Base { 6 } else { 3 } {
            counts.push(self.count_ways(pages, stride, most, line, |n, v, twin| {
                v > limit(n) + if i == 0 { twin } else { 0.0 }
            })?);
        }
        let counted: Vec<u32> = counts.iter().flatten().copied().collect();
        // Pages at random make the counts differ from place to place. Somebody on the same core takes ways away,
        // now and then, and never adds any: one of six may be smaller.
        let usual = counted.iter().max().copied();
        let alike = counted.iter().filter(|c| Some(**c) == usual).count();
        if counted.len() < counts.len() || alike < counts.len() - counts.len() / 6 {
            return Ok(None);
        }
        let inner = self.ways_before(i);
        let places = |ways: u32| (0..=ways).map(|k| k * stride).collect();
        Ok(usual.map(|ways| (Ways { ways, at_most: i > 0 && ways <= inner, inner }, places(ways))))
    }

    /// Largest number of places without a conflict, up to which all smaller numbers have none either.
    fn count_ways(
        &mut self,
        pages: Pages,
        stride: u32,
        most: u32,
        line: u32,
        conflict: impl Fn(u32, f64, f64) -> bool,
    ) -> Result<Option<u32>, MeterError> {
        let start = self.start(pages, stride * most);
        for n in 2..=most {
            let places = pattern::conflict(start, n, stride, &mut self.rng);
            let v = self.meter.chase(pages, &places)?;
            let page = self.limits.page_bytes;
            let spread: Vec<u32> =
                places.iter().map(|p| p + (p - start) / stride * line % page).collect();
            let twin = self.meter.chase(pages, &spread)?;
            if conflict(n, v, twin) {
                // Once more: an outlier must not end the count.
                let again = self.meter.chase(pages, &places)?;
                if conflict(n, again, twin) {
                    return Ok(Some(n - 1));
                }
            }
        }
        Ok(None)
    }

    /// TLBs: one line a page, less as many lines side by side.
    pub(super) fn find_tlbs(&mut self) -> Result<(), MeterError> {
        let Some(first) = self.detail.levels.first().cloned() else { return Ok(()) };
        let most = (self.limits.base_bytes / self.limits.page_bytes).min(8192);
        let kind = Curve {
            order: Order::LinePerPage,
            stride_bytes: self.limits.page_bytes,
            ..Curve::default()
        };
        // What was measured before stays, where it is lower.
        let before = self.detail.curves.iter().find(|c| c.order == Order::LinePerPage);
        let mut curve = before.cloned().unwrap_or(kind);
        self.meter.stage("lines side by side");
        let dense = self.dense_curve(most)?;
        self.meter.stage("translation");
        let few = 2..=16;
        let many =
            grid(1024, most.saturating_mul(64), 4).into_iter().map(|x| x / 64).filter(|n| *n > 16);
        for n in few.chain(many).filter(|n| *n <= most) {
            let point = self.tlb_point(n, first.ns, &dense, 5)?;
            curve.insert_lower(point);
        }
        drop_dips(&mut curve.points);
        self.detail.tlbs.clear();
        self.keep(curve.clone());
        let found = plateaus(&curve.points);
        for i in 0..found.len().saturating_sub(1) {
            let (here, next) = (found[i], found[i + 1]);
            for _ in 0..TLB_ROUNDS {
                self.bisect_entries(&mut curve, &dense, first.ns, (here.ns, next.ns))?;
                let end = onset(&curve.points, here.ns, next.ns, TLB_ONSET);
                self.entries_again(&mut curve, &dense, first.ns, end.1)?;
                if onset(&curve.points, here.ns, next.ns, TLB_ONSET) == end {
                    break;
                }
            }
            self.keep(curve.clone());
            let points: Vec<CurvePoint> =
                curve.points.iter().filter(|p| p.x >= here.first_x).copied().collect();
            self.detail.tlbs.push(tlb_level(i, &points, here.ns, next.ns));
        }
        if let (Some(a), Some(b)) = (found.first(), found.last()) {
            self.detail.walk_ns = (found.len() > 1).then_some(b.ns - a.ns);
        }
        Ok(())
    }

    fn bisect_entries(
        &mut self,
        curve: &mut Curve,
        dense: &Curve,
        hit: f64,
        (t0, t1): (f64, f64),
    ) -> Result<(), MeterError> {
        for _ in 0..10 {
            let (low, high) = onset(&curve.points, t0, t1, TLB_ONSET);
            if high <= low + 1 || (low > 256 && high as f64 <= low as f64 * 1.015) {
                break;
            }
            let n = ((low + high) / 2) as u32;
            let point = self.tlb_point(n, hit, dense, 9)?;
            curve.insert(point);
        }
        Ok(())
    }

    /// Points from the end of a plateau on once more, for others on this machine, on the same core even,
    /// take entries away and never add any: the lower value counts.
    fn entries_again(
        &mut self,
        curve: &mut Curve,
        dense: &Curve,
        hit: f64,
        end: u64,
    ) -> Result<(), MeterError> {
        let near = |p: &&CurvePoint| p.x * 8 >= end * 7 && p.x * 2 <= end * 3;
        let again: Vec<CurvePoint> = curve.points.iter().filter(near).copied().collect();
        for old in again {
            let point = self.tlb_point(old.x as u32, hit, dense, 15)?;
            curve.insert_lower(point);
        }
        Ok(())
    }

    /// What as many lines cost side by side: the mean over many places, since chance decides which
    /// lines of few pages share a set.
    fn dense_curve(&mut self, most: u32) -> Result<Curve, MeterError> {
        let page = self.limits.page_bytes;
        let kind = Curve { stride_bytes: self.stride, ..Curve::default() };
        let same = |c: &&Curve| {
            (c.order, c.pages, c.stride_bytes) == (kind.order, kind.pages, kind.stride_bytes)
        };
        if let Some(known) = self.detail.curves.iter().find(same) {
            return Ok(known.clone());
        }
        let mut curve = kind;
        let end = most.saturating_mul(self.stride).min(self.limits.base_bytes);
        for x in grid(page, end, 4) {
            let whole = x / page * page;
            let repeats = self.repeats(Pages::Base, whole, 24).min((8 << 20) / whole.max(1));
            let point = self.point(&curve, whole, repeats.max(3))?;
            curve.insert(point);
        }
        Ok(curve)
    }

    /// Latency of a hit in the first cache plus what translating `n` pages costs.
    fn tlb_point(
        &mut self,
        n: u32,
        hit: f64,
        dense: &Curve,
        repeats: u32,
    ) -> Result<CurvePoint, MeterError> {
        let line = self.detail.line.as_ref().map_or(64, |l| l.bytes.max(16));
        let page = self.limits.page_bytes;
        let beside = dense.between(u64::from(n) * u64::from(line)).unwrap_or(hit).max(hit);
        let mut values = Vec::new();
        for _ in 0..repeats {
            let start = self.start(Pages::Base, n * page);
            let apart = pattern::line_per_page(start, n, page, line, &mut self.rng);
            let apart = self.meter.chase(Pages::Base, &apart)?;
            values.push(hit + (apart - beside).max(0.0));
        }
        let point = CurvePoint::of(n.into(), &values);
        // Others on this machine, and lines that collide by chance, only ever add.
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        Ok(CurvePoint { ns: low.max(hit), ..point.unwrap_or_default() })
    }
}

/// Takes away what lies far below both sides: more pages are never translated more quickly, but where lines side
/// by side fight for sets by chance, they take longer than those of pages of their own.
fn drop_dips(points: &mut Vec<CurvePoint>) {
    let ns: Vec<f64> = points.iter().map(|p| p.ns).collect();
    let mut i = 0usize;
    points.retain(|p| {
        let before = median(&ns[i.saturating_sub(3)..i]).unwrap_or(0.0);
        let after = median(&ns[i + 1..(i + 4).min(ns.len())]).unwrap_or(0.0);
        i += 1;
        p.ns >= DIP * before.min(after)
    });
}

/// One level from its points: exact where one page more makes nearly all of them miss, by the law
/// of its sets otherwise.
fn tlb_level(i: usize, points: &[CurvePoint], t0: f64, t1: f64) -> TlbLevel {
    let (low, high) = onset(points, t0, t1, TLB_ONSET);
    let after = points.iter().find(|p| p.x == high).map_or(t0, |p| p.ns);
    let of = |entries: u64, interval: (u64, u64), grade| TlbLevel {
        level: u32::try_from(i + 1).unwrap_or(u32::MAX),
        entries: u32::try_from(entries).unwrap_or(u32::MAX),
        entries_interval: (interval.0 as u32, interval.1 as u32),
        penalty_ns: t1 - t0,
        grade,
    };
    if high <= low + 1 && after > t0 + 0.6 * (t1 - t0) {
        return of(low, (low, low), Grade::default());
    }
    let end = points.iter().find(|p| p.ns > t0 + 0.95 * (t1 - t0)).map_or(high, |p| p.x);
    let window: Vec<CurvePoint> =
        points.iter().filter(|p| p.x * 2 >= low && p.x <= end * 5 / 4).copied().collect();
    let sizes = plausible_sizes(low * 4 / 5, high * 51 / 50);
    let fits = Laws::default().fit(&window, &sizes, &[], 1, &[Placement::Contiguous]);
    let grade = Grade::less(Confidence::Likely, "the end of the plateau is soft");
    match super::setmodel::near(&fits).as_slice() {
        [] => of(low, (low, high), grade),
        near @ [best, ..] => {
            let least = near.iter().map(|f| f.bytes).min().unwrap_or(low);
            let most = near.iter().map(|f| f.bytes).max().unwrap_or(high);
            of(best.bytes, (least, most), grade)
        }
    }
}

/// The smallest distance at which the second load of a pair misses as the first does, or half as much where
/// something fetches neighbours, or where lines further apart fight for a set besides.
pub(super) fn line_of(pairs: Vec<(u32, f64)>) -> LineSize {
    let same = pairs.first().map_or(0.0, |p| p.1);
    let apart = pairs.iter().rev().take(2).map(|p| p.1).fold(0.0, f64::max);
    if apart < same * 1.2 {
        let grade = Grade::less(
            Confidence::CannotTell,
            "a pair of loads costs the same in one line and in two",
        );
        return LineSize { bytes: 0, pairs, grade };
    }
    let share = |v: f64| (v - same) / (apart - same);
    let bytes = pairs.iter().find(|p| share(p.1) > ANOTHER_LINE).map_or(0, |p| p.0);
    // Between the two a value of its own means that something fetches neighbours.
    let unclear = pairs.iter().any(|p| (0.2..0.8).contains(&share(p.1)));
    let grade = if unclear {
        Grade::less(
            Confidence::Likely,
            "some distances cost neither one miss nor two: neighbouring lines are fetched, too",
        )
    } else {
        Grade::default()
    };
    LineSize { bytes, pairs, grade }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dip_goes_and_a_step_stays() {
        let of = |all: &[f64]| {
            let points = all.iter().zip(1..).filter_map(|(ns, n)| CurvePoint::of(n, &[*ns]));
            let mut points: Vec<CurvePoint> = points.collect();
            drop_dips(&mut points);
            points.iter().map(|p| p.ns).collect::<Vec<_>>()
        };
        let steps = [1.5, 1.5, 1.5, 4.3, 4.4, 4.3, 21.0, 23.0, 22.0];
        assert_eq!(of(&steps), steps);
        assert_eq!(of(&[1.5, 1.5, 4.3, 4.4, 4.3, 1.5, 4.1, 21.0, 1.5, 23.0, 25.0]).len(), 9);
    }

    #[test]
    fn pairs_tell_the_line_and_when_they_cannot() {
        let step = |line: u32| {
            let of = |d: u32| if d < line { 2.5 } else { 4.0 };
            [8, 16, 32, 64, 128, 256].into_iter().map(|d| (d, of(d))).collect::<Vec<_>>()
        };
        for line in [32, 64, 128] {
            let found = line_of(step(line));
            assert_eq!((found.bytes, found.grade.confidence), (line, Confidence::Sure));
        }
        let mut fetched = step(64);
        fetched[3].1 = 3.4;
        assert_eq!(line_of(fetched).grade.confidence, Confidence::Likely);
        // Lines 512 bytes apart fight for a set, and cost as much again.
        let mut twice = step(64);
        twice.push((512, 5.7));
        assert_eq!(line_of(twice).bytes, 64);
        assert_eq!(line_of(vec![(8, 4.0), (512, 4.1)]).grade.confidence, Confidence::CannotTell);
    }
}
