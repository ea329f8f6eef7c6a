//! Settings of `latlab memory`, and the memory that it may use.

use latlab_model::cache::detail::Limitation;
use latlab_model::finding::Note;
use latlab_model::machine::Machine;
use latlab_sys::files::Root;
use serde::Serialize;
use std::time::Duration;

/// What the options came to.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    pub quick: bool,
    /// Largest array, bytes.
    pub bytes: u64,
    pub budget_s: f64,
    pub cpu: Option<u32>,
    pub seed: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// Plan of context switches, where they are what is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<Rings>,
    /// Time for them, where it was given.
    #[serde(skip)]
    pub switch_budget: Option<Duration>,
    /// Why the arrays are smaller than asked for, where they are.
    #[serde(skip)]
    pub less: Option<Note>,
}

/// A plan of context switches.
#[derive(Clone, Debug, Serialize)]
pub struct Rings {
    /// `macro`, `micro`, or `own` with other lists.
    pub plan: String,
    /// Numbers of processes.
    pub procs: Vec<u32>,
    /// Working sets, bytes.
    pub sizes: Vec<u64>,
    /// Drop what the kernel caches before each round.
    pub cold: bool,
    /// Under SCHED_FIFO.
    pub fifo: bool,
}

/// Memory that may be used, bytes: what is free, and what control groups leave.
pub fn limit(machine: &Machine) -> Option<u64> {
    let groups = latlab_sys::cgroup::memory_left(&Root::here());
    groups.into_iter().chain(machine.start.available_bytes).min()
}

/// A measurement beside the curves that failed; `what` is `strides`, `stores`, `all-cpus`, `loops` or
/// `bandwidth`.
pub fn not_measured(what: &str, error: &std::io::Error) -> Limitation {
    let note = Note::new("cache.not-measured").value("what", what);
    Limitation::Note(note.value("error", error.to_string()))
}
