//! Time between two kinds of events: a histogram, a plot over time, the worst ones.
//!
//! Each event of the first kind opens an interval under its key (a field, or the
//! task that it happened in); the next event of the second kind with the same key
//! closes it. An interval that is opened again before it is closed begins anew.

use latlab_stats::histogram::Recorder;
use latlab_trace::names::IntMap;
use latlab_trace::{Field, Select, TraceFile};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

/// Worst intervals that are listed.
const WORST: usize = 100;
/// Columns of the plot over time.
const COLUMNS: usize = 400;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Ask<'a> {
    /// Name of the first kind.
    pub a: &'a str,
    /// Name of the second kind.
    pub b: &'a str,
    /// Field of the first that is its key; empty: the usual one, else the task.
    pub key_a: &'a str,
    /// Field of the second.
    pub key_b: &'a str,
    /// Only this key.
    pub only: Option<i64>,
}

/// One interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Interval {
    /// Length, ns.
    pub ns: u64,
    /// Start, ns after the origin.
    pub from: i64,
    /// The key.
    pub key: i64,
    /// CPU of the second event.
    pub cpu: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Latency {
    /// Key fields that were used; empty for the task.
    pub keys: (String, String),
    /// How many intervals.
    pub count: u64,
    /// Events of the first kind without one of the second.
    pub open: u64,
    /// ns: minimum, median, 99 %, 99.9 %, maximum.
    pub quantiles: [u64; 5],
    /// Histogram: lower bound in ns and count, bounds 2^(n/4).
    pub bins: Vec<(u64, u64)>,
    /// Over time: start (ns after the origin), shortest and longest of each column that has one.
    pub over_time: Vec<(i64, u64, u64)>,
    /// The longest, longest first.
    pub worst: Vec<Interval>,
}

/// Fields that belong together where nobody says otherwise.
const USUAL: [(&str, &str, &str, &str); 12] = [
    ("sched_waking", "sched_switch", "pid", "next_pid"),
    ("sched_wakeup", "sched_switch", "pid", "next_pid"),
    ("sched_waking", "sched_wakeup", "pid", "pid"),
    ("sched_switch", "sched_switch", "prev_pid", "next_pid"),
    ("sched_switch", "sched_waking", "prev_pid", "pid"),
    ("irq_handler_entry", "irq_handler_exit", "irq", "irq"),
    ("softirq_raise", "softirq_entry", "vec", "vec"),
    ("softirq_entry", "softirq_exit", "vec", "vec"),
    ("hrtimer_start", "hrtimer_expire_entry", "hrtimer", "hrtimer"),
    ("hrtimer_expire_entry", "hrtimer_expire_exit", "hrtimer", "hrtimer"),
    ("timer_start", "timer_expire_entry", "timer", "timer"),
    ("workqueue_queue_work", "workqueue_execute_start", "work", "work"),
];

/// Why a latency cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LatencyError {
    /// The trace has no such event.
    #[error("no event of this trace is named {0:?}")]
    Event(String),
    /// The event has no such field.
    #[error("{event} has no field {field:?}")]
    Field {
        /// The event.
        event: String,
        /// The field.
        field: String,
    },
}

