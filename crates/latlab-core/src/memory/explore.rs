//! What is measured, in which order, and what follows from it.
//!
//! ```text
//! coarse curve ─▶ plateaus ─▶ line (pairs) ─▶ points round each knee ─▶ levels
//!                                         └▶ conflict sets ─▶ ways   └▶ TLB curve ─▶ entries
//! ```
//!
//! Huge pages are preferred where there are any: translation is out of the way, and within one
//! the sets of every cache up to its size are filled evenly. With ordinary pages the lines of a
//! page are visited together, so that its translation is paid once for all of them; physical
//! pages then lie at random, which the laws of [`super::setmodel`] know.

use super::conflict::Step;
use super::curve::{Curve, CurvePoint, Order, Pages};
use super::levels::Found;
use super::plateau::{self, Plateau};
use super::quiet::look_again;
use super::together::together;
use super::{Grade, Level, Limits, MemoryDetail, Meter, MeterError, Parallelism, pattern};
use crate::finding::Confidence;
use crate::stats::quantile::median;
use crate::stats::rng::SplitMix64;
use std::collections::HashMap;

/// How to explore.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Fewer points and repeats.
    pub quick: bool,
    /// Seed of all orders.
    pub seed: u64,
    /// Why nothing can be concluded here (an emulated processor).
    pub cannot_tell: Option<String>,
}

/// Smallest array, bytes.
pub(super) const SMALLEST: u32 = 2048;
/// Points in each doubling of the size, to begin with.
pub(super) const COARSE: u32 = 4;
/// A value this much above its like may be somebody else's doing.
pub(super) const DISTURBED: f64 = 1.12;
/// Times that such a value is measured again.
const AGAIN: u32 = 3;

/// Of a place's time and another look at it: what is alike stays, for the lowest of several is lower than
/// what a place usually takes, and only conflicting places would be looked at so often.
fn undisturbed(before: f64, again: f64) -> f64 {
    if again * DISTURBED < before { again } else { before }
}
/// Plateaus of less than so many doublings are looked at again before they are believed.
const SHORT: f64 = 1.5;
/// Places in which an array of ordinary pages is measured where chance matters, and the size from which on there
/// are fewer of them: of many pages chance makes less, and to lay them out takes long.
const SCATTERED: u32 = 16;
const SCATTERED_MOST: f64 = (8 << 20) as f64;
const SCATTERED_LEAST: u32 = 4;

/// Places in which an array of `x` bytes of ordinary pages is measured.
pub(super) fn scattered(x: f64) -> u32 {
    let share = (SCATTERED_MOST / x.max(1.0)).min(1.0);
    ((f64::from(SCATTERED) * share) as u32).max(SCATTERED_LEAST)
}
/// Strides of the arrays over size × stride, bytes, and the largest of these arrays.
const STRIDES: [u32; 7] = [16, 32, 64, 128, 256, 512, 1024];
const STRIDES_MOST: u32 = 64 << 20;

/// Measures and infers.
///
/// # Errors
/// When not even a coarse curve could be measured. When the time ends later, what is known then
/// is returned, and `missing` says what is not.
pub fn explore(meter: &mut dyn Meter, plan: &Plan) -> Result<MemoryDetail, MeterError> {
    let limits = meter.limits();
    let mut e = Explorer {
        limits,
        quick: plan.quick,
        rng: SplitMix64::new(plan.seed),
        stride: 64,
        detail: MemoryDetail {
            seed: plan.seed,
            page_bytes: limits.page_bytes.into(),
            largest_bytes: limits.base_bytes.max(limits.huge_bytes).into(),
            cannot_tell: plan.cannot_tell.clone(),
            ..MemoryDetail::default()
        },
        meter,
        steps: Vec::new(),
        conflicts: Vec::new(),
        pieces: false,
        places: HashMap::new(),
    };
    let stages = e.stages();
    let mut detail = e.detail;
    match stages {
        Ok(()) => {}
        Err(error) if detail.curves.iter().all(|c| c.points.len() < 8) => return Err(error),
        Err(error) => detail.missing.push(format!("not everything was measured: {error}")),
    }
    if let Some(reason) = detail.cannot_tell.clone() {
        forget(&mut detail, &reason);
    }
    Ok(detail)
}

/// On a processor without caches of its own, what was inferred is somebody else's.
fn forget(detail: &mut MemoryDetail, reason: &str) {
    detail.levels.clear();
    detail.tlbs.clear();
    detail.memory_ns = None;
    detail.walk_ns = None;
    if let Some(line) = &mut detail.line {
        line.bytes = 0;
        line.grade = Grade::less(Confidence::CannotTell, reason);
    }
}

