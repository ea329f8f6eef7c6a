//! Micro-benchmarks: a table per family with the interval of each result, curves over sizes, a heat
//! map of CPU pairs.

mod plots;
mod published;

use crate::doc::{Axis, Block, Column, Plot, Scale, Section, Series, SeriesKind, Table};
use crate::values::{figure, grouped};
use latlab_model::bench::{BenchDetail, BenchRow, Selection, words};
use latlab_model::record::Unit;
use latlab_model::run::Part;
use latlab_stats::total::Total;

/// The families in reading order, by the first word of a probe's name.
const FAMILIES: &[(&str, &str)] = &[
    ("syscall", "System calls"),
    ("signal", "Signals"),
    ("process", "Processes and threads"),
    ("memory", "Faults and mappings"),
    ("ctx", "Context switches"),
    ("ipc", "Messages: round trip"),
    ("timer", "Sleeping"),
    ("fs", "Files"),
    ("disk", "Disk"),
    ("bw", "Bandwidth"),
    ("stream", "STREAM"),
    ("arith", "Instructions"),
    ("cpu", "Clock"),
    ("core", "Core to core"),
];
/// Cells of the interval's bar on either side of the middle, and what the outermost means.
const CELLS: usize = 5;
const EDGE: f64 = 0.05;

/// The result in words.
pub fn summary(detail: &BenchDetail) -> Vec<String> {
    let mut words = vec![format!(
        "{}, {} with a 95 % interval within ±{} % of the median.",
        match detail.rows.len() {
            1 => "1 result".to_owned(),
            n => format!("{n} results"),
        },
        detail.rows.iter().filter(|r| r.target_met).count(),
        detail.target * 100.0
    )];
    let value = |name: &str| detail.rows.iter().find(|r| r.name == name);
    let costs: Vec<String> = [
        ("syscall.getppid", "kernel entry and exit"),
        ("ctx.futex", "context switch"),
        ("ipc.pipe", "pipe round trip of one byte"),
        ("process.fork-exit", "process creation and exit"),
    ]
    .iter()
    .filter_map(|(name, words)| {
        value(name).map(|r| format!("{words} {}", figure(r.estimate.median, r.unit)))
    })
    .collect();
    if let Some((row, cycles)) = detail.rows.iter().find_map(|r| Some((r, r.cycles?))) {
        let hz = figure(cycles * 1e9 / row.estimate.median, Unit::Hz);
        words.push(format!("Clock {hz}: the greatest common divisor of the operations' times."));
    }
    if !costs.is_empty() {
        words.push(format!("Costs: {}.", costs.join(", ")));
    }
    words
}

/// What the first screen has of a whole suite: one probe of each kind of cost.
const KEY: [&str; 16] = [
    "syscall.getppid",
    "syscall.read",
    "syscall.open-close",
    "syscall.clock-vdso",
    "signal.catch",
    "process.thread",
    "process.fork-exit",
    "process.fork-exec",
    "memory.page-fault",
    "ctx.futex",
    "ctx.kernel",
    "ipc.pipe",
    "ipc.unix-stream",
    "ipc.tcp",
    "bw.pipe",
    "core.ping-pong",
];

/// The first screen: all results of a few probes, or of a larger suite one probe of each kind of cost.
pub fn screen(detail: &BenchDetail) -> Vec<Block> {
    let key = |name: &&str| detail.rows.iter().find(|r| r.name == **name);
    let rows: Vec<&BenchRow> = match detail.rows.len() {
        n if n <= KEY.len() => detail.rows.iter().collect(),
        _ => KEY.iter().filter_map(key).collect(),
    };
    let caption = match detail.rows.len() - rows.len() {
        0 => "Medians with 95 % intervals".to_owned(),
        n => format!("Medians with 95 % intervals ({n} more probes with --details)"),
    };
    let mut table = table(&caption, &rows);
    // Raw values, overhead and switches are details.
    for (column, at) in table.columns.iter_mut().zip(0u8..).filter(|(_, at)| *at >= 4) {
        *column = std::mem::take(column).optional(at);
    }
    let mut blocks = vec![Block::Table(table)];
    // Of a few probes also those that have no result.
    if !detail.missing.is_empty() && detail.rows.len() + detail.missing.len() <= KEY.len() {
        blocks.push(Block::Table(missing(detail)));
    }
    if detail.rows.is_empty() {
        blocks.remove(0);
    }
    blocks
}

