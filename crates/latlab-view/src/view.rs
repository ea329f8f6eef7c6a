//! What is looked at: sources (ring buffers of files), their indexes, and answers to the page.

use crate::index::column::Item;
use crate::index::fold::Kind;
use crate::index::{CpuLanes, Index, Progress, cuts};
use crate::late::{self, Late, Measured};
use crate::rows::Rows;
use crate::select::{Query, SelectError, Set, select};
use crate::tile::{BINS, Bin, EXACT, LEVELS, List, Taken, Tile, extent, tile};
use latlab_model::latency::{SystemContext, UserStacks};
use latlab_trace::{Select, TraceFile};
use serde::Serialize;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// A file to look at.
#[derive(Debug)]
pub struct Input<'f> {
    /// Its name, for people.
    pub name: String,
    /// The trace.
    pub file: &'f TraceFile<'f>,
    /// Added to its times, ns.
    pub offset: i64,
    /// User stacks that were recorded with it.
    pub stacks: UserStacks,
}

/// One ring buffer of one file.
pub struct Source<'f> {
    /// Name of the file, and of the instance.
    pub name: String,
    /// The trace.
    pub file: &'f TraceFile<'f>,
    /// Which of its buffers.
    pub buffer: u16,
    /// Added to its times, ns.
    pub offset: i64,
    /// User stacks that were recorded with the file.
    pub stacks: Arc<UserStacks>,
    /// How far reading is.
    pub progress: Progress,
    index: RwLock<Option<Arc<Index>>>,
    rows: Rows<'f>,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Everything that is looked at.
#[derive(Debug)]
pub struct View<'f> {
    /// The sources.
    pub sources: Vec<Source<'f>>,
    /// What is known beside the traces; its limit is the one that makes a wake-up late.
    pub around: SystemContext,
    /// The task whose activations a run explains; `None`: wake-ups that the sources show.
    pub measured: Option<Measured>,
    /// One source at a time is shown: captures of one run.
    pub one_by_one: bool,
    /// Title of the page.
    pub title: String,
    late: OnceLock<Late>,
    ready: AtomicBool,
    /// Indexes that were handed out.
    handed: AtomicU32,
    next_set: AtomicU32,
}

/// Markers, and places of lost events, that a page is told of at most.
const MARKS: usize = 10_000;

/// Threads that read.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8)
}

impl<'f> View<'f> {
    /// Nothing is read yet: call [`View::read`].
    pub fn new(
        title: &str,
        inputs: Vec<Input<'f>>,
        around: SystemContext,
        one_by_one: bool,
    ) -> Self {
        let mut sources = Vec::new();
        for input in inputs {
            let stacks = Arc::new(input.stacks);
            for (n, buffer) in input.file.buffers.iter().enumerate() {
                let name = match buffer.name.as_str() {
                    "" => input.name.clone(),
                    instance => format!("{} [{instance}]", input.name),
                };
                sources.push(Source {
                    name,
                    file: input.file,
                    buffer: n as u16,
                    offset: input.offset,
                    stacks: stacks.clone(),
                    progress: Progress::default(),
                    index: RwLock::default(),
                    rows: Rows::new(input.file, n as u16),
                });
            }
        }
        Self {
            sources,
            around,
            measured: None,
            one_by_one,
            title: title.to_owned(),
            late: OnceLock::new(),
            ready: AtomicBool::new(false),
            handed: AtomicU32::new(0),
            next_set: AtomicU32::new(1),
        }
    }

    /// Reads all sources. Takes a while; answers are given meanwhile, of what is read so far.
    pub fn read(&self) {
        self.read_cut(cuts);
    }

