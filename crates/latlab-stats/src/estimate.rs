//! From the batches of several processes to one figure with an honest interval.
//!
//! Batches of one process are not independent: they share an address-space
//! layout, a set of physical pages and a moment in time. The process is
//! therefore the unit of repetition (T. Kalibera and R. Jones, "Rigorous
//! benchmarking in reasonable time", ISMM 2013): the figure is the median of the
//! processes' medians, and its interval comes from their order statistics,
//! which assumes nothing of the distribution. Three to five processes are too few for that: theirs
//! is Student's t, wide as it then is.
//!
//! Processes that follow each other are not independent either: what the machine does in the
//! background changes from second to second. So the processes are also taken together in blocks of
//! time, and the interval that the blocks' medians give by Student's t (the method of batch
//! means; B. Schmeiser, "Batch size effects in the analysis of simulation output", Operations
//! Research 30, 1982) is joined with the first: whichever reaches further counts, on each side. So is the
//! interval of an autocorrelated series, from twelve processes on. With fewer nothing tells whether processes
//! are independent, which their interval then assumes.

use crate::quantile::{mad, median, quantile_interval_ranks};
use crate::rng::SplitMix64;
use crate::student::student_upper;
use serde::{Deserialize, Serialize};

/// Factor from a median absolute deviation to a standard deviation, were the values normal.
const MAD_TO_SD: f64 = 1.4826;
/// A batch further than this many scaled deviations from the median is called an outlier
/// (F. R. Hampel's rule with the customary 3, widened to 5: batch times have a heavy right tail).
const OUTLIER_SD: f64 = 5.0;
/// Blocks of time. Schmeiser finds few large blocks better than many small ones.
const BLOCKS: usize = 6;
/// Processes a block at least.
const BLOCK_MIN: usize = 2;
/// Random halvings behind the noise floor.
const SPLITS: usize = 400;

/// A figure with its interval and spread, in the probe's unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// False with fewer than three processes: the interval is then only the range that was seen. With fewer than
    /// twelve it covers 95 % only if the processes are independent.
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
    let few = if ranks.is_none() { students(&medians) } else { None };
    let slow = by_blocks(&in_time).or(few).unwrap_or(0.0).max(wandering(&in_time).unwrap_or(0.0));
    let (low, high) = (low.min(middle - slow), high.max(middle + slow));
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
        interval_is_95: ranks.is_some() || few.is_some(),
        min: all.iter().copied().fold(f64::INFINITY, f64::min),
        max: all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        mad: spread,
        within: share(MAD_TO_SD * median(&within).unwrap_or(0.0)),
        between: share(MAD_TO_SD * mad(&medians).unwrap_or(0.0)),
        // Two runs differ by √2 of what one of them does.
        noise_floor: noise_floor(&in_time).map(|v| share(v.max(slow * std::f64::consts::SQRT_2))),
        outliers: all.iter().filter(|&&v| (v - middle).abs() > fence).count() as u64,
    })
}

/// Half the 95% interval that the medians of blocks of time give; `None` with too few processes.
fn by_blocks(in_time: &[f64]) -> Option<f64> {
    let n = in_time.len();
    if n < BLOCKS * BLOCK_MIN {
        return None;
    }
    let blocks: Vec<f64> = (0..BLOCKS)
        .filter_map(|i| median(&in_time[i * n / BLOCKS..(i + 1) * n / BLOCKS]))
        .collect();
    students(&blocks)
}

/// Fewest processes whose autocorrelation is estimated, and the smallest one that counts.
const WANDERING_MIN: usize = 12;
const WANDERING: f64 = 0.3;

/// Half the 95% interval of the mean of a level that wanders: Student's t for as many independent values as an
/// autocorrelated series counts for, n (1 − ρ) / (1 + ρ) (first-order autoregression; G. V. Bayley and J. M.
/// Hammersley, 1946). ρ is corrected for its bias in short series (F. H. C. Marriott and J. A. Pope, 1954).
/// `None` where it is small or the processes are few.
fn wandering(in_time: &[f64]) -> Option<f64> {
    let n = in_time.len() as f64;
    if in_time.len() < WANDERING_MIN {
        return None;
    }
    let mean = in_time.iter().sum::<f64>() / n;
    let squares: f64 = in_time.iter().map(|v| (v - mean).powi(2)).sum();
    let products: f64 = in_time.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    if squares <= 0.0 {
        return None;
    }
    let rho = ((products / squares + 1.0 / n) / (1.0 - 4.0 / n)).min(0.95);
    if rho < WANDERING {
        return None;
    }
    let effective = (n * (1.0 - rho) / (1.0 + rho)).max(2.0);
    // The variance within a short series is smaller than that of its level over a long time.
    let variance = squares / n / (1.0 - 1.0 / effective);
    Some(student_upper(0.025, effective - 1.0) * (variance / effective).sqrt())
}

/// Half the 95% interval of a mean by Student's t; `None` with fewer than three values.
fn students(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    if values.len() < 3 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some(student_upper(0.025, n - 1.0) * (squares / (n - 1.0) / n).sqrt())
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
    fn intervals_of_what_changes_from_second_to_second_cover_as_stated() {
        // Processes that wander (an autoregressive level, 0.8 from one to the next) round a median that
        // is known: order statistics alone cover it in half of the runs.
        let mut rng = SplitMix64::new(7);
        let mut noise =
            || (0..12).map(|_| rng.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0;
        let (runs, mut covered) = (600, 0);
        for _ in 0..runs {
            let mut level = noise() / 0.36f64.sqrt();
            let levels: Vec<f64> = (0..60)
                .map(|_| {
                    level = 0.8 * level + noise();
                    1000.0 + level
                })
                .collect();
            let e = of(&levels);
            // A median of these batches lies 0.1 above its level.
            covered += i32::from(e.low <= 1000.1 && 1000.1 <= e.high);
        }
        // At 95 % fewer than 553 of 600 have a probability of 0.2 %; at 90 % more than that have one of 3 %.
        assert!(covered >= 553, "{covered} of {runs}");
    }

    #[test]
    fn two_processes_support_no_interval_and_three_a_wide_one() {
        let two = of(&[100.0, 100.1]);
        assert!(!two.interval_is_95);
        assert_eq!(two.half_width(), f64::INFINITY);
        // t of 2 degrees of freedom, 4.303, times 0.1/√3.
        let three = of(&[100.0, 100.1, 100.2]);
        assert!(three.interval_is_95);
        assert!((three.high - three.median - 4.303 * 0.1 / 3f64.sqrt()).abs() < 1e-3, "{three:?}");
        let six = of(&[100.0, 100.1, 100.2, 100.3, 100.4, 100.5]);
        assert!(six.interval_is_95 && six.high < 100.7, "by order: {six:?}");
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
