//! A disk that fails: every call with which a result is written fails in turn, as full, with an
//! input/output error, by a signal, and half done (`failing_disk.c`, preloaded). After each failure the
//! earlier state is there or the new one, nothing half-written, and the exit code says so.

use crate::common::{
    SmallDisk, command, copy_program, fixture, latlab, printed, run_of, said, shim, succeed,
    tracefs,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HOWS: [&str; 4] = ["ENOSPC", "EIO", "EINTR", "SHORT"];
const HOWS_OF_SQLITE: [&str; 4] = ["ENOSPC", "EIO-SQLITE", "EINTR", "SHORT"];
/// More calls than any result needs: whoever gets here counts something else.
const MOST: usize = 400;

/// Runs a command in a new directory for each call that can fail and each way; `prepare` fills the
/// directory, `check` looks at it afterwards and is told whether the command succeeded. Returns how many
/// calls failed in the way of `EIO`.
fn each_failure(
    args: &[&str],
    prepare: impl Fn(&Path),
    check: impl Fn(&str, &Path, bool, &Output),
) -> usize {
    each_failure_of(&HOWS, args, prepare, check)
}

fn each_failure_of(
    hows: &[&str],
    args: &[&str],
    prepare: impl Fn(&Path),
    check: impl Fn(&str, &Path, bool, &Output),
) -> usize {
    each_failure_at((0, 1), hows, args, prepare, check)
}

/// Only every `step`th call fails, from `first`: for commands that take long.
fn each_failure_at(
    (first, step): (usize, usize),
    hows: &[&str],
    args: &[&str],
    prepare: impl Fn(&Path),
    check: impl Fn(&str, &Path, bool, &Output),
) -> usize {
    let tools = tempfile::tempdir().unwrap();
    let Some(shim) = shim(tools.path(), "failing_disk.c") else { return usize::MAX };
    let mut failed = 0;
    for how in hows {
        for at in (first..).step_by(step) {
            assert!(at < MOST, "{args:?}: {how} at {at}");
            let t = tempfile::tempdir().unwrap();
            let dir = t.path().canonicalize().unwrap();
            prepare(&dir);
            let hit = tools.path().join("hit");
            let _ = fs::remove_file(&hit);
            let mut run = command(&dir, args);
            run.env("LD_PRELOAD", &shim).env("FAIL_UNDER", &dir).env("FAIL_HIT", &hit);
            let out = run.env("FAIL_AT", at.to_string()).env("FAIL_HOW", how).output().unwrap();
            let good = out.status.success();
            if !hit.exists() {
                assert!(good, "{args:?}: {}", said(&out));
                break;
            }
            let what = format!("{args:?}: {how} at {at}: {:?}: {}", out.status.code(), said(&out));
            match *how {
                "EIO" => {
                    assert_eq!(out.status.code(), Some(1), "{what}");
                    failed += 1;
                }
                // It ignores errors of syncing a directory; what it says was done is done, see `check`.
                "EIO-SQLITE" => failed += usize::from(!good),
                // SQLite takes an interrupted fsync for a failed one.
                "EINTR" if *hows == HOWS_OF_SQLITE => failed += usize::from(!good),
                "EINTR" | "SHORT" => assert!(good, "no failure: {what}"),
                _ => {}
            }
            let sentences = said(&out).lines().filter(|l| l.starts_with("latlab: ")).count();
            assert!(good || sentences == 1, "{what}");
            for file in names(&dir) {
                let name = file.file_name().unwrap().to_string_lossy();
                assert!(
                    !name.ends_with(".tmp") && !name.ends_with(".part"),
                    "{name} stays: {what}"
                );
            }
            check(&what, &dir, good, &out);
        }
    }
    failed
}

/// Every file below a directory.
fn names(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => todo.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

/// Every file below a directory, with what is in it.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    names(dir).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn copy(from: &Path, to: &Path) {
    succeed(Command::new("cp").arg("-r").arg(from).arg(to));
}

/// A small measured run in `dir/NAME`.
fn a_run(dir: &Path, name: &str) {
    let out = latlab(dir, &[MEASURE, &["--out", name]].concat());
    assert!(out.status.success(), "{}", said(&out));
}

const MEASURE: &[&str] = &["wakeup", "--policy", "other", "-i", "1000", "-l", "5"];

#[test]
fn a_run_is_saved_or_the_empty_one_is_there() {
    let args = [MEASURE, &["--out", "r"]].concat();
    let failed = each_failure(
        &args,
        |_| {},
        |what, dir, good, out| {
            let saved = dir.join("r/run.json").exists().then(|| run_of(&dir.join("r")));
            let whole = saved.as_ref().is_some_and(|run| run.complete && run.parts.len() == 1);
            assert!(whole || !good, "{what}");
            // Half a run is none: empty as it was saved before the measurement, or with its part.
            assert!(saved.is_none_or(|run| whole || run.parts.is_empty()), "{what}");
            let page = fs::read_to_string(dir.join("r/report.html")).unwrap_or_default();
            assert!(page.is_empty() && !good || page.trim_end().ends_with("</html>"), "{what}");
            // What was measured is printed even when it cannot be saved.
            let before = said(out).contains("run.json: cannot be saved") && !whole;
            assert!(!printed(out).is_empty() || before || !good, "{what}");
        },
    );
    // Made, written, synced, renamed, directory synced: twice run.json, once the page.
    assert!(failed >= 15, "{failed}");
}

/// The files of cyclictest's options replace earlier ones, each whole.
#[test]
fn files_of_cyclictest_are_the_earlier_or_the_new_ones() {
    const NAMES: [&str; 2] = ["x/h", "x/j"];
    let files = ["-h", "100", "--histfile", NAMES[0], "--json-file", NAMES[1], "--out", "r"];
    let args = [MEASURE, &files].concat();
    let failed = each_failure(
        &args,
        |dir| {
            fs::create_dir(dir.join("x")).unwrap();
            NAMES.iter().for_each(|name| fs::write(dir.join(name), "earlier").unwrap());
        },
        |what, dir, good, _| {
            let new = |name: &str| {
                let text = fs::read_to_string(dir.join(name)).unwrap();
                let whole = match name {
                    "x/h" => text.contains("# Max Latencies:"),
                    _ => serde_json::from_str::<serde_json::Value>(&text).is_ok(),
                };
                assert!(whole || text == "earlier" && !good, "{name}: {text:?}: {what}");
                whole
            };
            assert!(NAMES.iter().filter(|name| new(name)).count() == 2 || !good, "{what}");
            assert_eq!(fs::read_dir(dir.join("x")).unwrap().count(), 2, "{what}");
        },
    );
    // Made, written, synced, renamed, directory synced: two files more than of a run alone.
    assert!(failed >= 25, "{failed}");
}

#[test]
fn samples_are_whole_blocks_or_the_earlier_file_stays() {
    let args = [MEASURE, &["--samples", "s", "--out", "r"]].concat();
    let failed = each_failure(
        &args,
        |dir| fs::write(dir.join("s"), "earlier").unwrap(),
        |what, dir, good, _| {
            let bytes = fs::read(dir.join("s")).unwrap();
            if bytes == b"earlier" {
                return assert!(!good, "{what}");
            }
            let file = latlab_model::samples::read(&bytes).unwrap();
            assert_eq!(file.damaged_at, None, "{what}");
            assert!(!file.threads[0].samples.is_empty(), "{what}");
        },
    );
    // Made, head, samples, renamed: four more than of a run alone.
    assert!(failed >= 19, "{failed}");
}

/// A name that stands for an open file is written to, also where that is an ordinary one.
#[test]
fn standard_output_is_not_replaced() {
    let t = tempfile::tempdir().unwrap();
    let before = fs::read_link("/dev/stdout").unwrap();
    let trace = fixture("trace/latlab-v7-zlib.dat");
    for args in [
        &[MEASURE, &["--out", "r", "--samples", "/dev/stdout"]].concat()[..],
        &[MEASURE, &["--out", "q", "-h", "9", "--histfile", "/dev/stdout"]].concat(),
        &["export", "--perfetto", "/dev/stdout", &trace],
    ] {
        let file = fs::File::create(t.path().join("all")).unwrap();
        let out = command(t.path(), args).stdout(file).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", said(&out));
        assert!(fs::metadata(t.path().join("all")).unwrap().len() > 50, "{args:?}");
    }
    for more in [&[][..], &["--last", "1"]] {
        let args = [&["record", "-e", "sched_switch", "-o", "/dev/stdout"], more, &["true"]];
        let file = fs::File::create(t.path().join("all")).unwrap();
        let out = command(t.path(), &args.concat()).stdout(file).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    }
    assert_eq!(fs::read_link("/dev/stdout").unwrap(), before);
}

#[test]
fn a_store_has_a_run_or_has_it_not() {
    let runs = tempfile::tempdir().unwrap();
    a_run(runs.path(), "one");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    a_run(runs.path(), "two");
    let store = runs.path().join("h");
    let add = |dir: &Path, run: &str| latlab(dir, &["history", "--store", "h", "add", run]);
    assert!(add(runs.path(), "one").status.success());
    let failed = each_failure_of(
        &HOWS_OF_SQLITE,
        &["history", "--store", "h", "add", "two"],
        |dir| {
            copy(&store, &dir.join("h"));
            copy(&runs.path().join("two"), &dir.join("two"));
        },
        |what, dir, good, _| {
            let listed = |dir: &Path| -> serde_json::Value {
                let out = latlab(dir, &["history", "--store", "h", "list", "--json"]);
                assert!(out.status.success(), "{what}: {}", said(&out));
                serde_json::from_slice(&out.stdout).unwrap()
            };
            let runs = listed(dir).as_array().unwrap().len();
            assert!(runs == 2 || runs == 1 && !good, "{what}: {runs}");
            // Nothing of it is in the way of adding it again.
            assert!(add(dir, "two").status.success(), "{what}");
            assert_eq!(listed(dir).as_array().unwrap().len(), 2, "{what}");
            let db = rusqlite::Connection::open(dir.join("h")).unwrap();
            let sound: String = db.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
            assert_eq!(sound, "ok", "{what}");
        },
    );
    assert!(failed >= 8, "{failed}");
}

#[test]
fn a_new_store_is_made_whole_or_can_be_made_again() {
    let runs = tempfile::tempdir().unwrap();
    a_run(runs.path(), "one");
    each_failure_of(
        &HOWS_OF_SQLITE,
        &["history", "--store", "h", "add", "one"],
        |dir| copy(&runs.path().join("one"), &dir.join("one")),
        |what, dir, good, _| {
            let out = latlab(dir, &["history", "--store", "h", "add", "one"]);
            assert!(out.status.success(), "{what}: {}", said(&out));
            assert!(!good || printed(&out).contains("1 already stored"), "{what}");
        },
    );
}

/// An export replaces earlier files, all of them or each whole.
fn an_export_replaces(args: &[&str], earlier: &str) {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    copy(Path::new(&fixture(&format!("trace/{earlier}"))), &dir.join("old.dat"));
    copy(Path::new(&fixture("trace/latlab-v7-zlib.dat")), &dir.join("new.dat"));
    let export = |trace: &str| {
        let out = latlab(dir, &[args, &[trace]].concat());
        assert!(out.status.success(), "{}", said(&out));
        let results = files(&dir.join("x")).into_iter();
        let named = results.map(|(p, b)| (p.strip_prefix(dir).unwrap().to_owned(), b));
        named.collect::<BTreeMap<_, _>>()
    };
    fs::create_dir(dir.join("x")).unwrap();
    let old = export("old.dat");
    let kept = tempfile::tempdir().unwrap();
    copy(&dir.join("x"), &kept.path().join("x"));
    let new = export("new.dat");
    assert!(!old.is_empty() && old != new);
    let failed = each_failure(
        &[args, &["new.dat"]].concat(),
        |to| {
            copy(&kept.path().join("x"), &to.join("x"));
            copy(&dir.join("new.dat"), &to.join("new.dat"));
        },
        |what, to, good, _| {
            for (path, bytes) in files(&to.join("x")) {
                let path = path.strip_prefix(to).unwrap();
                let is = |all: &BTreeMap<PathBuf, Vec<u8>>| all.get(path) == Some(&bytes);
                assert!(is(&new) || is(&old) && !good, "{}: {what}", path.display());
            }
        },
    );
    assert!(failed >= 5, "{failed}");
}

#[test]
fn a_perfetto_trace_is_the_earlier_or_the_new_one() {
    an_export_replaces(&["export", "--perfetto", "x/t.pftrace"], "latlab-v7-zstd.dat");
}

#[test]
fn parquet_tables_are_the_earlier_or_the_new_ones() {
    an_export_replaces(&["export", "--parquet", "x"], "latlab-v7-zstd.dat");
}

/// The points of a sweep are there up to the failure, and it goes on after them.
#[test]
fn a_sweep_goes_on_after_its_points() {
    let args = "sweep --vm-bytes 64K --mode alloc -D 20ms --settle 1ms --refine 0 --out r";
    let args: Vec<&str> = args.split(' ').collect();
    let failed = each_failure_of(
        &HOWS[..2],
        &args,
        |_| {},
        |what, dir, good, _| {
            let measured = || fs::read_to_string(dir.join("r/points.jsonl")).unwrap_or_default();
            let before = measured();
            let whole = &before[..before.rfind('\n').map_or(0, |end| end + 1)];
            for line in whole.lines() {
                assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{what}: {line}");
            }
            if good || !dir.join("r/sweep.json").exists() {
                return;
            }
            let out = latlab(dir, &["sweep", "--resume", "r"]);
            assert!(out.status.success(), "{what}: {}", said(&out));
            assert!(measured().starts_with(whole), "{what}");
            assert!(run_of(&dir.join("r")).complete, "{what}");
        },
    );
    assert!(failed >= 20, "{failed}");
}

/// What `latlab report --stat` counts in a trace, which must be readable.
fn events_of(what: &str, trace: &Path) -> u64 {
    let trace = trace.to_str().unwrap();
    let out = latlab(Path::new("/"), &["report", "--stat", "--json", trace]);
    assert!(out.status.success(), "{what}: {}", said(&out));
    let stat: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    stat["events"].as_u64().unwrap()
}

#[test]
fn a_recording_is_a_trace_or_the_earlier_file_stays() {
    if tracefs().is_none() {
        return;
    }
    let t = tempfile::tempdir().unwrap();
    copy_program("/bin/true", &t.path().join("latlab-failing"));
    let program = t.path().join("latlab-failing");
    // An event or two, which fill no page: the number of writes is about the same each time.
    let (event, filter) = ("sched:sched_process_exec", "filename ~ \"*/latlab-failing\"");
    let args = ["record", "-e", event, "-f", filter, "-b", "64", "-o", "t.dat", "--"];
    let args = [&args[..], &[program.to_str().unwrap()]].concat();
    let failed = each_failure(
        &args,
        |dir| fs::write(dir.join("t.dat"), "earlier").unwrap(),
        |what, dir, good, out| {
            let trace = dir.join("t.dat");
            let earlier = fs::metadata(&trace).unwrap().len() == 7;
            assert!(!earlier || !good && fs::read(&trace).unwrap() == b"earlier", "{what}");
            assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "{what}");
            if earlier {
                return;
            }
            let events = events_of(what, &trace);
            assert!(events == 1 || events == 0 && !good, "{what}: {events}");
            let kept = format!("t.dat: {events} events in");
            assert!(said(out).contains(&kept) || !good, "{what}");
        },
    );
    // Head: made, sized, written, synced, renamed. A page and its size. Compact: made, written, synced, renamed.
    assert!(failed >= 11, "{failed}");
}

