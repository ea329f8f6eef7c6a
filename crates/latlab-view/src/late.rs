//! Late wake-ups with their verdict and time budget.
//!
//! Where a trace shows wake-ups from end to end (timers, or the marker of the
//! program that saw it late), `latlab_analysis::latency` finds and explains them as
//! `latlab why` does. Of any other task with `sched_waking` and `sched_switch` the
//! time from the wake-up to the switch is cut into who had the CPU meanwhile.

use crate::index::Index;
use crate::index::column::{Item, Items};
use crate::index::task::State;
use latlab_analysis::latency::capture::Activation;
use latlab_analysis::latency::summary::{Digest, conclude, digest_found};
use latlab_analysis::latency::wakeups;
use latlab_model::latency::{BreakdownExample, Mechanism, SystemContext};
use latlab_model::units::Nanos;
use latlab_trace::TraceFile;
use serde::Serialize;
use std::collections::HashMap;

/// Files with more events than this are not searched from end to end.
pub const EVENTS_MAX: u64 = 2_000_000;
/// Wake-ups of one answer at most: the latest ones.
const MOST: usize = 2_000;

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
    /// When it did run.
    pub to: i64,
    /// Over the limit.
    pub late: bool,
    /// What made it late, in words; empty where nobody knows.
    pub verdict: String,
    /// The parts; they tile the latency.
    pub parts: Vec<Part>,
}

/// A part of a wake-up's latency: ns after the intended time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Part {
    /// Start.
    pub from: u64,
    /// End.
    pub to: u64,
    /// Stage of the way.
    pub stage: String,
    /// Cause.
    pub cause: String,
    /// Who had the CPU.
    pub who: String,
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
}

/// The snake-case name that serde gives a plain enum.
fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(s)) => s.replace('_', " "),
        _ => String::new(),
    }
}

/// The display name of a mechanism: its identifier in words (`hrtimer handler`).
fn mechanism_name(mechanism: Mechanism) -> String {
    mechanism.id().trim_start_matches("why.").replace('-', " ")
}

/// Wake-ups that the sources show from end to end.
pub fn explained(sources: &[(&TraceFile<'_>, &Index)], around: &SystemContext) -> Late {
    let mut digests: Vec<Digest> = Vec::new();
    // Source and wake-up of each window.
    let mut found: Vec<(usize, Activation)> = Vec::new();
    for (n, (file, index)) in sources.iter().enumerate() {
        if index.events > EVENTS_MAX {
            continue;
        }
        let mut capture = latlab_analysis::latency::from_trace::capture(file, &n.to_string());
        wakeups::find(&mut capture, Nanos(around.limit_ns));
        let digest = digest_found(&capture);
        found.extend(digest.activations.iter().map(|a| (n, *a)));
        digests.push(digest);
    }
    let examples: Vec<BreakdownExample> = digests.iter().flat_map(|d| d.examples.clone()).collect();
    let result = conclude(digests, around.clone());
    let mut late = Late { limit: around.limit_ns, ..Late::default() };
    let mut verdicts: HashMap<usize, String> = HashMap::new();
    for cluster in &result.explanation.causes {
        let mut words = mechanism_name(cluster.mechanism);
        if !cluster.who.is_empty() {
            words = format!("{words}: {}", cluster.who);
        }
        late.causes.push(words.clone());
        for w in &cluster.main_of {
            verdicts.entry(*w).or_insert_with(|| words.clone());
        }
    }
    for (i, (window, sketch)) in result.windows.iter().zip(&examples).enumerate() {
        let (source, activation) = found[i];
        let (_, index) = sources[source];
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
            late: window.late,
            verdict: verdict.or(window.late.then(|| "unexplained".to_owned())).unwrap_or_default(),
            parts: sketch
                .parts
                .iter()
                .map(|p| Part {
                    from: p.start_ns,
                    to: p.end_ns,
                    stage: word(&p.stage),
                    cause: if p.merged { "merged".to_owned() } else { word(&p.cause) },
                    who: p.who.clone(),
                })
                .collect(),
        });
    }
    late.list.sort_by_key(|w| (!w.late, w.source, w.from));
    late
}

