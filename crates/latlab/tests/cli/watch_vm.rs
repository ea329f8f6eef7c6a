//! `latlab watch` beside a fault of the kernel, in a virtual machine.

use crate::common::{LATLAB, printed, said, succeed};
use crate::vm::{run, sections};
use std::process::Command;

/// Each capture has its late activation from the beginning, and names the cause. Nothing stays, after a SIGKILL neither. Board
/// builds have no watch: the machine gets this program and its libraries.
#[test]
#[ignore = "boots a virtual machine"]
fn a_watch_captures_what_delays_a_task() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("watching");
    succeed(Command::new("strip").arg("-o").arg(&program).arg(LATLAB));
    let script =
        "latlab wakeup -q -i 5000 -p 80 -D 60 --out /tmp/r >/dev/null 2>&1 & pid=$!; sleep 1
        left() { ls /sys/kernel/tracing/instances; }
        echo == status; watching watch $pid --limit 300us --budget 90% --dir /tmp/w -D 9 --json
        echo == captures; ls /tmp/w/captures; echo == left; left
        watching watch $pid --deadline 2ms --dir /tmp/w2 -D 30 >/dev/null 2>&1 & watch=$!
        sleep 3; kill -9 $watch; sleep 0.2; echo == killed; left
        watching watch $pid --deadline 2ms --dir /tmp/w2 -D 2 >/dev/null 2>/tmp/again; echo == again; cat /tmp/again
        echo == removed; left
        watching watch $pid --deadline 2ms --dir /tmp/w2 -D 30 >/dev/null 2>&1 & watch=$!
        sleep 3; kill -9 $watch; sleep 0.2
        echo == restored; watching doctor --restore >/dev/null && left";
    let file = format!("{}:watching", program.display());
    let machine = ["vm", "run", "x86_64-rt,mem=1024,icount=0"];
    let fault = ["--fault", "preempt-off:us=800,every=31.3ms", "--file", &file];
    let libraries = ["--package", "libc6", "--package", "libgcc-s1", "--", "sh", "-c", script];
    let output = run(dir.path(), &[&machine[..], &fault, &libraries].concat());
    let all = sections(&printed(&output));
    let of = |name: &str| all.get(name).map_or("", |text| text.trim());
    let status: serde_json::Value =
        serde_json::from_str(of("status")).unwrap_or_else(|e| panic!("{e}: {all:#?}"));
    assert_eq!(status["total"]["counters"]["uncovered"], 0, "{}", of("status"));
    assert!(status["total"]["counters"]["captures"].as_u64() >= Some(2), "{}", of("status"));
    assert!(of("captures").contains("_preemption-disabled_fault.dat"), "{}", of("captures"));
    assert!(!of("captures").contains("unknown"), "{}", of("captures"));
    assert!(of("killed").starts_with("latlab-"), "it records: {}", said(&output));
    // The next start removes what the killed one left, and says only what it watches.
    let again: Vec<&str> = of("again").lines().collect();
    assert!(matches!(again[..], [line] if line.starts_with("latlab: watching ")), "{again:?}");
    assert_eq!((of("left"), of("removed"), of("restored")), ("", "", ""), "{}", said(&output));
}

/// On a board of one core and 512 MB: late wake-ups are captured with their cause, in at most 16 MB.
#[test]
#[ignore = "boots a virtual machine"]
fn a_board_watches_a_task() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "latlab wakeup -q -i 5000 -p 80 -D 60 --out /tmp/r >/dev/null 2>&1 & pid=$!; sleep 1
        latlab watch $pid --limit 300us --budget 90% --dir /tmp/w -D 30 --json >/tmp/status & watch=$!
        sleep 28; echo == memory; sed -n 's/^VmHWM:[^0-9]*//p' /proc/$watch/status
        wait $watch; echo == status; cat /tmp/status; echo == captures; ls /tmp/w/captures
        echo == left; ls /sys/kernel/tracing/instances; kill $pid; wait";
    let machine = ["vm", "run", "armv7-rt,mem=512,icount=0"];
    let fault = ["--fault", "preempt-off:us=800,every=31.3ms", "--", "sh", "-c", script];
    let output = run(dir.path(), &[&machine[..], &fault].concat());
    let all = sections(&printed(&output));
    let of = |name: &str| all.get(name).map_or("", |text| text.trim());
    let status: serde_json::Value =
        serde_json::from_str(of("status")).unwrap_or_else(|e| panic!("{e}: {all:#?}"));
    let counters = &status["total"]["counters"];
    assert_eq!((&counters["uncovered"], &counters["lost_events"]), (&0.into(), &0.into()));
    assert!(of("captures").contains("_preemption-disabled_fault.dat"), "{}", of("captures"));
    let kb: u64 = of("memory").trim_end_matches(" kB").parse().unwrap();
    assert!(kb < 16 << 10, "{kb} kB");
    assert_eq!(of("left"), "", "{}", said(&output));
}
