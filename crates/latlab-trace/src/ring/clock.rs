//! From a page's time stamps to the trace's time.
//!
//! Order of the corrections, as libtracecmd applies them: guest to host
//! (`TIME_SHIFT`), then cycles to nanoseconds (`TSC2NSEC`), then the constant
//! offsets (`DATE`, `OFFSET`).

use crate::TraceFile;
use crate::file::{TimeShiftCpu, Tsc};

/// What to do to one CPU's time stamps.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeFix {
    add: u64,
    rare: Option<Box<Rare>>,
}

#[derive(Clone, Debug)]
struct Rare {
    shift: Option<(TimeShiftCpu, bool)>,
    tsc: Option<Tsc>,
}

impl TimeFix {
    pub fn new(file: &TraceFile<'_>, cpu: u32) -> Self {
        let o = &file.options;
        let shift = o.time_shift.as_ref().and_then(|s| {
            // One entry may stand for all CPUs.
            let entry = s.cpus.get(cpu as usize).or(if s.cpus.len() == 1 {
                s.cpus.first()
            } else {
                None
            })?;
            (!entry.times.is_empty()).then(|| (entry.clone(), s.interpolate))
        });
        let rare =
            (shift.is_some() || o.tsc.is_some()).then(|| Box::new(Rare { shift, tsc: o.tsc }));
        Self { add: o.ts_offset as u64, rare }
    }

    #[inline]
    pub fn apply(&self, time: u64) -> u64 {
        match &self.rare {
            None => time.wrapping_add(self.add),
            Some(rare) => rare.apply(time).wrapping_add(self.add),
        }
    }

    /// The smallest raw time stamp that may come to `time` or later; 0 where that cannot be told.
    pub fn lowest_raw(&self, time: u64) -> u64 {
        if self.rare.is_some() { 0 } else { time.saturating_sub(self.add) }
    }
    /// Whether corrections are a constant, so that order is kept.
    pub fn is_constant(&self) -> bool {
        self.rare.is_none()
    }
}

impl Rare {
    #[cold]
    fn apply(&self, mut time: u64) -> u64 {
        if let Some((shift, interpolate)) = &self.shift {
            time = shifted(shift, *interpolate, time);
        }
        if let Some(tsc) = self.tsc {
            time = ((u128::from(time) * u128::from(tsc.mult)) >> tsc.shift) as u64;
        }
        time
    }
}

/// Guest time to host time by the last correction that holds at `time`.
fn shifted(cpu: &TimeShiftCpu, interpolate: bool, time: u64) -> u64 {
    let n = cpu.times.len();
    let after = cpu.times.partition_point(|t| *t <= time);
    let at = after.saturating_sub(1).min(n - 1);
    let offset = if interpolate && after > 0 && after < n {
        between(cpu, at, time)
    } else {
        i128::from(cpu.offsets[at])
    };
    let scaling = cpu.scaling.get(at).copied().unwrap_or(1);
    let scaled = if scaling > 1 {
        let fraction = cpu.fraction.get(at).copied().unwrap_or(0).min(127) as u32;
        (u128::from(time) * u128::from(scaling)) >> fraction
    } else {
        u128::from(time)
    };
    (scaled as i128).wrapping_add(offset) as u64
}

/// The offset on the line between two corrections.
fn between(cpu: &TimeShiftCpu, at: usize, time: u64) -> i128 {
    let (t0, t1) = (i128::from(cpu.times[at]), i128::from(cpu.times[at + 1]));
    let (o0, o1) = (i128::from(cpu.offsets[at]), i128::from(cpu.offsets[at + 1]));
    if t1 <= t0 {
        return o0;
    }
    // Both factors fit 65 bits.
    o0 + ((i128::from(time) - t0) as f64 * ((o1 - o0) as f64 / (t1 - t0) as f64)) as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_hold_from_their_time_on() {
        let cpu = TimeShiftCpu {
            times: vec![100, 200],
            offsets: vec![10, -20],
            scaling: vec![1, 1],
            fraction: vec![],
        };
        assert_eq!(shifted(&cpu, false, 50), 60);
        assert_eq!(shifted(&cpu, false, 150), 160);
        assert_eq!(shifted(&cpu, true, 150), 145);
        assert_eq!(shifted(&cpu, true, 300), 280);
    }

    #[test]
    fn cycles_become_nanoseconds_without_overflow() {
        let rare = Rare { shift: None, tsc: Some(Tsc { mult: 1 << 31, shift: 32, offset: 9 }) };
        assert_eq!(rare.apply(u64::MAX), u64::MAX >> 1);
    }
}
