//! The journal file and its directory.
//!
//! One JSON object a line, each synced before the setting is touched:
//!
//! ```text
//! {"latlab_journal":1,"pid":812,"boot":"4be0…","since_boot_ns":81600,"command":["latlab","why"]}
//! {"id":0,"set":{"path":"/proc/sys/kernel/…","from":"950000","to":"-1"}}
//! {"id":0,"reads":"-1"}
//! {"id":0,"undone":true}
//! {"id":1,"reset":{"path":"/sys/kernel/tracing/set_graph_function","value":""}}
//! {"id":2,"value":{"path":"/proc/63","means":"policy","started":81,"from":"fifo 50","to":"fifo 10"}}
//! ```
//!
//! A line that could not be written whole is taken away again (ftruncate), and its setting is not
//! touched. A line that is damaged all the same costs that line only: it is reported, the others
//! are undone, and the file stays. Otherwise the file is removed when everything is undone.
//!
//! Whoever may write a journal can have root write to any setting. So the
//! directory and the file must belong to the user who reads them and be
//! writable by nobody else, and only settings of the kernel are ever written.
//! The file is locked (fcntl, whole file) while its owner lives; the kernel
//! ends the lock with the process, and children do not inherit it.

use super::disk::{Disk, Faults};
use super::other::{Means, remove_group};
use super::value::{VALUE_MAX, append_line, fingerprint, read_setting, write_setting};
use super::{Restoration, SettingError};
use rustix::fs::{FlockOperation, fcntl_lock};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the journal is, and which files are settings.
#[derive(Clone, Debug)]
pub struct Place {
    dir: PathBuf,
    allowed: Vec<PathBuf>,
    faults: Faults,
}

impl Default for Place {
    fn default() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let allowed = ["/proc/sys", "/proc/irq", "/sys", "/dev/cpuset"].map(PathBuf::from);
        Self { dir: default_dir(uid), allowed: allowed.to_vec(), faults: Faults::default() }
    }
}

fn default_dir(uid: u32) -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|d| d.is_dir());
    match (uid, runtime) {
        (0, _) if Path::new("/run").is_dir() => "/run/latlab".into(),
        (1.., Some(dir)) => dir.join("latlab"),
        _ => format!("/tmp/latlab-{uid}").into(),
    }
}

impl Place {
    /// Another directory, and other files that may be set; for tests.
    pub fn new(dir: impl Into<PathBuf>, allowed: &[&Path]) -> Self {
        let allowed = allowed.iter().map(|p| p.to_path_buf()).collect();
        Self { dir: dir.into(), allowed, faults: Faults::default() }
    }

    /// The same with an operation of the journal that fails; for tests.
    #[doc(hidden)]
    pub fn failing(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// The journal's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The real path of a setting.
    pub(super) fn setting(&self, path: &Path) -> Result<PathBuf, SettingError> {
        let plain = path.is_absolute()
            && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
        if !plain {
            return Err(SettingError::NotASetting(path.to_owned()));
        }
        // A path that is no setting by its name is refused before anybody learns whether it exists.
        if !self.allowed.iter().any(|a| path.starts_with(a)) {
            return Err(SettingError::NotASetting(path.to_owned()));
        }
        let real = fs::canonicalize(path)
            .map_err(|source| SettingError::Unreadable { path: path.to_owned(), source })?;
        match self.allowed.iter().any(|a| real.starts_with(a)) {
            true => Ok(real),
            false => Err(SettingError::NotASetting(path.to_owned())),
        }
    }

    /// The real path of a directory that is to be made.
    pub(super) fn new_dir(&self, path: &Path) -> Result<PathBuf, SettingError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(SettingError::NotASetting(path.to_owned()));
        };
        Ok(self.setting(parent)?.join(name))
    }

    /// Makes the directory if need be; sees that it is ours alone.
    pub(super) fn open(&self) -> Result<(), SettingError> {
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(SettingError::Journal { path: self.dir.clone(), source: e });
            }
            _ => {}
        }
        self.check()
    }

    /// Whether the directory is ours alone. `symlink_metadata`: a link is refused.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        let unsafe_ = |reason: &str| {
            Err(SettingError::Unsafe { path: self.dir.clone(), reason: reason.to_owned() })
        };
        let meta = fs::symlink_metadata(&self.dir)
            .map_err(|source| SettingError::Journal { path: self.dir.clone(), source })?;
        if !meta.is_dir() {
            return unsafe_("it is not a directory");
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return unsafe_("it belongs to another user");
        }
        if meta.mode() & 0o022 != 0 {
            return unsafe_("others may write to it");
        }
        Ok(())
    }
}

