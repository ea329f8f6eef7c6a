//! What the rooms have to say besides their results: one line on stderr each.
//!
//! Warnings and errors are said (a setting that could not be put back, a lost
//! journal); `LATLAB_LOG=info|debug|trace` says more, `LATLAB_LOG=off` nothing.
//! Nothing of it is data, and no measuring loop says anything.

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
        // Nothing is lost if nobody listens.
        let _ = writeln!(std::io::stderr().lock(), "latlab: {word}{}", record.args());
    }

    fn flush(&self) {}
}

/// Has warnings said from now on.
pub fn install() {
    let asked = std::env::var("LATLAB_LOG").ok().and_then(|l| l.parse().ok());
    log::set_max_level(asked.unwrap_or(LevelFilter::Warn));
    // Fails only when it was called before.
    let _ = log::set_logger(&Stderr);
}
