//! `latlab why` in the virtual lab: what was struck is what is named. The whole table is
//! `bench/why-faults`; this is the part of it that fits into every build.

use crate::common::{in_machine, printed, said};
use serde_json::Value;

/// The detail of a hunt in a machine with these faults, in virtual time.
fn hunt(faults: &[&str], trace: &str, limit: &str) -> Value {
    let why = ["latlab", "why", "--limit", limit, "--trace", trace, "-p", "90", "-i", "1037"];
    inside(
        "armv7-rt,icount=0",
        faults,
        &[&why[..], &["-D", "8s", "--captures", "24", "-q", "--out", "r"]].concat(),
    )
    .0
}

/// The detail of the run that a command leaves in `r`, and what it printed.
fn inside(machine: &str, faults: &[&str], command: &[&str]) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut args = vec!["vm", "run", machine];
    for fault in faults {
        args.extend(["--fault", fault]);
    }
    args.push("--");
    args.extend(command);
    let output = in_machine(dir.path(), &args).output().unwrap();
    let run = std::fs::read_to_string(dir.path().join("r/run.json"));
    let run = run.unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
    let run: Value = serde_json::from_str(&run).unwrap();
    (run["parts"][0]["detail"].clone(), printed(&output))
}

/// Mechanism, who, and size in µs of the causes, the first first.
fn named(detail: &Value) -> Vec<(String, String, f64)> {
    let clusters = detail["explanation"]["causes"].as_array().unwrap();
    let one = |c: &Value| {
        let text = |key: &str| c[key].as_str().unwrap().to_owned();
        (text("mechanism"), text("who"), c["size_ns"].as_f64().unwrap() / 1e3)
    };
    clusters.iter().map(one).collect()
}

#[test]
#[ignore = "boots a virtual machine"]
fn faults_at_once_are_all_named_with_their_sizes() {
    let faults =
        ["irqs-off:us=300,every=9.73ms", "hardirq:us=300,every=13.1ms", "irq:us=300,every=11.3ms"];
    let detail = hunt(&faults, "events", "150us");
    let named = named(&detail);
    for (mechanism, who) in [
        ("interrupts-off", "fault"),
        ("hrtimer-handler", "on_hrtimer"),
        ("interrupt-handler", "fault-device"),
    ] {
        let found = named.iter().take(3).find(|n| n.0 == mechanism && n.1.starts_with(who));
        let size = found.unwrap_or_else(|| panic!("{named:?}")).2;
        assert!((240.0..360.0).contains(&size), "{named:?}");
    }
    for w in detail["windows"].as_array().unwrap() {
        let sum: u64 =
            w["shares"].as_array().unwrap().iter().map(|s| s[1]["ns"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), w["latency_ns"].as_u64());
    }
}

/// The whole machine stopped by the kernel, a work item with interrupts off, and many short interrupts.
#[test]
#[ignore = "boots a virtual machine"]
fn sections_of_kernel_threads_and_a_storm_at_once_are_told_apart() {
    let faults = [
        "stop-machine:us=300,every=9.73ms",
        "work-irqs-off:us=300,every=13.1ms",
        "irq-storm:us=300,every=11.3ms",
    ];
    let named = named(&hunt(&faults, "events", "150us"));
    for (mechanism, who, sized) in [
        ("interrupts-off", "migration", true),
        ("interrupts-off", "on_work", true),
        ("interrupt-handler", "fault-device", false),
    ] {
        let found = named.iter().take(3).find(|n| n.0 == mechanism && n.1.starts_with(who));
        let size = found.unwrap_or_else(|| panic!("{named:?}")).2;
        assert!(!sized || (240.0..360.0).contains(&size), "{named:?}");
    }
}

/// A timer's function delays some wake-ups between the call of the other thread and the return from the wait. The calling
/// thread is no holder of a lock.
#[test]
#[ignore = "boots a virtual machine"]
fn wake_ups_by_another_thread_are_explained_from_its_call_on() {
    let why = "latlab why --by pipe --limit 150us --trace events -p 90 -i 500 -D 8s --captures 24 -q --out r";
    let (detail, _) = inside(
        "armv7-rt,icount=0",
        &["hardirq:us=300,every=1.37ms,jitter=50"],
        &why.split(' ').collect::<Vec<_>>(),
    );
    let named = named(&detail);
    let (mechanism, who, size) = &named[0];
    assert_eq!(mechanism, "hrtimer-handler", "{named:?}");
    assert!(who.starts_with("on_hrtimer") && (240.0..360.0).contains(size), "{named:?}");
    let windows = detail["windows"].as_array().unwrap();
    assert!(windows.iter().filter(|w| w["late"] == true).count() >= 3, "{named:?}");
    // Behind the wake-up it may wait for the lock of the pipe, which the caller still holds.
    let waits = |w: &Value| {
        let shares = w["shares"].as_array().unwrap().iter();
        let before = shares.filter(|s| s[1]["stage"] != "return");
        before.map(|s| &s[0]["cause"]).any(|cause| cause == "lock" || cause == "interrupts_off")
    };
    assert!(!windows.iter().any(waits), "{windows:#?}");
}

#[test]
#[ignore = "boots a virtual machine"]
fn where_nothing_was_struck_nothing_is_named() {
    let detail = hunt(&[], "events", "60us");
    let named = named(&detail);
    assert!(named.is_empty(), "{named:?}");
}

/// A remedy that was tried: what was changed, and how much of the excess was gone (the lower end of
/// its interval).
fn proved<'a>(detail: &'a Value, remedy: &str) -> (&'a Value, f64) {
    let proofs = detail["mitigation_tests"].as_array().unwrap();
    let proof = proofs
        .iter()
        .find(|p| p["remedy"]["id"] == remedy)
        .unwrap_or_else(|| panic!("{proofs:#?}"));
    let gone = proof["effect"]["interval"][0].as_f64().unwrap_or_else(|| panic!("{proof:#}"));
    (&proof["changes"][0]["values"], gone)
}

#[test]
#[ignore = "boots a virtual machine"]
fn throttling_taken_away_takes_the_excess_along_and_is_put_back() {
    let why = "latlab why --test-mitigation --limit 1ms --trace events -p 90 -i 1037 -D 3s --captures 6 -q --out r; \
               cat /proc/sys/kernel/sched_rt_runtime_us";
    let (detail, printed) =
        inside("x86_64-rt,icount=0", &["throttle:ms=5,every=97.3ms"], &["sh", "-c", why]);
    assert_eq!(named(&detail)[0].0, "throttling", "{:?}", named(&detail));
    let (change, gone) = proved(&detail, "why.test-rt-runtime");
    let file = change["file"].as_str().unwrap_or_default();
    assert!(file.ends_with("sched_rt_runtime_us"), "{change}");
    let value = |name: &str| change[name].as_str().unwrap_or_default();
    assert_eq!((value("before"), value("during")), ("5000", "9900"), "{change}");
    assert!(gone > 0.8, "{gone}");
    assert!(printed.lines().any(|line| line == "5000"), "put back: {printed}");
}
