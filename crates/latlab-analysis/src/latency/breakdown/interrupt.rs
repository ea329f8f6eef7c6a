//! What the interrupt that expires the timer says about the time before it: code that had interrupts off is
//! interrupted where it enables them, and another interrupt that came before says that they were enabled.

use super::{Cutter, Milestones};
use crate::latency::capture::Capture;
use crate::latency::cpu_timeline::Actor;
use crate::latency::ipi::is_queue;
use latlab_model::event::{EventKind, Symbol};
use latlab_model::units::{Nanos, TraceNs};

/// Time of a task after an interrupt in which an interrupt that is due would have come.
const AT_ONCE: Nanos = Nanos(50_000);

/// The first functions of an interrupt on a stack, below those that handle it
/// (`arch/x86/include/asm/idtentry.h`, `arch/arm64/kernel/entry.S`, `arch/arm/kernel/entry-armv.S`).
fn is_interrupt_vector(function: &str) -> bool {
    function.starts_with("asm_sysvec_")
        || ["asm_common_interrupt", "el1h_64_irq", "el0t_64_irq", "__irq_svc", "__irq_usr"]
            .contains(&function)
}

/// The function that the interrupt which woke the task interrupted, `Some(None)` for user space; `None`: no stack
/// of it was recorded.
pub(in crate::latency) fn interrupted(capture: &Capture, m: &Milestones) -> Option<Option<Symbol>> {
    if !cfg!(feature = "host") || !capture.kinds().stacks {
        return None;
    }
    let own = capture.within(m.interrupt, m.waking).iter().filter(|e| e.cpu == m.waker);
    let stacks = own.filter_map(|e| match e.kind {
        EventKind::Stack { stack } => Some(capture.names.stack(stack)),
        _ => None,
    });
    stacks.into_iter().find_map(|frames| {
        let last = frames.iter().rposition(|&f| is_interrupt_vector(capture.names.get(f)))?;
        Some(frames.get(last + 1).copied())
    })
}

