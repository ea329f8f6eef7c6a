//! `latlab why --user-stacks`: where in its code a program waits.

use crate::common::{compiled, is_root, latlab_here as latlab, real_time, said, skip, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

fn waits(output: &Output) -> Value {
    let run: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(output)));
    run["parts"][0]["detail"]["waits"].clone()
}

fn record(program: &Path, out: &Path) -> Output {
    // It ends with the last capture; intervals are short where other tests make many events.
    let program = ["--", program.to_str().unwrap(), "4000"];
    let fixed = ["why", "--json", "-D", "20", "--captures", "6", "--deadline", "1500us"];
    let stacks = ["--user-stacks", "--out", out.to_str().unwrap()];
    latlab(&[&fixed[..], &stacks, &program].concat())
}

/// The first site with such a function.
fn site(waits: &Value, what: impl Fn(&Value) -> bool) -> &Value {
    let sites = waits["sites"].as_array().unwrap();
    let has = |s: &&Value| s["stack"].as_array().unwrap().iter().any(&what);
    sites.iter().find(has).unwrap_or_else(|| panic!("{waits:#}"))
}

/// Mean of a late activation and of one on time, ns.
fn means(waits: &Value, site: &Value) -> (f64, f64) {
    let mean = |side: &str| {
        let total = site[side]["total_ns"].as_f64().unwrap();
        total / waits[side].as_f64().unwrap().max(1.0)
    };
    (mean("late"), mean("on_time"))
}

/// With debug information: functions with lines, inlined ones too, compiled without frame pointers. The same from the
/// run, and a damaged file is one sentence.
#[test]
fn places_at_which_a_program_waits_have_functions_and_lines() {
    if !is_root() {
        return skip("it takes root");
    }
    let t = tempfile::tempdir().unwrap();
    let Some(program) = compiled(t.path(), "waiting_loop.c", &["-g", "-fomit-frame-pointer"])
    else {
        return;
    };
    let _alone = real_time();
    let run = t.path().join("run");
    let output = record(&program, &run);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let waits = waits(&output);
    assert!(waits["late"].as_u64() >= Some(6), "{waits:#}");
    let [without, late] = ["without_stack", "late"].map(|n| waits[n].as_u64().unwrap());
    assert!(10 * without <= late + 9, "{without} of {late}");
    // Of the late ones two thirds wait for the sensor and one third for the lock; on a machine that others use as well,
    // more are late than these.
    for (function, inside) in [("update_state", "take_lock"), ("read_sensor", "pause_us")] {
        let of = site(&waits, |f| f["function"] == function);
        let (late, on_time) = means(&waits, of);
        assert!((0.15e6..2.5e6).contains(&late) && on_time < 0.4 * late, "{function}: {waits:#}");
        let frames = of["stack"].as_array().unwrap();
        let named = |name: &str| {
            frames
                .iter()
                .find(|f| f["function"] == name)
                .unwrap_or_else(|| panic!("{name}: {of:#}"))
        };
        for name in [function, inside, "main"] {
            let place = named(name)["place"].as_str().unwrap();
            let line = place.split_once("waiting_loop.c:").map(|(_, line)| line.parse::<u32>());
            assert!(line.is_some_and(|l| l.is_ok_and(|l| l > 10)), "{name}: {of:#}");
        }
        assert_eq!(named(inside)["inlined"], true, "{of:#}");
        assert!(frames[0]["object"].as_str().unwrap().starts_with("libc"), "{of:#}");
    }
    let report = text(&latlab(&["report", run.to_str().unwrap()]).stdout);
    assert!(report.contains("< take_lock (") && report.contains("< pause_us ("), "{report}");

    let again =
        ["why", "--json", run.to_str().unwrap(), "--task", "ctl_loop", "--deadline", "1500us"];
    let again = latlab(&again);
    assert_eq!(self::waits(&again)["sites"], waits["sites"], "{}", said(&again));
    let file = fs::read_dir(run.join("captures")).unwrap().flatten().map(|e| e.path());
    let file = file.into_iter().find(|p| p.extension().is_some_and(|e| e == "json")).unwrap();
    fs::write(&file, b"{\"frames\": 3}").unwrap();
    let damaged = latlab(&["why", run.to_str().unwrap(), "--task", "ctl_loop"]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(said(&damaged).contains("not a file of user stacks"), "{}", said(&damaged));
}

/// Without symbols of its own: the library's function, and addresses in the program's file.
#[test]
fn places_in_a_stripped_program_are_offsets() {
    if !is_root() {
        return skip("it takes root");
    }
    let t = tempfile::tempdir().unwrap();
    let Some(program) = compiled(t.path(), "waiting_loop.c", &["-s"]) else { return };
    let _alone = real_time();
    let output = record(&program, &t.path().join("run"));
    let waits = waits(&output);
    let own = |f: &Value| {
        let function = f["function"].as_str().unwrap();
        f["object"] == "waiting_loop" && function.starts_with("+0x")
    };
    let sites = waits["sites"].as_array().unwrap();
    let mut late: Vec<_> = sites.iter().collect();
    late.sort_by_key(|s| std::cmp::Reverse(s["late"]["total_ns"].as_u64()));
    assert!(late.len() >= 2, "{waits:#}");
    for site in &late[..2] {
        let frames = site["stack"].as_array().unwrap();
        assert!(frames.iter().filter(|f| own(f)).count() >= 2, "{site:#}");
        assert!(frames.iter().any(|f| f["object"].as_str().unwrap().starts_with("libc")));
    }
}

/// Code without a file and without unwind tables: the perf map names it, frame pointers lead through it.
#[test]
#[cfg(target_arch = "x86_64")]
fn places_in_code_that_was_compiled_at_run_time_are_named_by_its_perf_map() {
    if !is_root() {
        return skip("it takes root");
    }
    let t = tempfile::tempdir().unwrap();
    let options = ["-g", "-fno-omit-frame-pointer"];
    let Some(program) = compiled(t.path(), "compiled_code.c", &options) else { return };
    let _alone = real_time();
    let output = latlab(&[
        "why",
        "--json",
        "-D",
        "2",
        "--deadline",
        "1500us",
        "--user-stacks",
        "--out",
        t.path().join("run").to_str().unwrap(),
        "--",
        program.to_str().unwrap(),
        "4000",
    ]);
    // As run-time compilers do, the program leaves it.
    let maps = fs::read_dir("/tmp").unwrap().flatten().map(|e| e.path());
    let maps = maps.filter(|p| p.extension().is_some_and(|e| e == "map"));
    for map in maps.filter(|p| fs::read_to_string(p).is_ok_and(|t| t.contains("made_step"))) {
        fs::remove_file(map).unwrap();
    }
    let waits = waits(&output);
    let of = site(&waits, |f| f["function"] == "pause_inside");
    let named: Vec<&str> =
        of["stack"].as_array().unwrap().iter().map(|f| f["function"].as_str().unwrap()).collect();
    let at = |name: &str| named.iter().position(|f| *f == name).unwrap_or_else(|| panic!("{of:#}"));
    assert_eq!(at("made_step loop.js:7"), at("pause_inside") + 1, "{of:#}");
    assert_eq!(at("main"), at("pause_inside") + 2, "{of:#}");
}

#[test]
fn user_stacks_are_those_of_a_program() {
    let output = latlab(&["why", "--user-stacks", "-D", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("--user-stacks: needs --task, or a command"),
        "{}",
        said(&output)
    );
}
