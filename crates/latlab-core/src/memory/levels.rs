//! One level: where its plateau ends, and by which law.

use super::conflict::Step;
use super::curve::{Curve, CurvePoint, Pages};
use super::explore::{Explorer, scattered};
use super::findings::bytes_words;
use super::plateau::{self, Plateau};
use super::setmodel::{self, Fit, Laws, Placement};
use super::{Grade, Level, MeterError};
use crate::finding::Confidence;
use crate::stats::quantile::median;
use crate::units::format_ns;

/// Share of the step at which a plateau has ended.
pub(super) const ONSET: f64 = 0.08;
/// With more of the step unexplained, the form of a transition says nothing of ways.
const WAYS_RESIDUAL: f64 = 0.05;
/// A level that only a law betrays takes at least so many times what the one before it does: no real one is
/// nearer, and a law that does not quite fit begins a little above its plateau.
const BETWEEN: f64 = 1.5;
/// With less of the latency unexplained, the law tells that of a hit.
const LATENCY_RESIDUAL: f64 = 0.05;

impl Explorer<'_> {
    /// Measures the way from one plateau to the next closely.
    pub(super) fn look_between(
        &mut self,
        curve: &mut Curve,
        here: Plateau,
        next: Plateau,
    ) -> Result<(), MeterError> {
        // The plateaus were found in the coarse curve; points were added since, so go by size and latency.
        let range = coarse_range(curve, here, next);
        self.refine(curve, range, here.ns, next.ns)
    }

    /// Level `i` (0 is the first cache), once its end was looked at closely.
    pub(super) fn find_level(
        &mut self,
        curve: &Curve,
        found: &[Plateau],
        i: usize,
    ) -> Result<Found, MeterError> {
        let (here, next) = (found[i], found[i + 1]);
        let coarse = coarse_range(curve, here, next);
        let window = window(curve, coarse, here.first_x, next.ns);
        let onset = onset(&window, here.ns, next.ns, ONSET);
        let probed = match self.ways(curve.pages, i, onset, &window, (here.ns, next.ns)) {
            // The curve is there: its law tells the size without them.
            Err(MeterError::OutOfTime) => None,
            other => other?,
        };
        let inner = self.detail.levels.last().map_or(0, |l| l.bytes);
        Ok(level_of(curve, found, i, self.limits.page_bytes, (inner, probed)))
    }

    /// Ways of the level before `i`, 0 where they are not known.
    pub(super) fn ways_before(&self, i: usize) -> u32 {
        let before = i.checked_sub(1).and_then(|k| self.detail.levels.get(k));
        before.and_then(|l| l.ways).unwrap_or(0)
    }

    /// Ways of level `i`: by addresses where they name sets, by reduction where they do not.
    pub(super) fn ways(
        &mut self,
        pages: Pages,
        i: usize,
        onset: (u64, u64),
        window: &[CurvePoint],
        (t0, t1): (f64, f64),
    ) -> Result<Option<Ways>, MeterError> {
        let middle = (t0 + t1) / 2.0;
        let step = Step {
            level: i,
            first: self.detail.levels.first().map_or(t0, |l| l.ns),
            hit: t0,
            miss: t1,
            half: window.iter().find(|p| p.ns >= middle).map_or(onset.1, |p| p.x),
        };
        let named = self.probe_ways(pages, i, onset, t0, t1)?;
        let (ways, conflict) = match named {
            Some((ways, places)) if !ways.at_most => (Some(ways), Some(places)),
            _ => match self.ways_by_reduction(pages, step)? {
                Some((ways, places)) => {
                    let inner = self.ways_before(i);
                    // Where the level before replaces at random, even twice its ways may be needed to
                    // push lines out of it.
                    let behind = i > 0 && ways <= 2 * inner;
                    let really =
                        if behind { self.ways_behind(pages, &places, step)? } else { Some(ways) };
                    // Lines none of which matters fight for a set of the level before, not of this one.
                    match really {
                        Some(ways) => (Some(Ways { ways, at_most: false, inner }), Some(places)),
                        None => (named.map(|n| n.0), None),
                    }
                }
                None => (named.map(|n| n.0), None),
            },
        };
        self.steps.push(step);
        self.conflicts.push(conflict);
        Ok(ways)
    }

    /// More points between the end of one plateau and the start of the next, then round the onset.
    fn refine(
        &mut self,
        curve: &mut Curve,
        (low, high): (u64, u64),
        t0: f64,
        t1: f64,
    ) -> Result<(), MeterError> {
        let octaves = (high as f64 / low.max(1) as f64).log2().max(0.3);
        let per_octave = if self.quick { 6.0 } else { 10.0 };
        let n = (octaves * per_octave).ceil().clamp(4.0, 30.0) as u32;
        let pages = curve.pages;
        let repeats = |x| if pages == Pages::Base { scattered(x) } else { 5 };
        for k in 0..=n {
            let x = low as f64 * (high as f64 / low as f64).powf(f64::from(k) / f64::from(n));
            self.add(curve, x, repeats(x))?;
        }
        self.steadier(curve)?;
        // Whole pages, often: chance decides which colours few pages get.
        let page = u64::from(self.limits.page_bytes);
        if curve.pages == Pages::Base && high / page <= 40 {
            for n in (low / page).max(1)..=high / page {
                self.add(curve, (n * page) as f64, 64)?;
            }
        }
        // Bisect the onset to 3%.
        for _ in 0..6 {
            let (below, above) = onset(&curve.points, t0, t1, ONSET);
            if above as f64 <= below as f64 * 1.03 || above - below <= 2 * u64::from(self.stride) {
                break;
            }
            let before = curve.points.len();
            let x = (below as f64 * above as f64).sqrt();
            self.add(curve, x, repeats(x))?;
            if curve.points.len() == before {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn add(
        &mut self,
        curve: &mut Curve,
        x: f64,
        repeats: u32,
    ) -> Result<(), MeterError> {
        let page = f64::from(self.limits.page_bytes);
        let unit = if curve.pages == Pages::Base && x >= 24.0 * page {
            page
        } else {
            f64::from(4 * self.stride).max((x / 128.0).log2().floor().exp2())
        };
        let x = (x / unit).round() * unit;
        if x < unit || x > f64::from(self.room(curve.pages)) {
            return Ok(());
        }
        let repeats = self.repeats(curve.pages, x as u32, repeats);
        let known = curve.points.iter().find(|p| p.x == x as u64).map_or(0, |p| p.repeats);
        if known < repeats {
            let point = self.point(curve, x as u32, repeats)?;
            curve.insert(point);
        }
        Ok(())
    }
}

/// A level and what it was concluded from.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) level: Level,
    /// Laws, best first.
    pub(super) fits: Vec<Fit>,
    /// Ways that were counted.
    pub(super) ways: Option<Ways>,
    /// The last size on the plateau and the first above it.
    pub(super) onset: (u64, u64),
    /// Sizes of the transition and what is beside it.
    pub(super) window: (u64, u64),
    /// Latency of a hit as the plateau has it, ns.
    pub(super) plateau_ns: f64,
    /// There is such a plateau; otherwise only a law says so.
    pub(super) seen: bool,
    /// Median of the plateau, ns.
    pub(super) floor_ns: f64,
}

impl Found {
    /// Where the law begins well above the plateau `here`, another level lies between `here` and
    /// `next`, `apart` times as quick as that at least, too steep to be a plateau of its own: cut out at
    /// the latency with which the law begins, or where the curve leaps to.
    pub(super) fn plateau_between(
        &self,
        curve: &Curve,
        here: Plateau,
        next: Plateau,
        apart: f64,
    ) -> Option<Plateau> {
        let law = self.fits.first().filter(|f| f.residual < WAYS_RESIDUAL)?;
        // Behind one that only a law betrays, none is betrayed by a law.
        if !next.seen || law.t0 < here.ns * BETWEEN || law.t0 * apart > next.ns {
            return None;
        }
        let near = |p: &CurvePoint| (0.9..1.1).contains(&(p.ns / law.t0));
        // The curve may leap over that latency: then the level takes what it takes after the leap.
        let leap = || {
            let to = curve.points.iter().rposition(|p| p.ns <= law.t0)? + 1;
            (curve.points.get(to)?.ns * apart < next.ns).then_some(to)
        };
        let first = curve.points.iter().position(near).or_else(leap)?;
        let last = curve.points.iter().rposition(near).unwrap_or(first);
        let CurvePoint { x: first_x, ns, .. } = curve.points[first];
        let ns = if near(&curve.points[first]) { law.t0 } else { ns };
        let (low_ns, high_ns) = (ns * 0.9, ns * 1.1);
        Some(Plateau { first, last, first_x, ns, low_ns, high_ns, seen: false })
    }
}

/// Level `i` from a curve that is measured closely enough round its end; `inner`: bytes of the level before.
pub(super) fn level_of(
    curve: &Curve,
    found: &[Plateau],
    i: usize,
    page: u32,
    (inner, probed): (u64, Option<Ways>),
) -> Found {
    let (here, next) = (found[i], found[i + 1]);
    let range = coarse_range(curve, here, next);
    let window = window(curve, range, here.first_x, next.ns);
    let onset = onset(&window, here.ns, next.ns, ONSET);
    let placements: &[Placement] = match (i, curve.pages) {
        (0, Pages::Base) => &[Placement::Contiguous, Placement::Scattered],
        (0, Pages::Huge) => &[Placement::Contiguous],
        // Only caches further out, made of slices, find their sets by a hash.
        (1, _) => &[Placement::Scattered, Placement::Contiguous],
        _ => &[Placement::Scattered, Placement::Contiguous, Placement::Hashed],
    };
    // Where no plateau of the next level was seen, it may begin further out.
    let out = if next.seen { 1.1 } else { 1.6 };
    let (low, high) = ((onset.0 as f64 * 0.9) as u64, (range.1 as f64 * out) as u64);
    let sizes = setmodel::plausible_sizes(low, high);
    let exclusive = exclusive_sizes(inner, low, high);
    let mut fits = Laws::default().fit(&window, &sizes, &exclusive, page, placements);
    if next.seen {
        // Where all loads miss they take what the next level takes.
        for f in &mut fits {
            f.error *= 1.0 + ((f.t0 + f.step) / next.ns).ln().abs();
        }
        setmodel::best_first(&mut fits);
    }
    // What no cache has was counted wrongly.
    let plausible =
        |w: &Ways| w.at_most || fits.first().is_none_or(|f| setmodel::plausible_ways(w.of(f)));
    let probed = probed.filter(|w| plausible(w) && !contradicted(*w, &fits));
    let mut level = Level::of(i + 1, &here);
    level.ns = if i == 0 { innermost(&window, here, onset.0) } else { hit(&window, here, onset.0) };
    level.effective_bytes = effective(&window, here.ns, next.ns);
    let plateau_ns = level.ns;
    conclude(&mut level, curve.pages, onset, &fits, probed);
    let ends = (window.first().map_or(0, |p| p.x), window.last().map_or(0, |p| p.x));
    let (seen, floor_ns) = (here.seen, here.ns);
    Found { level, fits, ways: probed, onset, window: ends, plateau_ns, seen, floor_ns }
}

/// Sizes that with the `inner` bytes of the cache before come to between `low` and `high`: what two
/// caches hold together when neither holds what the other has.
fn exclusive_sizes(inner: u64, low: u64, high: u64) -> Vec<(u64, u64)> {
    if inner == 0 || high <= inner {
        return Vec::new();
    }
    let least = low.saturating_sub(inner).max(inner);
    // Less than a sixteenth more cannot be seen.
    let sizes = setmodel::plausible_sizes(least, (high - inner).min(inner * 16));
    sizes.into_iter().map(|s| (s, inner)).collect()
}

/// Whether a law explains a transition, and none with the ways that were counted comes near.
fn contradicted(counted: Ways, fits: &[Fit]) -> bool {
    let error = |fits: &[Fit]| fits.first().map_or(0.0, |f| f.error);
    let best = error(fits);
    best < setmodel::INEXACT && error(&allowed(fits, Some(counted))) > 3.0 * best + 0.01
}

/// Laws that do not contradict the ways that were counted in conflict sets; all, if none is left.
pub(super) fn allowed(fits: &[Fit], probed: Option<Ways>) -> Vec<Fit> {
    let of = |exclusive: bool| -> Vec<Fit> {
        let fits_ways = |f: &&Fit| match probed {
            Some(w) if w.at_most => f.ways <= w.ways,
            Some(w) => w.of(f) == f.ways,
            None => true,
        };
        let same = fits.iter().filter(|f| f.extra == 0 || exclusive);
        same.filter(fits_ways).copied().collect()
    };
    // Ways that a plain cache may have are those of a plain cache.
    let mut kept = of(probed.is_none());
    if kept.is_empty() {
        kept = of(true);
    }
    if kept.is_empty() { fits.to_vec() } else { kept }
}

/// Sizes between which the step lies, from the coarse curve.
fn coarse_range(curve: &Curve, here: Plateau, next: Plateau) -> (u64, u64) {
    let mid = (here.ns * next.ns).sqrt();
    // One disturbed point before the plateau is no end of it.
    let mut from_here = curve.points.iter().filter(|p| p.x >= here.first_x);
    let high = from_here.find(|p| p.ns > next.ns * 0.93);
    // What was measured again since may be quicker than the next plateau was.
    let high = high.or(curve.points.last()).map_or(0, |p| p.x);
    let inside = curve.points.iter().filter(|p| p.x <= high.max(1) && p.ns < mid);
    let rise = here.ns + ONSET * 0.6 * (next.ns - here.ns);
    let low = inside.filter(|p| p.ns <= rise.max(here.ns * 1.03)).map(|p| p.x).max();
    (low.unwrap_or(0).max(1024), high)
}

pub(super) fn conclude(
    level: &mut Level,
    pages: Pages,
    onset: (u64, u64),
    fits: &[Fit],
    probed: Option<Ways>,
) {
    let kept = allowed(fits, probed);
    let counted = probed.filter(|w| !w.at_most);
    let near = if counted.is_none() { setmodel::plainest(&kept) } else { setmodel::near(&kept) };
    let near = &near[..];
    let Some(best) = near.first().copied() else {
        level.bytes =
            setmodel::plausible_sizes(onset.0, onset.1).first().copied().unwrap_or(onset.0);
        level.bytes_interval = onset;
        level.ways = counted.map(|w| w.ways);
        level.grade = Grade::less(Confidence::Likely, "no law fits the transition");
        return;
    };
    level.bytes = best.bytes;
    level.residual = Some(best.residual);
    level.law = best.words();
    // Chance makes some lines miss long before the plateau ends; a law that fits knows the rest.
    if level.level > 1
        && best.residual * best.step < LATENCY_RESIDUAL * best.t0
        && best.t0 < level.ns
    {
        level.ns = best.t0.max(0.8 * level.ns);
    }
    let (low, high) =
        near.iter().fold((best.bytes, best.bytes), |(l, h), f| (l.min(f.bytes), h.max(f.bytes)));
    level.bytes_interval = (low, high);
    if best.placement == Placement::Contiguous {
        // The plateau's end says it, too: the law must not contradict what can be seen.
        let (below, above) = (onset.0 as f64 * 0.97, onset.1 as f64 * 1.03);
        let seen = |b: u64| (below..=above).contains(&(b as f64));
        if !seen(best.bytes + best.extra) {
            level.bytes = plain_size(below as u64, above as u64, counted, best.bytes);
        }
        level.bytes_interval = (low.min(onset.0), high.max(onset.1));
    }
    ways_of(level, near, counted.map(|w| w.of(&best)));
    level.grade = grade(&best, level, near, pages);
}

/// The plainest size between two bounds; with ways that were counted, one of a power of two of sets.
/// Neighbours take a part of a cache away and never add to it: where no such size lies between the
/// bounds, it is that of the law unless more was seen, then the next above them.
fn plain_size(below: u64, above: u64, counted: Option<Ways>, otherwise: u64) -> u64 {
    let Some(ways) = counted.map(|w| u64::from(w.ways)).filter(|w| *w > 0) else {
        return setmodel::plausible_sizes(below, above).first().copied().unwrap_or(otherwise);
    };
    let fits = |b: &u64| setmodel::odd_factor(*b) == setmodel::odd_factor(ways);
    let first = |low, high| setmodel::plausible_sizes(low, high).into_iter().filter(fits).min();
    let of_law = Some(otherwise).filter(|b| fits(b) && b * 5 / 4 >= below);
    first(below, above).or(of_law).or_else(|| first(below, above * 2)).unwrap_or(otherwise)
}

fn ways_of(level: &mut Level, near: &[Fit], counted: Option<u32>) {
    let Some(best) = near.first() else { return };
    let same = near.iter().filter(|f| f.bytes == best.bytes).all(|f| f.ways == best.ways);
    let exact = best.placement == Placement::Contiguous;
    let tells = if exact { WAYS_RESIDUAL } else { setmodel::INEXACT };
    if let Some(ways) = counted {
        level.ways = Some(ways);
        level.ways_by = "conflict sets".into();
    } else if best.placement != Placement::Hashed && same && best.residual < tells {
        level.ways = Some(best.ways);
        level.ways_by = "the form of the transition".into();
    } else {
        level.ways_by = "cannot tell: sets are found by a hash, or the form fits several".into();
    }
}

/// Ways counted in conflict sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ways {
    pub(super) ways: u32,
    /// An inner cache with as many ways hides smaller numbers.
    pub(super) at_most: bool,
    /// Ways of the cache before, 0 where they are not known.
    pub(super) inner: u32,
}

