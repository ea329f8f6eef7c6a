//! What share of the loads misses when an array of N bytes goes round a cache of C bytes and
//! `a` ways: one law for each way lines come to lie in sets and each way a set gives lines up.
//!
//! A set that holds `m` lines of the cycle misses a share μ(m) of them: none while m ≤ a; beyond,
//! all with LRU, fewer with random or tree replacement (found once by simulating one set). How
//! many lines a set gets:
//!
//! - *contiguous* (virtually indexed, or one huge page): N/C·a rounded up or down;
//! - *scattered pages* (physically indexed, ordinary pages): each page takes one of K = C/(a·page)
//!   colours at random, so m is binomial;
//! - *hashed* (sliced last-level caches): lines fall at random, so m is Poisson.
//!
//! Expected latency is then T0 + D·Σ P(m)·m·μ(m)/E(m), linear in T0 and D, which come out of
//! least squares; C, a and the law are those that leave the least. Scattered pages as a binomial:
//! J. González-Domínguez et al., "Servet", IPDPS 2010.

use super::curve::CurvePoint;
use crate::memory::sim::cache::{Policy, Tags};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How lines come to lie in sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// One after the other.
    Contiguous,
    /// Page by page at random.
    Scattered,
    /// Line by line at random.
    Hashed,
}

/// A law with its parameters and what it leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// How lines come to lie in sets.
    pub placement: Placement,
    /// How a set gives lines up.
    pub policy: Policy,
    /// Size, bytes.
    pub bytes: u64,
    /// Bytes that the cache before it holds besides, where neither holds what the other has; 0 otherwise.
    pub extra: u64,
    /// Ways.
    pub ways: u32,
    /// Latency of a hit, ns.
    pub t0: f64,
    /// What a miss adds, ns.
    pub step: f64,
    /// Root mean square of the residual, share of the step.
    pub residual: f64,
    /// By what laws are compared: the residual, or where steps differ from law to law, the relative error.
    pub error: f64,
}

impl Fit {
    /// Its law, for pages of so many bytes.
    pub(super) fn law(&self, page: u32) -> Law {
        let Self { placement, policy, bytes, extra, ways, .. } = *self;
        Law { placement, policy, bytes, extra, ways, page: f64::from(page) }
    }

    /// The law in words.
    pub fn words(&self) -> String {
        let place = match self.placement {
            Placement::Contiguous => "sets filled evenly",
            Placement::Scattered => "pages at random",
            Placement::Hashed => "lines spread by a hash",
        };
        let policy = match self.policy {
            Policy::Lru => "LRU",
            Policy::TreePlru => "tree-PLRU",
            Policy::Random => "random replacement",
        };
        let apart = if self.extra > 0 { ", exclusive of the cache before it" } else { "" };
        format!("{place}, {policy}{apart}")
    }
}

/// Misses of one set, as far as they were needed.
#[derive(Debug, Default)]
pub struct Laws {
    known: BTreeMap<(u32, u32, bool), f64>,
}

/// A law that leaves more of the step than this is not the law of the cache.
pub(super) const INEXACT: f64 = 0.02;

/// What is left of a step where a law is that of the cache, chance and noise included: with more, the law of the
/// form may be that of another size.
const THE_LAW: f64 = 0.012;
/// Loads by which what a set misses is known: to a quarter of a percent, where victims are random.
const LOADS: u32 = 32_768;
/// Misses of one set that were simulated before, by anybody: ways, lines, and whether a tree picks the victim.
static KNOWN: Mutex<BTreeMap<(u32, u32, bool), f64>> = Mutex::new(BTreeMap::new());

/// Odd factors that caches have (48 KiB, 1.25 MiB, 20 MiB, 36 MiB…), the plainest first.
const ODDS: [u64; 8] = [1, 3, 5, 7, 9, 11, 13, 15];
/// Ways for each odd factor: a power of two of sets needs ways with the same odd factor.
const WAYS: [u32; 16] = [2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 14, 15, 16, 20, 24, 32];
/// Of these, such as TLBs have and no cache of a known processor.
const OF_TLBS: [u32; 4] = [5, 9, 14, 15];

