//! A query, and the events that pass it: one bit an event, in the order of all CPUs.

use crate::index::bins::Bins;
use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Query {
    /// Filter expressions; an event passes when one of them lets it. None: all pass.
    pub expressions: Vec<String>,
    /// A regular expression, looked for in task, event and text; case does not matter.
    pub text: String,
    /// Kinds that are hidden.
    pub hide_kinds: Vec<u16>,
    /// Tasks that are hidden.
    pub hide_tasks: Vec<i32>,
    /// Only these tasks, unless empty.
    pub only_tasks: Vec<i32>,
    /// CPUs that are hidden.
    pub hide_cpus: Vec<u32>,
}

/// Bits of a block, and how many pass before it.
const BLOCK: u64 = 4096;

/// The events that pass.
#[derive(Debug)]
pub struct Set {
    pub(crate) bits: Vec<u64>,
    /// Passing events before each block.
    before: Vec<u64>,
    /// Passing events.
    pub count: u64,
    /// The same by time.
    pub bins: Bins,
}

impl Set {
    pub(crate) fn new(events: u64) -> Self {
        let words = events.div_ceil(64) as usize;
        Self { bits: vec![0; words], before: Vec::new(), count: 0, bins: Bins::default() }
    }

    pub(crate) fn finish(&mut self) {
        let mut sum = 0;
        for block in self.bits.chunks((BLOCK / 64) as usize) {
            self.before.push(sum);
            sum += block.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
        }
        self.count = sum;
    }

    /// Whether event number `row` passes.
    pub fn has(&self, row: u64) -> bool {
        self.bits.get((row / 64) as usize).is_some_and(|w| w >> (row % 64) & 1 == 1)
    }

    /// How many pass before event number `row`.
    pub fn rank(&self, row: u64) -> u64 {
        let row = row.min(self.bits.len() as u64 * 64);
        let block = (row / BLOCK) as usize;
        let Some(before) = self.before.get(block) else { return self.count };
        let from = block as u64 * BLOCK / 64;
        let whole = &self.bits[from as usize..(row / 64) as usize];
        let whole: u64 = whole.iter().map(|w| u64::from(w.count_ones())).sum();
        let rest = self.bits.get((row / 64) as usize).map_or(0, |w| w & ((1 << (row % 64)) - 1));
        before + whole + u64::from(rest.count_ones())
    }

    /// The number of the `n`th event that passes.
    pub fn nth(&self, n: u64) -> Option<u64> {
        if n >= self.count {
            return None;
        }
        let block = self.before.partition_point(|b| *b <= n).checked_sub(1)?;
        let mut left = n - self.before[block];
        let from = block * (BLOCK / 64) as usize;
        for (i, word) in self.bits[from..].iter().enumerate() {
            let ones = u64::from(word.count_ones());
            if left < ones {
                let mut w = *word;
                for _ in 0..left {
                    w &= w - 1;
                }
                return Some((from + i) as u64 * 64 + u64::from(w.trailing_zeros()));
            }
            left -= ones;
        }
        None
    }

    /// The next one that passes, after `row` or before it.
    pub fn next(&self, row: u64, forward: bool) -> Option<u64> {
        let rank = self.rank(row);
        if forward {
            self.nth(rank + u64::from(self.has(row)))
        } else {
            self.nth(rank.checked_sub(1)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_places_agree() {
        let mut set = Set::new(20_000);
        let rows: Vec<u64> =
            (0..20_000).filter(|n| n % 7 == 3 || (9000..9100).contains(n)).collect();
        for r in &rows {
            set.bits[(r / 64) as usize] |= 1 << (r % 64);
        }
        set.finish();
        assert_eq!(set.count, rows.len() as u64);
        for (n, r) in rows.iter().enumerate() {
            assert_eq!(set.nth(n as u64), Some(*r));
            assert_eq!(set.rank(*r), n as u64);
        }
        assert_eq!(set.nth(set.count), None);
        assert_eq!(set.next(3, true), Some(10));
        assert_eq!(set.next(5, true), Some(10));
        assert_eq!(set.next(10, false), Some(3));
        assert_eq!(set.next(3, false), None);
        assert_eq!(set.next(19_999, true), None);
    }
}
