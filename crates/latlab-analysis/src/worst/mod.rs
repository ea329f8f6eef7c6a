//! The search for the times at which inputs delay a task most.
//!
//! The latency of a wake-up as a function of the time at which one section with interrupts off begins is a saw-tooth: 0
//! while the section is over before the expiry, rising the later it begins, and 0 again from the expiry on. Of
//! several sections it is the sum where they meet. A random time meets a section of length `s` in a period
//! `T` with probability `s/T`, all of `k` sections with the product of `k` such shares; steps below `s/2` along one
//! axis after the other meet them in the sum of the numbers of steps, and bisection finds the edge.

pub mod axis;
mod climb;
mod scan;
#[cfg(test)]
mod simulated;

use axis::Axis;
use latlab_model::record::{Record, Unit};
use latlab_model::run::{Detail, Part};
use latlab_model::worst::{Growth, Method, Trail, WorstDetail};
use latlab_stats::histogram::Histogram;
use latlab_stats::rng::SplitMix64;

/// Below this step no clock of the machines distinguishes two times, ns.
const FINEST_NS: u64 = 16;

/// The latency at these phases, one for each axis; an error ends the search.
pub type Objective<'a, E> = &'a mut dyn FnMut(&[u64]) -> Result<u64, E>;

/// A search that is going on.
struct Search<'a, E> {
    axes: &'a [Axis],
    evaluate: Objective<'a, E>,
    random: SplitMix64,
    budget: u64,
    trail: Trail,
    /// Phases of the worst wake-up so far.
    worst: Vec<u64>,
    /// Its places, where it has places.
    places: Vec<u64>,
    error: Option<E>,
}

/// The places of all inputs, and the latency there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Point {
    places: Vec<u64>,
    latency_ns: u64,
}

/// What a search found: its growth, and the phases of its worst wake-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The growth.
    pub trail: Trail,
    /// Phase of each input, ns.
    pub phases: Vec<u64>,
}

/// Searches with `wakeups` evaluations. Equal arguments and an equal objective give an equal result.
///
/// # Errors
/// The objective's.
pub fn search<E>(
    method: Method,
    seed: u64,
    wakeups: u64,
    axes: &[Axis],
    evaluate: Objective<'_, E>,
) -> Result<Found, E> {
    let mut search = Search {
        axes,
        evaluate,
        random: SplitMix64::new(seed),
        budget: wakeups,
        trail: Trail::default(),
        worst: Vec::new(),
        places: Vec::new(),
        error: None,
    };
    // Each method ends when the budget is used up, or at an error.
    let _ended = match method {
        Method::Combined => search.combined(),
        Method::Scan => search.scans(),
        Method::Climb => search.climbs(),
        Method::Random => search.at_random(),
    };
    if let Some(error) = search.error {
        return Err(error);
    }
    let nearest = axes.iter().zip(&search.worst).map(|(axis, phase)| axis.nearest(*phase));
    search.trail.before_ns = nearest.collect();
    Ok(Found { trail: search.trail, phases: search.worst })
}

/// The part of a run, with the worst wake-up as a record.
pub fn part(detail: WorstDetail) -> Part {
    let record = |latency_ns: u64| {
        let histogram = Histogram::of([latency_ns]);
        Record {
            name: "worst.found".into(),
            params: [("machine".to_owned(), detail.inputs.machine.as_str().into())].into(),
            unit: Unit::Ns,
            summary: histogram.summary(),
            histogram: Some(histogram),
            ..Record::default()
        }
    };
    Part {
        name: "worst".into(),
        title: "Worst wake-up".into(),
        complete: true,
        results: detail.searched.search.worst().map(|w| record(w.latency_ns)).into_iter().collect(),
        detail: Some(Detail::Worst(Box::new(detail))),
        ..Part::default()
    }
}

