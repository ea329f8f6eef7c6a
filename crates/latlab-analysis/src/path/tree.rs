//! Calls of a path: executed blocks become a tree of functions.
//!
//! A block at the start of a function, or after a call, is a call. One in the middle of a function that is
//! among the callers is a return to it. After a return to a function that is not, the path has left
//! everything that it saw being called: it goes on in a caller from before the path began, such as that of a
//! thread that was switched to; callers of that kind follow each other at the top of the tree.

use super::format::{Leaves, Step};
use super::functions::{Functions, USER_SPACE};
use latlab_model::path::Call;
use std::collections::HashMap;

/// Functions below their callers; beyond, instructions count for the caller.
const NODES_MAX: usize = 4_000;
/// Callers above a function.
const DEPTH_MAX: usize = 128;

struct Node {
    function: usize,
    children: Vec<usize>,
    calls: u64,
    own: u64,
}

struct Tree {
    /// The first is above all others.
    nodes: Vec<Node>,
    child_of: HashMap<(usize, usize), usize>,
    /// Indices of callers, outermost first, and of the function itself; never empty.
    stack: Vec<usize>,
}

impl Tree {
    fn top(&self) -> usize {
        self.stack.last().copied().unwrap_or(0)
    }

    fn push(&mut self, function: usize) {
        let parent = self.top();
        if self.stack.len() >= DEPTH_MAX {
            return;
        }
        let node = match self.child_of.get(&(parent, function)) {
            Some(node) => *node,
            None if self.nodes.len() >= NODES_MAX => return,
            None => {
                let node = self.nodes.len();
                self.nodes.push(Node { function, children: Vec::new(), calls: 0, own: 0 });
                self.nodes[parent].children.push(node);
                self.child_of.insert((parent, function), node);
                node
            }
        };
        self.nodes[node].calls += 1;
        self.stack.push(node);
    }

    /// Goes to where `entry` and the way out of the block before lead.
    fn go(&mut self, function: usize, entry: bool, before: Leaves) {
        let is_top = self.stack.len() > 1 && self.nodes[self.top()].function == function;
        let called = before == Leaves::Call && entry;
        if is_top && !called {
            return;
        }
        if called || entry {
            return self.push(function);
        }
        let caller = self.stack.iter().skip(1).rposition(|n| self.nodes[*n].function == function);
        match caller {
            Some(at) => self.stack.truncate(at + 2),
            None => {
                if before == Leaves::Return {
                    self.stack.truncate(1);
                }
                self.push(function);
            }
        }
    }
}

/// The calls of a path, callers before callees.
pub fn calls(steps: &[Step], functions: &mut Functions) -> Vec<Call> {
    let root = Node { function: usize::MAX, children: Vec::new(), calls: 0, own: 0 };
    let mut tree = Tree { nodes: vec![root], child_of: HashMap::new(), stack: vec![0] };
    // Nobody saw what called the first function.
    let mut before = Leaves::Return;
    for step in steps {
        let place = functions.at(step.block.address);
        if functions.name(place.function) == USER_SPACE {
            tree.stack.truncate(1);
        }
        tree.go(place.function, place.entry, before);
        let top = tree.top();
        tree.nodes[top].own += step.executed;
        before = if step.whole() { step.block.leaves } else { Leaves::Jump };
    }
    flat(&tree, functions)
}

