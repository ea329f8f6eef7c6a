//! `latlab why --from … --to …`: spans of a program between two of its functions, lines, static probes, markers and
//! system calls, with a known fault.

use crate::common::{
    is_root, latlab, printed, real_time, said, signal, skip, spawn, succeed, tracefs, wait_for,
};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// A job of 300 µs each 5 ms; each 20th takes 30 ms. The static probe is written as `sys/sdt.h` does.
const PROGRAM: &str = r#"#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static int marker;
static void mark(const char *text) { if (write(marker, text, strlen(text)) < 0) marker = -1; }
static void burn(long us) {
    struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
    long end = t.tv_sec * 1000000 + t.tv_nsec / 1000 + us;
    do clock_gettime(CLOCK_MONOTONIC, &t); while (t.tv_sec * 1000000 + t.tv_nsec / 1000 < end);
}
__attribute__((noinline)) void receive(int n) { __asm__ volatile("" : : "r"(n)); }
__attribute__((noinline)) void answer(int n) {
    __asm__ volatile("" : : "r"(n));
}
#define PROBE "990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f,994f-993f,3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte 0\n" \
    ".asciz \"app\"\n.asciz \"job_done\"\n.asciz \"\"\n994: .balign 4\n.popsection\n" \
    ".ifndef _.stapsdt.base\n.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
    ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base,1\n.popsection\n.endif\n"
int main(void) {
    marker = open("/sys/kernel/tracing/trace_marker", O_WRONLY);
    for (int n = 1; ; n++) {
        struct timespec rest = { 0, 5000000 };
        nanosleep(&rest, 0);
        mark("job begins");
        receive(n);
        burn(n % 20 ? 300 : 30000);
        __asm__ volatile(PROBE);
        answer(n);
        mark("job ends");
    }
}
"#;

const FROM: &str = "uprobe:./jobs:receive n=%di:s32";

/// The folder with the program `jobs`; `None`: it cannot be built or traced here.
pub fn program() -> Option<tempfile::TempDir> {
    let here = is_root() && tracefs().is_some_and(|t| t.join("uprobe_events").exists());
    if !here || cfg!(not(target_arch = "x86_64")) {
        skip("it takes root, uprobe_events and x86_64");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs.c"), PROGRAM).unwrap();
    let mut cc = Command::new("cc");
    cc.current_dir(dir.path()).args(["-g", "-O1", "-o", "jobs", "jobs.c"]);
    succeed(&mut cc);
    Some(dir)
}

fn spans(dir: &Path, out: &str, ends: [&str; 4]) -> Output {
    let [from, to, key, deadline] = ends;
    let first = ["why", "--json", "-D", "1", "--out", out, "--from", from, "--to", to];
    let rest = ["--key", key, "--deadline", deadline, "--", "chrt", "-f", "50", "./jobs"];
    latlab(dir, &[&first[..], &rest].concat())
}

/// What a run found.
pub fn detail(output: &Output) -> Value {
    let run: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(output)));
    run["parts"][0]["detail"].clone()
}

/// The probes of latlab that the kernel has.
pub fn left_behind() -> String {
    let list = tracefs().unwrap().join("uprobe_events");
    let text = std::fs::read_to_string(list).unwrap();
    text.lines().filter(|l| l.contains("latlab_")).collect()
}

