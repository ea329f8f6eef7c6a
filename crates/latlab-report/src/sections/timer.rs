//! Ticks, timers and interrupts: rates, timer life cycles, functions by cost.

use crate::doc::{Axis, Block, Column, Doc, Plot, Scale, Section, Series, SeriesKind, Table};
use crate::messages;
use crate::plot::scale::format_number;
use crate::values::grouped;
use latlab_model::run::Part;
use latlab_model::sched::schedule::Durations;
use latlab_model::timer::{
    Chain, Function, Handler, Live, Rate, Softirq, Step, TickMode, TimerDetail, TimerTrace,
};
use latlab_model::units::format_ns;
use latlab_stats::total::Total;

/// Rows of a table.
const ROWS: usize = 30;
/// CPUs that get a column of their own.
const COLUMNS: usize = 8;

/// The sections of a `timer` part.
pub fn sections(part: &Part, detail: &TimerDetail) -> Vec<Section> {
    let mut blocks = Vec::new();
    if !part.complete {
        blocks.push(Block::Warning(
            "The measurement ended early; the results cover the time until then.".into(),
        ));
    }
    if let Some(live) = &detail.live {
        blocks.extend(messages::notes(&live.notes).into_iter().map(Block::Text));
    }
    if let Some(trace) = &detail.trace {
        blocks.extend(messages::notes(&trace.notes).into_iter().map(Block::Warning));
    }
    blocks.push(Block::Findings(part.findings.clone()));
    if let Some(live) = &detail.live {
        blocks.extend(counted(live));
    }
    let mut sections = vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }];
    if let Some(trace) = &detail.trace {
        sections.push(Section {
            id: format!("{}-trace", part.name),
            title: "Timer activity".into(),
            blocks: traced(&part.name, trace),
        });
    }
    sections
}

/// The first screen: what the tick costs, or the interrupts by rate.
pub fn screen(detail: &TimerDetail) -> Vec<Block> {
    match (&detail.trace, &detail.live) {
        (Some(trace), _) if !trace.ticks.is_empty() => {
            vec![Block::Table(costs(trace)), Block::Table(functions(trace))]
        }
        (_, Some(live)) => {
            vec![Block::Table(rate_table("Interrupt rates", &live.interrupts, &live.cpus))]
        }
        (Some(trace), None) => vec![Block::Table(functions(trace))],
        (None, None) => vec![],
    }
}

/// The result in words.
pub fn summary(detail: &TimerDetail) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(live) = &detail.live {
        let hz = live.hz.map_or("unknown".into(), |hz| format!("{hz} Hz"));
        let before = if live.mode == TickMode::Unknown { "mode " } else { "" };
        words.push(format!("Tick: {hz}; {before}{}.", messages::tick_mode(live.mode)));
    }
    if let Some(trace) = &detail.trace {
        let calls: u64 = trace.functions.iter().map(|f| f.cost.count).total();
        words.push(format!(
            "{} timer functions, {} calls in {}.",
            trace.functions.len(),
            grouped(calls),
            format_ns(trace.length_ns as f64)
        ));
    }
    words
}

/// Rates of interrupts and softirqs by CPU.
#[derive(Clone, Copy, Debug)]
pub struct Rates<'a> {
    /// Rates.
    pub rates: &'a [Rate],
    /// CPUs of their columns.
    pub cpus: &'a [u32],
}

/// Rates at one moment, for a display that is refreshed.
pub fn top(interrupts: Rates<'_>, softirqs: Rates<'_>) -> Doc {
    let section = |id: &str, title: &str, of: Rates<'_>| Section {
        id: id.into(),
        title: title.into(),
        blocks: vec![Block::Table(rate_table("", of.rates, of.cpus))],
    };
    Doc {
        title: "Interrupts per second".into(),
        summary: Vec::new(),
        sections: vec![
            section("interrupts", "Interrupts", interrupts),
            section("softirqs", "Softirqs", softirqs),
        ],
        ..Doc::default()
    }
}

