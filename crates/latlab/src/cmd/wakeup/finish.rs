//! What is printed at the end, in the format that was asked for.

use crate::cli::wakeup::{Config, Format};
use crate::outcome::HintExt;
use crate::rundir;
use anyhow::Context;
use latlab_model::finding::Note;
use latlab_model::run::Run;
use latlab_model::wakeup::result::WakeupResult;
use latlab_report::dialect::{cyclictest, rtla, xenomai};
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Prints the result to stdout.
///
/// # Errors
/// The writer's.
pub fn print(
    asked: &Config,
    json: bool,
    run: &Run,
    result: &WakeupResult,
    mut out: &mut dyn Write,
) -> anyhow::Result<()> {
    if asked.samples_on_stdout() {
        return Ok(());
    }
    match asked.format {
        Format::Latlab if json => {
            crate::output::json(run, out)?;
        }
        Format::Latlab => crate::output::text(run, out)?,
        Format::Cyclictest if json => cyclictest_json(asked, run, result, &mut out)?,
        Format::Cyclictest => {
            let held = |n: &Note| n.id() == Some("wakeup.dma-latency-held");
            let held = result.held.iter().any(held);
            if let Some(us) = asked.measure.dma_latency_us.filter(|_| held) {
                writeln!(out, "# /dev/cpu_dma_latency set to {us}us")?;
            }
            let lines = asked.quiet && !asked.verbose;
            cyclictest::end(result, &options(asked, lines), &mut out)?;
        }
        Format::Rtla => rtla::histogram(result, &mut out)?,
        Format::Xenomai => xenomai::end(result, &mut out)?,
    }
    Ok(())
}

fn options(asked: &Config, lines: bool) -> cyclictest::Options {
    cyclictest::Options {
        nanoseconds: asked.nanoseconds,
        lines,
        total: asked.histogram_total,
        histogram_file: asked.histogram_file.is_some(),
    }
}

fn cyclictest_json(
    asked: &Config,
    run: &Run,
    result: &WakeupResult,
    out: &mut impl Write,
) -> io::Result<()> {
    let (start, end) = (rfc_2822(&run.started), rfc_2822(run.ended.as_deref().unwrap_or("")));
    let wrapper = cyclictest::Wrapper {
        command_line: &run.command_line.join(" "),
        version: &run.latlab_version,
        start: &start,
        end: &end,
        return_code: 0,
        machine: &run.machine,
        nanoseconds: asked.nanoseconds,
    };
    cyclictest::json(result, &wrapper, out)
}

/// Whether `--histfile` and `--json-file` can be written, told before the measurement.
///
/// # Errors
/// When one cannot; the option is named.
pub fn check_files(asked: &Config) -> anyhow::Result<()> {
    let files = [("--histfile", &asked.histogram_file), ("--json-file", &asked.json_file)];
    for (option, path) in files {
        if let Some(path) = path {
            rundir::check_writable(path)
                .with_context(|| format!("{option} {}", path.display()))
                .hint(rundir::WRITABLE)?;
        }
    }
    Ok(())
}

/// Writes `--histfile` and `--json-file`, each whole or not at all.
///
/// # Errors
/// The files'.
pub fn write_files(asked: &Config, run: &Run, result: &WakeupResult) -> anyhow::Result<()> {
    if let Some(path) = &asked.histogram_file {
        rundir::write_asked(path, "--histfile", |mut out| match asked.format {
            Format::Xenomai => xenomai::plot(result, &mut out),
            _ => cyclictest::histogram(result, &options(asked, false), &mut out).map(drop),
        })?;
    }
    if let Some(path) = &asked.json_file {
        rundir::write_asked(path, "--json-file", |mut out| {
            cyclictest_json(asked, run, result, &mut out)
        })?;
    }
    Ok(())
}

/// `2026-11-21T20:43:35Z` as `Sat, 21 Nov 2026 20:43:35 +0000`; what is no such time stays as it is.
fn rfc_2822(rfc_3339: &str) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parsed = humantime::parse_rfc3339(rfc_3339).ok();
    let since = parsed.and_then(|t: SystemTime| t.duration_since(UNIX_EPOCH).ok());
    let parts = since.and_then(|since: Duration| {
        let (date, time) = rfc_3339.split_once('T')?;
        let mut date = date.split('-');
        let (year, month, day) = (date.next()?, date.next()?, date.next()?);
        let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
        let weekday = DAYS[(since.as_secs() / 86_400 % 7) as usize];
        Some(format!("{weekday}, {day} {month} {year} {} +0000", time.get(..8)?))
    });
    parts.unwrap_or_else(|| rfc_3339.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_in_mail() {
        assert_eq!(rfc_2822("2026-11-21T20:43:35Z"), "Sat, 21 Nov 2026 20:43:35 +0000");
        assert_eq!(rfc_2822("1970-01-01T00:00:00Z"), "Thu, 01 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc_2822("soon"), "soon");
    }
}
