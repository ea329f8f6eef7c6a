//! Figures of `latlab sched`, `timer` and `why` on committed traces, as they were before the analyses
//! were joined: `fixtures/parity/*.tsv`, one figure a line, `trace, command, key, value`.
//!
//! Keys are the field's terms and not those of the JSON: the functions of [`figures`] are all that
//! knows its layout. A figure of 0 is not written, so that absent and 0 are the same.
//!
//! `UPDATE_PARITY=/path/to/latlab cargo test -p latlab --test cli parity` has that program make the files anew.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Differences that are printed.
const SHOWN: usize = 20;

/// Traces for `latlab sched`: real ones of three kernels, in every format, filtered, and with losses.
const SCHED: &[&str] = &[
    "cyclictest-mark.dat",
    "events7-armv7-zlib.dat",
    "events7-x86_64.dat",
    "f6.dat",
    "f7-none.dat",
    "f7-zstd.dat",
    "f7-zstd.trace-cmd.txt",
    "graph6-armv7.dat",
    "graph6-x86_64.dat",
    "inst6.dat",
    "inst7.dat",
    "latlab-v6.dat",
    "latlab-v7-none-lost.dat",
    "latlab-v7-zlib.dat",
    "latlab-v7-zstd.dat",
    "lost7.dat",
    "rt-load.dat",
    "rt-lossy.dat",
    "sub7.dat",
];
/// Traces for `latlab timer`: those with events of timers or interrupts.
const TIMER: &[&str] = &[
    "cyclictest-mark.dat",
    "events7-armv7-zlib.dat",
    "events7-x86_64.dat",
    "f6.dat",
    "f7-none.dat",
    "f7-zstd.dat",
    "f7-zstd.trace-cmd.txt",
    "graph6-armv7.dat",
    "graph6-x86_64.dat",
    "inst6.dat",
    "inst7.dat",
    "latlab-v6.dat",
    "latlab-v7-none-lost.dat",
    "latlab-v7-zlib.dat",
    "latlab-v7-zstd.dat",
    "rt-load.dat",
    "rt-lossy.dat",
    "stack6.dat",
];
/// Traces for `latlab why`, with the options that make wake-ups late in them.
const WHY: &[(&str, &[&str])] = &[
    ("cyclictest-mark-graph.txt", &[]),
    ("cyclictest-mark.dat", &[]),
    ("cyclictest-mark.dat", &["--limit", "20us"]),
    ("events7-armv7-zlib.dat", &["--limit", "20us"]),
    ("events7-x86_64.dat", &["--limit", "20us"]),
    ("f6.dat", &["--limit", "20us"]),
    ("f7-none.dat", &["--limit", "20us"]),
    ("f7-zstd.dat", &["--limit", "20us"]),
    ("f7-zstd.dat", &["--limit", "10s"]),
    ("f7-zstd.trace-cmd.txt", &["--limit", "20us"]),
    ("inst6.dat", &["--limit", "20us"]),
    ("rt-load.dat", &["--limit", "30us"]),
    ("rt-load.dat", &["--limit", "30us", "--task", "wakeup/0"]),
    ("rt-lossy.dat", &["--limit", "30us"]),
    ("rtla-timerlat.txt", &["--limit", "20us"]),
    ("rtla-timerlat.txt", &["--limit", "150us"]),
];

fn fixtures(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(dir)
}

/// The detail and the findings of the first part of what `latlab COMMAND ARGS TRACE --json` prints.
fn part(latlab: &OsString, command: &str, args: &[&str], trace: &str) -> Value {
    let output = Command::new(latlab)
        .current_dir(fixtures("trace"))
        .arg(command)
        .args(args)
        .args(["--json", trace])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {args:?} {trace}: {stderr}");
    let mut run: Value = serde_json::from_slice(&output.stdout).unwrap();
    run["parts"][0].take()
}

