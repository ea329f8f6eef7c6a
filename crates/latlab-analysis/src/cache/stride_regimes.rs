//! The regimes of Saavedra and Smith for arrays larger than the cache: below a line the time of a
//! load rises with the stride, T0 + D·s/b; from a line on it stays, T0 + D.

use latlab_model::cache::{AccessPattern, Curve, Regimes};

/// Curves over the size with loads in rising order, of one stride each: fitted at the largest size that all have.
pub fn of_curves(curves: &[Curve]) -> Option<Regimes> {
    fit(&at_largest(curves)?.1)
}

/// The largest size that all curves in rising order have, and the time of a load there by stride.
pub fn at_largest(curves: &[Curve]) -> Option<(u64, Vec<(u32, f64)>)> {
    let sequential = |c: &&Curve| c.access == AccessPattern::Sequential && c.plain();
    let same: Vec<&Curve> = curves.iter().filter(sequential).collect();
    let first = same.first()?;
    let common = |x: u64| same.iter().all(|c| c.at(x).is_some());
    let x = first.points.iter().rev().map(|p| p.x).find(|x| common(*x))?;
    Some((x, same.iter().filter_map(|c| Some((c.stride_bytes, c.at(x)?))).collect()))
}

/// Fits strides and times of a load in an array larger than the cache. The line is a power of two
/// between the smallest and the largest stride; T0 and D come from least squares for each.
///
/// `None` for fewer than three strides, or when time does not rise with the stride.
pub fn fit(points: &[(u32, f64)]) -> Option<Regimes> {
    if points.len() < 3 {
        return None;
    }
    let smallest = points.iter().map(|p| p.0).min()?.max(1);
    let largest = points.iter().map(|p| p.0).max()?;
    let lines = (3..14).map(|k| 1u32 << k).filter(|b| *b > smallest && *b <= largest);
    let fits = lines.filter_map(|line| fit_line(points, line));
    fits.min_by(|a, b| a.residual.total_cmp(&b.residual))
}

fn fit_line(points: &[(u32, f64)], line: u32) -> Option<Regimes> {
    let n = points.len() as f64;
    let share = |s: u32| (f64::from(s) / f64::from(line)).min(1.0);
    let (mx, my) = (
        points.iter().map(|p| share(p.0)).sum::<f64>() / n,
        points.iter().map(|p| p.1).sum::<f64>() / n,
    );
    let var: f64 = points.iter().map(|p| (share(p.0) - mx).powi(2)).sum();
    let cov: f64 = points.iter().map(|p| (share(p.0) - mx) * (p.1 - my)).sum();
    if var <= 0.0 || cov <= 0.0 {
        return None;
    }
    let miss_ns = cov / var;
    let t0_ns = my - miss_ns * mx;
    let left: f64 = points.iter().map(|p| (p.1 - t0_ns - miss_ns * share(p.0)).powi(2)).sum();
    Some(Regimes { t0_ns, miss_ns, line_bytes: line, residual: (left / n).sqrt() / miss_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_beaglebone_points() {
        // Array over 1 MiB, lmbench on a BeagleBone Black (2015): the line is 64, a miss 220 ns.
        let published = [(16, 57.0), (32, 110.0), (64, 220.0), (128, 220.0), (256, 220.0)];
        let found = fit(&published).unwrap();
        assert_eq!(found.line_bytes, 64);
        assert!((found.t0_ns + found.miss_ns - 220.0).abs() < 2.0, "{found:?}");
        assert!(found.t0_ns.abs() < 6.0 && found.residual < 0.02, "{found:?}");
    }

    #[test]
    fn a_time_that_does_not_depend_on_the_stride_has_no_line() {
        assert_eq!(fit(&[(16, 50.0), (32, 50.0), (64, 50.0), (128, 49.0)]), None);
        assert_eq!(fit(&[(16, 50.0), (64, 200.0)]), None);
    }
}
