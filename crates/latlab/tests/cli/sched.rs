//! `latlab sched` from outside: traces beside Debian's perf, experiments, bad input.

use crate::common::{
    LATLAB, fixture, instances_of, is_root, latlab, real_time, run_of, signal, skip, spawn, text,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

fn can_trace() -> bool {
    Path::new("/sys/kernel/tracing/instances").exists()
        && std::fs::read_dir("/sys/kernel/tracing/instances").is_ok()
        && is_root()
}

/// What perf recorded, as ftrace's text: the same events with the same time stamps.
fn as_ftrace(script: &str) -> String {
    let mut out = String::from("# tracer: nop\n#\n");
    for line in script.lines() {
        // `comm  pid [cpu] seconds.nanoseconds: sched:event: fields`
        if let Some(at) = line.find("sched:sched_") {
            push(&mut out, line[..at].trim_end(), &line[at + "sched:".len()..]);
        }
    }
    out
}

fn push(out: &mut String, head: &str, rest: &str) {
    let words: Vec<&str> = head.split_whitespace().collect();
    let [name @ .., pid, cpu, time] = &words[..] else { return };
    let _ = writeln!(
        out,
        "{}-{pid} {cpu} d..2. {}: {}",
        name.join(" "),
        time.trim_end_matches(':'),
        rest.trim()
    );
}

fn perf(dir: &Path, args: &[&str]) -> Option<String> {
    let out =
        Command::new("perf").current_dir(dir).args(args).stdin(Stdio::null()).output().ok()?;
    out.status.success().then(|| text(&out.stdout))
}

/// `15.488 ms` and the like: the number before ` ms`.
fn ms(cell: &str) -> f64 {
    let number = cell.trim().trim_start_matches("avg:").trim_start_matches("max:");
    number.trim().trim_end_matches("ms").trim().parse().unwrap()
}

#[test]
fn figures_are_those_of_perf_on_the_same_events() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !can_trace() {
        return skip("recording with perf takes root and tracefs");
    }
    let load = "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.02; true | cat); done; sleep 0.2";
    // As `perf sched record`, but for sched_wakeup in place of sched_waking: perf 6.1 records
    // the latter, and then counts no delay after a wake-up.
    let mut record = vec!["record", "-a", "-R", "-m", "1024", "-c", "1", "-o", "p.data"];
    for event in [
        "sched:sched_switch",
        "sched:sched_stat_runtime",
        "sched:sched_process_fork",
        "sched:sched_wakeup",
        "sched:sched_wakeup_new",
        "sched:sched_migrate_task",
    ] {
        record.extend(["-e", event]);
    }
    record.extend(["--", "sh", "-c", load]);
    if perf(dir, &record).is_none() {
        return skip("perf (linux-perf) cannot record here");
    }
    let script = perf(dir, &["script", "--ns", "-i", "p.data"]).unwrap();
    std::fs::write(dir.join("p.txt"), as_ftrace(&script)).unwrap();
    let out = latlab(dir, &["sched", "p.txt", "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let run: Value = serde_json::from_slice(&out.stdout).unwrap();
    let schedule = &run["parts"][0]["detail"]["schedule"];
    compare_latency(
        schedule,
        &script,
        &perf(dir, &["sched", "latency", "-p", "-i", "p.data"]).unwrap(),
    );
    let lines = latlab(dir, &["sched", "p.txt", "--view", "timehist", "--json"]);
    let timehist = perf(dir, &["sched", "timehist", "-i", "p.data"]).unwrap();
    compare_timehist(&text(&lines.stdout), &timehist);
}

/// Run time, number of waits, mean and longest wait of each task.
///
/// Left out are tasks that were preempted inside the kernel (`R+`, of which perf 6.1 knows
/// nothing: it counts no wait then), those whose first wait began before the recording (perf takes
/// the moment at which it first hears of a task for its beginning), and those beside which a switch
/// is missing: of some tasks of a machine nothing can be recorded, and perf goes on counting.
fn compare_latency(schedule: &Value, script: &str, table: &str) {
    let mut ours: BTreeMap<i64, Vec<&Value>> = BTreeMap::new();
    for task in schedule["tasks"].as_array().unwrap() {
        ours.entry(task["tid"].as_i64().unwrap()).or_default().push(task);
    }
    let in_kernel = |tid: i64| {
        let of = format!(" prev_pid={tid} ");
        script.lines().any(|l| l.contains(&of) && l.contains("prev_state=R+"))
    };
    let mut compared = 0;
    for line in table.lines().filter(|l| l.contains("avg:")) {
        let cells: Vec<&str> = line.split('|').collect();
        let tid: i64 = cells[0].trim().rsplit(':').next().unwrap().trim().parse().unwrap();
        // A thread id that two tasks had is one task for perf.
        let Some([task]) = ours.get(&tid).map(Vec::as_slice) else { continue };
        if task["unknown_delays"] != 0 || task["doubtful"] != 0 || in_kernel(tid) {
            continue;
        }
        let ns = |v: &Value| v.as_f64().unwrap_or(0.0) / 1e6;
        let near = |ours: f64, cell: &str| (ours - ms(cell)).abs() <= 0.0011;
        assert!(near(ns(&task["charged_ns"]), cells[1]), "run time: {line}\n{task}");
        let count = task["delay"]["count"].as_u64().unwrap();
        assert_eq!(cells[2].trim().parse::<u64>().unwrap(), count, "switches: {line}\n{task}");
        if count > 0 {
            let mean = ns(&task["delay"]["sum_ns"]) / count as f64;
            assert!(near(mean, cells[3]), "mean: {line}\n{task}");
            assert!(near(ns(&task["delay"]["max_ns"]), cells[4]), "max: {line}\n{task}");
        }
        compared += 1;
    }
    assert!(compared >= 10, "{compared} tasks compared:\n{table}");
}

/// Run and wait time of every slice.
fn compare_timehist(ours: &str, perf: &str) {
    let mut slices: BTreeMap<(u64, u64, u64), Value> = BTreeMap::new();
    for line in ours.lines() {
        let slice: Value = serde_json::from_str(line).unwrap();
        let time = (slice["time_ns"].as_u64().unwrap() + 500) / 1000;
        let key = |field: &str| slice[field].as_u64().unwrap();
        slices.insert((time, key("cpu"), key("tid")), slice);
    }
    let mut compared = 0;
    for line in perf.lines() {
        // time [cpu] task[tid] wait delay run; names may hold blanks.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [time, cpu, .., wait, delay, run] = words[..] else { continue };
        // The thread id is the number behind the name: `name[7]`, `name[7/6]`.
        let number = line.rsplit_once('[').and_then(|(_, id)| id.split(['/', ']']).next());
        let Some(tid) = number.and_then(|n| n.parse::<u64>().ok()) else { continue };
        let (Ok(time), Ok(run)) = (time.parse::<f64>(), run.parse::<f64>()) else { continue };
        let (wait, delay): (f64, f64) = (wait.parse().unwrap(), delay.parse().unwrap());
        let cpu: u64 = cpu.trim_matches(['[', ']']).parse().unwrap();
        let at = (time * 1e6).round() as u64;
        let Some(slice) = (at - 1..=at + 1).find_map(|t| slices.get(&(t, cpu, tid))) else {
            continue;
        };
        // Of a task that has just ended perf knows no thread id (-1), and mixes up those that have.
        if run == 0.0
            || slice["doubtful"] == true
            || line.contains("<idle>")
            || line.contains("[-1")
        {
            continue;
        }
        let ms = |key: &str| slice[key].as_f64().map(|ns| ns / 1e6);
        assert!((ms("run_ns").unwrap() - run).abs() <= 0.0011, "{line}\n{slice}");
        if let (Some(off), true) = (ms("off_ns"), wait > 0.0) {
            assert!((off - wait).abs() <= 0.0011, "{line}\n{slice}");
        }
        // perf shows the delay after wake-ups only.
        if let (Some(ready), true) = (ms("ready_ns"), slice["woken"] == true && delay > 0.0) {
            assert!((ready - delay).abs() <= 0.0011, "{line}\n{slice}");
        }
        compared += 1;
    }
    assert!(compared >= 50, "{compared} slices compared");
}

#[test]
fn a_trace_is_shown_in_every_view() {
    let dir = tempfile::tempdir().unwrap();
    let file = fixture("trace/f7-zstd.dat");
    let out = latlab(dir.path(), &["sched", &file, "--details"]);
    let page = text(&out.stdout);
    assert!(out.status.success(), "{}", text(&out.stderr));
    for words in ["Tasks by run time", "Who preempts whom", "Jain's index"] {
        assert!(page.contains(words), "{words} is not in\n{page}");
    }
    let out = latlab(dir.path(), &["sched", &file, "--view", "timehist"]);
    assert!(text(&out.stdout).lines().count() > 50 && text(&out.stdout).contains("preempted by"));
    let out = latlab(dir.path(), &["sched", &file, "--view", "map"]);
    assert!(text(&out.stdout).contains(" = "), "{}", text(&out.stdout));
}

#[test]
fn lost_events_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["sched", &fixture("trace/latlab-v7-none-lost.dat")]);
    assert!(text(&out.stdout).contains("Lost events in"), "{}", text(&out.stdout));
}

