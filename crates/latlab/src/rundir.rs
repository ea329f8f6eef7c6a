//! The run directory: where a command keeps what it measured.
//!
//! ```text
//! runs/20260801T101500Z-board-wakeup/
//!     run.json       the run, replaced whole at each save
//!     report.html    the same for people
//!     captures/      standard trace.dat files
//! ```
//!
//! `run.json` is never half-written: it is written under a temporary name,
//! synced, renamed over the old one, and the directory is synced (the order
//! that rename(2) and fsync(2) ask for). A save that fails leaves the earlier
//! save as it was. That the directory can be written is found out *before*
//! anything is measured, by saving the still empty run.

use crate::outcome::HintExt;
#[cfg(feature = "host")]
use crate::outcome::OwnHintExt;
use anyhow::{Context, anyhow, bail};
use latlab_model::run::Run;
#[cfg(feature = "host")]
use latlab_sys::bounded_file;
use latlab_sys::scratch::{self, Replacement};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The file that makes a directory a run.
pub const RUN_FILE: &str = "run.json";
/// The folder of captures in it.
const CAPTURES: &str = "captures";

/// A run directory that this process made and writes to.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// The outermost directory that [`RunDir::create`] made, and may remove again.
    made: Option<PathBuf>,
}

impl RunDir {
    /// Makes `out`, or else `runs/<UTC time>-<host>-<command>`.
    ///
    /// # Errors
    /// When it cannot be made, is no directory, or holds a run already: an
    /// earlier measurement is never overwritten.
    pub fn create(out: Option<&Path>, started: &str, command: &str) -> anyhow::Result<Self> {
        match out {
            Some(path) => Self::take(path),
            None => Self::make_new(Path::new("runs"), &default_name(started, command)),
        }
    }

    /// The directory of a run that was interrupted and is gone on with.
    pub fn reopen(path: &Path) -> Self {
        Self { path: path.to_owned(), made: None }
    }

    fn take(path: &Path) -> anyhow::Result<Self> {
        if path.join(RUN_FILE).exists() {
            return Err(anyhow!("--out {}: has a run already", path.display()))
                .hint("name a new directory; a run is never overwritten");
        }
        let made = outermost_missing(path);
        fs::create_dir_all(path)
            .with_context(|| format!("--out {}: the directory cannot be created", path.display()))
            .hint("name a directory that this user may write to")?;
        Ok(Self { path: path.to_owned(), made })
    }

