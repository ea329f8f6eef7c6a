//! The fenced blocks of `ARCHITECTURE.md` that the tests read.

use std::collections::BTreeMap;

/// Name of the file that has the blocks.
pub(super) const FILE: &str = "ARCHITECTURE.md";

/// `from -> to to …`: what a crate may depend on.
pub(super) struct Arrows {
    pub to: Vec<String>,
    /// Line in the file, from 1.
    pub line: usize,
}

/// Lines of the one block that begins with "```kind", with their numbers from 1; empty lines
/// left out. An error is a sentence.
fn block<'a>(text: &'a str, kind: &str) -> Result<Vec<(usize, &'a str)>, String> {
    let fence = format!("```{kind}");
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    lines
        .by_ref()
        .find(|(_, line)| *line == fence)
        .ok_or_else(|| format!("{FILE} has no block that begins with {fence}"))?;
    Ok(lines.take_while(|(_, l)| !l.starts_with("```")).filter(|(_, l)| !l.is_empty()).collect())
}

/// The block `arrows`: by crate, what it may depend on.
pub(super) fn arrows(text: &str) -> Result<BTreeMap<String, Arrows>, String> {
    let mut out = BTreeMap::new();
    for (line, entry) in block(text, "arrows")? {
        let (from, to) = entry.split_once("->").ok_or_else(|| {
            format!("{FILE}:{line}: expected `crate -> crate …`, found `{entry}`")
        })?;
        let to = to.split_whitespace().map(str::to_owned).collect();
        if out.insert(from.trim().to_owned(), Arrows { to, line }).is_some() {
            return Err(format!("{FILE}:{line}: `{}` has a line already", from.trim()));
        }
    }
    Ok(out)
}

/// The block `cycles`: by crate, its line and the sizes of its cycles, descending.
pub(super) fn cycles(text: &str) -> Result<BTreeMap<String, (usize, Vec<usize>)>, String> {
    let mut out = BTreeMap::new();
    for (line, entry) in block(text, "cycles")? {
        let malformed = || format!("{FILE}:{line}: expected `crate: N+M`, found `{entry}`");
        let (name, sizes) = entry.split_once(':').ok_or_else(malformed)?;
        let sizes = sizes.split('+').map(|n| n.trim().parse::<usize>());
        let sizes: Vec<usize> = sizes.collect::<Result<_, _>>().map_err(|_| malformed())?;
        if !sizes.is_sorted_by(|a, b| a >= b) || sizes.iter().any(|&n| n < 2) {
            return Err(malformed());
        }
        if out.insert(name.trim().to_owned(), (line, sizes)).is_some() {
            return Err(format!("{FILE}:{line}: `{}` has a line already", name.trim()));
        }
    }
    Ok(out)
}