#[test]
fn a_dump_of_a_flight_recorder_is_whole_or_not_there() {
    if tracefs().is_none() {
        return;
    }
    let args = ["record", "--last", "1", "-e", "sched_process_exec", "-o", "t.dat", "--", "true"];
    let failed = each_failure(
        &args,
        |_| {},
        |what, dir, good, _| {
            let trace = dir.join("t.dat");
            assert!(trace.exists() || !good, "{what}");
            assert!(!trace.exists() || events_of(what, &trace) > 0, "{what}");
        },
    );
    assert!(failed >= 3, "{failed}");
}

/// Whatever could not be saved: run.json is whole, and says what was measured or nothing.
#[test]
fn late_wake_ups_that_cannot_be_saved_are_explained_as_far_as_they_are() {
    if tracefs().is_none() {
        return;
    }
    let late =
        "why --policy other -i 1000 --window 1us..9s --trace events --captures 2 -D 1 --out r";
    let args = &late.split(' ').collect::<Vec<_>>()[..];
    let check = |what: &str, dir: &Path, good: bool, out: &Output| {
        let saved = dir.join("r/run.json").exists().then(|| run_of(&dir.join("r")));
        let measured = saved.as_ref().is_some_and(|run| run.parts.len() == 2);
        assert!(measured || !good, "{what}");
        assert!(saved.is_none_or(|run| measured || run.parts.is_empty()), "{what}");
        for capture in names(dir).iter().filter(|p| p.extension().is_some_and(|e| e == "dat")) {
            assert!(events_of(what, capture) > 0, "{what}");
        }
        // What was measured is printed, unless the run could not be begun.
        let begun = dir.join("r/captures").exists();
        assert!(!begun || !printed(out).is_empty(), "{what}");
    };
    // Mostly it sleeps: each way at other calls, side by side.
    std::thread::scope(|ways| {
        for (first, how) in HOWS.into_iter().enumerate() {
            let at = (first, HOWS.len());
            ways.spawn(move || each_failure_at(at, &[how], args, |_| {}, check));
        }
    });
}

