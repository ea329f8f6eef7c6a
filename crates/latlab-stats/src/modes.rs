//! Whether values fall into two groups with a gap between them.
//!
//! The sorted values are cut where the variance between the two sides is
//! largest (N. Otsu's threshold, 1979, without its histogram). They are called
//! two modes when each side has its share and the medians are far apart in
//! terms of the sides' own spread (the idea of Ashman's D, 1994, with medians
//! and median absolute deviations, so that a heavy tail is not taken for a mode).

use super::quantile::{mad, median};

/// Fewest values that are looked at.
const LEAST: usize = 9;
/// The smaller group has at least this share.
const SHARE: f64 = 0.15;
/// The medians differ by at least this share.
const APART: f64 = 0.05;
/// And by this many spreads.
const SPREADS: f64 = 6.0;

/// Two groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modes {
    /// Median of the lower group.
    pub low: f64,
    /// Median of the upper group.
    pub high: f64,
    /// Share of the lower group.
    pub low_share: f64,
    /// Distance of the medians, in the larger of the groups' scaled spreads.
    pub separation: f64,
}

/// The two modes of some values, if they have two.
pub fn two_modes(values: &[f64]) -> Option<Modes> {
    let n = values.len();
    if n < LEAST {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let total: f64 = sorted.iter().sum();
    let (mut below, mut best, mut cut) = (0.0, 0.0, 0);
    for (i, v) in sorted[..n - 1].iter().enumerate() {
        below += v;
        let (left, right) = ((i + 1) as f64, (n - i - 1) as f64);
        let apart = below / left - (total - below) / right;
        let variance = left * right * apart * apart;
        if variance > best {
            (best, cut) = (variance, i + 1);
        }
    }
    let (left, right) = sorted.split_at(cut);
    let (low, high) = (median(left)?, median(right)?);
    let spread = 1.4826 * mad(left)?.max(mad(right)?);
    let separation = (high - low) / spread.max(low.abs() * 1e-6).max(f64::MIN_POSITIVE);
    let low_share = cut as f64 / n as f64;
    let two = low_share.min(1.0 - low_share) >= SHARE
        && (high - low) > APART * low.abs()
        && separation >= SPREADS;
    two.then_some(Modes { low, high, low_share, separation })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_levels_are_two_modes() {
        let values: Vec<f64> = (0..40)
            .map(|i| if i % 3 == 0 { 114.0 } else { 26.0 } + f64::from(i % 5) * 0.1)
            .collect();
        let modes = two_modes(&values).unwrap();
        assert!((modes.low - 26.2).abs() < 0.3 && (modes.high - 114.2).abs() < 0.3, "{modes:?}");
        assert!((modes.low_share - 26.0 / 40.0).abs() < 0.02);
    }

    #[test]
    fn one_level_with_a_tail_is_one_mode() {
        let mut values: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i % 7)).collect();
        assert_eq!(two_modes(&values), None);
        values.extend([400.0, 900.0, 3000.0]);
        assert_eq!(two_modes(&values), None, "three stragglers are a tail");
        assert_eq!(two_modes(&[5.0; 20]), None);
        assert_eq!(two_modes(&[]), None);
    }
}