#[test]
fn what_cannot_be_analysed_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("none"),
        "  sh-1 [000] d..2. 1.5: irq_handler_entry: irq=1 name=x\n",
    )
    .unwrap();
    std::fs::write(dir.path().join("bad"), [0u8; 64]).unwrap();
    for (args, words) in [
        (&["sched", "none"][..], "none: no format of sched_switch"),
        (&["sched", "bad"], "bad: "),
        (&["sched", "absent"], "absent cannot be opened"),
        (&["sched", &fixture("trace/f6.dat"), "--to", "0.1"], "no sched_switch events"),
        (&["sched", &fixture("trace/f6.dat"), "--from", "x"], "--from x: not a time"),
        (&["sched", "--policy", "rr", "--prio", "0"], "--prio 0: real-time priorities are 1 to 99"),
        (
            &["sched", "--policy", "rr", "--prio", "100"],
            "--prio 100: real-time priorities are 1 to 99",
        ),
        (&["sched", "--cpu", "9999"], "--cpu 9999: no such CPU"),
        (&["timer", "absent"], "absent cannot be opened"),
        (&["timer", &fixture("trace/mark6.dat")], "no events of timers or interrupts"),
    ] {
        let out = latlab(dir.path(), args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
        assert!(said.contains("hint: ") && !said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn an_experiment_is_made_and_judged() {
    let dir = tempfile::tempdir().unwrap();
    if !can_trace() {
        return skip("an experiment takes root and tracefs");
    }
    let _alone = real_time();
    let args = [
        "sched",
        "--matrix",
        "--only",
        "cpu-other",
        "--only",
        "io-fifo",
        "-D",
        "600ms",
        "--out",
        "r",
    ];
    let child = spawn(dir.path(), &args);
    let pid = child.id();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("fair-shares"), "{}", text(&out.stdout));
    let run = run_of(&dir.path().join("r"));
    let details: Vec<_> = (run.parts.iter())
        .filter_map(|p| match &p.detail {
            Some(latlab_model::run::Detail::Sched(d)) => Some(d),
            _ => None,
        })
        .collect();
    assert!(details.iter().map(|d| d.expectations.len()).sum::<usize>() >= 4);
    assert!(!details[0].expectations.is_empty() && !details[0].schedule.slices.is_empty());
    // Nothing is left behind.
    let left = instances_of(Path::new("/sys/kernel/tracing"), pid);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn refused_real_time_priorities_are_said_with_what_to_do() {
    if !can_trace() {
        return skip("giving up privileges takes root");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("setpriv");
    // Still root for tracefs, but without the right to real-time priorities.
    command.args(["--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"]);
    command.args(["prlimit", "--rtprio=0", LATLAB]);
    command.args(["sched", "--policy", "fifo", "-D", "200ms"]);
    let Ok(out) = command.current_dir(dir.path()).stdin(Stdio::null()).output() else {
        return skip("setpriv (util-linux) is not here");
    };
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("the kernel refuses SCHED_FIFO priority 90"), "{said}");
    assert!(said.contains("hint: "), "{said}");
}

/// The list of this kernel's events without some of them, in a mount namespace of the program's own.
#[test]
fn a_kernel_without_an_event_is_told_or_done_without() {
    if !can_trace() {
        return skip("a list of events of its own takes root and tracefs");
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |without: &str| {
        let list = "/sys/kernel/tracing/available_events";
        let script = format!(
            "grep -v {without} {list} > events && mount --bind events {list} && exec \"$0\" sched -D 300ms --json"
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script, LATLAB]).current_dir(dir.path());
        command.stdin(Stdio::null()).output().unwrap()
    };
    let out = run("sched:sched_switch");
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("no event sched:sched_switch") && said.contains("hint: "), "{said}");

    let out = run("sched:sched_stat_runtime");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let run: Value = serde_json::from_slice(&out.stdout).unwrap();
    let note = &run["parts"][0]["detail"]["scenario"]["notes"][0];
    assert_eq!(note["id"], "sched.missing-events", "{note}");
    assert_eq!(note["values"]["events"][0], "sched:sched_stat_runtime", "{note}");
}

#[test]
fn an_interrupted_experiment_keeps_what_it_has() {
    if !can_trace() {
        return skip("an experiment takes root and tracefs");
    }
    let dir = tempfile::tempdir().unwrap();
    let args = ["sched", "--matrix", "--only", "cpu-other", "-D", "60", "--out", "r"];
    let mut child = spawn(dir.path(), &args);
    // The recording exists when the tasks are at work.
    let capture = dir.path().join("r/captures/cpu-other.dat");
    for _ in 0..300 {
        if capture.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    std::thread::sleep(std::time::Duration::from_secs(3));
    signal(&child, rustix::process::Signal::INT);
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(130));
    let run = run_of(&dir.path().join("r"));
    assert_eq!((run.complete, run.stopped_by.as_deref()), (false, Some("SIGINT")));
    assert!(run.parts.iter().any(|p| p.detail.is_some()));
}

#[test]
fn the_tick_of_this_machine_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["timer", "-D", "1500ms", "-i", "500ms", "--json", "--out", "r"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let run: Value = serde_json::from_slice(&out.stdout).unwrap();
    let live = &run["parts"][0]["detail"]["live"];
    if let Some(config) = live["config_hz"].as_u64() {
        assert_eq!(live["hz"].as_u64(), Some(config), "{live}");
    }
    assert!(live["interrupts"].as_array().is_some_and(|i| !i.is_empty()));
    if can_trace() {
        let trace = &run["parts"][0]["detail"]["trace"];
        assert!(trace["functions"].as_array().is_some_and(|f| !f.is_empty()), "{live}");
        assert!(trace["softirqs"].as_array().is_some_and(|f| !f.is_empty()));
    }
    let out = latlab(dir.path(), &["timer", "--top", "-D", "300ms", "-i", "200ms"]);
    assert!(text(&out.stdout).contains("Interrupts"), "{}", text(&out.stdout));
}
