//! Any bytes as the output of another tool or of a plugin of QEMU: recognised, read, compared with itself and shown.
#![no_main]

use latlab_analysis::cache::import_lat_mem_rd::{infer, lat_mem_rd};
use latlab_analysis::compare::import;
use latlab_analysis::path::{self, bound, format, section_events, sections};
use latlab_fuzz::{compare_with_itself, part_of, render};
use latlab_model::run::{Detail, Run};
use libfuzzer_sys::fuzz_target;

const KALLSYMS: &[u8] =
    b"c0000000 t lock\nc0000100 T __schedule\nc0000300 T schedule\nc0000400 t end\n";
const NAME: &str = "result.txt";

fuzz_target!(|data: &[u8]| {
    match import::read(NAME, data) {
        Ok(source) => {
            render(&source.run);
            compare_with_itself(&source);
        }
        // One sentence, also for a terminal that shows it as it is.
        Err(e) => assert!(!e.to_string().is_empty()),
    }
    let text = String::from_utf8_lossy(data);
    if let Ok(curves) = lat_mem_rd(&text, NAME) {
        let detail = Detail::Memory(Box::new(infer(curves, 4096)));
        render(&Run { parts: vec![part_of("memory", detail)], ..Run::default() });
    }
    if let Ok(file) = bound::read(&text) {
        let measured = bound::Measured { insn_ns: 1, kallsyms: KALLSYMS, ..Default::default() };
        let tasks = [(9, 700), (90, 7_000)];
        let tasks = tasks.map(|(execution_ns, period_ns)| bound::Task { execution_ns, period_ns });
        let part = bound::part(bound::detail(&file, &measured, &tasks));
        render(&Run { parts: vec![part], ..Run::default() });
    }
    let _ = section_events::read_list(&text);
    if let Ok(file) = sections::read(&text) {
        let part = sections::part(NAME, "", &file, KALLSYMS, None);
        render(&Run { parts: vec![part], ..Run::default() });
    }
    if let Ok(file) = format::read(&text) {
        let measured = path::Measured {
            name: NAME,
            release: "",
            insn_ns: 1,
            file: &file,
            kallsyms: KALLSYMS,
            counted: 3,
        };
        if let Some(paths) = path::machine(&measured) {
            let part = path::part(vec![(paths, &file)]);
            render(&Run { parts: vec![part], ..Run::default() });
        }
    }
});
