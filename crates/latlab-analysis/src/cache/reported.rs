//! What the machine reports of its caches and data TLBs.
//!
//! Sources are the kernel (sysfs), the processor (CPUID; CTR_EL0) and the device tree. They can disagree: a hypervisor
//! invents CPUID leaves, a device tree is written by hand.

use latlab_model::cache::detail::CacheDetail;
use latlab_model::cache::reported::{Agreement, Comparison, Quantity, Reported, ReportedCache};
use std::collections::BTreeSet;

fn comparison(
    quantity: Quantity,
    measured: Option<(u64, (u64, u64))>,
    reported: Vec<u64>,
) -> Comparison {
    let reported: Vec<Option<u64>> =
        reported.into_iter().map(|v| Some(v).filter(|v| *v > 0)).collect();
    let said = || reported.iter().flatten();
    let agreement = match measured {
        None => Agreement::NotMeasured,
        Some(_) if said().next().is_none() => Agreement::NotReported,
        Some((value, _)) if said().all(|r| *r == value) => Agreement::Agree,
        Some((_, (low, high))) if said().all(|r| (low..=high).contains(r)) => Agreement::Within,
        Some(_) => Agreement::Differ,
    };
    Comparison { quantity, measured, reported, agreement }
}

/// Levels at most.
const LEVELS: usize = 16;

/// All quantities that were measured or reported; empty without sources.
pub fn compare(d: &CacheDetail) -> Vec<Comparison> {
    if d.reported.is_empty() {
        return Vec::new();
    }
    let caches = d.reported.iter().flat_map(|s| s.caches.iter().map(|c| c.level));
    // A damaged run may have any number.
    let numbers: BTreeSet<u32> = caches.chain(d.levels.iter().map(|l| l.level)).collect();
    let mut all = Vec::new();
    for n in numbers.into_iter().filter(|n| *n > 0).take(LEVELS) {
        let level = d.levels.iter().find(|l| l.level == n);
        let by_source = |value: fn(&ReportedCache) -> u64| -> Vec<u64> {
            let of = |s: &Reported| s.caches.iter().find(|c| c.level == n).map_or(0, value);
            d.reported.iter().map(of).collect()
        };
        let size = level.map(|l| (l.bytes, l.bytes_interval));
        all.push(comparison(Quantity::Size(n), size, by_source(|c| c.bytes)));
        let ways = level.and_then(|l| l.ways).map(|w| (w.into(), (w.into(), w.into())));
        all.push(comparison(Quantity::Ways(n), ways, by_source(|c| c.ways.into())));
    }
    let line = d.line.as_ref().filter(|l| l.bytes > 0).map(|l| u64::from(l.bytes));
    let lines = |s: &Reported| {
        s.caches.iter().map(|c| u64::from(c.line_bytes)).find(|b| *b > 0).unwrap_or(0)
    };
    let lines = d.reported.iter().map(lines).collect();
    all.push(comparison(Quantity::Line, line.map(|b| (b, (b, b))), lines));
    let most = d.reported.iter().map(|s| s.tlbs.len()).max().unwrap_or(0).max(d.tlbs.len());
    for i in 0..most {
        let measured = d.tlbs.get(i).map(|t| {
            let (low, high) = t.entries_interval;
            (t.entries.into(), (low.into(), high.into()))
        });
        let of = |s: &Reported| s.tlbs.get(i).copied().unwrap_or(0).into();
        let level = u32::try_from(i + 1).unwrap_or(u32::MAX);
        let reported = d.reported.iter().map(of).collect();
        all.push(comparison(Quantity::TlbEntries(level), measured, reported));
    }
    all.retain(|c| c.measured.is_some() || c.reported.iter().any(Option::is_some));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::cache::{Level, LineSize, TlbLevel};

    #[test]
    fn quantities_are_compared_with_each_source() {
        let level = |level, bytes, bytes_interval, ways| Level {
            level,
            bytes,
            bytes_interval,
            ways,
            ..Level::default()
        };
        let cache = |level, bytes, ways| ReportedCache { level, bytes, line_bytes: 64, ways };
        let d = CacheDetail {
            levels: vec![
                level(1, 32 << 10, (32 << 10, 32 << 10), Some(8)),
                level(2, 768 << 10, (768 << 10, 1 << 20), Some(4)),
            ],
            line: Some(LineSize { bytes: 64, ..LineSize::default() }),
            tlbs: vec![TlbLevel { entries: 72, entries_interval: (72, 72), ..TlbLevel::default() }],
            reported: vec![
                Reported {
                    source: "sysfs".into(),
                    caches: vec![
                        cache(1, 32 << 10, 8),
                        cache(2, 1 << 20, 8),
                        cache(3, 32 << 20, 16),
                    ],
                    ..Reported::default()
                },
                Reported { source: "CPUID".into(), tlbs: vec![64, 3072], ..Reported::default() },
            ],
            ..CacheDetail::default()
        };
        let rows = compare(&d);
        let of = |q: Quantity| rows.iter().find(|r| r.quantity == q).unwrap().agreement;
        assert_eq!(of(Quantity::Size(1)), Agreement::Agree);
        assert_eq!(of(Quantity::Ways(1)), Agreement::Agree);
        assert_eq!(of(Quantity::Size(2)), Agreement::Within);
        assert_eq!(of(Quantity::Ways(2)), Agreement::Differ);
        assert_eq!(of(Quantity::Size(3)), Agreement::NotMeasured);
        assert_eq!(of(Quantity::Line), Agreement::Agree);
        assert_eq!(of(Quantity::TlbEntries(1)), Agreement::Differ);
        assert_eq!(of(Quantity::TlbEntries(2)), Agreement::NotMeasured);
        assert_eq!(rows[0].reported, [Some(32 << 10), None]);
        assert!(compare(&CacheDetail::default()).is_empty());
    }
}
