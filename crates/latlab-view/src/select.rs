//! Which events pass: an expression, hidden kinds, tasks and CPUs, a word in the text.
//!
//! The result is one bit an event, in the order of all CPUs, with counts before
//! each block: a list of the events that pass can be scrolled, and the next one
//! before or after any place found, without reading the file again.

use crate::index::Index;
use crate::index::bins::Bins;
use latlab_trace::print::{Dialect, Texts};
use latlab_trace::{Filter, Select, TraceFile};
use regex_lite::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ops::ControlFlow;

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
    bits: Vec<u64>,
    /// Passing events before each block.
    before: Vec<u64>,
    /// Passing events.
    pub count: u64,
    /// The same by time.
    pub bins: Bins,
}

impl Set {
    fn new(events: u64) -> Self {
        let words = events.div_ceil(64) as usize;
        Self { bits: vec![0; words], before: Vec::new(), count: 0, bins: Bins::default() }
    }

    fn finish(&mut self) {
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

/// What an event is tested for.
struct Tests {
    filter: Filter,
    text: Option<Regex>,
    hide_kinds: HashSet<u16>,
    hide_tasks: HashSet<i32>,
    only_tasks: HashSet<i32>,
    hide_cpus: HashSet<u32>,
}

impl Tests {
    fn new(file: &TraceFile<'_>, query: &Query) -> Result<Self, String> {
        let filter = Filter::compile(file, &query.expressions).map_err(|e| e.to_string())?;
        let text = match query.text.as_str() {
            "" => None,
            text => Some(
                RegexBuilder::new(text)
                    .case_insensitive(true)
                    .size_limit(1 << 20)
                    .build()
                    .map_err(|e| format!("{text:?} is no regular expression: {e}"))?,
            ),
        };
        Ok(Self {
            filter,
            text,
            hide_kinds: query.hide_kinds.iter().copied().collect(),
            hide_tasks: query.hide_tasks.iter().copied().collect(),
            only_tasks: query.only_tasks.iter().copied().collect(),
            hide_cpus: query.hide_cpus.iter().copied().collect(),
        })
    }
}

/// Finds the events that pass, with `threads` threads.
///
/// # Errors
/// One sentence: what of the query cannot be understood.
pub fn select(
    file: &TraceFile<'_>,
    buffer: u16,
    index: &Index,
    query: &Query,
    threads: usize,
) -> Result<Set, String> {
    let tests = Tests::new(file, query)?;
    let texts = Texts::new(file, Dialect::default());
    let mut set = Set::new(index.events);
    if index.backwards > 0 || threads < 2 || index.events < 100_000 {
        let all = Select { buffers: Some(vec![buffer]), ..Select::default() };
        scan(file, index, &tests, &texts, &all, (0, index.events), &mut |row, time| {
            set.bits[(row / 64) as usize] |= 1 << (row % 64);
            set.bins.add(time.saturating_sub(index.origin));
        });
        set.finish();
        return Ok(set);
    }
    // Stretches that begin with a bin: there the number of the first event is known.
    let stretches: Vec<((u64, u64), u64)> = (0..threads as u64)
        .map(|n| {
            let (row, time) = index.bin_of_row(index.events * n / threads as u64);
            let (to, _) = index.bin_of_row(index.events * (n + 1) / threads as u64);
            let to = if n + 1 == threads as u64 { index.events } else { to };
            ((row, to), time)
        })
        .collect();
    let work = |(rows, time): ((u64, u64), u64)| {
        let mut part = Set::new(index.events);
        let from = Select { buffers: Some(vec![buffer]), from: Some(time), ..Select::default() };
        scan(file, index, &tests, &texts, &from, rows, &mut |row, time| {
            part.bits[(row / 64) as usize] |= 1 << (row % 64);
            part.bins.add(time.saturating_sub(index.origin));
        });
        part
    };
    let work = &work;
    let parts: Vec<Set> = std::thread::scope(|scope| {
        let started = stretches.into_iter().map(|s| scope.spawn(move || work(s)));
        let started: Vec<_> = started.collect();
        started.into_iter().filter_map(|t| t.join().ok()).collect()
    });
    for mut part in parts {
        set.bits.iter_mut().zip(&part.bits).for_each(|(a, b)| *a |= b);
        let shift = set.bins.shift.max(part.bins.shift);
        set.bins.coarsen_to(shift);
        part.bins.coarsen_to(shift);
        if set.bins.counts.len() < part.bins.counts.len() {
            set.bins.counts.resize(part.bins.counts.len(), 0);
        }
        set.bins.counts.iter_mut().zip(&part.bins.counts).for_each(|(a, b)| *a += b);
    }
    set.finish();
    Ok(set)
}

/// Calls `hit` with number and time of every event of `rows` that passes.
fn scan(
    file: &TraceFile<'_>,
    index: &Index,
    tests: &Tests,
    texts: &Texts<'_>,
    select: &Select,
    rows: (u64, u64),
    hit: &mut dyn FnMut(u64, u64),
) {
    let pid_of = file.common_pid();
    let mut line = Vec::new();
    let mut row = rows.0;
    file.scan(select, 1, |e| {
        if row >= rows.1 {
            return ControlFlow::Break(());
        }
        let this = row;
        row += 1;
        let pid = pid_of.map_or(0, |f| f.i64(e.payload) as i32);
        let shown = !tests.hide_kinds.contains(&e.id)
            && !tests.hide_cpus.contains(&e.cpu)
            && !tests.hide_tasks.contains(&pid)
            && (tests.only_tasks.is_empty() || tests.only_tasks.contains(&pid))
            && tests.filter.passes(e, &index.comms);
        if !shown {
            return ControlFlow::Continue(());
        }
        if let Some(text) = &tests.text {
            line.clear();
            line.extend_from_slice(index.comms.name(pid));
            line.extend_from_slice(format!("-{pid} ").as_bytes());
            let name = file.formats.get(e.id).map_or("", |f| &f.name);
            line.extend_from_slice(name.as_bytes());
            line.extend_from_slice(b": ");
            texts.put(e.id, e.payload, &mut line);
            if !text.is_match(&String::from_utf8_lossy(&line)) {
                return ControlFlow::Continue(());
            }
        }
        hit(this, e.time);
        ControlFlow::Continue(())
    });
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
