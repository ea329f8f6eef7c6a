//! The wall clock is set by an hour, back and forth, while commands run (`clock_steps.c`, preloaded): lengths
//! of time come from other clocks, and what the wall clock says is a date and nothing more.

use crate::common::{command, printed, run_of, said, shim, skip, tracefs};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

/// Runs a command, which succeeds, with a clock that is set at each reading.
fn with(shim: &Path, dir: &Path, args: &[&str]) -> Output {
    let mut run = command(dir, args);
    let out = run.env("LD_PRELOAD", shim).env("STEPS_HIT", dir.join("hit")).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", said(&out));
    assert!(!said(&out).contains("panicked"), "{args:?}: {}", said(&out));
    out
}

/// As [`with`]; the command reads the clock. How long it took.
fn stepped(shim: &Path, dir: &Path, args: &[&str]) -> Duration {
    let _ = std::fs::remove_file(dir.join("hit"));
    let begun = Instant::now();
    with(shim, dir, args);
    assert!(dir.join("hit").exists(), "{args:?}: the clock was not read");
    begun.elapsed()
}

#[test]
fn a_run_has_its_length_whatever_the_wall_clock_says() {
    let t = tempfile::tempdir().unwrap();
    let Some(shim) = shim(t.path(), "clock_steps.c") else { return };
    let dir = t.path();
    let wakeup = ["wakeup", "--policy", "other", "-i", "1000", "-D", "1s", "--out"];
    let took = stepped(&shim, dir, &[&wakeup[..], &["r"]].concat());
    let run = run_of(&dir.join("r"));
    let ns = run.parts[0].duration_ns;
    assert!(ns >= 900_000_000 && u128::from(ns) <= took.as_nanos(), "{ns} ns of {took:?}");
    assert!(
        run.ended.is_some_and(|ended| ended < run.started),
        "the second reading is an earlier one"
    );
    stepped(&shim, dir, &[&wakeup[..], &["s"]].concat());
    // Readers and the history take a run that ended before it began.
    for args in [
        &["report", "r"][..],
        &["history", "--store", "h.db", "add", "r", "s"],
        &["history", "--store", "h.db", "list"],
    ] {
        assert!(!printed(&with(&shim, dir, args)).is_empty(), "{args:?}");
    }
}

#[test]
fn loads_end_and_recordings_can_be_read() {
    let t = tempfile::tempdir().unwrap();
    let Some(shim) = shim(t.path(), "clock_steps.c") else { return };
    let dir = t.path();
    let begun = Instant::now();
    with(&shim, dir, &["load", "-t", "1s", "cpu"]);
    assert!(begun.elapsed() >= Duration::from_secs(1) && begun.elapsed() < Duration::from_mins(10));
    if tracefs().is_none() {
        return skip("no tracefs");
    }
    stepped(&shim, dir, &["record", "-e", "sched_switch", "-o", "t.dat", "--", "sleep", "0.2"]);
    let out = with(&shim, dir, &["report", "--stat", "t.dat"]);
    assert!(printed(&out).contains("sched_switch"), "{}", printed(&out));
}