/// What was captured before the disk was full is explained, and the run says so.
#[test]
fn a_capture_that_cannot_be_saved_ends_the_hunt_with_what_there_is() {
    if tracefs().is_none() {
        return;
    }
    let t = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::of("1m") else { return };
    std::os::unix::fs::symlink(disk.path(), t.path().join("captures")).unwrap();
    let late =
        "why --policy other -i 1000 --window 1us..9s --trace events --captures 200 -D 30 --out .";
    let out = latlab(t.path(), &late.split(' ').collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("No space left on device"), "{}", said(&out));
    let run = run_of(t.path());
    assert_eq!(run.stopped_by.as_deref(), Some("a capture could not be saved"));
    let Some(latlab_model::run::Detail::Why(result)) = &run.parts[0].detail else { panic!() };
    assert!(!result.captures.is_empty() && !printed(&out).is_empty());
}

#[test]
fn a_listing_that_cannot_be_written_is_an_error() {
    let trace = fixture("trace/latlab-v7-zlib.dat");
    let t = tempfile::tempdir().unwrap();
    for args in [
        &["report", &trace][..],
        &["report", "--json", &trace],
        &["export", "--csv", &trace],
        &["export", "--json", &trace],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let out = command(t.path(), args).stdout(full).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        assert!(said(&out).contains("No space left on device"), "{}", said(&out));
    }
}

