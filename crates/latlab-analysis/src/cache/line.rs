//! Line size: two loads in one line cost one miss, two in two lines cost two.

use latlab_model::cache::detail::{Grade, Limitation, LineSize};
use latlab_model::finding::Confidence;

/// Distances of the two loads, bytes.
pub const DISTANCES: [u32; 7] = [8, 16, 32, 64, 128, 256, 512];
/// Share of the largest step at which the second load is in another line; half a miss with adjacent-line prefetch.
const ANOTHER_LINE: f64 = 0.3;
/// Two lines cost at least this factor more than one, or nothing can be told.
const STEP: f64 = 1.2;

/// The smallest distance at which the second load of a pair misses as the first does.
pub fn of_pairs(pairs: Vec<(u32, f64)>) -> LineSize {
    let same = pairs.first().map_or(0.0, |p| p.1);
    let apart = pairs.iter().rev().take(2).map(|p| p.1).fold(0.0, f64::max);
    if apart < same * STEP {
        let grade = Grade::limited(Confidence::Low, Limitation::LineNotSeen);
        return LineSize { bytes: 0, pairs, grade };
    }
    let share = |v: f64| (v - same) / (apart - same);
    let bytes = pairs.iter().find(|p| share(p.1) > ANOTHER_LINE).map_or(0, |p| p.0);
    let unclear = |p: &(u32, f64)| (ANOTHER_LINE / 2.0..1.0 - ANOTHER_LINE).contains(&share(p.1));
    let grade = if pairs.iter().any(unclear) {
        Grade::limited(Confidence::Medium, Limitation::AdjacentLinePrefetch)
    } else {
        Grade::default()
    };
    LineSize { bytes, pairs, grade }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_the_first_distance_with_a_second_miss() {
        let step = |line: u32| {
            let of = |d: u32| if d < line { 2.5 } else { 4.0 };
            DISTANCES.into_iter().map(|d| (d, of(d))).collect::<Vec<_>>()
        };
        for line in [32, 64, 128] {
            let found = of_pairs(step(line));
            assert_eq!((found.bytes, found.grade.confidence), (line, Confidence::High));
        }
        let mut prefetched = step(64);
        prefetched[3].1 = 3.4;
        assert_eq!(of_pairs(prefetched).grade.confidence, Confidence::Medium);
        // Lines 512 bytes apart share a set and cost more.
        let mut conflict = step(64);
        conflict[6].1 = 5.7;
        assert_eq!(of_pairs(conflict).bytes, 64);
        assert_eq!(of_pairs(vec![(8, 4.0), (512, 4.1)]).grade.confidence, Confidence::Low);
    }
}
