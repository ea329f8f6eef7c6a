//! Merged histograms of the latest nights, and how well their quantiles are known.
//!
//! Histograms are read twice: first they are merged, then the samples above each quantile are counted by
//! device, night and run. Memory is that of a few numbers for each device, night and merged bucket.

use super::lake_rows::bucket;
use latlab_model::fleet::{Tail, TailQuantile};
use latlab_stats::clusters::{self, Units};
use std::collections::BTreeMap;

/// Quantiles of the tables.
const QUANTILES: [f64; 5] = [0.5, 0.99, 0.999, 0.9999, 0.99999];
/// Samples that have to be beyond a quantile.
const BEYOND: f64 = 10.0;

/// What is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A result on all boards.
    All(usize),
    /// A result of a board.
    Line(usize),
}

/// Samples of a unit, and those above each quantile.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    samples: u64,
    above: [u64; QUANTILES.len()],
}

#[derive(Debug, Default)]
struct Merged {
    buckets: BTreeMap<u64, u64>,
    devices: BTreeMap<usize, Counts>,
    nights: BTreeMap<usize, Counts>,
    runs: BTreeMap<String, Counts>,
    /// The quantiles, where they are supported; after [`Tails::quantiles`].
    values: [Option<u64>; QUANTILES.len()],
}

/// Where a histogram is from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Number of the night.
    pub night: usize,
    /// Identifier of the run.
    pub run: &'a str,
}

/// Merged histograms.
#[derive(Debug, Default)]
pub(super) struct Tails {
    merged: BTreeMap<Place, Merged>,
    counting: bool,
}

impl Tails {
    /// Merges a histogram (largest value and count of each bucket); after [`Tails::quantiles`], counts it.
    pub(super) fn add(
        &mut self,
        place: Place,
        device: usize,
        from: Source,
        buckets: &[(u64, u64)],
    ) {
        if !self.counting {
            let merged = self.merged.entry(place).or_default();
            for &(high, n) in buckets {
                let count = merged.buckets.entry(high).or_default();
                *count = count.saturating_add(n);
            }
            merged.devices.entry(device).or_default();
            merged.nights.entry(from.night).or_default();
            return;
        }
        let Some(merged) = self.merged.get_mut(&place) else { return };
        let last = merged.buckets.last_key_value().map_or(0, |(high, _)| *high);
        let mut counts = Counts::default();
        for &(high, n) in buckets {
            counts.samples = counts.samples.saturating_add(n);
            for (above, value) in counts.above.iter_mut().zip(merged.values) {
                // In the bucket of the quantile, where that is the last one.
                if value.is_some_and(|v| high > v || high == last) {
                    *above = above.saturating_add(n);
                }
            }
        }
        // Runs are looked at where there is one device and one night.
        if merged.devices.len() == 1 && merged.nights.len() == 1 {
            merged.runs.entry(from.run.to_owned()).or_default().add(&counts);
        }
        merged.devices.entry(device).or_default().add(&counts);
        merged.nights.entry(from.night).or_default().add(&counts);
    }

    /// Takes the quantiles of what was merged; the same histograms are counted from now on.
    pub(super) fn quantiles(&mut self) {
        self.counting = true;
        for merged in self.merged.values_mut() {
            let all = samples(&merged.buckets) as f64;
            merged.values = QUANTILES.map(|q| {
                let supported = q <= 0.5 || all - q * all >= BEYOND;
                supported.then(|| at(&merged.buckets, q * all)).flatten()
            });
        }
    }

    /// The tails of the results, by number of the result; boards are numbers of lines.
    pub(super) fn finish(self) -> impl Iterator<Item = (Place, Tail)> {
        self.merged.into_iter().map(|(place, merged)| (place, merged.tail()))
    }
}

impl Counts {
    fn add(&mut self, more: &Self) {
        self.samples = self.samples.saturating_add(more.samples);
        for (above, n) in self.above.iter_mut().zip(more.above) {
            *above = above.saturating_add(n);
        }
    }
}

impl Merged {
    /// As a tail without its board.
    fn tail(self) -> Tail {
        let all = samples(&self.buckets);
        let units = |i: usize, of: &mut dyn Iterator<Item = &Counts>| {
            let mut units = Units::default();
            of.for_each(|c| units.add(c.samples, c.above[i]));
            units
        };
        let quantile = |(i, q): (usize, f64)| {
            let value = self.values[i]?;
            let devices = units(i, &mut self.devices.values());
            let nights = units(i, &mut self.nights.values());
            let runs = units(i, &mut self.runs.values());
            let ends = clusters::interval(q, &devices, &nights, &runs).ok();
            let interval = ends.and_then(|(low, high)| {
                let (low, _) = bucket(at(&self.buckets, low * all as f64)?);
                // With less than one sample above it, no sample tells where the end is.
                let known = (1.0 - high) * all as f64 >= 1.0;
                Some((low, known.then(|| at(&self.buckets, high * all as f64)).flatten()))
            });
            Some(TailQuantile { q, value, interval })
        };
        let (devices, nights) = (self.devices.len() as u64, self.nights.len() as u64);
        Tail {
            board: None,
            samples: all,
            devices,
            nights,
            over: clusters::over(devices, nights, self.runs.len() as u64),
            quantiles: QUANTILES.into_iter().enumerate().filter_map(quantile).collect(),
            buckets: self.buckets.into_iter().collect(),
        }
    }
}

fn samples(buckets: &BTreeMap<u64, u64>) -> u64 {
    buckets.values().fold(0, |sum, n| sum.saturating_add(*n))
}

