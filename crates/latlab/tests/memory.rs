//! `latlab memory` from outside: what is in its way is said, and what was seen until then is kept.

mod common;

use common::{printed, said, skip, spawn, text};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn memory_that_is_not_to_be_had_is_said() {
    let dir = tempfile::tempdir().unwrap();
    // The program itself takes some of it; two areas of 512 MiB do not fit, smaller ones do.
    let limited = format!("ulimit -v 500000; exec {} memory -s 512 -D 1", common::LATLAB);
    let mut shell = Command::new("sh");
    shell.current_dir(dir.path()).args(["-c", &limited]).env("COLUMNS", "200");
    let out = shell.stdin(Stdio::null()).output().unwrap();
    let all = printed(&out) + &said(&out);
    assert!(
        all.contains("MiB for arrays the system gave") || all.contains("arrays may take"),
        "{all}"
    );
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
    let end = Instant::now() + Duration::from_secs(60);
    while sched_getaffinity(Some(pid)).unwrap() != of(*last) {
        assert!(Instant::now() < end, "it was not bound");
        std::thread::sleep(Duration::from_millis(5));
    }
    // As the kernel does when a CPU goes offline.
    sched_setaffinity(Some(pid), &of(*first)).unwrap();
    let out = child.wait_with_output().unwrap();
    let all = text(&out.stdout) + &text(&out.stderr);
    assert!(all.contains(&format!("CPU {last} was taken away")), "{all}");
}
