//! A sweep: findings, response surfaces, heat maps, lines with intervals and knees, distributions, a
//! table.

use crate::doc::{Axis, Block, Column, Mark, Plot, Scale, Section, Series, SeriesKind, Table};
use crate::plot::distribution::{self, Named, Subject};
use latlab_model::record::Unit;
use latlab_model::run::Part;
#[cfg(feature = "host")]
use latlab_model::sweep::Surface;
use latlab_model::sweep::axis::size;
use latlab_model::sweep::axis::{Axis as PlanAxis, Value};
use latlab_model::sweep::plan::{INTERVAL, Plan, Response};
use latlab_model::sweep::{Place, Point, SweepDetail};
use latlab_model::units::format_ns;
use std::collections::{BTreeMap, BTreeSet};

/// Distributions that are drawn over one another.
const OVERLAID: usize = 4;
/// Heat maps and line plots, at most.
const DRAWN: usize = 8;
/// Columns and rows of a drawn surface.
#[cfg(feature = "host")]
const CELLS: usize = 25;
/// A surface that explains less of the variance is drawn after the measured values.
#[cfg(feature = "host")]
const GOOD: f64 = 0.8;

/// Sections of a part.
pub fn sections(part: &Part, d: &SweepDetail) -> Vec<Section> {
    let mut blocks = Vec::new();
    if !part.complete {
        blocks.push(Block::Warning(
            "Unfinished sweep; the results cover the points measured so far.".into(),
        ));
    }
    blocks.push(Block::Findings(part.findings.clone()));
    blocks.extend(effects(d).map(Block::Table));
    blocks.extend(maps(d).into_iter().map(|p| Block::Plot(Box::new(p))));
    blocks.extend(lines(d).into_iter().take(DRAWN).map(|p| Block::Plot(Box::new(p))));
    blocks.extend(by_interval(d));
    blocks.extend(overlay(d));
    blocks.push(Block::Table(points(d)));
    vec![Section { id: "sweep".into(), title: part.title.clone(), blocks }]
}

/// The first screen: the effects and the first plot.
pub fn screen(d: &SweepDetail) -> Vec<Block> {
    // Measured values: a terminal has no room for the points of a surface.
    let map = |p: &Plot| [0, 1].map(|i| distinct(p, i)).iter().all(|n| *n > 1);
    let plot = heat_maps(d).into_iter().find(map).or_else(|| lines(d).into_iter().next());
    let plot = plot.map(|p| Block::Plot(Box::new(p)));
    effects(d).map(Block::Table).into_iter().chain(plot).collect()
}

/// Columns (0) or rows (1) of a map.
fn distinct(plot: &Plot, axis: usize) -> usize {
    let points = plot.series.iter().flat_map(|s| &s.points);
    points.map(|p| [p.0, p.1][axis].to_bits()).collect::<BTreeSet<u64>>().len()
}

/// The sweep in words.
pub fn summary(part: &Part, d: &SweepDetail) -> Vec<String> {
    let good = d.points.iter().filter(|p| p.is_good()).count();
    let mut out = vec![match d.analysis.unloaded_ns {
        Some(ns) => {
            let with = match d.plan.base.join(" ") {
                base if base.is_empty() => "without load".to_owned(),
                base => format!("with {base} alone"),
            };
            format!("{good} points; {with} the {} is {}.", response_name(&d.plan), format_ns(ns))
        }
        None => format!("{good} points."),
    }];
    out.extend(
        part.findings.iter().filter(|f| f.id == "sweep.allocation").map(crate::messages::claim),
    );
    out.extend(
        part.findings.iter().filter(|f| f.id == "sweep.knee").take(4).map(crate::messages::claim),
    );
    out
}

/// The figure that is the response.
pub(super) fn response_name(plan: &Plan) -> String {
    match plan.response {
        Response::Quantile => crate::values::quantile_name(plan.quantile),
        Response::Mean => "mean".into(),
        Response::StandardDeviation => "standard deviation".into(),
        Response::Maximum => "maximum".into(),
    }
}

/// What runs at the points between, which no axis loads.
fn unloaded_name(plan: &Plan) -> String {
    if plan.base.is_empty() { "no load".into() } else { format!("only {}", plan.base.join(" ")) }
}

fn value_ns(p: &Point, d: &SweepDetail) -> Option<f64> {
    d.plan.response_ns(&p.latency)
}

