//! From points to what follows: drift, effects, knees and the study's statement.

use super::knee;
use super::{Analysis, Knee, Place, Plan, Point, Statement, SweepDetail, Value};
use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::histogram::Histogram;
use crate::run::{Detail, Part, Record, Unit};
use crate::stats::quantile::{mad, median};
use crate::stats::rank::rank_test;
use crate::stats::trend::trend;
use crate::units::format_ns;
use std::collections::{BTreeMap, BTreeSet};

/// Chance of one invented knee among all curves.
const LEVEL: f64 = 0.02;
/// A change by less than this factor is no knee.
const LEAST: f64 = 1.15;
/// A mode within this factor of no load is as good as none.
const LIKE_UNLOADED: f64 = 1.25;

/// A size of the machine that a knee may be: name and bytes.
pub type Landmark = (String, f64);

/// The response of a histogram: the logarithm of its quantile in ns.
pub fn response(h: &Histogram, quantile: f64) -> Option<f64> {
    h.quantile(quantile).map(|v| (v.max(1) as f64).ln())
}

/// What follows from the points.
pub fn analyse(plan: &Plan, points: &[Point], landmarks: &[Landmark]) -> Analysis {
    let mut out = Analysis { quantile: plan.quantile, ..Analysis::default() };
    let good: Vec<(&Point, f64)> = (points.iter().filter(|p| p.is_good()))
        .filter_map(|p| Some((p, response(&p.latency, plan.quantile)?)))
        .collect();
    let anchors: Vec<(f64, f64)> = (good.iter().filter(|(p, _)| p.is_anchor()))
        .map(|(p, y)| (p.start_ns as f64, *y))
        .collect();
    let values: Vec<f64> = anchors.iter().map(|a| a.1).collect();
    out.unloaded_ns = median(&values).map(f64::exp);
    out.anchor_spread = mad(&values).filter(|_| values.len() > 2).map(|m| (1.4826 * m).exp());
    out.drift = trend(&anchors).map(|t| (t.change.exp(), t.p));
    let loaded: Vec<(&Place, f64)> =
        good.iter().filter(|(p, _)| !p.is_anchor()).map(|(p, y)| (&p.place, *y)).collect();
    // Added points are denser round knees: effects are of the grid alone.
    let grid: Vec<(&Place, f64)> = (good.iter().filter(|(p, _)| !p.is_anchor() && !p.refined))
        .map(|(p, y)| (&p.place, *y))
        .collect();
    let axes: Vec<String> = plan.axes.iter().map(|a| a.name.clone()).collect();
    out.effects = super::effects::effects(&grid, &axes, plan.seed);
    out.knees = knees(plan, &loaded, landmarks);
    out.statement = statement(&grid, &values, &out.knees);
    out
}

/// Responses by the value of an axis.
type Curve<'a> = BTreeMap<&'a Value, Vec<f64>>;
/// An axis, where the words stand, the axis' values, and curves over them.
type Family<'a> = (&'a str, Place, Vec<f64>, Vec<Vec<Option<f64>>>);