pub(super) struct Explorer<'a> {
    pub(super) meter: &'a mut dyn Meter,
    pub(super) limits: Limits,
    pub(super) quick: bool,
    pub(super) rng: SplitMix64,
    /// Bytes from one element of an array to the next.
    pub(super) stride: u32,
    pub(super) detail: MemoryDetail,
    /// Steps between levels that were looked at.
    pub(super) steps: Vec<Step>,
    /// For each of them a smallest set of places of which one has to miss.
    pub(super) conflicts: Vec<Option<Vec<u32>>>,
    /// Huge pages are translated in pieces.
    pub(super) pieces: bool,
    /// Where the arrays of each point lay, and the time of each, ns.
    places: HashMap<Key, Vec<(u32, f64)>>,
}

/// Order, pages and stride of a curve, and a size.
type Key = (Order, Pages, u32, u32);

impl Explorer<'_> {
    fn stages(&mut self) -> Result<(), MeterError> {
        self.meter.stage("huge pages");
        self.look_for_pieces()?;
        let pages = self.preferred();
        self.meter.stage("coarse curve");
        let mut curve = self.coarse(pages)?;
        self.steadier(&mut curve)?;
        self.keep(curve.clone());
        let mut found = plateau::levels(&curve.points);
        if found.len() < 2 {
            self.detail.memory_ns = found.first().map(|p| p.ns);
            self.detail.missing.push(flat(&curve));
            return Ok(());
        }
        self.meter.stage("line");
        let line = self.find_line(pages, &curve, &found)?;
        if line.bytes > self.stride {
            self.stride = line.bytes;
            curve = self.coarse(pages)?;
            self.steadier(&mut curve)?;
            self.keep(curve.clone());
            found = plateau::levels(&curve.points);
        }
        self.detail.line = Some(line);
        self.confirm(&mut curve, &mut found)?;
        let mut levels = Vec::new();
        let measured = self.levels_between(&mut curve, &mut found, &mut levels).and_then(|()| {
            self.meter.stage("all levels together");
            self.find_hidden(&mut curve, &found, &mut levels)
        });
        // What was measured when the time is over is concluded all the same.
        self.keep(curve.clone());
        let page = self.limits.page_bytes;
        look_again(&curve, page, &mut found, &mut levels);
        if levels.len() + 1 >= found.len() {
            together(&curve, &found, page, &mut levels);
            self.detail.levels = levels.iter().map(|l| l.level.clone()).collect();
        }
        self.memory_level(&curve, &found);
        measured?;
        if !self.translation_seen() {
            self.find_tlbs()?;
        }
        self.other_orders()?;
        self.parallel_loads()?;
        match self.until_quiet(&mut curve, found, levels) {
            Err(MeterError::OutOfTime) => Ok(()),
            other => other,
        }
    }

    /// Looks at short plateaus between two others more closely, and drops those that chance made.
    fn confirm(&mut self, curve: &mut Curve, found: &mut Vec<Plateau>) -> Result<(), MeterError> {
        // Points that are added move the others: by their sizes, then.
        let ends: Vec<u64> = found.iter().map(|p| curve.points[p.last].x).collect();
        let between = 1..found.len().saturating_sub(1);
        for i in between.rev() {
            let (low, high) = (found[i].first_x, ends[i]);
            let octaves = (high as f64 / low.max(1) as f64).log2();
            if octaves > SHORT || curve.pages == Pages::Huge {
                continue;
            }
            let n = (octaves * plateau::EVENLY).ceil();
            for k in 0..=n as u32 {
                let x = low as f64 * (high as f64 / low as f64).powf(f64::from(k) / n);
                self.add(curve, x, scattered(x))?;
            }
            if !plateau::is_level(&curve.points, (low, high)) {
                found.remove(i);
            }
        }
        Ok(())
    }

    /// The level at the end of each plateau but the last; plateaus that only a closer look shows, or a law
    /// betrays, are added.
    fn levels_between(
        &mut self,
        curve: &mut Curve,
        found: &mut Vec<Plateau>,
        levels: &mut Vec<Found>,
    ) -> Result<(), MeterError> {
        // The plateau that was added last: of one that was not seen, a better one takes the place.
        let mut added = None;
        let mut i = 0;
        while i + 1 < found.len() {
            self.meter.stage(&format!("level {}", i + 1));
            let (here, next) = (found[i], found[i + 1]);
            self.look_between(curve, here, next)?;
            self.keep(curve.clone());
            let mut between = plateau::between(&curve.points, here, next);
            if between.is_none() {
                let level = self.find_level(curve, found, i)?;
                let memory = i + 2 == found.len();
                let apart = if memory { plateau::MEMORY_APART } else { plateau::LEVELS_APART };
                between = level.plateau_between(curve, here, next, apart);
                if between.is_none() {
                    self.detail.levels.push(level.level.clone());
                    levels.push(level);
                    if !self.translation_seen() {
                        // What needs no more than the first level comes before the last ones, which take long.
                        self.find_tlbs()?;
                    }
                }
            }
            match between {
                Some(better) if added == Some(i) && !here.seen => {
                    found[i] = better;
                    i -= 1;
                }
                Some(between) => {
                    found.insert(i + 1, between);
                    added = Some(i + 1);
                }
                None => {
                    i += 1;
                    continue;
                }
            }
            levels.truncate(i);
            self.detail.levels.truncate(i);
            self.steps.truncate(i);
            self.conflicts.truncate(i);
        }
        Ok(())
    }

    fn translation_seen(&self) -> bool {
        self.detail.curves.iter().any(|c| c.order == Order::LinePerPage)
    }

    /// Loads of several chains at once in the largest array: how many misses the processor keeps under way.
    fn parallel_loads(&mut self) -> Result<(), MeterError> {
        self.meter.stage("parallel loads");
        let pages = self.preferred();
        let bytes = self.room(pages).min(64 << 20);
        for chains in [1u32, 2, 4, 8, 16] {
            let share = bytes / chains;
            let page = self.limits.page_bytes;
            let order = Self::calm(pages);
            let cycles: Vec<Vec<u32>> = (0..chains)
                .map(|k| pattern::array(k * share, share, self.stride, page, order, &mut self.rng))
                .collect();
            let Some(ns) = self.meter.chains(pages, &cycles)? else { break };
            self.detail.parallelism.push(Parallelism { chains, ns });
        }
        Ok(())
    }

    pub(super) fn preferred(&self) -> Pages {
        // With less than a few huge pages only a part of the curve could be had.
        if !self.pieces
            && self.limits.huge_bytes >= 8 << 20
            && self.limits.huge_bytes >= self.limits.base_bytes / 4
        {
            Pages::Huge
        } else {
            Pages::Base
        }
    }

    pub(super) fn room(&self, pages: Pages) -> u32 {
        match pages {
            Pages::Base => self.limits.base_bytes,
            Pages::Huge => self.limits.huge_bytes,
        }
    }

    /// Order in which translation disturbs least.
    fn calm(pages: Pages) -> Order {
        match pages {
            Pages::Base => Order::PageLocal,
            Pages::Huge => Order::Random,
        }
    }

    fn coarse(&mut self, pages: Pages) -> Result<Curve, MeterError> {
        let mut curve = Curve {
            order: Self::calm(pages),
            pages,
            stride_bytes: self.stride,
            ..Curve::default()
        };
        for x in grid(SMALLEST, self.room(pages), COARSE) {
            let repeats = self.repeats(pages, x, 3);
            match self.point(&curve, x, repeats) {
                Ok(point) => curve.insert(point),
                Err(error) => {
                    // What there is may still say something.
                    self.keep(curve);
                    return Err(error);
                }
            }
        }
        Ok(curve)
    }

    /// Allocations for a point: more where few pages make chance matter.
    pub(super) fn repeats(&self, pages: Pages, bytes: u32, most: u32) -> u32 {
        let most = if self.quick { most.div_ceil(2) } else { most };
        let room = self.room(pages) / bytes.max(1);
        // Of many pages chance leaves less, and each visit takes long.
        let most = if bytes > 2 << 20 { most.min(6) } else { most };
        if bytes > 8 << 20 { 1 } else { most.min(room.max(1)) }
    }

    /// One point of a curve, over several places in the area.
    ///
    /// Places are remembered with their time. Each is visited again when its point is measured again,
    /// and the lower time counts; and at once when it takes far longer than the others, where a much
    /// lower time counts: how its pages lie stays, what somebody else did at that moment goes.
    pub(super) fn point(
        &mut self,
        curve: &Curve,
        x: u32,
        repeats: u32,
    ) -> Result<CurvePoint, MeterError> {
        let key = (curve.order, curve.pages, curve.stride_bytes, x);
        let mut known = self.places.remove(&key).unwrap_or_default();
        for (start, ns) in &mut known {
            *ns = ns.min(self.visit(curve, *start, x)?);
        }
        while known.len() < repeats.max(1) as usize {
            let start = self.start(curve.pages, x);
            known.push((start, self.visit(curve, start, x)?));
        }
        for _ in 0..AGAIN {
            let all: Vec<f64> = known.iter().map(|k| k.1).collect();
            let usual = median(&all).unwrap_or(0.0);
            for (start, ns) in known.iter_mut().filter(|k| k.1 > usual * DISTURBED) {
                *ns = undisturbed(*ns, self.visit(curve, *start, x)?);
            }
        }
        let values: Vec<f64> = known.iter().map(|k| k.1).collect();
        self.places.insert(key, known);
        let mut point = CurvePoint::of(x.into(), &values)
            .ok_or_else(|| MeterError::Machine("an array of no elements".into()))?;
        if curve.pages == Pages::Huge {
            // No chance decides how lines of a huge page lie in sets: what differs is others' doing.
            point.ns = point.low_ns;
        }
        Ok(point)
    }

    fn visit(&mut self, curve: &Curve, start: u32, x: u32) -> Result<f64, MeterError> {
        let page = self.limits.page_bytes;
        let cycle = pattern::array(start, x, curve.stride_bytes, page, curve.order, &mut self.rng);
        self.meter.chase(curve.pages, &cycle)
    }

    /// A random place for `bytes`, on a page; huge arrays begin on a huge page.
    pub(super) fn start(&mut self, pages: Pages, bytes: u32) -> u32 {
        let unit = match pages {
            Pages::Base => self.limits.page_bytes,
            Pages::Huge => self.limits.huge_page_bytes,
        }
        .max(1);
        let places = self.room(pages).saturating_sub(bytes) / unit + 1;
        self.rng.below(places as usize) as u32 * unit
    }

    /// Keeps a curve; one of the same kind is replaced.
    pub(super) fn keep(&mut self, curve: Curve) {
        let same = |c: &Curve| {
            (c.order, c.pages, c.stride_bytes) == (curve.order, curve.pages, curve.stride_bytes)
        };
        match self.detail.curves.iter_mut().find(|c| same(c)) {
            Some(old) => *old = curve,
            None => self.detail.curves.push(curve),
        }
    }

    fn memory_level(&mut self, curve: &Curve, found: &[Plateau]) {
        let Some(last) = found.last() else { return };
        let end = curve.points.len() - 1;
        // Refinement added points before it: the plateau is counted from its size on.
        if plateau::levels(&curve.points).last().is_some_and(|p| p.last == end) {
            self.detail.memory_ns = Some(last.ns);
        } else {
            self.detail.missing.push(
                "the curve still rises at the largest array: memory latency and the last level need a larger one".into(),
            );
        }
    }

    /// Orders that show what prefetchers and translation do; nothing is inferred from them.
    fn other_orders(&mut self) -> Result<(), MeterError> {
        let per_octave = if self.quick { 1 } else { 2 };
        let pages = [Order::Sequential, Order::PageRandom];
        for order in pages {
            self.meter.stage(order.words());
            let mut curve =
                Curve { order, pages: Pages::Base, stride_bytes: self.stride, ..Curve::default() };
            for x in grid(4096, self.limits.base_bytes, per_octave) {
                let point = self.point(&curve, x, 1)?;
                curve.insert(point);
            }
            self.keep(curve);
        }
        for stride in STRIDES {
            if self.quick || stride == self.stride {
                continue;
            }
            self.meter.stage(&format!("strides of {stride} bytes"));
            let kind = Curve { order: Order::Sequential, stride_bytes: stride, ..Curve::default() };
            let mut curve = kind;
            for x in grid(4096, self.limits.base_bytes.min(STRIDES_MOST), per_octave) {
                let point = self.point(&curve, x, 1)?;
                curve.insert(point);
            }
            self.steadier(&mut curve)?;
            self.keep(curve);
        }
        if self.preferred() == Pages::Huge {
            self.meter.stage("ordinary pages");
            let mut curve = Curve { stride_bytes: self.stride, ..Curve::default() };
            for x in grid(4096, self.limits.base_bytes, per_octave * 2) {
                let point = self.point(&curve, x, 1)?;
                curve.insert(point);
            }
            self.keep(curve);
        }
        Ok(())
    }
}

