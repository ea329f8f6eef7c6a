//! `latlab` alone: a menu on a terminal (a pseudo-terminal here), full-screen or as a list, and the help in a pipe.

use crate::common::LATLAB;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

fn latlab() -> Command {
    let mut command = Command::new(LATLAB);
    command.env_remove("NO_COLOR").env("COLUMNS", "100");
    command
}

/// Runs `latlab` in `dir` on a terminal of this kind. Each pair is what the screen shows before its keys are typed;
/// gives back everything that it showed.
fn on_a_terminal(term: &str, steps: &[(&str, &str)], dir: &Path) -> (String, ExitStatus) {
    // Closed in whatever another test starts meanwhile, which would keep the terminal open.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize { ws_row: 30, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
    let tty = || Stdio::from(slave.try_clone().unwrap());
    // The terminal is the controlling one of a session of its own: Ctrl-C is a signal.
    let mut command = Command::new("setsid");
    command.args(["--ctty", LATLAB]).env_remove("NO_COLOR").env("COLUMNS", "100");
    command.env("TERM", term).current_dir(dir).stdin(tty()).stdout(tty()).stderr(tty());
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(slave);
    let mut screen = File::from(master);
    let mut seen = Vec::new();
    let mut from = 0;
    for (shown, keys) in steps {
        let mut some = [0; 4096];
        while !String::from_utf8_lossy(&seen[from..]).contains(shown) {
            // The last writer's end of a pseudo-terminal is EIO, not the end of the file.
            let n = if readable(&screen) { screen.read(&mut some).unwrap_or(0) } else { 0 };
            assert!(n > 0, "no {shown:?} in {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&some[..n]);
        }
        from = seen.len();
        screen.write_all(keys.as_bytes()).unwrap();
    }
    let mut some = [0; 4096];
    while readable(&screen) {
        match screen.read(&mut some) {
            Ok(n) if n > 0 => seen.extend_from_slice(&some[..n]),
            _ => break,
        }
    }
    if !matches!(child.try_wait(), Ok(Some(_))) {
        std::thread::sleep(Duration::from_secs(5));
        if !matches!(child.try_wait(), Ok(Some(_))) {
            child.kill().unwrap();
        }
    }
    (String::from_utf8_lossy(&seen).replace('\r', ""), child.wait().unwrap())
}

/// Waits for something to read, at most a minute.
fn readable(screen: &File) -> bool {
    let mut one = [PollFd::new(screen, PollFlags::IN)];
    let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
    poll(&mut one, Some(&minute)).is_ok_and(|n| n > 0)
}

const ASKED: &str = "(q: quit): ";

#[test]
fn a_simple_terminal_gets_a_list_and_q_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let (screen, status) = on_a_terminal("dumb", &[(ASKED, "999\n"), (ASKED, "q\n")], dir.path());
    assert!(screen.contains("latlab survey --quick"), "{screen}");
    assert!(screen.contains("No entry '999'; choose 1 to "), "{screen}");
    assert!(status.success());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "leaving leaves nothing behind");
}

#[test]
fn the_end_of_the_input_leaves_too() {
    let dir = tempfile::tempdir().unwrap();
    let (screen, status) = on_a_terminal("dumb", &[(ASKED, "\u{4}")], dir.path());
    assert!(status.success(), "{screen}");
}

#[test]
fn an_entry_of_the_list_runs_with_other_options() {
    let dir = tempfile::tempdir().unwrap();
    let steps = [(ASKED, "load cpu -t 200ms\n")];
    let (screen, status) = on_a_terminal("dumb", &steps, dir.path());
    assert!(screen.contains("$ latlab load cpu vm:64M cpu -t 200ms"), "{screen}");
    assert!(status.success(), "{screen}");
}

