//! `latlab memory` from outside: curves of others are judged, what is in its way is said, and what was seen
//! until then is kept.

use crate::common::{LATLAB, fixture, latlab, printed, said, skip, spawn, text, wait_for};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn memory_that_is_not_to_be_had_is_said() {
    let dir = tempfile::tempdir().unwrap();
    // The program itself takes some of it; two areas of 512 MiB do not fit, smaller ones do.
    let limited = format!("ulimit -v 500000; exec {} memory -s 512 -D 1 --details", LATLAB);
    let mut shell = Command::new("sh");
    shell.current_dir(dir.path()).args(["-c", &limited]).env("COLUMNS", "200");
    let out = shell.stdin(Stdio::null()).output().unwrap();
    let all = printed(&out) + &said(&out);
    assert!(all.contains("for arrays were available") || all.contains("arrays may use"), "{all}");
    assert!(!all.contains("panicked"), "{all}");
}

#[test]
fn a_cpu_that_is_taken_away_ends_the_measurement_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let allowed = sched_getaffinity(None).unwrap();
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let (Some(first), Some(last)) = (cpus.first(), cpus.last().filter(|_| cpus.len() > 1)) else {
        return skip("there is one CPU");
    };
    let of = |cpu: usize| {
        let mut set = CpuSet::new();
        set.set(cpu);
        set
    };
    let args = ["memory", "-a", &last.to_string(), "-s", "16", "-D", "60"];
    let child = spawn(dir.path(), &args);
    let pid = Pid::from_child(&child);
    wait_for("its CPU", Duration::from_millis(5), || {
        (sched_getaffinity(Some(pid)).unwrap() == of(*last)).then_some(())
    });
    // As the kernel does when a CPU goes offline.
    sched_setaffinity(Some(pid), &of(*first)).unwrap();
    let out = child.wait_with_output().unwrap();
    let all = text(&out.stdout) + &text(&out.stderr);
    assert!(all.contains(&format!("CPU {last} was taken from the measurement")), "{all}");
}

/// Sizes of the levels, bytes, as the JSON has them.
fn sizes(run: &[u8]) -> Vec<u64> {
    let run: Value = serde_json::from_slice(run).unwrap();
    let levels = run["parts"][0]["detail"]["levels"].as_array().unwrap();
    levels.iter().map(|l| l["bytes"].as_u64().unwrap()).collect()
}

#[test]
fn curves_of_lat_mem_rd_are_judged_and_printed_as_it_prints_them() {
    let dir = tempfile::tempdir().unwrap();
    let published = fixture("memory/beaglebone-black.lat_mem_rd");
    let run = latlab(dir.path(), &["memory", "--from", &published, "--json"]);
    assert!(run.status.success(), "{}", said(&run));
    let found = sizes(&run.stdout);
    assert_eq!((found.len(), found[0]), (2, 32 << 10));
    // What was judged can be judged again: a run, or the columns that it prints.
    fs::write(dir.path().join("run.json"), &run.stdout).unwrap();
    let columns =
        latlab(dir.path(), &["memory", "--from", "run.json", "--format", "lmbench"]).stdout;
    assert!(text(&columns).contains("\"stride=16\n0.00049 3.000\n"), "{}", text(&columns));
    fs::write(dir.path().join("columns"), columns).unwrap();
    for again in ["run.json", "columns"] {
        let run = latlab(dir.path(), &["memory", "--from", again, "--json"]);
        assert_eq!(sizes(&run.stdout), found, "{again}: {}", said(&run));
    }
}

#[test]
fn what_is_no_curve_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    file("words", b"hello world\n");
    file("noise", &[0xFF; 4096]);
    file("line", b"\"stride=64\n0.001 3\n0.002 x\n");
    file("run.json", b"{");
    file("empty", b"");
    fs::File::create(dir.path().join("large")).unwrap().set_len((64 << 20) + 1).unwrap();
    for (name, words) in [
        ("words", "--from words: there is no line `\"stride=N`"),
        ("noise", "--from noise: there is no line"),
        ("line", "--from line: line 3: `0.002 x` is not a size in MiB and time in ns"),
        ("absent", "--from absent: cannot be read: No such file"),
        ("empty", "--from empty: there is no line"),
        ("/dev/zero", "--from /dev/zero: cannot be read: a device, not a file"),
        ("large", "--from large: larger than 64 MiB: not the output of lat_mem_rd"),
        ("run.json", "run.json"),
    ] {
        let out = latlab(dir.path(), &["memory", "--from", name]);
        assert_eq!(out.status.code(), Some(1), "{name}: {}", said(&out));
        assert!(
            said(&out).starts_with("latlab: ") && said(&out).contains("\nhint: "),
            "{}",
            said(&out)
        );
        assert!(said(&out).contains(words), "{name}: {}", said(&out));
    }
    assert!(!dir.path().join("runs").exists(), "what was refused left a run");
}

#[test]
fn rings_of_any_processes_and_working_sets_stand_beside_theory() {
    let dir = tempfile::tempdir().unwrap();
    let lists = ["--procs", "2,3,4", "--working-sets", "0,2K,24K"];
    let out = latlab(
        dir.path(),
        &[&["memory", "--switch", "micro", "-D", "2", "--json"], &lists[..]].concat(),
    );
    assert!(out.status.success(), "{}", said(&out));
    let run: Value = serde_json::from_slice(&out.stdout).unwrap();
    let detail = &run["parts"][0]["detail"];
    let points = detail["switches"].as_array().unwrap();
    let of = |key: &str| {
        points.iter().map(|p| p[key].as_u64().unwrap()).collect::<std::collections::BTreeSet<u64>>()
    };
    assert_eq!(points.len(), 9);
    assert_eq!(of("procs").into_iter().collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(of("bytes").into_iter().collect::<Vec<_>>(), [0, 2048, 24576]);
    let caches = run["machine"]["caches"].as_array().map_or(0, Vec::len);
    let theory = detail["switch_theory"].as_array().map_or(0, Vec::len);
    assert_eq!(theory, if caches > 0 { 6 } else { 0 }, "each working set that is not empty");
    for (args, words) in [
        (&["--procs", "1"][..], "--procs 1: a ring has 2 to 1000 processes"),
        (&["--procs", "2,x"], "--procs 2,x: whole numbers"),
        (&["--working-sets", "1T"], "--working-sets"),
        (&["--procs", "2..1000:+1", "--working-sets", "0,1K,2K"], "2997 points: at most 2000"),
    ] {
        let out = latlab(dir.path(), &[&["memory", "--switch", "macro"], args].concat());
        assert_eq!(out.status.code(), Some(1), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(words), "{args:?}: {}", said(&out));
    }
    let alone = latlab(dir.path(), &["memory", "--cold"]);
    assert!(said(&alone).contains("--switch"), "{}", said(&alone));
}
