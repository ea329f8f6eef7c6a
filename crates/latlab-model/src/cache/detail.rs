//! Result of the inference: plain data, saved in a run.
//!
//! Field names and aliases keep runs of version 1 readable (`declared`, `missing`, `order`, texts in place of typed
//! limitations).

use super::loops::LoopTimes;
use super::regime_map::RegimeMap;
use super::reported::Comparison;
use crate::cache::reported::Reported;
use crate::finding::{Confidence, Note, Quantity};
use serde::{Deserialize, Serialize};

/// Order of the loads of one cycle.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AccessPattern {
    /// All lines of eight pages in random order, then the next eight: one translation for many loads, and no two
    /// neighbouring lines soon after one another, which prefetchers within a page would use.
    #[default]
    PageLocal,
    /// Each line in another page than the one before: one translation for each load.
    PageRandom,
    /// Random over the whole array.
    Random,
    /// Ascending addresses.
    Sequential,
    /// One line of each page; `x` of such a curve counts pages.
    LinePerPage,
    /// As many adjacent lines as [`AccessPattern::LinePerPage`] has pages: its baseline.
    Dense,
}

/// Page size that backs an array.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// Base pages (4 KiB on most machines).
    #[default]
    Base,
    /// Transparent huge pages.
    Huge,
}

/// Latency over the size of the array, or over the number of pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Curve {
    /// Order of the loads.
    #[serde(rename = "order")]
    pub access: AccessPattern,
    /// Page size.
    pub pages: Pages,
    /// Bytes from one element to the next.
    pub stride_bytes: u32,
    /// Each load is followed by a store into its line.
    pub stores: bool,
    /// CPUs that ran the same at once, each with its own array; 0 and 1 mean one.
    pub threads: u32,
    /// Ascending in `x`.
    pub points: Vec<CurvePoint>,
    /// File that the curve was read from.
    pub source: Option<String>,
}

/// One point of a [`Curve`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CurvePoint {
    /// Bytes of the array, or pages.
    pub x: u64,
    /// ns a load: mean over the placements with base pages, minimum with huge pages.
    pub ns: f64,
    /// Smallest of the placements, ns.
    pub low_ns: f64,
    /// Largest of the placements, ns.
    pub high_ns: f64,
    /// Placements.
    pub repeats: u32,
}

impl CurvePoint {
    /// A point from the times of its placements, with their mean; `None` without any.
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
    /// Loads only, on one CPU.
    pub fn plain(&self) -> bool {
        !self.stores && self.threads < 2
    }

    /// Inserts a point at its place; one with the same `x` is replaced.
    pub fn insert(&mut self, point: CurvePoint) {
        match self.points.binary_search_by_key(&point.x, |p| p.x) {
            Ok(i) => self.points[i] = point,
            Err(i) => self.points.insert(i, point),
        }
    }

    /// The value at `x`, where it was measured.
    pub fn at(&self, x: u64) -> Option<f64> {
        self.points.binary_search_by_key(&x, |p| p.x).ok().map(|i| self.points[i].ns)
    }
}

/// What was measured and inferred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CacheDetail {
    /// Curves, as measured or read.
    pub curves: Vec<Curve>,
    /// The machine at the beginning of each round of processes, thinned to some hundred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<crate::machine::Moment>,
    /// Caches, from the processor outwards.
    pub levels: Vec<Level>,
    /// Sequential read bandwidth of one CPU from memory, bytes/s, where measured.
    pub memory_bytes_per_s: Option<f64>,
    /// Latency of a load from memory, ns; `None` when no array was large enough.
    pub memory_ns: Option<f64>,
    /// Line size and its evidence.
    pub line: Option<LineSize>,
    /// Data TLBs, from the processor outwards.
    pub tlbs: Vec<TlbLevel>,
    /// Page walk over a hit in the first TLB, ns.
    pub walk_ns: Option<f64>,
    /// Memory-level parallelism: time of a load with k independent chains.
    pub parallelism: Vec<Parallelism>,
    /// Loop `a[i] *= a[i]` by stride, where measured.
    pub strides: Vec<StridePoint>,
    /// T0, D and line fitted to a family of curves by stride.
    pub regimes: Option<Regimes>,
    /// T0, C, D, b and a fitted to loads over size and stride.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regime_map: Option<RegimeMap>,
    /// Loops as equation 1 of the same model predicts them, beside their measured times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_times: Option<LoopTimes>,
    /// Context switches in rings of processes with working sets, where measured.
    pub switches: Vec<SwitchPoint>,
    /// Knees of the refill cost over processes × working set.
    pub switch_knees: Vec<SwitchKnee>,
    /// What a cache model expects of each of these switches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switch_theory: Vec<SwitchTheory>,
    /// What each working set converges to as processes are added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switch_plateaus: Vec<SwitchPlateau>,
    /// What the machine reports of its caches, by source.
    #[serde(rename = "declared")]
    pub reported: Vec<Reported>,
    /// Seed of all orders and placements.
    pub seed: u64,
    /// Largest array, bytes.
    pub largest_bytes: u64,
    /// Base page, bytes.
    pub page_bytes: u64,
    /// Why nothing is inferred (an emulated processor); curves are then only shown.
    pub cannot_tell: Option<Limitation>,
    /// What limits the result.
    #[serde(rename = "missing")]
    pub limitations: Vec<Limitation>,
    /// Measured values beside reported ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Cost of refilling a KiB of the working set after a switch, ns, by the product of processes and
    /// working set, bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refill: Vec<(u64, f64)>,
}

