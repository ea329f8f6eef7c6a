//! Diagnostics of all crates: the `log` facade written to stderr, one line each.
//!
//! Warnings and errors are printed by default (a setting that could not be restored, a lost
//! journal); `LATLAB_LOG=info|debug|trace` prints more, `LATLAB_LOG=off` nothing. Results never
//! go through it, and no measuring loop logs.

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::io::Write;

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        let word = match record.level() {
            Level::Error => "error: ",
            Level::Warn => "warning: ",
            _ => "",
        };
        // A failed write to stderr loses no result.
        let _ = writeln!(crate::term::stderr(), "latlab: {word}{}", record.args());
    }

    fn flush(&self) {}
}

/// Installs the logger; the level is that of `LATLAB_LOG`, warnings by default.
pub fn install() {
    let asked = std::env::var("LATLAB_LOG").ok().and_then(|l| l.parse().ok());
    log::set_max_level(asked.unwrap_or(LevelFilter::Warn));
    // Fails only when it was called before.
    let _ = log::set_logger(&Stderr);
}

/// Information about how the command line was read, a line each.
pub fn say(notes: &[String]) {
    let mut stderr = crate::term::stderr();
    for note in notes {
        // A failed write to stderr loses no result.
        let _ = writeln!(stderr, "latlab: {note}");
    }
}
