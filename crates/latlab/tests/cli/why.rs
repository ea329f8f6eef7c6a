//! `latlab why` as a user meets it: a real cause on this kernel is named, nonsense is refused in a sentence.

use crate::common::{
    fixture, for_everybody, instances_of, is_root, latlab_here as latlab, printed, real_time, said,
    skip, spawn,
};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A shell that counts for some milliseconds on CPU 0 now and then, as a real-time task above the
/// measured one. It counts, and nobody stops it: a `timeout` of the same priority never would.
struct Hog(Child);

impl Hog {
    fn start() -> Option<Self> {
        let script =
            "while :; do i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done; sleep 0.0973; done";
        Command::new("chrt")
            .args(["-f", "60", "taskset", "-c", "0", "sh", "-c", script])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()
            .map(Self)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(output: &Output) -> Value {
    let stderr = said(output);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"))
}

/// The cause in which the hog's shell is named as a task of higher priority.
fn hog_cause(run: &Value) -> Option<&Value> {
    let causes = run["parts"][0]["detail"]["explanation"]["causes"].as_array()?;
    causes.iter().find(|c| c["mechanism"] == "higher-priority" && c["who"] == "sh")
}

#[test]
fn a_task_of_higher_priority_is_named_here_and_from_the_captures() {
    if !is_root() {
        return skip("tracing and real-time priorities need root");
    }
    let _alone = real_time();
    let Some(_hog) = Hog::start() else { return skip("chrt and taskset (util-linux) are missing") };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let out = out.to_str().unwrap();
    let wakeup = ["-a", "0", "-t", "1", "-p", "50", "-q", "-D", "6s"];
    let why = ["why", "--limit", "1500us", "--trace", "events", "--json", "--out", out];
    let child = spawn(dir.path(), &[&why[..], &wakeup[..]].concat());
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "the limit was exceeded");
    let hunted = run(&output);
    let cause = hog_cause(&hunted)
        .unwrap_or_else(|| panic!("{:#}", hunted["parts"][0]["detail"]["explanation"]["causes"]));
    assert!(cause["part_of"].as_array().unwrap().len() >= 3, "{cause:#}");
    // 99 less sched_priority 60.
    assert_eq!(cause["prio"], 39);
    for window in hunted["parts"][0]["detail"]["windows"].as_array().unwrap() {
        let shares = window["shares"].as_array().unwrap().iter();
        let sum: u64 = shares.map(|s| s[1]["ns"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), window["latency_ns"].as_u64(), "the time budget adds up");
    }

    let again = run(&latlab(&["why", "--json", out]));
    assert!(hog_cause(&again).is_some(), "the captures alone say the same");
    let left = instances_of(Path::new("/sys/kernel/tracing"), pid);
    assert!(left.is_empty(), "{left:?}");
}

/// A thread on CPU 1 wakes the measured one on CPU 0, where the hog runs.
#[test]
fn wake_ups_by_a_call_from_another_cpu_are_explained() {
    if !is_root() {
        return skip("tracing and real-time priorities need root");
    }
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skip("it needs two CPUs");
    }
    let _alone = real_time();
    let Some(_hog) = Hog::start() else { return skip("chrt and taskset (util-linux) are missing") };
    let dir = tempfile::tempdir().unwrap();
    let why = ["why", "--by", "pipe", "--limit", "1500us", "--trace", "events", "--json"];
    let wakeup = ["-a", "0,1", "-p", "50", "-q", "-D", "8s"];
    let hunted =
        run(&spawn(dir.path(), &[&why[..], &wakeup[..]].concat()).wait_with_output().unwrap());
    let causes = &hunted["parts"][0]["detail"]["explanation"]["causes"];
    let cause = hog_cause(&hunted).unwrap_or_else(|| panic!("{causes:#}"));
    assert!(cause["part_of"].as_array().unwrap().len() >= 3, "{cause:#}");
    // The thread that calls holds no lock.
    assert!(causes.as_array().unwrap().iter().all(|c| c["mechanism"] != "lock"), "{causes:#}");
}

/// What is told of a capture that was made elsewhere.
fn explained(file: &str) -> Value {
    let trace = fixture(&format!("trace/{file}"));
    run(&latlab(&["why", "--json", &trace]))["parts"][0]["detail"].clone()
}

