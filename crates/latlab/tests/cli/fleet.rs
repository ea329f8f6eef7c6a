//! `latlab fleet` from outside: a lake is filled, read by another reader, asked, and survives what ends a writer.

use crate::common::{LATLAB, latlab, printed, said, skip, text};
use latlab_model::finding::{Confidence, Finding, Severity};
use latlab_model::record::Record;
use latlab_model::run::{Part, Run, SCHEMA_VERSION};
use latlab_stats::histogram::Histogram;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Questions and their texts.
const QUESTIONS: [&str; 6] = ["slower", "tail", "causes", "outliers", "ill", "setting"];

/// A night of one of six devices. From night 5 on with another kernel, which makes board "a" a tenth slower;
/// device 5 is slower by half.
fn a_run(device: u32, night: u32) -> Run {
    let late = night >= 5;
    let mut base = if late { 16_500 } else { 15_000 };
    if device == 5 {
        base = base * 3 / 2;
    }
    let h = Histogram::of((0..2_000).map(|i| base + u64::from(device * 31) + i % 500));
    let finding = Finding::typed("why.interrupts-off", Severity::Problem, Confidence::High)
        .value("function", "driver_poll");
    let mut run = Run {
        schema_version: SCHEMA_VERSION,
        id: format!("00000000-0000-4000-8000-{device:04}{night:08}"),
        complete: true,
        started: format!("2026-03-{:02}T02:{device:02}:00Z", 1 + night),
        command_line: vec!["latlab".into(), "wakeup".into()],
        parts: vec![Part {
            name: "wakeup".into(),
            complete: true,
            results: vec![Record {
                name: "wakeup.user".into(),
                params: [("cpu".to_owned(), 0.into())].into(),
                summary: h.summary(),
                histogram: Some(h),
                ..Record::default()
            }],
            findings: if late { vec![finding] } else { Vec::new() },
            ..Part::default()
        }],
        ..Run::default()
    };
    run.machine.host = "bb".into();
    run.machine.unit = Some(format!("sn{device}"));
    run.machine.board = Some("a".into());
    run.machine.kernel.release = if late { "6.6.31" } else { "6.6.30" }.into();
    run.machine.kernel.preemption =
        Some(if night.is_multiple_of(2) { "rt" } else { "full" }.into());
    run
}

fn save(run: &Run, dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("run.json"), serde_json::to_vec(run).unwrap()).unwrap();
}

pub fn nights(root: &Path, nights: std::ops::Range<u32>) {
    for night in nights {
        (0..6).for_each(|d| save(&a_run(d, night), &root.join(format!("runs/{night}/{d}"))));
    }
}

/// Files of a lake, relative to it.
pub fn files(lake: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut todo = vec![lake.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            if entry.path().is_dir() {
                todo.push(entry.path());
            } else {
                out.push(entry.path().strip_prefix(lake).unwrap().to_owned());
            }
        }
    }
    out.sort();
    out
}

pub fn fleet(dir: &Path, args: &str) -> String {
    let args: Vec<&str> = std::iter::once("fleet").chain(args.split(' ')).collect();
    let out = latlab(dir, &args);
    assert!(out.status.success(), "{args:?}: {}", said(&out));
    printed(&out)
}

