//! What a doctor found: obstacles first, then what could not be seen, then what is fine.

use crate::doc::{Block, Doc, Section};
use latlab_core::doctor::Facts;
use latlab_core::finding::{Finding, Verdict};
use latlab_core::kconfig::{KernelOption, Purpose, State, Weight};
use latlab_core::run::{Part, Run};
use std::collections::BTreeMap;

/// One section a verdict.
pub fn sections(part: &Part, facts: &Facts) -> Vec<Section> {
    let of = |v: Verdict| -> Vec<Finding> {
        part.findings.iter().filter(|f| f.verdict == v).cloned().collect()
    };
    let mut sections = Vec::new();
    let mut add = |id: &str, title: &str, blocks: Vec<Block>| {
        sections.push(Section { id: id.into(), title: title.into(), blocks });
    };
    let obstacles = of(Verdict::InTheWay);
    if !obstacles.is_empty() {
        add("doctor-in-the-way", "In the way", vec![Block::Findings(obstacles)]);
    }
    let (unknown, unseen) = (of(Verdict::CannotTell), &facts.unseen);
    if !unknown.is_empty() || !unseen.is_empty() {
        let mut blocks = vec![];
        if !unseen.is_empty() {
            blocks.push(Block::Text(format!(
                "This user could not see: {}. Root sees more.",
                unseen.join("; ")
            )));
        }
        blocks.push(Block::Findings(unknown));
        add("doctor-cannot-tell", "Could not be told", blocks);
    }
    let notes = of(Verdict::Note);
    if !notes.is_empty() {
        add("doctor-notes", "Worth knowing", vec![Block::Findings(notes)]);
    }
    let good = of(Verdict::Good);
    if !good.is_empty() {
        let pairs = good.into_iter().map(|f| (f.id, f.claim)).collect();
        add("doctor-good", "As it should be", vec![Block::Pairs(pairs)]);
    }
    sections
}

/// A document for a terminal: the verdicts, and the machine without its long lists.
pub fn brief(run: &Run) -> Doc {
    let mut doc = super::of_run(run);
    doc.summary = run.parts.iter().flat_map(summary).collect();
    doc.sections.retain(|s| s.id.starts_with("doctor") || s.id == "machine");
    for section in doc.sections.iter_mut().filter(|s| s.id == "machine") {
        section.blocks.truncate(1);
    }
    doc
}

/// How many of each verdict.
pub fn summary(part: &Part) -> Vec<String> {
    let n = |v: Verdict| part.findings.iter().filter(|f| f.verdict == v).count();
    vec![format!(
        "{} of {} things looked at are as they should be, {} {} in the way, {} could not be told, {} {} worth knowing.",
        n(Verdict::Good),
        part.findings.len(),
        n(Verdict::InTheWay),
        if n(Verdict::InTheWay) == 1 { "is" } else { "are" },
        n(Verdict::CannotTell),
        n(Verdict::Note),
        if n(Verdict::Note) == 1 { "is" } else { "are" },
    )]
}

/// A fragment for a kernel's `.config`: each option with its reason, then the commands that build
/// it. `source` names the configuration, `config` is that configuration.
pub fn kernel_fragment(
    missing: &[(&KernelOption, State)],
    config: &BTreeMap<String, String>,
    source: &str,
) -> String {
    let mut text = format!(
        "# What tracing and low latency need and {source} has not: {}.\n# Save this as latlab.config; how to build with it is at the end.\n",
        match missing.len() {
            0 => "nothing".into(),
            1 => "one option".into(),
            n => format!("{n} options"),
        }
    );
    let groups = [
        (Purpose::Measuring, "measuring"),
        (Purpose::Tracing, "tracing"),
        (Purpose::Latency, "low latency"),
        (Purpose::Debugging, "off: debugging aids that make every kernel slow"),
    ];
    for (purpose, words) in groups {
        for (weight, word) in [(Weight::Needed, "needed"), (Weight::Useful, "useful")] {
            let of = missing.iter().filter(|(o, _)| o.purpose == purpose && o.weight == weight);
            let of: Vec<_> = of.collect();
            if of.is_empty() {
                continue;
            }
            text.push_str(&format!("\n# --- {words} ({word}) ---\n"));
            for (o, _) in of {
                let since = match o.since {
                    "" => String::new(),
                    since => format!(" Since Linux {since}."),
                };
                for line in textwrap::wrap(&format!("{}{since}", o.why), 94) {
                    text.push_str(&format!("# {line}\n"));
                }
                text.push_str(&format!("{}\n", o.line()));
            }
        }
    }
    text.push_str(&build_commands(config));
    text
}

/// How to build a kernel with the fragment, for the architecture of the configuration.
fn build_commands(config: &BTreeMap<String, String>) -> String {
    let on = |name: &str| config.get(name).is_some_and(|v| v == "y");
    let (make, targets) = match () {
        () if on("CONFIG_ARM") => {
            ("make ARCH=arm CROSS_COMPILE=arm-linux-gnueabihf-", "zImage dtbs modules")
        }
        () if on("CONFIG_ARM64") => {
            ("make ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-", "Image dtbs modules")
        }
        () => ("make", "all"),
    };
    format!(
        "\n# --- in the kernel's source, with the present configuration as .config ---\n\
         #   scripts/kconfig/merge_config.sh -m .config latlab.config\n\
         #   {make} olddefconfig\n\
         #   latlab doctor --kernel-config .config     # what is still missing, and was refused\n\
         #   {make} -j$(nproc) {targets}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_core::kconfig;
    use latlab_core::machine::Machine;

    #[test]
    fn obstacles_come_first_and_nothing_is_lost() {
        let part = latlab_core::doctor::part(&Machine::default(), Facts::default());
        let sections = sections(&part, &Facts::default());
        let shown: usize = sections
            .iter()
            .flat_map(|s| &s.blocks)
            .map(|b| match b {
                Block::Findings(f) => f.len(),
                Block::Pairs(p) => p.len(),
                _ => 0,
            })
            .sum();
        assert_eq!(shown, part.findings.len());
    }

    #[test]
    fn a_fragment_is_a_config_that_lacks_nothing() {
        let board =
            kconfig::parse("CONFIG_ARM=y\nCONFIG_HIGH_RES_TIMERS=y\nCONFIG_PROVE_LOCKING=y\n");
        let text = kernel_fragment(&kconfig::missing(&board), &board, "board.config");
        assert!(text.contains("ARCH=arm CROSS_COMPILE=arm-linux-gnueabihf- -j$(nproc) zImage"));
        assert!(!text.contains("CONFIG_HIGH_RES_TIMERS"));
        let mut merged = board.clone();
        merged.extend(kconfig::parse(&text));
        assert_eq!(kconfig::missing(&merged), []);
    }
}