#[test]
fn a_capture_of_trace_cmd_with_the_marker_of_cyclictest_is_explained() {
    let detail = explained("cyclictest-mark.dat");
    let cause = &detail["explanation"]["causes"][0];
    assert_eq!(cause["mechanism"], "hrtimer-handler", "{cause:#}");
    assert_eq!(cause["who"], "on_hrtimer [latlab_faults]");
    // The handler computes for 300 µs.
    let size = cause["size_ns"].as_f64().unwrap();
    assert!((290_000.0..310_000.0).contains(&size), "{size}");
    let late: Vec<&Value> =
        detail["windows"].as_array().unwrap().iter().filter(|w| w["late"] == true).collect();
    assert_eq!(late.len(), 1);
    // `hit latency threshold (240 > 150)`, in whole µs.
    assert_eq!(late[0]["latency_ns"], 240_000);
    assert_eq!(cause["confidence"], "medium", "one late wake-up is an anecdote");
}

/// A timer's function sends its own CPU an NMI, whose handler computes for 930 µs.
#[test]
fn an_nmi_is_named_with_its_length_and_not_what_it_interrupted() {
    let detail = explained("nmi7-x86_64.dat");
    let cause = &detail["explanation"]["causes"][0];
    assert_eq!((&cause["mechanism"], &cause["who"]), (&"nmi".into(), &"NMI".into()), "{cause:#}");
    let size = cause["size_ns"].as_f64().unwrap();
    assert!((900_000.0..960_000.0).contains(&size), "{size}");
}

/// CPU 1 has a function called on CPU 0, which computes for 13 or 19 ms in the interrupt: by `csd_queue_cpu` and
/// `ipi_send_cpu` of Linux 6.12, and `ipi_raise` of 6.1 on ARM, which has no function.
#[test]
fn an_interrupt_of_another_cpu_is_a_cause_with_its_sender() {
    for (file, who, ns, function) in [
        ("ipi7-x86_64.dat", "call_function_single", 13e6, "function_body [latlab_faults]"),
        ("ipi7-armv7.dat", "Function call interrupts", 19.4e6, ""),
    ] {
        let detail = explained(file);
        let cause = &detail["explanation"]["causes"][0];
        assert_eq!((&cause["mechanism"], &cause["who"]), (&"ipi".into(), &who.into()), "{cause:#}");
        let size = cause["size_ns"].as_f64().unwrap();
        assert!((0.95 * ns..1.1 * ns).contains(&size), "{size}");
        let facts = cause["evidence"].as_array().unwrap();
        let sent = facts.iter().find(|f| f["fact"] == "ipi_sender").expect("its sender");
        let expected = serde_json::json!({ "cpu": 1, "task": "fault", "function": function });
        assert_eq!(sent["sender"], expected, "{file}");
    }
    let trace = fixture("trace/ipi7-x86_64.dat");
    let text = printed(&latlab(&["why", &trace]));
    assert!(text.contains("sent by CPU 1, fault, to call function_body [latlab_faults]"), "{text}");
}

#[test]
fn the_text_of_function_graph_names_the_interrupt_and_its_functions_and_nothing_else() {
    let detail = explained("cyclictest-mark-graph.txt");
    let causes = detail["explanation"]["causes"].as_array().unwrap();
    let cause = &causes[0];
    assert_eq!(cause["mechanism"], "interrupt-handler", "{cause:#}");
    let functions = cause["functions"].as_array().unwrap();
    let spin = functions.iter().find(|f| f["function"] == "spin_for").unwrap();
    assert_eq!(spin["late_calls"], 37.0);
    // When the task was woken is not in such a text, so who should have run is not known.
    assert!(causes[1..].iter().all(|c| c["mechanism"] == "unexplained"), "{causes:#?}");
}

