//! Levels that were found one by one, once more in one model (see [`super::joint`]), and levels
//! that hide between two others.
//!
//! A cache whose pages lie at random, of few ways and not much larger than the one before it, has
//! no plateau: its misses begin where those of the inner one end. One law then leaves much of the
//! transition unexplained, and two explain it. Such a level is believed only when places that
//! fight for one of its sets can be found, too, and are as many as its law says.

use super::conflict::Step;
use super::curve::{Curve, CurvePoint, Pages};
use super::explore::Explorer;
use super::joint::{Column, Joint};
use super::levels::{Found, ONSET, Ways, allowed, conclude, onset};
use super::plateau::{LEVELS_APART, Plateau};
use super::setmodel::{Fit, Placement, laws_of, near, plausible_sizes};
use super::{Grade, Level, MeterError};
use crate::finding::Confidence;

/// Laws of each level that are tried with those of the others.
const CANDIDATES: usize = 200;
/// Laws of the level before a hidden one that are tried with all of the hidden one.
const INNER: usize = 60;
/// Rounds in which the laws are chosen in turn.
const ROUNDS: usize = 3;
/// With more of a step unexplained, another level may hide in it.
const HIDING: f64 = 0.035;
/// Arrays that are looked at more closely for such a level have at most so many bytes.
const CLOSER_MOST: u64 = 4 << 20;
/// A level that takes less than this many times what the one before it does is the same.
const HARDLY: f64 = 1.15;
/// A law that leaves more of its own step than this says nothing.
const UNEXPLAINED: f64 = 0.5;
/// With a larger relative error the model says nothing that single levels do not.
const ONE_MODEL: f64 = 0.04;
/// With a smaller one its latencies are those of the levels.
const EXACT: f64 = 0.012;
/// A hidden level explains at least this share of the error.
const EXPLAINED: f64 = 0.5;
/// With so little left the form alone is enough.
const SURELY: f64 = 0.4;

/// Points that laws can say something of: whole pages, where pages lie at random.
fn usable(curve: &Curve, first_x: u64, page: u32) -> Vec<CurvePoint> {
    let page = u64::from(page.max(1));
    let whole = |x: u64| curve.pages == Pages::Huge || x < 4 * page || x.is_multiple_of(page);
    curve.points.iter().filter(|p| p.x >= first_x && whole(p.x)).copied().collect()
}

/// Largest size up to which nothing has left a plateau.
fn flat(points: &[CurvePoint], floor_ns: f64) -> u64 {
    points.iter().take_while(|p| p.ns <= floor_ns * 1.15).last().map_or(0, |p| p.x)
}

/// Chooses the laws of all levels in one model, and puts right what changes by it. A level whose misses
/// then cost hardly anything, or less than what its law leaves, is none, and goes.
pub(super) fn together(curve: &Curve, plateaus: &[Plateau], page: u32, found: &mut Vec<Found>) {
    loop {
        in_one_model(curve, plateaus, page, found);
        let free = |pair: &[Found]| {
            pair[1].level.ns < pair[0].level.ns * HARDLY
                || pair[0].level.residual.is_some_and(|left| left > UNEXPLAINED)
        };
        let Some(i) = found.windows(2).position(free) else { return };
        let gone = found.remove(i);
        // What remains begins where that one did.
        let f = &mut found[i];
        (f.plateau_ns, f.floor_ns, f.seen) = (gone.plateau_ns, gone.floor_ns, gone.seen);
        (f.level.ns, f.window.0) = (gone.plateau_ns, gone.window.0);
        for later in &mut found[i..] {
            later.level.level -= 1;
        }
    }
}

fn in_one_model(curve: &Curve, plateaus: &[Plateau], page: u32, found: &mut [Found]) {
    let Some(first) = plateaus.first() else { return };
    let points = usable(curve, first.first_x, page);
    let mut joint = Joint::new(&points);
    let mut columns: Vec<Vec<Column>> = Vec::new();
    for f in found.iter() {
        let fits = allowed(&f.fits, f.ways);
        columns.push(joint.columns(fits.iter().take(CANDIDATES).map(|f| f.law(page)).collect()));
    }
    if columns.iter().any(Vec::is_empty) || found.len() < 2 {
        return;
    }
    let mut chosen = vec![0; columns.len()];
    let mut fits: Vec<Vec<Fit>> = vec![Vec::new(); columns.len()];
    for _ in 0..ROUNDS {
        for i in 0..columns.len() {
            let held: Vec<&Column> = columns.iter().zip(&chosen).map(|(c, &k)| &c[k]).collect();
            fits[i] = joint.fit(&held, i, &columns[i], found[i].window);
            let Some(best) = fits[i].first() else { return };
            chosen[i] = columns[i].iter().position(|c| c.law.is(best)).unwrap_or(0);
        }
    }
    let held: Vec<&Column> = columns.iter().zip(&chosen).map(|(c, &k)| &c[k]).collect();
    let Some(solution) = joint.solve(&held).filter(|s| s.residual < ONE_MODEL) else { return };
    for (i, (f, fits)) in found.iter_mut().zip(fits).enumerate() {
        f.fits = fits;
        f.level.ns = f.plateau_ns;
        conclude(&mut f.level, curve.pages, f.onset, &f.fits, f.ways);
        let hit = solution.hit(i);
        let seen = f.seen && (0.75..1.33).contains(&(hit / f.plateau_ns.max(1e-9)));
        // A plateau is the better witness of its own latency, unless all of the curve is explained.
        if solution.residual < EXACT || !seen {
            f.level.ns = hit;
        }
    }
}

