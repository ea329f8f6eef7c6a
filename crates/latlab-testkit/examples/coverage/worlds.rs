//! Data with a known truth that are not independent.

use latlab_stats::histogram::Histogram;
use latlab_stats::quantile::normal_quantile;
use latlab_stats::rng::SplitMix64;
use latlab_stats::stretches::Stretch;
pub use latlab_testkit::latency_sim::gauss;

pub fn uniform(rng: &mut SplitMix64) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Wake-up latencies of one run; ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each value on its own.
    Independent,
    /// 3 % late wake-ups in clusters of five (geometric sizes).
    Clustered,
    /// The level wanders: first-order autoregression, 0.98 from one value to the next.
    Drifting,
    /// Two states of the machine, each for 100 values on average.
    TwoState,
    /// 3 % late wake-ups in bursts of twenty (geometric sizes).
    Bursts20,
    /// The same in bursts of a hundred.
    Bursts100,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Independent, Self::Clustered, Self::Drifting, Self::TwoState];
    /// Late wake-ups of which a stretch has many.
    pub const BURSTS: [Self; 2] = [Self::Bursts20, Self::Bursts100];

    /// Mean number of late wake-ups in a cluster.
    fn cluster(self) -> f64 {
        match self {
            Self::Bursts20 => 20.0,
            Self::Bursts100 => 100.0,
            _ => 5.0,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Clustered => "clusters of 5",
            Self::Drifting => "autocorrelated 0.98",
            Self::TwoState => "two states of 100",
            Self::Bursts20 => "bursts of 20",
            Self::Bursts100 => "bursts of 100",
        }
    }

    /// `n` values in order, from the stationary distribution.
    pub fn wakeups(self, n: usize, seed: u64) -> Vec<u64> {
        let mut rng = SplitMix64::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(self as u64));
        match self {
            Self::Independent => (0..n).map(|_| of(15_000.0, 0.2 * gauss(&mut rng))).collect(),
            Self::Clustered | Self::Bursts20 | Self::Bursts100 => {
                let mut late = uniform(&mut rng) < LATE;
                let size = self.cluster();
                let begin = LATE / (size * (1.0 - LATE));
                (0..n)
                    .map(|_| {
                        let u = uniform(&mut rng);
                        late = if late { u >= 1.0 / size } else { u < begin };
                        if late {
                            of(60_000.0, 0.3 * gauss(&mut rng))
                        } else {
                            of(15_000.0, 0.1 * gauss(&mut rng))
                        }
                    })
                    .collect()
            }
            Self::Drifting => {
                let mut level = gauss(&mut rng);
                (0..n)
                    .map(|_| {
                        level = 0.98 * level + (1.0 - 0.98f64 * 0.98).sqrt() * gauss(&mut rng);
                        // Half of the variance wanders, half does not.
                        of(15_000.0, 0.2 * (level + gauss(&mut rng)) / 2f64.sqrt())
                    })
                    .collect()
            }
            Self::TwoState => {
                let mut slow = uniform(&mut rng) < 0.5;
                (0..n)
                    .map(|_| {
                        slow ^= uniform(&mut rng) < 0.01;
                        of(if slow { 19_000.0 } else { 15_000.0 }, 0.2 * gauss(&mut rng))
                    })
                    .collect()
            }
        }
    }
}

/// Share of late wake-ups in clusters.
const LATE: f64 = 0.03;

fn of(median: f64, log: f64) -> u64 {
    (median * log.exp()) as u64
}

