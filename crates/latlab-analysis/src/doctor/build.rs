//! Findings of each severity.

use latlab_model::finding::{Confidence, Finding, Note, Severity};

pub(super) fn ok(id: &str) -> Finding {
    Finding::typed(id, Severity::Ok, Confidence::High)
}

pub(super) fn info(id: &str) -> Finding {
    Finding::typed(id, Severity::Info, Confidence::High)
}

pub(super) fn warning(id: &str) -> Finding {
    Finding::typed(id, Severity::Warning, Confidence::High)
}

pub(super) fn problem(id: &str) -> Finding {
    Finding::typed(id, Severity::Problem, Confidence::High)
}

pub(super) fn inconclusive(id: &str) -> Finding {
    Finding::typed(id, Severity::Inconclusive, Confidence::Low)
}

/// `CONFIG_X=y`, or `# CONFIG_X is not set`, as a remedy.
pub(super) fn kernel_option(name: &str, line: &str) -> Note {
    Note::new("remedy.kernel-option").value("option", name).value("line", line)
}
