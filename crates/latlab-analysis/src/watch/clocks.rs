//! Suspended machines and steps of the wall clock, from readings of three clocks.

/// A step of the wall clock that counts, ns. Slewing (adjtime(3)) stays below 0.5 ms a second.
const STEP_NS: i64 = 500_000_000;
/// A suspension that counts, ns: less lies between two readings of clocks one after the other.
const SUSPENDED_NS: u64 = 50_000_000;

/// One reading of all clocks, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// `CLOCK_MONOTONIC`: stands still while the machine is suspended.
    pub monotonic: u64,
    /// `CLOCK_BOOTTIME`: goes on.
    pub boottime: u64,
    /// `CLOCK_REALTIME`: may be set.
    pub realtime: u64,
}

/// What happened between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Time, suspension excluded, ns.
    pub monotonic_ns: u64,
    /// Suspended, ns.
    pub suspended_ns: u64,
    /// The wall clock was set by so much, ns.
    pub step_ns: Option<i64>,
}

/// What happened between two readings.
pub fn passed(before: Reading, now: Reading) -> Passed {
    let monotonic_ns = now.monotonic.saturating_sub(before.monotonic);
    let boottime_ns = now.boottime.saturating_sub(before.boottime);
    let suspended_ns = boottime_ns.saturating_sub(monotonic_ns);
    let difference = now.realtime as i128 - before.realtime as i128 - i128::from(boottime_ns);
    let step =
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX });
    Passed {
        monotonic_ns,
        suspended_ns: if suspended_ns >= SUSPENDED_NS { suspended_ns } else { 0 },
        step_ns: (step.unsigned_abs() >= STEP_NS.unsigned_abs()).then_some(step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(monotonic: u64, boottime: u64, realtime: u64) -> Reading {
        Reading { monotonic, boottime, realtime }
    }

    #[test]
    fn suspension_and_steps_are_told_apart() {
        let before = at(10 * S, 12 * S, 1_000 * S);
        let still = Passed { monotonic_ns: S, suspended_ns: 0, step_ns: None };
        assert_eq!(passed(before, at(11 * S, 13 * S, 1_001 * S + 400_000)), still);
        let asleep = passed(before, at(11 * S, 43 * S, 1_031 * S));
        assert_eq!(asleep, Passed { suspended_ns: 30 * S, ..still });
        let set = passed(before, at(11 * S, 13 * S, 901 * S));
        assert_eq!(set, Passed { step_ns: Some(-(100 * S as i64)), ..still });
        assert_eq!(
            passed(before, at(9 * S, 11 * S, 999 * S)).monotonic_ns,
            0,
            "clocks of no kernel"
        );
    }
}