/// Why something is not determined, or not with certainty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Limitation {
    /// The processor is emulated (QEMU without KVM) and has no caches.
    Emulated,
    /// Latency is the same at all sizes up to this one, bytes.
    Flat(u64),
    /// Latency differs between sizes, and no models of caches fit together.
    NotFitted,
    /// Latency still rises at the largest array: memory and the last level need a larger one.
    StillRising,
    /// The hypervisor backs huge pages with base pages (page splintering); base pages were used.
    Splintered,
    /// Repeated visits to the same placements were faster by more than a tenth: interference by others.
    Interference,
    /// The time ended, or a signal came, before everything was measured.
    Incomplete,
    /// A curve alone has no data on associativity and TLBs.
    CurveOnly,
    /// Several sizes fit the knee about as well.
    SeveralSizes,
    /// No miss-ratio model explains the knee; the interval holds all of it.
    NoModel,
    /// The size was concluded from a model only: the curve has no plateau of this level.
    NoPlateau,
    /// A pair of loads costs the same in one line and in two.
    LineNotSeen,
    /// Some distances cost neither one miss nor two (adjacent-line prefetch).
    AdjacentLinePrefetch,
    /// The end of the TLB's plateau is gradual.
    GradualKnee,
    /// So many pages fit; pages of other programs and of the kernel use some of the entries.
    EntriesInUse(u64),
    /// A limit of the machine or of the measurement; a sentence in runs of schema version 1.
    #[serde(untagged)]
    Note(Note),
}

impl Limitation {
    /// The limitation as a note.
    pub fn note(&self) -> Note {
        Note::new(match self {
            Self::Note(note) => return note.clone(),
            Self::Flat(bytes) => {
                return Note::new("cache.flat").value("up_to", Quantity::Bytes(*bytes));
            }
            Self::EntriesInUse(fit) => {
                return Note::new("cache.entries-in-use").value("fit", Quantity::Count(*fit));
            }
            Self::Emulated => "cache.emulated",
            Self::NotFitted => "cache.not-fitted",
            Self::StillRising => "cache.still-rising",
            Self::Splintered => "cache.splintered",
            Self::Interference => "cache.interference",
            Self::Incomplete => "cache.incomplete",
            Self::CurveOnly => "cache.curve-only",
            Self::SeveralSizes => "cache.several-sizes",
            Self::NoModel => "cache.no-model",
            Self::NoPlateau => "cache.no-plateau",
            Self::LineNotSeen => "cache.line-not-seen",
            Self::AdjacentLinePrefetch => "cache.adjacent-line-prefetch",
            Self::GradualKnee => "cache.gradual-knee",
        })
    }
}

/// One cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Level {
    /// 1, 2, 3…
    pub level: u32,
    /// Most likely size, bytes.
    pub bytes: u64,
    /// Interval of the size, bytes.
    pub bytes_interval: (u64, u64),
    /// Largest array within a tenth of the step above the plateau: what a program can use.
    pub effective_bytes: u64,
    /// Latency of a hit, ns.
    pub ns: f64,
    /// Sequential read bandwidth of one CPU, bytes/s, where measured.
    pub bytes_per_s: Option<f64>,
    /// Smallest and largest value on the plateau, ns.
    pub ns_interval: (f64, f64),
    /// Associativity, where determined.
    pub ways: Option<u32>,
    /// How the associativity was determined; version 1 has texts.
    pub ways_by: String,
    /// Root mean square of the relative residual of the joint fit.
    pub residual: Option<f64>,
    /// Miss-ratio model that fits best, in short: placement, replacement.
    #[serde(rename = "law")]
    pub model: String,
    /// Confidence in the size.
    pub grade: Grade,
}

/// Confidence, and what limits it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Grade {
    /// Confidence.
    pub confidence: Confidence,
    /// What limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Limitation>,
}

impl Default for Grade {
    fn default() -> Self {
        Self { confidence: Confidence::High, reason: None }
    }
}

impl Grade {
    /// Less than sure, with the reason.
    pub fn limited(confidence: Confidence, reason: Limitation) -> Self {
        Self { confidence, reason: Some(reason) }
    }
}

/// The line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LineSize {
    /// Bytes; 0 when not determined.
    pub bytes: u32,
    /// Distance of two loads, bytes, and the time of a load, ns.
    pub pairs: Vec<(u32, f64)>,
    /// Confidence.
    pub grade: Grade,
}

