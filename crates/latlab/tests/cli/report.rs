//! `latlab report RUN`, from a run directory to text, HTML, plots and errors.

use crate::common::latlab_here as latlab;
use std::fs;
use std::path::Path;

const RUN: &str = r#"{"schema_version":1,"command_line":["latlab","wakeup"],"complete":true,
"parts":[{"name":"soak","title":"Soak","complete":true,"results":[{"name":"soak.user","unit":"ns",
"histogram":{"count":4,"min":14000,"max":212992,"sum":0,"buckets":[[13999,3],[212992,1]]},
"summary":{"count":4,"min":14000,"median":14000,"max":212992,"quantiles":[]}}],
"findings":[{"id":"x","verdict":"note","confidence":"sure","claim":"<b>bold</b>\u001b[2J"}]}]}"#;

fn a_run(dir: &Path) -> String {
    fs::write(dir.join("run.json"), RUN).unwrap();
    dir.to_str().unwrap().to_owned()
}

#[test]
fn a_run_is_shown_as_text() {
    let t = tempfile::tempdir().unwrap();
    let out = latlab(&["report", &a_run(t.path()), "--details"]);
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("largest 213 µs of 4 samples"), "{text}");
    assert!(text.contains("<b>bold</b>␛[2J") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn html_and_plots_are_written_and_stdout_stays_empty() {
    let t = tempfile::tempdir().unwrap();
    let run = a_run(t.path());
    let path = |name: &str| t.path().join(name).to_str().unwrap().to_owned();
    let (page, svg) = (path("page.html"), path("plots/svg"));
    let out = latlab(&["report", &run, "--html", &page, "--svg", &svg]);
    assert!(out.status.success() && out.stdout.is_empty());
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("&lt;b&gt;bold") && !page.contains("<b>bold"));
    let drawing = fs::read_to_string(t.path().join("plots/svg/soak-user-histogram.svg")).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.trim_end().ends_with("</svg>"));
}

#[cfg(feature = "png")]
#[test]
fn plots_are_written_as_png() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path().join("png");
    let out = latlab(&["report", &a_run(t.path()), "--png", dir.to_str().unwrap()]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let bytes = fs::read(dir.join("soak-user-tail.png")).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"));
}

#[test]
fn json_is_the_run() {
    let t = tempfile::tempdir().unwrap();
    let out = latlab(&["report", &a_run(t.path()), "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(value["parts"][0]["results"][0]["name"], "soak.user");
}

#[test]
fn bad_paths_are_said_in_one_sentence() {
    let t = tempfile::tempdir().unwrap();
    let run = a_run(t.path());
    let said = |args: &[&str]| {
        let out = latlab(args);
        assert_eq!(out.status.code(), Some(1));
        String::from_utf8(out.stderr).unwrap()
    };
    let missing = said(&["report", "/nowhere/at/all"]);
    assert!(missing.contains("/nowhere/at/all") && missing.contains("hint: "), "{missing}");
    let html = said(&["report", &run, "--html", "/nowhere/page.html"]);
    assert!(html.contains("--html /nowhere/page.html: cannot be written"), "{html}");
    let file = t.path().join("run.json/plots");
    let svg = said(&["report", &run, "--svg", file.to_str().unwrap()]);
    assert!(svg.contains("the directory cannot be created") && svg.contains("hint: "), "{svg}");
}

/// Numbers that no machine has, a pipe that nobody writes to, a device, and a file beyond the limit of memory.
#[test]
fn hostile_runs_take_neither_memory_nor_time() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/runs-v1/memory/run.json");
    let mut run: serde_json::Value = serde_json::from_slice(&fs::read(fixture).unwrap()).unwrap();
    let caches = run["parts"][0]["detail"]["declared"][0]["caches"].as_array_mut().unwrap();
    caches[0]["level"] = u32::MAX.into();
    let path = dir.path().join("run.json");
    fs::write(&path, run.to_string()).unwrap();
    let path = path.to_str().unwrap();
    let limited = |args: &str| {
        let script =
            format!("ulimit -v 4000000; ulimit -t 20; exec {} {args}", crate::common::LATLAB);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]).current_dir(dir.path()).output().unwrap()
    };
    let output = limited(&format!("report {path}"));
    assert!(output.status.success(), "{output:?}");
    let pipe = dir.path().join("fifo");
    fs::create_dir(&pipe).unwrap();
    let made = std::process::Command::new("mkfifo").arg(pipe.join("run.json")).status().unwrap();
    assert!(made.success());
    let text = " ".repeat(70 << 20);
    fs::write(dir.path().join("large.json"), text + "{}").unwrap();
    for (args, said) in [
        ("report fifo", "fifo/run.json: "),
        ("compare fifo/run.json fifo/run.json", "fifo/run.json: "),
        ("compare /dev/zero /dev/zero", "/dev/zero: cannot be read: a device, not a file"),
        ("--max-memory 100M report large.json", "large.json: cannot be read: larger than 25 MiB"),
    ] {
        let output = limited(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args}: {output:?}");
        assert!(
            error.contains(said)
                && error.lines().filter(|l| l.starts_with("latlab: ")).count() == 1,
            "{args}: {error}"
        );
    }
}

/// What is made of a run fits into `--max-memory`: here a text of 3 MB with 250 000 records, which took 500 MB.
#[test]
fn a_small_file_of_many_records_is_refused_in_one_sentence() {
    let t = tempfile::tempdir().unwrap();
    let records = vec![r#"{"name":""}"#; 250_000].join(",");
    let run = format!(
        r#"{{"schema_version":2,"complete":true,"parts":[{{"name":"x","results":[{records}]}}]}}"#
    );
    let path = t.path().join("run.json");
    fs::write(&path, run).unwrap();
    let path = path.to_str().unwrap();
    let (lake, store) = (t.path().join("lake"), t.path().join("store"));
    for args in [
        &["report", path][..],
        &["compare", path, path],
        &["history", "add", "--store", store.to_str().unwrap(), path],
        &["fleet", "import", "--lake", lake.to_str().unwrap(), t.path().to_str().unwrap()],
    ] {
        let out = latlab(&[args, &["--max-memory", "512M"]].concat());
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("run.json: has 750012 objects, lists and values, which"), "{said}");
        assert!(said.contains("more than --max-memory allows (512 MiB)"), "{said}");
    }
    let out = latlab(&["report", path, "--max-memory", "4G"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
