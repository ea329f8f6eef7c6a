//! Settings: settings of the kernel that are changed for a while and put back, whatever happens.
//!
//! ```text
//! read the old value ─▶ journal it, synced ─▶ set ─▶ journal what it reads now
//!                              ⋮                          ⋮
//!        put back: on drop · on a signal · at the next start · by `latlab doctor --restore`
//! ```
//!
//! A setting is never set before its old value is in the journal, so that death
//! at any moment (SIGKILL, the OOM killer, a panic of another thread) leaves
//! enough to put it back. Entries are undone newest first. A setting that somebody
//! else has changed since is left to them.
//!
//! The journal lives as long as the settings do: on `/run` (a tmpfs), or with
//! the boot's id in it. After a reboot the kernel has its own values again, and
//! nothing is put back.
//!
//! What is held by an open file needs no journal: [`DmaLatency`] ends with the process.

mod container;
mod disk;
mod dma_latency;
mod error;
mod journal;
mod orphaned;
mod other;
mod restoration;
mod value;

use journal::{Entry, Journal};
use other::{Means, with_rx_usecs};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use value::{append_line, fingerprint, read_setting, write_setting};

#[doc(hidden)]
pub use disk::Faults;
pub use dma_latency::DmaLatency;
pub use error::SettingError;
pub use journal::Place;
pub use orphaned::{
    Holder, OrphanedSettings, Refused, Survey, restore_orphaned, restore_own, survey,
};
pub use other::{InterruptThread, interrupt_threads};
pub use restoration::Restoration;

/// A setting that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The setting.
    pub path: PathBuf,
    /// What it was, and will be again.
    pub from: String,
    /// What it reads now; a kernel may round.
    pub now: String,
}

/// The moments between which a process may die; for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Step {
    Claimed,
    Journalled,
    Set,
    ReadBack,
    Undone,
    Noted,
}

/// The settings that one owner has changed. Dropping it restores them, newest first.
#[derive(Default)]
pub struct Settings {
    place: Place,
    journal: Option<Journal>,
    on_step: Option<OnStep>,
}

