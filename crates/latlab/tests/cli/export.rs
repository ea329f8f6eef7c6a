//! `latlab export --trace-dat`: parts and conversions, read by latlab and by trace-cmd.

use crate::common::{fixture, latlab, printed, said, succeed, text};
use std::process::Command;

/// The lines of events.
fn events(text: &str) -> Vec<&str> {
    text.lines().filter(|l| !l.starts_with("cpus=") && !l.is_empty()).collect()
}

#[test]
fn a_part_has_the_lines_that_report_prints_for_the_same_options() {
    let dir = tempfile::tempdir().unwrap();
    let chosen = ["--from", "17.25", "--to", "17.3", "--cpu", "1", "-e", "sched_switch,sched_wak*"];
    let source = fixture("trace/events7-x86_64.dat");
    let expected = printed(&latlab(dir.path(), &[&["report", &source][..], &chosen].concat()));
    assert!(events(&expected).len() > 20, "{expected}");
    for (name, more) in [
        ("part.dat", &[][..]),
        ("plain.dat", &["--compression", "none"]),
        ("zlib.dat", &["--compression", "zlib"]),
        ("old.dat", &["--v6"]),
    ] {
        let words = ["export", &source, "--trace-dat", name];
        let out = latlab(dir.path(), &[&words[..], &chosen, more].concat());
        assert!(out.status.success(), "{}", said(&out));
        let number = format!("latlab: {name}: {} events\n", events(&expected).len());
        assert_eq!(said(&out), number);
        let part = printed(&latlab(dir.path(), &["report", name]));
        assert_eq!(events(&part), events(&expected), "{name}");
        // Debian's trace-cmd is built without zlib.
        if name == "zlib.dat" {
            continue;
        }
        let theirs = succeed(Command::new("trace-cmd").args(["report", name]).current_dir(&dir));
        let theirs = text(&theirs.stdout);
        // Theirs begins with the number of CPUs; names, kinds and times are those of latlab.
        let words = |line: &&str| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
        let theirs: Vec<String> = events(&theirs).iter().map(words).collect();
        let ours: Vec<String> = events(&expected).iter().map(words).collect();
        assert_eq!(theirs, ours, "{name}");
    }
    // A part replaces its source.
    let all =
        latlab(dir.path(), &["export", "part.dat", "--trace-dat", "part.dat", "-F", "CPU == 0"]);
    assert!(all.status.success(), "{}", said(&all));
    assert!(events(&printed(&latlab(dir.path(), &["report", "part.dat"]))).is_empty());
}

/// What is damaged is reported, also where that is found among the events only.
#[test]
fn damaged_events_are_reported_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let source = fixture("trace/events7-x86_64.dat");
    assert!(latlab(path, &["export", &source, "--trace-dat", "a.dat", "--v6"]).status.success());
    let mut bytes = std::fs::read(path.join("a.dat")).unwrap();
    // The length of the last page.
    let at = bytes.len() - 4096 + 8;
    bytes[at..at + 2].fill(0xff);
    std::fs::write(path.join("a.dat"), bytes).unwrap();
    for to in [
        &["--trace-dat", "b.dat"][..],
        &["--perfetto", "b.pftrace"],
        &["--parquet", "b"],
        &["--csv"],
        &["--json"],
    ] {
        let out = latlab(path, &[&["export", "a.dat"], to].concat());
        assert!(out.status.success(), "{}", said(&out));
        let said = said(&out);
        let place = format!("offset {}: ", at - 8);
        assert!(said.contains(&place) && said.contains("the page is left out"), "{to:?}: {said}");
    }
}

