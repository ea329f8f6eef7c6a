//! Conclusions from several parts of a survey.

use latlab_model::finding::{Confidence, Evidence, Finding, Quantity, Severity};
use latlab_model::record::Record;
use latlab_model::run::Part;

/// The name of the part that the loaded ones are compared with.
const IDLE: &str = "wakeup";
/// Smallest factor between two single runs that counts as a change.
const CHANGE_MIN: f64 = 1.5;

/// The effect of a load on the wake-up latency: the part under load against the idle one before it.
///
/// Compares p99, the highest quantile that both support, and the largest value, of one run each:
/// confidence is medium.
pub fn load_effect(earlier: &[Part], loaded: &Part) -> Option<Finding> {
    let idle = earlier.iter().find(|p| p.name == IDLE && p.complete)?;
    if loaded.name == IDLE {
        return None;
    }
    let (before, after) = (over_all(idle)?, over_all(loaded)?);
    let (p99_idle, p99_loaded) =
        (before.summary.quantile(0.99)?.value, after.summary.quantile(0.99)?.value);
    let (max_idle, max_loaded) = (before.summary.max?, after.summary.max?);
    let grew = |a: f64, b: f64| b > a * CHANGE_MIN;
    let (severity, raised) = match (grew(p99_idle, p99_loaded), grew(max_idle, max_loaded)) {
        (true, _) => (Severity::Warning, "p99"),
        (false, true) => (Severity::Warning, "worst"),
        (false, false) => (Severity::Ok, "none"),
    };
    Some(
        Finding::typed("survey.load-effect", severity, Confidence::Medium)
            .value("raised", raised)
            .value("p99_idle", Quantity::Ns(p99_idle))
            .value("p99_load", Quantity::Ns(p99_loaded))
            .value("worst_idle", Quantity::Ns(max_idle))
            .value("worst_load", Quantity::Ns(max_loaded))
            .with(Evidence::new("p99-idle", Quantity::Ns(p99_idle)).of(before.summary.count))
            .with(Evidence::new("p99-load", Quantity::Ns(p99_loaded)).of(after.summary.count))
            .with(Evidence::new("worst-idle", Quantity::Ns(max_idle)))
            .with(Evidence::new("worst-load", Quantity::Ns(max_loaded))),
    )
}

/// The wake-up record over all threads.
fn over_all(part: &Part) -> Option<&Record> {
    part.results.iter().find(|r| r.name == "wakeup.user" && !r.params.contains_key("thread"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::finding::Value;
    use latlab_stats::histogram::Histogram;

    fn part(name: &str, typical: u64, worst: u64) -> Part {
        let h = Histogram::of(std::iter::repeat_n(typical, 9_999).chain([worst]));
        let record = Record {
            name: "wakeup.user".into(),
            summary: h.summary(),
            histogram: Some(h),
            ..Record::default()
        };
        Part { name: name.into(), complete: true, results: vec![record], ..Part::default() }
    }

    fn effect(idle: (u64, u64), loaded: (u64, u64)) -> Finding {
        let loaded = part("wakeup-cpu", loaded.0, loaded.1);
        load_effect(&[part(IDLE, idle.0, idle.1)], &loaded).unwrap()
    }

    #[test]
    fn the_quantile_that_a_load_raises_is_named() {
        let f = effect((10_000, 50_000), (40_000, 90_000));
        assert_eq!((f.severity, &f.values["raised"]), (Severity::Warning, &"p99".into()));
        let Value::Quantity(Quantity::Ns(p99)) = f.values["p99_idle"] else { panic!("{f:?}") };
        assert!((9_900.0..10_100.0).contains(&p99), "{p99}");
        let f = effect((10_000, 50_000), (11_000, 900_000));
        assert_eq!((f.severity, &f.values["raised"]), (Severity::Warning, &"worst".into()));
        assert_eq!(f.values["worst_load"], Quantity::Ns(900_000.0).into());
    }

    #[test]
    fn a_load_without_effect_is_ok() {
        assert_eq!(effect((10_000, 50_000), (11_000, 40_000)).severity, Severity::Ok);
    }

    #[test]
    fn without_an_idle_measurement_there_is_no_finding() {
        let loaded = part("wakeup-cpu", 1, 1);
        assert!(load_effect(&[], &loaded).is_none());
        let mut cut_short = part(IDLE, 1, 1);
        cut_short.complete = false;
        assert!(load_effect(&[cut_short], &loaded).is_none());
        assert!(load_effect(&[part(IDLE, 1, 1)], &part(IDLE, 1, 1)).is_none());
    }
}
