//! Any part: its findings, its records as a table, their distributions as plots.

use crate::doc::{Block, Column, Section, Table};
use crate::plot::distribution::{self, Named, Subject};
use crate::values::{figure, grouped, quantile_name};
use latlab_model::record::{Param, Record};
use latlab_model::run::Part;
use std::collections::{BTreeMap, BTreeSet};

/// Distributions that share one plot at most; more cannot be told apart.
const TOGETHER_MAX: usize = 8;
/// Records that the summary states in full, at most.
const SAID: usize = 4;

/// The section of a part.
pub fn sections(part: &Part) -> Vec<Section> {
    let mut blocks = Vec::new();
    if !part.complete {
        blocks.push(Block::Warning(
            "Incomplete part: the results cover what was measured until the interruption.".into(),
        ));
    }
    if !part.findings.is_empty() {
        blocks.push(Block::Findings(part.findings.clone()));
    }
    if !part.results.is_empty() {
        blocks.push(Block::Table(records_table(&part.results)));
    }
    let notes = part.results.iter().flat_map(|r| &r.notes).map(crate::messages::note);
    let notes: BTreeSet<String> = notes.collect();
    blocks.extend(notes.into_iter().map(Block::Text));
    blocks.extend(distribution_plots(&part.title, &part.results));
    #[cfg(feature = "host")]
    blocks.extend(super::sequence::plots(&part.results, record_name));
    let title = if part.title.is_empty() { part.name.clone() } else { part.title.clone() };
    vec![Section { id: part.name.clone(), title, blocks }]
}

/// The first screen: records and the first distribution.
pub fn screen(part: &Part) -> Vec<Block> {
    let table = (!part.results.is_empty()).then(|| Block::Table(records_table(&part.results)));
    table
        .into_iter()
        .chain(distribution_plots(&part.title, &part.results).into_iter().take(1))
        .collect()
}

/// The worst figure of a part in one sentence.
pub fn summary(part: &Part) -> Vec<String> {
    let distributions = part.results.iter().filter(|r| r.histogram.is_some());
    let worst = distributions.max_by(|a, b| {
        let key = |r: &Record| r.summary.max.unwrap_or(f64::NEG_INFINITY);
        key(a).total_cmp(&key(b))
    });
    let Some(r) = worst else { return vec![] };
    let (Some(median), Some(max)) = (r.summary.median, r.summary.max) else { return vec![] };
    let title = if part.title.is_empty() { &part.name } else { &part.title };
    let mut out = vec![format!(
        "{title}: median {}, largest {} of {} samples ({}).",
        figure(median, r.unit),
        figure(max, r.unit),
        grouped(r.summary.count),
        record_name(r)
    )];
    let notes = part.results.iter().flat_map(|r| &r.notes);
    let each = notes.filter(|n| n.id() == Some("bench.each")).take(SAID);
    out.extend(each.map(|n| format!("{}.", crate::messages::note(n))));
    out
}

/// `wakeup.user cpu=0`.
pub fn record_name(r: &Record) -> String {
    let params = r.params.iter().map(|(k, v)| format!(" {k}={}", param(v)));
    format!("{}{}", r.name, params.collect::<String>())
}

/// A parameter as text.
pub fn param(p: &Param) -> String {
    match p {
        Param::Int(v) => v.to_string(),
        Param::Float(v) => crate::plot::scale::format_number(*v),
        Param::Text(v) => v.clone(),
    }
}

/// Records as a table: parameters, samples, min, quantiles that any of them supports, max.
pub fn records_table(records: &[Record]) -> Table {
    let keys: BTreeSet<&String> = records.iter().flat_map(|r| r.params.keys()).collect();
    let mut quantiles: Vec<f64> =
        records.iter().flat_map(|r| r.summary.quantiles.iter().map(|q| q.q)).collect();
    quantiles.sort_unstable_by(f64::total_cmp);
    quantiles.dedup();
    quantiles.retain(|q| [0.9, 0.99, 0.999, 0.9999, 0.99999].contains(q));

    let mut columns = vec![Column::left("what")];
    for key in &keys {
        let text = records.iter().any(|r| matches!(r.params.get(*key), Some(Param::Text(_))));
        columns.push(Column {
            head: (*key).clone(),
            right: !text,
            optional: 4,
            ..Column::default()
        });
    }
    columns.push(Column::right("samples"));
    columns.extend([Column::right("min").optional(3), Column::right("median")]);
    // Of the quantiles the highest stays.
    let order = |i: usize| if i + 1 < quantiles.len() { 2 } else { 0 };
    let quantile = |(i, q): (usize, &f64)| Column::right(quantile_name(*q)).optional(order(i));
    columns.extend(quantiles.iter().enumerate().map(quantile));
    columns.push(Column::right("max"));

    let row = |r: &Record| {
        let show = |v: Option<f64>| v.map_or("–".into(), |v| figure(v, r.unit));
        let mut cells = vec![r.name.clone()];
        cells.extend(keys.iter().map(|k| r.params.get(*k).map_or(String::new(), param)));
        cells.push(grouped(r.summary.count));
        cells.extend([show(r.summary.min), show(r.summary.median)]);
        cells.extend(quantiles.iter().map(|q| show(r.summary.quantile(*q).map(|q| q.value))));
        cells.push(show(r.summary.max));
        cells
    };
    Table {
        caption: "Results. A dash: too few samples.".into(),
        columns,
        rows: records.iter().map(row).collect(),
    }
}

/// A histogram and a tail plot for each name, with its records as series.
fn distribution_plots(title: &str, records: &[Record]) -> Vec<Block> {
    let mut by_name = BTreeMap::<&str, Vec<&Record>>::new();
    for r in records.iter().filter(|r| r.histogram.as_ref().is_some_and(|h| h.count > 0)) {
        by_name.entry(&r.name).or_default().push(r);
    }
    let mut blocks = Vec::new();
    let alone = by_name.len() == 1 && !title.is_empty();
    for (name, records) in by_name {
        for (i, chunk) in records.chunks(TOGETHER_MAX).enumerate() {
            let id = if i == 0 { name.to_owned() } else { format!("{name}-{}", i + 1) };
            let subject = Subject {
                id: &id,
                title: if alone { title } else { name },
                quantity: "value",
                counted: "samples",
                unit: chunk[0].unit,
            };
            let named: Vec<Named> = chunk
                .iter()
                .filter_map(|r| {
                    let differs =
                        |k: &&String| chunk.iter().any(|o| o.params.get(*k) != r.params.get(*k));
                    let told = r.params.keys().filter(differs).map(|k| {
                        let key = if k == "cpu" { "CPU " } else { &format!("{k}=") };
                        format!("{key}{}", param(&r.params[k]))
                    });
                    let short = told.collect::<Vec<_>>().join(" ");
                    let short = if short.is_empty() { name.to_owned() } else { short };
                    Some((short, r.histogram.as_ref()?))
                })
                .collect();
            blocks.push(Block::Plot(Box::new(distribution::histogram(&subject, &named))));
            blocks.push(Block::Plot(Box::new(distribution::tail(&subject, &named))));
        }
    }
    blocks
}
