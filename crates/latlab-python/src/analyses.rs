//! Who ran, what timers did, why wake-ups were late: the analyses of the command, in this process.

use crate::error::Refusal;
use crate::run::{self, RunData};
use crate::segments::Segments;
use crate::table::Table;
use crate::trace::{self, TRACES, Trace, memory};
use latlab_analysis::latency::activations::Late;
use latlab_analysis::latency::activations::from_capture::{Chosen, Known, threads_to_the_end};
use latlab_analysis::latency::capture::Capture;
use latlab_analysis::latency::captures;
use latlab_analysis::latency::{self, from_trace};
use latlab_analysis::{sched, timer};
use latlab_model::event::Names;
use latlab_model::latency::{CaptureCounters, CountedWork, SystemContext, WhyResult};
use latlab_model::run::Detail;
use latlab_model::sched::schedule::{SchedDetail, Schedule, Slice};
use latlab_model::timer::TimerDetail;
use latlab_model::units::{Nanos, Tid};
use latlab_report::messages;
use latlab_sys::mmap::Mapped;
use latlab_trace::{Diagnostics, Select};
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Frames to the caller of the package's function of the same name (`_analyses.py`), which warnings name.
const PACKAGE: i32 = 2;

/// Between two times, ns.
fn between(start: Option<u64>, end: Option<u64>) -> Select {
    Select { from: start, to: end, ..Select::default() }
}

/// The name of a trace in results.
fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// Follows the scheduler events between two times; `each` gets the segments that end.
fn schedule(
    py: Python<'_>,
    trace: &Trace,
    select: &Select,
    mut each: impl FnMut(&[Slice], &Names) + Send,
) -> PyResult<Schedule> {
    let analysed = py.detach(|| {
        sched::from_trace::analyse(
            trace.file(),
            &name(trace.path()),
            select,
            Trace::threads(),
            sched::Options::default(),
            &mut |_, names, ended| {
                each(ended, names);
                ControlFlow::Continue(())
            },
        )
    });
    let (schedule, damage) = analysed.map_err(|why| no_switches(trace, why).raise(py))?;
    trace.warn(py, &damage, PACKAGE)?;
    Ok(schedule)
}

/// Who ran.
#[pyfunction]
#[pyo3(name = "sched", signature = (trace, start = None, end = None))]
pub fn sched_run(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    start: Option<u64>,
    end: Option<u64>,
) -> PyResult<RunData> {
    let schedule = schedule(py, trace.get(), &between(start, end), |_, _| {})?;
    let detail = SchedDetail { schedule, ..SchedDetail::default() };
    Ok(RunData::of(sched::part::part("sched", "Scheduling", detail, true)))
}

/// Run segments as a table.
#[pyfunction]
#[pyo3(signature = (trace, start = None, end = None))]
pub fn segments(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    start: Option<u64>,
    end: Option<u64>,
) -> PyResult<Table> {
    let mut rows = Segments::default();
    schedule(py, trace.get(), &between(start, end), |ended, names| {
        ended.iter().for_each(|slice| rows.push(slice, names));
    })?;
    rows.table().map_err(|e| Refusal::new(e.to_string(), "choose a part of the trace").raise(py))
}

fn no_switches(trace: &Trace, why: sched::from_trace::NoSwitches) -> Refusal {
    let hint = "record with `latlab record -e sched`; or widen start and end";
    Refusal::new(format!("{}: {why}", trace.path().display()), hint)
}

/// What timers and interrupts did.
#[pyfunction]
#[pyo3(name = "timer", signature = (trace, start = None, end = None))]
pub fn timer_run(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    start: Option<u64>,
    end: Option<u64>,
) -> PyResult<RunData> {
    let (trace, select) = (trace.get(), between(start, end));
    let source = name(trace.path());
    let (found, damage) =
        py.detach(|| timer::from_trace::analyse(trace.file(), &source, &select, Trace::threads()));
    trace.warn(py, &damage, PACKAGE)?;
    let found = found.ok_or_else(|| {
        let message = format!("{}: no events of timers or interrupts", trace.path().display());
        let hint =
            "record with `latlab record -e timer -e irq -e irq_vectors`; or widen start and end";
        Refusal::new(message, hint).raise(py)
    })?;
    let detail = TimerDetail { live: None, trace: Some(found) };
    Ok(RunData::of(timer::part::part("timer", "Ticks, timers and interrupts", detail, true)))
}

/// Which captures, of which task, and what is late.
struct Question {
    files: Vec<PathBuf>,
    limit: Nanos,
    task: Option<String>,
    deadline: Option<Late>,
    context: SystemContext,
    counters: Vec<CaptureCounters>,
    work: Option<CountedWork>,
}

