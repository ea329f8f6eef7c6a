//! The plots of a comparison: curves of all subjects over each other, changes with their intervals,
//! distributions.

use crate::doc::{Axis, Mark, Plot, Scale, Series, SeriesKind};
use crate::plot::distribution::{self, DrawnUnit, Named, Subject};
use crate::sections::memory;
use crate::values::{change, quantile_name};
use latlab_model::compare::{
    Aspect, CompareDetail, Contrast, Method, Metric, Side, SubjectCurve, SubjectStrides, Verdict,
};
use latlab_model::record::Param;
use std::collections::{BTreeMap, BTreeSet};

/// Plots of each kind, at most.
const DRAWN: usize = 8;
/// Metrics whose changes are drawn, at most.
const LANES: usize = 24;
/// Values along an axis that make a curve.
const CURVE: usize = 3;
/// Numbers that name a thing, and are no axis.
const NAMES: [&str; 7] = ["cpu", "from", "job", "level", "priority", "thread", "to"];

/// All plots, the one that answers the question first.
pub(super) fn all(d: &CompareDetail) -> Vec<Plot> {
    let (curves, drawn) = along_axes(d);
    let rest = d.metrics.iter().enumerate().filter(|(i, _)| !drawn.contains(i));
    let distributions: Vec<Plot> = rest.filter_map(|(_, m)| overlay(m, d)).take(DRAWN).collect();
    // Latencies first, except in a sweep, whose curves are made of them.
    let counted = |m: &Metric| m.sides.iter().flatten().any(|s| s.histogram.is_some());
    let sweep = drawn.iter().any(|i| counted(&d.metrics[*i]));
    let curves: Vec<Plot> = caches(d).into_iter().chain(strides(d)).chain(curves).collect();
    let (first, then) = if sweep { (curves, distributions) } else { (distributions, curves) };
    first.into_iter().chain(then).chain(changes(d)).collect()
}

/// The first subject that has a part, and the others with it: a plot for each kind of curve.
fn caches(d: &CompareDetail) -> Vec<Plot> {
    let mut plots: Vec<Plot> = Vec::new();
    for (at, first) in d.curves.iter().enumerate() {
        let alike = |c: &&SubjectCurve| {
            let (a, b) = (&c.curve, &first.curve);
            (a.access, a.pages, a.stride_bytes, a.stores, a.threads.max(1))
                == (b.access, b.pages, b.stride_bytes, b.stores, b.threads.max(1))
        };
        if d.curves[..at].iter().any(|c| alike(&c)) {
            continue;
        }
        let series: Vec<Series> = (d.curves.iter().filter(alike))
            .map(|c| Series { name: subject(d, c.subject), ..memory::series(&c.curve) })
            .collect();
        if series.len() > 1 {
            plots.push(cache_plot(d, &memory::name(&first.curve), series));
        }
    }
    // No kind of curve in common: the first of each.
    if plots.is_empty() && !d.curves.is_empty() {
        let mut first: Vec<_> = d.curves.iter().collect();
        first.dedup_by_key(|c| c.subject);
        let name =
            |c: &SubjectCurve| format!("{}: {}", subject(d, c.subject), memory::name(&c.curve));
        let series = first.iter().map(|c| Series { name: name(c), ..memory::series(&c.curve) });
        plots.push(cache_plot(d, "first curve of each", series.collect()));
    }
    plots.truncate(DRAWN);
    plots
}

fn cache_plot(d: &CompareDetail, kind: &str, series: Vec<Series>) -> Plot {
    let sizes = d.metrics.iter().filter(|m| m.name == "memory.cache.size");
    let marks = sizes.flat_map(|m| {
        let level = m.params.get("level").map(ToString::to_string).unwrap_or_default();
        m.sides.iter().enumerate().filter_map(move |(i, side)| {
            let bytes = side.as_ref()?.summary.median?;
            let size = crate::messages::bytes(bytes as u64);
            Some((bytes, format!("L{level} {size}"), letter(d, i)))
        })
    });
    Plot {
        id: format!("compare-memory-{kind}"),
        title: format!("Latency of a load by size of the array: {kind}"),
        description:
            "A plateau is a cache, a knee its size; lines mark the measured sizes of each subject."
                .into(),
        x: Axis { label: "array".into(), scale: Scale::Log2, bytes: true, ..Axis::default() },
        y: Axis { label: "a load (ns)".into(), scale: Scale::Log10, ..Axis::default() },
        series,
        marks: joined(marks),
    }
}

