//! Samples of the timerlat tracer, from a CPU's `trace_pipe_raw`.

use super::super::WakeupError;
use crate::recorder::{RecordError, page_size};
use crate::tracefs::{Control, TracefsError};
use latlab_trace::file::PageLayout;
use latlab_trace::ring::PageRecords;
use latlab_trace::{Endian, EventFormat, Field, Missed};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

/// One sample: the tracer gives two for each activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of the activation on its CPU.
    pub number: u32,
    /// 0 in the interrupt's handler, 1 in the thread.
    pub context: u32,
    /// How late.
    pub latency_ns: u64,
    /// When it was recorded, ns of CLOCK_MONOTONIC: a few µs after it was measured.
    pub time_ns: u64,
}

/// Where a sample's fields lie on this kernel.
pub struct Plan {
    endian: Endian,
    layout: PageLayout,
    id: u16,
    kind: Field,
    number: Field,
    context: Field,
    latency: Field,
}

impl Plan {
    /// From `events/header_page` and the tracer's `format` file.
    ///
    /// # Errors
    /// When they cannot be read or have not the fields.
    pub fn read(control: &Control) -> Result<Self, WakeupError> {
        let read = |name| control.tracefs().read(name).map_err(RecordError::from);
        let (header, format) =
            (read("events/header_page")?, read("events/ftrace/timerlat/format")?);
        let page = page_size(control, &header);
        Self::parse(&header, page, &format).ok_or_else(|| WakeupError::File {
            path: "events/ftrace/timerlat/format".into(),
            source: std::io::Error::new(ErrorKind::InvalidData, "has not the fields of a sample"),
        })
    }

    fn parse(header_page: &str, page_size: u32, format: &str) -> Option<Self> {
        let endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };
        let format = EventFormat::parse("ftrace", format, endian)?;
        let field = |name| format.field(name).cloned();
        Some(Self {
            endian,
            layout: PageLayout::parse(header_page, page_size, endian),
            id: format.id,
            kind: field("common_type")?,
            number: field("seqnum")?,
            context: field("context")?,
            latency: field("timer_latency")?,
        })
    }

    /// Gives the samples of a page to `sink`; how many events were lost before it.
    fn samples(&self, page: &[u8], sink: &mut dyn FnMut(Sample)) -> u64 {
        let Ok((records, missed)) = PageRecords::of(page, &self.layout, self.endian) else {
            return 0;
        };
        for (time_ns, payload) in records {
            if self.kind.number(payload) != Some(u64::from(self.id)) {
                continue;
            }
            sink(Sample {
                number: self.number.u64(payload) as u32,
                context: self.context.u64(payload) as u32,
                latency_ns: self.latency.u64(payload),
                time_ns,
            });
        }
        match missed {
            Missed::No => 0,
            Missed::Unknown => 1,
            Missed::Count(n) => n,
        }
    }
}

/// One CPU's buffer.
pub struct Stream {
    raw: File,
    page: Vec<u8>,
    /// Events that the buffer had no room for.
    pub lost: u64,
}

impl Stream {
    /// Opens a CPU's buffer.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(control: &Control, plan: &Plan, cpu: u32) -> Result<Self, WakeupError> {
        let path = control.dir().join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let raw = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let raw = raw.map_err(|e| RecordError::from(TracefsError::io("opening", path, e)))?;
        Ok(Self { raw, page: vec![0; plan.layout.page_size as usize], lost: 0 })
    }

    /// Gives to `sink` what has come since, in order.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub fn drain(&mut self, plan: &Plan, sink: &mut dyn FnMut(Sample)) -> std::io::Result<()> {
        loop {
            match self.raw.read(&mut self.page) {
                Ok(0) => return Ok(()),
                Ok(n) => self.lost += plan.samples(&self.page[..n], sink),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.1 on a 32-bit ARM prints them.
    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:12;\tsize:4084;\tsigned:1;\n";
    const FORMAT: &str = "name: timerlat\nID: 17\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:unsigned int seqnum;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:int context;\toffset:12;\tsize:4;\tsigned:1;\n\tfield:u64 timer_latency;\toffset:16;\tsize:8;\tsigned:0;\n\nprint fmt: \"seq:%u\\tcontext:%d\\ttimer_latency:%llu\\n\", REC->seqnum, REC->context, REC->timer_latency\n";

    #[test]
    fn samples_are_read_where_the_kernel_says_that_they_lie() {
        let plan = Plan::parse(HEADER, 4096, FORMAT).unwrap();
        assert_eq!((plan.layout.commit_at, plan.layout.data_at), (8, 12));
        let mut page = vec![0u8; 4096];
        page[..8].copy_from_slice(&1_000u64.to_ne_bytes());
        let mut at = 12;
        let mut record = |id: u16, context: u32, latency: u64| {
            let head = (6u32 | 40 << 5).to_ne_bytes();
            page[at..at + 4].copy_from_slice(&head);
            page[at + 4..at + 6].copy_from_slice(&id.to_ne_bytes());
            page[at + 12..at + 16].copy_from_slice(&7u32.to_ne_bytes());
            page[at + 16..at + 20].copy_from_slice(&context.to_ne_bytes());
            page[at + 20..at + 28].copy_from_slice(&latency.to_ne_bytes());
            at += 28;
        };
        record(17, 0, 932);
        record(5, 0, 1);
        record(17, 1, 11_700);
        page[8..12].copy_from_slice(&84u32.to_ne_bytes());
        let mut seen = Vec::new();
        assert_eq!(plan.samples(&page, &mut |s| seen.push(s)), 0);
        let sample =
            |context, latency_ns, time_ns| Sample { number: 7, context, latency_ns, time_ns };
        assert_eq!(seen, [sample(0, 932, 1_040), sample(1, 11_700, 1_120)]);
        assert!(Plan::parse(HEADER, 4096, "name: timerlat\nID: 17\nformat:\n").is_none());
    }
}