/// Each end is found, the long jobs are late, and the program's own execution is the cause.
#[test]
fn spans_between_places_of_a_program_are_explained() {
    let Some(dir) = program() else { return };
    let _alone = real_time();
    let dir = dir.path();
    let cases = [
        [FROM, "uprobe:./jobs:jobs.c:30", "tid", "10ms"],
        [FROM, "usdt:./jobs:app:job_done", "tid", "10ms"],
        [FROM, "uretprobe:./jobs:answer", "tid", "10ms"],
        ["marker:job begins", "marker:job ends", "tid", "10ms"],
        ["sysret:clock_nanosleep", "syscall:clock_nanosleep", "tid", "10ms"],
    ];
    for (i, ends) in cases.into_iter().enumerate() {
        let name = format!("run{i}");
        let out = spans(dir, &name, ends);
        assert_eq!(out.status.code(), Some(2), "{ends:?}: {}", said(&out));
        let found = detail(&out);
        let task = &found["activations"][0];
        let of = |key: &str| task[key].as_u64().unwrap_or(0);
        assert_eq!(
            (task["task"].as_str(), task["release"]["from"].as_str()),
            (Some("jobs"), Some(ends[0]))
        );
        // 20 jobs take 130 ms and more.
        assert!(of("activations") >= 20 && of("late") >= 1, "{ends:?} {task:#}");
        assert!(task["late_by"]["ran_long"].as_u64() >= Some(1), "{ends:?} {task:#}");
        assert!(task["response"]["max"].as_u64() >= Some(29_900_000), "{task:#}");
        let cause = &found["explanation"]["causes"][0];
        assert_eq!(cause["mechanism"], "execution", "{ends:?} {cause:#}");
    }
    assert_eq!(left_behind(), "", "probes are removed");

    // The captures again, with another key.
    let [from, to, ..] = cases[0];
    let again = latlab(
        dir,
        &[
            "why",
            "run0",
            "--from",
            from,
            "--to",
            to,
            "--key",
            "none",
            "--deadline",
            "10ms",
            "--json",
        ],
    );
    assert!(detail(&again)["activations"][0]["late"].as_u64() >= Some(1), "{}", said(&again));
    let text = printed(&latlab(dir, &["report", "run0"]));
    assert!(
        text.contains("from uprobe:./jobs:receive") && text.contains("own execution"),
        "{text}"
    );
    assert!(text.lines().count() <= 45, "{text}");
}

/// Callbacks of a node of ROS 2, whose library is found by its name in the program that runs: 1 ms, each tenth 20 ms.
const NODE: &str = r#"#include <time.h>
#include <unistd.h>
void ros_trace_callback_start(const void *callback, int is_intra_process);
void ros_trace_callback_end(const void *callback);
static void burn(long us) {
    struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
    long end = t.tv_sec * 1000000 + t.tv_nsec / 1000 + us;
    do clock_gettime(CLOCK_MONOTONIC, &t); while (t.tv_sec * 1000000 + t.tv_nsec / 1000 < end);
}
int main(void) {
    for (int n = 1; ; n++) {
        usleep(5000);
        ros_trace_callback_start(&n, 0);
        burn(n % 10 ? 1000 : 20000);
        ros_trace_callback_end(&n);
    }
}
"#;

#[test]
fn a_preset_finds_the_callbacks_of_ros() {
    let Some(dir) = program() else { return };
    let _alone = real_time();
    let dir = dir.path();
    let library = "void ros_trace_callback_start(const void *c, int i) { __asm__ volatile(\"\" : : \"r\"(c), \"r\"(i)); }\n\
                   void ros_trace_callback_end(const void *c) { __asm__ volatile(\"\" : : \"r\"(c)); }\n";
    std::fs::write(dir.join("tracetools.c"), library).unwrap();
    std::fs::write(dir.join("node.c"), NODE).unwrap();
    let cc = |args: &[&str]| succeed(Command::new("cc").current_dir(dir).arg("-O1").args(args));
    cc(&["-shared", "-fPIC", "-o", "libtracetools.so", "tracetools.c"]);
    cc(&["-o", "node", "node.c", "-L.", "-ltracetools", "-Wl,-rpath,$ORIGIN"]);
    let mut node =
        Command::new("chrt").current_dir(dir).args(["-f", "50", "./node"]).spawn().unwrap();
    let maps = format!("/proc/{}/maps", node.id());
    wait_for("the library", Duration::from_millis(20), || {
        let maps = std::fs::read_to_string(&maps).unwrap_or_default();
        maps.contains("libtracetools").then_some(())
    });
    let args =
        ["--span", "ros2-callback", "--deadline", "10ms", "-D", "2", "--json", "--out", "run"];
    let output = latlab(dir, &[&["why", "--task", "node"], &args[..]].concat());
    node.kill().unwrap();
    node.wait().unwrap();
    let found = detail(&output);
    let task = &found["activations"][0];
    let of = |key: &str| task[key].as_u64().unwrap_or(0);
    assert!(of("activations") >= 100 && of("late") * 10 <= of("activations") + 10, "{task:#}");
    assert!(of("late") >= 5, "{task:#}");
    assert_eq!(found["explanation"]["causes"][0]["mechanism"], "execution", "{found:#}");
}

