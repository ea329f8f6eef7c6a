//! Journals of other processes: undoing those of the dead, keeping out of the way of the living.

use super::journal::{self, Header, Open, Place};
use super::{Restoration, SettingError};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Larger files are no journals.
const BYTES_MAX: u64 = 4 << 20;

/// What was found, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanedSettings {
    /// Entries of dead processes, in the order in which they were undone.
    pub undone: Vec<Restoration>,
    /// Processes that live and hold settings.
    pub alive: Vec<Holder>,
    /// Journals of an earlier boot: the kernel has its own values again, nothing to undo.
    pub earlier_boot: u32,
    /// Files that were not trusted or not understood, with the reason.
    pub refused: Refused,
}

/// A latlab that runs and holds settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// What it was started as.
    pub command: Vec<String>,
    /// The settings that it holds.
    pub paths: Vec<PathBuf>,
}

/// A journal of somebody else.
struct Other {
    path: PathBuf,
    file: File,
    header: Header,
    open: Vec<Open>,
    /// See [`journal::Parsed`].
    bad_lines: Vec<usize>,
    /// What was read does not end with a line.
    torn: bool,
    alive: bool,
}

/// Undoes what dead latlabs of this user have left, newest first.
///
/// # Errors
/// When the journal's directory is not safe to read.
pub fn restore_orphaned(place: &Place) -> Result<OrphanedSettings, SettingError> {
    let mut found = OrphanedSettings::default();
    let (others, refused) = read_all(place)?;
    found.refused = refused;
    let (living, mut dead): (Vec<_>, Vec<_>) = others.into_iter().partition(|o| o.alive);
    found.alive = living.iter().map(Other::holder).collect();
    dead.sort_by_key(|o| std::cmp::Reverse(o.header.since_boot_ns));
    let boot = journal::boot_id();
    for other in dead {
        if other.header.boot != boot {
            found.earlier_boot += 1;
            journal::remove(&other.path);
            continue;
        }
        let held = |p: &Path| living.iter().any(|l| l.open.iter().any(|o| o.entry.path() == p));
        undo_all(place, other, held, &mut found.undone);
    }
    Ok(found)
}

/// Undoes everything that this process has set, newest first, out of its journals on disk: for a
/// process that is about to die without unwinding. Whatever guards may be in memory is not asked,
/// so no lock is taken. What cannot be undone stays in the journal.
pub fn restore_own(place: &Place) -> Vec<Restoration> {
    let own = journal::own_prefix();
    let Ok((mut ours, _)) = read_those(place, |name| name.starts_with(&own)) else {
        return Vec::new();
    };
    ours.sort_by_key(|o| std::cmp::Reverse(o.header.since_boot_ns));
    let mut undone = Vec::new();
    for journal in ours {
        undo_all(place, journal, |_| false, &mut undone);
    }
    undone
}

/// Undoes one dead process's entries. Its journal goes when all are undone.
fn undo_all(
    place: &Place,
    other: Other,
    held: impl Fn(&Path) -> bool,
    undone: &mut Vec<Restoration>,
) {
    // A file with a damaged line stays: the line may have been somebody's only record.
    let mut left = other.bad_lines.len();
    let mut pending = if other.torn { "\n" } else { "" };
    let taken = journal::taken_over(&other.open);
    for open in other.open.iter().rev() {
        let path = open.entry.path().to_owned();
        let known = match &open.entry {
            journal::Entry::Set { .. }
            | journal::Entry::Reset { .. }
            | journal::Entry::Claim { .. } => place.setting(&path),
            journal::Entry::Value { means, .. } => match means.is_path(&path) {
                true => Ok(path.clone()),
                false => Err(SettingError::NotASetting(path.clone())),
            },
            journal::Entry::Dir { .. } | journal::Entry::Group { .. } => place.new_dir(&path),
            journal::Entry::Probe { list, .. } => {
                place.new_dir(&path).and_then(|_| place.setting(list))
            }
        };
        let outcome = match known {
            Err(SettingError::Unreadable { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Restoration::AlreadyRight { path }
            }
            Err(e) => Restoration::Failed { path, value: String::new(), reason: e.to_string() },
            // A living latlab has changed it since; it will restore it to what the dead one set.
            Ok(_) if held(&path) => Restoration::Failed {
                path,
                value: String::new(),
                reason: "a latlab that is running holds it".into(),
            },
            Ok(_) => open.entry.undo_if(open.reads.as_deref(), &taken),
        };
        if outcome.failed() {
            left += 1;
        } else {
            // A second attempt after a death in here finds it right already, so this may fail.
            let line = format!("{pending}{{\"id\":{},\"undone\":true}}\n", open.id);
            let _ = (&other.file).write_all(line.as_bytes());
            pending = "";
        }
        undone.push(outcome);
    }
    if left == 0 {
        journal::remove(&other.path);
    }
}

/// What lies in the journals of others; nothing is undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Settings that dead latlabs have left changed.
    pub left: Vec<PathBuf>,
    /// Processes that live and hold settings.
    pub alive: Vec<Holder>,
    /// Files that were not trusted or not understood, with the reason.
    pub refused: Refused,
}

