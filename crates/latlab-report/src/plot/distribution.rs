//! Histograms as plots: what every latency measurement shows.
//!
//! An HDR histogram has thousands of buckets and says nothing of those that
//! are empty. Drawn as they are, a tail of three samples would vanish between
//! pixels or look like a plateau, so the buckets are gathered into a hundred
//! or so bins of equal width (or equal ratio), the empty ones included.

use crate::doc::{Axis, Mark, Plot, Scale, Series, SeriesKind};
use latlab_model::record::Unit;
use latlab_stats::histogram::{Histogram, bucket_high};

/// Bins of a drawn histogram: about one every eight pixels of a page's width.
const BINS: usize = 120;

/// A unit to draw in: name and how many of the record's unit it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnUnit {
    /// `µs`.
    pub name: &'static str,
    /// Record units in one of these (1000 for ns drawn as µs).
    pub factor: f64,
}

impl DrawnUnit {
    /// The unit in which `typical` (in `unit`) has one to three digits before the point.
    pub fn of(unit: Unit, typical: f64) -> Self {
        let (name, factor) = match (unit, typical.abs()) {
            (Unit::Ns, t) if t < 1e3 => ("ns", 1.0),
            (Unit::Ns, t) if t < 1e6 => ("µs", 1e3),
            (Unit::Ns, t) if t < 1e9 => ("ms", 1e6),
            (Unit::Ns, _) => ("s", 1e9),
            (Unit::BytesPerSecond, _) => ("MB/s", 1e6),
            (Unit::PerSecond, _) => ("1/s", 1.0),
            (Unit::Count, _) => ("", 1.0),
            (Unit::Ratio, _) => ("%", 0.01),
            (Unit::Hz, t) if t < 1e6 => ("Hz", 1.0),
            (Unit::Hz, _) => ("MHz", 1e6),
            (Unit::Bytes, _) => ("bytes", 1.0),
            (Unit::Watt, _) => ("W", 1.0),
        };
        Self { name, factor }
    }

    /// `what (µs)`.
    pub fn label(self, what: &str) -> String {
        if self.name.is_empty() { what.to_owned() } else { format!("{what} ({})", self.name) }
    }
}

/// What a distribution plot is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Anchor; the two plots are `<id>-histogram` and `<id>-tail`.
    pub id: &'a str,
    /// Heading (`Wake-up latency`).
    pub title: &'a str,
    /// The quantity, for the axis (`latency`).
    pub quantity: &'a str,
    /// What is counted (`wake-ups`).
    pub counted: &'a str,
    /// The unit of the histograms.
    pub unit: Unit,
}

/// One named distribution.
pub type Named<'a> = (String, &'a Histogram);

/// The unit that suits the medians of some distributions.
fn drawn_unit(unit: Unit, all: &[Named]) -> DrawnUnit {
    DrawnUnit::of(unit, drawn_median(all) as f64)
}

/// The largest median: it decides the unit of an axis.
fn drawn_median(all: &[Named]) -> u64 {
    all.iter().filter_map(|(_, h)| h.quantile(0.5)).max().unwrap_or(0)
}

/// Whether the tail is so far from the body that a linear axis would squeeze the body to a line.
fn far_tail(all: &[Named]) -> bool {
    let far = |h: &Histogram| h.min > 0 && h.max / h.quantile(0.5).unwrap_or(1).max(1) >= 12;
    all.iter().any(|(_, h)| far(h))
}

/// A staircase a distribution: how many samples in each bin, counts on a
/// logarithmic axis so that one sample can be seen beside a million.
pub fn histogram(subject: &Subject, all: &[Named]) -> Plot {
    let unit = drawn_unit(subject.unit, all);
    let log = far_tail(all);
    let edges = edges(all, log);
    let series = all.iter().map(|(name, h)| Series {
        name: name.clone(),
        kind: SeriesKind::Step,
        points: counts(h, &edges).into_iter().map(|(x, n)| (x / unit.factor, n)).collect(),
        ..Series::default()
    });
    let marks = match all {
        [(_, h)] => quantile_marks(all, h),
        _ => {
            let worst = all.iter().map(|(_, h)| h.max).max();
            worst.map(|max| mark(max as f64, unit, "max")).into_iter().collect()
        }
    };
    Plot {
        id: format!("{}-histogram", subject.id),
        title: format!("{}: histogram", subject.title),
        description: describe(subject, all, unit),
        x: Axis {
            label: unit.label(subject.quantity),
            scale: if log { Scale::Log10 } else { Scale::Linear },
            ..Axis::default()
        },
        y: Axis { label: subject.counted.into(), scale: Scale::Log10, ..Axis::default() },
        series: series.collect(),
        marks,
    }
}

