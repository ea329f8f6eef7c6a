//! Context switches as a probe of caches: a ring of processes, each with a working set.
//!
//! While the working sets of all processes fit into a cache together, a switch costs the same
//! whatever their number; where they no longer do, each process finds its lines gone, and fetches
//! them from further out. So what a switch costs beyond an empty one, for each KiB of the working
//! set, is a staircase over the *product* of processes and working set, and its steps are the
//! caches (L. McVoy, C. Staelin, "lmbench: portable tools for performance analysis", USENIX 1996).
//!
//! Two plans, those of a study of a BeagleBone Black (2015) with the empty working set in both, which the refill is
//! told from: *macroscopic*, few points far apart up to 96 processes, and *microscopic*, 2 to 35 processes.

use latlab_model::cache::{SwitchKnee, SwitchPoint};
use latlab_model::finding::{Note, Quantity};
use latlab_stats::change_point;
use latlab_stats::quantile::median;
use std::collections::BTreeMap;

/// Processes and working sets (KiB) of the macroscopic plan.
pub const MACRO: (&[u32], &[u32]) =
    (&[2, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 72, 96], &[0, 2, 4, 8, 16, 24, 32]);
/// Processes and working sets (KiB) of the microscopic plan.
pub const MICRO: (&[u32], &[u32]) = (&MICRO_PROCS, &[0, 2, 4, 8, 16, 24, 32]);
/// The study leaves 19 out.
const MICRO_PROCS: [u32; 33] = {
    let mut all = [0; 33];
    let mut i = 0;
    while i < 33 {
        all[i] = i as u32 + if i < 17 { 2 } else { 3 };
        i += 1;
    }
    all
};

/// Points of the refill that knees are looked for in.
const FEWEST: usize = 6;
/// A knee is a rise by at least this factor.
const LEAST: f64 = 1.4;

/// What a KiB of the working set adds to a switch, by the product of processes and working set: a
/// quarter of an octave of products each, named by its largest.
///
/// All that the working sets of these points add, over all their KiB: a small working set adds
/// little, and what chance adds is the same for all, so that each counts as much as it can say.
pub fn refill(points: &[SwitchPoint]) -> Vec<(u64, f64)> {
    let empty = |procs: u32| points.iter().find(|p| p.procs == procs && p.bytes == 0);
    let mut sums: BTreeMap<i32, (u64, f64, f64)> = BTreeMap::new();
    for p in points.iter().filter(|p| p.bytes > 0) {
        let Some(without) = empty(p.procs) else { continue };
        let product = u64::from(p.procs).saturating_mul(p.bytes);
        // A power of two is the end of its stretch: up to it a cache of that size holds all.
        let stretch = (4.0 * (product as f64).log2() - 1e-9).ceil() as i32;
        let sum = sums.entry(stretch).or_default();
        sum.0 = sum.0.max(product);
        sum.1 += p.ns - without.ns;
        sum.2 += p.bytes as f64 / 1024.0;
    }
    sums.into_values().map(|(product, ns, kib)| (product, ns / kib)).collect()
}

/// Why there is no knee: too few points for one, or none that was found.
pub fn without_knee(points: &[SwitchPoint]) -> Note {
    match refill(points).len() {
        few if few < FEWEST => Note::new("cache.too-few-switch-points")
            .value("points", Quantity::Count(few as u64))
            .value("needed", Quantity::Count(FEWEST as u64)),
        _ => Note::new("cache.no-switch-knee"),
    }
}

