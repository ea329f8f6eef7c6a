//! Any bytes as the output of another tool: recognised, read, compared with itself and shown.
#![no_main]

use latlab_analysis::cache::import_lat_mem_rd::{infer, lat_mem_rd};
use latlab_analysis::compare::import;
use latlab_fuzz::{part_of, render};
use latlab_model::run::{Detail, Run};
use libfuzzer_sys::fuzz_target;

const NAME: &str = "result.txt";

fuzz_target!(|data: &[u8]| {
    match import::read(NAME, data) {
        Ok(source) => render(&source.run),
        // One sentence, also for a terminal that shows it as it is.
        Err(e) => assert!(!e.to_string().is_empty()),
    }
    let text = String::from_utf8_lossy(data);
    if let Ok(curves) = lat_mem_rd(&text, NAME) {
        let detail = Detail::Memory(Box::new(infer(curves, 4096)));
        render(&Run { parts: vec![part_of("memory", detail)], ..Run::default() });
    }
});
