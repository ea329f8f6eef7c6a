//! The kernel's one top-level buffer, for tracers that work nowhere else (`function_graph` before
//! 6.12, and what filters it: `set_graph_function`, `max_graph_depth`).
//!
//! It belongs to everybody, so it is taken only when nobody uses it, and whatever is changed is
//! journalled first ([`Knobs`]): settings to what they were; lists, which were empty, to empty.
//! What was recorded there is gone when it is given back.
//!
//! Source: the kernel's `Documentation/trace/ftrace.rst`.

use super::{Control, Result, Tracefs, TracefsError, read};
use crate::knobs::{KnobError, Knobs, Place, Restoration, restore_leftovers};
use std::collections::BTreeSet;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lists that must be empty when the buffer is taken.
const LISTS: [&str; 8] = [
    "set_ftrace_filter",
    "set_ftrace_notrace",
    "set_graph_function",
    "set_graph_notrace",
    "set_ftrace_pid",
    "set_ftrace_notrace_pid",
    "set_event_pid",
    "set_event_notrace_pid",
];

/// The top-level buffer, taken. Dropping it puts everything back.
#[derive(Debug)]
pub struct TopLevel {
    control: Control,
    journalled: Arc<Journalled>,
    left: Vec<Restoration>,
}

impl TopLevel {
    /// Takes it for this tracer, after putting back what a killed latlab may have left there.
    /// Tracing is off and the buffer is empty afterwards.
    ///
    /// # Errors
    /// [`TracefsError::TopLevelBusy`] when somebody uses it, [`TracefsError::Knob`] when nothing
    /// can be journalled.
    pub fn take(tracefs: &Tracefs, tracer: &str) -> Result<Self> {
        Self::take_at(tracefs, tracer, Place::default())
    }

    fn take_at(tracefs: &Tracefs, tracer: &str, place: Place) -> Result<Self> {
        let left = restore_leftovers(&place)?.undone;
        let busy = |how| TracefsError::TopLevelBusy { tracer: tracer.to_owned(), how };
        if let Some(how) = in_use(tracefs.root()) {
            return Err(busy(how));
        }
        let on = tracefs.read("tracing_on")?.trim().to_owned();
        let journalled =
            Arc::new(Journalled { tracer: tracer.to_owned(), inner: Mutex::new(Inner::at(place)) });
        let control = Control::top(tracefs.clone(), Arc::clone(&journalled));
        // From here on, dropping it puts everything back; these two last.
        let top = Self { control, journalled, left };
        top.journalled.promise(&tracefs.root().join("tracing_on"), &on)?;
        top.journalled.promise(&tracefs.root().join("trace"), "")?;
        // Looked at again: of two that take it at once, each has journalled it before.
        if let Some(how) = in_use(tracefs.root()) {
            return Err(busy(how));
        }
        top.control.set_tracing(false)?;
        top.control.clear()?;
        Ok(top)
    }

    /// What a killed latlab had left and was put back when it was taken.
    pub fn put_back(&self) -> &[Restoration] {
        &self.left
    }
}

impl Deref for TopLevel {
    type Target = Control;
    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Drop for TopLevel {
    fn drop(&mut self) {
        let _ = self.control.set_tracing(false);
        self.journalled.restore();
    }
}

/// How somebody uses the top-level buffer; `None` when nobody does.
fn in_use(root: &Path) -> Option<String> {
    let text = |name: &str| read(&root.join(name)).unwrap_or_default();
    let tracer = text("current_tracer");
    if !matches!(tracer.trim(), "nop" | "") {
        return Some(format!("its tracer is {}", tracer.trim()));
    }
    let events = text("set_event");
    if let Some(first) = entries(&events).next() {
        return Some(format!("it records events ({first})"));
    }
    if let Some((name, first)) =
        LISTS.iter().find_map(|l| Some((l, entries(&text(l)).next()?.to_owned())))
    {
        return Some(format!("its {name} is set ({first})"));
    }
    let cpus = fs::read_dir(root.join("per_cpu")).into_iter().flatten().flatten();
    let held = |cpu: fs::DirEntry| -> Option<u64> {
        let stats = read(&cpu.path().join("stats")).ok()?;
        stats.lines().find_map(|l| l.strip_prefix("entries: "))?.trim().parse().ok()
    };
    match cpus.filter_map(held).sum::<u64>() {
        0 => None,
        n => Some(format!("{n} entries that somebody recorded are in it")),
    }
}

/// Entries of a list; the kernel calls an empty one `no pid`, or explains it in a comment.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#') && *l != "no pid")
}