/// The median of each kind of cost as a bar with its 95 % interval, the largest last.
pub(super) fn costs(detail: &BenchDetail) -> Option<Block> {
    let in_time = |r: &&BenchRow| r.unit == Unit::Ns && r.estimate.median > 0.0;
    let (few, key) = (detail.rows.len() <= KEY.len(), |r: &&BenchRow| KEY.contains(&&*r.name));
    let mut rows: Vec<&BenchRow> =
        detail.rows.iter().filter(in_time).filter(|r| few || key(r)).take(24).collect();
    if !few {
        rows.dedup_by(|a, b| a.name == b.name);
    }
    rows.sort_by(|a, b| a.estimate.median.total_cmp(&b.estimate.median));
    let least = rows.first()?.estimate.median.min(rows[0].estimate.low.max(0.1)) / 1e3;
    let floor = 10f64.powf(least.log10().floor());
    let name = |r: &BenchRow| {
        let one = rows.iter().filter(|o| o.name == r.name).count() == 1;
        let name = match one {
            true => r.name.clone(),
            false => words(&r.name, &r.params),
        };
        format!("{name}  {}", figure(r.estimate.median, r.unit))
    };
    let spans = |name: &str, from: &dyn Fn(&BenchRow) -> f64, to: &dyn Fn(&BenchRow) -> f64| {
        let lanes = rows.iter().enumerate().filter(|(_, r)| to(r) > from(r));
        let each: Vec<(f64, f64, f64)> =
            lanes.map(|(i, r)| (from(r).max(floor), i as f64, to(r))).collect();
        Series {
            name: name.into(),
            kind: SeriesKind::Spans,
            points: each.iter().map(|s| (s.0, s.1)).collect(),
            values: each.iter().map(|s| s.2).collect(),
            ..Series::default()
        }
    };
    let low = |r: &BenchRow| if r.estimate.interval_is_95 { r.estimate.low / 1e3 } else { 0.0 };
    let high = |r: &BenchRow| if r.estimate.interval_is_95 { r.estimate.high / 1e3 } else { 0.0 };
    let median = |r: &BenchRow| r.estimate.median / 1e3;
    Some(Block::Plot(Box::new(Plot {
        id: "bench-costs".into(),
        title: "Costs".into(),
        description: "Median time of one operation, and its 95 % interval; logarithmic.".into(),
        x: Axis { label: "time (µs)".into(), scale: Scale::Log10, ..Axis::default() },
        y: Axis {
            scale: Scale::Category,
            categories: rows.iter().map(|r| name(r)).collect(),
            ..Axis::default()
        },
        series: vec![spans("median", &|_| floor, &median), spans("95 % interval", &low, &high)],
        marks: Vec::new(),
    })))
}

/// The sections of a suite.
pub fn sections(part: &Part, detail: &BenchDetail) -> Vec<Section> {
    let mut blocks = vec![Block::Text(
        "Medians over fresh processes with 95 % intervals. The bar shows the interval around the \
         median; its ends are ±5 %. Differences below the A/A floor are ignored."
            .into(),
    )];
    blocks.extend(costs(detail));
    if detail.rows.iter().any(|r| r.disturbed > 0) {
        blocks.push(Block::Text(
            "batches: share of the batches that the median is from, the others being disturbed; \
             !: fewer than half, or all because too few were undisturbed. all: median of all batches."
                .into(),
        ));
    }
    for (family, title) in FAMILIES {
        let rows: Vec<&BenchRow> =
            (detail.rows.iter()).filter(|r| r.name.split('.').next() == Some(family)).collect();
        if rows.is_empty() {
            continue;
        }
        blocks.push(Block::Table(table(title, &rows)));
        for axis in plots::axes(family) {
            blocks.extend(
                plots::curves(family, axis, title, &rows).map(|p| Block::Plot(Box::new(p))),
            );
        }
        blocks.extend(rows.iter().filter_map(|r| alternation(r)).map(Block::Table));
        if *family == "core" {
            blocks.extend(plots::heat(&rows).map(|p| Block::Plot(Box::new(p))));
        }
    }
    blocks.extend(states(detail).map(Block::Table));
    #[cfg(feature = "host")]
    blocks.extend(super::conditions::plots("bench", &detail.conditions));
    if !detail.missing.is_empty() {
        blocks.push(Block::Table(missing(detail)));
    }
    blocks.extend(published::blocks(&detail.against));
    if !part.findings.is_empty() {
        blocks.push(Block::Findings(part.findings.clone()));
    }
    blocks.extend(notes(part, detail));
    blocks.push(Block::Pairs(meter(detail)));
    vec![Section { id: "bench".into(), title: part.title.clone(), blocks }]
}

