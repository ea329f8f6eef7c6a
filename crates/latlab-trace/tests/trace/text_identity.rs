//! The report's text against what trace-cmd 3.1.6 printed of the same file.
//!
//! Where trace-cmd is wrong on kernels of today the difference is taken out
//! before comparing; each case stands in [`known`].

use crate::{fixture, path};
use latlab_trace::print::{Dialect, LineStyle, ReportOptions, report};
use latlab_trace::{Filter, Select, TraceFile};
use std::process::Command;

fn print(data: &[u8], options: &ReportOptions) -> String {
    let file = TraceFile::parse(data).unwrap();
    let mut out = format!("cpus={}\n", file.cpu_count).into_bytes();
    report(&file, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Takes out of a line what trace-cmd 3.1.6 gets wrong on Linux 6.18, and what it does not know.
fn known(line: &str) -> String {
    let mut line = line.to_owned();
    // Names that are learnt from sched_switch: trace-cmd learns them only as it goes on.
    if let Some(at) = line.find('-') {
        line.replace_range(..at, "");
    }
    // State letters are hard-coded there; bit 7 is I (idle), bits 4 and 5 are X and Z.
    if line.contains(": sched_switch:") {
        line = line.replace(" W ==> ", " I ==> ").replace(" X ==> ", " Z ==> ");
    }
    // Modes are names that the format leaves unresolved: it prints the number.
    if [": hrtimer_setup:", ": hrtimer_init:", ": hrtimer_start:"].iter().any(|e| line.contains(e))
        && let Some(at) = line.find(" mode=")
    {
        line.truncate(at);
    }
    // The timer's flags are masked wrongly there.
    if line.contains(": timer_start:")
        && let Some(at) = line.find(" flags=")
    {
        line.truncate(at);
    }
    line
}

fn compare(name: &str, ours: &str, theirs: &str) {
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{name}");
    for (n, (a, b)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(known(a), known(b), "{name}, line {}", n + 1);
    }
}

#[test]
fn the_text_that_trace_cmd_prints() {
    let expected = String::from_utf8(fixture("f7-zstd.trace-cmd.txt")).unwrap();
    compare("f7-zstd.dat", &print(&fixture("f7-zstd.dat"), &ReportOptions::default()), &expected);
}

/// Against the program itself, where it is installed.
#[test]
fn the_text_that_trace_cmd_prints_here() {
    if Command::new("trace-cmd").arg("list").arg("-c").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "trace-cmd is not installed");
        // Past the capture of the test's output: `scripts/test` counts it.
        let text = b"skipped: trace-cmd is not installed\n";
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text);
        return;
    }
    const FILES: [&str; 16] = [
        "f6.dat",
        "f7-zstd.dat",
        "f7-none.dat",
        "inst6.dat",
        "inst7.dat",
        "stack6.dat",
        "futex6.dat",
        "mark6.dat",
        "lost7.dat",
        "sub7.dat",
        "function7-armv7.dat",
        "graph6-armv7.dat",
        "graph7-armv7.dat",
        "events7-x86_64.dat",
        "function7-x86_64.dat",
        "graph6-x86_64.dat",
    ];
    for name in FILES {
        let run = Command::new("trace-cmd").args(["report", "-i", &path(name)]).output();
        let theirs = String::from_utf8_lossy(&run.unwrap().stdout).into_owned();
        compare(name, &print(&fixture(name), &ReportOptions::default()), &theirs);
    }
    // Without its plug-ins.
    let run = Command::new("trace-cmd").args(["report", "-N", "-i", &path("f6.dat")]).output();
    let theirs = String::from_utf8_lossy(&run.unwrap().stdout).into_owned();
    let style = LineStyle { dialect: Dialect::Kernel, ..LineStyle::default() };
    let options = ReportOptions { style, ..ReportOptions::default() };
    compare("f6.dat -N", &print(&fixture("f6.dat"), &options), &theirs);
}

#[test]
fn several_threads_print_the_same() {
    for name in ["lost7.dat", "graph6-armv7.dat", "function7-armv7.dat"] {
        let data = fixture(name);
        let one = print(&data, &ReportOptions { threads: 1, ..ReportOptions::default() });
        for threads in [2, 3, 8] {
            assert_eq!(print(&data, &ReportOptions { threads, ..ReportOptions::default() }), one);
        }
    }
}

