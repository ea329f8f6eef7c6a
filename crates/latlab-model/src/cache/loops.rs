//! Loops with known operations and known addresses: what the execution time model of R. H. Saavedra and A. J. Smith,
//! "Measuring cache and TLB performance and their effect on benchmark runtimes", IEEE Transactions on Computers 44,
//! 1995, predicts of them (its equation 1, Σ Cᵢ·Pᵢ + Σ Fᵢ·Dᵢ), and what they take.

use serde::{Deserialize, Serialize};

/// Additions and multiplications that follow each load of [`Loop::PointerChase`].
pub const CHASE: (u32, u32) = (8, 4);
/// Steps of [`Loop::PointerChase`] in one iteration.
pub const CHASE_UNROLLED: u32 = 8;

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
