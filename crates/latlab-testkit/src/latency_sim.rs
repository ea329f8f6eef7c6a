//! Simulated wake-up latencies with a known distribution.
//!
//! The body is log-normal with a median of 15 µs; a rare mixture of late wake-ups comes in clusters
//! of geometric size, as on a machine with interference.

use latlab_stats::rng::SplitMix64;

/// Parameters of the distribution; times in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct World {
    /// Median of the body.
    pub median: f64,
    /// Standard deviation of the body's logarithm.
    pub spread: f64,
    /// Share of wake-ups that are late.
    pub late: f64,
    /// Median of a late wake-up.
    pub late_median: f64,
    /// Mean size of a cluster of late wake-ups.
    pub cluster: f64,
}

impl Default for World {
    fn default() -> Self {
        Self { median: 15_000.0, spread: 0.15, late: 0.004, late_median: 90_000.0, cluster: 3.0 }
    }
}

/// A standard normal value (G. E. P. Box and M. E. Muller, 1958).
pub fn gauss(rng: &mut SplitMix64) -> f64 {
    let uniform =
        |rng: &mut SplitMix64| ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (u, v) = (uniform(rng), uniform(rng));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// `n` wake-ups in order.
pub fn wakeups(world: &World, n: usize, seed: u64) -> Vec<u64> {
    let mut rng = SplitMix64::new(seed);
    let chance =
        |rng: &mut SplitMix64, p: f64| ((rng.next_u64() >> 11) as f64) < p * (1u64 << 53) as f64;
    // A cluster begins at a rate that makes `late` the share of late wake-ups.
    let begin = world.late / (world.cluster * (1.0 - world.late));
    let mut late = chance(&mut rng, world.late);
    (0..n)
        .map(|_| {
            late =
                if late { !chance(&mut rng, 1.0 / world.cluster) } else { chance(&mut rng, begin) };
            let (median, spread) =
                if late { (world.late_median, 0.35) } else { (world.median, world.spread) };
            (median * (spread * gauss(&mut rng)).exp()) as u64
        })
        .collect()
}
