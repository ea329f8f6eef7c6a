//! The ends of spans: which events begin and end them, and which of those belong together.

use crate::fnv::{digits, of_texts};
use latlab_model::units::{CpuId, Tid, TraceNs};
use latlab_trace::{EventFormat, Field, Filter, FilterError, Missed, TraceFile};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

/// What is equal in the two events of a span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// The thread in whose context the event was recorded.
    #[default]
    Tid,
    /// The CPU.
    Cpu,
    /// Nothing: each last event ends the span that is open.
    None,
    /// A field of the first event, and one of the last.
    Fields(String, String),
}

impl Key {
    /// `tid`, `cpu`, `none`, `FIELD` of both, or `FIELD,FIELD`.
    pub fn parse(text: &str) -> Self {
        match text {
            "tid" => Self::Tid,
            "cpu" => Self::Cpu,
            "none" => Self::None,
            fields => {
                let (from, to) = fields.split_once(',').unwrap_or((fields, fields));
                Self::Fields(from.trim().to_owned(), to.trim().to_owned())
            }
        }
    }
}

/// The name of the probe of an end where the spans of several ends are recorded: `end` with a checksum of the text that
/// names its place.
pub fn probe_name(end: &str, text: &str) -> String {
    [end, "_", &digits(of_texts([text]), 8)].concat()
}

/// Where spans begin and end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The first event, as a filter of [`latlab_trace::filter`].
    pub from: String,
    /// The last one.
    pub to: String,
    /// What is equal in both.
    pub key: Key,
    /// What the user calls them.
    pub names: (String, String),
}

/// What cannot be done with the ends of spans.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// An end names no event, or is no filter.
    #[error("{option} {name}: {source}")]
    End {
        /// `--from`, `--to`.
        option: &'static str,
        /// What was asked for.
        name: String,
        /// What is wrong.
        source: FilterError,
    },
    /// The event has no such field, or it is no number.
    #[error(
        "--key: the event of {option} {name} has no field {field:?} that is a number; it has {known}"
    )]
    NoField {
        /// `--from`, `--to`.
        option: &'static str,
        /// The event.
        name: String,
        /// What was asked for.
        field: String,
        /// The fields that it has.
        known: String,
    },
}

/// How the key of an event is read.
enum Reader {
    Tid,
    Cpu,
    None,
    /// By number of the event's format.
    Field(BTreeMap<u16, Field>),
}

/// One end of a span in a file.
struct End {
    filter: Filter,
    key: Reader,
}

impl End {
    fn new(
        file: &TraceFile<'_>,
        (option, name): (&'static str, &str),
        text: &str,
        key: &Key,
        field: Option<&str>,
    ) -> Result<Self, SpanError> {
        let error = |source| SpanError::End { option, name: name.to_owned(), source };
        let filter = Filter::compile(file, &[text]).map_err(error)?;
        let key = match (key, field) {
            (Key::Tid, _) => Reader::Tid,
            (Key::Cpu, _) => Reader::Cpu,
            (Key::Fields(..), Some(field)) => {
                let formats = file.formats.iter().filter(|f| filter.may_pass(f.id));
                Reader::Field(fields(formats, field).map_err(|known| SpanError::NoField {
                    option,
                    name: name.to_owned(),
                    field: field.to_owned(),
                    known,
                })?)
            }
            _ => Reader::None,
        };
        Ok(Self { filter, key })
    }

    fn key(&self, event: &latlab_trace::Event<'_>, tid: i32) -> Option<u64> {
        match &self.key {
            Reader::Tid => Some(tid as u64),
            Reader::Cpu => Some(u64::from(event.cpu)),
            Reader::None => Some(0),
            // An id of 32 bits with sign is the same number in both events, whatever their types.
            Reader::Field(fields) => fields.get(&event.id).map(|f| f.i64(event.payload) as u64),
        }
    }
}

/// The field of each format; on failure the fields that the first one has.
fn fields<'f>(
    formats: impl Iterator<Item = &'f EventFormat>,
    name: &str,
) -> Result<BTreeMap<u16, Field>, String> {
    let mut known = String::from("none");
    let mut found = BTreeMap::new();
    for format in formats {
        match format.field(name).filter(|f| !f.is_text() && matches!(f.size, 1 | 2 | 4 | 8)) {
            Some(field) => {
                found.insert(format.id, field.clone());
            }
            None => {
                let names: Vec<&str> = format.own_fields().iter().map(|f| &*f.name).collect();
                known = names.join(", ");
            }
        }
    }
    if found.is_empty() { Err(known) } else { Ok(found) }
}