/// One span follows the other, each as long as several intervals of the recording: all are seen but the first and the last.
#[test]
fn spans_cross_the_ends_of_intervals() {
    if !is_root() || tracefs().is_none() {
        return skip("it takes root and tracefs");
    }
    let dir = tempfile::tempdir().unwrap();
    let _alone = real_time();
    let ends = ["--from", "syscall:wait4", "--to", "sysret:wait4", "--deadline", "10s"];
    let waiting = ["--", "sh", "-c", "while :; do sleep 0.9; done"];
    let args = [&["why", "--json", "-D", "5", "--out", "run"], &ends[..], &waiting].concat();
    let output = latlab(dir.path(), &args);
    let found = detail(&output);
    let response = &found["activations"][0]["response"];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{found:#}"));
    let (spans, longest) = (number(&response["sum"]), number(&response["max"]));
    let recorded = number(&found["session"]["duration_ns"]);
    assert!(spans >= recorded - 2.5 * longest, "{spans} of {recorded}: {response:#}");
}

/// After a SIGKILL the probes are in the journal, and are removed by the next start.
#[test]
fn probes_do_not_outlive_a_kill() {
    let Some(dir) = program() else { return };
    let _alone = real_time();
    let args =
        ["why", "--from", FROM, "--to", "uprobe:./jobs:answer", "-D", "60", "--out", "killed"];
    let mut why = spawn(dir.path(), &args);
    wait_for("the probes", Duration::from_millis(50), || {
        (left_behind().matches("latlab_").count() == 2).then_some(())
    });
    signal(&why, Signal::KILL);
    why.wait().unwrap();
    assert_ne!(left_behind(), "");
    let restored = latlab(dir.path(), &["doctor", "--restore"]);
    assert_eq!(left_behind(), "", "{}{}", printed(&restored), said(&restored));
}

/// Of a program that is recorded, without an end of a span, or that never sleeps.
#[test]
fn a_recording_without_a_span_or_an_activation_leaves_no_run() {
    if !is_root() || tracefs().is_none() {
        return skip("it takes root and tracefs");
    }
    let dir = tempfile::tempdir().unwrap();
    let _alone = real_time();
    let busy = ["--", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"];
    let ends = ["--from", "sched:sched_switch", "--to", "marker:no such text"];
    for (asked, reason) in [(&ends[..], "no span from "), (&[], "the task had no activation in ")] {
        let args =
            [&["why", "-D", "1", "--deadline", "1ms", "--out", "run"], asked, &busy].concat();
        let out = latlab(dir.path(), &args);
        assert_eq!(out.status.code(), Some(1), "{}", said(&out));
        assert!(said(&out).contains(reason), "{}", said(&out));
        assert!(!dir.path().join("run").exists(), "{reason}");
    }
}

#[test]
fn mistakes_in_spans_are_one_sentence_each() {
    let Some(dir) = program() else { return };
    // The probes of the other tests are not those of this one.
    let _alone = real_time();
    let cases: [(&[&str], &str); 7] = [
        (&["--from", "sched:sched_waking"], "--to"),
        (&["--from", "uprobe:./jobs:recieve", "--to", "sched:sched_waking"], "no function recieve"),
        (
            &["--from", "uprobe:./jobs:jobs.c:900", "--to", "sched:sched_waking"],
            "no code of jobs.c:900",
        ),
        (&["--from", "usdt:./jobs:app:start", "--to", "sched:sched_waking"], "app:job_done"),
        (&["--from", "uprobe:./nothing:f", "--to", "sched:sched_waking"], "No such file"),
        (&["--from", "sched:no_such", "--to", "sched:sched_waking", "-D", "1"], "no_such"),
        (
            &[
                "--from",
                "sched:sched_waking",
                "--to",
                "sched:sched_waking",
                "--key",
                "nothing",
                "-D",
                "1",
            ],
            "no field",
        ),
    ];
    for (i, (args, expected)) in cases.into_iter().enumerate() {
        let name = format!("wrong{i}");
        let out = latlab(dir.path(), &[&["why", "--out", &name], args].concat());
        let code = out.status.code();
        assert!(
            matches!(code, Some(1 | 2)) && said(&out).contains(expected),
            "{args:?} {code:?}: {}",
            said(&out)
        );
    }
    assert_eq!(left_behind(), "");
}
