//! Completion in bash: the installed script, called as bash calls it.

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

#[test]
fn bash_completes_commands_options_machines_probes_runs_and_files() {
    if Command::new("bash").arg("--version").output().is_err() {
        return skip("no bash here");
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let made = latlab(dir, &["generate", "share"]);
    assert!(made.status.success(), "{}", said(&made));
    std::fs::create_dir_all(dir.join("runs/before")).unwrap();
    std::fs::create_dir_all(dir.join("runs/empty")).unwrap();
    std::fs::write(dir.join("runs/before/run.json"), "{}").unwrap();
    std::fs::write(dir.join("result.json"), "{}").unwrap();
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
