//! Any bytes as a trace.dat: opened, its layout, read in order of time, printed, decoded, written as another one.
#![no_main]

use latlab_trace::events::Decoder;
use latlab_trace::print::{Dialect, LineStyle, ReportOptions, report};
use latlab_trace::write::Compression;
use latlab_trace::write::extract::{self, Version};
use latlab_trace::{Select, TraceFile};
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use std::ops::ControlFlow;

/// What one input may cost: libFuzzer ends an input that takes longer.
const EVENTS: u64 = 200_000;

fuzz_target!(|data: &[u8]| {
    let Ok(file) = TraceFile::parse(data) else { return };
    let _ = file.layout();
    let decoder = Decoder::new(&file);
    let mut count = 0;
    file.scan(&Select::default(), 2, |e| {
        std::hint::black_box((decoder.common(e), decoder.decode(e)));
        count += 1;
        if count < EVENTS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if count == EVENTS {
        return;
    }
    let styles = [
        LineStyle::default(),
        LineStyle { dialect: Dialect::Kernel, latency: true, ..LineStyle::default() },
        LineStyle { dialect: Dialect::Fields, nanoseconds: true, ..LineStyle::default() },
        LineStyle { json: true, ..LineStyle::default() },
    ];
    for style in styles {
        let options = ReportOptions { style, threads: 1, ..ReportOptions::default() };
        let _ = report(&file, &options, &mut std::io::sink());
    }
    let (all, version) = (Select::default(), Version::Seven(Compression::None));
    let mut copy = Cursor::new(Vec::new());
    if let Ok(written) = extract::write(&mut copy, &file, &all, &|_| true, version, 1) {
        let copy = copy.into_inner();
        let copy = TraceFile::parse(&copy).expect("what was written is a trace");
        let mut events = 0;
        copy.scan(&all, 1, |_| {
            events += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(events, written.events);
    }
    let select = Select { from: Some(1_000_000), to: Some(u64::MAX / 2), ..Select::default() };
    file.scan(&select, 1, |_| ControlFlow::Continue(()));
});
