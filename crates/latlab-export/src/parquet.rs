//! Parquet: one table an event, with a column for each of its fields.
//!
//! Partitioned as Hive does it (`event=sched_switch/data.parquet`), so that DuckDB, Spark, Polars
//! and pandas find the tables by themselves. Columns: `time_ns`, `cpu`, `pid`, `comm`, `lost`,
//! then the event's own. Numbers are 64-bit, signed or not as the kernel says; arrays are bytes.

use crate::row::{Rows, lost};
use crate::{Counts, ExportError};
use ::parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::Type;
use latlab_trace::format::{FieldKind, Value};
use latlab_trace::{Event, EventFormat, Field, TraceFile};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::sync::Arc;

/// Rows of one event that are kept before they are written as a row group.
const GROUP_ROWS: usize = 1 << 16;
/// Cells of all events together that are kept at most: they are 8 to 50 bytes each.
const CELLS_MAX: usize = 1 << 20;

/// One column's values.
enum Cells {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Bytes(Vec<ByteArray>),
}

struct Table<W: Write + Send> {
    name: String,
    writer: SerializedFileWriter<W>,
    columns: Vec<Cells>,
    rows: usize,
}

/// Writes every event; `open` is asked for the file of each table by its path relative to the
/// directory (`event=sched_switch/data.parquet`).
///
/// # Errors
/// When a file cannot be opened or written.
pub fn write<'w, W: Write + Send + 'w>(
    file: &TraceFile<'_>,
    mut open: impl FnMut(&str) -> std::io::Result<W>,
) -> Result<Counts, ExportError> {
    tables(file, &mut |name| Ok(Box::new(open(name)?)))
}

/// One copy of this serves every writer: a table writes whole groups of rows.
type Out<'w> = Box<dyn Write + Send + 'w>;
type Open<'o, 'w> = dyn FnMut(&str) -> std::io::Result<Out<'w>> + 'o;

fn tables<'w>(file: &TraceFile<'_>, open: &mut Open<'_, 'w>) -> Result<Counts, ExportError> {
    let rows = Rows::new(file);
    let mut counts = Counts::default();
    let mut tables: BTreeMap<u16, Table<Out<'w>>> = BTreeMap::new();
    let mut names = HashSet::new();
    let mut cells = 0;
    let mut events = file.events();
    while let Some(event) = events.next() {
        let row = rows.row(&event);
        let Some(format) = row.format else { continue };
        let table = match tables.entry(event.id) {
            std::collections::btree_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::btree_map::Entry::Vacant(e) => {
                e.insert(Table::new(format, &mut names, open)?)
            }
        };
        table.push(format, &event, row.pid, row.comm);
        cells += table.columns.len();
        counts.events += 1;
        counts.lost += lost(&event);
        if table.rows >= GROUP_ROWS {
            cells -= table.rows * table.columns.len();
            table.flush()?;
        } else if cells > CELLS_MAX {
            for table in tables.values_mut() {
                table.flush()?;
            }
            cells = 0;
        }
    }
    counts.damage = events.diagnostics();
    counts.parts = tables.len() as u64;
    for table in tables.into_values() {
        table.close()?;
    }
    Ok(counts)
}

