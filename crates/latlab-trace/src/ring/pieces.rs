//! A trace in several stretches of time, each read by a thread of its own.
//!
//! Merging is sequential, but two stretches have nothing to do with each other: what is counted or
//! looked up in any order scales with the number of cores. The stretches are cut at the time
//! stamps of pages of the CPU that has most of the data, so that they hold about as much each.

use super::cursor::Cursor;
use super::{Event, Select};
use crate::{Diagnostics, TraceFile};
use std::ops::ControlFlow;

impl TraceFile<'_> {
    /// Calls `each` with every chosen event, in order of time within each of `pieces` stretches,
    /// with what `start` made for that stretch; returns those in order of the stretches. A break
    /// ends one stretch. One stretch alone is read where the clock is corrected by more than a
    /// constant, or the trace is made from text.
    pub fn scan_pieces<S: Send>(
        &self,
        select: &Select,
        pieces: usize,
        start: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &Event<'_>) -> ControlFlow<()> + Sync,
    ) -> (Vec<S>, Diagnostics) {
        let read = |select: &Select| {
            let mut state = start();
            let damage = self.scan(select, 1, |event| each(&mut state, event));
            (state, damage)
        };
        let cuts = self.cuts(select, pieces);
        let selects: Vec<Select> = (0..=cuts.len())
            .map(|n| Select {
                from: if n == 0 { select.from } else { cuts.get(n - 1).copied() },
                to: cuts.get(n).map_or(select.to, |cut| Some(cut - 1)),
                ..select.clone()
            })
            .collect();
        let done: Vec<(S, Diagnostics)> = std::thread::scope(|scope| {
            let others: Vec<_> =
                selects.iter().skip(1).map(|select| scope.spawn(|| read(select))).collect();
            let first = selects.first().map(&read);
            // A thread that panicked takes its stretch with it, and the panic to the caller.
            let joined = others.into_iter().map(|t| match t.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            first.into_iter().chain(joined).collect()
        });
        let mut all = Diagnostics::default();
        let states = done.into_iter().map(|(state, damage)| {
            all.extend(&damage);
            state
        });
        (states.collect(), all)
    }

    /// The time that has about `part` of `of` parts of a buffer before it, by the pages of the CPU
    /// that has most of it. `None` where the clock is corrected by more than a constant, or the
    /// trace is made from text: there the order of pages says little.
    pub fn time_about(&self, buffer: u16, part: usize, of: usize) -> Option<u64> {
        if self.version == 0 || !self.clock_is_plain() {
            return None;
        }
        let b = self.buffers.get(usize::from(buffer))?;
        let cpu = b.cpus.iter().max_by_key(|cpu| cpu.size)?;
        Cursor::new(self, buffer, b, *cpu).time_about(part, of)
    }

    /// Times between which there is about as much, increasing, within what is selected.
    fn cuts(&self, select: &Select, pieces: usize) -> Vec<u64> {
        if pieces < 2 || self.version == 0 || !self.clock_is_plain() {
            return Vec::new();
        }
        let buffers = self.buffers.iter().enumerate();
        let largest = buffers.flat_map(|(n, b)| b.cpus.iter().map(move |cpu| (n, b, *cpu)));
        let Some((number, buffer, cpu)) = largest.max_by_key(|(.., cpu)| cpu.size) else {
            return Vec::new();
        };
        let mut cursor = Cursor::new(self, number as u16, buffer, cpu);
        let mut cuts: Vec<u64> = (1..pieces).filter_map(|n| cursor.time_about(n, pieces)).collect();
        let (from, to) = (select.from.unwrap_or(0), select.to.unwrap_or(u64::MAX));
        cuts.retain(|cut| *cut > from && *cut <= to);
        cuts.dedup();
        // Damaged time stamps may come in any order.
        if cuts.is_sorted() { cuts } else { Vec::new() }
    }
}