impl Ways {
    /// Ways of a cache with this law: what a cache holds besides that is exclusive of it fights for no set of it.
    fn of(self, law: &Fit) -> u32 {
        if law.extra > 0 { self.ways.saturating_sub(self.inner) } else { self.ways }
    }
}

fn grade(best: &Fit, level: &Level, near: &[Fit], pages: Pages) -> Grade {
    let sizes_agree = near.iter().all(|f| f.bytes == best.bytes);
    let left = best.residual;
    match best.placement {
        Placement::Contiguous if level.level > 1 && pages == Pages::Base => Grade::less(
            Confidence::Likely,
            "a sharp end, though physical pages lie at random where this cache is looked up",
        ),
        Placement::Contiguous if left < 0.12 && sizes_agree => Grade::default(),
        _ if left > 0.25 => Grade::less(
            Confidence::CannotTell,
            format!(
                "the best law leaves {:.0}% of the step of {} unexplained",
                left * 100.0,
                format_ns(best.step)
            ),
        ),
        Placement::Contiguous if left < 0.12 => {
            Grade::less(Confidence::Likely, "neighbouring sizes fit nearly as well")
        }
        Placement::Contiguous => {
            Grade::less(Confidence::Likely, "the transition is softer than the law")
        }
        Placement::Scattered => Grade::less(
            Confidence::Likely,
            format!(
                "physical pages lie at random: the plateau ends at {} already",
                bytes_words(level.effective_bytes)
            ),
        ),
        Placement::Hashed => Grade::less(
            Confidence::Likely,
            "a soft end: sets found by a hash, or a cache shared with others",
        ),
    }
}

