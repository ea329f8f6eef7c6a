//! tracefs: what this kernel can trace, and our own corner of it.
//!
//! Everything happens in an instance of our own (`instances/latlab-<pid>-<start>`, see
//! [`Instance`]); other people's instances are never changed, and the top-level buffer only for a
//! tracer that works nowhere else (see [`TopLevel`]). A [`Tracefs`] is only a path, so that tests
//! run it on a directory of ordinary files.
//!
//! Source: the kernel's `Documentation/trace/ftrace.rst` and `events.rst`.

mod control;
mod error;
mod handles;
mod instance;
pub mod names;
mod probes;
mod selection;
mod top_level;
mod top_level_journal;

pub use control::Control;
pub use error::TracefsError;
pub use handles::{Marker, TraceStopper};
pub use instance::{Instance, RemovedInstance, remove_left, remove_left_behind};
pub use probes::{PROBE_GROUPS, ProbeOn, Probes};
pub use selection::Selection;
pub(crate) use selection::select;
pub use top_level::TopLevel;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Result of everything here.
pub type Result<T> = std::result::Result<T, TracefsError>;

/// A mounted tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracefs {
    root: PathBuf,
}

/// Buffers, of a tracefs that is mounted, into which events are being recorded: `top level` or the
/// instance's name. Empty without the right to look.
pub fn active() -> Vec<String> {
    mounted().map(|root| active_in(&root)).unwrap_or_default()
}

fn active_in(root: &Path) -> Vec<String> {
    let one = |dir: &Path, file: &str| {
        fs::read_to_string(dir.join(file)).is_ok_and(|t| matches!(t.trim(), "1" | "X"))
    };
    let is_active = |dir: &Path| one(dir, "tracing_on") && one(dir, "events/enable");
    let mut found = Vec::new();
    if is_active(root) {
        found.push("top level".to_owned());
    }
    let instances = fs::read_dir(root.join("instances")).into_iter().flatten().flatten();
    let mut names: Vec<String> = (instances.filter(|i| is_active(&i.path())))
        .map(|i| i.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    found.extend(names);
    found
}

/// The first buffer, of all that there are, in which one of these tracers runs: the tracer, and the buffer's
/// directory.
pub fn user_of(root: &Path, tracers: &[&str]) -> Option<(String, String)> {
    let instances = fs::read_dir(root.join("instances")).into_iter().flatten().flatten();
    std::iter::once(root.to_owned()).chain(instances.map(|e| e.path())).find_map(|dir| {
        let tracer = fs::read_to_string(dir.join("current_tracer")).unwrap_or_default();
        let tracer = tracer.trim();
        tracers.contains(&tracer).then(|| (tracer.to_owned(), dir.display().to_string()))
    })
}

/// An event's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventName {
    /// `sched`.
    pub system: String,
    /// `sched_switch`.
    pub name: String,
}

impl std::fmt::Display for EventName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.system, self.name)
    }
}

/// Where tracefs is, and whether we had to mount it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The file system.
    pub tracefs: Tracefs,
    /// True when it was not mounted and now is. It stays mounted; say so.
    pub mounted: bool,
}

impl Tracefs {
    /// The tracefs in this directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Finds the mounted tracefs; root mounts one on `/sys/kernel/tracing` when there is none.
    ///
    /// # Errors
    /// [`TracefsError::NeedsRoot`] or [`TracefsError::NotMounted`].
    pub fn find() -> Result<Found> {
        let usual = Path::new("/sys/kernel/tracing");
        if let Some(root) = mounted() {
            let tracefs = Self::at(root);
            tracefs.events_dir()?;
            return Ok(Found { tracefs, mounted: false });
        }
        if !rustix::process::geteuid().is_root() {
            return Err(TracefsError::NeedsRoot { path: usual.to_owned() });
        }
        rustix::mount::mount("nodev", usual, "tracefs", rustix::mount::MountFlags::empty(), None)
            .map_err(|e| TracefsError::NotMounted { reason: io::Error::from(e).to_string() })?;
        Ok(Found { tracefs: Self::at(usual), mounted: true })
    }

    /// Where it is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Checks that this user may look into it.
    fn events_dir(&self) -> Result<()> {
        let path = self.root.join("events");
        match fs::read_dir(&path) {
            Ok(_) => Ok(()),
            Err(e) => Err(TracefsError::io("opening", path, e)),
        }
    }

