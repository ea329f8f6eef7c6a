//! The lines of Xenomai's `latency` test: `RTT|`, `RTH|`, `RTD|`, `RTS|`, and its histogram for gnuplot (`-g`).
//!
//! All threads count as one task. Overruns are missed periods. There are no
//! mode switches without a co-kernel: `msw` is always 0.

use super::clock;
use latlab_model::wakeup::config::{Level, WakeupConfig};
use latlab_model::wakeup::result::WakeupResult;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// The head of a column is repeated after so many lines of data.
pub const LINES_A_HEAD: u64 = 21;

/// What happened in one second, or so far; times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Smallest latency of this second.
    pub min_ns: u64,
    /// Mean latency of this second.
    pub avg_ns: u64,
    /// Largest latency of this second.
    pub max_ns: u64,
    /// Missed periods so far.
    pub overruns: u64,
    /// Smallest latency so far.
    pub best_ns: u64,
    /// Largest latency so far.
    pub worst_ns: u64,
}

fn mode(config: &WakeupConfig) -> &'static str {
    match config.level {
        Level::User => "periodic user-mode task",
        Level::Kernel => "in-kernel periodic task",
        Level::Irq => "in-kernel timer handler",
    }
}

/// What is said before the first line.
///
/// # Errors
/// The writer's.
pub fn head(config: &WakeupConfig, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "== Sampling period: {} us", config.interval_ns / 1_000)?;
    writeln!(out, "== Test mode: {}", mode(config))?;
    writeln!(out, "== All results in microseconds\nwarming up...")
}

/// The time and the heads of the columns.
///
/// # Errors
/// The writer's.
pub fn columns(config: &WakeupConfig, seconds: u64, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "RTT|  {}  ({}, {} us period, priority {})",
        clock(seconds),
        mode(config),
        config.interval_ns / 1_000,
        config.priority
    )?;
    writeln!(out, "RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst")
}

/// One second.
///
/// # Errors
/// The writer's.
pub fn data(s: &Second, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "RTD|{}|{}|{}|{:8}|{:6}|{}|{}",
        us(s.min_ns),
        us(s.avg_ns),
        us(s.max_ns),
        s.overruns,
        0,
        us(s.best_ns),
        us(s.worst_ns)
    )
}

/// The end: figures over all of it.
///
/// # Errors
/// The writer's.
pub fn end(result: &WakeupResult, out: &mut impl Write) -> io::Result<()> {
    let h = result.all_wakeups();
    let seconds = result.duration_ns / 1_000_000_000;
    let asked = result.config.duration_ns.map_or(seconds, |ns| ns / 1_000_000_000);
    writeln!(
        out,
        "---|-----------|-----------|-----------|--------|------|-------------------------"
    )?;
    writeln!(
        out,
        "RTS|{}|{}|{}|{:8}|{:6}|    {}/{}",
        us(h.min),
        us(h.mean().unwrap_or(0.0) as u64),
        us(h.max),
        result.missed_periods(),
        0,
        clock(seconds),
        clock(asked)
    )
}

/// The histogram as `latency -g FILE` writes it, with buckets of 1 µs: the middle of each in µs and its count plus one,
/// so that a logarithmic axis can show it, between the ends of the first and the last one. A bucket without values is
/// there if one beside it has some, so that a line through the points falls to 1.
///
/// # Errors
/// The writer's.
pub fn plot(result: &WakeupResult, out: &mut impl Write) -> io::Result<()> {
    let (h, config) = (result.all_wakeups(), &result.config);
    writeln!(
        out,
        "# {} ({}, {} us period, priority {})\n\
         # ----lat min|----lat avg|----lat max|-overrun|---msw|\n\
         # {}|{}|{}|{:8}|{:6}|",
        clock(result.duration_ns / 1_000_000_000),
        mode(config),
        config.interval_ns / 1_000,
        config.priority,
        us(h.min),
        us(h.mean().unwrap_or(0.0) as u64),
        us(h.max),
        result.missed_periods(),
        0
    )?;
    let mut counts = BTreeMap::<u64, u64>::new();
    for &(low, n) in &h.buckets {
        *counts.entry(low / 1_000).or_default() += n;
    }
    let (Some(first), Some(last)) = (counts.keys().next(), counts.keys().last()) else {
        return Ok(());
    };
    let shown: BTreeSet<u64> = counts.keys().flat_map(|us| us.saturating_sub(1)..=us + 1).collect();
    writeln!(out, "{first} 1")?;
    for us in shown.range(*first..=*last) {
        writeln!(out, "{us}.5 {}", counts.get(us).unwrap_or(&0) + 1)?;
    }
    writeln!(out, "{} 1", last + 1)
}

fn us(ns: u64) -> String {
    format!("{:11.3}", ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_lines_have_the_shape_of_xenomais() {
        let mut result = sample();
        result.duration_ns = 10_900_000_000;
        result.config.duration_ns = Some(10_000_000_000);
        let mut out = Vec::new();
        head(&result.config, &mut out).unwrap();
        columns(&result.config, 1, &mut out).unwrap();
        let second = Second {
            min_ns: 583,
            avg_ns: 750,
            max_ns: 1_500,
            overruns: 2,
            best_ns: 583,
            worst_ns: 10_004_250,
        };
        data(&second, &mut out).unwrap();
        end(&result, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "== Sampling period: 1000 us\n\
             == Test mode: periodic user-mode task\n\
             == All results in microseconds\n\
             warming up...\n\
             RTT|  00:00:01  (periodic user-mode task, 1000 us period, priority 80)\n\
             RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst\n\
             RTD|      0.583|      0.750|      1.500|       2|     0|      0.583|  10004.250\n\
             ---|-----------|-----------|-----------|--------|------|-------------------------\n\
             RTS|     16.400|     31.754|    341.000|       0|     0|    00:00:10/00:00:10\n"
        );
    }
}