/// An event that begins a span, or ends one, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndEvent {
    /// When.
    pub time: TraceNs,
    /// On which CPU.
    pub cpu: CpuId,
    /// Who recorded it.
    pub tid: Tid,
    /// The key of the span that it begins.
    pub begins: Option<u64>,
    /// The key of the span that it ends.
    pub ends: Option<u64>,
    /// Events before it are lost: whether one of them was an end is not known.
    pub after_loss: bool,
}

/// The events of both ends in a file, in order of time, and those behind a loss.
///
/// # Errors
/// When an end names no event or field of it.
pub fn events(
    file: &TraceFile<'_>,
    ends: &Ends,
    mut visit: impl FnMut(EndEvent) -> ControlFlow<()>,
) -> Result<(), SpanError> {
    let (first, last) = match &ends.key {
        Key::Fields(from, to) => (Some(from.as_str()), Some(to.as_str())),
        _ => (None, None),
    };
    let from = End::new(file, ("--from", &ends.names.0), &ends.from, &ends.key, first)?;
    let to = End::new(file, ("--to", &ends.names.1), &ends.to, &ends.key, last)?;
    let comms = &file.comms;
    let pid_of = file.common_pid();
    file.scan(&latlab_trace::Select::default(), 1, |event| {
        let after_loss = event.missed != Missed::No;
        let (begins, ends) = (from.filter.passes(event, comms), to.filter.passes(event, comms));
        if !begins && !ends && !after_loss {
            return ControlFlow::Continue(());
        }
        let pid = pid_of.map_or(0, |f| f.i64(event.payload) as i32);
        visit(EndEvent {
            time: TraceNs(event.time),
            cpu: CpuId(event.cpu),
            tid: Tid(pid),
            begins: begins.then(|| from.key(event, pid)).flatten(),
            ends: ends.then(|| to.key(event, pid)).flatten(),
            after_loss,
        })
    });
    Ok(())
}

/// One span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub from: TraceNs,
    /// When it ended.
    pub to: TraceNs,
    /// The task of the last event.
    pub tid: Tid,
    /// The task of the first event.
    pub begun_by: Tid,
    /// The CPU of the first event.
    pub cpu: CpuId,
}

/// The spans of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// In order of their ends.
    pub spans: Vec<Span>,
    /// When those began that have not ended until the last time that counts, in order.
    pub open: Vec<TraceNs>,
    /// First events, last events.
    pub events: (u64, u64),
    /// First events whose key had an open span already: it begins anew.
    pub again: u64,
    /// Last events without a first one.
    pub unmatched: u64,
}

/// What began a span.
#[derive(Clone, Copy, Debug)]
struct Begin {
    time: TraceNs,
    cpu: CpuId,
    tid: Tid,
}

/// Pairs the events of both ends, in order of time.
#[derive(Clone, Debug)]
pub struct Pairing {
    open: HashMap<u64, Begin>,
    most: usize,
}

impl Pairing {
    /// No span yet; of more than `most` open ones the older half is forgotten.
    pub fn new(most: usize) -> Self {
        Self { open: HashMap::new(), most }
    }

    /// Takes the next event: the span that it ends. Events and spans that count are counted in `found`.
    pub fn take(&mut self, event: &EndEvent, counts: bool, found: &mut Found) -> Option<Span> {
        if event.after_loss {
            self.open.clear();
        }
        let &EndEvent { time, cpu, tid, .. } = event;
        let mut span = None;
        if let Some(key) = event.ends {
            found.events.1 += u64::from(counts);
            match self.open.remove(&key) {
                Some(begin) if begin.time < time && counts => {
                    let Begin { time: from, cpu, tid: begun_by } = begin;
                    span = Some(Span { from, to: time, tid, begun_by, cpu });
                }
                Some(_) => {}
                None => found.unmatched += u64::from(counts),
            }
        }
        if let Some(key) = event.begins {
            found.events.0 += u64::from(counts);
            if self.open.len() >= self.most && !self.open.contains_key(&key) {
                self.forget_half();
            }
            let again = self.open.insert(key, Begin { time, cpu, tid }).is_some();
            found.again += u64::from(again && counts);
        }
        span
    }

    /// Nothing is known of the time before now.
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// When the open spans began, in order, and who began them.
    pub fn begins(&self) -> Vec<(TraceNs, Tid)> {
        let mut all: Vec<_> = self.open.values().map(|begin| (begin.time, begin.tid)).collect();
        all.sort_unstable();
        all
    }

    fn forget_half(&mut self) {
        let begins = self.begins();
        if let Some(&(middle, _)) = begins.get(begins.len() / 2) {
            self.open.retain(|_, begin| begin.time > middle);
        }
    }
}
