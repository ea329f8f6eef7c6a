//! What made tasks late: verdicts first, then for each cause a typical late
//! wake-up beside an on-time one, the contrast, and what the captures were.

use crate::doc::{Axis, Block, Column, Plot, Scale, Section, Series, SeriesKind, Table};
use latlab_core::explain::budget::{Cause, Stage};
use latlab_core::explain::cluster::{Cluster, Mechanism};
use latlab_core::explain::contrast::{Difference, Row};
use latlab_core::explain::observer::{Effect, Observer};
use latlab_core::explain::result::{Hunt, Pair, Sketch, WhyResult};
use latlab_core::explain::verdict::none_seen;
use latlab_core::finding::Confidence;
use latlab_core::run::Part;
use latlab_core::units::format_ns;

/// The sections of a `why` part.
pub fn sections(part: &Part, result: &WhyResult) -> Vec<Section> {
    let mut blocks = Vec::new();
    if !part.complete {
        blocks.push(Block::Warning(
            "This was cut short; what was captured until then is below.".into(),
        ));
    }
    if let Some(hunt) = &result.hunt {
        blocks.extend(observer_warning(hunt));
    }
    if !result.explanation.clusters.is_empty() {
        blocks.push(Block::Table(causes(result)));
    }
    blocks.push(Block::Findings(part.findings.clone()));
    let mut sections =
        vec![Section { id: "why".into(), title: "What made it late".into(), blocks }];
    if !result.sketches.is_empty() {
        let blocks = result.sketches.iter().flat_map(|p| pair(result, p)).collect();
        sections.push(section(
            "why-typical",
            "Typical late wake-ups and their time budgets",
            blocks,
        ));
    }
    if !result.explanation.contrast.rows.is_empty() {
        let blocks = vec![Block::Table(contrast(result))];
        sections.push(section("why-contrast", "Late against on-time wake-ups", blocks));
    }
    let mut how = Vec::new();
    if let Some(hunt) = &result.hunt {
        how.extend(hunted(result, hunt));
    }
    how.push(Block::Table(captures(result)));
    sections.push(section("why-captures", "Captures", how));
    sections
}

/// The result in words.
pub fn summary(result: &WhyResult) -> Vec<String> {
    let contrast = &result.explanation.contrast;
    let limit = format_ns(result.limit_ns as f64);
    if contrast.late == 0 {
        let seen = result.hunt.as_ref().map_or(contrast.on_time as u64, |h| h.wakeups);
        let over = if result.limit_ns > 0 { format!(" later than {limit}") } else { String::new() };
        return match none_seen(seen) {
            Some(rate) => vec![format!(
                "No wake-up{over} among {seen}: fewer than {} in a million with 95% confidence.",
                significant(rate * 1e6)
            )],
            None => vec![format!(
                "No wake-up{over}, and none on time either: there is nothing to explain."
            )],
        };
    }
    let s = |n: usize| if n == 1 { "" } else { "s" };
    let wake_ups = format!("wake-up{}", s(contrast.late));
    let what = if result.limit_ns > 0 {
        format!("{wake_ups} later than {limit}")
    } else {
        format!("late {wake_ups}")
    };
    let captures = result.captures.len();
    let mut sentences = vec![format!(
        "{} {what} in {captures} capture{}, {} on-time one{} beside {}.",
        contrast.late,
        s(captures),
        contrast.on_time,
        s(contrast.on_time),
        if contrast.late == 1 { "it" } else { "them" }
    )];
    let unexplained = result.explanation.unexplained_share;
    if unexplained >= 0.005 {
        sentences.push(format!("{:.0}% of the lateness is unexplained.", unexplained * 100.0));
    }
    sentences
}

/// Two significant digits, without exponent where it is short.
fn significant(x: f64) -> String {
    if x >= 100.0 {
        format!("{x:.0}")
    } else if x >= 1.0 {
        format!("{x:.1}")
    } else {
        format!("{x:.2}")
    }
}

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section { id: id.into(), title: title.into(), blocks }
}

fn causes(result: &WhyResult) -> Table {
    let row = |c: &Cluster| {
        vec![
            c.mechanism.title().to_owned(),
            c.who.clone(),
            format!("{:.0}%", c.share_of_late * 100.0),
            format!("{:.0}%", c.share_of_lateness * 100.0),
            format_ns(c.excess_ns),
            c.period_ns.map_or(String::new(), |(p, _)| format!("every {}", format_ns(p))),
            match c.confidence {
                Confidence::Sure => "sure",
                Confidence::Likely => "likely",
                Confidence::CannotTell => "cannot tell",
            }
            .to_owned(),
        ]
    };
    let mut rows: Vec<Vec<String>> = result.explanation.clusters.iter().map(row).collect();
    let named: f64 = result.explanation.clusters.iter().map(|c| c.share_of_lateness).sum();
    let mut rest = vec![String::new(); 7];
    rest[0] = "smaller parts together".into();
    rest[3] = format!("{:.0}%", (1.0 - named).max(0.0) * 100.0);
    rows.push(rest);
    Table {
        caption: "Causes, the one that explains most of the lateness first".into(),
        columns: vec![
            Column::left("cause"),
            Column::left("who"),
            Column::right("main cause of"),
            Column::right("of the lateness"),
            Column::right("delay, median"),
            Column::left("rhythm"),
            Column::left("how sure"),
        ],
        rows,
    }
}

