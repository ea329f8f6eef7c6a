//! The grid behind a heat map: its columns, rows and the range of its values.

use crate::doc::Series;

/// A series of cells laid out on the grid of its distinct x and y.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Distinct x, rising: the columns.
    pub xs: Vec<f64>,
    /// Distinct y, rising: the rows, from below.
    pub ys: Vec<f64>,
    /// Values by row and column (`row * xs.len() + column`); `None` where there is no cell.
    pub cells: Vec<Option<f64>>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// Above this many cells a grid is not drawn: no screen could show it.
const CELLS_MAX: usize = 4_000_000;

impl Grid {
    /// The grid of a series; `None` where it has no finite cell.
    pub fn of(series: &Series) -> Option<Self> {
        let cells = series.points.iter().zip(&series.values);
        let finite = cells.filter(|((x, y), v)| x.is_finite() && y.is_finite() && v.is_finite());
        let finite: Vec<_> = finite.map(|(&(x, y), &v)| (x, y, v)).collect();
        let xs = distinct(finite.iter().map(|c| c.0));
        let ys = distinct(finite.iter().map(|c| c.1));
        let size = xs.len().checked_mul(ys.len()).filter(|n| (1..=CELLS_MAX).contains(n))?;
        let mut grid =
            Self { cells: vec![None; size], min: f64::INFINITY, max: f64::NEG_INFINITY, xs, ys };
        for (x, y, v) in finite {
            let column = grid.xs.partition_point(|a| *a < x);
            let row = grid.ys.partition_point(|a| *a < y);
            let i = row * grid.xs.len() + column;
            grid.cells[i] = Some(v);
            (grid.min, grid.max) = (grid.min.min(v), grid.max.max(v));
        }
        Some(grid)
    }

    /// A value's place between the smallest (0) and the largest (1). Values that
    /// span more than two decades are placed by their logarithm, or all but
    /// the few largest would look alike; [`Self::logarithmic`] says so.
    pub fn shade(&self, v: f64) -> f64 {
        let place = if self.logarithmic() {
            (v.ln() - self.min.ln()) / (self.max.ln() - self.min.ln())
        } else {
            (v - self.min) / (self.max - self.min)
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.5 }
    }

    /// Whether shades follow the logarithm of the values.
    pub fn logarithmic(&self) -> bool {
        self.min > 0.0 && self.max / self.min > 100.0
    }
}

fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut v: Vec<f64> = values.collect();
    v.sort_unstable_by(f64::total_cmp);
    v.dedup();
    v
}

/// The edges of cells centred on `centres` (rising): half-way to the
/// neighbours, on a logarithmic axis by ratio.
pub fn edges(centres: &[f64], logarithmic: bool) -> Vec<f64> {
    if logarithmic && centres.first().is_some_and(|c| *c > 0.0) {
        let places: Vec<f64> = centres.iter().map(|c| c.log2()).collect();
        return edges(&places, false).into_iter().map(f64::exp2).collect();
    }
    let n = centres.len();
    match n {
        0 => vec![],
        1 => vec![centres[0] - 0.5, centres[0] + 0.5],
        _ => {
            let middle = |i: usize| (centres[i] + centres[i + 1]) / 2.0;
            let mut e = vec![centres[0] - (middle(0) - centres[0])];
            e.extend((0..n - 1).map(middle));
            e.push(centres[n - 1] + (centres[n - 1] - middle(n - 2)));
            e
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_find_their_place() {
        let s = Series {
            points: vec![(2.0, 1.0), (1.0, 1.0), (1.0, 5.0), (f64::NAN, 0.0)],
            values: vec![20.0, 10.0, 4000.0, 1.0],
            ..Series::default()
        };
        let g = Grid::of(&s).unwrap();
        assert_eq!((g.xs.as_slice(), g.ys.as_slice()), (&[1.0, 2.0][..], &[1.0, 5.0][..]));
        assert_eq!(g.cells, [Some(10.0), Some(20.0), Some(4000.0), None]);
        assert!(g.logarithmic() && g.shade(10.0) == 0.0 && g.shade(4000.0) == 1.0);
        assert_eq!(Grid::of(&Series::default()), None);
    }

    #[test]
    fn edges_lie_between() {
        assert_eq!(edges(&[1.0, 2.0, 4.0], false), [0.5, 1.5, 3.0, 5.0]);
        assert_eq!(edges(&[3.0], false), [2.5, 3.5]);
        let ratios = edges(&[1.0, 4.0, 16.0], true);
        assert_eq!(ratios, [0.5, 2.0, 8.0, 32.0]);
    }
}
