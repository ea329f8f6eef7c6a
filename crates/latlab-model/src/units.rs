//! Quantities: integer nanoseconds and the small identifiers of a kernel.
//!
//! A time stamp belongs to one clock. [`MonotonicNs`] and [`TraceNs`] are
//! different types because ftrace's clock (`trace_clock`) is not
//! `CLOCK_MONOTONIC` unless a recording says that it is.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// A duration in nanoseconds; never negative.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Whole microseconds to nanoseconds; saturates.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// Whole milliseconds to nanoseconds; saturates.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// Microseconds, for display and derived statistics.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
    /// Seconds, for display and derived statistics.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Self;
    /// Saturates at zero: a duration is never negative.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Prints with the unit that keeps three to four digits: `87 ns`, `12.4 µs`, `3.02 ms`, `1.50 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_ns(self.0 as f64))
    }
}

/// A duration in nanoseconds with the unit that keeps three to four digits.
/// Negative and fractional values (derived statistics) are fine.
pub fn format_ns(ns: f64) -> String {
    let magnitude = ns.abs();
    let (value, unit) = if magnitude < 1e3 {
        (ns, "ns")
    } else if magnitude < 1e6 {
        (ns / 1e3, "µs")
    } else if magnitude < 1e9 {
        (ns / 1e6, "ms")
    } else {
        (ns / 1e9, "s")
    };
    let digits = match value.abs() {
        _ if unit == "ns" && value.fract() == 0.0 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

macro_rules! timestamp {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Time from `earlier` to `self`; zero if `earlier` is later.
            pub fn since(self, earlier: Self) -> Nanos {
                Nanos(self.0.saturating_sub(earlier.0))
            }
            /// Signed distance `self - other` in nanoseconds; saturates.
            pub fn signed_since(self, other: Self) -> i64 {
                i64::try_from(i128::from(self.0) - i128::from(other.0))
                    .unwrap_or(if self.0 > other.0 { i64::MAX } else { i64::MIN })
            }
        }

        impl Add<Nanos> for $name {
            type Output = Self;
            fn add(self, d: Nanos) -> Self {
                Self(self.0.saturating_add(d.0))
            }
        }
    };
}

timestamp! {
    /// Nanoseconds of `CLOCK_MONOTONIC` (since an unspecified start, usually boot; excludes suspend).
    MonotonicNs
}
timestamp! {
    /// Nanoseconds of the clock that a trace was recorded with; the trace names it (`local`, `mono`, …).
    TraceNs
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A logical CPU as the kernel numbers it.
    CpuId, u32
}
impl CpuId {
    /// Its bit in a mask of the first 64 CPUs; 0 for the others.
    pub fn bit(self) -> u64 {
        1u64.checked_shl(self.0).unwrap_or(0)
    }
}
id! {
    /// A thread id (the kernel's `pid` of a task; `0` is the idle task of each CPU).
    Tid, i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_three_digits() {
        assert_eq!(Nanos(0).to_string(), "0 ns");
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos(1_000).to_string(), "1.00 µs");
        assert_eq!(Nanos(12_345).to_string(), "12.3 µs");
        assert_eq!(Nanos(1_234_567_890).to_string(), "1.23 s");
        assert_eq!(format_ns(-1500.0), "-1.50 µs");
    }

    #[test]
    fn time_differences_never_wrap() {
        assert_eq!(TraceNs(5).since(TraceNs(9)), Nanos(0));
        assert_eq!(TraceNs(5).signed_since(TraceNs(9)), -4);
        assert_eq!(TraceNs(u64::MAX).signed_since(TraceNs(0)), i64::MAX);
    }
}
