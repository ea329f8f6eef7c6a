//! Files of traces, read and printed: real ones, damaged ones, and those of other machines.
#![expect(clippy::disallowed_methods, reason = "tests read fixtures and run trace-cmd")]

mod damage;
mod endian;
mod extract;
mod recordings;
mod text_identity;

/// Where a recording of `fixtures/trace` is.
fn path(name: &str) -> String {
    format!("{}/../../fixtures/trace/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}
