//! Progress, remarks and interruption of a build.

use std::process::Command;

/// What takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Packages are taken apart.
    Unpacking,
    /// Packages are configured in QEMU.
    Configuring,
    /// File systems are made.
    Assembling,
    /// A card is written.
    Writing,
    /// A card is read back.
    Verifying,
    /// A kernel or a boot loader is compiled.
    Compiling,
}

/// What a build needs of whoever asked for it.
pub trait Hooks {
    /// How far a step is, from 0 to 1 where it can be told.
    fn step(&mut self, step: Step, share: Option<f64>, words: &str);
    /// A remark for the user.
    fn say(&mut self, remark: &str);
    /// Whether the user asked to stop.
    fn stopped(&self) -> bool;
    /// Prepares a child so that it dies with us.
    fn tie(&self, command: &mut Command);
}

/// Hooks that tell nobody anything.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Silent {
    /// Whether the user asked to stop.
    pub stopped: bool,
}

#[cfg(test)]
impl Hooks for Silent {
    fn step(&mut self, _: Step, _: Option<f64>, _: &str) {}
    fn say(&mut self, _: &str) {}
    fn stopped(&self) -> bool {
        self.stopped
    }
    fn tie(&self, _: &mut Command) {}
}