impl Cutter<'_> {
    /// The function in which an idle CPU called what another CPU had put into its queue, until the timer's interrupt
    /// came. To a CPU that polls for work, or is on its way out of an idle state, no interrupt is sent for that
    /// (`call_function_single_prep_ipi` in `kernel/sched/core.c`).
    pub(super) fn called_in_idle(&self, m: Milestones) -> Option<Symbol> {
        let find =
            || interrupted(self.capture, &m)?.filter(|&f| is_queue(self.capture.names.get(f)));
        *self.once.called_in_idle.get_or_init(find)
    }

    /// From when on the timer's interrupt was not held off, though its time had come: a task went on after another
    /// interrupt, with which one that waits would have come. The timer itself was late, as that of a virtual machine, or
    /// one that is not of high resolution.
    pub(super) fn timer_late_since(&self, m: Milestones) -> Option<TraceNs> {
        *self.once.timer_late.get_or_init(|| self.find_timer_late(m))
    }

    fn find_timer_late(&self, m: Milestones) -> Option<TraceNs> {
        if self.timer_thread(m).is_some() {
            return None;
        }
        let from = self.programmed(m).unwrap_or(self.a.intended).max(self.a.intended);
        let (mut first, mut ran) = (None, Nanos(0));
        for span in self.lanes.within(m.waker, from, m.interrupt) {
            let is_interrupt = span.actor.is_interrupt() || span.inside.is_some();
            if is_interrupt && span.actor != Actor::Nmi {
                first = first.or(Some(span.end));
                ran = Nanos(0);
            } else if matches!(span.actor, Actor::Task(_)) {
                ran = ran + span.length();
            }
            if first.is_some() && ran >= AT_ONCE {
                return first;
            }
        }
        None
    }
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use crate::latency::breakdown::{Budget, budget};
    use crate::latency::cpu_timeline::{Actor, Lanes};
    use crate::latency::scenario::{FAIR, IDLE, RT, Script};
    use latlab_model::event::{EventKind, OffCpu, Task};
    use latlab_model::latency::Cause;
    use latlab_model::units::CpuId;

    fn cut(s: &mut Script, intended: f64, actual: f64) -> Budget {
        let a = s.wakes(intended, actual, true);
        s.capture.events.sort_by_key(|e| e.time);
        budget(&s.capture, &Lanes::of(&s.capture.events), a)
    }

    fn us(b: &Budget, cause: Cause) -> f64 {
        b.sum(|p| p.cause == cause).as_us_f64()
    }

    /// The timer is due at 100 µs and comes at 400; another interrupt lasts 10 µs.
    fn with_interrupt(at: f64) -> Budget {
        let mut s = Script::default();
        let name = s.name("call_function");
        s.switch(0.0, RT, FAIR).at(at, EventKind::VectorEntry { name });
        s.at(at + 10.0, EventKind::VectorExit { name });
        s.timer(400.0).preempt(406.0, FAIR, RT).at(410.0, EventKind::Other);
        cut(&mut s, 100.0, 408.0)
    }

    #[test]
    fn a_task_that_another_interrupt_reached_does_not_hold_off_the_timer() {
        let early = with_interrupt(150.0);
        assert_eq!(us(&early, Cause::Interrupt), 10.0, "{early:#?}");
        assert_eq!(us(&early, Cause::InterruptsOff), 50.0, "until it came");
        assert_eq!(us(&early, Cause::Unexplained), 240.0, "{early:#?}");
        // Both came when the task enabled them.
        let together = with_interrupt(385.0);
        assert_eq!(us(&together, Cause::InterruptsOff), 290.0, "{together:#?}");
        // It was over before the timer was due.
        let before = with_interrupt(80.0);
        assert_eq!(us(&before, Cause::InterruptsOff), 300.0, "{before:#?}");
    }

    /// The timer's interrupt comes to this task in the last of these functions.
    fn interrupting(task: Task, functions: [&str; 2]) -> Budget {
        let mut s = Script::default();
        let frames = ["hrtimer_interrupt", "asm_sysvec_apic_timer_interrupt"];
        let frames = frames.into_iter().chain(functions).map(|f| s.name(f)).collect::<Vec<_>>();
        let stack = s.capture.names.add_stack(&frames);
        s.switch(0.0, RT, task).timer(400.0).at(401.5, EventKind::Stack { stack });
        s.preempt(406.0, task, RT).at(410.0, EventKind::Other);
        cut(&mut s, 100.0, 408.0)
    }

    #[test]
    fn functions_that_an_idle_cpu_calls_for_another_are_no_exit_from_an_idle_state() {
        let called = interrupting(IDLE, ["flush_smp_call_function_queue", "do_idle"]);
        let longest = called.pieces.iter().max_by_key(|p| p.length()).unwrap();
        assert_eq!((longest.cause, longest.length().as_us_f64()), (Cause::Interrupt, 300.0));
        assert!(matches!(longest.actor, Actor::Vector(_)), "{called:#?}");
        let idle = interrupting(IDLE, ["native_safe_halt", "do_idle"]);
        assert_eq!(us(&idle, Cause::IdleExit), 300.0 + 2.0, "{idle:#?}");
        let task = interrupting(FAIR, ["flush_smp_call_function_queue", "do_softirq"]);
        assert_eq!(us(&task, Cause::InterruptsOff), 300.0, "{task:#?}");
    }

    /// The task waits for a page that a device's timer brings, past the time of its next activation.
    #[test]
    fn a_wait_for_a_page_goes_past_the_intended_time() {
        let mut s = Script::default();
        let (device, sleep) = (s.name("device_timer"), s.name("hrtimer_wakeup"));
        let start = |timer, function, expires| EventKind::HrtimerStart {
            timer,
            function,
            expires,
            softexpires: expires,
            relative: false,
        };
        let entry = |timer, function| EventKind::HrtimerEntry {
            timer,
            function,
            now: 0,
            preempt_off: false,
        };
        let woken = EventKind::Waking { task: RT, target: CpuId(0), in_interrupt: true };
        s.preempt(0.0, FAIR, RT).at(50.0, EventKind::PageFault { user: true, address: 1 });
        s.at(51.0, start(8, device, 300_000));
        s.at(52.0, EventKind::Switch { prev: RT, state: OffCpu::Blocked, next: IDLE });
        s.at(300.0, entry(8, device)).at(302.0, woken);
        s.at(303.0, EventKind::HrtimerExit { timer: 8 }).preempt(305.0, IDLE, RT);
        s.at(310.0, start(7, sleep, 100_000)).switch(312.0, RT, IDLE);
        s.at(313.0, entry(7, sleep)).at(314.0, woken);
        s.at(315.0, EventKind::HrtimerExit { timer: 7 }).preempt(316.0, IDLE, RT);
        s.at(320.0, EventKind::Other);
        let b = cut(&mut s, 100.0, 319.0);
        assert_eq!(us(&b, Cause::ProgrammedLate), 0.0, "{b:#?}");
        assert!(us(&b, Cause::PageFault) >= 200.0, "{b:#?}");
    }
}
