//! What is said of levels that could not be measured.

use latlab_core::finding::{Confidence, Finding, Verdict};
use latlab_sys::wakeup::WakeupError;

/// Levels were asked for that this kernel cannot measure; another one was measured.
pub fn missing(error: &WakeupError) -> Finding {
    let mut finding = Finding::new(
        "wakeup.level-missing",
        Verdict::CannotTell,
        Confidence::Sure,
        format!("{error}; only the level user was measured, by clock_nanosleep"),
    )
    .because("what the interrupt and the scheduler take of it cannot be told apart here");
    if let Some(hint) = error.hint() {
        finding = finding.attempt(hint);
    }
    finding
}