/// Compares what `make` finds with the fixture, or writes it.
fn check(command: &str, make: impl Fn(&OsString) -> Vec<String>) {
    let path = fixtures("parity").join(format!("{command}.tsv"));
    if let Some(old) = std::env::var_os("UPDATE_PARITY") {
        fs::write(&path, make(&old).join("\n") + "\n").unwrap();
        return;
    }
    let golden = fs::read_to_string(&path).unwrap();
    let mut found = make(&env!("CARGO_BIN_EXE_latlab").into());
    if command == "why" {
        let golden: Vec<String> = golden.lines().map(str::to_owned).collect();
        let sums = in_timer_thread_ns(&golden);
        assert!(!sums.is_empty());
        assert_eq!(in_timer_thread_ns(&found), sums);
    }
    let golden: Vec<&str> = golden.lines().filter(|l| !on_purpose(l)).collect();
    found.retain(|l| !on_purpose(l));
    let differences = differences(&golden, &found);
    let shown = differences.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    let (n, path) = (differences.len(), path.display());
    assert!(differences.is_empty(), "{n} differences from {path}, the first:\n{shown}");
}

/// Figures of `why` that are computed otherwise since, on purpose; what they rest on, the wake-ups with all
/// their parts, is compared. Traces whose name begins so (all: empty), and what the key begins and ends with.
const ON_PURPOSE: &[(&str, &str, &str)] = &[
    // Parts of the sum by which windows are selected have no p value.
    ("", "contrast/", "/p"),
    // A stall needs positive evidence; otherwise alternatives are listed.
    ("", "cause/stall/", ""),
    ("", "cause/alternatives/", ""),
    ("", "cause/unexplained/", ""),
    ("", "cause/slow-path/", ""),
    ("", "finding/why.stall", ""),
    ("", "finding/why.alternatives", ""),
    ("", "finding/why.unexplained", ""),
    ("", "finding/why.slow-path", ""),
    ("", "unexplained_share", ""),
    // Fair tasks that are passed over for fair tasks are not throttled.
    ("rt-load.dat", "cause/throttling/", ""),
    ("rt-load.dat", "cause/equal-priority/opt cgu.01/", ""),
    ("rt-load.dat", "finding/why.throttling", ""),
    ("rt-load.dat", "finding/why.equal-priority#3", ""),
    // A task's share of the CPU names it only beyond what the number of tasks makes likely.
    ("rt-load.dat", "cause/interrupts-off/lto cgu.08/", ""),
    ("rt-load.dat", "finding/why.interrupts-off", ""),
    // Late wake-ups are compared up to the switch, at which on-time ones of cyclictest end.
    ("cyclictest-mark.dat", "contrast/path/", "/late_ns"),
    ("cyclictest-mark.dat", "cause/hrtimer-handler/", "/excess_ns"),
    ("cyclictest-mark.dat", "cause/hrtimer-handler/", "/share_of_lateness"),
    ("cyclictest-mark.dat", "excess_ns", ""),
    // Less than half of one or two late wake-ups has low confidence.
    ("rt-load.dat", "cause/equal-priority/lto cgu.08/", "/confidence"),
    ("rt-lossy.dat", "cause/equal-priority/lto cgu.01/", "/confidence"),
    ("rt-lossy.dat", "finding/why.equal-priority#3", ""),
];

/// Whether a line of `why.tsv` is one of [`ON_PURPOSE`].
fn on_purpose(line: &str) -> bool {
    let mut columns = line.split('\t');
    let (trace, command) = (columns.next().unwrap_or(""), columns.next().unwrap_or(""));
    let key = columns.next().unwrap_or("");
    let is = |(t, begin, end): &(&str, &str, &str)| {
        trace.starts_with(t) && key.starts_with(begin) && key.ends_with(end)
    };
    command.starts_with("why") && (ON_PURPOSE.iter().any(is) || in_timer_thread(trace, key))
}

