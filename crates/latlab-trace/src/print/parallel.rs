//! A report by several threads, its lines in exact order.
//!
//! Merging is a small part of the work and strictly sequential, formatting is
//! the rest and is not. Each thread in turn takes the merge for a moment and
//! fills a batch with the places of the next few thousand events, formats it
//! into a buffer of its own, and waits for its turn to write. The first batch
//! is small, so that the first line appears at once.

use super::indent::Callers;
use super::leaf::LeafFold;
use super::line::LinePrefixCache;
use super::notes::{Note, NotedBatch};
use super::{LineStyle, Printer};
use crate::events::{Decoder, Typed};
use crate::filter::Filter;
use crate::names::Comms;
use crate::ring::{Batch, Events};
use crate::{Diagnostics, Event, Field, Select, TraceFile};
use latlab_model::control::clean_bytes;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Which lines a report has.
#[derive(Debug, Default)]
pub struct ReportOptions {
    /// CPUs, buffers and time.
    pub select: Select,
    /// Only events of these tasks.
    pub pids: Option<Vec<i32>>,
    /// Only events that pass; an empty filter lets all pass.
    pub filter: Filter,
    /// How lines look.
    pub style: LineStyle,
    /// Number of threads, at least one.
    pub threads: usize,
}

/// What a report came to.
#[derive(Clone, Debug, Default)]
pub struct ReportEnd {
    /// Events that were read.
    pub read: u64,
    /// Events that were printed.
    pub printed: u64,
    /// Damage that was met.
    pub diagnostics: Diagnostics,
}

/// Events of the first and of later batches.
const FIRST_BATCH: usize = 64;
const BATCH: usize = 4096;

struct Merge<'f> {
    events: Events<'f>,
    comms: Arc<Comms>,
    leaves: LeafFold,
    /// Who calls whom, as the `function` tracer tells it.
    callers: Option<Callers<'f>>,
    next: u64,
    read: u64,
    printed: u64,
    done: bool,
}

struct Turn<'w> {
    out: &'w mut (dyn Write + Send),
    next: u64,
    result: io::Result<()>,
}

/// Prints the events of a file in order of time. Control characters in names and texts are shown as
/// [`latlab_model::control`] says. `out` gets whole batches of lines, so that one copy of this serves every
/// writer.
///
/// # Errors
/// The first error of `out`.
pub fn report(
    file: &TraceFile<'_>,
    options: &ReportOptions,
    out: &mut (dyn Write + Send),
) -> io::Result<ReportEnd> {
    let printer = Printer::new(file, options.style.clone());
    let merge = Mutex::new(Merge {
        events: file.select(&options.select),
        comms: Arc::new(file.comms.clone()),
        leaves: LeafFold::default(),
        callers: Callers::new(file, &options.style),
        next: 0,
        read: 0,
        printed: 0,
        done: false,
    });
    let turn = Mutex::new(Turn { out, next: 0, result: Ok(()) });
    let job = Job {
        options,
        printer: &printer,
        decoder: Decoder::new(file),
        switch: file.formats.find("sched_switch").map(|f| f.id),
        pid: file.common_pid(),
        merge: &merge,
        turn: &turn,
        moved: &Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.max(1) {
            scope.spawn(|| job.work());
        }
        job.work();
    });
    let merge = merge.into_inner().unwrap_or_else(PoisonError::into_inner);
    let turn = turn.into_inner().unwrap_or_else(PoisonError::into_inner);
    turn.result?;
    turn.out.flush()?;
    Ok(ReportEnd {
        read: merge.read,
        printed: merge.printed,
        diagnostics: merge.events.diagnostics(),
    })
}

struct Job<'j, 'f, 'w> {
    options: &'j ReportOptions,
    printer: &'j Printer<'f>,
    decoder: Decoder,
    /// Number of `sched_switch`, which tells names.
    switch: Option<u16>,
    pid: Option<&'f Field>,
    merge: &'j Mutex<Merge<'f>>,
    turn: &'j Mutex<Turn<'w>>,
    moved: &'j Condvar,
}

