//! Planner and state of a measurement: [`Session::plan`] says what to measure next, [`Session::observe`] takes the
//! time, [`Session::result`] infers from all times so far.
//!
//! ```text
//!           plan ──Request──▶ LoadTimer (a machine, or a simulator)
//! Session ◀─observe──ns─────┘
//!    └─result─▶ CacheDetail
//! ```
//!
//! Stages follow one another; each says for its round which requests are missing, given the records, until there are
//! none. Nothing here measures, waits or prints.

use super::observations::{Config, Observations};
use super::{regime_map, stages, tlb};
use latlab_model::cache::detail::{CacheDetail, Limitation, Pages, Parallelism, TlbLevel};
use latlab_model::cache::request::{Limits, Request, Work};
use latlab_model::cache::timer::{LoadTimer, Stage, TimerError};
use latlab_stats::rng::SplitMix64;
use std::collections::VecDeque;

/// Share of later visits that were faster by a tenth from which on interference is reported.
const INTERFERENCE: f64 = 0.1;
/// A measurement: what was observed, and what is next.
#[derive(Debug)]
pub struct Session {
    observed: Observations,
    stage: Stage,
    round: u32,
    queue: VecDeque<Request>,
    rng: SplitMix64,
    incomplete: bool,
}

impl Session {
    /// A measurement of a machine with these limits.
    pub fn new(limits: Limits, config: Config) -> Self {
        Self {
            observed: Observations::new(limits, config),
            stage: Stage::Splintering,
            round: 0,
            queue: VecDeque::new(),
            rng: SplitMix64::new(config.seed),
            incomplete: false,
        }
    }

    /// The stage of the last request.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The next measurement; `None` when all is measured.
    pub fn plan(&mut self) -> Option<Request> {
        loop {
            if let Some(request) = self.queue.pop_front() {
                return Some(request);
            }
            let wanted = stages::wanted(self.stage, &self.observed, self.round);
            if wanted.is_empty() {
                self.stage = stages::next(self.stage)?;
                self.round = 0;
                let probes = stages::probes(self.stage, &self.observed);
                self.observed.probes.extend(probes);
                continue;
            }
            self.round += 1;
            for want in wanted {
                let placements = match want.start {
                    Some(start) => vec![start],
                    None => (0..want.placements)
                        .map(|_| self.placement(want.pages, want.work.span()))
                        .collect(),
                };
                for start in placements {
                    let seed = self.rng.next_u64();
                    let request = Request { pages: want.pages, work: want.work, start, seed };
                    self.queue.push_back(request);
                }
            }
        }
    }

    /// Takes the time of a request, ns.
    pub fn observe(&mut self, request: &Request, ns: f64) {
        match request.work {
            Work::Chains { chains, .. } => {
                self.observed.parallelism.push(Parallelism { chains, ns })
            }
            _ => self.observed.records.add(request, ns),
        }
    }

    /// Ends the measurement before its plan does.
    pub fn stop(&mut self) {
        self.incomplete = true;
    }

    /// A random placement of `bytes` that begins on a page of the area.
    fn placement(&mut self, pages: Pages, bytes: u32) -> u32 {
        let unit = match pages {
            Pages::Base => self.observed.limits.page_bytes,
            Pages::Huge => self.observed.limits.huge_page_bytes,
        }
        .max(1);
        let places = self.observed.room(pages).saturating_sub(bytes) / unit + 1;
        self.rng.below(places as usize) as u32 * unit
    }