/// Journals what [`Control`] is about to change at the top level.
#[derive(Debug)]
pub(super) struct Journalled {
    tracer: String,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    knobs: Knobs,
    promised: BTreeSet<PathBuf>,
}

impl Inner {
    fn at(place: Place) -> Self {
        Self { knobs: Knobs::at(place), promised: BTreeSet::new() }
    }

    /// Promises once that a file gets this value at the end.
    fn promise(&mut self, path: &Path, value: &str) -> std::result::Result<(), KnobError> {
        if self.promised.insert(path.to_owned()) {
            self.knobs.reset_later(path, value)?;
        }
        Ok(())
    }
}

/// What is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// The value is to be written.
    Write,
    /// It is set.
    Done,
}

impl Journalled {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn promise(&self, path: &Path, value: &str) -> Result<()> {
        self.inner().promise(path, value).map_err(|e| self.error(e))
    }

    /// Journals a change, and makes it where one write to one file is all of it.
    pub(super) fn before(&self, path: &Path, value: &str) -> Result<Before> {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let set = |back: Option<&str>| -> Result<Before> {
            let set = self.inner().knobs.set_and_put_back(path, value, back);
            set.map(|_| Before::Done).map_err(|e| self.error(e))
        };
        match name {
            // Promised when the buffer was taken.
            "tracing_on" | "trace" => Ok(Before::Write),
            "filter" | "trigger" => {
                if let Some(theirs) = theirs(path) {
                    return Err(TracefsError::TopLevelBusy {
                        tracer: self.tracer.clone(),
                        how: format!("{} is set ({theirs})", path.display()),
                    });
                }
                self.promise(path, if name == "filter" { "0" } else { "" })?;
                Ok(Before::Write)
            }
            list if LISTS.contains(&list) => {
                self.promise(path, "")?;
                Ok(Before::Write)
            }
            // With a trigger on it, an event reads `0*`.
            "enable" => set(Some("0")),
            "buffer_size_kb" => self.resize(path, value),
            _ => set(None),
        }
    }

    /// A buffer that was never used tells `7 (expanded: 1408)`; CPUs with sizes of their own, `X`.
    fn resize(&self, path: &Path, value: &str) -> Result<Before> {
        let size = one_size(&read(path)?);
        let root = path.parent().unwrap_or(Path::new("/"));
        let mut inner = self.inner();
        if let Some(size) = size {
            let set = inner.knobs.set_and_put_back(path, value, Some(&size));
            return set.map(|_| Before::Done).map_err(|e| self.error(e));
        }
        for cpu in fs::read_dir(root.join("per_cpu")).into_iter().flatten().flatten() {
            let set = inner.knobs.set(cpu.path().join("buffer_size_kb"), value);
            set.map_err(|e| self.error(e))?;
        }
        Ok(Before::Done)
    }

    fn restore(&self) {
        let mut inner = self.inner();
        inner.promised.clear();
        // Replaced: dropping it puts everything back and says what could not be.
        drop(std::mem::take(&mut inner.knobs));
    }

    fn error(&self, error: KnobError) -> TracefsError {
        match error {
            KnobError::Refused { path, value, source } => {
                TracefsError::io(format!("writing {value:?} to"), path, source)
            }
            KnobError::Busy { pid, .. } => TracefsError::TopLevelBusy {
                tracer: self.tracer.clone(),
                how: format!("the latlab that runs as process {pid} has it"),
            },
            other => other.into(),
        }
    }
}

/// The size of every CPU's buffer in KiB, as soon as it is used; `None` when they differ (`X`).
fn one_size(text: &str) -> Option<String> {
    let used = text.split_once("(expanded:").map_or(text, |(_, rest)| rest);
    let size = used.trim_matches([' ', ')', '\n']);
    size.parse::<u64>().is_ok().then(|| size.to_owned())
}

