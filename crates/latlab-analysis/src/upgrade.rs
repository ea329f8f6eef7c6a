//! Runs of earlier versions, and of boards: values that this version stores with a result and that follow from what the
//! run has.

use crate::cache::{reported::compare, switching::refill};
use latlab_model::bench::{BenchRow, Selection};
use latlab_model::run::{Detail, Run};

/// Derives what the run's version did not store.
pub fn upgrade(run: &mut Run) {
    for part in &mut run.parts {
        if let Some(Detail::Bench(detail)) = &mut part.detail {
            detail.rows.iter_mut().for_each(selection);
            #[cfg(feature = "host")]
            if !part.findings.iter().any(|f| f.id.starts_with("bench.clock")) {
                part.findings.extend(crate::bench::clock_period::findings(detail));
            }
        }
        if let Some(Detail::Memory(detail)) = &mut part.detail {
            if detail.comparisons.is_empty() {
                detail.comparisons = compare(detail);
            }
            if detail.refill.is_empty() {
                detail.refill = refill(&detail.switches);
            }
        }
    }
}

/// Earlier versions stored a median of all batches only where disturbed ones were excluded.
fn selection(row: &mut BenchRow) {
    if row.disturbed == 0 || row.selection != Selection::All {
        return;
    }
    row.selection = match row.median_of_all {
        None => Selection::AllDisturbed,
        Some(_) if row.disturbed > row.estimate.batches => Selection::FewUndisturbed,
        Some(_) => Selection::Undisturbed,
    };
}
