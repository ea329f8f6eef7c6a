//! What a machine can measure and trace, and what is in the way: facts in, findings out.
//!
//! The facts are gathered elsewhere, and judged here without looking at a
//! machine, so that a board's facts can be judged on a desk. The findings come
//! by area; the identifier says which:
//!
//! | identifier | area |
//! |---|---|
//! | `clock.*`, `cpu.*`, `memory.*`, `machine.*` | what a measurement can resolve and what the hardware does to it |
//! | `rt.*` | what a real-time task is given |
//! | `trace.*`, `config.*` | what the kernel can tell |
//! | `noise.*`, `knobs.*` | what disturbs a measurement now |

mod facts;
mod hardware;
mod noise;
mod realtime;
mod tracing;

pub use facts::{Access, Facts, Knobs, RtTask, Tracing, Trial, Window};

use crate::finding::{Confidence, Finding, Verdict};
use crate::machine::Machine;
use crate::run::{Detail, Part};

/// Judges. Findings in the order of the areas; see the module.
pub fn judge(machine: &Machine, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    hardware::judge(machine, facts, &mut findings);
    realtime::judge(machine, facts, &mut findings);
    tracing::judge(machine, facts, &mut findings);
    noise::judge(machine, facts, &mut findings);
    findings
}

/// The facts and what follows from them, as a part of a run.
pub fn part(machine: &Machine, facts: Facts) -> Part {
    Part {
        name: "doctor".into(),
        title: "What this machine can measure and trace, and what is in the way".into(),
        complete: true,
        duration_ns: facts.window.length_ns,
        findings: judge(machine, &facts),
        detail: Some(Detail::Doctor(Box::new(facts))),
        ..Part::default()
    }
}

fn good(id: &str, claim: impl Into<String>) -> Finding {
    Finding::new(id, Verdict::Good, Confidence::Sure, claim)
}
fn note(id: &str, claim: impl Into<String>) -> Finding {
    Finding::new(id, Verdict::Note, Confidence::Sure, claim)
}
fn in_the_way(id: &str, claim: impl Into<String>) -> Finding {
    Finding::new(id, Verdict::InTheWay, Confidence::Sure, claim)
}
fn cannot_tell(id: &str, claim: impl Into<String>) -> Finding {
    Finding::new(id, Verdict::CannotTell, Confidence::CannotTell, claim)
}

/// `one thing`, `2 things`.
fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("one {one}") } else { format!("{n} {many}") }
}

#[cfg(test)]
mod tests;
