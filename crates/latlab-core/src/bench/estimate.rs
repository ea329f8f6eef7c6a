//! From the batches of several processes to one figure with an honest interval.
//!
//! Batches of one process are not independent: they share an address-space
//! layout, a set of physical pages and a moment in time. The process is
//! therefore the unit of repetition (T. Kalibera and R. Jones, "Rigorous
//! benchmarking in reasonable time", ISMM 2013): the figure is the median of the
//! processes' medians, and its interval comes from their order statistics,
//! which assumes nothing of the distribution.

use crate::stats::quantile::{mad, median, quantile_interval_ranks};
use crate::stats::rng::SplitMix64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Factor from a median absolute deviation to a standard deviation, were the values normal.
const MAD_TO_SD: f64 = 1.4826;
/// A batch further than this many scaled deviations from the median is called an outlier
/// (F. R. Hampel's rule with the customary 3, widened to 5: batch times have a heavy right tail).
const OUTLIER_SD: f64 = 5.0;
/// Random halvings behind the noise floor.
const SPLITS: usize = 400;

/// A figure with its interval and spread, in the probe's unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Estimate {
    /// Processes that measured.
    pub processes: u64,
    /// Batches in all.
    pub batches: u64,
    /// Median of the processes' medians.
    pub median: f64,
    /// Lower end of its 95% interval.
    pub low: f64,
    /// Upper end of its 95% interval.
    pub high: f64,
    /// False with fewer than six processes: the interval is then only the range that was seen.
    pub interval_is_95: bool,
    /// Smallest batch.
    pub min: f64,
    /// Largest batch.
    pub max: f64,
    /// Median absolute deviation of all batches, not scaled.
    pub mad: f64,
    /// Spread within a process, as a share of the median (scaled MAD of its batches; median over processes).
    pub within: f64,
    /// Spread between processes, as a share of the median (scaled MAD of their medians).
    pub between: f64,
    /// A difference smaller than this share cannot be told from nothing by two such runs (A/A, 95%);
    /// `None` with fewer than four processes.
    pub noise_floor: Option<f64>,
    /// Batches further than five scaled deviations from the median; they are kept.
    pub outliers: u64,
}

impl Estimate {
    /// Half the interval as a share of the median; infinite where there is none.
    pub fn half_width(&self) -> f64 {
        if self.interval_is_95 && self.median != 0.0 {
            (self.high - self.low) / 2.0 / self.median.abs()
        } else {
            f64::INFINITY
        }
    }
}

/// The estimate from the batch values of each process; `None` when there are none.
pub fn estimate(processes: &[&[f64]]) -> Option<Estimate> {
    let mut medians: Vec<f64> = processes.iter().filter_map(|p| median(p)).collect();
    let middle = median(&medians)?;
    let in_time = medians.clone();
    medians.sort_unstable_by(f64::total_cmp);
    let ranks = quantile_interval_ranks(medians.len() as u64, 0.5, 0.95);
    let (low, high) = match ranks {
        Some((l, h)) => (medians[l as usize - 1], medians[h as usize - 1]),
        None => (medians[0], medians[medians.len() - 1]),
    };
    let all: Vec<f64> = processes.iter().flat_map(|p| p.iter().copied()).collect();
    let share = |v: f64| if middle == 0.0 { 0.0 } else { v / middle.abs() };
    let within: Vec<f64> = processes.iter().filter_map(|p| mad(p)).collect();
    let spread = mad(&all).unwrap_or(0.0);
    let fence = (OUTLIER_SD * MAD_TO_SD * spread).max(middle.abs() * 1e-3);
    Some(Estimate {
        processes: medians.len() as u64,
        batches: all.len() as u64,
        median: middle,
        low,
        high,
        interval_is_95: ranks.is_some(),
        min: all.iter().copied().fold(f64::INFINITY, f64::min),
        max: all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        mad: spread,
        within: share(MAD_TO_SD * median(&within).unwrap_or(0.0)),
        between: share(MAD_TO_SD * mad(&medians).unwrap_or(0.0)),
        noise_floor: noise_floor(&in_time).map(share),
        outliers: all.iter().filter(|&&v| (v - middle).abs() > fence).count() as u64,
    })
}

/// The 95th percentile of |median A − median B| over random halvings of the
/// processes, divided by √2 because the halves are half the size of a run.
fn noise_floor(medians: &[f64]) -> Option<f64> {
    if medians.len() < 4 {
        return None;
    }
    let mut rng = SplitMix64::new(0x5EED);
    let mut values = medians.to_vec();
    let half = values.len() / 2;
    let mut differences: Vec<f64> = (0..SPLITS)
        .map(|_| {
            rng.shuffle(&mut values);
            let a = median(&values[..half]).unwrap_or(0.0);
            let b = median(&values[half..]).unwrap_or(0.0);
            (a - b).abs()
        })
        .collect();
    differences.sort_unstable_by(f64::total_cmp);
    Some(differences[SPLITS * 95 / 100] / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(levels: &[f64]) -> Vec<Vec<f64>> {
        levels.iter().map(|&l| (0..11).map(|i| l + f64::from(i % 3) * 0.1).collect()).collect()
    }

    fn of(levels: &[f64]) -> Estimate {
        let p = processes(levels);
        estimate(&p.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_process_is_the_unit_of_repetition() {
        // Each process is tight, the processes differ: the interval must show it.
        let e = of(&[100.0, 110.0, 100.0, 110.0, 100.0, 110.0, 100.0, 110.0, 100.0]);
        assert_eq!((e.processes, e.batches), (9, 99));
        assert!(e.high - e.low >= 9.9, "{e:?}");
        assert!(e.within < 0.01 && e.noise_floor > Some(0.02), "{e:?}");
    }

    #[test]
    fn five_processes_support_no_interval() {
        let e = of(&[100.0, 100.1, 100.2, 100.3, 100.4]);
        assert!(!e.interval_is_95);
        assert_eq!(e.half_width(), f64::INFINITY);
        assert!(of(&[100.0, 100.1, 100.2, 100.3, 100.4, 100.5]).interval_is_95);
    }

    #[test]
    fn one_odd_process_in_nine_does_not_widen_the_interval() {
        let e = of(&[100.0, 100.1, 100.2, 100.0, 100.1, 100.2, 100.0, 100.1, 900.0]);
        assert!(e.half_width() < 0.01, "{e:?}");
        assert_eq!(e.outliers, 11, "but its batches are counted");
    }

    #[test]
    fn nothing_measured_gives_no_figure() {
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[&[]]), None);
    }
}
