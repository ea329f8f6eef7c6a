//! What took the time of one late activation: its longest part against the on-time ones of the same capture.
//!
//! It tells where the time went in one activation. Whether that is the cause of late activations in general
//! is for the comparison of many, which `latlab why` makes of the captures.

use crate::latency::activations::from_capture::{Chosen, Known, Thread, threads};
use crate::latency::activations::{Job, Late};
use crate::latency::capture::Capture;
use crate::latency::summary::{Digest, Examples, digest_found};
use latlab_model::latency::{Cause, Group, Window};
use latlab_model::units::{Tid, TraceNs};
use latlab_stats::quantile::median;
use std::collections::BTreeMap;

/// On-time activations around the late one that are looked at.
const ON_TIME: usize = 60;

/// A timer may be programmed some µs before or after the time that was seen from less events, and two buffers take the
/// time of an event one after the other, ns.
const APART: u64 = 100_000;

/// The main part of a late activation.
#[derive(Clone, Debug, PartialEq)]
pub struct Lead {
    /// What.
    pub cause: Cause,
    /// Who; empty where nobody acts.
    pub who: String,
    /// Its length above the median of the on-time activations, ns.
    pub excess_ns: u64,
    /// The buffer begins after the intended time.
    pub uncovered: bool,
}

/// The main part of an activation of a thread, as it is known from less events; `None`: it is not in the capture.
///
/// A capture that ends with the activation does not show what ends the sleep after it, which decides whether it was one.
pub fn lead(capture: Capture, tid: Tid, job: Job, late: Late, known: &Known) -> Option<Lead> {
    let threads = threads(&capture, &Chosen::Tids(vec![tid]), known);
    lead_of_span(capture, &threads, tid, job, late)
}

/// The same of a span: `threads` has those of the capture.
pub fn lead_of_span(
    mut capture: Capture,
    threads: &[Thread],
    tid: Tid,
    job: Job,
    late: Late,
) -> Option<Lead> {
    let found = threads.iter().find(|t| t.tid == tid).map_or(&[][..], |t| &t.jobs);
    let near = |own: &&Job| own.intended.0.abs_diff(job.intended.0) < APART;
    let last = capture.events.last().map_or(TraceNs(0), |e| e.time);
    let covers = job.intended >= capture.covered_from && job.end.0 <= last.0 + APART;
    let own = found.iter().find(near).copied().or(covers.then_some(job))?;
    let on_time = found.iter().filter(|job| !late.is(job) && !job.unsure).copied();
    let mut others: Vec<Job> = on_time.collect();
    others.sort_by_key(|job| job.intended.0.abs_diff(own.intended.0));
    others.truncate(ON_TIME);
    let mut jobs = others;
    jobs.push(own);
    jobs.sort_by_key(|job| job.intended);
    capture.activations = jobs.iter().map(|job| job.activation(tid, late)).collect();
    of_digest(&digest_found(&capture, Examples::Typical), own.intended)
}

fn of_digest(digest: &Digest, intended: TraceNs) -> Option<Lead> {
    let own = digest.windows.iter().find(|w| w.intended_ns == intended.0)?;
    let others: Vec<&Window> = digest.windows.iter().filter(|w| !w.late).collect();
    let usual = |group: &Group| {
        let of = |w: &&Window| share(w).get(group).copied().unwrap_or(0) as f64;
        median(&others.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0) as u64
    };
    let excess = share(own).into_iter().map(|(group, ns)| {
        let more = ns.saturating_sub(usual(&group));
        (more, group)
    });
    let (excess_ns, group) = excess.max_by_key(|e| e.0)?;
    Some(Lead { cause: group.cause, who: group.who, excess_ns, uncovered: own.uncovered })
}

fn share(window: &Window) -> BTreeMap<Group, u64> {
    let mut all: BTreeMap<Group, u64> = BTreeMap::new();
    for (group, share) in &window.shares {
        *all.entry(group.clone()).or_default() += share.ns;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::Share;

    fn window(ms: u64, late: bool, parts: &[(Cause, &str, u64)]) -> Window {
        let part = |&(cause, who, ns): &(Cause, &str, u64)| {
            (Group { cause, who: who.into() }, Share { ns, ..Share::default() })
        };
        let shares = parts.iter().map(part).collect();
        Window { intended_ns: ms * 1_000_000, late, shares, ..Window::default() }
    }

    /// The task's own execution is the longest part of each activation, and not what makes one late.
    #[test]
    fn the_part_that_grew_leads() {
        let usual = [(Cause::Execution, "loop", 500_000), (Cause::Wait, "helper", 100_000)];
        let windows = vec![
            window(1, false, &usual),
            window(2, false, &usual),
            window(
                3,
                true,
                &[(Cause::Execution, "loop", 510_000), (Cause::Wait, "helper", 400_000)],
            ),
            window(4, false, &usual),
        ];
        let digest = Digest { windows, ..Digest::default() };
        let lead = of_digest(&digest, TraceNs(3_000_000)).unwrap();
        assert_eq!(
            (lead.cause, lead.who.as_str(), lead.excess_ns),
            (Cause::Wait, "helper", 300_000)
        );
        assert_eq!(of_digest(&digest, TraceNs(5_000_000)), None);
    }
}
