//! Values in words: numbers with units, digits in groups, names of quantiles, relative changes.

use crate::plot::scale::{format_bytes, format_number};
use latlab_model::record::Unit;
use latlab_model::units::format_ns;

/// A figure in its unit, as a person writes it: `14.1 µs`, `32K`, `12.5 %`.
pub fn figure(v: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => format_ns(v),
        Unit::Bytes => format_bytes(v),
        Unit::BytesPerSecond => format!("{}B/s", format_number(v)),
        Unit::PerSecond => format!("{}/s", format_number(v)),
        Unit::Hz => format!("{}Hz", format_number(v)),
        Unit::Watt => format!("{} W", format_number(v)),
        Unit::Ratio => format!("{} %", format_number(v * 100.0)),
        Unit::Count => format_number(v),
    }
}

/// A whole number with thin gaps between thousands: `1 000 003`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// `p99.9` for 0.999, `median` for 0.5.
pub fn quantile_name(q: f64) -> String {
    if q == 0.5 {
        return "median".into();
    }
    if q == 1.0 {
        return "maximum".into();
    }
    let percent = format!("{:.6}", q * 100.0);
    format!("p{}", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// `+12 %`; `×3.1` from a doubling on.
pub fn change(change: f64) -> String {
    if change >= 1.0 {
        format!("×{:.2}", change + 1.0)
    } else if change.abs() < 0.1 {
        format!("{:+.1} %", change * 100.0)
    } else {
        format!("{:+.0} %", change * 100.0)
    }
}

/// `1 board`, `3 boards`.
pub fn counted(n: usize, one: &str) -> String {
    format!("{} {one}{}", grouped(n as u64), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_people_write_them() {
        assert_eq!(figure(14_100.0, Unit::Ns), "14.1 µs");
        assert_eq!(figure(0.125, Unit::Ratio), "12.5 %");
        assert_eq!(grouped(1_000_003), "1\u{202f}000\u{202f}003");
        assert_eq!(quantile_name(0.9999), "p99.99");
        assert_eq!(quantile_name(0.5), "median");
    }
}
