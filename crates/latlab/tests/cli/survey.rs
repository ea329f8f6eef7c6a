//! `latlab survey` from outside.

use crate::common::{children_of, command, run_of, said, signal, text, wait_for};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

#[test]
fn a_step_is_measured_kept_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["survey", "--quick", "--step", "gaps", "--out", "r"];
    let out: Output = command(dir.path(), &args).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("OS noise: longest interruption"), "{}", text(&out.stdout));
    // What a step found is printed while the others run.
    let told = text(&out.stderr);
    let lines: Vec<&str> = told.lines().map(str::trim_start).collect();
    assert!(lines[0].starts_with("[1/1] "), "{told}");
    assert!(lines[1].starts_with("OS noise: longest interruption"), "{told}");
    let run = run_of(&dir.path().join("r"));
    assert!(run.complete && run.parts.len() == 1 && run.parts[0].complete);
    assert_eq!(run.config["level"], "quick");
}

#[test]
fn an_interrupted_survey_keeps_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(dir.path(), &["survey", "--full", "--step", "gaps", "--out", "r"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The step is announced, then runs whether or not a signal came in between.
    let mut announced = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut announced).unwrap();
    signal(&child, Signal::INT);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130), "{}", text(&out.stderr));
    let run = run_of(&dir.path().join("r"));
    assert!(!run.complete);
    assert_eq!(run.stopped_by.as_deref(), Some("SIGINT"));
    assert!(!run.parts[0].complete && !run.parts[0].results.is_empty());
}

#[test]
fn the_load_is_there_while_the_latency_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["survey", "--quick", "--step", "wakeup-cpu", "--out", "r"];
    let child = command(dir.path(), &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let mut announced = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut announced).unwrap();
    let workers = wait_for("a worker of the load", Duration::from_millis(1), || {
        Some(children_of(child.id())).filter(|pids| !pids.is_empty())
    });
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    for pid in workers {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "worker {pid} was left behind");
    }
}

#[test]
fn the_list_of_steps_measures_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = command(dir.path(), &["survey", "--quick", "--list"]).output().unwrap();
    assert!(out.status.success() && text(&out.stdout).contains("gaps"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_unknown_step_is_an_error_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let out = command(dir.path(), &["survey", "--step", "nonsense"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = text(&out.stderr);
    assert!(
        said.contains("no step of this name") && said.contains("hint: the steps are"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_load_worker_ends_when_its_input_ends() {
    let mut command = command(Path::new("."), &["load-worker", "memory:65536:64"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    assert!(child.try_wait().unwrap().is_none());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn files_planted_in_the_temporary_folder_are_neither_followed_nor_removed() {
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("tmp");
    fs::create_dir(&shared).unwrap();
    let victim = dir.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, shared.join("cpu-other.dat")).unwrap();
    fs::write(shared.join("cpu-rr-90-90.dat"), "mine too").unwrap();
    let output = command(dir.path(), &["survey", "--quick", "--step", "sched", "--step", "timer"])
        .env("TMPDIR", &shared)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
    assert_eq!(fs::read_to_string(shared.join("cpu-rr-90-90.dat")).unwrap(), "mine too");
    assert_eq!(fs::read_dir(shared).unwrap().count(), 2, "a recording stayed");
}
