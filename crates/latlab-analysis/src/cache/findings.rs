//! Findings as typed data: each measured figure with its interval and what the machine reports. No texts: those are the
//! report's.

use super::level_off::{self, LevelOff};
use latlab_model::cache::loops::{LoopTime, LoopTimes};
use latlab_model::cache::reported::{Agreement, Comparison, Quantity};
use latlab_model::cache::{
    AccessPattern, CacheDetail, Curve, Grade, Level, Limitation, LineSize, Pages, Regimes,
    SwitchKnee, TlbLevel,
};
use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity as Value, Severity};

/// Without a cache a load in a large array takes less than this many times one in a small array: translation alone.
const CACHED: f64 = 3.0;
/// The loop over all elements takes at least this many times the loop over every sixteenth when no cache keeps lines;
/// 16 less the cost of the loop itself (published for a Cortex-A15: 17 without, 13 with its caches).
const NOT_CACHED: f64 = 15.5;
/// Sequential loads this much faster than random ones are prefetched.
const PREFETCHED: f64 = 1.5;
/// A level is shared when all CPUs at once have less than this share of what one has alone.
const SHARED: f64 = 0.75;

/// A fit of the stride regimes is good below this residual, share of the miss cost.
const RESIDUAL: f64 = 0.05;

/// One conclusion.
#[derive(Clone, Debug, PartialEq)]
enum CacheFinding {
    /// Nothing can be inferred on this machine.
    NotDetermined(Limitation),
    /// A level, against what is reported of it.
    Level {
        /// As measured.
        level: Level,
        /// Size and associativity by source.
        reported: Vec<Comparison>,
        /// The worse of both agreements.
        agreement: Agreement,
        /// The plateau ends well before the reported size: others use this cache, or pages collide.
        ends_early: bool,
    },
    /// The line, against what is reported.
    Line {
        /// As measured.
        line: LineSize,
        /// By source.
        agreement: Agreement,
        /// Reported, bytes.
        reported: Option<u64>,
    },
    /// A data TLB, against what is reported.
    Tlb {
        /// As measured.
        tlb: TlbLevel,
        /// By source.
        agreement: Agreement,
        /// Reported entries.
        reported: Option<u64>,
    },
    /// Latency of memory, ns.
    MemoryLatency(f64),
    /// Line and miss cost from a family of curves by stride.
    Regimes(Regimes),
    /// Whether the data cache is on: time of a loop over all elements over that of a loop over every sixteenth.
    CacheOn {
        /// It is.
        on: bool,
        /// The ratio.
        ratio: f64,
    },
    /// A cache that is reported does not show.
    Off(LevelOff),
    /// What the last level leaves to each CPU when all read at once.
    Sharing {
        /// The level.
        level: u32,
        /// Array that is half out of it with one CPU, bytes.
        alone_bytes: u64,
        /// With all CPUs, bytes each.
        together_bytes: u64,
        /// CPUs.
        threads: u32,
        /// Less than three quarters are left to each.
        shared: bool,
    },
    /// Prefetchers hide the latency of memory from sequential loads.
    Prefetch {
        /// Sequential, ns.
        sequential_ns: f64,
        /// Memory, ns.
        memory_ns: f64,
    },
    /// Measured over predicted times of loops: smallest and largest, with dependent operations and with others.
    Loops {
        /// Each operation waits for the one before.
        dependent: (f64, f64),
        /// Operations or misses may overlap.
        others: (f64, f64),
    },
    /// A knee of the cost of context switches.
    SwitchKnee(SwitchKnee),
    /// What limits the result.
    Limited(Limitation),
}

/// Findings of a measurement.
pub fn findings(d: &CacheDetail) -> Vec<Finding> {
    conclusions(d).into_iter().map(typed).collect()
}

