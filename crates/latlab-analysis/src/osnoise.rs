//! OS noise: interruptions of a busy loop.
//!
//! A thread on each CPU reads the clock without pause and records every distance
//! between two reads that exceeds the loop's own. These are interrupts, other tasks,
//! frequency changes and stalls of the kernel or below it (SMI, hypervisor), not
//! distinguished; it is the user-space view of what the kernel's osnoise tracer
//! accounts for (Documentation/trace/osnoise-tracer.rst).

use latlab_model::finding::{Confidence, Evidence, Finding, Quantity, Severity, Value};
use latlab_model::osnoise::CpuGaps;
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::Part;
use latlab_stats::histogram::Summary;
use std::collections::BTreeMap;

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

/// The longest interruption and the largest share of time lost, which may be of different CPUs.
fn finding(cpus: &[CpuGaps]) -> Option<Finding> {
    let worst = cpus.iter().max_by_key(|c| c.gaps.max)?;
    let lossy = cpus.iter().max_by(|a, b| a.lost().total_cmp(&b.lost()))?;
    let finding = Finding::typed("osnoise.interruption", Severity::Info, Confidence::High)
        .value("longest", Quantity::Ns(worst.gaps.max as f64))
        .value("longest_cpu", Quantity::Cpu(worst.cpu as u32))
        .value("lost", Quantity::Ratio(lossy.lost()))
        .value("lost_cpu", Quantity::Cpu(lossy.cpu as u32));
    Some(cpus.iter().fold(finding, |f, c| f.with(of_cpu(c))))
}

/// CPU, interruptions per second, longest interruption, share of time lost.
fn of_cpu(c: &CpuGaps) -> Evidence {
    let rate = c.gaps.count as f64 * 1e9 / c.length_ns.max(1) as f64;
    let values = [
        Quantity::Cpu(c.cpu as u32),
        Quantity::PerSecond(rate),
        Quantity::Ns(c.gaps.max as f64),
        Quantity::Ratio(c.lost()),
    ];
    let values = values.map(Value::from).to_vec();
    Evidence::new("interruptions-of-cpu", Value::List(values)).of(c.gaps.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_stats::histogram::Histogram;

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
        let values = &part.findings[0].values;
        assert_eq!(values["longest"], Quantity::Ns(5e6).into());
        assert_eq!(values["longest_cpu"], Quantity::Cpu(0).into());
        assert_eq!(values["lost_cpu"], Quantity::Cpu(1).into());
        let Value::Quantity(Quantity::Ratio(lost)) = values["lost"] else { panic!("{values:?}") };
        assert!((lost - 0.04).abs() < 1e-9, "{lost}");
        assert_eq!(part.results.len(), 4);
        assert_eq!(part.findings[0].evidence[1].samples, Some(10));
    }

    #[test]
    fn no_cpu_measured_is_no_finding() {
        assert!(part("gaps", &[], false).findings.is_empty());
    }
}