/// Whether a cache may have so many ways.
pub(super) fn plausible_ways(ways: u32) -> bool {
    ways == 1 || WAYS.contains(&ways) && !OF_TLBS.contains(&ways)
}

/// Sizes that a cache may have between two bounds, plainest first.
pub fn plausible_sizes(low: u64, high: u64) -> Vec<u64> {
    let mut sizes: Vec<(u64, u64)> = Vec::new();
    for odd in ODDS {
        let mut size = odd;
        while size <= high {
            if size >= low && size > 1 {
                sizes.push((odd, size));
            }
            size *= 2;
        }
    }
    sizes.sort_unstable();
    sizes.into_iter().map(|(_, size)| size).collect()
}

/// `n / 2^k` with `n` odd.
pub fn odd_factor(n: u64) -> u64 {
    if n == 0 { 0 } else { n >> n.trailing_zeros() }
}

impl Laws {
    /// Share of the loads of `m` lines of one set of `a` ways that miss, going round.
    fn share(&mut self, policy: Policy, a: u32, m: u32) -> f64 {
        if m <= a {
            return 0.0;
        }
        if policy == Policy::Lru || m > 4 * a {
            return 1.0;
        }
        let plru = policy == Policy::TreePlru;
        if plru && !a.is_power_of_two() {
            return 1.0;
        }
        *self.known.entry((a, m, plru)).or_insert_with(|| one_set(policy, a, m))
    }

    /// Expected share of the loads that miss, for an array of `n` bytes.
    pub(super) fn misses(&mut self, law: &Law, n: f64) -> f64 {
        let a = law.ways;
        let bytes = (law.bytes + law.extra) as f64;
        let load = n / bytes * f64::from(a);
        match law.placement {
            Placement::Contiguous => {
                let (low, part) = (load.floor(), load.fract());
                let mut lines = |m: f64| m * self_share(self, law, m as u32);
                let below = lines(low) * (1.0 - part);
                (below + (low + 1.0) * part * self_share(self, law, low as u32 + 1))
                    / load.max(1e-9)
            }
            Placement::Scattered => {
                let colours = bytes / f64::from(a) / law.page;
                // A page shares its colour with the others at random: 1 + Binomial(pages - 1, 1/K).
                let others = ((n / law.page).round() - 1.0).max(0.0);
                self.weighted(law, binomial(others, (1.0 / colours).min(1.0)))
            }
            Placement::Hashed => self.weighted(law, poisson(load)),
        }
    }

    fn weighted(&mut self, law: &Law, chances_of_others: impl Iterator<Item = f64>) -> f64 {
        let mut hits = 0.0;
        for (others, chance) in (0..4 * law.ways).zip(chances_of_others) {
            let miss = self.share(law.policy, law.ways, others + 1);
            if miss >= 1.0 {
                break;
            }
            hits += chance * (1.0 - miss);
        }
        1.0 - hits.min(1.0)
    }

    /// The law that fits a transition best, and all that fit nearly as well (see [`near`]), best first.
    ///
    /// `points` reach from the plateau before to the plateau after; `exclusive`: sizes, each
    /// with that of the cache before it which holds other lines; `page` in bytes.
    pub fn fit(
        &mut self,
        points: &[CurvePoint],
        sizes: &[u64],
        exclusive: &[(u64, u64)],
        page: u32,
        placements: &[Placement],
    ) -> Vec<Fit> {
        // What chance does to pages is known for whole pages only.
        let (unit, mut whole) = (u64::from(page.max(1)), points.to_vec());
        whole.retain(|p| p.x.is_multiple_of(unit));
        let enough = whole.len() >= 6;
        let mut fits = Vec::new();
        for law in laws_of(sizes, exclusive, page, placements) {
            let whole_only = law.placement == Placement::Scattered && enough;
            let points = if whole_only { &whole } else { points };
            fits.extend(self.fit_one(points, &law));
        }
        best_first(&mut fits);
        fits
    }

