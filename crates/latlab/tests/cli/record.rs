//! `latlab record` as a user meets it: how it ends, what it says, and what a death leaves behind.

use crate::common::{
    LATLAB, SmallDisk, copy_program, for_everybody, instances_of, is_root, plain, printed, said,
    signal, skip, tracefs, wait_for,
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Between two looks at what a recorder does.
const PAUSE: Duration = Duration::from_millis(20);

fn record(dir: &Path, args: &[&str]) -> Command {
    plain(dir, &[&["record"], args].concat())
}

fn run(dir: &Path, args: &[&str]) -> Output {
    record(dir, args).output().unwrap()
}

fn spawn(dir: &Path, args: &[&str]) -> Child {
    record(dir, args).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The instance of a process, once it traces.
fn tracing_instance(tracefs: &Path, pid: u32) -> PathBuf {
    wait_for("the instance", PAUSE, || {
        let path = instances_of(tracefs, pid).pop()?;
        let read = |name: &str| fs::read_to_string(path.join(name)).ok();
        // The kernel makes an instance with tracing on and no events.
        let traces = read("tracing_on")?.starts_with('1') && !read("set_event")?.is_empty();
        traces.then_some(path)
    })
}

/// What `latlab report --stat` counts in a file.
fn stat(file: &Path) -> Value {
    let output = Command::new(LATLAB).args(["report", "--stat", "--json"]).arg(file).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Events of a file.
fn events(file: &Path) -> u64 {
    let stat = stat(file);
    stat["events"].as_u64().unwrap_or_else(|| panic!("{stat}"))
}

#[test]
fn events_of_this_kernel_are_read_and_its_buffers_have_statistics() {
    if tracefs().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = run(dir.path(), &["--check-events", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", printed(&out));
    let checked: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(checked["events"].as_u64().unwrap() > 500, "{checked}");
    let out = run(dir.path(), &["-e", "sched_switch", "-o", "t.dat", "--", "sleep", "0.1"]);
    assert!(out.status.success(), "{}", said(&out));
    let stat = stat(&dir.path().join("t.dat"));
    let read = stat["buffers"].as_array().unwrap().iter();
    let read: u64 = read.map(|b| b["read"].as_u64().unwrap()).sum();
    assert_eq!(Some(read), stat["events"].as_u64(), "nothing was lost");
}

/// Time, CPU and kind of each line of `latlab report --json`.
fn lines(stdout: &[u8]) -> Vec<(u64, u64, String)> {
    let event = |line: &str| {
        let e: Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| e[name].as_u64().unwrap();
        (number("ts_ns"), number("cpu"), e["event"].as_str().unwrap().to_owned())
    };
    String::from_utf8_lossy(stdout).lines().map(event).collect()
}

#[test]
fn a_running_recording_is_followed_to_its_end_without_a_loss() {
    if tracefs().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = spawn(dir.path(), &["-e", "sched_switch", "-o", "t.dat", "-D", "4"]);
    wait_for("the file", PAUSE, || dir.path().join("t.dat").exists().then_some(()));
    let report =
        |more: &[&str]| plain(dir.path(), &[&["report", "t.dat", "--json"], more].concat());
    let mut interrupted = report(&["--follow"]).stdout(Stdio::null()).spawn().unwrap();
    let followed = report(&["--follow"]).output().unwrap();
    assert!(followed.status.success(), "{}", said(&followed));
    assert!(recorder.wait().unwrap().success());
    let all = report(&[]).output().unwrap();
    assert!(lines(&all.stdout).len() > 10);
    assert_eq!(lines(&followed.stdout), lines(&all.stdout));
    // A file that nobody writes is printed as without --follow.
    assert_eq!(report(&["--follow"]).output().unwrap().stdout, all.stdout);
    assert!(interrupted.wait().unwrap().success());
    let mut recorder = spawn(dir.path(), &["-e", "sched_switch", "-o", "u.dat"]);
    wait_for("the file", PAUSE, || dir.path().join("u.dat").exists().then_some(()));
    let mut follower = plain(dir.path(), &["report", "u.dat", "--follow"]);
    let mut follower = follower.stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    signal(&follower, Signal::INT);
    assert_eq!(follower.wait().unwrap().code(), Some(130));
    signal(&recorder, Signal::INT);
    recorder.wait().unwrap();
}

#[test]
fn an_ordinary_user_reads_one_sentence_and_what_to_do() {
    if !is_root() {
        return skip("only root can become nobody");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(for_everybody(dir.path()));
    command.args(["record", "-e", "sched", "-D", "1", "-o", "/dev/null"]).uid(65_534).gid(65_534);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("latlab: tracing needs root: /sys/kernel/"), "{said}");
    assert!(lines[1].trim().starts_with("hint: run it with sudo, or "), "{said}");
}

#[test]
fn a_latency_tracer_that_cannot_be_is_refused_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let fails = |args: &[&str], words: &str| {
        let out = run(dir.path(), args);
        assert_eq!(out.status.code(), Some(1), "{}", said(&out));
        assert!(said(&out).contains(words), "{words}: {}", said(&out));
        assert!(fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing is written");
    };
    fails(&["-p", "function", "--threshold", "5"], "--threshold with -p function: ");
    fails(&["-p", "wakeup_rt", "--last", "8"], "--last with -p wakeup_rt: ");
    fails(&["-p", "irqsoff", "--v6"], "--v6 with -p irqsoff: ");
    let tracers = fs::read_to_string("/sys/kernel/tracing/available_tracers");
    if is_root() && tracers.is_ok_and(|t| !t.contains("irqsoff")) {
        fails(&["-p", "irqsoff", "-D", "1"], "no tracer");
    }
}

#[test]
fn the_exit_code_is_the_commands_or_what_a_shell_would_say() {
    if tracefs().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plain"), "no program").unwrap();
    for (command, code, words) in [
        (vec!["sh", "-c", "exit 7"], 7, ""),
        (vec!["sh", "-c", "kill -TERM $$"], 143, ""),
        (vec!["no-such-command"], 127, "latlab: no-such-command: command not found\n"),
        (vec!["./plain"], 126, "latlab: ./plain: Permission denied"),
    ] {
        let args = [&["-e", "sched_switch", "-b", "64", "--"], &command[..]].concat();
        let output = run(dir.path(), &args);
        assert_eq!(output.status.code(), Some(code), "{command:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{command:?}: {}", said(&output));
    }
}

#[test]
fn it_ends_after_its_time_and_when_tracing_is_switched_off() {
    let Some(tracefs) = tracefs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["-e", "sched_switch", "-b", "64", "-D", "300ms", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["duration_ns"].as_u64().unwrap() >= 300_000_000);
    assert_eq!(summary["events"].as_u64().unwrap(), events(&dir.path().join("trace.dat")));

    let child = spawn(dir.path(), &["-e", "sched_switch", "-b", "64", "-o", "off.dat"]);
    let instance = tracing_instance(&tracefs, child.id());
    fs::write(instance.join("tracing_on"), "0").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("stopped: tracing was switched off"), "{}", said(&output));
    assert!(!instance.exists());
}

#[test]
fn a_killed_recorder_leaves_a_file_that_is_read_and_an_instance_that_the_next_removes() {
    let Some(tracefs) = tracefs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn(dir.path(), &["-e", "sched", "-b", "64", "-o", "killed.dat"]);
    let instance = tracing_instance(&tracefs, child.id());
    // Whole pages are flushed every second; a file of this size has some.
    let file = dir.path().join("killed.dat");
    wait_for("flushed pages", PAUSE, || {
        let output = Command::new(LATLAB).args(["report"]).arg(&file).output().unwrap();
        (output.stdout.split(|b| *b == b'\n').count() > 100).then_some(())
    });
    child.kill().unwrap();
    // Dead, and not yet waited for: until then no other latlab takes the instance for left behind.
    let died = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&child)), died).unwrap();
    assert!(instance.exists());
    child.wait().unwrap();
    let kept = events(&file);
    assert!(kept > 0);
    let output = run(dir.path(), &["--recover", "killed.dat"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(events(&file), kept);

    let next =
        run(dir.path(), &["-e", "sched_switch", "-b", "64", "-D", "100ms", "-o", "next.dat"]);
    assert!(next.status.success(), "{}", said(&next));
    assert!(!instance.exists(), "{}", said(&next));
}

/// A program that is started once: its event alone fills no page.
#[test]
fn a_killed_recorder_leaves_also_what_filled_no_page() {
    let Some(tracefs) = tracefs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("latlab-rare");
    copy_program("/bin/true", &program);
    let filter = "filename ~ \"*/latlab-rare\"";
    let args = ["-e", "sched:sched_process_exec", "-f", filter, "-b", "64", "-o", "rare.dat"];
    let mut child = spawn(dir.path(), &args);
    tracing_instance(&tracefs, child.id());
    let file = dir.path().join("rare.dat");
    for starts in 1..=2 {
        assert!(Command::new(&program).status().unwrap().success());
        let count = || {
            let output = Command::new(LATLAB).arg("report").arg(&file).output().unwrap();
            String::from_utf8_lossy(&output.stdout).matches("latlab-rare pid=").count()
        };
        wait_for("the event", PAUSE, || (count() == starts).then_some(()));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(events(&file), 2);
    let output = run(dir.path(), &["-e", "sched_switch", "-b", "64", "-D", "10ms", "-o", "x.dat"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_full_disk_keeps_what_came_before() {
    if tracefs().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::of("16m") else { return };
    let work = "dd if=/dev/zero of=/dev/null bs=1 count=400000 2>/dev/null";
    let args = ["-e", "syscalls:sys_enter_*", "-b", "1024", "-o"];
    let file = small.path().join("full.dat");
    let args = [&args[..], &[file.to_str().unwrap(), "--", "sh", "-c", work]].concat();
    let output = run(dir.path(), &args);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("full.dat: the disk is full"), "{}", said(&output));
    assert_eq!(said(&output).lines().count(), 1, "{}", said(&output));
    assert!(events(&file) > 10_000, "{}", said(&output));
    // The kernel counts what was read, also what did not get into the file.
    let kept = said(&output).split_once("kept (").and_then(|k| k.1.split(' ').next()?.parse().ok());
    let size = file.metadata().unwrap().len();
    assert!(
        kept.is_some_and(|k: u64| k > 4096 && k <= size),
        "{kept:?} of {size}: {}",
        said(&output)
    );
}

#[test]
fn a_flight_recorder_writes_when_asked_when_triggered_and_at_the_end() {
    let Some(tracefs) = tracefs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let child = spawn(dir.path(), &["--last", "1", "-e", "sched_switch", "-o", "f.dat"]);
    tracing_instance(&tracefs, child.id());
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, Signal::USR1);
    wait_for("the file", PAUSE, || dir.path().join("f.dat").exists().then_some(()));
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(events(&dir.path().join("f.dat")) > 0 && events(&dir.path().join("f.2.dat")) > 0);

    // The events before the trigger are there, those after it are not.
    // Programs that no other test starts.
    for name in ["latlab-work", "latlab-trigger"] {
        copy_program("/bin/true", &dir.path().join(name));
    }
    let work = "./latlab-work before; ./latlab-trigger; sleep 0.1; exec ./latlab-work after";
    let trigger = "traceoff if filename ~ \"*/latlab-trigger\"";
    let args =
        ["--last", "1", "-e", "sched:sched_process_exec", "-R", trigger, "-o", "t.dat", "--"];
    let output = run(dir.path(), &[&args[..], &["sh", "-c", work]].concat());
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("tracing was switched off"), "{}", said(&output));
    let text = Command::new(LATLAB).args(["report", "t.dat"]).current_dir(dir.path()).output();
    let text = String::from_utf8_lossy(&text.unwrap().stdout).into_owned();
    assert_eq!(text.matches("filename=./latlab-work").count(), 1, "{text}");
    assert_eq!(text.matches("filename=./latlab-trigger").count(), 1, "{text}");
}
