//! Wording: requirements.

use super::message::{Message, Text, fixed, message};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    message("check.failed", |a| {
        Text::claim(format!("Not met: {} (line {})", a.get("requirement"), a.get("line")))
    }),
    message("check.undecided", |a| {
        let needed = a.find("needed").map_or(String::new(), |time| needed(&time, a.find("power")));
        Text::claim(format!(
            "Not decided: {} (line {}){needed}",
            a.get("requirement"),
            a.get("line")
        ))
    }),
    message("check.passed", |a| {
        Text::claim(format!("{} met", a.count("count", "requirement is", "requirements are")))
    }),
    fixed!("check.no-run", "No run was measured under these circumstances"),
    message("check.unmeasured", |a| {
        Text::claim(format!("No value of CPU {}, or of a thread there", a.get("cpus")))
    }),
    fixed!("check.never-woke", "A thread that is bound to no CPU never woke up"),
    message("check.threshold", |a| {
        Text::claim(format!("Only interruptions of {} or more count", a.get("threshold")))
    }),
    message("check.threshold-above", |a| {
        Text::claim(format!(
            "Interruptions shorter than the measurement's threshold of {} are not known",
            a.get("threshold")
        ))
    }),
    fixed!(
        "check.queue-not-listed",
        "More interruptions than the list has: the queue after the others is not known"
    ),
    message("check.too-short", |a| {
        Text::claim(format!("Measured for {}, {} wanted", a.get("measured"), a.get("wanted")))
    }),
    fixed!(
        "check.too-close",
        "The value is too close to the limit to be decided in a reasonable time"
    ),
    message("check.not-seen", |a| {
        Text::claim(format!(
            "Not exceeded; the probability of one value to exceed it is at most {} (95 %)",
            a.get("probability")
        ))
    }),
    fixed!(
        "check.clusters-assumed",
        "The order of the values is not known: late values are assumed to come in clusters of four"
    ),
    message("check.other-unit", |a| {
        Text::claim(format!("{} is measured in another unit", a.get("record")))
    }),
    fixed!("check.interval-has-limit", "The 95 % interval contains the limit"),
];

/// What is observed is decided by the duration alone, a quantile with the power of the test.
fn needed(time: &str, power: Option<String>) -> String {
    let power = power.map_or(String::new(), |p| format!(" with a probability of {p}"));
    format!("; a measurement of {time} decides{power}, if the values stay as they are")
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::{statements, with_fixed};
    use latlab_model::finding::{Note, Quantity};
    let requirement =
        |id| Note::new(id).value("requirement", "p99.9 < 80 us").value("line", Quantity::Count(3));
    let valued = [
        requirement("check.failed"),
        requirement("check.undecided"),
        requirement("check.undecided").value("needed", Quantity::Ns(3.6e12)),
        requirement("check.undecided")
            .value("needed", Quantity::Ns(3.6e12))
            .value("power", Quantity::Ratio(0.8)),
        Note::new("check.passed").value("count", Quantity::Count(4)),
        Note::new("check.too-short")
            .value("measured", Quantity::Ns(6e10))
            .value("wanted", Quantity::Ns(3.6e12)),
        Note::new("check.threshold").value("threshold", Quantity::Ns(5e3)),
        Note::new("check.threshold-above").value("threshold", Quantity::Ns(5e4)),
        Note::new("check.unmeasured").value("cpus", "2-7"),
        Note::new("check.not-seen").value("probability", Quantity::Probability(0.0001)),
        Note::new("check.other-unit").value("record", "memory.copy"),
    ];
    with_fixed(MESSAGES, statements(valued))
}
