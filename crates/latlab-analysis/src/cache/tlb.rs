//! Data TLBs from a curve of one line a page: T(n) less what as many adjacent lines cost.

use super::knee::ONSET;
use super::miss_ratio::{Model, Placement, Replacement};
use super::plateau::{crossing, plateaus};
use latlab_model::cache::detail::{Curve, CurvePoint, Grade, Limitation, TlbLevel};
use latlab_model::finding::Confidence;

/// Levels of data TLBs that processors have; later steps are page tables that leave a cache.
const MOST: usize = 2;
/// One more page makes at least this share of the step: a fully associative TLB with LRU.
const SHARP: f64 = 0.6;
/// Share of the step where the knee of a TLB ends.
const END: f64 = 0.9;
/// Root mean square residual, share of the step, below which a model is that of the TLB.
const EXPLAINED: f64 = 0.1;
/// Models that leave up to this many times what the best leaves, and this much more, are as likely.
const ALIKE: (f64, f64) = (1.5, 0.01);
/// Associativities of TLBs (Intel and AMD optimisation manuals, Arm TRMs).
const WAYS: [u32; 10] = [2, 3, 4, 5, 6, 8, 10, 12, 16, 24];

/// Pages of the program itself, of the kernel and of other programs that always have entries, at most: no curve shows
/// them. On a guest with 96 entries the knee began at 80 pages.
const IN_USE: u64 = 16;

/// The smallest number of entries, at least so many, that fully associative TLBs have: a power of two by 4, 5 or 6, or
/// 72 (Intel and AMD optimisation manuals, Arm TRMs).
fn built(pages: u64) -> u64 {
    let of = |base: u64| pages.div_ceil(base).checked_next_power_of_two()?.checked_mul(base);
    let beside = (pages <= 72).then_some(72);
    [of(1), of(5), of(6), beside].into_iter().flatten().min().unwrap_or(pages)
}

/// The largest such number that is possible where so many pages fit.
fn possible(pages: u64) -> u64 {
    let most = pages.saturating_add(IN_USE);
    let mut found = pages;
    loop {
        match built(found.saturating_add(1)) {
            next if next > found && next <= most => found = next,
            _ => return found,
        }
    }
}

/// Latencies before and after each TLB's knee, ns, and the pages between which the knee begins.
pub fn knees(curve: &Curve) -> Vec<((f64, f64), (u64, u64))> {
    let found = plateaus(&curve.points);
    let pair = |w: &[super::plateau::Plateau]| {
        let (a, b) = (w[0].ns, w[1].ns);
        ((a, b), (crossing(&curve.points, a, b, ONSET, ONSET)))
    };
    found.windows(2).take(MOST).map(pair).collect()
}

/// TLBs of a curve.
pub fn infer(curve: &Curve) -> Vec<TlbLevel> {
    let mut from = 0;
    let mut out = Vec::new();
    for ((t0, t1), begin) in knees(curve) {
        let points: Vec<CurvePoint> =
            curve.points.iter().filter(|p| p.x >= from).copied().collect();
        let level = u32::try_from(out.len() + 1).unwrap_or(u32::MAX);
        out.push(TlbLevel { level, ..level_of(&points, t0, t1, begin) });
        from = begin.1;
    }
    out
}

fn level_of(points: &[CurvePoint], t0: f64, t1: f64, (low, high): (u64, u64)) -> TlbLevel {
    let of = |entries: u64, interval: (u64, u64), grade| TlbLevel {
        level: 0,
        entries: entries as u32,
        entries_interval: (interval.0 as u32, interval.1 as u32),
        penalty_ns: t1 - t0,
        grade,
    };
    let after = points.iter().find(|p| p.x >= high).map_or(t0, |p| p.ns);
    // Never a single value: what was measured is that `low` pages fit and `high` do not.
    if high <= low + 1 && after > t0 + SHARP * (t1 - t0) {
        let (entries, most) = (built(low), possible(low).max(high));
        let grade = if entries == low && most == high {
            Grade::default()
        } else {
            Grade::limited(Confidence::Medium, Limitation::EntriesInUse(low))
        };
        return of(entries, (low, most.max(entries)), grade);
    }
    let end = crossing(points, t0, t1, ONSET, END).1.max(high);
    let window: Vec<CurvePoint> =
        points.iter().filter(|p| p.x * 2 >= low && p.x <= end + end / 4).copied().collect();
    let gradual = Grade::limited(Confidence::Medium, Limitation::GradualKnee);
    // Hashed sets, pseudo-LRU and entries that others use make a knee begin before the last entry.
    let Some((best, alike)) = fit(&window, (low, end), t0, t1) else {
        let half = crossing(&window, t0, t1, 0.5, 0.5).0;
        return of(half, (low, possible(end)), gradual);
    };
    let least = alike.iter().copied().min().unwrap_or(best).min(best);
    let most = alike.iter().copied().max().unwrap_or(best).max(best);
    // Models that agree are known no better than by the pages that were measured next to them.
    let below = window.iter().map(|p| p.x).filter(|x| *x < least).max().unwrap_or(least);
    let above = window.iter().map(|p| p.x).filter(|x| *x > most).min().unwrap_or(most + 1);
    of(best, (below, possible(above)), gradual)
}

