//! Any bytes as a trace.dat: opened, read in order of time, printed, decoded.
#![no_main]

use latlab_trace::events::Decoder;
use latlab_trace::print::{Dialect, LineStyle, ReportOptions, report};
use latlab_trace::{Select, TraceFile};
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;

/// What one input may cost: libFuzzer ends an input that takes longer.
const EVENTS: u64 = 200_000;

fuzz_target!(|data: &[u8]| {
    let Ok(file) = TraceFile::parse(data) else { return };
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
    let select = Select { from: Some(1_000_000), to: Some(u64::MAX / 2), ..Select::default() };
    file.scan(&select, 1, |_| ControlFlow::Continue(()));
});
