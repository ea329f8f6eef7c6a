//! What was measured: times by work, placement by placement, and the curves that they make.

use latlab_model::cache::detail::{AccessPattern, Curve, CurvePoint, Pages};
use latlab_model::cache::request::{Request, Work};
use latlab_stats::quantile::median;
use std::collections::BTreeMap;

/// A time this factor above its like is probably interference; half of what the smallest step of a level adds.
pub const DISTURBED: f64 = 1.12;

/// The shortest time of one placement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Byte offset of the placement.
    pub start: u32,
    /// Shortest time of a load, ns.
    pub ns: f64,
}

/// All times.
#[derive(Clone, Debug, Default)]
pub struct Records {
    all: BTreeMap<(Pages, Work), Vec<Sample>>,
    /// Later visits to a placement that were faster by more than [`DISTURBED`], and all later visits.
    pub faster: (u32, u32),
}

impl Records {
    /// Adds a time; of several at one placement the shortest counts, because interference only adds.
    pub fn add(&mut self, request: &Request, ns: f64) {
        let samples = self.all.entry((request.pages, request.work)).or_default();
        match samples.iter_mut().find(|s| s.start == request.start) {
            Some(sample) => {
                self.faster.1 += 1;
                self.faster.0 += u32::from(ns * DISTURBED < sample.ns);
                sample.ns = sample.ns.min(ns);
            }
            None => samples.push(Sample { start: request.start, ns }),
        }
    }

    /// Times of one work.
    pub fn samples(&self, pages: Pages, work: Work) -> &[Sample] {
        self.all.get(&(pages, work)).map_or(&[], Vec::as_slice)
    }

    /// The shortest time of one work, ns.
    pub fn low(&self, pages: Pages, work: Work) -> Option<f64> {
        self.samples(pages, work).iter().map(|s| s.ns).reduce(f64::min)
    }

    /// The median time of one work, ns.
    pub fn median(&self, pages: Pages, work: Work) -> Option<f64> {
        median(&self.samples(pages, work).iter().map(|s| s.ns).collect::<Vec<f64>>())
    }

    /// Latency over size for one order.
    pub fn curve(&self, pages: Pages, access: AccessPattern, stride: u32) -> Curve {
        let mut curve = Curve { access, pages, stride_bytes: stride, ..Curve::default() };
        for ((p, work), samples) in &self.all {
            let Work::Array { access: a, stride: s, bytes } = *work else { continue };
            if (*p, a, s) != (pages, access, stride) {
                continue;
            }
            let times: Vec<f64> = samples.iter().map(|s| s.ns).collect();
            let Some(mut point) = CurvePoint::of(bytes.into(), &times) else { continue };
            if pages == Pages::Huge {
                // Within huge pages the placement changes nothing: differences are interference.
                point.ns = point.low_ns;
            }
            curve.insert(point);
        }
        curve
    }

    /// Placements of a curve whose times may be interference: far above those of other placements of the same size,
    /// or of a point that takes longer than a larger array.
    pub fn disturbed(&self, curve: &Curve) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        let mut least = f64::INFINITY;
        for point in curve.points.iter().rev() {
            let Ok(bytes) = u32::try_from(point.x) else { continue };
            let work = Work::Array { access: curve.access, stride: curve.stride_bytes, bytes };
            let samples = self.samples(curve.pages, work);
            let usual = self.median(curve.pages, work).unwrap_or(0.0);
            let falls = point.ns > least * DISTURBED;
            let high = samples.iter().filter(|s| falls || s.ns > usual * DISTURBED);
            out.extend(high.map(|s| (point.x, s.start)));
            least = least.min(point.ns);
        }
        out
    }

    /// Size, stride and shortest time of each array of [`Work::Lines`], ns a load.
    pub fn lines(&self, pages: Pages) -> Vec<(u32, u32, f64)> {
        let of = |((p, work), samples): (&(Pages, Work), &Vec<Sample>)| match *work {
            Work::Lines { stride, bytes, .. } if *p == pages => {
                Some((bytes, stride, samples.iter().map(|s| s.ns).reduce(f64::min)?))
            }
            _ => None,
        };
        self.all.iter().filter_map(of).collect()
    }

    /// Size ranges of all curves.
    pub fn kinds(&self) -> Vec<(Pages, AccessPattern, u32)> {
        let mut kinds: Vec<_> = self
            .all
            .keys()
            .filter_map(|(pages, work)| match *work {
                Work::Array { access, stride, .. } => Some((*pages, access, stride)),
                _ => None,
            })
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Size of the largest array of pairs, bytes.
    pub fn largest_pairs(&self, pages: Pages) -> Option<u32> {
        let sizes = self.all.keys().filter_map(|(p, work)| match *work {
            Work::Pairs { bytes, .. } if *p == pages => Some(bytes),
            _ => None,
        });
        sizes.max()
    }

    /// Curve of one line a page over adjacent lines, on top of a hit: the lowest of the placements of
    /// both, because interference and lines that share a set by chance only add.
    pub fn translation(&self, page: u32, line: u32, hit: f64) -> Curve {
        let access = AccessPattern::LinePerPage;
        let mut curve = Curve { access, stride_bytes: page, ..Curve::default() };
        for ((pages, work), samples) in &self.all {
            let Work::LinePerPage { apart, line: l, count } = *work else { continue };
            if (*pages, apart, l) != (Pages::Base, page, line) {
                continue;
            }
            let adjacent = Work::LinePerPage { apart: line, line, count };
            let beside = self.low(Pages::Base, adjacent).unwrap_or(hit).max(hit);
            let times: Vec<f64> = samples.iter().map(|s| hit + (s.ns - beside).max(0.0)).collect();
            if let Some(mut point) = CurvePoint::of(count.into(), &times) {
                point.ns = point.low_ns;
                curve.insert(point);
            }
        }
        curve
    }
}
