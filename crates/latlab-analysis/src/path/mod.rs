//! Paths of wake-ups: from executed blocks to functions, their tree, and their difference.

mod arrivals;
pub mod bisect;
pub mod bound;
pub mod bound_trace;
pub mod format;
pub mod functions;
pub mod kernel_code;
pub mod section_events;
pub mod sections;
pub mod tree;

use format::{PathFile, Wakeup};
use functions::Functions;
use latlab_model::path::{Call, FunctionChange, MachinePaths, PathCount, PathDetail, WakePath};
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::{Detail, Part};
use latlab_stats::histogram::Histogram;
use std::collections::{BTreeMap, HashMap};

/// Paths that are listed.
const PATHS: usize = 20;

/// What was measured in one machine.
#[derive(Debug)]
pub struct Measured<'a> {
    /// As the user named it.
    pub name: &'a str,
    /// Release of its kernel.
    pub release: &'a str,
    /// Virtual time of one instruction, ns.
    pub insn_ns: u64,
    /// The plugin's file.
    pub file: &'a PathFile,
    /// The guest's `/proc/kallsyms`.
    pub kallsyms: &'a [u8],
    /// Wake-ups at the end that count; those before are the measuring program's warm-up.
    pub counted: usize,
}

/// The paths of one machine; `None` where no wake-up has one.
pub fn machine(measured: &Measured<'_>) -> Option<MachinePaths> {
    let file = measured.file;
    let from = file.wakeups.len().saturating_sub(measured.counted);
    let wakeups = &file.wakeups[from..];
    let mut kept: Vec<&Wakeup> = wakeups.iter().filter(|w| w.path.is_some()).collect();
    kept.sort_by_key(|w| w.instructions);
    let median = *kept.get(kept.len() / 2)?;
    let worst = *kept.iter().max_by_key(|w| w.latency_ns)?;
    let mut counts = BTreeMap::<usize, PathCount>::new();
    for (path, wakeup) in kept.iter().filter_map(|w| Some((w.path?, w))) {
        let count = counts.entry(path).or_default();
        count.instructions = wakeup.instructions;
        count.count += 1;
    }
    let different_paths = counts.len() as u64;
    let mut paths: Vec<PathCount> = counts.into_values().collect();
    paths.sort_by_key(|p| (std::cmp::Reverse(p.count), p.instructions));
    paths.truncate(PATHS);
    let mut functions = Functions::new(&file.arch, measured.kallsyms);
    let mut path = |w: &Wakeup| WakePath {
        latency_ns: w.latency_ns,
        instructions: w.instructions,
        idle: w.idle,
        tree: tree::calls(&file.paths[w.path.unwrap_or(0)], &mut functions),
    };
    Some(MachinePaths {
        name: measured.name.into(),
        release: measured.release.into(),
        insn_ns: measured.insn_ns,
        wakeups: wakeups.len() as u64,
        dropped: (wakeups.len() - kept.len()) as u64,
        different_paths,
        paths,
        remainder_ns: remainders(&kept, measured.insn_ns),
        median: path(median),
        worst: path(worst),
    })
}

/// Latency less the time of the instructions, of wake-ups from idle: smallest, median, largest. A busy
/// wake-up's interval begins the latency's length before its end, so that it has none.
fn remainders(wakeups: &[&Wakeup], insn_ns: u64) -> Option<[i64; 3]> {
    let idle = wakeups.iter().filter(|w| w.idle);
    let mut all: Vec<i64> =
        idle.map(|w| w.latency_ns as i64 - w.instructions.saturating_mul(insn_ns) as i64).collect();
    all.sort_unstable();
    Some([*all.first()?, all[all.len() / 2], *all.last()?])
}

/// The instructions of a machine's counted wake-ups.
pub fn record(machine: &MachinePaths, file: &PathFile) -> Record {
    let from = file.wakeups.len().saturating_sub(machine.wakeups as usize);
    let histogram = Histogram::of(file.wakeups[from..].iter().map(|w| w.instructions));
    Record {
        name: "path.instructions".into(),
        params: [("machine".to_owned(), Param::from(machine.name.as_str()))].into(),
        unit: Unit::Count,
        summary: histogram.summary(),
        histogram: Some(histogram),
        ..Record::default()
    }
}

/// The machines and the difference of the first two.
pub fn detail(machines: Vec<MachinePaths>) -> PathDetail {
    let changes = match machines.as_slice() {
        [before, after, ..] => changes(&before.median, &after.median),
        _ => Vec::new(),
    };
    PathDetail { machines, changes }
}

/// The part of a run: the machines, their difference, and one record of instructions for each.
pub fn part(machines: Vec<(MachinePaths, &PathFile)>) -> Part {
    let results = machines.iter().map(|(machine, file)| record(machine, file)).collect();
    let detail = detail(machines.into_iter().map(|(machine, _)| machine).collect());
    Part {
        name: "path".into(),
        title: "Wake-up path".into(),
        complete: true,
        results,
        detail: Some(Detail::Path(Box::new(detail))),
        ..Part::default()
    }
}

