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

use super::associativity;
use super::associativity::Probe;
use super::levels;
use super::levels::{Inferred, low_interference};
use super::record::Records;
use super::{line, stages, tlb};
use latlab_model::cache::detail::{
    AccessPattern, CacheDetail, Curve, Limitation, LineSize, Pages, Parallelism, TlbLevel,
};
use latlab_model::cache::request::{Limits, Request, Work};
use latlab_model::cache::timer::{LoadTimer, Stage, TimerError};
use latlab_stats::rng::SplitMix64;
use std::collections::VecDeque;

/// Splintered huge pages cost at least this share of the translations of base pages; whole ones next to nothing.
const SPLINTERED: f64 = 0.6;
/// Translations of base pages cost at least this share of a hit, or nothing can be told.
const TRANSLATED: f64 = 0.2;
/// Share of later visits that were faster by a tenth from which on interference is reported.
const INTERFERENCE: f64 = 0.1;
/// Chains of the measurement of memory-level parallelism.
pub(super) const CHAINS: [u32; 5] = [1, 2, 4, 8, 16];

/// How to measure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// Fewer points and placements.
    pub quick: bool,
    /// Seed of all orders and placements.
    pub seed: u64,
    /// The processor is emulated: curves only, no inference.
    pub emulated: bool,
}

/// A measurement: what was asked for, what was observed, what is next.
#[derive(Debug)]
pub struct Session {
    pub(super) limits: Limits,
    pub(super) config: Config,
    pub(super) records: Records,
    pub(super) parallelism: Vec<Parallelism>,
    /// Levels whose associativity was asked for.
    pub(super) probes: Vec<Probe>,
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
            limits,
            config,
            records: Records::default(),
            parallelism: Vec::new(),
            probes: Vec::new(),
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
            let wanted = stages::wanted(self.stage, self, self.round);
            if wanted.is_empty() {
                self.stage = stages::next(self.stage)?;
                self.round = 0;
                self.probes.extend(stages::probes(self.stage, self));
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
            Work::Chains { chains, .. } => self.parallelism.push(Parallelism { chains, ns }),
            _ => self.records.add(request, ns),
        }
    }

    /// Ends the measurement before its plan does.
    pub fn stop(&mut self) {
        self.incomplete = true;
    }

    /// A random placement of `bytes` that begins on a page of the area.
    fn placement(&mut self, pages: Pages, bytes: u32) -> u32 {
        let unit = match pages {
            Pages::Base => self.limits.page_bytes,
            Pages::Huge => self.limits.huge_page_bytes,
        }
        .max(1);
        let places = self.room(pages).saturating_sub(bytes) / unit + 1;
        self.rng.below(places as usize) as u32 * unit
    }

    pub(super) fn room(&self, pages: Pages) -> u32 {
        match pages {
            Pages::Base => self.limits.base_bytes,
            Pages::Huge => self.limits.huge_bytes,
        }
    }

    /// Whether huge pages are translated as base pages are; `None` before that is measured.
    pub(super) fn splintered(&self) -> bool {
        let [adjacent, base, huge] = super::stages::splintering(&self.limits);
        let low = |(pages, work)| self.records.low(pages, work);
        let (Some(adjacent), Some(base), Some(huge)) = (low(adjacent), low(base), low(huge)) else {
            return false;
        };
        let (base, huge) = (base - adjacent, huge - adjacent);
        base > TRANSLATED * adjacent && huge > SPLINTERED * base
    }

    /// Page size of the curve that levels are inferred from.
    pub(super) fn pages(&self) -> Pages {
        // With few huge pages only a part of the curve could be measured.
        let enough = self.limits.huge_bytes >= (8 << 20).max(self.limits.base_bytes / 4);
        if enough && !self.splintered() { Pages::Huge } else { Pages::Base }
    }

    /// Bytes from one element of an array to the next: a line, at least 64.
    pub(super) fn stride(&self) -> u32 {
        self.line().map_or(64, |l| l.bytes.max(64))
    }

    /// The curve that levels are inferred from.
    pub(super) fn curve(&self) -> Curve {
        let pages = self.pages();
        let of = |stride| self.records.curve(pages, low_interference(pages), stride);
        let curve = of(self.stride());
        if curve.points.is_empty() { of(64) } else { curve }
    }

    /// Line size, once pairs are measured.
    pub(super) fn line(&self) -> Option<LineSize> {
        let pages = self.pages();
        let bytes = self.records.largest_pairs(pages)?;
        let of = |distance| {
            Some((distance, self.records.median(pages, Work::Pairs { bytes, distance })?))
        };
        let pairs: Option<Vec<(u32, f64)>> = line::DISTANCES.into_iter().map(of).collect();
        Some(line::of_pairs(pairs?))
    }

    /// Associativity by the probes so far, one for each level.
    pub(super) fn ways(&self) -> Vec<Option<u32>> {
        let mut ways: Vec<Option<u32>> = Vec::new();
        for probe in &self.probes {
            let inner = ways.last().copied().flatten().unwrap_or(0);
            ways.resize(probe.level, None);
            ways.push(associativity::ways(&self.records, self.pages(), probe, inner));
        }
        ways
    }

    /// Levels, as far as they show.
    pub(super) fn levels(&self) -> Inferred {
        levels::infer(&self.curve(), self.limits.page_bytes, &self.ways())
    }

    /// Translation over pages: the first level's latency and what one line a page costs over adjacent lines.
    pub(super) fn translation(&self) -> Curve {
        let page = self.limits.page_bytes;
        let line = self.line().map_or(64, |l| l.bytes.max(16));
        let hit = self.curve().points.first().map_or(0.0, |p| p.ns);
        self.records.translation(page, line, hit)
    }

    /// Infers from all times so far.
    pub fn result(&self) -> CacheDetail {
        let mut detail = CacheDetail {
            seed: self.config.seed,
            page_bytes: self.limits.page_bytes.into(),
            largest_bytes: self.limits.base_bytes.max(self.limits.huge_bytes).into(),
            parallelism: self.parallelism.clone(),
            ..CacheDetail::default()
        };
        let of = |(pages, access, stride)| self.records.curve(pages, access, stride);
        detail.curves = self.records.kinds().into_iter().map(of).collect();
        detail.line = self.line();
        if self.config.emulated {
            detail.cannot_tell = Some(Limitation::Emulated);
            detail.line = None;
            return detail;
        }
        let found = self.levels();
        let translation = self.translation();
        if found.levels.is_empty() {
            let largest = self.curve().points.last().map_or(0, |p| p.x);
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
        if self.splintered() {
            detail.limitations.push(Limitation::Splintered);
        }
        let (faster, again) = self.records.faster;
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
                return if session.curve().points.len() < 8 { Err(error) } else { Ok(Some(error)) };
            }
        }
    }
    Ok(None)
}

/// Curves that a comparison with prefetchers and translation shows; nothing is inferred from them.
pub(super) fn compared(session: &Session) -> Vec<(Pages, AccessPattern, u32)> {
    let stride = session.stride();
    let mut all = vec![
        (Pages::Base, AccessPattern::Sequential, stride),
        (Pages::Base, AccessPattern::PageRandom, stride),
    ];
    if session.pages() == Pages::Huge {
        all.push((Pages::Base, AccessPattern::PageLocal, stride));
    }
    if !session.config.quick {
        let others = [16, 32, 64, 128, 256, 512, 1024].into_iter().filter(|s| *s != stride);
        all.extend(others.map(|s| (Pages::Base, AccessPattern::Sequential, s)));
    }
    all
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
