//! The interval of a quantile of many devices and nights, from the counts of each.
//!
//! Samples of one device are alike, and so are those of one night: an interval from the number of samples
//! (order statistics) would be that of one device in one night, which is far too narrow. Here the units of
//! sampling are devices and nights. The share of samples above the quantile is a ratio of sums over units
//! (W. G. Cochran, *Sampling Techniques*, 1977, ch. 6); the variance of its logarithm is the jackknife's over
//! devices (B. Efron, C. Stein, *Annals of Statistics* 9, 1981) plus that over nights, which are crossed with
//! them. (A. C. Cameron, J. B. Gelbach, D. L. Miller, *J. of Business & Economic Statistics* 29, 2011, subtract
//! that of their intersections; it is left in, which is cautious.) Degrees of freedom are Satterthwaite's
//! (*Biometrics Bulletin* 2, 1946). The interval of the share becomes one of the quantile by the merged histogram
//! (R. S. Woodruff, *J. American Statistical Association* 47, 1952).
//!
//! Logarithms, because a few bad devices have most of the late samples: the share is skewed to the right, an
//! interval symmetric about it covers less and often has no upper end. Coverage: docs/validation/coverage.md.

/// Units that an interval needs: fewer tell too little of how units differ.
pub const LEAST: u64 = 5;

/// Share of the normal distribution in question: 95 %, two-sided.
const Z: f64 = 1.959_964;

/// Units of one kind (devices, nights), each with its samples and those above a value.
#[derive(Clone, Debug, Default)]
pub struct Units {
    counts: Vec<(u64, u64)>,
}

impl Units {
    /// Adds a unit: `samples`, of which `above` are above the value.
    pub fn add(&mut self, samples: u64, above: u64) {
        if samples > 0 {
            self.counts.push((samples, above.min(samples)));
        }
    }

    /// Number of units.
    pub fn len(&self) -> u64 {
        self.counts.len() as u64
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Jackknife variance of the logarithm of the share above; `None` where one unit has all of them.
    fn variance(&self) -> Option<f64> {
        let sum = |f: fn(&(u64, u64)) -> u64| self.counts.iter().map(|c| f(c) as f64).sum::<f64>();
        let (samples, above) = (sum(|c| c.0), sum(|c| c.1));
        let whole = (above / samples).ln();
        let without =
            |&(n, a): &(u64, u64)| ((above - a as f64) / (samples - n as f64)).ln() - whole;
        let mut squares: Vec<f64> = self.counts.iter().map(|c| without(c).powi(2)).collect();
        // The order of units does not matter to the last bit.
        squares.sort_by(f64::total_cmp);
        let units = self.counts.len() as f64;
        let variance = (units - 1.0) / units * squares.iter().sum::<f64>();
        variance.is_finite().then_some(variance)
    }
}

/// Over what an interval is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Devices and nights like these.
    DevicesAndNights,
    /// Devices like these, in these nights: there are fewer than [`LEAST`] nights.
    Devices,
    /// Nights like these of one device.
    Nights,
    /// Runs like these of one device in one night.
    Runs,
}

/// Why there is no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// There are 2 to [`LEAST`] - 1 devices.
    FewDevices,
    /// One device, and 2 to [`LEAST`] - 1 nights.
    FewNights,
    /// One device, one night, and fewer than [`LEAST`] runs.
    FewRuns,
    /// One device, night or run has all samples above the value.
    OneHasAll,
}

/// Which kinds of units there are enough of.
///
/// # Errors
/// What there are too few of.
pub fn over(devices: u64, nights: u64, runs: u64) -> Result<Over, Unknown> {
    match (devices >= LEAST, nights >= LEAST) {
        (true, true) => Ok(Over::DevicesAndNights),
        (true, false) => Ok(Over::Devices),
        _ if devices > 1 => Err(Unknown::FewDevices),
        (false, true) => Ok(Over::Nights),
        _ if nights > 1 => Err(Unknown::FewNights),
        _ if runs >= LEAST => Ok(Over::Runs),
        _ => Err(Unknown::FewRuns),
    }
}

/// Quantiles of the merged histogram that are the ends of a 95 % interval of its quantile `q`. The samples above it
/// are those counted in the units, each sample in one unit of each kind.
///
/// # Errors
/// Why there is none.
pub fn interval(
    q: f64,
    devices: &Units,
    nights: &Units,
    runs: &Units,
) -> Result<(f64, f64), Unknown> {
    let over = over(devices.len(), nights.len(), runs.len())?;
    let kinds: &[&Units] = match over {
        Over::DevicesAndNights => &[devices, nights],
        Over::Devices => &[devices],
        Over::Nights => &[nights],
        Over::Runs => &[runs],
    };
    let (mut variance, mut of_variance, mut least) = (0.0, 0.0, f64::INFINITY);
    for units in kinds {
        let v = units.variance().ok_or(Unknown::OneHasAll)?;
        let dof = units.len() as f64 - 1.0;
        variance += v;
        of_variance += v * v / dof;
        least = least.min(dof);
    }
    let dof = if of_variance > 0.0 { variance * variance / of_variance } else { least };
    // Never narrower than that of independent samples.
    let above: f64 = kinds[0].counts.iter().map(|c| c.1 as f64).sum();
    let wide = student(dof) * variance.max(1.0 / above.max(1.0)).sqrt();
    Ok((1.0 - (1.0 - q) * wide.exp(), 1.0 - (1.0 - q) * (-wide).exp()))
}

