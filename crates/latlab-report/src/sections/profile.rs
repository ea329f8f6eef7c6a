//! Functions of a trace, or of two: counts and times, callers, the longest calls, differences.

use crate::doc::{Block, Column, Section, Table};
use crate::plot::distribution::{self, Named, Subject};
use crate::values::grouped;
use latlab_model::profile::{
    Caller, Change, FunctionProfile, LongCall, LongestLatency, Origin, Profile, ProfileDetail, Step,
};
use latlab_model::record::Unit;
use latlab_model::run::Part;
use latlab_model::units::format_ns;

/// Rows of a table.
const ROWS: usize = 50;
/// Rows of the table of callers.
const CALLERS: usize = 30;
/// Longest calls on the first screen.
const LONGEST: usize = 6;
/// Functions of a chain that are shown on the first screen.
const CHAIN: usize = 4;
/// Functions that share a plot.
const PLOTTED: usize = 6;

/// The sections of a `profile` part.
pub fn sections(part: &Part, detail: &ProfileDetail) -> Vec<Section> {
    let mut blocks = vec![Block::Findings(part.findings.clone())];
    if detail.other.is_some() {
        blocks.push(Block::Table(changes(detail)));
    }
    let title = part.title.clone();
    let mut sections = vec![Section { id: part.name.clone(), title, blocks }];
    let several = detail.other.is_some();
    let profiles = [Some(&detail.profile), detail.other.as_ref()];
    for (n, profile) in profiles.into_iter().flatten().enumerate() {
        let id = format!("{}-{}", part.name, n + 1);
        let blocks = of_one(&id, profile);
        match several {
            true => sections.push(Section { id, title: profile.source.clone(), blocks }),
            false => sections[0].blocks.extend(blocks),
        }
    }
    sections
}

fn of_one(id: &str, profile: &Profile) -> Vec<Block> {
    let mut blocks: Vec<Block> = profile.latency.iter().map(|l| Block::Table(steps(l))).collect();
    blocks.push(Block::Table(functions(profile)));
    if !profile.longest.is_empty() {
        blocks.push(Block::Table(longest(profile, usize::MAX)));
    }
    blocks.push(Block::Table(callers(profile)));
    let named: Vec<Named> = (profile.functions.iter())
        .filter_map(|f| Some((f.name.clone(), f.time.as_ref()?)))
        .take(PLOTTED)
        .collect();
    if !named.is_empty() {
        let subject = Subject {
            id,
            title: "Length of calls",
            quantity: "length without time off the CPU",
            counted: "calls",
            unit: Unit::Ns,
        };
        let mut histogram = distribution::histogram(&subject, &named);
        histogram.marks.clear();
        blocks.push(Block::Plot(Box::new(histogram)));
    }
    blocks
}

/// The first screen: functions and longest calls, or the differences.
pub fn screen(detail: &ProfileDetail) -> Vec<Block> {
    if detail.other.is_some() {
        return vec![Block::Table(changes(detail))];
    }
    let mut blocks = Vec::new();
    if let Some(latency) = &detail.profile.latency {
        let mut table = steps(latency);
        table.rows.truncate(LONGEST);
        blocks.push(Block::Table(table));
    }
    blocks.push(Block::Table(functions(&detail.profile)));
    if !detail.profile.longest.is_empty() {
        let mut table = longest(&detail.profile, CHAIN);
        table.rows.truncate(LONGEST);
        blocks.push(Block::Table(table));
    }
    blocks
}

/// The result in words.
pub fn summary(detail: &ProfileDetail) -> Vec<String> {
    let profiles = [Some(&detail.profile), detail.other.as_ref()];
    let of = |p: &Profile| {
        let latency = p.latency.as_ref().map(latency_sentence);
        latency.into_iter().chain([sentence(p, detail.other.is_some())]).collect::<Vec<_>>()
    };
    profiles.into_iter().flatten().flat_map(of).collect()
}

