//! A flame graph of a stretch of time: from recorded stacks, from `function_graph`, or from `function`.
//!
//! The layout is that of B. Gregg, "The Flame Graph" (CACM 59(6), 2016): children in order of their
//! names, widths by the number of stacks, by time, or by the number of calls.

use crate::event::Stacks;
use crate::index::Index;
use crate::index::column::Items;
use crate::rows::Rows;
use latlab_trace::{Event, TraceFile};
use serde::Serialize;
use std::collections::BTreeMap;

/// Nodes of one graph at most; what does not fit is added to the nodes that are there.
const NODES: usize = 5_000;
/// Events that are read at most.
const EVENTS: u64 = 1_000_000;

/// What a graph is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Nothing was recorded that one could be made of.
    #[default]
    Nothing,
    /// Kernel stacks of events: a value is a number of events.
    KernelStacks,
    /// Stacks of user space: the same.
    UserStacks,
    /// Spans of `function_graph`: a value is a time in ns.
    FunctionGraph,
    /// `function` with its parent: a value is a number of calls.
    Function,
}

/// One box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its parent's place in the list, before its own; the root is its own.
    pub parent: usize,
    /// Function, or for the innermost box of a stack the event.
    pub name: String,
    /// Events, ns or calls, with those of all that is below.
    pub value: u64,
}

/// A graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flame {
    /// What it is made of.
    pub origin: Origin,
    /// The boxes, parents before children, children in order of their names.
    pub nodes: Vec<Node>,
    /// Whether the stretch has more events than were read, or more boxes than were made.
    pub partial: bool,
}

/// A tree by name.
#[derive(Debug)]
struct Tree {
    nodes: Vec<(u64, BTreeMap<String, usize>)>,
    partial: bool,
}

impl Tree {
    fn new() -> Self {
        Self { nodes: vec![(0, BTreeMap::new())], partial: false }
    }

    /// The child of that name; the node itself if there is no room for another.
    fn child(&mut self, node: usize, name: &str) -> usize {
        if let Some(child) = self.nodes[node].1.get(name) {
            return *child;
        }
        if self.nodes.len() >= NODES {
            self.partial = true;
            return node;
        }
        let child = self.nodes.len();
        self.nodes.push((0, BTreeMap::new()));
        self.nodes[node].1.insert(name.to_owned(), child);
        child
    }

    /// One more of a path, outermost first.
    fn add<'n>(&mut self, path: impl Iterator<Item = &'n str>, value: u64) {
        self.nodes[0].0 += value;
        let mut node = 0;
        for name in path {
            let child = self.child(node, name);
            if child == node {
                return;
            }
            node = child;
            self.nodes[node].0 += value;
        }
    }

    fn list(self, origin: Origin, partial: bool) -> Flame {
        if self.nodes[0].0 == 0 {
            return Flame::default();
        }
        let root = Node { parent: 0, name: "all".into(), value: self.nodes[0].0 };
        let mut nodes = vec![root];
        // Place in the tree, and of its box in the list.
        let mut open = vec![(0, 0)];
        while let Some((node, place)) = open.pop() {
            for (name, child) in &self.nodes[node].1 {
                open.push((*child, nodes.len()));
                let value = self.nodes[*child].0;
                nodes.push(Node { parent: place, name: name.clone(), value });
            }
        }
        Flame { origin, nodes, partial: partial || self.partial }
    }
}

/// The graph of the events from `from` to `to` (ns of the trace's clock).
pub fn flame(file: &TraceFile<'_>, rows: &Rows<'_>, index: &Index, from: u64, to: u64) -> Flame {
    let stacks = Stacks::new(file);
    let seen = |user| {
        let id = stacks.id(user)?;
        index.kinds.get(usize::from(id)).filter(|n| **n > 0)
    };
    if seen(false).is_some() || seen(true).is_some() {
        let flame = of_stacks(file, rows, index, &stacks, (from, to));
        if flame.origin != Origin::Nothing {
            return flame;
        }
    }
    let flame = of_spans(index, from, to);
    if flame.origin != Origin::Nothing {
        return flame;
    }
    of_calls(file, rows, index, &stacks, (from, to))
}

