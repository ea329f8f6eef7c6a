//! `latlab` alone: a menu on a terminal (a pseudo-terminal here), the help in a pipe.

use crate::common::LATLAB;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};

fn latlab() -> Command {
    let mut command = Command::new(LATLAB);
    command.env_remove("NO_COLOR").env("COLUMNS", "100");
    command
}

/// Runs `latlab ARGS` on a terminal, types `keys`, and gives back what the screen showed.
fn on_a_terminal(args: &[&str], keys: &str, dir: &std::path::Path) -> (String, ExitStatus) {
    // Closed in whatever another test starts meanwhile, which would keep the terminal open.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
    let tty = || Stdio::from(slave.try_clone().unwrap());
    let mut command = latlab();
    command.args(args).current_dir(dir).stdin(tty()).stdout(tty()).stderr(tty());
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(slave);
    let mut screen = File::from(master);
    screen.write_all(keys.as_bytes()).unwrap();
    let mut seen = Vec::new();
    // The last writer's end of a pseudo-terminal is EIO, not the end of the file.
    let _ = screen.read_to_end(&mut seen);
    (String::from_utf8_lossy(&seen).replace('\r', ""), child.wait().unwrap())
}

#[test]
fn a_terminal_gets_the_menu_and_q_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let (screen, status) = on_a_terminal(&[], "q\n", dir.path());
    assert!(screen.contains("Commands that can run here:"), "{screen}");
    assert!(screen.contains("latlab survey --quick"), "{screen}");
    assert!(status.success());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "leaving leaves nothing behind");
}

#[test]
fn the_end_of_the_input_leaves_too() {
    let dir = tempfile::tempdir().unwrap();
    let (screen, status) = on_a_terminal(&[], "\u{4}", dir.path());
    assert!(status.success(), "{screen}");
}

#[test]
fn a_wrong_answer_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let (screen, status) = on_a_terminal(&[], "999\nq\n", dir.path());
    assert!(screen.contains("No entry '999'; choose 1 to "), "{screen}");
    assert!(status.success());
}

#[test]
fn a_pipe_gets_the_help() {
    let out = latlab().stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success());
    assert!(text.contains("Usage:") && text.contains("survey"), "{text}");
    assert!(!text.contains("Commands that can run here"));
}