fn typed(conclusion: CacheFinding) -> Finding {
    let info = |id: &str, confidence| Finding::typed(id, Severity::Info, confidence);
    match conclusion {
        CacheFinding::NotDetermined(l) => {
            Finding::typed("memory.cannot-tell", Severity::Inconclusive, Confidence::High)
                .note(l.note())
                .remedy(Note::new("remedy.measure-on-hardware"))
        }
        CacheFinding::Level { level, reported, agreement, ends_early } => {
            of_level(&level, &reported, agreement, ends_early)
        }
        CacheFinding::Line { line, agreement, reported } => of_line(&line, agreement, reported),
        CacheFinding::Tlb { tlb, agreement, reported } => of_tlb(&tlb, agreement, reported),
        CacheFinding::MemoryLatency(ns) => {
            info("memory.latency", Confidence::High).value("latency", Value::Ns(ns))
        }
        CacheFinding::Regimes(r) => {
            let well = r.residual < RESIDUAL;
            info("memory.regimes", if well { Confidence::High } else { Confidence::Medium })
                .value("line", Value::Bytes(r.line_bytes.into()))
                .value("miss", Value::Ns(r.miss_ns))
                .with(Evidence::new("T0", Value::Ns(r.t0_ns)))
                .with(Evidence::new("residual", Value::Ratio(r.residual)))
        }
        CacheFinding::CacheOn { on, ratio } => {
            let severity = if on { Severity::Ok } else { Severity::Problem };
            Finding::typed("memory.cache-on", severity, Confidence::Medium)
                .value("on", on)
                .with(Evidence::new("all-elements-over-every-sixteenth", Value::Number(ratio)))
        }
        CacheFinding::Off(off) => {
            Finding::typed("memory.level-off", Severity::Warning, Confidence::Medium)
                .value("level", Value::Count(off.level.into()))
                .value("reported", Value::Bytes(off.reported_bytes))
                .value("from", Value::Bytes(off.arrays_bytes.0))
                .value("to", Value::Bytes(off.arrays_bytes.1))
                .value("memory", Value::Ns(off.memory_ns))
                .with(Evidence::new("loads", vec![Value::Ns(off.ns.0), Value::Ns(off.ns.1)]))
        }
        CacheFinding::Sharing { level, alone_bytes, together_bytes, threads, shared } => {
            info("memory.shared", Confidence::Medium)
                .value("level", Value::Count(level.into()))
                .value("alone", Value::Bytes(alone_bytes))
                .value("together", Value::Bytes(together_bytes))
                .value("cpus", Value::Count(threads.into()))
                .value("shared", shared)
        }
        CacheFinding::Prefetch { sequential_ns, memory_ns } => {
            info("memory.prefetch", Confidence::High)
                .value("sequential", Value::Ns(sequential_ns))
                .value("memory", Value::Ns(memory_ns))
        }
        CacheFinding::Loops { dependent, others } => info("memory.loops", Confidence::Medium)
            .value("dependent_least", Value::Number(dependent.0))
            .value("dependent_most", Value::Number(dependent.1))
            .value("others_least", Value::Number(others.0))
            .value("others_most", Value::Number(others.1)),
        CacheFinding::SwitchKnee(k) => info("memory.switch-knee", Confidence::Medium)
            .value("before", Value::Ns(k.before_ns.max(0.0)))
            .value("up_to", Value::Bytes(k.from_bytes))
            .value("after", Value::Ns(k.after_ns))
            .value("from", Value::Bytes(k.to_bytes)),
        CacheFinding::Limited(l) => {
            Finding::typed("memory.limited", Severity::Inconclusive, Confidence::High)
                .note(l.note())
        }
    }
}

fn severity(a: Agreement, confidence: Confidence) -> Severity {
    match (a, confidence) {
        (_, Confidence::Low) => Severity::Inconclusive,
        (Agreement::Agree, _) => Severity::Ok,
        _ => Severity::Info,
    }
}

