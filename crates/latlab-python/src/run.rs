//! A run, from `run.json` or from an analysis, and its reports.

use crate::error::Refusal;
use latlab_model::run::{Part, Run, SCHEMA_VERSION};
use latlab_report::plot::svg;
use latlab_report::sections::{self, screen};
use latlab_report::{html, text};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// How the command lays text out where it does not know a terminal.
const WIDTH: usize = 100;

/// A run.
#[pyclass(frozen, module = "latlab")]
pub struct RunData(Run);

impl RunData {
    /// The run of an analysis: nothing of this machine is in it.
    pub fn of(part: Part) -> Self {
        Self(Run {
            schema_version: SCHEMA_VERSION,
            latlab_version: env!("CARGO_PKG_VERSION").to_owned(),
            complete: part.complete,
            parts: vec![part],
            ..Run::default()
        })
    }
}

/// Reads a run from its directory or from its `run.json`.
///
/// # Errors
/// When it is missing, damaged, or of a newer schema.
pub fn read(path: PathBuf) -> Result<Run, Refusal> {
    let file = if path.is_dir() { path.join("run.json") } else { path };
    let name = file.display();
    let bytes = std::fs::read(&file).map_err(|e| {
        let hint = "name a run directory (runs/…), its run.json, or a trace";
        Refusal::new(format!("{name}: cannot be read: {e}"), hint)
    })?;
    latlab_analysis::run_file::read(&bytes)
        .map_err(|e| Refusal::new(format!("{name}: {e}"), e.hint().unwrap_or_default()))
}

/// Reads a run.
#[pyfunction]
pub fn read_run(py: Python<'_>, path: PathBuf) -> PyResult<RunData> {
    py.detach(|| read(path)).map(RunData).map_err(|refusal| refusal.raise(py))
}

#[pymethods]
impl RunData {
    /// `run.json`.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| serde_json::to_string(&self.0)).map_err(failed)
    }

    /// What a terminal shows; with details all of it.
    fn text(&self, py: Python<'_>, details: bool) -> PyResult<String> {
        let options = text::TextOptions { width: WIDTH, color: false, wrap: false, details };
        let made = py.detach(|| {
            if !details {
                return screen::render(&self.0, &options);
            }
            let mut out = Vec::new();
            text::render(&sections::of_run(&self.0), &options, &mut out).map(|()| out)
        });
        made.map(|out| String::from_utf8_lossy(&out).into_owned()).map_err(failed)
    }

    /// The report as one page.
    fn html(&self, py: Python<'_>) -> PyResult<String> {
        let mut out = Vec::new();
        py.detach(|| html::render(&sections::page::of_run(&self.0), &mut out)).map_err(failed)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// The plots of the report: id and SVG, by id.
    fn plots(&self, py: Python<'_>) -> Vec<(String, String)> {
        py.detach(|| {
            let doc = sections::of_run(&self.0);
            let drawn = |p: &latlab_report::doc::Plot| (p.id.clone(), svg::svg(p, svg::Use::Alone));
            let mut plots: Vec<_> = sections::plots(&doc).map(drawn).collect();
            plots.sort();
            plots
        })
    }
}

/// Memory takes what is written: an error here is one of ours.
fn failed(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
