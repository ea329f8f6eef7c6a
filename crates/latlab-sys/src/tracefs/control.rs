//! The control files of one buffer: an instance's or, where a tracer allows nothing else, the
//! top level's.

use super::handles::{Marker, TraceStopper};
use super::names::nearest;
use super::selection::{Selection, select, unknown};
use super::top_level_journal::{Before, Journalled};
use super::{Result, Tracefs, TracefsError, clocks, read};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One buffer's control files.
#[derive(Clone, Debug)]
pub struct Control {
    tracefs: Tracefs,
    dir: PathBuf,
    /// At the top level: what is changed there is journalled first.
    journalled: Option<Arc<Journalled>>,
}

impl Control {
    pub(crate) fn new(tracefs: Tracefs, dir: PathBuf) -> Self {
        Self { tracefs, dir, journalled: None }
    }

    /// The top level's, each change journalled.
    pub(super) fn top(tracefs: Tracefs, journalled: Arc<Journalled>) -> Self {
        let dir = tracefs.root().to_owned();
        Self { tracefs, dir, journalled: Some(journalled) }
    }

    /// Whether it is the kernel's one top-level buffer.
    pub fn is_top_level(&self) -> bool {
        self.journalled.is_some()
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file system that it is part of.
    pub fn tracefs(&self) -> &Tracefs {
        &self.tracefs
    }

    /// Writes one value to a control file, replacing what it held.
    pub(crate) fn set(&self, file: impl AsRef<Path>, value: &str) -> Result<()> {
        self.put(file.as_ref(), value, false)
    }

    fn put(&self, file: &Path, value: &str, append: bool) -> Result<()> {
        let path = self.dir.join(file);
        if let Some(journalled) = &self.journalled
            && journalled.before(&path, value)? == Before::Done
        {
            return Ok(());
        }
        write(&path, value, append)
            .map_err(|e| TracefsError::io(format!("writing {:?} to", value.trim_end()), path, e))
    }

    /// Text of a control file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn get(&self, file: impl AsRef<Path>) -> Result<String> {
        read(&self.dir.join(file))
    }

    /// Starts or stops writing to the buffer.
    ///
    /// # Errors
    /// When `tracing_on` cannot be written.
    pub fn set_tracing(&self, on: bool) -> Result<()> {
        self.set("tracing_on", if on { "1" } else { "0" })
    }

    /// Empties the buffer.
    ///
    /// # Errors
    /// When `trace` cannot be written.
    pub fn clear(&self) -> Result<()> {
        self.set("trace", "")
    }

    /// A handle that stops tracing by one system call, for real-time loops.
    ///
    /// # Errors
    /// When `tracing_on` cannot be opened.
    pub fn trace_stopper(&self) -> Result<TraceStopper> {
        Ok(TraceStopper { file: self.open("tracing_on", true)? })
    }

    /// A handle that writes into the trace by one system call.
    ///
    /// # Errors
    /// When `trace_marker` cannot be opened.
    pub fn marker(&self) -> Result<Marker> {
        let path = self.dir.join("trace_marker");
        let file = OpenOptions::new().write(true).open(&path);
        Ok(Marker { file: file.map_err(|e| TracefsError::io("opening", path, e))? })
    }

    fn open(&self, name: &str, write: bool) -> Result<File> {
        let path = self.dir.join(name);
        let file = OpenOptions::new().read(true).write(write).open(&path);
        file.map_err(|e| TracefsError::io("opening", path, e))
    }