/// Stable name of an agreement.
fn agreement_id(a: Agreement) -> &'static str {
    match a {
        Agreement::Agree => "agree",
        Agreement::Within => "within",
        Agreement::Differ => "differ",
        Agreement::NotReported => "not-reported",
        Agreement::NotMeasured => "not-measured",
    }
}

fn limited(finding: Finding, grade: &Grade) -> Finding {
    match &grade.reason {
        Some(reason) => finding.note(reason.note()),
        None => finding,
    }
}

fn of_level(l: &Level, reported: &[Comparison], a: Agreement, ends_early: bool) -> Finding {
    let confidence = l.grade.confidence;
    let (low, high) = l.bytes_interval;
    let first = |q: Quantity| {
        let row = reported.iter().find(|c| c.quantity == q)?;
        row.reported.iter().flatten().next().copied()
    };
    let mut f = Finding::typed("memory.level", severity(a, confidence), confidence)
        .value("level", Value::Count(l.level.into()))
        .value("size", Value::Bytes(l.bytes))
        .value_if("ways", l.ways.map(|w| Value::Count(w.into())))
        .value("latency", Value::Ns(l.ns))
        .value("agreement", agreement_id(a))
        .value_if("reported_size", first(Quantity::Size(l.level)).map(Value::Bytes))
        .value_if("reported_ways", first(Quantity::Ways(l.level)).map(Value::Count))
        .with(Evidence::new("interval", vec![Value::Bytes(low), Value::Bytes(high)]))
        .with(Evidence::new("effective-size", Value::Bytes(l.effective_bytes)));
    f = limited(f, &l.grade);
    if !l.model.is_empty() {
        f = f.with(Evidence::new("miss-ratio-model", l.model.as_str()));
    }
    if let Some(residual) = l.residual {
        f = f.with(Evidence::new("residual", Value::Ratio(residual)));
    }
    if !l.ways_by.is_empty() && l.ways.is_some() {
        f = f.with(Evidence::new("ways-by", l.ways_by.as_str()));
    }
    if ends_early { f.remedy(Note::new("remedy.idle-and-huge-pages")) } else { f }
}

fn of_line(l: &LineSize, a: Agreement, reported: Option<u64>) -> Finding {
    let confidence = l.grade.confidence;
    let f = Finding::typed("memory.line", severity(a, confidence), confidence)
        .value("line", Value::Bytes(l.bytes.into()))
        .value("agreement", agreement_id(a))
        .value_if("reported", reported.map(Value::Bytes));
    let pair = |(distance, ns): &(u32, f64)| {
        let pair = vec![Value::Bytes((*distance).into()), Value::Ns(*ns)];
        Evidence::new("pair-of-loads", pair)
    };
    l.pairs.iter().map(pair).fold(limited(f, &l.grade), Finding::with)
}

fn of_tlb(t: &TlbLevel, a: Agreement, reported: Option<u64>) -> Finding {
    let confidence = t.grade.confidence;
    let (low, high) = t.entries_interval;
    let f = Finding::typed("memory.tlb", severity(a, confidence), confidence)
        .value("level", Value::Count(t.level.into()))
        .value("entries", Value::Count(t.entries.into()))
        .value("miss", Value::Ns(t.penalty_ns))
        .value("agreement", agreement_id(a))
        .value_if("reported", reported.map(Value::Count))
        .with(Evidence::new("interval", vec![Value::Count(low.into()), Value::Count(high.into())]));
    limited(f, &t.grade)
}