/// Points from the middle of a plateau to where the next begins.
fn window(curve: &Curve, (low, high): (u64, u64), first: u64, next_ns: f64) -> Vec<CurvePoint> {
    // From one octave before the onset to half an octave into the next plateau.
    let inside =
        |p: &&CurvePoint| p.x >= first && p.x * 2 >= low && p.x as f64 <= high as f64 * 1.45;
    let all: Vec<CurvePoint> = curve.points.iter().filter(inside).copied().collect();
    // What already climbs to the level after belongs to that one.
    all.into_iter().filter(|p| p.ns < next_ns * 1.25).collect()
}

/// The last size on the plateau and the first above it.
pub(super) fn onset(points: &[CurvePoint], t0: f64, t1: f64, share: f64) -> (u64, u64) {
    let limit = (t0 + share * (t1 - t0)).max(t0 * 1.03);
    // The last point below the limit, unless two before it are above: one lucky value is no plateau.
    let mut below = points.first().map_or(0, |p| p.x);
    let mut above = points.last().map_or(0, |p| p.x);
    for (i, p) in points.iter().enumerate() {
        let next_high = points.get(i + 1).is_none_or(|q| q.ns > limit);
        if p.ns <= limit {
            below = p.x;
        } else if next_high && p.x > below {
            above = p.x;
            break;
        }
    }
    (below, above)
}

