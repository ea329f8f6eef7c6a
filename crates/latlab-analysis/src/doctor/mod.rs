//! What a machine can measure and trace: facts in, findings out.
//!
//! `latlab-sys` gathers the facts; nothing here reads the machine, so facts of a board can be
//! judged on the host. The identifier of a finding names its area:
//!
//! | identifier | area |
//! |---|---|
//! | `clock.*`, `cpu.*`, `memory.*`, `machine.*` | resolution of a measurement, hardware influence |
//! | `rt.*` | permissions and CPU time of real-time tasks |
//! | `trace.*`, `config.*` | tracing features and kernel configuration |
//! | `noise.*`, `settings.*` | present interference |

mod build;
mod hardware;
mod noise;
mod realtime;
mod tracing;

use latlab_model::doctor::Facts;

use latlab_model::finding::Finding;
use latlab_model::machine::Machine;
use latlab_model::run::{Detail, Part};

/// Findings in the order of the areas (see the module).
pub fn judge(machine: &Machine, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    hardware::judge(machine, facts, &mut findings);
    realtime::judge(machine, facts, &mut findings);
    tracing::judge(machine, facts, &mut findings);
    noise::judge(machine, facts, &mut findings);
    findings
}

/// Facts and findings as a part of a run.
pub fn part(title: &str, machine: &Machine, facts: Facts) -> Part {
    Part {
        name: "doctor".into(),
        title: title.to_owned(),
        complete: true,
        duration_ns: facts.window.length_ns,
        findings: judge(machine, &facts),
        detail: Some(Detail::Doctor(Box::new(facts))),
        ..Part::default()
    }
}

#[cfg(test)]
mod tests;
