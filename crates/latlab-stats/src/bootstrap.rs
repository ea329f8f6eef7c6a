//! Quantiles of values that cluster: the block bootstrap.
//!
//! Consecutive blocks are drawn with replacement, whole, and so keep the
//! dependence within them (E. Carlstein, *Annals of Statistics* 14, 1986; S. N. Lahiri,
//! *Resampling Methods for Dependent Data*, ch. 2). A block is a histogram, so a
//! replicate is a weighted sum of them, whatever the number of values.

use super::quantile::normal_quantile;
use super::rank::normal_tail;
use super::rng::SplitMix64;
use crate::histogram::Histogram;

/// Blocks on one common grid of buckets.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Smallest value of each bucket, rising.
    grid: Vec<u64>,
    /// `(bucket, count)` of each block.
    blocks: Vec<Vec<(u32, u64)>>,
}

impl Blocks {
    /// Blocks of consecutive values; `None` below eight.
    pub fn new(parts: &[Histogram]) -> Option<Self> {
        if parts.len() < 8 {
            return None;
        }
        let mut grid: Vec<u64> = parts.iter().flat_map(|h| &h.buckets).map(|b| b.0).collect();
        grid.sort_unstable();
        grid.dedup();
        let place = |low: u64| grid.binary_search(&low).unwrap_or(0) as u32;
        let blocks =
            parts.iter().map(|h| h.buckets.iter().map(|&(v, n)| (place(v), n)).collect()).collect();
        Some(Self { grid, blocks })
    }

    /// One replicate: counts on the grid, of as many blocks as there are, drawn with replacement.
    fn draw(&self, rng: &mut SplitMix64, counts: &mut Vec<u64>) {
        counts.clear();
        counts.resize(self.grid.len(), 0);
        for _ in 0..self.blocks.len() {
            for &(at, n) in &self.blocks[rng.below(self.blocks.len())] {
                counts[at as usize] += n;
            }
        }
    }

    /// `replicates` values of each quantile, in the order of `quantiles`.
    pub fn quantiles(
        &self,
        quantiles: &[f64],
        replicates: usize,
        rng: &mut SplitMix64,
    ) -> Vec<Vec<f64>> {
        let mut out = vec![Vec::with_capacity(replicates); quantiles.len()];
        let mut counts = Vec::new();
        for _ in 0..replicates {
            self.draw(rng, &mut counts);
            let all: u64 = counts.iter().sum();
            for (values, &q) in out.iter_mut().zip(quantiles) {
                values.push(self.quantile(&counts, all, q));
            }
        }
        out
    }

    fn quantile(&self, counts: &[u64], all: u64, q: f64) -> f64 {
        let rank = ((q * all as f64).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        for (at, &n) in counts.iter().enumerate() {
            seen += n;
            if seen >= rank {
                let low = self.grid[at];
                let high = crate::histogram::bucket_high(low);
                return low as f64 + (high - low) as f64 / 2.0;
            }
        }
        self.grid.last().map_or(0.0, |&v| v as f64)
    }
}

/// The middle `confidence` of some values, sorted in place (percentile interval); zeros when empty.
pub fn percentile_interval(values: &mut [f64], confidence: f64) -> (f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return (0.0, 0.0) };
    let at = |share: f64| values[((share * last as f64).round() as usize).min(last)];
    (at((1.0 - confidence) / 2.0), at(1.0 - (1.0 - confidence) / 2.0))
}

/// The percentile interval corrected for the bias of replicates round the estimate (B. Efron, *Canadian Journal
/// of Statistics* 9, 1981), values sorted in place; zeros when empty.
pub fn bias_corrected_interval(values: &mut [f64], estimate: f64, confidence: f64) -> (f64, f64) {
    let below = values.iter().filter(|v| **v < estimate).count() as f64;
    let share = (below + 0.5) / (values.len() as f64 + 1.0);
    let bias = normal_quantile(share).clamp(-1.0, 1.0);
    let z = normal_quantile((1.0 + confidence) / 2.0);
    values.sort_unstable_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return (0.0, 0.0) };
    let at = |z: f64| {
        let share = 1.0 - normal_tail(2.0 * bias + z);
        values[((share * last as f64).round() as usize).min(last)]
    };
    (at(-z), at(z))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_cover_the_quantile_of_clustered_values() {
        // Each cluster of ten shares one value: 4,000 values say as much as 400.
        let mut rng = SplitMix64::new(11);
        let mut covered = 0;
        for round in 0..400 {
            let mut values = Vec::new();
            while values.len() < 4_000 {
                let v = rng.below(1_000_000) as u64 + 5_000;
                values.extend([v; 10]);
            }
            let parts: Vec<Histogram> =
                values.chunks(100).map(|c| Histogram::of(c.iter().copied())).collect();
            let blocks = Blocks::new(&parts).unwrap();
            let mut q = blocks.quantiles(&[0.9], 100, &mut SplitMix64::new(round));
            let (low, high) = percentile_interval(&mut q[0], 0.95);
            covered += u32::from(low <= 905_000.0 && 905_000.0 <= high);
        }
        // At 95 % fewer than 362 of 400 have a probability below 0.1 %, at 88 % more than that have one of 6 %.
        assert!(covered >= 362, "{covered} of 400");
    }

    #[test]
    fn replicates_that_lie_low_move_the_interval_up() {
        let mut even: Vec<f64> = (0..1_000).map(f64::from).collect();
        let plain = percentile_interval(&mut even, 0.9);
        let (low, high) = bias_corrected_interval(&mut even, 499.5, 0.9);
        assert!((low - plain.0).abs() < 3.0 && (high - plain.1).abs() < 3.0, "{low} {high}");
        // 70 % of the replicates are below the estimate: z0 = 0.524, Φ(1.049 ± 1.645) is 0.276 and 0.9965.
        let (low, high) = bias_corrected_interval(&mut even, 700.0, 0.9);
        assert!((low - 276.0).abs() < 4.0 && (high - 995.5).abs() < 3.0, "{low} {high}");
    }

    #[test]
    fn too_few_blocks_are_refused() {
        assert!(Blocks::new(&vec![Histogram::of([1, 2]); 7]).is_none());
        assert_eq!(percentile_interval(&mut [], 0.95), (0.0, 0.0));
    }
}
