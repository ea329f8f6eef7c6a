//! Regimes of Saavedra and Smith: T0, C, D, b and a in a table, and the map of regimes over size and stride.

use crate::doc::{Axis, Block, Column, Plot, Scale, Series, SeriesKind, Table};
use crate::messages::bytes as bytes_words;
use latlab_model::cache::regime_map::{Regime, RegimeLevel, RegimeMap, RegimePoint};
use latlab_model::units::format_ns;
use std::collections::BTreeSet;

/// Strides of the table, at most.
const STRIDES: usize = 12;

/// Tables and plots.
pub(super) fn blocks(map: &RegimeMap) -> Vec<Block> {
    vec![
        Block::Table(parameters(map)),
        Block::Table(regimes(map)),
        Block::Plot(Box::new(times(map))),
    ]
}

fn parameters(map: &RegimeMap) -> Table {
    let level = |(i, l): (usize, &RegimeLevel)| {
        let (fits, more) = l.capacity_bytes;
        vec![
            format!("L{}", i + 1),
            format!("{} – {}", bytes_words(fits), bytes_words(more)),
            format_ns(l.miss_ns),
            l.ways.map_or("not determined".into(), |(all, misses)| match misses - all {
                1 => all.to_string(),
                _ => format!("{all} – {}", misses - 1),
            }),
        ]
    };
    let mut rows: Vec<Vec<String>> = map.levels.iter().enumerate().map(level).collect();
    let tlb = |(i, (reach, ns)): (usize, &(u64, f64))| {
        vec![format!("data TLB {}", i + 1), bytes_words(*reach), format_ns(*ns), "all".into()]
    };
    rows.extend(map.tlbs.iter().enumerate().map(tlb));
    Table {
        caption: format!(
            "Regimes by size and stride, fitted to all arrays: a load takes T0 = {}, a hit in the first cache, and D·min(s/b, 1) for each cache that it misses; b = {} bytes; mean difference {:.0} %",
            format_ns(map.t0_ns),
            map.line_bytes,
            map.residual * 100.0
        ),
        columns: vec![
            Column::left("cache"),
            Column::right("C"),
            Column::right("D"),
            Column::right("a"),
        ],
        rows,
    }
}

/// A row for each size of a power of two, a column for each stride.
fn regimes(map: &RegimeMap) -> Table {
    let strides: BTreeSet<u32> = map.points.iter().map(|p| p.stride_bytes).collect();
    let step = strides.len().div_ceil(STRIDES).max(1);
    let strides: Vec<u32> = strides.into_iter().step_by(step).collect();
    let sizes: BTreeSet<u64> =
        map.points.iter().map(|p| p.bytes).filter(|x| x.is_power_of_two()).collect();
    let cell = |p: Option<&RegimePoint>| {
        p.map_or(String::new(), |p| match p.regime {
            Regime::One => "1".into(),
            regime => format!("{} L{}", regime.name(), p.level),
        })
    };
    let row = |bytes: &u64| {
        let at = |stride: &u32| {
            cell(map.points.iter().find(|p| p.bytes == *bytes && p.stride_bytes == *stride))
        };
        std::iter::once(bytes_words(*bytes)).chain(strides.iter().map(at)).collect()
    };
    let heads = strides.iter().map(|s| Column::right(bytes_words(u64::from(*s))));
    Table {
        caption: "Map of regimes by array and stride: 1 fits; 2.a several loads share a line; 2.b each load misses; 2.c the elements fit into the ways of one set".into(),
        columns: std::iter::once(Column::left("array")).chain(heads).collect(),
        rows: sizes.iter().map(row).collect(),
    }
}

fn times(map: &RegimeMap) -> Plot {
    let strides: BTreeSet<u32> = map.points.iter().map(|p| p.stride_bytes).collect();
    let lane = |p: &RegimePoint| strides.iter().position(|s| *s == p.stride_bytes).unwrap_or(0);
    let cells = Series {
        name: "a load (ns)".into(),
        kind: SeriesKind::Heat,
        points: map.points.iter().map(|p| (p.bytes as f64, lane(p) as f64)).collect(),
        values: map.points.iter().map(|p| p.ns).collect(),
        ..Series::default()
    };
    Plot {
        id: "memory-regimes".into(),
        title: "A load by size and stride up to half of the array".into(),
        description: "Elements of a line one after another, lines in an order that prefetchers disturb least. Below the line's size loads share a fetch (2.a), from there on each misses (2.b), and with a few elements far apart none does (2.c).".into(),
        x: Axis { label: "array".into(), scale: Scale::Log2, bytes: true, ..Axis::default() },
        y: Axis {
            label: "stride".into(),
            scale: Scale::Category,
            categories: strides.iter().map(|s| bytes_words(u64::from(*s))).collect(),
            ..Axis::default()
        },
        series: vec![cells],
        marks: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_names_regime_and_cache() {
        let point = |bytes, stride_bytes, regime, level| RegimePoint {
            bytes,
            stride_bytes,
            ns: 5.0,
            expected_ns: 5.0,
            regime,
            level,
        };
        let map = RegimeMap {
            t0_ns: 2.0,
            line_bytes: 64,
            levels: vec![RegimeLevel {
                capacity_bytes: (32 << 10, 48 << 10),
                miss_ns: 8.0,
                ways: Some((8, 12)),
            }],
            points: vec![
                point(32 << 10, 16, Regime::One, 0),
                point(64 << 10, 16, Regime::TwoA, 1),
                point(64 << 10, 64, Regime::TwoB, 1),
                point(64 << 10, 8192, Regime::TwoC, 1),
            ],
            ..RegimeMap::default()
        };
        let caption = parameters(&map).caption;
        assert!(
            caption.contains("fitted to all arrays: a load takes T0 = 2 ns, a hit in the first")
        );
        let table = regimes(&map);
        assert_eq!(table.rows[0], ["32 KiB", "1", "", ""]);
        assert_eq!(table.rows[1], ["64 KiB", "2.a L1", "2.b L1", "2.c L1"]);
        assert_eq!(parameters(&map).rows[0], ["L1", "32 KiB – 48 KiB", "8 ns", "8 – 11"]);
        assert_eq!(times(&map).series[0].values.len(), 4);
    }
}
