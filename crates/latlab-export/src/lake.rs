//! Tables of a lake as Parquet: one file for each table, day and import.
//!
//! Rows are sorted, so that the statistics of row groups let a reader skip what a question is not about,
//! and compressed with zstd, texts by dictionary. The metadata `latlab.lake` has the version of the tables.

use crate::ExportError;
use ::parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use latlab_model::lake::{Cell, Kind, Row, Table, VERSION, order};
use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

/// Rows of a row group: DuckDB's own size, which its threads divide work by.
const GROUP: usize = 122_880;

/// Name of the metadata that has the version of the tables.
const KEY: &str = "latlab.lake";

fn failed(table: &Table) -> impl Fn(::parquet::errors::ParquetError) -> ExportError {
    let name = table.name.to_owned();
    move |e| ExportError::Parquet { event: name.clone(), reason: e.to_string() }
}

/// Sorts rows and writes them as one file.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write + Send>(table: &Table, rows: &mut [Row], out: W) -> Result<(), ExportError> {
    rows.sort_by(|a, b| order(table, a, b));
    write_sorted(table, rows, out).map_err(failed(table))
}

fn write_sorted<W: Write + Send>(
    table: &Table,
    rows: &[Row],
    out: W,
) -> ::parquet::errors::Result<()> {
    let version = KeyValue { key: KEY.into(), value: Some(VERSION.to_string()) };
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_key_value_metadata(Some(vec![version]))
        .build();
    let mut writer =
        SerializedFileWriter::new(out, Arc::new(schema(table)?), Arc::new(properties))?;
    for rows in rows.chunks(GROUP) {
        let mut group = writer.next_row_group()?;
        for (i, (_, kind)) in table.columns.iter().enumerate() {
            let Some(mut column) = group.next_column()? else { continue };
            match kind {
                Kind::Text => {
                    let values: Vec<ByteArray> =
                        rows.iter().map(|r| ByteArray::from(r[i].text())).collect();
                    column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                }
                Kind::Int => {
                    let values: Vec<i64> = rows.iter().map(|r| r[i].int()).collect();
                    column.typed::<Int64Type>().write_batch(&values, None, None)?;
                }
                Kind::Flag => {
                    let values: Vec<bool> = rows.iter().map(|r| r[i].flag()).collect();
                    column.typed::<BoolType>().write_batch(&values, None, None)?;
                }
                Kind::Real => {
                    let known: Vec<i16> =
                        rows.iter().map(|r| i16::from(r[i].real().is_some())).collect();
                    let values: Vec<f64> = rows.iter().filter_map(|r| r[i].real()).collect();
                    column.typed::<DoubleType>().write_batch(&values, Some(&known), None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
    }
    writer.close().map(drop)
}

fn schema(table: &Table) -> ::parquet::errors::Result<Type> {
    let column = |(name, kind): &(&str, Kind)| {
        let (physical, converted, repetition) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::REQUIRED),
            Kind::Int => (Physical::INT64, ConvertedType::NONE, Repetition::REQUIRED),
            Kind::Flag => (Physical::BOOLEAN, ConvertedType::NONE, Repetition::REQUIRED),
            Kind::Real => (Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL),
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_converted_type(converted)
            .build()
            .map(Arc::new)
    };
    let fields = table.columns.iter().map(column).collect::<Result<_, _>>()?;
    Type::group_type_builder(table.name).with_fields(fields).build()
}

/// Number of rows of a file, from its footer.
///
/// # Errors
/// When it is no file of this table.
pub fn count<R: ChunkReader + 'static>(table: &Table, file: R) -> Result<u64, ExportError> {
    let reader = open(table, file)?;
    Ok(u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0))
}

fn open<R: ChunkReader + 'static>(
    table: &Table,
    file: R,
) -> Result<SerializedFileReader<R>, ExportError> {
    let reader = SerializedFileReader::new(file).map_err(failed(table))?;
    let meta = reader.metadata().file_metadata();
    let version = (meta.key_value_metadata().into_iter().flatten())
        .find(|kv| kv.key == KEY)
        .and_then(|kv| kv.value.as_ref()?.parse::<i64>().ok());
    let reason = match version {
        None => "not a file of a lake".to_owned(),
        Some(v) if v > VERSION => {
            format!("has version {v} of the tables; this latlab reads up to {VERSION}")
        }
        Some(_) => return Ok(reader),
    };
    Err(ExportError::Parquet { event: table.name.into(), reason })
}

/// The rows of a file, each with the columns that are asked for, in this order.
///
/// # Errors
/// When it is no file of this table, or lacks a column.
pub fn read<R: ChunkReader + 'static>(
    table: &Table,
    columns: &[&str],
    file: R,
) -> Result<Vec<Row>, ExportError> {
    let mut out = Vec::new();
    for_each(table, columns, file, &mut |row| out.push(row.clone()))?;
    Ok(out)
}

