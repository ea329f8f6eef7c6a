//! Recordings made by trace-cmd, read to exact counts.
#![expect(clippy::disallowed_methods, reason = "tests read fixtures")]

use latlab_trace::TraceFile;
use std::collections::BTreeMap;

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fixtures/trace/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Events by buffer and CPU; asserts that they are in order and that nothing is damaged.
fn counts(data: &[u8]) -> BTreeMap<(String, u32), u64> {
    let file = TraceFile::parse(data).unwrap();
    assert!(file.diagnostics.is_empty(), "{:?}", file.diagnostics);
    let mut counts = BTreeMap::new();
    let mut events = file.events();
    let mut last = 0;
    while let Some(e) = events.next() {
        assert!(e.time >= last);
        last = e.time;
        assert!(file.formats.get(e.id).is_some(), "event {}", e.id);
        *counts.entry((file.buffers[usize::from(e.buffer)].name.clone(), e.cpu)).or_default() += 1;
    }
    assert!(events.diagnostics().is_empty());
    counts
}

#[test]
fn every_event_of_every_version_and_compression() {
    const FILES: [(&str, u64); 8] = [
        ("f6.dat", 1983),
        ("f7-zstd.dat", 1177),
        ("f7-none.dat", 1407),
        ("inst6.dat", 692),
        ("inst7.dat", 350),
        ("futex6.dat", 1432),
        ("mark6.dat", 5),
        ("sub7.dat", 169),
    ];
    for (name, total) in FILES {
        let counts = counts(&fixture(name));
        assert_eq!(counts.values().sum::<u64>(), total, "{name}: {counts:?}");
    }
}

#[test]
fn typed_views_of_real_events() {
    use latlab_trace::events::{Decoder, Typed};
    let data = fixture("f6.dat");
    let file = TraceFile::parse(&data).unwrap();
    let decoder = Decoder::new(&file);
    let mut events = file.events();
    let (mut switches, mut vectors, mut calls, mut expiries) = (0, 0, 0, 0);
    while let Some(e) = events.next() {
        let common = decoder.common(&e);
        match decoder.decode(&e) {
            Typed::SchedSwitch(s) => {
                switches += 1;
                assert_eq!(common.pid, s.prev_pid);
            }
            Typed::VectorEntry(v) => {
                vectors += 1;
                assert_eq!((v.name, v.vector), ("local_timer", 236));
            }
            Typed::SysEnter(c) if c.name == "read" => calls += 1,
            Typed::HrtimerExpireEntry(h) => {
                expiries += 1;
                assert!(h.now > 0 && h.function > 0);
            }
            _ => {}
        }
    }
    assert_eq!((switches, vectors, calls, expiries), (189, 48, 37, 52));
}
