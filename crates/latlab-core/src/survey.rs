//! What only a survey can say: conclusions from several of its parts.

use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::run::{Part, Record};
use crate::units::format_ns;

/// The name of the part that the loaded ones are compared with.
const IDLE: &str = "wakeup";
/// Less than this factor between two single runs is not worth a word.
const WORTH_SAYING: f64 = 1.5;

/// What a load did to the wake-up latency: the part measured under it against the idle one before it.
///
/// Compares p99, the highest quantile that both support, and the largest value. One
/// run each: it is a first look, and says so.
pub fn load_effect(earlier: &[Part], loaded: &Part) -> Option<Finding> {
    let idle = earlier.iter().find(|p| p.name == IDLE && p.complete)?;
    if loaded.name == IDLE {
        return None;
    }
    let (before, after) = (over_all(idle)?, over_all(loaded)?);
    let (p99_idle, p99_loaded) =
        (before.summary.quantile(0.99)?.value, after.summary.quantile(0.99)?.value);
    let (max_idle, max_loaded) = (before.summary.max?, after.summary.max?);
    let grew = |a: f64, b: f64| b > a * WORTH_SAYING;
    let change = |a: f64, b: f64| format!("from {} to {}", format_ns(a), format_ns(b));
    let (verdict, claim) = match (grew(p99_idle, p99_loaded), grew(max_idle, max_loaded)) {
        (true, _) => (
            Verdict::InTheWay,
            format!(
                "this load raises the p99 of the wake-up latency {}",
                change(p99_idle, p99_loaded)
            ),
        ),
        (false, true) => (
            Verdict::InTheWay,
            format!(
                "this load leaves the p99 of the wake-up latency alone, and raises the worst {}",
                change(max_idle, max_loaded)
            ),
        ),
        (false, false) => (
            Verdict::Good,
            format!(
                "this load does not raise the wake-up latency much: p99 {}, worst {}",
                change(p99_idle, p99_loaded),
                change(max_idle, max_loaded)
            ),
        ),
    };
    Some(
        Finding::new("survey.load-effect", verdict, Confidence::Likely, claim)
            .because("one short run each is a first look and no proof; a longer `latlab wakeup` under the load that matters decides")
            .with(Evidence::new("p99 idle", format_ns(p99_idle)).of(before.summary.count))
            .with(Evidence::new("p99 under load", format_ns(p99_loaded)).of(after.summary.count))
            .with(Evidence::new("worst idle", format_ns(max_idle)))
            .with(Evidence::new("worst under load", format_ns(max_loaded))),
    )
}

/// The wake-up record over all threads.
fn over_all(part: &Part) -> Option<&Record> {
    part.results.iter().find(|r| r.name == "wakeup.user" && !r.params.contains_key("thread"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;

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

    fn said(idle: (u64, u64), loaded: (u64, u64)) -> (Verdict, String) {
        let f = load_effect(&[part(IDLE, idle.0, idle.1)], &part("wakeup-cpu", loaded.0, loaded.1));
        f.map(|f| (f.verdict, f.claim)).unwrap()
    }

    #[test]
    fn a_load_that_hurts_is_named_by_what_it_raises() {
        let (verdict, claim) = said((10_000, 50_000), (40_000, 90_000));
        assert_eq!(verdict, Verdict::InTheWay);
        assert!(claim.contains("p99") && claim.contains("from 10.0 µs to 40.0 µs"), "{claim}");
        let (verdict, claim) = said((10_000, 50_000), (11_000, 900_000));
        assert_eq!(verdict, Verdict::InTheWay);
        assert!(claim.contains("worst from 50.0 µs to 900 µs"), "{claim}");
    }

    #[test]
    fn a_load_that_does_not_is_good() {
        assert_eq!(said((10_000, 50_000), (11_000, 40_000)).0, Verdict::Good);
    }

    #[test]
    fn nothing_is_said_without_an_idle_measurement_to_compare_with() {
        let loaded = part("wakeup-cpu", 1, 1);
        assert!(load_effect(&[], &loaded).is_none());
        let mut cut_short = part(IDLE, 1, 1);
        cut_short.complete = false;
        assert!(load_effect(&[cut_short], &loaded).is_none());
        assert!(load_effect(&[part(IDLE, 1, 1)], &part(IDLE, 1, 1)).is_none());
    }
}