/// rtla's own trace: two lines an activation and osnoise's events, and no scheduler event.
#[test]
fn a_trace_of_rtla_timerlat_is_explained_by_what_osnoise_heard() {
    let trace = &fixture("trace/rtla-timerlat.txt");
    let output = latlab(&["why", "--json", "--limit", "150us", trace]);
    let detail = run(&output)["parts"][0]["detail"].clone();
    let cause = &detail["explanation"]["causes"][0];
    assert_eq!(cause["mechanism"], "interrupt-handler", "{cause:#}");
    assert_eq!(cause["who"], "arch_timer", "the handler of 300 µs ran in the timer's interrupt");
    let size = cause["size_ns"].as_f64().unwrap();
    assert!((290_000.0..320_000.0).contains(&size), "{size}");
    let windows = detail["windows"].as_array().unwrap();
    let (late, on_time): (Vec<&Value>, Vec<&Value>) =
        windows.iter().partition(|w| w["late"] == true);
    assert_eq!((late.len(), on_time.len()), (1, 10));
    // `thread timer_latency 188320 ns`.
    assert_eq!(late[0]["latency_ns"], 188_320);
    assert_eq!(cause["confidence"], "medium", "one late wake-up is an anecdote");
}

#[test]
fn a_capture_that_was_cut_off_is_said_to_be_damaged() {
    let whole = fixture("trace/cyclictest-mark.dat");
    let bytes = std::fs::read(whole).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.dat");
    std::fs::write(&cut, &bytes[..bytes.len() - 700]).unwrap();
    let output = latlab(&["why", "--json", "--limit", "1ms", cut.to_str().unwrap()]);
    // The options at the end say where the buffers are: without them there is no event.
    assert_eq!(output.status.code(), Some(1));
    let stderr = said(&output);
    assert!(stderr.contains("cut.dat (damaged: ") && stderr.lines().count() == 2, "{stderr}");
}

#[test]
fn a_load_that_is_taken_away_takes_the_excess_along() {
    if !is_root() {
        return skip("tracing and real-time priorities need root");
    }
    let _alone = real_time();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let script = "while :; do i=0; while [ $i -lt 8000 ]; do i=$((i+1)); done; sleep 0.0373; done";
    let wakeup =
        ["-a", "0", "-t", "1", "-p", "50", "-q", "-D", "6s", "--test-mitigation", "--json"];
    let why = ["why", "--limit", "3ms", "--trace", "events", "--out", out.to_str().unwrap()];
    let script = format!("exec chrt -f 60 taskset -c 0 sh -c '{script}'");
    let load = ["--load-command", &script];
    let hunted = run(&latlab(&[&why[..], &wakeup[..], &load[..]].concat()));
    let tests = hunted["parts"][0]["detail"]["mitigation_tests"].as_array().unwrap();
    let test = tests.iter().find(|p| p["remedy"]["id"] == "why.test-load-stopped").unwrap();
    // Three runs on a host with a load average of 10: 0.99 to 1, intervals from 0.87 on. What else is late
    // there is late with and without the load.
    let effect = &test["effect"];
    assert!(effect["gone"].as_f64().unwrap() > 0.8, "{test:#}");
    assert!(effect["interval"][0].as_f64().unwrap() > 0.5, "{test:#}");
    assert_eq!(test["effect"]["pairs"], 6);
}

#[test]
fn nonsense_is_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let not_a_trace = dir.path().join("words.dat");
    std::fs::write(&not_a_trace, "nothing of the kind").unwrap();
    let cases: [(&[&str], &str); 16] = [
        (&["why", not_a_trace.to_str().unwrap()], "words.dat"),
        (&["why", "/no/such.dat"], "/no/such.dat"),
        (&["why", dir.path().to_str().unwrap()], "no captures"),
        (&["why", "--limit", "0"], "--limit 0"),
        (&["why", "--limit", "soon"], "--limit soon"),
        (&["why", "--window", "5..3"], "--window 5..3"),
        (&["why", "--deadline", "1ms"], "--deadline"),
        (&["why", "--deadline", "1ms", "trace.dat"], "--deadline"),
        (&["why", "--period", "1ms"], "--period: needs --task"),
        (&["why", "--period", "1ms", "trace.dat"], "--period: needs --task"),
        (
            &["why", "--period", "0", "--task", "latlab"],
            "--period 0: the period must be above zero",
        ),
        (&["why", "--task", "a", "--", "true"], "--task a: not available with a command"),
        (&["why", "--window", "1us..5us", "trace.dat"], "--window: not available with files"),
        (&["why", "--map", "--window", "1us..5us", "trace.dat"], "--window: not available"),
        (&["why", "--task", "no-such-thread"], "--task no-such-thread: no thread"),
        (&["why", "--task", "/no/such/group"], "--task /no/such/group: no such control group"),
    ];
    for (args, names) in cases {
        let output = latlab(args);
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains(names) && stderr.lines().count() <= 2, "{args:?}: {stderr}");
    }
}

