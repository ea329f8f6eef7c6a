//! Signals from outside, as shells, timeout(1), nohup(1) and terminals send them.

use crate::common::{
    LATLAB, command, fixture, latlab, nobody_reads, printed, run_of, said, signal, wait_for,
};
use rustix::fs::{FileType, Mode};
use rustix::process::Signal;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Ends by a signal alone.
const LONG: [&str; 9] =
    ["wakeup", "--policy", "other", "-D", "600", "--out", "r", "--samples", "s"];

/// Waits until there are samples: before that, a signal leaves nothing.
fn measures(dir: &Path) {
    wait_for("samples", Duration::from_millis(10), || dir.join("s").exists().then_some(()));
}

/// What was measured is there: a part in `run.json`, and the report.
fn is_saved(dir: &Path) {
    let run = run_of(&dir.join("r"));
    assert_eq!(run.parts.len(), 1);
    assert!(dir.join("r/report.html").exists());
}

#[test]
fn timeout_always_leaves_a_saved_run() {
    // It sends SIGTERM to the child, and at once to the group of which the child is a member.
    for round in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let mut timeout = Command::new("timeout");
        timeout.args(["600", LATLAB]).args(LONG).current_dir(dir.path());
        let timeout = timeout.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        measures(dir.path());
        // What its timer sends.
        signal(&timeout, Signal::ALARM);
        let output = timeout.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(124), "round {round}: {}", said(&output));
        is_saved(dir.path());
    }
}

#[test]
fn repeated_signals_of_a_terminal_that_closes_do_not_kill() {
    for kind in [Signal::HUP, Signal::TERM] {
        let dir = tempfile::tempdir().unwrap();
        // Whoever runs the tests below nohup has SIGHUP ignored.
        let mut child = Command::new("env");
        child.args(["--default-signal=HUP,TERM", LATLAB]).args(LONG).current_dir(dir.path());
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        measures(dir.path());
        for _ in 0..5 {
            signal(&child, kind);
        }
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(128 + kind.as_raw()));
        is_saved(dir.path());
    }
}

/// A signal before there is anything to keep: the exit code is the signal's, and no run is left.
#[test]
fn a_signal_before_the_first_result_is_no_error() {
    for words in [
        &["sched", "--policy", "rr", "-D", "20"][..],
        &["why", "--policy", "other", "-D", "20"],
        &["wakeup", "--policy", "other", "-D", "20"],
        &["noise", "-D", "20"],
        &["memory", "-D", "20"],
        &["timer", "-D", "20"],
        &["bench", "syscall.getppid", "-D", "20"],
        &["bench", "syscall.getppid", "--each", "100000000"],
        &["sweep", "cache", "-D", "5s"],
        &["survey", "--quick"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = command(dir.path(), &[words, &["--out", "r"]].concat());
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let run = dir.path().join("r/run.json");
        wait_for("its run", Duration::from_millis(1), || run.exists().then_some(()));
        signal(&child, Signal::TERM);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(143), "{words:?}: {}", said(&output));
        if run.exists() {
            let run = run_of(&dir.path().join("r"));
            assert!(!run.parts.is_empty(), "{words:?}");
            assert!(words[0] != "bench" || run.records().next().is_some(), "{words:?}");
        }
    }
}

/// Whether the process ignores the signal (`/proc/PID/status`, `SigIgn`).
fn ignores(pid: u32, number: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (number - 1)) != 0
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new("nohup")
        .arg(LATLAB)
        .args(["wakeup", "--policy", "other", "-D", "2", "--out", "r"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // run.json is there once the measurement is about to start: long after the handlers.
    wait_for("run.json", Duration::from_millis(10), || {
        dir.path().join("r/run.json").exists().then_some(())
    });
    assert!(ignores(child.id(), 1) && !ignores(child.id(), 15));
    signal(&child, Signal::HUP);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    is_saved(dir.path());
}

/// A shell without job control ignores SIGINT in its background jobs.
#[test]
fn a_background_job_of_a_script_ends_by_sigint() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "{LATLAB} {} >/dev/null 2>&1 & until [ -e s ]; do sleep 0.05; done; \
         kill -INT $!; wait $!; echo $?",
        LONG.join(" ")
    );
    let mut shell = Command::new("sh");
    let out = shell.current_dir(dir.path()).args(["-c", &script]).output().unwrap();
    assert_eq!(printed(&out).trim(), "130", "{}", said(&out));
    is_saved(dir.path());
}

#[test]
fn a_limit_that_was_exceeded_is_2_also_when_nobody_reads() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["wakeup", "--policy", "other", "-D", "300ms", "-b", "1", "--out", "r"];
    let status = command(dir.path(), &args).stdout(nobody_reads()).status().unwrap();
    assert_eq!(status.code(), Some(2));
    let read = latlab(dir.path(), &["report", "r"]);
    assert_eq!(read.status.code(), Some(0), "{}", said(&read));
    let status = command(dir.path(), &["report", "r"]).stdout(nobody_reads()).status().unwrap();
    assert_eq!(status.code(), Some(0), "a reader that went away is not an error");
}

/// Waits until so much is in the pipe that its writer waits.
fn is_full(pipe: &impl AsFd) {
    let bytes = || rustix::io::ioctl_fionread(pipe).unwrap();
    wait_for("a full pipe", Duration::from_millis(10), || (bytes() >= 60_000).then_some(()));
}

/// A listing that nobody reads, or that fills a terminal, ends at the first Ctrl-C.
#[test]
fn what_only_prints_ends_by_the_first_signal() {
    let dir = tempfile::tempdir().unwrap();
    let trace = fixture("trace/rt-load.dat");
    let trace = trace.as_str();
    for words in [&["report", trace][..], &["--json", "report", trace], &["export", trace, "--csv"]]
    {
        for kind in [Signal::INT, Signal::TERM] {
            let mut child = command(dir.path(), words).stdout(Stdio::piped()).spawn().unwrap();
            is_full(child.stdout.as_ref().unwrap());
            signal(&child, kind);
            assert_eq!(child.wait().unwrap().signal(), Some(kind.as_raw()), "{words:?}");
        }
    }
}

#[test]
fn an_export_that_is_stopped_says_so_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .unwrap();
    // With a writer that it does not wait for, a reader is opened at once.
    let reader = File::options().read(true).write(true).open(&path).unwrap();
    let trace = fixture("trace/rt-load.dat");
    let args = ["export", &trace, "--perfetto", "out"];
    let child = command(dir.path(), &args).stderr(Stdio::piped()).spawn().unwrap();
    is_full(&reader);
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", said(&output));
    assert_eq!(said(&output), "latlab: stopped by SIGTERM before the export was complete\n");
}
