//! An opened trace: what is in it, its events as a table, and its analyses.

use crate::columns::{self, Query};
use crate::error::{latlab_error, one_line};
use crate::table::Table;
use latlab_model::cpulist;
use latlab_sys::mmap::Mapped;
use latlab_trace::{Select, TraceFile};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::CString;
use std::path::{Path, PathBuf};

/// More threads than this do not make a table faster: memory is the limit.
const THREADS_MAX: usize = 8;
/// What to do about a file that is no trace.
pub const TRACES: &str =
    "latlab reads trace.dat version 6 and 7, and the text of `trace` and `trace-cmd report`";

self_cell::self_cell!(
    /// A file's bytes, and the trace that borrows them.
    pub struct Opened {
        owner: Mapped,
        #[covariant]
        dependent: TraceFile,
    }
);

/// A trace.dat, or ftrace's text.
#[pyclass(frozen, module = "latlab")]
pub struct Trace {
    path: PathBuf,
    opened: Opened,
}

/// Opens a trace.dat (version 6 or 7), or the text of ftrace's `trace` file and of `trace-cmd report`.
///
/// The file is mapped, not read: while the trace is in use, replace the file by a rename. A file that another
/// program truncates in place ends this process by SIGBUS.
#[pyfunction]
pub fn open(py: Python<'_>, path: PathBuf) -> PyResult<Trace> {
    let opened = py.detach(|| {
        let bytes = Mapped::open(&path).map_err(|e| {
            (
                format!("{} cannot be opened: {e}", path.display()),
                "name a trace.dat or ftrace's text",
            )
        })?;
        Opened::try_new(bytes, |bytes| latlab_trace::open_within(bytes, memory()))
            .map_err(|e| (format!("{}: {e}", path.display()), TRACES))
    });
    let opened = opened.map_err(|(message, hint)| latlab_error(py, message, Some(hint)))?;
    Ok(Trace { path, opened })
}

/// Bytes that a file may inflate to.
pub fn memory() -> u64 {
    latlab_sys::machine::share_of_free_memory().unwrap_or(latlab_trace::DEFAULT_MEMORY)
}

impl Trace {
    /// The trace.
    pub fn file(&self) -> &TraceFile<'_> {
        self.opened.borrow_dependent()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Threads that read it at once.
    pub fn threads() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
    }

    /// Says what is damaged as Python warnings, as of the frame `level` below this function's caller (1: the caller itself).
    ///
    /// # Errors
    /// A warning that Python was told to raise.
    pub fn warn(
        &self,
        py: Python<'_>,
        damage: &latlab_trace::Diagnostics,
        level: i32,
    ) -> PyResult<()> {
        warn(py, &self.path, &[&self.file().diagnostics, damage], level)
    }
}

/// Says what is damaged of a file as Python warnings.
///
/// # Errors
/// A warning that Python was told to raise.
pub fn warn(
    py: Python<'_>,
    path: &Path,
    damage: &[&latlab_trace::Diagnostics],
    level: i32,
) -> PyResult<()> {
    let category = py.get_type::<PyUserWarning>();
    let warn = |text: String| PyErr::warn(py, &category, &CString::new(one_line(&text))?, level);
    let path = path.display();
    for diagnostic in damage.iter().flat_map(|d| d.list()) {
        warn(format!("{path}: {diagnostic}"))?;
    }
    match damage.iter().map(|d| d.suppressed()).sum::<u64>() {
        0 => Ok(()),
        more => warn(format!("{path}: {more} more damaged parts")),
    }
}

/// CPUs as a list of numbers or as text.
#[derive(FromPyObject)]
pub enum Cpus {
    /// `0,2-3`.
    Text(String),
    /// One.
    One(u32),
    /// Several.
    Many(Vec<u32>),
}

/// One text or several.
#[derive(FromPyObject)]
pub enum Texts {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Texts {
    fn list(texts: Option<Self>) -> Vec<String> {
        match texts {
            None => Vec::new(),
            Some(Self::One(text)) => vec![text],
            Some(Self::Many(texts)) => texts,
        }
    }
}

/// Times and CPUs that are chosen.
///
/// # Errors
/// CPUs that are no list.
pub fn select(
    py: Python<'_>,
    cpus: Option<Cpus>,
    start: Option<u64>,
    end: Option<u64>,
) -> PyResult<Select> {
    let cpus = match cpus {
        None => None,
        Some(Cpus::One(cpu)) => Some(vec![cpu]),
        Some(Cpus::Many(cpus)) => Some(cpus),
        Some(Cpus::Text(text)) => Some(
            cpulist::parse(&text)
                .map_err(|e| latlab_error(py, e.to_string(), Some("write CPUs as 0,2-3")))?,
        ),
    };
    Ok(Select { cpus, buffers: None, from: start, to: end })
}

#[pymethods]
impl Trace {
    fn __repr__(&self) -> String {
        let file = self.file();
        format!(
            "<latlab.Trace {:?}: version {}, {} CPUs, {} kinds of events>",
            self.path.display().to_string(),
            file.version,
            file.cpu_count,
            file.formats.len()
        )
    }

