//! Causes of latency: the findings, for each cause a typical late wake-up beside an on-time one, the
//! comparison of late and on-time wake-ups, and the captures.

use super::why_activations;
use crate::doc::{Axis, Block, Column, Plot, Scale, Section, Series, SeriesKind, Table};
use crate::messages;
use latlab_model::latency::RejectedPreset;
use latlab_model::latency::{BreakdownExample, CaptureSession, Pair, WhyResult};
use latlab_model::latency::{Difference, Row};
use latlab_model::latency::{Effect, TracingOverhead};
use latlab_model::latency::{Mechanism, RootCause};
use latlab_model::run::Part;
use latlab_model::units::format_ns;
use latlab_stats::proportion::zero_cases_bound;

/// The sections of a `why` part.
pub fn sections(part: &Part, result: &WhyResult) -> Vec<Section> {
    let mut blocks = Vec::new();
    if !part.complete {
        blocks.push(Block::Warning(
            "Incomplete: the captures up to the interruption are below.".into(),
        ));
    }
    if let Some(session) = &result.session {
        blocks.extend(overhead_warning(session));
    }
    blocks.extend(why_activations::tables(result));
    if !result.explanation.causes.is_empty() {
        blocks.push(Block::Table(causes(result)));
    }
    blocks.push(Block::Findings(part.findings.clone()));
    let mut sections =
        vec![Section { id: "why".into(), title: "Causes of latency".into(), blocks }];
    let plots = why_activations::plots(result);
    if !plots.is_empty() {
        sections.push(section("why-activations", "Activations", plots));
    }
    if !result.examples.is_empty() {
        let blocks = result.examples.iter().flat_map(|p| pair(result, p)).collect();
        sections.push(section("why-typical", "Latency breakdown of typical late wake-ups", blocks));
    }
    if !result.explanation.contrast.rows.is_empty() {
        let blocks = vec![Block::Table(contrast(result))];
        sections.push(section("why-contrast", "Late against on-time wake-ups", blocks));
    }
    let mut blocks = Vec::new();
    if let Some(session) = &result.session {
        blocks.extend(capture_session(result, session));
    }
    blocks.push(Block::Table(captures(result)));
    sections.push(section("why-captures", "Captures", blocks));
    sections
}

/// The first screen: the causes.
pub fn screen(result: &WhyResult) -> Vec<Block> {
    let mut blocks = why_activations::tables(result);
    if !result.explanation.causes.is_empty() {
        blocks.push(Block::Table(causes(result)));
    }
    blocks
}

/// The result in words.
pub fn summary(result: &WhyResult) -> Vec<String> {
    if !result.activations.is_empty() {
        return why_activations::summary(result);
    }
    let contrast = &result.explanation.contrast;
    let limit = format_ns(result.limit_ns as f64);
    if contrast.late == 0 {
        let in_files = wakeups(result).0.max(contrast.on_time as u64);
        let seen = result.session.as_ref().map_or(in_files, |s| s.wakeups);
        let over = if result.limit_ns > 0 { format!(" later than {limit}") } else { String::new() };
        if let Some(session) = result.session.as_ref().filter(|s| s.late > 0) {
            return vec![unseen(session, &over)];
        }
        return match zero_cases_bound(seen) {
            Some(rate) => vec![format!(
                "No wake-up{over} among {seen}: at most {} per million (95 % confidence), if wake-ups are independent.",
                significant(rate * 1e6)
            )],
            None => vec!["No wake-up was measured.".into()],
        };
    }
    let s = |n: usize| if n == 1 { "" } else { "s" };
    let captures = result.captures.len();
    let (all, late) = wakeups(result);
    // Captures of a session are taken because of a late wake-up: they hold no share of all.
    let late = match (&result.session, result.limit_ns) {
        (None, 0) if all > 0 => format!("{late} of {all} wake-ups late"),
        (None, _) if all > 0 => format!("{late} of {all} wake-ups later than {limit}"),
        (_, 0) => format!("{} late wake-up{}", contrast.late, s(contrast.late)),
        _ => format!("{} wake-up{} later than {limit}", contrast.late, s(contrast.late)),
    };
    let mut sentences = vec![format!(
        "{late} in {captures} capture{}; {} on-time wake-up{} for comparison.",
        s(captures),
        contrast.on_time,
        s(contrast.on_time)
    )];
    sentences.extend(result.session.as_ref().and_then(|s| not_captured(result, s)));
    let unexplained = result.explanation.unexplained_share;
    if unexplained >= 0.005 {
        sentences.push(format!("Unexplained share of the lateness: {:.0} %.", unexplained * 100.0));
    }
    sentences
}

