//! Kernels of a campaign side by side: what one changes in a result against another, on the same device in the same
//! night.
//!
//! A night's value is the median over devices of the logarithm of the ratio; the change is the median over nights, its
//! interval from order statistics ([`latlab_stats::quantile`]). Devices and what changes from night to night (temperature,
//! load of the machine) are the same for both, so that they cancel. The interval is about these devices and nights like
//! these.

use super::lake_rows::kernel_of;
use super::names::Names;
use latlab_model::fleet::Pair;
use latlab_stats::quantile::{median, quantile_interval_ranks};
use std::collections::BTreeMap;

/// A result without the kernel of its campaign, and the kernel.
#[derive(Debug)]
struct Variant {
    base: usize,
    kernel: String,
}

/// Board, result with the one kernel, result with the other.
type Of = (usize, usize, usize);

/// Collects them night by night.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    bases: Names<(String, String, String)>,
    /// By the numbers of results.
    variants: BTreeMap<usize, Variant>,
    /// Values of this night by board, device and result without kernel.
    tonight: BTreeMap<(usize, usize, usize), Vec<(usize, f64)>>,
    /// Medians of nights, and the most devices of one.
    found: BTreeMap<Of, (Vec<f64>, u32)>,
}

impl Pairs {
    /// A new result: its name, part and parameters.
    pub(super) fn metric(&mut self, metric: usize, (name, part, params): (&str, &str, &str)) {
        if let Some((kernel, others)) = kernel_of(params) {
            let base = self.bases.number((name.to_owned(), part.to_owned(), others));
            self.variants.insert(metric, Variant { base, kernel: kernel.to_owned() });
        }
    }

    /// Logarithm of a value of this night; larger is worse.
    pub(super) fn value(&mut self, board: usize, metric: usize, device: usize, log: f64) {
        if let Some(variant) = self.variants.get(&metric) {
            self.tonight.entry((board, device, variant.base)).or_default().push((metric, log));
        }
    }

    /// The night is over.
    pub(super) fn night(&mut self) {
        let mut ratios: BTreeMap<Of, Vec<f64>> = BTreeMap::new();
        for ((board, _, _), values) in std::mem::take(&mut self.tonight) {
            for (i, &(one, log)) in values.iter().enumerate() {
                for &(other, against) in &values[i + 1..] {
                    // The kernel that comes first by name is what the other is compared with.
                    let (of, change) = if self.variants[&one].kernel > self.variants[&other].kernel
                    {
                        ((board, one, other), log - against)
                    } else {
                        ((board, other, one), against - log)
                    };
                    ratios.entry(of).or_default().push(change);
                }
            }
        }
        for (of, logs) in ratios {
            let all = self.found.entry(of).or_default();
            all.0.extend(median(&logs));
            all.1 = all.1.max(logs.len() as u32);
        }
    }

    /// All pairs, with the places of boards and results in their lists.
    pub(super) fn finish(self, board_at: &[usize], metric_at: &[usize]) -> Vec<Pair> {
        let kernel = |metric: usize| self.variants[&metric].kernel.clone();
        let pair = |((board, metric, against), (mut logs, devices)): (Of, (Vec<f64>, u32))| {
            logs.sort_by(f64::total_cmp);
            let ratio = |log: f64| log.exp() - 1.0;
            let ranks = quantile_interval_ranks(logs.len() as u64, 0.5, 0.95);
            let at = |rank: u64| ratio(logs[rank as usize - 1]);
            Some(Pair {
                board: board_at[board],
                metric: metric_at[metric],
                kernel: kernel(metric),
                against: metric_at[against],
                against_kernel: kernel(against),
                nights: logs.len() as u32,
                devices,
                change: ratio(median(&logs)?),
                interval: ranks.map(|(low, high)| (at(low), at(high))),
            })
        };
        let mut all: Vec<Pair> = self.found.into_iter().filter_map(pair).collect();
        all.sort_by_key(|p| (p.board, p.metric, p.against));
        all
    }
}
