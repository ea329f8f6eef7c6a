//! The end of a uniform distribution that begins at 0, from the largest of some values.

/// Probability that an interval contains the end.
const LEVEL: f64 = 0.95;

/// The end with its 95 % interval from the largest of `n` independent values: the unbiased `(n + 1) / n` times it,
/// from it to `20^(1/n)` times it (L. A. Goodman, *Serial number analysis*, 1952). `None` without a value.
///
/// ```
/// let (end, (low, high)) = latlab_stats::uniform_end::uniform_end(90.0, 9).unwrap();
/// assert_eq!((end, low), (100.0, 90.0));
/// assert!((high - 125.5).abs() < 0.1);
/// ```
pub fn uniform_end(largest: f64, n: usize) -> Option<(f64, (f64, f64))> {
    let of = n as f64;
    let most = (1.0 - LEVEL).powf(-1.0 / of);
    (n > 0).then(|| (largest * (of + 1.0) / of, (largest, largest * most)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    #[test]
    fn the_interval_contains_the_end_as_often_as_it_says() {
        let mut rng = SplitMix64::new(5);
        let mut uniform = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        for n in [1, 3, 8] {
            let (mut hits, mut sum) = (0, 0.0);
            for _ in 0..4_000 {
                let largest = (0..n).map(|_| uniform()).fold(0.0, f64::max);
                let (end, (low, high)) = uniform_end(largest, n).unwrap();
                hits += u32::from(low <= 1.0 && 1.0 <= high);
                sum += end;
            }
            assert!((3_740..=3_860).contains(&hits), "{n}: {hits} of 4000");
            assert!((sum / 4_000.0 - 1.0).abs() < 0.03, "{n}: {}", sum / 4_000.0);
        }
        assert_eq!(uniform_end(1.0, 0), None);
    }
}