    /// The file.
    #[getter(path)]
    fn python_path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Version of trace.dat, 6 or 7; 0 for ftrace's text.
    #[getter]
    fn version(&self) -> u32 {
        self.file().version
    }

    /// The clock of the time stamps (`local`, `mono`…).
    #[getter]
    fn clock(&self) -> String {
        self.file().clock().to_owned()
    }

    /// Number of CPUs of the recorded machine.
    #[getter]
    fn cpu_count(&self) -> u32 {
        self.file().cpu_count
    }

    /// `uname` of the recorded machine; empty where the file does not say.
    #[getter]
    fn uname(&self) -> String {
        self.file().options.uname.clone()
    }

    /// The kinds of events that the trace knows, as `system:name`, whether or not one was recorded.
    fn kinds(&self) -> Vec<String> {
        self.file().formats.iter().map(|f| f.full_name()).collect()
    }

    /// Names and C types of an event's own fields.
    fn fields(&self, py: Python<'_>, event: &str) -> PyResult<Vec<(String, String)>> {
        let Some(format) = self.file().formats.find(event) else {
            let message = format!("no event of this trace is named {event:?}");
            return Err(latlab_error(py, message, Some("Trace.kinds() lists the events")));
        };
        let field = |f: &latlab_trace::Field| (f.name.to_string(), f.ty.to_string());
        Ok(format.own_fields().iter().map(field).collect())
    }

    /// Damaged parts of the file's head, one sentence each.
    #[getter]
    fn damage(&self) -> Vec<String> {
        self.file().diagnostics.list().iter().map(|d| one_line(&d.to_string())).collect()
    }

    /// The chosen events in order of time, as a table.
    #[pyo3(signature = (names = None, filter = None, *, cpus = None, pids = None, start = None, end = None, columns = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python function")]
    fn events(
        &self,
        py: Python<'_>,
        names: Option<Texts>,
        filter: Option<Texts>,
        cpus: Option<Cpus>,
        pids: Option<Vec<i32>>,
        start: Option<u64>,
        end: Option<u64>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Table> {
        let query = Query {
            names: Texts::list(names),
            filters: Texts::list(filter),
            select: select(py, cpus, start, end)?,
            pids: pids.map(|pids| pids.into_iter().collect()),
            columns,
            threads: Self::threads(),
        };
        let (schema, batches, damage) =
            py.detach(|| columns::read(self.file(), &query)).map_err(|e| {
                latlab_error(
                    py,
                    e.to_string(),
                    Some("Trace.kinds() lists the events, Trace.fields(event) its fields"),
                )
            })?;
        self.warn(py, &damage, 1)?;
        Ok(Table::new(schema, batches))
    }

    /// Who ran: `latlab.sched` of this trace.
    #[pyo3(signature = (*, start = None, end = None))]
    fn sched<'py>(
        slf: Bound<'py, Self>,
        start: Option<f64>,
        end: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        analysis(slf, "sched", &[("start", start), ("end", end)], &[], None)
    }

    /// What timers and interrupts did: `latlab.timer` of this trace.
    #[pyo3(signature = (*, start = None, end = None))]
    fn timer<'py>(
        slf: Bound<'py, Self>,
        start: Option<f64>,
        end: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        analysis(slf, "timer", &[("start", start), ("end", end)], &[], None)
    }

    /// Why wake-ups were late: `latlab.explain` of this trace.
    #[pyo3(signature = (*, limit_ns = None, task = None, deadline_ns = None))]
    fn explain<'py>(
        slf: Bound<'py, Self>,
        limit_ns: Option<u64>,
        task: Option<String>,
        deadline_ns: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limits = [("limit_ns", limit_ns), ("deadline_ns", deadline_ns)];
        analysis(slf, "explain", &[], &limits, task)
    }

    /// The parts of each wake-up: `latlab.breakdown` of this trace.
    #[pyo3(signature = (*, limit_ns = None, task = None, deadline_ns = None))]
    fn breakdown<'py>(
        slf: Bound<'py, Self>,
        limit_ns: Option<u64>,
        task: Option<String>,
        deadline_ns: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limits = [("limit_ns", limit_ns), ("deadline_ns", deadline_ns)];
        analysis(slf, "breakdown", &[], &limits, task)
    }
}

/// The package's function of that name for a trace.
fn analysis<'py>(
    trace: Bound<'py, Trace>,
    name: &str,
    seconds: &[(&str, Option<f64>)],
    limits: &[(&str, Option<u64>)],
    task: Option<String>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = trace.py();
    let keywords = PyDict::new(py);
    seconds.iter().try_for_each(|(name, value)| keywords.set_item(name, value))?;
    limits.iter().try_for_each(|(name, value)| keywords.set_item(name, value))?;
    if let Some(task) = task {
        keywords.set_item("task", task)?;
    }
    py.import("latlab._analyses")?.getattr(name)?.call((trace,), Some(&keywords))
}
