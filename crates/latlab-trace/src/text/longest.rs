//! What the kernel writes above the trace of a latency tracer (`print_trace_header()`), and its two kinds of
//! lines about the scheduler (`trace_ctxwake_print()`).
//!
//! ```text
//! # latency: 1330 us, #67/67, CPU#0 | (M:preempt_rt VP:0, KP:0, SP:0 HP:0 #P:1)
//! #    | task: ktimers/0-15 (uid:0 nice:0 policy:1 rt_prio:1)
//! #  => started at: _raw_spin_lock
//! #  => ended at:   _raw_spin_unlock
//! …:        0:120:R   + [000]      15: 98:R ktimers/0       pid:prio:state of the one, how, [CPU] and of the other
//! …:        0:120:R ==> [000]      15: 98:R ktimers/0
//! ```

use super::line::Head;

/// The longest latency that a tracer kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LongestLatency {
    /// `wakeup_rt`, `irqsoff`, …
    pub tracer: String,
    /// Its length, ns; the kernel writes whole µs.
    pub ns: u64,
    /// Name of the task: the one that was woken, or in which interrupts or preemption were off.
    pub task: String,
    /// Its thread id.
    pub tid: i32,
    /// The function at which interrupts or preemption went off; empty for other tracers.
    pub started_at: String,
    /// And on again.
    pub ended_at: String,
}

impl LongestLatency {
    /// Takes a comment; `None` until the line of the latency was there.
    pub(super) fn comment(this: &mut Option<Self>, tracer: &str, comment: &[u8]) {
        let Ok(text) = std::str::from_utf8(comment) else { return };
        if let Some(rest) = text.strip_prefix("latency: ") {
            let us = rest.split_once(" us").and_then(|(us, _)| us.trim().parse::<u64>().ok());
            let ns = us.and_then(|us| us.checked_mul(1_000));
            *this = ns.map(|ns| Self { tracer: tracer.to_owned(), ns, ..Self::default() });
            return;
        }
        let Some(this) = this else { return };
        if let Some(task) = text.strip_prefix("| task: ") {
            let task = task.rsplit_once(" (").map_or(task, |t| t.0);
            if let Some((name, tid)) = task.rsplit_once('-') {
                (this.task, this.tid) = (name.to_owned(), tid.parse().unwrap_or(0));
            }
        } else if let Some(function) = text.strip_prefix("=> started at:") {
            function.trim().clone_into(&mut this.started_at);
        } else if let Some(function) = text.strip_prefix("=> ended at:") {
            function.trim().clone_into(&mut this.ended_at);
        }
    }
}

/// A wake-up or a switch as the event of that name, with its text as `trace-cmd report` has it.
pub(super) fn scheduler(head: &Head<'_>) -> Option<(&'static [u8], Vec<u8>)> {
    let text = std::str::from_utf8(head.rest).ok()?.trim();
    let (left, right, name): (_, _, &[u8]) = match text.split_once(" ==> [") {
        Some((left, right)) => (left, right, b"sched_switch"),
        None => {
            let (left, right) = text.split_once("+ [")?;
            (left, right, b"sched_wakeup")
        }
    };
    let (pid, prio, state) = task(left)?;
    let (cpu, right) = right.split_once(']')?;
    let cpu: u32 = cpu.trim().parse().ok()?;
    let (numbers, comm) = right.rsplit_once(' ').filter(|r| r.0.contains(':'))?;
    let (next_pid, next_prio, _) = task(numbers)?;
    let text = match name {
        b"sched_switch" => {
            let own = String::from_utf8_lossy(head.comm);
            format!("{own}:{pid} [{prio}] {state} ==> {comm}:{next_pid} [{next_prio}]")
        }
        _ => format!("{comm}:{next_pid} [{next_prio}] CPU:{cpu:03}"),
    };
    Some((name, text.into_bytes()))
}

/// `   15: 98:R`.
fn task(text: &str) -> Option<(i32, i32, &str)> {
    let mut parts = text.trim().splitn(3, ':');
    let mut number = || parts.next()?.trim().parse::<i32>().ok();
    let (pid, prio) = (number()?, number()?);
    let state = parts.next()?.trim();
    (state.len() <= 2).then_some((pid, prio, state))
}