/// What was done to the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    Set {
        path: PathBuf,
        from: String,
        to: String,
    },
    /// A file that is written by its owner as it likes and gets this value at the end. Once its
    /// content is noted (as `reads`), another content is left alone.
    Reset {
        path: PathBuf,
        value: String,
    },
    Dir {
        path: PathBuf,
    },
    /// A dynamic event `event` in `list` (`uprobe_events`, `kprobe_events`); `path` is the directory of its group.
    Probe {
        path: PathBuf,
        list: PathBuf,
        event: String,
    },
    /// A setting that is no file; `started` tells a thread from a later one of its number.
    Value {
        path: PathBuf,
        means: Means,
        started: u64,
        from: String,
        to: String,
    },
    /// A control group, of which the tasks are moved to the one that it lies in.
    Group {
        path: PathBuf,
    },
    /// A setting that nobody else is to change; its old value is read next, and not changed yet.
    Claim {
        path: PathBuf,
    },
}

impl Entry {
    pub fn path(&self) -> &Path {
        match self {
            Self::Set { path, .. }
            | Self::Reset { path, .. }
            | Self::Dir { path }
            | Self::Probe { path, .. }
            | Self::Value { path, .. }
            | Self::Group { path }
            | Self::Claim { path } => path,
        }
    }

    /// Undoes it, unless `reads` says what the setting read after it was set and it now reads otherwise,
    /// or it is reset below one of the tracing directories in `taken`, which others use by now.
    pub fn undo_if(&self, reads: Option<&str>, taken: &[PathBuf]) -> Restoration {
        match self {
            Self::Reset { path, .. } if taken.iter().any(|root| path.starts_with(root)) => {
                Restoration::ChangedSince {
                    path: path.clone(),
                    ours: "of the tracer that was set".into(),
                    now: "of another tracer".into(),
                }
            }
            Self::Set { path, from, .. } => undo_set(path, from, reads),
            Self::Reset { path, value } => undo_reset(path, value, reads),
            Self::Probe { path, list, event } => undo_probe(path, list, event),
            Self::Value { path, means, started, from, .. } => match means.started(path) == *started
            {
                true => undo_value(*means, path, from, reads),
                false => Restoration::AlreadyRight { path: path.clone() },
            },
            Self::Claim { path } => Restoration::AlreadyRight { path: path.clone() },
            Self::Dir { path } => removed(path, fs::remove_dir(path)),
            Self::Group { path } => removed(path, remove_group(path)),
        }
    }
}

fn removed(path: &Path, done: io::Result<()>) -> Restoration {
    let path = path.to_owned();
    match done {
        Ok(()) => Restoration::Removed { path },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Restoration::AlreadyRight { path },
        Err(e) => Restoration::Failed { path, value: "removed".into(), reason: e.to_string() },
    }
}

/// Tracing directories whose tracer was changed since these entries set it: their buffer and
/// switches belong to somebody else by now. To be asked before anything is undone, as that sets
/// the tracer too.
pub(super) fn taken_over(open: &[Open]) -> Vec<PathBuf> {
    let changed = |open: &&Open| {
        let Entry::Set { path, .. } = &open.entry else { return false };
        path.file_name().is_some_and(|name| name == "current_tracer")
            && open
                .reads
                .as_ref()
                .is_some_and(|ours| read_setting(path).is_ok_and(|now| now != *ours))
    };
    open.iter().filter(changed).filter_map(|o| Some(o.entry.path().parent()?.to_owned())).collect()
}

/// While a buffer has it enabled the kernel refuses: it is tried again when that buffer is gone.
fn undo_probe(group: &Path, list: &Path, event: &str) -> Restoration {
    let path = group.to_owned();
    let value = format!("-:{event}");
    match append_line(list, &value) {
        Ok(()) => Restoration::Removed { path },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Restoration::AlreadyRight { path },
        Err(e) => Restoration::Failed { path, value, reason: e.to_string() },
    }
}

fn undo_set(path: &Path, from: &str, reads: Option<&str>) -> Restoration {
    undo_with(path, from, reads, read_setting, write_setting)
}

fn undo_value(means: Means, path: &Path, from: &str, reads: Option<&str>) -> Restoration {
    undo_with(path, from, reads, |p| means.read(p), |p, value| means.write(p, value))
}