    /// Text of a file below the root.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, name: &str) -> Result<String> {
        read(&self.root.join(name))
    }

    /// All events, sorted.
    ///
    /// # Errors
    /// When `available_events` cannot be read.
    pub fn events(&self) -> Result<Vec<EventName>> {
        let text = self.read("available_events")?;
        let split = |line: &str| {
            let (system, name) = line.split_once(':')?;
            Some(EventName { system: system.into(), name: name.into() })
        };
        let mut events: Vec<_> = text.lines().filter_map(split).collect();
        events.sort();
        Ok(events)
    }

    /// The `format` file of an event.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn format(&self, event: &EventName) -> Result<String> {
        self.read(&format!("events/{}/{}/format", event.system, event.name))
    }

    /// All tracers.
    ///
    /// # Errors
    /// When `available_tracers` cannot be read.
    pub fn tracers(&self) -> Result<Vec<String>> {
        let text = self.read("available_tracers")?;
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }

    /// All options with their present value at the top level.
    ///
    /// # Errors
    /// When `trace_options` cannot be read.
    pub fn options(&self) -> Result<Vec<(String, bool)>> {
        let text = self.read("trace_options")?;
        Ok(text
            .lines()
            .map(|line| match line.strip_prefix("no") {
                // An option called "no…" would be on and not be off: none exists.
                Some(name) => (name.to_owned(), false),
                None => (line.to_owned(), true),
            })
            .collect())
    }

    /// All clocks, and which one the top-level buffer uses.
    ///
    /// # Errors
    /// When `trace_clock` cannot be read.
    pub fn clocks(&self) -> Result<(Vec<String>, Option<String>)> {
        let text = self.read("trace_clock")?;
        Ok(clocks(&text))
    }

    /// Functions that can be traced, without the names of their modules.
    ///
    /// # Errors
    /// When `available_filter_functions` is not there or, under lockdown, not readable.
    pub fn functions(&self) -> Result<Vec<String>> {
        let text = self.read("available_filter_functions")?;
        Ok(text.lines().filter_map(|l| l.split_whitespace().next()).map(str::to_owned).collect())
    }
}

/// Names in a `trace_clock` file and the one in brackets.
pub(crate) fn clocks(text: &str) -> (Vec<String>, Option<String>) {
    let mut chosen = None;
    let names = text
        .split_whitespace()
        .map(|word| {
            let name = word.trim_matches(['[', ']']).to_owned();
            if word.starts_with('[') {
                chosen = Some(name.clone());
            }
            name
        })
        .collect();
    (names, chosen)
}

/// Where tracefs is mounted.
fn mounted() -> Option<PathBuf> {
    mounted_at(&fs::read_to_string("/proc/self/mountinfo").ok()?)
}

/// The mount point of tracefs in a mountinfo text, `/sys/kernel/tracing` preferred.
fn mounted_at(mountinfo: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = mountinfo
        .lines()
        .filter_map(|line| {
            // "36 35 0:13 / /sys/kernel/tracing rw,relatime shared:1 - tracefs nodev rw"
            let (mount, kind) = line.split_once(" - ")?;
            let mut fields = mount.split(' ').skip(3);
            let (root, point) = (fields.next()?, fields.next()?);
            let whole = root == "/" && kind.starts_with("tracefs ");
            whole.then(|| PathBuf::from(point.replace("\\040", " ")))
        })
        .collect();
    let usual = found.iter().position(|p| p == Path::new("/sys/kernel/tracing"));
    Some(match usual {
        Some(n) => found.swap_remove(n),
        None => found.pop()?,
    })
}

/// Reads a control file as text; bytes that are no UTF-8 are replaced.
pub(crate) fn read(path: &Path) -> Result<String> {
    let bytes = read_bytes(path).map_err(|e| TracefsError::io("reading", path.to_owned(), e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a control file with large reads: some (`events/header_page`) answer the first read(2)
/// alone, and [`fs::read`] begins with a small one where a file's size is unknown.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut bytes = vec![0; 64 << 10];
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if bytes.len() - length < 32 << 10 {
            // By a part of it: the symbols of the kernel are some megabytes, and a board has few.
            let more = (bytes.len() / 4).max(64 << 10);
            bytes.resize(bytes.len() + more, 0);
        }
    }
    bytes.truncate(length);
    bytes.shrink_to_fit();
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_mount_point_is_preferred() {
        let text = "42 23 0:13 / /mnt/t rw - tracefs nodev rw\n\
                    43 23 0:13 / /sys/kernel/tracing rw,relatime shared:4 - tracefs tracefs rw\n\
                    44 23 0:14 / /sys rw - sysfs sysfs rw\n";
        assert_eq!(mounted_at(text).unwrap(), Path::new("/sys/kernel/tracing"));
        assert_eq!(mounted_at(text.lines().next().unwrap()).unwrap(), Path::new("/mnt/t"));
        assert_eq!(mounted_at("44 23 0:14 / /sys rw - sysfs sysfs rw\n"), None);
        // A bind mount of a file inside tracefs is not tracefs.
        let bind = "45 23 0:13 /set_ftrace_pid /sys/x rw - tracefs nodev rw\n";
        assert_eq!(mounted_at(bind), None);
    }

    #[test]
    fn buffers_that_record_are_found() {
        let root = tempfile::tempdir().unwrap();
        let buffer = |name: &str, on: &str, events: &str| {
            let dir = root.path().join(name);
            fs::create_dir_all(dir.join("events")).unwrap();
            fs::write(dir.join("tracing_on"), on).unwrap();
            fs::write(dir.join("events/enable"), events).unwrap();
        };
        buffer("", "1\n", "0\n");
        buffer("instances/idle", "0\n", "X\n");
        buffer("instances/mine", "1\n", "X\n");
        assert_eq!(active_in(root.path()), ["mine"]);
        buffer("", "1\n", "1\n");
        assert_eq!(active_in(root.path()), ["top level", "mine"]);
    }

    #[test]
    fn the_clock_in_brackets_is_the_chosen_one() {
        let (names, chosen) = clocks("local global [mono] boot\n");
        assert_eq!(names, ["local", "global", "mono", "boot"]);
        assert_eq!(chosen.as_deref(), Some("mono"));
    }
}
