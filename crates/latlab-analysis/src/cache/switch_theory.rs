//! Context switches with working sets beside theory: what a cache model expects of each point, and the value that
//! many processes converge to.
//!
//! A ring of P processes with S bytes each uses P·S bytes in turn. While they fit into a cache, each finds its lines
//! there (regime 1 of R. H. Saavedra and A. J. Smith, "Measuring cache and TLB performance and their effect on
//! benchmark runtimes", IEEE Transactions on Computers 44, 1995); beyond it, all S bytes come from the next level, and
//! a switch costs T(P, 0) + S·r with one cost r for each level. The capacities are those that the machine reports, or
//! the measured knees; r of each level is the median of its points, so each level has one fitted number.

use latlab_model::cache::{SwitchKnee, SwitchPlateau, SwitchPoint, SwitchTheory};
use latlab_stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet};

/// A plateau has values within this factor of one another.
const FLAT: f64 = 1.15;
/// Points of a plateau, at least.
const LEAST: usize = 3;

/// What the model expects at each point, in the order of working set and processes. `capacities` rise, in bytes;
/// without any, nothing is expected.
pub fn theory(points: &[SwitchPoint], capacities: &[u64]) -> Vec<SwitchTheory> {
    if capacities.is_empty() {
        return Vec::new();
    }
    let empty: BTreeMap<u32, f64> =
        points.iter().filter(|p| p.bytes == 0).map(|p| (p.procs, p.ns)).collect();
    let level = |p: &SwitchPoint| {
        let product = u64::from(p.procs) * p.bytes;
        capacities.iter().filter(|c| product > **c).count()
    };
    let kib = |p: &SwitchPoint| p.bytes as f64 / 1024.0;
    let mut costs: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for p in points.iter().filter(|p| p.bytes > 0) {
        if let Some(without) = empty.get(&p.procs) {
            costs.entry(level(p)).or_default().push((p.ns - without) / kib(p));
        }
    }
    let cost: BTreeMap<usize, f64> =
        costs.into_iter().filter_map(|(l, c)| Some((l, median(&c)?))).collect();
    let mut sorted: Vec<&SwitchPoint> = points.iter().filter(|p| p.bytes > 0).collect();
    sorted.sort_by_key(|p| (p.bytes, p.procs));
    let row = |p: &&SwitchPoint| {
        let level = level(p);
        let refill = *cost.get(&level)?;
        Some(SwitchTheory {
            procs: p.procs,
            bytes: p.bytes,
            level: level as u32 + 1,
            refill_ns_per_kib: refill,
            expected_ns: empty.get(&p.procs)? + refill * kib(p),
            measured_ns: p.ns,
        })
    };
    sorted.iter().filter_map(row).collect()
}

/// Capacities to expect changes at: the caches that the machine reports, else where the measured knees are (the
/// geometric middle of each).
pub fn capacities(reported: &[u64], knees: &[SwitchKnee]) -> Vec<u64> {
    let middle = |k: &SwitchKnee| ((k.from_bytes as f64) * (k.to_bytes as f64)).sqrt() as u64;
    let all: BTreeSet<u64> = match reported {
        [] => knees.iter().map(middle).collect(),
        reported => reported.iter().copied().collect(),
    };
    all.into_iter().filter(|c| *c > 0).collect()
}

/// The value that each working set converges to as processes are added: the median of the last third of its points
/// (three at least), where they are within 15 % of one another; and the first number of processes from which on all
/// values are within 15 % of it. A working set that still rises has none.
pub fn plateaus(points: &[SwitchPoint]) -> Vec<SwitchPlateau> {
    let mut curves: BTreeMap<u64, Vec<(u32, f64)>> = BTreeMap::new();
    for p in points {
        curves.entry(p.bytes).or_default().push((p.procs, p.ns));
    }
    let of = |(bytes, mut curve): (u64, Vec<(u32, f64)>)| {
        curve.sort_by_key(|c| c.0);
        let tail = &curve[curve.len().saturating_sub((curve.len() / 3).max(LEAST))..];
        let values: Vec<f64> = tail.iter().map(|c| c.1).collect();
        let (low, high) =
            (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        if values.len() < LEAST || low <= 0.0 || high > FLAT * low {
            return None;
        }
        let ns = median(&values)?;
        let within = |c: &&(u32, f64)| c.1 < ns * FLAT && c.1 > ns / FLAT;
        let from = curve.iter().rev().take_while(within).last()?.0;
        Some(SwitchPlateau { bytes, ns, from_procs: from })
    };
    curves.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 KiB and 256 KiB of cache; a KiB costs 50 ns from the second, 900 ns from memory.
    fn ring() -> Vec<SwitchPoint> {
        let mut points = Vec::new();
        for procs in [2u32, 4, 8, 12, 16, 24, 32, 48, 64, 96] {
            for kib in [0u64, 2, 8, 24] {
                let each = match u64::from(procs) * kib {
                    0..=32 => 0.0,
                    33..=256 => 50.0,
                    _ => 900.0,
                };
                let ns = 2000.0 + f64::from(procs) + each * kib as f64;
                points.push(SwitchPoint { procs, bytes: kib << 10, ns });
            }
        }
        points
    }

    #[test]
    fn a_machine_of_the_model_is_as_expected() {
        let rows = theory(&ring(), &[32 << 10, 256 << 10]);
        assert_eq!(rows.len(), 30);
        for r in &rows {
            assert!((r.expected_ns / r.measured_ns - 1.0).abs() < 1e-9, "{r:?}");
        }
        let at = |procs, kib: u64| {
            rows.iter().find(|r| r.procs == procs && r.bytes == kib << 10).unwrap().level
        };
        // The proof of the study: 16 processes of 2 KiB fill a cache of 32 KiB, 24 do not fit.
        assert_eq!((at(16, 2), at(24, 2), at(96, 24)), (1, 2, 3));
        assert!(theory(&ring(), &[]).is_empty());
    }

    #[test]
    fn a_wrong_capacity_is_seen_in_the_difference() {
        let rows = theory(&ring(), &[32 << 10, 1 << 20]);
        let worst =
            rows.iter().map(|r| (r.measured_ns / r.expected_ns).ln().abs()).fold(0.0, f64::max);
        assert!(worst > 0.5, "{worst}");
    }

    #[test]
    fn larger_working_sets_converge_earlier() {
        let found = plateaus(&ring());
        let from = |kib: u64| found.iter().find(|p| p.bytes == kib << 10).map(|p| p.from_procs);
        assert_eq!((from(8), from(24)), (Some(48), Some(12)));
        let rising: Vec<SwitchPoint> = (1..9)
            .map(|n| SwitchPoint { procs: n * 2, bytes: 0, ns: f64::from(n) * 1e3 })
            .collect();
        assert!(plateaus(&rising).is_empty());
    }

    #[test]
    fn capacities_are_reported_ones_or_knees() {
        let knee =
            SwitchKnee { from_bytes: 128 << 10, to_bytes: 512 << 10, ..SwitchKnee::default() };
        assert_eq!(capacities(&[], &[knee]), [256 << 10]);
        assert_eq!(capacities(&[256 << 10, 32 << 10, 0], &[knee]), [32 << 10, 256 << 10]);
    }
}
