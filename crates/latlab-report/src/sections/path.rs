//! Wake-ups as executed instructions: the tree of functions of the median and of the worst one, and what
//! differs between two machines.

use crate::doc::{Block, Column, Flame, FlameBox, Section, Table};
use crate::values::grouped;
use latlab_model::path::{Call, FunctionChange, MachinePaths, PathDetail, WakePath};
use latlab_model::run::Part;
use latlab_model::units::format_ns;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Functions of the tree on the first screen: of one machine, and beside a difference.
const SCREEN: (usize, usize) = (24, 12);
/// Changed functions in a sentence.
const NAMED: usize = 3;

/// The sections of a `path` part.
pub fn sections(part: &Part, detail: &PathDetail) -> Vec<Section> {
    let mut blocks = vec![Block::Findings(part.findings.clone())];
    if !detail.changes.is_empty() {
        blocks.push(Block::Table(changes(&detail.changes)));
    }
    let mut sections = vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }];
    for (n, machine) in detail.machines.iter().enumerate() {
        let mut blocks = vec![
            Block::Table(paths(machine)),
            Block::Pre(tree(machine, usize::MAX)),
            Block::Flame(Box::new(flame("Median", machine, &machine.median))),
            Block::Flame(Box::new(flame("Worst", machine, &machine.worst))),
        ];
        let title = match machine.release.as_str() {
            "" => machine.name.clone(),
            release => format!("{} (Linux {release})", machine.name),
        };
        if detail.machines.len() > 1 {
            sections.push(Section { id: format!("{}-{}", part.name, n + 1), title, blocks });
        } else {
            sections[0].blocks.append(&mut blocks);
        }
    }
    sections
}

/// The first screen: the tree, or the difference and the tree of the second machine.
pub fn screen(detail: &PathDetail) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !detail.changes.is_empty() {
        blocks.push(Block::Table(changes(&detail.changes)));
    }
    let rows = if detail.changes.is_empty() { SCREEN.0 } else { SCREEN.1 };
    blocks.extend(detail.machines.last().map(|m| Block::Pre(tree(m, rows))));
    blocks
}

/// The result in words.
pub fn summary(detail: &PathDetail) -> Vec<String> {
    let mut sentences: Vec<String> = detail.machines.iter().map(sentence).collect();
    if let [before, after, ..] = detail.machines.as_slice() {
        let added = after.median.instructions as i64 - before.median.instructions as i64;
        sentences.push(match detail.changes.as_slice() {
            [] => "The median paths execute the same functions with the same instructions.".into(),
            changes => format!("Median path {}.", difference(added, changes)),
        });
    }
    sentences
}

/// `+48 instructions: ktime_get from hrtimer_interrupt +31, …`.
pub fn difference(added: i64, changes: &[FunctionChange]) -> String {
    let mut text = format!("{added:+} instructions");
    for (n, change) in changes.iter().take(NAMED).enumerate() {
        let _ = write!(text, "{} {}", if n == 0 { ":" } else { "," }, change.name);
        if !change.caller.is_empty() {
            let _ = write!(text, " from {}", change.caller);
        }
        let _ = write!(text, " {:+}", change.added());
    }
    match changes.len().saturating_sub(NAMED) {
        0 => {}
        1 => text.push_str(", 1 more function"),
        more => {
            let _ = write!(text, ", {more} more functions");
        }
    }
    text
}

fn sentence(m: &MachinePaths) -> String {
    let mut text = format!(
        "{}: median {} instructions ({}), worst {} ({}), in {} wake-ups on {} different paths.",
        m.name,
        grouped(m.median.instructions),
        latency(&m.median),
        grouped(m.worst.instructions),
        latency(&m.worst),
        grouped(m.wakeups),
        grouped(m.different_paths),
    );
    if let Some([least, median, most]) = m.remainder_ns {
        let _ = write!(
            text,
            " Latency less instructions: {median} ns ({least} to {most}), from programming the timer."
        );
    }
    if m.dropped > 0 {
        let _ = write!(text, " {} paths were not kept.", grouped(m.dropped));
    }
    text
}

fn latency(path: &WakePath) -> String {
    let state = if path.idle { "" } else { ", CPU busy" };
    format!("{}{state}", format_ns(path.latency_ns as f64))
}

fn paths(m: &MachinePaths) -> Table {
    let share = |n: u64| format!("{:.1} %", 100.0 * n as f64 / m.wakeups.max(1) as f64);
    Table {
        caption: "Most frequent paths".into(),
        columns: ["instructions", "wake-ups", "share"].map(Column::right).to_vec(),
        rows: (m.paths.iter())
            .map(|p| vec![grouped(p.instructions), grouped(p.count), share(p.count)])
            .collect(),
    }
}