    /// T0 and D by least squares, points weighted by their inverse latency.
    fn fit_one(&mut self, points: &[CurvePoint], law: &Law) -> Option<Fit> {
        let (mut w0, mut w1, mut w2, mut y0, mut y1) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let shares: Vec<f64> = points.iter().map(|p| self.misses(law, p.x as f64)).collect();
        for (p, &share) in points.iter().zip(&shares) {
            let w = 1.0 / p.ns.max(1e-3);
            w0 += w;
            w1 += w * share;
            w2 += w * share * share;
            y0 += w * p.ns;
            y1 += w * p.ns * share;
        }
        let determinant = w0 * w2 - w1 * w1;
        if determinant <= 1e-9 * w0 * w0 {
            return None;
        }
        let t0 = (y0 * w2 - y1 * w1) / determinant;
        let step = (y1 * w0 - y0 * w1) / determinant;
        if step <= 0.0 || t0 <= 0.0 {
            return None;
        }
        let left: f64 = points
            .iter()
            .zip(&shares)
            .map(|(p, share)| ((p.ns - t0 - step * share) / step).powi(2))
            .sum();
        let residual = (left / points.len() as f64).sqrt();
        Some(law.fitted(t0, step, residual))
    }
}

/// Laws of caches of the sizes, and of those of `exclusive`: a size, and that of the cache before
/// it which holds other lines.
pub(super) fn laws_of(
    sizes: &[u64],
    exclusive: &[(u64, u64)],
    page: u32,
    placements: &[Placement],
) -> Vec<Law> {
    let all = sizes.iter().map(|&s| (s, 0)).chain(exclusive.iter().copied());
    let mut laws = Vec::new();
    for (bytes, extra) in all {
        for ways in WAYS {
            if page > 1 && OF_TLBS.contains(&ways) {
                continue;
            }
            // A power of two of sets, except where sets are found by a hash.
            let plain = odd_factor(u64::from(ways)) == odd_factor(bytes);
            for &placement in placements {
                let scattered = placement == Placement::Scattered;
                if (!plain && placement != Placement::Hashed)
                    || (scattered && bytes / u64::from(ways) <= u64::from(page))
                {
                    continue;
                }
                for policy in [Policy::Lru, Policy::TreePlru, Policy::Random] {
                    let page = f64::from(page);
                    laws.push(Law { placement, policy, bytes, extra, ways, page });
                }
            }
        }
    }
    laws
}

fn self_share(laws: &mut Laws, law: &Law, m: u32) -> f64 {
    laws.share(law.policy, law.ways, m)
}

/// A fit's residual with a little weight on plainness: of equals, the plainer number and law.
pub(super) fn cost(f: &Fit) -> f64 {
    let odd = oddity(f.bytes);
    let law = if f.policy == Policy::Lru { 0.0 } else { 0.03 };
    let hash = if f.placement == Placement::Hashed { 0.1 } else { 0.0 };
    // Rare, and bends to nearly any soft end: it has to fit far better.
    let apart = if f.extra > 0 { 0.7 } else { 0.0 };
    (f.error + 0.004) * (1.0 + odd + law + hash + apart)
}

/// Sorts by cost.
pub(super) fn best_first(fits: &mut [Fit]) {
    fits.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
}

/// What an odd factor adds to a cost. Three and five times a power of two are common (48 KiB, 1.25 MiB); more
/// are found only where slices come together, and lie within a few percent of a plainer number.
fn oddity(bytes: u64) -> f64 {
    match odd_factor(bytes) {
        1 => 0.0,
        3 => 0.1,
        5 => 0.25,
        _ => 0.6,
    }
}

