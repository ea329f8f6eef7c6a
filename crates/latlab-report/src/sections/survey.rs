//! A survey on a terminal: words, findings and tables. The plots of five experiments
//! would scroll the words away; they are in `report.html` and `latlab report RUN`.

use super::brief;
use crate::doc::{Block, Doc};
use latlab_core::run::Run;

/// The report of a run without its plots, its machine and its configuration.
pub fn digest(run: &Run) -> Doc {
    let mut doc = brief(run);
    // What is fine or merely worth knowing of the machine is the doctor's to tell.
    doc.sections.retain(|s| !s.id.starts_with("doctor-") || s.id == "doctor-in-the-way");
    for section in &mut doc.sections {
        section.blocks.retain(|b| !matches!(b, Block::Plot(_)));
        // A heading whose plots are gone announces nothing.
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
    use latlab_core::gaps::{CpuGaps, part};
    use latlab_core::histogram::Histogram;

    #[test]
    fn a_digest_has_words_and_tables_and_no_plot() {
        let cpu = CpuGaps {
            cpu: 0,
            length_ns: 1_000_000_000,
            threshold_ns: 2_000,
            gaps: Histogram::of((1..200).map(|n| n * 10_000)),
        };
        let parts = vec![part("Gaps", &[cpu], true)];
        let run = Run { complete: true, parts, ..Run::default() };
        let plots = |doc: &Doc| -> usize {
            let blocks = doc.sections.iter().flat_map(|s| &s.blocks);
            blocks.filter(|b| matches!(b, Block::Plot(_))).count()
        };
        assert!(plots(&brief(&run)) > 0);
        let digest = digest(&run);
        assert_eq!(plots(&digest), 0);
        assert!(digest.summary[0].starts_with("Busy: a program that only computes lost its CPU"));
        let blocks = &digest.sections[0].blocks;
        assert!(blocks.iter().any(|b| matches!(b, Block::Table(_))));
        assert!(blocks.iter().any(|b| matches!(b, Block::Findings(_))));
    }
}
