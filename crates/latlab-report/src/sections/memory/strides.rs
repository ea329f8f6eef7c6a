//! Time over the stride: of a load at a few sizes of the array, and of the loop `a[i] *= a[i]`.

use crate::doc::{Axis, Block, Mark, Plot, Scale, Series};
use crate::messages::bytes as bytes_words;
use latlab_model::cache::detail::{AccessPattern, CacheDetail, Curve, StridePoint};
use std::collections::BTreeSet;

/// Sizes of the array that are drawn, at most.
const SIZES: usize = 4;

/// All plots over the stride.
pub(super) fn blocks(d: &CacheDetail) -> Vec<Block> {
    let plots = [loads(d), elements(d), whole(d)];
    plots.into_iter().flatten().map(|p| Block::Plot(Box::new(p))).collect()
}

fn axis() -> Axis {
    Axis { label: "stride".into(), scale: Scale::Log2, bytes: true, ..Axis::default() }
}

/// A load by stride, a line for each of a few sizes that all curves in rising order have: a quarter of the first
/// cache's (all hits), and the largest.
fn loads(d: &CacheDetail) -> Option<Plot> {
    let curves: Vec<&Curve> =
        (d.curves.iter()).filter(|c| c.access == AccessPattern::Sequential && c.plain()).collect();
    let strides: BTreeSet<u32> = curves.iter().map(|c| c.stride_bytes).collect();
    if strides.len() < 3 {
        return None;
    }
    let first = curves.first()?;
    let common = |x: &u64| curves.iter().all(|c| c.at(*x).is_some());
    let sizes: Vec<u64> = first.points.iter().map(|p| p.x).filter(common).collect();
    // In the middle of each level, and the largest.
    let mut before = 1024;
    let mut wanted: Vec<u64> = Vec::new();
    for level in &d.levels {
        let middle = ((before as f64) * (level.bytes as f64)).sqrt() as u64;
        wanted.extend(sizes.iter().copied().min_by_key(|x| x.abs_diff(middle)));
        before = level.bytes;
    }
    wanted.truncate(SIZES - 1);
    wanted.extend(sizes.last());
    wanted.sort_unstable();
    wanted.dedup();
    let series = wanted.iter().map(|x| {
        let mut points: Vec<(f64, f64)> =
            (curves.iter()).filter_map(|c| Some((f64::from(c.stride_bytes), c.at(*x)?))).collect();
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: bytes_words(*x), points, ..Series::default() }
    });
    let line = d.regimes.map(|r| Mark::X(f64::from(r.line_bytes), "line".into()));
    Some(Plot {
        id: "memory-stride-loads".into(),
        title: "Latency of a load by stride".into(),
        description: "Loads in rising order, a line for each size of the array. In an array larger than the caches the time rises with the stride up to the line, T0 + D·s/b, and stays from there on, T0 + D; a prefetcher makes it lower.".into(),
        x: axis(),
        y: Axis { label: "a load (ns)".into(), scale: Scale::Log10, ..Axis::default() },
        series: series.collect(),
        marks: line.into_iter().collect(),
    })
}

fn elements(d: &CacheDetail) -> Option<Plot> {
    (d.strides.len() > 1).then(|| Plot {
        id: "memory-multiply".into(),
        title: "a[i] *= a[i] by stride".into(),
        description: "Time of one element of a large array: it rises until each element is in a line of its own.".into(),
        x: axis(),
        y: Axis { label: "an element (ns)".into(), ..Axis::default() },
        series: vec![Series {
            name: "an element".into(),
            points: d.strides.iter().map(|p| (f64::from(p.stride_bytes), p.ns)).collect(),
            ..Series::default()
        }],
        marks: vec![],
    })
}

/// The same loop as a whole, as it is often shown: 1 MiB of the array.
fn whole(d: &CacheDetail) -> Option<Plot> {
    let line = d.line.as_ref().filter(|l| l.bytes > 0);
    (d.strides.len() > 1).then(|| {
        let series = Series { name: "1 MiB".into(), ..whole_series(&d.strides) };
        let marks = line.map(|l| Mark::X(f64::from(l.bytes), "line".into()));
        whole_plot("memory-multiply-whole", vec![series], marks.into_iter().collect())
    })
}

/// Time of 1 MiB, µs, over the stride.
pub(crate) fn whole_series(strides: &[StridePoint]) -> Series {
    let mib = |stride: u32| f64::from(1 << 20) / f64::from(stride.max(1));
    let point = |p: &StridePoint| (f64::from(p.stride_bytes), p.ns * mib(p.stride_bytes) / 1e3);
    Series { points: strides.iter().map(point).collect(), ..Series::default() }
}

/// The loop over 1 MiB, of one machine or of several.
pub(crate) fn whole_plot(id: &str, series: Vec<Series>, marks: Vec<Mark>) -> Plot {
    Plot {
        id: id.into(),
        title: "a[i] *= a[i] over 1 MiB by stride".into(),
        description: "Time to pass over 1 MiB of a large array: up to the line every stride fetches each line, and only the multiplications become fewer; beyond it a stride of twice the length fetches half the lines.".into(),
        x: axis(),
        y: Axis { label: "1 MiB (µs)".into(), scale: Scale::Log10, ..Axis::default() },
        series,
        marks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_analysis::cache::import_lat_mem_rd::{infer, lat_mem_rd};
    use latlab_model::cache::detail::StridePoint;

    #[test]
    fn published_curves_are_drawn_over_the_stride_too() {
        let text = include_str!("../../../../../fixtures/memory/beaglebone-black.lat_mem_rd");
        let plot = loads(&infer(lat_mem_rd(text, "2015").unwrap(), 4096)).unwrap();
        let largest = plot.series.last().unwrap();
        let at = |stride: f64| largest.points.iter().find(|p| p.0 == stride).unwrap().1;
        // 57, 110 and 220 ns: proportional to the stride below a line, constant from there on.
        assert!(
            (at(32.0) / at(16.0) - 2.0).abs() < 0.15 && (at(64.0) / at(32.0) - 2.0).abs() < 0.15
        );
        assert!((at(128.0) / at(64.0) - 1.0).abs() < 0.05, "{largest:?}");
        assert_eq!(plot.marks, [Mark::X(64.0, "line".into())]);
    }

    #[test]
    fn the_loop_as_a_whole_halves_beyond_the_line() {
        let point = |stride_bytes: u32| StridePoint {
            stride_bytes,
            ns: 0.5 + f64::from(stride_bytes.min(64)) / 64.0 * 10.0,
        };
        let strides = [4, 16, 64, 128, 256].map(point).to_vec();
        let plot = whole(&CacheDetail { strides, ..CacheDetail::default() }).unwrap();
        let y: Vec<f64> = plot.series[0].points.iter().map(|p| p.1).collect();
        assert!(y[1] / y[2] < 1.2 && (y[2] / y[3] - 2.0).abs() < 0.01, "{y:?}");
    }
}
