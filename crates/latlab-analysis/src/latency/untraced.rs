//! Late wake-ups without a trace: their number, period, coincidence on several CPUs, and association
//! with steal time and system-management interrupts.
//!
//! No cause inside the kernel is named: that needs a trace.

use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity};
use latlab_stats::discrete::hypergeometric_tail;
use latlab_stats::period::find_period;
use latlab_stats::proportion::zero_cases_bound;

/// Fewest late wake-ups that a pattern is looked for in.
const FEW: usize = 3;
/// Largest p value at which an association with a counter is a finding.
const BY_CHANCE: f64 = 0.001;

/// A late wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// When it was meant to be, ns of CLOCK_MONOTONIC.
    pub intended_ns: u64,
    /// How late it was, ns.
    pub latency_ns: u64,
    /// Which of the measuring threads.
    pub thread: usize,
}

/// What was counted in one short stretch of the measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Its end, ns of CLOCK_MONOTONIC; it begins where the one before ends.
    pub end_ns: u64,
    /// Steal time in it, ns, where the kernel counts that.
    pub steal_ns: Option<u64>,
    /// System-management interrupts in it, where they can be read.
    pub smi: Option<u64>,
}

/// A measurement without a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blind {
    /// The error of tracefs, and its hint.
    pub reason: (String, String),
    /// A wake-up later than this is late, ns.
    pub limit_ns: u64,
    /// Measuring interval, ns: late wake-ups lie on this lattice.
    pub interval_ns: u64,
    /// Wake-ups that were measured with this limit.
    pub wakeups: u64,
    /// Late ones.
    pub late: u64,
    /// Measuring threads, each on a CPU of its own where there are enough.
    pub threads: usize,
    /// Late ones in rising order of their intended times; more than could be kept are missing at the end.
    pub seen: Vec<Seen>,
    /// Stretches in their order.
    pub stretches: Vec<Stretch>,
}

/// The number of late wake-ups, and what the counters show.
pub fn findings(blind: &Blind) -> Vec<Finding> {
    let (reason, hint) = &blind.reason;
    let mut first = Finding::typed("why.no-trace", Severity::Inconclusive, Confidence::High)
        .value("late", Quantity::Count(blind.late))
        .value("wakeups", Quantity::Count(blind.wakeups))
        .value("limit", Quantity::Ns(blind.limit_ns as f64))
        .value("reason", reason);
    if !hint.is_empty() {
        first = first.remedy(hint.clone());
    }
    if let Some(bound) = zero_cases_bound(blind.wakeups).filter(|_| blind.late == 0) {
        let bound = Quantity::Probability(bound);
        first = first.with(Evidence::new("late-rate-bound-95", bound).of(blind.wakeups));
    }
    let mut all = vec![first];
    if blind.seen.len() >= FEW {
        all.extend(periodic(blind));
        all.extend(together(blind));
        let late = with_late(blind);
        all.extend(witnessed(blind, &late, |s| s.steal_ns, &STEAL));
        all.extend(witnessed(blind, &late, |s| s.smi, &SMI));
    }
    all
}

fn periodic(blind: &Blind) -> Option<Finding> {
    let first = blind.seen.first()?.intended_ns;
    // What delayed it began at the latest when it was meant to be.
    let moments: Vec<f64> = blind.seen.iter().map(|s| (s.intended_ns - first) as f64).collect();
    let found = find_period(&moments, blind.interval_ns as f64)?;
    Some(
        Finding::typed("why.rhythm", Severity::Info, Confidence::Medium)
            .value("period", Quantity::Ns(found.period))
            .value("jitter", Quantity::Ns(found.jitter))
            .with(Evidence::new("late-wake-ups", Quantity::Count(blind.seen.len() as u64)))
            .with(Evidence::new("coincidence-p", Quantity::Probability(found.p)))
            .remedy(Note::new("why.remedy-find-period")),
    )
}

