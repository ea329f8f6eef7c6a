//! `latlab compare` from outside.

use crate::common::{latlab, text};
use latlab_model::run::{Detail, Run};
use latlab_model::samples;
use latlab_model::wakeup::WakeupConfig;
use latlab_testkit::latency_sim::{World, wakeups};
use std::path::Path;

/// A file of samples of a simulated machine.
fn samples_of(world: &World, n: usize, seed: u64, file: &Path) {
    let mut bytes = samples::header(&WakeupConfig::default());
    let values = wakeups(world, n, seed);
    for (at, block) in values.chunks(1_000).enumerate() {
        let begin = at as u64 * 1_000;
        let of = |(i, v): (usize, &u64)| ((begin + i as u64) * 1_000_000, *v);
        samples::block(0, block.iter().enumerate().map(of), &mut bytes);
    }
    std::fs::write(file, bytes).unwrap();
}

/// As `cyclictest -h` prints it.
fn cyclictest(rows: &[(u32, u32)], file: &Path) {
    let rows: String = rows.iter().map(|(us, n)| format!("{us:06} {n:06}\n")).collect();
    let text = format!("# Histogram\n{rows}# Total: 1\n# Histogram Overflows: 00000\n");
    std::fs::write(file, text).unwrap();
}

#[test]
fn worse_is_exit_code_2_and_reaches_ci() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::default();
    samples_of(&world, 30_000, 1, &dir.path().join("a"));
    samples_of(&World { late: world.late * 6.0, ..world }, 30_000, 2, &dir.path().join("b"));
    let args = [
        "compare",
        "a",
        "b",
        "--fail-if",
        "worse",
        "--limit",
        "45us",
        "--junit",
        "j.xml",
        "--markdown",
        "m.md",
        "--html",
        "h.html",
    ];
    // One run a side: they differ, which fails nothing unless that is asked for.
    let single = latlab(dir.path(), &args);
    assert_eq!(single.status.code(), Some(0), "{}", text(&single.stderr));
    assert!(text(&single.stdout).contains("these runs differ: "), "{}", text(&single.stdout));
    let junit = std::fs::read_to_string(dir.path().join("j.xml")).unwrap();
    assert!(junit.contains("<skipped ") && !junit.contains("<failure "), "{junit}");
    let allowed = latlab(dir.path(), &[&args[..], &["--allow-single"]].concat());
    assert_eq!(allowed.status.code(), Some(2), "{}", text(&allowed.stderr));
    let back = ["compare", "b", "a", "--fail-if", "worse", "--allow-single"];
    assert_eq!(latlab(dir.path(), &back).status.code(), Some(0), "it is faster");
    let mut base = vec!["compare", "--base", "a"];
    for (i, name) in ["a2", "a3", "b2", "b3"].into_iter().enumerate() {
        let late = if i < 2 { 1.0 } else { 6.0 };
        let file = dir.path().join(name);
        samples_of(&World { late: world.late * late, ..world }, 30_000, 3 + i as u64, &file);
    }
    base.extend(["a2", "a3", "--new", "b", "b2", "b3"]);
    base.extend(&args[3..]);
    let out = latlab(dir.path(), &base);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(said.contains("worse: ") && said.contains("rate over 45.0 µs"), "{said}");
    let junit = std::fs::read_to_string(dir.path().join("j.xml")).unwrap();
    assert!(junit.contains("<failure ") && junit.contains("wakeup.user"), "{junit}");
    assert!(std::fs::read_to_string(dir.path().join("m.md")).unwrap().contains("| verdict |"));
    let page = std::fs::read_to_string(dir.path().join("h.html")).unwrap();
    assert!(page.contains("wakeup.user") && !page.contains("Incomplete run"));
    // The other way round it is better, and the base alone is no worse than itself.
    assert_eq!(
        latlab(dir.path(), &["compare", "b", "a", "--fail-if", "worse"]).status.code(),
        Some(0)
    );
    assert_eq!(
        latlab(dir.path(), &["compare", "a", "a", "--fail-if", "different"]).status.code(),
        Some(0)
    );
}