fn undo_with(
    path: &Path,
    from: &str,
    reads: Option<&str>,
    read: impl Fn(&Path) -> io::Result<String>,
    write: impl Fn(&Path, &str) -> io::Result<()>,
) -> Restoration {
    let path = path.to_owned();
    let failed =
        |reason: String| Restoration::Failed { path: path.clone(), value: from.to_owned(), reason };
    let now = match read(&path) {
        Ok(now) => now,
        // The device, module or thread that had the setting is gone, and its setting with it.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Restoration::AlreadyRight { path },
        Err(e) => return failed(e.to_string()),
    };
    if now == from {
        return Restoration::AlreadyRight { path };
    }
    if let Some(ours) = reads.filter(|r| *r != now) {
        return Restoration::ChangedSince { path, ours: ours.to_owned(), now };
    }
    match write(&path, from) {
        Ok(()) => Restoration::Restored { path, value: from.to_owned() },
        Err(e) => failed(e.to_string()),
    }
}

fn undo_reset(path: &Path, value: &str, reads: Option<&str>) -> Restoration {
    let path = path.to_owned();
    if let Some(ours) = reads.filter(|ours| !ours.is_empty()) {
        match fingerprint(&path) {
            Ok(now) if now != ours => {
                return Restoration::ChangedSince { path, ours: ours.to_owned(), now };
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Restoration::AlreadyRight { path };
            }
            _ => {}
        }
    }
    match write_setting(&path, value) {
        Ok(()) if value.is_empty() => Restoration::Restored { path, value: "empty".into() },
        Ok(()) => Restoration::Restored { path, value: value.to_owned() },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Restoration::AlreadyRight { path },
        Err(e) => Restoration::Failed { path, value: value.to_owned(), reason: e.to_string() },
    }
}

/// First line of a journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub latlab_journal: u32,
    pub pid: u32,
    pub boot: String,
    pub since_boot_ns: u64,
    pub command: Vec<String>,
}

/// Any later line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    id: u32,
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    entry: Option<Entry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reads: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    undone: bool,
}

/// An entry that is not undone.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub id: u32,
    pub entry: Entry,
    /// What the setting read after it was set; `None` when the process died before that was noted.
    pub reads: Option<String>,
    given_up: bool,
}

/// A journal that this process writes.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Disk,
    pid: u32,
    open: Vec<Open>,
    next: u32,
    /// See [`taken_over`].
    taken: Vec<PathBuf>,
}

impl Journal {
    /// A new, locked journal with its header. It gets its name only when it is locked, so that
    /// nobody takes it for a dead process's.
    pub fn create(place: &Place) -> Result<Self, SettingError> {
        static SEQUENCE: AtomicU32 = AtomicU32::new(0);
        place.open()?;
        let pid = std::process::id();
        let name = format!("{}{}.journal", own_prefix(), SEQUENCE.fetch_add(1, Ordering::Relaxed));
        let path = place.dir.join(&name);
        let early = place.dir.join(format!(".{name}"));
        let build = || -> io::Result<Disk> {
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&early)?;
            fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
            let header = Header {
                latlab_journal: 1,
                pid,
                boot: boot_id(),
                since_boot_ns: crate::clock::now().0,
                command: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
            };
            let mut disk = Disk::new(file, place.faults.clone());
            disk.append(&header)?;
            fs::rename(&early, &path)?;
            sync_dir(&place.dir);
            Ok(disk)
        };
        let file = build().map_err(|source| {
            let _ = fs::remove_file(&early);
            SettingError::Journal { path: path.clone(), source }
        })?;
        Ok(Self { path, file, pid, open: Vec::new(), next: 0, taken: Vec::new() })
    }

    /// False in a child that was forked from the process that made it.
    pub fn is_mine(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Adds an entry; on return it is on disk.
    pub fn append(&mut self, entry: Entry) -> Result<u32, SettingError> {
        let id = self.next;
        self.write(&Line { id, entry: Some(entry.clone()), reads: None, undone: false })?;
        self.next += 1;
        self.open.push(Open { id, entry, reads: None, given_up: false });
        Ok(id)
    }

    /// Replaces a claim by what is about to be done; on return it is on disk.
    pub fn fill(&mut self, id: u32, entry: Entry) -> Result<(), SettingError> {
        self.write(&Line { id, entry: Some(entry.clone()), reads: None, undone: false })?;
        if let Some(open) = self.open.iter_mut().find(|o| o.id == id) {
            open.entry = entry;
        }
        Ok(())
    }

    /// Notes what the setting reads after it was set.
    pub fn reads(&mut self, id: u32, value: &str) -> Result<(), SettingError> {
        if let Some(open) = self.open.iter_mut().find(|o| o.id == id) {
            open.reads = Some(value.to_owned());
        }
        self.write(&Line { id, entry: None, reads: Some(value.to_owned()), undone: false })
    }

    /// The entry that resets this file.
    pub fn id_of_reset(&self, path: &Path) -> Option<u32> {
        let is = |o: &&Open| matches!(&o.entry, Entry::Reset { path: p, .. } if p == path);
        self.open.iter().find(is).map(|o| o.id)
    }

    /// Notes that an entry is undone.
    pub fn restored(&mut self, id: u32) -> Result<(), SettingError> {
        self.open.retain(|o| o.id != id);
        self.write(&Line { id, entry: None, reads: None, undone: true })
    }

    /// Leaves an entry in the file, but does not try it again in this process.
    pub fn give_up(&mut self, id: u32) {
        if let Some(open) = self.open.iter_mut().find(|o| o.id == id) {
            open.given_up = true;
        }
    }

    /// The newest entry that is to be undone.
    pub fn newest(&self) -> Option<u32> {
        self.open.iter().rev().find(|o| !o.given_up).map(|o| o.id)
    }

    /// Undoes an entry; what became of it is still to be noted.
    pub fn undo(&mut self, id: u32) -> Option<Restoration> {
        self.taken.extend(taken_over(&self.open));
        let open = self.open.iter().find(|o| o.id == id)?;
        Some(open.entry.undo_if(open.reads.as_deref(), &self.taken))
    }

    /// Ends it: the file goes when nothing is left in it, and stays, unlocked, otherwise.
    pub fn close(self) {
        if self.open.is_empty() {
            remove(&self.path);
        }
    }

    fn write(&mut self, line: &Line) -> Result<(), SettingError> {
        self.file
            .append(line)
            .map_err(|source| SettingError::Journal { path: self.path.clone(), source })
    }
}

