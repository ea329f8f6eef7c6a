//! With the suspect away: how much of the excess is gone, and is that chance?
//!
//! Blocks with and without the remedy are measured in turn. A block's excess is the time by which
//! its late wake-ups (over the limit) were later than a typical one, per wake-up. The share that is
//! gone has an interval from resampling pairs of blocks (B. Efron, 1979): spikes cluster within a
//! block, so blocks are what is independent.

use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::histogram::Histogram;
use crate::stats::rank::rank_test;
use crate::stats::rng::SplitMix64;
use crate::units::format_ns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A remedy that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Proof {
    /// Identifier of the finding that it is tried against.
    pub against: String,
    /// What was taken away or changed, in words.
    pub remedy: String,
    /// What was written where, and what it was before.
    pub changes: Vec<String>,
    /// What it came to; `None` when it could not be tried.
    pub effect: Option<Removed>,
    /// Why it could not be tried, or what was odd.
    pub note: String,
}

/// What a remedy came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Removed {
    /// Pairs of blocks.
    pub pairs: usize,
    /// Wake-ups without and with the remedy.
    pub wakeups: (u64, u64),
    /// Late ones without and with it.
    pub late: (u64, u64),
    /// Excess per wake-up without and with it, ns.
    pub excess_ns: (f64, f64),
    /// Share of the excess that is gone; negative when it grew. `None`: there was no excess.
    pub gone: Option<f64>,
    /// 95% interval of that share.
    pub interval: (f64, f64),
    /// Chance that blocks differ so much without a reason (rank test).
    pub p: f64,
}

/// Compares blocks pairwise: `plain[i]` was measured next to `remedied[i]`.
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

/// What the proofs say.
pub fn findings(proofs: &[Proof]) -> Vec<Finding> {
    proofs.iter().map(finding).collect()
}

fn finding(proof: &Proof) -> Finding {
    let Some(effect) = &proof.effect else {
        let claim = format!("{}: not tried: {}", proof.remedy, proof.note);
        return Finding::new("why.proof", Verdict::CannotTell, Confidence::CannotTell, claim);
    };
    let (low, high) = effect.interval;
    let percent = |x: f64| format!("{:.0}%", x * 100.0);
    let (verdict, confidence, claim) = match effect.gone {
        None => (
            Verdict::CannotTell,
            Confidence::CannotTell,
            format!("{}: no wake-up was late meanwhile, so nothing is proved", proof.remedy),
        ),
        Some(gone) if low > 0.0 && effect.p < 0.05 => (
            Verdict::Note,
            if low > 0.5 { Confidence::Sure } else { Confidence::Likely },
            format!(
                "{}: {} of the excess is gone (95% interval {} to {})",
                proof.remedy,
                percent(gone),
                percent(low),
                percent(high)
            ),
        ),
        Some(gone) => (
            Verdict::Note,
            Confidence::Likely,
            format!(
                "{}: no clear effect ({} of the excess is gone, 95% interval {} to {})",
                proof.remedy,
                percent(gone),
                percent(low),
                percent(high)
            ),
        ),
    };
    let of = |pair: (u64, u64)| format!("{} instead of {}", pair.1, pair.0);
    let mut f = Finding::new("why.proof", verdict, confidence, claim)
        .because("taken away and given back in turn, all else as it was")
        .with(Evidence::new("tried against", proof.against.clone()))
        .with(Evidence::new("late wake-ups", of(effect.late)).of(effect.wakeups.1))
        .with(Evidence::new(
            "excess per wake-up",
            format!(
                "{} instead of {}",
                format_ns(effect.excess_ns.1),
                format_ns(effect.excess_ns.0)
            ),
        ))
        .with(
            Evidence::new("blocks in turn, rank test", format!("p {:.1e}", effect.p))
                .of(effect.pairs as u64),
        );
    for change in &proof.changes {
        f = f.with(Evidence::new("changed and put back", change.clone()));
    }
    if !proof.note.is_empty() {
        f = f.with(Evidence::new("note", proof.note.clone()));
    }
    f
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(late: u64, size_ns: u64) -> Histogram {
        let on_time = (0..1_000u64).map(|i| 5_000 + i % 700);
        Histogram::of(on_time.chain((0..late).map(|i| size_ns + i * 100)))
    }

    #[test]
    fn what_is_gone_is_measured_with_an_interval() {
        let plain: Vec<_> = (0..6).map(|i| block(40 + i, 300_000)).collect();
        let cured: Vec<_> = (0..6).map(|i| block(2 + i % 2, 300_000)).collect();
        let removed = compare(&plain, &cured, 100_000);
        let gone = removed.gone.unwrap();
        assert!((0.90..0.97).contains(&gone), "{removed:?}");
        assert!(removed.interval.0 > 0.9 && removed.interval.1 < 0.98, "{removed:?}");
        assert!(removed.p < 0.01);
        assert_eq!(removed.late, (255, 15));
        let proof =
            Proof { remedy: "with it away".into(), effect: Some(removed), ..Proof::default() };
        let f = &findings(&[proof])[0];
        assert!(
            f.claim.starts_with("with it away: 94% of the excess is gone (95% interval 9"),
            "{}",
            f.claim
        );
        assert_eq!(f.confidence, Confidence::Sure);
    }

    #[test]
    fn a_remedy_that_does_nothing_is_not_praised() {
        let plain: Vec<_> = (0..6).map(|i| block(30 + (i * 7) % 5, 300_000)).collect();
        let same: Vec<_> = (0..6).map(|i| block(30 + (i * 3) % 5, 300_000)).collect();
        let removed = compare(&plain, &same, 100_000);
        let proof = Proof { effect: Some(removed), ..Proof::default() };
        assert!(findings(&[proof])[0].claim.contains("no clear effect"));
        let none = compare(&[block(0, 0)], &[block(0, 0)], 100_000);
        assert_eq!((none.gone, none.p), (None, 1.0));
        assert!(none.excess_ns.0.is_sign_positive(), "no excess is 0, not -0");
    }
}
