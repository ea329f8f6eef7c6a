//! Histograms of a fleet whose devices and nights differ, with the true quantiles.
//!
//! A wake-up is ordinary (log-normal about 15 µs, 0.1) or late (log-normal about 60 µs, 0.4). Each device, each
//! night and each device in each night has a factor of its own on all latencies, and one on the rate of late ones;
//! their logarithms are normal. Late wake-ups come in clusters of equal ones. The truth is the quantile of all
//! wake-ups of all devices and nights that there could be.

use crate::latency_sim::gauss;
use latlab_stats::rank::normal_tail;
use latlab_stats::rng::SplitMix64;

/// Share of late wake-ups.
const LATE: f64 = 1e-3;
/// Draws of the truth.
const DRAWS: u64 = 20_000;

/// How much devices, nights, and devices in a night differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct World {
    /// Standard deviations of the logarithm of the level: devices, nights, devices in a night.
    pub level: [f64; 3],
    /// Standard deviations of the logarithm of the rate of late wake-ups.
    pub late: [f64; 3],
    /// Late wake-ups of one cluster; 0 is 1.
    pub cluster: u32,
}

/// Wake-ups of a device in a night.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Which device.
    pub device: usize,
    /// Which night.
    pub night: usize,
    /// Count of each bucket of the grid.
    pub counts: Vec<u64>,
}

impl World {
    /// All devices in all nights, `samples` wake-ups each on average. `grid` has the upper bounds of buckets, rising.
    pub fn draw(
        &self,
        devices: usize,
        nights: usize,
        samples: f64,
        grid: &[u64],
        seed: u64,
    ) -> Vec<Cell> {
        let mut rng = SplitMix64::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(7));
        let mut pairs = |n: usize, of: usize| -> Vec<[f64; 2]> {
            let (level, late) = (self.level[of], self.late[of]);
            (0..n).map(|_| [level * gauss(&mut rng), late * gauss(&mut rng)]).collect()
        };
        let of_device = pairs(devices, 0);
        let of_night = pairs(nights, 1);
        let of_cell = pairs(devices * nights, 2);
        let mut out = Vec::with_capacity(devices * nights);
        let size = f64::from(self.cluster.max(1));
        for device in 0..devices {
            for night in 0..nights {
                let sum = |i: usize| {
                    of_device[device][i] + of_night[night][i] + of_cell[device * nights + night][i]
                };
                let (level, rate) = (sum(0), self.rate(sum(1)));
                let mut before = (1.0, 1.0);
                let counts = grid.iter().map(|high| {
                    let now = above(*high as f64, level);
                    let share = (before.0 - now.0, before.1 - now.1);
                    before = now;
                    let ordinary = poisson(&mut rng, share.0 * (1.0 - rate) * samples);
                    let late = poisson(&mut rng, share.1 * rate * samples / size);
                    ordinary + late * size as u64
                });
                out.push(Cell { device, night, counts: counts.collect() });
            }
        }
        out
    }

    /// Rate of late wake-ups: its mean does not depend on how much devices and nights differ.
    fn rate(&self, log: f64) -> f64 {
        let variance: f64 = self.late.iter().map(|sd| sd * sd).sum();
        (LATE * (log - variance / 2.0).exp()).min(0.5)
    }

    /// The true quantile of all devices and nights.
    pub fn quantile(&self, q: f64) -> f64 {
        let spread = |of: &[f64; 3]| of.iter().map(|sd| sd * sd).sum::<f64>().sqrt();
        let (level, late) = (spread(&self.level), spread(&self.late));
        let mut rng = SplitMix64::new(2_027);
        let draws: Vec<(f64, f64)> = (0..DRAWS)
            .map(|_| (level * gauss(&mut rng), self.rate(late * gauss(&mut rng))))
            .collect();
        let share = |value: f64| {
            let of = |(level, rate): &(f64, f64)| {
                let (ordinary, late) = above(value, *level);
                (1.0 - rate) * ordinary + rate * late
            };
            draws.iter().map(of).sum::<f64>() / draws.len() as f64
        };
        let (mut low, mut high) = (1e3f64, 1e8f64);
        while high / low > 1.0001 {
            let middle = (low * high).sqrt();
            if share(middle) > 1.0 - q {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// Shares of ordinary and of late wake-ups above a value.
fn above(value: f64, level: f64) -> (f64, f64) {
    let log = value.ln() - level;
    (normal_tail((log - 15_000f64.ln()) / 0.1), normal_tail((log - 60_000f64.ln()) / 0.4))
}

/// A Poisson number; from a mean of 50 on, a rounded normal one.
fn poisson(rng: &mut SplitMix64, mean: f64) -> u64 {
    if mean <= 1e-12 {
        return 0;
    }
    if mean >= 50.0 {
        return (mean + mean.sqrt() * gauss(rng)).round().max(0.0) as u64;
    }
    let limit = (-mean).exp();
    let mut product = 1.0;
    for n in 0.. {
        product *= ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        if product <= limit {
            return n;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_world() {
        let world = World::default();
        let grid: Vec<u64> = (0..400).map(|i| (1_000.0 * 1.02f64.powi(i)) as u64).collect();
        let cells = world.draw(3, 2, 50_000.0, &grid, 1);
        assert_eq!((cells.len(), cells[5].device, cells[5].night), (6, 2, 1));
        let all: u64 = cells.iter().flat_map(|c| &c.counts).sum();
        assert!((290_000..310_000).contains(&all), "{all}");
        let truth = world.quantile(0.9999);
        let beyond = (cells.iter())
            .flat_map(|c| c.counts.iter().zip(&grid))
            .filter(|(_, high)| **high as f64 > truth)
            .map(|(n, _)| n)
            .sum::<u64>();
        // 30 are expected.
        assert!((12..55).contains(&beyond), "{beyond} above {truth}");
    }
}
