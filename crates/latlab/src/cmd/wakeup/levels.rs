//! Findings about levels that were not measured.

use latlab_model::finding::{Confidence, Finding, Note, Severity};
use latlab_sys::wakeup::WakeupError;

/// Levels were asked for that this kernel cannot measure; another one was measured.
pub fn missing(error: &WakeupError) -> Finding {
    let finding = Finding::typed("wakeup.level-missing", Severity::Inconclusive, Confidence::High);
    match error {
        WakeupError::NoTimerlat { levels } => {
            finding.value("levels", levels).remedy(Note::new("remedy.emulated-timerlat")).remedy(
                Note::new("remedy.kernel-option")
                    .value("option", "CONFIG_TIMERLAT_TRACER")
                    .value("line", "CONFIG_TIMERLAT_TRACER=y"),
            )
        }
        other => finding.value("error", other.to_string()),
    }
}