/// Late on several CPUs at once: not code of a single CPU.
fn together(blind: &Blind) -> Option<Finding> {
    if blind.threads < 2 {
        return None;
    }
    let overlap = |a: &Seen, b: &Seen| {
        a.thread != b.thread
            && a.intended_ns < b.intended_ns + b.latency_ns
            && b.intended_ns < a.intended_ns + a.latency_ns
    };
    let longest = blind.seen.iter().map(|s| s.latency_ns).max()?;
    let beside = |i: usize| {
        let s = &blind.seen[i];
        let near = |t: &&Seen| t.intended_ns.abs_diff(s.intended_ns) <= longest;
        let before = blind.seen[..i].iter().rev().take_while(near);
        let after = blind.seen[i + 1..].iter().take_while(near);
        before.chain(after).any(|t| overlap(s, t))
    };
    let n = (0..blind.seen.len()).filter(|&i| beside(i)).count();
    if 2 * n < blind.seen.len() {
        return None;
    }
    Some(
        Finding::typed("why.together", Severity::Info, Confidence::Medium)
            .value("together", Quantity::Count(n as u64))
            .value("late", Quantity::Count(blind.seen.len() as u64)),
    )
}

/// Identifiers of the finding and the remedy for a counter outside of the kernel.
struct External {
    id: &'static str,
    remedy: &'static str,
}

const STEAL: External = External { id: "why.steal-then", remedy: "why.remedy-pin-vcpus" };
const SMI: External = External { id: "why.smi-then", remedy: "why.remedy-firmware-settings" };

/// For each stretch whether a wake-up was late in it, from its intended time to its end.
fn with_late(blind: &Blind) -> Vec<bool> {
    let longest = blind.seen.iter().map(|s| s.latency_ns).max().unwrap_or(0);
    let mut begin = 0;
    let has_late = |stretch: &Stretch| {
        // In rising order: who ended before the stretch began is passed over at once.
        let first = blind.seen.partition_point(|l| l.intended_ns + longest < begin);
        let mut near = blind.seen[first..].iter().take_while(|l| l.intended_ns < stretch.end_ns);
        let has = near.any(|l| l.intended_ns + l.latency_ns >= begin);
        begin = stretch.end_ns;
        has
    };
    blind.stretches.iter().map(has_late).collect()
}