fn table(title: &str, rows: &[&BenchRow]) -> Table {
    let switches = rows.iter().any(|r| r.switches.is_some());
    let overhead = rows.iter().any(|r| r.overhead_ns.is_some());
    let disturbed = rows.iter().any(|r| r.disturbed > 0);
    let cycles = rows.iter().any(|r| r.cycles.is_some());
    let mut columns = vec![
        Column::left("probe"),
        Column::right("median"),
        Column::left("95 % interval"),
        Column::right("±"),
        Column::right("min"),
        Column::right("A/A floor"),
        Column::right("processes"),
    ];
    if cycles {
        columns.insert(2, Column::right("cycles"));
    }
    if disturbed {
        columns.extend([Column::right("batches"), Column::right("all")]);
    }
    if overhead {
        columns.extend([Column::right("raw"), Column::right("overhead")]);
    }
    if switches {
        columns.push(Column::right("switches each"));
    }
    let rows = rows
        .iter()
        .map(|r| {
            let e = &r.estimate;
            let best = if r.unit.larger_is_better() { e.max } else { e.min };
            let share = |v: f64| format!("{:.1} %", v * 100.0);
            let width = e.half_width();
            let mut cells = vec![
                words(&r.name, &r.params),
                figure(e.median, r.unit),
                bar(r),
                if width.is_finite() { share(width) } else { "-".into() },
                figure(best, r.unit),
                e.noise_floor.map_or_else(|| "-".into(), share),
                e.processes.to_string(),
            ];
            if cycles {
                cells.insert(2, r.cycles.map_or_else(|| "-".into(), |c| format!("{c:.2}")));
            }
            let optional = |v: Option<f64>| v.map_or_else(|| "-".into(), |v| figure(v, Unit::Ns));
            if disturbed {
                let all = r.median_of_all.unwrap_or(e.median);
                cells.extend([batches(r), figure(all, r.unit)]);
            }
            if overhead {
                cells.extend([optional(r.raw_ns), optional(r.overhead_ns)]);
            }
            if switches {
                cells.push(r.switches.map_or_else(|| "-".into(), |s| format!("{s:.2}")));
            }
            cells
        })
        .collect();
    // For bandwidths the best is the largest.
    if let Some(best) = match title {
        "Bandwidth" | "STREAM" => Some("max"),
        "Clock" | "Disk" => Some("best"),
        _ => None,
    } {
        columns[4 + usize::from(cycles)] = Column::right(best);
    }
    Table { caption: title.into(), columns, rows }
}

/// Share of the batches that the median is from; `!` where that limits it.
fn batches(row: &BenchRow) -> String {
    let mark = if row.selection.is_marked() { " !" } else { "" };
    let used = row.estimate.batches as f64;
    match row.selection {
        Selection::All => "100 %".into(),
        Selection::AllDisturbed => format!("all{mark}"),
        Selection::Undisturbed | Selection::FewUndisturbed => {
            format!("{:.0} %{mark}", 100.0 * used / (used + row.disturbed as f64))
        }
    }
}

/// The medians in each of two states of the machine.
fn states(detail: &BenchDetail) -> Option<Table> {
    let s = detail.states?;
    let cell = |r: &BenchRow, i: usize| {
        let of = r.states.get(i)?;
        Some([figure(of.median?, r.unit), grouped(of.batches)])
    };
    let none = || ["-".to_owned(), "0".to_owned()];
    let row = |r: &BenchRow| {
        let cells = (0..2).flat_map(|i| cell(r, i).unwrap_or_else(none));
        std::iter::once(words(&r.name, &r.params)).chain(cells).collect()
    };
    let columns = vec![
        Column::left("probe"),
        Column::right("fast state"),
        Column::right("batches"),
        Column::right("slow state"),
        Column::right("batches"),
    ];
    let caption = format!(
        "Medians in each state of the machine: fast in {:.0} % of the batches, slow (control workload +{:.0} %) in {:.0} %",
        s.fast_share * 100.0,
        (s.slow_ns / s.fast_ns - 1.0) * 100.0,
        (1.0 - s.fast_share) * 100.0
    );
    Some(Table { caption, columns, rows: detail.rows.iter().map(row).collect() })
}

