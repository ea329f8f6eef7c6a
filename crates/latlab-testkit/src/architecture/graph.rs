//! The graph between the files of a crate.

/// A reference from one file to what another defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Number in [`Graph::files`] of the file that refers.
    pub from: usize,
    /// Number in [`Graph::files`] of the file that defines.
    pub to: usize,
    /// Line in the file that refers, from 1.
    pub line: usize,
    /// The path as written; of a `use` tree, one leaf with what stands before it.
    pub path: String,
}

/// A path into another crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrateUse {
    /// The crate as a path has it: `latlab_core`.
    pub name: String,
    /// Number in [`Graph::files`].
    pub file: usize,
    /// Line, from 1.
    pub line: usize,
    /// The path as written.
    pub path: String,
}

/// The files of a crate and what they refer to, tests left out.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// Paths below the crate's directory.
    pub files: Vec<String>,
    /// Sorted; each place once.
    pub edges: Vec<Edge>,
    /// Paths into other crates of the workspace, by file and line.
    pub crates: Vec<CrateUse>,
    /// Sentences about what could not be read: a module without a file.
    pub problems: Vec<String>,
}

impl Graph {
    /// Strongly connected components of more than one file, the largest first; each a sorted
    /// list of numbers in [`Graph::files`].
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let mut next = vec![Vec::new(); self.files.len()];
        let mut previous = next.clone();
        for edge in &self.edges {
            next[edge.from].push(edge.to);
            previous[edge.to].push(edge.from);
        }
        // Kosaraju: finishing order forwards, then one search backwards for each component.
        let mut seen = vec![false; self.files.len()];
        let mut order = Vec::new();
        for start in 0..self.files.len() {
            search(&next, start, &mut seen, &mut order);
        }
        seen.fill(false);
        let mut components = Vec::new();
        for &start in order.iter().rev() {
            let mut component = Vec::new();
            search(&previous, start, &mut seen, &mut component);
            if component.len() > 1 {
                component.sort_unstable();
                components.push(component);
            }
        }
        components.sort_by_key(|c| (std::cmp::Reverse(c.len()), c[0]));
        components
    }

    /// Edges between files of `component`, by place.
    pub fn within<'a>(&'a self, component: &'a [usize]) -> impl Iterator<Item = &'a Edge> {
        self.edges.iter().filter(|e| component.contains(&e.from) && component.contains(&e.to))
    }
}

/// Depth first from `start`; appends what it finishes to `done`.
fn search(next: &[Vec<usize>], start: usize, seen: &mut [bool], done: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    let mut stack = vec![(start, 0)];
    while let Some((at, branch)) = stack.last_mut() {
        match next[*at].get(*branch) {
            Some(&to) => {
                *branch += 1;
                if !std::mem::replace(&mut seen[to], true) {
                    stack.push((to, 0));
                }
            }
            None => {
                done.push(*at);
                stack.pop();
            }
        }
    }
}
