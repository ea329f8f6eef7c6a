//! The structure of the workspace, measured: arrows between crates, cycles between source files.
//!
//! [`Package::read_all`] reads the crates, [`module_graph`] is the resolver behind it: a pure
//! function from the texts of one crate to the graph of its files. [`check`] compares what was
//! measured with the blocks `arrows` and `cycles` of `ARCHITECTURE.md`.
//!
//! An edge leads from the file that writes a path to the file that defines what the path names.
//! Re-exports are followed to the definition. `mod child;` is no edge, neither is a `pub use` of a
//! file that has child modules. A path that names a module only is no edge; what is reached
//! through that module is. Method calls, `impl` blocks found by type and macros that
//! `#[macro_use]` brings into scope are not seen; names that a macro generates count as defined
//! in the file of their module.

mod blocks;
mod collect;
mod graph;
mod manifest;
mod package;
mod resolve;
mod rules;
mod stdout;
#[cfg(test)]
mod tests;
mod tokens;
mod tree;
mod written;

pub use graph::{CrateUse, Edge, Graph};
pub use manifest::{Dependency, Kind};
pub use package::{Package, PackageError, module_graph};
pub use rules::{check, describe_cycle};
pub use stdout::raw_text;
pub use tree::Source;
