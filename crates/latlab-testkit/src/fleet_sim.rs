//! Simulated fleets with known regressions.
//!
//! A value's logarithm is the level of its series, plus what a build does to a class (code layout, 0.5 %),
//! plus noise of 3 % whose correlation from night to night is 0.3, and 2 % of the values are wild (up to twice
//! as large). A regression lifts all metrics of a family in one class by its size from its night on; an ill
//! device lifts them on this device only.

use crate::latency_sim::gauss;
use latlab_stats::rng::SplitMix64;

/// A fleet.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Boards.
    pub boards: usize,
    /// Classes of boards.
    pub classes: usize,
    /// Metrics, five to a family.
    pub metrics: usize,
    /// Nights, with a new kernel each.
    pub nights: usize,
    /// Standard deviation of the noise (logarithm).
    pub noise: f64,
    /// Its correlation from night to night.
    pub correlation: f64,
    /// Standard deviation of what a build does to a metric of a class (logarithm).
    pub build: f64,
    /// Share of wild values.
    pub wild: f64,
    /// Seed of the values.
    pub seed: u64,
    /// What became worse.
    pub truth: Vec<Truth>,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            boards: 100,
            classes: 5,
            metrics: 20,
            nights: 100,
            noise: 0.03,
            correlation: 0.3,
            build: 0.005,
            wild: 0.02,
            seed: 1,
            truth: Vec::new(),
        }
    }
}

/// A regression.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// First night.
    pub night: usize,
    /// Class.
    pub class: String,
    /// Family of metrics.
    pub family: String,
    /// The device that is ill; `None`: all of the class.
    pub device: Option<String>,
    /// By how much (0.05 is 5 %).
    pub size: f64,
}

/// Names of a series.
#[derive(Clone, Debug)]
pub struct Series {
    /// Class.
    pub class: String,
    /// Device.
    pub device: String,
    /// Metric.
    pub name: String,
}

impl Fleet {
    /// Adds regressions of classes and ill devices at random nights from 45 on, at least 15 nights from each other
    /// where they concern the same class and family.
    #[must_use]
    pub fn with_regressions(
        mut self,
        classes: usize,
        devices: usize,
        size: f64,
        seed: u64,
    ) -> Self {
        let mut rng = SplitMix64::new(seed);
        for i in 0..classes + devices {
            for _ in 0..1000 {
                let device = rng.below(self.boards);
                let truth = Truth {
                    night: 45 + rng.below(self.nights.saturating_sub(50).max(1)),
                    class: self.class(device),
                    family: format!("family{}", rng.below(self.metrics.div_ceil(5))),
                    device: (i >= classes).then(|| format!("device{device}")),
                    size,
                };
                let near = |t: &Truth| {
                    t.class == truth.class
                        && t.family == truth.family
                        && t.night.abs_diff(truth.night) < 30
                };
                if !self.truth.iter().any(near) {
                    self.truth.push(truth);
                    break;
                }
            }
        }
        self
    }

    fn class(&self, device: usize) -> String {
        format!("class{}", device % self.classes)
    }

    /// Kernel of a night.
    pub fn kernel(night: usize) -> String {
        format!("6.6.{night}")
    }

    /// All series: the metrics of the first device, then those of the second…
    pub fn series(&self) -> impl Iterator<Item = Series> {
        (0..self.boards).flat_map(move |device| {
            (0..self.metrics).map(move |metric| Series {
                class: self.class(device),
                device: format!("device{device}"),
                name: format!("family{}.{metric}", metric / 5),
            })
        })
    }

    /// The fleet before its first night.
    pub fn start(&self) -> Simulation<'_> {
        let mut rng = SplitMix64::new(self.seed);
        let n = self.boards * self.metrics;
        let level = (0..n).map(|i| 9.0 + (i % self.metrics) as f64 * 0.1 + 0.1 * gauss(&mut rng));
        let level = level.collect();
        let noise = (0..n).map(|_| gauss(&mut rng)).collect();
        Simulation { fleet: self, level, noise, night: 0, rng }
    }
}

/// A fleet at a night.
#[derive(Debug)]
pub struct Simulation<'a> {
    fleet: &'a Fleet,
    level: Vec<f64>,
    noise: Vec<f64>,
    night: usize,
    rng: SplitMix64,
}

impl Simulation<'_> {
    /// Values of the next night, in the order of [`Fleet::series`].
    pub fn night(&mut self) -> Vec<f64> {
        let f = self.fleet;
        let rng = &mut self.rng;
        let build: Vec<f64> = (0..f.classes * f.metrics).map(|_| f.build * gauss(rng)).collect();
        let active: Vec<&Truth> = f.truth.iter().filter(|t| t.night <= self.night).collect();
        let mut out = Vec::with_capacity(self.level.len());
        for device in 0..f.boards {
            let mut worse = vec![0.0; f.metrics.div_ceil(5)];
            let (class, name) = (f.class(device), format!("device{device}"));
            for t in &active {
                if t.class == class && t.device.as_ref().is_none_or(|d| *d == name) {
                    let family: Option<usize> = t.family.trim_start_matches("family").parse().ok();
                    if let Some(w) = family.and_then(|i| worse.get_mut(i)) {
                        *w += (1.0 + t.size).ln();
                    }
                }
            }
            for metric in 0..f.metrics {
                let i = device * f.metrics + metric;
                let rho = f.correlation;
                self.noise[i] = rho * self.noise[i] + (1.0 - rho * rho).sqrt() * gauss(rng);
                let mut log = self.level[i]
                    + f.noise * self.noise[i]
                    + build[device % f.classes * f.metrics + metric]
                    + worse[metric / 5];
                if (rng.below(1 << 20) as f64) < f.wild * f64::from(1 << 20) {
                    log += std::f64::consts::LN_2 * rng.below(1 << 20) as f64 / f64::from(1 << 20);
                }
                out.push(log.exp());
            }
        }
        self.night += 1;
        out
    }
}
