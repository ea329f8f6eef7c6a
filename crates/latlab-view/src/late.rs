//! Late wake-ups with their verdict and time budget.
//!
//! Where a trace shows wake-ups from end to end (timers, or the marker of the
//! program that saw it late), `latlab_analysis::latency` finds and explains them as
//! `latlab why` does. Of any other task with `sched_waking` and `sched_switch` the
//! same breakdown cuts the time from the wake-up to the switch, and the parts say who
//! had the CPU meanwhile.

use crate::critical_path::{ActorKind, Arrow, Doing, Off, Part, Path, Stacks, named};
use crate::index::Index;
use crate::index::column::Items;
use crate::index::task::State;
use latlab_analysis::latency::activations;
use latlab_analysis::latency::activations::from_capture::{Chosen, Known, threads};
use latlab_analysis::latency::breakdown::trail::Link;
use latlab_analysis::latency::breakdown::with_trail;
use latlab_analysis::latency::capture::{Activation, Capture, End, Lost};
use latlab_analysis::latency::cpu_timeline::{Lanes, Span};
use latlab_analysis::latency::from_trace;
use latlab_analysis::latency::summary::{Digest, Examples, conclude, digest_found};
use latlab_analysis::latency::{user_stacks, wakeups};
use latlab_model::latency::{Mechanism, Release, SystemContext, UserStacks};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
use latlab_report::messages;
use latlab_trace::{Select, TraceFile};
use serde::Serialize;
use std::collections::HashMap;

/// Files with more events than this are not searched from end to end.
pub const EVENTS_MAX: u64 = 2_000_000;
/// Wake-ups of one answer at most: the latest ones.
const MOST: usize = 2_000;

/// The task whose activations are looked at, where a run explains those of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Thread id.
    pub tid: Tid,
    /// What begins its activations.
    pub release: Release,
    /// What is late.
    pub late: activations::Late,
}

/// One wake-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WakeUp {
    /// Which source it is of.
    pub source: usize,
    /// The task.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// Where it ran.
    pub cpu: u32,
    /// Intended time, ns after the source's origin.
    pub from: i64,
    /// When it did run; of an activation: its end.
    pub to: i64,
    /// Whether it is an activation: it has a response time, not a latency.
    pub activation: bool,
    /// Over the limit.
    pub late: bool,
    /// What made it late, in words; empty where nobody knows.
    pub verdict: String,
    /// The parts; they tile the latency.
    pub parts: Vec<Part>,
    /// What ended the waits, in order of time.
    pub arrows: Vec<Arrow>,
    /// When the tasks of the path had no CPU, in order of time.
    pub off: Vec<Off>,
}

/// What is late, and beside it what was on time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Late {
    /// Over this, ns; 0 when markers told.
    pub limit: u64,
    /// Late ones first to last, then on-time ones.
    pub list: Vec<WakeUp>,
    /// The causes, the one that explains most first.
    pub causes: Vec<String>,
    /// Stacks of the parts: functions, innermost first, each stack once.
    pub stacks: Vec<Vec<String>>,
}

fn unexplained() -> String {
    messages::mechanism(Mechanism::Unexplained).to_owned()
}

