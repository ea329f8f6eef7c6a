//! Gaps in a busy loop: what takes the CPU away from a program that only computes.
//!
//! A thread on each CPU reads the clock without pause and notes every distance
//! between two reads that is too long for the loop itself. What it sees is
//! interrupts, other tasks, frequency changes and stalls, of the kernel or below it
//! (SMI, hypervisor), without telling them apart; it is the user-space view of what
//! the kernel's osnoise tracer accounts for (Documentation/trace/osnoise-tracer.rst).

use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::histogram::{Histogram, Summary};
use crate::run::{Param, Part, Record, Unit};
use crate::units::format_ns;
use std::collections::BTreeMap;

/// What one CPU's loop saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuGaps {
    /// The CPU.
    pub cpu: usize,
    /// How long it looped, ns of CLOCK_MONOTONIC.
    pub length_ns: u64,
    /// Shortest distance that counts as a gap, ns.
    pub threshold_ns: u64,
    /// The gaps, ns: from the last read before to the first read after.
    pub gaps: Histogram,
}

impl CpuGaps {
    /// Share of the time that was in gaps, 0 to 1.
    pub fn lost(&self) -> f64 {
        self.gaps.mean().unwrap_or(0.0) * self.gaps.count as f64 / self.length_ns.max(1) as f64
    }
}

/// A part named `gaps`: for each CPU the gaps and the share of time lost to them.
pub fn part(title: &str, cpus: &[CpuGaps], complete: bool) -> Part {
    let mut results = Vec::new();
    for c in cpus {
        let params = BTreeMap::from([
            ("cpu".to_owned(), Param::Int(c.cpu as i64)),
            ("threshold_ns".to_owned(), Param::Int(c.threshold_ns as i64)),
        ]);
        results.push(Record {
            name: "gaps.busy-loop".to_owned(),
            params: params.clone(),
            unit: Unit::Ns,
            summary: c.gaps.summary(),
            histogram: Some(c.gaps.clone()),
            ..Record::default()
        });
        results.push(Record {
            name: "gaps.lost".to_owned(),
            params,
            unit: Unit::Ratio,
            summary: one_figure(c.lost()),
            samples: vec![c.lost()],
            ..Record::default()
        });
    }
    Part {
        name: "gaps".to_owned(),
        title: title.to_owned(),
        complete,
        duration_ns: cpus.iter().map(|c| c.length_ns).max().unwrap_or(0),
        results,
        findings: finding(cpus).into_iter().collect(),
        detail: None,
    }
}

fn one_figure(value: f64) -> Summary {
    let v = Some(value);
    Summary { count: 1, min: v, median: v, max: v, ..Summary::default() }
}

/// The longest gap and the largest loss, in a sentence.
fn finding(cpus: &[CpuGaps]) -> Option<Finding> {
    let worst = cpus.iter().max_by_key(|c| c.gaps.max)?;
    let lossy = cpus.iter().max_by(|a, b| a.lost().total_cmp(&b.lost()))?;
    let mut finding = Finding::new(
        "gaps.longest",
        Verdict::Note,
        Confidence::Sure,
        format!(
            "a program that only computes lost its CPU for up to {} at a time, and {:.2} % of the time",
            format_ns(worst.gaps.max as f64),
            lossy.lost() * 100.0
        ),
    )
    .because("no deadline can be held that is shorter than the longest gap, unless what makes the gap has a lower priority than the task");
    for c in cpus {
        let per_second = c.gaps.count as f64 * 1e9 / c.length_ns.max(1) as f64;
        let value = format!(
            "{per_second:.0} gaps a second, longest {}, {:.2} % lost",
            format_ns(c.gaps.max as f64),
            c.lost() * 100.0
        );
        finding = finding.with(Evidence::new(format!("CPU {}", c.cpu), value).of(c.gaps.count));
    }
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(cpu: usize, gaps: &[u64]) -> CpuGaps {
        CpuGaps {
            cpu,
            length_ns: 1_000_000_000,
            threshold_ns: 1_000,
            gaps: Histogram::of(gaps.iter().copied()),
        }
    }

    #[test]
    fn the_share_lost_is_the_sum_of_the_gaps() {
        assert!((cpu(0, &[2_000_000, 8_000_000]).lost() - 0.01).abs() < 1e-12);
        assert!(cpu(0, &[]).lost().abs() < 1e-12);
    }

    #[test]
    fn longest_gap_and_largest_loss_may_be_on_different_cpus() {
        let part = part("gaps", &[cpu(0, &[5_000_000]), cpu(1, &[4_000_000; 10])], true);
        let claim = &part.findings[0].claim;
        assert!(claim.contains("up to 5.00 ms") && claim.contains("4.00 %"), "{claim}");
        assert_eq!(part.results.len(), 4);
        assert_eq!(part.findings[0].evidence[1].samples, Some(10));
    }

    #[test]
    fn no_cpu_measured_is_no_finding() {
        assert!(part("gaps", &[], false).findings.is_empty());
    }
}
