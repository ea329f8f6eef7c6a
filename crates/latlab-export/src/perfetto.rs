//! A Perfetto trace: what ui.perfetto.dev and trace_processor read.
//!
//! Events become `FtraceEventBundle`s, one a CPU and some thousand events: scheduling, wake-ups,
//! interrupts, timers and work queues with Perfetto's own messages, everything else as
//! `GenericFtraceEvent`, so that nothing is dropped. What Perfetto draws only from track events is
//! added as such: function_graph calls as slices of their task, markers as instants, interrupt
//! vectors as slices of their CPU.
//!
//! Time stamps are handed on as they are, as Perfetto's default clock (boot time): traces of the
//! clocks `boot`, and `mono` and `local` on a machine that never slept, line up with others.
//!
//! Source: `perfetto_trace.proto`, field numbers in the code's comments by name.

use crate::perfetto_events::{KNOWN, Known};
use crate::proto::Message;
use crate::row::{Row, Rows, lost};
use crate::{Buffered, Counts, ExportError, buffered};
use latlab_trace::format::Value;
use latlab_trace::{Event, Missed, TraceFile};
use std::collections::{HashMap, HashSet};
use std::io::Write;

/// A bundle is written when it is longer.
const BUNDLE_BYTES: usize = 64 << 10;
/// `trusted_packet_sequence_id` of all our packets.
const SEQUENCE: u64 = 1;
/// Track numbers: tasks from here on, CPUs' vectors from there on.
const TASK_TRACKS: u64 = 1 << 32;
const CPU_TRACKS: u64 = 1 << 33;
const MARKER_TRACK: u64 = 1;

/// `TrackEvent.type`.
#[derive(Clone, Copy)]
enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
}

/// Writes the whole trace.
///
/// # Errors
/// When `out` refuses.
pub fn write(file: &TraceFile<'_>, mut out: impl Write) -> Result<Counts, ExportError> {
    packets(file, buffered(&mut out))
}

fn packets(file: &TraceFile<'_>, out: Buffered<'_>) -> Result<Counts, ExportError> {
    let rows = Rows::new(file);
    let mut writer = Writer {
        out,
        counts: Counts::default(),
        bundles: HashMap::new(),
        plans: HashMap::new(),
        tracks: HashSet::new(),
        first: true,
        scratch: Message::new(),
    };
    let mut events = file.events();
    while let Some(event) = events.next() {
        let row = rows.row(&event);
        writer.event(file, &event, row)?;
    }
    writer.counts.damage = events.diagnostics();
    let mut cpus: Vec<u32> = writer.bundles.keys().copied().collect();
    cpus.sort_unstable();
    for cpu in cpus {
        writer.flush_bundle(cpu)?;
    }
    writer.out.flush()?;
    Ok(writer.counts)
}

/// How an event's fields are written: one entry a field of the format.
struct Plan {
    /// Field number in `FtraceEvent`; `None` for a generic event.
    number: Option<u32>,
    /// Number of each own field in the message, 0 for one that Perfetto does not have.
    fields: Vec<u32>,
    track: Track,
}

/// What is drawn besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Track {
    None,
    GraphEntry,
    GraphExit,
    Marker,
    VectorEntry,
    VectorExit,
}

struct Writer<'w> {
    out: Buffered<'w>,
    counts: Counts,
    /// The bundle of each CPU that is being filled.
    bundles: HashMap<u32, Message>,
    plans: HashMap<u16, Plan>,
    tracks: HashSet<u64>,
    first: bool,
    scratch: Message,
}

