//! Knobs: settings of the kernel that are changed for a while and put back, whatever happens.
//!
//! ```text
//! read the old value ─▶ journal it, synced ─▶ set ─▶ journal what it reads now
//!                              ⋮                          ⋮
//!        put back: on drop · on a signal · at the next start · by `latlab doctor --restore`
//! ```
//!
//! A knob is never set before its old value is in the journal, so that death
//! at any moment (SIGKILL, the OOM killer, a panic of another thread) leaves
//! enough to put it back. Entries are undone newest first. A knob that somebody
//! else has changed since is left to them.
//!
//! The journal lives as long as the settings do: on `/run` (a tmpfs), or with
//! the boot's id in it. After a reboot the kernel has its own values again, and
//! nothing is put back.
//!
//! What is held by an open file needs no journal: [`DmaLatency`] ends with the process.

mod journal;
mod leftovers;

use crate::files::chosen;
use journal::{Entry, Journal};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

pub use journal::Place;
pub use leftovers::{Holder, Leftovers, Refused, Survey, restore_leftovers, restore_own, survey};

/// Longer values are no knobs.
const VALUE_MAX: usize = 4096;

/// Why a knob was not set.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KnobError {
    /// Not below `/proc/sys`, `/proc/irq`, `/sys` or `/dev/cpuset`.
    #[error("{}: is no setting of the kernel", .0.display())]
    NotAKnob(PathBuf),
    /// The old value cannot be read, so it could not be put back.
    #[error("{}: cannot be read", .path.display())]
    Unreadable {
        /// The knob.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel did not take the value.
    #[error("{}: refuses '{value}'", .path.display())]
    Refused {
        /// The knob.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another latlab that is running has changed it.
    #[error("{}: is held by the latlab that runs as process {pid}", .path.display())]
    Busy {
        /// The knob.
        path: PathBuf,
        /// Its process.
        pid: u32,
    },
    /// The journal cannot be written; the knob was not touched.
    #[error("{}: the journal of knobs cannot be written", .path.display())]
    Journal {
        /// The journal or its directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The journal's directory belongs to somebody else, or others may write to it.
    #[error("{}: is not safe for the journal of knobs: {reason}", .path.display())]
    Unsafe {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// A knob that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The knob.
    pub path: PathBuf,
    /// What it was, and will be again.
    pub from: String,
    /// What it reads now; a kernel may round.
    pub now: String,
}

/// What became of one entry when it was undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restoration {
    /// It has its old value again.
    Restored {
        /// The knob.
        path: PathBuf,
        /// The value that it has again.
        value: String,
    },
    /// A directory that was made is gone again.
    Removed {
        /// The directory.
        path: PathBuf,
    },
    /// It had its old value already: it was never set, or somebody put it back.
    AlreadyRight {
        /// The knob or directory.
        path: PathBuf,
    },
    /// Somebody else has changed it since; theirs is kept.
    ChangedSince {
        /// The knob.
        path: PathBuf,
        /// What latlab had set.
        ours: String,
        /// What it is.
        now: String,
    },
    /// It could not be undone, and stays in the journal.
    Failed {
        /// The knob or directory.
        path: PathBuf,
        /// The value that it should have again.
        value: String,
        /// Why not.
        reason: String,
    },
}

impl Restoration {
    /// Whether there is something left to do.
    pub fn failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

/// The moments between which a process may die; for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Step {
    Journalled,
    Set,
    ReadBack,
    Undone,
    Noted,
}

/// The knobs that one owner has turned. Dropping it turns them back, newest first.
#[derive(Default)]
pub struct Knobs {
    place: Place,
    journal: Option<Journal>,
    on_step: Option<OnStep>,
}

type OnStep = Box<dyn FnMut(Step) + Send>;

impl std::fmt::Debug for Knobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Knobs").field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl Knobs {
    /// None turned yet; the journal is made when the first one is.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with the journal elsewhere and other files allowed.
    pub fn at(place: Place) -> Self {
        Self { place, journal: None, on_step: None }
    }

    /// Calls `f` between the steps; for tests.
    #[doc(hidden)]
    pub fn on_step(&mut self, f: impl FnMut(Step) + Send + 'static) {
        self.on_step = Some(Box::new(f));
    }

    fn step(&mut self, step: Step) {
        if let Some(f) = &mut self.on_step {
            f(step);
        }
    }

    /// Sets a knob. Nothing happens, and nothing is journalled, when it has the value already.
    ///
    /// # Errors
    /// When it is no knob, cannot be read or journalled, is held by another latlab, or the
    /// kernel refuses the value. The knob is then as it was.
    pub fn set(&mut self, path: impl AsRef<Path>, value: &str) -> Result<Change, KnobError> {
        self.set_and_put_back(path, value, None)
    }

    /// The same for a knob that does not take what it tells, with what to write to put it back.
    ///
    /// # Errors
    /// As [`Knobs::set`].
    pub fn set_and_put_back(
        &mut self,
        path: impl AsRef<Path>,
        value: &str,
        back: Option<&str>,
    ) -> Result<Change, KnobError> {
        let path = self.place.knob(path.as_ref())?;
        let from = read_knob(&path)
            .map_err(|source| KnobError::Unreadable { path: path.clone(), source })?;
        let from = back.map_or(from, str::to_owned);
        if from == value {
            return Ok(Change { path, now: from.clone(), from });
        }
        let entry = Entry::Set { path: path.clone(), from: from.clone(), to: value.to_owned() };
        let id = self.note(entry)?;
        self.step(Step::Journalled);
        if let Err(source) = write_knob(&path, value) {
            self.forget(id);
            return Err(KnobError::Refused { path, value: value.to_owned(), source });
        }
        self.step(Step::Set);
        let now = read_knob(&path).unwrap_or_else(|_| value.to_owned());
        if let Some(journal) = &mut self.journal
            && let Err(e) = journal.reads(id, &now)
        {
            // Not needed to put it back; only to see whether somebody else has changed it since.
            log::warn!("{e}");
        }
        self.step(Step::ReadBack);
        Ok(Change { path, from, now })
    }

    /// Promises that `value` will be written when everything is put back, whatever the file reads
    /// then: for lists and switches that the caller changes by itself from now on. An empty value
    /// empties the file.
    ///
    /// # Errors
    /// When it is no knob, cannot be journalled or is held by another latlab.
    pub fn reset_later(&mut self, path: impl AsRef<Path>, value: &str) -> Result<(), KnobError> {
        let path = self.place.knob(path.as_ref())?;
        self.note(Entry::Reset { path, value: value.to_owned() })?;
        self.step(Step::Journalled);
        Ok(())
    }

    /// Makes a directory that is removed again as a knob is turned back: a tracing
    /// instance, a cpuset.
    ///
    /// # Errors
    /// As [`Knobs::set`]; also when it exists.
    pub fn make_dir(&mut self, path: impl AsRef<Path>) -> Result<(), KnobError> {
        let path = self.place.new_dir(path.as_ref())?;
        if path.exists() {
            let source = io::ErrorKind::AlreadyExists.into();
            return Err(KnobError::Refused { path, value: "mkdir".into(), source });
        }
        let id = self.note(Entry::Dir { path: path.clone() })?;
        self.step(Step::Journalled);
        if let Err(source) = fs::create_dir(&path) {
            self.forget(id);
            return Err(KnobError::Refused { path, value: "mkdir".into(), source });
        }
        self.step(Step::Set);
        Ok(())
    }

    /// Undoes the newest entry; `None` when nothing is turned.
    pub fn undo(&mut self) -> Option<Restoration> {
        let (id, entry) = self.journal.as_ref()?.newest()?;
        let outcome = entry.undo();
        self.step(Step::Undone);
        if outcome.failed() {
            // Left in the journal: a later start, or `doctor --restore`, tries again.
            if let Some(journal) = &mut self.journal {
                journal.give_up(id);
            }
        } else {
            self.forget(id);
        }
        self.step(Step::Noted);
        Some(outcome)
    }

    /// Undoes everything, newest first. In a forked child: nothing, they are the parent's.
    pub fn restore(&mut self) -> Vec<Restoration> {
        if self.journal.as_ref().is_some_and(|j| !j.is_mine()) {
            return Vec::new();
        }
        let all = std::iter::from_fn(|| self.undo()).collect();
        if let Some(journal) = self.journal.take() {
            journal.close();
        }
        all
    }

    /// Journals an entry, then sees that no other latlab holds the knob. In this order: of two
    /// that want the same knob at the same moment, both may be refused, but never both served.
    fn note(&mut self, entry: Entry) -> Result<u32, KnobError> {
        let path = entry.path().to_owned();
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => Journal::create(&self.place)?,
        };
        let id = self.journal.insert(journal).append(entry)?;
        leftovers::refuse_if_held(&self.place, &path).inspect_err(|_| self.forget(id))?;
        Ok(id)
    }

    fn forget(&mut self, id: u32) {
        if let Some(journal) = &mut self.journal
            && let Err(e) = journal.restored(id)
        {
            log::warn!("{e}");
        }
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        for outcome in self.restore() {
            match outcome {
                Restoration::Failed { path, value, reason } => log::error!(
                    "{}: could not be put back to '{value}': {reason}; `latlab doctor --restore` tries again",
                    path.display()
                ),
                Restoration::ChangedSince { path, now, .. } => {
                    log::warn!("{}: somebody else has set it to '{now}'; left so", path.display())
                }
                _ => {}
            }
        }
    }
}

