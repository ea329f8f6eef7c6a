//! Did tracing change what it traced? Traced against untraced blocks, interleaved.
//!
//! A p value alone says little: with enough samples every difference is
//! "significant". What matters is how far each quantile moved, with an interval
//! from the pairs of blocks: Student's t of the differences of a quantile (spikes cluster within a
//! block, so blocks are what is independent). That the overhead is small, or that the shape is the
//! same, is stated only if the whole interval is within the margin, a tenth of the limit (two one-sided
//! tests; D. J. Schuirmann, 1987); otherwise it is not known.

use latlab_model::latency::{Effect, Shift, TracingOverhead};
use latlab_stats::histogram::Histogram;
use latlab_stats::student::student_upper;

/// The quantiles that are compared.
pub const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Compares blocks pairwise: `untraced[i]` was measured next to `traced[i]`.
pub fn observe(untraced: &[Histogram], traced: &[Histogram], limit_ns: u64) -> TracingOverhead {
    let blocks = untraced.len().min(traced.len());
    let all = |side: &[Histogram]| {
        let mut sum = Histogram::default();
        side.iter().for_each(|h| sum.merge(h));
        sum
    };
    let (off, on) = (all(untraced), all(traced));
    let shifts: Vec<Shift> = QUANTILES
        .iter()
        .filter(|&&q| (1.0 - q) * off.count.min(on.count) as f64 >= 10.0)
        .filter_map(|&q| shift(q, &off, &on, untraced, traced))
        .collect();
    let effect = effect(&shifts, blocks, limit_ns);
    TracingOverhead { blocks, wakeups: off.count.min(on.count), shifts, effect }
}

fn shift(
    q: f64,
    off: &Histogram,
    on: &Histogram,
    untraced: &[Histogram],
    traced: &[Histogram],
) -> Option<Shift> {
    let differences: Vec<f64> = untraced
        .iter()
        .zip(traced)
        .filter_map(|(a, b)| Some(b.quantile(q)? as f64 - a.quantile(q)? as f64))
        .collect();
    let (shift_ns, low_ns, high_ns) = mean_interval(&differences)?;
    Some(Shift {
        q,
        untraced_ns: off.quantile(q)? as f64,
        traced_ns: on.quantile(q)? as f64,
        shift_ns,
        low_ns,
        high_ns,
    })
}

fn effect(shifts: &[Shift], blocks: usize, limit_ns: u64) -> Effect {
    if blocks < 3 || shifts.is_empty() {
        return Effect::CannotTell;
    }
    let limit = limit_ns.max(1) as f64;
    // Late under tracing at a quantile that is far from late without, or that moves far.
    let far = |s: &Shift| s.untraced_ns < 0.5 * limit || s.low_ns > 0.5 * limit;
    if shifts.iter().any(|s| s.traced_ns > limit && s.low_ns > 0.0 && far(s)) {
        return Effect::MakesLate;
    }
    let margin = 0.1 * limit;
    let within = |s: &Shift, of: f64| s.low_ns >= of - margin && s.high_ns <= of + margin;
    let beyond = |s: &Shift, of: f64| s.low_ns > of + margin || s.high_ns < of - margin;
    if shifts.iter().all(|s| within(s, 0.0)) {
        return Effect::Small;
    }
    let middle = shifts[0].shift_ns;
    if shifts.iter().any(|s| beyond(s, middle)) {
        Effect::Changed
    } else if shifts.iter().all(|s| within(s, middle)) {
        Effect::Shifted
    } else {
        Effect::CannotTell
    }
}

/// Mean and its 95 % interval by Student's t; `None` below two values.
fn mean_interval(values: &[f64]) -> Option<(f64, f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student_upper(0.025, n - 1.0) * (variance / n).sqrt();
    Some((mean, mean - half, mean + half))
}

