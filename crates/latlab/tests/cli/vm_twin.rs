//! `latlab vm twin`: causes of a recording, repeated in a virtual machine.
//!
//! Ignored by default as those of [`crate::vm`].

use crate::common::{printed, said};
use crate::vm::{json, run};
use std::fs;

/// What cannot be repeated is refused before anything boots, and a plan needs no machine.
#[test]
fn what_has_no_causes_is_refused_and_a_plan_needs_no_machine() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["vm", "twin", "missing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("missing"), "{}", said(&output));
    let wakeup = ["wakeup", "-q", "--policy", "other", "-l", "20", "-i", "1000", "--out", "w"];
    assert!(run(dir.path(), &wakeup).status.success());
    let output = run(dir.path(), &["vm", "twin", "w"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("w: this run has no causes of late wake-ups"));
    assert!(said(&output).contains("hint: name a run of latlab why"), "{}", said(&output));
    let wrong = run(dir.path(), &["vm", "twin", "w", "--captures", "0"]);
    assert_eq!(wrong.status.code(), Some(1), "{}", said(&wrong));
}

/// Two faults in one machine are the causes in another one with another processor, in the same order.
#[test]
#[ignore = "boots virtual machines"]
fn causes_of_one_machine_are_those_of_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let faults = ["hardirq:us=400,every=41.3ms,jitter=20", "fifo:us=280,every=47.3ms,jitter=20"];
    let [a, b] = faults;
    let why = ["latlab", "why", "-q", "-i1000", "--limit", "200us", "-D20", "--out", "r"];
    let command = ["vm", "run", "armv7-rt,icount=0", "--fault", a, "--fault", b, "--"];
    let output = run(dir.path(), &[&command[..], &why, &["--captures", "30"]].concat());
    assert!(dir.path().join("r/run.json").exists(), "{}", said(&output));

    let plan = run(dir.path(), &["vm", "twin", "r", "--plan"]);
    assert!(plan.status.success(), "{}", said(&plan));
    let text = printed(&plan);
    assert!(text.contains("hardirq:ns=") && text.contains("fifo:ns="), "{text}");
    assert!(fs::read_dir(dir.path()).unwrap().count() == 1, "a plan keeps no run");

    let twin = ["vm", "twin", "r", "--machine", "x86_64-rt", "--captures", "30", "--out", "t"];
    let output = run(dir.path(), &twin);
    assert!(output.status.success(), "{}", said(&output));
    let detail = &json(&dir.path().join("t/run.json"))["parts"][0]["detail"];
    let causes = detail["causes"].as_array().unwrap();
    for (cause, mechanism) in causes.iter().zip(["hrtimer-handler", "higher-priority"]) {
        assert_eq!(cause["mechanism"], mechanism, "{detail:#}");
        assert_eq!(cause["found"]["mechanism"], mechanism, "{detail:#}");
        let [here, there] = [&cause["size_ns"], &cause["found"]["size_ns"]].map(|n| n.as_f64());
        let ratio = there.unwrap() / here.unwrap();
        assert!((0.6..1.7).contains(&ratio), "{ratio}: {detail:#}");
    }
    assert_eq!(detail["reversed"], 0, "{detail:#}");
    assert!(printed(&output).contains("2 of 2 repeated causes are causes there"));
}
