//! Whether the processor's clock stayed what it was while memory was measured.
//!
//! A governor that is slow to raise the clock, a thermal limit or a neighbour that ends a boost changes
//! what a cycle takes: then times of the beginning and of the end are not of one machine. The same short
//! piece of arithmetic, timed again and again, tells.

/// Readings of one stretch.
const STRETCH: usize = 24;
/// Stretches whose quickest readings differ by more than this factor had another clock.
const ANOTHER: f64 = 1.05;
/// Fewer stretches tell nothing: the slowest and the quickest are left out, for others at work make one slow.
const STRETCHES: usize = 5;
/// Readings in a row within this factor of the least: the clock has come to rest.
const ALIKE: f64 = 1.01;
const ALIKE_READINGS: usize = 5;

/// Change of the clock over readings of one piece of arithmetic, ns each, in the order in which they were
/// taken: the slowest and the quickest of its stretches, ns. `None` when it stayed, or with few readings.
///
/// Of each stretch the quickest tenth counts, for what disturbs a reading only ever makes it longer.
pub fn changed(readings: &[f64]) -> Option<(f64, f64)> {
    let mut quick: Vec<f64> = readings.chunks_exact(STRETCH).map(quickest).collect();
    if quick.len() < STRETCHES {
        return None;
    }
    quick.sort_unstable_by(f64::total_cmp);
    let beside = quick.len() / 20 + 1;
    let (low, high) = (quick[beside], quick[quick.len() - 1 - beside]);
    (high > low * ANOTHER).then_some((high, low))
}

/// Of the quickest tenth the slowest.
fn quickest(stretch: &[f64]) -> f64 {
    let mut all = stretch.to_vec();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 10).copied().unwrap_or(f64::INFINITY)
}

/// Whether a clock that was rising has come to rest: the last readings are alike.
pub fn settled(readings: &[f64]) -> bool {
    let Some(last) = readings.len().checked_sub(ALIKE_READINGS).map(|i| &readings[i..]) else {
        return false;
    };
    let least = readings.iter().copied().fold(f64::INFINITY, f64::min);
    last.iter().all(|r| *r < least * ALIKE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    /// Readings at a clock that takes `ns(i)`, one in four disturbed.
    fn readings(n: usize, ns: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut rng = SplitMix64::new(5);
        (0..n)
            .map(|i| {
                let noise = 1.0 + rng.below(100) as f64 / 10_000.0;
                ns(i) * noise * if rng.below(4) == 0 { 1.8 } else { 1.0 }
            })
            .collect()
    }

    #[test]
    fn a_clock_that_falls_is_seen_and_neighbours_are_not_taken_for_one() {
        assert_eq!(changed(&readings(2_000, |_| 10_000.0)), None);
        // Somebody beside for a while, in one stretch of eighty.
        let beside = readings(2_000, |i| if (480..500).contains(&i) { 15_000.0 } else { 10_000.0 });
        assert_eq!(changed(&beside), None);
        let (slow, quick) =
            changed(&readings(2_000, |i| if i < 900 { 10_000.0 } else { 12_500.0 })).unwrap();
        assert!((slow / quick - 1.25).abs() < 0.02, "{slow} {quick}");
        assert_eq!(changed(&readings(60, |i| i as f64)), None);
    }

    #[test]
    fn a_clock_has_come_to_rest_when_the_last_readings_are_alike() {
        let ramp: Vec<f64> = (0..10).map(|i| 1_000.0 - 80.0 * f64::from(i)).collect();
        assert!(!settled(&ramp) && !settled(&[]));
        let rest = [ramp, vec![280.0, 281.0, 280.0, 280.5, 280.0]].concat();
        assert!(settled(&rest));
    }
}