/// The value of a knob: its text, or the chosen word of a list (`always [madvise] never`).
fn read_knob(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(path)?.take(VALUE_MAX as u64).read_to_string(&mut text)?;
    let text = text.trim();
    let list = text.split_whitespace().count() > 1;
    Ok(list.then(|| chosen(text)).flatten().unwrap_or_else(|| text.to_owned()))
}

/// One write of the whole value, as sysctl files want it; opening was all for an empty one. Never
/// makes a file.
fn write_knob(path: &Path, value: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
    match value {
        "" => Ok(()),
        value => file.write_all(format!("{value}\n").as_bytes()),
    }
}

/// A promise of the kernel that no CPU enters an idle state that takes longer than this to leave
/// (`/dev/cpu_dma_latency`, Documentation/power/pm_qos_interface.rst). It lasts as long as the
/// file is open, so it ends with the process, however that ends. It changes what is measured: say it.
#[derive(Debug)]
pub struct DmaLatency {
    _open: fs::File,
}

impl DmaLatency {
    /// Asks for at most `us` microseconds.
    ///
    /// # Errors
    /// When the kernel has no such file or this user may not write to it.
    pub fn hold(us: u32) -> io::Result<Self> {
        let mut file = fs::OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
        file.write_all(&us.to_ne_bytes())?;
        Ok(Self { _open: file })
    }
}