    /// The same; `cuts` tells at which times an index of what is earlier is to be had, and the end.
    pub fn read_cut(&self, cuts: impl Fn(&TraceFile<'_>, u16) -> (Vec<u64>, u64)) {
        for source in &self.sources {
            let (cuts, end) = cuts(source.file, source.buffer);
            let mut early = |mut part: Index| {
                part.whole = end.max(part.end);
                self.hand_out(source, part);
            };
            let (file, progress) = (source.file, &source.progress);
            let all = Index::build(file, source.buffer, threads(), progress, &cuts, &mut early);
            if progress.stop.load(Ordering::Relaxed) {
                return;
            }
            self.hand_out(source, all);
        }
        self.ready.store(true, Ordering::Release);
    }

    /// Ends [`Self::read`] soon, with what is read so far.
    pub fn stop(&self) {
        for source in &self.sources {
            source.progress.stop.store(true, Ordering::Relaxed);
        }
    }

    fn hand_out(&self, source: &Source<'f>, index: Index) {
        let mut place = source.index.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = &*place {
            index.inherit(old);
        }
        *place = Some(Arc::new(index));
        drop(place);
        self.handed.fetch_add(1, Ordering::Release);
    }

    /// Whether everything is read.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Wake-ups that the sources show from end to end.
    pub fn late(&self) -> &Late {
        self.late.get_or_init(|| {
            let all: Vec<_> = self.sources.iter().filter_map(|s| Some((s, s.index()?))).collect();
            let all: Vec<_> = all.iter().map(|(s, index)| (s.file, &*s.stacks, &**index)).collect();
            late::explained(&all, &self.around, self.measured.as_ref())
        })
    }

    /// How far it is.
    pub fn status(&self) -> Value {
        let events = |s: &Source<'_>| s.progress.events.load(Ordering::Relaxed);
        json!({
            "ready": self.is_ready(),
            "handed": self.handed.load(Ordering::Acquire),
            "events": self.sources.iter().map(events).sum::<u64>(),
        })
    }

    /// What there is: lanes, tasks, kinds of events, what is damaged.
    pub fn info(&self) -> Value {
        // First how many and whether all, then what: never more is promised than is told.
        let (ready, handed) = (self.is_ready(), self.handed.load(Ordering::Acquire));
        let sources: Vec<Value> = self.sources.iter().map(Source::info).collect();
        json!({
            "title": self.title,
            "version": env!("CARGO_PKG_VERSION"),
            "ready": ready,
            "handed": handed,
            "oneByOne": self.one_by_one,
            "limit": self.around.limit_ns,
            "spans": Kind::names(),
            "sources": sources,
        })
    }

    /// A source that is read, at least in part.
    pub fn source(&self, n: usize) -> Option<(&Source<'f>, Arc<Index>)> {
        let source = self.sources.get(n)?;
        Some((source, source.index()?))
    }

    /// The tile of a lane, named as in `0.cpu1.run` (see [`Source::tile`]), and its source's origin.
    pub fn tile(&self, lane: &str, level: u32, number: u64) -> (Arc<Tile>, u64) {
        let nothing = || Arc::new(Tile::Items(Vec::new()));
        let Some((n, lane)) = lane.split_once('.') else { return (nothing(), 0) };
        let Some((source, index)) = n.parse().ok().and_then(|n| self.source(n)) else {
            return (nothing(), 0);
        };
        let tile = source.tile(&index, lane, level, number).unwrap_or_else(nothing);
        (tile, index.origin)
    }

    /// Several tiles, in the order in which they are asked for; made by as many threads as help.
    pub fn tiles(&self, asked: &[(&str, u32, u64)]) -> Vec<(Arc<Tile>, u64)> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut made = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some((lane, level, number)) = asked.get(n) else { return made };
                made.push((n, self.tile(lane, *level, *number)));
            }
        };
        let mut made = std::thread::scope(|scope| {
            // A thread costs about as much as a few tiles that are there already.
            let helpers = if asked.len() < 16 { 0 } else { threads() - 1 };
            let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
            let mut made = work();
            helpers.into_iter().for_each(|h| match h.join() {
                Ok(more) => made.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            });
            made
        });
        made.sort_unstable_by_key(|m| m.0);
        made.into_iter().map(|m| m.1).collect()
    }

    /// Selects events; the selection's number and how many pass.
    ///
    /// # Errors
    /// [`SelectError`]: what of the query cannot be understood, or that nothing is read yet.
    pub fn select(&self, source: usize, query: &Query) -> Result<(u32, Arc<Set>), SelectError> {
        let Some((source, index)) = self.source(source) else {
            return Err(SelectError::NotRead);
        };
        if let Some(known) = index.selected(query) {
            return Ok(known);
        }
        let set = Arc::new(select(source.file, source.buffer, &index, query, threads())?);
        let id = self.next_set.fetch_add(1, Ordering::Relaxed);
        index.keep_set(id, query, set.clone());
        Ok((id, set))
    }
}

