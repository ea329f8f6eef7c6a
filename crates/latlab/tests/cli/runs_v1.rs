//! Runs of schema version 1, one of each kind that was ever kept, are shown and compared for ever.
//!
//! What is looked for are figures that stand in the run itself, formatted with their unit, and never
//! sentences: wording changes, a median does not.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Kinds that are not there would be kinds that are not tested.
const KINDS: usize = 24;
/// Records of which the median is in no table: it is one point of a map, or told by a plot only.
const NO_MEDIAN: [(&str, &str); 6] = [
    ("memory-switch", "ctx.ring"),
    ("sched-file", "sched.delay"),
    ("survey", "sched.delay"),
    ("survey", "timer.hrtimer-late"),
    ("timer", "timer.hrtimer-late"),
    ("timer-file", "timer.hrtimer-late"),
];
/// Records of which the largest value is told, by the beginning of their names.
const MAX_IS_TOLD: [&str; 5] = ["gaps.", "sched.", "sweep.", "timer.", "wakeup."];
/// Entries of such a list that are looked at: reports tell the largest ones.
const ENTRIES: usize = 10;
/// Durations in ns of the details that are told besides records: run, list, member.
const DETAILS: [(&str, &str, &str); 8] = [
    ("compare", "/metrics/0/contrasts/0/aspects", "a"),
    ("compare", "/metrics/0/contrasts/0/aspects", "b"),
    ("memory-switch", "/switch_knees", "after_ns"),
    ("sched-experiment", "/schedule/tasks", "run_ns"),
    ("sched-file", "/schedule/tasks", "run_ns"),
    ("sched-matrix", "/schedule/tasks", "run_ns"),
    ("why-file", "/explanation/clusters", "size_ns"),
    ("why-hunt", "/explanation/clusters", "size_ns"),
];

/// A run of the fixtures, in a directory that has it as `run.json`.
struct Fixture {
    name: String,
    dir: PathBuf,
    run: Value,
    _unpacked: Option<tempfile::TempDir>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs-v1")
}

/// Reads one; the whole survey is packed.
fn fixture(name: &str) -> Fixture {
    let mut dir = fixtures().join(name);
    let packed = dir.join("run.json.zst");
    let mut unpacked = None;
    if packed.exists() {
        let to = tempfile::tempdir().unwrap();
        let bytes = zstd::decode_all(&fs::read(&packed).unwrap()[..]).unwrap();
        fs::write(to.path().join("run.json"), bytes).unwrap();
        dir = to.path().to_owned();
        unpacked = Some(to);
    }
    let run = serde_json::from_slice(&fs::read(dir.join("run.json")).unwrap()).unwrap();
    Fixture { name: name.to_owned(), dir, run, _unpacked: unpacked }
}

fn all() -> Vec<Fixture> {
    let entries = fs::read_dir(fixtures()).unwrap().map(|e| e.unwrap());
    let dirs = entries.filter(|e| e.file_type().unwrap().is_dir());
    let mut names: Vec<String> = dirs.map(|d| d.file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() >= KINDS, "{names:?}");
    names.iter().map(|n| fixture(n)).collect()
}

fn latlab(args: &[&str]) -> Output {
    latlab_at("200", args)
}

fn latlab_at(columns: &str, args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_latlab"))
        .args(args)
        .env("COLUMNS", columns)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    output
}

