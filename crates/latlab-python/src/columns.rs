//! Events of a trace as Arrow record batches: chosen and read in one pass, a stretch of time a thread.
//!
//! ```text
//! Query ─ Plan: kinds of events, columns, the field of each kind in each column
//!           └─ scan_pieces ─▶ Stretch: Cells, cut into chunks of CHUNK_ROWS
//!                               └─ dictionaries of all stretches made one ─▶ RecordBatch
//! ```
//!
//! Numbers have the width and sign that the kernel recorded. Text of a fixed size (`comm`) becomes a
//! dictionary, which all batches share; other text and arrays are plain columns. A column of several kinds
//! of events is null for those that lack the field.

use crate::cells::{Cells, Words};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Schema};
use latlab_trace::filter::events_named;
use latlab_trace::format::FieldKind;
use latlab_trace::names::IntMap;
use latlab_trace::{
    Diagnostics, Event, EventFormat, Field, Filter, FilterError, Missed, Select, TraceFile,
};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Rows of a record batch.
const CHUNK_ROWS: usize = 1 << 20;
/// Bytes of text after which a batch ends earlier: Arrow's offsets have 31 bits.
const CHUNK_TEXT: usize = 1 << 29;
/// Columns that every kind of event has, in the order in which they come without a choice.
pub const COMMON: [&str; 6] = ["time_ns", "cpu", "pid", "comm", "event", "lost"];

/// Which events, and what of them.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Names and patterns of events as in `latlab report --event`; empty: all.
    pub names: Vec<String>,
    /// Filters as in `latlab report --filter`; an event passes when one of them lets it.
    pub filters: Vec<String>,
    /// CPUs and times.
    pub select: Select,
    /// Only these threads.
    pub pids: Option<HashSet<i32>>,
    /// Names of the columns; `None`: the common ones, and with one kind of event its own fields.
    pub columns: Option<Vec<String>>,
    /// Stretches of time that are read at once.
    pub threads: usize,
}

/// Why there is no table.
#[derive(Debug)]
pub enum QueryError {
    /// A name or filter.
    Filter(FilterError),
    /// No chosen event has a field of that name.
    NoColumn(String),
    /// Chosen events have a field of that name with types that no column can hold.
    Types(String, String, String),
    /// Arrow refuses the table.
    Arrow(ArrowError),
}

impl std::fmt::Display for QueryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Filter(error) => write!(f, "{error}"),
            Self::NoColumn(name) => write!(f, "none of the chosen events has a field {name:?}"),
            Self::Types(name, one, other) => {
                write!(
                    f,
                    "the field {name:?} is {one} in one of the chosen events and {other} in another"
                )
            }
            Self::Arrow(error) => write!(f, "the table cannot be made: {error}"),
        }
    }
}

/// What a column holds.
#[derive(Clone, Debug)]
enum Source {
    Time,
    Cpu,
    Pid,
    Comm,
    Event,
    Lost,
    /// By number of the event: its field of that name.
    Field(Vec<Option<Field>>),
}

struct Column {
    name: String,
    source: Source,
    kind: DataType,
    nullable: bool,
}

/// What is read of each event.
struct Plan<'f> {
    filter: Filter,
    /// By number of the event, where names choose; empty: all.
    chosen: Vec<bool>,
    pids: Option<HashSet<i32>>,
    pid: Option<&'f Field>,
    columns: Vec<Column>,
    /// Place of each thread's name in the dictionary of names.
    comm_of: IntMap<i32, i32>,
    comms: Words,
    /// By number of the event: its place in the dictionary of events.
    event_of: Vec<i32>,
    events: Words,
}

/// One stretch's cells.
struct Stretch {
    open: Vec<Cells>,
    rows: usize,
    text: usize,
    done: Vec<(usize, Vec<Cells>)>,
    words: Vec<Words>,
}

/// Reads the chosen events. Damage of the read part comes with them.
///
/// # Errors
/// A name, filter or column that the trace does not have.
pub fn read(
    file: &TraceFile<'_>,
    query: &Query,
) -> Result<(Arc<Schema>, Vec<RecordBatch>, Diagnostics), QueryError> {
    let plan = Plan::new(file, query)?;
    let start = || Stretch::new(&plan);
    let (stretches, damage) =
        file.scan_pieces(&query.select, query.threads, start, |stretch, event| {
            if plan.passes(event, file) {
                stretch.push(&plan, event);
            }
            ControlFlow::Continue(())
        });
    let schema = plan.schema();
    let batches = plan.batches(&schema, stretches).map_err(QueryError::Arrow)?;
    Ok((schema, batches, damage))
}

