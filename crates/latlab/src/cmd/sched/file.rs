//! A trace: who ran, as tables and plots, or slice by slice.

use super::views::{Map, TimeHist};
use crate::cli::Global;
use crate::cli::sched::{Args, View};
use crate::outcome::{HintExt, Outcome};
use crate::session::Session;
use crate::term;
use crate::trace_input;
use anyhow::{Context, anyhow};
use latlab_analysis::sched::analyse::Options;
use latlab_analysis::sched::from_trace;
use latlab_model::event::{Event, Names};
use latlab_model::sched::schedule::{SchedDetail, Schedule, Slice};
use latlab_sys::mmap::Mapped;
use latlab_trace::{Diagnostics, Select, TraceFile};
use std::ops::ControlFlow;
use std::path::Path;

/// More threads than this do not help: the merge is sequential.
const THREADS_MAX: usize = 8;

/// Analyses a file.
///
/// # Errors
/// When it cannot be read as a trace, or has no `sched_switch` in what was chosen.
pub fn run(global: &Global, args: &Args, path: &Path) -> anyhow::Result<Outcome> {
    let data = open(path)?;
    let file = parse(path, &data)?;
    let select = args.select()?;
    let options = options(args, &file)?;
    match args.view {
        View::Summary => {
            let config = serde_json::json!({
                "file": path.to_string_lossy(), "window_ns": options.window_ns,
            });
            let (schedule, damage) = analyse(&file, path, &select, options, &mut |_, _, _| Ok(()))?;
            trace_input::tell_damage(path, &file.diagnostics, &damage);
            let mut session = Session::begin_ephemeral(global, "sched", &config)?;
            let detail = SchedDetail { schedule, ..SchedDetail::default() };
            let part = latlab_analysis::sched::part::part("sched", "Scheduling", detail, true);
            session.run.parts.push(part);
            session.finish(None)
        }
        View::Timehist => {
            let mut view = TimeHist::new(term::raw_stdout(), global.json);
            view.head()?;
            let damage = slices(&file, path, &select, options, |s, names| view.slice(s, names))?;
            view.end()?;
            trace_input::tell_damage(path, &file.diagnostics, &damage);
            Ok(Outcome::Done)
        }
        View::Map => {
            let mut map = Map::new(term::raw_stdout(), global.json);
            let (_, damage) =
                analyse(&file, path, &select, options, &mut |e, names, _| map.event(e, names))?;
            map.end()?;
            trace_input::tell_damage(path, &file.diagnostics, &damage);
            Ok(Outcome::Done)
        }
    }
}

/// Opens a trace file.
///
/// # Errors
/// When there is no such file.
pub fn open(path: &Path) -> anyhow::Result<Mapped> {
    Mapped::open(path)
        .with_context(|| format!("{} cannot be opened", path.display()))
        .hint("name a trace.dat or ftrace's text; `latlab record -e sched` records one")
}

/// A trace.dat, or ftrace's text.
///
/// # Errors
/// When it is neither.
pub fn parse<'a>(path: &Path, data: &'a [u8]) -> anyhow::Result<TraceFile<'a>> {
    trace_input::open(data, path)
}

/// What is to be kept.
fn options(args: &Args, file: &TraceFile<'_>) -> anyhow::Result<Options> {
    let mut options = Options { window_ns: args.window.as_nanos() as u64, ..Options::default() };
    for task in &args.task {
        let tids: Vec<i32> = match task.parse::<i32>() {
            Ok(tid) => vec![tid],
            Err(_) => file
                .comms
                .iter()
                .filter(|(_, name)| *name == task.as_bytes())
                .map(|(tid, _)| tid)
                .collect(),
        };
        if tids.is_empty() {
            return Err(anyhow!("--task {task}: no task of this name in the trace"))
                .hint("give a thread id: `latlab sched FILE` lists them");
        }
        options.focus.extend(tids);
    }
    Ok(options)
}

/// Called with each event, the names of its symbols and the run segments that it ended.
pub type EachEvent<'a> = dyn FnMut(&Event, &Names, &[Slice]) -> std::io::Result<()> + 'a;

/// Analyses; `each` sees every event, and every slice that it ended.
///
/// # Errors
/// When there is no `sched_switch`, or `each` cannot write.
pub fn analyse(
    file: &TraceFile<'_>,
    path: &Path,
    select: &Select,
    options: Options,
    each: &mut EachEvent<'_>,
) -> anyhow::Result<(Schedule, Diagnostics)> {
    let mut error = None;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let found =
        from_trace::analyse(file, &name, select, threads, options, &mut |event, names, ended| {
            match each(event, names, ended) {
                Ok(()) => ControlFlow::Continue(()),
                Err(e) => {
                    error = Some(e);
                    ControlFlow::Break(())
                }
            }
        });
    if let Some(error) = error {
        return Err(error.into());
    }
    found
        .with_context(|| path.display().to_string())
        .hint("record with `latlab record -e sched`; or widen --from, --to and --cpu")
}

/// Only the slices, in order of their ends.
fn slices(
    file: &TraceFile<'_>,
    path: &Path,
    select: &Select,
    options: Options,
    mut slice: impl FnMut(&Slice, &Names) -> std::io::Result<()>,
) -> anyhow::Result<Diagnostics> {
    let focus = options.focus.clone();
    let (_, damage) = analyse(file, path, select, options, &mut |_, names, ended| {
        let mine = |s: &&Slice| focus.is_empty() || focus.contains(&s.task.tid.0);
        ended.iter().filter(mine).try_for_each(|s| slice(s, names))
    })?;
    Ok(damage)
}
