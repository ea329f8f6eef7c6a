//! What was measured against what `ARCHITECTURE.md` allows.

use super::blocks::{self, Arrows, FILE};
use super::graph::Graph;
use super::manifest::Kind;
use super::package::Package;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The crate that tests of every other may use, whatever it depends on itself.
const TESTKIT: &str = "latlab-testkit";

/// Every departure from the blocks `arrows` and `cycles` of `architecture`, the text of
/// `ARCHITECTURE.md`, as a sentence; none if the structure is as written.
pub fn check(architecture: &str, packages: &[Package]) -> Vec<String> {
    let mut out: Vec<String> = packages.iter().flat_map(|p| p.graph.problems.clone()).collect();
    match blocks::arrows(architecture) {
        Ok(allowed) => check_arrows(&allowed, packages, &mut out),
        Err(error) => out.push(error),
    }
    check_dev_loops(packages, &mut out);
    match blocks::cycles(architecture) {
        Ok(allowed) => check_cycles(&allowed, packages, &mut out),
        Err(error) => out.push(error),
    }
    out
}

fn check_arrows(allowed: &BTreeMap<String, Arrows>, packages: &[Package], out: &mut Vec<String>) {
    let known: BTreeSet<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    for package in packages {
        let name = &package.name;
        let Some(arrows) = allowed.get(name) else {
            out.push(format!(
                "crates/{name}/Cargo.toml:1: {name} has no line in block arrows of {FILE}"
            ));
            continue;
        };
        let normal = || {
            let of_workspace = |d: &&super::Dependency| known.contains(d.name.as_str());
            package.dependencies.iter().filter(|d| d.kind == Kind::Normal).filter(of_workspace)
        };
        for dependency in normal().filter(|d| !arrows.to.contains(&d.name)) {
            let (line, to) = (dependency.line, &dependency.name);
            out.push(format!(
                "crates/{name}/Cargo.toml:{line}: {name} depends on {to}, which {FILE}:{} does not allow",
                arrows.line
            ));
        }
        for import in &package.graph.crates {
            if !arrows.to.iter().any(|to| to.replace('-', "_") == import.name) {
                out.push(format!(
                    "crates/{name}/{}:{}: {name} uses `{}`, which {FILE}:{} does not allow",
                    package.graph.files[import.file], import.line, import.path, arrows.line
                ));
            }
        }
        for to in arrows.to.iter().filter(|to| !normal().any(|d| d.name == **to)) {
            out.push(format!(
                "{FILE}:{}: {name} -> {to} is allowed, but crates/{name}/Cargo.toml does not depend on it",
                arrows.line
            ));
        }
    }
    for (name, arrows) in allowed.iter().filter(|(name, _)| !known.contains(name.as_str())) {
        out.push(format!("{FILE}:{}: there is no crate {name}", arrows.line));
    }
}

/// A dev-dependency on a crate that depends on its user makes two versions of the user.
fn check_dev_loops(packages: &[Package], out: &mut Vec<String>) {
    for package in packages {
        let dev = package.dependencies.iter().filter(|d| d.kind == Kind::Dev && d.name != TESTKIT);
        for dependency in dev {
            if reaches(packages, &dependency.name, &package.name) {
                let (name, line, to) = (&package.name, dependency.line, &dependency.name);
                out.push(format!(
                    "crates/{name}/Cargo.toml:{line}: tests of {name} depend on {to}, which depends on {name}"
                ));
            }
        }
    }
}

/// `from` is `to` or depends on it, directly or not.
fn reaches(packages: &[Package], from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(name) = next.pop() {
        if name == to {
            return true;
        }
        if seen.insert(name)
            && let Some(package) = packages.iter().find(|p| p.name == name)
        {
            let normal = package.dependencies.iter().filter(|d| d.kind == Kind::Normal);
            next.extend(normal.map(|d| d.name.as_str()));
        }
    }
    false
}

fn check_cycles(
    allowed: &BTreeMap<String, (usize, Vec<usize>)>,
    packages: &[Package],
    out: &mut Vec<String>,
) {
    for package in packages {
        let name = &package.name;
        let cycles = package.graph.cycles();
        let sizes: Vec<usize> = cycles.iter().map(Vec::len).collect();
        let none = (0, Vec::new());
        let (line, limit) = allowed.get(name).unwrap_or(&none);
        if sizes == *limit {
            continue;
        }
        let (measured, written) = (sum(&sizes), sum(limit));
        let within = sizes.len() <= limit.len() && sizes.iter().zip(limit).all(|(a, b)| a <= b);
        if within {
            let entry =
                if sizes.is_empty() { "no line".into() } else { format!("`{name}: {measured}`") };
            out.push(format!(
                "{FILE}:{line}: {name} has fewer cycles than its line in block cycles says ({written}); write {entry}"
            ));
            continue;
        }
        let mut text = format!("{name}: files in cycles {measured}, {FILE} allows {written}");
        for cycle in &cycles {
            text.push_str(&describe_cycle(name, &package.graph, cycle));
        }
        out.push(text);
    }
    for (name, (line, _)) in allowed {
        if !packages.iter().any(|p| p.name == *name) {
            out.push(format!("{FILE}:{line}: there is no crate {name}"));
        }
    }
}

fn sum(sizes: &[usize]) -> String {
    match sizes {
        [] => "none".to_owned(),
        _ => sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("+"),
    }
}

/// A cycle in lines: its size, then for each file one edge to another file of it.
pub fn describe_cycle(name: &str, graph: &Graph, cycle: &[usize]) -> String {
    let mut text = format!("\n  a cycle of {} files in {name}:", cycle.len());
    for &file in cycle {
        if let Some(edge) = graph.within(cycle).find(|e| e.from == file) {
            let (from, to) = (&graph.files[file], &graph.files[edge.to]);
            let _ = write!(text, "\n    {from}:{}: `{}` -> {to}", edge.line, edge.path);
        }
    }
    text
}
