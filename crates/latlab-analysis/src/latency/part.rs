//! The part of a run that a result makes.

use super::findings::findings;
use super::summary::mixed_kernels;
use latlab_model::latency::WhyResult;
use latlab_model::run::{Detail, Part};

/// The part of a run that a result makes.
pub fn part(result: WhyResult, complete: bool, duration_ns: u64) -> Part {
    Part {
        name: "why".into(),
        title: "Causes of latency".into(),
        complete,
        duration_ns,
        findings: [
            mixed_kernels(&result.captures).into_iter().collect(),
            findings(&result.explanation, &result.system_context, &result.places),
            super::mitigation::findings(&result.mitigation_tests),
        ]
        .concat(),
        results: Vec::new(),
        detail: Some(Detail::Why(Box::new(result))),
    }
}
