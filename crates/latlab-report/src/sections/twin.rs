//! Causes of a recording beside those of the virtual machine that repeats them.

use crate::doc::{Block, Column, Section, Table};
use crate::messages::mechanism;
use crate::values::grouped;
use latlab_model::run::Part;
use latlab_model::twin::{MainCause, Replay, TwinCause, TwinDetail, TwinSide};
use latlab_model::units::format_ns;

const NOT_MODELLED: &str = "Not modelled: caches, buses, DMA and devices, frequency and idle states of the processor, other CPUs, and what \
    its programs do beside the causes. Instructions take 1 ns each, so that lengths of the ordinary path are not those of the board. \
    A cause acts through the fault's own thread, timer or device: its name is another one.";

/// The sections of a `twin` part.
pub fn sections(part: &Part, detail: &TwinDetail) -> Vec<Section> {
    let mut blocks = vec![Block::Findings(part.findings.clone())];
    blocks.extend(screen(detail));
    blocks.push(Block::Text(NOT_MODELLED.into()));
    vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }]
}

/// The first screen: causes on both sides, the faults, and the command.
pub fn screen(detail: &TwinDetail) -> Vec<Block> {
    let mut blocks = vec![Block::Table(causes(detail)), Block::Table(faults(detail))];
    if !detail.command.is_empty() {
        blocks.push(Block::Text(["The machine: ", &detail.command.join(" ")].concat()));
    }
    blocks
}

/// The result in words.
pub fn summary(detail: &TwinDetail) -> Vec<String> {
    let replayed: Vec<&TwinCause> =
        detail.causes.iter().filter(|c| matches!(c.replay, Replay::Fault(_))).collect();
    let of = detail.causes.len();
    let late = |side: &TwinSide| {
        format!(
            "{} ({}): {} of {} wake-ups later than {}, {} of them captured",
            side.machine,
            side.release,
            grouped(side.late),
            grouped(side.wakeups),
            format_ns(side.limit_ns as f64),
            grouped(side.captured)
        )
    };
    let mut sentences = vec![format!("{}.", late(&detail.recorded))];
    let Some(machine) = &detail.replayed else {
        sentences.push(format!("{} of {of} causes can be repeated by faults.", replayed.len()));
        return sentences;
    };
    sentences.push(format!("{}.", late(machine)));
    let found = replayed.iter().filter(|c| c.found.is_some()).count();
    sentences.push(format!(
        "{found} of {} repeated causes are causes there, of {of} in the recording.",
        replayed.len()
    ));
    if detail.pairs > 0 {
        let open = detail.pairs.saturating_sub(detail.same).saturating_sub(detail.reversed);
        sentences.push(format!(
            "Pairs of causes whose order the recording determines: {}; the same order there: {}, the other one: {}, \
             not determined: {open}.",
            detail.pairs, detail.same, detail.reversed
        ));
    }
    if !detail.others.is_empty() {
        let others: Vec<String> = detail.others.iter().map(name).collect();
        sentences.push(format!("Causes of the virtual machine alone: {}.", others.join(", ")));
    }
    sentences
}

/// The mechanism, or those that the events do not distinguish, and who.
fn name(cause: &MainCause) -> String {
    let words = match cause.alternatives.as_slice() {
        [] => mechanism(cause.mechanism).to_owned(),
        all => all.iter().map(|m| mechanism(*m)).collect::<Vec<_>>().join(" or "),
    };
    if cause.who.is_empty() { words } else { format!("{words} ({})", cause.who) }
}

fn percent(part: u64, of: u64) -> String {
    format!("{:.0} %", part as f64 * 100.0 / of.max(1) as f64)
}

