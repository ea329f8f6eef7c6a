//! The effect of a mitigation: the share of the excess that it removes, with its interval.
//!
//! Blocks with and without the mitigation alternate. A block's excess is the time by which
//! its late wake-ups (over the limit) were later than a typical one, per wake-up. The share that is
//! gone has an interval from resampling pairs of blocks (B. Efron, 1979): spikes cluster within a
//! block, so blocks are what is independent.

use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity, Value};
use latlab_model::latency::{MitigationTest, Removed};
use latlab_stats::histogram::Histogram;
use latlab_stats::rank::rank_test;
use latlab_stats::rng::SplitMix64;

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
    let gone = |order: &mut dyn Iterator<Item = usize>| {
        let (with, without) = order.fold((0.0, 0.0), |(x, y), i| (x + a[i], y + b[i]));
        (with > 0.0).then(|| 1.0 - without / with)
    };
    let share = gone(&mut (0..pairs));
    let mut rng = SplitMix64::new(pairs as u64);
    let mut resampled: Vec<f64> =
        (0..1_000).filter_map(|_| gone(&mut (0..pairs).map(|_| rng.below(pairs)))).collect();
    resampled.sort_unstable_by(f64::total_cmp);
    let at = |q: f64| resampled.get((q * resampled.len() as f64) as usize).copied();
    let sum = |side: &[Histogram], f: &dyn Fn(&Histogram) -> u64| side[..pairs].iter().map(f).sum();
    let mean = |v: &[f64]| v.iter().sum::<f64>() / pairs.max(1) as f64;
    Removed {
        pairs,
        wakeups: (sum(plain, &|h| h.count), sum(remedied, &|h| h.count)),
        late: (
            sum(plain, &|h| h.count_above(limit_ns)),
            sum(remedied, &|h| h.count_above(limit_ns)),
        ),
        excess_ns: (mean(&a), mean(&b)),
        gone: share,
        interval: (at(0.025).unwrap_or(-1.0).max(-1e9), at(0.974).unwrap_or(1.0)),
        p: rank_test(&a, &b).map_or(1.0, |t| t.p),
    }
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
        Some(_) => ("why.mitigation-no-clear-effect", Severity::Info, Confidence::Medium),
    };
    let mut f = described(Finding::typed(id, severity, confidence), "remark", None, test);
    if let Some(gone) = effect.gone {
        f = f
            .value("removed", Quantity::Ratio(gone))
            .value("low", Quantity::Ratio(low))
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
        assert!(removed.interval.0 > 0.9 && removed.interval.1 < 0.98, "{removed:?}");
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
        assert_eq!(findings(&[test])[0].id, "why.mitigation-no-clear-effect");
        let none = compare(&[block(0, 0)], &[block(0, 0)], 100_000);
        assert_eq!((none.gone, none.p), (None, 1.0));
        assert!(none.excess_ns.0.is_sign_positive(), "no excess is 0, not -0");
    }
}