/// Callbacks and softirqs of the thread that runs timers on PREEMPT_RT were called sections with interrupts
/// off. The sum of these parts is that of before.
fn in_timer_thread(trace: &str, key: &str) -> bool {
    let causes = ["interrupts_off", "softirq", "timer_function"];
    trace.starts_with("events7-") && key.split('/').any(|part| causes.contains(&part))
}

/// The ns of [`in_timer_thread`]'s parts of each late wake-up.
fn in_timer_thread_ns(lines: &[String]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for line in lines {
        let columns: Vec<&str> = line.split('\t').collect();
        let [trace, command, key, value] = columns[..] else { panic!("{line}") };
        let ns = key.starts_with("late/") && key.ends_with("/ns");
        if ns && in_timer_thread(trace, key) {
            let window = key.split('/').nth(1).unwrap();
            *sums.entry(format!("{trace} {command} {window}")).or_default() +=
                value.parse::<u64>().unwrap();
        }
    }
    sums
}

/// What one side has and the other has not, in the order of the keys: `-` as it was, `+` as it is.
fn differences(golden: &[&str], found: &[String]) -> Vec<String> {
    let was: BTreeSet<&str> = golden.iter().copied().collect();
    let is: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let mut all: Vec<String> = was.difference(&is).map(|l| format!("- {l}")).collect();
    all.extend(is.difference(&was).map(|l| format!("+ {l}")));
    all.sort_by(|a, b| a[2..].cmp(&b[2..]));
    all
}

#[test]
fn who_ran_and_who_waited_is_as_before() {
    check("sched", |latlab| {
        let of = |t: &&str| figures::sched(&part(latlab, "sched", &[], t)).lines(t, "sched");
        SCHED.iter().flat_map(of).collect()
    });
}

#[test]
fn timers_and_interrupts_are_as_before() {
    check("timer", |latlab| {
        let of = |t: &&str| figures::timer(&part(latlab, "timer", &[], t)).lines(t, "timer");
        TIMER.iter().flat_map(of).collect()
    });
}

#[test]
fn late_wake_ups_their_parts_and_causes_are_as_before() {
    check("why", |latlab| {
        let of = |(trace, args): &(&str, &[&str])| {
            let command = [&["why"], *args].concat().join(" ");
            figures::why(&part(latlab, "why", args, trace)).lines(trace, &command)
        };
        WHY.iter().flat_map(of).collect()
    });
}

/// A comparison that sees nothing would pass for ever.
#[test]
fn a_changed_figure_is_a_difference() {
    let golden = ["a\tsched\tevents\t7", "a\tsched\tswitches\t3"];
    let same = golden.map(str::to_owned);
    assert!(differences(&golden, &same).is_empty());
    let other = ["a\tsched\tevents\t8".to_owned()];
    let told = ["- a\tsched\tevents\t7", "+ a\tsched\tevents\t8", "- a\tsched\tswitches\t3"];
    assert_eq!(differences(&golden, &other), told);
}

/// Figures by their key.
#[derive(Default)]
struct Figures(BTreeMap<String, String>);

impl Figures {
    /// Adds one; a key that is there gets a number, so that no figure is lost.
    fn text(&mut self, key: &str, value: impl Into<String>) {
        let mut name = key.to_owned();
        let mut n = 1;
        while self.0.contains_key(&name) {
            n += 1;
            name = format!("{key}#{n}");
        }
        self.0.insert(name, value.into());
    }

    /// A whole number or a truth; 0, false and null are not written.
    fn count(&mut self, key: &str, value: &Value) {
        match value {
            Value::Bool(true) => self.text(key, "1"),
            Value::Number(n) if n.as_f64() != Some(0.0) => self.text(key, n.to_string()),
            Value::Null | Value::Bool(false) | Value::Number(_) => {}
            other => panic!("{key}: {other} is not a number"),
        }
    }