fn effects(d: &SweepDetail) -> Option<Table> {
    let row = |e: &latlab_model::sweep::Effect| {
        vec![
            e.axis.clone(),
            format!("×{:.2}", e.factor),
            e.worst.clone(),
            format!("{:.0} %", e.share * 100.0),
            format!("{:.3}", e.p),
        ]
    };
    (!d.analysis.effects.is_empty()).then(|| Table {
        caption: "Main effect of each axis over all settings of the others; p by permutation"
            .into(),
        columns: vec![
            Column::left("axis"),
            Column::right("best to worst"),
            Column::left("worst"),
            Column::right("share of variance"),
            Column::right("p of no effect"),
        ],
        rows: d.analysis.effects.iter().map(row).collect(),
    })
}

/// Where every value of an axis is drawn: numbers at themselves, words at 0, 1, 2….
fn axis_of(a: &PlanAxis) -> Axis {
    if a.is_numeric() {
        let scale = if a.geometric { Scale::Log2 } else { Scale::Linear };
        let bytes = a.geometric && a.numbers().last().is_some_and(|n| *n >= 1024.0);
        return Axis { label: a.name.clone(), scale, bytes, ..Axis::default() };
    }
    let categories = a.values.iter().map(ToString::to_string).collect();
    Axis { label: a.name.clone(), scale: Scale::Category, categories, ..Axis::default() }
}

fn at(a: &PlanAxis, v: &Value) -> Option<f64> {
    match v {
        Value::Number(n) => Some(*n),
        word => a.values.iter().position(|x| x == word).map(|i| i as f64),
    }
}

/// Axes and where each stands.
type Setting = Vec<(String, Value)>;