fn flat(curve: &Curve) -> String {
    let largest = curve.points.last().map_or(0, |p| p.x);
    format!(
        "the latency is the same from {} to {} bytes: no cache can be told from memory",
        SMALLEST, largest
    )
}

/// Sizes from `low` to `high`, `per_octave` in each doubling, in whole lines of 128 bytes, and the powers of two exactly.
pub fn grid(low: u32, high: u32, per_octave: u32) -> Vec<u32> {
    let mut out = Vec::new();
    let mut octave = f64::from(low);
    while octave <= f64::from(high) {
        for i in 0..per_octave {
            let x = octave * 2f64.powf(f64::from(i) / f64::from(per_octave));
            let unit = if x >= 65536.0 { 4096.0 } else { 128.0 };
            let x = (x / unit).round() * unit;
            if x <= f64::from(high) {
                out.push(x as u32);
            }
        }
        octave *= 2.0;
    }
    out.dedup();
    out
}

impl Level {
    /// A level known only by its plateau.
    pub(super) fn of(number: usize, plateau: &Plateau) -> Self {
        Self {
            level: u32::try_from(number).unwrap_or(u32::MAX),
            ns: plateau.ns,
            ns_interval: (plateau.low_ns, plateau.high_ns),
            ..Self::default()
        }
    }
}
