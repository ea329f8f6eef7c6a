//! What leaves latlab: text for terminals and spreadsheets, and what the exit code says of it.

use crate::common::{command, fixture, latlab, nobody_reads, plain, printed, said, succeed, text};
use rustix::pty;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

/// A task that any user may name so, and a marker: they set the clipboard, the title and the colour,
/// clear the screen, reorder the line, and compute something in a spreadsheet.
const HOSTILE: &str = "\
# tracer: nop\n\
     =1+1\x1b]0;a\x07\x1b[2J-42      [000] .....   923.632241: tracing_mark_write: =cmd|' /C calc'!A0\x1b]52;c;QUJD\x07\u{9b}6n\u{202e}\x7f\r\n\
           plain-43      [001] .....   923.632242: tracing_mark_write: über ½\n";

/// No control character, and nothing that reorders text.
fn assert_harmless(what: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
    let bad = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!text.contains(bad), "{what}: {text:?}");
}

fn hostile_trace(dir: &Path) {
    fs::write(dir.join("h.txt"), HOSTILE).unwrap();
}

#[test]
fn listings_have_no_control_characters_of_names_and_markers() {
    let t = tempfile::tempdir().unwrap();
    hostile_trace(t.path());
    for args in [
        &["report", "h.txt"][..],
        &["report", "--raw", "h.txt"],
        &["report", "--no-plugins", "h.txt"],
        &["report", "--stat", "h.txt"],
        &["report", "--stat", "--json", "h.txt"],
    ] {
        let out = latlab(t.path(), args);
        assert!(out.status.success(), "{args:?}: {}", said(&out));
        assert_harmless(&format!("{args:?}"), &out.stdout);
        assert_harmless(&format!("{args:?}"), &out.stderr);
    }
    let listing = printed(&latlab(t.path(), &["report", "h.txt"]));
    assert!(listing.contains("␛]52;c;QUJD␇") && listing.contains("␛]0;a␇␛[2J-42"), "{listing}");
    assert!(listing.contains("plain-43") && listing.contains("über ½"), "{listing}");
}

#[test]
fn json_escapes_control_characters_and_keeps_the_text() {
    let t = tempfile::tempdir().unwrap();
    hostile_trace(t.path());
    for args in [&["report", "--json", "h.txt"][..], &["export", "--json", "h.txt"]] {
        let out = latlab(t.path(), args);
        assert_harmless(&format!("{args:?}"), &out.stdout);
        let first: serde_json::Value =
            serde_json::from_str(printed(&out).lines().next().unwrap()).unwrap();
        assert!(
            first["fields"]["buf"].as_str().unwrap().contains("\x1b]52;c;QUJD\x07\u{9b}6n\u{202e}")
        );
    }
}

#[test]
fn the_gate_shows_names_of_a_run_without_control_characters() {
    let t = tempfile::tempdir().unwrap();
    let run = r#"{"schema_version":2,"complete":true,"parts":[{"name":"x","results":[{"name":"wakeup.\u001b]0;a\u0007",
        "params":{"\u009b2J":"\u001b[2J"},"summary":{"median":1000.0}}]}]}"#;
    fs::write(t.path().join("h.json"), run).unwrap();
    for args in
        [&["vm", "gate", "h.json", "h.json"][..], &["vm", "gate", "h.json", "h.json", "--json"]]
    {
        let out = latlab(t.path(), args);
        assert!(out.status.success(), "{}", said(&out));
        assert_harmless(&format!("{args:?}"), &out.stdout);
    }
    let text = printed(&latlab(t.path(), &["vm", "gate", "h.json", "h.json"]));
    assert!(text.starts_with("wakeup.␛]0;a␇ �2J=␛[2J: "), "{text}");
}

