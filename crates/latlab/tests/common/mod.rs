//! What the tests of the command line share: how latlab is started, what it said, what is skipped.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The program under test.
pub const LATLAB: &str = env!("CARGO_BIN_EXE_latlab");

/// `latlab ARGS` in a directory, with nothing to read and lines of 120 columns.
pub fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(LATLAB);
    command.current_dir(dir).args(args).stdin(Stdio::null()).env("COLUMNS", "120");
    command
}

/// Runs [`command`] to its end.
pub fn latlab(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

/// Starts [`command`]; what it prints waits in pipes.
pub fn spawn(dir: &Path, args: &[&str]) -> Child {
    command(dir, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What was written, as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it wrote to stderr.
pub fn said(output: &Output) -> String {
    text(&output.stderr)
}

/// What it wrote to stdout.
pub fn printed(output: &Output) -> String {
    text(&output.stdout)
}

/// Says why a test cannot be made here; in CI that is a failure.
#[allow(clippy::print_stderr, reason = "a skipped test says why")]
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("skipped: {why}");
}

/// Whether this process may do everything.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A disk of its own, so small that it is full soon.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Of a size as `mount -t tmpfs` takes it; `None`, said, without the right to mount one.
    pub fn of(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(dir.path()).stderr(Stdio::null());
        if mount.status().is_ok_and(|s| s.success()) {
            return Some(Self(dir));
        }
        skip("no right to mount a tmpfs");
        None
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
