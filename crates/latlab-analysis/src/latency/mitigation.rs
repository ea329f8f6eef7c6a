//! The effect of a mitigation: the share of the excess that it removes, with its interval.
//!
//! Blocks with and without the mitigation alternate. A block's excess is the time by which
//! its late wake-ups (over the limit) were later than a typical one, per wake-up. The share that is
//! gone has an interval from the pairs of blocks (Fieller's theorem), because late wake-ups cluster
//! within a block; an arm with few late wake-ups or none is bounded by their number (quasi-Poisson; for
//! none this is the rule of three, with the size of the clusters).

use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity, Value};
use latlab_model::latency::{MitigationTest, Removed};
use latlab_stats::fieller::{count_upper, dispersion, ratio_interval};
use latlab_stats::histogram::Histogram;
use latlab_stats::rank::rank_test;

/// Compares blocks pairwise: `plain[i]` and `remedied[i]` are neighbours in time.
pub fn compare(plain: &[Histogram], remedied: &[Histogram], limit_ns: u64) -> Removed {
    let pairs = plain.len().min(remedied.len());
    let mut all = Histogram::default();
    plain[..pairs].iter().chain(&remedied[..pairs]).for_each(|h| all.merge(h));
    let typical = all.quantile(0.5).unwrap_or(0);
    let excesses = |side: &[Histogram]| -> Vec<f64> {
        side[..pairs].iter().map(|h| excess(h, limit_ns, typical)).collect()
    };
    let (a, b) = (excesses(plain), excesses(remedied));
    let mean = |v: &[f64]| v.iter().sum::<f64>() / pairs.max(1) as f64;
    let share = (mean(&a) > 0.0).then(|| 1.0 - mean(&b) / mean(&a));
    let sum = |side: &[Histogram], f: &dyn Fn(&Histogram) -> u64| side[..pairs].iter().map(f).sum();
    let late = |side: &[Histogram]| -> Vec<f64> {
        side[..pairs].iter().map(|h| h.count_above(limit_ns) as f64).collect()
    };
    Removed {
        pairs,
        wakeups: (sum(plain, &|h| h.count), sum(remedied, &|h| h.count)),
        late: (
            sum(plain, &|h| h.count_above(limit_ns)),
            sum(remedied, &|h| h.count_above(limit_ns)),
        ),
        excess_ns: (mean(&a), mean(&b)),
        gone: share,
        interval: interval((&a, &b), (&late(plain), &late(remedied))),
        p: rank_test(&a, &b).map_or(1.0, |t| t.p),
    }
}

/// A share of the excess below which a mitigation is called without effect.
const MARGIN: f64 = 0.2;
/// No lower end is known.
const UNBOUNDED: f64 = -1e9;

/// 95 % interval of the share that is gone. Blocks hold few late wake-ups, and bursts of them: the share
/// that is left is at least what the count of late wake-ups in the arm with the mitigation allows.
fn interval(excess: (&[f64], &[f64]), late: (&[f64], &[f64])) -> (f64, f64) {
    let Some((left_least, left_most)) = ratio_interval(excess.0, excess.1) else {
        return (UNBOUNDED, 1.0);
    };
    let sum = |v: &[f64]| v.iter().sum::<f64>();
    let most = count_upper(sum(late.1), dispersion(&[late.0, late.1]));
    let by_count = if sum(late.0) > 0.0 { most / sum(late.0) } else { f64::INFINITY };
    ((1.0 - left_most.max(by_count)).max(UNBOUNDED), (1.0 - left_least).min(1.0))
}

/// Time by which late wake-ups were later than a typical one, per wake-up, ns.
fn excess(h: &Histogram, limit_ns: u64, typical_ns: u64) -> f64 {
    let late = h.buckets.iter().filter(|(low, _)| *low > limit_ns);
    // The sum of nothing is -0.0, which would be shown as such.
    let sum: f64 =
        late.map(|&(low, n)| low.saturating_sub(typical_ns) as f64 * n as f64).sum::<f64>() + 0.0;
    sum / h.count.max(1) as f64
}

/// One finding a test.
pub fn findings(tests: &[MitigationTest]) -> Vec<Finding> {
    tests.iter().map(finding).collect()
}

