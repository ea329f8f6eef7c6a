//! How often the inference is right on hierarchies that are known.

use super::{Fill, Hierarchy, Simulated};
use crate::memory::MemoryDetail;
use crate::memory::explore::{Plan, explore};

/// Right answers of those that could be given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Right.
    pub right: u32,
    /// Wrong.
    pub wrong: u32,
    /// Not answered.
    pub silent: u32,
}

impl Tally {
    fn count(&mut self, answer: Option<bool>) {
        match answer {
            Some(true) => self.right += 1,
            Some(false) => self.wrong += 1,
            None => self.silent += 1,
        }
    }

    /// Share right of all that could be answered.
    pub fn share(&self) -> f64 {
        f64::from(self.right) / f64::from((self.right + self.wrong + self.silent).max(1))
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: Self) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.silent += other.silent;
    }
}

/// The score of one hierarchy, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// Sizes, exact.
    pub sizes: Tally,
    /// Lines, exact.
    pub lines: Tally,
    /// Ways, exact.
    pub ways: Tally,
    /// Latencies of caches and memory within 5%.
    pub latencies: Tally,
    /// TLB entries, exact.
    pub entries: Tally,
    /// Levels that there are not.
    pub invented: u32,
    /// What was wrong, in words.
    pub faults: Vec<String>,
}

impl Score {
    /// Adds another's counts.
    pub fn add(&mut self, other: Self) {
        self.sizes.add(other.sizes);
        self.lines.add(other.lines);
        self.ways.add(other.ways);
        self.latencies.add(other.latencies);
        self.entries.add(other.entries);
        self.invented += other.invented;
        self.faults.extend(other.faults);
    }
}

/// Explores a hierarchy with a seed, and compares.
pub fn score(truth: &Hierarchy, seed: u64, quick: bool) -> (Score, MemoryDetail) {
    let largest = truth.caches.last().map_or(1 << 20, |c| c.bytes);
    let pages = truth.tlbs.last().map_or(0, |t| t.entries);
    // Enough to see memory and to miss in every TLB; the measuring command takes 64 MiB and more.
    let limit = (largest * 8).max(pages * 3 * 4096).clamp(16 << 20, 64 << 20);
    score_within(truth, seed, quick, limit)
}

/// As [`score`], with arrays of up to `limit` bytes.
pub fn score_within(
    truth: &Hierarchy,
    seed: u64,
    quick: bool,
    limit: u32,
) -> (Score, MemoryDetail) {
    let mut machine = Simulated::new(truth.clone(), limit, seed);
    let plan = Plan { quick, seed, cannot_tell: None };
    match explore(&mut machine, &plan) {
        Ok(found) => (compare(truth, &found), found),
        Err(error) => {
            let faults = vec![format!("{}: {error}", truth.name)];
            (Score { faults, invented: 0, ..Score::default() }, MemoryDetail::default())
        }
    }
}

fn compare(truth: &Hierarchy, found: &MemoryDetail) -> Score {
    let mut s = Score::default();
    let mut say = |what: String| s.faults.push(format!("{}: {what}", truth.name));
    for (i, c) in truth.caches.iter().enumerate() {
        let level = found.levels.get(i);
        // An exclusive cache adds to the ones before it; what it and they hold together is right, too.
        let inner = if c.fill == Fill::Exclusive { truth.caches[i - 1].bytes } else { 0 };
        let size =
            level.map(|l| l.bytes == u64::from(c.bytes) || l.bytes == u64::from(c.bytes + inner));
        s.sizes.count(size);
        let ways = level.and_then(|l| l.ways).map(|w| w == c.ways);
        s.ways.count(ways);
        s.latencies.count(level.map(|l| (l.ns / c.ns - 1.0).abs() < 0.05));
        if size != Some(true) || ways != Some(true) {
            say(format!(
                "L{} is {c:?}; found {:?}",
                i + 1,
                level.map(|l| (l.bytes, l.bytes_interval, l.ways, l.ns, &l.law, l.residual))
            ));
        } else if level.is_some_and(|l| (l.ns / c.ns - 1.0).abs() >= 0.05) {
            say(format!("L{} takes {} ns; found {:?}", i + 1, c.ns, level.map(|l| l.ns)));
        }
    }
    if !truth.caches.is_empty() {
        s.lines.count(found.line.as_ref().map(|l| l.bytes == truth.line));
        s.latencies.count(found.memory_ns.map(|ns| (ns / truth.memory_ns - 1.0).abs() < 0.05));
        if found.memory_ns.is_none_or(|ns| (ns / truth.memory_ns - 1.0).abs() >= 0.05) {
            say(format!("memory takes {} ns; found {:?}", truth.memory_ns, found.memory_ns));
        }
        if found.line.as_ref().is_none_or(|l| l.bytes != truth.line) {
            say(format!("the line is {}; found {:?}", truth.line, found.line));
        }
        for (i, t) in truth.tlbs.iter().enumerate() {
            let entries = found.tlbs.get(i).map(|l| l.entries == t.entries);
            s.entries.count(entries);
            if entries != Some(true) {
                let seen: Vec<_> =
                    found.tlbs.iter().map(|l| (l.entries, l.entries_interval)).collect();
                say(format!("TLB {} has {} entries; found {seen:?}", i + 1, t.entries));
            }
        }
    }
    s.invented = found.levels.len().saturating_sub(truth.caches.len()) as u32;
    if s.invented > 0 {
        s.faults.push(format!("{}: {} levels invented", truth.name, s.invented));
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sim::catalog;

    /// Arrays of the tests: a simulated load takes its time without optimisation.
    const SMALL: u32 = 8 << 20;

    /// The whole score is `cargo run --release -p latlab-core --example memory-score`.
    #[test]
    fn small_hierarchies_are_found_as_they_are() {
        let mut sum = Score::default();
        let small = |h: &&Hierarchy| h.caches.iter().all(|c| c.bytes <= 256 << 10);
        for (seed, h) in catalog::scoring().iter().filter(small).take(2).enumerate() {
            sum.add(score_within(h, 1000 + seed as u64, true, SMALL).0);
        }
        assert!(sum.sizes.wrong <= 1 && sum.sizes.right >= 3, "{sum:#?}");
        assert_eq!(sum.lines.wrong, 0, "{sum:#?}");
        assert_eq!(sum.invented, 0, "{sum:#?}");
    }

    #[test]
    fn a_flat_memory_has_no_cache() {
        for h in catalog::scoring().iter().filter(|h| h.caches.is_empty()) {
            let (s, found) = score_within(h, 5, true, SMALL);
            assert_eq!((s.invented, found.tlbs.len()), (0, 0), "{}", h.name);
            assert!(found.missing[0].contains("no cache can be told"), "{:?}", found.missing);
        }
    }
}
