//! Results of many runs as Parquet: one row a record, with what is known of its run.
//!
//! Partitioned as Hive does it (`board=…/date=…/results.parquet`), so that DuckDB, Spark and pandas
//! read only the boards and days that a question is about. Columns that may be unknown are optional.

use crate::ExportError;
use ::parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// One result. Names of columns are those of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// `started`, `host`, `board`, `kernel`, `arch`, `command`, `path`, `part`, `name`, `params`, `unit`.
    pub texts: [String; 11],
    /// Number of samples.
    pub count: i64,
    /// `min`, `median`, `p99`, `p999`, `max`; `None` where not known.
    pub figures: [Option<f64>; 5],
}

const TEXTS: [&str; 11] = [
    "started",
    "host",
    "board_name",
    "kernel",
    "arch",
    "command",
    "path",
    "part",
    "name",
    "params",
    "unit",
];
const FIGURES: [&str; 5] = ["min", "median", "p99", "p999", "max"];

/// Writes all rows; `open` is asked for the file of each partition by its path relative to the directory.
///
/// # Errors
/// When a file cannot be opened or written. Returns the number of files.
pub fn write<W: Write + Send>(
    rows: impl IntoIterator<Item = Row>,
    mut open: impl FnMut(&str) -> std::io::Result<W>,
) -> Result<u64, ExportError> {
    let mut parts: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows {
        let date = row.texts[0].get(..10).unwrap_or("unknown");
        let name = format!(
            "board={}/date={}/results.parquet",
            crate::parquet::partition(&row.texts[2]),
            crate::parquet::partition(date)
        );
        parts.entry(name).or_default().push(row);
    }
    let count = parts.len() as u64;
    for (name, rows) in parts {
        let out = open(&name)?;
        table(&rows, out)
            .map_err(|e| ExportError::Parquet { event: name, reason: e.to_string() })?;
    }
    Ok(count)
}

fn table<W: Write + Send>(rows: &[Row], out: W) -> ::parquet::errors::Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .build();
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema()?), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for i in 0..TEXTS.len() {
        let values: Vec<ByteArray> =
            rows.iter().map(|r| ByteArray::from(r.texts[i].as_str())).collect();
        if let Some(mut column) = group.next_column()? {
            column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            column.close()?;
        }
    }
    if let Some(mut column) = group.next_column()? {
        let counts: Vec<i64> = rows.iter().map(|r| r.count).collect();
        column.typed::<Int64Type>().write_batch(&counts, None, None)?;
        column.close()?;
    }
    for i in 0..FIGURES.len() {
        let known: Vec<i16> = rows.iter().map(|r| i16::from(r.figures[i].is_some())).collect();
        let values: Vec<f64> = rows.iter().filter_map(|r| r.figures[i]).collect();
        if let Some(mut column) = group.next_column()? {
            column.typed::<DoubleType>().write_batch(&values, Some(&known), None)?;
            column.close()?;
        }
    }
    group.close()?;
    writer.close().map(drop)
}

fn schema() -> ::parquet::errors::Result<Type> {
    let mut types = Vec::new();
    let mut add =
        |name: &str, physical: Physical, converted: ConvertedType, repetition: Repetition| {
            let column = Type::primitive_type_builder(name, physical)
                .with_repetition(repetition)
                .with_converted_type(converted)
                .build()?;
            types.push(Arc::new(column));
            Ok::<_, ::parquet::errors::ParquetError>(())
        };
    for name in TEXTS {
        add(name, Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::REQUIRED)?;
    }
    add("count", Physical::INT64, ConvertedType::NONE, Repetition::REQUIRED)?;
    for name in FIGURES {
        add(name, Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL)?;
    }
    Type::group_type_builder("result").with_fields(types).build()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test is a shell: it writes files and reads them")]
mod tests {
    use super::*;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn rows_come_back_from_their_partitions() {
        let dir = std::env::temp_dir().join(format!("latlab-results-{}", std::process::id()));
        let row = |board: &str, date: &str, p99| Row {
            texts: [
                format!("{date}T00:00:00Z"),
                "h".into(),
                board.into(),
                "6.6".into(),
                "arm".into(),
                "latlab wakeup".into(),
                "runs/x".into(),
                "wakeup".into(),
                "wakeup.user".into(),
                String::new(),
                "ns".into(),
            ],
            count: 7,
            figures: [Some(1.0), Some(2.0), p99, None, Some(9.0)],
        };
        let rows = vec![
            row("AM335x/../x", "2026-01-01", None),
            row("b", "2026-01-01", Some(3.0)),
            row("b", "2026-01-02", Some(4.0)),
            row("b", "2026-01-02", None),
        ];
        let files = write(rows, |name| {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap())?;
            std::fs::File::create(path)
        })
        .unwrap();
        assert_eq!(files, 3);
        let path = dir.join("board=b/date=2026-01-02/results.parquet");
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        let text: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|r| r.unwrap().to_string()).collect();
        assert_eq!(text.len(), 2);
        assert!(text[0].contains("p99: 4") && text[1].contains("p99: null"), "{text:?}");
        assert!(dir.join("board=AM335x_.._x").is_dir());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
