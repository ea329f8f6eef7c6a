//! Deflates the page's script and style: a board's program has 3 MiB, of which they would take 76 KB.

use flate2::{Compression, write::DeflateEncoder};
use std::io::Write;
use std::path::Path;

#[expect(clippy::disallowed_methods, reason = "a build script reads and writes")]
fn main() -> std::io::Result<()> {
    let out = std::env::var_os("OUT_DIR").ok_or(std::io::ErrorKind::NotFound)?;
    for name in ["report.js", "report.css"] {
        let asset = Path::new("assets").join(name);
        println!("cargo::rerun-if-changed={}", asset.display());
        let file =
            std::fs::File::create(Path::new(&out).join(name).with_added_extension("deflate"))?;
        let mut encoder = DeflateEncoder::new(file, Compression::best());
        encoder.write_all(&std::fs::read(&asset)?)?;
        encoder.finish()?;
    }
    Ok(())
}