/// The loop `a[i] *= a[i]` of all subjects that measured it, where more than one did.
fn strides(d: &CompareDetail) -> Option<Plot> {
    let several = d.strides.len() > 1;
    several.then(|| {
        let of = |s: &SubjectStrides| Series {
            name: subject(d, s.subject),
            ..memory::strides::whole_series(&s.points)
        };
        let line = |s: &SubjectStrides| {
            let known = s.line_bytes > 0;
            known.then(|| (f64::from(s.line_bytes), "line".into(), letter(d, s.subject)))
        };
        let series = d.strides.iter().map(of).collect();
        let marks = joined(d.strides.iter().filter_map(line));
        memory::strides::whole_plot("compare-memory-multiply", series, marks)
    })
}

/// Lines at the values of subjects: `A, B: L1 32 KiB`; equal ones are one.
fn joined(marks: impl Iterator<Item = (f64, String, String)>) -> Vec<Mark> {
    let mut lines: Vec<(f64, String, String)> = Vec::new();
    for (at, what, who) in marks {
        match lines.iter_mut().find(|l| l.0 == at && l.1 == what) {
            Some(line) => line.2 += &format!(", {who}"),
            None => lines.push((at, what, who)),
        }
    }
    lines.into_iter().map(|(at, what, who)| Mark::X(at, format!("{who}: {what}"))).collect()
}

/// `A before`.
fn subject(d: &CompareDetail, i: usize) -> String {
    let label = d.subjects.get(i).map_or("", |s| s.label.as_str());
    format!("{} {label}", letter(d, i))
}

fn number(p: &Param) -> Option<f64> {
    match p {
        Param::Int(i) => Some(*i as f64),
        Param::Float(f) => Some(*f),
        Param::Text(t) => t.parse().ok(),
    }
}

/// What the metrics of one curve share: name, other parameters.
type Setting = (String, String);

/// Metrics that differ in one number alone, as curves over it; and which metrics those are.
fn along_axes(d: &CompareDetail) -> (Vec<Plot>, BTreeSet<usize>) {
    let (mut plots, mut drawn) = (Vec::new(), BTreeSet::new());
    for (name, axis) in axes(d) {
        let mut curves: Vec<(Setting, Vec<(f64, usize)>)> = Vec::new();
        for (i, m) in d.metrics.iter().enumerate().filter(|(_, m)| m.name == name) {
            let Some(x) = m.params.get(&axis).and_then(number) else { continue };
            let others = m.params.iter().filter(|(k, _)| **k != axis);
            let others: Vec<String> = others.map(|(k, v)| format!("{k}={v}")).collect();
            let setting = (name.clone(), others.join(" "));
            match curves.iter_mut().find(|(other, _)| *other == setting) {
                Some((_, points)) => points.push((x, i)),
                None => curves.push((setting, vec![(x, i)])),
            }
        }
        curves.retain(|(_, points)| points.len() >= CURVE);
        for (setting, mut points) in curves {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            drawn.extend(points.iter().map(|p| p.1));
            plots.push(curve(d, &setting, &axis, &points));
        }
    }
    plots.truncate(DRAWN);
    (plots, drawn)
}

