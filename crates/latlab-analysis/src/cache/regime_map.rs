//! The regimes of Saavedra and Smith over size and stride, fitted to measured points: T0, C, D, b and a.
//!
//! A load in an array of N bytes with stride s misses a cache of C bytes, lines of b and a ways if N > C and N/s > a; then
//! min(s/b, 1) of the loads miss. In base pages an element of a larger stride takes a page of N, because its page frame
//! is any: then N/s elements fit as long as so many pages do. A TLB is a cache of pages. The times of all points are T0 and the misses of each cache
//! times its D, with no D below zero and the least sum of relative differences (by least squares with weights,
//! E. J. Schlossmacher, JASA 68, 1973): knees that no step describes then change little. C of all caches and b are searched
//! together near where other measurements put them, with points of so many elements that regime 2.c has no part in
//! them; then a of each cache.

use latlab_model::cache::detail::{AccessPattern, CacheDetail, Curve, Pages};
use latlab_model::cache::regime_map::{Regime, RegimeLevel, RegimeMap, RegimePoint};
use latlab_stats::least_squares::non_negative;
use std::collections::BTreeSet;

/// Caches that are fitted, from the processor outwards.
const LEVELS: usize = 3;
/// Smallest line, bytes.
const LINE_LEAST: u32 = 16;
/// Points that a map needs, at least.
const LEAST: usize = 12;
/// Elements in one set of a cache, at most.
const WAYS_MOST: u32 = 64;
/// The residual with regime 2.c is better by this factor at least; otherwise a is not determined.
const CLEARER: f64 = 1.05;
/// Sizes on both sides of the first guess of C that are searched.
const NEAR: usize = 3;
/// Rounds of weighting, and the relative difference below which weights do not rise.
const WEIGHTED: (u32, f64) = (6, 0.01);

/// Points of arrays that were measured: size, stride, ns a load.
pub fn points(measured: &[(u32, u32, f64)]) -> Vec<RegimePoint> {
    let point = |&(bytes, stride_bytes, ns): &(u32, u32, f64)| RegimePoint {
        bytes: bytes.into(),
        stride_bytes,
        ns,
        ..RegimePoint::default()
    };
    measured.iter().map(point).collect()
}

/// The points of curves in rising order, one for each stride: what lat_mem_rd measures.
pub fn points_of_curves(curves: &[Curve]) -> Vec<RegimePoint> {
    let rising = |c: &&Curve| c.access == AccessPattern::Sequential && c.plain();
    let of = |c: &Curve| {
        let stride_bytes = c.stride_bytes;
        let fits = c.points.iter().filter(move |p| p.x >= 2 * u64::from(stride_bytes));
        let point =
            move |bytes, ns| RegimePoint { bytes, stride_bytes, ns, ..RegimePoint::default() };
        fits.map(move |p| point(p.x, p.ns)).collect::<Vec<_>>()
    };
    curves.iter().filter(rising).flat_map(of).collect()
}

/// Fits the points. Caches are those of `detail`, which also has the line, the ways and the TLBs to begin with; `None`
/// with few points, one stride, or without a cache.
pub fn fit(points: Vec<RegimePoint>, detail: &CacheDetail, pages: Pages) -> Option<RegimeMap> {
    let strides: BTreeSet<u32> = points.iter().map(|p| p.stride_bytes).collect();
    let sizes: BTreeSet<u64> = points.iter().map(|p| p.bytes).collect();
    if points.len() < LEAST || strides.len() < 3 || detail.levels.is_empty() {
        return None;
    }
    let mut counts: Vec<u64> =
        points.iter().map(count).filter(|n| *n <= WAYS_MOST.into()).collect();
    counts.sort_unstable();
    counts.dedup();
    let page = detail.page_bytes.max(1);
    let reach = |entries: u32| u64::from(entries) * page;
    let tlbs = detail.tlbs.iter().filter(|_| pages == Pages::Base).map(|t| reach(t.entries));
    let sizes: Vec<u64> = sizes.into_iter().collect();
    let mut model = Model {
        line: detail.line.as_ref().map_or(64, |l| l.bytes.max(LINE_LEAST)),
        // The largest size that fits: what others take of a shared cache counts as not there.
        capacities: (detail.levels.iter()).map(|l| l.effective_bytes.min(l.bytes).max(1)).collect(),
        ways: vec![0; detail.levels.len()],
        tlbs: tlbs.collect(),
        page,
        scattered: pages == Pages::Base,
    };
    for capacity in &mut model.capacities {
        *capacity = sizes.iter().copied().rev().find(|x| x <= capacity).unwrap_or(sizes[0]);
    }
    model.search(&points, &sizes, &counts);
    Some(model.map(points, &sizes, &counts))
}