/// Curves over one numeric axis: one family for each setting of the axes that are words, one curve for each
/// setting of the other numbers.
fn knees(plan: &Plan, points: &[(&Place, f64)], landmarks: &[Landmark]) -> Vec<Knee> {
    let words: BTreeSet<&str> =
        plan.axes.iter().filter(|a| !a.is_numeric()).map(|a| a.name.as_str()).collect();
    let mut families: Vec<Family> = Vec::new();
    for axis in plan.axes.iter().filter(|a| a.is_numeric()) {
        let mut slices: BTreeMap<Place, BTreeMap<Place, Curve>> = BTreeMap::new();
        for (place, y) in points {
            let Some(value) = place.get(&axis.name) else { continue };
            let part = |wanted: bool| -> Place {
                let own = |k: &str| words.contains(k) == wanted && k != axis.name;
                place.iter().filter(|(k, _)| own(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
            };
            let curve = slices.entry(part(true)).or_default().entry(part(false)).or_default();
            curve.entry(value).or_default().push(*y);
        }
        for (slice, curves) in slices {
            let values: BTreeSet<&Value> =
                curves.values().flat_map(|c| c.keys().copied()).collect();
            let at = |c: &Curve| -> Vec<Option<f64>> {
                values.iter().map(|v| c.get(v).and_then(|y| median(y))).collect()
            };
            let rows = curves.values().map(at).collect();
            let numbers = values
                .iter()
                .filter_map(|v| if let Value::Number(n) = v { Some(*n) } else { None });
            families.push((&axis.name, slice, numbers.collect(), rows));
        }
    }
    let level = LEVEL / families.len().max(1) as f64;
    let of = |(axis, slice, x, rows): &Family| {
        let f = knee::find(rows, level.max(1.0 / 1000.0), LEAST.ln(), plan.seed)?;
        let (from, to) = (*x.get(f.from)?, *x.get(f.to)?);
        let inside = |l: &&Landmark| l.1 >= from * 0.999 && l.1 <= to * 1.001;
        Some(Knee {
            axis: (*axis).to_owned(),
            slice: slice.clone(),
            from,
            to,
            before_ns: f.before.exp(),
            after_ns: f.after.exp(),
            p: f.p,
            matches: landmarks
                .iter()
                .filter(inside)
                .map(|l| format!("{} {}", l.0, super::axis::size(l.1)))
                .collect(),
        })
    };
    families.iter().filter_map(of).collect()
}

/// Places between the two sides of each knee that were not measured yet: geometric or arithmetic middles,
/// for every setting of the other axes. At most `most`.
pub fn refinement(plan: &Plan, points: &[Point], most: usize) -> Vec<Place> {
    let analysis = analyse(plan, points, &[]);
    let mut out: Vec<Place> = Vec::new();
    for k in &analysis.knees {
        let Some(axis) = plan.axes.iter().find(|a| a.name == k.axis) else { continue };
        let middle = if axis.geometric { (k.from * k.to).sqrt() } else { (k.from + k.to) / 2.0 };
        // Whole bytes, and not again what is there already within one part in fifty.
        let middle = if k.from >= 64.0 { (middle / 64.0).round() * 64.0 } else { middle.round() };
        let near =
            |v: &Value| matches!(v, Value::Number(n) if (n - middle).abs() <= middle.abs() * 0.02);
        for p in points.iter().filter(|p| p.is_good() && !p.is_anchor()) {
            if !k.slice.iter().all(|(name, v)| p.place.get(name) == Some(v)) {
                continue;
            }
            let mut place = p.place.clone();
            place.insert(k.axis.clone(), Value::Number(middle));
            let known = points.iter().any(|q| {
                q.place.get(&k.axis).is_some_and(near)
                    && place.iter().all(|(n, v)| *n == k.axis || q.place.get(n) == Some(v))
            });
            if !known && !out.contains(&place) {
                out.push(place);
            }
        }
    }
    out.truncate(most);
    out
}

/// The study's reasoning: is it the allocation that makes it late, or the access?
fn statement(points: &[(&Place, f64)], anchors: &[f64], knees: &[Knee]) -> Option<Statement> {
    // The axis that has both words, whatever it is called.
    let axis = points.iter().find_map(|(p, _)| {
        let word = |v: &Value| matches!(v, Value::Word(w) if w == "alloc" || w == "keep");
        p.iter().find(|(_, v)| word(v)).map(|(k, _)| k.clone())
    })?;
    let knee = knees.iter().find(|k| k.slice.get(&axis) == Some(&Value::Word("alloc".into())));
    // Where there is a knee, what is before it is as good as no load: modes are compared beyond it.
    let beyond = |p: &Place| match knee.map(|k| (k, p.get(&k.axis))) {
        Some((k, Some(Value::Number(n)))) if k.after_ns > k.before_ns => *n >= k.to,
        _ => true,
    };
    let of = |mode: &str| -> Vec<f64> {
        let is = |p: &Place| p.get(&axis) == Some(&Value::Word(mode.to_owned())) && beyond(p);
        points.iter().filter(|(p, _)| is(p)).map(|(_, y)| *y).collect()
    };
    let (alloc, keep) = (of("alloc"), of("keep"));
    if alloc.len() < 3 || keep.len() < 3 {
        return None;
    }
    let versus = |a: &[f64], b: &[f64]| {
        let factor = median(a).zip(median(b)).map_or(1.0, |(x, y)| (x - y).exp());
        (factor, rank_test(a, b).map_or(1.0, |t| t.p))
    };
    let mut modes = Vec::new();
    for mode in ["alloc", "keep", "hang"] {
        let values = of(mode);
        if !values.is_empty() {
            let (factor, p) = versus(&values, anchors);
            modes.push((mode.to_owned(), factor, p));
        }
    }
    let (over_keep, p_over_keep) = versus(&alloc, &keep);
    let (keep_factor, keep_p) = versus(&keep, anchors);
    let (alloc_factor, alloc_p) = versus(&alloc, anchors);
    let above = |factor: f64, p: f64| factor >= LEAST && p < 0.05;
    // A tail that varies by itself is told apart only beyond the factor that counts as like no load.
    let keep_late = above(keep_factor, keep_p) && keep_factor > LIKE_UNLOADED;
    let alloc_late = above(alloc_factor, alloc_p) && alloc_factor > LIKE_UNLOADED;
    let worse_than_keep = above(over_keep, p_over_keep);
    let unloaded_enough = anchors.len() >= 3;
    let factors = format!("alloc/free ×{alloc_factor:.2}, keep ×{keep_factor:.2} of no load");
    let knee = knee.map_or(String::new(), |k| {
        format!("; knee between {} and {}", super::axis::size(k.from), super::axis::size(k.to))
    });
    let (verdict, words) = match () {
        () if !unloaded_enough => {
            ("cannot-tell", "cannot tell: there are too few anchors without load".to_owned())
        }
        () if worse_than_keep && !keep_late => (
            "allocation-path",
            format!(
                "keep ≈ unloaded, alloc/free not: the allocation path, not the access, makes it late ({factors}){knee}"
            ),
        ),
        () if worse_than_keep && keep_late => (
            "both",
            format!(
                "keep is later than unloaded, and alloc/free later still: access and allocation both make it late ({factors}){knee}"
            ),
        ),
        () if keep_late => (
            "access",
            format!(
                "keep is as late as alloc/free, and both are later than unloaded: the access, not the allocation, makes it late ({factors}){knee}"
            ),
        ),
        () if !alloc_late => (
            "neither",
            format!("neither alloc/free nor keep makes it later than unloaded ({factors}){knee}"),
        ),
        () => (
            "cannot-tell",
            format!("cannot tell whether the allocation or the access makes it late ({factors})"),
        ),
    };
    Some(Statement { verdict: verdict.into(), sentence: words, modes })
}

/// A part of a run: one record a point, findings, the whole detail.
pub fn part(plan: Plan, points: Vec<Point>, left: usize, landmarks: &[Landmark]) -> Part {
    let analysis = analyse(&plan, &points, landmarks);
    let results = points.iter().filter(|p| p.is_good()).map(|p| record(p, &plan)).collect();
    let findings = findings(&plan, &points, left, &analysis);
    let duration_ns = points.iter().map(|p| p.length_ns).sum();
    let detail = SweepDetail { plan, points, left, analysis };
    Part {
        name: "sweep".into(),
        title: "Which load hurts, and where is the knee".into(),
        complete: left == 0,
        duration_ns,
        results,
        findings,
        detail: Some(Detail::Sweep(Box::new(detail))),
    }
}

fn record(p: &Point, plan: &Plan) -> Record {
    let mut params: BTreeMap<String, crate::run::Param> =
        p.place.iter().map(|(k, v)| (k.clone(), super::param(v))).collect();
    params.insert("interval_us".into(), crate::run::Param::Int((plan.interval_ns / 1_000) as i64));
    if p.is_anchor() {
        params.insert("anchor".into(), crate::run::Param::Int(p.job as i64));
    }
    Record {
        name: "sweep.wakeup".into(),
        params,
        unit: Unit::Ns,
        summary: p.latency.summary(),
        histogram: Some(p.latency.clone()),
        ..Record::default()
    }
}

fn findings(plan: &Plan, points: &[Point], left: usize, a: &Analysis) -> Vec<Finding> {
    let mut out = Vec::new();
    let note =
        |id: &str, sure: Confidence, claim: String| Finding::new(id, Verdict::Note, sure, claim);
    if let Some(s) = &a.statement {
        let sure =
            if s.verdict == "cannot-tell" { Confidence::CannotTell } else { Confidence::Likely };
        let mut f = note("sweep.allocation", sure, s.sentence.clone());
        for (mode, factor, p) in &s.modes {
            f = f.with(Evidence::new(mode.clone(), format!("×{factor:.2} of no load, p {p:.3}")));
        }
        out.push(f);
    }
    for k in &a.knees {
        let slice: Vec<String> = k.slice.iter().map(|(n, v)| format!("{n} {v}")).collect();
        let slice =
            if slice.is_empty() { String::new() } else { format!(" ({})", slice.join(", ")) };
        let mut claim = format!(
            "knee of {}{slice} between {} and {}: {} before, {} after",
            k.axis,
            super::axis::size(k.from),
            super::axis::size(k.to),
            format_ns(k.before_ns),
            format_ns(k.after_ns)
        );
        if !k.matches.is_empty() {
            claim.push_str(&format!("; in it lies {}", k.matches.join(", ")));
        }
        out.push(
            note("sweep.knee", Confidence::Likely, claim)
                .with(Evidence::new("p of no knee", format!("{:.3}", k.p))),
        );
    }
    for e in a.effects.iter().filter(|e| e.p < 0.05) {
        let claim = format!(
            "{} matters: ×{:.2} between its mildest and its worst value ({})",
            e.axis, e.factor, e.worst
        );
        out.push(
            note("sweep.effect", Confidence::Likely, claim)
                .with(Evidence::new("share of the variance", format!("{:.0} %", e.share * 100.0))),
        );
    }
    if let Some((factor, p)) = a.drift.filter(|d| d.1 < 0.01 && (d.0.ln()).abs() > LEAST.ln()) {
        out.push(
            Finding::new("sweep.drift", Verdict::InTheWay, Confidence::Likely, format!("the machine drifted: its latency without load changed by ×{factor:.2} from the first to the last anchor"))
                .because("the order is random, so that a drift adds noise, not effects")
                .with(Evidence::new("p of no drift", format!("{p:.3}"))),
        );
    }
    if plan.wakeups() < plan.wakeups_needed() {
        out.push(
            Finding::new(
                "sweep.too-short",
                Verdict::InTheWay,
                Confidence::Sure,
                format!(
                    "{} wake-ups a point are too few for its p{}: {} are needed",
                    plan.wakeups(),
                    plan.quantile * 100.0,
                    plan.wakeups_needed()
                ),
            )
            .attempt("a longer -D, a shorter -i, or a lower --quantile"),
        );
    }
    for p in points.iter().filter(|p| p.failed.is_some()) {
        let claim = format!(
            "{}: {}; this point is left out",
            p.load.join(" "),
            p.failed.as_deref().unwrap_or("")
        );
        out.push(Finding::new("sweep.point-failed", Verdict::InTheWay, Confidence::Sure, claim));
    }
    if left > 0 {
        out.push(
            Finding::new(
                "sweep.unfinished",
                Verdict::InTheWay,
                Confidence::Sure,
                format!("{left} points were not measured"),
            )
            .attempt("latlab sweep --resume DIRECTORY goes on"),
        );
    }
    out
}