    fn make_new(parent: &Path, name: &str) -> anyhow::Result<Self> {
        let hint = "change to a directory that this user may write to, or name one with --out DIR";
        let missing = outermost_missing(parent);
        fs::create_dir_all(parent)
            .with_context(|| format!("{}: cannot be created", parent.display()))
            .hint(hint)?;
        for n in 1..1000 {
            let path = match n {
                1 => parent.join(name),
                n => parent.join(format!("{name}-{n}")),
            };
            // Another process that gave up its run may have removed the empty parent.
            let again = |e: io::Error| match e.kind() {
                io::ErrorKind::NotFound => {
                    fs::create_dir_all(parent).and_then(|()| fs::create_dir(&path))
                }
                _ => Err(e),
            };
            match fs::create_dir(&path).or_else(again) {
                Ok(()) => {
                    let made = missing.or_else(|| Some(path.clone()));
                    return Ok(Self { path, made });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => {
                    return Err(e)
                        .with_context(|| format!("{}: cannot be created", path.display()))
                        .hint(hint);
                }
            }
        }
        bail!("{}: there are a thousand runs of this name", parent.join(name).display())
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder for captures, made when first asked for.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn captures(&self) -> anyhow::Result<PathBuf> {
        let path = self.path.join(CAPTURES);
        fs::create_dir_all(&path)
            .with_context(|| format!("{}: cannot be created", path.display()))?;
        Ok(path)
    }

    /// Replaces `run.json`. When this fails, the earlier `run.json` is as it was.
    ///
    /// # Errors
    /// When it cannot be written (no space, no permission, a read-only file system).
    pub fn save(&self, run: &Run) -> anyhow::Result<()> {
        self.write_file(RUN_FILE, |out| crate::output::json(run, out))
    }

    /// Writes a file of this directory, whole or not at all.
    ///
    /// # Errors
    /// As [`RunDir::save`].
    pub fn write_file(
        &self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let path = self.path.join(name);
        write_atomically(&path, fill)
            .with_context(|| format!("{}: cannot be saved", path.display()))
            .hint("name a directory with space on a file system that this user may write to: --out DIR")
    }

    /// Removes the run, for when nothing was measured, and the directory as [`RunDir::discard_if_empty`] does.
    pub fn discard(&self) {
        let captures = self.path.join(CAPTURES);
        // With captures in it the run is left as it is: they can be analysed again.
        if captures.exists() && fs::remove_dir(&captures).is_err() {
            return;
        }
        let _ = fs::remove_file(self.path.join(RUN_FILE));
        self.discard_if_empty();
    }

    /// Whether `run.json` is all that the directory has.
    pub fn has_run_alone(&self) -> bool {
        let entries = fs::read_dir(&self.path).map(|all| all.flatten().map(|e| e.file_name()));
        entries.is_ok_and(|mut names| names.all(|name| name == RUN_FILE))
    }

    /// Removes what this process made of the directory and those above it again, as far as they are empty.
    pub fn discard_if_empty(&self) {
        let Some(made) = &self.made else { return };
        let own = self.path.ancestors().take_while(|folder| folder.starts_with(made));
        for folder in own {
            // Fails when something is in it, and that is what is wanted.
            if fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}

/// The outermost directory of a path that does not exist.
fn outermost_missing(path: &Path) -> Option<PathBuf> {
    let named = path.ancestors().filter(|folder| !folder.as_os_str().is_empty());
    named.take_while(|folder| !folder.exists()).last().map(Path::to_owned)
}

/// `20260801T101500Z-board-wakeup`: sorts by time, and safe on every file system.
fn default_name(started: &str, command: &str) -> String {
    let time: String = started.chars().filter(char::is_ascii_alphanumeric).collect();
    let host = latlab_sys::machine::host_name();
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    let host: String = host.chars().take(64).map(safe).collect();
    format!("{time}-{host}-{command}")
}

/// Host and command, which stand behind the time in a run's name (`…Z-HOST-COMMAND`): runs of one kind can be compared.
#[cfg(feature = "host")]
pub fn kind_of(run: &str) -> Option<&str> {
    let name = run.rsplit('/').next()?;
    let (time, kind) = name.split_once('-')?;
    // The second one of a second has a number behind it.
    let kind = match kind.rsplit_once('-') {
        Some((first, number)) if number.parse::<u32>().is_ok() => first,
        _ => kind,
    };
    (time.len() == 16 && time.ends_with('Z')).then_some(kind)
}

/// Writes a file that an option asked for, whole or not at all.
///
/// # Errors
/// Names the option and the file.
pub fn write_asked(
    path: &Path,
    option: &str,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    write_atomically(path, fill)
        .with_context(|| format!("{option} {}: cannot be written", path.display()))
        .hint(WRITABLE)
}

/// What to do where a file cannot be written.
pub const WRITABLE: &str = "name a file in an existing directory that this user may write to";

/// Whether [`write_atomically`] may write here, for options whose file is written after a measurement.
/// Whatever is at `path` stays as it is.
///
/// # Errors
/// Whatever the file system says.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) if !scratch::is_replaceable(path) => Ok(()),
        _ => {
            let (_, new) = Replacement::create(path)?;
            new.remove()
        }
    }
}

/// Writes under a temporary name in the same directory, syncs, renames, syncs the directory.
/// On failure the temporary file is removed and whatever was at `path` stays. What cannot be replaced
/// (a pipe, `/dev/stdout`) is written to.
///
/// # Errors
/// Whatever the file system says.
pub fn write_atomically(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if !scratch::is_replaceable(path) {
        let mut out = BufWriter::new(scratch::open_stream(path)?);
        fill(&mut out)?;
        return out.flush();
    }
    replace(path, |out| fill(out))
}

/// As [`write_atomically`], for what is not written from front to back; to a file only.
///
/// # Errors
/// Whatever the file system says.
pub fn replace(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    if !scratch::is_replaceable(path) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    write_and_name(path, fill, Replacement::rename)
}

/// As [`replace`], where nothing has the name yet.
///
/// # Errors
/// `AlreadyExists`; whatever the file system says.
#[cfg(feature = "host")]
pub fn write_new(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    write_and_name(path, fill, Replacement::rename_to_new)
}

fn write_and_name(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    name: fn(&mut Replacement) -> io::Result<()>,
) -> io::Result<()> {
    let (file, mut new) = Replacement::create(path)?;
    let mut out = BufWriter::with_capacity(256 << 10, file);
    fill(&mut out)?;
    out.flush()?;
    out.get_ref().sync_all()?;
    name(&mut new)?;
    sync_directory_of(path)
}

/// Some file systems (9p, FUSE) cannot sync a directory, and a user may write to one that he may not
/// read; the rename itself is done.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, Unsupported};
    let dir = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let Ok(dir) = File::open(dir) else { return Ok(()) };
    dir.sync_all().or_else(|e| match e.kind() {
        InvalidInput | Unsupported => Ok(()),
        _ => Err(e),
    })
}

/// Several files that get their names together, after all were written and synced. What is dropped
/// before that is removed, with the directories that were made for it, and whatever had the names stays.
#[cfg(feature = "host")]
#[derive(Debug, Default)]
pub struct Replacements {
    files: Vec<Replacement>,
    /// Directories that were not there.
    made: Vec<PathBuf>,
}

#[cfg(feature = "host")]
impl Replacements {
    /// A new file for `path`, in its directory, which is made if it is missing.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn create(&mut self, path: &Path) -> io::Result<File> {
        if let Some(parent) = path.parent() {
            let is_missing =
                |dir: &&Path| !dir.as_os_str().is_empty() && dir.symlink_metadata().is_err();
            let missing: Vec<PathBuf> =
                parent.ancestors().take_while(is_missing).map(Path::to_owned).collect();
            fs::create_dir_all(parent)?;
            self.made.extend(missing.into_iter().rev());
        }
        let (file, new) = Replacement::create(path)?;
        self.files.push(new);
        Ok(file)
    }

