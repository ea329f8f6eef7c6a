//! Score of an inference against hierarchies that are known.

use super::{Fill, Hierarchy, Simulated};

/// What an inference says of one hierarchy.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Caches, from the processor outwards.
    pub levels: Vec<LevelAnswer>,
    /// Line, bytes.
    pub line: Option<u32>,
    /// Latency of memory, ns.
    pub memory_ns: Option<f64>,
    /// Entries of the TLBs with their intervals and the index of their confidence.
    pub tlbs: Vec<(u32, (u32, u32), usize)>,
}

/// One cache of an [`Answer`].
#[derive(Clone, Debug)]
pub struct LevelAnswer {
    /// Size, bytes.
    pub bytes: u64,
    /// Interval of the size, bytes.
    pub interval: (u64, u64),
    /// Ways.
    pub ways: Option<u32>,
    /// Latency, ns.
    pub ns: f64,
    /// Stated with the confidence of this index: 0 high, 1 medium, 2 low.
    pub confidence: usize,
}

/// Answers, right and wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Right.
    pub right: u32,
    /// Wrong.
    pub wrong: u32,
    /// Not determined.
    pub undetermined: u32,
}

impl Tally {
    fn count(&mut self, answer: Option<bool>) {
        match answer {
            Some(true) => self.right += 1,
            Some(false) => self.wrong += 1,
            None => self.undetermined += 1,
        }
    }

    /// Share of right answers among all that were asked for.
    pub fn share(&self) -> f64 {
        f64::from(self.right) / f64::from((self.right + self.wrong + self.undetermined).max(1))
    }

    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.undetermined += other.undetermined;
    }
}

/// The score of one hierarchy, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// Sizes exact, by level (the third holds all further ones).
    pub sizes: [Tally; 3],
    /// Intervals of sizes that hold the true size.
    pub covered: Tally,
    /// Sizes exact, by confidence: high, medium, low.
    pub grades: [Tally; 3],
    /// Intervals of sizes that hold the true size, by confidence.
    pub grades_covered: [Tally; 3],
    /// TLB entries exact, by confidence.
    pub tlb_grades: [Tally; 3],
    /// Intervals of TLB entries that are a single value.
    pub tlb_single: u32,
    /// Widths of these intervals, doublings.
    pub widths: Vec<f64>,
    /// Lines exact.
    pub lines: Tally,
    /// Ways exact.
    pub ways: Tally,
    /// Latencies of caches and memory within 5 %.
    pub latencies: Tally,
    /// TLB entries exact.
    pub entries: Tally,
    /// Intervals of TLB entries that hold the true number.
    pub entries_covered: Tally,
    /// Caches that do not exist.
    pub invented: u32,
    /// TLBs that do not exist.
    pub invented_tlbs: u32,
    /// Simulated loads.
    pub loads: u64,
    /// What was wrong.
    pub faults: Vec<String>,
}

impl Score {
    /// Adds another's counts.
    pub fn add(&mut self, other: Self) {
        for (a, b) in self.sizes.iter_mut().zip(other.sizes) {
            a.add(b);
        }
        self.covered.add(other.covered);
        for i in 0..3 {
            self.grades[i].add(other.grades[i]);
            self.grades_covered[i].add(other.grades_covered[i]);
            self.tlb_grades[i].add(other.tlb_grades[i]);
        }
        self.tlb_single += other.tlb_single;
        self.widths.extend(other.widths);
        self.lines.add(other.lines);
        self.ways.add(other.ways);
        self.latencies.add(other.latencies);
        self.entries.add(other.entries);
        self.entries_covered.add(other.entries_covered);
        self.invented += other.invented;
        self.invented_tlbs += other.invented_tlbs;
        self.loads += other.loads;
        self.faults.extend(other.faults);
    }
}

/// A simulated machine with arrays large enough to see memory and to miss in every TLB.
pub fn machine(truth: &Hierarchy, seed: u64) -> Simulated {
    let largest = truth.caches.last().map_or(1 << 20, |c| c.bytes);
    let pages = truth.tlbs.last().map_or(0, |t| t.entries);
    let limit = (largest * 8).max(pages * 3 * 4096).clamp(16 << 20, 64 << 20);
    Simulated::new(truth.clone(), limit, seed)
}

/// Compares an answer with the truth.
pub fn compare(truth: &Hierarchy, found: &Answer, loads: u64) -> Score {
    let mut s = Score { loads, ..Score::default() };
    for (i, c) in truth.caches.iter().enumerate() {
        let level = found.levels.get(i);
        // An exclusive cache adds to the one before it: its own size and the sum are both right.
        let inner = if c.fill == Fill::Exclusive { truth.caches[i - 1].bytes } else { 0 };
        let is = |bytes: u64| bytes == u64::from(c.bytes) || bytes == u64::from(c.bytes + inner);
        let size = level.map(|l| is(l.bytes));
        let hold = |l: &LevelAnswer, v: u32| (l.interval.0..=l.interval.1).contains(&v.into());
        s.sizes[i.min(2)].count(size);
        let covered = level.map(|l| hold(l, c.bytes) || hold(l, c.bytes + inner));
        s.covered.count(covered);
        if let Some(l) = level {
            s.widths.push((l.interval.1 as f64 / l.interval.0.max(1) as f64).log2());
            s.grades[l.confidence.min(2)].count(size);
            s.grades_covered[l.confidence.min(2)].count(covered);
        }
        let ways = level.and_then(|l| l.ways).map(|w| w == c.ways);
        s.ways.count(ways);
        let near = |ns: f64, truth: f64| (ns / truth - 1.0).abs() < 0.05;
        s.latencies.count(level.map(|l| near(l.ns, c.ns)));
        if size != Some(true) || ways == Some(false) || level.is_some_and(|l| !near(l.ns, c.ns)) {
            s.faults.push(format!("L{} is {c:?}; found {level:?}", i + 1));
        }
    }
    if !truth.caches.is_empty() {
        s.lines.count(found.line.map(|l| l == truth.line));
        let memory = found.memory_ns.map(|ns| (ns / truth.memory_ns - 1.0).abs() < 0.05);
        s.latencies.count(memory);
        if memory != Some(true) || found.line != Some(truth.line) {
            s.faults.push(format!(
                "line {}, memory {} ns; found {:?}, {:?}",
                truth.line, truth.memory_ns, found.line, found.memory_ns
            ));
        }
        for (i, t) in truth.tlbs.iter().enumerate() {
            let tlb = found.tlbs.get(i);
            s.entries.count(tlb.map(|l| l.0 == t.entries));
            if let Some(l) = tlb {
                s.tlb_grades[l.2.min(2)].count(Some(l.0 == t.entries));
                s.tlb_single += u32::from(l.1.0 == l.1.1);
            }
            s.entries_covered.count(tlb.map(|l| (l.1.0..=l.1.1).contains(&t.entries)));
            if tlb.is_none_or(|l| l.0 != t.entries) {
                s.faults.push(format!("TLB {} is {t:?}; found {:?}", i + 1, found.tlbs));
            }
        }
    }
    s.invented = found.levels.len().saturating_sub(truth.caches.len()) as u32;
    s.invented_tlbs = found.tlbs.len().saturating_sub(truth.tlbs.len()) as u32;
    if s.invented > 0 {
        s.faults.push(format!("levels that do not exist: {:?}", found.levels));
    }
    s
}
