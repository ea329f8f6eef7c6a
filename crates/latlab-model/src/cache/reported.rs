//! What sysfs, CPUID, CTR_EL0 and the device tree report of caches and TLBs, and how it compares with
//! the measurement.

use serde::{Deserialize, Serialize};

/// The report of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Reported {
    /// `sysfs`, `CPUID`, `CTR_EL0`, `device tree`.
    pub source: String,
    /// Data and unified caches.
    pub caches: Vec<ReportedCache>,
    /// Entries of the data TLBs for base pages, from the processor outwards.
    pub tlbs: Vec<u32>,
    /// All data TLBs, also those for larger pages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub translation: Vec<ReportedTlb>,
}

/// A cache as reported; 0 for what is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ReportedCache {
    /// 1, 2, 3…
    pub level: u32,
    /// Size, bytes.
    pub bytes: u64,
    /// Line, bytes.
    pub line_bytes: u32,
    /// Ways.
    pub ways: u32,
}

/// A data TLB as CPUID reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ReportedTlb {
    /// 1, 2…
    pub level: u32,
    /// Entries.
    pub entries: u32,
    /// Ways; equal to the entries when fully associative, 0 when not reported.
    pub ways: u32,
    /// Page sizes that it holds, bytes.
    pub page_bytes: Vec<u64>,
}

/// A quantity that is measured and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Size of a level, bytes.
    Size(u32),
    /// Associativity of a level.
    Ways(u32),
    /// Line, bytes.
    Line,
    /// Entries of a data TLB for base pages.
    TlbEntries(u32),
}

/// A measured value and what the machine reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// All sources that report it report what was measured.
    Agree,
    /// A source reports another value within the measured interval.
    Within,
    /// A source reports a value outside the measured interval.
    Differ,
    /// No source reports it.
    NotReported,
    /// It was not measured.
    NotMeasured,
}

/// One quantity, by measurement and by source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// What it is.
    pub quantity: Quantity,
    /// Most likely value and interval.
    pub measured: Option<(u64, (u64, u64))>,
    /// Value by each source, in the order of the sources.
    pub reported: Vec<Option<u64>>,
    /// How they agree.
    pub agreement: Agreement,
}
