//! The wording of findings, notes and remedies: one for each identifier.
//!
//! ```text
//! Finding { id, values, … } ──find(id)──▶ Message::text(&Args) ──▶ Text { claim, why }
//! Note    { id, values }    ──find(id)──▶ the same; the claim is the sentence
//! ```
//!
//! Each area has a file with a table of [`Message`]s, and examples of all of them, of which
//! `tests.rs` keeps the wording as snapshots. Style: sentence case, no full stop at the end of a
//! claim, `12 %`, `32 KiB`, `6.05 ms`; terms as in GLOSSARY.md.
//!
//! Runs of schema version 1 carry sentences; those are shown as they were recorded.

mod args;
mod bench;
mod cache;
mod causes;
mod check;
mod compare;
mod doctor;
#[cfg(test)]
mod examples;
mod history;
mod labels;
mod latency;
mod latency_captures;
mod latency_remedies;
mod message;
mod noise;
mod osnoise;
mod probe;
mod profile;
mod run;
mod sched;
mod survey;
mod sweep;
#[cfg(test)]
mod tests;
mod timer;
mod tune;
mod wakeup;

pub use args::{Args, bytes, quantity, value};
pub use cache::{agreement, cache_quantity, cache_value, pattern, stage};
pub use causes::{cause, mechanism, part_cause, wakeup_stage};
pub use doctor::kernel_option_reason;
pub use message::{Message, Text};
pub use timer::tick_mode;
pub use wakeup::woken;

use latlab_model::finding::{Confidence, Finding, Note, Severity, Values};

/// All messages, area by area.
const AREAS: &[&[Message]] = &[
    bench::MESSAGES,
    cache::MESSAGES,
    check::MESSAGES,
    compare::MESSAGES,
    doctor::MESSAGES,
    history::MESSAGES,
    latency::MESSAGES,
    latency_captures::MESSAGES,
    latency_remedies::MESSAGES,
    noise::MESSAGES,
    osnoise::MESSAGES,
    probe::MESSAGES,
    profile::MESSAGES,
    run::MESSAGES,
    sched::MESSAGES,
    survey::MESSAGES,
    sweep::MESSAGES,
    timer::MESSAGES,
    tune::MESSAGES,
    wakeup::MESSAGES,
];

/// A finding in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worded {
    /// What is the case.
    pub claim: String,
    /// Why it matters; may be empty.
    pub why: String,
    /// The evidence, a line each: `label: value (samples; source)`.
    pub evidence: Vec<String>,
    /// What to do.
    pub remedies: Vec<String>,
}

/// All identifiers that have a wording.
pub fn ids() -> impl Iterator<Item = &'static str> {
    AREAS.iter().copied().flatten().map(|m| m.id)
}

/// Identifiers of evidence that have a label of their own.
pub fn labelled() -> impl Iterator<Item = &'static str> {
    labels::ids()
}

fn find(id: &str) -> Option<&'static Message> {
    AREAS.iter().copied().flatten().find(|m| m.id == id)
}

/// The sentence of an identifier with values.
fn sentence(id: &str, values: &Values) -> Option<String> {
    find(id).map(|m| (m.text)(&Args::new(values, sentence)).claim)
}

/// The wording of a finding. An identifier of a newer version is shown with its values.
pub fn finding(f: &Finding) -> Worded {
    let text = if f.claim.is_empty() {
        worded(&f.id, &f.values)
    } else {
        Text { claim: f.claim.clone(), why: f.why.clone() }
    };
    let reasons = f.notes.iter().map(note);
    let why = Some(text.why).filter(|w| !w.is_empty()).into_iter().chain(reasons);
    Worded {
        claim: text.claim,
        why: why.collect::<Vec<_>>().join("; "),
        evidence: f.evidence.iter().map(evidence).collect(),
        remedies: f.remedies.iter().map(note).collect(),
    }
}

/// The claim of a finding.
pub fn claim(f: &Finding) -> String {
    finding(f).claim
}

/// The wording of a note or remedy.
pub fn note(note: &Note) -> String {
    match note {
        Note::Typed(s) => worded(&s.id, &s.values).claim,
        Note::Recorded(text) => text.clone(),
    }
}

/// Notes in words, in order.
pub fn notes<'a>(all: impl IntoIterator<Item = &'a Note>) -> Vec<String> {
    all.into_iter().map(note).collect()
}

fn worded(id: &str, values: &Values) -> Text {
    match find(id) {
        Some(message) => (message.text)(&Args::new(values, sentence)),
        None => {
            let all: Vec<String> = values
                .iter()
                .map(|(name, v)| format!("{}: {}", name.replace('_', " "), value(v)))
                .collect();
            // A note that is evidence of findings elsewhere has its label only.
            let name = labels::label(id);
            Text::claim(if all.is_empty() { name } else { format!("{name} ({})", all.join(", ")) })
        }
    }
}

fn evidence(e: &latlab_model::finding::Evidence) -> String {
    let samples = e.samples.map(|n| format!("{n} sample{}", if n == 1 { "" } else { "s" }));
    let extra: Vec<String> = samples.into_iter().chain(e.source.clone()).collect();
    let tail = if extra.is_empty() { String::new() } else { format!(" ({})", extra.join("; ")) };
    let (label, value) = (labels::label(&e.id), value(&e.value));
    let colon = if label.is_empty() || value.is_empty() { "" } else { ": " };
    format!("{label}{colon}{value}{tail}")
}

/// A severity in a word.
pub fn severity(s: Severity) -> &'static str {
    match s {
        Severity::Ok => "ok",
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
        Severity::Inconclusive => "inconclusive",
    }
}

/// A confidence in a word.
pub fn confidence(c: Confidence) -> &'static str {
    match c {
        Confidence::Low => "low",
        Confidence::Medium => "medium",
        Confidence::High => "high",
    }
}