fn causes(detail: &TwinDetail) -> Table {
    let replayed = detail.replayed.as_ref();
    let row = |c: &TwinCause| {
        let there = |text: &dyn Fn(&MainCause, &TwinSide) -> String| match (replayed, &c.found) {
            (Some(side), Some(found)) => text(found, side),
            (Some(_), None) if matches!(c.replay, Replay::Fault(_)) => "not found".into(),
            _ => "–".into(),
        };
        vec![
            name(&c.recorded),
            percent(c.recorded.main_of, detail.recorded.captured),
            there(&|found, side| percent(found.main_of, side.captured)),
            format_ns(c.recorded.size_ns),
            match &c.found {
                Some(found) => format_ns(found.size_ns),
                None => "–".into(),
            },
        ]
    };
    Table {
        caption: "Causes, and the share of captured wake-ups that each is the main cause of".into(),
        columns: vec![
            Column::left("cause"),
            Column::right("recorded"),
            Column::right("repeated"),
            Column::right("length, recorded"),
            Column::right("repeated"),
        ],
        rows: detail.causes.iter().map(row).collect(),
    }
}

fn faults(detail: &TwinDetail) -> Table {
    let row = |c: &TwinCause| {
        let fault = match &c.replay {
            Replay::Fault(fault) => fault.as_str(),
            Replay::NoFault => "none: no fault has this mechanism in virtual time",
            Replay::OtherProcessor => "none: this processor has no such interrupt",
            Replay::Taken => "that of the larger cause above",
            Replay::Continuous => "none: it has most of the CPU",
            Replay::NeverMain => "none: it is the main cause of no late wake-up",
        };
        vec![name(&c.recorded), fault.to_owned()]
    };
    Table {
        caption: "Faults that stand for the causes".into(),
        columns: vec![Column::left("cause"), Column::whole("fault")],
        rows: detail.causes.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::Mechanism;

    #[test]
    fn both_sides_and_what_is_not_repeated_are_in_the_result() {
        let cause = |mechanism, replay, found| TwinCause {
            recorded: MainCause {
                mechanism,
                who: "eth0".into(),
                alternatives: Vec::new(),
                main_of: 30,
                size_ns: 250_000.0,
            },
            replay,
            found,
        };
        let there = MainCause {
            mechanism: Mechanism::Alternatives,
            who: String::new(),
            alternatives: vec![Mechanism::InterruptHandler, Mechanism::Stall],
            main_of: 10,
            size_ns: 240_000.0,
        };
        let side = |machine: &str| TwinSide {
            machine: machine.into(),
            release: "6.1".into(),
            wakeups: 10_000,
            late: 80,
            captured: 40,
            limit_ns: 110_000,
            interval_ns: 1_000_000,
        };
        let fault = Replay::Fault("irq:ns=250000,every=90000000".into());
        let mut detail = TwinDetail {
            recorded: side("board"),
            replayed: Some(side("armv7-rt")),
            causes: vec![
                cause(Mechanism::InterruptHandler, fault, Some(there)),
                cause(Mechanism::Stall, Replay::NoFault, None),
            ],
            pairs: 1,
            ..TwinDetail::default()
        };
        let text = summary(&detail).join("\n");
        let many = grouped(10_000);
        let late = format!("80 of {many} wake-ups later than 110 µs, 40 of them captured.");
        assert!(text.contains(&late) && text.starts_with("board (6.1): "), "{text}");
        assert!(text.contains("1 of 1 repeated causes are causes there, of 2 in the recording."));
        assert!(text.contains(
            "determines: 1; the same order there: 0, the other one: 0, not determined: 1"
        ));
        let table = causes(&detail);
        assert_eq!(table.rows[0][..3], ["interrupt handler (eth0)", "75 %", "25 %"]);
        assert_eq!(table.rows[1][2], "–");
        assert_eq!(faults(&detail).rows[1][1], "none: no fault has this mechanism in virtual time");
        detail.reversed = 1;
        let text = summary(&detail).join(" ");
        assert!(
            text.contains("the same order there: 0, the other one: 1, not determined: 0"),
            "{text}"
        );
        detail.replayed = None;
        assert!(summary(&detail).join(" ").contains("1 of 2 causes can be repeated by faults."));
    }
}
