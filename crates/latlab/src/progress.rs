//! One line of progress on stderr, for whoever sits in front of a terminal.
//!
//! Nothing is drawn when stderr is no terminal, nor in the first two seconds:
//! what is over quickly needs no progress. It is drawn by whoever calls
//! [`Progress::set`], at most ten times a second; no thread, no timer, nothing
//! that could disturb what is being measured unless it is asked to.

use crate::term;
use std::io::{self, Write};
use std::time::{Duration, Instant};

const QUIET: Duration = Duration::from_secs(2);
const REDRAW: Duration = Duration::from_millis(100);
const BAR: usize = 20;

/// A line that is drawn over itself, and wiped when dropped.
#[derive(Debug)]
pub struct Progress {
    what: String,
    started: Instant,
    drawn: Option<Instant>,
    terminal: bool,
}

impl Progress {
    /// `what` stands in front of the bar (`wakeup`, `memory: L2`).
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            started: Instant::now(),
            drawn: None,
            terminal: term::stderr_is_terminal(),
        }
    }

    /// Shows how far it is: `done` from 0 to 1, or `None` where nobody can know; and a few words.
    pub fn set(&mut self, done: Option<f64>, words: &str) {
        let now = Instant::now();
        let soon = self.drawn.is_some_and(|last| now.duration_since(last) < REDRAW);
        if !self.terminal || soon || now.duration_since(self.started) < QUIET {
            return;
        }
        self.drawn = Some(now);
        let line = line(&self.what, done, words, now.duration_since(self.started));
        let cut: String = line.chars().take(term::width().saturating_sub(1)).collect();
        let mut stderr = io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{cut}").and_then(|()| stderr.flush());
    }

    /// Wipes the line, so that something else can be said.
    pub fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K").and_then(|()| stderr.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `wakeup [#########-----------]  45%  5 s  max 87 µs`
fn line(what: &str, done: Option<f64>, words: &str, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let bar = match done {
        Some(share) if share.is_finite() => {
            let share = share.clamp(0.0, 1.0);
            let full = (share * BAR as f64).round() as usize;
            format!("[{}{}] {:3.0}%  ", "#".repeat(full), "-".repeat(BAR - full), share * 100.0)
        }
        _ => String::new(),
    };
    format!("{what}  {bar}{seconds} s  {words}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_how_far_and_since_when() {
        let s = Duration::from_secs(5);
        assert_eq!(
            line("wakeup", Some(0.45), "max 87 µs", s),
            "wakeup  [#########-----------]  45%  5 s  max 87 µs"
        );
        assert_eq!(line("boot", None, "", s), "boot  5 s");
        assert!(line("x", Some(7.0), "", s).contains("100%"));
        assert_eq!(line("x", Some(f64::NAN), "", s), "x  5 s");
    }
}
