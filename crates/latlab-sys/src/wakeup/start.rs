//! The measurement that a configuration asks for.

use super::{Hooks, WakeupError, mechanism, setup};
use latlab_model::wakeup::config::WakeupConfig;
use latlab_model::wakeup::result::WakeupResult;

/// Measures until the duration, the number of loops, the break value, a hook or a signal ends it.
///
/// # Errors
/// When it cannot begin, with a hint. Once the first thread has woken the result is
/// returned, whole or not.
pub fn run(config: &WakeupConfig, hooks: Hooks<'_>) -> Result<WakeupResult, WakeupError> {
    setup::check(config)?;
    match &config.by {
        Some(by) => mechanism::run(config, by, hooks),
        None => super::run::run(config, hooks),
    }
}
