//! Fewer points where more could not be seen, without losing an extreme.
//!
//! Points that share a column of pixels are replaced by the first, lowest,
//! highest and last of them (M4: U. Jugel et al., VLDB 7(10), 2014): the drawn
//! line is the same, and the one late wake-up among a million stays.

use super::scale::Range;

/// Indices of the points to keep, rising; all of them where there are few. `x`
/// must not fall within `points` for the result to look the same.
pub fn keep(points: &[(f64, f64)], x: &Range, columns: usize) -> Vec<usize> {
    if points.len() <= columns * 4 {
        return (0..points.len()).collect();
    }
    let column = |p: &(f64, f64)| x.norm(p.0).map(|n| (n * columns as f64) as i64);
    let mut kept = Vec::new();
    let mut start = 0;
    while start < points.len() {
        let here = column(&points[start]);
        let same = points[start..].iter().take_while(|p| column(p) == here).count().max(1);
        let end = start + same;
        let group = start..end;
        let by_y = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
        let low = group.clone().min_by(by_y).unwrap_or(start);
        let high = group.max_by(by_y).unwrap_or(start);
        let mut four = [start, low, high, end - 1];
        four.sort_unstable();
        kept.extend(four);
        start = end;
    }
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::{Axis, Scale};

    #[test]
    fn the_one_late_wakeup_stays() {
        let mut points: Vec<(f64, f64)> = (0..1_000_000).map(|i| (f64::from(i), 14.0)).collect();
        points[777_777].1 = 1190.0;
        let axis = Axis { scale: Scale::Linear, ..Axis::default() };
        let x = Range::of(&axis, points.iter().map(|p| p.0), false);
        let kept = keep(&points, &x, 800);
        assert!(kept.len() <= 3300, "{}", kept.len());
        assert!(kept.contains(&777_777));
        assert_eq!((kept[0], *kept.last().unwrap()), (0, 999_999));
        assert_eq!(keep(&points[..100], &x, 800).len(), 100);
    }
}