/// `··├─┼─┤····`: the interval round the median, cut off at ±5 %.
fn bar(row: &BenchRow) -> String {
    let e = &row.estimate;
    if !e.interval_is_95 || e.median == 0.0 {
        return String::new();
    }
    let cell = |v: f64| {
        let share = (v - e.median) / e.median.abs();
        (share / EDGE * CELLS as f64).round().clamp(-(CELLS as f64) - 1.0, CELLS as f64 + 1.0)
            as i64
    };
    let (low, high) = (cell(e.low), cell(e.high));
    let cells = CELLS as i64;
    let draw = |i: i64| match i {
        0 => '┼',
        i if i == low && low >= -cells => '├',
        i if i == high && high <= cells => '┤',
        i if i == -cells && low < -cells => '◂',
        i if i == cells && high > cells => '▸',
        i if low < i && i < high => '─',
        _ => '·',
    };
    (-cells..=cells).map(draw).collect()
}

/// CPU time by thread while the pair alternated; only where other threads ran too.
fn alternation(row: &BenchRow) -> Option<Table> {
    let seen = row.alternation.as_ref()?;
    let all: u64 = seen.threads.iter().map(|t| t.ns).total();
    if all == 0 || (seen.direct == seen.switches && row.name != "ctx.nanosleep") {
        return None;
    }
    let rows = (seen.threads.iter())
        .map(|t| {
            vec![
                t.name.clone(),
                grouped(t.turns),
                format!("{:.2}", t.turns as f64 / seen.operations.max(1) as f64),
                format!("{:.1} %", t.ns as f64 * 100.0 / all as f64),
                figure(t.ns as f64 / t.turns.max(1) as f64, Unit::Ns),
            ]
        })
        .collect();
    let lost = match seen.lost {
        0 => String::new(),
        n => format!("; {n} events lost"),
    };
    let caption = format!(
        "CPU time by thread during {}: {} of {} switches directly between the pair{lost}",
        words(&row.name, &row.params),
        seen.direct,
        seen.switches
    );
    let columns = vec![
        Column::left("thread"),
        Column::right("turns"),
        Column::right("turns per operation"),
        Column::right("CPU time"),
        Column::right("time per turn"),
    ];
    Some(Table { caption, columns, rows })
}

fn missing(detail: &BenchDetail) -> Table {
    let rows = (detail.missing.iter())
        .map(|m| {
            let reason = m.reason.as_ref().map(crate::messages::note).unwrap_or_default();
            let kind = if m.unavailable { "not available" } else { "failed" };
            vec![words(&m.name, &m.params), kind.into(), reason]
        })
        .collect();
    let columns = vec![Column::left("probe"), Column::left("status"), Column::left("reason")];
    Table { caption: "Benchmarks without result".into(), columns, rows }
}

fn notes(part: &Part, detail: &BenchDetail) -> Option<Block> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for record in &part.results {
        for note in &record.notes {
            let text = crate::messages::note(note);
            if !lines.iter().any(|(n, t)| *n == record.name && *t == text) {
                lines.push((record.name.clone(), text));
            }
        }
    }
    for row in detail.rows.iter().filter(|r| !r.estimate.interval_is_95) {
        let text = format!("{} processes, too few for a 95 % interval", row.estimate.processes);
        if !lines.iter().any(|(n, t)| *n == row.name && t.contains("too few")) {
            lines.push((row.name.clone(), text));
        }
    }
    let few = |r: &&BenchRow| r.estimate.interval_is_95 && r.estimate.processes < 12;
    for row in detail.rows.iter().filter(few) {
        let n = row.estimate.processes;
        lines.push((
            row.name.clone(),
            format!("interval of {n} processes, 95 % if they are independent"),
        ));
    }
    (!lines.is_empty()).then_some(Block::Pairs(lines))
}

