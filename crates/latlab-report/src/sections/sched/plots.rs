//! Plots of a schedule: run segments, their lengths, shares of the CPU, fairness.

use crate::doc::{Axis, Mark, Plot, Scale, Series, SeriesKind};
use latlab_model::run::Part;
use latlab_model::sched::schedule::{End, KeptSlice, Schedule};
use latlab_model::units::format_ns;

fn axis(label: &str) -> Axis {
    Axis { label: label.into(), ..Axis::default() }
}

fn of(schedule: &Schedule, tid: i32) -> impl Iterator<Item = &KeptSlice> {
    schedule.slices.iter().filter(move |s| s.tid == tid)
}

/// The study's plot: the length of each slice against its number.
pub(super) fn slices(part: &Part, schedule: &Schedule, drawn: &[(i32, String)]) -> Plot {
    let series = drawn.iter().map(|(tid, name)| Series {
        name: name.clone(),
        kind: SeriesKind::Points,
        points: (of(schedule, *tid).enumerate())
            .map(|(n, s)| (n as f64 + 1.0, s.run_ns as f64 / 1e6))
            .collect(),
        ..Series::default()
    });
    let lengths: Vec<u64> = schedule.slices.iter().map(|s| s.run_ns).filter(|n| *n > 0).collect();
    let wide = lengths.iter().max().copied().unwrap_or(0) / 100
        > lengths.iter().min().copied().unwrap_or(0);
    Plot {
        id: format!("{}-slices", part.name),
        title: "Length of each slice".into(),
        description: "Run time from switch-in to switch-out, one point for each slice.".into(),
        x: axis("number of the slice"),
        y: Axis {
            label: "length (ms)".into(),
            scale: if wide { Scale::Log10 } else { Scale::Linear },
            ..Axis::default()
        },
        series: series.filter(|s| !s.points.is_empty()).collect(),
        marks: Vec::new(),
    }
}

/// Intervals of all tasks, each in its lane, s.
fn intervals(
    name: &str,
    drawn: &[(i32, String)],
    of_task: impl Fn(i32) -> Vec<(u64, u64)>,
) -> Series {
    let all = drawn.iter().enumerate().flat_map(|(lane, (tid, _))| {
        of_task(*tid).into_iter().map(move |(from, to)| (lane, from as f64 / 1e9, to as f64 / 1e9))
    });
    let all: Vec<(usize, f64, f64)> = all.collect();
    Series {
        name: name.into(),
        kind: SeriesKind::Spans,
        points: all.iter().map(|(lane, from, _)| (*from, *lane as f64)).collect(),
        values: all.iter().map(|(_, _, to)| *to).collect(),
        ..Series::default()
    }
}

/// From the time that a task is ready until it has a CPU.
fn runnable(slice: &KeptSlice) -> Option<(u64, u64)> {
    let delay = slice.delay_ns.filter(|ns| *ns > 0)?;
    Some((slice.at_ns.saturating_sub(delay), slice.at_ns))
}

/// From the switch-out of a task that waits uninterruptibly to its wake-up.
fn blocked(before: &KeptSlice, slice: &KeptSlice) -> Option<(u64, u64)> {
    let (from, to) = (before.at_ns.saturating_add(before.run_ns), runnable(slice)?.0);
    (before.why == End::Blocked && from < to).then_some((from, to))
}

/// Who ran, was runnable, and was blocked when.
pub(super) fn timeline(part: &Part, schedule: &Schedule, drawn: &[(i32, String)]) -> Plot {
    let blocked = intervals("blocked", drawn, |tid| {
        let mine: Vec<&KeptSlice> = of(schedule, tid).collect();
        mine.windows(2).filter_map(|pair| blocked(pair[0], pair[1])).collect()
    });
    let runnable =
        intervals("runnable", drawn, |tid| of(schedule, tid).filter_map(runnable).collect());
    let running = intervals("running", drawn, |tid| {
        of(schedule, tid).map(|s| (s.at_ns, s.at_ns.saturating_add(s.run_ns))).collect()
    });
    // The last one is seen where an interval is narrower than a pixel.
    let series = [blocked, runnable, running];
    let throttles = schedule.throttles.iter().take(20);
    Plot {
        id: format!("{}-timeline", part.name),
        title: "CPU timeline".into(),
        description: "One lane for each task, with a bar while it runs, while it is runnable and waits for a CPU, \
                      and while it is blocked (uninterruptible sleep: IO, a lock)."
            .into(),
        x: axis("time (s)"),
        y: Axis {
            scale: Scale::Category,
            categories: drawn.iter().map(|(_, name)| name.clone()).collect(),
            ..Axis::default()
        },
        series: series.into_iter().filter(|s| !s.points.is_empty()).collect(),
        marks: throttles
            .map(|t| {
                let (from, to) = (t.at_ns as f64 / 1e9, t.at_ns.saturating_add(t.ns) as f64 / 1e9);
                Mark::Band(from, to, "throttled".into())
            })
            .collect(),
    }
}

