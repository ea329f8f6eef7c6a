//! `latlab wakeup` from outside: what it prints, keeps and refuses. Counts and words, never wall time.

use crate::common::{
    LATLAB, command, for_everybody, is_root, latlab, real_time, run_of, skip, text, wait_for,
};
use latlab_model::run::{Detail, Run};
use latlab_model::samples;
use latlab_model::wakeup::{StopReason, WakeupResult};
use rustix::fs::{Mode, OFlags};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// An ordinary task: needs no permission.
const ORDINARY: &[&str] = &["wakeup", "--policy", "other", "--out", "r"];

pub fn ordinary(dir: &Path, more: &[&str]) -> Output {
    latlab(dir, &[ORDINARY, more].concat())
}

pub fn run_in(dir: &Path) -> (Run, WakeupResult) {
    let run = run_of(&dir.join("r"));
    let Some(Detail::Wakeup(result)) = run.parts[0].detail.clone() else { panic!("no detail") };
    (run, *result)
}

/// Refused: exit code 1, one sentence with these words, a hint, nothing on stdout.
pub fn refused(out: &Output, words: &[&str]) {
    let stderr = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{stderr}");
    assert!(out.stdout.is_empty());
    for word in words {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
    assert!(stderr.starts_with("latlab: ") && !stderr.contains("panicked"), "{stderr}");
}

/// Whether a helper of util-linux is here; in CI it has to be.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        skip(&format!("no {program} here"));
    }
    found
}

