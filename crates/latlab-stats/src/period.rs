//! Is a series of moments periodic, and with which period?
//!
//! A period `T` is a good one when the phases `t mod T` cluster: the length `R`
//! of the mean of `exp(2πi·t/T)` is near 1 (Rayleigh's test; K. V. Mardia and
//! P. E. Jupp, *Directional Statistics*, §6.3.1). Moments at which a periodic
//! cause was *noticed* are a subset of its occurrences, so intervals are
//! multiples of the period. For few but very regular moments the chance that all phases lie
//! within one arc says more (ibid., the range test). Candidates are intervals divided by small numbers,
//! and the longest that fits is the answer.
//!
//! Moments that are noticed only on a lattice, for example at the wake-ups of a periodic task, have few
//! possible phases: those of a multiple `m` of the spacing are `m`, and all moments fit the spacing
//! itself. Both tests therefore take each moment as spread over one spacing: the arc is longer by
//! spacing/T, and R is multiplied by sin(x)/x with x = π·spacing/T (ibid., §2.2: the convolution of two
//! distributions multiplies their resultants; Sheppard's correction is the inverse of it). No period up
//! to the spacing passes, and the chance that few values coincide is counted.

/// A period with its jitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// In the unit of the moments.
    pub period: f64,
    /// Standard deviation of the phases, in the same unit.
    pub jitter: f64,
    /// Chance that moments without a period look as regular, with all candidates that were tried.
    pub p: f64,
}

/// How many occurrences may go unnoticed between two that are noticed.
const DIVISORS: usize = 12;
/// Longest list of moments that is looked at: more do not make it surer.
const MOMENTS: usize = 200;
/// Fewest turns in which something was noticed. Bursts are one occurrence each: two bursts, however
/// many moments they have, are one interval and no rhythm.
const TURNS: usize = 5;

/// The longest period that explains the moments, given in rising order, or `None`. They can lie only on
/// a lattice of this spacing, in their unit; 0 where they can lie anywhere.
pub fn find_period(moments: &[f64], spacing: f64) -> Option<Period> {
    let moments = &moments[..moments.len().min(MOMENTS)];
    if moments.len() < TURNS {
        return None;
    }
    let intervals: Vec<f64> =
        moments.windows(2).map(|w| w[1] - w[0]).filter(|d| *d > 0.0).collect();
    let mut candidates: Vec<f64> =
        intervals.iter().flat_map(|d| (1..=DIVISORS).map(move |k| d / k as f64)).collect();
    candidates.sort_unstable_by(|a, b| b.total_cmp(a));
    let tried = candidates.len() as f64;
    candidates.into_iter().find_map(|candidate| {
        let period = refine(moments, candidate);
        if period <= spacing {
            return None;
        }
        let turns = one_a_turn(moments, period);
        if turns.len() < TURNS {
            return None;
        }
        let (r, range) = phases(&turns, period);
        let n = turns.len() as f64;
        let cell = spacing / period;
        let rayleigh = (-n * (r * spread(cell)).powi(2)).exp();
        // All phases within an arc: n·w^(n−1) for an arc of at most half a turn.
        let range = range + cell;
        let arc = if range <= 0.5 { n * range.powf(n - 1.0) } else { 1.0 };
        let p = rayleigh.min(arc) * tried;
        let jitter = (-2.0 * r.max(1e-12).ln()).max(0.0).sqrt() * period / std::f64::consts::TAU;
        // Within 3% of the period, and not by chance.
        (p < 0.01 && jitter < 0.03 * period).then_some(Period { period, jitter, p })
    })
}

/// Mean resultant length of a uniform distribution over this share of a turn.
fn spread(share: f64) -> f64 {
    let x = std::f64::consts::PI * share;
    if x > 0.0 { x.sin() / x } else { 1.0 }
}

/// The first moment of each turn: what follows within half a turn belongs to the same occurrence.
fn one_a_turn(moments: &[f64], period: f64) -> Vec<f64> {
    let mut turns: Vec<f64> = Vec::with_capacity(moments.len());
    for t in moments {
        if turns.last().is_none_or(|last| t - last > period / 2.0) {
            turns.push(*t);
        }
    }
    turns
}

/// Mean resultant length of the phases, and the arc that holds all of them as a share of a turn.
fn phases(moments: &[f64], period: f64) -> (f64, f64) {
    let phase = |t: &f64| ((t - moments[0]) / period).rem_euclid(1.0);
    let (mut c, mut s) = (0.0, 0.0);
    let mut turns: Vec<f64> = moments.iter().map(phase).collect();
    for turn in &turns {
        let angle = std::f64::consts::TAU * turn;
        c += angle.cos();
        s += angle.sin();
    }
    turns.sort_unstable_by(f64::total_cmp);
    let wrap = 1.0 - turns[turns.len() - 1] + turns[0];
    let gap = turns.windows(2).map(|w| w[1] - w[0]).fold(wrap, f64::max);
    (c.hypot(s) / moments.len() as f64, (1.0 - gap).max(1e-9))
}

