//! Completion in bash, zsh and fish: the installed scripts, called as the shells call them.

use crate::common::{LATLAB, latlab, printed, said, skip};
use std::path::Path;
use std::process::Command;

/// What bash offers for a line, whose words bash splits at `:`, `=` and `@`.
fn offered(dir: &Path, line: &str, words: &[&str]) -> Vec<String> {
    let script = dir.join("share/bash-completion/completions/latlab");
    let words = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let call = format!(
        "source '{}'; complete -p latlab >&2; compopt() {{ :; }}; COMP_LINE='{line}'; \
         COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         _latlab '{LATLAB}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let output = Command::new("bash").args(["-c", &call]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("complete -F _latlab latlab"), "{}", said(&output));
    printed(&output).lines().map(str::to_owned).collect()
}

/// A directory with the installed scripts, two directories below `runs` and a file.
fn prepared() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let made = latlab(dir.path(), &["generate", "share"]);
    assert!(made.status.success(), "{}", said(&made));
    std::fs::create_dir_all(dir.path().join("runs/before")).unwrap();
    std::fs::create_dir_all(dir.path().join("runs/empty")).unwrap();
    std::fs::write(dir.path().join("runs/before/run.json"), "{}").unwrap();
    std::fs::write(dir.path().join("result.json"), "{}").unwrap();
    dir
}

/// Lines that a shell prints for a script of its own.
fn shell(dir: &Path, shell: &str, script: &str) -> Option<Vec<String>> {
    let ran = Command::new(shell).args(["-c", script]).current_dir(dir).env("HOME", dir).output();
    let Ok(output) = ran else {
        skip(&format!("no {shell} here"));
        return None;
    };
    assert!(output.status.success(), "{}", said(&output));
    Some(printed(&output).lines().map(str::to_owned).collect())
}

/// The program beside its name in `PATH`.
fn in_path() -> String {
    format!("PATH={}:$PATH", Path::new(LATLAB).parent().unwrap().display())
}

/// What all shells complete alike: a line, and what has to be offered.
const LINES: &[(&str, &str)] = &[
    ("latlab wak", "wakeup"),
    ("latlab wakeup --prios", "--priospread"),
    ("latlab wakeup --format x", "xenomai"),
    ("latlab bench syscall.rea", "syscall.read"),
    ("latlab --on vm:armv7-", "vm:armv7-rt"),
    ("latlab compare @beaglebone-b", "@beaglebone-black-2015"),
    ("latlab report runs/b", "runs/before"),
    ("latlab compare res", "result.json"),
];

#[test]
fn fish_completes_the_same_with_descriptions() {
    let dir = prepared();
    for (line, expected) in LINES {
        let script = format!(
            "set -x {}; source share/fish/vendor_completions.d/latlab.fish; complete -C '{line}'",
            in_path().replacen('=', " ", 1).replace(":$PATH", " $PATH")
        );
        let Some(offered) = shell(dir.path(), "fish", &script) else { return };
        let words: Vec<&str> = offered.iter().filter_map(|l| l.split('\t').next()).collect();
        assert!(words.contains(expected), "{line}: {offered:?}");
        if *line == "latlab wak" {
            assert!(offered[0].contains("\tMeasure the wake-up latency"), "{offered:?}");
        }
    }
}

#[test]
fn zsh_completes_the_same_with_descriptions() {
    let dir = prepared();
    for (line, expected) in LINES {
        // Zsh's own functions print what they are given.
        let script = format!(
            "{}; fpath=(share/zsh/site-functions $fpath); compdef() {{ : }}; \
             _describe() {{ print -rl -- \"${{(@P)2}}\" }}; _files() {{ print -l -- $PREFIX*(N) }}; \
             compadd() {{ shift 3; print -l -- \"$@\" }}; source share/zsh/site-functions/_latlab; \
             line='{line}'; words=(\"${{(@s: :)line}}\"); CURRENT=$#words; PREFIX=$words[-1]; _latlab",
            in_path()
        );
        let Some(offered) = shell(dir.path(), "zsh", &script) else { return };
        let words: Vec<String> = (offered.iter())
            .map(|l| {
                l.replace("\\:", "\u{1}").split(':').next().unwrap_or("").replace('\u{1}', ":")
            })
            .collect();
        assert!(words.iter().any(|word| word == expected), "{line}: {offered:?}");
        if *line == "latlab wak" {
            assert!(offered[0].starts_with("wakeup:Measure the wake-up latency"), "{offered:?}");
        }
    }
}

#[test]
fn bash_completes_commands_options_machines_probes_runs_and_files() {
    if Command::new("bash").arg("--version").output().is_err() {
        return skip("no bash here");
    }
    let dir = prepared();
    let dir = dir.path();
    let of = |line, words: &[&str]| offered(dir, line, words);
    assert_eq!(of("latlab wak", &["latlab", "wak"]), ["wakeup"]);
    assert_eq!(of("latlab wakeup --prios", &["latlab", "wakeup", "--prios"]), ["--priospread"]);
    assert_eq!(
        of("latlab bench syscall.rea", &["latlab", "bench", "syscall.rea"]),
        ["syscall.read"]
    );
    // Bash replaces the part behind the colon.
    assert_eq!(of("latlab --on vm:armv7-", &["latlab", "--on", "vm", ":", "armv7-"]), ["armv7-rt"]);
    let machine = of("latlab compare @beaglebone-b", &["latlab", "compare", "@", "beaglebone-b"]);
    assert_eq!(machine, ["beaglebone-black-2015"]);
    let runs = of("latlab report runs/b", &["latlab", "report", "runs/b"]);
    assert_eq!(runs.iter().filter(|run| *run == "runs/before").count(), runs.len(), "{runs:?}");
    assert!(
        of("latlab compare res", &["latlab", "compare", "res"]).contains(&"result.json".into())
    );
}