/// The disk with the samples becomes full while they are measured: those before are there, the run is kept.
#[test]
fn samples_before_the_disk_was_full_are_kept() {
    let Some(disk) = SmallDisk::of("64k") else { return };
    let t = tempfile::tempdir().unwrap();
    let samples = disk.path().join("s");
    let args = ["wakeup", "--policy", "other", "-i", "100", "-D", "20", "--out", "r", "--samples"];
    let out = command(t.path(), &args).arg(&samples).output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("No space left on device"), "{}", said(&out));
    assert!(said(&out).contains(&format!("--samples {}: ", samples.display())), "{}", said(&out));
    let run = run_of(&t.path().join("r"));
    assert!(run.parts[0].results[0].summary.count > 500, "what was measured is in the run");
    assert!(fs::metadata(&samples).unwrap().len() > 32 << 10, "and in the file");
}

/// The disk with the run becomes full while it is measured: what was measured is printed.
#[test]
fn a_result_that_cannot_be_saved_is_printed() {
    let Some(disk) = SmallDisk::of("24k") else { return };
    let args = [MEASURE, &["--out", "r"]].concat();
    let out = latlab(disk.path(), &args);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("No space left on device"), "{}", said(&out));
    assert!(printed(&out).contains("µs") || printed(&out).contains("ns"), "{}", printed(&out));
    assert!(!run_of(&disk.path().join("r")).latlab_version.is_empty(), "run.json is whole");
}