/// Looks, and touches nothing.
///
/// # Errors
/// As [`restore_orphaned`].
pub fn survey(place: &Place) -> Result<Survey, SettingError> {
    let (others, refused) = read_all(place)?;
    let boot = journal::boot_id();
    let dead = others.iter().filter(|o| !o.alive && o.header.boot == boot);
    Ok(Survey {
        left: dead.flat_map(|o| &o.open).map(|o| o.entry.path().to_owned()).collect(),
        alive: others.iter().filter(|o| o.alive).map(Other::holder).collect(),
        refused,
    })
}

/// Refuses a setting that another living latlab has changed. Several may hold one that has the `value`
/// they want already: none of them changes it.
pub(super) fn refuse_if_held(
    place: &Place,
    path: &Path,
    value: Option<&str>,
) -> Result<(), SettingError> {
    let (others, _) = read_all(place)?;
    let kept = |entry: &journal::Entry| match entry {
        journal::Entry::Set { from, to, .. } => from == to && value == Some(to),
        _ => false,
    };
    let holder = others
        .iter()
        .filter(|o| o.alive)
        .find(|o| o.open.iter().any(|e| e.entry.path() == path && !kept(&e.entry)));
    match holder {
        Some(other) => Err(SettingError::Busy { path: path.to_owned(), pid: other.header.pid }),
        None => Ok(()),
    }
}

impl Other {
    fn holder(&self) -> Holder {
        Holder {
            pid: self.header.pid,
            command: self.header.command.clone(),
            paths: self.open.iter().map(|o| o.entry.path().to_owned()).collect(),
        }
    }
}

/// Paths with the reason why each was not believed.
pub type Refused = Vec<(PathBuf, String)>;

/// All journals but this process's own: opening and closing one of those would end its lock.
fn read_all(place: &Place) -> Result<(Vec<Other>, Refused), SettingError> {
    let own = journal::own_prefix();
    read_those(place, |name| !name.starts_with(&own))
}

/// The journals with such names.
fn read_those(
    place: &Place,
    wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<Other>, Refused), SettingError> {
    let entries = match fs::read_dir(place.dir()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        Err(source) => return Err(SettingError::Journal { path: place.dir().to_owned(), source }),
        Ok(entries) => entries,
    };
    place.check()?;
    let (mut others, mut refused) = (Vec::new(), Vec::new());
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || !wanted(&name) || !name.ends_with(".journal") {
            continue;
        }
        match read_one(&entry.path()) {
            Ok(Some(other)) => {
                for line in &other.bad_lines {
                    let reason = format!("line {line} is damaged; the others are used");
                    refused.push((other.path.clone(), reason));
                }
                // A living owner may be in the middle of writing its last line.
                if other.torn && !other.alive {
                    let reason = "its last line is cut off; what it is about was not done yet";
                    refused.push((other.path.clone(), reason.into()));
                }
                others.push(other);
            }
            Ok(None) => {}
            Err(reason) => refused.push((entry.path(), reason)),
        }
    }
    Ok((others, refused))
}

/// Opens, checks, locks and reads a journal. `None`: it went away meanwhile.
fn read_one(path: &Path) -> Result<Option<Other>, String> {
    let opened = OpenOptions::new()
        .read(true)
        .append(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    // Locked: its owner lives, or another latlab is undoing it at this moment.
    let alive = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    let meta = file.metadata().map_err(|e| e.to_string())?;
    if meta.nlink() == 0 {
        return Ok(None);
    }
    let ours = meta.uid() == rustix::process::geteuid().as_raw();
    if !meta.is_file() || !ours || meta.mode() & 0o022 != 0 || meta.nlink() != 1 {
        return Err("it is not a file of this user's alone".into());
    }
    if meta.len() > BYTES_MAX {
        return Err("it is too large for a journal".into());
    }
    let mut text = String::new();
    file.rewind().map_err(|e| e.to_string())?;
    (&file).take(BYTES_MAX).read_to_string(&mut text).map_err(|e| e.to_string())?;
    let journal::Parsed { header, open, bad_lines } =
        journal::parse(&text).ok_or("it is not a journal of latlab")?;
    let torn = !text.ends_with('\n');
    Ok(Some(Other { path: path.to_owned(), file, header, open, bad_lines, torn, alive }))
}
