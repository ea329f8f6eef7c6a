//! From captures to the result of `latlab why`.

use super::breakdown::{Budget, budget, predecessor, with_trail};
use super::capture::{Activation, Capture, End};
use super::causes::explain;
use super::cpu_timeline::Lanes;
use super::critical_path::{CriticalPath, critical_path};
use super::features::{label, window};
use super::wakeups;
use latlab_model::event::{Event, EventKind};
use latlab_model::finding::{Confidence, Evidence, Finding, Note, Quantity, Severity};
use latlab_model::latency::Cause;
use latlab_model::latency::Window;
use latlab_model::latency::{
    BreakdownExample, CaptureCounters, CaptureNote, Pair, Part, WhyResult,
};
use latlab_model::latency::{Mechanism, SystemContext};
use latlab_model::units::{Nanos, Tid, TraceNs};
use std::collections::BTreeMap;

/// A capture's wake-ups in numbers, each with its latency breakdown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Digest {
    /// The capture.
    pub note: CaptureNote,
    /// One a wake-up.
    pub windows: Vec<Window>,
    /// One a wake-up, of those that [`Examples`] asks for.
    pub examples: Vec<Option<BreakdownExample>>,
    /// One a wake-up where [`Examples::All`] asks for them, otherwise none.
    pub paths: Vec<CriticalPath>,
    /// Which wake-up each window is of.
    pub activations: Vec<Activation>,
}

/// Wake-ups whose latency breakdown is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examples {
    /// The late ones, and the on-time one of the median latency.
    Typical,
    /// All that are looked at, with their critical paths; these are not in builds for boards.
    All,
}

/// On-time wake-ups of one capture that are looked at: enough to contrast, and spread over it.
const CONTROLS: usize = 120;
/// Late wake-ups of one capture that are looked at.
const LATE: usize = 2_000;
/// Parts of a breakdown example; the rest is merged into the last one.
const PARTS: usize = 400;

/// Finds the wake-ups of a capture and reduces each to numbers.
pub fn digest(capture: &mut Capture, limit: Nanos) -> Digest {
    wakeups::find(capture, limit);
    digest_found(capture, Examples::Typical)
}

/// As [`digest`], for a capture whose wake-ups are known.
pub fn digest_found(capture: &Capture, examples: Examples) -> Digest {
    if capture.activations.is_empty() {
        let mut note = note(capture);
        note.notes.clone_from(&capture.notes);
        return Digest { note, ..Digest::default() };
    }
    let (late, on_time): (Vec<Activation>, Vec<Activation>) =
        capture.activations.iter().partition(|a| a.late);
    let chosen = late.iter().take(LATE).chain(spread(&on_time, CONTROLS));
    let chosen: Vec<Activation> = chosen.copied().collect();
    let before = chosen.iter().filter_map(|a| predecessor(capture, a));
    let around: Vec<Activation> = chosen.iter().copied().chain(before).collect();
    let lanes = Lanes::around(capture, &around);
    let mut digest = Digest { note: note(capture), ..Digest::default() };
    digest.note.notes = capture.notes.clone();
    let begun = |a: &&Activation| lanes.cpus.get(&a.cpu).and_then(|s| s.first());
    let early = |a: &&Activation| begun(a).is_none_or(|s| s.start > a.intended);
    match late.iter().filter(early).count() {
        0 => {}
        n => digest
            .note
            .notes
            .push(Note::new("why.capture-begins-late").value("wakeups", Quantity::Count(n as u64))),
    }
    if late.len() > LATE {
        digest.note.notes.push(
            Note::new("why.capture-sampled")
                .value("used", Quantity::Count(LATE as u64))
                .value("late", Quantity::Count(late.len() as u64)),
        );
    }
    let control_end = on_time.iter().map(|a| a.end).min();
    for activation in chosen {
        let (budget, trail) = match examples {
            Examples::All if cfg!(feature = "host") => {
                let (budget, trail) = with_trail(capture, &lanes, activation);
                (budget, Some(trail))
            }
            _ => (budget(capture, &lanes, activation), None),
        };
        let known = budget.milestones.is_some() || budget.by_timerlat;
        if !activation.late && (budget.lost || !known) {
            continue;
        }
        let compared = control_end.and_then(|end| end_at(capture, &budget, end));
        let window = window(capture, &lanes, &budget, compared);
        digest.note.late += u32::from(window.late);
        digest.note.on_time += u32::from(!window.late);
        let is_kept = window.late || examples == Examples::All;
        digest.examples.push(is_kept.then(|| sketch(capture, &budget)));
        digest.paths.extend(trail.map(|trail| critical_path(capture, &budget, trail)));
        digest.windows.push(window);
        digest.activations.push(activation);
    }
    if let Some(i) = median_on_time(&digest.windows, |_| true) {
        let again = || sketch(capture, &budget(capture, &lanes, digest.activations[i]));
        digest.examples[i].get_or_insert_with(again);
    }
    digest
}

