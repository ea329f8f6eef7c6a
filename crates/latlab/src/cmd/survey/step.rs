//! One kind of measurement of a survey.

use crate::cli::survey::Level;
use latlab_model::machine::Machine;
use latlab_model::run::Part;

/// One kind of measurement.
pub(super) struct Step {
    /// For `--step`; the first part that it yields has this name.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// The shortest survey that has it.
    pub from: Level,
    /// About how many seconds it takes at each level: quick, normal, full.
    pub seconds: [u64; 3],
    /// Measures.
    pub run: fn(&Context) -> anyhow::Result<Vec<Part>>,
}

impl Step {
    pub fn seconds(&self, level: Level) -> u64 {
        self.seconds[level as usize]
    }
}

/// What a step may know.
pub(super) struct Context<'a> {
    /// The step's own name, for its first part.
    pub name: &'static str,
    /// The step's own title.
    pub title: &'static str,
    pub level: Level,
    /// Seconds that the step is given.
    pub seconds: u64,
    /// The machine, as it was before the survey.
    pub machine: &'a Machine,
    /// What the steps before this one measured.
    pub earlier: &'a [Part],
}
