//! Wake-up latency: sentences, quantiles by CPU, system activity, worst wake-ups.

use crate::doc::{Block, Column, Section, Table};
use crate::values::{figure, grouped, quantile_name};
use latlab_model::record::{Record, Window};
use latlab_model::run::Part;
use latlab_model::units::format_ns;
use latlab_model::wakeup::result::{ThreadResult, WakeupResult, Worst};
use latlab_stats::histogram::{Quantile, Summary};

mod levels;
#[cfg(feature = "host")]
mod moments;
mod names;
mod plots;

pub use levels::side_by_side;
pub use names::circumstance;
pub use plots::overlay;

use names::{WORST, name, title};

/// Quantiles beside the median that have a column.
const COLUMNS: [f64; 4] = [0.99, 0.999, 0.9999, 0.99999];

/// The section of a measurement.
pub fn sections(part: &Part, result: &WakeupResult) -> Vec<Section> {
    let mut blocks = Vec::new();
    if !part.complete {
        blocks.push(Block::Warning(
            "The measurement ended early; the results cover the time until then.".into(),
        ));
    }
    blocks.push(Block::Findings(part.findings.clone()));
    blocks.push(Block::Table(quantiles(result)));
    #[cfg(feature = "host")]
    blocks.push(Block::Table(moments::table(result)));
    if result.all_missed().count > 0 {
        blocks.push(Block::Table(per_period(result)));
    }
    if result.threads.iter().any(|t| t.since_stamp.is_some()) {
        blocks.push(Block::Table(since_stamp(result)));
    }
    if result.threads.iter().any(|t| t.window != Window::default()) {
        blocks.push(Block::Table(activity(result)));
    }
    let worst = worst(result);
    if !worst.rows.is_empty() {
        blocks.push(Block::Table(worst));
    }
    blocks.extend(plots::plots(&part.name, result));
    blocks.push(Block::Text(method(result)));
    blocks.extend(crate::messages::notes(&result.notes).into_iter().map(Block::Warning));
    let title = if part.title.is_empty() { "Wake-up latency".into() } else { part.title.clone() };
    vec![Section { id: part.name.clone(), title, blocks }]
}

/// The first screen: quantiles and the histogram.
pub fn screen(part: &Part, result: &WakeupResult) -> Vec<Block> {
    let mut blocks = vec![Block::Table(quantiles(result))];
    if result.threads.iter().any(|t| t.since_stamp.is_some()) {
        blocks.push(Block::Table(since_stamp(result)));
    }
    blocks.extend(plots::plots(&part.name, result).into_iter().take(1));
    blocks
}

/// The latency of one measurement, for a table of several.
pub fn line(result: &WakeupResult) -> String {
    if result.config.by.is_some() {
        return extremes(result);
    }
    let s = result.all_wakeups().summary();
    let tail = tail(&s);
    let (Some(median), Some(max)) = (s.median, s.max) else { return "no wake-ups".into() };
    let missed = result.missed_periods();
    let (median, max) = (format_ns(median), format_ns(max));
    format!("median {median}{tail}, worst {max}; {} missed periods", grouped(missed))
}

/// The measurement in one or two sentences.
pub fn summary(part: &Part, result: &WakeupResult) -> Vec<String> {
    [Some(latency(part, result)), power(part)].into_iter().flatten().collect()
}

fn latency(part: &Part, result: &WakeupResult) -> String {
    if result.config.by.is_some() {
        return format!("{}: {}.", title(part), extremes(result));
    }
    let all = result.all_wakeups();
    let s = all.summary();
    let Some((thread, worst)) = result.max() else {
        return format!("{}: no wake-ups measured.", title(part));
    };
    let tail = tail(&s);
    let missed = match result.missed_periods() {
        0 => "no missed periods".to_owned(),
        1 => "1 missed period".to_owned(),
        n => format!("{} missed periods", grouped(n)),
    };
    format!(
        "{}: median {}{tail}, worst {} ({}) of {} wake-ups; {missed}.",
        title(part),
        format_ns(s.median.unwrap_or(0.0)),
        format_ns(worst.latency_ns as f64),
        place(result, thread, worst),
        grouped(all.count),
    )
}