/// When a wake-up reached the event at which on-time ones end; `None`: it ends there itself, or its way is not known.
fn end_at(capture: &Capture, budget: &Budget, end: End) -> Option<TraceNs> {
    let m = budget.milestones.filter(|_| budget.activation.end > end)?;
    match end {
        End::Switch => Some(m.switch_in),
        End::Syscall => {
            let (tid, to) = (budget.activation.tid, budget.activation.actual);
            let is_return = |e: &&Event| {
                e.cpu == m.cpu
                    && e.current == tid
                    && matches!(e.kind, EventKind::SyscallExit { .. })
            };
            capture.within(m.switch_in, to).iter().find(is_return).map(|e| e.time)
        }
        End::Clock | End::Completion => None,
    }
}

/// Every nth of a list, so that at most `most` are left.
fn spread<T>(all: &[T], most: usize) -> impl Iterator<Item = &T> {
    all.iter().step_by(all.len().div_ceil(most).max(1))
}

fn note(capture: &Capture) -> CaptureNote {
    let first = capture.events.first().map_or(0, |e| e.time.0);
    let last = capture.events.last().map_or(0, |e| e.time.0);
    CaptureNote {
        source: capture.source.clone(),
        kernel: capture.kernel.clone(),
        preempt_rt: capture.preempt_rt,
        events: capture.events.len() as u64,
        length_ns: last.saturating_sub(first),
        holes: capture.lost.len() as u32,
        wakeups: capture.activations.len() as u64,
        late_wakeups: capture.activations.iter().filter(|a| a.late).count() as u64,
        interval_ns: interval(capture),
        counters: capture
            .number
            .map(|capture| CaptureCounters { capture, ..CaptureCounters::default() }),
        ..CaptureNote::default()
    }
}

/// Median distance of the intended times of one task, ns; of several tasks the longest.
fn interval(capture: &Capture) -> Option<u64> {
    let mut by_task: BTreeMap<Tid, Vec<u64>> = BTreeMap::new();
    for a in &capture.activations {
        by_task.entry(a.tid).or_default().push(a.intended.0);
    }
    let typical = |mut times: Vec<u64>| {
        times.sort_unstable();
        let mut apart: Vec<u64> =
            times.windows(2).map(|w| w[1] - w[0]).filter(|d| *d > 0).collect();
        apart.sort_unstable();
        apart.get(apart.len() / 2).copied()
    };
    by_task.into_values().filter_map(typical).max()
}

fn sketch(capture: &Capture, budget: &Budget) -> BreakdownExample {
    let intended = budget.activation.intended;
    let mut parts: Vec<Part> = Vec::new();
    for piece in &budget.pieces {
        let (end_ns, who) = (piece.end.since(intended).0, label(capture, piece));
        let full = parts.len() >= PARTS;
        match parts.last_mut() {
            Some(last)
                if (last.stage, last.cause, last.who.as_str())
                    == (piece.stage, piece.cause, &*who) =>
            {
                last.end_ns = end_ns;
            }
            Some(last) if full => {
                last.end_ns = end_ns;
                (last.cause, last.who, last.merged) = (Cause::Unexplained, String::new(), true);
            }
            _ => parts.push(Part {
                start_ns: piece.start.since(intended).0,
                end_ns,
                stage: piece.stage,
                cause: piece.cause,
                who: who.into_owned(),
                merged: false,
            }),
        }
    }
    BreakdownExample {
        source: capture.source.clone(),
        intended_ns: intended.0,
        cpu: budget.activation.cpu.0,
        parts,
    }
}