/// The interrupt with the highest rate on all CPUs, per second.
pub(super) fn most_frequent(live: &Live) -> Option<(String, f64)> {
    let rates = live.interrupts.iter().map(|r| (r.name.clone(), r.per_second.iter().sum::<f64>()));
    rates.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Rates by CPU, the highest first.
fn rate_table(caption: &str, rates: &[Rate], cpus: &[u32]) -> Table {
    let shown = cpus.len().min(COLUMNS);
    let mut columns = vec![Column::left("what"), Column::right("total (/s)")];
    columns.extend(cpus.iter().take(shown).map(|c| Column::right(format!("CPU {c}"))));
    if cpus.len() > shown {
        columns.push(Column::right("others"));
    }
    let sum = |r: &Rate| r.per_second.iter().sum::<f64>();
    let mut sorted: Vec<&Rate> = rates.iter().collect();
    sorted.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
    let row = |r: &&Rate| {
        let mut cells = vec![r.name.clone(), format!("{:.1}", sum(r))];
        cells.extend(r.per_second.iter().take(shown).map(|n| format!("{n:.1}")));
        if cpus.len() > shown {
            cells.push(format!("{:.1}", r.per_second.iter().skip(shown).sum::<f64>()));
        }
        cells.resize(columns.len(), String::new());
        cells
    };
    let rows = sorted.iter().take(ROWS).map(row).collect();
    Table { caption: caption.into(), columns, rows }
}

fn counted(live: &Live) -> Vec<Block> {
    let yes = |b: Option<bool>| match b {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    };
    let mut blocks = vec![
        Block::Table(rate_table("Interrupt rates", &live.interrupts, &live.cpus)),
        Block::Table(rate_table("Softirq rates", &live.softirqs, &live.cpus)),
    ];
    if !live.ticks.is_empty() {
        let rows = live.ticks.iter().map(|t| {
            vec![
                t.cpu.to_string(),
                yes(t.highres).into(),
                yes(t.nohz).into(),
                yes(t.stopped).into(),
                t.functions.iter().take(6).cloned().collect::<Vec<_>>().join(", "),
            ]
        });
        blocks.push(Block::Table(Table {
            caption: "Ticks at the end of the measurement (/proc/timer_list)".into(),
            columns: vec![
                Column::right("CPU"),
                Column::left("high resolution"),
                Column::left("can stop"),
                Column::left("stopped now"),
                Column::left("pending timers"),
            ],
            rows: rows.collect(),
        }));
    }
    if !live.errors.is_empty() {
        let pairs = live.errors.iter().map(|l| (l.label(), format!("{:?}", l.counts)));
        blocks.push(Block::Pairs(pairs.collect()));
    }
    if live.moments.len() > 1 {
        blocks.push(Block::Plot(Box::new(rate_plot(live))));
    }
    blocks
}

fn rate_plot(live: &Live) -> Plot {
    let series = live.cpus.iter().take(COLUMNS).enumerate().map(|(n, cpu)| Series {
        name: format!("CPU {cpu}"),
        kind: SeriesKind::Step,
        points: (live.moments.iter())
            .filter_map(|m| Some((m.at_ns as f64 / 1e9, *m.timer.get(n)?)))
            .collect(),
        ..Series::default()
    });
    Plot {
        id: "timer-rates".into(),
        title: "Timer interrupts per second".into(),
        description: "Timer interrupt rate of each CPU over time.".into(),
        x: Axis { label: "time (s)".into(), ..Axis::default() },
        y: Axis { label: "interrupts per second".into(), ..Axis::default() },
        series: series.collect(),
        marks: Vec::new(),
    }
}

fn traced(name: &str, trace: &TimerTrace) -> Vec<Block> {
    let mut blocks = Vec::new();
    if trace.ticks.iter().any(|t| t.interrupt_ns > 0) {
        blocks.push(Block::Table(costs(trace)));
    }
    for (n, chain) in trace.chains.iter().enumerate().filter(|(n, c)| first_of_kind(trace, *n, c)) {
        blocks.push(Block::Plot(Box::new(picture(name, n, chain))));
    }
    if !trace.wheel_steps.is_empty() {
        blocks.push(Block::Table(steps("Phases: timer-wheel timers", &trace.wheel_steps)));
    }
    if !trace.highres_steps.is_empty() {
        blocks.push(Block::Table(steps("Phases: high-resolution timers", &trace.highres_steps)));
    }
    if !trace.functions.is_empty() {
        blocks.push(Block::Table(functions(trace)));
    }
    if !trace.periodic.is_empty() {
        blocks.push(Block::Table(periodic(trace)));
    }
    if !trace.softirqs.is_empty() {
        blocks.push(Block::Table(softirqs(&trace.softirqs)));
    }
    if !trace.handlers.is_empty() {
        blocks.push(Block::Table(handlers(&trace.handlers)));
    }
    if !trace.chains.is_empty() {
        blocks.push(Block::Table(chains(trace)));
    }
    blocks.extend(other(trace));
    blocks
}

/// The middle one of the typical chains of each kind is drawn.
fn first_of_kind(trace: &TimerTrace, n: usize, chain: &Chain) -> bool {
    let first = trace.chains.iter().position(|c| c.highres == chain.highres && c.irq.is_some());
    let middle = first.map(|f| match trace.chains.get(f + 1) {
        Some(c) if c.highres == chain.highres && c.irq.is_some() => f + 1,
        _ => f,
    });
    middle == Some(n)
}

fn other(trace: &TimerTrace) -> Option<Block> {
    let mut pairs = Vec::new();
    if let Some(hz) = trace.jiffies_hz {
        pairs.push(("jiffies per second".to_owned(), format!("{hz:.1}")));
    }
    if trace.stopped > 0 {
        pairs.push(("tick stopped".to_owned(), format!("{} times", trace.stopped)));
    }
    let kept = trace.not_stopped.iter();
    pairs.extend(
        kept.map(|(why, n)| ("tick not stopped".to_owned(), format!("{n} times, due to {why}"))),
    );
    (!pairs.is_empty()).then_some(Block::Pairs(pairs))
}

fn costs(trace: &TimerTrace) -> Table {
    let ns = |n: u64| format_ns(n as f64);
    let rows = trace.ticks.iter().map(|t| {
        vec![
            t.cpu.to_string(),
            t.ticks.to_string(),
            format_number(t.ticks as f64 / (trace.length_ns.max(1) as f64 / 1e9)),
            ns(t.interrupt_ns),
            ns(t.tick_ns),
            ns(t.softirq_ns),
            format!("{:.3} %", t.share * 100.0),
        ]
    });
    Table {
        caption: "Tick cost".into(),
        columns: vec![
            Column::right("CPU"),
            Column::right("ticks"),
            Column::right("per second").optional(2),
            Column::right("in timer interrupts").optional(1),
            Column::right("with the tick").optional(3),
            Column::right("in timer softirqs").optional(2),
            Column::right("share of CPU"),
        ],
        rows: rows.collect(),
    }
}

/// The life cycle of one timer: a lane for each phase.
fn picture(name: &str, n: usize, chain: &Chain) -> Plot {
    let zero = chain.irq.unwrap_or(chain.expire);
    let us = |t: u64| (t as f64 - zero as f64) / 1e3;
    let mut lanes: Vec<(String, u64, u64)> = Vec::new();
    let interrupt = if chain.irq_name.is_empty() { "interrupt" } else { chain.irq_name.as_str() };
    if let Some(irq) = chain.irq {
        // A high-resolution timer's function runs inside the interrupt, whose end comes later.
        let end = chain.irq_exit.unwrap_or(chain.expire_exit).max(irq);
        lanes.push((format!("interrupt {interrupt}"), irq, end));
    }
    if let (Some(raise), Some(softirq)) = (chain.raise, chain.softirq) {
        lanes.push(("raised, pending".into(), raise, softirq));
    }
    if let Some(softirq) = chain.softirq {
        let end = chain.softirq_exit.unwrap_or(chain.expire_exit);
        lanes.push(("softirq".into(), softirq, end));
    }
    lanes.push((chain.function.clone(), chain.expire, chain.expire_exit));
    let words: Vec<String> = lanes
        .iter()
        .map(|(what, from, to)| format!("{what} from {:.1} to {:.1} µs", us(*from), us(*to)))
        .collect();
    let set = chain.start.map_or(String::new(), |s| {
        format!("Set {} before the interrupt. ", format_ns(zero.saturating_sub(s) as f64))
    });
    let kind = if chain.highres { "high resolution" } else { "timer wheel" };
    Plot {
        id: format!("{name}-chain-{n}"),
        title: format!("Timer life cycle ({kind}): {} on CPU {}", chain.function, chain.cpu),
        description: format!("{set}{}.", words.join(", ")),
        x: Axis { label: "after the interrupt (µs)".into(), ..Axis::default() },
        y: Axis {
            scale: Scale::Category,
            categories: lanes.iter().map(|l| l.0.clone()).collect(),
            ..Axis::default()
        },
        series: (lanes.iter().enumerate())
            .map(|(lane, (what, from, to))| Series {
                name: what.clone(),
                kind: SeriesKind::Spans,
                points: vec![(us(*from), lane as f64)],
                values: vec![us(*to)],
                ..Series::default()
            })
            .collect(),
        marks: Vec::new(),
    }
}

/// Count, median, p99, longest.
fn cells(s: &Durations) -> Vec<String> {
    if s.count == 0 {
        return vec![String::new(); 3];
    }
    let ns = |n: u64| format_ns(n as f64);
    vec![ns(s.median_ns), ns(s.p99_ns), ns(s.max_ns)]
}

fn spread_columns() -> Vec<Column> {
    vec![Column::right("median"), Column::right("p99"), Column::right("longest")]
}

fn steps(caption: &str, steps: &[Step]) -> Table {
    let mut columns = vec![Column::left("step"), Column::right("times")];
    columns.extend(spread_columns());
    let row = |s: &Step| {
        let mut row = vec![s.name.clone(), s.spread.count.to_string()];
        row.extend(cells(&s.spread));
        row
    };
    Table { caption: caption.into(), columns, rows: steps.iter().map(row).collect() }
}

fn functions(trace: &TimerTrace) -> Table {
    let who = |list: &[(String, u64)]| {
        let more = if list.len() > 1 { " and others" } else { "" };
        list.first().map_or(String::new(), |(name, n)| format!("{name} {n}{more}"))
    };
    let row = |f: &Function| {
        let waited = &f.waited_jiffies;
        let jiffies = if waited.count == 0 {
            String::new()
        } else {
            format!("{} to {}", waited.median_ns, waited.max_ns)
        };
        let late = match (f.late.count, f.highres) {
            (0, _) => String::new(),
            (_, true) => {
                format!(
                    "{}, {}",
                    format_ns(f.late.median_ns as f64),
                    format_ns(f.late.max_ns as f64)
                )
            }
            (_, false) => format!("{}, {} jiffies", f.late.median_ns, f.late.max_ns),
        };
        let mut row = vec![
            f.name.clone(),
            if f.highres { "high" } else { "wheel" }.to_owned(),
            f.cost.count.to_string(),
            format_ns(f.cost.sum_ns as f64),
        ];
        row.extend(cells(&f.cost));
        row.extend([late, jiffies, who(&f.set_by), who(&f.interrupted)]);
        row
    };
    let mut columns = vec![
        Column::whole("function"),
        Column::left("kind"),
        Column::right("calls"),
        Column::right("total"),
    ];
    columns.extend(spread_columns());
    columns.extend([
        Column::right("late: median, max").optional(1),
        Column::right("jiffies waited").optional(2),
        Column::left("set by").optional(3),
        Column::left("interrupted").optional(4),
    ]);
    let more = trace.functions.len().saturating_sub(ROWS);
    let caption = match more {
        0 => "Timer functions by total time".to_owned(),
        n => format!("Timer functions by total time; {n} more in the JSON output"),
    };
    Table { caption, columns, rows: trace.functions.iter().take(ROWS).map(row).collect() }
}

fn periodic(trace: &TimerTrace) -> Table {
    let rows = trace.periodic.iter().take(ROWS).map(|p| {
        vec![
            p.function.clone(),
            p.cpu.to_string(),
            p.times.to_string(),
            format_ns(p.period_ns as f64),
            format_ns(p.jitter_ns as f64),
            format_ns(p.jitter_max_ns as f64),
        ]
    });
    Table {
        caption: "Periodic timers".into(),
        columns: vec![
            Column::left("function"),
            Column::right("CPU"),
            Column::right("times"),
            Column::right("period"),
            Column::right("jitter, median"),
            Column::right("jitter, max"),
        ],
        rows: rows.collect(),
    }
}

fn softirqs(all: &[Softirq]) -> Table {
    let mut columns = vec![Column::left("softirq"), Column::right("times")];
    for what in ["raise to entry", "length"] {
        columns.extend(["median", "p99", "longest"].map(|c| Column::right(format!("{what}, {c}"))));
    }
    let row = |s: &Softirq| {
        let mut row = vec![s.name.clone(), s.cost.count.to_string()];
        row.extend(cells(&s.latency));
        row.extend(cells(&s.cost));
        row
    };
    Table { caption: "Softirqs".into(), columns, rows: all.iter().map(row).collect() }
}

fn handlers(all: &[Handler]) -> Table {
    let mut columns =
        vec![Column::left("interrupt"), Column::right("times"), Column::right("total")];
    columns.extend(spread_columns());
    columns.push(Column::left("on CPUs"));
    let row = |h: &Handler| {
        let name = h.irq.map_or_else(|| h.name.clone(), |irq| format!("{irq} {}", h.name));
        let mut row = vec![name, h.cost.count.to_string(), format_ns(h.cost.sum_ns as f64)];
        row.extend(cells(&h.cost));
        let cpus: Vec<String> = h.cpus.iter().take(8).map(|(c, n)| format!("{c}: {n}")).collect();
        row.push(cpus.join(", "));
        row
    };
    Table {
        caption: "Interrupts, by the time in their handlers".into(),
        columns,
        rows: all.iter().take(ROWS).map(row).collect(),
    }
}

fn chains(trace: &TimerTrace) -> Table {
    let row = |c: &Chain| {
        let from = c.irq.unwrap_or(c.expire);
        let after = |t: Option<u64>| {
            t.map_or(String::new(), |t| format!("{:.1}", (t as f64 - from as f64) / 1e3))
        };
        vec![
            c.function.clone(),
            c.task.clone(),
            c.cpu.to_string(),
            c.start.map_or(String::new(), |s| format_ns(from.saturating_sub(s) as f64)),
            c.set_for_jiffies.map_or(String::new(), |j| j.to_string()),
            c.irq_name.clone(),
            after(c.raise),
            after(c.irq_exit),
            after(c.softirq),
            after(Some(c.expire)),
            after(Some(c.expire_exit)),
            after(c.softirq_exit),
        ]
    };
    Table {
        caption: "Life cycles of single timers: typical and slowest; µs after the interrupt".into(),
        columns: vec![
            Column::left("function"),
            Column::left("interrupted"),
            Column::right("CPU"),
            Column::right("set before"),
            Column::right("jiffies"),
            Column::left("interrupt"),
            Column::right("raise"),
            Column::right("irq exit"),
            Column::right("softirq"),
            Column::right("expire"),
            Column::right("done"),
            Column::right("softirq exit"),
        ],
        rows: trace.chains.iter().map(row).collect(),
    }
}
