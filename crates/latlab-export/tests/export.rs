//! Real captures through every format, with the counts that the kernel gave when they were made
//! (`fixtures/trace/latlab.md`).

#![expect(clippy::disallowed_methods, reason = "tests read fixtures and write tables")]

use latlab_export::{parquet, perfetto, text};
use latlab_trace::TraceFile;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File, events of CPU 0 and 1, lost.
const FIXTURES: [(&str, u64, u64, u64); 4] = [
    ("latlab-v6.dat", 124, 105, 0),
    ("latlab-v7-none-lost.dat", 185, 3621, 6387),
    ("latlab-v7-zlib.dat", 145, 124, 0),
    ("latlab-v7-zstd.dat", 168, 119, 0),
];

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/trace").join(name);
    std::fs::read(path).unwrap()
}

#[test]
fn json_and_csv_hold_every_event() {
    for (name, cpu0, cpu1, lost) in FIXTURES {
        let bytes = fixture(name);
        let file = TraceFile::parse(&bytes).unwrap();
        let mut out = Vec::new();
        let counts = text::json(&file, &mut out).unwrap();
        assert_eq!((counts.events, counts.lost), (cpu0 + cpu1, lost), "{name}");
        let mut by_cpu = BTreeMap::new();
        for line in String::from_utf8(out).unwrap().lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            *by_cpu.entry(value["cpu"].as_u64().unwrap()).or_insert(0) += 1;
            if value["event"] == "sched:sched_switch" {
                assert!(
                    value["fields"]["next_comm"].is_string()
                        && value["fields"]["prev_state"].is_i64()
                );
            }
        }
        assert_eq!(by_cpu, BTreeMap::from([(0, cpu0), (1, cpu1)]), "{name}");
        let mut out = Vec::new();
        text::csv(&file, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count() as u64, cpu0 + cpu1 + 1);
    }
}

/// Walks one level of protobuf: field numbers and, for fields with a length, their bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        match key & 7 {
            0 => {
                varint(&mut bytes);
                found.push((key >> 3, &[][..]));
            }
            2 => {
                let n = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(n);
                bytes = rest;
                found.push((key >> 3, value));
            }
            other => panic!("wire type {other}"),
        }
    }
    found
}

#[test]
fn a_perfetto_trace_holds_every_event_and_says_what_was_lost() {
    for (name, cpu0, cpu1, lost) in FIXTURES {
        let bytes = fixture(name);
        let file = TraceFile::parse(&bytes).unwrap();
        let mut out = Vec::new();
        perfetto::write(&file, &mut out).unwrap();
        let (mut events, mut switches, mut lossy, mut slices) = (0, 0, 0, 0);
        for (_, packet) in fields(&out) {
            for (number, value) in fields(packet) {
                slices += u64::from(number == 11);
                if number != 1 {
                    continue;
                }
                for (number, value) in fields(value) {
                    lossy += u64::from(number == 3);
                    if number == 2 {
                        events += 1;
                        switches += u64::from(fields(value).iter().any(|f| f.0 == 4));
                    }
                }
            }
        }
        assert_eq!(events, cpu0 + cpu1, "{name}");
        assert!(switches > 10, "{name}: sched_switch has Perfetto's own message");
        assert_eq!(lossy > 0, lost > 0, "{name}");
        assert!(slices > 0, "{name}: timer interrupts are slices");
    }
}

fn tables(dir: &Path, name: &str) -> u64 {
    let bytes = fixture(name);
    let file = TraceFile::parse(&bytes).unwrap();
    let open = |table: &str| {
        let path = dir.join(table);
        std::fs::create_dir_all(path.parent().unwrap())?;
        File::create(path)
    };
    parquet::write(&file, open).unwrap().events
}

#[test]
fn parquet_tables_are_read_back_by_duckdb() {
    let python = std::env::var_os("LATLAB_PYTHON").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !has.is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "the Python package duckdb is not installed");
        // Past the capture of the test's output: `scripts/test` counts it.
        let text =
            b"skipped: the Python package duckdb is not installed (LATLAB_PYTHON names it)\n";
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text);
        return;
    }
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("parquet");
    let _ = std::fs::remove_dir_all(&dir);
    let events = tables(&dir, "latlab-v7-none-lost.dat");
    assert_eq!(events, 3806);
    let query = "import duckdb, sys; d = sys.argv[1]\n\
        q = \"select count(*), sum(lost), min(cpu), max(cpu) from read_parquet('%s/*/*.parquet', hive_partitioning=true, union_by_name=true)\" % d\n\
        print(*duckdb.sql(q).fetchall()[0])\n\
        q = \"select count(*), any_value(typeof(next_comm)), any_value(typeof(next_pid)) from read_parquet('%s/event=sched_switch/data.parquet')\" % d\n\
        print(*duckdb.sql(q).fetchall()[0])\n";
    let output = Command::new(&python).args(["-c", query]).arg(&dir).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "3806 6387 0 1\n2367 VARCHAR BIGINT\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn parquet_makes_one_table_an_event() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tables");
    let _ = std::fs::remove_dir_all(&dir);
    assert_eq!(tables(&dir, "latlab-v7-zstd.dat"), 287);
    let mut names: Vec<_> =
        std::fs::read_dir(&dir).unwrap().flatten().map(|e| e.file_name()).collect();
    names.sort();
    assert!(names.contains(&"event=sched_switch".into()), "{names:?}");
    let bytes = std::fs::read(dir.join("event=sched_switch/data.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}
