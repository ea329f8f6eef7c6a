//! Axis limits, ticks and tick labels.
//!
//! Linear ticks are 1, 2 or 5 times a power of ten (P. Heckbert, "Nice numbers
//! for graph labels", *Graphics Gems*, 1990); logarithmic ones lie at decades
//! (1, 2, 5 of each where there is room) or powers of two.

use super::heat::{Grid, edges};
use crate::doc::{Axis, Mark, Plot, Scale, SeriesKind};

/// An axis with its limits: maps values to 0..=1.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// Smallest value shown.
    pub min: f64,
    /// Largest value shown.
    pub max: f64,
    scale: Scale,
    bytes: bool,
    categories: Vec<String>,
}

/// Larger magnitudes are no measurement; without them no limit computed here can overflow.
const BEYOND: f64 = 1e300;

impl Range {
    /// Limits that hold all finite `values`. Logarithmic axes hold those above
    /// zero; `from_zero` asks a linear one to start at zero.
    pub fn of(axis: &Axis, values: impl Iterator<Item = f64>, from_zero: bool) -> Self {
        let log = matches!(axis.scale, Scale::Log10 | Scale::Log2);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        let shown = |v: &f64| v.abs() < BEYOND && (!log || *v > 0.0);
        for v in values.filter(shown) {
            min = min.min(v);
            max = max.max(v);
        }
        if min > max {
            (min, max) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        match axis.scale {
            Scale::Category => {
                let last = axis.categories.len().saturating_sub(1) as f64;
                (min, max) = (min.min(0.0) - 0.5, max.max(last) + 0.5);
            }
            Scale::Linear => {
                if from_zero {
                    (min, max) = (min.min(0.0), max.max(0.0));
                }
                if max <= min {
                    let half = if min == 0.0 { 1.0 } else { min.abs() / 2.0 };
                    (min, max) = (min - half, max + half);
                }
            }
            Scale::Log10 | Scale::Log2 => {
                if max <= min {
                    (min, max) = (min / 2.0, max * 2.0);
                }
            }
        }
        Self { min, max, scale: axis.scale, bytes: axis.bytes, categories: axis.categories.clone() }
    }

    /// The horizontal range of a plot.
    pub fn x_of(plot: &Plot) -> Self {
        let points = plot.series.iter().flat_map(|s| {
            let ends = (s.kind == SeriesKind::Spans).then_some(&s.values);
            s.points.iter().map(|p| p.0).chain(ends.into_iter().flatten().copied())
        });
        let marks = plot.marks.iter().flat_map(|m| match *m {
            Mark::X(x, _) => vec![x],
            Mark::Band(a, b, _) => vec![a, b],
            Mark::Y(..) => vec![],
        });
        let bars = plot.series.iter().any(|s| s.kind == SeriesKind::Bars);
        let cells = outer_edges(plot, &plot.x, |g| &g.xs);
        let mut r = Self::of(&plot.x, points.chain(marks).chain(cells), false);
        if bars && r.scale == Scale::Linear {
            // A bar is as wide as the gap to its neighbour: leave room for half of it.
            let half = smallest_gap(plot) / 2.0;
            (r.min, r.max) = (r.min - half, r.max + half);
        }
        r
    }

    /// The vertical range of a plot, with a little air above the data.
    pub fn y_of(plot: &Plot) -> Self {
        let points = plot.series.iter().flat_map(|s| {
            let intervals = s.intervals.iter().flat_map(|&(a, b)| [a, b]);
            s.points.iter().map(|p| p.1).chain(intervals)
        });
        let marks = plot.marks.iter().filter_map(|m| match m {
            Mark::Y(y, _) => Some(*y),
            _ => None,
        });
        let lanes = plot.series.iter().any(|s| matches!(s.kind, SeriesKind::Spans));
        let heat = plot.series.iter().any(|s| matches!(s.kind, SeriesKind::Heat));
        let from_zero = !heat && !lanes && !plot.y.tight;
        let cells = outer_edges(plot, &plot.y, |g| &g.ys);
        let mut r = Self::of(&plot.y, points.chain(marks).chain(cells), from_zero);
        let filled =
            plot.series.iter().any(|s| matches!(s.kind, SeriesKind::Bars | SeriesKind::Step));
        match r.scale {
            Scale::Linear if lanes => (r.min, r.max) = (r.min.floor() - 0.5, r.max.ceil() + 0.5),
            Scale::Linear if !heat => {
                let air = (r.max - r.min) * 0.04;
                r.max += air;
                if plot.y.tight {
                    r.min -= air;
                }
            }
            // A count of one has to stand above the floor, a count of three above that of one.
            Scale::Log10 | Scale::Log2 if filled => {
                let floor = if (1.0..10.0).contains(&r.min) { 0.7 } else { r.min * 0.6 };
                (r.min, r.max) = (floor, r.max * 1.3);
            }
            _ => {}
        }
        r
    }

    /// The position of `v` between 0 and 1 (outside for values beyond the
    /// limits); `None` where the scale cannot show it.
    pub fn norm(&self, v: f64) -> Option<f64> {
        if !v.is_finite() {
            return None;
        }
        match self.scale {
            Scale::Linear | Scale::Category => Some((v - self.min) / (self.max - self.min)),
            Scale::Log10 | Scale::Log2 if v > 0.0 => {
                Some((v.ln() - self.min.ln()) / (self.max.ln() - self.min.ln()))
            }
            _ => None,
        }
    }

    /// As [`Self::norm`], but whatever lies at or below the floor is on it: the foot of a bar.
    pub fn norm_or_floor(&self, v: f64) -> f64 {
        self.norm(v).unwrap_or(0.0).clamp(0.0, 1.0)
    }

    /// The value at a position between 0 and 1.
    pub fn at(&self, position: f64) -> f64 {
        match self.scale {
            Scale::Linear | Scale::Category => self.min + position * (self.max - self.min),
            _ => (self.min.ln() + position * (self.max.ln() - self.min.ln())).exp(),
        }
    }

    /// About `wanted` ticks with their labels, rising.
    pub fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Category => return self.category_ticks(wanted),
            Scale::Linear => linear_ticks(self.min, self.max, wanted.max(2), self.bytes),
            Scale::Log10 => log10_ticks(self.min, self.max, wanted.max(2)),
            Scale::Log2 => log2_ticks(self.min, self.max, wanted.max(2)),
        };
        let step = values.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
        values.into_iter().map(|v| (v, self.label(v, step))).collect()
    }

    fn category_ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let every = self.categories.len().div_ceil(wanted.max(1)).max(1);
        let named = self.categories.iter().enumerate().step_by(every);
        named.map(|(i, name)| (i as f64, name.clone())).collect()
    }

    fn label(&self, v: f64, step: f64) -> String {
        if self.bytes {
            format_bytes(v)
        } else if self.scale == Scale::Linear {
            format_number_step(v, step)
        } else {
            format_number(v)
        }
    }
}

