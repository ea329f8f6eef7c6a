//! Times that were observed so far, and what can be inferred from them: stages plan with it, the session concludes.

use super::associativity::{self, Probe};
use super::levels::{self, Inferred, low_interference};
use super::line;
use super::record::Records;
use latlab_model::cache::detail::{Curve, LineSize, Pages, Parallelism};
use latlab_model::cache::request::{Limits, Work};

/// Splintered huge pages cost at least this share of the translations of base pages; whole ones next to nothing.
const SPLINTERED: f64 = 0.6;
/// Translations of base pages cost at least this share of a hit, or nothing can be told.
const TRANSLATED: f64 = 0.2;
/// Pages by which splintering is told: more than a first TLB holds, fewer lines than the smallest first cache.
pub(super) const SPLINTER_PAGES: u32 = 256;
/// Longest line, bytes, before the line is known.
const LINE_MOST: u32 = 128;

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

/// What was asked for and observed.
#[derive(Debug)]
pub(super) struct Observations {
    pub limits: Limits,
    pub config: Config,
    pub records: Records,
    pub parallelism: Vec<Parallelism>,
    /// Levels whose associativity was asked for.
    pub probes: Vec<Probe>,
}

impl Observations {
    /// Nothing yet.
    pub fn new(limits: Limits, config: Config) -> Self {
        Self {
            limits,
            config,
            records: Records::default(),
            parallelism: Vec::new(),
            probes: Vec::new(),
        }
    }

    pub fn room(&self, pages: Pages) -> u32 {
        match pages {
            Pages::Base => self.limits.base_bytes,
            Pages::Huge => self.limits.huge_bytes,
        }
    }

    /// Whether huge pages are translated as base pages are; `None` before that is measured.
    pub fn splintered(&self) -> bool {
        let [adjacent, base, huge] = splintering(&self.limits);
        let low = |(pages, work)| self.records.low(pages, work);
        let (Some(adjacent), Some(base), Some(huge)) = (low(adjacent), low(base), low(huge)) else {
            return false;
        };
        let (base, huge) = (base - adjacent, huge - adjacent);
        base > TRANSLATED * adjacent && huge > SPLINTERED * base
    }

    /// Page size of the curve that levels are inferred from.
    pub fn pages(&self) -> Pages {
        // With few huge pages only a part of the curve could be measured.
        let enough = self.limits.huge_bytes >= (8 << 20).max(self.limits.base_bytes / 4);
        if enough && !self.splintered() { Pages::Huge } else { Pages::Base }
    }

    /// Bytes from one element of an array to the next: a line, at least 64.
    pub fn stride(&self) -> u32 {
        self.line().map_or(64, |l| l.bytes.max(64))
    }

    /// The curve that levels are inferred from.
    pub fn curve(&self) -> Curve {
        let pages = self.pages();
        let of = |stride| self.records.curve(pages, low_interference(pages), stride);
        let curve = of(self.stride());
        if curve.points.is_empty() { of(64) } else { curve }
    }

    /// Line size, once pairs are measured.
    pub fn line(&self) -> Option<LineSize> {
        let pages = self.pages();
        let bytes = self.records.largest_pairs(pages)?;
        let of = |distance| {
            Some((distance, self.records.median(pages, Work::Pairs { bytes, distance })?))
        };
        let pairs: Option<Vec<(u32, f64)>> = line::DISTANCES.into_iter().map(of).collect();
        Some(line::of_pairs(pairs?))
    }

    /// Associativity by the probes so far, one for each level.
    pub fn ways(&self) -> Vec<Option<u32>> {
        let mut ways: Vec<Option<u32>> = Vec::new();
        for probe in &self.probes {
            let inner = ways.last().copied().flatten().unwrap_or(0);
            ways.resize(probe.level, None);
            ways.push(associativity::ways(&self.records, self.pages(), probe, inner));
        }
        ways
    }

    /// Levels, as far as they show.
    pub fn levels(&self) -> Inferred {
        levels::infer(&self.curve(), self.limits.page_bytes, &self.ways())
    }

    /// Translation over pages: the first level's latency and what one line a page costs over adjacent lines.
    pub fn translation(&self) -> Curve {
        let page = self.limits.page_bytes;
        let line = self.line().map_or(64, |l| l.bytes.max(16));
        let hit = self.curve().points.first().map_or(0.0, |p| p.ns);
        self.records.translation(page, line, hit)
    }
}

/// Adjacent lines, one line a base page, one line each 4 KiB of a huge page.
pub(super) fn splintering(limits: &Limits) -> [(Pages, Work); 3] {
    let work = |apart| Work::LinePerPage { apart, line: LINE_MOST, count: SPLINTER_PAGES };
    let page = limits.page_bytes;
    [(Pages::Base, work(LINE_MOST)), (Pages::Base, work(page)), (Pages::Huge, work(page))]
}