/// Own instructions of a function on a path, of all its calls. A module's function is found with and without
/// the module in brackets.
pub fn own_instructions(path: &WakePath, function: &str) -> u64 {
    let is_it = |name: &str| {
        name == function || name.split_once(" [").is_some_and(|(bare, _)| bare == function)
    };
    path.tree.iter().filter(|call| is_it(&call.name)).map(|call| call.own).sum()
}

/// Own instructions and calls of a function, and its own instructions below each caller.
#[derive(Default)]
struct Sum<'a> {
    own: u64,
    calls: u64,
    by_caller: HashMap<&'a str, u64>,
}

impl Sum<'_> {
    /// Own instructions below a caller.
    fn below(&self, caller: &str) -> i64 {
        self.by_caller.get::<str>(caller).copied().unwrap_or(0) as i64
    }
}

fn sums(tree: &[Call]) -> HashMap<&str, Sum<'_>> {
    let mut sums = HashMap::<&str, Sum<'_>>::new();
    let mut callers: Vec<&str> = Vec::new();
    for call in tree {
        callers.truncate(call.depth as usize);
        let sum = sums.entry(&call.name).or_default();
        sum.own += call.own;
        sum.calls += call.calls;
        *sum.by_caller.entry(callers.last().copied().unwrap_or("")).or_default() += call.own;
        callers.push(&call.name);
    }
    sums
}

/// Functions that differ between two paths, largest difference first.
pub fn changes(before: &WakePath, after: &WakePath) -> Vec<FunctionChange> {
    let (a, b) = (sums(&before.tree), sums(&after.tree));
    let none = Sum::default();
    let mut names: Vec<&str> = a.keys().chain(b.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let change = |name: &str| {
        let (a, b) = (a.get(name).unwrap_or(&none), b.get(name).unwrap_or(&none));
        if a.own == b.own {
            return None;
        }
        let mut callers: Vec<&str> =
            a.by_caller.keys().chain(b.by_caller.keys()).copied().collect();
        callers.sort_unstable();
        let caller = callers.into_iter().max_by_key(|c| (b.below(c) - a.below(c)).abs());
        Some(FunctionChange {
            name: name.into(),
            caller: caller.unwrap_or_default().into(),
            own: [a.own, b.own],
            calls: [a.calls, b.calls],
        })
    };
    let mut changes: Vec<FunctionChange> = names.into_iter().filter_map(change).collect();
    changes.sort_by_key(|c| std::cmp::Reverse(c.added().abs()));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &[u8] =
        b"c0000000 t idle\nc0000100 t irq\nc0000200 t ktime_get\nc0000300 t end\n";

    /// Wake-ups that differ by how much of `ktime_get` they execute.
    fn file(instructions: &[u64]) -> PathFile {
        let mut text =
            "latlab-path 1 arm\nB 1 c0000010 4 c\nB 2 c0000100 8 c\nB 3 c0000200 200 r\n"
                .to_owned();
        for (n, i) in instructions.iter().enumerate() {
            text += &format!(
                "P {}\nS 1 4\nS 2 8\nS 3 {i}\nW {} {} {} i 0\n",
                n + 1,
                i + 12 + 67,
                i + 12,
                n + 1
            );
        }
        format::read(&text).unwrap()
    }

    fn measured(file: &PathFile) -> MachinePaths {
        let measured = Measured {
            name: "vm",
            release: "6.1",
            insn_ns: 1,
            file,
            kallsyms: KALLSYMS,
            counted: 3,
        };
        machine(&measured).unwrap()
    }

    #[test]
    fn median_and_worst_are_found_and_add_up() {
        let m = measured(&file(&[900, 30, 20, 100]));
        assert_eq!((m.wakeups, m.dropped, m.different_paths), (3, 0, 3), "the first is warm-up");
        assert_eq!((m.median.instructions, m.worst.instructions), (42, 112));
        assert_eq!(m.remainder_ns, Some([67, 67, 67]));
        for path in [&m.median, &m.worst] {
            assert_eq!(path.tree.iter().map(|c| c.own).sum::<u64>(), path.instructions);
            assert_eq!(path.tree[0].total, path.instructions);
        }
        assert!(
            machine(&Measured {
                name: "",
                release: "",
                insn_ns: 1,
                file: &PathFile::default(),
                kallsyms: b"",
                counted: 3
            })
            .is_none()
        );
    }

    #[test]
    fn a_difference_names_function_and_caller() {
        let (a, b) = (file(&[20, 20, 20]), file(&[51, 51, 51]));
        let part = part(vec![(measured(&a), &a), (measured(&b), &b)]);
        let Some(Detail::Path(detail)) = &part.detail else { panic!() };
        let [change] = detail.changes.as_slice() else { panic!("{:?}", detail.changes) };
        assert_eq!((change.name.as_str(), change.caller.as_str()), ("ktime_get", "irq"));
        assert_eq!((change.added(), change.calls), (31, [1, 1]));
        assert_eq!(part.results[0].summary.median, Some(32.0));
        assert!(changes(&detail.machines[0].median, &detail.machines[0].median).is_empty());
    }
}
