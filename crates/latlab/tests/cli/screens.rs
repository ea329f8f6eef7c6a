//! Lists and help on a terminal of 80 and 100 columns. First screens of results are in
//! `latlab-report/tests/screens.rs`. `INSTA_UPDATE=always cargo test -p latlab --test cli screens`
//! writes the snapshots.

use crate::common::{fixture, plain, printed, said};
use std::path::Path;

/// Lines of a first screen at 100 columns.
const LINES: usize = 40;

/// Lists that do not depend on the machine, and their snapshots.
const LISTS: &[(&str, &str)] = &[
    ("bench", "bench --list"),
    ("bench-against", "bench --against list"),
    ("load", "load --list"),
    ("survey", "survey --list"),
    ("survey-quick", "survey --quick --list"),
    ("sweep", "sweep --load cpu:{share} --axis share=20,50,100 -D 1s --dry-run"),
    ("image-boards", "image boards"),
    ("vm", "vm list"),
    ("report-stat", "report --stat trace.dat"),
    ("history-add", "history add runs/bench runs/wakeup"),
    ("history", "history list"),
    ("history-show", "history show runs/bench"),
    ("history-names", "history trend"),
    ("history-trend", "history trend wakeup.user"),
];

/// What a command prints on a terminal of so many columns.
fn screen(dir: &Path, words: &str, columns: usize) -> String {
    let args: Vec<&str> = words.split_whitespace().collect();
    let mut command = plain(dir, &args);
    let output = command
        .env("COLUMNS", columns.to_string())
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .output()
        .unwrap();
    assert!(output.status.success(), "latlab {words}: {}", said(&output));
    let text = printed(&output);
    let wide = text.lines().find(|line| line.chars().count() > columns);
    assert_eq!(wide, None, "latlab {words}: wider than {columns} columns");
    text
}

#[test]
fn lists_fit_on_the_screen_and_are_as_committed() {
    let t = tempfile::tempdir().unwrap();
    for run in ["bench", "wakeup"] {
        let dir = t.path().join("runs").join(run);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::copy(fixture(&format!("runs-v1/{run}/run.json")), dir.join("run.json")).unwrap();
    }
    std::fs::copy(fixture("trace/f6.dat"), t.path().join("trace.dat")).unwrap();
    for (name, words) in LISTS {
        let mut both = String::new();
        for columns in [80, 100] {
            let text = screen(t.path(), words, columns);
            let lines = text.lines().count();
            assert!(lines <= LINES || columns < 100, "latlab {words}: {lines} lines:\n{text}");
            both += &format!("{}\n{text}", "=".repeat(columns));
        }
        insta::assert_snapshot!(format!("list-{name}"), both);
    }
}

/// The commands that the help of a command lists.
fn commands(help: &str) -> Vec<String> {
    let list = help.split_once("\nCommands:\n").map_or("", |(_, list)| list);
    let names = list.lines().take_while(|line| !line.is_empty());
    let names = names.filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
#[cfg(all(feature = "view", feature = "png"))]
fn help_is_as_committed() {
    let t = tempfile::tempdir().unwrap();
    let mut todo = vec![String::new()];
    let mut seen = 0;
    while let Some(words) = todo.pop() {
        let asked = format!("{words} --help");
        let help = screen(t.path(), &asked, 80);
        screen(t.path(), &asked, 100);
        let below = commands(&help).into_iter().filter(|name| name != "help");
        todo.extend(below.map(|name| format!("{words} {name}")));
        let name = format!("latlab{words}").replace(' ', "-");
        insta::assert_snapshot!(format!("help-{name}"), help);
        seen += 1;
    }
    assert!(seen > 30, "{seen} commands");
}