/// Fits that the points do not tell from the best.
pub fn near(fits: &[Fit]) -> Vec<Fit> {
    let Some(best) = fits.first().map(cost) else { return Vec::new() };
    fits.iter().take_while(|f| cost(f) <= best * 1.25 + 0.003).copied().collect()
}

/// As [`near`]. Where not even the best law is exact (a way of replacing lines that none of them knows),
/// twice its error says as little against a size, and of these the plainest comes first.
pub(super) fn plainest(fits: &[Fit]) -> Vec<Fit> {
    let Some(best) = fits.first() else { return Vec::new() };
    if best.residual < THE_LAW || best.placement == Placement::Contiguous {
        return near(fits);
    }
    let limit = 2.0 * cost(best);
    let mut all: Vec<Fit> = fits.iter().take_while(|f| cost(f) <= limit).copied().collect();
    // Stable: of equally plain ones the best comes first.
    all.sort_by_key(|f| odd_factor(f.bytes));
    all
}

/// A law, before it is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Law {
    pub(super) placement: Placement,
    pub(super) policy: Policy,
    pub(super) bytes: u64,
    /// See [`Fit::extra`].
    pub(super) extra: u64,
    pub(super) ways: u32,
    /// Bytes of a page.
    pub(super) page: f64,
}

impl Law {
    pub(super) fn fitted(self, t0: f64, step: f64, residual: f64) -> Fit {
        let Self { placement, policy, bytes, extra, ways, .. } = self;
        Fit { placement, policy, bytes, extra, ways, t0, step, residual, error: residual }
    }

    /// Whether a fit is of this law.
    pub(super) fn is(&self, f: &Fit) -> bool {
        (self.placement, self.policy, self.bytes, self.extra, self.ways)
            == (f.placement, f.policy, f.bytes, f.extra, f.ways)
    }
}

/// As [`simulated`], but once.
fn one_set(policy: Policy, a: u32, m: u32) -> f64 {
    let key = (a, m, policy == Policy::TreePlru);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = known().get(&key).copied();
    before.unwrap_or_else(|| {
        let share = simulated(policy, a, m);
        known().insert(key, share);
        share
    })
}

/// One set, simulated: `m` lines going round `a` ways.
fn simulated(policy: Policy, a: u32, m: u32) -> f64 {
    let mut tags = Tags::new(1, a as usize, policy, false);
    let (warm, measured) = (30, LOADS / m.max(1));
    let mut misses = 0u32;
    for round in 0..warm + measured {
        for line in 0..m {
            if !tags.touch(line) {
                tags.insert(line);
                misses += u32::from(round >= warm);
            }
        }
    }
    f64::from(misses) / f64::from(measured * m)
}

/// Chances of 0, 1, 2… of `n` at `p` each, one from the other.
fn binomial(n: f64, p: f64) -> impl Iterator<Item = f64> {
    let odds = p / (1.0 - p).max(1e-12);
    // With more than some thousand expected the first is 0, and with it all that could matter.
    let first = (n * (1.0 - p).max(1e-12).ln()).exp();
    (0u32..).scan(first, move |chance, k| {
        let here = *chance;
        *chance *= ((n - f64::from(k)) / f64::from(k + 1)).max(0.0) * odds;
        Some(here)
    })
}