/// Calls as they are nested; a return whose call is not printed has a line of its own.
#[test]
fn calls_are_drawn_nested_and_leaves_on_one_line() {
    let data = fixture("graph7-armv7.dat");
    let file = TraceFile::parse(&data).unwrap();
    let of = |names: &[&str], style: LineStyle| {
        let filter = Filter::compile(&file, names).unwrap();
        print(&data, &ReportOptions { filter, style, ..ReportOptions::default() })
    };
    let lines = |text: &str, what: &str| text.lines().filter(|l| l.contains(what)).count();
    let drawn = of(&[], LineStyle::default());
    let (open, leaves) = (lines(&drawn, "() {"), lines(&drawn, "();"));
    let calls = of(&["funcgraph_entry"], LineStyle::default());
    let returns = of(&["funcgraph_exit"], LineStyle::default());
    let raw = of(&[], LineStyle { dialect: Dialect::Fields, ..LineStyle::default() });
    assert_eq!(open + leaves, lines(&raw, ": funcgraph_entry:"));
    assert_eq!(lines(&calls, "();"), leaves);
    assert_eq!(lines(&returns, "|"), lines(&raw, ": funcgraph_exit:"));
    assert_eq!(lines(&drawn, ": funcgraph_exit:") + leaves, lines(&raw, ": funcgraph_exit:"));
}

#[test]
fn idle_kernel_threads_and_timer_modes_are_named_as_this_kernel_does() {
    let text = print(&fixture("f6.dat"), &ReportOptions::default());
    assert!(text.contains("rcu_preempt:15 [120] I ==> "));
    assert!(text.contains("clockid=CLOCK_MONOTONIC mode=REL|HARD\n"));
}

#[test]
fn selection_by_time_cpu_task_and_filter() {
    let data = fixture("f6.dat");
    let file = TraceFile::parse(&data).unwrap();
    let all = print(&data, &ReportOptions::default());
    let of_cpu = |cpu: &str| all.lines().filter(|l| l.contains(cpu)).count();
    let select = Select { cpus: Some(vec![1]), ..Select::default() };
    let text = print(&data, &ReportOptions { select, ..ReportOptions::default() });
    assert_eq!(text.lines().count() - 1, of_cpu(" [001] "));

    let mut events = file.events();
    let mut times = Vec::new();
    while let Some(e) = events.next() {
        times.push(e.time);
    }
    let (from, to) = (times[500], times[1499]);
    let select = Select { from: Some(from), to: Some(to), ..Select::default() };
    let text = print(&data, &ReportOptions { select, ..ReportOptions::default() });
    let expected = times.iter().filter(|t| (from..=to).contains(t)).count();
    assert_eq!(text.lines().count() - 1, expected);

    let count = |filters: &[&str]| {
        let filter = Filter::compile(&file, filters).unwrap();
        print(&data, &ReportOptions { filter, ..ReportOptions::default() }).lines().count() - 1
    };
    let lines = |what: &str| all.lines().filter(|l| l.contains(what)).count();
    assert_eq!(count(&["sched_switch"]), lines(": sched_switch:"));
    assert_eq!(
        count(&["sched_switch", "sched_waking"]),
        lines(": sched_switch:") + lines(": sched_waking:")
    );
    assert_eq!(count(&["sched_switch : next_pid == 0"]), lines("==> swapper/"));
    assert_eq!(count(&["sched_switch : next_comm ~ \"swapper*\""]), lines("==> swapper/"));
    assert_eq!(
        count(&["sched_switch : next_comm =~ \"^swapper/[01]$\" && CPU >= 0"]),
        lines("==> swapper/")
    );
    assert_eq!(
        count(&["sched_switch : !(next_pid == 0)"]),
        lines(": sched_switch:") - lines("==> swapper/")
    );
    assert_eq!(count(&["softirq_*"]), lines(": softirq_"));
    assert_eq!(count(&["next_pid == 0 || vec == 7"]), lines("==> swapper/") + lines("vec=7 "));
    for bad in [
        "no_such_event",
        "sched_switch : no_field == 1",
        "sched_switch : next_pid ==",
        "sched_switch : next_comm == 5",
    ] {
        assert!(Filter::compile(&file, &[bad]).is_err(), "{bad}");
    }
}
