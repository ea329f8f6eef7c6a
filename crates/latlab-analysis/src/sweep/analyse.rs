//! From points to conclusions: drift, effects, knees and the comparison of allocation modes.

use super::knee;
use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity};
use latlab_model::record::{Record, Unit};
use latlab_model::run::{Detail, Part};
use latlab_model::sweep::axis::{Value, size};
use latlab_model::sweep::plan::Plan;
use latlab_model::sweep::{
    AllocationVerdict, Analysis, Knee, Place, Point, Statement, SweepDetail,
};
use latlab_stats::histogram::Histogram;
use latlab_stats::quantile::{mad, median};
use latlab_stats::rank::{Shift, holm, rank_test, shift};
use latlab_stats::trend::trend;
use std::collections::{BTreeMap, BTreeSet};

/// Chance of one invented knee among all curves.
const LEVEL: f64 = 0.02;
/// A change by less than this factor is no knee.
const LEAST: f64 = 1.15;
/// Margin of equivalence: what is within this factor is as good as equal.
const EQUIVALENT: f64 = 1.25;
/// Confidence of the intervals of factors.
const CONFIDENCE: f64 = 0.95;

/// A size of the machine that a knee may be: name and bytes.
pub type Landmark = (String, f64);

/// The response of a point: the logarithm of the plan's figure in ns.
pub fn response(plan: &Plan, latency: &Histogram) -> Option<f64> {
    plan.response_ns(latency).map(|v| v.max(1.0).ln())
}

/// What follows from the points.
pub fn analyse(plan: &Plan, points: &[Point], landmarks: &[Landmark]) -> Analysis {
    let mut out = Analysis { quantile: plan.quantile, ..Analysis::default() };
    let good: Vec<(&Point, f64)> = (points.iter().filter(|p| p.is_good()))
        .filter_map(|p| Some((p, response(plan, &p.latency)?)))
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
    out.effects = crate::sweep::effects::effects(&grid, &axes, plan.seed);
    out.knees = knees(plan, &loaded, landmarks);
    out.surfaces = crate::sweep::surface::surfaces(plan, &loaded);
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
        let f = knee::find(rows, level, LEAST.ln(), plan.seed)?;
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
                .map(|l| [l.0.as_str(), " ", &size(l.1)].concat())
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

/// Does allocating memory raise latency, or the access to it?
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
    let (mut modes, mut intervals) = (Vec::new(), Vec::new());
    for mode in ["alloc", "keep", "hang"] {
        let values = of(mode);
        if !values.is_empty() {
            let factor = median(&values).zip(median(anchors)).map_or(1.0, |(x, y)| (x - y).exp());
            let p = rank_test(&values, anchors).map_or(1.0, |t| t.p);
            let shift = shift(&values, anchors, CONFIDENCE);
            modes.push((mode.to_owned(), shift.map_or(factor, |s| s.estimate.exp()), p));
            intervals.push(shift.map(|s| (s.low.exp(), s.high.exp())));
        }
    }
    let verdict = allocation_verdict(&alloc, &keep, anchors);
    let knee = knee.map(|k| (k.from, k.to));
    Some(Statement { verdict, modes, intervals, margin: EQUIVALENT, knee })
}

/// What raises latency: by intervals that exclude no difference, and what does not, by intervals within the
/// margin of equivalence (two one-sided tests; D. J. Schuirmann, 1987). A difference that is not significant
/// is no equivalence.
fn allocation_verdict(alloc: &[f64], keep: &[f64], anchors: &[f64]) -> AllocationVerdict {
    let of = |a: &[f64], b: &[f64]| shift(a, b, CONFIDENCE);
    let above = |s: &Shift, least: f64| s.low > 0.0 && s.estimate > least.ln();
    let equal = |s: &Shift| s.low > -EQUIVALENT.ln() && s.high < EQUIVALENT.ln();
    if anchors.len() < 3 {
        return AllocationVerdict::TooFewAnchors;
    }
    let (Some(alloc_over), Some(keep_over), Some(alloc_keep)) =
        (of(alloc, anchors), of(keep, anchors), of(alloc, keep))
    else {
        return AllocationVerdict::Inconclusive;
    };
    let worse_than_keep = above(&alloc_keep, LEAST);
    let keep_late = above(&keep_over, EQUIVALENT);
    if worse_than_keep && keep_late {
        AllocationVerdict::Both
    } else if worse_than_keep && equal(&keep_over) {
        AllocationVerdict::AllocationPath
    } else if keep_late && equal(&alloc_keep) {
        AllocationVerdict::Access
    } else if equal(&alloc_over) && equal(&keep_over) {
        AllocationVerdict::Neither
    } else {
        AllocationVerdict::Inconclusive
    }
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
        title: "Latency under load".into(),
        complete: left == 0,
        duration_ns,
        results,
        findings,
        detail: Some(Detail::Sweep(Box::new(detail))),
    }
}