impl<'f> Plan<'f> {
    fn new(file: &'f TraceFile<'_>, query: &Query) -> Result<Self, QueryError> {
        let filter = Filter::compile(file, &query.filters).map_err(QueryError::Filter)?;
        let mut ids: BTreeSet<u16> = match query.names.as_slice() {
            [] => file.formats.iter().map(|f| f.id).collect(),
            names => events_named(file, &names.join(",")).map_err(QueryError::Filter)?,
        };
        ids.retain(|id| filter.may_pass(*id));
        let highest = file.formats.iter().map(|f| usize::from(f.id) + 1).max().unwrap_or(0);
        let mut chosen = Vec::new();
        if !query.names.is_empty() {
            chosen = vec![false; highest];
            ids.iter().for_each(|id| chosen[usize::from(*id)] = true);
        }
        let formats: Vec<&EventFormat> =
            ids.iter().filter_map(|id| file.formats.get(*id)).collect();
        let (comm_of, comms) = comm_words(file);
        let (event_of, events) = event_words(file, highest);
        let columns = columns(&formats, query, highest)?;
        Ok(Self {
            filter,
            chosen,
            pids: query.pids.clone(),
            pid: file.common_pid(),
            columns,
            comm_of,
            comms,
            event_of,
            events,
        })
    }

    #[inline]
    fn pid(&self, event: &Event<'_>) -> i32 {
        self.pid.map_or(0, |f| f.i64(event.payload) as i32)
    }

    #[inline]
    fn passes(&self, event: &Event<'_>, file: &TraceFile<'_>) -> bool {
        (self.chosen.is_empty() || self.chosen.get(usize::from(event.id)) == Some(&true))
            && self.pids.as_ref().is_none_or(|pids| pids.contains(&self.pid(event)))
            && self.filter.passes(event, &file.comms)
    }

    fn schema(&self) -> Arc<Schema> {
        let field = |c: &Column| ArrowField::new(&c.name, c.kind.clone(), c.nullable);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// Batches of all stretches, with one dictionary for each column.
    fn batches(
        &self,
        schema: &Arc<Schema>,
        stretches: Vec<Stretch>,
    ) -> Result<Vec<RecordBatch>, ArrowError> {
        let mut all: Vec<Words> = (self.columns.iter())
            .map(|c| match c.source {
                Source::Comm => self.comms.clone(),
                Source::Event => self.events.clone(),
                _ => Words::default(),
            })
            .collect();
        let mut chunks = Vec::new();
        for mut stretch in stretches {
            stretch.cut();
            let moved: Vec<Vec<i32>> =
                all.iter_mut().zip(&stretch.words).map(|(all, words)| all.add_all(words)).collect();
            for (rows, mut cells) in stretch.done {
                cells.iter_mut().zip(&moved).for_each(|(cells, moved)| cells.renumber(moved));
                chunks.push((rows, cells));
            }
        }
        let dictionaries: Vec<_> = all.iter().map(Words::array).collect();
        let batch = |(rows, cells): (usize, Vec<Cells>)| {
            let arrays: Result<Vec<_>, _> =
                cells.into_iter().zip(&dictionaries).map(|(c, words)| c.array(words)).collect();
            let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(schema.clone(), arrays?, &options)
        };
        chunks.into_iter().map(batch).collect()
    }
}

impl Stretch {
    fn new(plan: &Plan<'_>) -> Self {
        let open = plan.columns.iter().map(|c| Cells::new(&c.kind, c.nullable)).collect();
        let words = plan.columns.iter().map(|_| Words::default()).collect();
        Self { open, rows: 0, text: 0, done: Vec::new(), words }
    }

    #[inline]
    fn push(&mut self, plan: &Plan<'_>, event: &Event<'_>) {
        for ((column, cells), words) in plan.columns.iter().zip(&mut self.open).zip(&mut self.words)
        {
            match &column.source {
                Source::Time => cells.put(event.time),
                Source::Cpu => cells.put(u64::from(event.cpu)),
                Source::Pid => cells.put(plan.pid(event) as u64),
                Source::Comm => {
                    let known = plan.comm_of.get(&plan.pid(event));
                    cells.put(known.copied().unwrap_or(0) as u64);
                }
                Source::Event => {
                    let known = plan.event_of.get(usize::from(event.id));
                    cells.put(known.copied().unwrap_or(0) as u64);
                }
                Source::Lost => cells.put(match event.missed {
                    Missed::Count(n) => n,
                    _ => 0,
                }),
                Source::Field(by_id) => match by_id.get(usize::from(event.id)) {
                    Some(Some(field)) => {
                        self.text += cells.put_field(field, event.payload, words);
                    }
                    _ => cells.put_null(),
                },
            }
        }
        self.rows += 1;
        if self.rows >= CHUNK_ROWS || self.text >= CHUNK_TEXT {
            self.cut();
        }
    }