/// Conclusions, each with the numbers that it rests on.
fn conclusions(d: &CacheDetail) -> Vec<CacheFinding> {
    let rows = &d.comparisons;
    let row = |q: Quantity| rows.iter().find(|r| r.quantity == q);
    let value = |q| row(q).and_then(|r| r.reported.iter().flatten().next().copied());
    let agreement = |q| row(q).map_or(Agreement::NotReported, |r| r.agreement);
    let mut all = Vec::new();
    all.extend(d.cannot_tell.clone().map(CacheFinding::NotDetermined));
    for level in &d.levels {
        let n = level.level;
        let of = [Quantity::Size(n), Quantity::Ways(n)];
        let worse = match (agreement(of[0]), agreement(of[1])) {
            (_, Agreement::Differ) => Agreement::Differ,
            (size, _) => size,
        };
        let early = |r: u64| n > 1 && (level.effective_bytes as f64) < SHARED * r as f64;
        all.push(CacheFinding::Level {
            level: level.clone(),
            reported: of.into_iter().filter_map(row).cloned().collect(),
            agreement: worse,
            ends_early: value(of[0]).is_some_and(early),
        });
    }
    all.extend(d.line.clone().filter(|l| l.bytes > 0).map(|line| CacheFinding::Line {
        line,
        agreement: agreement(Quantity::Line),
        reported: value(Quantity::Line),
    }));
    all.extend(d.regimes.map(CacheFinding::Regimes));
    for tlb in &d.tlbs {
        let q = Quantity::TlbEntries(tlb.level);
        let (agreement, reported) = (agreement(q), value(q));
        all.push(CacheFinding::Tlb { tlb: tlb.clone(), agreement, reported });
    }
    let memory = d.memory_ns.filter(|_| !d.levels.is_empty());
    all.extend(memory.map(CacheFinding::MemoryLatency));
    all.extend(cache_on(d));
    all.extend(level_off::find(d).map(CacheFinding::Off));
    all.extend(sharing(d));
    all.extend(d.loop_times.as_ref().and_then(loops));
    all.extend(d.switch_knees.iter().copied().map(CacheFinding::SwitchKnee));
    all.extend(prefetch(d));
    all.extend(d.limitations.iter().cloned().map(CacheFinding::Limited));
    all
}

/// The loop `a[i] *= a[i]` by stride, against the curves: a small array that is far faster than a large one is cached.
fn cache_on(d: &CacheDetail) -> Option<CacheFinding> {
    let at = |s: u32| d.strides.iter().find(|p| p.stride_bytes == s).map(|p| p.ns);
    let ratio = at(4)? * 16.0 / at(64)?;
    let faster = |c: &Curve| {
        let least = c.points.iter().map(|p| p.ns).fold(f64::INFINITY, f64::min);
        // Where each load is in another page, page walks alone make such a difference.
        !matches!(c.access, AccessPattern::LinePerPage | AccessPattern::PageRandom)
            && c.points.iter().any(|p| p.ns > least * CACHED)
    };
    let on = ratio < NOT_CACHED || d.curves.iter().any(faster);
    Some(CacheFinding::CacheOn { on, ratio })
}

fn sharing(d: &CacheDetail) -> Option<CacheFinding> {
    let (last, memory) = (d.levels.last()?, d.memory_ns?);
    let middle = (last.ns * memory).sqrt();
    let many = d.curves.iter().find(|c| c.threads > 1 && !c.stores)?;
    let same = |c: &&Curve| c.plain() && (c.access, c.pages) == (many.access, many.pages);
    let one = d.curves.iter().find(same)?;
    // Two in a row: one outlier ends nothing.
    let half =
        |c: &Curve| c.points.windows(2).find(|w| w.iter().all(|p| p.ns > middle)).map(|w| w[0].x);
    let (alone_bytes, together_bytes) = (half(one)?, half(many)?);
    Some(CacheFinding::Sharing {
        level: last.level,
        alone_bytes,
        together_bytes,
        threads: many.threads,
        shared: (together_bytes as f64) < SHARED * alone_bytes as f64,
    })
}

