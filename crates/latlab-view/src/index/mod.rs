//! The index: one pass over a ring buffer, CPU by CPU, as columns that lanes are drawn from.
//!
//! CPUs are independent but for wake-ups, so threads take one CPU after the
//! other and nothing is merged while reading. The place of an event in the order
//! of all CPUs follows from the counts per bin of time, which all CPUs share.
//!
//! ```text
//! events of a CPU ──fold──▶ Runs, Spans by class and depth, wakes, markers, Bins
//! all CPUs ──▶ Index: names renumbered, wakes in order of time, events before each bin
//! ```
//!
//! A large buffer is handed out while it is read, too: at a few [`cuts`] the folds of all CPUs
//! are copied at the same time of the trace, and what they came to is an index of the beginning.
//! Events are numbered in order of time, so they have the same numbers in all of these.

pub mod bins;
pub mod column;
mod cpu_lanes;
pub mod fold;
pub mod task;

pub use cpu_lanes::CpuLanes;

use crate::selection::{Query, Set};
use crate::tile::Tile;
use column::{Items, Spans};
use fold::{Cpu, Fields, Interner, Kind, Lost, Marker, Name, Wake};
use latlab_trace::decode::EventDecoder;
use latlab_trace::names::{Comms, IntMap};
use latlab_trace::{Diagnostics, Events, Select, TraceFile};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use task::TaskLane;

/// Task lanes that are kept ready.
const TASK_LANES: usize = 256;
/// Selections that are kept.
const SETS: usize = 12;
/// Tiles of densities that are kept: 8 KiB each.
const TILES: usize = 4096;
/// Bytes of a buffer after which the first of its indexes is handed out; each further one holds
/// [`GROWTH`] times as much, so that all copies together cost less than the index itself.
const FIRST: u64 = 16 << 20;
/// Events of a CPU after which progress is told, and whether to stop is asked.
const STEP: u64 = 1 << 12;
/// See [`FIRST`].
const GROWTH: u64 = 8;

/// What is known of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Its name; the last one that was seen.
    pub comm: String,
    /// Time on CPUs, ns.
    pub ran_ns: u64,
    /// How often it got a CPU.
    pub runs: u64,
    /// When it was first seen running or woken.
    pub first: u64,
}

/// A ring buffer's index.
#[derive(Debug, Default)]
pub struct Index {
    /// Time that bins and tiles count from: that of the first event.
    pub origin: u64,
    /// Latest time.
    pub end: u64,
    /// Latest time of the buffer: about, and later than `end`, while it is read.
    pub whole: u64,
    /// Events in all.
    pub events: u64,
    /// Its CPUs, in order.
    pub cpus: Vec<CpuLanes>,
    /// By pid.
    pub tasks: BTreeMap<i32, Task>,
    /// Names of interrupts, softirqs, functions.
    pub names: Vec<String>,
    /// All wake-ups, in order of time.
    pub wakes: Vec<Wake>,
    /// Timer interrupts and timer functions of all CPUs; `aux` is CPU · 16 + kind.
    pub timers: Vec<column::Item>,
    /// Markers in order of time.
    pub markers: Vec<Marker>,
    /// Losses in order of time.
    pub lost: Vec<Lost>,
    /// Events by kind.
    pub kinds: Vec<u64>,
    /// Switches seen.
    pub switches: u64,
    /// Events that are earlier than one before them on their CPU.
    pub backwards: u64,
    /// Events before each bin; one more than there are bins.
    pub before: Vec<u64>,
    /// A bin is `1 << shift` ns wide.
    pub shift: u32,
    /// Names of tasks, as events and the file tell them.
    pub comms: Comms,
    /// Damage that was met.
    pub damage: Diagnostics,
    lanes: Mutex<IntMap<i32, Arc<TaskLane>>>,
    sets: Mutex<Vec<Kept>>,
    tiles: Mutex<HashMap<TileKey, Arc<Tile>>>,
}

/// A selection that is kept: its number, what was asked for, the events.
type Kept = (u32, Option<Query>, Arc<Set>);

/// A tile's lane, level and number.
pub type TileKey = (String, u32, u64);

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One CPU while it is read.
struct Reading<'f> {
    events: Events<'f>,
    fold: Cpu,
    decoder: EventDecoder<'f>,
    done: bool,
}