/// What each had of the CPU until then.
pub(super) fn shares(part: &Part, schedule: &Schedule, drawn: &[(i32, String)]) -> Plot {
    let series = drawn.iter().map(|(tid, name)| {
        let mut sum = 0;
        let points = of(schedule, *tid).map(|s| {
            sum = s.run_ns.saturating_add(sum);
            let now = s.at_ns.saturating_add(s.run_ns);
            (now as f64 / 1e9, 100.0 * sum as f64 / now.max(1) as f64)
        });
        Series { name: name.clone(), points: points.collect(), ..Series::default() }
    });
    Plot {
        id: format!("{}-shares", part.name),
        title: "Cumulative CPU share".into(),
        description: "Run time of each task divided by the time since the start.".into(),
        x: axis("time (s)"),
        y: axis("share (%)"),
        series: series.filter(|s| !s.points.is_empty()).collect(),
        marks: Vec::new(),
    }
}

/// How many slices of which length.
pub(super) fn lengths(part: &Part, schedule: &Schedule, drawn: &[(i32, String)]) -> Plot {
    let series = drawn.iter().map(|(tid, name)| {
        let histogram =
            latlab_stats::histogram::Histogram::of(of(schedule, *tid).map(|s| s.run_ns / 1000));
        Series {
            name: name.clone(),
            kind: SeriesKind::Step,
            points: bins(&histogram.buckets),
            ..Series::default()
        }
    });
    Plot {
        id: format!("{}-lengths", part.name),
        title: "Slices by length".into(),
        description: "Distribution of slice lengths.".into(),
        x: Axis { label: "length (µs)".into(), scale: Scale::Log10, ..Axis::default() },
        y: axis("slices"),
        series: series.filter(|s| !s.points.is_empty()).collect(),
        marks: Vec::new(),
    }
}

/// Eight bins a factor of ten.
fn bins(buckets: &[(u64, u64)]) -> Vec<(f64, f64)> {
    let mut all = std::collections::BTreeMap::new();
    for (low, n) in buckets {
        let bin = ((*low).max(1) as f64).log10() * 8.0;
        *all.entry(bin.floor() as i32).or_insert(0.0) += *n as f64;
    }
    let (Some(first), Some(last)) = (all.keys().next().copied(), all.keys().next_back().copied())
    else {
        return Vec::new();
    };
    let edge = |b: i32| 10f64.powf(f64::from(b) / 8.0);
    (first..=last + 1).map(|b| (edge(b), all.get(&b).copied().unwrap_or(0.0))).collect()
}

pub(super) fn fairness(s: &Schedule) -> Plot {
    Plot {
        id: "sched-fairness".into(),
        title: format!("Fairness, windows of {}", format_ns(s.window_ns as f64)),
        description:
            "Jain's index of received by ideal service of the fair tasks that were runnable.".into(),
        x: axis("time (s)"),
        y: axis("Jain's index"),
        series: vec![Series {
            name: "fairness".into(),
            kind: SeriesKind::Step,
            points: s.windows.iter().map(|w| (w.at_ns as f64 / 1e9, w.jain)).collect(),
            ..Series::default()
        }],
        marks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_running_runnable_and_blocked_intervals() {
        let slice = |at_ns, run_ns, delay_ns, why| KeptSlice {
            tid: 7,
            cpu: 0,
            at_ns,
            run_ns,
            delay_ns,
            why,
            next: 0,
            doubtful: false,
        };
        let second = 1_000_000_000;
        let schedule = Schedule {
            slices: vec![
                slice(second, second, None, End::Blocked),
                slice(5 * second, second, Some(2 * second), End::Slept),
                slice(9 * second, second, Some(second), End::Slept),
            ],
            ..Schedule::default()
        };
        let plot = timeline(&Part::default(), &schedule, &[(7, "task".into())]);
        let of = |name: &str| {
            let series = plot.series.iter().find(|s| s.name == name).unwrap();
            let spans = series.points.iter().zip(&series.values);
            spans.map(|((from, _), to)| (*from, *to)).collect::<Vec<_>>()
        };
        assert_eq!(of("running"), [(1.0, 2.0), (5.0, 6.0), (9.0, 10.0)]);
        assert_eq!(of("runnable"), [(3.0, 5.0), (8.0, 9.0)]);
        assert_eq!(of("blocked"), [(2.0, 3.0)], "an interruptible sleep is no blocked interval");
    }
}