impl Writer<'_> {
    fn event(
        &mut self,
        file: &TraceFile<'_>,
        event: &Event<'_>,
        row: Row<'_>,
    ) -> Result<(), ExportError> {
        if !matches!(event.missed, Missed::No) {
            // Perfetto closes what was open on this CPU when a bundle says that events were lost.
            self.flush_bundle(event.cpu)?;
            self.bundles.entry(event.cpu).or_insert_with(|| bundle(event.cpu)).uint(3, 1);
        }
        let plan = self.plans.entry(event.id).or_insert_with(|| plan(file, event.id));
        let message = ftrace_event(event, row, plan, &mut self.scratch);
        let track = plan.track;
        let bundle = self.bundles.entry(event.cpu).or_insert_with(|| bundle(event.cpu));
        bundle.message(2, &message); // FtraceEventBundle.event
        let full = bundle.len() >= BUNDLE_BYTES;
        if full {
            self.flush_bundle(event.cpu)?;
        }
        self.counts.events += 1;
        self.counts.lost += lost(event);
        if track == Track::None { Ok(()) } else { self.track_event(file, event, row, track) }
    }

    fn flush_bundle(&mut self, cpu: u32) -> Result<(), ExportError> {
        let Some(bundle) = self.bundles.remove(&cpu) else { return Ok(()) };
        let mut packet = Message::new();
        packet.message(1, &bundle); // TracePacket.ftrace_events
        self.packet(packet)
    }

    fn packet(&mut self, mut packet: Message) -> Result<(), ExportError> {
        packet.uint(10, SEQUENCE); // trusted_packet_sequence_id
        if std::mem::take(&mut self.first) {
            packet.uint(13, 1); // sequence_flags: SEQ_INCREMENTAL_STATE_CLEARED
        }
        let mut trace = Message::new();
        trace.message(1, &packet); // Trace.packet
        self.out.write_all(trace.as_bytes())?;
        self.counts.parts += 1;
        Ok(())
    }

    fn track_event(
        &mut self,
        file: &TraceFile<'_>,
        event: &Event<'_>,
        row: Row<'_>,
        track: Track,
    ) -> Result<(), ExportError> {
        let Some(format) = row.format else { return Ok(()) };
        let field = |name: &str| format.field(name);
        let task = TASK_TRACKS + u64::from(row.pid.unsigned_abs());
        let cpu = CPU_TRACKS + u64::from(event.cpu);
        let mut time = event.time;
        let (uuid, kind, name) = match track {
            Track::None => return Ok(()),
            Track::GraphEntry => {
                let address = field("func").map_or(0, |f| f.u64(event.payload));
                let symbol = file.symbols.find(address).map(|s| s.name.to_vec());
                let name = symbol.unwrap_or_else(|| format!("{address:#x}").into_bytes());
                (task, Kind::Begin, name)
            }
            Track::GraphExit => {
                // The return itself, where the kernel recorded it, not the writing of the record.
                time = field("rettime").map_or(time, |f| f.u64(event.payload)).max(1).min(time);
                (task, Kind::End, Vec::new())
            }
            Track::Marker => {
                let text = field("buf").map_or(&b""[..], |f| f.text(event.payload));
                (MARKER_TRACK, Kind::Instant, text.trim_ascii_end().to_vec())
            }
            Track::VectorEntry => {
                let name = format.name.strip_suffix("_entry").unwrap_or(&format.name);
                (cpu, Kind::Begin, name.as_bytes().to_vec())
            }
            Track::VectorExit => (cpu, Kind::End, Vec::new()),
        };
        self.describe(uuid, event, row)?;
        let mut track_event = Message::new();
        track_event.uint(9, kind as u64).uint(11, uuid); // type, track_uuid
        if !name.is_empty() {
            track_event.string(23, &name); // name
        }
        let mut packet = Message::new();
        packet.uint(8, time).message(11, &track_event); // timestamp, track_event
        self.packet(packet)
    }

    /// Says once what a track is.
    fn describe(&mut self, uuid: u64, event: &Event<'_>, row: Row<'_>) -> Result<(), ExportError> {
        if !self.tracks.insert(uuid) {
            return Ok(());
        }
        let mut descriptor = Message::new();
        descriptor.uint(1, uuid); // TrackDescriptor.uuid
        match uuid {
            MARKER_TRACK => {
                descriptor.string(2, b"markers"); // name
            }
            cpu if cpu >= CPU_TRACKS => {
                descriptor.string(2, format!("CPU {} interrupt vectors", event.cpu).as_bytes());
            }
            _ => {
                let name = String::from_utf8_lossy(row.comm);
                descriptor.string(2, format!("{name}-{} functions", row.pid).as_bytes());
            }
        }
        let mut packet = Message::new();
        packet.message(60, &descriptor); // TracePacket.track_descriptor
        self.packet(packet)
    }
}

fn bundle(cpu: u32) -> Message {
    let mut message = Message::new();
    message.uint(1, cpu.into()); // FtraceEventBundle.cpu
    message
}

fn known(name: &str) -> Option<&'static Known> {
    KNOWN.binary_search_by(|k| k.name.cmp(name)).ok().and_then(|n| KNOWN.get(n))
}

fn plan(file: &TraceFile<'_>, id: u16) -> Plan {
    let Some(format) = file.formats.get(id) else {
        return Plan { number: None, fields: Vec::new(), track: Track::None };
    };
    let known = known(&format.name);
    let number_of = |name: &str| {
        let fields = known.map_or(&[][..], |k| k.fields);
        fields.iter().find(|f| f.0 == name).map_or(0, |f| f.1)
    };
    let track = match (&*format.system, &*format.name) {
        ("ftrace", "funcgraph_entry") => Track::GraphEntry,
        ("ftrace", "funcgraph_exit") => Track::GraphExit,
        ("ftrace", "print" | "bputs") => Track::Marker,
        ("irq_vectors", name) if name.ends_with("_entry") => Track::VectorEntry,
        ("irq_vectors", name) if name.ends_with("_exit") => Track::VectorExit,
        _ => Track::None,
    };
    Plan {
        number: known.map(|k| k.number),
        fields: format.own_fields().iter().map(|f| number_of(&f.name)).collect(),
        track,
    }
}

/// `FtraceEvent`: time stamp, task, and the event's own message.
fn ftrace_event(event: &Event<'_>, row: Row<'_>, plan: &Plan, scratch: &mut Message) -> Message {
    let mut message = Message::new();
    message.uint(1, event.time).uint(2, u64::from(row.pid as u32)); // timestamp, pid
    scratch.clear();
    let Some(format) = row.format else {
        scratch.string(1, format!("unknown_{}", event.id).as_bytes());
        message.message(327, scratch);
        return message;
    };
    match plan.number {
        Some(number) => {
            for (field, &to) in format.own_fields().iter().zip(&plan.fields) {
                if to != 0 {
                    put(scratch, field.value(event.payload), to, to, to);
                }
            }
            message.message(number, scratch);
        }
        None => {
            scratch.string(1, format.name.as_bytes()); // event_name
            for field in format.own_fields() {
                let mut generic = Message::new();
                generic.string(1, field.name.as_bytes()); // name
                // str_value, int_value, uint_value
                put(&mut generic, field.value(event.payload), 3, 4, 5);
                scratch.message(2, &generic);
            }
            message.message(327, scratch); // generic
        }
    }
    message
}

fn put(message: &mut Message, value: Value<'_>, text: u32, signed: u32, unsigned: u32) {
    match value {
        Value::Signed(n) => message.int(signed, n),
        Value::Unsigned(n) => message.uint(unsigned, n),
        Value::Text(t) => message.string(text, t),
        Value::Bytes(b) => {
            let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
            message.string(text, hex.as_bytes())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_it_can_be_searched() {
        assert!(KNOWN.windows(2).all(|w| w[0].name < w[1].name));
        assert_eq!(known("sched_switch").unwrap().number, 4);
        assert!(known("no_such_event").is_none());
    }
}