type OnStep = Box<dyn FnMut(Step) + Send>;

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl Settings {
    /// None changed yet; the journal is made when the first one is.
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

    /// Sets a setting. One that has the value already is journalled too, and so is not changed by
    /// another latlab meanwhile.
    ///
    /// # Errors
    /// When it is no setting, cannot be read or journalled, is held by another latlab, or the
    /// kernel refuses the value. The setting is then as it was.
    pub fn set(&mut self, path: impl AsRef<Path>, value: &str) -> Result<Change, SettingError> {
        self.set_and_put_back(path, value, None)
    }

    /// The same for a setting that does not take what it tells, with what to write to put it back.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub fn set_and_put_back(
        &mut self,
        path: impl AsRef<Path>,
        value: &str,
        back: Option<&str>,
    ) -> Result<Change, SettingError> {
        let path = self.place.setting(path.as_ref())?;
        let read = || {
            read_setting(&path)
                .map_err(|source| SettingError::Unreadable { path: path.clone(), source })
                .map(|from| back.map_or(from, str::to_owned))
        };
        // What cannot be read is refused before anything is journalled.
        let right_already = read()? == value;
        let id =
            match self.note(Entry::Claim { path: path.clone() }, right_already.then_some(value)) {
                // Nothing has to be put back; only the lock is missing.
                Err(SettingError::Journal { source, .. }) if right_already => {
                    log::warn!("{}: is not kept from changing: {source}", path.display());
                    let now = value.to_owned();
                    return Ok(Change { path, from: now.clone(), now });
                }
                noted => noted?,
            };
        self.step(Step::Claimed);
        // Only now: what it read before may have been another latlab's, which has put it back since.
        let from = read().inspect_err(|_| self.forget(id))?;
        let entry = Entry::Set { path: path.clone(), from: from.clone(), to: value.to_owned() };
        self.fill(id, entry).inspect_err(|_| self.forget(id))?;
        self.step(Step::Journalled);
        if from == value {
            self.note_reading(id, value);
            return Ok(Change { path, now: from.clone(), from });
        }
        if let Err(source) = write_setting(&path, value) {
            self.forget(id);
            return Err(SettingError::Refused { path, value: value.to_owned(), source });
        }
        self.step(Step::Set);
        let now = read_setting(&path).unwrap_or_else(|_| value.to_owned());
        self.note_reading(id, &now);
        self.step(Step::ReadBack);
        Ok(Change { path, from, now })
    }

    /// Promises that `value` will be written when everything is put back, whatever the file reads
    /// then: for lists and switches that the caller changes by itself from now on. An empty value
    /// empties the file.
    ///
    /// # Errors
    /// When it is no setting, cannot be journalled or is held by another latlab.
    pub fn reset_later(&mut self, path: impl AsRef<Path>, value: &str) -> Result<(), SettingError> {
        let path = self.place.setting(path.as_ref())?;
        self.note(Entry::Reset { path, value: value.to_owned() }, None)?;
        self.step(Step::Journalled);
        Ok(())
    }

    /// Notes what the files of [`Settings::reset_later`] read now, after the caller has changed them:
    /// one that reads otherwise at the end was changed by somebody else and is left alone. Files
    /// that change by themselves (`trace`) are not to be named.
    ///
    /// # Errors
    /// When it cannot be journalled; a file that cannot be read is left out.
    pub fn note_lists(&mut self, paths: &[PathBuf]) -> Result<(), SettingError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        for path in paths {
            let Ok(path) = self.place.setting(path) else { continue };
            if let (Some(id), Ok(now)) = (journal.id_of_reset(&path), fingerprint(&path)) {
                journal.reads(id, &now)?;
            }
        }
        Ok(())
    }

    /// The caller changes a list again: until it is noted anew, it is reset whatever it reads.
    ///
    /// # Errors
    /// When it cannot be journalled.
    pub fn forget_list(&mut self, path: &Path) -> Result<(), SettingError> {
        let (Some(journal), Ok(path)) = (&mut self.journal, self.place.setting(path)) else {
            return Ok(());
        };
        journal.id_of_reset(&path).map_or(Ok(()), |id| journal.reads(id, ""))
    }

    /// Makes a directory that is removed again as a setting is restored: a tracing
    /// instance, a cpuset.
    ///
    /// # Errors
    /// As [`Settings::set`]; also when it exists.
    pub fn make_dir(&mut self, path: impl AsRef<Path>) -> Result<(), SettingError> {
        self.make(path.as_ref(), |path| Entry::Dir { path })
    }

    /// Makes a control group (version 2). When it is removed, its tasks go to the one that it lies in.
    ///
    /// # Errors
    /// As [`Settings::make_dir`].
    pub fn make_group(&mut self, path: impl AsRef<Path>) -> Result<(), SettingError> {
        self.make(path.as_ref(), |path| Entry::Group { path })
    }

    fn make(
        &mut self,
        path: &Path,
        entry: impl FnOnce(PathBuf) -> Entry,
    ) -> Result<(), SettingError> {
        let path = self.place.new_dir(path)?;
        if path.exists() {
            let source = io::ErrorKind::AlreadyExists.into();
            return Err(SettingError::Refused { path, value: "mkdir".into(), source });
        }
        let id = self.note(entry(path.clone()), None)?;
        self.step(Step::Journalled);
        if let Err(source) = fs::create_dir(&path) {
            self.forget(id);
            return Err(SettingError::Refused { path, value: "mkdir".into(), source });
        }
        self.step(Step::Set);
        Ok(())
    }

    /// Sets the priority of an interrupt's thread (`/proc/TID`) under SCHED_FIFO.
    ///
    /// # Errors
    /// As [`Settings::set`]; also for another thread.
    pub fn set_interrupt_priority(
        &mut self,
        thread: &Path,
        priority: u32,
    ) -> Result<Change, SettingError> {
        self.set_value(Means::Policy, thread, |_| format!("fifo {priority}"))
    }

    /// Sets for how many µs a network interface (`/sys/class/net/NAME`) may delay the interrupt of a packet that it has
    /// received, and that it does not adapt this time.
    ///
    /// # Errors
    /// As [`Settings::set`]; also where its driver does not have it.
    pub fn set_coalescing(&mut self, interface: &Path, us: u32) -> Result<Change, SettingError> {
        self.set_value(Means::Coalescing, interface, |now| with_rx_usecs(now, us))
    }

    fn set_value(
        &mut self,
        means: Means,
        path: &Path,
        to: impl FnOnce(&str) -> String,
    ) -> Result<Change, SettingError> {
        if !means.is_path(path) {
            return Err(SettingError::NotASetting(path.to_owned()));
        }
        let path = path.to_owned();
        let read = || {
            let unreadable = |source| SettingError::Unreadable { path: path.clone(), source };
            means.read(&path).map_err(unreadable)
        };
        let value = to(&read()?);
        let kept = (read()? == value).then_some(value.as_str());
        let id = self.note(Entry::Claim { path: path.clone() }, kept)?;
        self.step(Step::Claimed);
        let from = read().inspect_err(|_| self.forget(id))?;
        let started = means.started(&path);
        let entry = Entry::Value {
            path: path.clone(),
            means,
            started,
            from: from.clone(),
            to: value.clone(),
        };
        self.fill(id, entry).inspect_err(|_| self.forget(id))?;
        self.step(Step::Journalled);
        if from != value
            && let Err(source) = means.write(&path, &value)
        {
            self.forget(id);
            return Err(SettingError::Refused { path, value, source });
        }
        self.step(Step::Set);
        let now = means.read(&path).unwrap_or_else(|_| value.clone());
        self.note_reading(id, &now);
        self.step(Step::ReadBack);
        Ok(Change { path, from, now })
    }

    /// Adds a dynamic event that is removed again as a setting is restored. `list` is `uprobe_events` or
    /// `kprobe_events`, `group` the directory below `events` that the kernel makes for it, `event` its name
    /// (`GROUP/NAME`), `definition` a line of `list` (`p:GROUP/NAME PATH:OFFSET`).
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub fn add_probe(
        &mut self,
        list: &Path,
        group: &Path,
        event: &str,
        definition: &str,
    ) -> Result<(), SettingError> {
        let (list, path) = (self.place.setting(list)?, self.place.new_dir(group)?);
        let entry = Entry::Probe { path, list: list.clone(), event: event.to_owned() };
        let id = self.note(entry, None)?;
        self.step(Step::Journalled);
        if let Err(source) = append_line(&list, definition) {
            self.forget(id);
            return Err(SettingError::Refused { path: list, value: definition.to_owned(), source });
        }
        self.step(Step::Set);
        Ok(())
    }

    /// Undoes the newest entry; `None` when nothing is changed.
    pub fn undo(&mut self) -> Option<Restoration> {
        let journal = self.journal.as_mut()?;
        let id = journal.newest()?;
        let outcome = journal.undo(id)?;
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

    /// Journals an entry, then sees that no other latlab holds the setting. In this order: of two
    /// that want the same setting at the same moment, both may be refused, but never both served.
    fn note(&mut self, entry: Entry, kept: Option<&str>) -> Result<u32, SettingError> {
        let path = entry.path().to_owned();
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => {
                if container::has_private_run(self.place.dir()) {
                    log::warn!(
                        "{}: this container's own: settings changed from here are not seen by latlab outside of it, and are not restored once the container is removed after a SIGKILL; mount the host's /run/latlab there",
                        self.place.dir().display()
                    );
                }
                Journal::create(&self.place)?
            }
        };
        let id = self.journal.insert(journal).append(entry)?;
        orphaned::refuse_if_held(&self.place, &path, kept).inspect_err(|_| self.forget(id))?;
        Ok(id)
    }

    fn fill(&mut self, id: u32, entry: Entry) -> Result<(), SettingError> {
        self.journal.as_mut().map_or(Ok(()), |journal| journal.fill(id, entry))
    }

    /// Not needed to put it back; only to see whether somebody else has changed it since.
    fn note_reading(&mut self, id: u32, now: &str) {
        if let Some(journal) = &mut self.journal
            && let Err(e) = journal.reads(id, now)
        {
            log::warn!("{e}");
        }
    }

    /// Gives up everything without touching it: it turned out to be somebody else's.
    pub fn abandon(&mut self) {
        while let Some(id) = self.journal.as_ref().and_then(Journal::newest) {
            self.forget(id);
        }
        if let Some(journal) = self.journal.take() {
            journal.close();
        }
    }

    fn forget(&mut self, id: u32) {
        if let Some(journal) = &mut self.journal
            && let Err(e) = journal.restored(id)
        {
            log::warn!("{e}");
        }
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        for outcome in self.restore() {
            match outcome {
                Restoration::Failed { path, value, reason } => log::error!(
                    "{}: not restored to '{value}': {reason}; `latlab doctor --restore` tries again",
                    path.display()
                ),
                Restoration::ChangedSince { path, now, .. } => {
                    log::warn!("{}: set to '{now}' by another process; not changed", path.display())
                }
                _ => {}
            }
        }
    }
}
