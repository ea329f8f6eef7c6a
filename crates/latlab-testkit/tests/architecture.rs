//! The workspace has the structure that `ARCHITECTURE.md` says.

use latlab_testkit::architecture::{Package, check, raw_text};
use std::path::{Path, PathBuf};

#[test]
fn crates_and_modules_are_as_architecture_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = Package::read_all(&root).unwrap_or_else(|error| panic!("{error}"));
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let departures = check(&architecture, &packages);
    assert!(departures.is_empty(), "\n{}\n", departures.join("\n"));
}

/// Every Rust source in a folder and below it.
fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn text_from_elsewhere_reaches_stdout_cleaned() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../latlab/src");
    let mut files = Vec::new();
    sources(&source, &mut files);
    assert!(files.len() > 100);
    let found = files.iter().flat_map(|path| {
        let file = path.strip_prefix(&source).unwrap().to_string_lossy().into_owned();
        raw_text(&file, &std::fs::read_to_string(path).unwrap())
    });
    let found: Vec<_> = found.collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
