//! What the machine says of its caches, source by source, beside what was found.
//!
//! Sources are the kernel (sysfs), the processor (CPUID; CTR_EL0) and the device tree. They can
//! disagree with one another: a hypervisor makes CPUID up, a device tree is written by hand.

use super::MemoryDetail;
use super::findings::bytes_words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One source's word.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Declared {
    /// `sysfs`, `CPUID`, `CTR_EL0`, `device tree`.
    pub source: String,
    /// Data and unified caches.
    pub caches: Vec<DeclaredCache>,
    /// Entries of the data TLBs for ordinary pages, from the processor outwards.
    pub tlbs: Vec<u32>,
}

/// A cache as it is declared; 0 for what is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeclaredCache {
    /// 1, 2, 3…
    pub level: u32,
    /// Size, bytes.
    pub bytes: u64,
    /// Line, bytes.
    pub line_bytes: u32,
    /// Ways.
    pub ways: u32,
}

/// How a figure and the machine's word stand to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// All sources that speak say what was found.
    Agree,
    /// A source says another figure, but one that the measurement allows.
    Within,
    /// A source says another figure.
    Differ,
    /// No source speaks.
    Silent,
    /// Nothing was found.
    NotFound,
}

impl Agreement {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Within => "within the interval",
            Self::Differ => "differ",
            Self::Silent => "the machine is silent",
            Self::NotFound => "not found",
        }
    }
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What it is: `L1 size`.
    pub what: String,
    /// As it was found; empty where it was not.
    pub found: String,
    /// As each source declares it, in the order of the sources.
    pub declared: Vec<Option<String>>,
    /// How they stand.
    pub agreement: Agreement,
}

/// Every figure that was found or declared. Empty without sources.
pub fn compare(d: &MemoryDetail) -> Vec<Comparison> {
    if d.declared.is_empty() {
        return Vec::new();
    }
    let plain = |v: u64| v.to_string();
    let mut all = Vec::new();
    let levels = |s: &Declared| s.caches.iter().map(|c| c.level).max().unwrap_or(0);
    let most = d.declared.iter().map(levels).max().unwrap_or(0).max(d.levels.len() as u32);
    for n in 1..=most {
        let level = d.levels.iter().find(|l| l.level == n);
        let of = |f: &dyn Fn(&DeclaredCache) -> u64| -> Vec<u64> {
            let cache = |s: &Declared| s.caches.iter().find(|c| c.level == n).map_or(0, f);
            d.declared.iter().map(cache).collect()
        };
        let found = level.map(|l| (l.bytes, l.bytes_interval));
        all.push(row(format!("L{n} size"), found, of(&|c| c.bytes), bytes_words));
        let ways = level.and_then(|l| l.ways).map(u64::from).map(|w| (w, (w, w)));
        all.push(row(format!("L{n} ways"), ways, of(&|c| c.ways.into()), plain));
    }
    let line = d.line.as_ref().filter(|l| l.bytes > 0).map(|l| u64::from(l.bytes));
    let lines = d
        .declared
        .iter()
        .map(|s| s.caches.iter().map(|c| u64::from(c.line_bytes)).find(|b| *b > 0).unwrap_or(0));
    let line = line.map(|b| (b, (b, b)));
    all.push(row("line".into(), line, lines.collect(), bytes_words));
    let most = d.declared.iter().map(|s| s.tlbs.len()).max().unwrap_or(0).max(d.tlbs.len());
    for i in 0..most {
        let found = d.tlbs.get(i).map(|t| {
            let (low, high) = t.entries_interval;
            (u64::from(t.entries), (low.into(), high.into()))
        });
        let declared = d.declared.iter().map(|s| s.tlbs.get(i).copied().unwrap_or(0).into());
        all.push(row(format!("data TLB {} pages", i + 1), found, declared.collect(), plain));
    }
    all.retain(|c| !c.found.is_empty() || c.declared.iter().any(Option::is_some));
    all
}

fn row(
    what: String,
    found: Option<(u64, (u64, u64))>,
    declared: Vec<u64>,
    words: impl Fn(u64) -> String,
) -> Comparison {
    let spoken = || declared.iter().copied().filter(|v| *v > 0);
    let agreement = match found {
        None => Agreement::NotFound,
        Some(_) if spoken().next().is_none() => Agreement::Silent,
        Some((v, _)) if spoken().all(|d| d == v) => Agreement::Agree,
        Some((v, (low, high))) if spoken().all(|d| d == v || (low..=high).contains(&d)) => {
            Agreement::Within
        }
        Some(_) => Agreement::Differ,
    };
    Comparison {
        what,
        found: found.map_or(String::new(), |(v, _)| words(v)),
        declared: declared.iter().map(|v| (*v > 0).then(|| words(*v))).collect(),
        agreement,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Level, LineSize, TlbLevel};

    #[test]
    fn each_figure_stands_beside_each_source() {
        let level = |level, bytes, bytes_interval, ways| Level {
            level,
            bytes,
            bytes_interval,
            ways,
            ..Level::default()
        };
        let cache = |level, bytes, ways| DeclaredCache { level, bytes, line_bytes: 64, ways };
        let d = MemoryDetail {
            levels: vec![
                level(1, 32 << 10, (32 << 10, 32 << 10), Some(8)),
                level(2, 768 << 10, (768 << 10, 1 << 20), Some(4)),
            ],
            line: Some(LineSize { bytes: 64, ..LineSize::default() }),
            tlbs: vec![TlbLevel { entries: 72, entries_interval: (72, 72), ..TlbLevel::default() }],
            declared: vec![
                Declared {
                    source: "sysfs".into(),
                    caches: vec![
                        cache(1, 32 << 10, 8),
                        cache(2, 1 << 20, 8),
                        cache(3, 32 << 20, 16),
                    ],
                    tlbs: vec![],
                },
                Declared { source: "CPUID".into(), caches: vec![], tlbs: vec![64, 3072] },
            ],
            ..MemoryDetail::default()
        };
        let rows = compare(&d);
        let of = |what: &str| rows.iter().find(|r| r.what == what).unwrap().agreement;
        assert_eq!((of("L1 size"), of("L1 ways")), (Agreement::Agree, Agreement::Agree));
        assert_eq!((of("L2 size"), of("L2 ways")), (Agreement::Within, Agreement::Differ));
        assert_eq!((of("L3 size"), of("line")), (Agreement::NotFound, Agreement::Agree));
        assert_eq!(of("data TLB 1 pages"), Agreement::Differ);
        assert_eq!(of("data TLB 2 pages"), Agreement::NotFound);
        assert_eq!(rows[0].declared, [Some("32 KiB".to_owned()), None]);
        assert!(compare(&MemoryDetail::default()).is_empty());
    }
}
