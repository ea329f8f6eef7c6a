//! The Python module `latlab._native`: traces as Arrow tables, runs, histograms, analyses.
//!
//! ```text
//! trace.dat ─ Opened ─┬─ columns ─ cells ─▶ Table ─ Arrow C stream ─▶ pandas, Polars, pyarrow
//!                     └─ analyses of latlab-analysis ─▶ Run
//! run.json ───────────────────────────────────────────▶ Run ─ text and HTML of latlab-report
//! ```
//!
//! The package's Python part (`python/latlab`) has the dataclasses, the plots and the command.

#![forbid(unsafe_code)]

mod analyses;
mod cells;
mod columns;
mod error;
mod histogram;
mod run;
mod segments;
mod table;
mod trace;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::analyses::{explain, sched_run, segments, timer_run};
    #[pymodule_export]
    use super::histogram::Histogram;
    #[pymodule_export]
    use super::run::{RunData, read_run};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::trace::{Trace, open};
}