/// The functions that differ, with the instructions of both sides.
pub(super) fn changes(changes: &[FunctionChange]) -> Table {
    let row = |c: &FunctionChange| {
        vec![
            format!("{:+}", c.added()),
            grouped(c.own[0]),
            grouped(c.own[1]),
            c.calls[0].to_string(),
            c.calls[1].to_string(),
            c.name.clone(),
            c.caller.clone(),
        ]
    };
    Table {
        caption: "Functions whose own instructions differ on the median path".into(),
        columns: vec![
            Column::right("difference"),
            Column::right("before"),
            Column::right("after"),
            Column::right("calls").optional(1),
            Column::right("after").optional(1),
            Column::left("function"),
            Column::left("called by"),
        ],
        rows: changes.iter().map(row).collect(),
    }
}

/// A function of both trees, by the names of its callers and its own.
struct Row<'a> {
    depth: u32,
    name: &'a str,
    own: u64,
    totals: [u64; 2],
    calls: u64,
}

/// The trees of the median and the worst wake-up beside each other; the rows with the most
/// instructions, in the order of the tree.
fn tree(m: &MachinePaths, most: usize) -> String {
    let rows = merged(&m.median.tree, &m.worst.tree);
    let mut largest: Vec<usize> = (0..rows.len()).collect();
    // A caller has no fewer than its callees, and comes before them.
    largest.sort_by_key(|n| (std::cmp::Reverse(rows[*n].totals.iter().max().copied()), *n));
    largest.truncate(most);
    largest.sort_unstable();
    let mut text =
        format!("{:>8} {:>8} {:>8} {:>5}  function\n", "median", "worst", "own", "calls");
    for row in largest.iter().map(|n| &rows[*n]) {
        let cell = |n: u64| if n == 0 { "–".to_owned() } else { n.to_string() };
        let [median, worst] = row.totals.map(cell);
        let indent = " ".repeat(row.depth.min(40) as usize);
        let _ = writeln!(
            text,
            "{median:>8} {worst:>8} {:>8} {:>5}  {indent}{}",
            cell(row.own),
            cell(row.calls),
            row.name
        );
    }
    let sum = |path: &WakePath| path.tree.iter().map(|c| c.own).sum::<u64>();
    let _ = writeln!(text, "{:>8} {:>8} {:>14}  sum", sum(&m.median), sum(&m.worst), "");
    let left = rows.len() - largest.len();
    if left > 0 {
        let _ = writeln!(text, "({left} more functions with --details)");
    }
    text
}

/// A tree alone; the functions with the most instructions, in the order of the tree.
pub(super) fn outline(tree: &[Call], most: usize) -> String {
    let mut largest: Vec<usize> = (0..tree.len()).collect();
    largest.sort_by_key(|n| (std::cmp::Reverse(tree[*n].total), *n));
    largest.truncate(most);
    largest.sort_unstable();
    let mut text = format!("{:>8} {:>8} {:>5}  function\n", "total", "own", "calls");
    for call in largest.iter().map(|n| &tree[*n]) {
        let indent = " ".repeat(call.depth.min(40) as usize);
        let Call { name, calls, own, total, .. } = call;
        let _ = writeln!(text, "{total:>8} {own:>8} {calls:>5}  {indent}{name}");
    }
    let left = tree.len() - largest.len();
    if left > 0 {
        let _ = writeln!(text, "({left} more functions with --details)");
    }
    text
}

/// Rows of both trees in the order of the first; those of the second alone stand after their caller's.
fn merged<'a>(median: &'a [Call], worst: &'a [Call]) -> Vec<Row<'a>> {
    let mut nodes: Vec<Node<'a>> = vec![Node::default()];
    for (side, tree) in [median, worst].into_iter().enumerate() {
        let mut stack = vec![0];
        for call in tree {
            stack.truncate(call.depth as usize + 1);
            let parent = stack.last().copied().unwrap_or(0);
            let next = nodes.len();
            let node = *nodes[parent].by_name.entry(&call.name).or_insert(next);
            if node == next {
                nodes[parent].children.push(node);
                nodes.push(Node::default());
            }
            nodes[node].totals[side] = call.total;
            if nodes[node].call.is_none() {
                nodes[node].call = Some(call);
            }
            stack.push(node);
        }
    }
    let mut rows = Vec::new();
    let mut left: Vec<(usize, u32)> = nodes[0].children.iter().rev().map(|n| (*n, 0)).collect();
    while let Some((n, depth)) = left.pop() {
        let node = &nodes[n];
        if let Some(call) = node.call {
            let (name, own, calls) = (call.name.as_str(), call.own, call.calls);
            rows.push(Row { depth, name, own, totals: node.totals, calls });
        }
        left.extend(node.children.iter().rev().map(|c| (*c, depth + 1)));
    }
    rows
}