/// Laws of a level, and its ways where they were counted.
type Counted = (Vec<Fit>, Option<Ways>);

/// Two laws where one was.
struct Hidden {
    inner: Fit,
    outer: Vec<Fit>,
    /// Error with the two laws over that with one.
    left: f64,
}

impl Explorer<'_> {
    /// Looks for a level behind each one whose law leaves much unexplained.
    pub(super) fn find_hidden(
        &mut self,
        curve: &mut Curve,
        plateaus: &[Plateau],
        found: &mut Vec<Found>,
    ) -> Result<(), MeterError> {
        let Some(first) = plateaus.first() else { return Ok(()) };
        let page = self.limits.page_bytes;
        let mut i = 0;
        while i < found.len() {
            let left = found[i].fits.first().map_or(0.0, |b| b.residual);
            // Hits that take far longer than the plateau are somebody else's.
            let slow = found[i].level.ns > found[i].floor_ns * LEVELS_APART;
            // Next to one that a law betrayed already, another is not looked for.
            let alone = found[i].seen && found.get(i + 1).is_none_or(|f| f.seen);
            if !alone || left <= HIDING && !slow {
                i += 1;
                continue;
            }
            self.closer(curve, &found[i])?;
            let points = usable(curve, first.first_x, page);
            if let Some(hidden) = hidden(&points, found, i, (page, curve.pages))
                && let Some(outer) = self.confirmed(curve.pages, i, &hidden)?
            {
                self.split(curve, found, i, &hidden.inner, outer)?;
                i += 1;
            }
            i += 1;
        }
        Ok(())
    }

    /// Whole pages from the end of a plateau to where the next begins, often: chance decides which
    /// colours few pages get.
    fn closer(&mut self, curve: &mut Curve, found: &Found) -> Result<(), MeterError> {
        if curve.pages != Pages::Base {
            return Ok(());
        }
        let page = u64::from(self.limits.page_bytes.max(1));
        let flat = flat(&curve.points, found.floor_ns);
        let mut n = (flat / page).max(1);
        while n * page <= found.window.1.min(CLOSER_MOST) {
            self.add(curve, (n * page) as f64, if n <= 48 { 40 } else { 16 })?;
            n += (n / 16).max(1);
        }
        Ok(())
    }

    /// The outer law, when as many places fight for a set as it says.
    fn confirmed(
        &mut self,
        pages: Pages,
        i: usize,
        hidden: &Hidden,
    ) -> Result<Option<Counted>, MeterError> {
        let Some(best) = hidden.outer.first() else { return Ok(None) };
        let first = self.detail.levels.first().map_or(hidden.inner.t0, |l| l.ns);
        let step =
            Step { level: i + 1, first, hit: best.t0, miss: best.t0 + best.step, half: best.bytes };
        if pages == Pages::Huge {
            // Nothing is left to chance here: a form that two laws explain and one does not is enough.
            return Ok((hidden.left < SURELY).then(|| (hidden.outer.clone(), None)));
        }
        let Some((ways, _)) = self.ways_by_reduction(pages, step)? else { return Ok(None) };
        let limit = best.error * 1.5 + 0.01;
        let fits: Vec<Fit> =
            (hidden.outer.iter()).filter(|f| f.ways == ways && f.error <= limit).copied().collect();
        Ok((!fits.is_empty()).then_some((fits, Some(Ways { ways, at_most: false, inner: 0 }))))
    }
}