fn finding(test: &MitigationTest) -> Finding {
    let Some(effect) = &test.effect else {
        let f =
            Finding::typed("why.mitigation-not-tested", Severity::Inconclusive, Confidence::Low);
        return described(f, "reason", test.note.as_ref(), test);
    };
    let (low, high) = effect.interval;
    let (id, severity, confidence) = match effect.gone {
        None => ("why.mitigation-no-late", Severity::Inconclusive, Confidence::Low),
        Some(_) if low > 0.0 && effect.p < 0.05 => (
            "why.mitigation-effective",
            Severity::Info,
            if low > 0.5 { Confidence::High } else { Confidence::Medium },
        ),
        // Equivalence: the whole interval is within the margin.
        Some(_) if low > -MARGIN && high < MARGIN => {
            ("why.mitigation-no-effect", Severity::Info, Confidence::Medium)
        }
        Some(_) => ("why.mitigation-no-clear-effect", Severity::Inconclusive, Confidence::Low),
    };
    let mut f = described(Finding::typed(id, severity, confidence), "remark", None, test);
    if let Some(gone) = effect.gone {
        f = f
            .value("removed", Quantity::Ratio(gone))
            .value_if("low", (low > UNBOUNDED).then_some(Quantity::Ratio(low)))
            .value("high", Quantity::Ratio(high));
    }
    f = f
        .with(Evidence::new("addressed-finding", &test.against))
        .with(Evidence::new("late-without", Quantity::Count(effect.late.0)).of(effect.wakeups.0))
        .with(Evidence::new("late-with", Quantity::Count(effect.late.1)).of(effect.wakeups.1))
        .with(Evidence::new("excess-without", Quantity::Ns(effect.excess_ns.0)))
        .with(Evidence::new("excess-with", Quantity::Ns(effect.excess_ns.1)))
        .with(
            Evidence::new("block-rank-test-p", Quantity::Probability(effect.p))
                .of(effect.pairs as u64),
        );
    let changes = test.changes.iter().map(|c| Evidence::new("setting-changed", setting(c)));
    changes.fold(f, Finding::with)
}

/// The mitigation, and a second note under `name`: identifiers as values, beside their own values.
fn described(f: Finding, name: &str, note: Option<&Note>, test: &MitigationTest) -> Finding {
    let f = with_note(f, "mitigation", test.remedy.as_ref());
    with_note(f, name, note)
}

fn with_note(mut f: Finding, name: &str, note: Option<&Note>) -> Finding {
    match note {
        Some(Note::Typed(s)) => {
            f = f.value(name, &s.id);
            s.values.iter().fold(f, |f, (name, value)| f.value(name, value.clone()))
        }
        Some(Note::Recorded(text)) => f.value(name, text),
        None => f,
    }
}