/// Wake-ups that the sources show from end to end, or the activations of the measured task.
pub fn explained(
    sources: &[(&TraceFile<'_>, &UserStacks, &Index)],
    around: &SystemContext,
    measured: Option<&Measured>,
) -> Late {
    let mut found = Explained::default();
    for (n, (file, stacks, index)) in sources.iter().enumerate() {
        if index.events > EVENTS_MAX {
            continue;
        }
        let mut capture = from_trace::capture(file, &n.to_string());
        user_stacks::attach(&mut capture, stacks);
        match measured {
            Some(measured) => capture.activations = activations_of(&capture, measured),
            None => wakeups::find(&mut capture, Nanos(around.limit_ns)),
        }
        found.add(n, &capture);
    }
    found.conclude(around.clone(), |n| sources[n].2)
}

/// The activations of a task of a buffer of `file`; those that end later than `limit` ns after their intended
/// time are late.
///
/// # Errors
/// When the file has more events than are searched, or no activation is found.
pub fn activations_of_task(
    (file, stacks, buffer): (&TraceFile<'_>, &UserStacks, u16),
    index: &Index,
    source: usize,
    (pid, limit): (i32, u64),
    around: &SystemContext,
) -> Result<Late, String> {
    if index.events > EVENTS_MAX {
        return Err(format!(
            "this trace has {} events, and activations are searched among {EVENTS_MAX}; record a shorter part",
            index.events
        ));
    }
    let select = Select { buffers: Some(vec![buffer]), ..Select::default() };
    let mut capture = from_trace::part(file, &source.to_string(), &select);
    user_stacks::attach(&mut capture, stacks);
    let chosen = Chosen::Tids(vec![Tid(pid)]);
    let late = activations::Late::Response(Nanos(limit));
    let found = threads(&capture, &chosen, &Known::default());
    capture.activations = found.first().map_or_else(Vec::new, |t| t.activations(late));
    if capture.activations.is_empty() {
        return Err("this trace has no activation of this task from its beginning to its end; it takes sched_switch and sched_waking events, and hrtimer_start for intended times".into());
    }
    let mut explained = Explained::default();
    explained.add(source, &capture);
    let around = SystemContext { limit_ns: limit, ..around.clone() };
    Ok(explained.conclude(around, |_| index))
}

fn activations_of(capture: &Capture, measured: &Measured) -> Vec<Activation> {
    let mut known = Known::default();
    known.insert(measured.tid, measured.release.clone());
    let found = threads(capture, &Chosen::Tids(vec![measured.tid]), &known);
    found.first().map_or_else(Vec::new, |t| t.activations(measured.late))
}

/// Captures with their paths, until all are read.
#[derive(Default)]
struct Explained {
    digests: Vec<Digest>,
    /// Source, wake-up and path of each window.
    found: Vec<(usize, Activation, Path)>,
    stacks: Stacks,
}

impl Explained {
    fn add(&mut self, source: usize, capture: &Capture) {
        let mut digest = digest_found(capture, Examples::All);
        let paths = std::mem::take(&mut digest.paths);
        for (activation, found) in digest.activations.iter().zip(paths) {
            let path = Path::of(&found, activation.intended, capture, &mut self.stacks);
            self.found.push((source, *activation, path));
        }
        self.digests.push(digest);
    }

    fn conclude<'i>(self, around: SystemContext, index: impl Fn(usize) -> &'i Index) -> Late {
        let mut late =
            Late { limit: around.limit_ns, stacks: self.stacks.into_list(), ..Late::default() };
        let result = conclude(self.digests, around);
        let mut verdicts: HashMap<usize, String> = HashMap::new();
        for cluster in &result.explanation.causes {
            let mut words = messages::mechanism(cluster.mechanism).to_owned();
            if !cluster.who.is_empty() {
                words = format!("{words}: {}", cluster.who);
            }
            late.causes.push(words.clone());
            for w in &cluster.main_of {
                verdicts.entry(*w).or_insert_with(|| words.clone());
            }
        }
        for (i, (window, found)) in result.windows.iter().zip(self.found).enumerate() {
            let (source, activation, path) = found;
            let index = index(source);
            let pid = activation.tid.0;
            let from = window.intended_ns as i64 - index.origin as i64;
            let verdict = verdicts.get(&i).cloned();
            late.list.push(WakeUp {
                source,
                pid,
                comm: String::from_utf8_lossy(index.comms.name(pid)).into_owned(),
                cpu: window.cpu,
                from,
                to: from.saturating_add_unsigned(window.latency_ns),
                activation: activation.end == End::Completion,
                late: window.late,
                verdict: verdict.or(window.late.then(unexplained)).unwrap_or_default(),
                parts: path.parts,
                arrows: path.arrows,
                off: path.off,
            });
        }
        late.list.sort_by_key(|w| (!w.late, w.source, w.from));
        late
    }
}

/// Wake-ups of a task of a buffer of `file` from `sched_waking` to `sched_switch`; late over `limit` ns.
pub fn of_task(
    (file, buffer): (&TraceFile<'_>, u16),
    index: &Index,
    source: usize,
    pid: i32,
    limit: u64,
) -> Late {
    let lane = index.task_lane(pid);
    let spans = &lane.spans;
    let mut late: Vec<WakeUp> = Vec::new();
    let mut on_time: Vec<WakeUp> = Vec::new();
    let comm = String::from_utf8_lossy(index.comms.name(pid)).into_owned();
    for i in 1..spans.len() {
        let (wait, run) = (spans.get(i - 1), spans.get(i));
        let before = i.checked_sub(2).map_or(State::Sleeping as u32, |b| spans.id[b]);
        // Time on the run queue after a preemption is no wake-up.
        if wait.id != State::Waiting as u32
            || run.id != State::Running as u32
            || before == State::Running as u32
        {
            continue;
        }
        let latency = run.start - wait.start;
        let is_late = limit > 0 && latency > limit;
        let list = if is_late { &mut late } else { &mut on_time };
        if list.len() < if is_late { MOST } else { 10 * MOST } {
            list.push(WakeUp {
                source,
                pid,
                comm: comm.clone(),
                cpu: run.aux,
                from: wait.start as i64 - index.origin as i64,
                to: run.start as i64 - index.origin as i64,
                late: is_late,
                ..WakeUp::default()
            });
        }
    }
    // The typical on-time ones: round the median.
    on_time.sort_by_key(|w| w.to - w.from);
    let middle = on_time.len() / 2;
    let from = middle.saturating_sub(10);
    let mut typical: Vec<WakeUp> = on_time.drain(from..(middle + 10).min(on_time.len())).collect();
    break_down((file, buffer), index, late.iter_mut().chain(&mut typical).collect());
    for w in &mut late {
        let most = w.parts.iter().max_by_key(|p| p.to - p.from);
        w.verdict = most.map_or_else(String::new, |p| match p.who.as_str() {
            "" => p.cause.to_owned(),
            who => format!("{}: {who}", p.cause),
        });
    }
    typical.sort_by_key(|w| w.from);
    late.append(&mut typical);
    Late { limit, list: late, ..Late::default() }
}

/// Events before a wake-up are looked at from the switch-in of the task that had the CPU on, for so
/// long at most, ns: what it was interrupted by then may go on.
const LOOK_BACK_MOST: u64 = 100_000_000;
/// And for so long at least: what was preempted with its task goes on when that is switched in.
const LOOK_BACK_LEAST: u64 = 20_000_000;
/// Wake-ups so close to each other, ns, are read at once.
const NEAR: u64 = 1_000_000;

/// Cuts wake-ups into their parts; reads the events around them.
fn break_down((file, buffer): (&TraceFile<'_>, u16), index: &Index, mut all: Vec<&mut WakeUp>) {
    let start = |w: &WakeUp| index.origin.saturating_add_signed(w.from);
    let end = |w: &WakeUp| index.origin.saturating_add_signed(w.to);
    // From the switch-in of who had the CPU.
    let since = |w: &WakeUp| {
        let cpu = index.cpus.iter().find(|c| c.cpu == w.cpu);
        let run = cpu.and_then(|c| {
            let at = c.runs.first_after(start(w));
            (at < c.runs.len()).then(|| c.runs.start(at))
        });
        let before = |ns: u64| start(w).saturating_sub(ns);
        run.unwrap_or(0).clamp(before(LOOK_BACK_MOST), before(LOOK_BACK_LEAST))
    };
    all.sort_by_key(|w| since(w));
    let mut rest = all.as_mut_slice();
    while let Some(first) = rest.first() {
        let (from, mut to) = (since(first), end(first));
        let mut n = 1;
        while let Some(next) = rest.get(n).filter(|w| since(w) <= to.saturating_add(NEAR)) {
            to = to.max(end(next));
            n += 1;
        }
        let buffers = Some(vec![buffer]);
        let select = Select { buffers, from: Some(from), to: Some(to), ..Select::default() };
        let capture = from_trace::part(file, "", &select);
        let (near, behind) = std::mem::take(&mut rest).split_at_mut(n);
        let activation = |w: &WakeUp| Activation {
            tid: Tid(w.pid),
            cpu: CpuId(w.cpu),
            intended: TraceNs(start(w)),
            actual: TraceNs(end(w)),
            end: End::Switch,
            late: w.late,
            called: false,
            began: None,
        };
        let activations: Vec<Activation> = near.iter().map(|w| activation(w)).collect();
        let lanes = Lanes::around(&capture, &activations);
        for (w, activation) in near.iter_mut().zip(activations) {
            (w.parts, w.arrows) = parts(index, &capture, &lanes, activation);
        }
        rest = behind;
    }
}

/// Who had the CPU in each part of a wake-up.
fn parts(
    index: &Index,
    capture: &Capture,
    lanes: &Lanes,
    wake_up: Activation,
) -> (Vec<Part>, Vec<Arrow>) {
    let (budget, trail) = with_trail(capture, lanes, wake_up);
    let arrow = |l: &Link| Arrow::of(l, wake_up.intended, capture);
    let arrows = trail.links.iter().map(arrow).collect();
    let mut parts: Vec<Part> = Vec::new();
    let task = |tid: Tid| format!("{}-{tid}", String::from_utf8_lossy(index.comms.name(tid.0)));
    for piece in budget.pieces {
        let spans: Vec<Span> = lanes.within(piece.cpu, piece.start, piece.end).collect();
        // Without a span no event says who ran.
        let stretches = match spans.as_slice() {
            [] => vec![(piece.start, piece.end, None)],
            spans => spans.iter().map(|s| (s.start, s.end, Some(s))).collect(),
        };
        for (start, end, span) in stretches {
            // Between the last event before a loss and the first one behind it.
            let lost = |l: &Lost| l.cpu == piece.cpu && l.from <= start && end <= l.to;
            let span = span.filter(|_| !capture.lost.iter().any(lost));
            let (cause, who, actor) = match span.map(|s| (s.outermost, s.task.tid)) {
                Some((Some(actor), _)) => {
                    let (mechanism, who) = named(actor, capture);
                    (messages::mechanism(mechanism), who, ActorKind::Other)
                }
                Some((None, Tid(0))) => ("idle", String::new(), ActorKind::Other),
                Some((None, tid)) if tid == wake_up.tid => {
                    ("the task itself", task(tid), ActorKind::Task)
                }
                Some((None, tid)) => ("task", task(tid), ActorKind::Task),
                None => {
                    let cause = messages::mechanism(Mechanism::Unexplained);
                    (cause, String::new(), ActorKind::Other)
                }
            };
            let (from, to) = (start.since(wake_up.intended).0, end.since(wake_up.intended).0);
            match parts.last_mut() {
                Some(last) if last.cause == cause && last.who == who => last.to = to,
                _ => parts.push(Part {
                    from,
                    to,
                    stage: messages::wakeup_stage(piece.stage),
                    cause,
                    who,
                    actor,
                    cpu: piece.cpu.0,
                    pid: wake_up.tid.0,
                    state: trail.at(start).map_or(Doing::Ready, |s| s.standing.into()),
                    depth: 0,
                }),
            }
        }
    }
    (parts, arrows)
}
