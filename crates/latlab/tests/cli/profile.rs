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

/// What runs now, by stacks, which every kernel with tracing has; the recording is not kept.
#[test]
fn what_runs_is_recorded_where_no_file_is_given() {
    let dir = tempfile::tempdir().unwrap();
    if crate::common::tracefs().is_none() {
        return;
    }
    let args =
        ["profile", "--with", "stacks", "--json", "--", "sh", "-c", "echo out; sleep 0.2; exit 3"];
    let out = latlab(dir.path(), &args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(text(&out.stderr), "out\n", "the command's output, and nothing of the file");
    let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let profile = &run["parts"][0]["detail"]["profile"];
    assert!(profile["origin"] == "stacks" && profile["source"] == "sh", "{}", profile["source"]);
    let functions = profile["functions"].as_array().unwrap();
    // Other tests enable events meanwhile, by functions of the same prefix.
    let is_recording = |f: &serde_json::Value| {
        let name = f["name"].as_str().unwrap();
        ["trace_event_raw_", "trace_event_buffer_"].iter().any(|p| name.starts_with(p))
    };
    assert!(functions.len() > 5 && !functions.iter().any(is_recording), "{functions:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let out = latlab(dir.path(), &["profile", "--with", "stacks", "--", "/no/such/program"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("/no/such/program"), "{}", text(&out.stderr));
    let out = latlab(dir.path(), &["profile", "-D", "100ms", "-g", "no_such_function_here"]);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(text(&out.stderr).matches("latlab: ").count(), 1, "{}", text(&out.stderr));
    let out = latlab(dir.path(), &["profile", "-D", "100ms"]);
    let refused = text(&out.stderr);
    assert_eq!(refused.contains("no tracer"), refused.contains("hint: --with stacks"), "{refused}");
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