/// Wake-ups of a task from `sched_waking` to `sched_switch`; late over `limit` ns.
pub fn of_task(index: &Index, source: usize, pid: i32, limit: u64) -> Late {
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
    for w in &mut late {
        w.parts = parts(index, w, pid);
        let most = w.parts.iter().max_by_key(|p| p.to - p.from);
        w.verdict = most.map_or_else(String::new, |p| format!("{}: {}", p.cause, p.who));
    }
    // The typical on-time ones: round the median.
    on_time.sort_by_key(|w| w.to - w.from);
    let middle = on_time.len() / 2;
    let from = middle.saturating_sub(10);
    let mut typical: Vec<WakeUp> = on_time.drain(from..(middle + 10).min(on_time.len())).collect();
    typical.iter_mut().for_each(|w| w.parts = parts(index, w, pid));
    typical.sort_by_key(|w| w.from);
    late.append(&mut typical);
    Late { limit, list: late, causes: Vec::new() }
}

/// Who had the CPU between a wake-up and the switch.
fn parts(index: &Index, w: &WakeUp, pid: i32) -> Vec<Part> {
    let Some(cpu) = index.cpus.iter().find(|c| c.cpu == w.cpu) else { return Vec::new() };
    let start = index.origin.saturating_add_signed(w.from);
    let end = index.origin.saturating_add_signed(w.to);
    let mut cuts = vec![start, end];
    let mut layers: [Vec<Item>; 3] = Default::default();
    let irq = cpu.nested[0].first();
    let soft = cpu.nested[1].first();
    if let Some(spans) = irq {
        layers[0] = within(spans, start, end);
    }
    if let Some(spans) = soft {
        layers[1] = within(spans, start, end);
    }
    layers[2] = within(&cpu.runs, start, end);
    for item in layers.iter().flatten() {
        cuts.extend([item.start.clamp(start, end), item.end.clamp(start, end)]);
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut at = [0usize; 3];
    let mut parts: Vec<Part> = Vec::new();
    for cut in cuts.windows(2) {
        let (from, to) = (cut[0], cut[1]);
        let mut holder: Option<(usize, Item)> = None;
        for (layer, items) in layers.iter().enumerate() {
            while items.get(at[layer]).is_some_and(|i| i.end <= from) {
                at[layer] += 1;
            }
            let here = items.get(at[layer]).filter(|i| i.start <= from && i.end >= to);
            if let (None, Some(i)) = (&holder, here) {
                holder = Some((layer, *i));
            }
        }
        let name = |id: u32| index.names.get(id as usize).cloned().unwrap_or_default();
        let task = |p: i32| format!("{}-{p}", String::from_utf8_lossy(index.comms.name(p)));
        let (cause, who) = match holder {
            Some((0, i)) => ("interrupt", name(i.id)),
            Some((1, i)) => ("softirq", name(i.id)),
            Some((_, i)) if i.id == 0 => ("idle", String::new()),
            Some((_, i)) if i.id as i32 == pid => ("the task itself", task(pid)),
            Some((_, i)) if i.id != u32::MAX => ("task", task(i.id as i32)),
            _ => ("unexplained", String::new()),
        };
        match parts.last_mut() {
            Some(last) if last.cause == cause && last.who == who => last.to = to - start,
            _ => parts.push(Part {
                from: from - start,
                to: to - start,
                stage: "schedule".into(),
                cause: cause.into(),
                who,
            }),
        }
    }
    parts
}

/// Items that touch a stretch, at most a few thousand.
fn within<I: Items>(items: &I, start: u64, end: u64) -> Vec<Item> {
    let (first, last) = (items.first_after(start), items.first_from(end));
    (first..last.max(first).min(first + 4096)).map(|i| items.get(i)).collect()
}