#[test]
fn a_run_enters_a_lake_once() {
    let t = tempfile::tempdir().unwrap();
    nights(t.path(), 0..2);
    assert_eq!(fleet(t.path(), "import --lake lake runs/0"), "6 runs added, 0 already stored\n");
    assert_eq!(fleet(t.path(), "import --lake lake runs"), "6 runs added, 6 already stored\n");
    let before = files(&t.path().join("lake"));
    assert_eq!(before.len(), 1 + 2 * 5, "{before:?}");
    assert_eq!(fleet(t.path(), "import --lake lake runs"), "0 runs added, 12 already stored\n");
    assert_eq!(files(&t.path().join("lake")), before, "nothing is written anew");
    // The same id, another content.
    let mut changed = a_run(0, 0);
    changed.parts[0].results[0].summary.median = Some(1.0);
    save(&changed, &t.path().join("again"));
    let out = latlab(t.path(), &["fleet", "import", "--lake", "lake", "again"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("another run is stored under its id"), "{}", said(&out));
    let few = fleet(t.path(), "regressions --lake lake");
    assert_eq!(few, "no alarm: 2 nights, and changes are tested from about 40 on\n");
    // Another directory is no lake.
    let out = latlab(t.path(), &["fleet", "import", "--lake", "runs", "again"]);
    assert!(said(&out).contains("--lake runs: no lake"), "{}", said(&out));
}

#[test]
fn hostile_runs_stay_outside() {
    let t = tempfile::tempdir().unwrap();
    nights(t.path(), 0..1);
    let hostile = |name: &str, edit: &dyn Fn(&mut Run)| {
        let mut run = a_run(9, 9);
        edit(&mut run);
        save(&run, &t.path().join("runs").join(name));
    };
    hostile("id", &|r| r.id = "../../../../etc/passwd".into());
    hostile("future", &|r| r.started = "2999-01-01T00:00:00Z".into());
    hostile("day", &|r| r.started = "../../../../../../etcZ".into());
    hostile("terminal", &|r| r.machine.board = Some("\u{1b}]0;x\u{7}".into()));
    hostile("long", &|r| r.parts[0].results[0].name = "x".repeat(1 << 20));
    fs::create_dir_all(t.path().join("runs/cut")).unwrap();
    fs::write(t.path().join("runs/cut/run.json"), b"{\"schema_version\": 2, \"parts\": [").unwrap();
    fs::create_dir_all(t.path().join("runs/link")).unwrap();
    std::os::unix::fs::symlink("../0/0/run.json", t.path().join("runs/link/run.json")).unwrap();
    std::os::unix::fs::symlink("..", t.path().join("runs/link/around")).unwrap();
    let out = latlab(t.path(), &["fleet", "import", "--lake", "lake", "runs"]);
    assert_eq!(printed(&out), "6 runs added, 0 already stored, 6 left out\n", "{}", said(&out));
    assert_eq!(said(&out).lines().filter(|l| l.starts_with("latlab: left out: ")).count(), 6);
    assert!(!said(&out).contains('\u{1b}'));
    assert!(files(&t.path().join("lake")).iter().all(|f| {
        f.starts_with("_latlab") || f.to_string_lossy().contains("date=2026-03-01/part-")
    }));
}

#[test]
fn compaction_joins_the_files_of_a_day_and_a_crash_loses_nothing() {
    let t = tempfile::tempdir().unwrap();
    let lake = t.path().join("lake");
    nights(t.path(), 0..1);
    for device in 0..6 {
        fleet(t.path(), &format!("import --lake lake runs/0/{device}"));
    }
    assert_eq!(files(&lake).len(), 1 + 6 * 5);
    // A writer that ended between two names: files without one of `run`.
    let day = |table: &str| lake.join(table).join("date=2026-03-01");
    let any = fs::read_dir(day("result")).unwrap().next().unwrap().unwrap().path();
    fs::copy(&any, day("result").join("part-00000000000000aa.parquet")).unwrap();
    assert_eq!(fleet(t.path(), "compact --lake lake"), "30 files became 5\n");
    let joined = files(&lake);
    assert_eq!(joined.len(), 1 + 5, "{joined:?}");
    assert_eq!(fleet(t.path(), "compact --lake lake"), "5 files became 5\n");
    assert_eq!(fleet(t.path(), "import --lake lake runs"), "0 runs added, 6 already stored\n");
    // Compaction that ended after the new names: the earlier files are still there.
    let new = fs::read_dir(day("run")).unwrap().next().unwrap().unwrap().file_name();
    for table in ["run", "result", "histogram", "finding", "environment"] {
        fs::copy(day(table).join(&new), day(table).join("part-00000000000000bb.parquet")).unwrap();
    }
    let journal = format!(
        "{{\"2026-03-01\": [\"{}\", [\"part-00000000000000bb.parquet\"]]}}",
        new.to_string_lossy()
    );
    fs::write(lake.join("_latlab/compaction.json"), journal).unwrap();
    assert_eq!(fleet(t.path(), "compact --lake lake"), "5 files became 5\n");
    assert_eq!(files(&lake), joined);
}

/// Answers of DuckDB to a question.
fn ask(dir: &Path, args: &[&str]) -> serde_json::Value {
    let out = latlab(dir, &[&["fleet", "ask", "--lake", "lake", "--json"], args].concat());
    assert!(out.status.success(), "{args:?}: {}", said(&out));
    serde_json::from_str(&printed(&out)).unwrap()
}

#[test]
fn questions_are_answered_by_duckdb() {
    if std::env::var_os("LATLAB_PYTHON").is_none() {
        skip("LATLAB_PYTHON names no Python with duckdb");
        return;
    }
    let t = tempfile::tempdir().unwrap();
    nights(t.path(), 0..10);
    fleet(t.path(), "import --lake lake runs");
    let slower = ask(t.path(), &["slower"]);
    assert_eq!(slower.as_array().unwrap().len(), 1, "{slower}");
    assert_eq!((&slower[0]["kernel"], &slower[0]["devices"]), (&"6.6.31".into(), &6.into()));
    assert!((slower[0]["median_change"].as_f64().unwrap() - 0.1).abs() < 0.01, "{slower}");
    // The merged tail is that of all samples: the slowest device has a sixth of them.
    let tail = ask(t.path(), &["tail", "--quantile", "0.999"]);
    let mut all = Histogram::default();
    for (device, night) in (0..6).flat_map(|d| (0..10).map(move |n| (d, n))) {
        all.merge(a_run(device, night).parts[0].results[0].histogram.as_ref().unwrap());
    }
    let (found, exact) =
        (tail[0]["quantile"].as_f64().unwrap(), all.quantile(0.999).unwrap() as f64);
    assert!(found >= exact && found < exact * (1.0 + 1.0 / 64.0), "{found} {exact}");
    assert_eq!((&tail[0]["samples"], &tail[0]["worst_device"]), (&120_000.into(), &"sn5".into()));
    let causes = ask(t.path(), &["causes"]);
    assert_eq!(causes[0]["finding"], "why.interrupts-off");
    assert_eq!((&causes[0]["kernel"], &causes[0]["share"]), (&"6.6.31".into(), &1.0.into()));
    let outliers = ask(t.path(), &["outliers"]);
    assert_eq!(outliers[0]["device"], "sn5", "{outliers}");
    assert_eq!(outliers.as_array().unwrap().len(), 1, "{outliers}");
    assert_eq!(ask(t.path(), &["ill"])[0]["verdict"], "board");
    let setting = ask(t.path(), &["setting"]);
    assert_eq!((&setting[0]["value_before"], &setting[0]["devices"]), (&"full".into(), &6.into()));
    assert!(setting[0]["median_change"].as_f64().unwrap().abs() < 0.01);
    // What a person reads.
    let out = latlab(t.path(), &["fleet", "ask", "outliers", "--lake", "lake"]);
    assert!(printed(&out).contains("sn5"), "{}", printed(&out));
    let none = fleet(t.path(), "ask tail --lake lake --name wakeup.kernel");
    assert_eq!(none, "nothing found for the result wakeup.kernel (--name)\n");
    // Of one kernel.
    let samples = |kernel: &str| {
        let tail = ask(t.path(), &["tail", "--kernel", kernel]);
        tail[0]["samples"].as_u64().unwrap()
    };
    assert_eq!(samples("6.6.30") + samples("6.6.31"), samples("*"));
    assert_eq!(samples("6.6.3*"), samples("*"));
    let none = fleet(t.path(), "ask tail --lake lake --kernel 6.6._0");
    assert!(none.ends_with("wakeup.user (--name) and the kernel 6.6._0 (--kernel)\n"), "{none}");
    // Columns are in the order of the question.
    let out = latlab(t.path(), &["fleet", "ask", "tail", "--lake", "lake"]);
    let heads = printed(&out).lines().next().unwrap().to_owned();
    let heads: Vec<&str> = heads.split_whitespace().collect();
    assert_eq!(heads[..6], ["devices", "nights", "samples", "quantile", "low_95", "high_95"]);
}

/// The pages and the text of SQL tell the same tail: value and ends of its interval.
#[test]
fn pages_and_question_have_the_same_tail() {
    if std::env::var_os("LATLAB_PYTHON").is_none() {
        skip("LATLAB_PYTHON names no Python with duckdb");
        return;
    }
    for (devices, nights, over, words) in [
        (6, 7, "devices and nights", "6 devices, 7 nights"),
        (5, 2, "devices", "5 devices in 2 nights"),
        (1, 6, "nights", "6 nights of this device"),
        (3, 7, "none: fewer than 5 devices", "none: 3 devices, fewer than 5"),
    ] {
        let t = tempfile::tempdir().unwrap();
        for (device, night) in (0..devices).flat_map(|d| (0..nights).map(move |n| (d, n))) {
            let mut run = a_run(device, night);
            // How often a wake-up is late depends on device and night.
            let every = u64::from(20 + 7 * device + 3 * night);
            let one =
                |i: u64| if i.is_multiple_of(every) { 60_000 + 20 * i } else { 15_000 + i % 500 };
            let h = Histogram::of((0..2_000).map(one));
            let result = &mut run.parts[0].results[0];
            (result.summary, result.histogram) = (h.summary(), Some(h));
            save(&run, &t.path().join(format!("runs/{night}/{device}")));
        }
        fleet(t.path(), "import --lake lake runs");
        fleet(t.path(), "report --lake lake --out site");
        let page = (site(&t.path().join("site")).into_iter())
            .find(|(file, _)| file.to_string_lossy().starts_with("result-"))
            .map(|(_, content)| text(&content))
            .unwrap();
        assert!(page.contains(words), "{words}: {page}");
        for q in ["0.5", "0.99"] {
            let tail = ask(t.path(), &["tail", "--quantile", q]);
            assert_eq!(tail[0]["interval_over"], over);
            let shown = |key: &str| tail[0][key].as_f64().map(latlab_model::units::format_ns);
            let value = shown("quantile").unwrap();
            let cell = match (shown("low_95"), shown("high_95")) {
                (Some(low), Some(high)) => format!("{value} ({low} to {high})"),
                _ => value,
            };
            assert!(page.contains(&format!(">{cell}<")), "{q}: {cell}: {page}");
        }
    }
}

#[test]
fn the_documentation_has_the_texts_of_the_questions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/reference/fleet.md")).unwrap();
    for question in QUESTIONS {
        let file = root.join(format!("src/cmd/fleet/questions/{question}.sql"));
        let sql = fs::read_to_string(file).unwrap();
        assert!(
            page.contains(&format!("```sql\n{sql}```")),
            "{question} is another text in the page"
        );
    }
    for table in latlab_model::lake::TABLES {
        for (column, _) in table.columns {
            assert!(page.contains(&format!("`{column}`")), "{}.{column}", table.name);
        }
    }
}

