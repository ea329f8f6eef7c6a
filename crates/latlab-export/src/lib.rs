//! Traces in the formats of other tools.
//!
//! ```text
//! TraceFile ─┬─ perfetto ─▶ protobuf for ui.perfetto.dev and trace_processor
//!            ├─ parquet  ─▶ one table an event, typed columns
//!            └─ text     ─▶ JSON lines, CSV
//! ```
//!
//! **Invariant:** pure: bytes in, `impl Write` out. Parquet, which makes several files, is handed
//! a function that opens them.

#![forbid(unsafe_code)]

pub mod lake;
pub mod parquet;
pub mod perfetto;
mod perfetto_events;
mod proto;
pub mod results;
mod row;
pub mod text;

use latlab_trace::Diagnostics;
use std::io::{self, BufWriter, Write};

/// Why a trace could not be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The output refused.
    #[error("writing")]
    Output(#[from] io::Error),
    /// The Parquet library refused.
    #[error("writing the Parquet table of {event}: {reason}")]
    Parquet {
        /// Which event's.
        event: String,
        /// What the library said.
        reason: String,
    },
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Events that the trace says were lost, where it says how many.
    pub lost: u64,
    /// Tables, packets or lines.
    pub parts: u64,
    /// What of the events could not be read.
    pub damage: Diagnostics,
}

/// Whatever the output is, the code that writes into it is one, and is compiled in this crate.
type Buffered<'w> = BufWriter<&'w mut dyn Write>;

fn buffered(out: &mut dyn Write) -> Buffered<'_> {
    BufWriter::with_capacity(1 << 20, out)
}
