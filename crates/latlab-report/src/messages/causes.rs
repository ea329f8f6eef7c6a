//! Names of causes of latency, the same in tables, breakdowns and findings.

use latlab_model::latency::{Cause, Mechanism, Part, Stage};

/// The display name of a mechanism.
pub fn mechanism(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::InterruptsOff => "interrupts disabled",
        Mechanism::PreemptionOff => "preemption disabled",
        Mechanism::InterruptHandler => "interrupt handler",
        Mechanism::Ipi => "inter-processor interrupts",
        Mechanism::HrtimerHandler | Mechanism::TimerCallback => "timer function",
        Mechanism::Softirq => "softirq",
        Mechanism::Workqueue => "work item",
        Mechanism::HigherPriority => "task of higher priority",
        Mechanism::EqualPriority => "task of equal priority",
        Mechanism::Measurement => "latlab's own thread",
        Mechanism::Throttling => "real-time throttling",
        Mechanism::Lock => "lock wait",
        Mechanism::PriorityInversion => "priority inversion",
        Mechanism::PageFault => "page fault",
        Mechanism::Nmi => "NMI",
        Mechanism::IdleExit => "idle exit",
        Mechanism::TimerSlack => "timer programmed late",
        Mechanism::Execution => "own execution",
        Mechanism::Wait => "wait",
        Mechanism::Sleep => "own sleep",
        Mechanism::Overrun => "previous activation",
        Mechanism::FairServer => "fair server",
        Mechanism::Bandwidth => "no runtime left",
        Mechanism::Blocked => "blocked",
        Mechanism::Stall => "stall",
        Mechanism::Alternatives => "not distinguished",
        Mechanism::SlowPath => "slow wake-up path",
        Mechanism::Unexplained => "unexplained",
    }
}

/// The display name of a part's cause: that of its mechanism.
pub fn cause(cause: Cause) -> &'static str {
    mechanism(match cause {
        // The ordinary path is a part of every latency, and no mechanism of late ones.
        Cause::Path => return "wake-up path",
        Cause::ProgrammedLate => Mechanism::TimerSlack,
        Cause::InterruptsOff => Mechanism::InterruptsOff,
        Cause::Interrupt => Mechanism::InterruptHandler,
        Cause::TimerFunction => Mechanism::HrtimerHandler,
        Cause::Nmi => Mechanism::Nmi,
        Cause::IdleExit => Mechanism::IdleExit,
        Cause::PreemptionOff => Mechanism::PreemptionOff,
        Cause::Softirq => Mechanism::Softirq,
        Cause::HigherPriority => Mechanism::HigherPriority,
        Cause::EqualPriority => Mechanism::EqualPriority,
        Cause::FairOrBandwidth => return "equal priority or no runtime",
        Cause::Measurement => Mechanism::Measurement,
        Cause::Throttled => Mechanism::Throttling,
        Cause::Lock => Mechanism::Lock,
        Cause::PageFault => Mechanism::PageFault,
        Cause::Execution => Mechanism::Execution,
        Cause::Wait => Mechanism::Wait,
        Cause::Sleep => Mechanism::Sleep,
        Cause::Overrun => Mechanism::Overrun,
        Cause::Stall => Mechanism::Stall,
        Cause::Unexplained => Mechanism::Unexplained,
    })
}

/// The display name of a part's cause; the merged rest of a breakdown has none.
pub fn part_cause(part: &Part) -> &'static str {
    if part.merged { "remaining parts" } else { cause(part.cause) }
}

/// The display name of a stage of a wake-up.
pub fn wakeup_stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Interrupt => "until the timer interrupt",
        Stage::Handlers => "until the timer's handler",
        Stage::Wake => "until woken",
        Stage::Schedule => "until switched in",
        Stage::Return => "until user space",
        Stage::Activation => "until the end",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All mechanisms, from the names that the deserializer expects.
    fn all() -> Vec<Mechanism> {
        let error = serde_json::from_str::<Mechanism>("\"?\"").unwrap_err().to_string();
        let expected = error.split_once("expected").unwrap().1;
        let names = expected.split('`').skip(1).step_by(2);
        names.map(|name| serde_json::from_value(name.into()).unwrap()).collect()
    }

    #[test]
    fn each_mechanism_has_a_name_and_a_wording() {
        let all = all();
        assert!(all.contains(&Mechanism::Stall) && all.len() > 20, "{all:?}");
        let worded: Vec<&str> = crate::messages::ids().collect();
        for m in all {
            assert!(!mechanism(m).is_empty());
            assert!(worded.contains(&m.id()), "{} has no wording", m.id());
        }
    }
}