    /// Ends the batch.
    fn cut(&mut self) {
        if self.rows > 0 {
            let cells = self.open.iter_mut().map(Cells::take).collect();
            self.done.push((self.rows, cells));
            (self.rows, self.text) = (0, 0);
        }
    }
}

/// Names of threads: each once, the unknown one first.
fn comm_words(file: &TraceFile<'_>) -> (IntMap<i32, i32>, Words) {
    let mut words = Words::default();
    words.place(file.comms.name(-1));
    let mut of = IntMap::default();
    of.insert(0, words.place(file.comms.name(0)));
    let mut all: Vec<(i32, &[u8])> = file.comms.iter().collect();
    all.sort_unstable();
    for (pid, name) in all {
        of.insert(pid, words.place(name));
    }
    (of, words)
}

/// Names of events, with their system where two have the same name.
fn event_words(file: &TraceFile<'_>, highest: usize) -> (Vec<i32>, Words) {
    let mut words = Words::default();
    words.place(b"unknown");
    let mut of = vec![0; highest];
    let (mut seen, mut twice) = (HashSet::new(), HashSet::new());
    for format in file.formats.iter() {
        if !seen.insert(&*format.name) {
            twice.insert(&*format.name);
        }
    }
    for format in file.formats.iter() {
        let name = match twice.contains(&*format.name) {
            true => format.full_name(),
            false => format.name.to_string(),
        };
        of[usize::from(format.id)] = words.place(name.as_bytes());
    }
    (of, words)
}

fn columns(
    formats: &[&EventFormat],
    query: &Query,
    highest: usize,
) -> Result<Vec<Column>, QueryError> {
    let mut columns = Vec::new();
    let Some(names) = &query.columns else {
        columns.extend(COMMON.iter().filter_map(|name| common(name)));
        if let [format] = formats {
            for field in format.own_fields() {
                let mut name = field.name.to_string();
                // An event's own field of the same name as a common column (`pid`, `comm`, `cpu`).
                while columns.iter().any(|c: &Column| c.name == name) {
                    name = format!("event_{name}");
                }
                let mut by_id = vec![None; highest];
                by_id[usize::from(format.id)] = Some(field.clone());
                let (kind, source) = (kind_of(field), Source::Field(by_id));
                columns.push(Column { name, source, kind, nullable: false });
            }
        }
        return Ok(columns);
    };
    for name in names {
        if let Some(column) = common(name) {
            columns.push(column);
            continue;
        }
        // `event_pid` is an event's own `pid`.
        let own = name.strip_prefix("event_").filter(|own| common(own).is_some()).unwrap_or(name);
        let mut by_id: Vec<Option<Field>> = vec![None; highest];
        let mut kind: Option<DataType> = None;
        let mut missing = false;
        for format in formats {
            let Some(field) = format.own_fields().iter().find(|f| *f.name == *own) else {
                missing = true;
                continue;
            };
            let this = kind_of(field);
            kind = Some(match kind {
                None => this,
                Some(before) => wider(&before, &this).ok_or_else(|| {
                    QueryError::Types(own.to_owned(), before.to_string(), this.to_string())
                })?,
            });
            by_id[usize::from(format.id)] = Some(field.clone());
        }
        let kind = kind.ok_or_else(|| QueryError::NoColumn(name.clone()))?;
        let source = Source::Field(by_id);
        columns.push(Column { name: name.clone(), source, kind, nullable: missing });
    }
    Ok(columns)
}

/// A column that every event has.
fn common(name: &str) -> Option<Column> {
    let words = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let (source, kind) = match name {
        "time_ns" => (Source::Time, DataType::UInt64),
        "cpu" => (Source::Cpu, DataType::Int32),
        "pid" => (Source::Pid, DataType::Int32),
        "comm" => (Source::Comm, words),
        "event" => (Source::Event, words),
        "lost" => (Source::Lost, DataType::UInt64),
        _ => return None,
    };
    Some(Column { name: name.to_owned(), source, kind, nullable: false })
}

fn kind_of(field: &Field) -> DataType {
    match (field.kind, field.size, field.signed) {
        (FieldKind::Number, 1, true) => DataType::Int8,
        (FieldKind::Number, 2, true) => DataType::Int16,
        (FieldKind::Number, 4, true) => DataType::Int32,
        (FieldKind::Number, _, true) => DataType::Int64,
        (FieldKind::Number, 1, false) => DataType::UInt8,
        (FieldKind::Number, 2, false) => DataType::UInt16,
        (FieldKind::Number, 4, false) => DataType::UInt32,
        (FieldKind::Number, _, false) => DataType::UInt64,
        (FieldKind::Text, ..) => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
        _ if field.is_text() => DataType::Utf8,
        _ => DataType::Binary,
    }
}

/// The type that holds the values of both, if there is one.
fn wider(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Dictionary, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Utf8};
    let signed = [Int8, Int16, Int32, Int64];
    let unsigned = [UInt8, UInt16, UInt32, UInt64];
    let place = |list: &[DataType; 4], of: &DataType| list.iter().position(|k| k == of);
    match (place(&signed, a), place(&signed, b), place(&unsigned, a), place(&unsigned, b)) {
        _ if a == b => Some(a.clone()),
        (Some(a), Some(b), ..) => Some(signed[a.max(b)].clone()),
        (.., Some(a), Some(b)) => Some(unsigned[a.max(b)].clone()),
        // A signed number of more bits holds every unsigned one.
        (Some(s), None, None, Some(u)) | (None, Some(s), Some(u), None) => {
            signed.get(s.max(u + 1)).cloned()
        }
        _ => match (a, b) {
            (Dictionary(..), Utf8) | (Utf8, Dictionary(..)) => Some(Utf8),
            _ => None,
        },
    }
}