/// Chances of 0, 1, 2… where `mean` are expected.
fn poisson(mean: f64) -> impl Iterator<Item = f64> {
    (0u32..).scan((-mean).exp(), move |chance, k| {
        let here = *chance;
        *chance *= mean / f64::from(k + 1);
        Some(here)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: &Law, low: f64, high: f64) -> Vec<CurvePoint> {
        let mut laws = Laws::default();
        let n = ((high / low).log2() * 6.0) as u32;
        (0..=n)
            .filter_map(|i| {
                let x = (low * 2f64.powf(f64::from(i) / 6.0) / law.page).round() * law.page;
                CurvePoint::of(x as u64, &[3.0 + 9.0 * laws.misses(law, x)])
            })
            .collect()
    }

    #[test]
    fn each_law_is_told_from_the_others() {
        for (placement, policy, bytes, ways) in [
            (Placement::Contiguous, Policy::Lru, 32 << 10, 4),
            (Placement::Contiguous, Policy::Random, 48 << 10, 12),
            (Placement::Scattered, Policy::Lru, 256 << 10, 8),
            (Placement::Scattered, Policy::Lru, 512 << 10, 16),
            (Placement::Hashed, Policy::Lru, 8 << 20, 16),
        ] {
            let law = Law { placement, policy, bytes, extra: 0, ways, page: 4096.0 };
            let points = points(&law, bytes as f64 / 4.0, bytes as f64 * 3.0);
            let all = [Placement::Contiguous, Placement::Scattered, Placement::Hashed];
            let fit = Laws::default().fit(
                &points,
                &plausible_sizes(bytes / 3, bytes * 2),
                &[],
                4096,
                &all,
            )[0];
            assert_eq!((fit.bytes, fit.ways, fit.placement), (bytes, ways, placement));
            assert!((fit.t0 - 3.0).abs() < 0.05 && (fit.step - 9.0).abs() < 0.1, "{fit:?}");
        }
    }

    /// One of a + 1 lines is always out, and where the victim is any of the others it is missed after
    /// (a + 1) / 2 loads in the mean.
    #[test]
    fn one_line_too_many_with_victims_at_random() {
        for a in [2, 4, 8, 16] {
            let (share, exact) = (one_set(Policy::Random, a, a + 1), 2.0 / f64::from(a + 1));
            assert!((share / exact - 1.0).abs() < 0.02, "{a} ways: {share}, not {exact}");
        }
    }

    #[test]
    fn sizes_are_those_that_caches_have() {
        assert_eq!(plausible_sizes(31_000, 34_000), [32_768]);
        assert_eq!(plausible_sizes(31_000, 50_000), [32_768, 49_152, 40_960, 36_864, 45_056]);
        assert!(plausible_sizes(1_200_000, 1_400_000).contains(&(5 << 18)));
        assert_eq!(odd_factor(48 << 10), 3);
    }

    #[test]
    fn chances_add_up() {
        let b: f64 = binomial(40.0, 0.125).take(41).sum();
        let p: f64 = poisson(16.0).take(80).sum();
        assert!((b - 1.0).abs() < 1e-9 && (p - 1.0).abs() < 1e-9, "{b} {p}");
        let two: Vec<f64> = binomial(2.0, 0.25).take(4).collect();
        let exact = [0.5625, 0.375, 0.0625, 0.0];
        assert!(two.iter().zip(exact).all(|(a, b)| (a - b).abs() < 1e-12), "{two:?}");
    }

    #[test]
    fn where_no_law_is_exact_the_plainest_of_what_fits_comes_first() {
        let fit = |bytes: u64, ways, residual| {
            let law = Law {
                placement: Placement::Scattered,
                policy: Policy::Random,
                bytes,
                extra: 0,
                ways,
                page: 4096.0,
            };
            law.fitted(3.8, 9.0, residual)
        };
        let inexact = [fit(896 << 10, 7, 0.025), fit(5 << 18, 5, 0.027), fit(1 << 20, 4, 0.034)];
        let sizes = |fits: &[Fit]| fits.iter().map(|f| f.bytes).collect::<Vec<_>>();
        assert_eq!(sizes(&plainest(&inexact)), [1 << 20, 5 << 18, 896 << 10]);
        let exact = [fit(896 << 10, 7, 0.006), fit(1 << 20, 4, 0.034)];
        assert_eq!(sizes(&plainest(&exact)), [896 << 10]);
    }
}