/// Measures it.
///
/// # Errors
/// [`LatencyError`]: which event or field there is not.
pub fn latency(
    file: &TraceFile<'_>,
    buffer: u16,
    span: (u64, u64),
    ask: &Ask<'_>,
) -> Result<Latency, LatencyError> {
    let find = |name: &str| {
        let known = file.formats.find(name);
        known.ok_or_else(|| LatencyError::Event(name.to_owned()))
    };
    let (a, b) = (find(ask.a)?, find(ask.b)?);
    let usual = USUAL.iter().find(|u| u.0 == &*a.name && u.1 == &*b.name);
    let key = |given: &str, usual: &str, format: &latlab_trace::EventFormat| {
        let name = if given.is_empty() { usual } else { given };
        match format.field(name) {
            Some(f) => Ok(Some(f.clone())),
            None if name.is_empty() => Ok(file.common_pid().cloned()),
            None => {
                Err(LatencyError::Field { event: format.name.to_string(), field: name.to_owned() })
            }
        }
    };
    let key_a: Option<Field> = key(ask.key_a, usual.map_or("", |u| u.2), a)?;
    let key_b: Option<Field> = key(ask.key_b, usual.map_or("", |u| u.3), b)?;
    let of = |f: &Option<Field>, payload: &[u8]| f.as_ref().map_or(0, |f| f.i64(payload));
    let mut collect = Collect::new(span);
    let mut open: IntMap<u64, u64> = IntMap::default();
    let select = Select { buffers: Some(vec![buffer]), ..Select::default() };
    let (a, b) = (a.id, b.id);
    file.scan(&select, 2, |e| {
        if e.id == b {
            let key = of(&key_b, e.payload);
            if let Some(start) = open.remove(&(key as u64)) {
                let from = start as i64 - span.0 as i64;
                collect.add(Interval { ns: e.time.saturating_sub(start), from, key, cpu: e.cpu });
            }
        }
        if e.id == a {
            let key = of(&key_a, e.payload);
            // What waits for nobody does not grow without bound: a million keys are kept.
            if ask.only.is_none_or(|o| o == key) && open.len() < 1 << 20 {
                open.insert(key as u64, e.time);
            }
        }
        ControlFlow::Continue(())
    });
    let name = |f: &Option<Field>| f.as_ref().map_or(String::new(), |f| f.name.to_string());
    Ok(collect.finish((name(&key_a), name(&key_b)), open.len() as u64))
}

struct Collect {
    span: (u64, u64),
    histogram: Recorder,
    bins: Vec<u64>,
    columns: Vec<Option<(u64, u64)>>,
    worst: BinaryHeap<Reverse<Interval>>,
}

impl Collect {
    fn new(span: (u64, u64)) -> Self {
        Self {
            span,
            histogram: Recorder::new(),
            bins: vec![0; 256],
            columns: vec![None; COLUMNS],
            worst: BinaryHeap::new(),
        }
    }

    fn column(&self) -> u64 {
        (self.span.1.saturating_sub(self.span.0) / COLUMNS as u64).max(1)
    }

    fn add(&mut self, i: Interval) {
        self.histogram.record(i.ns);
        self.bins[bin_of(i.ns)] += 1;
        let at = (u64::try_from(i.from).unwrap_or(0) / self.column()) as usize;
        let column = &mut self.columns[at.min(COLUMNS - 1)];
        let (low, high) = column.unwrap_or((i.ns, i.ns));
        *column = Some((low.min(i.ns), high.max(i.ns)));
        if self.worst.len() < WORST || self.worst.peek().is_some_and(|w| w.0 < i) {
            self.worst.push(Reverse(i));
            if self.worst.len() > WORST {
                self.worst.pop();
            }
        }
    }

    fn finish(self, keys: (String, String), open: u64) -> Latency {
        let histogram = self.histogram.to_histogram();
        let q = |p: f64| histogram.quantile(p).unwrap_or(0);
        let column = self.column();
        let first = self.bins.iter().position(|n| *n > 0).unwrap_or(0);
        let last = self.bins.iter().rposition(|n| *n > 0).map_or(0, |n| n + 1);
        let mut worst: Vec<Interval> = self.worst.into_iter().map(|w| w.0).collect();
        worst.sort_by(|a, b| b.cmp(a));
        Latency {
            keys,
            count: histogram.count,
            open,
            quantiles: [histogram.min, q(0.5), q(0.99), q(0.999), histogram.max],
            bins: (first..last.max(first)).map(|n| (bound(n), self.bins[n])).collect(),
            over_time: self
                .columns
                .iter()
                .enumerate()
                .filter_map(|(n, c)| c.map(|(low, high)| ((n as u64 * column) as i64, low, high)))
                .collect(),
            worst,
        }
    }
}

/// Four bins an octave.
fn bin_of(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let octave = 63 - ns.leading_zeros() as usize;
    (octave * 4 - 4 + ((ns >> (octave - 2)) & 3) as usize).min(255)
}

/// Lower bound of a bin.
fn bound(bin: usize) -> u64 {
    if bin < 4 {
        return bin as u64;
    }
    let octave = (bin + 4) / 4;
    (4 + (bin as u64 & 3)) << (octave - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_and_bounds_agree() {
        for ns in (0..5000).chain([1 << 40, (1 << 40) + 1, u64::MAX]) {
            let b = bin_of(ns);
            assert!(bound(b) <= ns && (b == 251 || bound(b + 1) > ns), "{ns} in {b}");
        }
    }
}