/// Where the outermost cells of a plot's heat maps end; nothing for axes of names, which have room.
fn outer_edges(plot: &Plot, axis: &Axis, side: impl Fn(&Grid) -> &[f64]) -> Vec<f64> {
    if axis.scale == Scale::Category {
        return vec![];
    }
    let heat = plot.series.iter().filter(|s| s.kind == SeriesKind::Heat);
    let grids: Vec<Grid> = heat.filter_map(Grid::of).collect();
    let all = grids.iter().flat_map(|g| {
        let e = edges(side(g), axis.scale != Scale::Linear);
        [e.first().copied(), e.last().copied()]
    });
    all.flatten().collect()
}

/// The smallest distance between neighbouring points of the bars of a plot; 1 where there is none.
pub fn smallest_gap(plot: &Plot) -> f64 {
    let bars = plot.series.iter().filter(|s| s.kind == SeriesKind::Bars);
    let gaps = bars.flat_map(|s| s.points.windows(2).map(|w| w[1].0 - w[0].0));
    let least = gaps.filter(|g| *g > 0.0 && g.is_finite()).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 1.0 }
}

fn linear_ticks(min: f64, max: f64, wanted: usize, bytes: bool) -> Vec<f64> {
    let rough = (max - min) / wanted as f64;
    let step = if bytes {
        2f64.powf(rough.max(1.0).log2().ceil())
    } else {
        let power = 10f64.powf(rough.log10().floor());
        match rough / power {
            f if f <= 1.0 => power,
            f if f <= 2.0 => 2.0 * power,
            f if f <= 5.0 => 5.0 * power,
            _ => 10.0 * power,
        }
    };
    if !step.is_finite() || step <= 0.0 {
        return vec![min];
    }
    let first = (min / step - 1e-9).ceil() as i64;
    let last = (max / step + 1e-9).floor() as i64;
    (first..=last.min(first.saturating_add(100))).map(|i| i as f64 * step).collect()
}

fn log10_ticks(min: f64, max: f64, wanted: usize) -> Vec<f64> {
    let (low, high) = (min.log10(), max.log10());
    let decades = high - low;
    let fit = |m: &&[f64]| decades * m.len() as f64 <= wanted as f64 * 1.2;
    let sets: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let multiples = sets.iter().copied().find(|m| fit(m)).unwrap_or(&[1.0]);
    let every = ((decades / wanted as f64).ceil() as i32).max(1);
    let mut ticks = Vec::new();
    let mut e = low.floor() as i32;
    while f64::from(e) <= high {
        if multiples.len() > 1 || e.rem_euclid(every) == 0 {
            let decade = multiples.iter().map(|m| m * 10f64.powi(e));
            ticks.extend(decade.filter(|v| *v >= min * 0.999_999 && *v <= max * 1.000_001));
        }
        e += 1;
    }
    if ticks.len() < 2 && min > 0.0 {
        // Less than a decade: plain numbers serve better.
        return linear_ticks(min, max, wanted, false).into_iter().filter(|v| *v > 0.0).collect();
    }
    ticks
}

fn log2_ticks(min: f64, max: f64, wanted: usize) -> Vec<f64> {
    let (low, high) = ((min.log2() - 1e-9).ceil() as i32, (max.log2() + 1e-9).floor() as i32);
    let every = ((high - low + 1).max(1) as usize).div_ceil(wanted).max(1);
    (low..=high).step_by(every).map(|e| 2f64.powi(e)).collect()
}

