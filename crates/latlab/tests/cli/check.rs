//! `latlab check` from outside.

use crate::common::{children_of, latlab, printed, said, signal, spawn, text, wait_for};
use rustix::process::Signal;
use std::path::Path;
use std::time::Duration;

/// A wake-up run of half a second as an ordinary task.
fn measured(dir: &Path) {
    let out = latlab(dir, &["wakeup", "-q", "-p", "0", "-i", "1000", "-D", "0.5", "--out", "run"]);
    assert!(out.status.success(), "{}", said(&out));
}

#[test]
fn each_decision_has_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    measured(dir.path());
    let check = |text: &str, more: &[&str]| {
        std::fs::write(dir.path().join("board.req"), text).unwrap();
        latlab(dir.path(), &[&["check", "board.req", "run"], more].concat())
    };
    let out = check("median < 10 s, max < 100 s, interval 1 ms\n", &[]);
    assert_eq!(out.status.code(), Some(0), "{}{}", printed(&out), said(&out));
    let out = check("median < 1 ns\n", &["--format", "tap"]);
    assert_eq!(out.status.code(), Some(2), "{}{}", printed(&out), said(&out));
    assert!(printed(&out).contains("not ok 1 - wakeup: median < 1 ns"), "{}", printed(&out));
    // Half a second has some 500 wake-ups: too few for p99.99, and less than an hour.
    let out = check("p99.99 < 10 s, max < 100 s, 1 h\n", &["--json", "--junit", "junit.xml"]);
    assert_eq!(out.status.code(), Some(1), "{}{}", printed(&out), said(&out));
    let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let items = run["parts"][0]["detail"]["items"].as_array().unwrap();
    assert!(items.iter().all(|i| i["decision"] == "undecided"), "{items:?}");
    // Nothing over the limit: at least the rule of three, 30,000 wake-ups of 1 ms.
    assert!(items[0]["needed_ns"].as_f64().unwrap() > 20e9, "{}", items[0]);
    assert!(
        std::fs::read_to_string(dir.path().join("junit.xml")).unwrap().contains("skipped=\"2\"")
    );
    // Nothing was measured under a load.
    let out = check("max < 100 s, under vm:16M\n", &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(printed(&out).contains("No run"), "{}", printed(&out));
}

#[test]
fn a_wrong_line_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("r"), "# ok\nmax < 5 parsec\n").unwrap();
    let out = latlab(dir.path(), &["check", "r"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("r: line 2: "), "{}", said(&out));
}

#[test]
fn without_runs_it_measures() {
    let dir = tempfile::tempdir().unwrap();
    // The load of a run is that of the requirement, however its size is written.
    let text = "noise: max < 100 s, 0.3 s\nmax < 100 s, under vm:1M, 0.3 s\n";
    std::fs::write(dir.path().join("r"), text).unwrap();
    let out = latlab(dir.path(), &["check", "r", "--out", "here"]);
    assert_eq!(out.status.code(), Some(0), "{}{}", printed(&out), said(&out));
    assert!(dir.path().join("here/1-noise/run.json").exists());
    assert!(printed(&out).contains("wakeup under vm:1M:4K"), "{}", printed(&out));
}

/// A requirement on one mechanism is decided by its rows alone, and by no run without it.
#[test]
fn a_mechanism_is_a_circumstance() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(
        dir.path(),
        &["wakeup", "-q", "-p", "0", "--by", "timerfd,pipe", "-l", "100", "--out", "run"],
    );
    assert!(out.status.success(), "{}", said(&out));
    let check = |text: &str| {
        std::fs::write(dir.path().join("board.req"), text).unwrap();
        let out = latlab(dir.path(), &["check", "board.req", "run", "--json"]);
        let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let item = run["parts"][0]["detail"]["items"][0].clone();
        (out.status.code(), item["samples"].as_u64().unwrap())
    };
    let (code, samples) = check("max < 100 s, by timerfd\n");
    // Missed periods count.
    assert!(code == Some(0) && (100..200).contains(&samples), "{code:?} {samples}");
    // From its own CPU and, where there is another one, from that.
    let (code, samples) = check("median < 1 ns, by pipe\n");
    assert!(code == Some(2) && samples >= 100, "{code:?} {samples}");
    assert_eq!(check("max < 100 s, by futex\n"), (Some(1), 0));
    assert_eq!(check("max < 100 s\n"), (Some(1), 0));
}

/// A signal reaches the measurement too: ten minutes end at once, and nothing is decided.
#[test]
fn a_signal_ends_the_measurement() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("long.req"), "max < 10 s, 600 s\n").unwrap();
    let mut child = spawn(dir.path(), &["check", "long.req"]);
    wait_for("a measurement", Duration::from_millis(20), || {
        let pid = *children_of(child.id()).first()?;
        let name = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        text(&name).contains("wakeup").then_some(())
    });
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, Signal::TERM);
    let ended = wait_for("its end", Duration::from_millis(20), || child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(143));
}