    /// A computed number, to so many decimals; 0 is not written.
    fn real(&mut self, key: &str, value: &Value, decimals: usize) {
        let Some(number) = value.as_f64() else { return };
        let text = format!("{number:.decimals$}");
        if text.contains(|c: char| ('1'..='9').contains(&c)) {
            self.text(key, text);
        }
    }

    /// Sorted lines.
    fn lines(&self, trace: &str, command: &str) -> Vec<String> {
        let line = |(k, v): (&String, &String)| format!("{trace}\t{command}\t{k}\t{v}");
        self.0.iter().map(line).collect()
    }
}

/// From today's JSON to figures: one function a command, and all that has to follow its layout.
mod figures {
    use super::Figures;
    use serde_json::Value;

    fn list(value: &Value) -> &[Value] {
        value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
    }

    fn word(value: &Value) -> &str {
        value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
    }

    /// Members of an object, each under `BEGIN/NAME`.
    fn members(figures: &mut Figures, begin: &str, of: &Value, names: &[&str]) {
        for name in names {
            figures.count(&format!("{begin}/{name}"), &of[*name]);
        }
    }

    /// A distribution of durations.
    fn durations(figures: &mut Figures, begin: &str, of: &Value) {
        if of["count"] != 0 {
            members(figures, begin, of, &["count", "sum_ns", "median_ns", "p99_ns", "max_ns"]);
        }
    }

    /// Pairs of a name and a number.
    fn pairs(figures: &mut Figures, begin: &str, of: &Value) {
        for pair in list(of) {
            figures.count(&format!("{begin}/{}", word(&pair[0])), &pair[1]);
        }
    }

    /// Ends of slices for which the scheduler decided, not the task.
    const INVOLUNTARY: [&str; 2] = ["preempted", "throttled"];
    const VOLUNTARY: [&str; 5] = ["slept", "blocked", "yielded", "exited", "stopped"];
    const OTHER: [&str; 2] = ["lost", "open"];

    /// `latlab sched FILE`.
    pub fn sched(part: &Value) -> Figures {
        let mut f = Figures::default();
        let s = &part["detail"]["schedule"];
        for key in ["first_ns", "length_ns", "events", "switches", "saw_wakeups"] {
            f.count(key, &s[key]);
        }
        for key in ["doubtful_slices", "doubtful_delays", "unseen", "reused", "renamed"] {
            f.count(key, &s[key]);
        }
        f.count("inversions", &s["inversion_count"]);
        f.count("throttlings", &s["throttle_count"]);
        f.real("jain", &s["jain"], 6);
        for cpu in list(&s["cpus"]) {
            let names = ["busy_ns", "idle_ns", "unknown_ns", "switches", "holes", "lost"];
            members(&mut f, &format!("cpu/{}", cpu["cpu"]), cpu, &names);
        }
        list(&s["tasks"]).iter().for_each(|task| sched_task(&mut f, task));
        for pair in list(&s["pairs"]) {
            f.count(&format!("preempts/{}/{}", pair["by"], pair["of"]), &pair["times"]);
        }
        for (key, kind) in [("inversions", "inversion"), ("throttles", "throttling")] {
            for one in list(&s[key]) {
                let tid = if key == "throttles" { &one["tid"] } else { &one["high"] };
                f.count(&format!("{kind}/{tid}@{}/ns", one["at_ns"]), &one["ns"]);
            }
        }
        f
    }

