//! Least squares of a linear model, by the normal equations with pivoting.
//!
//! C. F. Gauss (1809); the adjusted coefficient of determination after H. Theil (1961). Terms should
//! be of order one (coded variables), or the equations lose digits.

/// A fitted linear model of `N` terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit<const N: usize> {
    /// One coefficient for each term.
    pub coefficients: [f64; N],
    /// Share of the variance that the model explains, adjusted for its number of terms; at most 1,
    /// below 0 for a model that explains less than chance.
    pub r_squared: f64,
    /// Standard deviation of the residuals, in the unit of the response.
    pub residual: f64,
}

/// The fit of `(terms, response)`; `None` with not more points than terms, or where the points do not
/// determine the coefficients.
pub fn fit<const N: usize>(points: &[([f64; N], f64)]) -> Option<Fit<N>> {
    let free = points.len().checked_sub(N).filter(|free| *free > 0)? as f64;
    let (mut a, mut b) = (vec![vec![0.0; N]; N], vec![0.0; N]);
    for (terms, y) in points {
        for i in 0..N {
            for j in 0..N {
                a[i][j] += terms[i] * terms[j];
            }
            b[i] += terms[i] * y;
        }
    }
    let coefficients: [f64; N] = solve(a, b)?.try_into().ok()?;
    let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
    let total: f64 = points.iter().map(|p| (p.1 - mean).powi(2)).sum();
    let of = |terms: &[f64; N]| terms.iter().zip(&coefficients).map(|(t, c)| t * c).sum::<f64>();
    let left: f64 = points.iter().map(|(terms, y)| (y - of(terms)).powi(2)).sum();
    let scale = (points.len() - 1) as f64;
    let r_squared = if total > 0.0 { 1.0 - (left / free) / (total / scale) } else { 0.0 };
    Some(Fit { coefficients, r_squared, residual: (left / free).sqrt() })
}

/// The coefficients of `(terms, response)` by least squares with none below zero: the most negative one is left out
/// until there is none. A term that is zero in all rows, or that the others determine, has coefficient zero. All rows
/// have the same number of terms.
pub fn non_negative(rows: &[(Vec<f64>, f64)]) -> Vec<f64> {
    let width = rows.first().map_or(0, |r| r.0.len());
    let mut used: Vec<usize> = (0..width).filter(|i| rows.iter().any(|r| r.0[*i] != 0.0)).collect();
    let product = |i: usize, j: usize| rows.iter().map(|r| r.0[i] * r.0[j]).sum::<f64>();
    let all: Vec<Vec<f64>> =
        (0..width).map(|i| (0..width).map(|j| product(i, j)).collect()).collect();
    let right: Vec<f64> = (0..width).map(|i| rows.iter().map(|r| r.0[i] * r.1).sum()).collect();
    loop {
        let a = used.iter().map(|i| used.iter().map(|j| all[*i][*j]).collect()).collect();
        let Some(found) = solve(a, used.iter().map(|i| right[*i]).collect()) else {
            used.pop();
            continue;
        };
        let worst = (0..found.len()).min_by(|a, b| found[*a].total_cmp(&found[*b]));
        let Some(negative) = worst.filter(|i| found[*i] < 0.0) else {
            let mut coefficients = vec![0.0; width];
            used.iter().zip(found).for_each(|(i, c)| coefficients[*i] = c);
            return coefficients;
        };
        used.remove(negative);
    }
}

/// Gaussian elimination with partial pivoting; `None` for a singular matrix.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Option<Vec<f64>> {
    let n = b.len();
    let largest = a.iter().flatten().fold(0.0f64, |m, v| m.max(v.abs()));
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs()))?;
        if a[pivot][k].abs() <= largest * 1e-10 {
            return None;
        }
        a.swap(k, pivot);
        b.swap(k, pivot);
        let row = a[k].clone();
        for i in k + 1..n {
            let factor = a[i][k] / row[k];
            a[i].iter_mut().zip(&row).for_each(|(v, r)| *v -= factor * r);
            b[i] -= factor * b[k];
        }
    }
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|j| a[k][j] * b[j]).sum();
        b[k] = (b[k] - known) / a[k][k];
    }
    b.iter().all(|v| v.is_finite()).then_some(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_coefficients_are_found() {
        let line = |x: f64, noise: f64| ([1.0, x, x * x], 2.0 - 3.0 * x + 0.5 * x * x + noise);
        let exact: Vec<_> = (0..9).map(|i| line(f64::from(i) / 4.0 - 1.0, 0.0)).collect();
        let f = fit(&exact).unwrap();
        for (found, true_value) in f.coefficients.iter().zip([2.0, -3.0, 0.5]) {
            assert!((found - true_value).abs() < 1e-9, "{f:?}");
        }
        assert!(f.r_squared > 0.999_999 && f.residual < 1e-9);
        let noise = |i: i32| if i % 2 == 0 { 0.1 } else { -0.1 };
        let noisy: Vec<_> = (0..40).map(|i| line(f64::from(i) / 20.0 - 1.0, noise(i))).collect();
        let f = fit(&noisy).unwrap();
        assert!((0.09..0.12).contains(&f.residual), "{f:?}");
    }

    #[test]
    fn what_the_points_do_not_determine_is_not_fitted() {
        assert_eq!(fit::<2>(&[([1.0, 0.0], 1.0), ([1.0, 1.0], 2.0)]), None, "no point is left");
        let same = [([1.0, 2.0], 1.0); 5];
        assert_eq!(fit(&same), None, "one place");
        let flat: Vec<_> = (0..5).map(|i| ([1.0, f64::from(i)], 3.0)).collect();
        assert_eq!(fit(&flat).unwrap().r_squared, 0.0, "nothing to explain");
    }

    #[test]
    fn coefficients_below_zero_are_left_out() {
        let row = |x: f64, z: f64| (vec![1.0, x, z, 0.0], 2.0 + 3.0 * x);
        let rows: Vec<_> = (0..20).map(|i| row(f64::from(i), f64::from(i * i % 7))).collect();
        let found = non_negative(&rows);
        let expected = [2.0, 3.0, 0.0, 0.0];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        // A slope below zero: the best without one is the mean.
        let falling: Vec<_> =
            (0..5).map(|i| (vec![1.0, f64::from(i)], -f64::from(i) + 9.0)).collect();
        let found = non_negative(&falling);
        assert!((found[0] - 7.0).abs() < 1e-9 && found[1] == 0.0, "{found:?}");
        // Twice the same term, and nothing at all.
        let twice: Vec<_> = (0..5).map(|i| (vec![1.0, 1.0], f64::from(i))).collect();
        assert!((non_negative(&twice)[0] - 2.0).abs() < 1e-9);
        assert!(non_negative(&[]).is_empty());
    }
}