/// One data TLB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TlbLevel {
    /// 1, 2…
    pub level: u32,
    /// Most likely number of entries for base pages.
    pub entries: u32,
    /// Interval of the entries.
    pub entries_interval: (u32, u32),
    /// Cost of a miss, ns.
    pub penalty_ns: f64,
    /// Confidence.
    pub grade: Grade,
}

/// Loads in `chains` independent chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Parallelism {
    /// Chains.
    pub chains: u32,
    /// Time of a load, ns.
    pub ns: f64,
}

/// One stride of the loop `a[i] *= a[i]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StridePoint {
    /// Bytes from one element to the next.
    pub stride_bytes: u32,
    /// Time of one element, ns.
    pub ns: f64,
}

/// One point: what a switch costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SwitchPoint {
    /// Processes in the ring.
    pub procs: u32,
    /// Bytes that each of them reads when it is its turn.
    pub bytes: u64,
    /// One switch, less the same calls and the same working set without one, ns.
    pub ns: f64,
}

/// A measured switch beside the model: T(procs, 0) plus the working set times one cost for each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SwitchTheory {
    /// Processes in the ring.
    pub procs: u32,
    /// Working set of each, bytes.
    pub bytes: u64,
    /// Where all working sets fit together: 1 is the first cache, one more than there are caches is memory.
    pub level: u32,
    /// Cost of a KiB from that level, ns: median of its points.
    pub refill_ns_per_kib: f64,
    /// Expected, ns.
    pub expected_ns: f64,
    /// Measured, ns.
    pub measured_ns: f64,
}

/// The value that a working set converges to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SwitchPlateau {
    /// Working set, bytes.
    pub bytes: u64,
    /// The value, ns.
    pub ns: f64,
    /// Number of processes from which on all values are within 15 % of it.
    pub from_procs: u32,
}

/// Where the cost of a switch changes its law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SwitchKnee {
    /// Largest product of processes and working set before it, bytes.
    pub from_bytes: u64,
    /// Smallest product after it, bytes.
    pub to_bytes: u64,
    /// What a KiB of the working set adds to a switch before it, ns.
    pub before_ns: f64,
    /// And after it.
    pub after_ns: f64,
}

/// T0, D and b in one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Regimes {
    /// Time of a load without a miss, ns.
    pub t0_ns: f64,
    /// What a miss adds, ns.
    pub miss_ns: f64,
    /// Line, bytes.
    pub line_bytes: u32,
    /// Root mean square of the residual, share of `miss_ns`.
    pub residual: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of `latlab memory --quick` of version 1 on a Zen 5 guest.
    #[test]
    fn a_run_of_version_1_is_read() {
        let text = include_str!("../../../../fixtures/memory/run-v1.json");
        let run: serde_json::Value = serde_json::from_str(text).unwrap();
        let detail = &run["parts"][0]["detail"];
        assert_eq!(detail["kind"], "memory");
        let d: CacheDetail = serde_json::from_value(detail.clone()).unwrap();
        let sizes: Vec<_> = d.levels.iter().map(|l| (l.bytes, l.ways)).collect();
        assert_eq!(sizes, [(48 << 10, Some(12)), (1 << 20, None)]);
        assert_eq!(d.levels[1].bytes_interval, (768 << 10, 1280 << 10));
        assert!(d.levels[1].model.starts_with("pages at random"));
        let reason = |l: &Level| matches!(&l.grade.reason, Some(Limitation::Note(Note::Recorded(t))) if t.contains("788 KiB"));
        assert!(reason(&d.levels[1]) && d.levels[0].grade == Grade::default());
        assert_eq!((d.tlbs[0].entries, d.line.as_ref().unwrap().bytes), (96, 64));
        assert_eq!((d.reported.len(), d.reported[1].tlbs[0]), (2, 96));
        assert!(
            matches!(&d.limitations[0], Limitation::Note(Note::Recorded(t)) if t.starts_with("huge pages"))
        );
        let accesses: Vec<_> = d.curves.iter().map(|c| (c.access, c.points.len() > 20)).collect();
        assert_eq!(
            accesses,
            [(AccessPattern::PageLocal, true), (AccessPattern::LinePerPage, true)]
        );
    }

    #[test]
    fn typed_limitations_come_back_as_they_were() {
        let all = vec![
            Limitation::Splintered,
            Limitation::Flat(1 << 20),
            Limitation::Note(Note::Recorded("of the machine".into())),
            Limitation::Note(Note::new("cache.cpu-lost").value("cpu", Quantity::Cpu(1))),
        ];
        let d = CacheDetail { limitations: all, ..CacheDetail::default() };
        let text = serde_json::to_string(&d).unwrap();
        assert_eq!(serde_json::from_str::<CacheDetail>(&text).unwrap(), d);
    }
}