fn effective(points: &[CurvePoint], t0: f64, t1: f64) -> u64 {
    let limit = t0 + 0.1 * (t1 - t0);
    points.iter().take_while(|p| p.ns <= limit.max(t0 * 1.05)).last().map_or(0, |p| p.x)
}

/// Latency of a hit in the first cache: nothing comes before its plateau, so well before its end.
fn innermost(points: &[CurvePoint], here: Plateau, end: u64) -> f64 {
    let inside = points.iter().filter(|p| p.x >= here.first_x && p.x as f64 <= 0.6 * end as f64);
    let v: Vec<f64> = inside.map(|p| p.ns).collect();
    if v.len() < 3 { hit(points, here, end) } else { median(&v).unwrap_or(here.ns) }
}

/// Latency of a hit: a low middle of the plateau's outer half. Its inner half may still have the tail
/// of the transition before, its end the beginning of the next.
fn hit(points: &[CurvePoint], here: Plateau, end: u64) -> f64 {
    let from = (here.first_x as f64 * end as f64).sqrt() * 0.8;
    let near = |p: &&CurvePoint| {
        p.x as f64 >= from && p.x <= end && (0.85..1.15).contains(&(p.ns / here.ns))
    };
    // Points crowd at its end, where it climbs already.
    let even = plateau::evenly(points);
    let mut v: Vec<f64> = even.iter().filter(near).map(|p| p.ns).collect();
    v.sort_unstable_by(f64::total_cmp);
    v.get(v.len() * 2 / 5).copied().unwrap_or(here.ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A first cache of eight ways of which somebody else takes a quarter.
    #[test]
    fn a_size_fits_the_ways_that_were_counted_and_is_not_less_than_what_was_seen() {
        let eight = Some(Ways { ways: 8, at_most: false, inner: 0 });
        assert_eq!(plain_size(22_000, 24_000, eight, 1), 32 << 10);
        assert_eq!(plain_size(31_900, 33_000, eight, 1), 32 << 10);
        assert_eq!(plain_size(16_500, 17_600, eight, 16 << 10), 16 << 10);
        assert_eq!(plain_size(22_000, 24_000, eight, 16 << 10), 32 << 10);
        assert_eq!(plain_size(22_000, 25_000, None, 1), 24 << 10);
        // A law of five ways says nothing where eight were counted.
        assert_eq!(plain_size(19_800, 23_000, eight, 20 << 10), 32 << 10);
        let twelve = Some(Ways { ways: 12, at_most: false, inner: 0 });
        assert_eq!(plain_size(47_000, 50_000, twelve, 1), 48 << 10);
    }

    /// Somebody who had slowed memory was gone when it was measured again: no point comes near the plateau that
    /// memory was.
    #[test]
    fn a_level_ends_where_the_next_was_even_if_it_is_quicker_now() {
        let points = (0..40).filter_map(|i| {
            let x = 4096 << (i / 4);
            CurvePoint::of(x + x / 4 * (i % 4), &[if x < 128 << 10 { 4.0 } else { 80.0 }])
        });
        let curve = Curve { points: points.collect(), ..Default::default() };
        let at = Plateau::at;
        let found = [at(4096, 4.0), at(256 << 10, 120.0)];
        let level = level_of(&curve, &found, 0, 4096, (0, None)).level;
        assert!((64 << 10..=256 << 10).contains(&level.bytes), "{level:?}");
    }
}