#[test]
fn a_task_that_never_wakes_is_told_with_those_that_do() {
    let trace = &fixture("trace/cyclictest-mark.dat");
    let output = latlab(&["why", "--task", "control_loop", trace]);
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("no wake-up of control_loop in "), "{stderr}");
    assert!(stderr.contains("hint: tasks that wake up in it: cyclictest"), "{stderr}");
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
}

/// Nothing was explained: no run is left, and a folder that was there before is as it was.
#[test]
fn a_file_without_an_activation_or_a_span_leaves_no_run() {
    let trace = &fixture("trace/cyclictest-mark.dat");
    let dir = tempfile::tempdir().unwrap();
    let (new, old) = (dir.path().join("new"), dir.path().join("old"));
    std::fs::create_dir(&old).unwrap();
    let deadline = ["--deadline", "1ms"];
    let activation = [&["--task", "control_loop"][..], &deadline].concat();
    let ends = ["--from", "irq:irq_handler_entry", "--to", "marker:no such text"];
    let span = [&ends[..], &deadline].concat();
    for (asked, reason) in [(activation, "no activation of control_loop"), (span, "no span from ")]
    {
        for out in [&new, &old] {
            let out = out.to_str().unwrap();
            let output = latlab(&[&["why", trace, "--out", out], &asked[..]].concat());
            let stderr = said(&output);
            assert_eq!(output.status.code(), Some(1), "{stderr}");
            assert!(stderr.contains(reason), "{stderr}");
        }
        assert!(!new.exists(), "{reason}");
        assert_eq!(std::fs::read_dir(&old).unwrap().count(), 0, "{reason}");
    }
}

/// One from an ARM machine with 6.1, one from a PC with another kernel.
#[test]
fn captures_of_different_kernels_are_not_mixed_in_silence() {
    let (arm, pc) = (fixture("trace/cyclictest-mark.dat"), fixture("trace/f7-zstd.dat"));
    let run = run(&latlab(&["why", "--json", &arm, &pc]));
    let finding = &run["parts"][0]["findings"][0];
    assert_eq!(finding["id"], "why.mixed-kernels", "{finding:#}");
    assert_eq!(finding["values"]["kernels"].as_array().map(Vec::len), Some(2), "{finding:#}");
}

#[test]
fn a_trace_without_a_late_wake_up_claims_no_cause() {
    let trace = &fixture("trace/f7-zstd.dat");
    let output = latlab(&["why", "--json", "--limit", "10s", trace]);
    assert!(output.status.success(), "{}", said(&output));
    let explanation = &run(&output)["parts"][0]["detail"]["explanation"];
    assert_eq!(explanation["causes"].as_array().map(Vec::len), Some(0));
    let contrast = &explanation["contrast"];
    assert_eq!((contrast["late"].as_u64(), contrast["on_time"].as_u64()), (Some(0), Some(4)));
}

