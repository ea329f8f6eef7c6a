//! The output formats of other tools, so that scripts written for them go on working.
//!
//! Only the shape is theirs: fields, widths, keys. What a figure means is said
//! where it differs.

#[cfg(feature = "host")]
pub mod check;
pub mod cyclictest;
pub mod lat_mem_rd;
pub mod lava;
pub mod lmbench;
pub mod noise;
#[cfg(test)]
mod round_trip;
pub mod rtla;
pub mod xenomai;

/// A duration as `hh:mm:ss`.
fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use latlab_model::units::CpuId;
    use latlab_model::wakeup::result::{ThreadResult, UsHistogram, WakeupResult};
    use latlab_stats::histogram::Histogram;

    /// Two threads, as measured once with `cyclictest -q -p90 -t2`.
    pub fn sample() -> WakeupResult {
        let histogram = |count, min, max, mean: f64| Histogram {
            count,
            min,
            max,
            sum: mean * count as f64,
            buckets: Vec::new(),
        };
        let us = |buckets: &[(u32, u64)], overflow_cycles: &[u64]| UsHistogram {
            limit: 3,
            unit_ns: 1_000,
            buckets: buckets.to_vec(),
            overflows: 3,
            overflow_cycles: overflow_cycles.to_vec(),
        };
        let thread = |index, tid, priority, interval_ns, wakeups, last_ns| ThreadResult {
            index,
            tid,
            cpu: Some(CpuId(index as u32)),
            priority,
            interval_ns,
            wakeups,
            last_ns,
            ..ThreadResult::default()
        };
        let first = ThreadResult {
            node: Some(0),
            latency: histogram(200, 16_400, 341_000, 30_610.0),
            us_histogram: Some(us(&[(1, 190), (2, 7)], &[6, 103, 142])),
            ..thread(0, 20_238, 90, 1_000_000, 200, 23_100)
        };
        let second = ThreadResult {
            latency: histogram(143, 18_000, 87_900, 33_355.0),
            us_histogram: Some(us(&[(2, 140)], &[6, 9])),
            ..thread(1, 20_239, 3, 1_500_000, 143, 40_000)
        };
        WakeupResult { threads: vec![first, second], ..WakeupResult::default() }
    }

    #[test]
    fn a_duration_is_hours_minutes_seconds() {
        assert_eq!(super::clock(3_725), "01:02:05");
    }
}