/// Calls `each` with the events of a stretch; whether there were more than are read.
fn within(
    rows: &Rows<'_>,
    index: &Index,
    (from, to): (u64, u64),
    each: &mut dyn FnMut(&Event<'_>),
) -> bool {
    let mut left = EVENTS;
    rows.events(index, rows.at_time(index, from), &mut |e| {
        if e.time > to || left == 0 {
            return false;
        }
        left -= 1;
        each(e);
        true
    });
    left == 0
}

fn of_stacks(
    file: &TraceFile<'_>,
    rows: &Rows<'_>,
    index: &Index,
    stacks: &Stacks<'_>,
    span: (u64, u64),
) -> Flame {
    let (mut kernel, mut user) = (Tree::new(), Tree::new());
    // The event that each CPU's next stack belongs to.
    let mut last: BTreeMap<u32, u16> = BTreeMap::new();
    let partial = within(rows, index, span, &mut |e| {
        let Some(is_user) = stacks.is(e.id) else {
            last.insert(e.cpu, e.id);
            return;
        };
        let mut path: Vec<String> =
            stacks.addresses(e).into_iter().rev().map(|a| stacks.name(a, is_user).0).collect();
        let event = last.get(&e.cpu).and_then(|id| file.formats.get(*id));
        path.extend(event.map(|f| f.name.to_string()));
        let tree = if is_user { &mut user } else { &mut kernel };
        tree.add(path.iter().map(String::as_str), 1);
    });
    let kernel = kernel.list(Origin::KernelStacks, partial);
    if kernel.nodes.is_empty() { user.list(Origin::UserStacks, partial) } else { kernel }
}

/// Spans of functions, with what is nested in them.
fn of_spans(index: &Index, from: u64, to: u64) -> Flame {
    let mut tree = Tree::new();
    for cpu in &index.cpus {
        let rows = &cpu.nested[2];
        // Row, stretch, node.
        let mut open = vec![(0, from, to, 0)];
        while let Some((depth, from, to, node)) = open.pop() {
            let Some(spans) = rows.get(depth) else { continue };
            for i in spans.first_after(from)..spans.len() {
                let item = spans.get(i);
                if item.start >= to {
                    break;
                }
                let (start, end) = (item.start.max(from), item.end.min(to));
                let name = index.names.get(item.id as usize).map_or("", |n| n);
                let child = tree.child(node, name);
                if child == node || end <= start {
                    continue;
                }
                tree.nodes[child].0 += end - start;
                if depth == 0 {
                    tree.nodes[0].0 += end - start;
                }
                open.push((depth + 1, start, end, child));
            }
        }
    }
    tree.list(Origin::FunctionGraph, false)
}

/// Calls that `function` recorded: each below its parent.
fn of_calls(
    file: &TraceFile<'_>,
    rows: &Rows<'_>,
    index: &Index,
    stacks: &Stacks<'_>,
    span: (u64, u64),
) -> Flame {
    let format = file.formats.iter().find(|f| &*f.system == "ftrace" && &*f.name == "function");
    let fields = format.and_then(|f| Some((f.id, f.field("ip")?, f.field("parent_ip")?)));
    let Some((id, ip, parent)) = fields else { return Flame::default() };
    let mut tree = Tree::new();
    let partial = within(rows, index, span, &mut |e| {
        if e.id == id {
            let name = |field: &latlab_trace::Field| stacks.name(field.u64(e.payload), false).0;
            let path = [name(parent), name(ip)];
            tree.add(path.iter().map(String::as_str), 1);
        }
    });
    tree.list(Origin::Function, partial)
}
