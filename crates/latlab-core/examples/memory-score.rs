//! Scores the inference of memory hierarchies on those that are known, and prints every fault.
//!
//! `cargo run --release -p latlab-core --example memory-score [tune|drawn] [quick] [seed=N] [NAME…]`; the seed of
//! each hierarchy is its number plus N (1000). `drawn` are 40 that are drawn at random (seed 2026); `quick` is `--quick`.

#![expect(
    clippy::disallowed_methods,
    reason = "an example is a shell: it reads its arguments and prints"
)]

use latlab_core::memory::sim::{catalog, score};
use std::io::Write;

fn main() -> std::io::Result<()> {
    let arguments = std::env::args_os().skip(1).filter_map(|a| a.into_string().ok());
    let mut names: Vec<String> = arguments.collect();
    let quick = names.iter().any(|n| n == "quick");
    let first = names.iter().find_map(|n| n.strip_prefix("seed=")?.parse().ok()).unwrap_or(1_000);
    names.retain(|n| n != "quick" && !n.starts_with("seed="));
    let set = names.first().filter(|n| ["tune", "drawn"].contains(&n.as_str())).cloned();
    if set.is_some() {
        names.remove(0);
    }
    let all = match set.as_deref() {
        Some("tune") => catalog::tuning(),
        Some(_) => catalog::drawn(40, 2026),
        None => catalog::scoring(),
    };
    let mut out = std::io::stdout().lock();
    let mut sum = score::Score::default();
    let mut scored = 0;
    for (i, h) in all.iter().enumerate() {
        if !names.is_empty() && !names.iter().any(|n| h.name.contains(n.as_str())) {
            continue;
        }
        let seed = first + i as u64;
        let (s, detail) = score::score(h, seed, quick);
        for fault in &s.faults {
            writeln!(out, "seed {seed} {fault}")?;
        }
        if names.len() == 1 {
            for c in &detail.curves {
                writeln!(out, "{:?} {:?}", c.order, c.pages)?;
                for p in &c.points {
                    writeln!(out, "  {:>9} {:8.3} {:8.3} {:8.3}", p.x, p.ns, p.low_ns, p.high_ns)?;
                }
            }
        }
        sum.add(s);
        scored += 1;
    }
    writeln!(out, "{scored} hierarchies, seeds from {first}; levels invented: {}", sum.invented)?;
    for (what, t) in [
        ("sizes exact", sum.sizes),
        ("lines exact", sum.lines),
        ("ways exact", sum.ways),
        ("latencies within 5%", sum.latencies),
        ("TLB entries exact", sum.entries),
    ] {
        writeln!(
            out,
            "{what:<20} {:5.1}%  ({} right, {} wrong, {} cannot tell)",
            100.0 * t.share(),
            t.right,
            t.wrong,
            t.silent
        )?;
    }
    Ok(())
}