/// `median 14.2`, at its place.
fn mark(value: f64, unit: DrawnUnit, name: &str) -> Mark {
    let drawn = value / unit.factor;
    Mark::X(drawn, format!("{name} {}", super::scale::format_number(drawn)))
}

/// The median, the quantiles that the samples of `whole` support, and the maximum, on the axis of
/// the histogram of `all`. A quantile that cannot be told from the one below it has no mark.
pub fn quantile_marks(all: &[Named], whole: &Histogram) -> Vec<Mark> {
    let unit = DrawnUnit::of(Unit::Ns, drawn_median(all) as f64);
    let summary = whole.summary();
    let shown = [0.5, 0.99, 0.999, 0.9999, 0.99999];
    let quantiles = summary.quantiles.iter().filter(|q| shown.contains(&q.q));
    let mut marks: Vec<(f64, String)> = Vec::new();
    let named = quantiles.map(|q| (q.value, crate::values::quantile_name(q.q)));
    let median = summary.median.filter(|_| summary.quantile(0.5).is_none());
    let median = median.map(|m| (m, "median".to_owned()));
    for (value, name) in median.into_iter().chain(named) {
        if marks.last().is_none_or(|(below, _)| value > below * 1.01) {
            marks.push((value, name));
        }
    }
    if let Some(max) = summary.max {
        marks.retain(|(value, _)| *value < max * 0.99);
        marks.push((max, "max".into()));
    }
    marks.into_iter().map(|(value, name)| mark(value, unit, &name)).collect()
}

/// How often a value is exceeded: for every value x the share of samples above
/// it, both axes logarithmic. A line that ends low and left is a better one.
pub fn tail(subject: &Subject, all: &[Named]) -> Plot {
    let unit = drawn_unit(subject.unit, all);
    let series = all.iter().map(|(name, h)| Series {
        name: name.clone(),
        kind: SeriesKind::Step,
        points: exceedance(h).into_iter().map(|(x, p)| (x / unit.factor, p)).collect(),
        ..Series::default()
    });
    Plot {
        id: format!("{}-tail", subject.id),
        title: format!("{}: share of values above", subject.title),
        description: format!(
            "For every {} on the horizontal axis, the share of {} above it. \
             Lower and further left is better; 0.001 is one in a thousand.",
            subject.quantity, subject.counted
        ),
        x: Axis {
            label: unit.label(subject.quantity),
            scale: if far_tail(all) { Scale::Log10 } else { Scale::Linear },
            ..Axis::default()
        },
        y: Axis {
            label: format!("share of {} above", subject.counted),
            scale: Scale::Log10,
            ..Axis::default()
        },
        series: series.collect(),
        marks: vec![],
    }
}

fn describe(subject: &Subject, all: &[Named], unit: DrawnUnit) -> String {
    let value = |v: u64| super::scale::format_number(v as f64 / unit.factor);
    let each = all.iter().filter(|(_, h)| h.count > 0).take(8).map(|(name, h)| {
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        format!(
            "{name}{} {}, median {} {u}, p99 {} {u}, max {} {u}",
            h.count,
            subject.counted,
            value(h.quantile(0.5).unwrap_or(0)),
            value(h.quantile(0.99).unwrap_or(0)),
            value(h.max),
            u = unit.name
        )
    });
    let mut text = each.collect::<Vec<_>>().join("; ");
    if all.len() > 8 {
        text.push_str(&format!("; and {} more", all.len() - 8));
    }
    if text.is_empty() { format!("No {}.", subject.counted) } else { text + "." }
}

/// Common bin edges: equal widths, or equal ratios for a far tail; never finer than the values are whole.
fn edges(all: &[Named], log: bool) -> Vec<f64> {
    let some = all.iter().filter(|(_, h)| h.count > 0);
    let low = some.clone().map(|(_, h)| h.min).min().unwrap_or(0) as f64;
    let high = some.map(|(_, h)| h.max).max().unwrap_or(0) as f64 + 1.0;
    let mut edges = Vec::with_capacity(BINS + 1);
    if log && low > 0.0 {
        let ratio = (high / low).powf(1.0 / BINS as f64);
        // HDR buckets are about one part in a thousand wide: finer bins would show gaps that are none.
        let ratio = ratio.max(1.002);
        let mut e = low;
        while e < high {
            edges.push(e);
            e = (e * ratio).max(e + 1.0).ceil();
        }
    } else {
        let width = ((high - low) / BINS as f64).ceil().max((high / 512.0).ceil()).max(1.0);
        let mut e = (low / width).floor() * width;
        while e < high {
            edges.push(e);
            e += width;
        }
    }
    edges.push(edges.last().map_or(high, |e| high.max(e + 1.0)));
    edges
}