#[test]
fn without_duckdb_the_text_is_printed() {
    let t = tempfile::tempdir().unwrap();
    nights(t.path(), 0..1);
    fleet(t.path(), "import --lake lake runs");
    let empty = t.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let out = Command::new(LATLAB)
        .args(["fleet", "ask", "tail", "--lake", "lake"])
        .current_dir(t.path())
        .env("PATH", &empty)
        .env_remove("LATLAB_PYTHON")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("DuckDB is not installed"), "{}", said(&out));
    let sql = fleet(t.path(), "ask tail --lake lake --sql");
    assert!(sql.starts_with("create view run as ") && sql.contains("'wakeup.user'"), "{sql}");
    assert!(!sql.contains(":name") && !sql.contains(":quantile"), "{sql}");
}

/// Fifty nights of three devices; all are slower by a fifth from night 40 on.
fn worse_since_night_40(root: &Path, edit: &dyn Fn(&mut Run)) {
    for night in 0..50u32 {
        for device in 0..3 {
            let mut run = a_run(device, night);
            let worse = if night >= 40 { 1.2 } else { 1.0 };
            // What differs from night to night, and from device to device.
            let level = 15_000.0 * (1.0 + f64::from((night * 7 + device * 3) % 11) / 500.0) * worse;
            run.started = format!("2026-{:02}-{:02}T02:00:00Z", 3 + night / 28, 1 + night % 28);
            run.machine.kernel.release = format!("6.6.{night}");
            let result = &mut run.parts[0].results[0];
            if night < 49 {
                result.histogram = None;
            }
            result.summary.median = Some(level);
            result.summary.quantiles.clear();
            edit(&mut run);
            save(&run, &root.join(format!("runs/{night}/{device}")));
        }
    }
    fleet(root, "import --lake lake runs");
}

