//! Requirements on the run of an experiment: `latlab check` decides.
//!
//! ```text
//! results/ID/check.json   the decision
//! results/ID/exceeded     a limit of the command was exceeded, or a requirement is not met
//! ```

use crate::program::own_program;
use anyhow::Context;
use latlab_analysis::fleet::campaign::Line;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

const EXCEEDED: &str = "exceeded";
/// Exit code of a command whose limit was exceeded, and of `check` where a requirement is not met.
const LIMIT: i32 = 2;

/// Checks a whole run, and marks one that exceeds a limit; whether it does.
///
/// What is not decided is no failure: the run may be too short, or of another load.
///
/// # Errors
/// When the check cannot be started, or the run's directory cannot be written.
pub fn check(line: &Line, out: &Path, exit_code: Option<i32>) -> anyhow::Result<bool> {
    let mut over = exit_code == Some(LIMIT);
    if let Some(requirements) = &line.check {
        let path = out.join("check.json");
        let decision = File::create(&path).with_context(|| path.display().to_string())?;
        let mut command = Command::new(own_program()?);
        command.args(["check", requirements]).arg(out).arg("--json");
        command.stdin(Stdio::null()).stdout(decision).stderr(Stdio::null());
        over |= command.status().context("latlab cannot be started")?.code() == Some(LIMIT);
    }
    if over {
        let mark = out.join(EXCEEDED);
        fs::write(&mark, "").with_context(|| mark.display().to_string())?;
    }
    Ok(over)
}

/// Whether a result is one that exceeds a limit.
pub fn is_exceeded(result: &Path) -> bool {
    result.join(EXCEEDED).exists()
}