/// Whether a counter rose in stretches with late wake-ups more often than in the others.
fn witnessed(
    blind: &Blind,
    with_late: &[bool],
    count: impl Fn(&Stretch) -> Option<u64>,
    external: &External,
) -> Option<Finding> {
    // With a late wake-up and a rise, with a late one, with a rise, all.
    let (mut both, mut late, mut there, all) = (0usize, 0usize, 0usize, blind.stretches.len());
    for (stretch, &has_late) in blind.stretches.iter().zip(with_late) {
        let counted = count(stretch)? > 0;
        late += usize::from(has_late);
        there += usize::from(counted);
        both += usize::from(has_late && counted);
    }
    if both < FEW || 2 * both < late {
        return None;
    }
    let p = hypergeometric_tail(all, there, late, both);
    if p > BY_CHANCE {
        return None;
    }
    let count = |n: usize| Quantity::Count(n as u64);
    Some(
        Finding::typed(external.id, Severity::Problem, Confidence::Medium)
            .value("both", count(both))
            .value("late_intervals", count(late))
            .value("counted_only", count(there - both))
            .value("other_intervals", count(all - late))
            .with(Evidence::new("coincidence-p", Quantity::Probability(p)).of(all as u64))
            .remedy(Note::new(external.remedy)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::finding::Value;

    const MS: u64 = 1_000_000;

    fn blind(seen: Vec<Seen>, stolen: impl Fn(u64) -> u64) -> Blind {
        let stretch =
            |i: u64| Stretch { end_ns: (i + 1) * 50 * MS, steal_ns: Some(stolen(i)), smi: None };
        Blind {
            reason: ("tracefs is not mounted".into(), "run as root".into()),
            limit_ns: 100_000,
            interval_ns: MS,
            wakeups: 10_000,
            late: seen.len() as u64,
            threads: 2,
            seen,
            stretches: (0..200).map(stretch).collect(),
        }
    }

    fn late(at_ns: u64, thread: usize) -> Seen {
        Seen { intended_ns: at_ns, latency_ns: 300_000, thread }
    }

    fn ids(b: &Blind) -> Vec<String> {
        findings(b).into_iter().map(|f| f.id).collect()
    }

    #[test]
    fn a_rhythm_is_found_without_a_trace() {
        // Noticed at the next wake-up.
        let at = |i: u64| (3 * MS + i * 97_300_000).next_multiple_of(MS);
        let seen = (0..40).map(|i| late(at(i), 0)).collect();
        let found = findings(&blind(seen, |_| 0));
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].id.as_str(), found[1].id.as_str()), ("why.no-trace", "why.rhythm"));
        assert_eq!(found[0].values["late"], Quantity::Count(40).into());
        assert_eq!(found[0].values["limit"], Quantity::Ns(100_000.0).into());
        let Value::Quantity(Quantity::Ns(period)) = found[1].values["period"] else {
            panic!("{found:?}")
        };
        assert!((97.1e6..97.5e6).contains(&period), "{period}");
    }

    /// Intended times are multiples of the interval, whatever makes the wake-ups late.
    #[test]
    fn randomly_late_wake_ups_are_not_periodic() {
        let mut rng = latlab_stats::rng::SplitMix64::new(3);
        let mut claimed = 0;
        for _ in 0..20 {
            let mut at: Vec<u64> = (0..40).map(|_| rng.below(10_000) as u64).collect();
            at.sort_unstable();
            at.dedup();
            let b = blind(at.into_iter().map(|k| late(k * MS, 0)).collect(), |_| 0);
            claimed += usize::from(ids(&b).contains(&"why.rhythm".to_owned()));
        }
        assert!(claimed <= 1, "{claimed} of 20");
    }

    #[test]
    fn the_hypervisor_is_named_when_it_was_there_then_and_not_otherwise() {
        // Irregular moments, each in a stretch of its own.
        let at = |i: u64| (i * i * 7 + i * 13) % 197 * 50 * MS + 11 * MS;
        let mut seen: Vec<Seen> = (0..20).map(|i| late(at(i), 0)).collect();
        seen.sort_by_key(|s| s.intended_ns);
        let has = |i: u64| seen.iter().any(|s| s.intended_ns / (50 * MS) == i);
        assert!(
            ids(&blind(seen.clone(), |i| u64::from(has(i)) * 10 * MS))
                .contains(&"why.steal-then".to_owned())
        );
        // There all the time, or never.
        for ns in [0, 10 * MS] {
            assert!(!ids(&blind(seen.clone(), |_| ns)).contains(&"why.steal-then".to_owned()));
        }
    }

    #[test]
    fn all_threads_at_once_are_seen_and_one_alone_is_not() {
        let pairs = |apart: u64| {
            let mut all: Vec<Seen> = (0..20u64)
                .flat_map(|i| {
                    let at = (i * i * 31 + 5) * 40 * MS;
                    [late(at, 0), late(at + apart, 1)]
                })
                .collect();
            all.sort_by_key(|s| s.intended_ns);
            blind(all, |_| 0)
        };
        assert!(ids(&pairs(100_000)).contains(&"why.together".to_owned()));
        assert!(!ids(&pairs(5 * MS)).contains(&"why.together".to_owned()));
    }

    #[test]
    fn nothing_late_is_bounded() {
        let none = Blind { late: 0, ..blind(Vec::new(), |_| 0) };
        let first = &findings(&none)[0];
        let Value::Quantity(Quantity::Probability(bound)) = first.evidence[0].value else {
            panic!("{first:?}")
        };
        assert!((299e-6..300e-6).contains(&bound), "{bound}");
    }
}