#[test]
fn a_regression_of_a_class_is_one_alarm() {
    let t = tempfile::tempdir().unwrap();
    worse_since_night_40(t.path(), &|run| {
        let with = run.started.as_str() >= "2026-04-13";
        let libc = if with { "2.36-10" } else { "2.36-9" };
        run.machine.packages = [("libc6".to_owned(), libc.to_owned())].into();
        if !with && run.machine.unit.as_deref() == Some("sn1") {
            run.machine.packages.insert("irqbalance".to_owned(), "1.9.2-1".to_owned());
        }
    });
    let args = ["fleet", "regressions", "--lake", "lake", "--nights", "30", "--fail-if-any"];
    let out = latlab(t.path(), &[&args[..], &["--json"]].concat());
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    let alarms: serde_json::Value = serde_json::from_str(&printed(&out)).unwrap();
    assert_eq!(alarms.as_array().unwrap().len(), 1, "{alarms}");
    assert_eq!(
        (&alarms[0]["class"], &alarms[0]["device"]),
        (&"a".into(), &serde_json::Value::Null)
    );
    assert_eq!(alarms[0]["suspects"], serde_json::json!(["6.6.39", "6.6.40"]));
    assert_eq!(alarms[0]["since_date"], "2026-04-13");
    let text = printed(&latlab(t.path(), &args));
    assert!(text.contains("6.6.39 .. 6.6.40") && text.contains("wakeup"), "{text}");
    // What changed on the devices with it, on how many of them.
    let environment = &alarms[0]["environment"];
    assert_eq!(environment["compared"], 3);
    let changes: Vec<String> = (environment["changes"].as_array().unwrap().iter())
        .map(|c| ["name", "before", "after", "devices"].map(|k| c[k].to_string()).join(" "))
        .collect();
    let expected = [
        "\"package.libc6\" \"2.36-9\" \"2.36-10\" 3",
        "\"kernel.preemption\" \"full\" \"rt\" 3",
        "\"package.irqbalance\" \"1.9.2-1\" \"\" 1",
    ];
    for one in expected {
        assert!(changes.iter().any(|c| c == one), "{one}: {changes:?}");
    }
    assert!(text.contains("package.libc6") && text.contains("1 of 3"), "{text}");
    fleet(t.path(), "report --lake lake --out site");
    let alarm = (site(&t.path().join("site")).into_iter())
        .find(|(file, _)| file.to_string_lossy().starts_with("alarm-"))
        .map(|(_, content)| crate::common::text(&content))
        .unwrap();
    assert!(alarm.contains("Also changed: ") && alarm.contains("2.36-10"), "{alarm}");
    let quiet = fleet(t.path(), "regressions --lake lake --nights 1");
    assert_eq!(quiet, "no alarm in the last 1 of 50 nights\n");
}