fn loops(times: &LoopTimes) -> Option<CacheFinding> {
    let range = |dependent: bool| {
        let of = times.loops.iter().filter(|l| l.of.dependent() == dependent).map(LoopTime::ratio);
        of.fold(None, |r: Option<(f64, f64)>, x| {
            Some(r.map_or((x, x), |(low, high)| (low.min(x), high.max(x))))
        })
    };
    Some(CacheFinding::Loops { dependent: range(true)?, others: range(false)? })
}

fn prefetch(d: &CacheDetail) -> Option<CacheFinding> {
    let memory_ns = d.memory_ns.filter(|_| !d.levels.is_empty())?;
    let sequential = |c: &&Curve| {
        let own = c.plain() && c.source.is_none();
        own && c.access == AccessPattern::Sequential && c.pages == Pages::Base
    };
    let sequential_ns = d.curves.iter().find(sequential)?.points.last()?.ns;
    (sequential_ns * PREFETCHED < memory_ns)
        .then_some(CacheFinding::Prefetch { sequential_ns, memory_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::cache::detail::{CurvePoint, StridePoint};
    use latlab_model::cache::reported::{Reported, ReportedCache};

    fn level(n: u32, bytes: u64, high: u64) -> Level {
        Level {
            level: n,
            bytes,
            bytes_interval: (bytes, high),
            effective_bytes: bytes,
            ..Level::default()
        }
    }

    #[test]
    fn a_level_stands_beside_what_is_reported() {
        let cache = |level, bytes| ReportedCache { level, bytes, line_bytes: 64, ways: 8 };
        let source = Reported {
            source: "sysfs".into(),
            caches: vec![cache(1, 32 << 10), cache(2, 1 << 20), cache(3, 32 << 20)],
            ..Reported::default()
        };
        let d = CacheDetail {
            levels: vec![
                level(1, 32 << 10, 33 << 10),
                level(2, 768 << 10, 1 << 20),
                level(3, 6 << 20, 8 << 20),
            ],
            reported: vec![source],
            ..CacheDetail::default()
        };
        let d = CacheDetail { comparisons: crate::cache::reported::compare(&d), ..d };
        let found: Vec<_> = conclusions(&d)
            .into_iter()
            .filter_map(|f| match f {
                CacheFinding::Level { agreement, ends_early, .. } => Some((agreement, ends_early)),
                _ => None,
            })
            .collect();
        let expected =
            [(Agreement::Agree, false), (Agreement::Within, false), (Agreement::Differ, true)];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_emulated_processor_comes_first() {
        let d = CacheDetail { cannot_tell: Some(Limitation::Emulated), ..CacheDetail::default() };
        assert_eq!(conclusions(&d), [CacheFinding::NotDetermined(Limitation::Emulated)]);
    }

    #[test]
    fn a_cache_that_is_off_is_seen() {
        let on = |one: f64, sixteen: f64, access, large_ns| {
            let points: Vec<CurvePoint> = [(4096, 100.0), (1 << 24, large_ns)]
                .iter()
                .filter_map(|(x, ns)| CurvePoint::of(*x, &[*ns]))
                .collect();
            let p = |stride_bytes, ns| StridePoint { stride_bytes, ns };
            let d = CacheDetail {
                strides: vec![p(4, one), p(64, sixteen)],
                curves: vec![Curve { access, points, ..Curve::default() }],
                ..CacheDetail::default()
            };
            matches!(conclusions(&d)[..], [CacheFinding::CacheOn { on: true, .. }])
        };
        // 2000 : 153 ms with the cache on, 2618 : 153 with it off, on a Cortex-A15.
        assert!(on(2000.0 / 16.0, 153.0, AccessPattern::PageLocal, 110.0));
        assert!(!on(2618.0 / 16.0, 153.0, AccessPattern::PageLocal, 110.0));
        // Something else slowed the loop: the curves show a cache.
        assert!(on(2618.0 / 16.0, 153.0, AccessPattern::PageLocal, 900.0));
        assert!(!on(2618.0 / 16.0, 153.0, AccessPattern::PageRandom, 330.0));
    }
}