    /// Gives all their names. Each file is the earlier or the new one, whatever happens.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn commit(mut self) -> io::Result<()> {
        for new in &self.files {
            File::open(new.current())?.sync_all()?;
        }
        while let Some(mut new) = self.files.pop() {
            new.rename()?;
            sync_directory_of(new.current())?;
        }
        self.made.clear();
        Ok(())
    }
}

#[cfg(feature = "host")]
impl Drop for Replacements {
    fn drop(&mut self) {
        self.files.clear();
        for dir in self.made.iter().rev() {
            // One that has something in it, of another process or under its name already, stays.
            let _ = fs::remove_dir(dir);
        }
    }
}

/// The build without `host` makes runs and does not read them: what reads every kind of result would be a
/// seventh of a board's build.
///
/// # Errors
/// Always, with what to do instead.
#[cfg(not(feature = "host"))]
pub fn load(path: &Path) -> anyhow::Result<Run> {
    Err(anyhow!("{}: this build makes runs and does not read them", path.display()))
        .hint("`make install` builds latlab with all commands; a board's run is read on a host")
}

/// Reads a run from its directory or from its `run.json`; older, newer within
/// the same schema, and incomplete ones.
///
/// # Errors
/// One sentence when it is missing, is damaged, or was written by a newer schema.
#[cfg(feature = "host")]
pub fn load(path: &Path) -> anyhow::Result<Run> {
    let file = if path.is_dir() { path.join(RUN_FILE) } else { path.to_owned() };
    let other = "name a run directory (runs/…), its run.json, or a trace";
    let bytes = read_within(&file, longest(), MORE_MEMORY, other)?;
    parse(&bytes).with_context(|| file.display().to_string())
}

/// A file of at most `most` bytes; the hint where it is larger, and where it cannot be read.
///
/// # Errors
/// As of [`bounded_file::read`].
#[cfg(feature = "host")]
pub fn read_within(file: &Path, most: u64, larger: &str, other: &str) -> anyhow::Result<Vec<u8>> {
    let bytes = bounded_file::read(file, most);
    let is_large = bytes.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::FileTooLarge);
    bytes.with_context(|| format!("{}: cannot be read", file.display())).hint(if is_large {
        larger
    } else {
        other
    })
}

#[cfg(feature = "host")]
const MORE_MEMORY: &str = "--max-memory SIZE allows more: a run takes some times its length";

/// Bytes that a run may take whatever the limit is: every ordinary one takes less.
#[cfg(feature = "host")]
const MEMORY_MIN: u64 = 64 << 20;

/// Bytes of a `run.json` at most: a quarter of the memory that a file may take, as what is made of it is four times as
/// large or more.
#[cfg(feature = "host")]
fn longest() -> u64 {
    crate::trace_input::memory().max(MEMORY_MIN) / 4
}

/// Bytes of a file of another tool at most: half of the memory that a file may take (its values take less than its
/// text), and an hour of samples at 1 kHz, 58 MB, everywhere.
#[cfg(feature = "host")]
pub fn longest_foreign() -> u64 {
    (crate::trace_input::memory() / 2).max(64 << 20)
}

/// Reads a run from the bytes of its `run.json`.
///
/// # Errors
/// As of [`load`].
#[cfg(feature = "host")]
pub fn parse(bytes: &[u8]) -> anyhow::Result<Run> {
    if bytes.len() as u64 > longest() {
        return Err(anyhow!("a run larger than {} MiB", longest() >> 20)).hint(MORE_MEMORY);
    }
    let memory = crate::trace_input::memory().max(MEMORY_MIN);
    latlab_analysis::run_file::read_within(bytes, memory).with_hint()
}

