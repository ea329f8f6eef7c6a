//! `latlab bench` from outside: what is missing, refused, used up or killed costs its own figure and
//! no other, and nothing is left behind.

use crate::common::{
    LATLAB, SmallDisk, children_of, command, is_root, latlab, real_time, said, skip, spawn, text,
    wait_for,
};
use latlab_model::finding::Note;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The least that can be measured with it: one round.
const SHORT: [&str; 4] = ["--json", "-D", "100ms", "--dir"];

/// `WRAPPER… latlab bench PROBES…` with one round, its files in a directory of its own below `dir`.
fn wrapped(dir: &Path, wrapper: &[&str], probes: &[&str]) -> Output {
    let files = dir.to_string_lossy();
    let (program, before) = wrapper.split_first().unwrap_or((&LATLAB, &[]));
    let mut command = Command::new(program);
    command.args(before).current_dir(dir).stdin(Stdio::null());
    if !wrapper.is_empty() {
        command.arg(LATLAB);
    }
    command.arg("bench").args(probes).args(SHORT).arg(&*files).output().unwrap()
}

/// The bench part of the run that was printed.
fn detail(out: &Output) -> Value {
    assert!(out.status.success(), "{}", text(&out.stderr));
    let run: Value = serde_json::from_slice(&out.stdout).expect("a run");
    run["parts"][0]["detail"].clone()
}

/// Whether a figure was measured.
fn measured(detail: &Value, name: &str) -> bool {
    detail["rows"].as_array().is_some_and(|rows| rows.iter().any(|r| r["name"] == name))
}

/// Why a figure is missing; it must be for want of the thing, not a failure.
fn unavailable(detail: &Value, name: &str) -> String {
    let missing = detail["missing"].as_array().expect("what is missing");
    let row = missing.iter().find(|m| m["name"] == name);
    let row = row.unwrap_or_else(|| panic!("{name} is not among {missing:?}"));
    assert_eq!(row["unavailable"], true, "{row}");
    wording(&row["reason"])
}

/// The sentence of a note with an identifier.
fn wording(note: &Value) -> String {
    let note: Note = serde_json::from_value(note.clone()).expect("a note");
    assert!(note.id().is_some(), "{note:?}");
    latlab_report::messages::note(&note)
}

/// Whether a program is there and does its part here; said when not.
fn can(wrapper: &[&str], what: &str) -> bool {
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg("true").stdout(Stdio::null()).stderr(Stdio::null());
    let can = command.status().is_ok_and(|s| s.success());
    if !can {
        skip(what);
    }
    can
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn an_unknown_probe_gets_suggestions() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["bench", "sycall.reed"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("no probe is called \"sycall.reed\""), "{said}");
    assert!(said.contains("syscall.read"), "{said}");
    assert!(names_in(dir.path()).is_empty(), "no run is begun");
}

#[test]
fn a_list_is_limited_to_the_names_given() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["bench", "--list", "ipc.pipe", "lat_syscall", "--json"]);
    let rows: Value = serde_json::from_slice(&out.stdout).expect("a list");
    let names: Vec<_> = rows.as_array().unwrap().iter().map(|r| r["name"].as_str()).collect();
    assert!(
        names.contains(&Some("ipc.pipe")) && names.contains(&Some("syscall.read")),
        "{names:?}"
    );
    assert!(!names.contains(&Some("ipc.fifo")), "{names:?}");

    let out = latlab(dir.path(), &["bench", "--list", "extra"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("no probe is called \"extra\""), "{}", text(&out.stderr));
}

#[test]
fn a_parameter_that_makes_no_sense_costs_its_own_figure() {
    let dir = tempfile::tempdir().unwrap();
    let d = detail(&wrapped(dir.path(), &[], &["ipc.tcp:size=0", "syscall.getppid"]));
    assert!(measured(&d, "syscall.getppid"));
    let reason = wording(&d["missing"][0]["reason"]);
    assert!(reason.contains("size=0") && reason.contains("1 to 1M"), "{reason}");
}

#[test]
fn wrong_parameters_alone_are_an_error_and_no_run() {
    let dir = tempfile::tempdir().unwrap();
    for (probe, said) in [
        ("ctx.ring:procs=abc", "ctx.ring: parameter procs=abc: allowed are numbers"),
        ("ipc.unix-stream:size=0", "ipc.unix-stream: parameter size=0: allowed are 1 to 1M"),
        ("cpu.operation:op=foo", "cpu.operation: parameter op=foo: allowed are add"),
    ] {
        let out = latlab(dir.path(), &["bench", probe]);
        assert_eq!(out.status.code(), Some(1), "{probe}");
        assert!(text(&out.stderr).contains(said), "{}", text(&out.stderr));
        assert!(out.stdout.is_empty() && !dir.path().join("runs").exists(), "{probe}");
    }
}

