//! A crate of the workspace, read and measured.

use super::collect::Collector;
use super::graph::Graph;
use super::manifest::{Dependency, dependencies};
use super::resolve::Resolver;
use super::tree::{Parsed, Source, Tree};
use std::fmt;
use std::path::{Path, PathBuf};

/// A crate that cannot be measured.
#[derive(Debug)]
pub enum PackageError {
    /// A file or directory cannot be read.
    Read {
        /// Which.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// A manifest is no TOML.
    Manifest {
        /// The crate.
        name: String,
        /// The reason.
        error: toml::de::Error,
    },
    /// A source is no Rust.
    Source {
        /// The file, from the root of the workspace.
        file: String,
        /// The line.
        line: usize,
        /// The reason.
        error: syn::Error,
    },
}

impl fmt::Display for PackageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Manifest { name, error } => {
                write!(f, "crates/{name}/Cargo.toml cannot be read: {error}")
            }
            Self::Source { file, line, error } => {
                write!(f, "{file}:{line} cannot be parsed: {error}")
            }
        }
    }
}

impl std::error::Error for PackageError {}

/// A crate: its dependencies and the graph of its files.
#[derive(Debug, Clone)]
pub struct Package {
    /// As in its manifest and the name of its directory: `latlab-core`.
    pub name: String,
    /// Of all kinds, other crates than the workspace's included.
    pub dependencies: Vec<Dependency>,
    /// Files below `src/`.
    pub graph: Graph,
}

impl Package {
    /// Measures a crate given as texts. `workspace` names all its crates.
    ///
    /// # Errors
    /// When the manifest or a source cannot be parsed.
    pub fn new(
        name: &str,
        manifest: &str,
        sources: &[Source],
        workspace: &[String],
    ) -> Result<Package, PackageError> {
        let dependencies = dependencies(manifest)
            .map_err(|error| PackageError::Manifest { name: name.to_owned(), error })?;
        let graph = module_graph(name, sources, workspace)?;
        Ok(Package { name: name.to_owned(), dependencies, graph })
    }

    /// Reads every crate in `root/crates`, by name.
    ///
    /// # Errors
    /// When a file cannot be read or parsed.
    pub fn read_all(root: &Path) -> Result<Vec<Package>, PackageError> {
        let dir = root.join("crates");
        let mut names: Vec<String> = entries(&dir)?
            .into_iter()
            .filter(|name| dir.join(name).join("Cargo.toml").is_file())
            .collect();
        names.sort();
        names.iter().map(|name| Package::read(&dir.join(name), name, &names)).collect()
    }

    fn read(dir: &Path, name: &str, workspace: &[String]) -> Result<Package, PackageError> {
        let manifest = text(&dir.join("Cargo.toml"))?;
        let mut sources = Vec::new();
        read_sources(&dir.join("src"), "src", &mut sources)?;
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Package::new(name, &manifest, &sources, workspace)
    }
}

/// The graph between the files of the crate `name`. `workspace` names all crates, with hyphens.
///
/// # Errors
/// When a source cannot be parsed.
pub fn module_graph(
    name: &str,
    sources: &[Source],
    workspace: &[String],
) -> Result<Graph, PackageError> {
    let parse = |source: &Source| {
        syn::parse_file(&source.text).map_err(|error| {
            let file = format!("crates/{name}/{}", source.path);
            PackageError::Source { file, line: error.span().start().line, error }
        })
    };
    let files: Vec<syn::File> = sources.iter().map(parse).collect::<Result<_, _>>()?;
    let tree = Tree::build(&Parsed::new(sources, &files));
    let own_name = name.replace('-', "_");
    let crates: Vec<String> =
        workspace.iter().filter(|c| *c != name).map(|c| c.replace('-', "_")).collect();
    let resolver = Resolver { tree: &tree, own_name: &own_name };
    let mut graph = Graph {
        files: sources.iter().map(|s| s.path.clone()).collect(),
        problems: tree.problems.iter().map(|p| format!("crates/{name}/{p}")).collect(),
        ..Graph::default()
    };
    for module in 0..tree.modules.len() {
        Collector::run(&resolver, &crates, module, &mut graph);
    }
    graph.edges.sort();
    graph.edges.dedup();
    graph.crates.sort_by_key(|c| (c.file, c.line));
    Ok(graph)
}

fn text(path: &Path) -> Result<String, PackageError> {
    std::fs::read_to_string(path)
        .map_err(|error| PackageError::Read { path: path.to_owned(), error })
}

fn entries(dir: &Path) -> Result<Vec<String>, PackageError> {
    let failed = |error| PackageError::Read { path: dir.to_owned(), error };
    std::fs::read_dir(dir)
        .map_err(failed)?
        .map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned()))
        .collect()
}

fn read_sources(dir: &Path, below: &str, out: &mut Vec<Source>) -> Result<(), PackageError> {
    for name in entries(dir)? {
        let (path, relative) = (dir.join(&name), format!("{below}/{name}"));
        if path.is_dir() {
            read_sources(&path, &relative, out)?;
        } else if name.ends_with(".rs") {
            out.push(Source { path: relative, text: text(&path)? });
        }
    }
    Ok(())
}
