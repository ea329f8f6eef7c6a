//! Any bytes as ftrace's text: read, and printed again.
#![no_main]

use latlab_trace::print::{ReportOptions, report};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(file) = latlab_trace::text::parse(data) else { return };
    let options = ReportOptions { threads: 1, ..ReportOptions::default() };
    let end = report(&file, &options, &mut std::io::sink());
    assert!(end.is_ok_and(|e| e.diagnostics.is_empty()), "what was built cannot be read");
});