/// Knees of the refill over the product.
pub fn knees(points: &[SwitchPoint]) -> Vec<SwitchKnee> {
    let curve = refill(points);
    if curve.len() < FEWEST {
        return Vec::new();
    }
    // Before the first knee nothing has to be fetched, and noise is all there is: a hundredth of
    // the largest is as good as nothing.
    let largest = curve.iter().map(|c| c.1).fold(0.0, f64::max);
    let logs: Vec<f64> = curve.iter().map(|c| c.1.max(largest / 100.0).max(1e-3).ln()).collect();
    let logs = change_point::clip_outliers(&logs, 0.7);
    let sd = change_point::noise(&logs).clamp(0.05, 0.4);
    let segments = change_point::segments(&logs, 3.0 * sd * sd * (logs.len() as f64).ln());
    let level = |r: &std::ops::Range<usize>| {
        let values: Vec<f64> = curve[r.clone()].iter().map(|c| c.1).collect();
        median(&values).unwrap_or(0.0)
    };
    let mut stairs: Vec<std::ops::Range<usize>> = Vec::new();
    for s in segments {
        match stairs.last_mut() {
            Some(before) if level(&s) < LEAST * level(before).max(largest / 100.0) => {
                before.end = s.end;
            }
            _ => stairs.push(s),
        }
    }
    let pairs = stairs.windows(2);
    pairs
        .map(|w| SwitchKnee {
            from_bytes: curve[w[0].end - 1].0,
            to_bytes: curve[w[1].start].0,
            before_ns: level(&w[0]),
            after_ns: level(&w[1]),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_stats::rng::SplitMix64;

    /// 32 KiB and 256 KiB, one line of 64 bytes 4 ns from the second cache and 60 from memory.
    fn ring((procs, sizes): (&[u32], &[u32]), noise: f64, seed: u64) -> Vec<SwitchPoint> {
        let mut rng = SplitMix64::new(seed);
        let mut points = Vec::new();
        for &procs in procs {
            for &kib in sizes {
                let each = match procs * kib {
                    0..=32 => 0.0,
                    33..=256 => 16.0 * 4.0,
                    _ => 16.0 * 60.0,
                };
                let wild = 1.0 + noise * (rng.below(2001) as f64 / 1000.0 - 1.0);
                let ns = (2000.0 + each * f64::from(kib)) * wild;
                points.push(SwitchPoint { procs, bytes: u64::from(kib) << 10, ns });
            }
        }
        points
    }

    #[test]
    fn both_caches_are_knees_of_both_plans() {
        for (plan, seed) in [(MACRO, 1), (MICRO, 2)] {
            let found = knees(&ring(plan, 0.02, seed));
            let [first, second] = &found[..] else { panic!("{found:#?}") };
            let around =
                |k: &SwitchKnee, kib: u64| k.from_bytes <= kib << 10 && k.to_bytes > kib << 10;
            assert!(around(first, 32) && around(second, 256), "{found:#?}");
            assert!((second.after_ns / 960.0 - 1.0).abs() < 0.2, "{found:#?}");
        }
    }

    #[test]
    fn the_plans_are_those_of_the_study() {
        let micro: Vec<u32> = (2..=35).filter(|n| *n != 19).collect();
        assert_eq!(MICRO.0, micro);
        assert_eq!((MACRO.0.len(), MACRO.1.len()), (13, 7));
    }

    #[test]
    fn a_switch_that_costs_the_same_has_no_knee() {
        let mut flat = ring(MACRO, 0.01, 3);
        flat.iter_mut().for_each(|p| p.ns = 2000.0 + p.bytes as f64 / 100.0);
        assert!(knees(&flat).is_empty(), "{:?}", knees(&flat));
        assert!(knees(&[]).is_empty());
    }

    #[test]
    fn too_few_points_are_not_a_curve_without_a_knee() {
        let points = ring((&[2, 4], &[0, 2, 4]), 0.0, 1);
        assert!(knees(&points).is_empty());
        assert_eq!(without_knee(&points).id(), Some("cache.too-few-switch-points"));
        let flat = ring((&[2, 3, 4, 5, 6, 7], &[0, 2, 4]), 0.0, 1);
        assert!(knees(&flat).is_empty(), "all of it fits into the first cache");
        assert_eq!(without_knee(&flat).id(), Some("cache.no-switch-knee"));
    }
}
