//! A trace, or a part of it, written as another trace.dat, and read again.

use crate::{fixture, path};
use latlab_trace::write::Compression;
use latlab_trace::write::extract::{ExtractError, Version, write};
use latlab_trace::{Event, Missed, Select, TraceFile};
use std::io::Cursor;

/// Kind, CPU, time and data of each event, and what was lost before it.
type Row = (String, u32, u64, Vec<u8>, Missed);

fn rows(file: &TraceFile<'_>, select: &Select) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut events = file.select(select);
    while let Some(e) = events.next() {
        let name = file.formats.get(e.id).map_or(String::new(), |f| f.full_name());
        rows.push((name, e.cpu, e.time, e.payload.to_vec(), e.missed));
    }
    rows
}

/// Every trace.dat of the fixtures.
fn recordings() -> Vec<(String, Vec<u8>)> {
    let names = std::fs::read_dir(path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".dat"));
    let all: Vec<_> = names.map(|name| (name.clone(), fixture(&name))).collect();
    assert!(all.len() >= 22, "{}", all.len());
    all
}

/// Every fixture in both versions: the same events, texts of the kernel, and names.
#[test]
fn a_whole_trace_is_the_same_in_both_versions() {
    for (name, data) in recordings() {
        let file = TraceFile::parse(&data).unwrap();
        let expected = rows(&file, &Select::default());
        assert!(!expected.is_empty(), "{name}");
        let zstd = Version::Seven(Compression::Zstd);
        for version in [Version::Six, Version::Seven(Compression::None), zstd] {
            let mut out = Cursor::new(Vec::new());
            let all = Select::default();
            let written = write(&mut out, &file, &all, &|_| true, version, 1).unwrap();
            assert_eq!(written.events, expected.len() as u64, "{name} {version:?}");
            let copy = out.into_inner();
            let copy = TraceFile::parse(&copy).unwrap();
            assert!(copy.diagnostics.is_empty(), "{name} {version:?}: {:?}", copy.diagnostics);
            let found = rows(&copy, &all);
            assert_eq!(found.len(), expected.len(), "{name} {version:?}");
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!((&found.0, found.1, found.2), (&expected.0, expected.1, expected.2));
                assert_eq!(found.3, expected.3, "{name} {version:?}");
                let uncounted =
                    matches!((found.4, expected.4), (Missed::Unknown, Missed::Count(_)));
                assert!(found.4 == expected.4 || uncounted, "{name} {version:?} {found:?}");
            }
            assert_eq!(copy.symbols.text(), file.symbols.text(), "{name}");
            assert_eq!(
                copy.metadata().unwrap().printk_formats,
                file.metadata().unwrap().printk_formats
            );
            assert_eq!((copy.cpu_count, copy.clock()), (file.cpu_count, file.clock()), "{name}");
            assert_eq!(copy.options.uname, file.options.uname);
        }
    }
}

#[test]
fn a_part_has_the_chosen_events_and_keeps_losses() {
    let data = fixture("events7-x86_64.dat");
    let file = TraceFile::parse(&data).unwrap();
    let all = rows(&file, &Select::default());
    let (from, to) = (all[all.len() / 4].2, all[all.len() / 2].2);
    let select = Select { from: Some(from), to: Some(to), ..Select::default() };
    let switch = file.formats.iter().find(|f| &*f.name == "sched_switch");
    let id = switch.unwrap().id;
    let mut out = Cursor::new(Vec::new());
    let version = Version::Seven(Compression::Zlib);
    write(&mut out, &file, &select, &|e| e.id == id, version, 2).unwrap();
    let copy = out.into_inner();
    let copy = TraceFile::parse(&copy).unwrap();
    let mut expected = rows(&file, &select);
    expected.retain(|r| r.0.ends_with("sched_switch"));
    assert!(!expected.is_empty() && expected.len() < all.len() / 4);
    assert_eq!(rows(&copy, &Select::default()).len(), expected.len());
}

/// Without the events behind which a loss is recorded, the loss is recorded before the next event.
#[test]
fn losses_before_events_that_are_left_out_are_kept() {
    let data = fixture("lost7.dat");
    let file = TraceFile::parse(&data).unwrap();
    let all = Select::default();
    let sum = |rows: &[Row]| {
        let known = |r: &Row| if let Missed::Count(n) = r.4 { n } else { 0 };
        rows.iter().map(known).sum::<u64>()
    };
    let before = rows(&file, &all);
    assert!(sum(&before) > 0, "the fixture has losses");
    let mut out = Cursor::new(Vec::new());
    let keep = |e: &Event<'_>| e.missed == Missed::No;
    let written = write(&mut out, &file, &all, &keep, Version::Six, 1).unwrap();
    assert_eq!(written.lost, sum(&before));
    let copy = out.into_inner();
    let after = rows(&TraceFile::parse(&copy).unwrap(), &all);
    assert!(after.len() < before.len());
    assert!(after.iter().any(|r| r.4 != Missed::No));
}

#[test]
fn text_is_refused() {
    let text = fixture("cyclictest-mark-graph.txt");
    let file = latlab_trace::open(&text).unwrap();
    let mut out = Cursor::new(Vec::new());
    let all = Select::default();
    let error = write(&mut out, &file, &all, &|_| true, Version::Six, 1).unwrap_err();
    assert!(matches!(error, ExtractError::Text), "{error}");
    assert!(out.into_inner().is_empty());
}