#[test]
fn csv_has_no_formula_and_no_control_characters() {
    let t = tempfile::tempdir().unwrap();
    hostile_trace(t.path());
    let out = latlab(t.path(), &["export", "--csv", "h.txt"]);
    assert!(out.status.success(), "{}", said(&out));
    let csv = printed(&out).replace("\r\n", "\n");
    assert_harmless("csv", csv.as_bytes());
    assert!(csv.contains(",\"'=1+1␛]0;a␇␛[2J\","), "{csv}");
    for cell in csv.split([',', '\n']) {
        assert!(!cell.trim_start_matches('"').starts_with(['=', '+', '@']), "{cell}");
    }
}

#[test]
fn messages_show_control_characters_of_file_names() {
    let t = tempfile::tempdir().unwrap();
    let name = "x\x1b]52;c;QUJD\x07.dat";
    fs::write(t.path().join(name), "nothing that can be read").unwrap();
    for args in [&["report", name][..], &["export", "--csv", name], &["compare", name, name]] {
        let out = latlab(t.path(), args);
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        assert_harmless(&format!("{args:?}"), &out.stderr);
        assert!(said(&out).contains("x␛]52;c;QUJD␇.dat"), "{}", said(&out));
    }
}

/// As somebody sees it who looks at a trace on his terminal.
#[test]
fn a_terminal_is_sent_no_control_sequence_of_a_trace() {
    let t = tempfile::tempdir().unwrap();
    hostile_trace(t.path());
    let (mut terminal, side) = terminal();
    let mut child = plain(t.path(), &["report", "h.txt"])
        .stdout(side.try_clone().unwrap())
        .stderr(side)
        .spawn()
        .unwrap();
    let mut seen = Vec::new();
    // EIO: the other side has no writer any more.
    let _ = terminal.read_to_end(&mut seen);
    assert!(child.wait().unwrap().success());
    let seen = text(&seen).replace("\r\n", "\n");
    assert!(seen.contains("␛]52;c;QUJD␇"), "{seen:?}");
    assert_harmless("terminal", seen.as_bytes());
}

/// A pseudo-terminal: where its screen is read, and what a program gets as its terminal.
fn terminal() -> (File, OwnedFd) {
    use rustix::fs::{Mode, OFlags};
    let screen = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
    pty::grantpt(&screen).unwrap();
    pty::unlockpt(&screen).unwrap();
    let name = pty::ptsname(&screen, Vec::new()).unwrap();
    let side = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (File::from(screen), side)
}

#[test]
fn only_a_closed_stdout_is_no_error() {
    let t = tempfile::tempdir().unwrap();
    // More than a pipe holds, in every format.
    let trace = fixture("trace/latlab-v7-none-lost.dat");
    for args in [
        &["report", &trace][..],
        &["report", "--json", &trace],
        &["export", "--json", &trace],
        &["export", "--csv", &trace],
        &["--help"],
    ] {
        let out = command(t.path(), args).stdout(nobody_reads()).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{args:?}: {}", said(&out));
    }
    succeed(Command::new("mkfifo").arg("pipe").current_dir(t.path()));
    let pipe = t.path().join("pipe");
    for args in [
        &["export", "--perfetto", "pipe", &trace][..],
        &["wakeup", "--policy", "other", "-i", "100", "-D", "3", "--samples", "pipe"],
    ] {
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || drop(File::open(pipe).unwrap())
        });
        let out = command(t.path(), args).output().unwrap();
        reader.join().unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}: {}", said(&out));
        assert!(
            said(&out).contains("pipe: ") && said(&out).contains("Broken pipe"),
            "{}",
            said(&out)
        );
    }
}

#[test]
fn a_full_disk_below_stdout_has_a_remedy() {
    let t = tempfile::tempdir().unwrap();
    let trace = fixture("trace/latlab-v7-none-lost.dat");
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let out = command(t.path(), &["export", "--csv", &trace]).stdout(full()).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = said(&out);
    assert!(said.contains(": standard output: No space left on device"), "{said}");
    assert!(said.ends_with("\nhint: free some space there, or write to another disk\n"), "{said}");
}