/// Names of metrics with the number that most of them differ in.
fn axes(d: &CompareDetail) -> Vec<(String, String)> {
    let mut values: BTreeMap<&str, BTreeMap<&str, BTreeSet<u64>>> = BTreeMap::new();
    for m in &d.metrics {
        for (key, value) in m.params.iter().filter(|(k, _)| !NAMES.contains(&k.as_str())) {
            if let Some(n) = number(value) {
                values.entry(&m.name).or_default().entry(key).or_default().insert(n.to_bits());
            }
        }
    }
    let most = |axes: BTreeMap<&str, BTreeSet<u64>>| {
        let longest = axes.into_iter().max_by_key(|(_, v)| v.len());
        longest.filter(|(_, v)| v.len() >= CURVE).map(|(k, _)| k.to_owned())
    };
    values.into_iter().filter_map(|(name, axes)| Some((name.to_owned(), most(axes)?))).collect()
}

/// The highest quantile that all of some metrics were compared at.
fn common_quantile(metrics: &[&Metric]) -> Option<f64> {
    let of = |m: &Metric| -> Vec<f64> {
        let aspects = m.contrasts.iter().flat_map(|c| &c.aspects);
        aspects.filter_map(|a| a.quantile).collect()
    };
    let mut common = of(metrics.first()?);
    common.retain(|q| metrics.iter().all(|m| of(m).contains(q)));
    common.into_iter().max_by(f64::total_cmp)
}

fn curve(d: &CompareDetail, setting: &Setting, axis: &str, points: &[(f64, usize)]) -> Plot {
    let metrics: Vec<&Metric> = points.iter().map(|p| &d.metrics[p.1]).collect();
    let quantile = common_quantile(&metrics).unwrap_or(0.5);
    let value = |s: &Side| {
        let q = s.summary.quantile(quantile);
        let median = s.summary.median.filter(|_| quantile == 0.5);
        q.map(|q| (q.value, q.low, q.high)).or(median.map(|m| (m, m, m)))
    };
    let side = |m: &Metric, i: usize| m.sides.get(i)?.as_ref().and_then(value);
    let all = || metrics.iter().flat_map(|m| (0..d.subjects.len()).filter_map(|i| side(m, i)));
    let (least, most) = all().fold((f64::INFINITY, 0f64), |(l, m), v| (l.min(v.0), m.max(v.0)));
    let unit = metrics.first().map_or_else(Default::default, |m| m.unit);
    let unit = DrawnUnit::of(unit, most);
    let series = (0..d.subjects.len()).map(|i| {
        let mut s = Series { name: subject(d, i), ..Series::default() };
        for ((x, _), m) in points.iter().zip(&metrics) {
            if let Some((v, low, high)) = side(m, i) {
                s.points.push((*x, v / unit.factor));
                s.intervals.push((low / unit.factor, high / unit.factor));
            }
        }
        s
    });
    let (first, last) = (points.first().map_or(0.0, |p| p.0), points.last().map_or(0.0, |p| p.0));
    let geometric = first > 0.0 && last / first >= 16.0;
    let (name, others) = setting;
    let with = if others.is_empty() { String::new() } else { format!(", {others}") };
    Plot {
        id: format!("compare-curve-{name}-{others}"),
        title: format!("{name}: {} by {axis}{with}", quantile_name(quantile)),
        description: "One curve for each subject, with 95 % intervals where they are known.".into(),
        x: Axis {
            label: axis.to_owned(),
            scale: if geometric { Scale::Log2 } else { Scale::Linear },
            bytes: (geometric || axis.contains("size") || axis.contains("bytes")) && last >= 1024.0,
            ..Axis::default()
        },
        y: Axis {
            label: unit.label(&quantile_name(quantile)),
            scale: if least > 0.0 && most / least >= 10.0 { Scale::Log10 } else { Scale::Linear },
            ..Axis::default()
        },
        series: series.filter(|s| !s.points.is_empty()).collect(),
        marks: Vec::new(),
    }
}

/// A metric, one contrast of it, and the aspect that is drawn of it.
type Lane<'a> = (&'a Metric, &'a Contrast, &'a Aspect);