fn record(p: &Point, plan: &Plan) -> Record {
    let mut params: BTreeMap<String, latlab_model::record::Param> =
        p.place.iter().map(|(k, v)| (k.clone(), latlab_model::sweep::param(v))).collect();
    params.insert(
        "interval_us".into(),
        latlab_model::record::Param::Int((plan.interval_of(&p.place) / 1_000) as i64),
    );
    if p.is_anchor() {
        params.insert("anchor".into(), latlab_model::record::Param::Int(p.job as i64));
    }
    Record {
        name: "sweep.wakeup".into(),
        params,
        unit: Unit::Ns,
        summary: p.figures(),
        histogram: Some(p.latency.clone()),
        ..Record::default()
    }
}

fn findings(plan: &Plan, points: &[Point], left: usize, a: &Analysis) -> Vec<Finding> {
    let mut out = Vec::new();
    out.extend(a.statement.as_ref().map(allocation));
    out.extend(a.knees.iter().map(knee_found));
    // All axes are tried: the p values are adjusted for that.
    let adjusted = holm(&a.effects.iter().map(|e| e.p).collect::<Vec<_>>());
    for (e, _) in a.effects.iter().zip(&adjusted).filter(|(_, p)| **p < 0.05) {
        out.push(
            Finding::typed("sweep.effect", Severity::Info, Confidence::Medium)
                .value("axis", &e.axis)
                .value("factor", Quantity::Number(e.factor))
                .value("worst", &e.worst)
                .with(Evidence::new("share-of-variance", Quantity::Ratio(e.share)))
                .with(Evidence::new("p-no-effect", Quantity::Probability(e.p))),
        );
    }
    if let Some((factor, p)) = a.drift.filter(|d| d.1 < 0.01 && (d.0.ln()).abs() > LEAST.ln()) {
        out.push(
            Finding::typed("sweep.drift", Severity::Warning, Confidence::Medium)
                .value("factor", Quantity::Number(factor))
                .with(Evidence::new("p-no-drift", Quantity::Probability(p))),
        );
    }
    if plan.wakeups() < plan.wakeups_needed() {
        out.push(
            Finding::typed("sweep.too-short", Severity::Problem, Confidence::High)
                .value("wakeups", Quantity::Count(plan.wakeups()))
                .value("needed", Quantity::Count(plan.wakeups_needed()))
                .value("quantile", Quantity::Number(plan.quantile))
                .remedy(Note::new("sweep.remedy.longer-points")),
        );
    }
    for p in points {
        let Some(reason) = &p.failed else { continue };
        let mut finding = Finding::typed("sweep.point-failed", Severity::Warning, Confidence::High)
            .value("load", p.load.join(" "));
        finding = match reason {
            Note::Typed(s) => {
                finding.value("reason", &s.id).value_if("error", s.values.get("error").cloned())
            }
            Note::Recorded(text) => finding.value("error", text),
        };
        out.push(finding);
    }
    if left > 0 {
        out.push(
            Finding::typed("sweep.unfinished", Severity::Warning, Confidence::High)
                .value("points", Quantity::Count(left as u64))
                .remedy(Note::new("sweep.remedy.resume")),
        );
    }
    out
}

fn allocation(s: &Statement) -> Finding {
    let open = [AllocationVerdict::Inconclusive, AllocationVerdict::TooFewAnchors];
    let open = open.contains(&s.verdict);
    let confidence = if open { Confidence::Low } else { Confidence::Medium };
    let word = serde_json::to_value(s.verdict).ok();
    let word = word.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
    let mut finding =
        Finding::typed("sweep.allocation", Severity::Info, confidence).value("verdict", word);
    if s.margin > 0.0 {
        finding = finding.value("margin", Quantity::Ratio(s.margin - 1.0));
    }
    for (i, (mode, factor, p)) in s.modes.iter().enumerate() {
        let interval = s.intervals.get(i).copied().flatten();
        finding = finding
            .value(&[mode, "_factor"].concat(), Quantity::Number(*factor))
            .value_if(&[mode, "_low"].concat(), interval.map(|i| Quantity::Number(i.0)))
            .value_if(&[mode, "_high"].concat(), interval.map(|i| Quantity::Number(i.1)))
            .with(Evidence::new([mode, "-p"].concat(), Quantity::Probability(*p)));
    }
    if let Some((from, to)) = s.knee {
        finding = finding
            .value("knee_from", Quantity::Number(from))
            .value("knee_to", Quantity::Number(to));
    }
    finding
}

fn knee_found(k: &Knee) -> Finding {
    let setting: Vec<String> =
        k.slice.iter().map(|(name, v)| [name, " ", &v.to_string()].concat()).collect();
    let mut finding = Finding::typed("sweep.knee", Severity::Info, Confidence::Medium)
        .value("axis", &k.axis)
        .value("from", Quantity::Number(k.from))
        .value("to", Quantity::Number(k.to))
        .value("before", Quantity::Ns(k.before_ns))
        .value("after", Quantity::Ns(k.after_ns))
        .with(Evidence::new("p-no-knee", Quantity::Probability(k.p)));
    if !setting.is_empty() {
        finding = finding.value("setting", setting);
    }
    if !k.matches.is_empty() {
        finding = finding.value("matches", k.matches.clone());
    }
    finding
}
