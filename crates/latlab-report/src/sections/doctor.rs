//! Checks of the machine: problems first, then warnings, inconclusive checks, information, passed checks.

use crate::doc::{Block, Doc, Section};
use crate::messages;
use latlab_model::doctor::Facts;
use latlab_model::finding::{Finding, Severity};
use latlab_model::kconfig::{KernelOption, Purpose, State, Weight};
use latlab_model::run::{Part, Run};
use std::collections::BTreeMap;

/// One section for each severity.
pub fn sections(part: &Part, facts: &Facts) -> Vec<Section> {
    let of = |v: Severity| -> Vec<Finding> {
        part.findings.iter().filter(|f| f.severity == v).cloned().collect()
    };
    let mut sections = Vec::new();
    let mut add = |id: &str, title: &str, blocks: Vec<Block>| {
        if !blocks.is_empty() {
            sections.push(Section { id: id.into(), title: title.into(), blocks });
        }
    };
    let findings = |v: Severity| -> Vec<Block> {
        let all = of(v);
        if all.is_empty() { Vec::new() } else { vec![Block::Findings(all)] }
    };
    add("doctor-problems", "Problems", findings(Severity::Problem));
    add("doctor-warnings", "Warnings", findings(Severity::Warning));
    let mut blocks = Vec::new();
    if !facts.unreadable.is_empty() {
        let all = messages::notes(&facts.unreadable).join("; ");
        blocks.push(Block::Text(format!("Not readable by this user: {all}.")));
    }
    blocks.extend(findings(Severity::Inconclusive));
    add("doctor-inconclusive", "Inconclusive", blocks);
    add("doctor-information", "Information", findings(Severity::Info));
    let passed = of(Severity::Ok);
    if !passed.is_empty() {
        let pairs = passed.into_iter().map(|f| (f.id.clone(), messages::claim(&f))).collect();
        add("doctor-passed", "Passed checks", vec![Block::Pairs(pairs)]);
    }
    sections
}

/// The document of a run for a terminal: the findings, and the machine without its long lists.
pub fn brief(run: &Run, mut doc: Doc) -> Doc {
    doc.summary = run.parts.iter().flat_map(summary).collect();
    doc.sections.retain(|s| s.id.starts_with("doctor") || s.id == "machine");
    for section in doc.sections.iter_mut().filter(|s| s.id == "machine") {
        section.blocks.truncate(1);
    }
    doc
}

/// Number of findings of each severity.
pub fn summary(part: &Part) -> Vec<String> {
    let n = |v: Severity| part.findings.iter().filter(|f| f.severity == v).count();
    let counted =
        |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    vec![format!(
        "{}: {} ok, {}, {}, {} inconclusive, {} for information.",
        counted(part.findings.len(), "check", "checks"),
        n(Severity::Ok),
        counted(n(Severity::Problem), "problem", "problems"),
        counted(n(Severity::Warning), "warning", "warnings"),
        n(Severity::Inconclusive),
        n(Severity::Info),
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
        "# Options for tracing and low latency that {source} does not set: {}.\n# Save this file as latlab.config; the build commands are at the end.\n",
        match missing.len() {
            0 => "none".into(),
            1 => "1 option".into(),
            n => format!("{n} options"),
        }
    );
    let groups = [
        (Purpose::Measuring, "measuring"),
        (Purpose::Tracing, "tracing"),
        (Purpose::Latency, "low latency"),
        (Purpose::Debugging, "debugging aids to disable"),
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
                for line in textwrap::wrap(
                    &format!("{}{since}", messages::kernel_option_reason(o.name)),
                    94,
                ) {
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
    let (make, targets) = if on("CONFIG_ARM") {
        ("make ARCH=arm CROSS_COMPILE=arm-linux-gnueabihf-", "zImage dtbs modules")
    } else if on("CONFIG_ARM64") {
        ("make ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-", "Image dtbs modules")
    } else {
        ("make", "all")
    };
    format!(
        "\n# --- in the kernel source tree, with the present configuration as .config ---\n\
         #   scripts/kconfig/merge_config.sh -m .config latlab.config\n\
         #   {make} olddefconfig\n\
         #   latlab doctor --kernel-config .config     # options still missing\n\
         #   {make} -j$(nproc) {targets}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::finding::Confidence;
    use latlab_model::kconfig;

    #[test]
    fn every_finding_is_shown_once_and_problems_come_first() {
        use Severity::{Inconclusive, Info, Ok, Problem, Warning};
        let severities = [Ok, Info, Warning, Problem, Inconclusive, Ok];
        let finding = |v| Finding::typed("clock.step", v, Confidence::High);
        let part =
            Part { findings: severities.into_iter().map(finding).collect(), ..Part::default() };
        let sections = sections(&part, &Facts::default());
        assert_eq!(sections.len(), 5);
        assert_eq!(sections[0].id, "doctor-problems");
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