/// lmbench's `-P`: copies on all CPUs of this machine, at most two, are results of their own.
#[test]
#[cfg(feature = "host")]
fn copies_measure_on_several_cpus() {
    let dir = tempfile::tempdir().unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus > 1 {
        let d = detail(&wrapped(dir.path(), &[], &["-P", "2", "lat_syscall", "null", "ctx.pipe"]));
        let rows = d["rows"].as_array().unwrap();
        assert!(rows.len() == 2 && rows.iter().all(|r| r["params"]["parallel"] == "2"), "{d}");
    }
    let many = (cpus + 1).to_string();
    let out = latlab(dir.path(), &["bench", "syscall.getppid", "-P", &many]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("this process may run on"), "{}", text(&out.stderr));
}

#[test]
fn an_empty_message_over_a_stream_is_refused_and_nothing_spins() {
    let dir = tempfile::tempdir().unwrap();
    let probes = ["ipc.unix-stream:size=0", "ipc.unix-dgram:size=0", "ipc.udp:size=0"];
    let d = detail(&wrapped(dir.path(), &[], &probes));
    let reason = wording(&d["missing"][0]["reason"]);
    assert!(reason.contains("allowed are 1 to 1M"), "{reason}");
    for name in ["ipc.unix-dgram", "ipc.udp"] {
        assert!(measured(&d, name), "a datagram can be empty: {d}");
    }
}

#[test]
fn a_figure_says_how_it_came_about() {
    let dir = tempfile::tempdir().unwrap();
    let d = detail(&wrapped(dir.path(), &[], &["ctx.pipe", "syscall.getppid"]));
    // The machine at the beginning of each round.
    let moments = d["conditions"].as_array().unwrap();
    let seconds: Vec<f64> = moments.iter().filter_map(|m| m["seconds"].as_f64()).collect();
    assert!(!seconds.is_empty() && seconds.is_sorted(), "{seconds:?}");
    assert!(moments[0]["condition"]["available_bytes"].as_u64() > Some(0), "{}", moments[0]);
    let of = |name: &str| {
        let rows = d["rows"].as_array().unwrap();
        rows.iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("{name}: {d}")).clone()
    };
    let pipe = of("ctx.pipe");
    assert!(pipe["raw_ns"].as_f64() > pipe["overhead_ns"].as_f64(), "{pipe}");
    assert!(pipe["switches"].as_f64().is_some(), "switches are counted: {pipe}");
    assert_eq!(of("syscall.getppid")["estimate"]["interval_is_95"], false, "one process is none");
}

#[test]
fn the_clock_stands_beside_the_divisor_of_nine_operations() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["bench", "mhz", "-D", "500ms", "--json"]);
    let d = detail(&out);
    assert!(measured(&d, "cpu.clock"));
    let rows = d["rows"].as_array().unwrap();
    let operations: Vec<_> = rows.iter().filter(|r| r["name"] == "cpu.operation").collect();
    assert_eq!(operations.len(), 9, "{d}");
    let run: Value = serde_json::from_slice(&out.stdout).unwrap();
    let findings = run["parts"][0]["findings"].as_array().unwrap();
    let ids: Vec<_> = findings.iter().filter_map(|f| f["id"].as_str()).collect();
    // On a busy machine the times may decide nothing; then no operation has cycles.
    let decided = ids.contains(&"bench.clock-period");
    assert!(decided != ids.contains(&"bench.clock-undecided"), "{ids:?}");
    assert!(operations.iter().all(|r| r["cycles"].is_number() == decided), "{operations:?}");
    if !measured(&d, "cpu.cycles") {
        assert!(unavailable(&d, "cpu.cycles").contains("no counter of cycles"));
    }
}

/// The signal of a process-wide timer ends the sleep and nothing else.
#[test]
fn a_sleep_by_itimer_takes_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let detail = detail(&wrapped(dir.path(), &[], &["timer.sleep:by=itimer,us=2000"]));
    assert!(measured(&detail, "timer.sleep"), "{detail}");
    let ns = detail["rows"][0]["estimate"]["min"].as_f64().unwrap();
    assert!(ns >= 2_000_000.0, "{}", detail["rows"][0]);
}