#[test]
fn many_files_a_side_and_json() {
    let dir = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for i in 0..8u64 {
        let world = World { median: if i < 4 { 15_000.0 } else { 20_000.0 }, ..World::default() };
        names.push(format!("s{i}"));
        samples_of(&world, 4_000, i, &dir.path().join(&names[i as usize]));
    }
    let mut args = vec!["compare", "--json", "--out", "r", "--base"];
    args.extend(names[..4].iter().map(String::as_str));
    args.push("--new");
    args.extend(names[4..].iter().map(String::as_str));
    let out = latlab(dir.path(), &args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let run: Run = serde_json::from_slice(&out.stdout).unwrap();
    let Some(Detail::Compare(d)) = &run.parts[0].detail else { panic!("a comparison") };
    assert_eq!(d.metrics[0].sides[0].as_ref().unwrap().runs, 4);
    assert_eq!(d.verdict(), latlab_model::compare::Verdict::Worse);
    assert!(d.metrics[0].contrasts[0].notes.is_empty(), "{:?}", d.metrics[0].contrasts[0].notes);
    // What was kept is read back.
    assert!(latlab(dir.path(), &["report", "r"]).status.success());
}

#[test]
fn bad_input_is_one_sentence_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    cyclictest(&[(1, 0), (2, 100), (3, 7)], &path("c"));
    cyclictest(&[(1, 0), (2, 0)], &path("empty"));
    std::fs::write(path("damaged"), "# Histogram\n000001 0000x1\n").unwrap();
    std::fs::write(path("prose"), "nothing to see here\n").unwrap();
    std::fs::write(path("lm"), "Simple syscall: 0.5 microseconds\n").unwrap();
    std::fs::create_dir(path("dir")).unwrap();
    std::fs::write(path("cut.json"), "{\"schema_version\": 1, \"parts\": [").unwrap();
    for (args, sentence) in [
        (&["c"][..], "at least two runs are needed"),
        (&["c", "nowhere"], "nowhere: cannot be read"),
        (&["c", "empty"], "empty: output of cyclictest, but its histogram is empty"),
        (&["c", "damaged"], "damaged: output of cyclictest, but damaged at line 2"),
        (&["c", "prose"], "prose: no run of latlab, and no output of cyclictest"),
        (&["c", "lm"], "nothing to compare: c has wakeup.user; lm has syscall.getppid"),
        (&["c", "dir"], "dir: a directory without run.json"),
        (&["c", "@nobody"], "@nobody: no published machine of this name"),
        (&["c", "cut.json"], "cut.json: truncated"),
        (&["c", "c", "--limit", "soon"], "--limit soon"),
        (&["c", "c", "--detectable", "10us"], "--detectable 10us: no '@'"),
        (&["c", "c", "--tell", "10us@7"], "between 0 and 0.5"),
        (&["c", "c", "--level", "0"], "--level 0"),
        (&["c", "c", "--allow-single"], "--fail-if"),
        (&["c", "c", "--junit", "no/where.xml"], "--junit no/where.xml: cannot be written"),
    ] {
        let out = latlab(dir.path(), &[&["compare"], args].concat());
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(sentence), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_published_machine_and_a_file_of_lmbench() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("lm"), "Simple syscall: 0.1700 microseconds\n").unwrap();
    let out = latlab(dir.path(), &["compare", "@beaglebone-black-2015", "lm"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(said.contains("567 ns → 170 ns") && said.contains("inconclusive"), "{said}");
}

#[test]
fn a_published_machine_and_curves_of_memory() {
    let dir = tempfile::tempdir().unwrap();
    let fixture =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/memory/beaglebone-black.lat_mem_rd");
    let made = latlab(dir.path(), &["memory", "--from", fixture, "--out", "curves"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let out = latlab(dir.path(), &["compare", "@beaglebone-black-2015", "curves"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(said.contains("memory.load:stride=32") && said.contains("110 ns → 110 ns"), "{said}");
}

#[test]
fn runs_of_latlab_meet_with_their_machines() {
    let dir = tempfile::tempdir().unwrap();
    let args =
        ["wakeup", "-q", "-p0", "--policy", "other", "-i", "1000", "-l", "600", "-t1", "--out"];
    for name in ["a", "b"] {
        let out = latlab(dir.path(), &[&args[..], &[name]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let path = dir.path().join("b/run.json");
    let other = std::fs::read_to_string(&path).unwrap();
    let mut run: Run = serde_json::from_str(&other).unwrap();
    run.machine.kernel.release = "9.9.9-rt".into();
    std::fs::write(&path, serde_json::to_string(&run).unwrap()).unwrap();
    let out = latlab(dir.path(), &["compare", "a", "b", "--details"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    let (machine, verdict) =
        (said.find("9.9.9-rt").unwrap(), said.find("Compared with A").unwrap());
    assert!(machine < verdict, "differences of machines come first: {said}");
    assert!(said.contains("wakeup.user"), "{said}");
}