/// Least squares of the moments on their cycle numbers, counted from one to the next so that a small
/// error of the candidate does not add up.
fn refine(moments: &[f64], candidate: f64) -> f64 {
    let mut cycle = 0.0;
    let cycles: Vec<f64> = std::iter::once(0.0)
        .chain(moments.windows(2).map(|w| {
            cycle += ((w[1] - w[0]) / candidate).round();
            cycle
        }))
        .collect();
    let n = moments.len() as f64;
    let mean_k = cycles.iter().sum::<f64>() / n;
    let mean_t = moments.iter().sum::<f64>() / n;
    let var: f64 = cycles.iter().map(|k| (k - mean_k).powi(2)).sum();
    if var == 0.0 {
        return candidate;
    }
    let cov: f64 = cycles.iter().zip(moments).map(|(k, t)| (k - mean_k) * (t - mean_t)).sum();
    cov / var
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: &mut u64) -> f64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 40) as f64 / (1u64 << 24) as f64 - 0.5
    }

    #[test]
    fn a_period_is_found_through_missed_occurrences() {
        let mut seed = 7;
        let noticed = [0, 1, 3, 4, 5, 8, 9, 12, 13, 15, 20, 21];
        let moments: Vec<f64> =
            noticed.iter().map(|&k| f64::from(k) * 97.3 + noise(&mut seed) * 0.2).collect();
        let found = find_period(&moments, 0.0).unwrap();
        assert!((found.period - 97.3).abs() < 0.05, "{found:?}");
        assert!(found.jitter < 0.2);
    }

    #[test]
    fn bursts_count_once() {
        let burst = |at: f64| {
            [0.0, 1.1374, 3.7313, 5.2191, 9.9172, 17.3618].map(|after| at + after).into_iter()
        };
        let two: Vec<f64> = burst(0.0).chain(burst(17_000.0)).collect();
        assert_eq!(find_period(&two, 0.0), None);
        let regular: Vec<f64> = (0..8).flat_map(|k| burst(f64::from(k) * 1_000.0)).collect();
        let found = find_period(&regular, 0.0).unwrap();
        assert!((found.period - 1_000.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn random_moments_have_no_period() {
        let mut found = 0;
        for start in 0..200u64 {
            let mut seed = start.wrapping_mul(977) + 1;
            let mut t = 0.0;
            let moments: Vec<f64> = (0..20)
                .map(|_| {
                    t -= 100.0 * (noise(&mut seed) + 0.5 + 1e-9).ln();
                    t
                })
                .collect();
            found += usize::from(find_period(&moments, 0.0).is_some());
        }
        assert!(found <= 4, "{found} of 200 random series called periodic");
    }

    /// Some of `wakeups` wake-ups that are `spacing` apart, drawn at random, in rising order.
    fn on_lattice(
        seed: &mut u64,
        wakeups: u32,
        late: usize,
        spacing: f64,
        jitter: f64,
    ) -> Vec<f64> {
        let mut drawn = std::collections::BTreeSet::new();
        while drawn.len() < late {
            drawn.insert(((noise(seed) + 0.5) * f64::from(wakeups)) as u32);
        }
        drawn.iter().map(|&k| f64::from(k) * spacing + (noise(seed) + 0.5) * jitter).collect()
    }

    /// Randomly late wake-ups of a periodic task: the measuring interval is no period of theirs.
    #[test]
    fn random_moments_on_a_lattice_have_no_period() {
        let cases = [
            (10_000, 40, 1_000.0, 0.0),
            (60_000, 25, 1_000.0, 0.0),
            (60_000, 100, 1_000.0, 0.0),
            (10_000, 40, 500.0, 0.0),
            (300, 8, 1_000.0, 0.0),
            (10_000, 40, 1_000.0, 50.0),
            (60_000, 100, 1_000.0, 80.0),
        ];
        for (case, (wakeups, late, spacing, jitter)) in cases.into_iter().enumerate() {
            let mut found = Vec::new();
            for start in 0..50u64 {
                let mut seed = start.wrapping_mul(7_919) + case as u64 + 1;
                let moments = on_lattice(&mut seed, wakeups, late, spacing, jitter);
                found.extend(find_period(&moments, spacing));
            }
            // 1 % is the level of the test.
            assert!(found.len() <= 2, "{case}: {} of 50: {:?}", found.len(), found.first());
        }
    }

    /// A cause that is not aligned with the wake-ups, noticed at the next wake-up of each.
    #[test]
    fn a_period_is_found_on_a_lattice() {
        for (period, spacing) in [(97_300.0, 1_000.0), (9_730.0, 200.0), (100_000.0, 1_000.0)] {
            let noticed = [0, 1, 3, 4, 5, 8, 9, 12, 13, 15, 20, 21, 22, 30, 31, 33];
            let at = |k: i32| (f64::from(k) * period / spacing).ceil() * spacing;
            let moments: Vec<f64> = noticed.into_iter().map(at).collect();
            let found = find_period(&moments, spacing).unwrap_or_else(|| panic!("{period}"));
            assert!((found.period / period - 1.0).abs() < 0.01, "{found:?}");
        }
    }
}