/// A changed setting: file, value before, value during the test.
fn setting(change: &Note) -> Value {
    match change {
        Note::Typed(s) => {
            let of = |name: &str| s.values.get(name).cloned();
            Value::List(["file", "before", "during"].into_iter().filter_map(of).collect())
        }
        Note::Recorded(text) => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_stats::rng::SplitMix64;

    fn block(late: u64, size_ns: u64) -> Histogram {
        let on_time = (0..1_000u64).map(|i| 5_000 + i % 700);
        Histogram::of(on_time.chain((0..late).map(|i| size_ns + i * 100)))
    }

    #[test]
    fn the_removed_share_is_measured_with_an_interval() {
        let plain: Vec<_> = (0..6).map(|i| block(40 + i, 300_000)).collect();
        let cured: Vec<_> = (0..6).map(|i| block(2 + i % 2, 300_000)).collect();
        let removed = compare(&plain, &cured, 100_000);
        let gone = removed.gone.unwrap();
        assert!((0.90..0.97).contains(&gone), "{removed:?}");
        assert!(removed.interval.0 > 0.85 && removed.interval.1 < 0.98, "{removed:?}");
        assert!(removed.p < 0.01);
        assert_eq!(removed.late, (255, 15));
        let remedy = Note::new("why.test-interrupt-moved").value("irq", "eth0");
        let test = MitigationTest {
            remedy: Some(remedy),
            effect: Some(removed),
            ..MitigationTest::default()
        };
        let f = &findings(&[test])[0];
        assert_eq!(f.id, "why.mitigation-effective");
        assert_eq!(f.values["mitigation"], "why.test-interrupt-moved".into());
        assert_eq!(f.values["irq"], "eth0".into());
        assert!(f.values.contains_key("removed") && f.values.contains_key("low"), "{f:?}");
        assert_eq!(f.confidence, Confidence::High);
    }

    #[test]
    fn a_mitigation_without_effect_is_not_effective() {
        let plain: Vec<_> = (0..6).map(|i| block(30 + (i * 7) % 5, 300_000)).collect();
        let same: Vec<_> = (0..6).map(|i| block(30 + (i * 3) % 5, 300_000)).collect();
        let removed = compare(&plain, &same, 100_000);
        let test = MitigationTest { effect: Some(removed), ..MitigationTest::default() };
        assert_eq!(findings(&[test])[0].id, "why.mitigation-no-effect");
        // Blocks that differ by more than the arms leave it open.
        let noisy: Vec<_> = (0..6).map(|i| block(5 + (i * 29) % 60, 300_000)).collect();
        let removed = compare(&noisy, &same, 100_000);
        let test = MitigationTest { effect: Some(removed), ..MitigationTest::default() };
        let f = &findings(&[test])[0];
        assert_eq!(f.id, "why.mitigation-no-clear-effect");
        assert_eq!((f.severity, f.confidence), (Severity::Inconclusive, Confidence::Low));
        let none = compare(&[block(0, 0)], &[block(0, 0)], 100_000);
        assert_eq!((none.gone, none.p), (None, 1.0));
        assert!(none.excess_ns.0.is_sign_positive(), "no excess is 0, not -0");
    }

    fn unit(rng: &mut SplitMix64) -> f64 {
        rng.next_u64() as f64 / u64::MAX as f64
    }

    /// Bursts of one to five late wake-ups, as many of them as chance gives.
    fn bursts(rng: &mut SplitMix64, mean: f64) -> u64 {
        let (limit, mut p, mut n) = ((-mean / 3.0).exp(), unit(rng), 0);
        while p > limit {
            n += 1 + rng.below(5) as u64;
            p *= unit(rng);
        }
        n
    }

    /// Coverage of the interval over 3 to 6 pairs of blocks with clustered late wake-ups.
    #[test]
    fn intervals_of_few_pairs_cover_the_share_that_is_gone() {
        let mut rng = SplitMix64::new(11);
        for pairs in [3, 4, 6] {
            for (mean, left) in [(6.0, 0.5), (20.0, 1.0), (20.0, 0.5), (20.0, 0.1), (6.0, 0.1)] {
                let (mut covered, mut all) = (0, 0);
                for _ in 0..400 {
                    let mut arm = |mean: f64| -> Vec<f64> {
                        (0..pairs).map(|_| bursts(&mut rng, mean) as f64).collect()
                    };
                    let (a, b) = (arm(mean), arm(mean * left));
                    if a.iter().sum::<f64>() > 0.0 {
                        let (low, high) = interval((&a, &b), (&a, &b));
                        covered += usize::from(low <= 1.0 - left && 1.0 - left <= high);
                        all += 1;
                    }
                }
                // Three standard errors below 95 %.
                let share = covered as f64 / all as f64;
                assert!(share > 0.917, "{pairs} pairs, {mean}, {left}: {share}");
            }
        }
    }

    /// Nothing late with the mitigation is not "100 % to 100 %".
    #[test]
    fn an_arm_without_late_wake_ups_is_bounded_by_their_number() {
        let plain: Vec<_> = (0..6).map(|_| block(2, 300_000)).collect();
        let none: Vec<_> = (0..6).map(|_| block(0, 0)).collect();
        let removed = compare(&plain, &none, 100_000);
        assert_eq!(removed.gone, Some(1.0));
        assert!((0.6..0.75).contains(&removed.interval.0), "{removed:?}");
        assert_eq!(removed.interval.1, 1.0);
    }
}