    fn sched_task(f: &mut Figures, task: &Value) {
        // A thread id that was used again has a number behind it.
        let again = task["incarnation"].as_u64().map_or(String::new(), |n| format!("+{n}"));
        let begin = format!("task/{}{again}", task["tid"]);
        f.text(&format!("{begin}/name"), word(&task["name"]));
        let names = ["prio", "run_ns", "charged_ns", "off_ns", "ideal_ns", "fair_ns"];
        members(f, &begin, task, &names);
        let names =
            ["unknown_delays", "migrations", "lag_max_ns", "lag_min_ns", "doubtful", "ended"];
        members(f, &begin, task, &names);
        durations(f, &format!("{begin}/slice"), &task["slices"]);
        durations(f, &format!("{begin}/delay"), &task["delay"]);
        durations(f, &format!("{begin}/wakeup"), &task["wakeup"]);
        let ends = &task["ends"];
        for (kind, names) in
            [("involuntary", &INVOLUNTARY[..]), ("voluntary", &VOLUNTARY), ("other", &OTHER)]
        {
            members(f, &format!("{begin}/switches/{kind}"), ends, names);
        }
    }

    /// `latlab timer FILE`.
    pub fn timer(part: &Value) -> Figures {
        let mut f = Figures::default();
        let t = &part["detail"]["trace"];
        for key in ["first_ns", "length_ns", "events", "holes"] {
            f.count(key, &t[key]);
        }
        f.count("tick_stop/stopped", &t["stopped"]);
        pairs(&mut f, "tick_stop/kept_by", &t["not_stopped"]);
        f.real("jiffies_hz", &t["jiffies_hz"], 3);
        for tick in list(&t["ticks"]) {
            let names = ["ticks", "interrupt_ns", "tick_ns", "softirq_ns"];
            members(&mut f, &format!("cpu/{}", tick["cpu"]), tick, &names);
        }
        list(&t["functions"]).iter().for_each(|function| timer_function(&mut f, function));
        for p in list(&t["periodic"]) {
            let begin = format!("periodic/{}@{}", word(&p["function"]), p["timer"]);
            members(&mut f, &begin, p, &["times", "period_ns", "jitter_ns", "jitter_max_ns"]);
        }
        for softirq in list(&t["softirqs"]) {
            let begin = format!("softirq/{}", word(&softirq["name"]));
            durations(&mut f, &format!("{begin}/raise-to-entry"), &softirq["latency"]);
            durations(&mut f, &format!("{begin}/length"), &softirq["cost"]);
        }
        for handler in list(&t["handlers"]) {
            let irq = handler["irq"].as_i64().map_or(String::new(), |n| format!("irq{n}-"));
            let begin = format!("interrupt/{irq}{}", word(&handler["name"]));
            f.count(&format!("{begin}/timers_expire_in_it"), &handler["timer"]);
            durations(&mut f, &format!("{begin}/length"), &handler["cost"]);
            for cpu in list(&handler["cpus"]) {
                f.count(&format!("{begin}/cpu/{}", cpu[0]), &cpu[1]);
            }
        }
        for (kind, key) in [("wheel", "wheel_steps"), ("hrtimer", "highres_steps")] {
            for step in list(&t[key]) {
                durations(&mut f, &format!("step/{kind}/{}", word(&step["name"])), &step["spread"]);
            }
        }
        for (kind, key) in [("hrtimer-late", "late"), ("timer-softirq", "softirq_latency")] {
            members(&mut f, kind, &t[key], &["count", "min", "max"]);
            f.real(&format!("{kind}/sum"), &t[key]["sum"], 0);
        }
        f
    }

    fn timer_function(f: &mut Figures, function: &Value) {
        let kind = if function["highres"] == true { "hrtimer" } else { "wheel" };
        let begin = format!("function/{kind}/{}", word(&function["name"]));
        durations(f, &format!("{begin}/length"), &function["cost"]);
        // In ns for a high-resolution timer, in jiffies for one of the wheel.
        durations(f, &format!("{begin}/late"), &function["late"]);
        durations(f, &format!("{begin}/waited_jiffies"), &function["waited_jiffies"]);
        pairs(f, &format!("{begin}/interrupted"), &function["interrupted"]);
        pairs(f, &format!("{begin}/set_by"), &function["set_by"]);
    }

