//! `latlab tune` from outside.

use crate::common::{command, is_root, latlab, printed, said, signal, skip, wait_for};
use rustix::process::Signal;

#[test]
fn the_list_has_all_settings_and_nothing_else_is_tried() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["tune", "--list"]);
    assert!(out.status.success() && printed(&out).contains("vm.stat_interval"), "{}", said(&out));
    for wrong in ["kernel.panic=1", "kernel.sched_rt_runtime_us=-1", "thp"] {
        let out = latlab(dir.path(), &["tune", "--try", wrong]);
        assert_eq!(out.status.code(), Some(1), "{wrong}");
        assert!(said(&out).contains("--try"), "{}", said(&out));
    }
}

/// What boots a machine is refused before anything boots.
#[test]
fn boot_parameters_need_a_machine_and_are_those_of_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |words: &[&str], what: &str| {
        let out = latlab(dir.path(), &[&["tune"], words].concat());
        assert!(!out.status.success() && said(&out).contains(what), "{words:?}: {}", said(&out));
    };
    refused(&["--try", "isolcpus=1"], "boot parameter");
    refused(&["--boot", "vm:armv7-rt", "--try", "init=/bin/sh"], "not a boot parameter");
    refused(&["--boot", "armv7-rt"], "no parameter to try");
    refused(&["--boot", "armv7-rt", "--try", "nohlt", "--apply"], "--apply");
    refused(&["--boot", "nothing-rt", "--try", "nohlt"], "nothing-rt");
    // The machine's own error with its hint, before a board build is made, and no run.
    let out = latlab(dir.path(), &["tune", "--boot", "armv7-rt,kernel=/nothing", "--try", "nohlt"]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let lines = said(&out);
    let lines: Vec<&str> = lines.lines().filter(|l| !l.starts_with('[')).collect();
    assert!(
        lines[0].starts_with("latlab: armv7-rt,kernel=/nothing: exit status: 1: ")
            && lines[0].contains("/nothing: No such file"),
        "{lines:?}"
    );
    assert!(!lines[1..].iter().any(|l| l.contains("run directory")), "{lines:?}");
    let runs = std::fs::read_dir(dir.path().join("runs"));
    assert_eq!(runs.map_or(0, Iterator::count), 0);
}

/// A setting of the kernel is as it was after the blocks.
#[test]
fn a_tried_setting_is_restored() {
    const FILE: &str = "/proc/sys/kernel/hung_task_timeout_secs";
    let Ok(before) = std::fs::read_to_string(FILE) else { return };
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["tune", "--try", "kernel.hung_task_timeout_secs=600", "--rounds", "4", "--block", "0.1"];
    let out = latlab(dir.path(), &[&words[..], &["-p", "0", "--json"]].concat());
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(std::fs::read_to_string(FILE).unwrap(), before);
    let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let tried = &run["parts"][0]["detail"]["tried"][0];
    if is_root() {
        assert_eq!(tried["files"][0]["before"].as_str(), Some(before.trim()), "{tried}");
    } else {
        assert_eq!(tried["effect"], "not_tried", "{tried}");
    }
}