fn pair(result: &WhyResult, pair: &Pair) -> Vec<Block> {
    let Some(cluster) = result.explanation.clusters.get(pair.cluster) else { return vec![] };
    let who = if cluster.who.is_empty() { String::new() } else { format!(": {}", cluster.who) };
    let mut blocks = vec![Block::Heading(format!("{}{who}", cluster.mechanism.title()))];
    let mut plot = Plot {
        id: format!("why-budget-{}", pair.cluster),
        title: "Time budget".into(),
        description: describe(&pair.late),
        x: Axis { label: "after the intended time (µs)".into(), ..Axis::default() },
        y: Axis {
            scale: Scale::Category,
            categories: vec!["late".into(), "on time".into()],
            ..Axis::default()
        },
        ..Plot::default()
    };
    spans(&mut plot, &pair.late, 0.0);
    if let Some(on_time) = &pair.on_time {
        spans(&mut plot, on_time, 1.0);
    }
    blocks.push(Block::Plot(Box::new(plot)));
    blocks.push(Block::Table(parts(&pair.late)));
    blocks
}

fn spans(plot: &mut Plot, sketch: &Sketch, lane: f64) {
    for part in &sketch.parts {
        let name = cause_name(part.cause);
        let at = plot.series.iter().position(|s| s.name == name).unwrap_or_else(|| {
            let kind = SeriesKind::Spans;
            plot.series.push(Series { name: name.to_owned(), kind, ..Series::default() });
            plot.series.len() - 1
        });
        plot.series[at].points.push((part.start_ns as f64 / 1e3, lane));
        plot.series[at].values.push(part.end_ns as f64 / 1e3);
    }
}

/// The budget in words, for those who cannot see the plot.
fn describe(sketch: &Sketch) -> String {
    let mut longest: Vec<_> = sketch.parts.iter().collect();
    longest.sort_by_key(|p| std::cmp::Reverse(p.end_ns - p.start_ns));
    let words: Vec<String> = longest
        .iter()
        .take(4)
        .map(|p| format!("{} {}", cause_name(p.cause), format_ns((p.end_ns - p.start_ns) as f64)))
        .collect();
    format!("The parts of the latency, longest first: {}.", words.join(", "))
}

/// The parts of a late wake-up; those under a hundredth of it are summed.
fn parts(sketch: &Sketch) -> Table {
    let total = sketch.parts.last().map_or(0, |p| p.end_ns).max(1);
    let mut rows = Vec::new();
    let mut small = 0;
    for p in &sketch.parts {
        let length = p.end_ns - p.start_ns;
        if length * 100 < total {
            small += length;
            continue;
        }
        rows.push(vec![
            format_ns(p.start_ns as f64),
            format_ns(length as f64),
            stage_name(p.stage).to_owned(),
            cause_name(p.cause).to_owned(),
            p.who.clone(),
        ]);
    }
    if small > 0 {
        let all = "shorter parts together".to_owned();
        rows.push(vec![String::new(), format_ns(small as f64), String::new(), all, String::new()]);
    }
    let sum = format_ns(total as f64);
    rows.push(vec![String::new(), sum, String::new(), "the latency".into(), String::new()]);
    Table {
        caption: format!(
            "Time budget of a typical late wake-up ({}, CPU {})",
            sketch.source, sketch.cpu
        ),
        columns: vec![
            Column::right("after"),
            Column::right("for"),
            Column::left("stage"),
            Column::left("cause"),
            Column::left("who ran"),
        ],
        rows,
    }
}

fn contrast(result: &WhyResult) -> Table {
    let row = |r: &Row| {
        let name = match (&r.function, r.group.who.as_str()) {
            (Some(f), _) => format!("{f}()"),
            (None, "") => String::new(),
            (None, who) => who.to_owned(),
        };
        vec![
            cause_name(r.group.cause).to_owned(),
            name,
            format_ns(r.late_ns),
            format_ns(r.on_time_ns),
            format!("{:.0}", r.late_times),
            format!("{:.0}", r.on_time_times),
            match r.kind {
                Difference::OnlyLate => "only when late",
                Difference::MoreOften => "more often",
                Difference::Longer => "longer",
                Difference::Both => "more often and longer",
                Difference::Neither => "",
            }
            .to_owned(),
            format!("{:.2}", r.delta),
            if r.p < 1e-4 { "<0.0001".into() } else { format!("{:.4}", r.p) },
        ]
    };
    let mut caption = "Medians per wake-up; p is corrected for all rows that were tried".to_owned();
    let stall = |c: &Cluster| c.mechanism == Mechanism::Stall;
    if result.explanation.clusters.iter().any(stall) {
        caption += ". A stall's time stands with whoever had the CPU when it began";
    }
    Table {
        caption,
        columns: vec![
            Column::left("cause"),
            Column::left("who"),
            Column::right("late"),
            Column::right("on time"),
            Column::right("times late"),
            Column::right("times on time"),
            Column::left("difference"),
            Column::right("delta"),
            Column::right("p"),
        ],
        rows: result.explanation.contrast.rows.iter().take(15).map(row).collect(),
    }
}

