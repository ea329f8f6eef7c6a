//! Confidence of a cause, by its evidence.

use latlab_model::finding::Confidence;
use latlab_model::latency::{CauseEvidence, Mechanism, RootCause};

/// Fewer late wake-ups are few.
const FEW: usize = 3;

/// High: it covers most of the excess and separates late from on-time windows, and what could as well be a stall is
/// excluded. Medium: it covers a good part. Low: the rest, and what names no cause.
pub(super) fn confidence(cluster: &RootCause) -> Confidence {
    if matches!(cluster.mechanism, Mechanism::Unexplained | Mechanism::SlowPath) {
        return Confidence::Low;
    }
    let (mut sure, mut likely) = (true, true);
    let of = cluster.part_of.len();
    // A part that is a third of one or two late wake-ups is no likely cause of them.
    let least = if of < FEW { 0.5 } else { 0.25 };
    let section = cluster
        .evidence
        .iter()
        .any(|fact| matches!(fact, CauseEvidence::SectionRecorded { windows } if 2 * windows > of));
    let placed = cluster.evidence.iter().any(
        |fact| matches!(fact, CauseEvidence::Place { hits, p, .. } if *p < 0.01 && *hits >= 3),
    );
    for fact in &cluster.evidence {
        match *fact {
            CauseEvidence::Covers { share } => {
                sure &= share >= 0.6;
                likely &= share >= least;
            }
            CauseEvidence::Separates { delta } => sure &= delta >= 0.5,
            CauseEvidence::NoControls
            | CauseEvidence::NotCompared { .. }
            | CauseEvidence::Few { .. } => sure = false,
            CauseEvidence::Victim { hits, p, .. } => {
                sure &= section || placed || p < 0.01 && hits >= 3;
            }
            CauseEvidence::Lost { windows } | CauseEvidence::Uncovered { windows } => {
                sure &= windows * 3 < cluster.part_of.len();
            }
            _ => {}
        }
    }
    match cluster.mechanism {
        // Another CPU that waits for the same lock, or a counter of the whole machine, leaves a doubt.
        Mechanism::Stall => {
            sure &= cluster.evidence.iter().any(|fact| {
                matches!(fact, CauseEvidence::InUser { windows }
                    | CauseEvidence::InterruptsOn { windows }
                    | CauseEvidence::Hwlat { windows } if 2 * windows > of)
            });
        }
        // That it is one of them.
        Mechanism::Alternatives => {
            sure = false;
            likely &= of >= FEW;
        }
        _ => {}
    }
    match (sure, likely) {
        (true, _) => Confidence::High,
        (_, true) => Confidence::Medium,
        _ => Confidence::Low,
    }
}
