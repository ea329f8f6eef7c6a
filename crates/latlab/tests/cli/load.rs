//! `latlab load` from outside: it works, it is there while something is measured, it leaves nothing behind.

use crate::common::{SmallDisk, latlab, signal, spawn, text, wait_for};
use rustix::process::Signal;
use std::path::Path;
use std::time::Duration;

/// Processes that work in this directory, other than ourselves.
fn workers_in(dir: &Path) -> usize {
    let here = dir.canonicalize().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|p| std::fs::read_link(p.path().join("cwd")).is_ok_and(|cwd| cwd == here))
        .count()
}

/// Waits until something holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    wait_for(what, Duration::from_millis(10), || holds().then_some(()));
}

#[test]
fn every_kind_does_rounds_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let loads = [
        "cpu:20%",
        "io/5",
        "hdd:1M",
        "vm:1M:64",
        "vm:1M:4096:keep",
        "vm:64K:1:hang=10ms",
        "bandwidth:read:1M",
        "bandwidth:write:1M",
        "bandwidth:copy:1M",
        "bandwidth:stream:1M",
        "cache:64K",
        "tlb",
        "pagecache:1M",
        "fork/200",
        "net",
        "timers:4",
        "ipi@0",
    ];
    let out = latlab(dir.path(), &[&["load", "--json", "-t", "4s"], &loads[..]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(rows.len(), loads.len());
    for row in rows {
        // One sync(2) of a busy machine can take longer than all of this.
        let slow = row["load"].as_str().is_some_and(|l| l.starts_with("io"));
        assert!(slow || row["rounds"].as_u64().is_some_and(|n| n > 0), "{row}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no file stays");
    until("the end of its workers", || workers_in(dir.path()) == 0);
}

#[test]
fn the_options_of_stress_mean_what_they_mean_there() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "load",
        "-c",
        "1",
        "-i",
        "1",
        "-m",
        "2",
        "--vm-bytes",
        "1M",
        "--vm-stride",
        "1",
        "--vm-keep",
        "-d",
        "1",
        "--hdd-bytes",
        "1M",
        "-t",
        "1",
    ];
    let out = latlab(dir.path(), &args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert_eq!(said.lines().count(), 5, "{said}");
    assert!(said.contains("vm:1048576:1:keep: ") && said.contains("data verified"), "{said}");
}

#[test]
fn a_paced_load_keeps_its_pace() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["load", "--json", "-t", "2s", "fork/10"]);
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout).unwrap();
    assert!(rows[0]["rounds"].as_u64().unwrap() <= 40, "{rows:?}");
}

#[test]
fn a_killed_load_leaves_no_worker() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["load", "hdd:1M", "vm:1M:64", "tlb", "sleep 98765"];
    let mut child = spawn(dir.path(), &args);
    // latlab, three workers, the supervisor of the command, and the command.
    until("the load", || workers_in(dir.path()) >= 6);
    child.kill().unwrap();
    child.wait().unwrap();
    until("the end of its workers", || workers_in(dir.path()) == 0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Processes in this directory whose command line contains a text.
fn named(dir: &Path, text: &str) -> Vec<String> {
    let here = dir.canonicalize().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|p| std::fs::read_link(p.path().join("cwd")).is_ok_and(|cwd| cwd == here))
        .filter(|p| {
            std::fs::read(p.path().join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(text))
        })
        .map(|p| p.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_command_ends_when_its_keeper_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn(dir.path(), &["load", "sleep 98764; true"]);
    until("the command", || !named(dir.path(), "sleep 98764").is_empty());
    let sleep = wait_for("sleep", Duration::from_millis(10), || {
        named(dir.path(), "sleep 98764").into_iter().find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c == "sleep\n")
        })
    });
    let score = std::fs::read_to_string(format!("/proc/{sleep}/oom_score_adj")).unwrap();
    assert_eq!(score.trim(), "1000");
    let keeper = named(dir.path(), "load-worker -- sleep");
    assert_eq!(keeper.len(), 1, "{keeper:?}");
    // latlab itself can do nothing meanwhile.
    signal(&child, Signal::STOP);
    crate::common::succeed(std::process::Command::new("kill").arg("-KILL").arg(&keeper[0]));
    until("the end of the command", || workers_in(dir.path()) == 1);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_full_disk_is_said_and_nothing_stays() {
    let Some(disk) = SmallDisk::of("512k") else { return };
    let out = latlab(disk.path(), &["load", "-t", "20", "hdd:4M"]);
    let left = std::fs::read_dir(disk.path()).unwrap().count();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("the load hdd:4194304 ended: exit code 1"), "{said}");
    assert_eq!(left, 0);
}

#[test]
fn a_load_that_dies_spoils_the_measurement_aloud() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "wakeup",
        "-q",
        "-p0",
        "--policy",
        "other",
        "-D",
        "1s",
        "--load",
        "false --at-once",
        "--out",
        "r",
    ];
    let out = latlab(dir.path(), &args);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("the load false --at-once ended"), "{said}");
    let run = std::fs::read_to_string(dir.path().join("r/run.json")).unwrap();
    assert!(run.contains("wakeup.user"), "what was measured is kept");
}

#[test]
fn nonsense_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    for (args, sentence) in [
        (&["load"][..], "no load given"),
        (&["load", "disk"], "expected cpu"),
        (&["load", "cpu:200%"], "not a share of a CPU"),
        (
            &["load", "-m", "1", "--vm-bytes", "0"],
            "--vm-bytes: '0' is not a number of bytes above zero",
        ),
        (&["load", "-c", "1", "-t", "soon"], "--timeout: 'soon' is not a time"),
        (&["load", "cpu", "--dir", "/nowhere"], "cannot start the load cpu"),
        (&["load", "cpu@4096", "-t", "5"], "the load cpu@4096 ended"),
    ] {
        let out = latlab(dir.path(), args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(sentence) && !said.contains("panicked"), "{args:?}: {said}");
    }
}
