//! The table of `rtla timerlat hist` (kernel documentation, rtla-timerlat-hist.rst).
//!
//! Its columns are `IRQ-`, `Thr-` and `Usr-` and a CPU; a measurement here has one
//! of the three, by its level. Buckets are 1 µs wide; empty ones are left out, as there.

use latlab_model::wakeup::config::Level;
use latlab_model::wakeup::result::{ThreadResult, WakeupResult};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The whole table.
///
/// # Errors
/// The writer's.
pub fn histogram(result: &WakeupResult, out: &mut impl Write) -> io::Result<()> {
    let seconds = result.duration_ns / 1_000_000_000;
    writeln!(out, "# RTLA timerlat histogram")?;
    writeln!(out, "# Time unit is microseconds (us)")?;
    writeln!(out, "# Duration: {:3} {}", seconds / 86_400, super::clock(seconds % 86_400))?;
    let kind = match result.config.level {
        Level::User => "Usr",
        Level::Irq => "IRQ",
        Level::Kernel => "Thr",
    };
    write!(out, "Index")?;
    for t in &result.threads {
        write!(out, "   {kind}-{:03}", t.cpu.map_or(t.index as u32, |c| c.0))?;
    }
    writeln!(out)?;
    rows(&result.threads, out)?;
    let each = |of: &dyn Fn(&ThreadResult) -> Option<u64>| -> Vec<Option<u64>> {
        result.threads.iter().map(of).collect()
    };
    let counted = |t: &ThreadResult, v: f64| (t.wakeups > 0).then_some((v / 1e3) as u64);
    let over = |t: &ThreadResult| t.us_histogram.as_ref().map(|h| h.overflows);
    figures("over:", &each(&over), out)?;
    figures("count:", &each(&|t| Some(t.wakeups)), out)?;
    figures("min:", &each(&|t| counted(t, t.latency.min as f64)), out)?;
    figures("avg:", &each(&|t| counted(t, t.latency.mean().unwrap_or(0.0))), out)?;
    figures("max:", &each(&|t| counted(t, t.latency.max as f64)), out)?;
    all(result, kind, out)
}

/// One row for each microsecond in which there is anything.
fn rows(threads: &[ThreadResult], out: &mut impl Write) -> io::Result<()> {
    let mut rows: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (i, t) in threads.iter().enumerate() {
        for &(us, n) in t.us_histogram.iter().flat_map(|h| &h.buckets) {
            rows.entry(us).or_insert_with(|| vec![0; threads.len()])[i] = n;
        }
    }
    for (us, counts) in rows {
        write!(out, "{us:<6}")?;
        cells(counts.into_iter().map(Some), out)?;
    }
    Ok(())
}

fn figures(name: &str, values: &[Option<u64>], out: &mut impl Write) -> io::Result<()> {
    write!(out, "{name:<6}")?;
    cells(values.iter().copied(), out)
}

/// Cells nine wide with a space between; a dash where there is no figure.
fn cells(values: impl Iterator<Item = Option<u64>>, out: &mut impl Write) -> io::Result<()> {
    for value in values {
        match value {
            Some(v) => write!(out, "{v:9} ")?,
            None => write!(out, "{:>9} ", "-")?,
        }
    }
    writeln!(out)
}

fn all(result: &WakeupResult, kind: &str, out: &mut impl Write) -> io::Result<()> {
    let h = result.all_wakeups();
    let us = |v: f64| (h.count > 0).then_some((v / 1e3) as u64);
    writeln!(out, "ALL:  {kind:>9}")?;
    figures("count:", &[Some(h.count)], out)?;
    figures("min:", &[us(h.min as f64)], out)?;
    figures("avg:", &[us(h.mean().unwrap_or(0.0))], out)?;
    figures("max:", &[us(h.max as f64)], out)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_table_has_the_shape_of_rtlas() {
        let mut out = Vec::new();
        let mut result = sample();
        result.duration_ns = 600_000_000_000;
        histogram(&result, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "# RTLA timerlat histogram",
                "# Time unit is microseconds (us)",
                "# Duration:   0 00:10:00",
                "Index   Usr-000   Usr-001",
                "1           190         0",
                "2             7       140",
                "over:         3         3",
                "count:      200       143",
                "min:         16        18",
                "avg:         30        33",
                "max:        341        87",
                "ALL:        Usr",
                "count:      343",
                "min:         16",
                "avg:         31",
                "max:        341",
            ]
        );
    }
}