/// The best pair of laws for the transition from level `i`, when it explains far more than one.
fn hidden(
    points: &[CurvePoint],
    found: &[Found],
    i: usize,
    (page, pages): (u32, Pages),
) -> Option<Hidden> {
    let mut joint = Joint::new(points);
    let mut held: Vec<Vec<Column>> = Vec::new();
    for f in found {
        let fits = allowed(&f.fits, f.ways);
        let laws = fits.iter().take(1).map(|fit| fit.law(page)).collect();
        held.push(joint.columns(laws));
    }
    let held: Vec<&Column> = held.iter().map(|c| c.first()).collect::<Option<_>>()?;
    let before = joint.solve(&held)?.residual;
    // Any law of as small a cache may be the inner one: its knee was blamed on both.
    let f = &found[i];
    let smallest = (flat(points, f.floor_ns) * 3 / 4).min(f.onset.0).max(1024);
    let inner_sizes = plausible_sizes(smallest, f.onset.1 * 5 / 4);
    let inner_places: &[Placement] = match (i, pages) {
        (_, Pages::Huge) => &[Placement::Contiguous],
        (0, Pages::Base) => &[Placement::Contiguous, Placement::Scattered],
        _ => &[Placement::Scattered],
    };
    let outer_places: &[Placement] = match (i, pages) {
        (0, Pages::Huge) => &[Placement::Contiguous],
        (0, Pages::Base) => &[Placement::Scattered],
        _ => &[Placement::Scattered, Placement::Hashed],
    };
    let counted = |ways: u32| f.ways.is_none_or(|w| w.at_most || w.ways == ways);
    let inner: Vec<_> = laws_of(&inner_sizes, &[], page, inner_places)
        .into_iter()
        .filter(|l| counted(l.ways))
        .take(if i == 0 { INNER } else { INNER / 3 })
        .collect();
    let inner = joint.columns(inner);
    let sizes = plausible_sizes(smallest * 2, f.window.1);
    let outer = joint.columns(laws_of(&sizes, &[], page, outer_places));
    let mut all = held.clone();
    all.insert(i + 1, held[i]);
    let mut best: Option<(f64, &Column)> = None;
    for a in &inner {
        all[i] = a;
        for b in outer.iter().filter(|b| b.law.bytes >= 2 * a.law.bytes) {
            all[i + 1] = b;
            let Some(s) = joint.solve(&all) else { continue };
            let apart = s.hit(i + 1) > s.hit(i) * LEVELS_APART
                && s.hit(i + 2) > s.hit(i + 1) * LEVELS_APART;
            if apart && best.is_none_or(|(r, _)| s.residual < r) {
                best = Some((s.residual, a));
            }
        }
    }
    let (residual, a) = best?;
    if residual > before * EXPLAINED {
        return None;
    }
    all[i] = a;
    let fits = joint.fit(&all, i + 1, &outer, f.window);
    all[i + 1] = outer.iter().find(|c| fits.first().is_some_and(|f| c.law.is(f)))?;
    let fit = *joint.fit(&all, i, &inner, f.window).first()?;
    Some(Hidden { inner: fit, outer: fits, left: residual / before })
}

impl Explorer<'_> {
    /// Level `i` becomes two.
    fn split(
        &mut self,
        curve: &Curve,
        found: &mut Vec<Found>,
        i: usize,
        inner: &Fit,
        (outer, ways): Counted,
    ) -> Result<(), MeterError> {
        let Some(best) = outer.first().copied() else { return Ok(()) };
        let (window, number) = (found[i].window, found[i].level.level);
        let inside = |p: &&CurvePoint| p.x >= window.0 && p.x <= window.1;
        let points: Vec<CurvePoint> = curve.points.iter().filter(inside).copied().collect();
        let (t0, t1) = (inner.t0, inner.t0 + inner.step);
        let end = onset(&points, t0, t1, ONSET);
        // Its ways were looked for with the latency of a level that is not the next.
        let counted = match found[i].ways {
            Some(w) if !w.at_most => Some(w),
            _ => self.ways(curve.pages, i, end, &points, (t0, t1))?,
        };
        let f = &mut found[i];
        (f.fits, f.onset, f.ways) = (vec![*inner], end, counted);
        f.level.effective_bytes = end.0;
        conclude(&mut f.level, curve.pages, end, &f.fits, counted);
        let close = near(&outer);
        let low = close.iter().map(|f| f.bytes).min().unwrap_or(best.bytes);
        let high = close.iter().map(|f| f.bytes).max().unwrap_or(best.bytes);
        let half = best.t0 + 0.1 * best.step;
        let fast = points.iter().filter(|p| p.ns <= half).map(|p| p.x).max();
        let level = Level {
            level: number + 1,
            bytes: best.bytes,
            bytes_interval: (low, high),
            effective_bytes: fast.unwrap_or(low),
            ns: best.t0,
            bytes_per_s: None,
            ns_interval: (best.t0, best.t0),
            ways: ways.map(|w| w.ways),
            ways_by: ways.map_or("cannot tell", |_| "conflict sets").into(),
            residual: Some(best.residual),
            law: best.words(),
            grade: Grade::less(
                Confidence::Likely,
                "no plateau of its own: its knee and that of the level before it overlap",
            ),
        };
        for later in &mut found[i + 1..] {
            later.level.level += 1;
        }
        let (plateau_ns, floor_ns) = (level.ns, level.ns);
        let onset = (low, high);
        let seen = false;
        let hidden = Found { plateau_ns, seen, floor_ns, level, fits: outer, onset, window, ways };
        found.insert(i + 1, hidden);
        Ok(())
    }
}
