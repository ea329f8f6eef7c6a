//! A curve: latency of a load over the size of the array, or over the number of pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The order in which a cycle visits its lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// All lines of eight pages in random order, then the next eight: each page is translated once for
    /// all its lines, and neighbours come too far apart for prefetchers that look at one page.
    #[default]
    PageLocal,
    /// The next line is always in another page: a page is translated for each line.
    PageRandom,
    /// Random over everything.
    Random,
    /// Rising: what a prefetcher likes best.
    Sequential,
    /// One line of each page; the curve's `x` counts pages.
    LinePerPage,
    /// As many lines side by side as [`Order::LinePerPage`] has pages: its baseline.
    Dense,
}

impl Order {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::PageLocal => "a few pages at a time",
            Self::PageRandom => "another page each time",
            Self::Random => "random",
            Self::Sequential => "rising",
            Self::LinePerPage => "one line a page",
            Self::Dense => "side by side",
        }
    }
}

/// Pages of the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// The ordinary size.
    #[default]
    Base,
    /// Transparent huge pages.
    Huge,
}

/// One curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Curve {
    /// Order of the loads.
    pub order: Order,
    /// Pages of the array.
    pub pages: Pages,
    /// Bytes from one element to the next.
    pub stride_bytes: u32,
    /// Each load is followed by a store into its line.
    pub stores: bool,
    /// CPUs that did the same at once, each with an array of its own; 0 and 1: one.
    pub threads: u32,
    /// Rising in `x`.
    pub points: Vec<CurvePoint>,
    /// Where it comes from, when it was not measured here.
    pub source: Option<String>,
}

/// One point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CurvePoint {
    /// Bytes of the array, or pages.
    pub x: u64,
    /// Mean over the allocations, ns a load; the lowest of them with huge pages, where chance has no part.
    pub ns: f64,
    /// Smallest of the allocations.
    pub low_ns: f64,
    /// Largest of the allocations.
    pub high_ns: f64,
    /// Allocations.
    pub repeats: u32,
}

impl CurvePoint {
    /// A point of several values; `None` without any.
    pub fn of(x: u64, values: &[f64]) -> Option<Self> {
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n.max(1) as f64;
        (n > 0).then(|| Self {
            x,
            ns: mean,
            low_ns: values.iter().copied().fold(f64::INFINITY, f64::min),
            high_ns: values.iter().copied().fold(0.0, f64::max),
            repeats: u32::try_from(n).unwrap_or(u32::MAX),
        })
    }
}

impl Curve {
    /// Loads of one CPU: what levels are inferred from.
    pub fn plain(&self) -> bool {
        !self.stores && self.threads < 2
    }

    /// Puts a point in its place; one at the same `x` is replaced.
    pub fn insert(&mut self, point: CurvePoint) {
        match self.points.binary_search_by_key(&point.x, |p| p.x) {
            Ok(i) => self.points[i] = point,
            Err(i) => self.points.insert(i, point),
        }
    }

    /// Adds a point; of two of one size the lower counts.
    pub fn insert_lower(&mut self, point: CurvePoint) {
        if self.at(point.x).is_none_or(|before| point.ns < before) {
            self.insert(point);
        }
    }

    /// The value at `x`, where it was measured.
    pub fn at(&self, x: u64) -> Option<f64> {
        self.points.binary_search_by_key(&x, |p| p.x).ok().map(|i| self.points[i].ns)
    }

    /// The value at `x` on a straight line between its neighbours; that of the nearest end outside.
    pub fn between(&self, x: u64) -> Option<f64> {
        let i = self.points.partition_point(|p| p.x < x);
        let (Some(b), Some(a)) = (self.points.get(i), i.checked_sub(1).map(|i| self.points[i]))
        else {
            return self.points.get(i.min(self.points.len().saturating_sub(1))).map(|p| p.ns);
        };
        Some(a.ns + (b.ns - a.ns) * (x - a.x) as f64 / (b.x - a.x).max(1) as f64)
    }
}