/// Two settings, each alone and both at once: the combination has its interaction, and everything is as before.
#[test]
fn settings_are_tried_together() {
    const FILES: [&str; 2] = ["/proc/sys/vm/compaction_proactiveness", "/proc/sys/vm/swappiness"];
    if !is_root() {
        return;
    }
    let before = FILES.map(|f| std::fs::read_to_string(f).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "tune",
        "--try",
        "vm.compaction_proactiveness=0",
        "--try",
        "vm.swappiness=0",
        "--together",
    ];
    let more = ["--rounds", "4", "--block", "0.1", "-p", "0", "--json"];
    let bench = ["--bench", "syscall.getppid"];
    let out = latlab(dir.path(), &[&words[..], &bench, &more].concat());
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(FILES.map(|f| std::fs::read_to_string(f).unwrap()), before);
    let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let tried = run["parts"][0]["detail"]["tried"].as_array().unwrap();
    assert_eq!(tried[2]["name"], "vm.compaction_proactiveness=0+vm.swappiness=0");
    assert_eq!(tried[2]["files"].as_array().unwrap().len(), 2);
    assert_eq!(tried[2]["together"]["parts"].as_array().unwrap().len(), 2);
    // Half a second of a system call in each block: an interval for each setting.
    let detail = &run["parts"][0]["detail"];
    assert_eq!(detail["side"][0]["name"], "syscall.getppid");
    assert!(tried.iter().all(|t| t["side"][0]["interval"][1].as_f64().unwrap() > -1.0), "{detail}");
    let wrong = latlab(dir.path(), &["tune", "--try", "vm.swappiness=0", "--bench", "no.such"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(said(&wrong).contains("no.such"), "{}", said(&wrong));
    let out = latlab(dir.path(), &["tune", "--try", "vm.swappiness=0", "--together"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("--together: "), "{}", said(&out));
}

/// Every combination of a design is measured, effects and pairs are judged, and everything is as before.
#[test]
fn settings_are_tried_in_combinations() {
    const FILES: [&str; 2] = ["/proc/sys/vm/stat_interval", "/sys/kernel/rcu_normal"];
    let dir = tempfile::tempdir().unwrap();
    let words = ["tune", "--factorial", "--try", "rcu_normal=1", "--try", "vm.stat_interval=120"];
    let more = ["--rounds", "4", "--block", "0.1", "-p", "0"];
    let tune = |extra: &[&str]| latlab(dir.path(), &[&words[..], &more, extra].concat());
    let before = FILES.map(|f| std::fs::read_to_string(f).unwrap());
    let out = tune(&["--json"]);
    if !is_root() {
        assert_eq!(out.status.code(), Some(1));
        assert!(said(&out).contains("0 of 2 settings can be set"), "{}", said(&out));
        return;
    }
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(FILES.map(|f| std::fs::read_to_string(f).unwrap()), before);
    let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let detail = &run["parts"][0]["detail"];
    assert_eq!((&detail["rounds"], &detail["factorial"]["runs"]), (&4.into(), &4.into()));
    let pair = &detail["factorial"]["interactions"][0];
    assert_eq!(pair["pairs"], serde_json::json!([["rcu_normal=1", "vm.stat_interval=120"]]));
    for tried in detail["tried"].as_array().unwrap() {
        assert_eq!((&tried["rounds"], tried["files"].as_array().unwrap().len()), (&8.into(), 1));
        assert!(tried["response_ns"][0].as_f64().unwrap() > 0.0, "{tried}");
    }
    let out = tune(&["--try", "vm.stat_interval=10"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("both set /proc/sys/vm/stat_interval"), "{}", said(&out));
    let out = latlab(dir.path(), &["tune", "--factorial", "--try", "rcu_normal=1"]);
    assert!(said(&out).contains("2 to 16 settings can be tried, not 1"), "{}", said(&out));
}

/// The quantile and the circumstances of a requirement are those of the blocks, of which the ones that meet it are counted.
#[test]
fn a_requirement_is_the_response() {
    let dir = tempfile::tempdir().unwrap();
    let tune = |require: &str, more: &[&str]| {
        let words = ["tune", "--try", "rcu_expedited=1", "--rounds", "4", "--block", "0.1"];
        latlab(dir.path(), &[&words[..], &["--require", require], more].concat())
    };
    for (wrong, what) in [
        ("p99 < 80", "no unit"),
        ("missed = 0", "not a quantile or maximum"),
        ("p99 < 80 us, max < 1 ms", "one condition only"),
        ("p99 < 80 us, 10 min", "--block"),
    ] {
        let out = tune(wrong, &[]);
        assert_eq!(out.status.code(), Some(1), "{wrong}");
        assert!(said(&out).contains("--require"), "{wrong}, {what}: {}", said(&out));
    }
    if !is_root() {
        return;
    }
    for (require, met) in [("max < 10 s, interval 500 us, priority 1", 4), ("p99 < 1 ns", 0)] {
        let out = tune(require, &["--json"]);
        assert!(out.status.success(), "{}", said(&out));
        let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let detail = &run["parts"][0]["detail"];
        let quantile = if require.starts_with("max") { 1.0 } else { 0.99 };
        assert_eq!(detail["quantile"], quantile);
        assert_eq!(detail["met_without"], serde_json::json!([4, met]));
        assert_eq!(detail["tried"][0]["met"], met);
    }
}

/// A decided setting has fewer blocks than the others, never more; the time ends the rounds.
#[test]
fn settings_are_eliminated_and_the_time_is_limited() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| -> serde_json::Value {
        // None of those that other tests hold.
        let words = ["tune", "--try", "ksm=0", "--try", "vm.compact_unevictable_allowed=1"];
        let fixed = ["--block", "0.1", "-p", "0", "--json", "--eliminate"];
        let out = latlab(dir.path(), &[&words[..], &fixed, more].concat());
        assert!(out.status.success(), "{}", said(&out));
        let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        run["parts"][0]["detail"].clone()
    };
    let detail = run(&["--rounds", "8"]);
    let rounds = detail["rounds"].as_u64().unwrap();
    for tried in detail["tried"].as_array().unwrap() {
        let blocks = tried["rounds"].as_u64().unwrap();
        assert!([4, rounds].contains(&blocks) && rounds <= 8, "{detail}");
        assert!(blocks == rounds || tried["effect"] != "undecided", "{detail}");
    }
    let limited = run(&["--rounds", "100", "-D", "3"]);
    assert!((1..20).contains(&limited["rounds"].as_u64().unwrap()), "{limited}");
    let wrong = latlab(dir.path(), &["tune", "--eliminate", "--rounds", "7"]);
    assert_eq!((wrong.status.code(), said(&wrong).contains("--rounds 8")), (Some(1), true));
}

/// Priorities of interrupt threads are as before after the blocks, after SIGTERM, and after SIGKILL once another latlab has
/// looked.
#[test]
fn priorities_of_interrupt_threads_are_restored() {
    let threads = latlab_sys::settings::interrupt_threads();
    let Some(tid) = threads.first().and_then(latlab_sys::settings::InterruptThread::tid) else {
        return skip("no interrupt has a thread here");
    };
    if !is_root() {
        return skip("another thread's priority needs root");
    }
    let now = || latlab_sys::policy::of(tid as i32).unwrap().1;
    let before = now();
    let other = if before == 31 { 32 } else { 31 };
    let dir = tempfile::tempdir().unwrap();
    let word = format!("irq-threads={other}");
    let words = ["tune", "--try", &word, "--rounds", "4", "-p", "0", "-a", "0", "--json"];
    let out = latlab(dir.path(), &[&words[..], &["--block", "0.1"]].concat());
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(now(), before);
    let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let files = run["parts"][0]["detail"]["tried"][0]["files"].as_array().unwrap();
    assert_eq!(files.len(), threads.len(), "{files:?}");
    assert_eq!(files[0]["value"], format!("fifo {other}"));
    assert_eq!(files[0]["before"], format!("fifo {before}"));
    for sent in [Signal::TERM, Signal::KILL] {
        let mut child = command(dir.path(), &[&words[..], &["--block", "4"]].concat())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pause = std::time::Duration::from_millis(20);
        wait_for("the priority of a block", pause, || (now() == other).then_some(()));
        signal(&child, sent);
        child.wait().unwrap();
        if sent == Signal::KILL {
            latlab(dir.path(), &["doctor", "--restore"]);
        }
        assert_eq!(now(), before, "after {sent:?}");
    }
    for (wrong, what) in [
        ("irq-threads=none7:40", "no interrupt none7 has a thread here"),
        ("coalescing=none7:0", "no network interface none7 here"),
    ] {
        let words = ["tune", "--try", wrong, "--rounds", "4", "--block", "0.1", "-p", "0"];
        let out = latlab(dir.path(), &[&words[..], &["--json"]].concat());
        assert!(printed(&out).contains(what), "{}{}", printed(&out), said(&out));
    }
}

/// The power of each block comes from a sensor of hwmon, and is compared as a side effect. The sensor is a file in place of
/// the kernel's, in a mount namespace.
#[test]
fn power_is_a_side_effect_where_it_can_be_read() {
    if !is_root() {
        return skip("only root may mount");
    }
    let dir = tempfile::tempdir().unwrap();
    let inside = |files: &str, words: &str| {
        let script = format!("mount -t tmpfs none /sys/class && {files} exec \"$LATLAB\" {words}");
        let plain = command(dir.path(), &[]);
        let mut inside = std::process::Command::new("unshare");
        inside.args(["-m", "sh", "-c", &script]).current_dir(dir.path());
        inside.env("LATLAB", plain.get_program());
        inside.output().unwrap()
    };
    let sensor = "mkdir -p /sys/class/hwmon/hwmon0 && cd /sys/class/hwmon/hwmon0 &&
        echo ina226 >name && echo 5250000 >power1_input && cd - >/dev/null &&";
    let out = inside(sensor, "tune --try vm.stat_interval=120 --rounds 4 --block 0.3 -p 0 --json");
    assert!(out.status.success(), "{}", said(&out));
    let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let detail = &run["parts"][0]["detail"];
    let expected = serde_json::json!([{"name": "power.ina226-power1", "unit": "watt"}]);
    assert_eq!(detail["side"], expected);
    let side = &detail["tried"][0]["side"][0];
    assert_eq!((side["effect"].as_str(), side["change"].as_f64()), (Some("no_effect"), Some(0.0)));

    let words = "wakeup -q --power -D 0.3 -p 0";
    let out = inside(sensor, words);
    assert!(printed(&out).contains("Mean electrical power: 5.25 W (ina226-power1)."));
    let out = inside("", words);
    assert!(out.status.success(), "{}", said(&out));
    assert!(printed(&out).contains("Electrical power not measured"), "{}", printed(&out));
}
