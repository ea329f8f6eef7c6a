//! Output of tools that measure OS noise: `rtla osnoise top` (and `rtla hwnoise`), rt-tests' `oslat` and
//! `hwlatdetect`.
//!
//! The counts by kind of `rtla` are those of the sources within interruptions, as the osnoise
//! tracer counts them; `HW` are interruptions outside of the kernel. `hwlatdetect` counts these alone.

use latlab_model::noise::{CpuNoise, NoiseDetail, NoiseKind};
use latlab_stats::histogram::Histogram;
use std::io::{self, Write};

/// Buckets of `oslat`, 1 µs each; the last one has everything above.
const BUCKETS: u64 = 32;

/// The table of `rtla osnoise top` (kernel documentation, rtla-osnoise-top.rst).
///
/// # Errors
/// The writer's.
pub fn rtla(d: &NoiseDetail, seconds: u64, out: &mut impl Write) -> io::Result<()> {
    let days = seconds / 86_400;
    writeln!(out, "{:>42}Operating System Noise", "")?;
    let clock = super::clock(seconds % 86_400);
    writeln!(out, "duration: {days:3} {clock} | time is in us")?;
    writeln!(
        out,
        "CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI          IRQ      Softirq       Thread"
    )?;
    for c in &d.cpus {
        // As rtla does: integers, the last digit cut off.
        let looped = u128::from(c.looped_ns.max(1));
        let free = u128::from(c.looped_ns.saturating_sub(c.lost_ns));
        let available = free * 10_000_000 / looped;
        write!(
            out,
            "{:3} #{:<6} {:12} {:12} ",
            c.cpu.0,
            c.windows,
            c.looped_ns / 1000,
            c.lost_ns / 1000
        )?;
        write!(
            out,
            "  {:3}.{:05} {:11} {:12} ",
            available / 100_000,
            available % 100_000,
            c.window_ns_max / 1000,
            c.interruptions.max / 1000
        )?;
        let kinds = [
            NoiseKind::OutsideKernel,
            NoiseKind::Nmi,
            NoiseKind::Interrupt,
            NoiseKind::Softirq,
            NoiseKind::Thread,
        ];
        for kind in kinds {
            write!(out, "{:12} ", c.of_kind(kind).1)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The rows of `oslat` (rt-tests 2.x) behind its line `Test completed.`; the frequency is that of the
/// clock, which counts ns.
///
/// # Errors
/// The writer's.
pub fn oslat(d: &NoiseDetail, out: &mut impl Write) -> io::Result<()> {
    let mut row = |label: &str, cell: &dyn Fn(&CpuNoise) -> String, end: &str| {
        write!(out, "{label:>12}:\t")?;
        d.cpus.iter().try_for_each(|c| write!(out, " {}", cell(c)))?;
        writeln!(out, "{end}")
    };
    row("Core", &|c| c.cpu.to_string(), "")?;
    row("Counter Freq", &|_| "1000".into(), " (Mhz)")?;
    for bucket in 1..=BUCKETS {
        let (from, to) = ((bucket - 1) * 1000, bucket * 1000);
        let to = if bucket == BUCKETS { u64::MAX } else { to };
        let end = if bucket == BUCKETS { " (including overflows)" } else { "" };
        row(&format!("{bucket:03} (us)"), &|c| between(&c.distances, from, to).to_string(), end)?;
    }
    let us = |ns: u64| ns.div_ceil(1000).max(1);
    row("Minimum", &|c| us(c.distances.min).to_string(), " (us)")?;
    let mean = |c: &CpuNoise| c.distances.mean().unwrap_or(0.0) / 1e3;
    row("Average", &|c| format!("{:.3}", mean(c)), " (us)")?;
    row("Maximum", &|c| us(c.distances.max).to_string(), " (us)")?;
    row("Max-Min", &|c| (us(c.distances.max) - us(c.distances.min)).to_string(), " (us)")?;
    row("Duration", &|c| format!("{:.3}", c.looped_ns as f64 / 1e9), " (sec)")
}

/// Values from `from` to below `to`.
fn between(h: &Histogram, from: u64, to: u64) -> u64 {
    h.buckets.iter().filter(|&&(v, _)| v >= from && v < to).map(|b| b.1).sum()
}

/// The text of `hwlatdetect` (rt-tests 2.x), of the interruptions outside of the kernel.
///
/// # Errors
/// The writer's.
pub fn hwlatdetect(d: &NoiseDetail, seconds: u64, out: &mut impl Write) -> io::Result<()> {
    let us = |ns: u64| ns / 1000;
    let cpus: Vec<u32> = d.cpus.iter().map(|c| c.cpu.0).collect();
    writeln!(out, "hwlatdetect:  test duration {seconds} seconds")?;
    writeln!(out, "   detector: latlab")?;
    writeln!(out, "   parameters:")?;
    writeln!(out, "        CPU list:          {}", latlab_model::cpulist::format(&cpus))?;
    writeln!(out, "        Latency threshold: {}us", us(d.threshold_ns))?;
    writeln!(out, "        Sample window:     {}us", us(d.period_ns))?;
    writeln!(out, "        Sample width:      {}us", us(d.runtime_ns))?;
    writeln!(out, "     Non-sampling period:  {}us", us(d.period_ns.saturating_sub(d.runtime_ns)))?;
    writeln!(out, "        Output File:       None\n\nStarting test\ntest finished")?;
    let outside = d.cpus.iter().flat_map(|c| &c.sources);
    let outside = outside.filter(|s| s.kind == NoiseKind::OutsideKernel);
    let (mut count, mut longest) = (0, 0);
    for s in outside {
        (count, longest) = (count + s.count, longest.max(s.time.max));
    }
    match count {
        0 => writeln!(out, "Max Latency: Below threshold")?,
        _ => writeln!(out, "Max Latency: {}us", us(longest))?,
    }
    writeln!(out, "Samples recorded: {count}\nSamples exceeding threshold: {count}")?;
    match d.smi {
        Some(n) => writeln!(out, "SMIs during run: {n}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::noise::NoiseSource;
    use latlab_model::units::CpuId;

    fn detail() -> NoiseDetail {
        let cpu = |cpu, gaps: &[u64]| CpuNoise {
            cpu: CpuId(cpu),
            windows: 2,
            looped_ns: 2_000_000_000,
            lost_ns: gaps.iter().sum(),
            window_ns_max: gaps.iter().sum(),
            interruptions: Histogram::of(gaps.iter().copied()),
            distances: Histogram::of(gaps.iter().copied().chain([40, 40, 41])),
            sources: vec![NoiseSource {
                kind: NoiseKind::Interrupt,
                name: "local_timer".into(),
                count: gaps.len() as u64,
                total_ns: gaps.iter().sum(),
                time: Histogram::of(gaps.iter().copied()),
            }],
            ..CpuNoise::default()
        };
        let cpus = vec![cpu(0, &[7_500, 33_000]), cpu(1, &[6_000])];
        NoiseDetail { threshold_ns: 5_000, cpus, traced: true, ..NoiseDetail::default() }
    }

    fn text(f: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        f(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rtla_has_a_row_a_cpu_in_microseconds() {
        let text = text(|out| rtla(&detail(), 62, out));
        let words: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["duration:", "0", "00:01:02", "|", "time", "is", "in", "us"]);
        let first = ["0", "#2", "2000000", "40", "99.99797", "40", "33", "0", "0", "2", "0", "0"];
        assert_eq!(words[3], first);
    }

    #[test]
    fn oslat_counts_every_distance_once() {
        let text = text(|out| oslat(&detail(), out));
        assert!(text.contains("        Core:\t 0 1\n"), "{text}");
        assert!(text.contains("    008 (us):\t 1 0\n"), "{text}");
        assert!(text.contains("    032 (us):\t 1 0 (including overflows)\n"), "{text}");
        let rows =
            text.lines().filter(|l| l.trim_start().starts_with(|c: char| c.is_ascii_digit()));
        let first: u64 =
            rows.map(|l| l.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(first, 5);
    }

    #[test]
    fn hwlatdetect_has_only_what_is_outside_of_the_kernel() {
        let text = text(|out| hwlatdetect(&detail(), 10, out));
        assert!(text.contains("Max Latency: Below threshold\nSamples recorded: 0\n"), "{text}");
    }
}
