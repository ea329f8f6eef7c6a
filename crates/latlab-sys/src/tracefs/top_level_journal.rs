//! Changes at the top level, each journalled before it is made.

use super::{Result, TracefsError, read};
use crate::settings::{Place, SettingError, Settings};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lists that must be empty when the buffer is taken.
pub(super) const LISTS: [&str; 8] = [
    "set_ftrace_filter",
    "set_ftrace_notrace",
    "set_graph_function",
    "set_graph_notrace",
    "set_ftrace_pid",
    "set_ftrace_notrace_pid",
    "set_event_pid",
    "set_event_notrace_pid",
];

/// Journals what [`Control`](super::Control) is about to change at the top level.
#[derive(Debug)]
pub(super) struct Journalled {
    tracer: String,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    promised: BTreeSet<PathBuf>,
}

impl Inner {
    fn at(place: Place) -> Self {
        Self { settings: Settings::at(place), promised: BTreeSet::new() }
    }

    /// Promises once that a file gets this value at the end.
    fn promise(&mut self, path: &Path, value: &str) -> std::result::Result<(), SettingError> {
        if self.promised.insert(path.to_owned()) {
            self.settings.reset_later(path, value)?;
        }
        Ok(())
    }
}

impl Inner {
    /// Notes what lists have before tracing begins, except those that the kernel changes itself
    /// (`*_pid`, when a task forks).
    fn note_lists(&mut self) -> std::result::Result<(), SettingError> {
        let is_list = |path: &&PathBuf| {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            LISTS.contains(&name) && !name.ends_with("_pid")
        };
        let lists: Vec<PathBuf> = self.promised.iter().filter(is_list).cloned().collect();
        self.settings.note_lists(&lists)
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
    /// For this tracer; nothing is journalled yet.
    pub(super) fn new(tracer: &str, place: Place) -> Self {
        Self { tracer: tracer.to_owned(), inner: Mutex::new(Inner::at(place)) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn promise(&self, path: &Path, value: &str) -> Result<()> {
        self.inner().promise(path, value).map_err(|e| self.error(e))
    }

    /// Journals a change, and makes it where one write to one file is all of it.
    pub(super) fn before(&self, path: &Path, value: &str) -> Result<Before> {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let set = |back: Option<&str>| -> Result<Before> {
            let set = self.inner().settings.set_and_put_back(path, value, back);
            set.map(|_| Before::Done).map_err(|e| self.error(e))
        };
        match name {
            // Promised when the buffer was taken.
            "tracing_on" if value.trim() == "1" => {
                self.inner().note_lists().map_err(|e| self.error(e))?;
                Ok(Before::Write)
            }
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
                self.inner().settings.forget_list(path).map_err(|e| self.error(e))?;
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
            let set = inner.settings.set_and_put_back(path, value, Some(&size));
            return set.map(|_| Before::Done).map_err(|e| self.error(e));
        }
        for cpu in fs::read_dir(root.join("per_cpu")).into_iter().flatten().flatten() {
            let set = inner.settings.set(cpu.path().join("buffer_size_kb"), value);
            set.map_err(|e| self.error(e))?;
        }
        Ok(Before::Done)
    }

    pub(super) fn restore(&self) {
        let mut inner = self.inner();
        inner.promised.clear();
        // Replaced: dropping it puts everything back and says what could not be.
        drop(std::mem::take(&mut inner.settings));
    }

    /// Gives up what was promised without writing anything: somebody else has the buffer.
    pub(super) fn abandon(&self) {
        let mut inner = self.inner();
        inner.promised.clear();
        inner.settings.abandon();
    }

    fn error(&self, error: SettingError) -> TracefsError {
        match error {
            SettingError::Refused { path, value, source } => {
                TracefsError::io(format!("writing {value:?} to"), path, source)
            }
            SettingError::Busy { pid, .. } => TracefsError::TopLevelBusy {
                tracer: self.tracer.clone(),
                how: format!("the latlab that runs as process {pid} has it"),
            },
            other => other.into(),
        }
    }
}

/// Entries of a list; the kernel calls an empty one `no pid`, or explains it in a comment.
pub(super) fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#') && *l != "no pid")
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

    #[test]
    fn sizes_of_buffers_are_read_in_all_their_forms() {
        assert_eq!(one_size("1408\n").as_deref(), Some("1408"));
        assert_eq!(one_size("7 (expanded: 1408)\n").as_deref(), Some("1408"));
        assert_eq!(one_size("X\n"), None);
    }
}