/// A filter or trigger that is there already, of an event or of any event of a system.
fn theirs(path: &Path) -> Option<String> {
    let name = path.file_name()?;
    let set = |path: &Path| {
        let text = read(path).unwrap_or_default();
        entries(&text).find(|l| *l != "none").map(str::to_owned)
    };
    let events = fs::read_dir(path.parent()?).into_iter().flatten().flatten();
    set(path).or_else(|| events.into_iter().find_map(|e| set(&e.path().join(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tracefs of ordinary files in which nobody traces.
    fn idle() -> (tempfile::TempDir, Tracefs, Place) {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap().join("tracing");
        for (file, text) in [
            ("current_tracer", "nop\n"),
            ("available_tracers", "function_graph nop\n"),
            ("tracing_on", "1\n"),
            ("trace", ""),
            ("set_event", ""),
            ("set_ftrace_pid", "no pid\n"),
            ("set_graph_function", "#### all functions enabled ####\n"),
            ("max_graph_depth", "0\n"),
            ("trace_clock", "[local] global mono\n"),
            ("buffer_size_kb", "7 (expanded: 1408)\n"),
            ("options/funcgraph-proc", "0\n"),
            ("events/sched/sched_switch/filter", "none\n"),
            ("events/sched/sched_switch/enable", "0\n"),
            ("per_cpu/cpu0/stats", "entries: 0\noverrun: 0\n"),
        ] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let place = Place::new(dir.path().join("journal"), &[&root]);
        (dir, Tracefs::at(root), place)
    }

    #[test]
    fn everything_that_was_changed_is_put_back() {
        let (_dir, tracefs, place) = idle();
        let read = |file: &str| tracefs.read(file).unwrap().trim().to_owned();
        let top = TopLevel::take_at(&tracefs, "function_graph", place).unwrap();
        assert_eq!(read("tracing_on"), "0");
        top.set_clock("mono").unwrap();
        top.set_buffer_kb(4096).unwrap();
        top.set_option("funcgraph-proc").unwrap();
        top.add_functions("set_graph_function", &["do_sys_open*".into()]).unwrap();
        top.set("max_graph_depth", "3").unwrap();
        top.set("events/sched/sched_switch/filter", "prev_prio < 100").unwrap();
        top.set("events/sched/sched_switch/enable", "1").unwrap();
        top.set_tracer("function_graph").unwrap();
        top.set_tracing(true).unwrap();
        assert!(top.freezer().unwrap().is_on().unwrap());
        assert_eq!(read("current_tracer"), "function_graph");
        assert_eq!(read("options/funcgraph-proc"), "1");
        assert_eq!(read("buffer_size_kb"), "4096");
        drop(top);
        for (file, value) in [
            ("current_tracer", "nop"),
            ("tracing_on", "1"),
            ("set_graph_function", ""),
            ("max_graph_depth", "0"),
            ("trace_clock", "local"),
            ("buffer_size_kb", "1408"),
            ("options/funcgraph-proc", "0"),
            ("events/sched/sched_switch/filter", "0"),
            ("events/sched/sched_switch/enable", "0"),
        ] {
            assert_eq!(read(file), value, "{file}");
        }
    }

    #[test]
    fn a_buffer_that_somebody_uses_is_left_alone() {
        for (file, text, words) in [
            ("current_tracer", "function\n", "its tracer is function"),
            ("set_event", "sched:sched_switch\n", "it records events (sched:sched_switch)"),
            ("set_graph_function", "schedule\n", "its set_graph_function is set (schedule)"),
            ("per_cpu/cpu0/stats", "entries: 12\n", "12 entries that somebody recorded are in it"),
        ] {
            let (_dir, tracefs, place) = idle();
            fs::write(tracefs.root().join(file), text).unwrap();
            let error = TopLevel::take_at(&tracefs, "function_graph", place).unwrap_err();
            assert!(error.to_string().ends_with(words), "{error}");
            assert!(error.hint().is_some());
            assert_eq!(tracefs.read("tracing_on").unwrap(), "1\n");
        }
    }

    #[test]
    fn a_filter_that_somebody_set_is_not_replaced() {
        let (_dir, tracefs, place) = idle();
        let filter = "events/sched/sched_switch/filter";
        fs::write(tracefs.root().join(filter), "prev_pid == 1\n").unwrap();
        let top = TopLevel::take_at(&tracefs, "function_graph", place).unwrap();
        let error = top.set("events/sched/filter", "prev_prio < 100").unwrap_err();
        assert!(error.to_string().contains("is set (prev_pid == 1)"), "{error}");
        drop(top);
        assert_eq!(tracefs.read(filter).unwrap(), "prev_pid == 1\n");
    }

    #[test]
    fn sizes_of_buffers_are_read_in_all_their_forms() {
        assert_eq!(one_size("1408\n").as_deref(), Some("1408"));
        assert_eq!(one_size("7 (expanded: 1408)\n").as_deref(), Some("1408"));
        assert_eq!(one_size("X\n"), None);
    }
}