/// Brings the digests of all captures together.
pub fn conclude(digests: Vec<Digest>, system_context: SystemContext) -> WhyResult {
    let mut result =
        WhyResult { limit_ns: system_context.limit_ns, system_context, ..WhyResult::default() };
    let mut examples = Vec::new();
    let known = digests.iter().filter_map(|d| d.note.interval_ns);
    result.system_context.interval_ns = result.system_context.interval_ns.or(known.max());
    for digest in digests {
        result.captures.push(digest.note);
        result.windows.extend(digest.windows);
        examples.extend(digest.examples);
    }
    if let ([one], None) = (kernels(&result.captures).as_slice(), &result.system_context.kernel) {
        let one = (*one).to_owned();
        result.system_context.preempt_rt = result.captures.iter().find_map(|c| c.preempt_rt);
        result.system_context.kernel = Some(one);
    }
    result.explanation = explain(&result.windows, &result.system_context);
    let pairs = result.explanation.causes.iter().enumerate().filter_map(|(i, cluster)| {
        let late = cluster.example?;
        let source = &result.windows[late].source;
        let kept = |same: bool| {
            let has =
                |i: usize| examples[i].is_some() && (!same || result.windows[i].source == *source);
            median_on_time(&result.windows, has)
        };
        let typical = kept(true).or_else(|| kept(false));
        let mut drawn = examples.get(late)?.clone()?;
        if cluster.mechanism == Mechanism::Stall {
            show_stall(&mut drawn);
        }
        Some(Pair {
            cause: i,
            late: drawn,
            on_time: typical.and_then(|w| examples.get(w)?.clone()),
        })
    });
    result.examples = pairs.collect();
    result
}

/// In the breakdown example of a stall, the longest part is the stall, whoever had the CPU.
fn show_stall(sketch: &mut BreakdownExample) {
    if let Some(longest) = sketch.parts.iter_mut().max_by_key(|p| p.length_ns()) {
        longest.cause = Cause::Stall;
    }
}

/// The on-time window with the median latency, of those for which `is` holds.
fn median_on_time(windows: &[Window], is: impl Fn(usize) -> bool) -> Option<usize> {
    let on_time = (0..windows.len()).filter(|&i| !windows[i].late && is(i));
    let mut of: Vec<(u64, usize)> = on_time.map(|i| (windows[i].latency_ns, i)).collect();
    of.sort_unstable();
    of.get(of.len() / 2).map(|w| w.1)
}

/// Kernel releases of the captures, each once.
pub fn kernels(captures: &[CaptureNote]) -> Vec<&str> {
    let mut kernels: Vec<&str> = captures.iter().filter_map(|c| c.kernel.as_deref()).collect();
    kernels.sort_unstable();
    kernels.dedup();
    kernels
}