/// Late wake-ups of which no capture has one.
fn unseen(session: &CaptureSession, over: &str) -> String {
    let over = if over.is_empty() { " late" } else { over };
    let (late, all) = (session.late, session.wakeups.max(session.late));
    let s = if all == 1 { "" } else { "s" };
    let worst = session.worst_ns;
    let worst = worst.map_or(String::new(), |w| format!(", the worst {}", format_ns(w as f64)));
    let none = match (session.late_not_captured >= late, late) {
        (true, 1) => "it was not captured",
        (true, _) => "none was captured",
        (false, _) => "none was found in the captures",
    };
    format!("{late} of {all} wake-up{s}{over}{worst}; {none}.")
}

/// Late wake-ups that are in no capture.
fn not_captured(result: &WhyResult, session: &CaptureSession) -> Option<String> {
    let n = session.late_not_captured;
    let captured = result.windows.iter().filter(|w| w.late).map(|w| w.latency_ns).max()?;
    let worst = match session.worst_ns.filter(|&worst| worst > captured) {
        Some(worst) if n == 1 => format!(", the latest of all ({}),", format_ns(worst as f64)),
        Some(worst) => format!(", the latest of all ({}) among them,", format_ns(worst as f64)),
        None => String::new(),
    };
    let (s, are) = if n == 1 { ("", "is") } else { ("s", "are") };
    (n > 0).then(|| {
        format!("{n} more late wake-up{s}{worst} came between captures and {are} not explained.")
    })
}

/// Wake-ups of the measured tasks in all captures, and late ones among them.
fn wakeups(result: &WhyResult) -> (u64, u64) {
    let add = |sum: (u64, u64), c: &latlab_model::latency::CaptureNote| {
        (sum.0.saturating_add(c.wakeups), sum.1.saturating_add(c.late_wakeups))
    };
    result.captures.iter().fold((0, 0), add)
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
    let row = |c: &RootCause| {
        vec![
            messages::mechanism(c.mechanism).to_owned(),
            c.who.clone(),
            format!("{:.0} %", c.share_of_late * 100.0),
            format!("{:.0} %", c.share_of_lateness * 100.0),
            format_ns(c.excess_ns),
            c.period_ns.map_or(String::new(), |(p, _)| format!("every {}", format_ns(p))),
            messages::confidence(c.confidence).to_owned(),
        ]
    };
    let mut rows: Vec<Vec<String>> = result.explanation.causes.iter().map(row).collect();
    let named: f64 = result.explanation.causes.iter().map(|c| c.share_of_lateness).sum();
    let mut rest = vec![String::new(); 7];
    rest[0] = "other causes".into();
    rest[3] = format!("{:.0} %", (1.0 - named).max(0.0) * 100.0);
    rows.push(rest);
    Table {
        caption: "Causes, by share of the lateness".into(),
        columns: vec![
            Column::left("cause"),
            Column::left("who"),
            Column::right("main cause of").optional(2),
            Column::right("share of lateness"),
            Column::right("delay, median"),
            Column::left("period").optional(1),
            Column::left("confidence"),
        ],
        rows,
    }
}