impl Reading<'_> {
    /// Reads on until after `cut`; what the fold came to by then.
    fn advance(&mut self, fields: &Fields, origin: u64, cut: u64, progress: &Progress) -> Cpu {
        while let Some(event) = self.events.next() {
            let before = (event.time > cut).then(|| self.fold.clone());
            self.fold.fold(fields, &mut self.decoder, &event, origin);
            if self.fold.events.is_multiple_of(STEP) {
                progress.events.fetch_add(STEP, Ordering::Relaxed);
                if progress.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            if let Some(before) = before {
                return before;
            }
        }
        self.done = true;
        if cut == u64::MAX {
            std::mem::replace(&mut self.fold, Cpu::new(0, 1))
        } else {
            self.fold.clone()
        }
    }
}

/// The times at which an index of what was read so far is worth handing out, and the time at which
/// the buffer ends, about. None where time stamps do not tell the order of what is in the file.
pub fn cuts(file: &TraceFile<'_>, buffer: u16) -> (Vec<u64>, u64) {
    let Some(b) = file.buffers.get(usize::from(buffer)) else { return (Vec::new(), 0) };
    let size: u64 = b.cpus.iter().map(|c| c.size).sum();
    let mut cuts = Vec::new();
    let mut at = FIRST;
    while at < size / 2 {
        // Parts of 4096: at least one of them.
        cuts.extend(file.time_about(buffer, (at * 4096 / size).max(1) as usize, 4096));
        at *= GROWTH;
    }
    if !cuts.is_sorted() {
        cuts.clear();
    }
    let end = if cuts.is_empty() { None } else { file.time_about(buffer, 4095, 4096) };
    (cuts, end.unwrap_or(0))
}

/// How far the reading is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Events read.
    pub events: AtomicU64,
    /// Nobody waits for the index: reading ends soon.
    pub stop: AtomicBool,
}