/// Mean electrical power, where it was read.
fn power(part: &Part) -> Option<String> {
    let of = |r: &Record| {
        let meter = r.name.strip_prefix("power.")?;
        Some(format!("{} ({meter})", figure(r.summary.median?, r.unit)))
    };
    let meters: Vec<String> = part.results.iter().filter_map(of).collect();
    (!meters.is_empty()).then(|| format!("Mean electrical power: {}.", meters.join(", ")))
}

/// Thread and time of a wake-up; the thread alone where the time is not known.
pub(super) fn place(result: &WakeupResult, thread: &ThreadResult, worst: &Worst) -> String {
    match worst.intended_ns {
        0 => name(thread),
        _ => format!("{}, {} after the start", name(thread), since_start(result, worst)),
    }
}

/// The mechanisms with the smallest and the largest median, and the worst wake-up.
fn extremes(result: &WakeupResult) -> String {
    let median = |t: &ThreadResult| t.latency.summary().median;
    let mut rows: Vec<(f64, &ThreadResult)> =
        result.threads.iter().filter_map(|t| Some((median(t)?, t))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(first), Some(last), Some((thread, worst))) =
        (rows.first(), rows.last(), result.max())
    else {
        return "no wake-ups measured".into();
    };
    let of = |(ns, t): &(f64, &ThreadResult)| format!("{} ({})", format_ns(*ns), name(t));
    format!(
        "medians from {} to {}; worst {} ({}, {} after the start)",
        of(first),
        of(last),
        format_ns(worst.latency_ns as f64),
        name(thread),
        since_start(result, worst),
    )
}

/// `, p99.9 121 µs`: the highest quantile that the samples support.
fn tail(s: &Summary) -> String {
    highest(s).map_or(String::new(), |q| format!(", {} {}", quantile_name(q.q), format_ns(q.value)))
}

/// The highest quantile that the samples support.
pub(super) fn highest(s: &Summary) -> Option<&Quantile> {
    s.quantiles.iter().rev().find(|q| q.q > 0.9 && COLUMNS.contains(&q.q))
}

pub(super) fn since_start(result: &WakeupResult, w: &Worst) -> String {
    format_ns(w.intended_ns.saturating_sub(result.start_ns) as f64)
}

/// The figures of each wake-up.
fn first([wakeups, _]: [Summary; 2]) -> Summary {
    wakeups
}

fn quantiles(result: &WakeupResult) -> Table {
    let threads = result.threads.iter().map(|t| (name(t), first(t.summaries()), t.missed_periods));
    let mut rows: Vec<(String, Summary, u64)> = threads.collect();
    if rows.len() > 1 && result.config.by.is_none() {
        rows.push(("all".into(), first(result.summaries()), result.missed_periods()));
    }
    latency_table(
        "Latency of each wake-up, with the 95 % confidence interval in brackets, for clustered wake-ups; –: too few wake-ups.",
        "wake-ups",
        &rows,
    )
}

/// The part of the latency that follows the kernel's time stamp.
fn since_stamp(result: &WakeupResult) -> Table {
    let of = |t: &ThreadResult| {
        let part = t.since_stamp.as_ref()?;
        Some((name(t), part.summary(), t.missed_periods))
    };
    latency_table(
        "Part of the latency from the kernel's time stamp to the return: of the edge in the interrupt's handler, of the receipt of the datagram.",
        "wake-ups",
        &result.threads.iter().filter_map(of).collect::<Vec<_>>(),
    )
}

fn per_period(result: &WakeupResult) -> Table {
    let of = |t: &ThreadResult| {
        let [_, periods] = t.summaries();
        (name(t), periods, t.missed_periods)
    };
    let threads = result.threads.iter().map(of);
    latency_table(
        "Latency per period: each missed period counts with its lateness at the return of the task.",
        "periods",
        &threads.collect::<Vec<_>>(),
    )
}

