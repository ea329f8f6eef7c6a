//! What a reader must know before believing a figure: drift, two modes,
//! disturbance, a missed target, an impossible value.

use super::BenchDetail;
use super::summary::Measured;
use crate::finding::{Confidence, Evidence, Finding, Verdict};

/// Everything worth saying of a suite.
pub fn findings(_measured: &[Measured], detail: &BenchDetail) -> Vec<Finding> {
    impossible(detail)
}

/// Figures that no machine can have: nothing takes no time.
fn impossible(detail: &BenchDetail) -> Vec<Finding> {
    (detail.rows.iter().filter(|r| r.estimate.median <= 0.0))
        .map(|r| {
            let label = super::label(&r.name, &r.params);
            Finding::new(
                "bench.impossible",
                Verdict::InTheWay,
                Confidence::Sure,
                format!("{label} cannot be {:.2}: nothing takes no time", r.estimate.median),
            )
            .with(Evidence::new("median", r.estimate.median.to_string()).of(r.estimate.batches))
        })
        .collect()
}
