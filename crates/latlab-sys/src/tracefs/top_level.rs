//! The kernel's one top-level buffer, for tracers that work nowhere else (`function_graph` before
//! 6.12, and what filters it: `set_graph_function`, `max_graph_depth`).
//!
//! It belongs to everybody, so it is taken only when nobody uses it, and whatever is changed is
//! journalled first ([`crate::settings`]): settings to what they were; lists, which were empty, to empty.
//! What was recorded there is gone when it is given back.
//!
//! Source: the kernel's `Documentation/trace/ftrace.rst`.

use super::top_level_journal::{Journalled, LISTS, entries};
use super::{Control, Result, Tracefs, TracefsError, read};
use crate::settings::{Place, Restoration, restore_orphaned};
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

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
    /// [`TracefsError::TopLevelBusy`] when somebody uses it, [`TracefsError::Setting`] when nothing
    /// can be journalled.
    pub fn take(tracefs: &Tracefs, tracer: &str) -> Result<Self> {
        Self::take_at(tracefs, tracer, Place::default())
    }

    fn take_at(tracefs: &Tracefs, tracer: &str, place: Place) -> Result<Self> {
        let left = restore_orphaned(&place)?.undone;
        let busy = |how| TracefsError::TopLevelBusy { tracer: tracer.to_owned(), how };
        if let Some(how) = in_use(tracefs.root()) {
            return Err(busy(how));
        }
        let on = tracefs.read("tracing_on")?.trim().to_owned();
        let journalled = Arc::new(Journalled::new(tracer, place));
        let control = Control::top(tracefs.clone(), Arc::clone(&journalled));
        journalled.promise(&tracefs.root().join("tracing_on"), &on)?;
        journalled.promise(&tracefs.root().join("trace"), "")?;
        // Looked at again: of two that take it at once, each has journalled it before. Whoever has
        // it now keeps it as it is.
        if let Some(how) = in_use(tracefs.root()) {
            journalled.abandon();
            return Err(busy(how));
        }
        // From here on, dropping it puts everything back; these two last.
        let top = Self { control, journalled, left };
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
        assert!(top.trace_stopper().unwrap().is_on().unwrap());
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
}