/// Shorter than what the history of a capture, or a block of the calibration, would like to have.
#[test]
fn a_hunt_of_a_few_milliseconds_ends_in_order() {
    if !is_root() {
        return skip("tracing and real-time priorities need root");
    }
    let dir = tempfile::tempdir().unwrap();
    for length in ["1ms", "60ms"] {
        let out = dir.path().join(length);
        let args = ["why", "--trace", "events", "--json", "-q", "-D", length, "--out"];
        let output = latlab(&[&args[..], &[out.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", said(&output));
        let session = &run(&output)["parts"][0]["detail"]["session"];
        assert!(session["wakeups"].is_u64(), "{session:#}");
    }
}

/// Nobody may trace, but anybody may measure.
#[test]
fn without_a_trace_late_wake_ups_are_counted_and_no_cause_is_named() {
    if !is_root() {
        return skip("only root can become nobody");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let binary = for_everybody(dir.path());
    let why = |more: &[&str]| {
        let usual = ["why", "--limit", "1us", "-p", "0", "-i", "1000", "-D", "1"];
        let mut command = Command::new(&binary);
        command.current_dir(dir.path()).args(usual).args(more).uid(65_534).gid(65_534);
        command.output().expect("latlab starts")
    };
    let output = why(&["--json", "--out", "r"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let parts: Vec<&str> =
        run["parts"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(parts, ["why", "wakeup"]);
    let first = &run["parts"][0]["findings"][0];
    assert_eq!(first["id"], "why.no-trace");
    assert_eq!(first["values"]["limit"]["ns"], 1000.0, "{first}");
    let reason = first["values"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("tracing needs root"), "{first}");

    // Who asks for a trace is told that there is none.
    let output = why(&["--trace", "events", "--out", "s"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).starts_with("latlab: tracing needs root"));
}

/// A module of the fixture's kernel, as far as names go: its lines are told, another kernel's are not.
#[test]
fn the_line_of_a_named_function_comes_from_debug_information() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("latlab_faults.c");
    let build = |name: &str, vermagic: &str, options: &[&str]| {
        let text = format!(
            "__attribute__((section(\".modinfo\"), used)) static const char m[] = \"vermagic={vermagic} SMP\";\n\
             static int on_hrtimer(int x)\n{{\n  return x;\n}}\nint (*f)(int) = on_hrtimer;\n"
        );
        std::fs::write(&source, text).unwrap();
        let out = dir.path().join(name);
        let cc =
            Command::new("cc").args(["-c", "-o"]).arg(&out).args(options).arg(&source).status();
        cc.is_ok_and(|s| s.success()).then(|| out.to_str().unwrap().to_owned())
    };
    let trace = &fixture("trace/cyclictest-mark.dat");
    let kernel = explained("cyclictest-mark.dat")["captures"][0]["kernel"].clone();
    let Some(kernel) = kernel.as_str() else { panic!("the fixture tells no kernel") };
    let Some(good) = build("latlab_faults.ko", kernel, &["-g"]) else {
        return skip("no C compiler");
    };
    let told = |file: &str| latlab(&["why", "--json", "--vmlinux", file, trace]);
    let first = run(&told(&good))["parts"][0]["findings"][0].clone();
    let evidence = first["evidence"].as_array().unwrap();
    let place =
        evidence.iter().find(|e| e["id"] == "source-line").unwrap_or_else(|| panic!("{first:#}"));
    let line = format!("{}:2", source.display());
    assert_eq!(place["value"], serde_json::json!(["on_hrtimer", line]));
    assert_eq!(place["source"], good.as_str());

    let other = build("latlab_faults.ko", "5.10.0-other", &["-g"]).unwrap();
    let stripped = build("stripped.ko", kernel, &["-g0"]).unwrap();
    for (file, why) in [
        (other.as_str(), format!("kernel 5.10.0-other; the captures are of kernel {kernel}")),
        (stripped.as_str(), "no debug information (DWARF)".into()),
        (trace, "not an ELF file".into()),
        ("/nowhere/vmlinux", "No such file".into()),
    ] {
        let output = told(file);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&why) && said.contains(file) && said.lines().count() <= 2, "{said}");
    }
}

/// The limit, the machine and the counters of a run decide what is said of its captures.
#[cfg(feature = "host")]
#[test]
fn a_damaged_run_beside_captures_is_refused_and_none_is_not_needed() {
    let t = tempfile::tempdir().unwrap();
    let captures = t.path().join("run/captures");
    std::fs::create_dir_all(&captures).unwrap();
    std::fs::copy(fixture("trace/cyclictest-mark.dat"), captures.join("0.dat")).unwrap();
    let why = || crate::common::latlab(t.path(), &["why", "run"]);
    assert!(why().status.success(), "{}", said(&why()));
    std::fs::write(t.path().join("run/run.json"), "{\"schema_version\": 2, \"parts\": [").unwrap();
    assert_eq!(why().status.code(), Some(1), "{}", printed(&why()));
    assert!(said(&why()).starts_with("latlab: run/run.json: "), "{}", said(&why()));
}

/// The texts of SQL in the reference read the lines of `--map`.
#[cfg(feature = "host")]
#[test]
fn documented_questions_about_captures_are_answered() {
    let Some(python) = std::env::var_os("LATLAB_PYTHON") else {
        crate::common::skip("LATLAB_PYTHON names no Python with duckdb");
        return;
    };
    let t = tempfile::tempdir().unwrap();
    let files = ["cyclictest-mark.dat", "nmi7-x86_64.dat", "rt-load.dat"]
        .map(|name| fixture(&format!("trace/{name}")));
    // One capture twice: its group has two.
    std::fs::copy(&files[0], t.path().join("again.dat")).unwrap();
    let mut args = vec!["why", "--map", "--limit", "100us", "again.dat"];
    args.extend(files.iter().map(String::as_str));
    let rows = crate::common::latlab(t.path(), &args);
    std::fs::write(t.path().join("rows.jsonl"), &rows.stdout).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/why.md");
    let page = std::fs::read_to_string(page).unwrap();
    let texts = page.split("```sql\n-- duckdb\n").skip(1);
    let answers: Vec<String> = (texts.map(|text| text.split("```").next().unwrap()))
        .map(|sql| {
            let code = "import duckdb, sys\nfor r in duckdb.sql(sys.argv[1]).fetchall(): print(*r)";
            let out = Command::new(&python)
                .args(["-c", code, sql])
                .current_dir(t.path())
                .output()
                .unwrap();
            assert!(out.status.success(), "{sql}: {}", said(&out));
            printed(&out)
        })
        .collect();
    assert_eq!(answers.len(), 2, "{answers:?}");
    let groups = &answers[1];
    let first = groups.lines().next().unwrap_or_default();
    assert!(first.starts_with("why.hrtimer-handler on_hrtimer [latlab_faults] 2 1 "), "{groups}");
    let of_group = ["again.dat", "cyclictest-mark.dat"];
    assert!(of_group.iter().any(|f| first.ends_with(f)), "{groups}");
    assert!(groups.contains("why.nmi NMI 1 1 "), "{groups}");
}

#[cfg(feature = "host")]
#[test]
fn a_corrupt_capture_costs_its_own_line_only() {
    let t = tempfile::tempdir().unwrap();
    for i in 0..3 {
        let name = format!("{i}.dat");
        std::fs::copy(fixture("trace/cyclictest-mark.dat"), t.path().join(name)).unwrap();
    }
    std::fs::write(t.path().join("bad.dat"), b"\x17\x08Dtracing, and then no trace").unwrap();
    let files = ["0.dat", "bad.dat", "1.dat", "missing.dat", "2.dat"];
    let out = crate::common::latlab(t.path(), &[&["why", "--map"], &files[..]].concat());
    assert!(out.status.success(), "{}", said(&out));
    let mut rows: Vec<serde_json::Value> =
        crate::common::printed(&out).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    rows.sort_by_key(|r| r["capture"].to_string());
    let read = |r: &&serde_json::Value| r.get("error").is_none();
    assert_eq!((rows.len(), rows.iter().filter(read).count()), (5, 3), "{rows:?}");
    assert!(rows[0]["late"].as_u64().unwrap() > 0, "{}", rows[0]);
    assert!(!rows[0]["causes"].as_array().unwrap().is_empty(), "{}", rows[0]);
    // A line depends on its capture alone.
    let alone = crate::common::latlab(t.path(), &["why", "--map", "0.dat"]);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&crate::common::printed(&alone)).unwrap(),
        rows[0]
    );
    // Nothing that can be read is an error.
    let out = crate::common::latlab(t.path(), &["why", "--map", "bad.dat"]);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(crate::common::printed(&out).lines().count(), 1);
}

/// A damaged file whose events go back by 8 s between its pages: events are in order of time, and every wake-up has its parts.
#[test]
fn a_trace_whose_time_goes_back_is_analysed_in_order_of_time() {
    let file = fixture("../fuzz/seeds/analyses/time-goes-back");
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run").display().to_string();
    let out = latlab(&["why", &file, "--out", &run]);
    assert!(out.status.success(), "{}", said(&out));
    assert!(printed(&out).contains("1 of 61 wake-ups late"), "{}", printed(&out));
}