#[test]
fn what_cannot_be_written_is_refused_and_leaves_the_earlier_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::write(path.join("kept.dat"), "earlier").unwrap();
    let (dat, ftrace) = (fixture("trace/f6.dat"), fixture("trace/cyclictest-mark-graph.txt"));
    std::fs::create_dir(path.join("tables")).unwrap();
    std::fs::write(path.join("tables/event=sched_switch"), "no directory").unwrap();
    for (words, sentence) in [
        (&["export", &ftrace, "--trace-dat", "kept.dat"][..], "this is text"),
        (&["export", &dat, "--trace-dat", "kept.dat", "-e", "nonsense"], "nonsense"),
        (&["export", &dat, "--trace-dat", "kept.dat", "--from", "x"], "not a time"),
        (&["export", &dat, "--trace-dat", "."], "cannot be written"),
        (&["export", &dat, "--trace-dat", "/dev/null"], "not a file"),
        (&["export", &dat, "--parquet", "tables"], "--parquet tables: cannot be written"),
        (&["export", &dat, "--csv", "--from", "1"], "--trace-dat"),
        (&["export", &dat, "--csv", "--trace-dat", "kept.dat"], "exclude each other"),
    ] {
        let out = latlab(path, words);
        assert_eq!(out.status.code(), Some(1), "{words:?} {}", said(&out));
        assert!(said(&out).contains(sentence), "{words:?} {}", said(&out));
    }
    assert_eq!(std::fs::read(path.join("kept.dat")).unwrap(), b"earlier");
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 2);
    assert_eq!(std::fs::read_dir(path.join("tables")).unwrap().count(), 1);
}

/// The sections that `report --dump` finds are those of trace-cmd, and cover the file.
#[test]
fn the_layout_of_a_file_is_that_of_trace_cmd() {
    let dir = tempfile::tempdir().unwrap();
    let source = fixture("trace/latlab-v7-zstd.dat");
    let dump = |name: &str| -> serde_json::Value {
        let out = latlab(dir.path(), &["report", name, "--dump", "--json"]);
        serde_json::from_str(&printed(&out)).unwrap()
    };
    let layout = dump(&source);
    let section =
        |s: &serde_json::Value| (s["id"].as_u64().unwrap(), s["offset"].as_u64().unwrap());
    let ours: Vec<_> = layout["sections"].as_array().unwrap().iter().map(section).collect();
    let theirs =
        succeed(Command::new("trace-cmd").args(["dump", "--summary", "--sections", &source]));
    let theirs = text(&theirs.stdout);
    // `[Section 16 @ 37 "headers", …`
    let theirs: Vec<(u64, u64)> = theirs
        .lines()
        .filter_map(|l| l.trim().strip_prefix("[Section")?.split_once('@'))
        .map(|(id, rest)| {
            let offset = rest.split_whitespace().next().unwrap();
            (id.trim().parse().unwrap(), offset.parse().unwrap())
        })
        .collect();
    assert!(theirs.len() > 5);
    assert_eq!(ours, theirs);
    // The same in version 6, which has no heads of sections: each begins where the one before ends.
    let words = ["export", &source, "--trace-dat", "old.dat", "--v6"];
    assert!(latlab(dir.path(), &words).status.success());
    let layout = dump("old.dat");
    let mut end = 0;
    for s in layout["sections"].as_array().unwrap() {
        let (_, offset) = section(s);
        assert!(end == 0 || offset == end, "{offset} behind {end}");
        end = offset + s["bytes"].as_u64().unwrap();
    }
    assert_eq!(end, std::fs::metadata(dir.path().join("old.dat")).unwrap().len());
    let cpus = layout["buffers"][0]["cpus"].as_array().unwrap();
    assert!(
        cpus.iter().all(|c| c["parts"].as_u64().unwrap() * 4096 == c["bytes"].as_u64().unwrap())
    );
    let shown = printed(&latlab(dir.path(), &["report", "old.dat", "--dump", "--details"]));
    assert!(shown.contains("event formats") && shown.contains("UNAME"), "{shown}");
    // A text has no layout.
    let out =
        latlab(dir.path(), &["report", &fixture("trace/cyclictest-mark-graph.txt"), "--dump"]);
    assert_eq!(
        (out.status.code(), said(&out).contains("--stat")),
        (Some(1), true),
        "{}",
        said(&out)
    );
}
