//! A survey on a terminal: summary, findings and tables. Plots are in `report.html` and
//! `latlab report RUN`.

use super::brief;
use crate::doc::{Block, Doc};
use latlab_model::run::Run;

/// The report of a run without its plots, its machine and its configuration.
pub fn digest(run: &Run) -> Doc {
    let mut doc = brief(run);
    // Of the system check only the problems are shown.
    doc.sections.retain(|s| !s.id.starts_with("doctor-") || s.id == "doctor-problems");
    for section in &mut doc.sections {
        section.blocks.retain(|b| !matches!(b, Block::Plot(_)));
        // Headings without plots are removed.
        let mut kept: Vec<Block> = Vec::with_capacity(section.blocks.len());
        for block in section.blocks.drain(..) {
            if matches!((kept.last(), &block), (Some(Block::Heading(_)), Block::Heading(_))) {
                kept.pop();
            }
            kept.push(block);
        }
        if matches!(kept.last(), Some(Block::Heading(_))) {
            kept.pop();
        }
        section.blocks = kept;
    }
    doc.sections.retain(|s| !s.blocks.is_empty());
    doc
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::finding::{Confidence, Finding, Quantity, Severity};
    use latlab_model::record::Record;
    use latlab_model::run::Part;
    use latlab_stats::histogram::Histogram;

    #[test]
    fn a_digest_has_words_and_tables_and_no_plot() {
        let gaps = Histogram::of((1..200).map(|n| n * 10_000));
        let record = Record {
            name: "gaps.busy-loop".into(),
            params: [("cpu".to_owned(), 0.into())].into(),
            summary: gaps.summary(),
            histogram: Some(gaps),
            ..Record::default()
        };
        let finding = Finding::typed("osnoise.interruption", Severity::Info, Confidence::High)
            .value("longest", Quantity::Ns(1.99e6))
            .value("lost", Quantity::Ratio(0.2));
        let part = Part {
            name: "gaps".into(),
            complete: true,
            results: vec![record],
            findings: vec![finding],
            ..Part::default()
        };
        let parts = vec![part];
        let run = Run { complete: true, parts, ..Run::default() };
        let plots = |doc: &Doc| -> usize {
            let blocks = doc.sections.iter().flat_map(|s| &s.blocks);
            blocks.filter(|b| matches!(b, Block::Plot(_))).count()
        };
        assert!(plots(&brief(&run)) > 0);
        let digest = digest(&run);
        assert_eq!(plots(&digest), 0);
        assert!(digest.summary[0].starts_with("OS noise: longest interruption 1.99 ms"));
        let blocks = &digest.sections[0].blocks;
        assert!(blocks.iter().any(|b| matches!(b, Block::Table(_))));
        assert!(blocks.iter().any(|b| matches!(b, Block::Findings(_))));
    }
}