#[test]
fn lines_have_the_shape_of_the_old_programs() {
    let dir = tempfile::tempdir().unwrap();
    let probes = ["lat_syscall", "null", "lat_pipe", "ctx.ring:procs=2,size=0"];
    let rest = ["-D", "100ms", "--format", "lmbench"];
    let out = latlab(dir.path(), &[&["bench"][..], &probes, &rest].concat());
    let said = text(&out.stdout);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let number = |line: &str| {
        let (_, value) = line.split_once(": ").unwrap();
        value.strip_suffix(" microseconds").unwrap().parse::<f64>().unwrap() > 0.0
    };
    for words in ["Simple syscall: ", "Pipe latency: "] {
        let line = said.lines().find(|l| l.starts_with(words));
        assert!(line.is_some_and(number), "{words} in {said}");
    }
    assert!(said.contains("\n\"size=0k ovr="), "{said}");
}

#[test]
fn without_loopback_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    if !can(&["unshare", "-n"], "no right to make a network namespace") {
        return;
    }
    let probes = ["ipc.tcp", "ipc.udp", "ipc.tcp-connect", "bw.tcp", "ipc.unix-stream:size=1"];
    let d = detail(&wrapped(dir.path(), &["unshare", "-n"], &probes));
    for name in &probes[..4] {
        let reason = unavailable(&d, name);
        assert!(reason.contains("127.0.0.1") || reason.contains("loopback"), "{name}: {reason}");
    }
    assert!(measured(&d, "ipc.unix-stream"));
}

#[test]
fn a_full_disk_costs_the_figures_that_write_files() {
    let Some(disk) = SmallDisk::of("32k") else { return };
    let dir = tempfile::tempdir().unwrap();
    let files = disk.path().to_string_lossy().into_owned();
    let args = ["bench", "bw.file-read:size=64K", "fs.create:size=10K", "syscall.getppid"];
    let rest = ["--json", "-D", "100ms", "--dir", &files];
    let d = detail(&latlab(dir.path(), &[&args[..], &rest].concat()));
    assert!(measured(&d, "syscall.getppid"));
    let reason = unavailable(&d, "bw.file-read");
    assert!(reason.contains("No space left"), "{reason}");
    assert!(names_in(disk.path()).is_empty(), "its files are gone");
}

#[test]
fn descriptors_that_are_used_up_are_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let wrapper = ["prlimit", "--nofile=64", "--"];
    if !can(&wrapper[..2], "no prlimit") {
        return;
    }
    let probes = ["ctx.ring:procs=96,size=0", "ctx.ring:procs=8,size=0", "syscall.poll:fds=100"];
    let d = detail(&wrapped(dir.path(), &wrapper[..2], &probes));
    for reason in [unavailable(&d, "ctx.ring"), unavailable(&d, "syscall.poll")] {
        assert!(reason.contains("ulimit -n") && reason.contains("64"), "{reason}");
    }
    assert!(measured(&d, "ctx.ring"), "eight processes need no more than there are");
}

/// As somebody without rights: `setpriv` where we are root, nothing where we are not.
fn as_nobody() -> Vec<&'static str> {
    match is_root() {
        true => vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
        false => Vec::new(),
    }
}

/// A directory that nobody can use too.
fn open_dir() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    dir
}

/// Whether nobody can run the program under test: its folder may be closed to them.
fn nobody_can_run(wrapper: &[&str]) -> bool {
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).args([LATLAB, "--version"]).stdout(Stdio::null());
    let can = command.stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if !can {
        skip("another user cannot run the program where it lies");
    }
    can
}

#[test]
fn processes_that_are_used_up_are_a_reason() {
    let dir = open_dir();
    let wrapper = [&["prlimit", "--nproc=40"][..], &as_nobody()].concat();
    if !nobody_can_run(&wrapper) {
        return;
    }
    let probes = ["ctx.ring:procs=96,size=0", "ctx.ring:procs=2,size=0"];
    let d = detail(&wrapped(dir.path(), &wrapper, &probes));
    let reason = unavailable(&d, "ctx.ring");
    assert!(reason.contains("ulimit -u") && reason.contains("40"), "{reason}");
    assert!(measured(&d, "ctx.ring"), "two processes are allowed");
}

#[test]
fn without_the_right_to_real_time_the_rest_goes_on() {
    let dir = open_dir();
    let wrapper = [&["prlimit", "--rtprio=0"][..], &as_nobody()].concat();
    if !nobody_can_run(&wrapper) {
        return;
    }
    let probes = ["ctx.yield", "ctx.kernel", "ctx.pipe:class=fifo", "ctx.pipe:class=other"];
    let d = detail(&wrapped(dir.path(), &wrapper, &probes));
    for name in ["ctx.yield", "ctx.kernel", "ctx.pipe"] {
        let reason = unavailable(&d, name);
        assert!(reason.contains("SCHED_FIFO is not permitted"), "{name}: {reason}");
    }
    assert!(measured(&d, "ctx.pipe"));
}

