//! User stacks: in which of its functions a program's thread was when it left its CPU.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The user stacks of a capture, in a file beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserStacks {
    /// Functions.
    pub frames: Vec<UserFrame>,
    /// Places in `frames`, innermost function first.
    pub stacks: Vec<Vec<u32>>,
    /// In order of time.
    pub left: Vec<LeftCpu>,
}

/// A function of a program, and what of it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UserFrame {
    /// Its name, demangled; where none is known, the offset in the file (`+0x1234`), or the address.
    pub function: String,
    /// Executable, library, or perf map without a directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// `file:line`, from debug information.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Whether the compiler put it into the next outer one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}

impl UserFrame {
    /// Whether it is of a shared library.
    pub fn is_library(&self) -> bool {
        self.object.ends_with(".so") || self.object.contains(".so.")
    }
}

impl fmt::Display for UserFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, object, place, inlined } = self;
        match (place.is_empty(), object.is_empty()) {
            (false, _) => write!(f, "{function} ({place})")?,
            (true, false) if function.starts_with('+') => write!(f, "{object}{function}")?,
            (true, false) => write!(f, "{function} [{object}]")?,
            (true, true) => f.write_str(function)?,
        }
        if *inlined { f.write_str(" (inlined)") } else { Ok(()) }
    }
}

/// A thread that left its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftCpu {
    /// Thread id.
    pub tid: i32,
    /// When, ns of the trace's clock: just behind its switch.
    pub at_ns: u64,
    /// Place in `stacks`.
    pub stack: u32,
}

/// Where the activations of a task waited, by the user stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WaitSites {
    /// Late activations in captures.
    pub late: u64,
    /// Those on time in them.
    pub on_time: u64,
    /// The site with the longest time in late activations first.
    pub sites: Vec<WaitSite>,
    /// Waits of late activations without a user stack.
    pub without_stack: u64,
    /// Why no stack was recorded, where that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A place in a program at which it waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WaitSite {
    /// Functions, innermost first.
    pub stack: Vec<UserFrame>,
    /// Its waits in late activations.
    pub late: Waits,
    /// Its waits in activations on time.
    pub on_time: Waits,
}

/// Waits at one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

impl Waits {
    /// Adds a wait.
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Adds those of another capture.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}
