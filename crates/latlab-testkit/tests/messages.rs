//! Every finding, note and remedy has a wording in latlab-report, and every wording is used.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that create findings and notes.
const SOURCES: [&str; 4] = ["latlab-model", "latlab-analysis", "latlab-sys", "latlab"];

fn crates() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(dir: &Path, out: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            // Test code may use identifiers of its own.
            let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
            if path.file_name().is_some_and(|n| n != "tests.rs") {
                out.push((path, text[..end].to_owned()));
            }
        }
    }
}

/// The string literal that follows each occurrence of `before`, spaces in between.
fn literals<'t>(text: &'t str, before: &str) -> Vec<&'t str> {
    text.match_indices(before)
        .filter_map(|(at, _)| {
            let rest = text[at + before.len()..].trim_start().strip_prefix('"')?;
            rest.split_once('"').map(|(id, _)| id)
        })
        .collect()
}

#[test]
fn findings_notes_and_wordings_match() {
    let known: BTreeSet<&str> = latlab_report::messages::ids().collect();
    let labelled: BTreeSet<&str> = latlab_report::messages::labelled().collect();
    let mut used = Vec::new();
    for name in SOURCES {
        sources(&crates().join(name).join("src"), &mut used);
    }
    let mut faults = Vec::new();
    for (path, text) in &used {
        for before in ["Finding::typed(", "Note::new("] {
            let is_known = |id: &&str| known.contains(id) || labelled.contains(id);
            for id in literals(text, before).into_iter().filter(|id| !is_known(id)) {
                faults.push(format!("{}: {id} has no wording", path.display()));
            }
        }
    }
    for id in &known {
        // Identifiers of an expectation are composed: area, expectation, and what is stated of it.
        let mut parts = id.split('.').skip(1);
        let quoted = [Some(*id), parts.next()].map(|part| format!("\"{}\"", part.unwrap_or(id)));
        if !used.iter().any(|(_, text)| quoted.iter().any(|q| text.contains(q))) {
            faults.push(format!("the wording of {id} is never used"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn literals_are_found_on_the_next_line_too() {
    let text = "Finding::typed(\n    \"a.b\", x).with(Note::new(\"c.d\"))";
    assert_eq!(literals(text, "Finding::typed("), ["a.b"]);
    assert_eq!(literals(text, "Note::new("), ["c.d"]);
}