/// Largest value of the bucket in which a number of samples is reached.
fn at(buckets: &BTreeMap<u64, u64>, rank: f64) -> Option<u64> {
    let mut upto = 0u64;
    let reached = |(_, n): &(&u64, &u64)| {
        upto = upto.saturating_add(**n);
        upto as f64 >= rank
    };
    buckets.iter().find(reached).map(|(high, _)| *high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_stats::clusters::{Over, Unknown};
    use latlab_testkit::tail_sim::{Cell, World};

    /// Upper bounds of the buckets of a lake, from 4 µs to 4 ms.
    fn grid() -> Vec<u64> {
        std::iter::successors(Some(4_096u64), |low| Some(bucket(*low).1 + 1))
            .take_while(|low| *low < 1 << 22)
            .map(|low| bucket(low).1)
            .collect()
    }

    fn tail(cells: &[Cell], grid: &[u64]) -> Tail {
        let mut tails = Tails::default();
        for _ in 0..2 {
            for cell in cells {
                let all = grid.iter().zip(&cell.counts).filter(|(_, n)| **n > 0);
                let buckets: Vec<(u64, u64)> = all.map(|(high, n)| (*high, *n)).collect();
                let run = format!("{}-{}", cell.device, cell.night);
                let from = Source { night: cell.night, run: &run };
                tails.add(Place::Line(0), cell.device, from, &buckets);
            }
            tails.quantiles();
        }
        tails.finish().next().unwrap().1
    }

    fn of(tail: &Tail, q: f64) -> TailQuantile {
        *tail.quantiles.iter().find(|v| v.q == q).unwrap()
    }

    #[test]
    fn intervals_contain_the_truth_where_devices_and_nights_differ() {
        let grid = grid();
        let world = World { level: [0.1, 0.05, 0.05], late: [0.5, 0.3, 0.3], cluster: 5 };
        let truth = world.quantile(0.9999) as u64;
        let (mut hits, mut of_counts, all) = (0, 0, 120);
        for seed in 0..all {
            let tail = tail(&world.draw(10, 7, 60_000.0, &grid, seed), &grid);
            let (low, high) = of(&tail, 0.9999).interval.unwrap();
            hits += u64::from(low <= truth && high.is_none_or(|h| truth <= h));
            // Order statistics: as if all samples were independent.
            let merged: BTreeMap<u64, u64> = tail.buckets.iter().copied().collect();
            let n = tail.samples as f64;
            let rank = |sign: f64| 0.9999 * n + sign * 1.96 * (0.9999 * 0.0001 * n).sqrt();
            let (low, high) = (at(&merged, rank(-1.0)).unwrap(), at(&merged, rank(1.0)).unwrap());
            of_counts += u64::from(bucket(low).0 <= truth && truth <= high);
        }
        // docs/validation/coverage.md has more of it.
        assert!(hits * 100 >= all * 90, "{hits} of {all}");
        assert!(of_counts * 100 < all * 60, "{of_counts} of {all} as independent samples");
    }

    #[test]
    fn few_devices_have_a_quantile_and_no_interval() {
        let grid = grid();
        let world = World::default();
        let draw = |devices, nights| tail(&world.draw(devices, nights, 60_000.0, &grid, 3), &grid);
        let four = draw(4, 7);
        assert_eq!((four.devices, four.nights, four.over), (4, 7, Err(Unknown::FewDevices)));
        assert!(of(&four, 0.999).interval.is_none() && of(&four, 0.999).value > 15_000);
        assert_eq!(draw(5, 4).over, Ok(Over::Devices));
        assert_eq!(draw(1, 7).over, Ok(Over::Nights));
        assert!(of(&draw(1, 7), 0.999).interval.is_some());
        assert_eq!(draw(1, 3).over, Err(Unknown::FewNights));
        assert_eq!(draw(1, 1).over, Err(Unknown::FewRuns));
        // The maximum of the samples tells nothing of an end beyond it.
        let few = draw(5, 1);
        let far = few.quantiles.last().unwrap();
        assert!(far.q == 0.9999, "{far:?}");
    }

    #[test]
    fn a_quantile_in_the_last_bucket_has_an_interval() {
        let cell = |device: usize, night: usize| Cell {
            device,
            night,
            counts: vec![1_000, 100 + 10 * (device as u64 % 3)],
        };
        let all = (0..6).flat_map(|d| (0..5).map(move |n| cell(d, n)));
        let tail = tail(&all.collect::<Vec<_>>(), &[4_159, 8_319]);
        let (low, high) = of(&tail, 0.99).interval.unwrap();
        assert_eq!((of(&tail, 0.99).value, low, high), (8_319, 8_192, Some(8_319)));
    }

    #[test]
    fn runs_of_one_device_in_one_night_are_units() {
        let mut tails = Tails::default();
        for _ in 0..2 {
            for run in 0..6u64 {
                let name = run.to_string();
                let from = Source { night: 0, run: &name };
                // In two pieces, as several results of one run are.
                tails.add(Place::All(0), 0, from, &[(1_023, 1_000)]);
                tails.add(Place::All(0), 0, from, &[(2_047, 40 + run)]);
            }
            tails.quantiles();
        }
        let tail = tails.finish().next().unwrap().1;
        assert_eq!((tail.over, tail.samples), (Ok(Over::Runs), 6_255));
        assert_eq!(of(&tail, 0.5).interval, Some((1_016, Some(1_023))));
    }
}
