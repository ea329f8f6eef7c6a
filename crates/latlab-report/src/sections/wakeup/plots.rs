//! Plots of wake-up latency: histogram, tail, over time.

use super::names::{WORST, circumstance, name};
use crate::doc::{Axis, Block, Plot, Scale, Series, SeriesKind};
use crate::plot::distribution::{self, Named, Subject};
use latlab_model::record::Unit;
use latlab_model::run::{Detail, Run};
use latlab_model::units::format_ns;
use latlab_model::wakeup::result::{ThreadResult, WakeupResult, Worst};
use latlab_stats::histogram::Histogram;

/// Threads, or measurements, that share one plot at most.
const TOGETHER_MAX: usize = 8;

/// The histograms of several measurements of one run, over one axis.
pub fn overlay(run: &Run) -> Option<Block> {
    let measured = run.parts.iter().filter_map(|part| match &part.detail {
        Some(Detail::Wakeup(r)) if r.threads.iter().any(|t| t.wakeups > 0) => {
            Some((circumstance(part).to_owned(), r.all_wakeups()))
        }
        _ => None,
    });
    let measured: Vec<(String, Histogram)> = measured.take(TOGETHER_MAX).collect();
    let named: Vec<Named> = measured.iter().map(|(name, h)| (name.clone(), h)).collect();
    let subject = Subject {
        id: "wakeup-overlay",
        title: "Wake-up latency",
        quantity: "latency",
        counted: "wake-ups",
        unit: Unit::Ns,
    };
    (!named.is_empty()).then(|| Block::Plot(Box::new(distribution::histogram(&subject, &named))))
}

/// Histogram, tail and course over time of all threads, some of them together.
pub(super) fn plots(id: &str, result: &WakeupResult) -> Vec<Block> {
    let measured: Vec<&ThreadResult> = result.threads.iter().filter(|t| t.wakeups > 0).collect();
    let mut blocks = Vec::new();
    for (i, threads) in measured.chunks(TOGETHER_MAX).enumerate() {
        let id = if i == 0 { id.to_owned() } else { format!("{id}-{}", i + 1) };
        let subject = Subject {
            id: &id,
            title: "Wake-up latency",
            quantity: "latency",
            counted: "wake-ups",
            unit: Unit::Ns,
        };
        let named: Vec<Named> = threads.iter().map(|t| (name(t), &t.latency)).collect();
        let mut histogram = distribution::histogram(&subject, &named);
        histogram.marks = distribution::quantile_marks(&named, &result.all_wakeups());
        if result.config.by.is_some() {
            histogram.marks.clear();
        }
        blocks.push(Block::Plot(Box::new(histogram)));
        blocks.push(Block::Plot(Box::new(distribution::tail(&subject, &named))));
        if threads.iter().any(|t| !t.timeline.slots.is_empty()) {
            blocks.push(Block::Plot(Box::new(over_time(&id, result, threads))));
        }
    }
    blocks
}

/// The worst latency of each time interval, one line for each thread.
fn over_time(id: &str, result: &WakeupResult, threads: &[&ThreadResult]) -> Plot {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let line = |t: &&ThreadResult| {
        let line = &t.timeline;
        let begin = line.start_ns.saturating_sub(result.start_ns);
        let at = |i: usize| seconds(begin.saturating_add((i as u64).saturating_mul(line.width_ns)));
        let slots = line.slots.iter().enumerate().filter(|(_, s)| s.count > 0);
        Series {
            name: name(t),
            kind: SeriesKind::Line,
            points: slots.map(|(i, s)| (at(i), s.max_ns as f64 / 1e3)).collect(),
            ..Series::default()
        }
    };
    let worst: Histogram =
        Histogram::of(threads.iter().filter_map(|t| t.max()).map(|w| w.latency_ns));
    let cases = threads.iter().flat_map(|t| &t.worst);
    let at = |w: &Worst| seconds(w.intended_ns.saturating_sub(result.start_ns));
    let mut cases: Vec<(f64, f64)> = cases.map(|w| (at(w), w.latency_ns as f64 / 1e3)).collect();
    cases.sort_by(|a, b| b.1.total_cmp(&a.1));
    cases.truncate(WORST);
    let worst_cases = Series {
        name: "worst wake-ups".into(),
        kind: SeriesKind::Points,
        points: cases,
        ..Series::default()
    };
    let shown = (!worst_cases.points.is_empty()).then_some(worst_cases);
    let width = threads.iter().map(|t| t.timeline.width_ns).max().unwrap_or(0);
    Plot {
        id: format!("{id}-over-time"),
        title: "Wake-up latency over time".into(),
        description: format!(
            "Worst latency in intervals of {} over time since the start, and the worst wake-ups at \
             their intended times; maximum {}.",
            format_ns(width as f64),
            format_ns(worst.max as f64)
        ),
        x: Axis { label: "time since the start (s)".into(), ..Axis::default() },
        y: Axis { label: "worst latency (µs)".into(), scale: Scale::Log10, ..Axis::default() },
        series: threads.iter().map(line).chain(shown).collect(),
        marks: vec![],
    }
}