/// Elements of an array.
fn count(p: &RegimePoint) -> u64 {
    p.bytes / u64::from(p.stride_bytes.max(1))
}

/// What is searched.
#[derive(Clone, Debug)]
struct Model {
    line: u32,
    /// The largest size that fits into each cache.
    capacities: Vec<u64>,
    /// The largest number of elements that all hit in one set; 0: none.
    ways: Vec<u64>,
    /// Reach of each TLB, bytes.
    tlbs: Vec<u64>,
    page: u64,
    /// Page frames are at random places, so that no stride beyond a page has sets of its own.
    scattered: bool,
}

impl Model {
    /// Whether the elements of a point do not fit into a cache together.
    fn exceeds(&self, level: usize, p: &RegimePoint) -> bool {
        let taken = match self.scattered {
            true => count(p).saturating_mul(u64::from(p.stride_bytes).min(self.page)),
            false => p.bytes,
        };
        taken > self.capacities[level] && count(p) > self.ways[level]
    }

    /// Misses of each cache and TLB, a load.
    fn misses(&self, p: &RegimePoint) -> Vec<f64> {
        let share = |line: u64| (f64::from(p.stride_bytes) / line as f64).min(1.0);
        let of = |level| if self.exceeds(level, p) { share(self.line.into()) } else { 0.0 };
        let caches = (0..self.capacities.len()).map(of);
        let tlb = |reach: &u64| {
            let misses = p.bytes > *reach && count(p) > reach / self.page;
            if misses { share(self.page) } else { 0.0 }
        };
        caches.chain(self.tlbs.iter().map(tlb)).collect()
    }

    /// T0 and D of each, and the mean relative difference.
    fn solve(&self, points: &[RegimePoint]) -> (Vec<f64>, f64) {
        let rows: Vec<Vec<f64>> = (points.iter().filter(|p| p.ns > 0.0))
            .map(|p| std::iter::once(1.0).chain(self.misses(p)).map(|x| x / p.ns).collect())
            .collect();
        let mut found = Vec::new();
        let mut differences = vec![1.0; rows.len()];
        for _ in 0..WEIGHTED.0 {
            let weighted = |(row, d): (&Vec<f64>, &f64)| {
                let w = d.max(WEIGHTED.1).sqrt().recip();
                (row.iter().map(|x| x * w).collect(), w)
            };
            found = non_negative(&rows.iter().zip(&differences).map(weighted).collect::<Vec<_>>());
            let of = |row: &Vec<f64>| row.iter().zip(&found).map(|(x, c)| x * c).sum::<f64>();
            differences = rows.iter().map(|row| (of(row) - 1.0).abs()).collect();
        }
        (found, differences.iter().sum::<f64>() / rows.len().max(1) as f64)
    }

