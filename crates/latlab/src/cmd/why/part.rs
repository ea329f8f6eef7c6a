//! The part of a run that a result makes.

use latlab_analysis::latency::findings::findings;
use latlab_analysis::latency::summary::mixed_kernels;
use latlab_model::latency::WhyResult;
use latlab_model::run::{Detail, Part};

/// The part of a run that a result makes.
pub(super) fn part(result: WhyResult, complete: bool, duration_ns: u64) -> Part {
    Part {
        name: "why".into(),
        title: "Causes of latency".into(),
        complete,
        duration_ns,
        findings: [
            mixed_kernels(&result.captures).into_iter().collect(),
            findings(&result.explanation, &result.system_context, &result.places),
            latlab_analysis::latency::mitigation::findings(&result.mitigation_tests),
        ]
        .concat(),
        results: Vec::new(),
        detail: Some(Detail::Why(Box::new(result))),
    }
}