/// Text with single spaces: where a line ends is no figure.
fn flat(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A duration as reports print it: three digits and its unit.
fn duration(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        n if n < 1e3 => (ns, "ns"),
        n if n < 1e6 => (ns / 1e3, "µs"),
        n if n < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = match value.abs() {
        _ if unit == "ns" && value.fract() == 0.0 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Every number, by its bits.
fn numbers(value: &Value, found: &mut BTreeSet<u64>) {
    match value {
        Value::Object(map) => map.values().for_each(|v| numbers(v, found)),
        Value::Array(items) => items.iter().for_each(|v| numbers(v, found)),
        _ => found.extend(value.as_f64().map(f64::to_bits)),
    }
}

fn records(run: &Value) -> impl Iterator<Item = &Value> {
    list(&run["parts"]).iter().flat_map(|p| list(&p["results"]))
}

/// Medians and largest values of the records in ns.
fn of_records(fixture: &Fixture) -> Vec<String> {
    let mut figures = Vec::new();
    for record in records(&fixture.run).filter(|r| r["unit"] == "ns") {
        let name = record["name"].as_str().unwrap();
        let summary = &record["summary"];
        if !NO_MEDIAN.contains(&(&fixture.name, name)) {
            figures.extend(summary["median"].as_f64().map(duration));
        }
        if MAX_IS_TOLD.iter().any(|begin| name.starts_with(begin)) {
            figures.extend(summary["max"].as_f64().map(duration));
        }
    }
    figures
}

/// What findings rest on, where it is a figure, and durations of the details.
fn of_findings_and_details(fixture: &Fixture) -> Vec<String> {
    let parts = list(&fixture.run["parts"]);
    let findings = parts.iter().flat_map(|p| list(&p["findings"]));
    let mut figures: Vec<String> = findings
        .flat_map(|f| list(&f["evidence"]))
        .filter_map(|e| e["value"].as_str())
        .filter(|v| v.starts_with(|c: char| c.is_ascii_digit()) && !v.contains(';'))
        .map(str::to_owned)
        .collect();
    for (_, pointer, member) in DETAILS.iter().filter(|d| d.0 == fixture.name) {
        let entries = parts[0]["detail"].pointer(pointer).map_or(&[][..], list);
        assert!(!entries.is_empty(), "{}: {pointer}", fixture.name);
        let numbers = entries.iter().take(ENTRIES).map(|e| e[member].as_f64().unwrap());
        figures.extend(numbers.map(duration));
    }
    figures
}

/// Fails with all figures that a text has not.
fn has(text: &str, figures: &[String], what: &str) {
    let missing: Vec<_> = figures.iter().filter(|f| !text.contains(f.as_str())).collect();
    assert!(missing.is_empty(), "{what} lacks {missing:?}");
}

#[test]
fn every_run_of_version_1_is_shown_as_text_with_its_figures() {
    let mut looked_for = 0;
    for fixture in all() {
        assert_eq!(fixture.run["schema_version"], 1, "{}", fixture.name);
        let text = flat(&latlab(&["report", fixture.dir.to_str().unwrap(), "--details"]).stdout);
        let (records, others) = (of_records(&fixture), of_findings_and_details(&fixture));
        has(&text, &records, &fixture.name);
        has(&text, &others, &fixture.name);
        looked_for += records.len() + others.len();
        let file = fixture.dir.join("run.json");
        let of_file = latlab(&["report", file.to_str().unwrap(), "--details"]).stdout;
        assert_eq!(flat(&of_file), text, "{}: the file alone", fixture.name);
    }
    assert!(looked_for > 350, "{looked_for}");
}

#[test]
fn every_run_of_version_1_becomes_a_page_with_its_figures() {
    let to = tempfile::tempdir().unwrap();
    for fixture in all() {
        let page = to.path().join(format!("{}.html", fixture.name));
        latlab(&["report", fixture.dir.to_str().unwrap(), "--html", page.to_str().unwrap()]);
        let html = flat(&fs::read(page).unwrap());
        has(&html, &of_records(&fixture), &fixture.name);
        assert!(html.trim_end().ends_with("</html>"), "{}", fixture.name);
    }
}

#[test]
fn every_run_of_version_1_keeps_its_numbers_as_json() {
    for fixture in all() {
        let output = latlab(&["report", fixture.dir.to_str().unwrap(), "--json"]);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut there = BTreeSet::new();
        numbers(&json, &mut there);
        for record in records(&fixture.run) {
            let summary = &record["summary"];
            for key in ["count", "min", "median", "max"] {
                let Some(number) = summary[key].as_f64() else { continue };
                let known = there.contains(&number.to_bits());
                assert!(known, "{}: {} {key} {number}", fixture.name, record["name"]);
            }
        }
    }
}

#[test]
fn runs_of_version_1_are_compared() {
    let (a, b) = (fixture("wakeup"), fixture("wakeup-2"));
    let output = latlab(&["compare", a.dir.to_str().unwrap(), b.dir.to_str().unwrap()]);
    let text = flat(&output.stdout);
    // Of all CPUs together; a CPU alone has too few wake-ups to tell.
    let median = |run: &Fixture| {
        let first = records(&run.run).next().unwrap();
        duration(first["summary"]["median"].as_f64().unwrap())
    };
    has(&text, &[median(&a), median(&b)], "the comparison");
    let args = ["compare", "--json", a.dir.to_str().unwrap(), b.dir.to_str().unwrap()];
    let json: Value = serde_json::from_slice(&latlab(&args).stdout).unwrap();
    let mut there = BTreeSet::new();
    numbers(&json, &mut there);
    for record in records(&a.run).chain(records(&b.run)) {
        let max = record["summary"]["max"].as_f64().unwrap();
        assert!(there.contains(&max.to_bits()), "{} {max}", record["name"]);
    }
}

#[test]
fn runs_of_version_1_go_into_the_history_with_their_figures() {
    let to = tempfile::tempdir().unwrap();
    let store = to.path().join("history.sqlite");
    let store = store.to_str().unwrap();
    for fixture in all() {
        let dir = fixture.dir.to_str().unwrap();
        latlab(&["history", "--store", store, "add", dir]);
        let durations = records(&fixture.run).filter(|r| r["unit"] == "ns");
        let figures: Vec<String> = durations
            .flat_map(|r| ["min", "median", "max"].map(|k| r["summary"][k].as_f64()))
            .flatten()
            .map(duration)
            .collect();
        if !figures.is_empty() {
            let shown = latlab(&["history", "--store", store, "show", dir, "--json"]);
            has(&flat(&shown.stdout), &figures, &fixture.name);
        }
    }
}

/// The first screen of each kind of run, at both usual widths: at most 40 lines, none longer than
/// the terminal.
#[test]
fn the_first_screen_of_every_kind_of_run_fits_a_terminal() {
    for fixture in all() {
        let path = fixture.dir.to_str().unwrap();
        for columns in [80, 100] {
            let output = latlab_at(&columns.to_string(), &["report", path]);
            let text = String::from_utf8(output.stdout).unwrap();
            let lines = text.lines().count();
            assert!((3..=40).contains(&lines), "{} at {columns}: {lines}\n{text}", fixture.name);
            for line in text.lines() {
                assert!(line.chars().count() <= columns, "{} at {columns}: {line}", fixture.name);
            }
        }
    }
}
