//! Any bytes as a `run.json` of this or an earlier schema: read, shown in every format, written again.
#![no_main]

use latlab_analysis::compare::subject::Source;
use latlab_fuzz::{compare_with_itself, render};
use latlab_model::run::Run;
use latlab_report::dialect::{lat_mem_rd, lmbench};
use latlab_report::junit;
use libfuzzer_sys::fuzz_target;
use std::io;

fuzz_target!(|data: &[u8]| {
    let Ok(mut run) = serde_json::from_slice::<Run>(data) else { return };
    latlab_analysis::upgrade::upgrade(&mut run);
    render(&run);
    compare_with_itself(&Source { run: run.clone(), ..Source::default() });
    let out = &mut io::sink();
    // A run without what a format shows is an error, not more.
    let _ = lat_mem_rd::write(&run, out);
    for part in &run.parts {
        match &part.detail {
            Some(latlab_model::run::Detail::Bench(detail)) => {
                let _ = lmbench::write(detail, out);
                let _ = lmbench::csv(detail, out);
            }
            Some(latlab_model::run::Detail::Compare(detail)) => {
                junit::comparison(detail, &run.started, out).expect("JUnit");
            }
            _ => {}
        }
    }
    let written = serde_json::to_vec(&run).expect("a run that was read can be written");
    serde_json::from_slice::<Run>(&written).expect("and be read again");
});
