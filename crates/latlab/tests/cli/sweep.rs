//! `latlab sweep` from outside.

use crate::common::{LATLAB, latlab, run_of, signal, skip, spawn, text};
use latlab_model::run::Detail;
use latlab_model::sweep::SweepDetail;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn sweep_of(dir: &Path) -> SweepDetail {
    match run_of(dir).parts.into_iter().next().and_then(|p| p.detail) {
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
    signal(&child, rustix::process::Signal::INT);
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
    // A link in the directory of somebody else leads to a file of this user.
    let points = dir.path().join("r/points.jsonl");
    std::fs::remove_file(&points).unwrap();
    std::fs::write(dir.path().join("mine"), "as before").unwrap();
    std::os::unix::fs::symlink(dir.path().join("mine"), &points).unwrap();
    let out = latlab(dir.path(), &["sweep", "--resume", "r"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(!text(&out.stderr).contains("panicked"), "{}", text(&out.stderr));
    assert_eq!(std::fs::read_to_string(dir.path().join("mine")).unwrap(), "as before");
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
    assert!(said.contains("point excluded"), "{said}");
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
            "--vm-bytes: '4M..1K' is not an axis: it ends before it begins",
        ),
        (&["--vm-bytes", "0"], "not a number of bytes above zero"),
        (&["--vm-bytes", "1T"], "'1T'"),
        (&["--vm-bytes", "900G"], "more than half of the"),
        (&["--mode", "free"], "a vm worker has keep and hang"),
        (&["memory", "--axis", "a=1"], "a predefined plan has its own axes"),
        (&["--axis", "size=1K"], "--axis needs a --load with the axis in braces"),
        (&["--load", "cache:{size}", "--axis", "bytes=1K"], "no --load has {bytes}"),
        (&["--load", "cache:{size}", "--axis", "size"], "--axis size: no name"),
        (&["--load", "wild:{size}", "--axis", "size=1K,2K"], "the load wild:"),
        (&["--quantile", "1.5"], "--quantile 1.5: above 0, at most 1"),
        (&["--duration", "9223372036854775807s"], "s for each point: at most 1d"),
        (&["--settle", "9223372036854775807s", "--dry-run"], "s for each point: at most 1d"),
        (&["-i", "300,none"], "-i 300,none: whole µs from 10 to 10000000"),
        (&["-i", "5"], "-i 5: whole µs from 10"),
        (&["cache", "--load", "cpu:{x}"], "a predefined plan has its own axes"),
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
fn the_period_is_an_axis_and_a_base_load_runs_at_every_point() {
    let dir = tempfile::tempdir().unwrap();
    let args =
        ["sweep", "period", "-D", "200ms", "--load", "io", "--response", "max", "--out", "r"];
    let out = latlab(dir.path(), &[&args[..], &["--details"]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    for words in ["with io alone the maximum is", "interval: the period in µs", "only io", "missed"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let d = sweep_of(&dir.path().join("r"));
    let grid: Vec<_> = d.points.iter().filter(|p| !p.is_anchor()).collect();
    assert_eq!(grid.len(), 6, "three periods, idle and under load");
    for p in &d.points {
        assert_eq!(p.load[0], "io", "{p:?}");
        // As many wake-ups and missed periods as the point is long.
        let expected = d.plan.point_ns / d.plan.interval_of(&p.place);
        assert!(p.latency.count.abs_diff(expected) <= expected / 10 + 2, "{p:?}");
    }
    assert!(latlab(dir.path(), &["report", "r", "--html", "h.html"]).status.success());
    let page = std::fs::read_to_string(dir.path().join("h.html")).unwrap();
    assert!(page.contains("Latency by period — load none"), "histograms of the periods");
}

#[test]
fn the_plan_of_a_study_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let line = "sweep --vm 2 --vm-bytes 1M..4M:x2 --vm-stride 1,4096 --mode alloc,keep,hang=2s \
                --load 2*cpu --load io --response max --dry-run";
    let words: Vec<&str> = line.split_whitespace().collect();
    let out = latlab(dir.path(), &words);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(said.contains("2*cpu io 2*vm:1048576:4096:hang=2s"), "{said}");
    assert!(said.contains("0  2*cpu io\n"), "the base load alone: {said}");
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
            && said.contains("more points around knees"),
        "{said}"
    );
}

/// A control group with this limit of memory, removed with the guard. `None` where none can be made.
struct Limited(std::path::PathBuf);

impl Limited {
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("latlab-test-{}", std::process::id());
        [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
            .into_iter()
            .find_map(|(root, file)| {
                let dir = Path::new(root).join(&name);
                std::fs::create_dir(&dir).ok()?;
                let limited = Self(dir);
                std::fs::write(limited.0.join(file), bytes.to_string()).ok()?;
                Some(limited)
            })
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // A group is busy until the last of its processes is really gone.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_load_that_is_killed_for_want_of_memory_is_left_out_and_said() {
    let Some(group) = Limited::new(128 << 20) else {
        return skip("no right to make a control group with a limit of memory");
    };
    let dir = tempfile::tempdir().unwrap();
    let inside = |args: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\""]).arg(&group.0);
        shell.arg(LATLAB).args(args).current_dir(dir.path());
        shell.stdin(Stdio::null()).output().unwrap()
    };
    let out = inside(&["load", "vm:512M:4096", "-t", "60"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        said.contains("killed by SIGKILL, as the kernel does when memory is used up"),
        "{said}"
    );
    let plan = ["--vm-bytes", "1M,512M", "-D", "1s", "--settle", "500ms", "--quantile", "0.9"];
    let out = inside(&[&["sweep", "--out", "r", "--refine", "0"], &plan[..]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("point excluded"), "{}", text(&out.stdout));
    let d = sweep_of(&dir.path().join("r"));
    let failed: Vec<String> = (d.points.iter())
        .filter_map(|p| p.failed.as_ref().map(|n| serde_json::to_string(n).unwrap()))
        .collect();
    assert!(failed.len() == 1 && failed[0].contains("SIGKILL"), "{failed:?}");
    assert!(d.points.iter().any(|p| !p.is_anchor() && p.is_good()), "the others are kept");
}