/// The true quantile, ns.
pub fn truth(kind: Kind, q: f64) -> f64 {
    let below = |x: f64| {
        let log = |median: f64, sd: f64| normal_below((x / median).ln() / sd);
        match kind {
            Kind::Independent | Kind::Drifting => log(15_000.0, 0.2),
            Kind::Clustered | Kind::Bursts20 | Kind::Bursts100 => {
                LATE * log(60_000.0, 0.3) + (1.0 - LATE) * log(15_000.0, 0.1)
            }
            Kind::TwoState => 0.5 * log(15_000.0, 0.2) + 0.5 * log(19_000.0, 0.2),
        }
    };
    let (mut low, mut high) = (1_000.0, 1_000_000.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if below(middle) < q { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

fn normal_below(z: f64) -> f64 {
    1.0 - latlab_stats::rank::normal_tail(z)
}

/// Histogram and stretches of values in order.
pub fn stretches_of(values: &[u64], stretches: usize) -> (Histogram, Vec<Stretch>) {
    let size = values.len().div_ceil(stretches).max(1);
    let of = |c: &[u64]| Stretch {
        count: c.len() as u64,
        max: c.iter().copied().max().unwrap_or(0),
        sum: c.iter().map(|&v| v as f64).sum(),
    };
    (Histogram::of(values.iter().copied()), values.chunks(size).map(of).collect())
}

/// Medians of the trials of a benchmark, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    Normal,
    HeavyTail,
    Autocorrelated,
    TwoState,
}

impl Process {
    pub const ALL: [Self; 4] =
        [Self::Normal, Self::HeavyTail, Self::Autocorrelated, Self::TwoState];

    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::HeavyTail => "log-normal (sd 0.8 of the logarithm)",
            Self::Autocorrelated => "autocorrelated 0.8",
            Self::TwoState => "two states (70 %, 30 %) of 3 trials",
        }
    }

    pub fn levels(self, n: usize, seed: u64) -> Vec<f64> {
        let mut rng = SplitMix64::new(seed.wrapping_mul(0x51_7C_C1).wrapping_add(self as u64));
        let mut level = gauss(&mut rng);
        let mut slow = uniform(&mut rng) < 0.3;
        (0..n)
            .map(|_| match self {
                Self::Normal => 1_000.0 + 10.0 * gauss(&mut rng),
                Self::HeavyTail => 1_000.0 + 10.0 * (0.8 * gauss(&mut rng)).exp(),
                Self::Autocorrelated => {
                    level = 0.8 * level + 0.6 * gauss(&mut rng);
                    1_000.0 + 10.0 * level
                }
                Self::TwoState => {
                    let leave = if slow { 1.0 / 3.0 } else { 1.0 / 7.0 };
                    slow ^= uniform(&mut rng) < leave;
                    (if slow { 1_100.0 } else { 1_000.0 }) + 10.0 * gauss(&mut rng)
                }
            })
            .collect()
    }

    /// The true median.
    pub fn median(self) -> f64 {
        match self {
            Self::Normal | Self::Autocorrelated => 1_000.0,
            Self::HeavyTail => 1_010.0,
            // 0.7 Φ((m − 1000)/10) = 0.5.
            Self::TwoState => 1_000.0 + 10.0 * normal_quantile(0.5 / 0.7),
        }
    }
}

/// Values over 10 µs with a generalised Pareto tail of scale 2 µs; in clusters of the given mean size, neighbours share
/// their tail probability to a tenth.
pub fn pareto(n: usize, shape: f64, cluster: f64, seed: u64) -> Vec<u64> {
    let mut rng = SplitMix64::new(seed.wrapping_mul(0xABCD_EF01).wrapping_add(7));
    let mut z = gauss(&mut rng);
    // An autoregression whose exceedances cluster; the marginal distribution is normal.
    let rho: f64 = if cluster > 1.0 { 0.95 } else { 0.0 };
    (0..n)
        .map(|_| {
            z = rho * z + (1.0 - rho * rho).sqrt() * gauss(&mut rng);
            pareto_level(latlab_stats::rank::normal_tail(z), shape) as u64
        })
        .collect()
}

/// The level that a value exceeds with probability `p`, ns.
pub fn pareto_level(p: f64, shape: f64) -> f64 {
    let p = p.max(1e-300);
    10_000.0 + 2_000.0 * if shape == 0.0 { -p.ln() } else { (p.powf(-shape) - 1.0) / shape }
}
