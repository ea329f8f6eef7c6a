//! Sums of counts that a file may have made up: a sum stops at the largest number.

use std::borrow::Borrow;

/// A sum of counts or times.
pub trait Total {
    /// The sum, or `u64::MAX` where it is larger.
    fn total(self) -> u64;
}

impl<I: Iterator<Item: Borrow<u64>>> Total for I {
    fn total(self) -> u64 {
        self.fold(0, |sum, n| sum.saturating_add(*n.borrow()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_stops_at_the_largest_number() {
        assert_eq!([1u64, 2].iter().total(), 3);
        assert_eq!([u64::MAX, 7].into_iter().total(), u64::MAX);
    }
}
