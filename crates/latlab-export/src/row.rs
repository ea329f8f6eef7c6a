//! What every event has, whatever its kind.

use latlab_trace::{Event, EventFormat, Field, Missed, TraceFile};

/// Reads the common fields of a trace's events.
pub(crate) struct Rows<'a> {
    file: &'a TraceFile<'a>,
    pid: Option<&'a Field>,
}

/// The common part of one event.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub pid: i32,
    pub comm: &'a [u8],
    /// `None` for an event whose format the file does not have.
    pub format: Option<&'a EventFormat>,
}

impl<'a> Rows<'a> {
    pub fn new(file: &'a TraceFile<'a>) -> Self {
        Self { file, pid: file.common_pid() }
    }

    pub fn row(&self, event: &Event<'_>) -> Row<'a> {
        let pid = self.pid.map_or(0, |f| f.i64(event.payload) as i32);
        Row { pid, comm: self.file.comms.name(pid), format: self.file.formats.get(event.id) }
    }
}

/// How many events were lost just before this one, where that is known.
pub(crate) fn lost(event: &Event<'_>) -> u64 {
    match event.missed {
        Missed::Count(n) => n,
        _ => 0,
    }
}
