//! Did tracing change what it traced? Traced against untraced blocks, interleaved.
//!
//! A p value alone says little: with enough samples every difference is
//! "significant". What matters is how far each quantile moved, with an interval
//! from the blocks: block medians of quantile differences, bootstrapped over
//! blocks (spikes cluster within a block; P. Hall, J. Horowitz and B.-Y. Jing, 1995).

use latlab_model::latency::{Effect, Shift, TracingOverhead};
use latlab_stats::histogram::Histogram;
use latlab_stats::quantile::median;

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
    let (low_ns, high_ns) = bootstrap_median(&differences)?;
    Some(Shift {
        q,
        untraced_ns: off.quantile(q)? as f64,
        traced_ns: on.quantile(q)? as f64,
        shift_ns: median(&differences)?,
        low_ns,
        high_ns,
    })
}

fn effect(shifts: &[Shift], blocks: usize, limit_ns: u64) -> Effect {
    if blocks < 3 || shifts.is_empty() {
        return Effect::CannotTell;
    }
    let limit = limit_ns.max(1) as f64;
    // Late under tracing at a quantile at which nobody is late without.
    if shifts.iter().any(|s| s.untraced_ns < 0.5 * limit && s.traced_ns > limit && s.low_ns > 0.0) {
        return Effect::MakesLate;
    }
    let tolerance = 0.1 * limit;
    if shifts.iter().all(|s| s.shift_ns.abs() <= tolerance || (s.low_ns <= 0.0 && s.high_ns >= 0.0))
    {
        return Effect::Small;
    }
    let middle = shifts[0].shift_ns;
    if shifts.iter().all(|s| s.low_ns - tolerance <= middle && middle <= s.high_ns + tolerance) {
        Effect::Shifted
    } else {
        Effect::Changed
    }
}

/// 95% percentile interval of the median by resampling (B. Efron, 1979); the generator is seeded
/// by the number of values, so that equal data give equal intervals.
fn bootstrap_median(values: &[f64]) -> Option<(f64, f64)> {
    const ROUNDS: usize = 400;
    if values.is_empty() {
        return None;
    }
    let mut state = 0x9E37_79B9_7F4A_7C15u64 ^ values.len() as u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut medians: Vec<f64> = (0..ROUNDS)
        .filter_map(|_| {
            let sample: Vec<f64> = (0..values.len())
                .map(|_| values[(next() % values.len() as u64) as usize])
                .collect();
            median(&sample)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    Some((medians[ROUNDS / 40], medians[ROUNDS - 1 - ROUNDS / 40]))
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
