//! What follows, in sentences: each level against the machine's own word.

use super::{Grade, Level, LineSize, MemoryDetail, Order};
use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::machine::{Cache, Machine};
use crate::units::format_ns;

/// Conclusions from what was found, compared with what the machine declares.
pub fn findings(d: &MemoryDetail, declared: &Machine) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Some(reason) = &d.cannot_tell {
        let claim = format!("nothing can be told of caches here: {reason}");
        let f = Finding::new("memory.cannot-tell", Verdict::CannotTell, Confidence::Sure, claim);
        all.push(f.attempt("measure on the processor itself"));
    }
    all.extend(d.levels.iter().map(|l| level(l, declared)));
    all.extend(d.line.as_ref().filter(|l| l.bytes > 0).map(|l| line(l, declared)));
    all.extend(d.regimes.map(|r| {
        let claim = format!(
            "time rises with the stride up to {} bytes and stays from there on: that is the line; a miss adds {}",
            r.line_bytes,
            format_ns(r.miss_ns)
        );
        let confidence = if r.residual < 0.05 { Confidence::Sure } else { Confidence::Likely };
        Finding::new("memory.regimes", Verdict::Note, confidence, claim)
            .because("below a line T0 + D·s/b, from a line on T0 + D (Saavedra and Smith, 1995)")
            .with(Evidence::new("T0", format_ns(r.t0_ns)))
            .with(Evidence::new("residual", format!("{:.1}% of D", r.residual * 100.0)))
    }));
    all.extend(d.tlbs.iter().map(tlb));
    all.extend(d.memory_ns.filter(|_| !d.levels.is_empty()).map(|ns| {
        let claim = format!("a load from memory takes {}", format_ns(ns));
        Finding::new("memory.latency", Verdict::Note, Confidence::Sure, claim)
    }));
    all.extend(cache_off(d));
    all.extend(shared(d));
    all.extend(d.switch_knees.iter().enumerate().map(|(i, k)| {
        let claim = format!(
            "context switches: up to {} in all working sets a KiB adds {}, from {} on {}",
            bytes_words(k.from_bytes),
            format_ns(k.before_ns.max(0.0)),
            bytes_words(k.to_bytes),
            format_ns(k.after_ns)
        );
        let id = format!("memory.switch-knee-{}", i + 1);
        Finding::new(&id, Verdict::Note, Confidence::Likely, claim).because(
            "processes × working set no longer fit into a cache, so that each finds its lines gone",
        )
    }));
    all.extend(prefetch(d));
    for (i, what) in d.missing.iter().enumerate() {
        let id = format!("memory.missing-{}", i + 1);
        all.push(Finding::new(&id, Verdict::CannotTell, Confidence::Sure, what.clone()));
    }
    all
}

/// `32 KiB`, `1.25 MiB`, `640 bytes`.
pub fn bytes_words(bytes: u64) -> String {
    let trim = |v: f64| format!("{v:.2}").trim_end_matches('0').trim_end_matches('.').to_owned();
    match bytes {
        b if b >= 1 << 20 => format!("{} MiB", trim(b as f64 / 1_048_576.0)),
        b if b >= 1 << 10 => format!("{} KiB", trim(b as f64 / 1024.0)),
        b => format!("{b} bytes"),
    }
}

/// Without a cache a load takes hardly longer in a large array than in a small one: translation alone.
const CACHED: f64 = 3.0;

fn declared_cache(machine: &Machine, level: u32) -> Option<&Cache> {
    machine.caches.iter().find(|c| c.level == level && c.kind != "Instruction")
}

fn level(l: &Level, machine: &Machine) -> Finding {
    let ways = l.ways.map_or(String::new(), |w| format!(", {w} ways"));
    let mut claim =
        format!("L{}: {}{ways}, {} a load", l.level, bytes_words(l.bytes), format_ns(l.ns));
    let declared = declared_cache(machine, l.level);
    let verdict = match declared {
        None => {
            claim.push_str("; the machine declares nothing");
            Verdict::Note
        }
        Some(c) => {
            let (low, high) = l.bytes_interval;
            let within = (low..=high).contains(&c.size_bytes);
            let ways = matches!((l.ways, c.ways), (Some(a), Some(b)) if a != b);
            let ways_words = c.ways.map_or(String::new(), |w| format!(" and {w} ways"));
            if c.size_bytes == l.bytes && !ways {
                claim.push_str("; the machine declares the same");
                Verdict::Good
            } else {
                let but = if within && !ways { "within the interval" } else { "another figure" };
                claim.push_str(&format!(
                    "; the machine declares {}{ways_words}: {but}",
                    bytes_words(c.size_bytes)
                ));
                Verdict::Note
            }
        }
    };
    let id = format!("memory.level-{}", l.level);
    let verdict =
        if l.grade.confidence == Confidence::CannotTell { Verdict::CannotTell } else { verdict };
    let mut f = Finding::new(&id, verdict, l.grade.confidence, claim)
        .with(Evidence::new(
            "size between",
            format!("{} and {}", bytes_words(l.bytes_interval.0), bytes_words(l.bytes_interval.1)),
        ))
        .with(Evidence::new("fast up to an array of", bytes_words(l.effective_bytes)));
    f.why = why(&l.grade);
    if !l.law.is_empty() {
        let residual = l.residual.unwrap_or(0.0) * 100.0;
        f = f.with(Evidence::new("law", format!("{}, residual {residual:.1}% of the step", l.law)));
    }
    if !l.ways_by.is_empty() {
        f = f.with(Evidence::new("ways by", l.ways_by.clone()));
    }
    match declared {
        // A plateau that ends far before the declared size is a cache that others use, too.
        Some(c) if l.effective_bytes * 4 < c.size_bytes * 3 && l.level > 1 => f.attempt(
            "a plateau that ends well before the declared size: others share this cache, or physical pages collide in it; compare on an idle machine and with huge pages",
        ),
        _ => f,
    }
}

