//! A flame graph of a stretch of time: from recorded stacks, from `function_graph`, or from `function`.
//!
//! The layout is that of B. Gregg, "The Flame Graph" (CACM 59(6), 2016): children in order of their
//! names, widths by the number of stacks, by time, or by the number of calls.

use crate::event::Stacks;
use crate::index::Index;
use crate::index::column::Items;
use crate::rows::Rows;
use latlab_model::event::OffCpu;
use latlab_trace::{Event, TraceFile};
use serde::Serialize;
use std::collections::HashMap;

/// Nodes of one graph at most; what does not fit is added to the nodes that are there.
const NODES: usize = 5_000;
/// Events that are read at most.
const EVENTS: u64 = 1_000_000;
/// Different names at most: more than the boxes of both trees.
const NAMES: usize = 2 * NODES + 1;
/// Addresses of each space whose names are kept.
const ADDRESSES: usize = 1 << 16;

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
    /// Stacks with which a task left its CPU: a value is the time until it had one again, in ns.
    OffCpu,
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

/// Names of boxes by number, so that an address is resolved and its name compared once.
#[derive(Debug, Default)]
struct Names {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Of addresses, kernel first; of others the name is looked up again.
    known: [HashMap<u64, u32>; 2],
}

impl Names {
    /// The number of a name; `None` beyond [`NAMES`], when both trees have all the boxes that they may have.
    fn number(&mut self, name: &str) -> Option<u32> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        let number = u32::try_from(self.names.len()).ok().filter(|_| self.names.len() < NAMES)?;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Some(number)
    }

    /// The number of the name of the function at an address.
    fn function(&mut self, stacks: &Stacks<'_>, address: u64, user: bool) -> Option<u32> {
        let space = usize::from(user);
        if let Some(number) = self.known[space].get(&address) {
            return Some(*number);
        }
        let number = self.number(&stacks.name(address, user).0)?;
        if self.known[space].len() < ADDRESSES {
            self.known[space].insert(address, number);
        }
        Some(number)
    }
}

/// A tree by numbers of [`Names`].
#[derive(Debug)]
struct Tree {
    /// Name and value of each node; the root has none.
    nodes: Vec<(u32, u64)>,
    /// Children by parent and name.
    children: HashMap<(usize, u32), usize>,
    partial: bool,
}

impl Tree {
    fn new() -> Self {
        Self { nodes: vec![(0, 0)], children: HashMap::new(), partial: false }
    }

    /// The child of that name; `None` where it would be one box too many.
    fn child(&mut self, node: usize, name: Option<u32>) -> Option<usize> {
        let found = name.and_then(|name| self.children.get(&(node, name)).copied());
        if found.is_some() {
            return found;
        }
        let Some(name) = name.filter(|_| self.nodes.len() < NODES) else {
            self.partial = true;
            return None;
        };
        let child = self.nodes.len();
        self.nodes.push((name, 0));
        self.children.insert((node, name), child);
        Some(child)
    }

    /// The times of several CPUs of a damaged trace may exceed any number.
    fn count(&mut self, node: usize, value: u64) {
        self.nodes[node].1 = self.nodes[node].1.saturating_add(value);
    }

    /// One more of a path, outermost first.
    fn add(&mut self, path: impl Iterator<Item = Option<u32>>, value: u64) {
        self.count(0, value);
        let mut node = 0;
        for name in path {
            let Some(child) = self.child(node, name) else { return };
            node = child;
            self.count(node, value);
        }
    }