    /// C of all caches and b together, then a of each cache.
    fn search(&mut self, points: &[RegimePoint], sizes: &[u64], counts: &[u64]) {
        let many: Vec<RegimePoint> =
            points.iter().filter(|p| count(p) > WAYS_MOST.into()).copied().collect();
        let near = |c: &u64| {
            let i = sizes.iter().position(|x| x >= c).unwrap_or(0);
            &sizes[i.saturating_sub(NEAR)..(i + NEAR + 1).min(sizes.len())]
        };
        let mut all: Vec<Vec<u64>> = vec![Vec::new()];
        for capacity in self.capacities.iter().take(LEVELS) {
            let longer = |c: &Vec<u64>| {
                let least = c.last().copied().unwrap_or(0);
                let rising = near(capacity).iter().filter(move |x| **x > least);
                rising.map(|x| c.iter().copied().chain([*x]).collect()).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        let lines = [self.line / 2, self.line, self.line * 2].map(|b| b.max(LINE_LEAST));
        let mut best = f64::INFINITY;
        for (line, capacities) in lines.iter().flat_map(|b| all.iter().map(move |c| (*b, c))) {
            let ways = vec![0; capacities.len()];
            let other = Self { line, capacities: capacities.clone(), ways, ..self.clone() };
            let residual = other.solve(&many).1;
            if residual < best {
                (best, *self) = (residual, other);
            }
        }
        for level in 0..self.capacities.len() {
            let of = |ways: &u64| {
                let mut other = self.clone();
                other.ways[level] = *ways;
                (other.solve(points).1, other)
            };
            let without = of(&0).0;
            let found = counts.iter().map(of).min_by(|a, b| a.0.total_cmp(&b.0));
            // Regime 2.c is part of the model only where the fit needs it.
            if let Some((_, other)) = found.filter(|f| without > f.0 * CLEARER) {
                *self = other;
            }
        }
    }

    /// What is reported.
    fn map(self, mut points: Vec<RegimePoint>, sizes: &[u64], counts: &[u64]) -> RegimeMap {
        let (found, residual) = self.solve(&points);
        let after = |all: &[u64], x: u64| all.iter().copied().find(|y| *y > x);
        let level = |(i, (capacity, ways)): (usize, (&u64, &u64))| {
            let more = after(counts, *ways).unwrap_or(u64::from(WAYS_MOST) + 1);
            RegimeLevel {
                capacity_bytes: (*capacity, after(sizes, *capacity).unwrap_or(*capacity)),
                miss_ns: found[i + 1],
                ways: (*ways > 0).then_some((*ways as u32, more as u32)),
            }
        };
        let caches = self.capacities.len();
        let levels = self.capacities.iter().zip(&self.ways).enumerate().map(level).collect();
        for p in &mut points {
            let misses = self.misses(p);
            let times = std::iter::once(&1.0).chain(&misses).zip(&found);
            p.expected_ns = times.map(|(x, c)| x * c).sum();
            let outer = self.capacities.iter().filter(|c| p.bytes > **c).count();
            p.level = outer as u32;
            p.regime = match outer {
                0 => Regime::One,
                n if !self.exceeds(n - 1, p) => Regime::TwoC,
                _ if p.stride_bytes < self.line => Regime::TwoA,
                _ => Regime::TwoB,
            };
        }
        points.sort_by_key(|p| (p.bytes, p.stride_bytes));
        let tlbs = self.tlbs.iter().copied().zip(found[caches + 1..].iter().copied());
        RegimeMap {
            t0_ns: found[0],
            line_bytes: self.line,
            levels,
            tlbs: tlbs.collect(),
            residual,
            points,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::cache::detail::{Level, LineSize};
    use latlab_model::cache::request::grid;

    /// A machine of 32 KiB with 8 ways and 256 KiB with 4, lines of 64 bytes.
    fn machine(noise: f64) -> (Vec<RegimePoint>, CacheDetail) {
        let caches = [(32u64 << 10, 8u64, 10.0), (256 << 10, 4, 80.0)];
        let mut points = Vec::new();
        for bytes in grid(4096, 4 << 20, 2) {
            for stride in (4..).map(|k| 1u32 << k).take_while(|s| *s <= bytes / 2) {
                let share = (f64::from(stride) / 64.0).min(1.0);
                let miss = |c: &&(u64, u64, f64)| {
                    u64::from(bytes) > c.0 && u64::from(bytes / stride) > c.1
                };
                let ns = 2.0 + caches.iter().filter(miss).map(|c| c.2 * share).sum::<f64>();
                let wave = 1.0 + noise * f64::from(bytes / 64 + stride).sin();
                points.push(RegimePoint {
                    bytes: bytes.into(),
                    stride_bytes: stride,
                    ns: ns * wave,
                    ..RegimePoint::default()
                });
            }
        }
        // What is known beforehand is wrong: both caches too small, a longer line.
        let level = |bytes| Level { bytes, effective_bytes: bytes, ..Level::default() };
        let detail = CacheDetail {
            levels: vec![level(24 << 10), level(128 << 10)],
            line: Some(LineSize { bytes: 128, ..LineSize::default() }),
            page_bytes: 4096,
            ..CacheDetail::default()
        };
        (points, detail)
    }

    #[test]
    fn all_parameters_of_a_machine_of_the_model_are_found() {
        for (noise, within) in [(0.0, 1e-6), (0.05, 0.1)] {
            let (points, detail) = machine(noise);
            let map = fit(points, &detail, Pages::Huge).unwrap();
            let [l1, l2] = &map.levels[..] else { panic!("{:?}", map.levels) };
            assert_eq!(map.line_bytes, 64);
            assert_eq!((l1.capacity_bytes.0, l2.capacity_bytes.0), (32 << 10, 256 << 10));
            assert_eq!(l1.ways.unwrap().0, 8, "{l1:?}");
            assert_eq!(l2.ways.unwrap().0, 4, "{l2:?}");
            assert!((map.t0_ns / 2.0 - 1.0).abs() <= within, "{}", map.t0_ns);
            assert!((l1.miss_ns / 10.0 - 1.0).abs() <= within, "{l1:?}");
            assert!((l2.miss_ns / 80.0 - 1.0).abs() <= within, "{l2:?}");
            assert!(map.residual <= noise + 1e-9, "{}", map.residual);
        }
    }

    #[test]
    fn each_point_has_its_regime() {
        let (points, detail) = machine(0.0);
        let map = fit(points, &detail, Pages::Huge).unwrap();
        let at = |kib: u64, stride: u32| {
            let p = map.points.iter().find(|p| p.bytes == kib << 10 && p.stride_bytes == stride);
            let p = p.unwrap();
            (p.regime, p.level)
        };
        assert_eq!(at(16, 64), (Regime::One, 0));
        assert_eq!(at(64, 16), (Regime::TwoA, 1));
        assert_eq!(at(64, 64), (Regime::TwoB, 1));
        // 64 KiB with 8 elements: the ways of one set of the first cache.
        assert_eq!(at(64, 8 << 10), (Regime::TwoC, 1));
        assert_eq!(at(1024, 128 << 10), (Regime::TwoB, 2));
        assert_eq!(at(1024, 256 << 10), (Regime::TwoC, 2));
    }

    #[test]
    fn base_pages_hold_elements_far_apart_wherever_their_frames_are() {
        let (points, detail) = machine(0.0);
        let caches = [(32u64 << 10, 10.0), (256 << 10, 80.0)];
        // Each element beyond a page apart takes a page of the cache, in which its frame is any.
        let scattered = |p: &RegimePoint| {
            let taken = count(p) * u64::from(p.stride_bytes).min(4096);
            let share = (f64::from(p.stride_bytes) / 64.0).min(1.0);
            let missed = caches.iter().filter(|c| taken > c.0);
            RegimePoint { ns: 2.0 + missed.map(|c| c.1 * share).sum::<f64>(), ..*p }
        };
        let points = points.iter().map(scattered).collect();
        let map = fit(points, &detail, Pages::Base).unwrap();
        let [l1, l2] = &map.levels[..] else { panic!("{:?}", map.levels) };
        assert_eq!((l1.capacity_bytes.0, l2.capacity_bytes.0), (32 << 10, 256 << 10));
        assert!((l1.miss_ns - 10.0).abs() < 1e-6 && (l2.miss_ns - 80.0).abs() < 1e-6, "{map:?}");
        assert!(map.residual < 1e-9, "{}", map.residual);
        let at = |kib: u64, stride: u32| {
            let p = map.points.iter().find(|p| p.bytes == kib << 10 && p.stride_bytes == stride);
            (p.unwrap().regime, p.unwrap().level)
        };
        // 16 elements in 1 MiB are 64 KiB of pages: they miss the first cache, not the second.
        assert_eq!(at(1024, 64 << 10), (Regime::TwoC, 2));
        assert_eq!(at(1024, 4096), (Regime::TwoB, 2));
    }

    #[test]
    fn published_curves_have_no_regime_2c() {
        let text = include_str!("../../../../fixtures/memory/beaglebone-black.lat_mem_rd");
        let curves = crate::cache::import_lat_mem_rd::lat_mem_rd(text, "published").unwrap();
        let detail = crate::cache::import_lat_mem_rd::infer(curves, 4096);
        let map = detail.regime_map.unwrap();
        assert_eq!((map.line_bytes, map.levels.len()), (64, 2), "{:?}", map.levels);
        assert!(map.levels.iter().all(|l| l.ways.is_none()), "{:?}", map.levels);
        let far = map.t0_ns + map.levels.iter().map(|l| l.miss_ns).sum::<f64>();
        assert!((far / 220.0 - 1.0).abs() < 0.1, "{far}");
    }

    #[test]
    fn few_points_or_none_have_no_map() {
        let (mut points, detail) = machine(0.0);
        assert!(fit(points.clone(), &CacheDetail::default(), Pages::Base).is_none());
        points.truncate(LEAST - 1);
        assert!(fit(points, &detail, Pages::Base).is_none());
    }
}
