//! The bound of the wake-up latency: its components, interrupts, response times.

use crate::doc::{Block, Column, Section, Table};
use crate::values::grouped;
use latlab_model::path::{BoundComponent, BoundDetail, BoundKind};
use latlab_model::run::Part;
use latlab_model::units::format_ns;

const ASSUMPTIONS: &str = "The bound holds for the code that was executed: a longer section that did not run is not covered. It \
    assumes one CPU, a thread of the highest priority that no other thread delays, interrupts that do not nest and \
    come as close together as each did, in any alignment of different ones.";

const ESTIMATE: &str = "An estimate: the events are those of one recording, in the order and with the delays of recording, and code that did not run \
    is not covered. The return to user space and the steps of the timer are not in it. It assumes a thread of the highest priority that no \
    other thread delays, interrupts that do not nest and come as close together as each did, in any alignment of different ones.";

/// The sections of a `bound` part.
pub fn sections(part: &Part, detail: &BoundDetail) -> Vec<Section> {
    let mut blocks = vec![Block::Findings(part.findings.clone())];
    blocks.extend(self::blocks(detail));
    vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }]
}

/// The bound with its assumptions.
pub fn blocks(detail: &BoundDetail) -> Vec<Block> {
    let mut blocks = screen(detail);
    blocks.push(Block::Text(if is_estimate(detail) { ESTIMATE } else { ASSUMPTIONS }.into()));
    blocks
}

/// The first screen: everything but the assumptions.
pub fn screen(detail: &BoundDetail) -> Vec<Block> {
    let mut blocks = Vec::new();
    if is_exceeded(detail) {
        blocks.push(Block::Warning(
            "A measured wake-up took longer than the bound: an assumption does not hold here."
                .into(),
        ));
    }
    blocks.extend([Block::Table(components(detail)), Block::Table(interrupts(detail))]);
    if !detail.tasks.is_empty() {
        blocks.push(Block::Table(tasks(detail)));
    }
    blocks
}

/// Whether it is of a recording, in which no instruction was counted.
fn is_estimate(detail: &BoundDetail) -> bool {
    detail.instructions == 0
}

/// The result in words.
pub fn summary(detail: &BoundDetail) -> Vec<String> {
    let observed = detail.observed_ns;
    let worst = format!(
        "longest of {} measured wake-ups {}",
        grouped(detail.wakeups),
        format_ns(observed as f64)
    );
    let mut sentences = vec![match bound_ns(detail) {
        Some(ns) => {
            let about = if is_estimate(detail) { "about " } else { "" };
            let time = format_ns(ns as f64);
            let bound = match is_exceeded(detail) {
                true => format!("bound of {about}{time} exceeded by a measured wake-up"),
                false => {
                    format!("wake-up latency at most {about}{time} for the code that was executed")
                }
            };
            let ratio = ns as f64 / observed.max(1) as f64;
            format!("{}: {bound}; {worst}, bound/observed {ratio:.2}.", detail.machine)
        }
        None => format!(
            "{}: no bound, because interrupts may take all of the time; {worst}.",
            detail.machine
        ),
    }];
    if detail.bound.is_some() && !is_exceeded(detail) {
        let ns = detail.bound_sporadic.and_then(|b| b.checked_mul(detail.insn_ns));
        sentences.push(match ns {
            Some(ns) => format!(
                "If each interrupt always comes at its least distance and takes its longest time: at most {}.",
                format_ns(ns as f64)
            ),
            None => "If each interrupt always came at its least distance and took its longest time, they would take all \
                of the time."
                .into(),
        });
    }
    if detail.user_wrong > 0 {
        sentences.push(format!(
            "The scheduler seemed to be postponed {} of {} times that user code ran: the bound is an estimate.",
            grouped(detail.user_wrong),
            grouped(detail.user_checks)
        ));
    }
    sentences
}

fn bound_ns(detail: &BoundDetail) -> Option<u64> {
    detail.bound?.checked_mul(detail.insn_ns)
}

fn is_exceeded(detail: &BoundDetail) -> bool {
    bound_ns(detail).is_some_and(|ns| ns < detail.observed_ns)
}

fn kind(kind: BoundKind) -> &'static str {
    match kind {
        BoundKind::Postponed => "scheduler postponed by a thread (D_POID)",
        BoundKind::Switch => "interrupts off in the scheduler (D_ST)",
        BoundKind::Pending => "scheduler pending (D_PAIE)",
        BoundKind::Scheduler => "preemption off to schedule (D_PSD)",
        BoundKind::ReturnToUser => "return to user space",
        BoundKind::Timer => "steps of the timer",
    }
}

/// Of D_POID and D_ST the larger one is a term of the bound.
fn is_term(c: &BoundComponent, all: &[BoundComponent]) -> bool {
    let of = |kind| all.iter().find(|c| c.kind == kind).map_or(0, |c| c.longest);
    let (postponed, switch) = (of(BoundKind::Postponed), of(BoundKind::Switch));
    match c.kind {
        BoundKind::Postponed => postponed >= switch,
        BoundKind::Switch => switch > postponed,
        _ => true,
    }
}