/// Down to an experiment that takes no time, its result, back to the menu, and out; the terminal is as before.
#[test]
#[cfg(feature = "host")]
fn an_experiment_runs_from_the_full_screen_and_the_menu_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let steps = [
        ("Enter run", "\u{1b}[B"),
        ("doctor", "\r"),
        ("Enter: back to the menu", "\r"),
        ("Enter run", "q"),
    ];
    let (screen, status) = on_a_terminal("xterm-256color", &steps, dir.path());
    assert!(status.success(), "{status} {screen}");
    assert!(screen.contains("$ latlab doctor\n"), "{screen}");
    assert!(screen.contains("Exit code "), "{screen}");
    let (on, off) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
    assert_eq!((screen.matches(on).count(), screen.matches(off).count()), (2, 2), "{screen:?}");
}

/// Ctrl-C ends a measurement, which reports what it has, and not the menu.
#[test]
#[cfg(feature = "host")]
fn ctrl_c_is_for_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let steps = [
        ("Enter run", "\u{1b}[B\u{1b}[B"),
        ("wakeup", "\r"),
        ("%", "\u{3}"),
        ("Enter: back to the menu", "q"),
    ];
    let (screen, status) = on_a_terminal("xterm-256color", &steps, dir.path());
    assert!(status.success(), "{status} {screen}");
    assert!(screen.contains("Exit code 130"), "{screen}");
}

#[test]
fn a_pipe_gets_the_help() {
    let out = latlab().stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success());
    assert!(text.contains("Usage:") && text.contains("survey"), "{text}");
    assert!(!text.contains("Experiments:"));
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_of_the_virtual_lab(command: &str) -> bool {
    command.starts_with("vm ") || command.starts_with("worst ")
}

#[test]
#[cfg(feature = "host")]
#[ignore = "boots virtual machines"]
fn the_virtual_lab_of_the_menu_runs_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let out = latlab().args(["menu", "--brief"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let commands = text.lines().filter_map(|l| Some(l.split_once("\tlatlab ")?.1));
    let mut ran = 0;
    for command in commands.filter(|c| is_of_the_virtual_lab(c)) {
        let mut one = latlab();
        let out = one.args(command.split(' ')).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "latlab {command}: {}: {said}", out.status);
        ran += 1;
    }
    assert_eq!(ran, 4);
}

/// Each experiment with parameters that make it short, run to its end one after another, so that later ones have the
/// results of those before.
#[test]
fn every_experiment_runs_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let fixture =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/trace/cyclictest-mark-graph.txt");
    std::fs::copy(fixture, dir.path().join("functions.txt")).unwrap();
    std::fs::write(dir.path().join("brief.req"), "max < 10 s, 100 ms\n").unwrap();
    // A program that is activated all the time, with a name of its own.
    let program = dir.path().join("control-loop");
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let mut control_loop = Command::new(program);
    let _running =
        Running(control_loop.args(["-c", "while sleep 0.01; do :; done"]).spawn().unwrap());
    let lines = || {
        let mut command = latlab();
        let out = command.args(["menu", "--brief"]).current_dir(dir.path()).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let (first, mut ran) = (lines(), 0);
    for title in first.lines().filter_map(|l| l.split('\t').next()) {
        if title == "Compare two runs" {
            for _ in 0..2 {
                let mut again = latlab();
                again.args(["bench", "syscall.getppid"]).current_dir(dir.path());
                assert!(again.output().unwrap().status.success());
            }
        }
        let now = lines();
        let line = now.lines().find(|l| l.starts_with(&format!("{title}\t"))).unwrap();
        let command = line.split_once("\tlatlab ").unwrap().1;
        if is_of_the_virtual_lab(command) {
            continue;
        }
        let out = Command::new("sh")
            .args(["-c", &format!("exec '{LATLAB}' {command}")])
            .env("NO_COLOR", "1")
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        let no_tracer = said.contains("this kernel has no tracer");
        // What else runs here meanwhile is recorded too.
        let too_many = said.contains("a page bears 200000");
        let refused =
            said.contains("not permitted") || said.contains("no tracefs") || no_tracer || too_many;
        // 2: a limit is exceeded; `doctor` has problems to report, and a comparison may be worse.
        let fine = out.status.code().is_some_and(|code| code == 0 || code == 2) || refused;
        assert!(fine, "{title}: latlab {command}: {}: {said}", out.status);
        ran += usize::from(!refused);
    }
    assert!(ran >= 15, "{ran} of {}", first.lines().count());
}
