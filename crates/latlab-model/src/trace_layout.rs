//! How a trace.dat is laid out: its head, sections, options and the data of each CPU.
//! Source of names and numbers: `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)`.

use serde::{Deserialize, Serialize};

/// The layout of a file. Offsets and sizes are bytes of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceLayout {
    /// 6 or 7.
    pub version: u32,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
    /// Size of the file.
    pub bytes: u64,
    /// Bytes of a `long` in the recording program.
    pub user_long_bytes: u8,
    /// Bytes of a `long` in the recorded kernel.
    pub kernel_long_bytes: u8,
    /// Bytes of a page of the ring buffer.
    pub page_bytes: u32,
    /// Codec of compressed sections: `none`, `zlib`, `zstd`.
    pub compression: String,
    /// Number of CPUs of the recorded machine, as far as the file says.
    pub cpu_count: u32,
    /// Sections, as they follow each other in the file.
    pub sections: Vec<SectionLayout>,
    /// Kinds of events by subsystem.
    pub systems: Vec<SystemLayout>,
    /// Options with the name of the format, in the order of their numbers.
    pub options: Vec<OptionLayout>,
    /// Ring buffers, the top one first.
    pub buffers: Vec<BufferLayout>,
}

/// A section. Version 6 has no heads of sections: there it is a part in the fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SectionLayout {
    /// Number of the section in version 7.
    pub id: u16,
    /// Where it begins, its head included.
    pub offset: u64,
    /// Size in the file, its head included.
    pub bytes: u64,
    /// Size of the contents, where they are compressed as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inflated_bytes: Option<u64>,
}

/// Kinds of events of a subsystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SystemLayout {
    /// Name.
    pub system: String,
    /// Number of kinds.
    pub events: u64,
}

/// An option.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OptionLayout {
    /// Name without `TRACECMD_OPTION_`; the number of an unknown one.
    pub name: String,
    /// Value; of an unknown option its size in bytes.
    pub value: String,
}

/// A ring buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BufferLayout {
    /// Name of the instance; empty for the top buffer.
    pub name: String,
    /// Clock; empty where the file does not say.
    pub clock: String,
    /// Whether the data are compressed.
    pub compressed: bool,
    /// Data of each CPU that has some.
    pub cpus: Vec<CpuLayout>,
}

/// Data of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuLayout {
    /// The CPU.
    pub cpu: u32,
    /// Where the data begin.
    pub offset: u64,
    /// Size in the file.
    pub bytes: u64,
    /// Pages, or chunks of compressed pages.
    pub parts: u64,
}
