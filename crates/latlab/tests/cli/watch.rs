//! `latlab watch`: a program with a known fault, watched, asked, killed and watched again.

use crate::common::{
    is_root, latlab_here as latlab, printed, real_time, said, signal, skip, spawn, tracefs,
    wait_for,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// 5 ms; each 20th job works 30 ms and leaves periods out.
const LOOP: &str = r#"
use Time::HiRes qw(clock_gettime clock_nanosleep CLOCK_MONOTONIC TIMER_ABSTIME);
$0 = "watched_loop";
sub burn { my $e = clock_gettime(CLOCK_MONOTONIC) + $_[0] / 1e6; 1 while clock_gettime(CLOCK_MONOTONIC) < $e }
my $t = clock_gettime(CLOCK_MONOTONIC); my $k = 0;
while (1) {
    $t += 0.005; $t += 0.005 while $t < clock_gettime(CLOCK_MONOTONIC);
    clock_nanosleep(CLOCK_MONOTONIC, $t * 1e9, TIMER_ABSTIME);
    burn(++$k % 20 ? 200 : 30000);
}
"#;

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn watched() -> Killed {
    let mut command = Command::new("chrt");
    command.args(["-f", "50", "taskset", "-c", "0", "perl", "-e", LOOP]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    Killed(child)
}

fn can_run() -> bool {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    is_root() && tracefs().is_some() && has("chrt") && has("taskset") && has("perl")
}

fn ask(dir: &Path, path: &str) -> Option<String> {
    let mut stream = UnixStream::connect(dir.join("watch.sock")).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text.split_once("\r\n\r\n")?.1.to_owned())
}

/// The tracing instances of a latlab.
fn instances(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("latlab-{pid}-");
    let all = std::fs::read_dir(tracefs().unwrap().join("instances")).unwrap().flatten();
    let own = all.filter(|e| e.file_name().to_string_lossy().starts_with(&prefix));
    own.map(|e| e.path()).collect()
}

fn counts(slice: &Value) -> (u64, u64) {
    let task = &slice["tasks"][0];
    let of = |key: &str| task[key].as_u64().unwrap_or(0);
    (of("activations"), of("late"))
}

#[test]
fn mistakes_are_one_sentence_each() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["watch"], "no task to watch"),
        (&["watch", "status", "--dir", path], "no watch answers"),
        (&["watch", "export", "/nonexistent/tables", "--dir", path], "no counts of a watch"),
        (&["watch", "a", "--listen", "192.0.2.1:80"], "127.0.0.0/8"),
        (&["watch", "--config", "/nonexistent/watch.toml"], "/nonexistent/watch.toml"),
        (&["watch", "a-name-that-no-thread-can-have", "--dir", path], "15 characters"),
        (&["watch", "4194305", "--dir", path], "latlab: task 4194305: there is no process"),
    ];
    for (args, expected) in cases {
        let out = latlab(args);
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        assert!(said(&out).contains(expected), "{args:?}: {}", said(&out));
    }
}

/// 5 ms; the 500th job waits for another process, which does what ANSWER says before it answers.
const WAITING: &str = r#"
use Time::HiRes qw(clock_gettime clock_nanosleep CLOCK_MONOTONIC TIMER_ABSTIME);
pipe(my $qr, my $qw); pipe(my $ar, my $aw);
if (!fork) { close $qw; $0 = "slow_answer"; sysread($qr, my $c, 1); ANSWER; syswrite($aw, "x"); exit }
close $qr; $0 = "waiting_loop";
my $t = clock_gettime(CLOCK_MONOTONIC); my $k = 0;
while (1) {
    $t += 0.005; $t += 0.005 while $t < clock_gettime(CLOCK_MONOTONIC);
    clock_nanosleep(CLOCK_MONOTONIC, $t * 1e9, TIMER_ABSTIME);
    if (++$k == 500) { syswrite($qw, "x"); sysread($ar, my $c, 1) }
}
"#;

fn waiting(answer: &str) -> Killed {
    let program = WAITING.replace("ANSWER", answer);
    let mut command = Command::new("chrt");
    command.args(["-f", "50", "perl", "-e", &program]).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    Killed(child)
}