#[derive(Default)]
struct Node<'a> {
    call: Option<&'a Call>,
    totals: [u64; 2],
    children: Vec<usize>,
    by_name: BTreeMap<&'a str, usize>,
}

fn flame(which: &str, m: &MachinePaths, path: &WakePath) -> Flame {
    flame_of(format!("{which} wake-up of {}", m.name), path)
}

/// The flame graph of one wake-up.
pub(super) fn flame_of(title: String, path: &WakePath) -> Flame {
    Flame {
        title,
        description: format!(
            "{} instructions from the timer's expiry to the clock reading in user space; a function \
             stands below its caller and is as wide as its instructions with those of its callees. \
             Functions at the top beside each other: callers of the thread that was switched to.",
            grouped(path.instructions)
        ),
        unit: "instructions".into(),
        total: path.tree.iter().map(|c| c.own).sum(),
        boxes: boxes(&path.tree),
    }
}

/// Where each function begins: its first callee begins where it does.
fn boxes(tree: &[Call]) -> Vec<FlameBox> {
    // For each depth, where the next function begins.
    let mut next = vec![0];
    let mut boxes = Vec::with_capacity(tree.len());
    for call in tree {
        let depth = call.depth as usize;
        next.truncate(depth + 1);
        let Some(start) = next.get(depth).copied() else { continue };
        next[depth] = start + call.total;
        next.push(start);
        let (name, width) = (call.name.clone(), call.total);
        boxes.push(FlameBox { name, depth: call.depth, start, width, marked: false });
    }
    boxes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, depth: u32, own: u64, total: u64) -> Call {
        Call { name: name.into(), depth, calls: 1, own, total }
    }

    fn detail() -> PathDetail {
        let path = |timer: u64| WakePath {
            latency_ns: 80 + timer,
            instructions: 13 + timer,
            idle: true,
            tree: vec![
                call("idle", 0, 4, 12 + timer),
                call("irq", 1, 8, 8 + timer),
                call("timer", 2, timer, timer),
                call("(user space)", 0, 1, 1),
            ],
        };
        let machine = MachinePaths {
            name: "armv7-rt".into(),
            wakeups: 200,
            different_paths: 2,
            remainder_ns: Some([51, 67, 81]),
            median: path(20),
            worst: path(51),
            ..MachinePaths::default()
        };
        PathDetail { machines: vec![machine], changes: Vec::new() }
    }

    #[test]
    fn a_path_reads_as_a_tree_with_its_sum() {
        let detail = detail();
        let text = tree(&detail.machines[0], 3);
        let expected = "  median    worst      own calls  function\n      \
            32       63        4     1  idle\n      \
            28       59        8     1   irq\n      \
            20       51       20     1    timer\n      \
            33       64                 sum\n(1 more functions with --details)\n";
        assert_eq!(text, expected);
        assert_eq!(
            summary(&detail),
            [
                "armv7-rt: median 33 instructions (100 ns), worst 64 (131 ns), in 200 wake-ups on 2 different \
              paths. Latency less instructions: 67 ns (51 to 81), from programming the timer."
            ]
        );
    }

    #[test]
    fn a_function_of_one_tree_alone_has_its_row() {
        let worst = [call("idle", 0, 4, 9), call("softirq", 1, 5, 5)];
        let median = [call("idle", 0, 4, 4), call("(user space)", 0, 1, 1)];
        let rows = merged(&median, &worst);
        let all: Vec<_> = rows.iter().map(|r| (r.name, r.depth, r.totals)).collect();
        assert_eq!(all, [("idle", 0, [4, 9]), ("softirq", 1, [0, 5]), ("(user space)", 0, [1, 0])]);
    }

    #[test]
    fn a_difference_names_functions_and_their_callers() {
        let change = |name: &str, caller: &str, own| FunctionChange {
            name: name.into(),
            caller: caller.into(),
            own,
            calls: [1, 1],
        };
        let all = [
            change("ktime_get", "hrtimer_interrupt", [100, 131]),
            change("schedule", "", [10, 20]),
            change("a", "b", [0, 8]),
            change("c", "d", [1, 0]),
        ];
        assert_eq!(
            difference(48, &all),
            "+48 instructions: ktime_get from hrtimer_interrupt +31, schedule +10, a from b +8, 1 more function"
        );
        assert_eq!(difference(-2, &all[1..2]), "-2 instructions: schedule +10");
    }

    #[test]
    fn boxes_stand_below_their_callers() {
        let boxes = boxes(&detail().machines[0].median.tree);
        let places: Vec<_> = boxes.iter().map(|b| (b.start, b.width)).collect();
        assert_eq!(places, [(0, 32), (0, 28), (0, 20), (32, 1)]);
        assert!(super::boxes(&[call("deep", 9, 1, 1)]).is_empty(), "no caller");
    }
}