fn captures(result: &WhyResult) -> Table {
    let rows = result.captures.iter().take(50).map(|c| {
        vec![
            c.source.clone(),
            c.events.to_string(),
            format_ns(c.length_ns as f64),
            c.late.to_string(),
            c.on_time.to_string(),
            c.holes.to_string(),
            c.notes.join("; "),
        ]
    });
    let beyond = result.captures.len().saturating_sub(50);
    let caption = if beyond > 0 {
        format!("The first 50; {beyond} more are in run.json")
    } else {
        String::new()
    };
    Table {
        caption,
        columns: vec![
            Column::left("file"),
            Column::right("events"),
            Column::right("length"),
            Column::right("late"),
            Column::right("on time"),
            Column::right("holes"),
            Column::left("notes"),
        ],
        rows: rows.collect(),
    }
}

fn hunted(result: &WhyResult, hunt: &Hunt) -> Vec<Block> {
    let mut pairs = vec![
        (
            "late is later than".to_owned(),
            format!("{} ({})", format_ns(result.limit_ns as f64), result.limit_reason),
        ),
        ("traced".to_owned(), hunt.traced.clone()),
        ("wake-ups while armed".to_owned(), hunt.wakeups.to_string()),
        ("late".to_owned(), hunt.late.to_string()),
        ("late but not captured".to_owned(), hunt.late_not_captured.to_string()),
        (
            "dead time between captures".to_owned(),
            format!("{} of {}", format_ns(hunt.dead_ns as f64), format_ns(hunt.hunted_ns as f64)),
        ),
    ];
    pairs.extend(hunt.steps.iter().map(|s| ("stepped down".to_owned(), s.clone())));
    let mut blocks = vec![Block::Pairs(pairs)];
    if let Some(observer) = &hunt.observer {
        blocks.push(Block::Text(effect_sentence(observer.effect).into()));
        if !observer.shifts.is_empty() {
            blocks.push(Block::Table(shifts(observer)));
        }
    }
    blocks
}

fn shifts(observer: &Observer) -> Table {
    let row = |s: &latlab_core::explain::observer::Shift| {
        vec![
            super::quantile_name(s.q),
            format_ns(s.untraced_ns),
            format_ns(s.traced_ns),
            format_ns(s.shift_ns),
            format!("{} to {}", format_ns(s.low_ns), format_ns(s.high_ns)),
        ]
    };
    Table {
        caption: format!(
            "Tracing off and on, {} interleaved blocks a side of {} wake-ups in all",
            observer.blocks, observer.wakeups
        ),
        columns: vec![
            Column::left("quantile"),
            Column::right("untraced"),
            Column::right("traced"),
            Column::right("shift"),
            Column::right("95% interval"),
        ],
        rows: observer.shifts.iter().map(row).collect(),
    }
}

fn observer_warning(hunt: &Hunt) -> Option<Block> {
    let effect = hunt.observer.as_ref()?.effect;
    match effect {
        Effect::Changed | Effect::MakesLate => Some(Block::Warning(effect_sentence(effect).into())),
        _ => None,
    }
}

fn effect_sentence(effect: Effect) -> &'static str {
    match effect {
        Effect::Small => "Tracing moved no quantile by more than a tenth of the limit.",
        Effect::Shifted => "Tracing shifted the whole distribution and left its shape.",
        Effect::Changed => {
            "Tracing changed the distribution: a cause found here need not be the one without tracing."
        }
        Effect::MakesLate => "Tracing itself made tasks late.",
        Effect::CannotTell => {
            "Whether tracing changed the distribution cannot be told from so few blocks."
        }
    }
}

/// A cause in a few words.
fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Path => "ordinary path",
        Cause::ProgrammedLate => "programmed late",
        Cause::InterruptsOff => "interrupts off",
        Cause::Interrupt => "interrupt handler",
        Cause::TimerFunction => "timer function",
        Cause::Nmi => "NMI",
        Cause::IdleExit => "idle exit",
        Cause::PreemptionOff => "until the running task gave way",
        Cause::Softirq => "softirq",
        Cause::HigherPriority => "higher priority",
        Cause::EqualPriority => "equal priority",
        Cause::Throttled => "throttled",
        Cause::Lock => "lock",
        Cause::PageFault => "page fault",
        Cause::Overrun => "own overrun",
        Cause::Stall => "stall",
        Cause::Unexplained => "unexplained",
    }
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Interrupt => "until the timer interrupt",
        Stage::Handlers => "until our timer's turn",
        Stage::Wake => "until woken",
        Stage::Schedule => "until switched in",
        Stage::Return => "until in user space",
    }
}