/// A task that hangs: no activation of it ends, and that is told, captured, and in metrics and exit code.
#[test]
fn an_activation_that_never_ends_is_late() {
    if !can_run() {
        return skip("it takes root, tracefs, perl, chrt and taskset");
    }
    let _alone = real_time();
    // It ends with the loop.
    let _loop = waiting("sysread($qr, $c, 1) || exit");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let args = ["watch", "waiting_loop", "--deadline", "500ms", "--dir", path, "--budget", "100%"];
    let mut watch = Killed(spawn(dir.path(), &[&args[..], &["-D", "9", "--json"]].concat()));
    let overdue = "latlab_overdue_seconds{task=\"waiting_loop\"} ";
    let metrics = wait_for("an overdue activation", Duration::from_millis(200), || {
        let text = ask(dir.path(), "/metrics")?;
        let seconds = text.lines().find_map(|l| l.strip_prefix(overdue)?.parse::<f64>().ok())?;
        (seconds > 1.5).then_some(text)
    });
    check_metrics(&metrics);
    let status = printed(&latlab(&["watch", "status", "--dir", path]));
    assert!(status.contains("an activation is late and has not ended after"), "{status}");
    let stdout = watch.0.stdout.take();
    let stderr = watch.0.stderr.take();
    let (mut state, mut text) = (String::new(), String::new());
    stdout.unwrap().read_to_string(&mut state).unwrap();
    stderr.unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(watch.0.wait().unwrap().code(), Some(2), "{text}");
    let line = "waiting_loop: an activation of thread ";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    assert!(text.contains(" (late above 500 ms)"), "{text}");
    let state: Value = serde_json::from_str(&state).unwrap();
    assert!(state["tasks"][0]["overdue_ns"].as_u64() >= Some(2_000_000_000), "{state:#}");
    let (_, late) = counts(&state["total"]);
    let own = |c: &Value| c["judged_ns"].as_u64() >= Some(500_000_000) && c["cause"] == "wait";
    let captures = state["captures"].as_array().unwrap();
    assert!(late == 0 && captures.len() == 1 && captures.iter().all(own), "{state:#}");
}

/// An activation that takes longer than two looks is counted and captured when it ends, with what it waited for.
#[test]
fn a_wait_over_several_looks_is_late() {
    if !can_run() {
        return skip("it takes root, tracefs, perl, chrt and taskset");
    }
    let _alone = real_time();
    let _loop = waiting("select(undef, undef, undef, 2.2)");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let args = ["watch", "waiting_loop", "--deadline", "1s", "--dir", path, "--budget", "100%"];
    let out = latlab(&[&args[..], &["-D", "8", "--json"]].concat());
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    let state: Value = serde_json::from_str(&printed(&out)).unwrap();
    let (activations, late) = counts(&state["total"]);
    assert!(activations > 100 && late >= 1, "{:#}", state["total"]);
    let longest = state["total"]["tasks"][0]["response"]["max"].as_u64();
    assert!(longest >= Some(2_150_000_000), "{longest:?}");
    let captures = state["captures"].as_array().unwrap();
    let is_it = |c: &Value| c["cause"] == "wait" && c["who"] == "slow-answer";
    assert!(captures.iter().any(is_it), "{captures:#?}");
}

/// Counts, captures, metrics, the exit code; a kill loses at most a second; a second watch is refused.
#[test]
fn a_watched_loop_is_counted_and_captured_over_a_kill() {
    if !can_run() {
        return skip("it takes root, tracefs, perl, chrt and taskset");
    }
    let _alone = real_time();
    let _loop = watched();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let alarm = dir.path().join("alarm");
    let exec = format!("echo \"$LATLAB_TASK $LATLAB_CAUSE\" >> {}", alarm.display());
    let args = ["watch", "watched_loop", "--deadline", "2ms", "--dir", path, "--budget", "100%"];
    let args = [&args[..], &["--exec", &exec]].concat();
    let mut first = Killed(spawn(dir.path(), &args));
    let total = |key: &str| {
        let state: Value = serde_json::from_str(&ask(dir.path(), "/status")?).ok()?;
        (counts(&state["total"]).1 >= 3 && state["captures"][0].is_object())
            .then(|| state[key].clone())
    };
    let hour =
        wait_for("late activations and a capture", Duration::from_millis(200), || total("hour"));
    let metrics = ask(dir.path(), "/metrics").unwrap();
    assert!(
        metrics.contains("latlab_late_total{task=\"watched_loop\",by=\"ran_long\"}"),
        "{metrics}"
    );
    check_metrics(&metrics);
    let again = latlab(&args);
    assert!(said(&again).contains("a watch uses this folder"), "{}", said(&again));
    let status = latlab(&["watch", "status", "--dir", path]);
    let text = printed(&status);
    assert!(text.contains("by a timer, every 5.00 ms") && text.lines().count() <= 40, "{text}");
    // On a busy machine some of the captured activations are disturbed ones.
    wait_for("an alarm of its fault", Duration::from_millis(200), || {
        let text = std::fs::read_to_string(&alarm).ok()?;
        text.lines().any(|l| l == "watched_loop own execution").then_some(())
    });

    signal(&first.0, Signal::KILL);
    first.0.wait().unwrap();
    let out = latlab(&[&args[..], &["-D", "3", "--json"]].concat());
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).starts_with("latlab: watching "), "{}", said(&out));
    assert!(said(&out).contains(" (1 thread); state: latlab watch status"), "{}", said(&out));
    let state: Value = serde_json::from_slice(&out.stdout).unwrap();
    // In a new hour the earlier counts are in the folder of hours.
    if state["hour"]["hour"] == hour["hour"] {
        let (before, after) = (counts(&hour), counts(&state["hour"]));
        assert!(after.0 >= before.0 + 200, "{before:?} {after:?}");
        assert_eq!(state["hour"]["counters"]["starts"], 2);
    }
    let (activations, late) = counts(&state["total"]);
    assert!(activations >= 200 && late >= 5, "{state:#}");
    let files = state["captures"].as_array().unwrap().iter().filter_map(|c| c["file"].as_str());
    let own: Vec<&str> = files.filter(|f| f.ends_with("_own-execution_watched-loop.dat")).collect();
    let capture = own.first().unwrap_or_else(|| panic!("{state:#}"));
    let file = dir.path().join("captures").join(capture);
    let why = latlab(&[
        "why",
        file.to_str().unwrap(),
        "--task",
        "watched_loop",
        "--deadline",
        "2ms",
        "--json",
    ]);
    let run: Value =
        serde_json::from_slice(&why.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&why)));
    assert!(run["parts"][0]["detail"]["activations"][0]["late"].as_u64() >= Some(1), "{run:#}");
}