/// Student's t at 97.5 % by Fisher's expansion (M. Abramowitz, I. A. Stegun, 26.7.5), as the text of SQL has it; its
/// error is below 0.1 % from 4 degrees of freedom.
fn student(dof: f64) -> f64 {
    let terms = [2.372_271, 2.822_499, 2.555_850, 1.589_534];
    terms.iter().rev().fold(0.0, |sum, term| (sum + term) / dof) + Z
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::student_upper;

    fn units(all: &[(u64, u64)]) -> Units {
        let mut units = Units::default();
        all.iter().for_each(|&(n, above)| units.add(n, above));
        units
    }

    #[test]
    fn t_is_that_of_the_tables() {
        for dof in [4.0, 5.5, 10.0, 100.0, 1e4] {
            let exact = student_upper(0.025, dof);
            assert!((student(dof) / exact - 1.0).abs() < 1e-3, "{dof} {} {exact}", student(dof));
        }
    }

    #[test]
    fn terms_are_those_of_the_expansion() {
        let z = Z;
        let p = |n: i32| z.powi(n);
        let terms = [
            (p(3) + z) / 4.0,
            (5.0 * p(5) + 16.0 * p(3) + 3.0 * z) / 96.0,
            (3.0 * p(7) + 19.0 * p(5) + 17.0 * p(3) - 15.0 * z) / 384.0,
            (79.0 * p(9) + 776.0 * p(7) + 1482.0 * p(5) - 1920.0 * p(3) - 945.0 * z) / 92_160.0,
        ];
        let first = |dof: f64| terms.iter().rev().fold(0.0, |sum, t| (sum + t) / dof) + z;
        assert!((student(4.0) - first(4.0)).abs() < 1e-5, "{terms:?}");
    }

    #[test]
    fn devices_that_differ_make_it_wide_and_samples_do_not_make_it_narrow() {
        let none = Units::default();
        let alike = units(&[(10_000, 100); 20]);
        let differ: Vec<_> = (0..20).map(|i| (10_000, 10 + 9 * i)).collect();
        let (alike, differ) = (
            interval(0.99, &alike, &none, &none).unwrap(),
            interval(0.99, &units(&differ), &none, &none).unwrap(),
        );
        // 2,000 independent samples are above it.
        assert!(
            (alike.0 - (1.0 - 0.01 * (student_upper(0.025, 19.0) / 2_000f64.sqrt()).exp())).abs()
                < 1e-5,
            "{alike:?}"
        );
        assert!(differ.0 < alike.0 - 0.001 && differ.1 > alike.1 + 0.001, "{differ:?} {alike:?}");
        let tenfold: Vec<_> = differ_by_ten(20);
        let same = interval(0.99, &units(&tenfold), &none, &none).unwrap();
        assert!((same.0 - differ.0).abs() < 1e-9, "{same:?} {differ:?}");
    }

    fn differ_by_ten(n: u64) -> Vec<(u64, u64)> {
        (0..n).map(|i| (100_000, 100 + 90 * i)).collect()
    }

    #[test]
    fn nights_that_differ_count_too() {
        let devices = units(&[(10_000, 100); 20]);
        let nights: Vec<_> = (0..10).map(|i| (20_000, 20 + 40 * i)).collect();
        let with = interval(0.99, &devices, &units(&nights), &Units::default()).unwrap();
        let without = interval(0.99, &devices, &units(&nights[..4]), &Units::default()).unwrap();
        assert!(with.0 < without.0 && with.1 > without.1, "{with:?} {without:?}");
    }

    #[test]
    fn too_few_units_have_no_interval() {
        let of = |devices, nights, runs| over(devices, nights, runs);
        assert_eq!(of(5, 5, 50), Ok(Over::DevicesAndNights));
        assert_eq!(of(5, 4, 50), Ok(Over::Devices));
        assert_eq!(of(4, 30, 120), Err(Unknown::FewDevices));
        assert_eq!(of(1, 5, 5), Ok(Over::Nights));
        assert_eq!(of(1, 4, 40), Err(Unknown::FewNights));
        assert_eq!(of(1, 1, 5), Ok(Over::Runs));
        assert_eq!(of(1, 1, 4), Err(Unknown::FewRuns));
        let mut one = vec![(10_000, 0); 9];
        one.push((10_000, 300));
        let none = Units::default();
        assert_eq!(interval(0.99, &units(&one), &none, &none), Err(Unknown::OneHasAll));
        assert_eq!(interval(0.99, &none, &none, &none), Err(Unknown::FewRuns));
    }
}