fn sentence(p: &Profile, named: bool) -> String {
    let before = if named { format!("{}: ", p.source) } else { String::new() };
    let what = match p.origin {
        Origin::FunctionGraph => format!(
            "{} calls of {} functions, {} of own time in {}",
            grouped(p.count),
            grouped(p.functions_seen),
            format_ns(p.self_ns as f64),
            format_ns(p.length_ns as f64),
        ),
        Origin::Function => format!(
            "{} calls of {} functions in {}; the tracer function records no lengths",
            grouped(p.count),
            grouped(p.functions_seen),
            format_ns(p.length_ns as f64),
        ),
        Origin::Stacks => format!(
            "{} stacks with {} functions in {}",
            grouped(p.count),
            grouped(p.functions_seen),
            format_ns(p.length_ns as f64),
        ),
    };
    let partial = match p.partial {
        0 => String::new(),
        1 => "; 1 call recorded in part, not counted".to_owned(),
        n => format!("; {} calls recorded in part, not counted", grouped(n)),
    };
    format!("{before}{what}{partial}.")
}

fn time(ns: Option<u64>) -> String {
    ns.map_or("–".into(), |ns| format_ns(ns as f64))
}

fn functions(profile: &Profile) -> Table {
    let share = |of: u64, all: u64| format!("{:.1} %", 100.0 * of as f64 / all.max(1) as f64);
    let left = [Column::left("function"), Column::right("count")];
    let caption = |text: &str| match profile.functions.len().saturating_sub(ROWS) {
        0 => text.to_owned(),
        n => format!("{text}; {n} more in the JSON output"),
    };
    let shown = profile.functions.iter().take(ROWS);
    match profile.origin {
        Origin::FunctionGraph => Table {
            caption: caption("Functions by own time; times without time off the CPU"),
            columns: left
                .into_iter()
                .chain([
                    Column::right("own"),
                    Column::right("total"),
                    Column::right("min").optional(2),
                    Column::right("median"),
                    Column::right("max"),
                    Column::right("off CPU").optional(1),
                ])
                .collect(),
            rows: shown.map(timed).collect(),
        },
        Origin::Stacks => Table {
            caption: caption("Functions by stacks in which they are innermost"),
            columns: vec![
                Column::left("function"),
                Column::right("innermost"),
                Column::right("share"),
                Column::right("in stacks"),
                Column::right("share"),
            ],
            rows: shown
                .map(|f| {
                    let inner = f.innermost.unwrap_or(0);
                    vec![
                        f.name.clone(),
                        grouped(inner),
                        share(inner, profile.count),
                        grouped(f.count),
                        share(f.count, profile.count),
                    ]
                })
                .collect(),
        },
        Origin::Function => Table {
            caption: caption("Functions by calls"),
            columns: left
                .into_iter()
                .chain([Column::right("share"), Column::left("most calls by")])
                .collect(),
            rows: shown
                .map(|f| {
                    let caller = f.callers.first().map_or(String::new(), caller_name);
                    vec![f.name.clone(), grouped(f.count), share(f.count, profile.count), caller]
                })
                .collect(),
        },
    }
}

fn timed(f: &FunctionProfile) -> Vec<String> {
    let h = f.time.as_ref();
    vec![
        f.name.clone(),
        grouped(f.count),
        time(f.self_ns),
        time(f.total_ns),
        time(h.map(|h| h.min)),
        time(h.and_then(|h| h.quantile(0.5))),
        time(h.map(|h| h.max)),
        time(f.off_cpu_ns),
    ]
}

fn caller_name(c: &Caller) -> String {
    if c.name.is_empty() { "(none recorded)".into() } else { c.name.clone() }
}

