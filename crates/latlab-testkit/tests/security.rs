//! Every test that `docs/explanation/security.md` names exists and is one.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a source has a test function of that name.
fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let Some(at) = source.find(&head) else { return false };
    let before = source[..at].trim_end().rsplit("\n\n").next().unwrap_or_default();
    before.contains("#[test]")
}

/// What is wrong with the last cell of one row of the table.
fn wrong(cell: &str) -> Vec<String> {
    let (mut found, mut source) = (Vec::new(), None);
    let mut tests = 0;
    for word in quoted(cell) {
        if let Some(folder) = word.strip_suffix('/') {
            tests += 1;
            if !root().join(folder).is_dir() {
                found.push(format!("{word}: no such folder"));
            }
        } else if word.ends_with(".rs") {
            let path = root().join("crates").join(word);
            let text = fs::read_to_string(&path).unwrap_or_default();
            tests += 1;
            if !text.contains("#[test]") && !text.contains("mod tests;") {
                found.push(format!("{word}: no test in it"));
            }
            source = Some((word, text));
        } else if word.contains(['.', '/']) {
            tests += 1;
            let places = [root().join(word), root().join("scripts/test.d").join(word)];
            if !places.iter().any(|p| p.exists()) {
                found.push(format!("{word}: no such file"));
            }
        } else if let Some((file, text)) = source.as_ref().filter(|_| word.contains('_')) {
            if !has_test(text, word) {
                found.push(format!("{file}: no test {word}"));
            }
        } else {
            // A target of the fuzzer, a command, a lint.
            let target = root().join("fuzz/fuzz_targets").join(word).with_extension("rs");
            let known = ["make fuzz", "forbid(unsafe_code)"].contains(&word) || target.exists();
            tests += usize::from(known);
            if !known {
                found.push(format!("`{word}`: neither a file nor a test"));
            }
        }
    }
    if tests == 0 {
        found.push(format!("no test: {cell}"));
    }
    found
}

#[test]
fn the_tests_of_every_guarantee_exist() {
    let page = fs::read_to_string(root().join("docs/explanation/security.md")).unwrap();
    let table = page.split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|l| l.starts_with('|'))
        .skip(2)
        .map(|l| l.trim_matches('|').split(" | ").collect())
        .collect();
    assert!(rows.len() > 25, "{} rows", rows.len());
    let mut all = Vec::new();
    for row in rows {
        assert_eq!(row.len(), 3, "{row:?}");
        all.extend(wrong(row[2]));
    }
    assert!(all.is_empty(), "\n{}\n", all.join("\n"));
}

#[test]
fn a_test_that_is_missing_is_found() {
    assert_eq!(wrong("`latlab-target/src/search.rs`"), Vec::<String>::new());
    assert_eq!(wrong("`latlab-target/src/search.rs` (`no_such_test`)").len(), 1);
    assert_eq!(wrong("`latlab-target/src/nothing.rs`").len(), 1);
    assert_eq!(wrong("`scripts/nothing`").len(), 1);
    assert_eq!(wrong("tested").len(), 1);
}