impl<'f> Job<'_, 'f, '_> {
    fn work(&self) {
        let mut batch = NotedBatch::default();
        let (mut text, mut heads) = (Vec::new(), LinePrefixCache::new());
        loop {
            let Some((number, comms)) = self.take(&mut batch) else { return };
            text.clear();
            let printed = self.format(&batch, &comms, &mut heads, &mut text);
            // JSON has escaped what it holds.
            if !self.write(number, &clean_bytes(&text)) {
                return;
            }
            self.merge.lock().unwrap_or_else(PoisonError::into_inner).printed += printed;
        }
    }

    /// Fills a batch with the next events; its place in the order.
    fn take(&self, batch: &mut NotedBatch<'f>) -> Option<(u64, Arc<Comms>)> {
        let mut m = self.merge.lock().unwrap_or_else(PoisonError::into_inner);
        if m.done {
            return None;
        }
        let number = m.next;
        let size = if number == 0 { FIRST_BATCH } else { BATCH };
        let Merge { events, comms, leaves, .. } = &mut *m;
        batch.clear_notes();
        let filled = match self.printer.graph() {
            None => events.fill(&mut batch.events, size),
            Some(graph) => {
                let printed = |e: &Event<'_>| self.options.filter.passes(e, comms);
                leaves.fill(graph, printed, events, batch, size)
            }
        };
        if filled == 0 {
            m.done = true;
            return None;
        }
        m.next += 1;
        m.read += batch.events.len() as u64;
        let Merge { comms, callers, .. } = &mut *m;
        self.learn(&batch.events, comms);
        if let Some(callers) = callers {
            callers.note(batch);
        }
        Some((number, m.comms.clone()))
    }

    /// Names that only the events themselves tell.
    fn learn(&self, batch: &Batch<'_>, comms: &mut Arc<Comms>) {
        // This is done under the lock: look at nothing else.
        let Some(switch) = self.switch else { return };
        for event in batch.events().filter(|e| e.id == switch) {
            let (pid, comm) = match self.decoder.decode(&event) {
                Typed::SchedSwitch(s) => {
                    if comms.get(s.next_pid).is_none() {
                        Arc::make_mut(comms).learn(s.next_pid, s.next_comm);
                    }
                    (s.prev_pid, s.prev_comm)
                }
                _ => continue,
            };
            if comms.get(pid).is_none() {
                Arc::make_mut(comms).learn(pid, comm);
            }
        }
    }

    fn format(
        &self,
        batch: &NotedBatch<'_>,
        comms: &Comms,
        heads: &mut LinePrefixCache,
        text: &mut Vec<u8>,
    ) -> u64 {
        let mut printed = 0;
        for (event, note) in batch.iter() {
            if note == Some(Note::FoldedReturn) {
                continue;
            }
            let pid = self.pid.map_or(0, |f| f.i64(event.payload) as i32);
            if self.options.pids.as_ref().is_some_and(|p| !p.contains(&pid))
                || !self.options.filter.passes(&event, comms)
            {
                continue;
            }
            printed += 1;
            self.printer.noted(&event, note, pid, || comms.name(pid), heads, text);
        }
        printed
    }

    /// Writes when it is this batch's turn; false when there is no point in going on.
    fn write(&self, number: u64, text: &[u8]) -> bool {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while turn.next != number {
            turn = self.moved.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        if turn.result.is_ok() {
            turn.result = turn.out.write_all(text);
            if number == 0 && turn.result.is_ok() {
                turn.result = turn.out.flush();
            }
        }
        turn.next += 1;
        self.moved.notify_all();
        if turn.result.is_err() {
            self.merge.lock().unwrap_or_else(PoisonError::into_inner).done = true;
            return false;
        }
        true
    }
}
