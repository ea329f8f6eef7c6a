//! Times as they are typed: `10s`, `5m`, `1.5`. A bare number is seconds, as cyclictest's `-D` has it.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A time; a bare number is seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string()),
        Err(_) => humantime::parse_duration(text).map_err(|e| e.to_string()),
    }
}

/// A time within bounds, which `said` names.
pub fn seconds_within(
    text: &str,
    bounds: RangeInclusive<Duration>,
    said: &str,
) -> Result<Duration, String> {
    let time = seconds(text)?;
    if bounds.contains(&time) { Ok(time) } else { Err(said.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_seconds_and_nonsense_is_said() {
        assert_eq!(seconds("5"), Ok(Duration::from_secs(5)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["-1", "nan", "inf", "1e30", "5 parsecs", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
