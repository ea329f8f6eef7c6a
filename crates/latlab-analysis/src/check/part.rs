//! The part of a run.

use super::decide::POWER;
use latlab_model::check::{CheckDetail, Checked, Decision, Statistic};
use latlab_model::finding::{Confidence, Finding, Quantity, Severity};
use latlab_model::run::{Detail, Part};

/// Whether the duration that is needed decides with the power of the test only.
fn by_power(item: &Checked) -> bool {
    let short = item.notes.iter().any(|n| n.id() == Some("check.too-short"));
    item.needed_ns.is_some()
        && matches!(item.requirement.statistic, Statistic::Quantile(_))
        && !short
}

/// The part named `check`.
pub fn part(detail: CheckDetail) -> Part {
    let count = |d: Decision| detail.items.iter().filter(|i| i.decision == d).count() as u64;
    let mut findings = Vec::new();
    for item in detail.items.iter().filter(|i| i.decision != Decision::Pass) {
        let (id, severity) = match item.decision {
            Decision::Fail => ("check.failed", Severity::Problem),
            _ => ("check.undecided", Severity::Inconclusive),
        };
        let finding = Finding::typed(id, severity, Confidence::High)
            .value("requirement", item.requirement.text.as_str())
            .value("line", Quantity::Count(item.requirement.line.into()))
            .value_if("needed", item.needed_ns.map(Quantity::Ns))
            .value_if("power", by_power(item).then_some(Quantity::Ratio(POWER)));
        findings.push(item.notes.iter().cloned().fold(finding, Finding::note));
    }
    if findings.is_empty() {
        findings.push(
            Finding::typed("check.passed", Severity::Ok, Confidence::High)
                .value("count", Quantity::Count(count(Decision::Pass))),
        );
    }
    Part {
        name: "check".to_owned(),
        title: "Requirements".to_owned(),
        complete: true,
        findings,
        detail: Some(Detail::Check(Box::new(detail))),
        ..Part::default()
    }
}