impl Index {
    /// Reads one of the file's buffers with `threads` threads. At each of `cuts`, times in order, an
    /// index of all that is earlier is handed to `early`.
    pub fn build(
        file: &TraceFile<'_>,
        buffer: u16,
        threads: usize,
        progress: &Progress,
        cuts: &[u64],
        early: &mut dyn FnMut(Self),
    ) -> Self {
        let cpus: Vec<u32> = file
            .buffers
            .get(usize::from(buffer))
            .map(|b| b.cpus.iter().map(|c| c.cpu).collect())
            .unwrap_or_default();
        let select = |cpu: u32| Select {
            cpus: Some(vec![cpu]),
            buffers: Some(vec![buffer]),
            ..Select::default()
        };
        let first = |cpu: &u32| file.select(&select(*cpu)).next().map(|e| e.time);
        let origin = cpus.iter().filter_map(first).min().unwrap_or(0);
        let fields = Fields::of(file);
        let reading: Vec<Mutex<Reading<'_>>> = cpus
            .iter()
            .map(|&cpu| Reading {
                events: file.select(&select(cpu)),
                fold: Cpu::new(cpu, cpus.len()),
                decoder: EventDecoder::new(file, Fields::groups()),
                done: false,
            })
            .map(Mutex::new)
            .collect();
        let to = |cut: u64| {
            let next = AtomicUsize::new(0);
            let found: Mutex<Vec<(Cpu, Diagnostics)>> = Mutex::new(Vec::new());
            let work = || {
                while let Some(one) = reading.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if progress.stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut one = lock(one);
                    let mut fold = one.advance(&fields, origin, cut, progress);
                    fold.finish(one.decoder.names());
                    let damage = one.events.diagnostics();
                    drop(one);
                    lock(&found).push((fold, damage));
                }
            };
            std::thread::scope(|scope| {
                for _ in 1..threads.clamp(1, reading.len().max(1)) {
                    scope.spawn(work);
                }
                work();
            });
            let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
            found.sort_by_key(|(c, _)| c.cpu);
            Self::gather(file, origin, found)
        };
        for cut in cuts {
            let part = to(*cut);
            if part.events > 0 {
                early(part);
            }
        }
        let mut all = to(u64::MAX);
        all.whole = all.end;
        all
    }

    /// Takes over the selections of an index of the beginning: their events have the same numbers
    /// here. They are not found again by what was asked for, for here more may pass.
    pub fn inherit(&self, from: &Self) {
        let old = lock(&from.sets);
        *lock(&self.sets) = old.iter().map(|(id, _, set)| (*id, None, set.clone())).collect();
    }

    /// A selection by its number.
    pub fn set(&self, id: u32) -> Option<Arc<Set>> {
        lock(&self.sets).iter().find(|s| s.0 == id).map(|s| s.2.clone())
    }

    /// A selection by what was asked for, and its number.
    pub fn selected(&self, query: &Query) -> Option<(u32, Arc<Set>)> {
        let sets = lock(&self.sets);
        sets.iter().find(|s| s.1.as_ref() == Some(query)).map(|s| (s.0, s.2.clone()))
    }

    /// Keeps a selection.
    pub fn keep_set(&self, id: u32, query: &Query, set: Arc<Set>) {
        let mut sets = lock(&self.sets);
        if sets.len() >= SETS {
            sets.remove(0);
        }
        sets.push((id, Some(query.clone()), set));
    }

    /// A tile that was kept.
    pub fn kept_tile(&self, key: &TileKey) -> Option<Arc<Tile>> {
        lock(&self.tiles).get(key).cloned()
    }

    /// Keeps a tile.
    pub fn keep_tile(&self, key: TileKey, tile: Arc<Tile>) {
        let mut tiles = lock(&self.tiles);
        if tiles.len() >= TILES {
            tiles.clear();
        }
        tiles.insert(key, tile);
    }

    fn gather(file: &TraceFile<'_>, origin: u64, done: Vec<(Cpu, Diagnostics)>) -> Self {
        let mut index = Self { origin, ..Self::default() };
        let mut names = Interner::default();
        let mut comms: IntMap<i32, Name> = IntMap::default();
        let mut freq: Vec<(u64, u32, u32)> = Vec::new();
        let shift = done.iter().map(|(c, _)| c.bins.shift).max().unwrap_or(8);
        for (mut c, damage) in done {
            index.damage.extend(&damage);
            c.bins.coarsen_to(shift);
            let renumber: Vec<u32> = c.texts.names.iter().map(|n| names.put(n)).collect();
            for spans in c.nested.iter_mut().flatten() {
                spans.id.iter_mut().for_each(|id| *id = renumber[*id as usize]);
            }
            for (pid, name) in c.names {
                let known = comms.entry(pid).or_default();
                if known.comm.is_empty() || known.time <= name.time {
                    *known = name;
                }
            }
            index.end = index.end.max(c.last);
            index.events += c.events;
            index.switches += c.switches;
            index.backwards += c.backwards;
            index.wakes.append(&mut c.wakes);
            index.markers.append(&mut c.markers);
            index.lost.append(&mut c.lost);
            freq.append(&mut c.freq);
            if index.kinds.len() < c.kinds.len() {
                index.kinds.resize(c.kinds.len(), 0);
            }
            index.kinds.iter_mut().zip(&c.kinds).for_each(|(all, one)| *all += one);
            index.cpus.push(CpuLanes {
                cpu: c.cpu,
                events: c.events,
                runs: c.runs,
                nested: c.nested,
                bins: c.bins,
                freq: Spans::default(),
            });
        }
        index.names = names.names;
        index.shift = shift;
        index.end = index.end.max(origin);
        // A CPU that fell silent still runs what it ran.
        let end = index.end;
        for c in index.cpus.iter_mut().filter(|c| !c.runs.is_empty()) {
            c.runs.end = end;
        }
        index.wakes.sort_by_key(|w| w.time);
        index.markers.sort_by_key(|m| m.time);
        index.lost.sort_by_key(|l| l.from);
        index.frequencies(freq);
        index.find_timers();
        index.count_before();
        index.name_tasks(file, comms);
        index
    }

    fn frequencies(&mut self, mut freq: Vec<(u64, u32, u32)>) {
        freq.sort_by_key(|f| (f.1, f.0));
        for (i, (time, cpu, khz)) in freq.iter().enumerate() {
            let end = freq.get(i + 1).filter(|n| n.1 == *cpu).map_or(self.end, |n| n.0);
            if let Some(lanes) = self.cpus.iter_mut().find(|c| c.cpu == *cpu) {
                lanes.freq.push(column::Item { start: *time, end, id: *khz, aux: 0 });
            }
        }
    }

    fn find_timers(&mut self) {
        let timer = |name: u32| self.names.get(name as usize).is_some_and(|n| is_timer(n));
        let is: Vec<bool> = (0..self.names.len() as u32).map(timer).collect();
        for c in &self.cpus {
            for spans in c.nested[0].iter().chain(&c.nested[1]) {
                for i in 0..spans.len() {
                    let kind = spans.aux[i];
                    let function = kind == Kind::Hrtimer as u32 || kind == Kind::Timer as u32;
                    if function || kind != Kind::Softirq as u32 && is[spans.id[i] as usize] {
                        let aux = c.cpu << 4 | kind;
                        self.timers.push(column::Item { aux, ..spans.get(i) });
                    }
                }
            }
        }
        self.timers.sort_by_key(|i| i.start);
    }

    fn count_before(&mut self) {
        let bins = self.cpus.iter().map(|c| c.bins.counts.len()).max().unwrap_or(0);
        self.before = vec![0; bins + 1];
        let mut sum = 0;
        for b in 0..bins {
            let of = |c: &CpuLanes| c.bins.counts.get(b).map_or(0, |n| u64::from(*n));
            sum += self.cpus.iter().map(of).sum::<u64>();
            self.before[b + 1] = sum;
        }
    }

    fn name_tasks(&mut self, file: &TraceFile<'_>, comms: IntMap<i32, Name>) {
        let mut all = Comms::default();
        for (pid, name) in &comms {
            all.learn(*pid, &name.comm);
        }
        for (pid, comm) in file.comms.iter() {
            all.learn(pid, comm);
        }
        let mut tasks: IntMap<i32, Task> = IntMap::default();
        for c in &self.cpus {
            for i in 0..c.runs.len() {
                let item = c.runs.get(i);
                let new = || Task { first: item.start, ..Task::default() };
                let task = tasks.entry(item.id as i32).or_insert_with(new);
                task.ran_ns = task.ran_ns.saturating_add(item.end - item.start);
                task.runs += 1;
                task.first = task.first.min(item.start);
            }
        }
        for w in &self.wakes {
            let new = || Task { first: w.time, ..Task::default() };
            let task = tasks.entry(w.pid).or_insert_with(new);
            task.first = task.first.min(w.time);
        }
        self.tasks = tasks.into_iter().collect();
        self.tasks.remove(&-1);
        for (pid, task) in &mut self.tasks {
            task.comm = String::from_utf8_lossy(all.name(*pid)).into_owned();
        }
        self.comms = all;
    }

    /// The lane of a task, made when first asked for.
    pub fn task_lane(&self, pid: i32) -> Arc<TaskLane> {
        let mut lanes = lock(&self.lanes);
        if let Some(lane) = lanes.get(&pid) {
            return lane.clone();
        }
        let lane = Arc::new(TaskLane::of(&self.cpus, &self.wakes, self.end, pid));
        if lanes.len() >= TASK_LANES {
            lanes.clear();
        }
        lanes.insert(pid, lane.clone());
        lane
    }

    /// The bin that event number `row` lies in: its first event's number, and its time.
    pub fn bin_of_row(&self, row: u64) -> (u64, u64) {
        let bin = self.before.partition_point(|n| *n <= row).saturating_sub(1);
        let time = self.origin.saturating_add((bin as u64) << self.shift);
        (self.before.get(bin).copied().unwrap_or(0), time)
    }

    /// The bin that a time lies in: number of its first event, its time, and the events in it.
    pub fn bin_of_time(&self, time: u64) -> (u64, u64, u64) {
        let last = self.before.len().saturating_sub(2);
        let bin = ((time.saturating_sub(self.origin)) >> self.shift).min(last as u64) as usize;
        let first = self.before.get(bin).copied().unwrap_or(0);
        let next = self.before.get(bin + 1).copied().unwrap_or(first);
        (first, self.origin.saturating_add((bin as u64) << self.shift), next - first)
    }
}

/// Whether an interrupt of this name is that of a timer.
fn is_timer(name: &str) -> bool {
    name.contains("timer") || name.contains("tick")
}
