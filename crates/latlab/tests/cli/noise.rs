//! `latlab noise` from outside.

use crate::common::{latlab, printed, said};

#[test]
fn a_measurement_has_every_source_add_up_to_the_time_lost() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["noise", "-D", "0.5", "-p", "100000", "-T", "3", "--json"]);
    assert!(out.status.success(), "{}", said(&out));
    let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let part = &run["parts"][0];
    assert_eq!(part["detail"]["kind"], "noise");
    for cpu in part["detail"]["cpus"].as_array().unwrap() {
        let lost = cpu["lost_ns"].as_u64().unwrap();
        let sources = cpu["sources"].as_array().unwrap();
        let sum: u64 = sources.iter().map(|s| s["total_ns"].as_u64().unwrap()).sum();
        assert_eq!(sum, lost, "{cpu}");
        assert!(cpu["windows"].as_u64().unwrap() >= 1 && cpu["looped_ns"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_limit_ends_it_with_exit_code_2_and_the_run_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    // A tick or a switch is longer than a microsecond on any machine.
    let out = latlab(dir.path(), &["noise", "-D", "30", "-T", "1", "-s", "1", "--no-trace"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(printed(&out).contains("Limit exceeded"), "{}", printed(&out));
    assert_eq!(std::fs::read_dir(dir.path().join("runs")).unwrap().count(), 1);
    // A queue of one packet is exceeded by the first interruption; its window is kept where events are recorded.
    let words = ["noise", "-D", "30", "-T", "1", "--queue", "1000000:500:1", "--out", "queue"];
    let out = latlab(dir.path(), &[&words[..], &["-p", "200000"]].concat());
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(printed(&out).contains("queue of"), "{}", printed(&out));
    let traced = !printed(&out).contains("Sources are unknown");
    assert_eq!(dir.path().join("queue/captures/limit.dat").exists(), traced);
}

#[test]
fn formats_of_other_tools_are_printed_and_json_excludes_them() {
    let dir = tempfile::tempdir().unwrap();
    let noise = |format: &str| {
        let words = ["noise", "-D", "0.1", "-p", "100000", "--no-trace", "--format", format];
        let out = latlab(dir.path(), &[&words[..], &["--out", format]].concat());
        assert!(out.status.success(), "{}", said(&out));
        printed(&out)
    };
    assert!(noise("rtla").contains("% CPU Aval"));
    assert!(noise("oslat").contains("032 (us):"));
    assert!(noise("hwlatdetect").contains("Max Latency: "));
    let out = latlab(dir.path(), &["noise", "--json", "--format", "rtla"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("--json"), "{}", said(&out));
}

#[test]
fn what_leaves_no_pause_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab(dir.path(), &["noise", "-p", "100000", "-r", "100000"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("--runtime"), "{}", said(&out));
}

/// A kernel without the tracer is named with what works instead; one that has it measures.
#[test]
fn a_tracer_of_the_kernel_measures_or_is_named_as_missing() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["noise", "--by", "osnoise", "-D", "1.2", "-p", "100000", "--json"];
    let out = latlab(dir.path(), &words);
    let tracers = std::fs::read_to_string("/sys/kernel/tracing/available_tracers");
    if tracers.is_ok_and(|t| t.split_whitespace().any(|t| t == "osnoise")) {
        let run: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(run["parts"][0]["detail"]["tracer"], "osnoise", "{}", said(&out));
    } else {
        assert_eq!(out.status.code(), Some(1));
        assert!(said(&out).contains("osnoise") || said(&out).contains("tracefs"), "{}", said(&out));
        // Nothing was measured: no run is left.
        let runs = std::fs::read_dir(dir.path().join("runs")).map_or(0, Iterator::count);
        assert_eq!(runs, 0, "{}", said(&out));
    }
    let out = latlab(dir.path(), &["noise", "--by", "hwlat", "-r", "600000"]);
    assert!(said(&out).contains("50 %"), "{}", said(&out));
}
