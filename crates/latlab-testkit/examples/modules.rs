//! Prints arrows between crates and cycles between files, to work on a cycle.
//!
//! ```text
//! modules [CRATE] [--edges]    every crate or one; with --edges, what each file refers to
//! ```
#![expect(clippy::print_stdout, reason = "a tool of developers that prints")]

use latlab_testkit::architecture::{Edge, Graph, Kind, Package};
use std::collections::BTreeMap;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, names): (Vec<_>, Vec<_>) = arguments.iter().partition(|a| a.starts_with('-'));
    if flags.iter().any(|flag| *flag != "--edges") || names.len() > 1 {
        return Err("expected: modules [CRATE] [--edges]".into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = Package::read_all(&root)?;
    if let Some(name) = names.first()
        && !packages.iter().any(|p| p.name == **name)
    {
        return Err(format!("there is no crate {name}").into());
    }
    for package in packages.iter().filter(|p| names.is_empty() || *names[0] == p.name) {
        print_package(package, &packages, !flags.is_empty());
    }
    Ok(())
}

fn print_package(package: &Package, packages: &[Package], edges: bool) {
    let arrows = package.dependencies.iter().filter(|d| d.kind == Kind::Normal);
    let arrows = arrows.filter(|d| packages.iter().any(|p| p.name == d.name));
    let arrows: Vec<&str> = arrows.map(|d| d.name.as_str()).collect();
    println!("{}", format!("{} -> {}", package.name, arrows.join(" ")).trim_end());
    let graph = &package.graph;
    for problem in &graph.problems {
        println!("  {problem}");
    }
    for cycle in graph.cycles() {
        println!("  cycle of {} files", cycle.len());
        print_edges(graph, graph.within(&cycle));
    }
    if edges {
        println!("  all edges");
        print_edges(graph, graph.edges.iter());
    }
}

/// By file, then by the file referred to: how many places, and each path once with its line.
/// Paths that begin with a name that another path of the pair imports are counted only.
fn print_edges<'a>(graph: &Graph, edges: impl Iterator<Item = &'a Edge>) {
    let mut pairs: BTreeMap<(usize, usize), Vec<&Edge>> = BTreeMap::new();
    for edge in edges {
        pairs.entry((edge.from, edge.to)).or_default().push(edge);
    }
    let mut last = None;
    for ((from, to), edges) in pairs {
        if last.replace(from) != Some(from) {
            println!("    {}", graph.files[from]);
        }
        println!("      -> {} ({} places)", graph.files[to], edges.len());
        let mut paths: Vec<&str> = Vec::new();
        for edge in edges {
            let path = edge.path.as_str();
            let first = path.split("::").next().unwrap_or(path);
            let imported = |p: &&str| p.rsplit_once("::").is_some_and(|(_, last)| last == first);
            if !paths.contains(&path) && !paths.iter().any(imported) {
                paths.push(path);
                println!("           {}: {path}", edge.line);
            }
        }
    }
}
