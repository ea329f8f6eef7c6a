//! Which of the late activations of a look gets a capture.
//!
//! One does: a capture takes CPU time. If it were always the worst one, a fault that makes one
//! activation of forty late by 1 ms would never be captured on a machine that delays one of a thousand by 20 ms.
//! Therefore each part of each task (as it is counted, before a capture tells who it was) has captures of
//! its own in each hour, the one with the fewest goes first, and its captures are in turn of the worst and of the
//! median one of a look. When all have theirs, the worst activation is offered.

use crate::latency::activations::counts::LatePart;
use crate::latency::activations::{Job, Late};
use latlab_model::units::{Nanos, Tid};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Tasks with parts of which captures are counted; further ones get captures by their length alone.
const KINDS: usize = 1_024;

/// A late activation.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// The task's entry in the counts.
    pub label: String,
    /// The thread.
    pub tid: Tid,
    /// What is late.
    pub late: Late,
    /// Distance of its activations, as far as it is known, else 0.
    pub period: Nanos,
    /// The activation.
    pub job: Job,
    /// The part that is longest against its usual length.
    pub part: LatePart,
    /// It has not ended.
    pub is_open: bool,
    /// The number of the spans that it is one of; `None`: an activation.
    pub span: Option<usize>,
}

impl Incident {
    /// The time that is judged in multiples of its limit.
    fn severity(&self) -> f64 {
        self.late.judged(&self.job).0 as f64 / self.late.limit().0.max(1) as f64
    }

    fn kind(&self) -> (String, LatePart) {
        (self.label.clone(), self.part)
    }
}

/// The captures of the current hour by task and part.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    hour: String,
    taken: BTreeMap<(String, LatePart), usize>,
}

impl Choice {
    /// The activation to capture, and whether its task and part have captures left in this hour: `each` of the
    /// worst and as many of median ones.
    pub fn choose(
        &mut self,
        incidents: &[Incident],
        hour: &str,
        each: usize,
    ) -> Option<(Incident, bool)> {
        if self.hour != hour {
            self.taken.clear();
            hour.clone_into(&mut self.hour);
        }
        let mut kinds: BTreeMap<(String, LatePart), Vec<&Incident>> = BTreeMap::new();
        for incident in incidents {
            kinds.entry(incident.kind()).or_default().push(incident);
        }
        for of in kinds.values_mut() {
            of.sort_by(|a, b| b.severity().total_cmp(&a.severity()));
        }
        let left = kinds.iter().filter_map(|(kind, of)| {
            let taken = self.taken.get(kind).copied().unwrap_or(0);
            let is_known = self.taken.len() < KINDS || self.taken.contains_key(kind);
            (taken < 2 * each && is_known).then_some((taken, of))
        });
        let bits = |of: &[&Incident]| of.first().map_or(0, |i| i.severity().to_bits());
        if let Some((taken, of)) = left.min_by_key(|(taken, of)| (*taken, Reverse(bits(of)))) {
            let at = if taken % 2 == 0 { 0 } else { of.len() / 2 };
            return Some((of[at].clone(), true));
        }
        let worst = incidents.iter().max_by(|a, b| a.severity().total_cmp(&b.severity()))?;
        Some((worst.clone(), false))
    }

    /// A capture of it was taken.
    pub fn captured(&mut self, incident: &Incident) {
        if self.taken.len() < KINDS || self.taken.contains_key(&incident.kind()) {
            *self.taken.entry(incident.kind()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::units::{CpuId, TraceNs};

    const HOUR: &str = "2026-11-24T23";

    fn incident(part: LatePart, ms: u64) -> Incident {
        let time = |ms: u64| TraceNs(ms * 1_000_000);
        let job = Job {
            intended: time(100),
            woken: time(100),
            start: time(100),
            end: time(100 + ms),
            cpu: CpuId(0),
            prio: 49,
            running: Nanos(ms * 1_000_000),
            preempted: Nanos(0),
            waiting: Nanos(0),
            unsure: false,
            after: None,
            by_event: false,
        };
        let late = Late::Response(Nanos(2_000_000));
        Incident {
            label: "loop".into(),
            tid: Tid(7),
            late,
            period: Nanos(0),
            job,
            part,
            is_open: false,
            span: None,
        }
    }

    /// A fault of the task itself, 3 ms, in each look; in each also something that delays its start much more.
    #[test]
    fn a_small_fault_is_captured_beside_greater_ones() {
        let look: Vec<Incident> = [(LatePart::Start, 20), (LatePart::Start, 30)]
            .into_iter()
            .chain([(LatePart::Running, 3), (LatePart::Running, 4), (LatePart::Running, 3)])
            .map(|(part, ms)| incident(part, ms))
            .collect();
        let mut choice = Choice::default();
        let mut chosen = |hour: &str| {
            let (incident, has_left) = choice.choose(&look, hour, 2).unwrap();
            choice.captured(&incident);
            (incident.part, incident.job.response().0 / 1_000_000, has_left)
        };
        let (start, running) = (LatePart::Start, LatePart::Running);
        let expected = [(start, 30), (running, 4), (start, 20), (running, 3)];
        for (part, ms) in expected.into_iter().chain(expected) {
            assert_eq!(chosen(HOUR), (part, ms, true));
        }
        assert_eq!(
            chosen(HOUR),
            (start, 30, false),
            "the worst of all, when each part has its captures"
        );
        assert_eq!(chosen("2026-11-25T00"), (start, 30, true), "another hour");
        assert_eq!(choice.choose(&[], HOUR, 2), None);
    }
}
