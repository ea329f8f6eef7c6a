//! Sections with interrupts or preemption off: reader of what the plugin of `latlab vm sections` writes
//! (docs/reference/vm-sections.md), and what follows from it.
//!
//! As [`super::format`], the file is bounded and each error names its line.

use super::format::{Block, FormatError, STATE_UNKNOWN, Step, hex, leaves as leaves_of, number};
use super::functions::Functions;
use super::section_events::Comparison;
use super::tree;
use latlab_model::path::{Section, SectionKind, SectionsDetail};
use latlab_model::record::{Record, Unit};
use latlab_model::run::{Detail, Part};
use latlab_stats::histogram::Recorder;
use std::collections::HashMap;

/// Pairs of places, and steps of a longest section, that are read.
const PLACES_MAX: usize = 1 << 16;
const STEPS_MAX: usize = 100_000;
/// Pairs of functions that are kept.
const LISTED: usize = 50;

/// Sections that begin and end at the same two addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Places {
    begins: u64,
    ends: u64,
    count: u64,
    sum: u64,
    longest: u64,
}

/// Sections of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
struct Kind {
    count: u64,
    sum: u64,
    dropped: u64,
    lengths: Vec<(u64, u64)>,
    places: Vec<Places>,
    longest: u64,
    steps: Vec<Step>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SectionsFile {
    arch: String,
    instructions: u64,
    checks: u64,
    wrong: u64,
    irqs: Kind,
    preempt: Kind,
}

/// Reads a file.
///
/// # Errors
/// When a line is not understood, or the last one is missing.
pub fn read(text: &str) -> Result<SectionsFile, FormatError> {
    let mut file = SectionsFile::default();
    let mut is_whole = false;
    for (n, line) in text.lines().enumerate() {
        let at = |reason| FormatError { line: n + 1, reason };
        if n == 0 {
            let arch = line.strip_prefix("latlab-sections 1 ");
            file.arch = arch.ok_or_else(|| at("not a file of sections of version 1"))?.to_owned();
        } else if line == "E" {
            is_whole = true;
        } else {
            file.line(line).map_err(at)?;
        }
    }
    let last = text.lines().count();
    let reason = "the file ends before its last line: fewer wake-ups than expected were counted";
    if is_whole { Ok(file) } else { Err(FormatError { line: last, reason }) }
}

impl SectionsFile {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["C", instructions, _, places, checks, wrong] => {
                if number::<u64>(places)? != 1 {
                    return Err(STATE_UNKNOWN);
                }
                self.instructions = number(instructions)?;
                (self.checks, self.wrong) = (number(checks)?, number(wrong)?);
            }
            ["N", kind, count, sum, dropped] => {
                let kind = self.kind(kind)?;
                (kind.count, kind.sum) = (number(count)?, number(sum)?);
                kind.dropped = number(dropped)?;
            }
            ["H", kind, length, count] => {
                let bin = (number(length)?, number(count)?);
                push(&mut self.kind(kind)?.lengths, bin, PLACES_MAX)?;
            }
            ["K", kind, begins, ends, count, sum, longest] => {
                let places = Places {
                    begins: hex(begins)?,
                    ends: hex(ends)?,
                    count: number(count)?,
                    sum: number(sum)?,
                    longest: number(longest)?,
                };
                push(&mut self.kind(kind)?.places, places, PLACES_MAX)?;
            }
            ["L", kind, longest] => {
                let longest = number(longest)?;
                self.kind(kind)?.longest = longest;
            }
            ["S", address, instructions, leaves, executed] => {
                let (address, instructions) = (hex(address)?, number(instructions)?);
                let block = Block { address, instructions, leaves: leaves_of(leaves)? };
                let step = Step { block, executed: number(executed)? };
                // Those of interrupts come first; the line before the second kind's is its own.
                let is_second = self.preempt.longest > 0;
                let kind = if is_second { &mut self.preempt } else { &mut self.irqs };
                push(&mut kind.steps, step, STEPS_MAX)?;
            }
            _ => return Err("a line of an unknown kind"),
        }
        Ok(())
    }

    fn kind(&mut self, letter: &str) -> Result<&mut Kind, &'static str> {
        match letter {
            "i" => Ok(&mut self.irqs),
            "p" => Ok(&mut self.preempt),
            _ => Err("neither interrupts nor preemption"),
        }
    }
}

fn push<T>(all: &mut Vec<T>, one: T, most: usize) -> Result<(), &'static str> {
    all.push(one);
    if all.len() <= most { Ok(()) } else { Err("too many lines of one kind") }
}