/// Why wake-ups were late. `run`: the `latlab why` run whose captures the files are.
#[pyfunction]
#[pyo3(signature = (files, limit_ns = None, task = None, deadline_ns = None, run = None))]
pub fn explain(
    py: Python<'_>,
    files: Vec<PathBuf>,
    limit_ns: Option<u64>,
    task: Option<String>,
    deadline_ns: Option<u64>,
    run: Option<PathBuf>,
) -> PyResult<RunData> {
    let paths = files.clone();
    let mut damage = Vec::new();
    let answer = || {
        let recorded = run.filter(|path| path.join("run.json").is_file());
        let known = recorded.map(run::read).transpose()?.and_then(known_of);
        let counters = known.as_ref().map_or_else(Vec::new, |result| {
            result.captures.iter().filter_map(|c| c.counters).collect()
        });
        let (context, work) = known.map_or_else(Default::default, |r| (r.system_context, r.work));
        let limit = Nanos(limit_ns.unwrap_or(context.limit_ns));
        let question = Question {
            files,
            limit,
            task,
            deadline: deadline_ns.map(|ns| Late::Response(Nanos(ns))),
            context: SystemContext { limit_ns: limit.0, ..context },
            counters,
            work,
        };
        // A limit of its own judges wake-ups, as in `latlab why FILE --task NAME --limit TIME`.
        if question.task.is_some()
            && (deadline_ns.is_some() || limit_ns.is_none())
            && let Some(result) = question.activations(&mut damage)?
        {
            return Ok(result);
        }
        // Its notes have the damage.
        damage.clear();
        question.wakeups()
    };
    let answer = py.detach(answer);
    for (path, damage) in paths.iter().zip(&damage) {
        trace::warn(py, path, &[damage], PACKAGE)?;
    }
    let result = answer.map_err(|refusal: Refusal| refusal.raise(py))?;
    Ok(RunData::of(latency::part::part(result, true, 0)))
}

/// What a `latlab why` run knew.
fn known_of(run: latlab_model::run::Run) -> Option<WhyResult> {
    run.parts.into_iter().find_map(|part| match part.detail {
        Some(Detail::Why(result)) => Some(*result),
        _ => None,
    })
}

impl Question {
    /// A file as a capture, and its damage.
    fn read(&self, i: usize) -> Result<(Capture, Diagnostics), Refusal> {
        let path = &self.files[i];
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let bytes = Mapped::open_all(path)
            .map_err(|e| Refusal::new(said(&e), "name a trace.dat or ftrace's text"))?;
        let file = latlab_trace::open_within(&bytes, memory())
            .map_err(|e| Refusal::new(said(&e), TRACES))?;
        if !file.counts_ns() {
            let clock = file.clock();
            return Err(Refusal::new(
                said(&format!("the trace's clock is {clock}, which does not count nanoseconds")),
                "record with a clock that does: latlab record -C mono, trace-cmd record -C mono",
            ));
        }
        Ok((from_trace::capture(&file, &name(path)), file.diagnostics))
    }

    /// Activations of the task; `None` where a marker judges wake-ups. `damaged` gets the damage of each file.
    fn activations(&self, damaged: &mut Vec<Diagnostics>) -> Result<Option<WhyResult>, Refusal> {
        let task = self.task.as_deref().unwrap_or_default();
        let chosen = Chosen::parse(task);
        let by_name = matches!(chosen, Chosen::Name(_));
        let count = self.files.len();
        let mut find = |i: usize, known: &Known| {
            let (capture, damage) = self.read(i)?;
            // The explanation reads the files once more.
            if damaged.len() == i {
                damaged.push(damage);
            }
            let found = threads_to_the_end(&capture, &chosen, known);
            Ok((capture, found))
        };
        let late = self.deadline;
        let Some(all) = captures::gather_all(count, &mut find, by_name, late, late.is_none())?
        else {
            return Ok(None);
        };
        if all.is_empty() {
            return Err(Refusal::new(
                format!("no activation of {task} in {}", self.names()),
                "it takes sched_switch and sched_waking events of the task, and hrtimer_start and \
                 hrtimer_expire_entry for its intended times",
            ));
        }
        let context = self.context.clone();
        let counters = &self.counters;
        let work = |tid: Tid| self.work.clone().filter(|w| w.tid == tid.0);
        captures::explain_activations(count, find, all, late, context, counters, work).map(Some)
    }

    fn wakeups(&self) -> Result<WhyResult, Refusal> {
        let task = self.task.as_deref();
        let digest = |i: usize, _: &mut ()| {
            let (mut capture, damage) = self.read(i)?;
            Ok(captures::digest(&mut capture, self.limit, task, &damage))
        };
        let digested = captures::each(self.files.len(), Trace::threads(), digest)?;
        captures::explain(digested, self.context.clone(), &self.counters).map_err(|none| {
            let of = task.map_or(String::new(), |t| format!(" of {t}"));
            let hint = if none.others.is_empty() {
                "it takes sched_waking, sched_switch, hrtimer_start and hrtimer_expire_entry \
                 events, or a marker of cyclictest --tracemark or latlab why"
                    .to_owned()
            } else {
                format!("tasks that wake up in it: {}", none.others.join(", "))
            };
            let damage =
                none.damage.map_or(String::new(), |n| format!(" ({})", messages::note(&n)));
            Refusal::new(format!("no wake-up{of} in {}{damage}", self.names()), hint)
        })
    }

    fn names(&self) -> String {
        match self.files.as_slice() {
            [one] => one.display().to_string(),
            [first, rest @ ..] => format!("{} and {} other files", first.display(), rest.len()),
            [] => "no file".into(),
        }
    }
}
