//! The pass over the events.

use super::stat::{Stat, is_idle, is_schedule};
use super::steps::Steps;
use crate::timeline::cpu::PerCpu;
use latlab_model::event::{Event, EventKind, Names, StackId, Symbol};
use latlab_model::units::{CpuId, Tid};
use latlab_trace::names::IntMap;

/// Calls that are kept with their context, at most twice as many while events are read.
const KEPT: usize = 256;
/// Calls of a task that wait for their end beside the stack.
const ENDING: usize = 16;
/// Deeper calls than any kernel's stack allows are not followed.
const DEPTH_MAX: usize = 512;
/// Places for open calls of all tasks at most: 200 MB. An event of a damaged trace may claim any depth.
const PLACES: usize = 1 << 22;

/// A call that is open, or a place of one whose beginning was not recorded.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    function: Symbol,
    /// Its beginning was recorded.
    known: bool,
    /// What its task had been off the CPU when it began.
    off_ns: u64,
    /// Times of the calls in it.
    callees_ns: u64,
    longest: (Symbol, u64),
}

/// A task with its open calls.
#[derive(Clone, Debug, Default)]
struct Task {
    frames: Vec<Frame>,
    /// Calls with their depths in whose places others began: the kernel takes a call off its stack before
    /// it records the end, and an interrupt in between begins at the same depth.
    ending: Vec<(usize, Frame)>,
    /// Time off the CPU so far.
    off_ns: u64,
    /// Off since.
    since_ns: Option<u64>,
    name: Symbol,
}

impl Task {
    /// Has room for so many open calls, if `places` for all tasks allow it.
    #[inline]
    fn has_room(&mut self, calls: usize, places: &mut usize) -> bool {
        let before = self.frames.capacity();
        if calls <= before {
            return true;
        }
        let calls = calls.next_multiple_of(16);
        if *places + (calls - before) > PLACES {
            return false;
        }
        self.frames.reserve_exact(calls - self.frames.len());
        *places += self.frames.capacity() - before;
        true
    }

    /// Forgets calls deeper than `depth`; the number of those whose end is missing.
    fn lost_below(&mut self, depth: usize) -> u64 {
        let mut lost = self.frames.iter().skip(depth + 1).filter(|f| f.known).count();
        if !self.ending.is_empty() {
            let before = self.ending.len();
            self.ending.retain(|(at, _)| *at <= depth);
            lost += before - self.ending.len();
            if self.ending.len() > ENDING {
                self.ending.remove(0);
                lost += 1;
            }
        }
        lost as u64
    }
}

/// A long call.
#[derive(Clone, Debug)]
pub struct Kept {
    pub function: Symbol,
    pub start_ns: u64,
    pub end_ns: u64,
    pub busy_ns: u64,
    pub self_ns: u64,
    pub off_ns: u64,
    pub cpu: u32,
    pub tid: i32,
    /// Idle tasks have one number on all CPUs.
    pub key: u64,
    pub task: Symbol,
    pub longest: (Symbol, u64),
    pub callers: Vec<Symbol>,
}

/// Counts functions.
#[derive(Clone, Debug, Default)]
pub struct Analyzer {
    tasks: IntMap<u64, Task>,
    /// `sched_switch` tells when tasks are off the CPU.
    told: bool,
    /// The task of each CPU.
    current: PerCpu<Option<u64>>,
    pub(super) stats: Vec<Stat>,
    pub(super) kept: Vec<Kept>,
    /// Length over which a call is kept.
    bar_ns: u64,
    pub(super) timed: u64,
    pub(super) span: Option<(u64, u64)>,
    pub(super) partial: u64,
    pub(super) calls: u64,
    pub(super) stacks: u64,
    /// Functions of a stack that were counted.
    seen: Vec<Symbol>,
    /// Places for open calls so far.
    places: usize,
    /// Of the trace of a longest latency.
    pub(super) steps: Option<Steps>,
}

