//! Small crates given as texts.

mod paths;
mod rules;

use super::{Graph, Source, module_graph};

/// The graph of a crate `latlab-it` of these files below `src/`.
fn graph(files: &[(&str, &str)]) -> Graph {
    let source = |(path, text): &(&str, &str)| Source {
        path: format!("src/{path}"),
        text: (*text).to_owned(),
    };
    let sources: Vec<Source> = files.iter().map(source).collect();
    let workspace = ["latlab-it", "latlab-core", "latlab-trace"].map(str::to_owned);
    module_graph("latlab-it", &sources, &workspace).unwrap()
}

/// Edges as `from:line path to`, without `src/` and `.rs`.
fn edges(files: &[(&str, &str)]) -> Vec<String> {
    let graph = graph(files);
    assert_eq!(graph.problems, [""; 0]);
    let name = |file: usize| graph.files[file]["src/".len()..].trim_end_matches(".rs");
    let text = |e: &super::Edge| format!("{}:{} {} {}", name(e.from), e.line, e.path, name(e.to));
    graph.edges.iter().map(text).collect()
}

/// Cycles as lists of files.
fn cycles(graph: &Graph) -> Vec<Vec<&str>> {
    let name = |&file: &usize| graph.files[file].as_str();
    graph.cycles().iter().map(|c| c.iter().map(name).collect()).collect()
}