fn why(grade: &Grade) -> String {
    grade.reason.clone()
}

fn line(l: &LineSize, machine: &Machine) -> Finding {
    let declared = declared_cache(machine, 1).and_then(|c| c.line_bytes);
    let (verdict, words) = match declared {
        Some(d) if d == l.bytes => (Verdict::Good, "; the machine declares the same".to_owned()),
        Some(d) => (Verdict::Note, format!("; the machine declares {d}")),
        None => (Verdict::Note, "; the machine declares nothing".to_owned()),
    };
    let mut f = Finding::new(
        "memory.line",
        verdict,
        l.grade.confidence,
        format!("a line has {} bytes{words}", l.bytes),
    );
    f.why = why(&l.grade);
    for (distance, ns) in &l.pairs {
        f = f.with(Evidence::new(format!("pair {distance} bytes apart"), format_ns(*ns)));
    }
    f
}

fn tlb(t: &super::TlbLevel) -> Finding {
    let (low, high) = t.entries_interval;
    let claim = format!(
        "data TLB {}: {} pages; a miss in it adds {}",
        t.level,
        t.entries,
        format_ns(t.penalty_ns)
    );
    let id = format!("memory.tlb-{}", t.level);
    let mut f = Finding::new(&id, Verdict::Note, t.grade.confidence, claim)
        .with(Evidence::new("pages between", format!("{low} and {high}")));
    f.why = why(&t.grade);
    f
}

/// Without a cache, one element of sixteen costs a sixteenth of all; with one, a line is fetched once.
/// The sweep's word against that of the curves.
fn cache_off(d: &MemoryDetail) -> Option<Finding> {
    let at = |s: u32| d.strides.iter().find(|p| p.stride_bytes == s).map(|p| p.ns);
    let (one, sixteen) = (at(4)?, at(64)?);
    let ratio = one * 16.0 / sixteen;
    // Where a small array is read much quicker than a large one, the loop only had other reasons to be slow.
    // Not where each load is in another page: walking the tables alone takes so long without a cache.
    let quicker = |c: &super::Curve| {
        let least = c.points.iter().map(|p| p.ns).fold(f64::INFINITY, f64::min);
        !matches!(c.order, Order::LinePerPage | Order::PageRandom)
            && c.points.iter().any(|p| p.ns > least * CACHED)
    };
    let off = ratio >= 15.5 && !d.curves.iter().any(quicker);
    let (verdict, claim) = if off {
        (
            Verdict::InTheWay,
            "an element costs the same whatever the stride: the data cache seems to be off",
        )
    } else {
        (Verdict::Good, "the data cache is on")
    };
    Some(
        Finding::new("memory.cache-on", verdict, Confidence::Likely, claim)
            .because("a sweep over all elements against one over every sixteenth: sixteen times as long when every element is fetched by itself")
            .with(Evidence::new("all elements over every sixteenth", format!("{ratio:.1} ×"))),
    )
}

/// How much of the last cache is left to each when all CPUs read at once.
fn shared(d: &MemoryDetail) -> Option<Finding> {
    let (last, memory) = (d.levels.last()?, d.memory_ns?);
    let middle = (last.ns * memory).sqrt();
    let many = d.curves.iter().find(|c| c.threads > 1 && !c.stores)?;
    let same = |c: &&super::Curve| c.plain() && (c.order, c.pages) == (many.order, many.pages);
    let one = d.curves.iter().find(same)?;
    // A single high value is no end.
    let holds = |c: &super::Curve| {
        c.points.windows(2).find(|w| w[0].ns > middle && w[1].ns > middle).map(|w| w[0].x)
    };
    let (alone, together) = (holds(one)?, holds(many)?);
    let threads = many.threads;
    let claim = if together * 4 < alone * 3 {
        format!(
            "L{} is shared: alone an array of {} is half out of it, with {threads} CPUs at once one of {} each",
            last.level,
            bytes_words(alone),
            bytes_words(together)
        )
    } else {
        format!("L{} holds as much for each of {threads} CPUs at once as for one alone", last.level)
    };
    Some(Finding::new("memory.shared", Verdict::Note, Confidence::Likely, claim))
}

