//! `latlab check` from outside.

use crate::common::{latlab, printed, said};
use std::path::Path;

/// A wake-up run of half a second as an ordinary task.
fn measured(dir: &Path) {
    let out = latlab(dir, &["wakeup", "-q", "-p", "0", "-i", "1000", "-D", "0.5", "--out", "run"]);
    assert!(out.status.success(), "{}", said(&out));
}

#[test]
fn each_decision_has_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    measured(dir.path());
    let check = |text: &str, more: &[&str]| {
        std::fs::write(dir.path().join("board.req"), text).unwrap();
        latlab(dir.path(), &[&["check", "board.req", "run"], more].concat())
    };
    let out = check("median < 10 s, max < 100 s, interval 1 ms\n", &[]);
    assert_eq!(out.status.code(), Some(0), "{}{}", printed(&out), said(&out));
    let out = check("median < 1 ns\n", &["--format", "tap"]);
    assert_eq!(out.status.code(), Some(2), "{}{}", printed(&out), said(&out));
    assert!(printed(&out).contains("not ok 1 - wakeup: median < 1 ns"), "{}", printed(&out));
    // Half a second has some 500 wake-ups: too few for p99.99, and less than an hour.
    let out = check("p99.99 < 10 s, max < 100 s, 1 h\n", &["--json", "--junit", "junit.xml"]);
    assert_eq!(out.status.code(), Some(1), "{}{}", printed(&out), said(&out));
    let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let items = run["parts"][0]["detail"]["items"].as_array().unwrap();
    assert!(items.iter().all(|i| i["decision"] == "undecided"), "{items:?}");
    // Nothing over the limit: at least the rule of three, 30,000 wake-ups of 1 ms.
    assert!(items[0]["needed_ns"].as_f64().unwrap() > 20e9, "{}", items[0]);
    assert!(
        std::fs::read_to_string(dir.path().join("junit.xml")).unwrap().contains("skipped=\"2\"")
    );
    // Nothing was measured under a load.
    let out = check("max < 100 s, under vm:16M\n", &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(printed(&out).contains("No run"), "{}", printed(&out));
}

#[test]
fn a_wrong_line_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("r"), "# ok\nmax < 5 parsec\n").unwrap();
    let out = latlab(dir.path(), &["check", "r"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("r: line 2: "), "{}", said(&out));
}

#[test]
fn without_runs_it_measures() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("r"), "noise: max < 100 s, 0.3 s\n").unwrap();
    let out = latlab(dir.path(), &["check", "r", "--out", "here"]);
    assert_eq!(out.status.code(), Some(0), "{}{}", printed(&out), said(&out));
    assert!(dir.path().join("here/1-noise/run.json").exists());
}
