//! The workspace has the structure that `ARCHITECTURE.md` says.

use latlab_testkit::architecture::{Package, check};
use std::path::Path;

#[test]
fn crates_and_modules_are_as_architecture_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = Package::read_all(&root).unwrap_or_else(|error| panic!("{error}"));
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let departures = check(&architecture, &packages);
    assert!(departures.is_empty(), "\n{}\n", departures.join("\n"));
}