fn prefetch(d: &MemoryDetail) -> Option<Finding> {
    use super::{Order, Pages};
    let memory = d.memory_ns.filter(|_| !d.levels.is_empty())?;
    let curve = d.curves.iter().find(|c| {
        c.plain() && c.order == Order::Sequential && c.pages == Pages::Base && c.source.is_none()
    })?;
    let last = curve.points.last()?;
    (last.ns * 1.5 < memory).then(|| {
        Finding::new(
            "memory.prefetch",
            Verdict::Note,
            Confidence::Sure,
            format!(
                "loads in rising order take {} instead of {}: prefetchers hide the latency of memory from programs that walk",
                format_ns(last.ns),
                format_ns(memory)
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let cache = |level, kind: &str, size_bytes| Cache {
            level,
            kind: kind.into(),
            size_bytes,
            line_bytes: Some(64),
            ways: Some(8),
            shared_by: None,
        };
        Machine {
            caches: vec![
                cache(1, "Instruction", 64 << 10),
                cache(1, "Data", 32 << 10),
                cache(2, "Unified", 1 << 20),
            ],
            ..Machine::default()
        }
    }

    fn found(level: u32, bytes: u64, ways: Option<u32>) -> Level {
        Level {
            level,
            bytes,
            bytes_interval: (bytes, bytes),
            effective_bytes: bytes,
            ns: 1.1,
            ways,
            ..Level::default()
        }
    }

    #[test]
    fn a_level_is_compared_with_the_machines_word() {
        let say = |l: Level| {
            let f = level(&l, &machine());
            (f.verdict, f.claim)
        };
        let (verdict, claim) = say(found(1, 32 << 10, Some(8)));
        assert_eq!(verdict, Verdict::Good);
        assert_eq!(claim, "L1: 32 KiB, 8 ways, 1.10 ns a load; the machine declares the same");
        let (verdict, claim) = say(found(2, 512 << 10, None));
        assert_eq!(verdict, Verdict::Note);
        assert!(claim.contains("declares 1 MiB and 8 ways: another figure"), "{claim}");
        assert!(say(found(3, 8 << 20, None)).1.contains("declares nothing"));
    }

    #[test]
    fn an_emulated_processor_is_said_first() {
        let d =
            MemoryDetail { cannot_tell: Some("it is emulated".into()), ..MemoryDetail::default() };
        let all = findings(&d, &machine());
        assert_eq!((all.len(), all[0].verdict), (1, Verdict::CannotTell));
    }

    #[test]
    fn a_cache_that_is_off_is_seen() {
        let point = |x, ns| super::super::CurvePoint { x, ns, ..Default::default() };
        let judged = |one: f64, sixteen: f64, (order, large_ns)| {
            let p = |stride_bytes, ns| super::super::StridePoint { stride_bytes, ns };
            let points = vec![point(4096, 100.0), point(1 << 24, large_ns)];
            let d = MemoryDetail {
                strides: vec![p(4, one), p(64, sixteen)],
                curves: vec![super::super::Curve { order, points, ..Default::default() }],
                ..MemoryDetail::default()
            };
            cache_off(&d).unwrap().verdict
        };
        let strides = |one: f64, sixteen: f64| judged(one, sixteen, (Order::PageLocal, 110.0));
        // 2000 : 153 ms with the cache on, 2618 : 153 with it off, on a Cortex-A15.
        assert_eq!(strides(2000.0 / 16.0, 153.0), Verdict::Good);
        assert_eq!(strides(2618.0 / 16.0, 153.0), Verdict::InTheWay);
        // Something else slowed the loop: the curves show a cache.
        let slow_loop = |curve| judged(2618.0 / 16.0, 153.0, curve);
        assert_eq!(slow_loop((Order::PageLocal, 900.0)), Verdict::Good);
        // Walking the tables for each load takes so long without one, too.
        assert_eq!(slow_loop((Order::PageRandom, 330.0)), Verdict::InTheWay);
    }

    #[test]
    fn sizes_in_words() {
        assert_eq!(bytes_words(48 << 10), "48 KiB");
        assert_eq!(bytes_words(5 << 18), "1.25 MiB");
        assert_eq!(bytes_words(640), "640 bytes");
    }
}