fn longest(profile: &Profile, most: usize) -> Table {
    let row = |call: &LongCall| {
        let mut chain: Vec<&str> = call.chain.iter().map(|l| l.name.as_str()).collect();
        if chain.len() > most {
            // The first, where most of them begin, and the last, which has the time.
            let behind = chain.split_off(chain.len() - most / 2);
            chain.truncate(most - behind.len());
            chain.push("…");
            chain.extend(behind);
        }
        let length = call.chain.first().map(|l| l.length_ns);
        let callee = call.longest_callee.as_ref();
        let callee = callee.map(|c| format!("{} {}", c.name, format_ns(c.length_ns as f64)));
        vec![
            time(length),
            chain.join(" → "),
            time(Some(call.self_ns)),
            callee.unwrap_or_else(|| "–".into()),
            call.callers.last().cloned().filter(|c| !c.is_empty()).unwrap_or_else(|| "–".into()),
            task_and_tid(&call.task, call.tid, ""),
            call.cpu.to_string(),
            format!("{}.{:06}", call.start_ns / 1_000_000_000, call.start_ns / 1_000 % 1_000_000),
            time(Some(call.off_cpu_ns)),
        ]
    };
    Table {
        caption: "Longest calls; after →: the call in it that took nine tenths of its time".into(),
        columns: vec![
            Column::right("length"),
            Column::left("call"),
            Column::right("own"),
            Column::left("longest callee").optional(2),
            Column::left("called by").optional(1),
            Column::left("task").optional(3),
            Column::right("CPU").optional(4),
            Column::right("at (s)"),
            Column::right("off CPU").optional(5),
        ],
        rows: profile.longest.iter().map(row).collect(),
    }
}

/// As ftrace prints it; `neither` where both are unknown.
fn task_and_tid(task: &str, tid: i32, neither: &str) -> String {
    match (task, tid) {
        ("", 0) => neither.into(),
        ("", tid) => tid.to_string(),
        (task, tid) => format!("{task}-{tid}"),
    }
}

/// Where the time of the longest latency passed.
fn steps(latency: &LongestLatency) -> Table {
    let all = latency.length_ns.max(1) as f64;
    let first = latency.steps.iter().map(|s| s.start_ns).min().unwrap_or(0);
    let row = |s: &Step| {
        vec![
            time(Some(s.length_ns)),
            format!("{:.1} %", 100.0 * s.length_ns as f64 / all),
            s.from.clone(),
            if s.caller.is_empty() { "–".into() } else { s.caller.clone() },
            s.to.clone(),
            task_and_tid(&s.task, s.tid, "idle"),
            s.cpu.to_string(),
            time(Some(s.start_ns - first)),
        ]
    };
    Table {
        caption: "Longest steps, from a recorded function or event to the next one".into(),
        columns: vec![
            Column::right("length"),
            Column::right("of the latency"),
            Column::left("from"),
            Column::left("called by").optional(1),
            Column::left("to"),
            Column::left("task").optional(2),
            Column::right("CPU").optional(4),
            Column::right("at").optional(3),
        ],
        rows: latency.steps.iter().map(row).collect(),
    }
}

/// The length of the longest latency, of which task, and between which functions.
fn latency_sentence(latency: &LongestLatency) -> String {
    let who = match latency.task.is_empty() {
        true => String::new(),
        false => format!(", task {}-{}", latency.task, latency.tid),
    };
    let between = match latency.started_at.is_empty() {
        true => String::new(),
        false => format!(", from {}() to {}()", latency.started_at, latency.ended_at),
    };
    let ns = format_ns(latency.length_ns as f64);
    format!("Longest latency of the tracer {}: {ns}{who}{between}.", latency.tracer)
}

