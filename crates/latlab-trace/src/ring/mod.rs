//! The ring buffer: pages to records, records of all CPUs to events in order of time.

mod batch;
mod chunk;
mod clock;
mod cursor;
mod encode;
mod merge;
mod page;
mod pieces;
mod read_ahead;

pub use batch::Batch;
pub(crate) use merge::Filled;
pub use merge::{Events, Select};
pub use page::{Missed, PageError, PageHead, PageRecords};

pub(crate) use clock::TimeFix;
pub(crate) use encode::PageEncoder;

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Event<'e> {
    /// Time stamp, in ns where the trace's clock counts ns, after the corrections that the file asks for.
    pub time: u64,
    /// The CPU that recorded it.
    pub cpu: u32,
    /// Which of [`crate::TraceFile::buffers`] it came from.
    pub buffer: u16,
    /// Kind: number of an [`crate::EventFormat`].
    pub id: u16,
    /// Events that this CPU lost just before this one.
    pub missed: Missed,
    /// The record, from its `common_type` on. Fields read it.
    pub payload: &'e [u8],
}
