//! Every identifier has one wording and an example; the wording of the examples is a snapshot.

use super::*;
use latlab_model::finding::Statement;
use std::collections::BTreeSet;
use std::fmt::Write;

/// An example: the values of one identifier.
type Examples = fn() -> Vec<Statement>;

/// Examples of all areas, with the name of the snapshot.
const EXAMPLES: &[(&str, &[Message], Examples)] = &[
    ("bench", bench::MESSAGES, bench::examples),
    ("cache", cache::MESSAGES, cache::examples),
    ("check", check::MESSAGES, check::examples),
    ("compare", compare::MESSAGES, compare::examples),
    ("doctor", doctor::MESSAGES, doctor::examples),
    ("history", history::MESSAGES, history::examples),
    ("latency", latency::MESSAGES, latency::examples),
    ("latency-captures", latency_captures::MESSAGES, latency::capture_examples),
    ("latency-remedies", latency_remedies::MESSAGES, latency::remedy_examples),
    ("noise", noise::MESSAGES, noise::examples),
    ("osnoise", osnoise::MESSAGES, osnoise::examples),
    ("probe", probe::MESSAGES, probe::examples),
    ("run", run::MESSAGES, run::examples),
    ("sched", sched::MESSAGES, sched::examples),
    ("survey", survey::MESSAGES, survey::examples),
    ("sweep", sweep::MESSAGES, sweep::examples),
    ("profile", profile::MESSAGES, profile::examples),
    ("timer", timer::MESSAGES, timer::examples),
    ("tune", tune::MESSAGES, tune::examples),
    ("wakeup", wakeup::MESSAGES, wakeup::examples),
];

#[test]
fn identifiers_are_unique() {
    let mut seen = BTreeSet::new();
    for m in AREAS.iter().copied().flatten() {
        assert!(seen.insert(m.id), "{} has two wordings", m.id);
    }
}

#[test]
fn every_message_has_examples_and_keeps_its_wording() {
    let areas: usize = AREAS.len();
    assert_eq!(EXAMPLES.len(), areas, "an area has no examples");
    for (name, messages, examples) in EXAMPLES {
        let all = examples();
        let mut out = String::new();
        for m in *messages {
            let of: Vec<_> = all.iter().filter(|s| s.id == m.id).collect();
            assert!(!of.is_empty(), "{} has no example", m.id);
            for s in of {
                let text = worded(&s.id, &s.values);
                assert!(!text.claim.contains('?'), "{}: a value is missing: {}", m.id, text.claim);
                assert!(!text.claim.ends_with('.'), "{}: {}", m.id, text.claim);
                let _ = writeln!(out, "{}\n  {}", m.id, text.claim);
                if !text.why.is_empty() {
                    let _ = writeln!(out, "  | {}", text.why);
                }
            }
        }
        for s in &all {
            assert!(messages.iter().any(|m| m.id == s.id), "example of an unknown {}", s.id);
        }
        if !messages.is_empty() {
            insta::assert_snapshot!(*name, out);
        }
    }
}

/// Sensors that are missing are evidence of findings, and notes of `wakeup --smi`.
#[test]
fn a_note_that_is_evidence_elsewhere_has_its_label() {
    let text = note(&Note::new("smi-counter-no-msr-device"));
    assert_eq!(text, "SMI counter not available: no /dev/cpu/0/msr (modprobe msr)");
}

#[test]
fn an_unknown_identifier_is_shown_with_its_values() {
    let f = Finding::typed("new.thing", Severity::Info, Confidence::High)
        .value("longest_gap", latlab_model::finding::Quantity::Ns(6_050_000.0));
    assert_eq!(finding(&f).claim, "new.thing (longest gap: 6.05 ms)");
}

#[test]
fn a_recorded_sentence_is_shown_as_it_is() {
    let mut f = Finding::typed("x", Severity::Problem, Confidence::Medium);
    f.claim = "It is late.".into();
    f.why = "So.".into();
    let text = finding(&f);
    assert_eq!((text.claim.as_str(), text.why.as_str()), ("It is late.", "So."));
}

/// The table and the breakdown of a report name a cause as its finding does.
#[test]
fn findings_contain_the_name_of_their_mechanism() {
    use latlab_model::latency::Mechanism;
    let examples = latency::examples();
    let mut named = 0;
    for id in latency::MESSAGES.iter().filter_map(|m| m.id.strip_prefix("why.")) {
        let Ok(mechanism) = serde_json::from_value::<Mechanism>(id.into()) else { continue };
        named += 1;
        let name = super::mechanism(mechanism).to_lowercase();
        for e in examples.iter().filter(|e| e.id.strip_prefix("why.") == Some(id)) {
            let claim = worded(&e.id, &e.values).claim;
            assert!(claim.to_lowercase().contains(&name), "{id}: {name:?} is not in {claim:?}");
        }
    }
    assert_eq!(named, 29, "a mechanism without a message, or a message without a mechanism");
}