impl<'f> Source<'f> {
    /// The rows of its list.
    pub fn rows(&self) -> &Rows<'f> {
        &self.rows
    }

    /// Its index: of what is read so far.
    pub fn index(&self) -> Option<Arc<Index>> {
        self.index.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn info(&self) -> Value {
        let Some(index) = self.index() else {
            return json!({ "name": self.name, "read": false });
        };
        let cpu = |c: &CpuLanes| {
            json!({
                "cpu": c.cpu,
                "events": c.events,
                "irq": c.nested[0].len(),
                "soft": c.nested[1].len(),
                "functions": c.nested[2].len(),
                "freq": !c.freq.start.is_empty(),
            })
        };
        let rel = |t: u64| t as i64 - index.origin as i64;
        let tasks: Vec<Value> = index
            .tasks
            .iter()
            .map(|(pid, t)| json!([pid, t.comm, t.ran_ns, t.runs, rel(t.first)]))
            .collect();
        let kinds: Vec<Value> = index
            .kinds
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(id, n)| {
                let format = self.file.formats.get(id as u16);
                let name = format.map_or_else(|| format!("unknown {id}"), |f| f.name.to_string());
                json!([id, name, format.map_or("", |f| &f.system), n])
            })
            .collect();
        json!({
            "name": self.name,
            "read": true,
            "clock": self.file.clock(),
            "ns": !matches!(self.file.clock(), "counter" | "uptime" | "x86-tsc" | "ppc-tb"),
            "origin": index.origin.to_string(),
            "length": index.end - index.origin,
            "whole": index.whole.max(index.end) - index.origin,
            "offset": self.offset,
            "events": index.events,
            "cpus": index.cpus.iter().map(cpu).collect::<Vec<_>>(),
            "tasks": tasks,
            "kinds": kinds,
            "names": index.names,
            "timers": index.timers.len(),
            "markers": index.markers.iter().take(MARKS).map(|m| json!([rel(m.time), m.cpu, m.pid, m.text])).collect::<Vec<_>>(),
            "lost": index.lost.iter().take(MARKS).map(|l| json!([rel(l.from), rel(l.to), l.cpu, l.count])).collect::<Vec<_>>(),
            "wakes": index.wakes.len(),
            "notes": self.notes(&index),
        })
    }

    /// What a reader has to know of this trace, in sentences.
    fn notes(&self, index: &Index) -> Vec<String> {
        let mut notes = Vec::new();
        if index.events == 0 {
            notes.push("There is no event in it.".to_owned());
        } else if index.switches == 0 {
            notes.push(
                "There are no sched_switch events: a CPU's lane shows whose events were seen, and when it was idle is not known."
                    .to_owned(),
            );
        } else if index.wakes.is_empty() {
            notes.push("No wake-up events: waiting and sleeping are not distinguished.".to_owned());
        }
        if index.backwards > 0 {
            let n = index.backwards;
            notes.push(format!(
                "Time goes backwards {n} times: lanes show such events at the latest time before, the list as they were recorded."
            ));
        }
        if !index.lost.is_empty() {
            let n = index.lost.len();
            let events: u64 = index.lost.iter().map(|l| l.count).sum();
            notes.push(format!(
                "The recorder lost events at {n} places ({events} counted); they are hatched."
            ));
        }
        for (what, n) in [("markers", index.markers.len()), ("losses", index.lost.len())] {
            if n > MARKS {
                notes.push(format!(
                    "Of {n} {what} the first {MARKS} are drawn in their lane; the list has all."
                ));
            }
        }
        for list in [&self.file.diagnostics, &index.damage] {
            notes.extend(list.list().iter().take(20).map(|d| format!("Damaged: {d}.")));
            let more = list.list().len().saturating_sub(20) as u64 + list.suppressed();
            if more > 0 {
                notes.push(format!("{more} more damaged parts."));
            }
        }
        notes
    }

    /// A lane's tile.
    ///
    /// | lane | `id` | `aux` |
    /// |---|---|---|
    /// | `cpuN.run` | pid | how it left |
    /// | `cpuN.irqD`, `cpuN.softD`, `cpuN.fnD` (D: depth) | name | kind |
    /// | `cpuN.freq` | kHz | |
    /// | `cpuN.ev` | kind of event | pid |
    /// | `taskP` | state | CPU |
    /// | `timers` | name | CPU · 16 + kind |
    /// | `setS` | 0 | |
    pub fn tile(&self, index: &Index, lane: &str, level: u32, number: u64) -> Option<Arc<Tile>> {
        let key = (lane.to_owned(), level, number);
        if let Some(known) = index.kept_tile(&key) {
            return Some(known);
        }
        let made = Arc::new(self.make_tile(index, lane, level, number)?);
        if matches!(*made, Tile::Bins(_)) {
            index.keep_tile(key, made.clone());
        }
        Some(made)
    }

    fn make_tile(&self, index: &Index, lane: &str, level: u32, number: u64) -> Option<Tile> {
        let origin = index.origin;
        if let Some(pid) = lane.strip_prefix("task") {
            let lane = index.task_lane(pid.parse().ok()?);
            return Some(tile(&lane.spans, Taken::Awake, origin, level, number));
        }
        if lane == "timers" {
            return Some(tile(&List(&index.timers), Taken::All, origin, level, number));
        }
        if let Some(set) = lane.strip_prefix("set") {
            let set = index.set(set.parse().ok()?)?;
            return Some(counted(&set.bins.counts, set.bins.shift, level, number));
        }
        let (cpu, lane) = lane.strip_prefix("cpu")?.split_once('.')?;
        let cpu: u32 = cpu.parse().ok()?;
        let lanes = index.cpus.iter().find(|c| c.cpu == cpu)?;
        let nested = |class: usize, depth: &str| {
            let spans = lanes.nested[class].get(depth.parse::<usize>().ok()?)?;
            Some(tile(spans, Taken::All, origin, level, number))
        };
        match lane {
            "run" => Some(tile(&lanes.runs, Taken::Busy, origin, level, number)),
            "freq" => Some(tile(&lanes.freq, Taken::All, origin, level, number)),
            "ev" => Some(self.event_tile(index, lanes, level, number)),
            _ if lane.starts_with("irq") => nested(0, &lane[3..]),
            _ if lane.starts_with("soft") => nested(1, &lane[4..]),
            _ if lane.starts_with("fn") => nested(2, &lane[2..]),
            _ => None,
        }
    }

    /// Events of a CPU: counted, or read from the file where a bin of the counts is too wide.
    fn event_tile(&self, index: &Index, lanes: &CpuLanes, level: u32, number: u64) -> Tile {
        let shift = level.min(LEVELS) * 2;
        let Some((from, to)) = extent(level, number) else { return Tile::Items(Vec::new()) };
        if shift >= lanes.bins.shift && lanes.bins.sum(from, to) > EXACT as u64 {
            return counted(&lanes.bins.counts, lanes.bins.shift, level, number);
        }
        let select = Select {
            cpus: Some(vec![lanes.cpu]),
            buffers: Some(vec![self.buffer]),
            from: Some(index.origin.saturating_add(from)),
            to: Some(index.origin.saturating_add(to - 1)),
        };
        let mut items = Vec::new();
        let mut bins = vec![Bin::default(); BINS];
        let pid = self.file.common_pid();
        self.file.scan(&select, 1, |e| {
            let at = (e.time.saturating_sub(index.origin).saturating_sub(from) >> shift) as usize;
            if let Some(bin) = bins.get_mut(at) {
                *bin = Bin { id: e.id.into(), aux: 0, count: bin.count + 1, fill: 1.0 };
            }
            if items.len() <= EXACT {
                let aux = pid.map_or(0, |f| f.u64(e.payload) as u32);
                items.push(Item { start: e.time, end: e.time, id: e.id.into(), aux });
            }
            ControlFlow::Continue(())
        });
        if items.len() > EXACT { Tile::Bins(bins) } else { Tile::Items(items) }
    }
}

/// A tile of counts of bins that are `1 << width` ns wide.
fn counted(counts: &[u32], width: u32, level: u32, number: u64) -> Tile {
    let shift = level.min(LEVELS) * 2;
    let mut bins = vec![Bin::default(); BINS];
    if let Some((from, to)) = extent(level, number) {
        let first = (from >> width).min(counts.len() as u64);
        let last = (to.saturating_add((1 << width) - 1) >> width).min(counts.len() as u64);
        for at in first..last {
            let count = counts[at as usize];
            if count == 0 {
                continue;
            }
            // A bin of the counts may be wider than one of the tile: it fills several.
            let (start, end) = (at << width, (at + 1) << width);
            let a = (start.max(from) - from) >> shift;
            let b = (end.min(to) - from).saturating_sub(1) >> shift;
            for bin in a..=b.min(BINS as u64 - 1) {
                let bin = &mut bins[bin as usize];
                bin.count = bin.count.saturating_add(count);
                bin.fill = 1.0;
            }
        }
    }
    Tile::Bins(bins)
}

/// An answer that is one sentence.
#[derive(Debug, Serialize)]
pub struct Problem {
    /// The sentence.
    pub error: String,
}