/// The part of a run; with the comparison with the kernel's events where there is one.
pub fn part(
    machine: &str,
    release: &str,
    file: &SectionsFile,
    kallsyms: &[u8],
    comparison: Option<&Comparison>,
) -> Part {
    let mut functions = Functions::new(&file.arch, kallsyms);
    let kinds = [("irqs-off", &file.irqs), ("preempt-off", &file.preempt)];
    let kinds: Vec<SectionKind> =
        kinds.into_iter().map(|(name, kind)| section_kind(name, kind, &mut functions)).collect();
    let record = |kind: &SectionKind| Record {
        name: ["sections.", &kind.kind].concat(),
        unit: Unit::Count,
        summary: kind.lengths.summary(),
        histogram: Some(kind.lengths.clone()),
        ..Record::default()
    };
    let mut results: Vec<Record> = kinds.iter().map(record).collect();
    results.extend(comparison.map(|c| c.records(&mut functions)).unwrap_or_default());
    let detail = SectionsDetail {
        machine: machine.into(),
        release: release.into(),
        instructions: file.instructions,
        user_checks: file.checks,
        user_wrong: file.wrong,
        kinds,
    };
    Part {
        name: "sections".into(),
        title: "Critical sections".into(),
        complete: true,
        results,
        detail: Some(Detail::Sections(Box::new(detail))),
        ..Part::default()
    }
}

fn section_kind(name: &str, kind: &Kind, functions: &mut Functions) -> SectionKind {
    let mut pairs = HashMap::<(usize, usize), Section>::new();
    for places in &kind.places {
        let pair = [places.begins, places.ends].map(|a| functions.at(a).function);
        let section = pairs.entry((pair[0], pair[1])).or_default();
        section.count += places.count;
        section.sum = section.sum.saturating_add(places.sum);
        section.longest = section.longest.max(places.longest);
    }
    let mut longest: Vec<Section> = pairs
        .into_iter()
        .map(|((begins, ends), section)| Section {
            begins: functions.name(begins).into(),
            ends: functions.name(ends).into(),
            ..section
        })
        .collect();
    longest.sort_by(|a, b| (b.longest, &a.begins, &a.ends).cmp(&(a.longest, &b.begins, &b.ends)));
    longest.truncate(LISTED);
    if let Some(first) = longest.first_mut().filter(|s| s.longest == kind.longest) {
        first.tree = tree::calls(&kind.steps, functions);
    }
    let mut recorder = Recorder::new();
    for (length, count) in &kind.lengths {
        recorder.record_n(*length, *count);
    }
    let mut lengths = recorder.to_histogram();
    if lengths.count > 0 {
        // The bins tell less than these.
        (lengths.max, lengths.sum) = (kind.longest.max(lengths.min), kind.sum as f64);
    }
    SectionKind {
        kind: name.into(),
        count: kind.count,
        instructions: kind.sum,
        dropped: kind.dropped,
        lengths,
        longest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "latlab-sections 1 arm\nC 1000 10 1 7 0\nN i 3 60 0\nH i 20 3\n\
        K i c0000010 c0000020 2 30 20\nK i c0000014 c0000104 1 30 30\nL i 30\nS c0000000 4 c 4\nS c0000100 26 r 26\n\
        N p 1 9 0\nH p 9 1\nK p c0000100 c0000110 1 9 9\nL p 9\nS c0000100 9 - 9\nE\n";
    const KALLSYMS: &[u8] = b"c0000000 t lock\nc0000100 t unlock\nc0000200 t end\n";

    #[test]
    fn sections_have_functions_and_their_longest_a_tree() {
        let part = part("armv7-rt", "6.1", &read(FILE).unwrap(), KALLSYMS, None);
        let Some(Detail::Sections(detail)) = &part.detail else { panic!() };
        let [irqs, preempt] = detail.kinds.as_slice() else { panic!() };
        let first = &irqs.longest[0];
        assert_eq!(
            (first.begins.as_str(), first.ends.as_str(), first.longest),
            ("lock", "unlock", 30)
        );
        assert_eq!(first.tree.iter().map(|c| c.own).sum::<u64>(), 30);
        assert_eq!((irqs.longest[1].count, irqs.longest[1].sum), (2, 30));
        assert_eq!((preempt.count, preempt.lengths.count), (1, 1));
        assert_eq!(preempt.longest[0].tree[0].name, "unlock");
        assert_eq!((detail.instructions, detail.user_checks), (1000, 7));
    }

    #[test]
    fn what_is_cut_or_wrong_is_refused() {
        let cut = FILE.strip_suffix("E\n").unwrap();
        assert!(read(cut).unwrap_err().reason.contains("fewer wake-ups"));
        for (line, text) in [
            (1, "latlab-path 1 arm"),
            (2, "latlab-sections 1 arm\nK x 1 1 1 1 1"),
            (3, "latlab-sections 1 arm\nL i 3\nS zz 1 - 1"),
            (2, "latlab-sections 1 arm\nC 1000 10 2 7 0"),
            (2, "latlab-sections 1 arm\n?"),
        ] {
            assert_eq!(read(text).unwrap_err().line, line, "{text}");
        }
    }
}
