//! The run that a file of another tool becomes.

use latlab_model::run::Run;

/// A run of one part.
pub(super) fn run_of(part: latlab_model::run::Part) -> Run {
    Run {
        schema_version: latlab_model::run::SCHEMA_VERSION,
        complete: true,
        parts: vec![part],
        ..Run::default()
    }
}