// A board's latlab does not read runs.
#[cfg(all(test, feature = "host"))]
mod tests {
    use super::*;
    use latlab_model::run::{Part, SCHEMA_VERSION};

    fn a_run() -> Run {
        Run {
            schema_version: SCHEMA_VERSION,
            parts: vec![Part { name: "wakeup".into(), ..Part::default() }],
            ..Run::default()
        }
    }

    #[test]
    fn what_is_saved_is_read_back() {
        let t = tempfile::tempdir().unwrap();
        let dir = RunDir::create(Some(&t.path().join("a/b")), "", "wakeup").unwrap();
        dir.save(&a_run()).unwrap();
        assert_eq!(load(dir.path()).unwrap(), a_run());
        assert_eq!(load(&dir.path().join(RUN_FILE)).unwrap(), a_run());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_run_is_never_overwritten() {
        let t = tempfile::tempdir().unwrap();
        RunDir::create(Some(t.path()), "", "wakeup").unwrap().save(&a_run()).unwrap();
        let error = RunDir::create(Some(t.path()), "", "wakeup").unwrap_err();
        assert!(format!("{error:#}").contains("has a run already"), "{error:#}");
    }

    #[test]
    fn two_runs_in_one_second_get_two_directories() {
        let t = tempfile::tempdir().unwrap();
        let a = RunDir::make_new(t.path(), "x").unwrap();
        let b = RunDir::make_new(t.path(), "x").unwrap();
        assert_ne!(a.path(), b.path());
        assert!(b.path().ends_with("x-2"));
    }

    #[test]
    fn a_run_that_is_given_up_leaves_no_folder_that_it_made() {
        let t = tempfile::tempdir().unwrap();
        let (runs, out) = (t.path().join("runs"), t.path().join("a/b"));
        let given_up = RunDir::make_new(&runs, "x").unwrap();
        given_up.save(&a_run()).unwrap();
        given_up.discard();
        RunDir::create(Some(&out), "", "wakeup").unwrap().discard();
        assert_eq!(fs::read_dir(t.path()).unwrap().count(), 0);
        // What was there before, or holds something else, stays.
        fs::create_dir_all(out.parent().unwrap()).unwrap();
        let (given_up, kept) =
            (RunDir::make_new(&runs, "x").unwrap(), RunDir::make_new(&runs, "x").unwrap());
        given_up.discard();
        assert!(kept.path().is_dir());
        RunDir::create(Some(&out), "", "wakeup").unwrap().discard();
        assert!(out.parent().unwrap().is_dir() && !out.exists());
    }

    #[test]
    fn a_failed_save_leaves_the_earlier_one() {
        let t = tempfile::tempdir().unwrap();
        let dir = RunDir::create(Some(t.path()), "", "wakeup").unwrap();
        dir.save(&a_run()).unwrap();
        let full = dir.write_file(RUN_FILE, |out| {
            out.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert!(format!("{:#}", full.unwrap_err()).contains("run.json: cannot be saved: "));
        assert_eq!(load(t.path()).unwrap(), a_run());
        assert_eq!(fs::read_dir(t.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_runs_are_said_in_one_sentence() {
        let said = |bytes: &[u8]| format!("{:#}", parse(bytes).unwrap_err());
        let whole = serde_json::to_vec(&a_run()).unwrap();
        assert!(said(&whole[..whole.len() / 2]).starts_with("truncated after "));
        assert!(said(b"").starts_with("not a run of latlab"));
        assert!(said(b"\x7fELF").starts_with("not a run of latlab"));
        assert!(said(b"[]").starts_with("not a run of latlab"));
        assert!(said(br#"{"schema_version":999}"#).starts_with("has schema version 999, and this"));
        let damaged = said(br#"{"schema_version":1,"parts":3}"#);
        assert!(damaged.starts_with("damaged run: "), "{damaged}");
        // Deep nesting is refused, not followed until the stack ends.
        assert!(said("[".repeat(1 << 20).as_bytes()).starts_with("not a run of latlab"));
    }

    #[test]
    fn old_and_incomplete_runs_are_read() {
        let old = parse(br#"{"schema_version":1,"unheard_of":[1,2],"parts":[{"name":"x","detail":{"kind":"not_yet_invented","a":1}}]}"#).unwrap();
        assert!(!old.complete);
        assert_eq!(old.parts[0].name, "x");
        assert!(old.parts[0].detail.is_some());
    }

    #[test]
    fn names_are_safe_on_every_file_system() {
        let name = default_name("2026-08-01T10:15:00Z", "wakeup");
        assert!(name.starts_with("20260801T101500Z-") && name.ends_with("-wakeup"), "{name}");
        assert!(!name.contains(['/', ':', ' ']), "{name}");
    }
}