    /// Severity and confidence in the words of the fixtures.
    fn recorded_word(word: &str) -> &str {
        match word {
            "ok" => "good",
            "info" => "note",
            "problem" | "warning" => "in_the_way",
            "high" => "sure",
            "medium" => "likely",
            "inconclusive" | "low" => "cannot_tell",
            other => other,
        }
    }

    /// `latlab why FILE`.
    pub fn why(part: &Value) -> Figures {
        let mut f = Figures::default();
        let detail = &part["detail"];
        f.count("limit_ns", &detail["limit_ns"]);
        for capture in list(&detail["captures"]) {
            members(
                &mut f,
                "capture",
                capture,
                &["events", "length_ns", "late", "on_time", "holes"],
            );
        }
        list(&detail["windows"]).iter().for_each(|window| why_window(&mut f, window));
        let explanation = &detail["explanation"];
        list(&explanation["causes"]).iter().for_each(|cause| why_cause(&mut f, cause));
        f.real("unexplained_share", &explanation["unexplained_share"], 4);
        f.real("excess_ns", &explanation["excess_ns"], 0);
        f.real("baseline_ns", &explanation["contrast"]["baseline_ns"], 0);
        for row in list(&explanation["contrast"]["rows"]) {
            let (cause, who) = (word(&row["group"]["cause"]), word(&row["group"]["who"]));
            let function = row["function"].as_str().unwrap_or_default();
            let begin = format!("contrast/{cause}/{who}/{function}");
            for key in ["late_ns", "on_time_ns", "late_times", "on_time_times", "delta", "p"] {
                f.real(&format!("{begin}/{key}"), &row[key], 3);
            }
        }
        for finding in list(&part["findings"]) {
            let severity = recorded_word(word(&finding["severity"]));
            let confidence = recorded_word(word(&finding["confidence"]));
            f.text(
                &format!("finding/{}", word(&finding["id"])),
                format!("{severity} {confidence}"),
            );
        }
        f
    }

    /// A wake-up by CPU and intended time; of late ones the parts of the latency too.
    fn why_window(f: &mut Figures, window: &Value) {
        let late = window["late"] == true;
        let kind = if late { "late" } else { "on-time" };
        let begin = format!("{kind}/cpu{}@{}", window["cpu"], window["intended_ns"]);
        members(f, &begin, window, &["latency_ns", "lost", "uncovered"]);
        if !late {
            return;
        }
        let mut unexplained = 0;
        for share in list(&window["shares"]) {
            let (cause, who) = (word(&share[0]["cause"]), word(&share[0]["who"]));
            let part = format!("{begin}/part/{cause}/{who}");
            members(f, &part, &share[1], &["ns", "times", "silent_ns"]);
            if cause == "unexplained" {
                unexplained += share[1]["ns"].as_u64().unwrap_or(0);
            }
        }
        f.count(&format!("{begin}/unexplained_ns"), &unexplained.into());
    }

    /// A cause that was found, with its size.
    fn why_cause(f: &mut Figures, cause: &Value) {
        let begin = format!("cause/{}/{}", word(&cause["mechanism"]), word(&cause["who"]));
        f.text(&format!("{begin}/confidence"), recorded_word(word(&cause["confidence"])));
        for key in ["size_ns", "excess_ns", "period_ns"] {
            f.real(&format!("{begin}/{key}"), &cause[key], 0);
        }
        for key in ["times", "times_on_time", "share_of_late", "share_of_lateness"] {
            f.real(&format!("{begin}/{key}"), &cause[key], 4);
        }
        f.count(&format!("{begin}/prio"), &cause["prio"]);
        for key in ["main_of", "part_of"] {
            f.count(&format!("{begin}/{key}"), &list(&cause[key]).len().into());
        }
        for function in list(&cause["functions"]) {
            let name = format!("{begin}/function/{}/late_calls", word(&function["function"]));
            f.real(&name, &function["late_calls"], 3);
        }
    }
}
