//! What an activation that has not ended needs of the events before the window.

use crate::timeline::cpu::PerCpu;
use latlab_model::event::{Event, EventKind};
use latlab_model::units::{Tid, TraceNs};

/// An interrupt, or the function of a timer, on a CPU: its begin, and whether it woke one of the threads.
#[derive(Clone, Copy, Debug)]
struct Context {
    began: usize,
    wakes: bool,
}

/// For each event whether it is kept: those of the threads, which are sorted, each from a time on, and what was interrupted
/// for their wake-ups.
pub(super) fn of(events: &[Event], threads: &[(Tid, TraceNs)]) -> Vec<bool> {
    let mut keeps = vec![false; events.len()];
    if threads.is_empty() {
        return keeps;
    }
    let mut contexts: PerCpu<Vec<Context>> = PerCpu::default();
    for (at, event) in events.iter().enumerate() {
        let is_held = |tid: Tid| {
            let place = threads.binary_search_by_key(&tid, |t| t.0);
            place.is_ok_and(|i| event.time >= threads[i].1)
        };
        let cpu = contexts.place(event.cpu, Vec::new);
        let on_cpu = &mut contexts[cpu];
        match event.kind {
            EventKind::HrtimerEntry { .. } | EventKind::IrqEntry { .. } => {
                on_cpu.push(Context { began: at, wakes: false });
            }
            EventKind::HrtimerExit { .. } | EventKind::IrqExit { .. } => {
                keeps[at] = on_cpu.pop().is_some_and(|context| context.wakes);
            }
            EventKind::Waking { task, .. } if is_held(task.tid) => {
                keeps[at] = true;
                for context in on_cpu {
                    context.wakes = true;
                    keeps[context.began] = true;
                }
            }
            EventKind::Switch { prev, next, .. } => {
                on_cpu.clear();
                keeps[at] = is_held(prev.tid) || is_held(next.tid);
            }
            _ => keeps[at] = is_held(event.current),
        }
    }
    keeps
}