fn flat(tree: &Tree, functions: &Functions) -> Vec<Call> {
    let mut totals: Vec<u64> = tree.nodes.iter().map(|n| n.own).collect();
    // A child has a larger index than its parent.
    for node in (0..tree.nodes.len()).rev() {
        totals[node] += tree.nodes[node].children.iter().map(|c| totals[*c]).sum::<u64>();
    }
    let mut calls = Vec::with_capacity(tree.nodes.len());
    let mut left: Vec<(usize, u32)> =
        tree.nodes[0].children.iter().rev().map(|c| (*c, 0)).collect();
    while let Some((node, depth)) = left.pop() {
        let Node { function, children, calls: n, own } = &tree.nodes[node];
        let name = functions.name(*function).to_owned();
        calls.push(Call { name, depth, calls: *n, own: *own, total: totals[node] });
        left.extend(children.iter().rev().map(|c| (*c, depth + 1)));
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::super::format::Block;
    use super::*;

    const KALLSYMS: &[u8] =
        b"c0000000 t idle\nc0000100 t irq\nc0000200 t timer\nc0000300 t __schedule\n\
        c0000400 t __switch_to\nc0000500 t nanosleep\nc0000600 t lock\nc0000700 t end\n";

    fn tree(steps: &[(u64, u64, Leaves)]) -> Vec<String> {
        let mut functions = Functions::new("arm", KALLSYMS);
        let steps: Vec<Step> = steps
            .iter()
            .map(|(address, executed, leaves)| Step {
                block: Block { address: *address, instructions: 1, leaves: *leaves },
                executed: *executed,
            })
            .collect();
        let all: u64 = steps.iter().map(|s| s.executed).sum();
        let calls = calls(&steps, &mut functions);
        assert_eq!(calls.iter().map(|c| c.own).sum::<u64>(), all, "nothing is lost");
        let line = |c: &Call| {
            let indent = " ".repeat(c.depth as usize);
            format!("{indent}{} {}/{} x{}", c.name, c.own, c.total, c.calls)
        };
        calls.iter().map(line).collect()
    }

    use Leaves::{Call as C, Jump as J, Return as R};

    #[test]
    fn a_wake_up_from_idle_to_another_thread() {
        let lines = tree(&[
            (0xc000_0010, 2, J), // idle is left
            (0xffff_0018, 1, J), // the interrupt
            (0xc000_0100, 3, C), // irq calls timer
            (0xc000_0200, 4, C), // timer calls lock
            (0xc000_0600, 2, R), // lock returns
            (0xc000_0210, 1, C),
            (0xc000_0600, 2, R), // and again
            (0xc000_0220, 1, R), // timer returns
            (0xc000_0110, 1, R), // irq returns to idle
            (0xc000_0020, 1, C), // idle calls __schedule
            (0xc000_0300, 5, C),
            (0xc000_0400, 6, R), // the switch
            (0xc000_0330, 2, R), // the other thread's __schedule
            (0xc000_0540, 3, R), // returns to what nobody saw
            (0x0001_0000, 7, J), // user space
        ]);
        let expected = [
            "idle 3/31 x1",
            " (exception vector) 1/15 x1",
            "  irq 4/14 x1",
            "   timer 6/10 x1",
            "    lock 4/4 x2",
            " __schedule 7/13 x1",
            "  __switch_to 6/6 x1",
            "nanosleep 3/3 x1",
            "(user space) 7/7 x1",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_tail_call_returns_to_the_caller_of_both() {
        let lines = tree(&[
            (0xc000_0010, 1, C),
            (0xc000_0100, 1, J), // irq jumps to timer
            (0xc000_0200, 1, R), // which returns to idle
            (0xc000_0020, 1, C),
            (0xc000_0600, 1, R),
        ]);
        assert_eq!(lines, ["idle 2/5 x1", " irq 1/2 x1", "  timer 1/1 x1", " lock 1/1 x1"]);
    }

    #[test]
    fn recursion_is_a_call_and_a_loop_is_none() {
        let lines = tree(&[(0xc000_0100, 1, C), (0xc000_0100, 1, J), (0xc000_0100, 1, J)]);
        assert_eq!(lines, ["irq 1/3 x1", " irq 2/2 x1"]);
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let deep: Vec<_> = (0..10_000).map(|_| (0xc000_0100, 1, C)).collect();
        assert!(tree(&deep).len() <= DEPTH_MAX);
        let many: Vec<_> = (0..100_000u64)
            .map(|n| {
                (
                    [0xc000_0100, 0xc000_0200, 0xc000_0600][(n * n % 3) as usize],
                    1,
                    if n % 5 == 0 { R } else { C },
                )
            })
            .collect();
        assert!(tree(&many).len() <= NODES_MAX);
    }
}