    /// Infers from all times so far.
    pub fn result(&self) -> CacheDetail {
        let mut detail = CacheDetail {
            seed: self.observed.config.seed,
            page_bytes: self.observed.limits.page_bytes.into(),
            largest_bytes: self
                .observed
                .limits
                .base_bytes
                .max(self.observed.limits.huge_bytes)
                .into(),
            parallelism: self.observed.parallelism.clone(),
            ..CacheDetail::default()
        };
        let of = |(pages, access, stride)| self.observed.records.curve(pages, access, stride);
        detail.curves = self.observed.records.kinds().into_iter().map(of).collect();
        detail.line = self.observed.line();
        if self.observed.config.emulated {
            detail.cannot_tell = Some(Limitation::Emulated);
            detail.line = None;
            return detail;
        }
        let found = self.observed.levels();
        let translation = self.observed.translation();
        if found.levels.is_empty() && found.latencies.len() > 1 {
            detail.limitations.push(Limitation::NotFitted);
        } else if found.levels.is_empty() {
            let largest = self.observed.curve().points.last().map_or(0, |p| p.x);
            detail.limitations.push(Limitation::Flat(largest));
        } else if found.memory_ns.is_none() {
            detail.limitations.push(Limitation::StillRising);
        }
        if !found.levels.is_empty() && !translation.points.is_empty() {
            detail.tlbs = tlb::infer(&translation);
            detail.walk_ns =
                detail.tlbs.iter().map(|t: &TlbLevel| t.penalty_ns).reduce(|a, b| a + b);
            detail.curves.push(translation);
        }
        detail.levels = found.levels;
        detail.memory_ns = found.memory_ns;
        let pages = self.observed.pages();
        let measured = self.observed.records.lines(pages);
        detail.regime_map = regime_map::fit(regime_map::points(&measured), &detail, pages);
        if self.observed.splintered() {
            detail.limitations.push(Limitation::Splintered);
        }
        let (faster, again) = self.observed.records.faster;
        if f64::from(faster) > INTERFERENCE * f64::from(again.max(20)) {
            detail.limitations.push(Limitation::Interference);
        }
        if self.incomplete {
            detail.limitations.push(Limitation::Incomplete);
        }
        detail
    }
}

/// Measures with a timer until the plan is done, or the timer ends it; returns why it did.
///
/// # Errors
/// The timer's, when not even one curve was measured.
pub fn run(
    session: &mut Session,
    timer: &mut dyn LoadTimer,
) -> Result<Option<TimerError>, TimerError> {
    while let Some(request) = session.plan() {
        match timer.time(&request, session.stage()) {
            Ok(Some(ns)) => session.observe(&request, ns),
            Ok(None) => {}
            Err(error) => {
                session.stop();
                return if session.observed.curve().points.len() < 8 {
                    Err(error)
                } else {
                    Ok(Some(error))
                };
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_testkit::cache_sim::catalog::named;
    use latlab_testkit::cache_sim::{Hierarchy, Simulated};

    /// Largest array of the tests, bytes: a simulated load is slow without optimisation.
    const SMALL: u32 = 4 << 20;

    fn measured(h: &Hierarchy) -> CacheDetail {
        let mut machine = Simulated::new(h.clone(), SMALL, 1000);
        let config = Config { quick: true, seed: 1000, emulated: false };
        let mut session = Session::new(machine.limits(), config);
        run(&mut session, &mut machine).unwrap();
        session.result()
    }

    #[test]
    fn a_small_hierarchy_is_found() {
        let all = named();
        let h = all.iter().find(|h| h.name == "8K/2 64K/4").unwrap();
        let found = measured(h);
        let sizes: Vec<u64> = found.levels.iter().map(|l| l.bytes).collect();
        assert_eq!(sizes, [8 << 10, 64 << 10], "{:#?}", found.levels);
        assert_eq!(found.line.map(|l| l.bytes), Some(64));
        assert_eq!(found.tlbs[0].entries, 48);
        let holds = |l: &latlab_model::cache::Level| {
            l.bytes_interval.0 <= l.bytes && l.bytes <= l.bytes_interval.1
        };
        assert!(found.levels.iter().all(holds));
    }

    #[test]
    fn a_constant_latency_has_no_cache() {
        for h in named().iter().filter(|h| h.caches.is_empty()) {
            let found = measured(h);
            assert!(found.levels.is_empty() && found.tlbs.is_empty(), "{}", h.name);
            assert!(matches!(found.limitations[..], [Limitation::Flat(_), ..]));
        }
    }

    /// A timer that is out of time after some requests.
    struct Limited<'a>(&'a mut Simulated, u32);

    impl LoadTimer for Limited<'_> {
        fn time(&mut self, request: &Request, stage: Stage) -> Result<Option<f64>, TimerError> {
            self.1 = self.1.checked_sub(1).ok_or(TimerError::OutOfTime)?;
            self.0.time(request, stage)
        }
    }

    #[test]
    fn a_measurement_that_ends_early_has_what_was_measured() {
        let h = &named()[0];
        let of = |requests| {
            let mut machine = Simulated::new(h.clone(), SMALL, 5);
            let config = Config { quick: true, seed: 5, emulated: false };
            let mut session = Session::new(machine.limits(), config);
            let ended = run(&mut session, &mut Limited(&mut machine, requests));
            (ended, session.result())
        };
        assert_eq!(of(3).0, Err(TimerError::OutOfTime));
        let (ended, found) = of(200);
        assert_eq!(ended, Ok(Some(TimerError::OutOfTime)));
        assert!(found.limitations.contains(&Limitation::Incomplete) && !found.levels.is_empty());
    }
}
