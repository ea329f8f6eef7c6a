//! A trace as the events that `latlab_core::sched` takes, one at a time.

use crate::events::{Decoder, Typed};
use crate::ring::{Missed, Select};
use crate::{Diagnostics, TraceFile};
use latlab_core::sched::{Comm, Event, Left, Task, What};
use latlab_core::units::TraceNs;
use std::ops::ControlFlow;

/// What an analysis wants, the indispensable first.
const WANTED: &[&str] = &["sched_switch", "sched_wakeup", "sched_waking"];

/// Kinds of events that the analysis of scheduling wants and the trace does not know;
/// `sched_switch` among them means that nothing can be said.
pub fn missing(file: &TraceFile<'_>) -> Vec<&'static str> {
    WANTED.iter().copied().filter(|name| file.formats.find(name).is_none()).collect()
}

/// Calls `each` with every chosen event in order of time, until it breaks.
pub fn scan(
    file: &TraceFile<'_>,
    select: &Select,
    threads: usize,
    mut each: impl FnMut(&Event) -> ControlFlow<()>,
) -> Diagnostics {
    let decoder = Decoder::new(file);
    file.scan(select, threads, |event| {
        let lost = match event.missed {
            Missed::No => None,
            Missed::Unknown => Some(0),
            Missed::Count(n) => Some(n),
        };
        let what = what(decoder.decode(event));
        let current = decoder.common(event).pid;
        each(&Event { time: TraceNs(event.time), cpu: event.cpu, current, lost, what })
    })
}

#[inline]
fn task(tid: i32, comm: &[u8], prio: i32) -> Task {
    Task { tid, name: Comm::new(comm), prio }
}

#[inline]
fn what(typed: Typed<'_>) -> What {
    match typed {
        Typed::SchedSwitch(s) => What::Switch {
            prev: task(s.prev_pid, s.prev_comm, s.prev_prio),
            left: Left::from_bits(s.prev_state),
            next: task(s.next_pid, s.next_comm, s.next_prio),
        },
        Typed::SchedWaking(s) => What::Waking(task(s.pid, s.comm, s.prio)),
        Typed::SchedWakeup(s) => What::Wakeup(task(s.pid, s.comm, s.prio), s.target_cpu),
        Typed::SchedWakeupNew(s) => What::WakeupNew(task(s.pid, s.comm, s.prio), s.target_cpu),
        Typed::SchedMigrateTask(s) => What::Migrate(task(s.pid, s.comm, s.prio), s.dest_cpu),
        Typed::SchedProcessFork(s) => What::Fork(task(s.child_pid, s.child_comm, i32::MAX)),
        Typed::TaskRename(s) => What::Rename(s.pid, Comm::new(s.newcomm)),
        Typed::SchedStatRuntime(s) => What::Charged(s.pid, s.runtime),
        Typed::SchedPiSetprio(s) => What::SetPrio(task(s.pid, s.comm, s.oldprio), s.newprio),
        Typed::SysEnter(s) if s.name == "sched_yield" => What::Yield,
        _ => What::Other,
    }
}