/// Calls `each` with every row of a file, as [`read`] has them. Memory is that of a row group; equal texts
/// are one allocation until the end.
///
/// # Errors
/// When it is no file of this table, or lacks a column.
pub fn for_each<R: ChunkReader + 'static>(
    table: &Table,
    columns: &[&str],
    file: R,
    each: &mut dyn FnMut(&Row),
) -> Result<(), ExportError> {
    let reader = open(table, file)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let place = |name: &&str| {
        let of_file = schema.columns().iter().position(|c| c.path().string() == *name)?;
        Some((of_file, schema.column(of_file).max_def_level() > 0))
    };
    let places: Option<Vec<(usize, bool)>> = columns.iter().map(place).collect();
    let lacks =
        || ExportError::Parquet { event: table.name.into(), reason: "lacks a column".into() };
    let places = places.ok_or_else(lacks)?;
    let mut texts = HashSet::<Arc<str>>::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(failed(table))?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut cells = Vec::with_capacity(places.len());
        for &(column, optional) in &places {
            let column = group.get_column_reader(column).map_err(failed(table))?;
            cells.push(
                column_cells(column, optional, rows, &mut texts)
                    .map_err(failed(table))?
                    .into_iter(),
            );
        }
        let mut row = Row::with_capacity(cells.len());
        for _ in 0..rows {
            row.clear();
            row.extend(cells.iter_mut().filter_map(Iterator::next));
            if row.len() < columns.len() {
                return Err(lacks());
            }
            each(&row);
        }
    }
    Ok(())
}

/// A column of a row group.
fn column_cells(
    column: ColumnReader,
    optional: bool,
    rows: usize,
    texts: &mut HashSet<Arc<str>>,
) -> ::parquet::errors::Result<Vec<Cell>> {
    Ok(match column {
        ColumnReader::ByteArrayColumnReader(column) => {
            let mut last: Option<(ByteArray, Arc<str>)> = None;
            values(column, optional, rows)?
                .into_iter()
                .map(|bytes| {
                    let bytes = bytes.unwrap_or_default();
                    // Rows are sorted: most texts are those of the row before.
                    if let Some((_, text)) = last.as_ref().filter(|(known, _)| same(known, &bytes))
                    {
                        return Ok(Cell::Text(text.clone()));
                    }
                    let text = if bytes.is_empty() { "" } else { bytes.as_utf8()? };
                    let shared = texts.get(text).cloned().unwrap_or_else(|| {
                        let new: Arc<str> = Arc::from(text);
                        texts.insert(new.clone());
                        new
                    });
                    last = Some((bytes, shared.clone()));
                    Ok(Cell::Text(shared))
                })
                .collect::<::parquet::errors::Result<_>>()?
        }
        ColumnReader::Int64ColumnReader(column) => {
            values(column, optional, rows)?.into_iter().map(|v| Cell::Int(v.unwrap_or(0))).collect()
        }
        ColumnReader::BoolColumnReader(column) => {
            let cell = |v: Option<bool>| Cell::Flag(v.unwrap_or(false));
            values(column, optional, rows)?.into_iter().map(cell).collect()
        }
        ColumnReader::DoubleColumnReader(column) => {
            values(column, optional, rows)?.into_iter().map(Cell::Real).collect()
        }
        _ => Vec::new(),
    })
}

fn same(a: &ByteArray, b: &ByteArray) -> bool {
    a.len() == b.len() && (a.is_empty() || a.data() == b.data())
}

/// Values of a column of a row group, `None` for those that are not known.
fn values<T: DataType>(
    mut column: ColumnReaderImpl<T>,
    optional: bool,
    rows: usize,
) -> ::parquet::errors::Result<Vec<Option<T::T>>> {
    let (mut known, mut levels) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let levels = optional.then_some(&mut levels);
        let (more, _, _) = column.read_records(rows - read, levels, None, &mut known)?;
        if more == 0 {
            break;
        }
        read += more;
    }
    if !optional {
        return Ok(known.into_iter().map(Some).collect());
    }
    let mut known = known.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { known.next() } else { None }).collect())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test is a shell: it writes files and reads them")]
mod tests {
    use super::*;
    use latlab_model::lake::{RESULT, RUN};

    fn row(name: &str, count: i64, p99: Option<f64>) -> Row {
        let text = |t: &str| Cell::Text(Arc::from(t));
        let mut row: Row = ["r", "2026-01-01T00:00:00Z", "b", "d", "6.6", "wakeup", name, "", "ns"]
            .map(text)
            .into();
        row.extend([Cell::Flag(false), Cell::Int(count)]);
        row.extend([Some(1.0), Some(2.0), p99, None, Some(9.0)].map(Cell::Real));
        row
    }

    #[test]
    fn rows_come_back_sorted_and_by_column() {
        let path = std::env::temp_dir().join(format!("latlab-lake-{}", std::process::id()));
        let mut rows = vec![row("z", 1, None), row("a", 2, Some(3.0))];
        write(&RESULT, &mut rows, std::fs::File::create(&path).unwrap()).unwrap();
        let open = || std::fs::File::open(&path).unwrap();
        assert_eq!(count(&RESULT, open()).unwrap(), 2);
        let all: Vec<&str> = RESULT.columns.iter().map(|(name, _)| *name).collect();
        assert_eq!(read(&RESULT, &all, open()).unwrap(), rows);
        let some = read(&RESULT, &["p99", "name"], open()).unwrap();
        let named = |v, name: &str| vec![Cell::Real(v), Cell::Text(Arc::from(name))];
        assert_eq!(some, [named(Some(3.0), "a"), named(None, "z")]);
        assert!(read(&RUN, &["digest"], open()).is_err(), "another table");
        std::fs::write(&path, b"PAR1 no footer PAR1").unwrap();
        assert!(count(&RESULT, open()).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