fn latency_table(caption: &str, counted: &str, rows: &[(String, Summary, u64)]) -> Table {
    let supported: Vec<f64> = COLUMNS
        .into_iter()
        .filter(|&q| rows.iter().any(|(_, s, _)| s.quantile(q).is_some()))
        .collect();
    let mut columns = vec![Column::left("")];
    columns.extend([Column::right(counted).optional(2), Column::right("missed")]);
    columns.extend([Column::right("min").optional(3), Column::right("median")]);
    // Of the quantiles the highest stays.
    let order = |i: usize| if i + 1 < supported.len() { 1 } else { 0 };
    let quantile = |(i, q): (usize, &f64)| Column::right(quantile_name(*q)).optional(order(i));
    columns.extend(supported.iter().enumerate().map(quantile));
    columns.push(Column::right("max"));
    let ns = |v: Option<f64>| v.map_or("–".into(), format_ns);
    let row = |(name, s, missed): &(String, Summary, u64)| {
        let mut cells = vec![name.clone(), grouped(s.count), grouped(*missed), ns(s.min)];
        cells.push(s.quantile(0.5).map_or_else(|| ns(s.median), interval));
        cells.extend(supported.iter().map(|q| s.quantile(*q).map_or("–".into(), interval)));
        cells.push(ns(s.max));
        cells
    };
    Table { caption: caption.into(), columns, rows: rows.iter().map(row).collect() }
}

/// `14.2 µs [14.1–14.3]`; the interval in the unit of the estimate where all three share it.
fn interval(q: &Quantile) -> String {
    let (value, low, high) = (format_ns(q.value), format_ns(q.low), format_ns(q.high));
    let unit = value.split(' ').nth(1).unwrap_or_default();
    let bare = |text: &str| text.strip_suffix(unit).map(|n| n.trim_end().to_owned());
    match (bare(&low), bare(&high)) {
        _ if low == value && high == value => value,
        (Some(l), Some(h)) => format!("{value} [{l}–{h}]"),
        _ => format!("{value} [{low}–{high}]"),
    }
}

fn activity(result: &WakeupResult) -> Table {
    if result.config.by.is_some() {
        return thread_activity(result);
    }
    let heads = [
        "interrupts",
        "steal",
        "preempted",
        "migrations",
        "major faults",
        "minor faults",
        "CPU per wake-up",
    ];
    let mut columns = vec![Column::left("")];
    columns.extend(heads.map(Column::right));
    columns.push(Column::left("most frequent interrupts").optional(1));
    let row = |t: &ThreadResult| {
        let n = |v: Option<u64>| v.map_or("?".into(), grouped);
        let w = &t.window;
        let most = t.interrupts.iter().take(3).map(|(name, n)| format!("{name}: {}", grouped(*n)));
        vec![
            name(t),
            n(w.interrupts),
            w.steal_ns.map_or("?".into(), |ns| format_ns(ns as f64)),
            n(w.involuntary_switches),
            n(w.migrations),
            n(w.major_faults),
            n(w.minor_faults),
            t.cpu_per_wakeup_ns().map_or("–".into(), |ns| format_ns(ns.round())),
            most.collect::<Vec<_>>().join(", "),
        ]
    };
    Table {
        caption: "System activity during the measurement; ?: not reported by this kernel.".into(),
        columns,
        rows: result.threads.iter().map(row).collect(),
    }
}

/// What the thread itself counted in each row: the rows share CPU and time.
fn thread_activity(result: &WakeupResult) -> Table {
    let heads = ["preempted", "major faults", "minor faults", "CPU per wake-up"];
    let n = |v: Option<u64>| v.map_or("?".into(), grouped);
    let row = |t: &ThreadResult| {
        let w = &t.window;
        let cpu = t.cpu_per_wakeup_ns().map_or("–".into(), |ns| format_ns(ns.round()));
        let counts = [w.involuntary_switches, w.major_faults, w.minor_faults].map(n);
        [name(t)].into_iter().chain(counts).chain([cpu]).collect()
    };
    Table {
        caption: "Activity of the woken thread; ?: not reported by this kernel.".into(),
        columns: [Column::left("")].into_iter().chain(heads.map(Column::right)).collect(),
        rows: result.threads.iter().map(row).collect(),
    }
}

