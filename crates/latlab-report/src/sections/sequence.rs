//! Values in the order of their measurement, which shows when outliers come: at the start, in turns, or at any time.

use crate::doc::{Axis, Block, Plot, Scale, Series, SeriesKind};
use crate::plot::distribution::DrawnUnit;
use latlab_model::record::{Record, Sequence};

/// Plots, at most.
const DRAWN: usize = 32;
/// Maximum over minimum from which the axis is logarithmic.
const WIDE: f64 = 100.0;

/// A plot for each record whose order is known, with the record's `name`.
pub(super) fn plots(records: &[Record], name: impl Fn(&Record) -> String) -> Vec<Block> {
    let each = records.iter().filter_map(|r| Some((r, r.sequence.as_ref()?)));
    let drawn = each.filter(|(_, s)| s.extremes.len() > 1).take(DRAWN);
    drawn.map(|(r, s)| Block::Plot(Box::new(plot(r, s, &name(r))))).collect()
}

fn plot(r: &Record, s: &Sequence, name: &str) -> Plot {
    let shown = s.extremes.iter().take(2 * Sequence::INTERVALS as usize);
    let least = shown.clone().map(|e| e.0).min().unwrap_or(0) as f64;
    let most = shown.clone().map(|e| e.1).max().unwrap_or(0) as f64;
    let unit = DrawnUnit::of(r.unit, r.summary.median.unwrap_or(most));
    let width = s.width.max(1);
    // The number of the first operation of an interval, from 1 on.
    let at = |i: usize| (i as u64).saturating_mul(width).saturating_add(1) as f64;
    let points = |of: fn(&(u64, u64)) -> u64| {
        shown.clone().enumerate().map(|(i, e)| (at(i), of(e) as f64 / unit.factor)).collect()
    };
    let series = |name: &str, points| Series {
        name: name.into(),
        kind: SeriesKind::Points,
        points,
        ..Series::default()
    };
    let (series, what) = match width {
        1 => (vec![series("value", points(|e| e.1))], "Each value".to_owned()),
        n => (
            vec![series("maximum", points(|e| e.1)), series("minimum", points(|e| e.0))],
            format!("Maximum and minimum of each {n} consecutive values"),
        ),
    };
    let wide = least > 0.0 && most / least >= WIDE;
    Plot {
        id: format!("{name}-in-order"),
        title: format!("{name}: values in order"),
        description: format!("{what}, in the order of their measurement."),
        x: Axis { label: "operation".into(), ..Axis::default() },
        y: Axis {
            label: unit.label("value"),
            scale: if wide { Scale::Log10 } else { Scale::Linear },
            ..Axis::default()
        },
        series,
        marks: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_stats::histogram::Summary;

    fn drawn(sequence: Option<Sequence>) -> Option<Plot> {
        let summary = Summary { median: Some(1_600.0), ..Summary::default() };
        let record = Record { name: "ctx.yield".into(), sequence, summary, ..Record::default() };
        plots(&[record], |r| r.name.clone()).into_iter().find_map(|b| match b {
            Block::Plot(p) => Some(*p),
            _ => None,
        })
    }

    #[test]
    fn outliers_stay_at_their_place_and_the_rest_is_thinned() {
        let extremes = vec![(1_500, 1_700), (1_500, 4_200_000), (1_600, 1_900)];
        let plot = drawn(Some(Sequence { width: 4_000, extremes })).unwrap();
        assert_eq!(plot.series[0].points[1], (4_001.0, 4_200.0));
        assert_eq!(plot.series[1].points[2], (8_001.0, 1.6));
        assert_eq!(plot.y.scale, Scale::Log10);
        assert!(plot.description.contains("each 4000 consecutive"), "{}", plot.description);
    }

    #[test]
    fn values_that_were_all_kept_are_one_series() {
        let plot = drawn(Some(Sequence { width: 1, extremes: vec![(900, 900), (950, 950)] }));
        let plot = plot.unwrap();
        assert_eq!((plot.series.len(), plot.series[0].points.len()), (1, 2));
        assert_eq!(plot.y.scale, Scale::Linear);
        assert_eq!(drawn(None), None);
    }
}
