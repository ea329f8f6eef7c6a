//! Boards and laboratories that answer without end or not at all, and a disk of the host that fails, with programs of the
//! test's own in the places of `ssh` and `labgrid-client`.

use crate::common::{self, LATLAB, printed, said, shim, signal, wait_for};
use crate::ssh::{file, on_pretended, pretend_board};
use latlab_wire::frame::{Job, Message};
use rustix::process::Signal;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BOARD: [&str; 2] = ["--on", "ssh://root@evil"];

/// Puts a program in front of all others; its last argument is `$last`.
fn pretend(dir: &Path, program: &str, script: &str) {
    let script = format!("#!/bin/sh\nfor last; do :; done\n{script}\n");
    common::script(&dir.join("bin").join(program), &script);
}

#[test]
fn a_board_that_answers_without_end_is_an_error() {
    let dir = pretend_board(&[Message::Exit(0)]);
    for script in ["exec yes", "exec yes >&2"] {
        pretend(dir.path(), "ssh", script);
        let start = Instant::now();
        let out = on_pretended(dir.path(), &[&BOARD[..], &["doctor"]].concat()).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{script}: {}", said(&out));
        assert!(
            said(&out).starts_with("latlab: ssh://root@evil: the board could not be asked what it is: it sends more than 1024 KiB"),
            "{script}: {}",
            said(&out)
        );
        assert!(start.elapsed() < Duration::from_secs(20), "{script}");
    }
}

#[test]
fn complaints_beside_a_result_are_no_obstacle() {
    let dir = pretend_board(&[Message::Stdout(b"done\n".to_vec()), Message::Exit(0)]);
    let ssh = fs::read_to_string(dir.path().join("bin/ssh")).unwrap();
    // More than a pipe holds.
    let follow = "*'on-board follow'*) seq 1000000 >&2;";
    let ssh = ssh.replace("*'on-board follow'*)", follow);
    common::script(&dir.path().join("bin/ssh"), &ssh);
    let mut command = on_pretended(dir.path(), &[&BOARD[..], &["doctor"]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = Guard(child);
    wait_for("the end", Duration::from_millis(50), || child.0.try_wait().unwrap());
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

/// A child that is killed when a test fails.
struct Guard(std::process::Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts latlab, waits for a file that a pretended program makes, sends SIGTERM; what was said.
fn terminated(dir: &Path, args: &[&str]) -> String {
    let mut command = on_pretended(dir, args);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = Guard(child);
    let waits = || dir.join("waits").exists().then_some(());
    wait_for("the question", Duration::from_millis(20), waits);
    signal(&child.0, Signal::TERM);
    let start = Instant::now();
    let status = wait_for("the end", Duration::from_millis(20), || child.0.try_wait().unwrap());
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.0.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    said
}

#[test]
fn sigterm_ends_the_wait_for_a_board_that_hangs() {
    let dir = pretend_board(&[Message::Exit(0)]);
    pretend(dir.path(), "ssh", &format!("touch {}/waits; exec sleep 600", dir.path().display()));
    let said = terminated(dir.path(), &[&BOARD[..], &["doctor"]].concat());
    assert!(
        said.contains("the board could not be asked what it is: stopped by a signal"),
        "{said}"
    );
}

#[test]
fn a_laboratory_that_hangs_or_answers_without_end_is_an_error() {
    let dir = pretend_board(&[Message::Exit(0)]);
    let d = dir.path().display();
    let client = |env: &str| {
        let script = format!("case $last in env) {env};; release) touch {d}/released;; esac");
        pretend(dir.path(), "labgrid-client", &script);
    };
    client("exec yes");
    let args = ["--on", "labgrid:bone", "doctor"];
    let out = on_pretended(dir.path(), &args).output().unwrap();
    assert_eq!(out.status.code(), Some(75), "{}", said(&out));
    let sentence = "labgrid:bone: env: labgrid-client prints more than 1024 KiB";
    assert!(said(&out).contains(sentence), "{}", said(&out));
    fs::remove_file(dir.path().join("released")).unwrap();
    client(&format!("touch {d}/waits; exec sleep 600"));
    let said = terminated(dir.path(), &args);
    assert!(said.contains("stopped"), "{said}");
    assert!(dir.path().join("released").exists(), "the place is given back");
}

/// The board's copy goes when the host's is on its disk, and not before.
#[test]
fn a_run_stays_on_the_board_until_it_is_synced_here() {
    let run = br#"{"schema_version":2,"complete":true}"#;
    let frames = [&file("runs/r/run.json", run)[..], &[Message::Exit(0)]].concat();
    let tools = tempfile::tempdir().unwrap();
    let Some(shim) = shim(tools.path(), "failing_disk.c") else { return };
    let mut kept = 0;
    for at in 0.. {
        let dir = pretend_board(&frames);
        let host = dir.path().canonicalize().unwrap().join("host");
        let hit = dir.path().join("hit");
        let out = on_pretended(dir.path(), &[&BOARD[..], &["wakeup"]].concat())
            .env("LD_PRELOAD", &shim)
            .env("FAIL_UNDER", &host)
            .env("FAIL_HIT", &hit)
            .env("FAIL_AT", at.to_string())
            .env("FAIL_HOW", "EIO")
            .output()
            .unwrap();
        if !hit.exists() {
            assert_eq!(out.status.code(), Some(0), "{}", said(&out));
            break;
        }
        let is_forgotten = dir.path().join("forgotten").exists();
        if said(&out).contains("is kept on the board") {
            assert!(!is_forgotten && out.status.code() == Some(1), "{at}: {}", said(&out));
            kept += 1;
        } else {
            // The page, which is rendered here.
            assert!(fs::read(host.join("runs/r/run.json")).unwrap() == run, "{at}");
        }
    }
    // Two folders, a file and its content; then the file, the two folders and the one that they are in.
    assert_eq!(kept, 4 + 4);
}

#[test]
fn a_folder_of_another_run_is_refused_on_a_board() {
    let dir = tempfile::tempdir().unwrap();
    let start = |program: &str| {
        let argv = vec!["sh".to_owned(), "-c".into(), format!("echo {program}")];
        let job = serde_json::to_vec(&Job { argv, ..Job::default() }).unwrap();
        let mut command = Command::new(LATLAB);
        command.args(["on-board", "start"]).arg(dir.path().join("runs/1-2")).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&job).unwrap();
        child.wait_with_output().unwrap()
    };
    let first = start("one");
    assert!(first.status.success(), "{}", said(&first));
    let second = start("two");
    assert_eq!(second.status.code(), Some(1), "{}", said(&second));
    assert!(said(&second).contains("runs/1-2: another run has this name"), "{}", said(&second));
    let follow = || {
        let mut command = Command::new(LATLAB);
        command.args(["on-board", "follow"]).arg(dir.path().join("runs/1-2"));
        // An end of the input ends it.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let out = child.wait_with_output().unwrap();
        drop(stdin);
        printed(&out)
    };
    let told = follow();
    assert!(told.contains("one") && !told.contains("two"), "{told:?}");
}
