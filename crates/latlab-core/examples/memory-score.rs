//! Scores the inference of memory hierarchies on those that are known, and prints every fault.
//!
//! `cargo run --release -p latlab-core --example memory-score [tune|drawn|drawn=N] [quick] [seed=N] [seeds=K] [NAME…]`; the seed
//! of each hierarchy is its number plus N (1000), and with K that plus 100, 200… as well. `drawn` are 40 that are drawn
//! at random with that seed (2026); `quick` is `--quick`. All processors are used; the answers do not depend on how many.

#![expect(
    clippy::disallowed_methods,
    reason = "an example is a shell: it reads its arguments and prints"
)]

use latlab_core::memory::MemoryDetail;
use latlab_core::memory::sim::{Hierarchy, catalog, score};
use std::io::Write;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() -> std::io::Result<()> {
    let arguments = std::env::args_os().skip(1).filter_map(|a| a.into_string().ok());
    let mut names: Vec<String> = arguments.collect();
    let quick = names.iter().any(|n| n == "quick");
    let number = |what: &str, usual: u64| {
        names.iter().find_map(|n| n.strip_prefix(what)?.parse().ok()).unwrap_or(usual)
    };
    let (first, seeds) = (number("seed=", 1_000), number("seeds=", 1));
    let drawn = number("drawn=", 2026);
    names.retain(|n| n != "quick" && !n.starts_with("seed=") && !n.starts_with("seeds="));
    let sets: Vec<String> =
        names.extract_if(.., |n| n == "tune" || n.starts_with("drawn")).collect();
    let all = match sets.first().map(String::as_str) {
        Some("tune") => catalog::tuning(),
        Some(_) => catalog::drawn(40, drawn),
        None => catalog::scoring(),
    };
    let named =
        |h: &Hierarchy| names.is_empty() || names.iter().any(|n| h.name.contains(n.as_str()));
    let wanted: Vec<(&Hierarchy, u64)> = (all.iter().zip(first..))
        .filter(|(h, _)| named(h))
        .flat_map(|(h, seed)| (0..seeds).map(move |k| (h, seed + 100 * k)))
        .collect();
    let mut out = std::io::stdout().lock();
    let mut sum = score::Score::default();
    for (seed, s, detail) in scored(&wanted, quick) {
        for fault in &s.faults {
            writeln!(out, "seed {seed} {fault}")?;
        }
        if names.len() == 1 && seeds == 1 {
            for c in &detail.curves {
                writeln!(out, "{:?} {:?}", c.order, c.pages)?;
                for p in &c.points {
                    writeln!(out, "  {:>9} {:8.3} {:8.3} {:8.3}", p.x, p.ns, p.low_ns, p.high_ns)?;
                }
            }
        }
        sum.add(s);
    }
    writeln!(
        out,
        "{} hierarchies, seeds from {first}; levels invented: {}",
        wanted.len(),
        sum.invented
    )?;
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

/// Seeds, scores and what was found, in the order of `wanted`.
fn scored(wanted: &[(&Hierarchy, u64)], quick: bool) -> Vec<(u64, score::Score, MemoryDetail)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(h, seed)) = wanted.get(i) else { return done };
            done.push((i, seed, score::score(h, seed, quick)));
        }
    };
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|w| w.join().unwrap_or_else(|p| resume_unwind(p))).collect()
    });
    all.sort_by_key(|(i, ..)| *i);
    all.into_iter().map(|(_, seed, (score, found))| (seed, score, found)).collect()
}
