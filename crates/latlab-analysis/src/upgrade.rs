//! Runs of earlier versions: values that newer versions store with a result and that follow from
//! what an earlier run has.

use crate::cache::{reported::compare, switching::refill};
use latlab_model::run::{Detail, Run};

/// Derives what the run's version did not store.
pub fn upgrade(run: &mut Run) {
    for part in &mut run.parts {
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