fn worst(result: &WakeupResult) -> Table {
    let mut all: Vec<(&ThreadResult, &Worst)> =
        result.threads.iter().flat_map(|t| t.worst.iter().map(move |w| (t, w))).collect();
    all.retain(|(_, w)| w.intended_ns > 0);
    all.sort_by_key(|(_, w)| (std::cmp::Reverse(w.latency_ns), w.intended_ns));
    let row = |(t, w): &(&ThreadResult, &Worst)| {
        let stamp =
            format!("{}.{:09}", w.intended_ns / 1_000_000_000, w.intended_ns % 1_000_000_000);
        let cells = [format_ns(w.latency_ns as f64), name(t), since_start(result, w)];
        cells.into_iter().chain([stamp, grouped(w.cycle)]).collect()
    };
    Table {
        caption: "Worst wake-ups, by intended time.".into(),
        columns: vec![
            Column::right("latency"),
            Column::left("where"),
            Column::right("after the start"),
            Column::right("CLOCK_MONOTONIC (s)"),
            Column::right("wake-up"),
        ],
        rows: all.iter().take(WORST).map(row).collect(),
    }
}

fn method(result: &WakeupResult) -> String {
    let c = &result.config;
    let priority = if c.policy.has_priority() { format!(" {}", c.priority) } else { String::new() };
    let warm_up = match result.warm_up_wakeups {
        0 => String::new(),
        n if c.by.is_some() => {
            format!(", {n} warm-up wake-ups at the start of each turn (not counted)")
        }
        n => format!(", after {n} warm-up wake-ups (not counted)"),
    };
    let memory = if c.lock_memory { ", memory locked" } else { "" };
    let compute = match c.compute_ns {
        0 => String::new(),
        ns => format!(", {} of computation after each wake-up", format_ns(ns as f64)),
    };
    let held = result.held.iter().any(|n| n.id() == Some("wakeup.dma-latency-held"));
    let idle = if held {
        "idle states excluded by /dev/cpu_dma_latency"
    } else {
        "idle states as configured"
    };
    let priority = c.core.map_or(priority.clone(), |core| format!("{priority} of {}", core.id()));
    let who = match result.threads.len() {
        n if n > 1 && c.by.is_none() => format!("{n} threads"),
        _ => "1 thread".to_owned(),
    };
    let how = match &c.by {
        Some(by) if by.rows().iter().any(|row| row.from.is_some()) => {
            let below = if c.policy.has_priority() { " of one priority less" } else { "" };
            format!(
                "; mechanisms measured in turns, in random order; latency from the call of a thread{below}, \
                 or from a timer's intended time, to the return"
            )
        }
        Some(_) => "; timers measured in turns, in random order".to_owned(),
        None => format!("; latency measured at level {} with {}", c.level, result.method),
    };
    format!(
        "{who} of SCHED_{}{priority}, interval {}, duration {}{warm_up}{compute}{memory}; {idle}{how}.",
        c.policy.to_string().to_uppercase(),
        format_ns(c.interval_ns as f64),
        format_ns(result.duration_ns as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::run::{Detail, Run};
    use latlab_model::units::CpuId;
    use latlab_model::wakeup::config::Level;
    use latlab_model::wakeup::result::{Slot, Timeline};
    use latlab_stats::histogram::Histogram;

    fn part(name: &str, title: &str, result: &WakeupResult) -> Part {
        Part {
            name: name.into(),
            title: title.into(),
            complete: result.complete,
            detail: Some(Detail::Wakeup(Box::new(result.clone()))),
            ..Part::default()
        }
    }

    fn result() -> WakeupResult {
        let latencies = (0..2_000u64).map(|i| 14_000 + i % 900).chain([3_250_000]);
        let thread = ThreadResult {
            cpu: Some(CpuId(1)),
            interval_ns: 1_000_000,
            wakeups: 2_001,
            missed_periods: 3,
            wakeups_with_misses: 1,
            latency: Histogram::of(latencies),
            missed: Histogram::of([2_250_000, 1_250_000, 250_000]),
            worst: vec![Worst { latency_ns: 3_250_000, intended_ns: 7_500_000_000, cycle: 1_500 }],
            timeline: Timeline {
                start_ns: 6_000_000_000,
                width_ns: 1_000_000_000,
                slots: vec![Slot { count: 9, min_ns: 1, max_ns: 14_000, sum_ns: 9 }],
            },
            cpu_time_ns: 2_001 * 4_200,
            window: Window { interrupts: Some(4_100), steal_ns: None, ..Window::default() },
            interrupts: vec![("LOC Local timer interrupts".into(), 4_000)],
            ..ThreadResult::default()
        };
        WakeupResult {
            start_ns: 6_000_000_000,
            duration_ns: 2_004_000_000,
            method: "clock_nanosleep".into(),
            complete: true,
            threads: vec![thread],
            ..WakeupResult::default()
        }
    }

    #[test]
    fn the_summary_has_place_and_time_of_the_worst_and_missed_periods() {
        let result = result();
        let part = part("wakeup", "Wake-up latency", &result);
        assert_eq!(
            summary(&part, &result),
            [
                "Wake-up latency: median 14.4 µs, p99 14.9 µs, worst 3.25 ms (CPU 1, 1.50 s after the start) of 2\u{202f}001 wake-ups; 3 missed periods."
            ]
        );
    }

    #[test]
    fn mechanisms_have_a_row_each_and_no_total() {
        use latlab_model::wakeup::mechanism::{Mechanism, Mechanisms, Woken};
        let mut result = result();
        result.config.by = Some(Mechanisms::default());
        let row = |by, from, ns: u64| ThreadResult {
            woken: Some(Woken { by, from }),
            latency: Histogram::of((0..500).map(|i| ns + i)),
            worst: vec![Worst { latency_ns: ns + 499, intended_ns: 6_100_000_000, cycle: 500 }],
            ..result.threads[0].clone()
        };
        result.threads = vec![
            row(Mechanism::Timerfd, None, 14_000),
            row(Mechanism::Futex, Some(CpuId(1)), 3_000),
            row(Mechanism::Futex, Some(CpuId(0)), 41_000),
        ];
        let part = part("wakeup-by", "Wake-up latency by mechanism", &result);
        assert_eq!(
            summary(&part, &result),
            [
                "Wake-up latency by mechanism: medians from 3.25 µs (futex, same CPU) to 41.3 µs (futex, from CPU 0); worst 41.5 µs (futex, from CPU 0, 100 ms after the start)."
            ]
        );
        let names: Vec<String> =
            quantiles(&result).rows.into_iter().map(|r| r[0].clone()).collect();
        assert_eq!(names, ["timerfd", "futex, same CPU", "futex, from CPU 0"]);
    }

    #[test]
    fn the_section_reads_well_as_text() {
        let part = part("wakeup", "Wake-up latency", &result());
        let Some(Detail::Wakeup(result)) = &part.detail else { unreachable!() };
        let mut out = Vec::new();
        let options = crate::text::TextOptions { width: 250, ..Default::default() };
        crate::text::render_sections(&sections(&part, result), &options, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for expected in [
            "14.4 µs",
            "Latency per period",
            "LOC Local timer interrupts: 4\u{202f}000",
            "7.500000000",
            "Wake-up latency over time",
            "1 thread of SCHED_FIFO 80, interval 1.00 ms, duration 2.00 s",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn levels_are_in_order_from_the_interrupt_outwards() {
        let of = |level| {
            let mut result = result();
            result.config.level = level;
            part("wakeup", "", &result)
        };
        let mut run = Run { parts: vec![of(Level::User)], ..Run::default() };
        assert!(side_by_side(&run).is_none());
        run.parts.extend([of(Level::Irq), of(Level::Kernel)]);
        let section = side_by_side(&run).unwrap();
        let Block::Table(table) = &section.blocks[0] else { panic!("{:?}", section.blocks) };
        let names: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(names, ["timer interrupt (irq)", "kernel thread (kernel)", "user space (user)"]);
    }

    #[test]
    fn intervals_share_the_unit_where_they_can() {
        let q = |value, low, high| interval(&Quantile { q: 0.5, value, low, high });
        assert_eq!(q(14_200.0, 14_100.0, 14_300.0), "14.2 µs [14.1–14.3]");
        assert_eq!(q(990_000.0, 870_000.0, 1_200_000.0), "990 µs [870 µs–1.20 ms]");
        assert_eq!(q(14_200.0, 14_200.0, 14_200.0), "14.2 µs");
    }

    #[test]
    fn no_wakeups_have_a_summary() {
        let nothing =
            WakeupResult { threads: vec![ThreadResult::default()], ..WakeupResult::default() };
        let part = part("wakeup", "", &nothing);
        assert_eq!(summary(&part, &nothing), ["Wake-up latency: no wake-ups measured."]);
        assert!(!sections(&part, &nothing)[0].blocks.is_empty());
    }
}
