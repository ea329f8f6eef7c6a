//! Regimes of loads by size of the array and stride, after R. H. Saavedra and A. J. Smith, "Measuring cache and TLB
//! performance and their effect on benchmark runtimes", IEEE Transactions on Computers 44, 1995.

use serde::{Deserialize, Serialize};

/// Regime of a point, relative to the outermost cache or TLB that its array exceeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Regime {
    /// The array fits into every cache: T0.
    #[default]
    #[serde(rename = "1")]
    One,
    /// Several loads share each line that is fetched: T0 + D·s/b.
    #[serde(rename = "2.a")]
    TwoA,
    /// Each load is a miss: T0 + D.
    #[serde(rename = "2.b")]
    TwoB,
    /// So few elements that the ways of one set hold them: T0.
    #[serde(rename = "2.c")]
    TwoC,
}

impl Regime {
    /// Number of the regime in the publication.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::TwoA => "2.a",
            Self::TwoB => "2.b",
            Self::TwoC => "2.c",
        }
    }
}

/// A load in an array of `bytes`, one element each `stride_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RegimePoint {
    /// Size of the array, bytes.
    pub bytes: u64,
    /// Bytes from one element to the next.
    pub stride_bytes: u32,
    /// Measured time of a load, ns.
    pub ns: f64,
    /// Time of a load by the fitted model, ns.
    pub expected_ns: f64,
    /// Regime by the fitted model.
    pub regime: Regime,
    /// Cache that the array exceeds, 1 for the first; 0 in regime 1.
    pub level: u32,
}

/// A cache of the fitted model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RegimeLevel {
    /// C: the largest measured array that fits and the smallest that does not, bytes.
    pub capacity_bytes: (u64, u64),
    /// D: what a miss adds to a load, ns.
    pub miss_ns: f64,
    /// a: the largest measured number of elements in one set that all hit, and the smallest that miss; `None` where
    /// regime 2.c does not show.
    pub ways: Option<(u32, u32)>,
}

/// T0, C, D, b and a in one model of all points: T0 and, for each cache that misses, D·min(s/b, 1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RegimeMap {
    /// T0: time of a load without a miss, ns.
    pub t0_ns: f64,
    /// b: line, bytes.
    pub line_bytes: u32,
    /// Caches, from the processor outwards.
    pub levels: Vec<RegimeLevel>,
    /// TLBs as caches of pages: reach in bytes and what a miss adds, ns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tlbs: Vec<(u64, f64)>,
    /// Mean relative difference of expected from measured times.
    pub residual: f64,
    /// All points, by size and stride.
    pub points: Vec<RegimePoint>,
}
