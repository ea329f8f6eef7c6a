//! Interrupts that one CPU sends another: who sent them, and what they call.
//!
//! | kernel | handled | sent |
//! |---|---|---|
//! | x86 | `irq_vectors:call_function*`, `reschedule` | `ipi:ipi_send_cpu`, `ipi_send_cpumask` (6.4), `csd:csd_queue_cpu` (6.6) |
//! | ARM | `ipi:ipi_entry`, `ipi_exit` | `ipi:ipi_raise`, and those of x86 |
//!
//! A function that is queued behind another one makes no interrupt of its own: `csd_queue_cpu` shows it.

use super::breakdown::Piece;
use super::capture::Capture;
use super::cpu_timeline::{Actor, Lanes};
use super::family::family;
use super::sent::is_ipi;
use latlab_model::event::{EventKind, Symbol};
use latlab_model::latency::{Cause, IpiSender};
use latlab_model::units::{CpuId, Tid, TraceNs};

/// Events of all CPUs before an interrupt among which its sender is looked for.
const BACK: usize = 4_096;
/// An interrupt is handled at most so long after it was sent, ns: a CPU that has interrupts off takes it then.
const SENT_BEFORE: u64 = 1_000_000_000;

/// Functions that only go through the queue of what a CPU has to call (`kernel/smp.c`).
pub(super) fn is_queue(function: &str) -> bool {
    ["generic_smp_call_function", "flush_smp_call_function", "__flush_smp_call_function"]
        .iter()
        .any(|queue| function.starts_with(queue))
}

/// The senders of the interrupt of a piece, each once: of several events of one sender, that with the function.
pub(super) fn senders(capture: &Capture, lanes: &Lanes, piece: &Piece) -> Vec<IpiSender> {
    let name = |s: Symbol| capture.names.get(s);
    let vector = match piece.actor {
        Actor::Vector(s) if piece.cause == Cause::Interrupt && is_ipi(name(s)) => s,
        _ => return Vec::new(),
    };
    let since = TraceNs(piece.start.0.saturating_sub(SENT_BEFORE));
    let until = capture.events.partition_point(|e| e.time <= piece.end);
    let mut found: Vec<(CpuId, Tid, IpiSender)> = Vec::new();
    for e in capture.events[..until].iter().rev().take(BACK).take_while(|e| e.time >= since) {
        match e.kind {
            // What was sent before the one before ended was handled there.
            EventKind::VectorExit { name: s } | EventKind::IpiExit { reason: s }
                if e.cpu == piece.cpu && e.time <= piece.start && is_ipi(name(s)) =>
            {
                break;
            }
            EventKind::IpiSend { cpus, function } if cpus & piece.cpu.bit() != 0 => {
                // What has the reason alone says no more than the interrupt's own name.
                let function = if function == vector { "" } else { name(function) };
                let task = lanes.tasks.get(&e.current).filter(|t| t.tid != Tid(0));
                let task = task.map_or("", |t| family(name(t.name)));
                let sender = IpiSender {
                    cpu: e.cpu.0,
                    task: task.to_owned(),
                    function: function.to_owned(),
                };
                let same =
                    found.iter_mut().find(|(cpu, tid, _)| (*cpu, *tid) == (e.cpu, e.current));
                match same {
                    Some((_, _, known)) => {
                        let is_vague = known.function.is_empty() || is_queue(&known.function);
                        if is_vague && !function.is_empty() && !is_queue(function) {
                            *known = sender;
                        }
                    }
                    None => found.push((e.cpu, e.current, sender)),
                }
            }
            _ => {}
        }
    }
    found.into_iter().map(|f| f.2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::breakdown::budget;
    use crate::latency::features::window;
    use crate::latency::scenario::{FAIR, IDLE, RT, Script};
    use latlab_model::event::{OffCpu, Task};
    use latlab_model::latency::Window;

    const SENDER: Task = Task { tid: Tid(500), name: Symbol(2), prio: 120 };

    /// CPU 1 calls a function on CPU 0, which runs from 110 to 400 µs; the timer was due at 150.
    fn called(sends: &[(f64, u64, &str)], entry: bool) -> Window {
        let mut s = Script::default();
        let (vector, exit) = (s.name("call_function_single"), s.name("call_function_single"));
        let to_sender = EventKind::Switch { prev: IDLE, state: OffCpu::Runnable, next: SENDER };
        s.on(1, 0.0, to_sender).switch(0.5, RT, FAIR);
        // An interrupt that was sent and handled before.
        let early = s.name("early");
        s.on(1, 10.0, EventKind::IpiSend { cpus: 1, function: early });
        s.at(12.0, EventKind::VectorEntry { name: vector })
            .at(14.0, EventKind::VectorExit { name: exit });
        for &(at, cpus, function) in sends {
            let function = s.name(function);
            s.on(1, at, EventKind::IpiSend { cpus, function });
        }
        if entry {
            s.at(110.0, EventKind::VectorEntry { name: vector });
            s.at(400.0, EventKind::VectorExit { name: vector });
        }
        s.timer(401.0).preempt(407.0, FAIR, RT);
        s.capture.events.sort_by_key(|e| e.time);
        let a = s.wakes(150.0, 408.0, true);
        let lanes = Lanes::around(&s.capture, &[a]);
        window(&s.capture, &lanes, &budget(&s.capture, &lanes, a), None)
    }

    fn senders_of(w: &Window) -> Vec<(u32, String, String)> {
        let ipi = w.shares.iter().find(|(g, _)| g.cause == Cause::Interrupt && is_ipi(&g.who));
        let (_, share) = ipi.unwrap_or_else(|| panic!("{:#?}", w.shares));
        assert_eq!(share.ns, 250_000, "the interrupt's interval is a part of its own");
        share.senders.iter().map(|s| (s.cpu, s.task.clone(), s.function.clone())).collect()
    }

    #[test]
    fn who_sent_an_interrupt_is_named_with_what_it_calls() {
        let all = [
            (105.0, 0b01, "flush_tlb_func"),
            (106.0, 0b01, "generic_smp_call_function_single_interrupt"),
            (107.0, 0b10, "not_for_us"),
        ];
        let expected = |function: &str| vec![(1, "worker".to_owned(), function.to_owned())];
        assert_eq!(senders_of(&called(&all, true)), expected("flush_tlb_func"));
        let queue_alone = [(106.0, 0b11, "generic_smp_call_function_single_interrupt")];
        let found = senders_of(&called(&queue_alone, true));
        assert_eq!(found, expected("generic_smp_call_function_single_interrupt"));
        // The kernel does not record who sent it.
        assert_eq!(senders_of(&called(&[], true)), []);
    }
}
