//! A cache that the machine reports and no array shows: switched off (a kernel without its outer cache controller, a
//! firmware setting), or all of it used by others.
//!
//! A loop that touches every sixteenth element against one that touches all shows only that no cache at all is on: its
//! array is far larger than any cache, so the first cache alone makes it as fast as two.

use latlab_model::cache::detail::{AccessPattern, CacheDetail, Curve};

/// Times within this share of memory's are memory.
const SAME: f64 = 0.15;
/// Points inside of the reported cache, at least.
const LEAST: usize = 3;

/// A cache that does not show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelOff {
    /// The level, 2 or more.
    pub level: u32,
    /// Size that is reported, bytes.
    pub reported_bytes: u64,
    /// Smallest and largest array that would fit into it and takes as long as memory, bytes.
    pub arrays_bytes: (u64, u64),
    /// Shortest and longest time of a load in them, ns.
    pub ns: (f64, f64),
    /// Memory, ns.
    pub memory_ns: f64,
}

/// The level behind the last one that was found, where a source reports one and arrays between twice the last and half
/// of it take as long as memory.
pub fn find(d: &CacheDetail) -> Option<LevelOff> {
    let (last, memory_ns) = (d.levels.last()?, d.memory_ns?);
    let level = last.level + 1;
    let caches = d.reported.iter().flat_map(|r| &r.caches);
    let reported_bytes = caches.filter(|c| c.level == level).map(|c| c.bytes).max()?;
    let own = |c: &&Curve| {
        let sized = matches!(c.access, AccessPattern::PageLocal | AccessPattern::Random);
        c.plain() && c.source.is_none() && sized
    };
    let curve = d.curves.iter().filter(own).max_by_key(|c| c.points.len())?;
    // Memory is known only from arrays that the reported cache could not hold.
    let beyond = curve.points.last().is_some_and(|p| p.x >= 2 * reported_bytes);
    let inside = 2 * last.bytes_interval.1.max(last.bytes)..=reported_bytes / 2;
    let points: Vec<_> = curve.points.iter().filter(|p| inside.contains(&p.x)).collect();
    let same = points.iter().all(|p| (p.ns / memory_ns - 1.0).abs() < SAME);
    let ns = points.iter().fold((f64::INFINITY, 0.0f64), |n, p| (n.0.min(p.ns), n.1.max(p.ns)));
    (beyond && same && points.len() >= LEAST).then(|| LevelOff {
        level,
        reported_bytes,
        arrays_bytes: (points[0].x, points[points.len() - 1].x),
        ns,
        memory_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::cache::detail::{CurvePoint, Level};
    use latlab_model::cache::reported::{Reported, ReportedCache};

    /// A Cortex-A15 with 32 KiB and 2 MiB: `within` is the time of arrays that only the second cache would hold.
    fn machine(within: f64) -> CacheDetail {
        let point = |k: u32| {
            let x = 4096u64 << k;
            let ns = if x <= 32 << 10 {
                2.0
            } else if x <= 2 << 20 {
                within
            } else {
                120.0
            };
            CurvePoint::of(x, &[ns]).unwrap()
        };
        let cache = |level, bytes| ReportedCache { level, bytes, line_bytes: 64, ways: 4 };
        CacheDetail {
            levels: vec![Level {
                level: 1,
                bytes: 32 << 10,
                bytes_interval: (32 << 10, 33 << 10),
                ..Level::default()
            }],
            memory_ns: Some(120.0),
            curves: vec![Curve { points: (0..14).map(point).collect(), ..Curve::default() }],
            reported: vec![Reported {
                source: "device tree".into(),
                caches: vec![cache(1, 32 << 10), cache(2, 2 << 20)],
                ..Reported::default()
            }],
            ..CacheDetail::default()
        }
    }

    #[test]
    fn a_second_cache_that_is_off_beside_a_first_that_works() {
        let found = find(&machine(118.0)).unwrap();
        assert_eq!((found.level, found.reported_bytes), (2, 2 << 20));
        assert_eq!(found.arrays_bytes, (128 << 10, 1 << 20));
    }

    #[test]
    fn what_could_be_a_cache_is_not_called_off() {
        // Slow, but faster than memory: a cache that others share.
        assert_eq!(find(&machine(90.0)), None);
        let mut unreported = machine(118.0);
        unreported.reported.clear();
        assert_eq!(find(&unreported), None);
        // All arrays fit into the reported cache: what looks like memory may be that cache.
        let mut small = machine(118.0);
        small.curves[0].points.truncate(9);
        assert_eq!(find(&small), None);
    }
}