/// Where an untraced window `[low, high)` lies under tracing: by equal ranks of the two
/// distributions. `None` where the shape changed and ranks mean nothing.
pub fn map_window(
    window: (u64, u64),
    untraced: &Histogram,
    traced: &Histogram,
    effect: Effect,
) -> Option<(u64, u64)> {
    if !matches!(effect, Effect::Small | Effect::Shifted)
        || untraced.count == 0
        || traced.count == 0
    {
        return None;
    }
    let map = |value: u64| {
        let above = untraced.count_above(value) as f64 / untraced.count as f64;
        if above == 0.0 {
            // Beyond what was seen untraced: shift by as much as the median moved.
            let moved = traced.quantile(0.5)? as i64 - untraced.quantile(0.5)? as i64;
            return Some(value.saturating_add_signed(moved));
        }
        traced.quantile(1.0 - above)
    };
    let (low, high) = (map(window.0)?, map(window.1)?);
    Some((low, high.max(low + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(base: u64, seed: u64) -> Histogram {
        Histogram::of((0..5_000u64).map(|i| base + (i * 7_919 + seed * 104_729) % 3_000))
    }

    fn blocks(base: u64) -> Vec<Histogram> {
        (0..6).map(|i| block(base, i)).collect()
    }

    #[test]
    fn nothing_a_shift_and_a_disaster_are_told_apart() {
        let off = blocks(5_000);
        assert_eq!(observe(&off, &blocks(5_100), 100_000).effect, Effect::Small);
        let shifted = observe(&off, &blocks(25_000), 100_000);
        assert_eq!(shifted.effect, Effect::Shifted);
        assert!(shifted.shifts.iter().all(|s| (s.shift_ns - 20_000.0).abs() < 500.0));
        assert_eq!(observe(&off, &blocks(150_000), 100_000).effect, Effect::MakesLate);
        assert_eq!(observe(&off[..2], &blocks(5_000)[..2], 100_000).effect, Effect::CannotTell);
    }

    /// A quantile of which only a wide interval is known is not "small", whatever its estimate.
    #[test]
    fn a_wide_interval_is_inconclusive() {
        let shift = |low_ns, high_ns| Shift { q: 0.99, low_ns, high_ns, ..Shift::default() };
        let effect = |s: &[Shift]| effect(s, 4, 100_000);
        assert_eq!(effect(&[shift(-2_000.0, 2_000.0)]), Effect::Small);
        assert_eq!(
            effect(&[shift(-2_000.0, 2_000.0), shift(-50_000.0, 40_000.0)]),
            Effect::CannotTell
        );
        assert_eq!(effect(&[shift(-2_000.0, 2_000.0), shift(20_000.0, 40_000.0)]), Effect::Changed);
    }

    /// A limit that is not far above the median: tracing that makes every wake-up late is noticed there too.
    #[test]
    fn a_limit_near_the_median_is_exceeded_by_tracing() {
        let shift = |untraced_ns, low_ns, high_ns| Shift {
            q: 0.5,
            untraced_ns,
            traced_ns: untraced_ns + (low_ns + high_ns) / 2.0,
            shift_ns: (low_ns + high_ns) / 2.0,
            low_ns,
            high_ns,
        };
        // Measured: function_graph on an emulated kernel with all tracers.
        let shifts = [shift(5_729.0, 392_655.0, 514_668.0), shift(6_321.0, 436_579.0, 844_408.0)];
        assert_eq!(effect(&shifts, 4, 10_900), Effect::MakesLate);
        // A little more at a quantile that is nearly late is a shift.
        let little = [shift(5_000.0, 900.0, 1_100.0), shift(10_500.0, 900.0, 1_100.0)];
        assert_eq!(effect(&little, 4, 11_000), Effect::Small);
    }

    /// Coverage of the interval over four pairs.
    #[test]
    fn four_pairs_cover_as_they_say() {
        let mut rng = latlab_stats::rng::SplitMix64::new(5);
        let mut normal =
            || (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0;
        let covers = |(_, low, high): (f64, f64, f64)| low <= 0.0 && 0.0 <= high;
        let mut one =
            || mean_interval(&[normal(), normal(), normal(), normal()]).is_some_and(covers);
        let covered = (0..4_000).filter(|_| one()).count();
        assert!((3_745..=3_855).contains(&covered), "{covered} of 4000");
    }

    #[test]
    fn a_changed_shape_is_not_called_a_shift() {
        let off = blocks(5_000);
        let wide: Vec<Histogram> = (0..6u64)
            .map(|s| Histogram::of((0..5_000u64).map(|i| 5_000 + (i * 7_919 + s) % 3_000 * 25)))
            .collect();
        assert_eq!(observe(&off, &wide, 100_000).effect, Effect::Changed);
    }

    #[test]
    fn a_peak_is_found_again_under_tracing() {
        let (mut off, mut on) = (Histogram::default(), Histogram::default());
        blocks(5_000).iter().for_each(|h| off.merge(h));
        blocks(530_000).iter().for_each(|h| on.merge(h));
        let (low, high) = map_window((6_000, 7_000), &off, &on, Effect::Shifted).unwrap();
        assert!(low.abs_diff(531_000) < 1_000 && high.abs_diff(532_000) < 1_000, "{low} {high}");
        assert_eq!(map_window((6_000, 7_000), &off, &on, Effect::Changed), None);
    }
}
