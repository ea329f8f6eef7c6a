//! Which events pass: an expression, hidden kinds, tasks and CPUs, a word in the text.
//!
//! The result is one bit an event, in the order of all CPUs, with counts before
//! each block: a list of the events that pass can be scrolled, and the next one
//! before or after any place found, without reading the file again.

use crate::index::Index;
pub use crate::selection::{Query, Set};
use latlab_trace::print::{Dialect, EventFormatter};
use latlab_trace::{Filter, FilterError, Select, TraceFile};
use regex_lite::{Regex, RegexBuilder};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Why a query cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// A filter expression.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The regular expression.
    #[error("{text:?} is not a regular expression: {reason}")]
    Regex {
        /// The expression.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No index is ready yet.
    #[error("the trace is still being read")]
    NotRead,
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
    fn new(file: &TraceFile<'_>, query: &Query) -> Result<Self, SelectError> {
        let filter = Filter::compile(file, &query.expressions)?;
        let text = match query.text.as_str() {
            "" => None,
            text => Some(
                RegexBuilder::new(text)
                    .case_insensitive(true)
                    .size_limit(1 << 20)
                    .build()
                    .map_err(|e| SelectError::Regex {
                        text: text.to_owned(),
                        reason: e.to_string(),
                    })?,
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
/// [`SelectError`]: what of the query cannot be understood.
pub fn select(
    file: &TraceFile<'_>,
    buffer: u16,
    index: &Index,
    query: &Query,
    threads: usize,
) -> Result<Set, SelectError> {
    let tests = Tests::new(file, query)?;
    let texts = EventFormatter::new(file, Dialect::default());
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
    texts: &EventFormatter<'_>,
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