/// The change of the median of each metric with its interval, the surest differences above.
fn changes(d: &CompareDetail) -> Option<Plot> {
    let each = d.metrics.iter().flat_map(|m| m.contrasts.iter().map(move |c| (m, c)));
    let mut lanes: Vec<Lane> = each
        .filter_map(|(m, c)| {
            let median = c.aspects.iter().find(|a| a.quantile == Some(0.5));
            Some((m, c, median.or_else(|| c.aspects.first())?))
        })
        .filter(|(_, _, a)| a.change.is_finite())
        .collect();
    if lanes.len() < CURVE {
        return None;
    }
    lanes.sort_by(|(_, _, a), (_, _, b)| {
        let (a, b) = [a, b].map(|a| (decided(a), a.change.abs())).into();
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    lanes.truncate(LANES);
    lanes.reverse();
    let largest = lanes.iter().map(|l| l.2.change.abs()).fold(0.02, f64::max);
    let known =
        |l: &Lane| if l.2.method == Method::None { 0.0 } else { l.2.low.abs().max(l.2.high.abs()) };
    let widest = lanes.iter().map(known).fold(largest * 1.2, f64::max).min(largest * 3.0);
    let percent = |v: f64| v.clamp(-widest, widest) * 100.0;
    let spans = |name: &str, of: &dyn Fn(&Aspect) -> Option<(f64, f64)>| {
        let each = lanes.iter().enumerate().filter_map(|(i, l)| Some((i as f64, of(l.2)?)));
        let each: Vec<(f64, (f64, f64))> = each.collect();
        Series {
            name: name.into(),
            kind: SeriesKind::Spans,
            points: each.iter().map(|(lane, s)| (percent(s.0), *lane)).collect(),
            values: each.iter().map(|(_, s)| percent(s.1)).collect(),
            ..Series::default()
        }
    };
    let interval = |is: bool| {
        move |a: &Aspect| (a.method != Method::None && decided(a) == is).then_some((a.low, a.high))
    };
    let tick = widest / 200.0;
    let mut series = vec![
        spans("interval, no difference found", &interval(false)),
        spans("interval of a difference", &interval(true)),
        spans("change", &|a| match a.method {
            Method::None => Some((a.change.min(0.0), a.change.max(0.0))),
            _ => Some((a.change - tick, a.change + tick)),
        }),
    ];
    series.retain(|s| !s.points.is_empty());
    let (categories, common) = lane_names(d, &lanes);
    let limits = format!("Drawn up to ±{:.0} %.", widest * 100.0);
    Some(Plot {
        id: "compare-changes".into(),
        title: "Changes against A".into(),
        description: format!(
            "Change of the median with its interval; an interval that contains 0 shows no difference. Bars from 0 have no interval: single values. {limits}{common}"
        ),
        x: Axis { label: "change (%)".into(), ..Axis::default() },
        y: Axis { scale: Scale::Category, categories, ..Axis::default() },
        series,
        marks: vec![Mark::X(0.0, "A".into())],
    })
}

fn decided(a: &Aspect) -> bool {
    !matches!(a.verdict, Verdict::NoDifference | Verdict::Inconclusive)
}

/// Names of lanes with their change, and the parameters that all share.
fn lane_names(d: &CompareDetail, lanes: &[Lane]) -> (Vec<String>, String) {
    let mut labels: Vec<String> = lanes.iter().map(|l| l.0.label.clone()).collect();
    let common = match take_common_parameters(&mut labels).as_slice() {
        [] => String::new(),
        some => format!(" All with {}.", some.join(", ")),
    };
    let of = |(label, (_, c, a)): (String, &Lane)| {
        let several = d.subjects.len() > 2;
        let who = if several { format!(" {}", letter(d, c.other)) } else { String::new() };
        format!("{}{who}  {}", label.replace([':', ','], " "), change(a.change))
    };
    (labels.into_iter().zip(lanes).map(of).collect(), common)
}

fn overlay(m: &Metric, d: &CompareDetail) -> Option<Plot> {
    let named: Vec<Named> = (m.sides.iter().enumerate())
        .filter_map(|(i, s)| Some((subject(d, i), s.as_ref()?.histogram.as_ref()?)))
        .collect();
    if named.len() < 2 {
        return None;
    }
    let id = format!("overlay-{}", m.label);
    let subject =
        Subject { id: &id, title: &m.label, quantity: "value", counted: "values", unit: m.unit };
    Some(distribution::tail(&subject, &named))
}

/// `A`, `B`… of a subject.
pub(super) fn letter(d: &CompareDetail, i: usize) -> String {
    d.subjects.get(i).map_or("?", |s| s.letter.as_str()).to_owned()
}

/// Removes the parameters that all labels (`NAME:KEY=VALUE,…`) have, and gives them back.
pub(super) fn take_common_parameters(labels: &mut [String]) -> Vec<String> {
    let parameters = |label: &str| -> Vec<String> {
        let list = label.split_once(':').map_or("", |(_, list)| list);
        list.split(',').filter(|p| !p.is_empty()).map(str::to_owned).collect()
    };
    let all: Vec<Vec<String>> = labels.iter().map(|label| parameters(label)).collect();
    let Some((first, others)) = all.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Vec::new();
    };
    let in_all = |p: &&String| others.iter().all(|other| other.contains(p));
    let common: Vec<String> = first.iter().filter(in_all).cloned().collect();
    for (label, parameters) in labels.iter_mut().zip(all) {
        let name = label.split(':').next().unwrap_or_default().to_owned();
        let own: Vec<String> = parameters.into_iter().filter(|p| !common.contains(p)).collect();
        *label = if own.is_empty() { name } else { format!("{name}:{}", own.join(",")) };
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_analysis::compare;
    use latlab_analysis::compare::subject::Source;
    use latlab_model::cache::CacheDetail;
    use latlab_model::cache::detail::{Curve, CurvePoint, LineSize, StridePoint};
    use latlab_model::record::{Record, Unit};
    use latlab_model::run::{Detail, Part, Run};
    use latlab_stats::histogram::Histogram;

    /// Two subjects of the same parts, of which the second takes twice as long.
    fn compared(part: impl Fn(u64) -> Part) -> CompareDetail {
        let subject = |label: &str, factor| {
            let run = Run { parts: vec![part(factor)], complete: true, ..Run::default() };
            let source = Source { run, ..Source::default() };
            compare::Subject { label: label.into(), runs: vec![source], ..Default::default() }
        };
        let subjects = [subject("before", 1), subject("after", 2)];
        compare::compare(&subjects, &latlab_model::compare::Options::default())
    }

    fn record(name: &str, params: &[(&str, i64)], histogram: Histogram) -> Record {
        let params = params.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
        let summary = histogram.summary();
        Record {
            name: name.into(),
            params,
            summary,
            histogram: Some(histogram),
            ..Record::default()
        }
    }

    fn single(name: &str, level: i64, value: f64, unit: Unit) -> Record {
        let mut record = record(name, &[("level", level)], Histogram::default());
        record.histogram = None;
        (record.summary.count, record.summary.median, record.unit) = (1, Some(value), unit);
        record
    }

    #[test]
    fn cache_curves_of_both_machines_are_in_one_plot_with_their_sizes() {
        let d = compared(|factor| {
            let points = [(1024, 1), (4096, 1), (1 << 20, 80)];
            let point = |(x, ns): (u64, u64)| CurvePoint::of(x, &[(ns * factor) as f64]);
            let curve = Curve {
                points: points.into_iter().filter_map(point).collect(),
                ..Curve::default()
            };
            let detail = CacheDetail { curves: vec![curve], ..CacheDetail::default() };
            let sizes = [single("memory.cache.size", 1, 32768.0 * factor as f64, Unit::Bytes)];
            let latency = single("memory.latency", 0, 80.0 * factor as f64, Unit::Ns);
            let results = sizes.into_iter().chain([latency]).collect();
            let detail = Some(Detail::Memory(Box::new(detail)));
            Part { name: "memory".into(), results, detail, ..Part::default() }
        });
        let plots = all(&d);
        let names: Vec<&str> = plots[0].series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["A before", "B after"]);
        assert_eq!(plots[0].series[1].points[2], ((1 << 20) as f64, 160.0));
        let marks =
            [Mark::X(32768.0, "A: L1 32 KiB".into()), Mark::X(65536.0, "B: L1 64 KiB".into())];
        assert_eq!(plots[0].marks, marks);
    }

    #[test]
    fn loops_over_the_stride_of_two_machines_are_in_one_plot() {
        let part = |factor: u64| {
            let at = |stride_bytes: u32| StridePoint { stride_bytes, ns: (8 * factor) as f64 };
            let line = LineSize { bytes: 64, ..LineSize::default() };
            let detail = CacheDetail {
                strides: [64, 4, 128].map(at).into(),
                line: Some(line),
                ..CacheDetail::default()
            };
            let results = vec![single("memory.latency", 0, 80.0 * factor as f64, Unit::Ns)];
            let detail = Some(Detail::Memory(Box::new(detail)));
            Part { name: "memory".into(), results, detail, ..Part::default() }
        };
        let plots = all(&compared(part));
        let plot = plots.iter().find(|p| p.id == "compare-memory-multiply").unwrap();
        let names: Vec<&str> = plot.series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["A before", "B after"]);
        // 16,384 elements of 8 and of 16 ns.
        assert_eq!(plot.series[0].points[1], (64.0, 131.072));
        assert_eq!(plot.series[1].points[1], (64.0, 262.144));
        assert_eq!(plot.marks, [Mark::X(64.0, "A, B: line".into())]);
        let mut d = compared(part);
        d.strides.truncate(1);
        assert!(all(&d).iter().all(|p| p.id != "compare-memory-multiply"), "one is no comparison");
    }

    #[test]
    fn points_of_a_sweep_become_curves_and_their_changes_bars() {
        let d = compared(|factor| {
            let at = |size: i64| {
                let ns = (0..20_000).map(|i| factor * (10_000 + size as u64 + i % 2000));
                record("sweep.wakeup", &[("size", size)], Histogram::of(ns))
            };
            let results = [1024, 65536, 4096, 16384].map(at).into();
            Part { name: "sweep".into(), results, ..Part::default() }
        });
        let plots = all(&d);
        let curve = &plots[0];
        assert!(curve.title.starts_with("sweep.wakeup: p99"), "{}", curve.title);
        assert!(curve.x.bytes && curve.series.len() == 2);
        let x: Vec<f64> = curve.series[0].points.iter().map(|p| p.0).collect();
        assert_eq!(x, [1024.0, 4096.0, 16384.0, 65536.0], "in rising order");
        let ratio = curve.series[1].points[3].1 / curve.series[0].points[3].1;
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
        let changes = plots.last().filter(|p| p.id == "compare-changes").expect("changes");
        assert_eq!(changes.y.categories.len(), 4);
        assert!(changes.y.categories.iter().all(|c| c.starts_with("sweep.wakeup size=")));
        let ticks = changes.series.iter().find(|s| s.name == "change").expect("the changes");
        assert!(ticks.points.iter().all(|p| (80.0..=110.0).contains(&p.0)), "{:?}", ticks.points);
    }

    #[test]
    fn latencies_are_drawn_before_other_curves() {
        let d = compared(|factor| {
            let wakeup =
                record("wakeup.user", &[], Histogram::of((0..500).map(|i| factor * (9_000 + i))));
            let by_level = (1..4).map(|l| single("x", l, (l as u64 * factor) as f64, Unit::Ns));
            let results = by_level.chain([wakeup]).collect();
            Part { name: "survey".into(), results, ..Part::default() }
        });
        let plots = all(&d);
        assert!(plots[0].id.starts_with("overlay-"), "{}", plots[0].id);
        assert!(plots.iter().any(|p| p.id == "compare-changes"));
    }
}