    /// CPUs that have a buffer, in order: all that the machine may have, present or not.
    ///
    /// # Errors
    /// When `per_cpu` cannot be listed.
    pub fn cpus(&self) -> Result<Vec<u32>> {
        let path = self.dir.join("per_cpu");
        let entries = fs::read_dir(&path).map_err(|e| TracefsError::io("listing", path, e))?;
        let number = |e: fs::DirEntry| e.file_name().to_str()?.strip_prefix("cpu")?.parse().ok();
        let mut cpus: Vec<u32> = entries.flatten().filter_map(number).collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Chooses the clock.
    ///
    /// # Errors
    /// [`TracefsError::Unknown`] for a clock that is not offered.
    pub fn set_clock(&self, clock: &str) -> Result<()> {
        let (names, _) = clocks(&self.get("trace_clock")?);
        if !names.iter().any(|n| n == clock) {
            let near = nearest(clock, names.iter().map(String::as_str));
            let near = if near.is_empty() { names } else { near };
            return Err(unknown("clock", clock, near));
        }
        self.set("trace_clock", clock)
    }

    /// Sets the size of each CPU's buffer in KiB.
    ///
    /// # Errors
    /// When the kernel has not that much memory.
    pub fn set_buffer_kb(&self, kb: u64) -> Result<()> {
        self.set("buffer_size_kb", &kb.to_string())
    }

    /// Sets an option: `stacktrace`, `nooverwrite`…
    ///
    /// # Errors
    /// [`TracefsError::Unknown`] for an option that this kernel does not have.
    pub fn set_option(&self, option: &str) -> Result<()> {
        let (name, value) = option.strip_prefix("no").map_or((option, "1"), |name| (name, "0"));
        // A tracer's own options are files long before `trace_options` tells of them.
        let file = Path::new("options").join(name);
        if is_name(name) && self.dir.join(&file).exists() {
            return self.set(file, value);
        }
        let options = self.get("trace_options")?;
        let plain = |o: &str| o.strip_prefix("no").unwrap_or(o).to_owned();
        if !options.lines().any(|o| o == option || plain(o) == plain(option)) {
            let names: Vec<String> = options.lines().map(plain).collect();
            let near = nearest(&plain(option), names.iter().map(String::as_str));
            return Err(unknown("option", option, near));
        }
        self.set("trace_options", option)
    }

    /// Traces on these CPUs only.
    ///
    /// # Errors
    /// [`TracefsError::NoCpu`] for one that is not there.
    pub fn set_cpus(&self, cpus: &BTreeSet<u32>) -> Result<()> {
        let there = self.cpus()?;
        if let Some(&cpu) = cpus.iter().find(|c| !there.contains(c)) {
            return Err(TracefsError::NoCpu { cpu, present: ranges(&there) });
        }
        self.set("tracing_cpumask", &mask(cpus))
    }

    /// Traces these processes only; `children` follows what they fork.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_pids(&self, pids: &[u32], children: bool) -> Result<()> {
        if children {
            self.set_option("event-fork")?;
            // Not there on kernels without function tracing.
            let _ = self.set_option("function-fork");
        }
        let list: Vec<String> = pids.iter().map(ToString::to_string).collect();
        self.set("set_event_pid", &list.join(" "))?;
        // Matters to function tracers alone, and may be missing or locked without them.
        let functions = self.set("set_ftrace_pid", &list.join(" "));
        if self.is_top_level() { functions } else { Ok(()) }
    }

    /// Chooses the tracer.
    ///
    /// # Errors
    /// [`TracefsError::Unknown`] for a tracer that this kernel does not have; an `EINVAL` when it
    /// works at the top level only.
    pub fn set_tracer(&self, tracer: &str) -> Result<()> {
        let names = self.tracefs.tracers()?;
        if !names.iter().any(|n| n == tracer) {
            let near = nearest(tracer, names.iter().map(String::as_str));
            let near = if near.is_empty() { names } else { near };
            return Err(unknown("tracer", tracer, near));
        }
        self.set("current_tracer", tracer).map_err(|e| match e {
            TracefsError::Io { source, .. }
                if source.raw_os_error() == Some(libc::EINVAL) && !self.is_top_level() =>
            {
                TracefsError::TopLevelOnly { tracer: tracer.to_owned() }
            }
            other => other,
        })
    }

    /// Adds functions (globs allowed) to `set_ftrace_filter`, `set_ftrace_notrace`,
    /// `set_graph_function` or `set_graph_notrace`.
    ///
    /// # Errors
    /// [`TracefsError::BadFunction`] for a function that cannot be traced.
    pub fn add_functions(&self, file: &'static str, functions: &[String]) -> Result<()> {
        for function in functions {
            self.put(Path::new(file), &format!("{function}\n"), true).map_err(|e| match e {
                TracefsError::Io { source, .. } => TracefsError::BadFunction {
                    function: function.clone(),
                    file,
                    reason: match source.raw_os_error() {
                        Some(libc::EINVAL) => "no function of that name can be traced".into(),
                        Some(libc::ENOENT) => "this kernel has no such filter here".into(),
                        _ => source.to_string(),
                    },
                },
                other => other,
            })?;
        }
        Ok(())
    }

    /// What a pattern stands for on this kernel.
    ///
    /// # Errors
    /// [`TracefsError::Unknown`] with the nearest names.
    pub fn select(&self, pattern: &str) -> Result<Vec<Selection>> {
        select(pattern, &self.tracefs.events()?)
    }

    /// Enables events.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enable(&self, selection: &Selection) -> Result<()> {
        self.set(selection.dir().join("enable"), "1")
    }

    /// Disables events.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn disable(&self, selection: &Selection) -> Result<()> {
        self.set(selection.dir().join("enable"), "0")
    }

    /// Sets the filter of events.
    ///
    /// # Errors
    /// [`TracefsError::BadFilter`] with the kernel's own message.
    pub fn set_filter(&self, selection: &Selection, filter: &str) -> Result<()> {
        let file = selection.dir().join("filter");
        self.set(&file, filter).map_err(|e| match e {
            TracefsError::Io { source, .. } => TracefsError::BadFilter {
                event: selection.name(),
                filter: filter.to_owned(),
                kernel: self.kernel_error(Some(&file), &source),
            },
            other => other,
        })
    }

    /// Adds a trigger to events.
    ///
    /// # Errors
    /// [`TracefsError::BadTrigger`] with the kernel's own message.
    pub fn add_trigger(&self, selection: &Selection, trigger: &str) -> Result<()> {
        let file = selection.dir().join("trigger");
        self.put(&file, trigger, true).map_err(|e| match e {
            TracefsError::Io { source, .. } => TracefsError::BadTrigger {
                event: selection.name(),
                trigger: trigger.to_owned(),
                kernel: match source.raw_os_error() {
                    Some(libc::ENOENT) => "a system has no triggers, name one event".into(),
                    _ => self.kernel_error(None, &source),
                },
            },
            other => other,
        })
    }

    /// The kernel's own words on what was wrong: the last entry of `error_log` (since 5.2), or
    /// what it left in the `filter` file itself.
    fn kernel_error(&self, file: Option<&Path>, source: &io::Error) -> String {
        let logs = [self.dir.join("error_log"), self.tracefs.root().join("error_log")];
        let log = logs.iter().filter_map(|p| read(p).ok()).find_map(|t| last_error(&t));
        let filter = || {
            let text = read(&self.dir.join(file?)).ok()?;
            let error = text.lines().find_map(|l| l.strip_prefix("parse_error: "))?;
            Some(error.to_owned())
        };
        log.or_else(filter).unwrap_or_else(|| source.to_string())
    }
}

