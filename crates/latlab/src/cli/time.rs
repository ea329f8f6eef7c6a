//! Times on the command line: `10s`, `5m`, `1.5`. A bare number is seconds, as cyclictest's `-D` has it.

use crate::outcome::HintExt;
use anyhow::anyhow;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A time with its unit.
///
/// # Errors
/// One that says what a time is.
pub fn with_unit(text: &str) -> anyhow::Result<Duration> {
    humantime::parse_duration(text.trim())
        .map_err(|_| anyhow!("not a time with its unit (ns, us, ms, s, m, h, d)"))
}

/// `100us`, `2ms`, in ns; a bare number is µs.
///
/// # Errors
/// One sentence that names the option.
pub fn micros_ns(option: &str, text: &str) -> anyhow::Result<u64> {
    let duration = match text.trim().parse::<u64>() {
        Ok(us) => Duration::from_micros(us),
        Err(_) => with_unit(text)
            .map_err(|e| anyhow!("{option} {text}: {e}"))
            .hint("100us, 2ms, or a number of µs")?,
    };
    u64::try_from(duration.as_nanos()).map_err(|_| anyhow!("{option} {text}: too long"))
}

/// A time; a bare number is seconds.
///
/// # Errors
/// As [`with_unit`].
pub fn seconds(text: &str) -> anyhow::Result<Duration> {
    match text.trim().parse::<f64>() {
        Ok(seconds) => {
            Duration::try_from_secs_f64(seconds).map_err(|_| anyhow!("not a number of seconds"))
        }
        Err(_) => with_unit(text),
    }
}

/// A time within bounds, which `said` names.
pub fn seconds_within(
    text: &str,
    bounds: RangeInclusive<Duration>,
    said: &'static str,
) -> anyhow::Result<Duration> {
    let time = seconds(text)?;
    if bounds.contains(&time) { Ok(time) } else { Err(anyhow!(said)) }
}

/// A time stamp in seconds with up to nine decimals (`923.632241`), in ns.
pub fn timestamp_ns(text: &str) -> Option<u64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let ns: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_are_read_as_they_are_printed() {
        assert_eq!(timestamp_ns("923.632241"), Some(923_632_241_000));
        assert_eq!(timestamp_ns("5"), Some(5_000_000_000));
        for wrong in ["-1", "1.2.3", "1e3", "99999999999999999999", ""] {
            assert_eq!(timestamp_ns(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_bare_number_is_seconds_and_nonsense_is_said() {
        assert_eq!(seconds("5").unwrap(), Duration::from_secs(5));
        assert_eq!(seconds("0.5").unwrap(), Duration::from_millis(500));
        assert_eq!(seconds("2m").unwrap(), Duration::from_secs(120));
        for wrong in ["-1", "nan", "inf", "1e30", "5 parsecs", "", "abc"] {
            let error = seconds(wrong).unwrap_err().to_string();
            assert!(error.starts_with("not a "), "{wrong}: {error}");
        }
    }
}
