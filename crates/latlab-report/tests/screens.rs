//! The first screen of every command, from runs in `fixtures/`, at 80 and 100 columns.

use latlab_model::run::{Detail, Run};
use latlab_report::sections::screen;
use latlab_report::text::TextOptions;

macro_rules! runs {
    ($($name:literal)*) => {
        const RUNS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../fixtures/runs-v1/", $name, "/run.json")))),*
        ];
    };
}

runs! {
    "bench" "compare" "doctor" "gaps" "memory" "memory-from" "memory-switch" "sched-experiment"
    "sched-file" "sched-matrix" "sweep" "timer" "timer-file" "timer-no-trace" "wakeup" "wakeup-2"
    "wakeup-break" "wakeup-histogram" "wakeup-levels" "wakeup-smp" "why-blind" "why-file" "why-hunt"
}

/// A survey of all steps, compressed.
const SURVEY: &[u8] = include_bytes!("../../../fixtures/runs-v1/survey/run.json.zst");

fn run(name: &str) -> Run {
    let json = RUNS.iter().find(|(n, _)| *n == name).map(|(_, json)| json.as_bytes().to_vec());
    let json = json.unwrap_or_else(|| zstd::decode_all(SURVEY).unwrap());
    let mut run: Run = serde_json::from_slice(&json).unwrap();
    latlab_analysis::upgrade::upgrade(&mut run);
    run
}

fn screen(run: &Run, width: usize, wrap: bool) -> String {
    let options = TextOptions { width, wrap, color: false, details: false };
    String::from_utf8(screen::render(run, &options).unwrap()).unwrap()
}

#[test]
fn every_first_screen_fits_and_is_as_committed() {
    for name in RUNS.iter().map(|(name, _)| *name).chain(["survey"]) {
        let run = run(name);
        let mut both = String::new();
        for width in [80, 100] {
            let text = screen(&run, width, true);
            let lines = text.lines().count();
            assert!(lines <= screen::LINES, "{name}: {lines} lines at {width} columns:\n{text}");
            for line in text.lines() {
                let columns = line.chars().count();
                assert!(columns <= width, "{name}: {columns} of {width} columns: {line}");
            }
            both += &format!("{}\n{text}", "=".repeat(width));
        }
        insta::assert_snapshot!(name, both);
    }
}

/// A file or a pipe gets every row in one line, however long.
#[test]
fn what_is_piped_is_not_wrapped() {
    let text = screen(&run("compare"), 80, false);
    let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("wakeup.user")).collect();
    assert_eq!(rows.len(), 4, "{text}");
    assert!(rows.iter().all(|row| row.contains("cannot tell")), "{text}");
    assert!(rows.iter().any(|row| row.len() > 80), "{text}");
}

#[test]
fn each_task_of_a_trace_is_one_line() {
    let run = run("sched-file");
    let Some(Detail::Sched(detail)) = &run.parts[0].detail else { panic!("no trace") };
    let tasks = &detail.schedule.tasks;
    for width in [80, 100, 140] {
        let text = screen(&run, width, true);
        let from = text.find("Tasks by run time").unwrap();
        let table = text[from..].split("\n\n").next().unwrap();
        let rows = table.lines().skip(3).take_while(|line| !line.starts_with("Columns left out"));
        let rows: Vec<&str> = rows.collect();
        assert_eq!(rows.len(), tasks.len().min(18), "{table}");
        for row in rows {
            let tid = row.split_whitespace().find_map(|word| word.rsplit_once(':')?.1.parse().ok());
            assert!(tasks.iter().any(|task| Some(task.tid) == tid), "{row}");
        }
    }
}