/// Entries of the set-associative model that fits best, and of all that fit about as well.
fn fit(points: &[CurvePoint], (low, end): (u64, u64), t0: f64, t1: f64) -> Option<(u64, Vec<u64>)> {
    let mut fits: Vec<(f64, u64)> = Vec::new();
    for ways in WAYS {
        for sets in (0..13).map(|k| 1u64 << k) {
            let bytes = sets * u64::from(ways);
            if bytes * 8 < low * 7 || bytes > end {
                continue;
            }
            for replacement in [Replacement::Lru, Replacement::TreePlru, Replacement::Random] {
                let placement = Placement::Contiguous;
                let model = Model { placement, replacement, bytes, ways, page: 1 };
                let shares: Vec<f64> =
                    points.iter().map(|p| model.miss_ratio(p.x as f64)).collect();
                let over = points.iter().map(|p| p.ns - t0);
                let square: f64 = shares.iter().map(|s| s * s).sum();
                let step = over.clone().zip(&shares).map(|(o, s)| o * s).sum::<f64>() / square;
                if step.is_nan() || step <= (t1 - t0) * SHARP {
                    continue;
                }
                let left = over.zip(&shares).map(|(o, s)| (o / step - s).powi(2)).sum::<f64>();
                fits.push(((left / points.len().max(1) as f64).sqrt(), bytes));
            }
        }
    }
    fits.sort_by(|a, b| a.0.total_cmp(&b.0));
    let best = *fits.first().filter(|f| f.0 < EXPLAINED)?;
    let most = best.0 * ALIKE.0 + ALIKE.1;
    Some((best.1, fits.iter().take_while(|f| f.0 <= most).map(|f| f.1).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(of: impl Fn(u64) -> f64) -> Curve {
        let pages = (2..=16).chain((17..200).filter(|n| n % 3 == 0 || (60..110).contains(n)));
        let mut curve = Curve::default();
        pages.filter_map(|n| CurvePoint::of(n, &[of(n)])).for_each(|p| curve.insert(p));
        curve
    }

    #[test]
    fn a_fully_associative_tlb_is_exact() {
        let found = infer(&curve(|n| if n <= 96 { 1.0 } else { 3.0 }));
        assert_eq!((found.len(), found[0].entries, found[0].entries_interval), (1, 96, (96, 97)));
    }

    /// Two pages of 64 are always there; nobody builds 62 entries. Where 64 fit, 80 may be built.
    #[test]
    fn entries_that_others_use_are_entries() {
        let of = |fit: u64| infer(&curve(|n| if n <= fit { 1.0 } else { 3.0 })).remove(0);
        let found = of(62);
        assert_eq!((found.entries, found.entries_interval), (64, (62, 72)));
        assert_eq!(found.grade.confidence, Confidence::Medium);
        assert_eq!((of(64).entries, of(64).entries_interval), (64, (64, 80)));
        assert_eq!(of(64).grade.confidence, Confidence::Medium);
        assert_eq!(of(96).grade.confidence, Confidence::High);
        assert_eq!([10, 29, 33, 66, 74, 90].map(built), [10, 32, 40, 72, 80, 96]);
        assert_eq!(
            [40, 48, 64, 72, 80, 96, 99, 1024].map(possible),
            [48, 64, 80, 80, 96, 96, 99, 1024]
        );
    }

    #[test]
    fn a_set_associative_tlb_is_fitted() {
        let (placement, replacement) = (Placement::Contiguous, Replacement::Lru);
        let model = Model { placement, replacement, bytes: 96, ways: 6, page: 1 };
        let found = infer(&curve(|n| 1.0 + 2.0 * model.miss_ratio(n as f64)));
        assert_eq!(found[0].entries, 96);
        assert!(found[0].entries_interval.0 < 96 && found[0].entries_interval.1 > 96);
    }

    /// A TLB of 96 entries whose knee begins at 80 pages, as on an Emerald Rapids guest.
    #[test]
    fn a_knee_that_begins_early_has_an_interval() {
        let found = infer(&curve(|n| 1.0 + 2.0 * ((n as f64 - 80.0) / 60.0).clamp(0.0, 1.0)));
        let (low, high) = found[0].entries_interval;
        assert!(low <= 80 && high >= 96, "{low} {high}");
        assert_eq!(found[0].grade.confidence, Confidence::Medium);
    }
}