fn components(detail: &BoundDetail) -> Table {
    let number = |n: Option<u64>| n.map_or_else(|| "none".into(), grouped);
    let taken: u64 = detail.interrupts.iter().map(|i| i.in_bound).sum();
    let total = |name: &str, n: Option<u64>| [name.into(), number(n)].to_vec();
    let row = |c: &BoundComponent| {
        let term = if is_term(c, &detail.components) { grouped(c.longest) } else { "–".into() };
        let count = if c.kind == BoundKind::Timer { String::new() } else { grouped(c.count) };
        vec![kind(c.kind).into(), term, grouped(c.longest), count, c.begins.clone(), c.ends.clone()]
    };
    let mut rows = vec![
        total("bound", detail.bound),
        total("interrupts meanwhile", detail.bound.map(|_| taken)),
    ];
    rows.iter_mut().for_each(|row| row.resize(6, String::new()));
    rows.extend(detail.components.iter().map(row));
    Table {
        caption: match is_estimate(detail) {
            true => "Bound and longest intervals without interrupts, ns".into(),
            false => format!(
                "Bound and longest intervals without interrupts, in instructions of {} ns",
                detail.insn_ns
            ),
        },
        columns: vec![
            Column::left("interval"),
            Column::right("in the bound"),
            Column::right("longest"),
            Column::right("intervals").optional(3),
            Column::left("begins in").optional(1),
            Column::left("ends in").optional(2),
        ],
        rows,
    }
}

fn interrupts(detail: &BoundDetail) -> Table {
    let or_none = |n: Option<u64>, text: fn(u64) -> String| n.map_or_else(|| "–".into(), text);
    Table {
        caption: match is_estimate(detail) {
            true => "Interrupts, ns".into(),
            false => "Interrupts, in instructions".into(),
        },
        columns: vec![
            Column::right("number"),
            Column::left("source"),
            Column::right("interrupts"),
            Column::right("longest"),
            Column::right("least distance").optional(1),
            Column::right("most in the bound"),
        ],
        rows: (detail.interrupts.iter())
            .map(|i| {
                vec![
                    or_none(i.number, |n| n.to_string()),
                    if i.source.is_empty() { "–".into() } else { i.source.clone() },
                    grouped(i.count),
                    grouped(i.longest),
                    or_none(i.least_distance, grouped),
                    grouped(i.in_bound),
                ]
            })
            .collect(),
    }
}

fn tasks(detail: &BoundDetail) -> Table {
    let ns = |ns: u64| format_ns(ns as f64);
    Table {
        caption: "Response times of the tasks, highest priority first".into(),
        columns: vec![
            Column::right("priority"),
            Column::right("execution"),
            Column::right("period"),
            Column::right("response at most"),
        ],
        rows: (detail.tasks.iter().enumerate())
            .map(|(i, t)| {
                let response = t.response_ns.map_or_else(|| "longer than the period".into(), ns);
                vec![(i + 1).to_string(), ns(t.execution_ns), ns(t.period_ns), response]
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::path::{BoundInterrupt, TaskResponse};

    fn detail() -> BoundDetail {
        let of = |kind, longest| BoundComponent { kind, longest, count: 9, ..Default::default() };
        BoundDetail {
            machine: "armv7-rt".into(),
            insn_ns: 1,
            instructions: 2_000_000,
            wakeups: 2000,
            components: vec![
                of(BoundKind::Postponed, 2_000),
                of(BoundKind::Switch, 3_000),
                of(BoundKind::Scheduler, 3_300),
            ],
            interrupts: vec![BoundInterrupt {
                number: Some(27),
                source: "arch_timer".into(),
                count: 7,
                longest: 8_000,
                least_distance: None,
                in_bound: 8_500,
            }],
            bound: Some(14_800),
            bound_sporadic: Some(20_000),
            observed_ns: 12_900,
            tasks: vec![
                TaskResponse {
                    execution_ns: 100_000,
                    period_ns: 1_000_000,
                    response_ns: Some(115_000),
                },
                TaskResponse { execution_ns: 900_000, period_ns: 1_000_000, response_ns: None },
            ],
            ..BoundDetail::default()
        }
    }

    #[test]
    fn the_larger_of_two_components_is_a_term_and_the_ratio_is_said() {
        let detail = detail();
        let said = &summary(&detail)[0];
        assert!(said.contains("at most 14.8 µs for the code that was executed; "), "{said}");
        assert!(said.ends_with("bound/observed 1.15."), "{said}");
        let table = components(&detail);
        let terms: Vec<&str> = table.rows.iter().map(|r| r[1].as_str()).collect();
        assert_eq!(terms, ["14\u{202f}800", "8\u{202f}500", "–", "3\u{202f}000", "3\u{202f}300"]);
        assert_eq!(tasks(&detail).rows[1][3], "longer than the period");
        assert!(summary(&detail)[1].ends_with("at most 20.0 µs."), "{:?}", summary(&detail));
        assert_eq!(interrupts(&detail).rows[0][..2], ["27", "arch_timer"]);
        assert_eq!(interrupts(&detail).rows[0][4], "–");
        assert!(!screen(&detail).iter().any(|b| matches!(b, Block::Warning(_))));
    }

    #[test]
    fn a_recording_has_an_estimate_in_ns() {
        let estimate = BoundDetail { instructions: 0, ..detail() };
        assert!(
            summary(&estimate)[0].contains("at most about 14.8 µs"),
            "{:?}",
            summary(&estimate)
        );
        assert!(components(&estimate).caption.ends_with("interrupts, ns"));
        assert!(
            matches!(blocks(&estimate).last(), Some(Block::Text(t)) if t.starts_with("An estimate"))
        );
    }

    #[test]
    fn a_bound_below_what_was_measured_and_none_at_all_are_said() {
        let exceeded = BoundDetail { observed_ns: 15_000, ..detail() };
        assert!(screen(&exceeded).iter().any(|b| matches!(b, Block::Warning(_))));
        let said = summary(&exceeded).concat();
        assert!(said.starts_with("armv7-rt: bound of 14.8 µs exceeded by"), "{said}");
        assert!(!said.contains("at most"), "{said}");
        let none = BoundDetail { bound: None, ..detail() };
        assert!(summary(&none)[0].contains("no bound"), "{:?}", summary(&none));
        assert_eq!(components(&none).rows[0][1], "none");
    }
}