/// All files of a site with their content.
fn site(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files(dir).into_iter().map(|f| (f.clone(), fs::read(dir.join(f)).unwrap())).collect()
}

#[test]
fn a_lake_becomes_pages_that_need_no_server() {
    let t = tempfile::tempdir().unwrap();
    let evil = "<script>alert(1)</script>\"'/../../x";
    worse_since_night_40(t.path(), &|run| run.machine.board = Some(evil.into()));
    let written = fleet(t.path(), "report --lake lake --out site");
    // Overview, a board, a result, 50 kernels, an alarm.
    assert!(written.starts_with("site/index.html: 54 pages, "), "{written}");
    let first = site(&t.path().join("site"));
    assert_eq!(first.len(), 54 + 1);
    let page = |kind: &str| {
        let of = first.iter().rfind(|f| f.0.to_string_lossy().starts_with(kind));
        text(&of.unwrap().1)
    };
    assert!(page("index").contains("3 devices of 1 board, 50 kernels and 50 nights"));
    let alarm = page("alarm-2026-04-13-");
    assert!(alarm.contains("The change lies between kernel 6.6.39 and kernel 6.6.40"), "{alarm}");
    assert!(alarm.contains("<svg") && alarm.contains("18.2 µs"), "{alarm}");
    // The merged tail is of the night that has histograms.
    assert!(page("result").contains("6\u{202f}000"), "{}", page("result"));
    for (file, content) in &first {
        let page = text(content).replace("http://www.w3.org/2000/svg", "");
        let outside = ["<script", "http://", "https://", "src=", "@import"];
        let found = outside.iter().find(|o| page.contains(**o));
        assert!(found.is_none(), "{found:?} in {}", file.display());
    }
    // The same lake gives the same bytes, also over what is there; nothing else is left.
    fleet(t.path(), "report --lake lake --out site");
    assert_eq!(site(&t.path().join("site")), first);
    fleet(t.path(), "compact --lake lake");
    let json = fleet(t.path(), "report --lake lake --out again --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["pages"], &json["alarms"]), (&54.into(), &1.into()));
    assert_eq!(site(&t.path().join("again")), first);
    let mut here: Vec<String> = (fs::read_dir(t.path()).unwrap().flatten())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    here.sort();
    assert_eq!(here, ["again", "lake", "runs", "site"]);
}

#[test]
fn pages_do_not_replace_what_is_no_site() {
    let t = tempfile::tempdir().unwrap();
    nights(t.path(), 0..1);
    fleet(t.path(), "import --lake lake runs");
    fs::create_dir(t.path().join("home")).unwrap();
    fs::write(t.path().join("home/thesis.tex"), "years of work").unwrap();
    std::os::unix::fs::symlink("home", t.path().join("link")).unwrap();
    fleet(t.path(), "report --lake lake --out site");
    std::os::unix::fs::symlink("site", t.path().join("to-site")).unwrap();
    for out in ["home", "link", "to-site", "lake", "home/thesis.tex"] {
        let out = latlab(t.path(), &["fleet", "report", "--lake", "lake", "--out", out]);
        assert_eq!(out.status.code(), Some(1));
        let sentence = "is there and is no site of latlab fleet report";
        assert!(said(&out).contains(sentence), "{}", said(&out));
    }
    assert_eq!(fs::read(t.path().join("home/thesis.tex")).unwrap(), b"years of work");
    for (args, sentence) in [
        (&["report", "--lake", "lake"][..], "--out <DIR>"),
        (&["report", "--lake", "lake", "--out", ".."], "--out ..: not the name of a directory"),
        (&["report", "--lake", "none", "--out", "new"], "--lake none: no lake"),
    ] {
        let out = latlab(t.path(), &[&["fleet"], args].concat());
        assert_eq!(out.status.code(), Some(1));
        assert!(said(&out).contains(sentence), "{}", said(&out));
    }
    assert!(!t.path().join("new").exists());
}

/// Each board is measured with two kernels a night, in random order: the lake has a series of each, and the pages have them
/// side by side. A regression with one of them is an alarm about its results alone.
#[test]
fn two_kernels_of_a_campaign_are_two_series_side_by_side() {
    let t = tempfile::tempdir().unwrap();
    for kernel in ["debian", "latency"] {
        let root = t.path().join(kernel);
        // The regression is with one of them alone, which is faster by a fifth otherwise.
        let factor = |worse: bool| match (kernel, worse) {
            ("latency", _) => 0.8,
            (_, worse) => {
                if worse {
                    1.0 / 1.2
                } else {
                    1.0
                }
            }
        };
        worse_since_night_40(&root, &|run| {
            let median = &mut run.parts[0].results[0].summary.median;
            *median = median.map(|m| m * factor(run.started.as_str() >= "2026-04-13"));
            run.id.replace_range(9..13, if kernel == "debian" { "000d" } else { "000e" });
        });
        let origin = serde_json::json!({"campaign": "c", "experiment": "e", "kernel": kernel});
        for (night, device) in (0..50).flat_map(|n| (0..3).map(move |d| (n, d))) {
            let file = root.join(format!("runs/{night}/{device}/origin.json"));
            fs::write(file, origin.to_string()).unwrap();
        }
    }
    fleet(t.path(), "import --lake lake debian latency");
    fleet(t.path(), "report --lake lake --out site");
    let index = fs::read_to_string(t.path().join("site/index.html")).unwrap();
    let from = index.find("Kernels of campaigns side by side").unwrap_or_else(|| panic!("{index}"));
    let row = &index[from..][..index[from..].find("</tbody>").unwrap()];
    assert!(row.contains("latency") && row.contains("debian") && row.contains("-20 %"), "{row}");
    let alarms = fleet(t.path(), "regressions --lake lake --nights 30 --json");
    assert!(alarms.contains("kernel=latency") && !alarms.contains("kernel=debian"), "{alarms}");
}
