//! The lines of Xenomai's `latency` test: `RTT|`, `RTH|`, `RTD|`, `RTS|`.
//!
//! All threads count as one task. Overruns are missed periods. There are no
//! mode switches without a co-kernel: `msw` is always 0.

use super::clock;
use latlab_model::wakeup::config::{Level, WakeupConfig};
use latlab_model::wakeup::result::WakeupResult;
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
