//! Rows of the event list: read from the file when they are looked at.

use crate::index::Index;
use crate::select::Set;
use latlab_trace::print::{Dialect, EventFormatter};
use latlab_trace::{Event, Missed, Select, TraceFile};
use serde::Serialize;
use std::ops::ControlFlow;

/// Rows of one answer at most.
pub const MOST: u64 = 500;

/// One event, ready to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its number in the order of all CPUs.
    pub row: u64,
    /// ns after the origin, as text: a number of JavaScript is exact only to 2^53.
    pub t: i64,
    /// CPU.
    pub cpu: u32,
    /// Task.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// Number of its kind.
    pub kind: u16,
    /// What it says.
    pub text: String,
    /// Events that were lost just before: −1 when nobody counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: i64,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

/// Turns events into rows.
pub struct Rows<'f> {
    file: &'f TraceFile<'f>,
    texts: EventFormatter<'f>,
    buffer: u16,
}

impl<'f> Rows<'f> {
    /// For one buffer of a file.
    pub fn new(file: &'f TraceFile<'f>, buffer: u16) -> Self {
        Self { file, texts: EventFormatter::new(file, Dialect::default()), buffer }
    }

    fn row(&self, index: &Index, e: &Event<'_>, row: u64) -> Row {
        let pid = self.file.common_pid().map_or(0, |f| f.i64(e.payload) as i32);
        let mut text = Vec::new();
        self.texts.put(e.id, e.payload, &mut text);
        let lost = match e.missed {
            Missed::No => 0,
            Missed::Count(n) => n as i64,
            _ => -1,
        };
        Row {
            row,
            t: e.time as i64 - index.origin as i64,
            cpu: e.cpu,
            pid,
            comm: String::from_utf8_lossy(index.comms.name(pid)).into_owned(),
            kind: e.id,
            text: String::from_utf8_lossy(&text).trim_end().to_owned(),
            lost,
        }
    }

    /// Calls `each` with the events from number `row` on, until it breaks.
    fn from(&self, index: &Index, row: u64, each: &mut dyn FnMut(u64, &Event<'_>) -> bool) {
        // Where time steps back the number of a bin's first event says nothing.
        let (mut at, time) = if index.backwards > 0 { (0, 0) } else { index.bin_of_row(row) };
        let select = Select {
            buffers: Some(vec![self.buffer]),
            from: (time > 0).then_some(time),
            ..Select::default()
        };
        self.file.scan(&select, 1, |e| {
            let this = at;
            at += 1;
            if this < row || each(this, e) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
    }

    /// Calls `each` with the events from number `first` on, until it says no.
    pub fn events(&self, index: &Index, first: u64, each: &mut dyn FnMut(&Event<'_>) -> bool) {
        self.from(index, first, &mut |_, e| each(e));
    }

    /// `n` rows from number `first` on: of all events, or of those in `set`.
    pub fn get(&self, index: &Index, set: Option<&Set>, first: u64, n: u64) -> Vec<Row> {
        let n = n.min(MOST);
        let mut rows = Vec::new();
        let Some(set) = set else {
            if first < index.events && n > 0 {
                self.from(index, first, &mut |row, e| {
                    rows.push(self.row(index, e, row));
                    (rows.len() as u64) < n
                });
            }
            return rows;
        };
        let mut wanted: Vec<u64> =
            (first..first.saturating_add(n)).map_while(|i| set.nth(i)).collect();
        wanted.reverse();
        // Those that lie near each other are read in one go.
        while let Some(start) = wanted.last().copied() {
            self.from(index, start, &mut |row, e| {
                if wanted.last() == Some(&row) {
                    wanted.pop();
                    rows.push(self.row(index, e, row));
                }
                wanted.last().is_some_and(|next| *next - row < 20_000)
            });
            if wanted.last() == Some(&start) {
                break;
            }
        }
        rows
    }

    /// The rows from number `first` to before `after`, all of them.
    pub fn range(&self, index: &Index, first: u64, after: u64) -> Vec<Row> {
        let mut rows = Vec::new();
        if first < after.min(index.events) {
            self.from(index, first, &mut |row, e| {
                rows.push(self.row(index, e, row));
                row + 1 < after
            });
        }
        rows
    }

    /// The number of the first event at or after a time; the number of events when there is none.
    pub fn at_time(&self, index: &Index, time: u64) -> u64 {
        if index.events == 0 || time <= index.origin {
            return 0;
        }
        if time > index.end {
            return index.events;
        }
        let (row, _, _) = index.bin_of_time(time);
        let mut found = index.events;
        let start = if index.backwards > 0 { 0 } else { row };
        self.from(index, start, &mut |row, e| {
            if e.time >= time {
                found = row;
                return false;
            }
            true
        });
        found
    }
}