impl<W: Write + Send> Table<W> {
    fn new(
        format: &EventFormat,
        names: &mut HashSet<String>,
        open: &mut dyn FnMut(&str) -> std::io::Result<W>,
    ) -> Result<Self, ExportError> {
        let mut name = partition(&format.name);
        if !names.insert(name.clone()) {
            name = partition(&format!("{}.{}", format.system, format.name));
            names.insert(name.clone());
        }
        let out = open(&format!("event={name}/data.parquet"))?;
        let failed = |e: ::parquet::errors::ParquetError| ExportError::Parquet {
            event: name.clone(),
            reason: e.to_string(),
        };
        let (schema, columns) = schema(format).map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).map_err(failed)?))
            .build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
            .map_err(failed)?;
        Ok(Self { name, writer, columns, rows: 0 })
    }

    fn push(&mut self, format: &EventFormat, event: &Event<'_>, pid: i32, comm: &[u8]) {
        let mut columns = self.columns.iter_mut();
        let mut put = |int: i64, bytes: Option<&[u8]>| match columns.next() {
            Some(Cells::Int32(c)) => c.push(int as i32),
            Some(Cells::Int64(c)) => c.push(int),
            Some(Cells::Bytes(c)) => c.push(ByteArray::from(bytes.unwrap_or_default().to_vec())),
            None => {}
        };
        put(event.time as i64, None);
        put(event.cpu.into(), None);
        put(pid.into(), None);
        put(0, Some(String::from_utf8_lossy(comm).as_bytes()));
        put(lost(event) as i64, None);
        for field in format.own_fields() {
            match field.value(event.payload) {
                Value::Signed(n) => put(n, None),
                Value::Unsigned(n) => put(n as i64, None),
                Value::Text(t) => put(0, Some(String::from_utf8_lossy(t).as_bytes())),
                Value::Bytes(b) => put(0, Some(b)),
            }
        }
        self.rows += 1;
    }

    /// Writes what is kept as a row group.
    fn flush(&mut self) -> Result<(), ExportError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let result = self.writer.next_row_group().and_then(|mut group| {
            for cells in &mut self.columns {
                column(&mut group, cells)?;
            }
            group.close().map(drop)
        });
        result.map_err(|e| ExportError::Parquet { event: self.name.clone(), reason: e.to_string() })
    }

    fn close(mut self) -> Result<(), ExportError> {
        self.flush()?;
        let name = self.name;
        self.writer
            .close()
            .map(drop)
            .map_err(|e| ExportError::Parquet { event: name, reason: e.to_string() })
    }
}

fn column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: &mut Cells,
) -> ::parquet::errors::Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    match cells {
        Cells::Int32(v) => {
            column.typed::<Int32Type>().write_batch(v, None, None)?;
            v.clear();
        }
        Cells::Int64(v) => {
            column.typed::<Int64Type>().write_batch(v, None, None)?;
            v.clear();
        }
        Cells::Bytes(v) => {
            column.typed::<ByteArrayType>().write_batch(v, None, None)?;
            v.clear();
        }
    }
    column.close()
}

/// The schema of an event's table, and its empty columns.
fn schema(format: &EventFormat) -> ::parquet::errors::Result<(Type, Vec<Cells>)> {
    let mut types = Vec::new();
    let mut columns = Vec::new();
    let mut taken: HashSet<String> = HashSet::new();
    let mut add = |name: &str, physical: Physical, converted: ConvertedType| {
        let mut name = name.to_owned();
        // An event's own field of the same name as a common column (`pid`, `comm`, `cpu`).
        while !taken.insert(name.clone()) {
            name = format!("event_{name}");
        }
        columns.push(match physical {
            Physical::INT32 => Cells::Int32(Vec::new()),
            Physical::INT64 => Cells::Int64(Vec::new()),
            _ => Cells::Bytes(Vec::new()),
        });
        let column = Type::primitive_type_builder(&name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_converted_type(converted)
            .build()?;
        types.push(Arc::new(column));
        Ok::<_, ::parquet::errors::ParquetError>(())
    };
    add("time_ns", Physical::INT64, ConvertedType::UINT_64)?;
    add("cpu", Physical::INT32, ConvertedType::NONE)?;
    add("pid", Physical::INT32, ConvertedType::NONE)?;
    add("comm", Physical::BYTE_ARRAY, ConvertedType::UTF8)?;
    add("lost", Physical::INT64, ConvertedType::UINT_64)?;
    for field in format.own_fields() {
        let (physical, converted) = kind(field);
        add(&field.name, physical, converted)?;
    }
    let schema = Type::group_type_builder("event").with_fields(types).build()?;
    Ok((schema, columns))
}

fn kind(field: &Field) -> (Physical, ConvertedType) {
    match field.kind {
        FieldKind::Number if field.signed => (Physical::INT64, ConvertedType::NONE),
        FieldKind::Number => (Physical::INT64, ConvertedType::UINT_64),
        _ if field.is_text() => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        _ => (Physical::BYTE_ARRAY, ConvertedType::NONE),
    }
}

/// A name as a directory: what a file system or Hive could misread is replaced.
pub(crate) fn partition(name: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = name.chars().map(|c| if safe(c) { c } else { '_' }).collect();
    if name.trim_matches('.').is_empty() { "unnamed".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::partition;

    #[test]
    fn a_hostile_name_stays_inside_the_directory() {
        assert_eq!(partition("../../etc/x"), ".._.._etc_x");
        assert_eq!(partition(".."), "unnamed");
        assert_eq!(partition("sched_switch"), "sched_switch");
    }
}