/// A program that forbids itself these system calls and becomes what follows: by perl, which every
/// Debian has, so that no test needs unsafe code. `verdict` is SECCOMP_RET_*.
fn seccomp(calls: &[u32], verdict: u32) -> Vec<String> {
    let prctl = if cfg!(target_arch = "x86_64") { 157 } else { 167 };
    let calls: Vec<String> = calls.iter().map(u32::to_string).collect();
    let script = format!(
        "my @n = ({}); my $p = pack('SCCL', 0x20, 0, 0, 0); my $left = @n;\
         for (@n) {{ $p .= pack('SCCL', 0x15, $left--, 0, $_) }}\
         $p .= pack('SCCL', 6, 0, 0, 0x7fff0000) . pack('SCCL', 6, 0, 0, {verdict});\
         my $f = pack('S x![L!] P', @n + 3, $p);\
         syscall({prctl}, 38, 1, 0, 0, 0) == 0 or die \"no_new_privs: $!\";\
         syscall({prctl}, 22, 2, $f) == 0 or die \"seccomp: $!\";\
         exec @ARGV or die;",
        calls.join(",")
    );
    ["perl", "-e", &script, "--"].map(str::to_owned).to_vec()
}

/// io_uring_setup, mq_open, socketpair.
fn refused_calls() -> Option<[u32; 3]> {
    if cfg!(target_arch = "x86_64") {
        Some([425, 240, 53])
    } else if cfg!(target_arch = "aarch64") {
        Some([425, 180, 199])
    } else {
        skip("the numbers of this machine's system calls are not in the test");
        None
    }
}

#[test]
fn a_seccomp_filter_costs_the_figures_that_it_refuses() {
    let Some(calls) = refused_calls() else { return };
    let dir = tempfile::tempdir().unwrap();
    let probes = ["syscall.uring-nop", "ipc.mqueue", "ipc.unix-stream", "syscall.getppid"];
    let eperm = 0x0005_0000 | 1;
    let wrapper = seccomp(&calls, eperm);
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    if !can(&wrapper, "no perl, or no seccomp") {
        return;
    }
    let d = detail(&wrapped(dir.path(), &wrapper, &probes));
    let said = ["io_uring_setup", "mq_open", "socketpair"];
    for (name, call) in probes.iter().zip(said) {
        let reason = unavailable(&d, name);
        assert!(reason.starts_with(call) && reason.contains("not permitted"), "{name}: {reason}");
    }
    assert!(measured(&d, "syscall.getppid"));

    // A filter that kills instead of refusing: the same, and the reason says so.
    let wrapper = seccomp(&calls, 0x8000_0000);
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let d = detail(&wrapped(dir.path(), &wrapper, &probes));
    for name in &probes[..3] {
        let reason = unavailable(&d, name);
        assert!(reason.contains("seccomp"), "{name}: {reason}");
    }
    assert!(measured(&d, "syscall.getppid"));
}

/// Between two looks for a process that lives for some milliseconds.
const SOON: Duration = Duration::from_millis(1);

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