/// Captures of different kernels: their paths cost differently, so a late wake-up of one and an
/// on-time one of the other differ without any cause.
pub fn mixed_kernels(captures: &[CaptureNote]) -> Option<Finding> {
    let kernels = kernels(captures);
    (kernels.len() > 1).then(|| {
        let of = |k: &str| captures.iter().filter(|c| c.kernel.as_deref() == Some(k)).count();
        let finding = Finding::typed("why.mixed-kernels", Severity::Warning, Confidence::High)
            .value("kernels", kernels.clone())
            .remedy(Note::new("why.remedy-one-kernel"));
        kernels
            .iter()
            .fold(finding, |f, k| f.with(Evidence::new("captures-of-kernel", *k).of(of(k) as u64)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::scenario::{FAIR, HIGH, RT, Script};
    use latlab_model::latency::Stage;

    #[test]
    fn captures_of_different_kernels_are_a_finding() {
        let of =
            |kernel: &str| CaptureNote { kernel: Some(kernel.into()), ..CaptureNote::default() };
        assert_eq!(mixed_kernels(&[of("6.1.0"), of("6.1.0"), CaptureNote::default()]), None);
        let finding = mixed_kernels(&[of("6.1.0"), of("6.12.1"), of("6.1.0")]).unwrap();
        assert_eq!(finding.values["kernels"], vec!["6.1.0", "6.12.1"].into());
        assert_eq!(finding.evidence.len(), 2);
    }

    /// What had the CPU when nothing ran is a bystander, in the picture as in the verdict.
    #[test]
    fn the_picture_of_a_stall_shows_a_stall() {
        let part = |start_ns, end_ns, cause| Part {
            start_ns,
            end_ns,
            stage: Stage::Interrupt,
            cause,
            who: "latlab".into(),
            merged: false,
        };
        let parts = vec![part(0, 900, Cause::Overrun), part(900, 1_000, Cause::Path)];
        let mut sketch = BreakdownExample { parts, ..BreakdownExample::default() };
        show_stall(&mut sketch);
        assert_eq!([sketch.parts[0].cause, sketch.parts[1].cause], [Cause::Stall, Cause::Path]);
    }

    /// The sample of on-time wake-ups is not the population.
    #[test]
    fn all_wake_ups_of_a_recording_are_counted() {
        let mut s = Script::default();
        s.switch(0.0, RT, FAIR);
        for i in 0..400 {
            let t = 2_000.0 * f64::from(i + 1);
            s.timer(t).preempt(t + 6.0, FAIR, RT).switch(t + 50.0, RT, FAIR);
            s.wakes(t, t + 8.0, false);
        }
        let note = digest_found(&s.capture, Examples::Typical).note;
        assert_eq!((note.wakeups, note.late_wakeups, note.interval_ns), (400, 0, Some(2_000_000)));
        assert!(note.on_time <= CONTROLS as u32);
    }

    /// A late wake-up that is known by the task's clock, and on-time ones that are known by the switch:
    /// what the task does behind the switch is in no on-time window.
    #[test]
    fn late_and_on_time_wake_ups_are_compared_up_to_one_event() {
        let mut s = Script::default();
        s.switch(0.0, RT, FAIR);
        for i in 0..30 {
            let t = 1_000.0 * f64::from(i + 1);
            s.timer(t).preempt(t + 6.0, FAIR, RT);
            let late = i % 5 == 0;
            let mut a = s.wakes(t, if late { t + 106.0 } else { t + 6.0 }, late);
            a.end = if late { End::Clock } else { End::Switch };
            *s.capture.activations.last_mut().unwrap() = a;
            s.switch(t + 300.0, RT, FAIR);
        }
        let result =
            conclude(vec![digest_found(&s.capture, Examples::Typical)], SystemContext::default());
        for w in result.windows.iter().filter(|w| w.late) {
            assert_eq!((w.latency_ns, w.compared_ns()), (106_000, 6_000));
        }
        let path = |r: &&latlab_model::latency::Row| r.group.cause == Cause::Path;
        let path = result.explanation.contrast.rows.iter().find(path).unwrap();
        assert_eq!((path.late_ns, path.on_time_ns), (4_000.0, 4_000.0));
        assert!(result.explanation.causes.is_empty(), "{:#?}", result.explanation.causes);
    }

    /// From events to a verdict: eight late wake-ups behind a task of higher priority.
    #[test]
    fn from_events_to_a_verdict() {
        let mut s = Script::default();
        s.switch(0.0, RT, FAIR);
        for i in 0..40 {
            let t = 1_000.0 * f64::from(i + 1);
            s.timer(t);
            let late = i % 5 == 0;
            if late {
                s.preempt(t + 6.0, FAIR, HIGH).switch(t + 306.0, HIGH, RT);
            } else {
                s.preempt(t + 6.0, FAIR, RT);
            }
            let end = if late { t + 308.0 } else { t + 8.0 };
            s.wakes(t, end, late);
            s.switch(end + 20.0, RT, FAIR);
        }
        let result =
            conclude(vec![digest_found(&s.capture, Examples::Typical)], SystemContext::default());
        let causes = &result.explanation.causes;
        assert_eq!(causes.len(), 1, "{causes:#?}");
        assert_eq!(
            (causes[0].mechanism, causes[0].who.as_str()),
            (Mechanism::HigherPriority, "urgent")
        );
        assert_eq!((causes[0].excess_ns, causes[0].share_of_late), (300_000.0, 1.0));
        let (period, _) = causes[0].period_ns.expect("every fifth millisecond");
        assert!((period - 5e6).abs() < 1e3, "{period}");
        assert_eq!(result.captures[0].late, 8);
        let pair = &result.examples[0];
        assert_eq!(pair.late.parts.last().unwrap().end_ns, 308_000);
        assert!(pair.on_time.is_some());
    }
}