fn meter(detail: &BenchDetail) -> Vec<(String, String)> {
    let m = &detail.meter;
    let batches: u64 = detail.rows.iter().map(|r| r.estimate.batches).total();
    let total = |f: fn(&BenchRow) -> u64| detail.rows.iter().map(f).total();
    vec![
        (
            "clock".into(),
            format!(
                "step {:.0} ns, read {:.0} ns, loop iteration {:.2} ns; all subtracted",
                m.step_ns, m.read_ns, m.loop_ns
            ),
        ),
        (
            "batches".into(),
            format!(
                "{} in the results; {} preempted and {} outliers, included; {} disturbed; {} rejected (wrong number of switches)",
                grouped(batches),
                total(|r| r.preempted),
                total(|r| r.estimate.outliers),
                total(|r| r.disturbed),
                total(|r| r.rejected)
            ),
        ),
        ("order".into(), format!("random, seed {}", detail.seed)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_stats::estimate::Estimate;

    fn row(low: f64, high: f64) -> BenchRow {
        let estimate =
            Estimate { median: 100.0, low, high, interval_is_95: true, ..Estimate::default() };
        BenchRow { name: "syscall.read".into(), estimate, ..BenchRow::default() }
    }

    #[test]
    fn the_bar_is_the_interval() {
        assert_eq!(bar(&row(98.0, 103.0)), "···├─┼──┤··");
        assert_eq!(bar(&row(99.9, 100.1)), "·····┼·····");
        assert_eq!(bar(&row(50.0, 150.0)), "◂────┼────▸");
    }

    #[test]
    fn cpu_time_of_an_alternating_pair_is_a_table() {
        use latlab_model::bench::{Alternation, Ran};
        let ran = |name: &str, turns, ns| Ran { name: name.into(), turns, ns };
        let mut r = row(99.0, 101.0);
        r.alternation = Some(Alternation {
            operations: 10,
            switches: 30,
            direct: 0,
            lost: 0,
            threads: vec![
                ran("idle", 15, 900),
                ran("measuring", 10, 60),
                ran("ksoftirqd/0", 5, 40),
            ],
        });
        let table = alternation(&r).expect("a table");
        assert!(table.caption.contains("0 of 30 switches"), "{}", table.caption);
        assert_eq!(table.rows[0], ["idle", "15", "1.50", "90.0 %", "60 ns"]);
        // A pair that had the CPU to itself needs no table.
        r.alternation = Some(Alternation { switches: 30, direct: 30, ..Alternation::default() });
        assert!(alternation(&r).is_none());
    }

    #[test]
    fn a_row_from_few_or_disturbed_batches_is_marked_and_shows_the_median_of_all() {
        use latlab_model::bench::{StateMedian, States};
        let of = |selection, disturbed, all| {
            let mut r = row(99.0, 101.0);
            r.estimate.batches = 12;
            (r.selection, r.disturbed, r.median_of_all) = (selection, disturbed, all);
            r
        };
        let rows = [
            of(Selection::FewUndisturbed, 318, Some(131.0)),
            of(Selection::AllDisturbed, 12, Some(130.0)),
            of(Selection::Undisturbed, 3, Some(100.5)),
            of(Selection::All, 0, None),
        ];
        let t = table("System calls", &rows.iter().collect::<Vec<_>>());
        let at = t.columns.iter().position(|c| c.head == "batches").expect("a column");
        let cells: Vec<&str> = t.rows.iter().map(|r| r[at].as_str()).collect();
        assert_eq!(cells, ["4 % !", "all !", "80 %", "100 %"]);
        assert_eq!(t.rows[0][at + 1], "131 ns");
        let mut r = rows[0].clone();
        let state = |median, batches| StateMedian { median: Some(median), batches, processes: 2 };
        r.states = vec![state(100.0, 12), state(131.0, 318)];
        let two = States { fast_ns: 170.0, slow_ns: 221.0, fast_share: 0.04 };
        let detail = BenchDetail { rows: vec![r], states: Some(two), ..BenchDetail::default() };
        let t = states(&detail).expect("a table");
        assert_eq!(t.rows[0][1..], ["100 ns", "12", "131 ns", "318"]);
    }

    #[test]
    fn every_figure_is_in_a_table() {
        let detail = BenchDetail { rows: vec![row(99.0, 101.0)], ..BenchDetail::default() };
        let part = Part { title: "Micro-benchmarks".into(), ..Part::default() };
        let sections = sections(&part, &detail);
        let tables = sections[0].blocks.iter().filter(|b| matches!(b, Block::Table(_)));
        assert_eq!(tables.count(), 1);
    }
}