/// `(left edge, count)` of each bin, and the right edge of the last with 0, which closes the staircase.
fn counts(h: &Histogram, edges: &[f64]) -> Vec<(f64, f64)> {
    let mut bins = vec![0u64; edges.len()];
    for &(low, n) in &h.buckets {
        let middle = low as f64 + (bucket_high(low) - low) as f64 / 2.0;
        let middle = middle.clamp(h.min as f64, h.max as f64);
        let i = edges.partition_point(|e| *e <= middle).saturating_sub(1);
        bins[i.min(edges.len().saturating_sub(2))] += n;
    }
    edges.iter().zip(bins).map(|(&e, n)| (e, n as f64)).collect()
}

/// `(value, share of samples above it)`, thinned where the eye could not tell.
fn exceedance(h: &Histogram) -> Vec<(f64, f64)> {
    let mut above = h.count;
    let mut points = vec![(h.min as f64, 1.0)];
    let mut last = 1.0f64;
    for &(low, n) in &h.buckets {
        above = above.saturating_sub(n);
        let share = above as f64 / h.count as f64;
        if above > 0 && (last / share > 1.03 || above < 30) {
            points.push((bucket_high(low).min(h.max) as f64, share));
            last = share;
        }
    }
    if h.count > 0 {
        points.push((h.max as f64, 1.0 / h.count as f64));
    }
    points.dedup();
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: Subject = Subject {
        id: "wakeup",
        title: "Wake-up latency",
        quantity: "latency",
        counted: "wake-ups",
        unit: Unit::Ns,
    };

    fn million_with_a_tail_of_three() -> Histogram {
        let body = (0..1_000_000u64).map(|i| 14_000 + (i * 7919) % 3_000);
        Histogram::of(body.chain([212_000, 480_000, 1_190_000]))
    }

    #[test]
    fn three_in_a_million_stand_alone_in_the_histogram() {
        let h = million_with_a_tail_of_three();
        let plot = histogram(&SUBJECT, &[("CPU 0".into(), &h)]);
        let points = &plot.series[0].points;
        assert_eq!(points.iter().map(|p| p.1).sum::<f64>(), 1_000_003.0);
        assert_eq!(points.iter().filter(|p| p.0 > 100.0 && p.1 == 1.0).count(), 3);
        assert!(points.len() <= 130 && points.last().unwrap().1 == 0.0);
        assert_eq!(plot.x.label, "latency (µs)");
        assert_eq!(plot.x.scale, Scale::Log10);
        assert!(plot.description.contains("max 1190 µs"), "{}", plot.description);
    }

    #[test]
    fn bins_are_no_finer_than_the_values() {
        let h = Histogram::of([5, 6, 7, 7, 8]);
        let plot = histogram(&SUBJECT, &[(String::new(), &h)]);
        let points = [(5.0, 1.0), (6.0, 1.0), (7.0, 2.0), (8.0, 1.0), (9.0, 0.0)];
        assert_eq!(plot.series[0].points, points);
    }

    #[test]
    fn the_tail_counts_down_to_the_last_sample() {
        let h = million_with_a_tail_of_three();
        let plot = tail(&SUBJECT, &[("CPU 0".into(), &h)]);
        let points = &plot.series[0].points;
        assert!(points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 >= w[1].1), "monotone");
        assert_eq!(points.last().unwrap().0, 1190.0);
        assert!(points.len() < 400, "{}", points.len());
    }

    #[test]
    fn no_samples_no_panic() {
        let empty = Histogram::default();
        assert_eq!(histogram(&SUBJECT, &[]).description, "No wake-ups.");
        histogram(&SUBJECT, &[(String::new(), &empty)]);
        tail(&SUBJECT, &[(String::new(), &empty)]);
        let huge = Histogram::of([0, u64::MAX]);
        assert!(histogram(&SUBJECT, &[(String::new(), &huge)]).series[0].points.len() < 1000);
    }
}
