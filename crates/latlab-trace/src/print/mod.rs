//! Events as text: the `print fmt` of each kind, compiled once, and the lines of a report.
//!
//! The text of a few events differs between the kernel's own `trace` file and
//! `trace-cmd report`, whose plug-ins rewrite them ([`Dialect`]). Where those
//! plug-ins are wrong on today's kernels the format file is followed:
//! * a task's state letters (`I` is an idle kernel thread, not `W` or `K`),
//! * modes of high-resolution timers, whose names the kernel leaves unresolved.

pub(crate) mod ast;
mod byte_list;
mod dialect;
mod event_formatter;
mod graph;
mod indent;
mod json;
mod leaf;
pub(crate) mod lex;
mod line;
mod net;
mod notes;
pub mod number;
mod parallel;
mod plan;
pub(crate) mod run;
mod spec;
mod special;

pub use dialect::Dialect;
pub use event_formatter::{EventFormatter, has_text};
pub use line::{LineStyle, Printer};
pub use parallel::{ReportEnd, ReportOptions, report};