/// The setting of all axes but some, as a title.
fn rest(place: &Place, but: &[&str]) -> Setting {
    place
        .iter()
        .filter(|(k, _)| !but.contains(&k.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

fn words(rest: &[(String, Value)]) -> String {
    rest.iter().map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>().join(", ")
}

fn good(d: &SweepDetail) -> impl Iterator<Item = &Point> {
    d.points.iter().filter(|p| p.is_good() && !p.is_anchor())
}

/// The measured maps: surfaces are drawn where runs are read, not on a board.
#[cfg(not(feature = "host"))]
fn maps(d: &SweepDetail) -> Vec<Plot> {
    heat_maps(d).into_iter().take(DRAWN).collect()
}

/// Surfaces that fit, the measured maps, then the other surfaces.
#[cfg(feature = "host")]
fn maps(d: &SweepDetail) -> Vec<Plot> {
    let (good, bad): (Vec<_>, Vec<_>) =
        d.analysis.surfaces.iter().partition(|s| s.r_squared >= GOOD);
    let surfaces = |all: Vec<&Surface>| {
        all.into_iter().filter_map(|s| surface(d, s)).take(DRAWN).collect::<Vec<_>>()
    };
    let measured = heat_maps(d).into_iter().take(DRAWN);
    surfaces(good).into_iter().chain(measured).chain(surfaces(bad)).collect()
}

/// The fitted latency as a map, with the measured points and the knees.
#[cfg(feature = "host")]
fn surface(d: &SweepDetail, s: &Surface) -> Option<Plot> {
    let axis = |name: &str| d.plan.axes.iter().find(|a| a.name == name);
    let (x, y) = (axis(&s.x.axis)?, axis(&s.y.axis)?);
    let coded = || (0..CELLS).map(|i| 2.0 * i as f64 / (CELLS - 1) as f64 - 1.0);
    let cells = coded().flat_map(|cy| coded().map(move |cx| (s.x.value(cx), s.y.value(cy))));
    let points: Vec<(f64, f64)> = cells.collect();
    let values = points.iter().map(|p| s.ns(p.0, p.1) / 1e3).collect();
    let place = |p: &Point| {
        let number = |a: &PlanAxis| p.place.get(&a.name).and_then(Value::number);
        let here = s.slice.iter().all(|(k, v)| p.place.get(k) == Some(v));
        Some((number(x)?, number(y)?)).filter(|_| here)
    };
    let measured = good(d).filter_map(place).collect();
    let name = format!("fitted {} (µs)", response_name(&d.plan));
    let knees = d.analysis.knees.iter();
    let here = |slice: &Place| slice.iter().all(|(k, v)| s.slice.get(k) == Some(v));
    let marks = knees.filter(|k| here(&k.slice)).filter_map(|k| match &k.axis {
        axis if *axis == x.name => Some(Mark::Band(k.from, k.to, "knee".into())),
        axis if *axis == y.name => Some(Mark::Y(k.from, "knee".into())),
        _ => None,
    });
    let slice = rest(&s.slice, &[]);
    let of = if slice.is_empty() { String::new() } else { format!(" — {}", words(&slice)) };
    Some(Plot {
        id: format!("sweep-surface-{}", words(&slice)),
        title: format!("Response surface: {} of wake-ups, µs{of}", response_name(&d.plan)),
        description: format!(
            "Second-order surface fitted to {} points, which are drawn on it; it explains {:.0} % of the variance (adjusted R²), and measured values differ from it by a factor of {:.2} (standard deviation). A knee is not a part of it.",
            s.points,
            s.r_squared.max(0.0) * 100.0,
            s.residual_factor
        ),
        x: axis_of(x),
        y: axis_of(y),
        series: vec![
            Series { name, kind: SeriesKind::Heat, points, values, ..Series::default() },
            Series {
                name: "measured points".into(),
                kind: SeriesKind::Points,
                points: measured,
                ..Series::default()
            },
        ],
        marks: marks.collect(),
    })
}

/// Two axes against each other, numeric ones if there are two; one map for each setting of the others.
fn heat_maps(d: &SweepDetail) -> Vec<Plot> {
    let [a, b, ..] = d.plan.axes.as_slice() else { return Vec::new() };
    let mut numeric = d.plan.axes.iter().filter(|a| a.is_numeric());
    let (x, y) = match (numeric.next(), numeric.next()) {
        (Some(x), Some(y)) => (x, y),
        _ => (a, b),
    };
    let mut maps: BTreeMap<Vec<(String, Value)>, Series> = BTreeMap::new();
    for p in good(d).filter(|p| !p.refined) {
        let place = p
            .place
            .get(&x.name)
            .and_then(|v| at(x, v))
            .zip(p.place.get(&y.name).and_then(|v| at(y, v)));
        if let (Some(place), Some(v)) = (place, value_ns(p, d)) {
            let series = maps.entry(rest(&p.place, &[&x.name, &y.name])).or_default();
            series.points.push(place);
            series.values.push(v / 1e3);
        }
    }
    maps.into_iter()
        .map(|(slice, mut series)| {
            series.kind = SeriesKind::Heat;
            series.name = format!("{} (µs)", response_name(&d.plan));
            let of =
                if slice.is_empty() { String::new() } else { format!(" — {}", words(&slice)) };
            Plot {
                id: format!("sweep-heat-{}", words(&slice)),
                title: format!("{} of wake-ups, µs{of}", response_name(&d.plan)),
                description: format!("Latency at each {} and {}.", x.name, y.name),
                x: axis_of(x),
                y: axis_of(y),
                series: vec![series],
                marks: Vec::new(),
            }
        })
        .collect()
}

/// The 95 % interval of a quantile as response, ns, for clustered wake-ups.
fn interval(p: &Point, d: &SweepDetail) -> Option<(f64, f64)> {
    let summary = p.figures();
    let q = summary.quantile(d.plan.quantile).filter(|_| d.plan.response == Response::Quantile)?;
    Some((q.low, q.high))
}

/// Along each numeric axis with at least four values: a line for each setting of the others, knees as bands.
fn lines(d: &SweepDetail) -> Vec<Plot> {
    let mut out = Vec::new();
    for x in d.plan.axes.iter().filter(|a| a.is_numeric() && a.values.len() >= 4) {
        // Of each setting: place on the axis, value and its interval, µs.
        let mut curves: BTreeMap<Setting, Vec<[f64; 4]>> = BTreeMap::new();
        for p in good(d) {
            let (Some(Value::Number(n)), Some(v)) = (p.place.get(&x.name), value_ns(p, d)) else {
                continue;
            };
            let interval = interval(p, d).unwrap_or((v, v));
            curves.entry(rest(&p.place, &[&x.name])).or_default().push([
                *n,
                v / 1e3,
                interval.0 / 1e3,
                interval.1 / 1e3,
            ]);
        }
        let series = curves.into_iter().map(|(slice, mut c)| {
            c.sort_unstable_by(|a, b| a[0].total_cmp(&b[0]));
            Series {
                name: if slice.is_empty() { "load".into() } else { words(&slice) },
                points: c.iter().map(|p| (p[0], p[1])).collect(),
                intervals: c.iter().map(|p| (p[2], p[3])).collect(),
                ..Series::default()
            }
        });
        let knees = d.analysis.knees.iter().filter(|k| k.axis == x.name);
        let mut marks: Vec<Mark> = knees
            .map(|k| {
                let slice: Vec<String> = k.slice.values().map(ToString::to_string).collect();
                Mark::Band(k.from, k.to, format!("knee {}", slice.join(" ")).trim().to_owned())
            })
            .collect();
        marks.extend(d.analysis.unloaded_ns.map(|ns| Mark::Y(ns / 1e3, unloaded_name(&d.plan))));
        out.push(Plot {
            id: format!("sweep-line-{}", x.name),
            title: format!("{} of wake-ups along {}", response_name(&d.plan), x.name),
            description:
                "One line for each setting of the other axes, with 95 % intervals; bands are knees."
                    .into(),
            x: axis_of(x),
            y: Axis { label: "latency (µs)".into(), scale: Scale::Log10, ..Axis::default() },
            series: series.collect(),
            marks,
        });
    }
    out
}

/// Histograms of the periods over one another, for each setting of the other axes.
fn by_interval(d: &SweepDetail) -> Vec<Block> {
    let mut all: BTreeMap<Setting, Vec<(&Value, &latlab_stats::histogram::Histogram)>> =
        BTreeMap::new();
    for p in good(d) {
        let Some(interval) = p.place.get(INTERVAL) else { continue };
        all.entry(rest(&p.place, &[INTERVAL])).or_default().push((interval, &p.latency));
    }
    let several = all.into_iter().filter(|(_, of)| of.len() > 1).take(DRAWN);
    several
        .map(|(setting, mut of)| {
            of.sort_by_key(|(interval, _)| *interval);
            let named: Vec<Named> =
                of.into_iter().map(|(us, h)| (format!("every {us} µs"), h)).collect();
            let with = if setting.is_empty() {
                String::new()
            } else {
                format!(" — {}", words(&setting))
            };
            let subject = Subject {
                id: &format!("sweep-interval-{}", words(&setting)),
                title: &format!("Latency by period{with}"),
                quantity: "latency",
                counted: "wake-ups",
                unit: Unit::Ns,
            };
            Block::Plot(Box::new(distribution::histogram(&subject, &named)))
        })
        .collect()
}

/// No load, and the worst points, over one another.
fn overlay(d: &SweepDetail) -> Vec<Block> {
    let mut unloaded = latlab_stats::histogram::Histogram::default();
    d.points
        .iter()
        .filter(|p| p.is_anchor() && p.is_good())
        .for_each(|p| unloaded.merge(&p.latency));
    let mut worst: Vec<&Point> = good(d).collect();
    worst.sort_by(|a, b| value_ns(b, d).unwrap_or(0.0).total_cmp(&value_ns(a, d).unwrap_or(0.0)));
    let mut named: Vec<Named> = Vec::new();
    if unloaded.count > 0 {
        named.push((unloaded_name(&d.plan), &unloaded));
    }
    let mut seen = BTreeSet::new();
    for p in worst {
        if named.len() > OVERLAID {
            break;
        }
        let name = p.load.join(" ");
        if seen.insert(name.clone()) {
            named.push((name, &p.latency));
        }
    }
    if named.len() < 2 {
        return Vec::new();
    }
    let subject = Subject {
        id: "sweep-worst",
        title: "No load and the worst loads",
        quantity: "latency",
        counted: "wake-ups",
        unit: Unit::Ns,
    };
    vec![
        Block::Plot(Box::new(distribution::histogram(&subject, &named))),
        Block::Plot(Box::new(distribution::tail(&subject, &named))),
    ]
}

fn points(d: &SweepDetail) -> Table {
    let mut columns: Vec<Column> =
        d.plan.axes.iter().map(|a| Column::right(a.name.clone())).collect();
    let quantile = (d.plan.response == Response::Quantile).then_some(d.plan.quantile);
    columns.extend([
        Column::right("wake-ups").optional(2),
        Column::right("missed"),
        Column::right("min"),
        Column::right("mean"),
        Column::right("sd").optional(1),
        Column::right("median").optional(3),
    ]);
    if let Some(q) = quantile {
        columns.push(Column::right(crate::values::quantile_name(q)));
        columns.push(Column::right("95 % interval").optional(4));
    }
    columns.push(Column::right("max"));
    let causes = d.points.iter().any(|p| p.why.is_some());
    if causes {
        columns.push(Column::left("first cause"));
    }
    let row = |p: &Point| {
        let mut cells: Vec<String> = (d.plan.axes.iter())
            .map(|a| p.place.get(&a.name).map_or("-".into(), ToString::to_string))
            .collect();
        if let Some(first) = cells.first_mut().filter(|_| p.is_anchor()) {
            *first = unloaded_name(&d.plan);
        }
        let ns = |v: Option<f64>| v.map_or("-".into(), format_ns);
        let extreme = |v: u64| (p.latency.count > 0).then_some(v as f64);
        cells.extend([
            p.latency.count.to_string(),
            p.missed.to_string(),
            ns(extreme(p.latency.min)),
            ns(p.latency.mean()),
            ns(p.latency.standard_deviation()),
            ns(p.latency.quantile(0.5).map(|v| v as f64)),
        ]);
        if quantile.is_some() {
            cells.push(ns(value_ns(p, d)));
            cells.push(interval(p, d).map_or("too few".into(), |(low, high)| {
                format!("{} to {}", format_ns(low), format_ns(high))
            }));
        }
        cells.push(if p.is_good() { ns(extreme(p.latency.max)) } else { "failed".into() });
        if causes {
            cells.push(p.why.as_ref().map(crate::messages::note).unwrap_or_default());
        }
        cells
    };
    let mut sorted: Vec<&Point> = d.points.iter().collect();
    sorted.sort_by(|a, b| (&a.place, a.job).cmp(&(&b.place, b.job)));
    Table {
        caption: match d.plan.axes.iter().any(|a| a.name == INTERVAL) {
            true => format!("Points ({} each; interval: the period in µs)", size_of_point(d)),
            false => {
                let period = format_ns(d.plan.interval_ns as f64);
                format!("Points ({} each, {period} period)", size_of_point(d))
            }
        },
        columns,
        rows: sorted.into_iter().map(row).collect(),
    }
}

fn size_of_point(d: &SweepDetail) -> String {
    format!("{} s", size(d.plan.point_ns as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_analysis::sweep::analyse;
    use latlab_model::run::Detail;
    use latlab_testkit::sweep_sim;

    #[test]
    fn a_sweep_has_maps_lines_with_knees_and_a_table() {
        let surface = sweep_sim::Surface {
            unloaded: 16_000.0,
            alloc: 3.0,
            keep: 1.0,
            knee: Some((5, 7)),
            noise: 0.05,
        };
        let plan = sweep_sim::plan(3);
        let points = sweep_sim::points(&surface, &plan, 3);
        let part = analyse::part(plan, points, 0, &[]);
        let Some(Detail::Sweep(d)) = &part.detail else { panic!("a sweep") };
        let sections = sections(&part, d);
        let plots: Vec<&Plot> = (sections[0].blocks.iter())
            .filter_map(|b| if let Block::Plot(p) = b { Some(&**p) } else { None })
            .collect();
        assert!(plots.iter().any(|p| p.series.iter().any(|s| s.kind == SeriesKind::Heat)));
        assert!(plots.iter().any(|p| p.marks.iter().any(|m| matches!(m, Mark::Band(..)))));
        let said = summary(&part, d);
        assert!(said.iter().any(|s| s.contains("allocation path, not memory access")), "{said:?}");
    }

    #[test]
    fn two_numeric_axes_have_a_surface_with_its_points() {
        let truth = sweep_sim::Surface {
            unloaded: 16_000.0,
            alloc: 3.0,
            keep: 1.0,
            knee: None,
            noise: 0.05,
        };
        let mut plan = sweep_sim::plan(3);
        plan.axes[1] = PlanAxis::parse("vm-stride", "64,512,4096").unwrap();
        let points = sweep_sim::points(&truth, &plan, 3);
        let part = analyse::part(plan, points, 0, &[]);
        let Some(Detail::Sweep(d)) = &part.detail else { panic!("a sweep") };
        let plots = maps(d);
        let surfaces: Vec<&Plot> =
            plots.iter().filter(|p| p.title.starts_with("Response surface")).collect();
        assert_eq!(surfaces.len(), 2, "one for each mode");
        for plot in surfaces {
            let [fitted, measured] = plot.series.as_slice() else { panic!("{:?}", plot.series) };
            assert_eq!((fitted.kind, fitted.values.len()), (SeriesKind::Heat, CELLS * CELLS));
            assert_eq!(measured.points.len(), 36, "twelve sizes, three strides");
            assert!(fitted.values.iter().all(|v| (5.0..100.0).contains(v)), "{:?}", fitted.values);
        }
        let measured = plots.iter().find(|p| p.title.starts_with("p99")).unwrap();
        assert_eq!(
            (measured.x.label.as_str(), measured.y.label.as_str()),
            ("vm-bytes", "vm-stride")
        );
    }
}
