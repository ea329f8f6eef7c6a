//! `latlab profile` from outside.

use crate::common::{latlab, text};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/trace/");

fn fixture(name: &str) -> String {
    format!("{FIXTURES}{name}")
}

#[test]
fn functions_and_longest_calls_of_text_with_interrupt_marks() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["profile", &fixture("cyclictest-mark-graph.txt")]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stderr).is_empty(), "{}", text(&out.stderr));
    let stdout = text(&out.stdout);
    for expected in ["spin_for", "strike_many_calls", "Longest calls", "own time"] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
    let out = latlab(dir.path(), &["profile", "--json", &fixture("cyclictest-mark-graph.txt")]);
    let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let functions = run["parts"][0]["detail"]["profile"]["functions"].as_array().unwrap();
    let spin = functions.iter().find(|f| f["name"] == "spin_for").unwrap();
    assert_eq!(
        (&spin["count"], &spin["callers"][0]["name"]),
        (&37.into(), &"strike_many_calls".into())
    );
}

#[test]
fn two_traces_are_compared_and_different_kinds_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (graph, function) = (fixture("graph6-x86_64.dat"), fixture("function7-x86_64.dat"));
    let out = latlab(dir.path(), &["profile", &graph, &fixture("graph7-armv7.dat")]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let stdout = text(&out.stdout);
    assert!(stdout.contains("by calls") && stdout.contains("by length"), "{stdout}");
    let out = latlab(dir.path(), &["profile", &graph, &function]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("cannot be compared"), "{}", text(&out.stderr));
    let out = latlab(dir.path(), &["profile", &fixture("mark6.dat")]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("no functions and no kernel stacks"));
}
