//! Progress of a build on the terminal, and its end by a signal.

use crate::cmd::vm::say;
use crate::outcome::{Outcome, OwnHintExt};
use crate::progress::Progress;
use crate::term;
use latlab_image::{Hooks, Step};
use latlab_sys::signal;
use latlab_target::TargetError;
use std::process::Command;

/// Progress on the terminal, signals, and a child's life tied to ours.
#[derive(Debug)]
pub(in crate::cmd) struct BuildHooks {
    progress: Progress,
    step: Option<Step>,
}

impl BuildHooks {
    pub(in crate::cmd) fn new() -> Self {
        Self { progress: Progress::new("image"), step: None }
    }
}

impl Hooks for BuildHooks {
    fn step(&mut self, step: Step, share: Option<f64>, words: &str) {
        let name = match step {
            Step::Unpacking => "unpacking packages",
            Step::Configuring => "configuring packages",
            Step::Assembling => "assembling",
            Step::Writing => "writing",
            Step::Verifying => "reading back",
            Step::Compiling => "compiling",
        };
        if self.step != Some(step) {
            self.progress.clear();
            self.progress = Progress::new(name);
            self.step = Some(step);
            if !term::stderr_is_terminal() {
                say(name);
            }
        }
        self.progress.set(share, words);
    }

    fn say(&mut self, remark: &str) {
        self.progress.clear();
        say(remark);
    }

    fn stopped(&self) -> bool {
        signal::stop_requested().is_some()
    }

    fn tie(&self, command: &mut Command) {
        latlab_sys::process::tie_to_us(command);
    }
}

/// A signal's exit code where the user stopped it, the error with its hint otherwise.
pub(in crate::cmd) fn ended<T>(
    result: latlab_target::Result<T>,
    then: impl FnOnce(T) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    match (result, signal::stop_requested()) {
        (Err(error @ TargetError::Stopped), Some(signal)) => {
            say(&format!("{error}; {}", error.hint().unwrap_or_default()));
            Ok(Outcome::Stopped(signal))
        }
        (result, _) => then(result.with_hint()?),
    }
}