    fn list(self, names: &Names, origin: Origin, partial: bool) -> Flame {
        if self.nodes[0].1 == 0 {
            return Flame::default();
        }
        let mut children: Vec<Vec<(&str, usize)>> = vec![Vec::new(); self.nodes.len()];
        for ((parent, name), child) in &self.children {
            children[*parent].push((&names.names[*name as usize], *child));
        }
        let mut nodes = vec![Node { parent: 0, name: "all".into(), value: self.nodes[0].1 }];
        // Place in the tree, and of its box in the list.
        let mut open = vec![(0, 0)];
        while let Some((node, place)) = open.pop() {
            let below = &mut children[node];
            below.sort_unstable();
            for (name, child) in below {
                open.push((*child, nodes.len()));
                let (name, value) = ((*name).to_owned(), self.nodes[*child].1);
                nodes.push(Node { parent: place, name, value });
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
    let (mut kernel, mut user, mut names) = (Tree::new(), Tree::new(), Names::default());
    // The event that each CPU's next stack belongs to.
    let mut last: HashMap<u32, u16> = HashMap::new();
    let partial = within(rows, index, span, &mut |e| {
        let Some(is_user) = stacks.is(e.id) else {
            last.insert(e.cpu, e.id);
            return;
        };
        let addresses = stacks.addresses(e);
        let event = last.get(&e.cpu).and_then(|id| file.formats.get(*id)).map(|f| &*f.name);
        let frames = addresses.iter().rev().map(|a| Frame::Address(*a));
        let frames = frames.chain(event.map(Frame::Event));
        let path = frames.map(|frame| match frame {
            Frame::Address(address) => names.function(stacks, address, is_user),
            Frame::Event(name) => names.number(name),
        });
        let tree = if is_user { &mut user } else { &mut kernel };
        tree.add(path, 1);
    });
    let kernel = kernel.list(&names, Origin::KernelStacks, partial);
    if kernel.nodes.is_empty() { user.list(&names, Origin::UserStacks, partial) } else { kernel }
}

/// The time from `from` to `to` in which a task had no CPU, by the stacks with which it left that; the innermost
/// box is what it did then. A switch without a stack counts as a stack without frames.
pub fn off_cpu(
    file: &TraceFile<'_>,
    rows: &Rows<'_>,
    index: &Index,
    (from, to): (u64, u64),
    pid: i32,
) -> Flame {
    let format = file.formats.iter().find(|f| &*f.system == "sched" && &*f.name == "sched_switch");
    let fields = format.and_then(|f| {
        Some((f.id, f.field("prev_pid")?, f.field("prev_state")?, f.field("next_pid")?))
    });
    let Some((switch, prev, state, next)) = fields else { return Flame::default() };
    let stacks = Stacks::new(file);
    let (mut tree, mut names) = (Tree::new(), Names::default());
    // When it left, on which CPU, how; kernel and user addresses; whether stacks may still follow.
    let mut left: Option<Left> = None;
    let mut close = |left: Option<Left>, end: u64| {
        let Some(left) = left.filter(|l| end > l.time) else { return };
        let user = left.stacks[1].iter().rev().map(|a| (*a, true));
        let kernel = left.stacks[0].iter().rev().map(|a| (*a, false));
        let mut path: Vec<Option<u32>> =
            user.chain(kernel).map(|(a, user)| names.function(&stacks, a, user)).collect();
        path.push(names.number(left.how));
        tree.add(path.into_iter(), end - left.time);
    };
    let partial = within(rows, index, (from, to), &mut |e| {
        if let Some(user) = stacks.is(e.id) {
            if let Some(l) = left.as_mut().filter(|l| l.open && l.cpu == e.cpu) {
                l.stacks[usize::from(user)] = stacks.addresses(e);
            }
            return;
        }
        if let Some(l) = left.as_mut().filter(|l| l.cpu == e.cpu) {
            l.open = false;
        }
        if e.id != switch {
            return;
        }
        if next.u64(e.payload) as i32 == pid {
            close(left.take(), e.time);
        } else if prev.u64(e.payload) as i32 == pid {
            let how = match OffCpu::from_bits(state.u64(e.payload)) {
                OffCpu::Runnable | OffCpu::Preempted => "preempted",
                OffCpu::Sleeping => "sleeping",
                OffCpu::Blocked => "blocked",
                OffCpu::Stopped => "stopped",
                OffCpu::Dead => return,
            };
            let (time, cpu, open) = (e.time, e.cpu, true);
            left = Some(Left { time, cpu, how, stacks: Default::default(), open });
        }
    });
    close(left.take(), to.min(index.end));
    tree.list(&names, Origin::OffCpu, partial)
}

/// A task without a CPU.
struct Left {
    /// Since when, ns of the trace's clock.
    time: u64,
    /// On which CPU it was.
    cpu: u32,
    /// What it does.
    how: &'static str,
    /// Addresses, innermost first: of the kernel, of user space.
    stacks: [Vec<u64>; 2],
    /// No other event of its CPU came yet: stacks are of this switch.
    open: bool,
}

/// Part of a path.
enum Frame<'n> {
    Address(u64),
    Event(&'n str),
}

/// Spans of functions, with what is nested in them.
fn of_spans(index: &Index, from: u64, to: u64) -> Flame {
    let (mut tree, mut names) = (Tree::new(), Names::default());
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
                let name = names.number(name);
                let Some(child) = tree.child(node, name).filter(|_| end > start) else { continue };
                tree.count(child, end - start);
                if depth == 0 {
                    tree.count(0, end - start);
                }
                open.push((depth + 1, start, end, child));
            }
        }
    }
    tree.list(&names, Origin::FunctionGraph, false)
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
    let (mut tree, mut names) = (Tree::new(), Names::default());
    let partial = within(rows, index, span, &mut |e| {
        if e.id == id {
            let path = [parent, ip].into_iter();
            tree.add(path.map(|f| names.function(stacks, f.u64(e.payload), false)), 1);
        }
    });
    tree.list(&names, Origin::Function, partial)
}