/// Hours of a folder as tables, read back by DuckDB: a line that a restart added, the current hour, seconds of it that a finished
/// hour has already.
#[test]
fn counts_are_tables() {
    let Some(python) = std::env::var_os("LATLAB_PYTHON") else {
        return skip("LATLAB_PYTHON names no Python with duckdb");
    };
    let dir = tempfile::tempdir().unwrap();
    let slice = |hour: &str, seq: u64, ns: u64, n: u64| {
        let task = json!({"task": "loop", "activations": n, "late": 1, "late_by": {"ran_long": 1},
            "response": {"count": n, "min": ns, "max": ns, "sum": n * ns, "buckets": [[ns, n]]}});
        let causes = json!([{"task": "loop", "cause": "idle exit", "who": "", "captures": 1}]);
        json!({"hour": hour, "seq": seq, "tasks": [task], "causes": causes}).to_string() + "\n"
    };
    std::fs::create_dir(dir.path().join("hours")).unwrap();
    let day = slice("2026-11-24T22", 10, 1_000, 5) + &slice("2026-11-24T22", 20, 2_000, 6);
    std::fs::write(dir.path().join("hours/2026-11-24.jsonl"), day).unwrap();
    let current = slice("2026-11-24T22", 20, 2_000, 6) + &slice("2026-11-24T23", 21, 1_000, 7);
    std::fs::write(dir.path().join("current.jsonl"), current).unwrap();
    let tables = dir.path().join("tables");
    let args = ["watch", "export", tables.to_str().unwrap(), "--dir", dir.path().to_str().unwrap()];
    let out = latlab(&args);
    assert!(out.status.success() && said(&out).contains("2 hours"), "{}", said(&out));
    let sql = "import duckdb
print(duckdb.sql(\"select hour, task, activations, late, late_ran_long from 'tables/hour.parquet' order by hour\").fetchall())
print(duckdb.sql(\"select time, low <= 1000 and 1000 <= high, sum(n) from 'tables/time.parquet' group by all order by all\").fetchall())
print(duckdb.sql(\"select cause, sum(captures) from 'tables/cause.parquet' group by all\").fetchall())";
    let read = Command::new(python).args(["-c", sql]).current_dir(dir.path()).output().unwrap();
    let expected =
        "[('2026-11-24T22:00:00Z', 'loop', 11, 2, 2), ('2026-11-24T23:00:00Z', 'loop', 7, 1, 1)]
[('response', False, 6), ('response', True, 12)]
[('idle exit', 3)]
";
    assert_eq!(printed(&read), expected, "{}", said(&read));
}

/// Prometheus' own parser, where `make test` has installed it.
fn check_metrics(text: &str) {
    let Some(python) = std::env::var_os("LATLAB_PYTHON") else {
        return skip("LATLAB_PYTHON names no Python with prometheus_client");
    };
    let script = "import sys\nfrom prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\nfamilies = {f.name: f for f in parse(sys.stdin.read())}\nprint(len(families), families['latlab_response_seconds'].type, families['latlab_late'].type)";
    let mut child = Command::new(python)
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}\n{text}", said(&out));
    assert!(printed(&out).ends_with("histogram counter\n"), "{}", printed(&out));
}

/// Another program stops the buffer: it is made anew, and counting goes on.
#[test]
fn a_buffer_that_others_stop_is_made_anew() {
    if !can_run() {
        return skip("it takes root, tracefs, perl, chrt and taskset");
    }
    let _alone = real_time();
    let _loop = watched();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let args = ["watch", "watched_loop", "--dir", path, "--budget", "100%", "--json", "-D", "30"];
    let mut watch = spawn(dir.path(), &args);
    let state = || serde_json::from_str::<Value>(&ask(dir.path(), "/status")?).ok();
    let counted = |n: u64| {
        wait_for("activations", Duration::from_millis(200), || {
            state().filter(|s| counts(&s["total"]).0 >= n)
        })
    };
    counted(100);
    for instance in instances(watch.id()) {
        std::fs::write(instance.join("tracing_on"), "0").unwrap();
    }
    let disturbed = wait_for("a new buffer", Duration::from_millis(200), || {
        state().filter(|s| s["total"]["counters"]["disturbed"] == 1)
    });
    let after = counts(&disturbed["total"]).0;
    counted(after + 200);
    signal(&watch, Signal::TERM);
    let status = watch.wait().unwrap();
    assert_eq!(status.code(), Some(143));
    let left = instances(watch.id());
    assert!(left.is_empty(), "{left:?}");
}

/// It does not get the CPU for so long that events are lost: then its ring buffers are larger.
#[test]
fn ring_buffers_grow_after_a_loss() {
    if !can_run() {
        return skip("it takes root, tracefs, perl, chrt and taskset");
    }
    let _alone = real_time();
    let mut command = Command::new("chrt");
    let often = LOOP.replace("0.005", "0.0002").replace(": 30000", ": 20").replace("? 200", "? 20");
    command.args(["-f", "50", "taskset", "-c", "0", "perl", "-e", &often]);
    let _loop = Killed(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(300));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let args = ["watch", "watched_loop", "--dir", path, "--budget", "100%", "--buffer", "64M"];
    let watch = spawn(dir.path(), &args);
    let state = || serde_json::from_str::<Value>(&ask(dir.path(), "/status")?).ok();
    wait_for("activations", Duration::from_millis(200), || {
        state().filter(|s| counts(&s["total"]).0 >= 1_000)
    });
    // The kernel rounds up.
    let size = || {
        let size = |instance: &PathBuf| {
            let text = std::fs::read_to_string(instance.join("per_cpu/cpu0/buffer_size_kb"));
            text.unwrap_or_default().trim().parse::<u64>().unwrap_or(0)
        };
        instances(watch.id()).iter().map(size).min().unwrap_or(0)
    };
    // Overwritten, or not recorded, on CPU 0, where the loop runs.
    let is_full = |instance: &PathBuf| {
        let text = std::fs::read_to_string(instance.join("per_cpu/cpu0/stats"));
        let is_lost = |l: &str| {
            let lost = l.strip_prefix("overrun:").or(l.strip_prefix("dropped events:"));
            lost.is_some_and(|n| n.trim() != "0")
        };
        text.unwrap_or_default().lines().any(is_lost)
    };
    signal(&watch, Signal::STOP);
    let before = size();
    wait_for("an instance that is full", Duration::from_millis(500), || {
        instances(watch.id()).iter().all(is_full).then_some(())
    });
    signal(&watch, Signal::CONT);
    assert!(before >= 1_024, "{before}");
    wait_for("larger buffers", Duration::from_millis(200), || {
        (size() > before * 3 / 2).then_some(())
    });
    wait_for("a loss that is counted", Duration::from_millis(200), || {
        state().filter(|s| s["total"]["counters"]["lost_events"].as_u64() > Some(0))
    });
    signal(&watch, Signal::TERM);
    let out = watch.wait_with_output().unwrap();
    assert!(said(&out).contains("events lost: the ring buffer"), "{}", said(&out));
}

/// A budget that recording cannot keep: less is recorded, and it is said.
#[test]
fn a_budget_that_is_too_small_makes_it_record_less() {
    if !can_run() {
        return skip("it takes root, tracefs, perl, chrt and taskset");
    }
    let _alone = real_time();
    let _loop = watched();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let args = ["watch", "watched_loop", "--dir", path, "--budget", "0.01%", "--json", "-D", "60"];
    let watch = spawn(dir.path(), &args);
    wait_for("a level that records less", Duration::from_millis(100), || {
        let state: Value = serde_json::from_str(&ask(dir.path(), "/status")?).ok()?;
        (state["level"] != "all").then_some(())
    });
    signal(&watch, Signal::TERM);
    let out = watch.wait_with_output().unwrap();
    let state: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_ne!(state["level"], "all", "{state:#}");
    assert!(said(&out).contains("recorded for captures is"), "{}", said(&out));
}
