//! Clocks that are set while a timer runs: CLOCK_REALTIME, by which programs sleep to a time of day.
//!
//! `hrtimer_expire_entry` has the time of the timer's own clock. A clock that is set forward makes a timer due that was not,
//! and its time seems to have passed long before: so much of that is no delay of the machine's.

use latlab_model::units::TraceNs;

/// Clocks that are followed at most: CLOCK_REALTIME, CLOCK_TAI, CLOCK_BOOTTIME.
const CLOCKS: usize = 4;
/// Clocks nearer to the trace's are that one: the time is read a little before the event, ns.
const OTHER: u64 = 1_000_000;
/// A clock that shows so much more or less than before is another one, ns: CLOCK_TAI is 37 s before CLOCK_REALTIME.
const SAME: u64 = 10_000_000_000;
/// Smaller steps are the difference between reading the clock and the event, ns.
const STEP: i64 = 50_000;

/// What the clocks of timers showed when one expired last, less the trace's. The timers themselves are no help: that of
/// a sleep is on the stack, at another place each time.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockSteps {
    offsets: Vec<i64>,
}

impl ClockSteps {
    /// By how much a timer was late that was due at `due` and expires when its clock shows `now`, ns, without what the
    /// clock was set forward by since it was seen last.
    pub(super) fn late(&mut self, due: i64, now: i64, at: TraceNs) -> u64 {
        let late = u64::try_from(now.saturating_sub(due)).unwrap_or(0);
        let offset = now.saturating_sub(i64::try_from(at.0).unwrap_or(i64::MAX));
        if offset.unsigned_abs() < OTHER {
            return late;
        }
        let nearest = self.offsets.iter_mut().min_by_key(|o| o.abs_diff(offset));
        let Some(clock) = nearest.filter(|o| o.abs_diff(offset) < SAME) else {
            if self.offsets.len() < CLOCKS {
                self.offsets.push(offset);
            }
            return late;
        };
        let step = offset.saturating_sub(std::mem::replace(clock, offset));
        late.saturating_sub(if step > STEP { step.unsigned_abs() } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000_000;

    #[test]
    fn what_a_clock_was_set_forward_by_is_no_delay() {
        let mut clocks = ClockSteps::default();
        let mut at = |us: i64, offset_us: i64, late_us: i64| {
            let now = us * 1_000 + offset_us * 1_000 + DAY;
            clocks.late(now - late_us * 1_000, now, TraceNs(us as u64 * 1_000)) / 1_000
        };
        assert_eq!(at(1_000, 0, 15), 15);
        assert_eq!(at(2_000, 3, 400), 400, "a clock that runs a little faster, and a delay");
        assert_eq!(at(3_000, 10_003, 6_000), 0, "set forward by 10 ms, 4 ms before its time");
        assert_eq!(at(4_000, 10_000, 800), 800);
        assert_eq!(at(5_000, 0, 20), 20, "set back");
        assert_eq!(at(5_500, 37_000_000, 30), 30, "another clock");
        assert_eq!(at(6_000, 2_000, 1_500), 0);
    }

    #[test]
    fn the_clock_of_the_trace_is_never_set() {
        let mut clocks = ClockSteps::default();
        let mut at = |us: u64, read_us: u64| {
            let now = (read_us * 1_000) as i64;
            clocks.late(now - 300_000, now, TraceNs(us * 1_000)) / 1_000
        };
        assert_eq!((at(1_000, 800), at(2_000, 1_999)), (300, 300));
    }
}
