//! Loops as the execution time model predicts them, beside their measured times.

use crate::doc::{Block, Column, Table};
use crate::messages::bytes as bytes_words;
use latlab_model::cache::detail::CacheDetail;
use latlab_model::cache::loops::{CHASE, Loop, LoopTime, LoopTimes, Operation};
use latlab_model::units::format_ns;

/// Tables: what operations cost, and the loops.
pub(super) fn blocks(times: &LoopTimes, d: &CacheDetail) -> Vec<Block> {
    vec![Block::Table(costs(times)), Block::Table(loops(times, d))]
}

fn costs(times: &LoopTimes) -> Table {
    let row = |(o, ns): &(Operation, f64)| vec![o.name().into(), format_ns(*ns)];
    Table {
        caption: "Operations of the model: each waits for the one before".into(),
        columns: vec![Column::left("operation"), Column::right("P")],
        rows: times.costs.iter().map(row).collect(),
    }
}

fn loops(times: &LoopTimes, d: &CacheDetail) -> Table {
    let caches = d.levels.len();
    let row = |l: &LoopTime| {
        let place = |i: usize| match i {
            i if i < caches => format!("L{}", i + 1),
            i => format!("TLB {}", i - caches + 1),
        };
        let missed = l.misses.iter().enumerate().filter(|(_, n)| **n >= 5e-4);
        let misses: Vec<String> = missed.map(|(i, n)| format!("{} {n:.3}", place(i))).collect();
        vec![
            name(&l.of),
            bytes_words(l.of.bytes().into()),
            misses.join(", "),
            format_ns(l.operations_ns),
            format_ns(l.misses_ns),
            format_ns(l.predicted_ns()),
            format_ns(l.measured_ns),
            format!("{:.2}", l.ratio()),
        ]
    };
    Table {
        caption: "Time of a step of a loop by Σ C·P + Σ F·D, operations and misses one after the other, and measured"
            .into(),
        columns: vec![
            Column::left("loop"),
            Column::right("arrays").optional(1),
            Column::left("misses, F").optional(2),
            Column::right("Σ C·P").optional(2),
            Column::right("Σ F·D").optional(2),
            Column::right("predicted"),
            Column::right("measured"),
            Column::right("ratio"),
        ],
        rows: times.loops.iter().map(row).collect(),
    }
}

fn name(of: &Loop) -> String {
    match *of {
        Loop::PointerChase { .. } => format!("p = *p, {} + and {} *", CHASE.0, CHASE.1),
        Loop::Polynomial { .. } => "x = x * c + a[i]".into(),
        Loop::Multiply { stride, .. } => format!("a[i] *= a[i], {stride} bytes"),
        Loop::Matrix { order } => format!("s += a[i][k] * b[k][j], {order}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::cache::detail::Level;

    #[test]
    fn a_row_has_prediction_measurement_and_their_ratio() {
        let d = CacheDetail { levels: vec![Level::default()], ..CacheDetail::default() };
        let times = LoopTimes {
            costs: vec![(Operation::Load, 1.5)],
            loops: vec![LoopTime {
                of: Loop::Multiply { bytes: 2 << 20, stride: 64 },
                operations_ns: 4.0,
                misses: vec![1.0, 0.016],
                misses_ns: 8.0,
                measured_ns: 6.0,
            }],
        };
        let table = loops(&times, &d);
        let row: Vec<&str> = table.rows[0].iter().map(String::as_str).collect();
        let expected = [
            "a[i] *= a[i], 64 bytes",
            "2 MiB",
            "L1 1.000, TLB 1 0.016",
            "4 ns",
            "8 ns",
            "12 ns",
            "6 ns",
            "0.50",
        ];
        assert_eq!(row, expected);
        assert_eq!(costs(&times).rows, [["load", "1.50 ns"]]);
    }
}