#[test]
fn every_wake_up_is_counted_kept_and_printed() {
    let dir = tempfile::tempdir().unwrap();
    let out = ordinary(dir.path(), &["-l", "40", "-i", "500", "-t", "1", "--details"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let stdout = text(&out.stdout);
    assert!(stdout.contains("of 40 wake-ups"), "{stdout}");
    assert!(stdout.contains("Timer slack applies to SCHED_OTHER"), "{stdout}");
    let (run, result) = run_in(dir.path());
    assert!(run.complete && result.complete);
    assert_eq!((result.threads.len(), result.threads[0].wakeups), (1, 40));
    let names: Vec<&str> = run.parts[0].results.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["wakeup.user", "wakeup.user.period"]);
    let periods = run.parts[0].results[1].summary.count;
    assert_eq!(periods, 40 + result.missed_periods());
}

#[test]
fn a_break_value_sets_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let out = ordinary(dir.path(), &["-b", "1", "-D", "20", "-q"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    let (run, result) = run_in(dir.path());
    assert!(!run.complete);
    assert!(matches!(result.stopped_by, Some(StopReason::BreakValue { cycle: 1, .. })));
}

/// Sends a signal once the measurement has its first sample on stdout.
fn signalled(dir: &Path, signal: rustix::process::Signal) -> Output {
    let mut command = command(dir, &[ORDINARY, &["--samples", "-"]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_line(&mut child, 2);
    crate::common::signal(&child, signal);
    child.wait_with_output().unwrap()
}

fn wait_for_line(child: &mut Child, lines: usize) {
    use std::io::Read;
    let stdout = child.stdout.as_mut().unwrap();
    let (mut byte, mut seen) = ([0u8], 0);
    while seen < lines && stdout.read(&mut byte).unwrap() == 1 {
        seen += usize::from(byte[0] == b'\n');
    }
    assert_eq!(seen, lines);
}

#[test]
fn a_signal_keeps_the_run_and_is_told() {
    use rustix::process::Signal;
    for (signal, name, code) in [(Signal::INT, "SIGINT", 130), (Signal::TERM, "SIGTERM", 143)] {
        let dir = tempfile::tempdir().unwrap();
        let out = signalled(dir.path(), signal);
        assert_eq!(out.status.code(), Some(code), "{}", text(&out.stderr));
        let (run, result) = run_in(dir.path());
        assert_eq!((run.complete, run.stopped_by.as_deref()), (false, Some(name)));
        assert!(result.threads[0].wakeups > 0);
    }
}

/// What a run that a signal hit anywhere between its first and its last instruction may leave.
fn check_end(dir: &Path, status: std::process::ExitStatus, after_ms: u64) {
    use std::os::unix::process::ExitStatusExt;
    let run = dir.join("r/run.json").exists().then(|| run_of(&dir.join("r")));
    match (status.code(), status.signal()) {
        // Before there was a handler, or after the second look at it: as any process.
        (None, Some(15)) => assert!(run.is_none_or(|r| !r.complete), "after {after_ms} ms"),
        // Nothing was measured and nothing is kept; or cut short and kept; or hit while saving.
        (Some(143), None) => {
            assert!(run.is_none_or(|r| r.complete || r.stopped_by.as_deref() == Some("SIGTERM")))
        }
        (Some(0), None) => assert!(run.is_some_and(|r| r.complete), "after {after_ms} ms"),
        other => panic!("{other:?} after {after_ms} ms"),
    }
    let left: Vec<_> = std::fs::read_dir(dir.join("r")).into_iter().flatten().flatten().collect();
    let names: Vec<_> = left.iter().map(|e| e.file_name()).collect();
    assert!(names.iter().all(|n| n == "run.json" || n == "report.html"), "{names:?}");
}

/// Set-up, warm-up, measuring and saving: wherever it hits, what is left can be read and is told.
#[test]
fn a_signal_in_any_phase_leaves_a_readable_run_or_none() {
    for after_ms in (0..240).step_by(8) {
        let dir = tempfile::tempdir().unwrap();
        let args = [ORDINARY, &["-l", "40", "-i", "1000", "-q"]].concat();
        let mut command = command(dir.path(), &args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(after_ms));
        let pid = rustix::process::Pid::from_child(&child);
        // It may have ended before.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        check_end(dir.path(), child.wait().unwrap(), after_ms);
    }
}

#[test]
fn a_signal_before_the_first_wake_up_keeps_nothing_and_sets_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("s");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    // Opening the samples waits for a reader: it is in the middle of its set-up.
    let args = [ORDINARY, &["--samples", "s", "-i", "100000000"]].concat();
    let mut command = command(dir.path(), &args);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask =
            status.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
        u64::from_str_radix(&mask, 16).unwrap() & 1 << 14 != 0
    };
    wait_for("a handler of SIGTERM", Duration::from_millis(1), || caught().then_some(()));
    crate::common::signal(&child, rustix::process::Signal::TERM);
    // Opened without waiting for the writer, which may have ended.
    let reader = rustix::fs::open(&fifo, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let out = child.wait_with_output().unwrap();
    drop(reader);
    assert_eq!(out.status.code(), Some(143), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("stopped before the first wake-up"));
    assert!(!dir.path().join("r").exists());
}

#[test]
fn a_level_that_this_kernel_cannot_measure_is_said() {
    let tracers = std::fs::read_to_string("/sys/kernel/tracing/available_tracers");
    if tracers.is_ok_and(|t| t.contains("timerlat")) {
        return; // It can.
    }
    if !is_root() {
        return skip("tracefs needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let alone = ordinary(dir.path(), &["--level", "irq", "-l", "5"]);
    refused(&alone, &["--level irq: this kernel has no timerlat tracer", "--on vm:armv7-rt"]);
    assert!(!dir.path().join("r").exists());
    let all = ordinary(dir.path(), &["--level", "irq,kernel,user", "-l", "20"]);
    assert!(all.status.success(), "{}", text(&all.stderr));
    assert!(text(&all.stdout).contains("no timerlat tracer"), "{}", text(&all.stdout));
    let (run, result) = run_in(dir.path());
    assert_eq!(run.parts[0].findings[0].id, "wakeup.level-missing");
    assert_eq!((run.parts.len(), result.threads[0].wakeups), (1, 20));
}

#[test]
fn samples_agree_with_the_figures() {
    let dir = tempfile::tempdir().unwrap();
    let out = ordinary(dir.path(), &["-l", "60", "-t", "2", "-i", "700", "--samples", "s.bin"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let file = samples::read(&std::fs::read(dir.path().join("s.bin")).unwrap()).unwrap();
    assert_eq!(file.damaged_at, None);
    let (_, result) = run_in(dir.path());
    for (thread, samples) in result.threads.iter().zip(&file.threads) {
        assert_eq!(samples.samples.len() as u64, thread.wakeups);
        assert_eq!(samples.samples.iter().map(|s| s.1).max(), Some(thread.latency.max));
        assert_eq!(samples.interval_ns, 700_000);
    }
}

#[test]
fn samples_that_cannot_be_written_are_said_and_the_run_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let refuse = ordinary(dir.path(), &["-l", "5", "--samples", "/nowhere/s.bin"]);
    refused(&refuse, &["--samples /nowhere/s.bin", "hint: "]);
    let full = ordinary(dir.path(), &["-l", "5", "--samples", "/dev/full"]);
    refused(&full, &["--samples /dev/full", "No space left", "hint: "]);
    assert!(!dir.path().join("r").exists(), "nothing was measured, nothing is kept");
}

#[test]
fn scripts_written_for_cyclictest_find_their_fields() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["-q", "-l", "50", "-t", "2", "-a", "0", "-h", "20", "--format", "cyclictest"];
    let out = ordinary(dir.path(), &args);
    let stdout = text(&out.stdout);
    // As cyclictest, where the device can be written.
    let held = "# /dev/cpu_dma_latency set to 0us\n";
    let table = stdout.strip_prefix(held).unwrap_or(&stdout);
    assert!(table.starts_with("# Histogram\n000000 "), "{stdout}");
    assert_eq!(stdout.lines().filter(|l| l.starts_with("0000")).count(), 20);
    let total = stdout.lines().find_map(|l| l.strip_prefix("# Total:")).unwrap();
    let over = stdout.lines().find_map(|l| l.strip_prefix("# Histogram Overflows:")).unwrap();
    let sum = |l: &str| l.split_whitespace().map(|n| n.parse::<u64>().unwrap()).sum::<u64>();
    assert_eq!(sum(total) + sum(over), 100);
}

#[test]
fn the_json_of_cyclictest_counts_every_wake_up() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["-l", "30", "-t", "1", "-h", "100000", "--json", "--format", "cyclictest"];
    let out = ordinary(dir.path(), &args);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["thread"]["0"]["cycles"], 30);
    let counts = json["thread"]["0"]["histogram"].as_object().unwrap().values();
    assert_eq!(counts.map(|n| n.as_u64().unwrap()).sum::<u64>(), 30);
}

#[test]
fn a_command_line_of_cyclictest_writes_its_files_and_says_what_has_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let args =
        ["-n", "-u", "-x", "-X", "-qml30", "-t1", "-h", "100000", "--histfile=h", "--json", "j"];
    let out = ordinary(dir.path(), &args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let notes: Vec<String> = text(&out.stderr).lines().map(str::to_owned).collect();
    let note = "latlab: -X has no effect: it is for cyclictest's own development";
    assert_eq!(notes.iter().filter(|n| n.contains(" has no effect")).collect::<Vec<_>>(), [note]);
    assert_eq!(run_in(dir.path()).1.method, "posix-timer");
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("j")).unwrap()).unwrap();
    assert_eq!(json["thread"]["0"]["cycles"], 30);
    let histogram = std::fs::read_to_string(dir.path().join("h")).unwrap();
    let counted: u64 = (histogram.lines().filter(|l| !l.starts_with('#')))
        .filter_map(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    assert_eq!(counted, 30, "{histogram}");
    assert!(!text(&out.stdout).contains("# Histogram"));
    let nowhere = ["-l5", "-h9", "--histfile=/nowhere/h", "--out", "r2"];
    let out = latlab(dir.path(), &[&["wakeup", "--policy", "other"], &nowhere[..]].concat());
    refused(&out, &["--histfile /nowhere/h", "hint: "]);
}

#[test]
fn each_value_is_printed_as_by_cyclictest() {
    let dir = tempfile::tempdir().unwrap();
    let out = ordinary(dir.path(), &["-v", "-N", "-l", "25", "-t", "2", "-i", "700"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let stdout = text(&out.stdout);
    let (_, result) = run_in(dir.path());
    for (thread, measured) in result.threads.iter().enumerate() {
        let values: Vec<(u64, u64)> = (stdout.lines())
            .filter_map(|line| {
                let mut columns = line.split(':').map(|c| c.trim().parse::<u64>().unwrap());
                let is = columns.next() == Some(thread as u64);
                is.then(|| (columns.next().unwrap(), columns.next().unwrap()))
            })
            .collect();
        assert_eq!(values.iter().map(|v| v.0).collect::<Vec<_>>(), (0..25).collect::<Vec<_>>());
        assert_eq!(values.iter().map(|v| v.1).max(), Some(measured.latency.max));
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    refused(&ordinary(dir.path(), &["-i", "0"]), &["-i 0", "hint: "]);
    refused(&ordinary(dir.path(), &["-a", "4095"]), &["CPU 4095 is not online", "hint: "]);
    refused(&ordinary(dir.path(), &["-D", "soon"]), &["-D soon", "hint: "]);
    refused(
        &ordinary(dir.path(), &["-i", "1", "-l", "9"]),
        &["too short for this machine", "hint: "],
    );
    refused(&latlab(dir.path(), &["wakeup", "-p", "120", "--out", "r"]), &["-p 120: ", "1 to 99"]);
    assert!(!dir.path().join("r").exists(), "nothing was measured, nothing is kept");
}

#[test]
fn help_is_not_the_letter_of_the_histogram() {
    let dir = tempfile::tempdir().unwrap();
    let help = latlab(dir.path(), &["wakeup", "--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("--histogram"));
    let missing = latlab(dir.path(), &["wakeup", "-h"]);
    assert_eq!(missing.status.code(), Some(1), "-h wants a number");
}

/// As a user without permission: root drops to nobody, others are such users already.
fn unprivileged(dir: &Path, limits: &[&str], args: &[&str]) -> Option<Output> {
    if !has("prlimit") || (is_root() && !has("setpriv")) {
        return None;
    }
    let mut command = Command::new("prlimit");
    command.args(limits).arg("--rtprio=0");
    if is_root() {
        let program = for_everybody(dir);
        command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(program);
    } else {
        command.arg(LATLAB);
    }
    Some(command.args(args).current_dir(dir).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn without_permission_it_says_so_and_measures_only_what_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["wakeup", "-l", "5", "--out", "r"];
    let Some(out) = unprivileged(dir.path(), &[], &args) else { return };
    refused(
        &out,
        &["SCHED_FIFO with priority 80 is not permitted", "CAP_SYS_NICE", "--policy other"],
    );
    let args = ["wakeup", "-l", "5", "--policy", "other", "--out", "r2"];
    let Some(out) = unprivileged(dir.path(), &[], &args) else { return };
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn a_limit_of_locked_memory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["wakeup", "-m", "-l", "5", "--policy", "other", "--out", "r"];
    let Some(out) = unprivileged(dir.path(), &["--memlock=65536"], &args) else { return };
    refused(&out, &["memory cannot be locked (limit: 64 KiB)", "RLIMIT_MEMLOCK"]);
}

#[test]
fn power_management_needs_permission_and_is_said_when_held() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["wakeup", "--latency", "0", "-l", "5", "--policy", "other", "--out", "r"];
    let Some(out) = unprivileged(dir.path(), &[], &args) else { return };
    refused(&out, &["/dev/cpu_dma_latency", "hint: "]);
}

#[test]
fn one_cpu_is_enough() {
    if !has("taskset") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("taskset");
    command.args(["-c", "0", LATLAB]).args(ORDINARY).args(["-l", "20", "-q"]);
    let out = command.current_dir(dir.path()).stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (_, result) = run_in(dir.path());
    assert_eq!(result.threads.len(), 1);
    assert_eq!(result.threads[0].cpu.map(|c| c.0), Some(0));
}

#[test]
fn real_time_threads_and_deadline_threads_measure_where_they_are_permitted() {
    if !is_root() {
        skip("needs root");
        return;
    }
    let _alone = real_time();
    for policy in ["fifo", "rr", "deadline"] {
        let dir = tempfile::tempdir().unwrap();
        let args =
            ["wakeup", "--policy", policy, "-l", "30", "-t", "1", "-i", "2000", "--out", "r"];
        let out = latlab(dir.path(), &args);
        let stderr = text(&out.stderr);
        // Some containers and RT_GROUP_SCHED kernels refuse it even to root: then in a sentence.
        if out.status.success() {
            assert_eq!(run_in(dir.path()).1.threads[0].wakeups, 30, "{policy}");
        } else {
            refused(&out, &["SCHED_", "hint: "]);
            assert!(std::env::var_os("CI").is_none(), "{policy}: {stderr}");
        }
    }
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(dir.path(), &[ORDINARY, &["--samples", "-"]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_line(&mut child, 2);
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (run, _) = run_in(dir.path());
    assert!(!run.complete);
}
