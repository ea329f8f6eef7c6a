//! Addresses that the loops of [`super::loops`] visit.

use super::detail::Pages;
use super::loops::Loop;
use super::request::{Limits, Request, Work};

/// Rows of the product that [`Loop::Matrix`] passes through before the one whose addresses count.
const ROWS: u64 = 3;

impl Loop {
    /// Request for the order of [`Loop::PointerChase`].
    pub fn request(&self, pages: Pages, seed: u64) -> Option<Request> {
        match *self {
            Self::PointerChase { bytes, stride } => {
                let work = Work::Lines { line: stride, stride, bytes };
                Some(Request { pages, work, start: 0, seed })
            }
            _ => None,
        }
    }

    /// Visits the addresses of one round in their order; `second` is true from where the caches have what an earlier
    /// round left in them, for the second half of what is visited.
    pub fn addresses(
        &self,
        limits: &Limits,
        pages: Pages,
        seed: u64,
        visit: &mut dyn FnMut(u64, bool),
    ) {
        match *self {
            Self::PointerChase { .. } => {
                let cycles =
                    self.request(pages, seed).map(|r| r.cycles(limits)).unwrap_or_default();
                for second in [false, true] {
                    cycles.iter().flatten().for_each(|o| visit(u64::from(*o), second));
                }
            }
            Self::Polynomial { bytes } => in_order(bytes, 8, visit),
            Self::Multiply { bytes, stride } => in_order(bytes, stride, visit),
            Self::Matrix { order } => {
                let n = u64::from(order);
                let (b, c) = (n * n * 8, n * n * 16);
                let before = ROWS.min(n);
                for (visited, row) in (0..=before).zip((0..before).chain([0])) {
                    let second = visited == before;
                    for column in 0..n {
                        for k in 0..n {
                            visit((row * n + k) * 8, second);
                            visit(b + (k * n + column) * 8, second);
                        }
                        visit(c + (row * n + column) * 8, second);
                    }
                }
            }
        }
    }

    /// Steps of what [`Loop::addresses`] marks as `second`.
    pub fn steps(&self) -> u64 {
        match *self {
            Self::PointerChase { bytes, stride } | Self::Multiply { bytes, stride } => {
                u64::from(bytes / stride.max(1))
            }
            Self::Polynomial { bytes } => u64::from(bytes / 8),
            Self::Matrix { order } => u64::from(order) * u64::from(order),
        }
    }
}

fn in_order(bytes: u32, stride: u32, visit: &mut dyn FnMut(u64, bool)) {
    let step = stride.max(1) as usize;
    for second in [false, true] {
        (0..bytes).step_by(step).for_each(|o| visit(u64::from(o), second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::loops::Operation;

    #[test]
    fn a_loop_visits_what_it_says_it_does() {
        let limits = Limits { page_bytes: 4096, base_bytes: 1 << 20, ..Limits::default() };
        for (of, each) in [
            (Loop::PointerChase { bytes: 32 << 10, stride: 64 }, 1.0),
            (Loop::Polynomial { bytes: 8 << 10 }, 1.0),
            (Loop::Multiply { bytes: 8 << 10, stride: 64 }, 1.0),
            (Loop::Matrix { order: 24 }, 2.0 + 1.0 / 24.0),
        ] {
            let (mut visited, mut furthest) = ([0u64; 2], 0);
            of.addresses(&limits, Pages::Base, 1, &mut |address, second| {
                visited[usize::from(second)] += 1;
                furthest = furthest.max(address);
            });
            assert_eq!(visited[1] as f64, of.steps() as f64 * each, "{of:?}");
            assert!(visited[0] >= visited[1] && furthest < u64::from(of.bytes()), "{of:?}");
            let loads: f64 = (of.operations().iter())
                .filter(|(o, _)| matches!(o, Operation::Load))
                .map(|o| o.1)
                .sum();
            assert!((loads - each).abs() < 0.1, "{of:?}");
        }
    }
}
