//! What was measured of one probe.

use latlab_model::bench::trial::Slice;
use latlab_model::finding::Note;
use latlab_model::record::Unit;
use std::collections::BTreeMap;

/// All that was measured of one probe with one set of parameters.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Name of the probe.
    pub name: String,
    /// Its parameters.
    pub params: BTreeMap<String, String>,
    /// Unit of its values.
    pub unit: Unit,
    /// What is counted.
    pub what: String,
    /// The CPU it was pinned to.
    pub cpu: Option<u32>,
    /// The processes, in order of time.
    pub slices: Vec<Slice>,
    /// Why it was given up, and whether for want of the thing itself.
    pub given_up: Option<(Note, bool)>,
    /// Whether it became sure enough.
    pub target_met: bool,
}