/// Removes a journal and syncs its directory.
pub(super) fn remove(path: &Path) {
    if let Err(e) = fs::remove_file(path) {
        log::warn!("{}: cannot be removed: {e}", path.display());
    }
    if let Some(dir) = path.parent() {
        sync_dir(dir);
    }
}

fn sync_dir(dir: &Path) {
    if let Ok(d) = File::open(dir) {
        let _ = d.sync_all();
    }
}

/// What a journal says.
pub(super) struct Parsed {
    pub header: Header,
    /// What is not undone, oldest first.
    pub open: Vec<Open>,
    /// Lines that are damaged or not understood, 1 for the first of the file.
    pub bad_lines: Vec<usize>,
}

/// Reads a journal. `None` when it is none: its first line is no header.
pub(super) fn parse(text: &str) -> Option<Parsed> {
    let mut lines = text.split_inclusive('\n').filter(|l| l.ends_with('\n')).zip(1..);
    let header: Header = serde_json::from_str(lines.next()?.0).ok()?;
    if header.latlab_journal != 1 {
        return None;
    }
    let mut parsed = Parsed { header, open: Vec::new(), bad_lines: Vec::new() };
    for (line, number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
        if parsed.take(line).is_some() {
            continue;
        }
        parsed.bad_lines.push(number);
        // What stands behind a half of a line is a line of its own. Quotes in values are escaped.
        for (at, _) in line.match_indices("{\"id\":").filter(|(at, _)| *at > 0) {
            parsed.take(&line[at..]);
        }
    }
    Some(parsed)
}

impl Parsed {
    fn take(&mut self, line: &str) -> Option<()> {
        let line: Line = serde_json::from_str(line).ok()?;
        if let Some(entry) = line.entry {
            if let Entry::Set { from: back, .. } | Entry::Reset { value: back, .. } = &entry
                && back.len() > VALUE_MAX
            {
                return None;
            }
            match self.open.iter_mut().find(|o| o.id == line.id) {
                Some(claim) => claim.entry = entry,
                None => self.open.push(Open { id: line.id, entry, reads: None, given_up: false }),
            }
        } else if line.undone {
            self.open.retain(|o| o.id != line.id);
        } else {
            let reads = line.reads?;
            if let Some(open) = self.open.iter_mut().find(|o| o.id == line.id) {
                open.reads = Some(reads);
            }
        }
        Some(())
    }
}

/// The id of this boot; empty where the kernel has none.
pub(super) fn boot_id() -> String {
    crate::files::Root::here().text("proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// How the names of this process's journals begin: pid and start time, since a pid alone may
/// have been a dead latlab's.
pub(super) fn own_prefix() -> String {
    let pid = std::process::id();
    format!("{pid}-{}-", crate::process::start_ticks(pid).unwrap_or(0))
}
