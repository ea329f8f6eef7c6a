//! `latlab sweep` from outside.

mod common;

use common::{latlab, spawn, text};
use latlab_core::run::{Detail, Run};
use latlab_core::sweep::SweepDetail;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn sweep_of(dir: &Path) -> SweepDetail {
    let run: Run = serde_json::from_slice(&std::fs::read(dir.join("run.json")).unwrap()).unwrap();
    match run.parts.into_iter().next().and_then(|p| p.detail) {
        Some(Detail::Sweep(d)) => *d,
        other => panic!("a sweep, not {other:?}"),
    }
}

/// Twelve points of a fifth of a second.
const SMALL: &[&str] = &[
    "--vm-bytes",
    "64K..512K:x2",
    "--mode",
    "alloc,keep",
    "-D",
    "200ms",
    "--settle",
    "20ms",
    "--quantile",
    "0.9",
    "--refine",
    "2",
];

#[test]
fn a_small_sweep_is_measured_kept_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &[&["sweep", "--out", "r"], SMALL].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(said.contains("without load the p90 is") && said.contains("vm-bytes"), "{said}");
    let d = sweep_of(&dir.path().join("r"));
    let grid = d.points.iter().filter(|p| !p.is_anchor() && !p.refined).count();
    assert_eq!((grid, d.left), (8, 0));
    assert!(d.points.iter().filter(|p| p.is_anchor()).count() >= 2);
    assert!(d.points.iter().all(|p| p.is_good()), "{:?}", d.points.iter().find(|p| !p.is_good()));
    assert!(d.analysis.statement.is_some());
    assert!(latlab(dir.path(), &["report", "r", "--html", "h.html"]).status.success());
    let page = std::fs::read_to_string(dir.path().join("h.html")).unwrap();
    assert!(page.contains("sweep-heat"), "the heat map is on the page");
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn(dir.path(), &[&["sweep", "--out", "r"], SMALL].concat());
    let points = dir.path().join("r/points.jsonl");
    let lines = || std::fs::read_to_string(&points).unwrap_or_default().lines().count();
    let end = Instant::now() + Duration::from_secs(120);
    while lines() < 3 {
        assert!(Instant::now() < end, "three points");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let before = sweep_of(&dir.path().join("r"));
    assert!(before.left > 0 && before.points.len() >= 3, "{}", before.left);
    // Killed for good, and a line cut in two: the rest is still there.
    let mut whole = std::fs::read(&points).unwrap();
    let kept = whole.iter().filter(|b| **b == b'\n').count();
    whole.extend_from_slice(b"{\"job\":99,\"pla");
    std::fs::write(&points, whole).unwrap();
    let mut child = spawn(dir.path(), &["sweep", "--resume", "r"]);
    while lines() < kept + 1 {
        assert!(Instant::now() < end, "one more point");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let out = latlab(dir.path(), &["sweep", "--resume", "r"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let after = sweep_of(&dir.path().join("r"));
    assert_eq!(after.left, 0);
    for p in &before.points {
        assert!(after.points.contains(p), "a point was lost");
    }
    let mut jobs: Vec<usize> = after.points.iter().map(|p| p.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    assert_eq!(jobs.len(), after.points.len(), "no point was measured twice");
}

#[test]
fn a_budget_ends_a_sweep_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &[&["sweep", "--out", "r", "--budget", "700ms"], SMALL].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("--resume"), "{}", text(&out.stdout));
    assert!(sweep_of(&dir.path().join("r")).left > 0);
}

#[test]
fn a_load_that_dies_is_left_out_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "sweep",
        "--out",
        "r",
        "--load",
        "false --this",
        "--load",
        "cpu:10%",
        "-D",
        "200ms",
        "--quantile",
        "0.9",
    ];
    let out = latlab(dir.path(), &args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(said.contains("this point is left out"), "{said}");
    let d = sweep_of(&dir.path().join("r"));
    assert_eq!(d.points.iter().filter(|p| p.failed.is_some()).count(), 1);
}

#[test]
fn nonsense_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("bad")).unwrap();
    std::fs::write(dir.path().join("bad/sweep.json"), "{\"axes\": 3").unwrap();
    for (args, sentence) in [
        (
            &["--vm-bytes", "4M..1K"][..],
            "--vm-bytes: '4M..1K' is no axis: it ends before it begins",
        ),
        (&["--vm-bytes", "0"], "no number of bytes above zero"),
        (&["--vm-bytes", "1T"], "'1T'"),
        (&["--vm-bytes", "900G"], "more than half of them"),
        (&["--mode", "free"], "a vm worker has keep and hang"),
        (&["memory", "--axis", "a=1"], "has axes of its own"),
        (&["--axis", "size=1K"], "--axis without --load"),
        (&["--load", "cache:{size}", "--axis", "bytes=1K"], "no --load has {bytes}"),
        (&["--load", "cache:{size}", "--axis", "size"], "--axis size: no name"),
        (&["--load", "wild:{size}", "--axis", "size=1K,2K"], "the load wild:"),
        (&["--quantile", "1"], "--quantile 1"),
        (&["--cpus", "4000"], "may not run on CPU 4000"),
        (&["-a", "4000"], "may not run on CPU 4000"),
        (&["--resume", "nowhere"], "--resume nowhere: sweep.json cannot be read"),
        (&["--resume", "bad"], "--resume bad: sweep.json is damaged"),
    ] {
        let out = latlab(dir.path(), &[&["sweep"], args].concat());
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(sentence) && !said.contains("panicked"), "{args:?}: {said}");
    }
    assert!(!dir.path().join("runs").exists(), "nothing was begun");
}

#[test]
fn a_plan_can_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["sweep", "memory", "--quick", "--dry-run", "--cpus", "0"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(
        said.contains("no load")
            && said.contains("vm:65536:64:keep@0")
            && said.contains("more round knees"),
        "{said}"
    );
}