fn pair(result: &WhyResult, pair: &Pair) -> Vec<Block> {
    let Some(cluster) = result.explanation.causes.get(pair.cause) else { return vec![] };
    let who = if cluster.who.is_empty() { String::new() } else { format!(": {}", cluster.who) };
    let mut blocks =
        vec![Block::Heading(format!("{}{who}", messages::mechanism(cluster.mechanism)))];
    let mut plot = Plot {
        id: format!("why-budget-{}", pair.cause),
        title: "Latency breakdown".into(),
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

fn spans(plot: &mut Plot, example: &BreakdownExample, lane: f64) {
    for part in &example.parts {
        let name = messages::part_cause(part);
        let at = plot.series.iter().position(|s| s.name == name).unwrap_or_else(|| {
            let kind = SeriesKind::Spans;
            plot.series.push(Series { name: name.to_owned(), kind, ..Series::default() });
            plot.series.len() - 1
        });
        plot.series[at].points.push((part.start_ns as f64 / 1e3, lane));
        plot.series[at].values.push(part.end_ns as f64 / 1e3);
    }
}

/// The longest parts, as the plot's text alternative.
fn describe(example: &BreakdownExample) -> String {
    let mut longest: Vec<_> = example.parts.iter().collect();
    longest.sort_by_key(|p| std::cmp::Reverse(p.length_ns()));
    let words: Vec<String> = longest
        .iter()
        .take(4)
        .map(|p| format!("{} {}", messages::part_cause(p), format_ns(p.length_ns() as f64)))
        .collect();
    format!("Longest parts of the latency: {}.", words.join(", "))
}

/// The parts of a late wake-up; those under a hundredth of it are summed.
fn parts(example: &BreakdownExample) -> Table {
    let total = example.parts.last().map_or(0, |p| p.end_ns).max(1);
    let mut rows = Vec::new();
    let mut small = 0;
    for p in &example.parts {
        let length = p.length_ns();
        if length.saturating_mul(100) < total {
            small = length.saturating_add(small);
            continue;
        }
        rows.push(vec![
            format_ns(p.start_ns as f64),
            format_ns(length as f64),
            messages::wakeup_stage(p.stage).to_owned(),
            messages::part_cause(p).to_owned(),
            p.who.clone(),
        ]);
    }
    if small > 0 {
        let all = "parts below 1 %".to_owned();
        rows.push(vec![String::new(), format_ns(small as f64), String::new(), all, String::new()]);
    }
    let sum = format_ns(total as f64);
    rows.push(vec![String::new(), sum, String::new(), "latency".into(), String::new()]);
    Table {
        caption: format!(
            "Latency breakdown of a typical late wake-up ({}, CPU {})",
            example.source, example.cpu
        ),
        columns: vec![
            Column::right("start"),
            Column::right("duration"),
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
            messages::cause(r.group.cause).to_owned(),
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
        ]
    };
    let mut caption =
        "Medians per wake-up, up to the event at which on-time wake-ups end".to_owned();
    let stall = |c: &RootCause| c.mechanism == Mechanism::Stall;
    if result.explanation.causes.iter().any(stall) {
        caption += ". The time of a stall is listed under the task that had the CPU when it began";
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
            Column::right("Cliff's delta"),
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
            messages::notes(&c.notes).join("; "),
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
            Column::right("lost-event gaps"),
            Column::left("notes"),
        ],
        rows: rows.collect(),
    }
}

fn capture_session(result: &WhyResult, session: &CaptureSession) -> Vec<Block> {
    let mut pairs = vec![
        (
            "limit".to_owned(),
            match result.limit_reason.as_ref().map(messages::note).filter(|r| !r.is_empty()) {
                Some(reason) => format!("{} ({reason})", format_ns(result.limit_ns as f64)),
                None => format_ns(result.limit_ns as f64),
            },
        ),
        ("traced".to_owned(), session.traced.as_ref().map(messages::note).unwrap_or_default()),
        ("wake-ups measured".to_owned(), session.wakeups.to_string()),
        ("late wake-ups".to_owned(), session.late.to_string()),
        ("late wake-ups not captured".to_owned(), session.late_not_captured.to_string()),
        (
            "dead time between captures".to_owned(),
            format!(
                "{} of {}",
                format_ns(session.dead_ns as f64),
                format_ns(session.duration_ns as f64)
            ),
        ),
    ];
    pairs.extend(
        session.rejected_presets.iter().map(|s| ("trace preset rejected".to_owned(), rejected(s))),
    );
    let mut blocks = vec![Block::Pairs(pairs)];
    if let Some(overhead) = &session.tracing_overhead {
        blocks.push(Block::Text(effect_sentence(overhead.effect).into()));
        if !overhead.shifts.is_empty() {
            blocks.push(Block::Table(shifts(overhead)));
        }
    }
    blocks
}

fn rejected(preset: &RejectedPreset) -> String {
    match preset {
        RejectedPreset::Typed { preset, reason } => {
            format!("{}: {}", messages::note(preset), messages::note(reason))
        }
        RejectedPreset::Recorded(text) => text.clone(),
    }
}

fn shifts(overhead: &TracingOverhead) -> Table {
    let row = |s: &latlab_model::latency::Shift| {
        vec![
            crate::values::quantile_name(s.q),
            format_ns(s.untraced_ns),
            format_ns(s.traced_ns),
            format_ns(s.shift_ns),
            format!("{} to {}", format_ns(s.low_ns), format_ns(s.high_ns)),
        ]
    };
    Table {
        caption: format!(
            "Tracing off and on: {} interleaved blocks per side, {} wake-ups per side",
            overhead.blocks, overhead.wakeups
        ),
        columns: vec![
            Column::left("quantile"),
            Column::right("untraced"),
            Column::right("traced"),
            Column::right("shift"),
            Column::right("95 % interval"),
        ],
        rows: overhead.shifts.iter().map(row).collect(),
    }
}

fn overhead_warning(session: &CaptureSession) -> Option<Block> {
    let effect = session.tracing_overhead.as_ref()?.effect;
    match effect {
        Effect::Changed | Effect::MakesLate => Some(Block::Warning(effect_sentence(effect).into())),
        _ => None,
    }
}

fn effect_sentence(effect: Effect) -> &'static str {
    match effect {
        Effect::Small => "Tracing overhead: no quantile shifted by more than 10 % of the limit.",
        Effect::Shifted => "Tracing overhead: the distribution is shifted, its shape unchanged.",
        Effect::Changed => {
            "Tracing overhead: the distribution changed; causes without tracing may differ."
        }
        Effect::MakesLate => "Tracing overhead: tracing alone makes wake-ups late.",
        Effect::CannotTell => {
            "Tracing overhead: inconclusive; the intervals are wider than 10 % of the limit."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::{CaptureNote, Window};

    /// From a damaged run, or a trace with times up to 2^64 ns.
    #[test]
    fn parts_of_any_times_are_listed() {
        use latlab_model::latency::{Cause, Part, Stage};
        let part = |start_ns, end_ns| Part {
            start_ns,
            end_ns,
            stage: Stage::Activation,
            cause: Cause::Execution,
            who: "task".into(),
            merged: false,
        };
        let parts = vec![part(900, 100), part(0, u64::MAX), part(u64::MAX - 1, u64::MAX)];
        let example = BreakdownExample { parts, ..BreakdownExample::default() };
        assert_eq!(super::parts(&example).rows.len(), 3, "one, the short ones, the sum");
        assert!(describe(&example).starts_with("Longest parts of the latency: own execution"));
    }

    #[test]
    fn without_a_wake_up_nothing_is_said_of_them() {
        assert_eq!(summary(&WhyResult::default()), ["No wake-up was measured."]);
    }

    /// 114 windows of 1,498 wake-ups were divided: the bound is that of all.
    #[test]
    fn a_bound_refers_to_all_wake_ups_of_a_recording() {
        let capture = CaptureNote { wakeups: 1_498, on_time: 114, ..CaptureNote::default() };
        let mut result =
            WhyResult { limit_ns: 300_000, captures: vec![capture], ..WhyResult::default() };
        result.explanation.contrast.on_time = 114;
        let said = summary(&result).concat();
        let bound =
            "among 1498: at most 1998 per million (95 % confidence), if wake-ups are independent.";
        assert!(said.contains(bound), "{said}");
        result.captures[0].late_wakeups = 3;
        result.explanation.contrast.late = 3;
        assert!(
            summary(&result)[0].starts_with("3 of 1498 wake-ups later than 300 µs in 1 capture")
        );
    }

    #[test]
    fn late_wake_ups_of_which_none_was_captured_are_not_absent() {
        let said = |late, late_not_captured| {
            let worst_ns = Some(250_000);
            let session = CaptureSession {
                wakeups: 60_000,
                late,
                late_not_captured,
                worst_ns,
                ..Default::default()
            };
            let session = Some(session);
            summary(&WhyResult { limit_ns: 100_000, session, ..WhyResult::default() }).concat()
        };
        let later = "3 of 60000 wake-ups later than 100 µs, the worst 250 µs; ";
        assert_eq!(said(3, 3), format!("{later}none was captured."));
        assert_eq!(said(3, 1), format!("{later}none was found in the captures."));
        let one = "1 of 60000 wake-ups later than 100 µs, the worst 250 µs; it was not captured.";
        assert_eq!(said(1, 1), one);
        assert!(said(0, 0).starts_with("No wake-up later than 100 µs among 60000: at most 49.9 "));
    }

    #[test]
    fn late_wake_ups_without_a_capture_are_not_explained() {
        let said = |late_not_captured, worst_ns| {
            let session = CaptureSession { late_not_captured, worst_ns, ..Default::default() };
            let late = Window { late: true, latency_ns: 74_000, ..Window::default() };
            let windows = vec![late];
            let mut result = WhyResult { windows, session: Some(session), ..WhyResult::default() };
            result.explanation.contrast.late = 1;
            summary(&result).get(1).cloned().unwrap_or_default()
        };
        let latest = "2 more late wake-ups, the latest of all (190 µs) among them, came between captures and are not explained.";
        assert_eq!(said(2, Some(190_000)), latest);
        let one = "1 more late wake-up came between captures and is not explained.";
        assert_eq!(said(1, Some(74_000)), one);
        assert_eq!(said(0, Some(190_000)), "");
    }
}
