//! Loops with known operations and known addresses: what the execution time model of R. H. Saavedra and A. J. Smith,
//! "Measuring cache and TLB performance and their effect on benchmark runtimes", IEEE Transactions on Computers 44,
//! 1995, predicts of them (its equation 1, Σ Cᵢ·Pᵢ + Σ Fᵢ·Dᵢ), and what they take.

use super::detail::Pages;
use super::request::{Limits, Request, Work};
use serde::{Deserialize, Serialize};

/// Additions and multiplications that follow each load of [`Loop::PointerChase`].
pub const CHASE: (u32, u32) = (8, 4);
/// Steps of [`Loop::PointerChase`] in one iteration.
pub const CHASE_UNROLLED: u32 = 8;
/// Rows of the product that [`Loop::Matrix`] passes through before the one whose addresses count.
const ROWS: u64 = 3;

/// An operation of the abstract machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A load that hits the first cache: T0.
    Load,
    /// A store into a line of the first cache.
    Store,
    /// An addition of integers of a pointer's width.
    IntAdd,
    /// A multiplication of them.
    IntMul,
    /// A floating addition, 64 bits.
    FloatAdd,
    /// A floating multiplication, 64 bits.
    FloatMul,
    /// One round of a counted loop: the counter and the branch.
    Iteration,
}

impl Operation {
    /// As it stands in a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::IntAdd => "integer addition",
            Self::IntMul => "integer multiplication",
            Self::FloatAdd => "floating addition",
            Self::FloatMul => "floating multiplication",
            Self::Iteration => "iteration",
        }
    }
}

/// A loop. Its step is one element, or one multiplication of the matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Loop {
    /// `p = *p`, then additions and multiplications of `p` that leave it as it is: each operation waits for the last.
    PointerChase {
        /// Size of the array, bytes.
        bytes: u32,
        /// Bytes from one element to the next, in an order that prefetchers disturb least.
        stride: u32,
    },
    /// `x = x * c + a[i]`, 64-bit floating: the arithmetic is a chain, the loads are not.
    Polynomial {
        /// Size of the array, bytes.
        bytes: u32,
    },
    /// `a[i] *= a[i]`, 32-bit integers: no step waits for another.
    Multiply {
        /// Size of the array, bytes.
        bytes: u32,
        /// Bytes from one element to the next.
        stride: u32,
    },
    /// `s += a[i][k] * b[k][j]`, three nested loops, 64-bit floating: the additions are a chain.
    Matrix {
        /// Rows and columns.
        order: u32,
    },
}

impl Loop {
    /// Whether each operation needs the result of the one before, loads included: nothing overlaps.
    pub fn dependent(&self) -> bool {
        matches!(self, Self::PointerChase { .. })
    }

    /// Bytes of all its arrays.
    pub fn bytes(&self) -> u32 {
        match *self {
            Self::PointerChase { bytes, .. }
            | Self::Polynomial { bytes }
            | Self::Multiply { bytes, .. } => bytes,
            Self::Matrix { order } => order.saturating_mul(order).saturating_mul(3 * 8),
        }
    }

    /// Operations of one step (C of the equation).
    pub fn operations(&self) -> Vec<(Operation, f64)> {
        use Operation::{FloatAdd, FloatMul, IntAdd, IntMul, Iteration, Load, Store};
        match *self {
            Self::PointerChase { .. } => vec![
                (Load, 1.0),
                (IntAdd, CHASE.0.into()),
                (IntMul, CHASE.1.into()),
                (Iteration, 1.0 / f64::from(CHASE_UNROLLED)),
            ],
            Self::Polynomial { .. } => {
                vec![(Load, 1.0), (FloatMul, 1.0), (FloatAdd, 1.0), (Iteration, 1.0)]
            }
            Self::Multiply { .. } => {
                vec![(Load, 1.0), (IntMul, 1.0), (Store, 1.0), (Iteration, 1.0)]
            }
            // Both arrays have an address to compute; the element of the product is stored once for `order` steps.
            Self::Matrix { order } => vec![
                (Load, 2.0),
                (IntAdd, 2.0),
                (FloatMul, 1.0),
                (FloatAdd, 1.0),
                (Store, 1.0 / f64::from(order.max(1))),
                (Iteration, 1.0),
            ],
        }
    }

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
                let mut visited = 0;
                let before = ROWS.min(n);
                for row in (0..before).chain([0]) {
                    let second = visited == before;
                    visited += 1;
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
}

fn in_order(bytes: u32, stride: u32, visit: &mut dyn FnMut(u64, bool)) {
    let step = stride.max(1) as usize;
    for second in [false, true] {
        (0..bytes).step_by(step).for_each(|o| visit(u64::from(o), second));
    }
}

impl Loop {
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

/// A loop, predicted and measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoopTime {
    /// The loop.
    #[serde(rename = "loop")]
    pub of: Loop,
    /// Σ Cᵢ·Pᵢ of a step, ns.
    pub operations_ns: f64,
    /// Misses of a step, in each cache and then in each data TLB.
    pub misses: Vec<f64>,
    /// Σ Fᵢ·Dᵢ of a step, ns.
    pub misses_ns: f64,
    /// Measured time of a step, ns.
    pub measured_ns: f64,
}

impl LoopTime {
    /// Predicted time of a step, ns.
    pub fn predicted_ns(&self) -> f64 {
        self.operations_ns + self.misses_ns
    }

    /// Measured over predicted time.
    pub fn ratio(&self) -> f64 {
        self.measured_ns / self.predicted_ns()
    }
}

/// Prediction and measurement of loops.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoopTimes {
    /// Cost of each operation in a chain (P of the equation), ns.
    pub costs: Vec<(Operation, f64)>,
    /// The loops.
    pub loops: Vec<LoopTime>,
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let loads_and_stores: f64 = (of.operations().iter())
                .filter(|(o, _)| matches!(o, Operation::Load))
                .map(|o| o.1)
                .sum();
            assert!((loads_and_stores - each).abs() < 0.1, "{of:?}");
        }
    }
}