/// Message of the last entry of an `error_log`:
/// `[ 12.3] event filter parse error: error: Field not found`, then the command and a caret.
fn last_error(log: &str) -> Option<String> {
    let line = log.lines().rfind(|l| l.starts_with('['))?;
    let message = line.rsplit_once("error: ").map_or(line, |(_, m)| m);
    let caret = log.lines().last().filter(|l| l.trim() == "^");
    let column = caret.and_then(|l| l.find('^')).and_then(|c| c.checked_sub("  Command: ".len()));
    Some(match column {
        Some(c) if c > 0 => format!("{message} (at character {})", c + 1),
        _ => message.to_owned(),
    })
}

/// Whether it is one component of a path.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

/// Writes to a control file with one write(2); the kernel takes a value as a whole.
fn write(path: &Path, value: &str, append: bool) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).append(append).truncate(!append).open(path)?;
    // An empty value: opening with O_TRUNC was all that was wanted.
    if value.is_empty() { Ok(()) } else { file.write_all(value.as_bytes()) }
}

/// `0-3,5`.
pub(crate) fn ranges(cpus: &[u32]) -> String {
    let mut text = String::new();
    let mut i = 0;
    while let Some(&first) = cpus.get(i) {
        let mut last = first;
        while cpus.get(i + 1) == Some(&(last + 1)) {
            i += 1;
            last += 1;
        }
        i += 1;
        let comma = if text.is_empty() { "" } else { "," };
        text += &if first == last {
            format!("{comma}{first}")
        } else {
            format!("{comma}{first}-{last}")
        };
    }
    text
}

/// The kernel's hexadecimal mask: 32 bits a group, the highest first.
fn mask(cpus: &BTreeSet<u32>) -> String {
    let groups = cpus.last().map_or(1, |c| c / 32 + 1);
    let group = |g: u32| {
        let bits = cpus.iter().filter(|c| **c / 32 == g).fold(0u32, |m, c| m | 1 << (c % 32));
        format!("{bits:x}")
    };
    let groups: Vec<String> = (0..groups).rev().map(group).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_ranges() {
        assert_eq!(mask(&BTreeSet::from([0, 1, 33])), "2,3");
        assert_eq!(mask(&BTreeSet::from([64])), "1,0,0");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }

    #[test]
    fn the_kernels_message_is_found() {
        let log = "[   12.3] event filter parse error: error: Field not found\n  Command: pid == 1 && foo == 3\n                       ^\n";
        assert_eq!(last_error(log).unwrap(), "Field not found (at character 13)");
        assert_eq!(last_error(""), None);
    }

    #[test]
    fn control_files_are_written_on_any_directory() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("trace_clock", "[local] global mono\n"),
            ("trace_options", "print-parent\nnostacktrace\noverwrite\n"),
            ("tracing_on", "1"),
            ("tracing_cpumask", ""),
        ] {
            fs::write(dir.path().join(file), text).unwrap();
        }
        for cpu in ["cpu0", "cpu1", "cpu10"] {
            fs::create_dir_all(dir.path().join("per_cpu").join(cpu)).unwrap();
        }
        let control = Control::new(Tracefs::at(dir.path()), dir.path().to_owned());
        assert_eq!(control.cpus().unwrap(), [0, 1, 10]);
        control.set_cpus(&BTreeSet::from([1, 10])).unwrap();
        assert_eq!(control.get("tracing_cpumask").unwrap(), "402");
        let error = control.set_cpus(&BTreeSet::from([2])).unwrap_err().to_string();
        assert_eq!(error, "there is no CPU 2; this machine has 0-1,10");
        assert!(control.set_clock("mno").unwrap_err().to_string().ends_with("nearest: mono"));
        assert!(control.set_option("nooverwrite").is_ok());
        let error = control.set_option("overwrit").unwrap_err().to_string();
        assert!(error.ends_with("nearest: overwrite"), "{error}");
        let trace_stopper = control.trace_stopper().unwrap();
        assert!(trace_stopper.is_on().unwrap());
        trace_stopper.stop().unwrap();
        assert!(!trace_stopper.is_on().unwrap());
    }
}