#[test]
fn a_killed_child_does_not_cost_the_figure() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().to_string_lossy().into_owned();
    let args = ["bench", "process.fork-exit", "--json", "-D", "4s", "--precision", "0.01"];
    let child = spawn(dir.path(), &[&args[..], &["--dir", &files]].concat());
    let mut killed = std::collections::BTreeSet::new();
    let mut seen = std::collections::BTreeSet::new();
    // Every third of its first processes.
    while killed.len() < 3 {
        let slice = wait_for("a measuring process", SOON, || {
            children_of(child.id()).into_iter().find(|c| !seen.contains(c))
        });
        seen.insert(slice);
        if seen.len() % 3 == 0 {
            kill(slice);
            killed.insert(slice);
        }
    }
    let out = child.wait_with_output().unwrap();
    let d = detail(&out);
    assert!(measured(&d, "process.fork-exit"), "{d}");
    let left: Vec<String> =
        names_in(dir.path()).into_iter().filter(|n| n.starts_with("latlab-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn nothing_outlives_a_sigkill() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().to_string_lossy().into_owned();
    let args = ["bench", "ctx.ring:procs=8,size=0", "--json", "-D", "60s", "--precision", "0.01"];
    let mut child = spawn(dir.path(), &[&args[..], &["--dir", &files]].concat());
    let ring = wait_for("the ring", SOON, || {
        let slice = *children_of(child.id()).first()?;
        let ring = children_of(slice);
        (ring.len() == 7).then(|| [vec![slice], ring].concat())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the end of its processes", SOON, || {
        let here = |pid: &u32| {
            let path = format!("/proc/{pid}/cmdline");
            std::fs::read(path).is_ok_and(|c| text(&c).contains("--slice"))
        };
        (!ring.iter().any(here)).then_some(())
    });
    // What it had in the file system is removed by the next one.
    let out =
        command(dir.path(), &["bench", "syscall.getppid", "-D", "1ms", "--dir", &files]).output();
    assert!(out.unwrap().status.success());
    let left: Vec<String> =
        names_in(dir.path()).into_iter().filter(|n| n.starts_with("latlab-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_kernels_own_view_of_a_switch() {
    if !is_root() || latlab_sys::tracefs::Tracefs::find().is_err() {
        skip("tracefs and root are needed to ask the kernel");
        return;
    }
    let _alone = real_time();
    let dir = tempfile::tempdir().unwrap();
    let probes = ["ctx.kernel:part=whole|choose|switch", "ctx.nanosleep", "ctx.yield"];
    let out = wrapped(dir.path(), &[], &probes);
    let d = detail(&out);
    assert!(measured(&d, "ctx.kernel"), "{d}");
    let rows = d["rows"].as_array().unwrap();
    for row in rows.iter().filter(|r| r["name"] == "ctx.kernel") {
        assert!(row["overhead_ns"].as_f64() > Some(0.0), "an event has a price: {row}");
    }
    let sleepers = rows.iter().find(|r| r["name"] == "ctx.nanosleep").expect("nanosleep");
    let seen = &sleepers["alternation"];
    let ran = |who: &str| {
        let threads = seen["threads"].as_array().unwrap();
        threads.iter().any(|t| t["name"] == who)
    };
    assert!(seen["switches"].as_u64() > Some(0), "{sleepers}");
    assert!(ran("measuring") && ran("partner"), "{seen}");
    let page =
        text(&latlab(dir.path(), &["bench", "ctx.nanosleep", "-D", "100ms", "--details"]).stdout);
    assert!(page.contains("CPU time by thread"), "{page}");
}

#[test]
fn single_operations_have_a_distribution_and_what_is_no_time_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["bench", "syscall.getppid", "--each", "2000", "--out", "r"];
    let out = latlab(dir.path(), &args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let words = ["single operations: minimum", "jitter (maximum − minimum)"];
    for words in words {
        assert!(text(&out.stdout).contains(words), "{words}: {}", text(&out.stdout));
    }
    let run = crate::common::run_of(&dir.path().join("r"));
    let record = &run.parts[0].results[0];
    let histogram = record.histogram.as_ref().unwrap();
    let sequence = record.sequence.as_ref().unwrap();
    assert_eq!((sequence.width, sequence.extremes.len()), (4, 500));
    let least = sequence.extremes.iter().map(|e| e.0).min();
    let most = sequence.extremes.iter().map(|e| e.1).max();
    assert_eq!((least, most), (Some(histogram.min), Some(histogram.max)));
    let page = text(&latlab(dir.path(), &["report", "r", "--details"]).stdout);
    assert!(page.contains("syscall.getppid: values in order"), "{page}");
    assert_eq!((histogram.count, histogram.min > 0), (2000, true), "{:?}", record.summary);
    for (args, words) in [
        (&["bench", "bw.pipe", "--each", "5"][..], "--each: bw.pipe is no time of an operation"),
        (&["bench", "--each", "5"], "required arguments"),
        (&["bench", "syscall.getppid", "--each", "0"], "0 is not in 1..=100000000"),
    ] {
        let out = latlab(dir.path(), args);
        assert!(!out.status.success(), "{args:?}");
        assert!(text(&out.stderr).contains(words), "{args:?}: {}", text(&out.stderr));
    }
}

#[test]
fn what_cannot_be_measured_leaves_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["bench", "ctx.pipe:class=none", "--each", "10", "--out", "r"]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("allowed are other or fifo"), "{}", said(&out));
    assert!(!dir.path().join("r").exists());
    let args = ["bench", "syscall.getppid", "--dir", "/nonexistent", "--out", "r"];
    let out = latlab(dir.path(), &args);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("no directory for files in /nonexistent"), "{}", said(&out));
    assert!(!dir.path().join("r").exists());
}