fn callers(profile: &Profile) -> Table {
    let is_timed = profile.origin == Origin::FunctionGraph;
    let row = |f: &FunctionProfile| {
        let list = f.callers.iter().take(5).map(|c| {
            let time = if is_timed {
                format!(", {}", format_ns(c.total_ns as f64))
            } else {
                String::new()
            };
            format!("{} ({}{time})", caller_name(c), grouped(c.count))
        });
        vec![f.name.clone(), list.collect::<Vec<_>>().join(", ")]
    };
    Table {
        caption: if is_timed {
            "Callers, with calls and their time"
        } else {
            "Callers, with calls"
        }
        .into(),
        columns: vec![Column::left("function"), Column::left("called by")],
        rows: profile.functions.iter().take(CALLERS).map(row).collect(),
    }
}

fn changes(detail: &ProfileDetail) -> Table {
    let is_timed = detail.profile.origin == Origin::FunctionGraph;
    let share = |v: f64| format!("{:.2} %", v / 1e7);
    let signed = |v: f64| format!("{:+.2} %", v / 1e7);
    let rate = |v: f64| crate::values::grouped(v.round() as u64);
    let row = |c: &Change| {
        let mut cells = vec![c.name.clone(), rate(c.count[0]), rate(c.count[1])];
        if is_timed {
            cells.extend([share(c.self_ns[0]), share(c.self_ns[1])]);
            cells.push(signed(c.by_count_ns));
            cells.push(signed(c.by_length_ns));
            cells.extend(c.median_ns.map(time));
        }
        cells
    };
    let mut columns = vec![Column::left("function")];
    columns.extend([Column::right("calls/s A"), Column::right("B")]);
    if is_timed {
        columns.extend([Column::right("own time A"), Column::right("B")]);
        columns.push(Column::right("by calls"));
        columns.push(Column::right("by length"));
        columns.extend([Column::right("median A").optional(1), Column::right("B").optional(1)]);
    }
    let of = if is_timed { "own time, per cent of the trace's length" } else { "number" };
    let b = detail.other.as_ref().map_or("", |p| &p.source);
    Table {
        caption: format!("Functions by difference of {of}; A: {}, B: {b}", detail.profile.source),
        columns,
        rows: detail.changes.iter().take(ROWS).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::profile::Link;
    use latlab_model::run::Detail;
    use latlab_stats::histogram::Histogram;

    fn link(name: &str, length_ns: u64) -> Link {
        Link { name: name.into(), length_ns }
    }

    #[test]
    fn a_profile_reads_well_as_text() {
        let function = FunctionProfile {
            name: "activate_task".into(),
            count: 3,
            total_ns: Some(28_123_000),
            self_ns: Some(1_000),
            off_cpu_ns: Some(0),
            time: Some(Histogram::of([3_000, 3_000, 28_117_000])),
            callers: vec![Caller {
                name: "ttwu_do_activate".into(),
                count: 3,
                total_ns: 28_123_000,
            }],
            ..FunctionProfile::default()
        };
        let call = LongCall {
            chain: vec![link("activate_task", 28_117_000), link("update_curr_rt", 28_110_000)],
            self_ns: 28_110_000,
            start_ns: 5_586_207_717_000,
            callers: vec!["ttwu_do_activate".into()],
            ..LongCall::default()
        };
        let profile = Profile {
            count: 3,
            functions_seen: 1,
            functions: vec![function],
            longest: vec![call],
            partial: 2,
            ..Profile::default()
        };
        let detail = ProfileDetail { profile, ..ProfileDetail::default() };
        assert_eq!(
            summary(&detail),
            [
                "3 calls of 1 functions, 0 ns of own time in 0 ns; 2 calls recorded in part, not counted."
            ]
        );
        let part = Part {
            name: "profile".into(),
            title: "Functions".into(),
            detail: Some(Detail::Profile(Box::new(detail.clone()))),
            ..Part::default()
        };
        let mut out = Vec::new();
        let options = crate::text::TextOptions { width: 200, ..Default::default() };
        crate::text::render_sections(&sections(&part, &detail), &options, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for expected in [
            "28.1 ms  activate_task → update_curr_rt",
            "5586.207717",
            "ttwu_do_activate (3, 28.1 ms)",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