/// Whether a function records the event whose stack it is in: innermost of all, and of no interest.
fn is_recording(name: &str) -> bool {
    ["trace_event_", "perf_trace_", "__traceiter_", "__ftrace_trace_stack"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn key(tid: Tid, cpu: u32) -> u64 {
    if tid.0 > 0 { tid.0 as u64 } else { 1 << 40 | u64::from(cpu) }
}

fn stat(stats: &mut Vec<Stat>, function: Symbol) -> &mut Stat {
    let at = function.0 as usize;
    if at >= stats.len() {
        stats.resize_with(at + 1, Stat::default);
    }
    &mut stats[at]
}

impl Analyzer {
    /// Takes the next event in order of time.
    #[inline]
    pub fn push(&mut self, event: &Event, names: &Names) {
        let (time, cpu) = (event.time.0, event.cpu.0);
        match &mut self.span {
            Some((_, last)) => *last = time.max(*last),
            None => self.span = Some((time, time)),
        }
        if let Some(steps) = &mut self.steps {
            steps.push(event);
        }
        if let EventKind::Switch { prev, next, .. } = event.kind {
            self.told = true;
            self.named(key(prev.tid, cpu), prev.name);
            self.named(key(next.tid, cpu), next.name);
            self.switch(key(prev.tid, cpu), cpu, time);
            return self.switch(key(next.tid, cpu), cpu, time);
        }
        let task = key(event.current, cpu);
        self.switch(task, cpu, time);
        match event.kind {
            EventKind::FunctionEntry { function, depth } => {
                self.enter(task, function, depth as usize);
            }
            EventKind::FunctionExit { function, depth, called, length } => {
                let start = if called.0 > 0 { called.0 } else { time.saturating_sub(length.0) };
                self.exit(event, task, (function, names), (depth as usize, start, length.0));
            }
            EventKind::FunctionCall { function, parent } => {
                let stat = stat(&mut self.stats, function);
                stat.calls += 1;
                stat.call_callers.add(parent, 0);
                self.calls += 1;
            }
            EventKind::Stack { stack } => self.stack(stack, names),
            _ => {}
        }
    }

    fn named(&mut self, task: u64, name: Symbol) {
        self.tasks.entry(task).or_default().name = name;
    }

    /// The task has the CPU from now on, if it had not before.
    #[inline]
    fn switch(&mut self, task: u64, cpu: u32, time: u64) {
        let cpu = self.current.place(CpuId(cpu), || None);
        if self.current[cpu] == Some(task) {
            return;
        }
        if let Some(before) = self.current[cpu].replace(task) {
            self.tasks.entry(before).or_default().since_ns = Some(time);
        }
        let task = self.tasks.entry(task).or_default();
        if let Some(since) = task.since_ns.take() {
            task.off_ns = task.off_ns.saturating_add(time.saturating_sub(since));
        }
    }

    #[inline]
    fn enter(&mut self, task: u64, function: Symbol, depth: usize) {
        let task = self.tasks.entry(task).or_default();
        if depth >= DEPTH_MAX {
            return;
        }
        if let Some(frame) = task.frames.get(depth).filter(|f| f.known) {
            task.ending.push((depth, *frame));
        }
        self.partial += task.lost_below(depth);
        let off_ns = task.off_ns;
        let unknown = Frame { off_ns, ..Frame::default() };
        if !task.has_room(depth + 1, &mut self.places) {
            self.partial += 1;
            return;
        }
        task.frames.resize(depth, unknown);
        task.frames.push(Frame { function, known: true, ..unknown });
    }

    fn exit(
        &mut self,
        event: &Event,
        key: u64,
        (function, names): (Symbol, &Names),
        (depth, start_ns, length_ns): (usize, u64, u64),
    ) {
        let task = self.tasks.entry(key).or_default();
        if depth >= DEPTH_MAX {
            return;
        }
        self.partial += task.lost_below(depth);
        let unknown = Frame { off_ns: task.off_ns, ..Frame::default() };
        if !task.has_room(depth + 1, &mut self.places) {
            self.partial += 1;
            return;
        }
        task.frames.resize(depth + 1, unknown);
        let Some(mut frame) = task.frames.pop() else { return };
        let ends = |(at, f): &(usize, Frame)| *at == depth && f.function == function;
        if frame.function != function
            && let Some(at) = task.ending.iter().rposition(ends)
        {
            frame = task.ending.remove(at).1;
        }
        if frame.function != function {
            // Its beginning was lost: what was called in it is not known either.
            self.partial += 1;
            return;
        }
        let stat = stat(&mut self.stats, function);
        let mut off_ns = task.off_ns.saturating_sub(frame.off_ns).min(length_ns);
        if off_ns == 0
            && !self.told
            && *stat.switches.get_or_insert_with(|| is_schedule(names.get(function)))
        {
            // Nothing else of this CPU was recorded meanwhile.
            off_ns = length_ns.saturating_sub(frame.callees_ns);
            task.off_ns = task.off_ns.saturating_add(off_ns);
        }
        let busy_ns = length_ns - off_ns;
        let self_ns = busy_ns.saturating_sub(frame.callees_ns);
        let parent = match task.frames.last_mut() {
            Some(parent) => {
                parent.callees_ns = parent.callees_ns.saturating_add(busy_ns);
                if busy_ns > parent.longest.1 {
                    parent.longest = (function, busy_ns);
                }
                parent.function
            }
            None => Symbol::default(),
        };
        stat.lengths.add(busy_ns);
        stat.self_ns = stat.self_ns.saturating_add(self_ns);
        stat.callers.add(parent, busy_ns);
        if !task.frames.iter().any(|f| f.function == function) {
            stat.total_ns = stat.total_ns.saturating_add(busy_ns);
            stat.off_ns = stat.off_ns.saturating_add(off_ns);
        }
        self.timed += 1;
        if busy_ns > self.bar_ns && !(event.current.0 == 0 && is_idle(names.get(function))) {
            self.kept.push(Kept {
                function,
                start_ns,
                end_ns: start_ns.saturating_add(length_ns),
                busy_ns,
                self_ns,
                off_ns,
                cpu: event.cpu.0,
                tid: event.current.0,
                key,
                task: task.name,
                longest: frame.longest,
                callers: task.frames.iter().map(|f| f.function).collect(),
            });
            if self.kept.len() == 2 * KEPT {
                self.forget_shorter();
            }
        }
    }

    #[cold]
    fn forget_shorter(&mut self) {
        self.kept.sort_by_key(|k| std::cmp::Reverse(k.busy_ns));
        self.kept.truncate(KEPT);
        self.bar_ns = self.kept.last().map_or(0, |k| k.busy_ns);
    }

    fn stack(&mut self, stack: StackId, names: &Names) {
        let functions = names.stack(stack);
        let recording = functions.iter().take_while(|f| is_recording(names.get(**f))).count();
        let functions = &functions[recording..];
        self.seen.clear();
        for (at, &function) in functions.iter().enumerate() {
            if self.seen.contains(&function) {
                continue;
            }
            self.seen.push(function);
            let stat = stat(&mut self.stats, function);
            stat.stacks += 1;
            stat.innermost += u64::from(at == 0);
            stat.stack_callers.add(functions.get(at + 1).copied().unwrap_or_default(), 0);
        }
        self.stacks += u64::from(!functions.is_empty());
    }

    /// Calls that are still open, without those whose beginning is unknown.
    pub(super) fn open(&self) -> u64 {
        let open = |t: &Task| (t.frames.iter().filter(|f| f.known).count() + t.ending.len()) as u64;
        self.tasks.values().map(open).sum()
    }

    /// Whether there was anything to count.
    pub fn is_relevant(&self) -> bool {
        self.timed + self.calls + self.stacks > 0
    }
}
