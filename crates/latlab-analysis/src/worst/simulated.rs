//! A machine of one CPU with known sections, for tests of searches.

use super::axis::{self, Axis};
use latlab_model::worst::{Input, InputKind};

/// What a strike does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A thread with interrupts off.
    IrqsOff,
    /// A thread with preemption off.
    PreemptOff,
    /// An interrupt.
    Interrupt,
}

/// Cost of the wake-up itself, ns.
const WAKEUP_NS: u64 = 4_500;

/// Sections and their period.
pub struct Machine {
    sections: Vec<(Kind, u64)>,
    every_ns: u64,
}

impl Machine {
    pub fn of(sections: &[(Kind, u64)], every_ns: u64) -> Self {
        Self { sections: sections.to_vec(), every_ns }
    }

    pub fn axes(&self) -> Vec<Axis> {
        let input = |(_, ns): &(Kind, u64)| Input {
            kind: InputKind::Fault,
            ns: *ns,
            every_ns: self.every_ns,
            ..Input::default()
        };
        let inputs: Vec<Input> = self.sections.iter().map(input).collect();
        let ns: Vec<u64> = self.sections.iter().map(|(_, ns)| *ns).collect();
        axis::axes(&inputs, &ns)
    }

    /// The longest section of a thread, and all interrupts.
    pub fn worst(&self) -> u64 {
        let of = |interrupt: bool| {
            self.sections
                .iter()
                .filter(move |(kind, _)| (*kind == Kind::Interrupt) == interrupt)
                .map(|(_, ns)| *ns)
        };
        of(false).max().unwrap_or(0) + of(true).sum::<u64>() + WAKEUP_NS
    }

    /// Time from the expiry to the task, with one strike of each section in the window; the expiry is at 0.
    pub fn latency(&self, axes: &[Axis], phases: &[u64]) -> u64 {
        let strikes = axes.iter().zip(phases).map(|(axis, phase)| axis.strikes(*phase));
        let mut waiting: Vec<(i64, Kind, i64)> = (self.sections.iter().zip(strikes))
            .filter_map(|((kind, ns), strikes)| Some((strikes?.first_ns, *kind, *ns as i64)))
            .collect();
        waiting.sort_by_key(|w| w.0);
        let mut now = i64::MIN / 2;
        loop {
            // What is there at this time: interrupts first, then the task if its timer has expired, then threads.
            let next = waiting.iter().map(|w| w.0).min().unwrap_or(i64::MAX);
            now = now.max(next.min(0));
            if let Some(i) = waiting.iter().position(|w| w.1 == Kind::Interrupt && w.0 <= now) {
                now += waiting.remove(i).2;
            } else if now >= 0 {
                return now as u64 + WAKEUP_NS;
            } else if let Some(i) = waiting.iter().position(|w| w.0 <= now) {
                let (_, kind, mut left) = waiting.remove(i);
                while left > 0 {
                    // Interrupts that come while a thread has them on.
                    let interrupt = waiting.iter().position(|w| {
                        kind == Kind::PreemptOff && w.1 == Kind::Interrupt && w.0 < now + left
                    });
                    let Some(i) = interrupt else {
                        now += left;
                        break;
                    };
                    let (at, _, ns) = waiting.remove(i);
                    left -= (at - now).max(0);
                    now = now.max(at) + ns;
                }
            }
        }
    }
}

#[test]
fn latencies_are_those_of_sections_that_meet_the_expiry() {
    let machine = Machine::of(&[(Kind::IrqsOff, 30_000), (Kind::Interrupt, 20_000)], 1_000_000);
    let axes = machine.axes();
    let at = |a, b| machine.latency(&axes, &[a, b]) - WAKEUP_NS;
    assert_eq!(at(500_000, 500_000), 0);
    assert_eq!(at(10_000, 500_000), 20_000);
    assert_eq!(at(29_999, 500_000), 1);
    assert_eq!(at(500_000, 1), 19_999);
    // The interrupt waits for the section's end, and comes before the task.
    assert_eq!(at(10, 5), 49_990);
    assert_eq!(at(10, 1_000_000 - 20_000), 49_990);
    assert_eq!(machine.worst(), 54_500);
}
