//! Any bytes as a kernel or module with debug information: which lines define its functions.
#![no_main]

#[path = "../../crates/latlab/src/cmd/why/debug_info.rs"]
#[expect(dead_code, reason = "what asks for the module's name and kernel is not here")]
mod debug_info;

use debug_info::DebugInfo;
use latlab_fuzz::{MEMORY, outcome};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let name = || std::env::temp_dir().join(format!("latlab-fuzz-{}.ko", std::process::id()));
    PATH.get_or_init(name)
}

fuzz_target!(|data: &[u8]| {
    fs::write(path(), data).expect("temporary file");
    let Ok(info) = DebugInfo::open(path()) else { return };
    let names = BTreeSet::from(["hidden", "folded", "declared", "shown", "twice", "main"]);
    let _ = info.lines(&names, MEMORY);
});