impl<E> Search<'_, E> {
    /// The latency at these phases; `None` at the end of the budget, and at an error.
    fn at_phases(&mut self, phases: &[u64]) -> Option<u64> {
        if self.trail.wakeups >= self.budget {
            return None;
        }
        let latency_ns = match (self.evaluate)(phases) {
            Ok(ns) => ns,
            Err(error) => {
                self.error = Some(error);
                return None;
            }
        };
        self.trail.wakeups += 1;
        if self.trail.worst().is_none_or(|worst| latency_ns > worst.latency_ns) {
            self.trail.growth.push(Growth { wakeup: self.trail.wakeups, latency_ns });
            self.worst = phases.to_vec();
            self.places.clear();
        }
        Some(latency_ns)
    }

    /// The latency at these places.
    fn at(&mut self, places: &[u64]) -> Option<u64> {
        let phases: Vec<u64> =
            self.axes.iter().zip(places).map(|(axis, place)| axis.phase(*place)).collect();
        let latency = self.at_phases(&phases)?;
        if self.worst == phases && self.places.is_empty() {
            self.places = places.to_vec();
        }
        Some(latency)
    }

    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Random phases over the whole periods, as a run of unrelated periods meets them.
    fn at_random(&mut self) -> Option<()> {
        loop {
            let phases: Vec<u64> =
                (0..self.axes.len()).map(|i| self.below(self.axes[i].every_ns)).collect();
            self.at_phases(&phases)?;
        }
    }

    /// A random place of each input.
    fn random_point(&mut self) -> Option<Point> {
        let places: Vec<u64> =
            (0..self.axes.len()).map(|i| self.below(self.axes[i].span())).collect();
        self.evaluated(places)
    }

    /// All inputs at their earliest: over before the expiry.
    fn away(&mut self) -> Option<Point> {
        let places = self.axes.iter().map(|axis| axis.span() - 1).collect();
        self.evaluated(places)
    }

    fn evaluated(&mut self, places: Vec<u64>) -> Option<Point> {
        let latency_ns = self.at(&places)?;
        Some(Point { places, latency_ns })
    }

    /// Scans, each followed by a climb; the climbs from the worst point grow longer.
    fn combined(&mut self) -> Option<()> {
        let mut failures = 50;
        loop {
            let mut point = self.scanned()?;
            self.climb(&mut point, failures)?;
            // Evaluated anew: with another state of the kernel it may be less.
            let mut point = self.evaluated(self.places.clone())?;
            self.climb(&mut point, 2 * failures)?;
            failures = (failures * 3 / 2).min(400);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::simulated::{Kind, Machine};
    use super::*;
    use std::convert::Infallible;

    fn run(machine: &Machine, method: Method, seed: u64, wakeups: u64) -> Found {
        let axes = machine.axes();
        let mut evaluate =
            |phases: &[u64]| -> Result<u64, Infallible> { Ok(machine.latency(&axes, phases)) };
        let Ok(found) = search(method, seed, wakeups, &axes, &mut evaluate);
        assert_eq!(found.trail.wakeups, wakeups);
        let growth = &found.trail.growth;
        assert!(growth.windows(2).all(|w| w[0].latency_ns < w[1].latency_ns));
        assert_eq!(machine.latency(&axes, &found.phases), growth.last().unwrap().latency_ns);
        found
    }

    fn median(mut values: Vec<u64>) -> u64 {
        values.sort_unstable();
        values[values.len() / 2]
    }

    #[test]
    fn a_seed_gives_the_same_search_again() {
        let machine = Machine::of(&[(Kind::IrqsOff, 30_000), (Kind::Interrupt, 20_000)], 1_000_000);
        for method in [Method::Combined, Method::Scan, Method::Climb, Method::Random] {
            let first = run(&machine, method, 7, 300);
            assert_eq!(first, run(&machine, method, 7, 300));
            assert_ne!(first, run(&machine, method, 8, 300));
        }
    }

    #[test]
    fn an_error_of_the_objective_ends_the_search() {
        let machine = Machine::of(&[(Kind::IrqsOff, 30_000)], 1_000_000);
        let mut calls = 0;
        let mut evaluate = |_: &[u64]| {
            calls += 1;
            if calls == 5 { Err("broken") } else { Ok(1) }
        };
        let found = search(Method::Combined, 1, 100, &machine.axes(), &mut evaluate);
        assert_eq!((found, calls), (Err("broken"), 5));
    }

    #[test]
    fn no_input_is_no_search_space() {
        let mut evaluate = |phases: &[u64]| -> Result<u64, Infallible> {
            assert!(phases.is_empty());
            Ok(9)
        };
        for method in [Method::Combined, Method::Scan, Method::Climb, Method::Random] {
            let Ok(found) = search(method, 1, 10, &[], &mut evaluate);
            assert_eq!(found.trail.after(10), 9);
        }
    }

    /// The worst case of the simulated machine is known: all sections in a row.
    #[test]
    fn three_sections_of_one_period_are_lined_up() {
        let machine = Machine::of(
            &[(Kind::IrqsOff, 30_000), (Kind::Interrupt, 20_000), (Kind::PreemptOff, 25_000)],
            1_000_000,
        );
        let found = |method| {
            (1..=20).map(|seed| run(&machine, method, seed, 2000).trail.after(2000)).collect()
        };
        let random = median(found(Method::Random));
        let combined = median(found(Method::Combined));
        assert!(combined > random && combined >= machine.worst() * 98 / 100, "{combined} {random}");
    }

    /// Three sections that a random wake-up meets together once in a million: the search needs some hundred.
    #[test]
    fn a_coincidence_of_one_in_a_million_is_found_with_a_hundredth_of_the_wakeups() {
        let sections =
            [(Kind::IrqsOff, 100_000), (Kind::Interrupt, 100_000), (Kind::Interrupt, 100_000)];
        let machine = Machine::of(&sections, 10_000_000);
        let limit = machine.worst() * 85 / 100;
        let used = |seed| {
            let trail = run(&machine, Method::Combined, seed, 10_000).trail;
            trail.growth.iter().find(|g| g.latency_ns >= limit).map_or(u64::MAX, |g| g.wakeup)
        };
        let median = median((1..=20).map(used).collect());
        assert!(median <= 1_000, "{median}");
        // Some in a million random wake-ups are as late.
        let axes = machine.axes();
        let mut random = SplitMix64::new(1);
        let mut phase = || random.below(10_000_000) as u64;
        let met = (0..300_000)
            .filter(|_| machine.latency(&axes, &[phase(), phase(), phase()]) >= limit)
            .count();
        assert!(met <= 3, "{met}");
    }
}