/// A size as `512`, `4K`, `1.5M`.
pub fn format_bytes(v: f64) -> String {
    let (value, unit) = [("G", 30), ("M", 20), ("K", 10)]
        .iter()
        .map(|&(unit, bits)| (v / 2f64.powi(bits), unit))
        .find(|(value, _)| value.abs() >= 1.0)
        .unwrap_or((v, ""));
    format!("{}{unit}", trim(value, 1))
}

/// A bare number with at most three significant digits, large ones as `20k`, `3M`.
pub fn format_number(v: f64) -> String {
    let a = v.abs();
    match a {
        _ if a == 0.0 => "0".into(),
        _ if a >= 1e15 => format!("{v:.0e}"),
        _ if a >= 1e9 => format!("{}G", trim(v / 1e9, 2)),
        _ if a >= 1e6 => format!("{}M", trim(v / 1e6, 2)),
        _ if a >= 1e4 => format!("{}k", trim(v / 1e3, 1)),
        _ if a >= 100.0 => trim(v, 0),
        _ if a >= 10.0 => trim(v, 1),
        _ if a >= 1e-4 => trim(v, (2 - a.log10().floor() as i32).max(0) as usize),
        _ => format!("{v:.0e}"),
    }
}

/// A tick label: just the digits that tell it from the next tick.
fn format_number_step(v: f64, step: f64) -> String {
    if v == 0.0 || !step.is_finite() || step <= 0.0 {
        return format_number(v);
    }
    let (factor, unit) = match v.abs().max(step) {
        a if a >= 1e9 => (1e9, "G"),
        a if a >= 1e6 => (1e6, "M"),
        a if a >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let digits = (-(step / factor).log10() + 1e-9).ceil().clamp(0.0, 9.0) as usize;
    format!("{}{unit}", trim(v / factor, digits.max(1)))
}

fn trim(v: f64, digits: usize) -> String {
    let s = format!("{v:.digits$}");
    let s =
        if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.') } else { s.as_str() };
    if s == "-0" { "0".into() } else { s.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis { scale, ..Axis::default() }
    }
    fn labels(r: &Range, n: usize) -> String {
        r.ticks(n).into_iter().map(|t| t.1).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn linear_ticks_are_round() {
        let r = Range::of(&axis(Scale::Linear), [0.0, 97.0].into_iter(), true);
        assert_eq!(labels(&r, 5), "0 20 40 60 80");
        let r = Range::of(&axis(Scale::Linear), [1_000_000.0, 1_000_300.0].into_iter(), false);
        assert_eq!(labels(&r, 3), "1M 1.0001M 1.0002M 1.0003M");
        let r = Range::of(&axis(Scale::Linear), [0.0, 0.003].into_iter(), true);
        assert_eq!(labels(&r, 3), "0 0.001 0.002 0.003");
    }

    #[test]
    fn log_ticks_fit_the_space() {
        let r = Range::of(&axis(Scale::Log10), [2.0, 300_000.0].into_iter(), false);
        assert_eq!(labels(&r, 6), "10 100 1000 10k 100k");
        let r = Range::of(&axis(Scale::Log10), [3.0, 90.0].into_iter(), false);
        assert_eq!(labels(&r, 6), "5 10 20 50");
        let bytes = Axis { bytes: true, ..axis(Scale::Log2) };
        let r = Range::of(&bytes, [1024.0, 65536.0].into_iter(), false);
        assert_eq!(labels(&r, 10), "1K 2K 4K 8K 16K 32K 64K");
    }

    #[test]
    fn any_data_gives_a_range() {
        for scale in [Scale::Linear, Scale::Log10, Scale::Log2, Scale::Category] {
            for data in [vec![], vec![0.0], vec![-5.0], vec![f64::NAN, f64::INFINITY], vec![7.0; 3]]
            {
                let r = Range::of(&axis(scale), data.iter().copied(), false);
                assert!(r.min < r.max, "{scale:?} {data:?} {r:?}");
                assert!(r.ticks(5).len() <= 20, "{scale:?} {data:?}");
            }
        }
        let r = Range::of(&axis(Scale::Linear), [f64::MIN, f64::MAX].into_iter(), false);
        assert!(r.ticks(5).len() <= 101);
    }

    #[test]
    fn what_a_log_axis_cannot_show_is_on_the_floor() {
        let r = Range::of(&axis(Scale::Log10), [0.0, 1.0, 100.0].into_iter(), false);
        assert_eq!(r.norm(0.0), None);
        assert_eq!(r.norm_or_floor(0.0), 0.0);
        assert!((r.norm(10.0).unwrap() - 0.5).abs() < 1e-12);
        assert!((r.at(0.5) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn sizes_are_written_as_people_say_them() {
        assert_eq!(format_bytes(512.0), "512");
        assert_eq!(format_bytes(32768.0), "32K");
        assert_eq!(format_bytes(1_572_864.0), "1.5M");
    }
}
