//! The time of one input relative to the expiry of the measured task's timer.
//!
//! ```text
//!          before_ns                  after_ns
//!    ├──────────────────────────┤────────────────┤
//!         ▓▓▓▓ strike            E (expiry)
//!         └── phase ────────────┘
//! ```
//! An input with a period strikes at `E - phase + k · period`, 0 ≤ phase < period. Strikes that are over before the
//! expiry, or begin when the task has run, have no effect: a search looks at phases whose strikes
//! begin inside of the window.

use latlab_model::worst::{Input, InputKind};

/// Room before the sum of the durations of all faults, ns: for the kernel's own work around each.
const ROOM_NS: u64 = 60_000;
/// A wake-up without any fault, ns.
const WAKEUP_NS: u64 = 20_000;
/// Points of the tick's axis: the tick adds little, and is looked at beside long faults less closely.
const TICK_POINTS: u64 = 60;
/// Latest beginning of a round of a load, ns after the expiry.
const LOAD_AFTER_NS: u64 = 10_000;
/// Longest time that a search looks back, ns.
pub const BEFORE_MAX_NS: u64 = 2_000_000_000;

/// Where one input can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its period, ns.
    pub every_ns: u64,
    /// Earliest strike that is made, ns before the expiry.
    pub before_ns: u64,
    /// Latest strike that is made, ns after the expiry.
    pub after_ns: u64,
    /// Distance of the points of a scan, ns: below half of what the input takes.
    pub step_ns: u64,
}

/// The strikes of one input in an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strikes {
    /// The first, ns from the expiry; negative: before it.
    pub first_ns: i64,
    /// How many, one period after the other.
    pub times: u32,
}

/// The axes of inputs; `ns` is how long each takes.
pub fn axes(inputs: &[Input], ns: &[u64]) -> Vec<Axis> {
    let faults = inputs.iter().zip(ns).filter(|(input, _)| input.kind == InputKind::Fault);
    let all = faults.map(|(_, ns)| *ns).fold(0u64, u64::saturating_add).min(BEFORE_MAX_NS / 4);
    let before_ns = all + ROOM_NS;
    let after_ns = all + WAKEUP_NS;
    let axis = |(input, ns): (&Input, &u64)| match input.kind {
        InputKind::Load => {
            let (before_ns, after_ns) = (all + (*ns).min(BEFORE_MAX_NS), LOAD_AFTER_NS);
            // Sections of the kernel with interrupts or preemption off take some µs.
            let step_ns = (ns / 256).clamp(500, 5_000);
            Axis { every_ns: before_ns + after_ns, before_ns, after_ns, step_ns }
        }
        InputKind::Fault | InputKind::Tick => {
            let least = match input.kind {
                InputKind::Tick => (before_ns + after_ns) / TICK_POINTS,
                _ => 16,
            };
            let every_ns = input.every_ns.max(1);
            Axis { every_ns, before_ns, after_ns, step_ns: (ns / 5 * 2).max(least) }
        }
    };
    inputs.iter().zip(ns).map(axis).collect()
}

impl Axis {
    /// Number of places that a search looks at, one a ns.
    pub fn span(&self) -> u64 {
        self.every_ns.min(self.before_ns.saturating_add(self.after_ns)).max(1)
    }

    /// The phase of a place: 0 is the latest beginning, the largest place is the earliest.
    pub fn phase(&self, place: u64) -> u64 {
        let after = self.after_ns.min(self.span() - 1) % self.every_ns;
        (place % self.span() + self.every_ns - after) % self.every_ns
    }

    /// The strikes of a phase inside of the window.
    pub fn strikes(&self, phase: u64) -> Option<Strikes> {
        let (every, phase) = (self.every_ns, phase % self.every_ns);
        let later = (self.after_ns + phase) / every;
        if phase > self.before_ns {
            let first_ns = every as i64 - phase as i64;
            return u32::try_from(later)
                .ok()
                .filter(|n| *n > 0)
                .map(|times| Strikes { first_ns, times });
        }
        let earlier = (self.before_ns - phase) / every;
        let first_ns = -((phase + earlier * every) as i64);
        Some(Strikes { first_ns, times: u32::try_from(1 + earlier + later).unwrap_or(u32::MAX) })
    }

    /// The strike nearest to the expiry, ns before it.
    pub fn nearest(&self, phase: u64) -> Option<i64> {
        let phase = phase % self.every_ns;
        if phase <= self.before_ns && phase <= self.every_ns - phase {
            return Some(phase as i64);
        }
        let after = self.every_ns - phase;
        match (phase <= self.before_ns, after <= self.after_ns) {
            (_, true) => Some(-(after as i64)),
            (true, false) => Some(phase as i64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strikes_are_those_of_the_phase_inside_of_the_window() {
        let axis = Axis { every_ns: 1000, before_ns: 350, after_ns: 120, step_ns: 10 };
        assert_eq!(axis.strikes(0), Some(Strikes { first_ns: 0, times: 1 }));
        assert_eq!(axis.strikes(350), Some(Strikes { first_ns: -350, times: 1 }));
        assert_eq!(axis.strikes(351), None);
        assert_eq!(axis.strikes(880), Some(Strikes { first_ns: 120, times: 1 }));
        assert_eq!(axis.strikes(879), None);
        // A period shorter than the window: all of its strikes.
        let often = Axis { every_ns: 100, ..axis };
        assert_eq!(often.strikes(50), Some(Strikes { first_ns: -350, times: 5 }));
        assert_eq!(often.span(), 100);
        for (axis, phases) in [(axis, 1000), (often, 100)] {
            for phase in 0..phases {
                let every = axis.every_ns as i64;
                let window = -(axis.before_ns as i64)..=axis.after_ns as i64;
                let all: Vec<i64> = (-10..10)
                    .map(|k| k * every - phase as i64)
                    .filter(|at| window.contains(at))
                    .collect();
                let strikes = axis.strikes(phase).map_or(Vec::new(), |s| {
                    (0..i64::from(s.times)).map(|k| s.first_ns + k * every).collect()
                });
                assert_eq!(strikes, all, "{phase}");
            }
        }
    }

    #[test]
    fn places_run_from_the_latest_to_the_earliest_beginning() {
        let axis = Axis { every_ns: 1000, before_ns: 350, after_ns: 120, step_ns: 10 };
        assert_eq!(axis.span(), 470);
        for place in 0..axis.span() {
            let strikes = axis.strikes(axis.phase(place)).unwrap();
            assert_eq!(strikes, Strikes { first_ns: 120 - place as i64, times: 1 });
            assert_eq!(axis.nearest(axis.phase(place)), Some(place as i64 - 120));
        }
        assert_eq!(axis.nearest(500), None);
    }

    #[test]
    fn axes_look_back_as_far_as_all_faults_together_can_reach() {
        let fault = Input { ns: 30_000, every_ns: 1_000_000, ..Input::default() };
        let load = Input { kind: InputKind::Load, ..Input::default() };
        let axes = axes(&[fault.clone(), load, fault], &[30_000, 400_000, 30_000]);
        assert_eq!(axes[0].before_ns, 120_000);
        assert_eq!(axes[0].step_ns, 12_000);
        assert_eq!(axes[1].before_ns, 460_000);
        assert_eq!(axes[1].every_ns, axes[1].span());
    }
}
