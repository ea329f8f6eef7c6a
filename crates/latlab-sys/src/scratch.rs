//! Files under names that another user could foresee: scratch folders, temporary names, results.
//!
//! In `/tmp` any user may put a link or a file where a program is about to write. A [`ScratchDir`]
//! is a new folder of mode 0700; a [`Replacement`] is a temporary file that was not there
//! (`O_CREAT|O_EXCL`, which follows no link); [`Replacement::create_checked`] applies the rule of
//! `fs.protected_symlinks` and `fs.protected_regular` (Documentation/admin-guide/sysctl/fs.rst)
//! to what would be replaced.

use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = "latlab-";
/// What a folder whose maker holds a lock on it has at its end; those of earlier versions have neither.
const SUFFIX: &str = ".locked";
/// Names that are tried before giving up.
const TRIES: u32 = 100;
const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A folder for files that nobody else sees. It is removed when dropped. A lock (flock) on the folder tells that
/// its process lives, whatever number it has in the PID namespace of another process that sees the folder; what a
/// SIGKILL left behind can be locked, and is removed when the same user makes the next one.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    _lock: File,
}

impl ScratchDir {
    /// Makes one below `parent`, after removing those of ours whose process is gone.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for n in 0..TRIES {
            let chance = RandomState::new().hash_one(n);
            let name = format!("{PREFIX}{}-{chance:016x}{SUFFIX}", std::process::id());
            let path = parent.join(name);
            match DirBuilder::new().mode(0o700).create(&path).and_then(|()| held(&path)) {
                Ok(lock) => return Ok(Self { path, _lock: lock }),
                // Removed by a sweep that came before the lock.
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                    ) && parent.exists() =>
                {
                    last = e;
                }
                Err(e) => return Err(e),
            }
        }
        Err(last)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Empties it: a killed probe leaves its files.
    pub fn clear(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = match entry.file_type().is_ok_and(|t| t.is_dir()) {
                true => fs::remove_dir_all(path),
                false => fs::remove_file(path),
            };
        }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.path) {
            log::warn!("{} is left behind: {e}", self.path.display());
        }
    }
}

/// Opens a file to append to, or makes it; a link is not followed.
///
/// # Errors
/// Where the path leads to a link (`ELOOP`), or cannot be opened.
pub fn append_to(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// The folder of this name, not through a link.
fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_DIRECTORY).open(path)
}

/// Locks a folder that was just made. `NotFound` where a sweep was faster.
fn held(path: &Path) -> io::Result<File> {
    let folder = open(path)?;
    match folder.try_lock() {
        Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::NotFound.into()),
        // On a file system without locks nobody else can lock it either: after a SIGKILL it stays.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    let (here, there) = (folder.metadata()?, path.symlink_metadata()?);
    match (here.dev(), here.ino()) == (there.dev(), there.ino()) {
        true => Ok(folder),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Whether a folder of this name is locked while its process lives.
fn is_lockable(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|n| n.strip_suffix(SUFFIX)?.split_once('-'));
    parts.is_some_and(|(pid, chance)| {
        let is_hexadecimal = chance.bytes().all(|b| b.is_ascii_hexdigit());
        pid.parse::<u32>().is_ok() && chance.len() == 16 && is_hexadecimal
    })
}

/// Folders of earlier versions have no lock, and their process may be one of another PID namespace: they stay.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(is_lockable) {
            continue;
        }
        let ours = entry.metadata().is_ok_and(|m| m.is_dir() && m.uid() == user());
        let Some(folder) = ours.then(|| open(&entry.path()).ok()).flatten() else { continue };
        if folder.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A new file under a temporary name in the folder of the one that it is to replace: `.NAME.PID.tmp`, or
/// `.NAME.PID-N.tmp`. Dropped before [`Replacement::rename`], it is removed, and what had the name stays.
#[derive(Debug)]
pub struct Replacement {
    /// `None` when it has its name.
    temporary: Option<PathBuf>,
    path: PathBuf,
}

impl Replacement {
    /// The file, for reading and writing, and its temporary name.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path) -> io::Result<(File, Self)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        let pid = std::process::id();
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for n in 0..TRIES {
            let number = if n == 0 { String::new() } else { format!("-{n}") };
            let temporary = path.with_file_name(format!(".{name}.{pid}{number}.tmp"));
            match File::options().read(true).write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    return Ok((file, Self { temporary: Some(temporary), path: path.to_owned() }));
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => last = e,
                Err(e) => return Err(e),
            }
        }
        Err(last)
    }

    /// The same for a file that is recorded over a long time. In a folder that others may write to,
    /// neither a link nor a file of another user is replaced, unless it belongs to the folder's owner.
    ///
    /// # Errors
    /// When it cannot be made; `PermissionDenied` for what another user put there.
    pub fn create_checked(path: &Path) -> io::Result<(File, Self)> {
        let folder = fs::metadata(folder_of(path))?;
        match path.symlink_metadata() {
            Ok(there) if !is_trusted(&there, &folder) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "another user put it into a folder that all may write to",
            )),
            _ => Self::create(path),
        }
    }

    /// The name that it has.
    pub fn current(&self) -> &Path {
        self.temporary.as_deref().unwrap_or(&self.path)
    }

    /// Gives it the name; nothing is done when it has it.
    ///
    /// # Errors
    /// As rename(2).
    pub fn rename(&mut self) -> io::Result<()> {
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        Ok(())
    }

    /// Gives it the name if nothing has it: what is there stays.
    ///
    /// # Errors
    /// `AlreadyExists`; as rename(2).
    pub fn rename_to_new(&mut self) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        let Some(temporary) = &self.temporary else { return Ok(()) };
        match renameat_with(CWD, temporary, CWD, &self.path, RenameFlags::NOREPLACE) {
            // A file system that cannot (NFS, 9p).
            Err(Errno::INVAL | Errno::NOSYS) if self.path.symlink_metadata().is_err() => {
                fs::rename(temporary, &self.path)?;
            }
            Err(Errno::INVAL | Errno::NOSYS) => return Err(io::ErrorKind::AlreadyExists.into()),
            done => done?,
        }
        self.temporary = None;
        Ok(())
    }

    /// Removes it; after a failure that is tried once more.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn remove(mut self) -> io::Result<()> {
        fs::remove_file(self.current())?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Whether a new file can take the place of what is at `path`: of a file or of nothing. Names in `/dev`
/// and `/proc` stand for open files also where those are ordinary ones (`/dev/stdout`).
pub fn is_replaceable(path: &Path) -> bool {
    let folder = fs::canonicalize(folder_of(path)).unwrap_or_default();
    let stands_for_open_files = folder == Path::new("/dev") || folder.starts_with("/proc");
    !stands_for_open_files && fs::metadata(path).map_or(true, |there| there.is_file())
}

/// Opens what is not replaceable, behind what was written to it before.
///
/// # Errors
/// As open(2).
pub fn open_stream(path: &Path) -> io::Result<File> {
    File::options().append(true).open(path)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn is_trusted(there: &Metadata, folder: &Metadata) -> bool {
    if folder.mode() & WRITABLE_BY_OTHERS == 0 {
        return true;
    }
    // Without the sticky bit, others may exchange what is ours.
    let exchangeable = folder.mode() & STICKY == 0;
    let ours = there.uid() == user() || there.uid() == folder.uid();
    !there.is_symlink() && ours || there.is_symlink() && ours && !exchangeable
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_scratch_folder_is_new_private_and_gone_afterwards() {
        let parent = tempfile::tempdir().unwrap();
        // No process has this id: pid_max is at most 2^22.
        let stale = parent.path().join("latlab-99999999-0123456789abcdef.locked");
        fs::create_dir_all(stale.join("sub")).unwrap();
        let kept = ["latlab-99999999-notes", "latlab-99999999-0123456789abcdef"];
        let kept = kept.map(|name| parent.path().join(name));
        kept.iter().for_each(|path| fs::create_dir(path).unwrap());
        let dir = ScratchDir::create(parent.path()).unwrap();
        let second = ScratchDir::create(parent.path()).unwrap();
        assert_ne!(dir.path(), second.path());
        assert!(!stale.exists() && kept.iter().all(|path| path.exists()));
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
        fs::write(dir.path().join("file"), b"x").unwrap();
        dir.clear();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists() && second.path().exists());
    }

    /// A process of another PID namespace has no number here: what counts is the lock.
    #[test]
    fn a_folder_in_use_stays_whatever_number_its_process_has() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["latlab-99999999-0123456789abcdef", "latlab-99999999-0123456789abcdef.locked"]
        {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            let folder = open(&path).unwrap();
            folder.lock().unwrap();
            drop(ScratchDir::create(parent.path()).unwrap());
            assert!(path.exists(), "{name}");
        }
        // The last one is free now.
        drop(ScratchDir::create(parent.path()).unwrap());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn folders_made_at_once_do_not_remove_each_other() {
        let parent = tempfile::tempdir().unwrap();
        let work = || {
            for _ in 0..50 {
                let dir = ScratchDir::create(parent.path()).unwrap();
                fs::write(dir.path().join("file"), b"x").unwrap();
                assert!(dir.path().join("file").exists());
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(work);
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_planted_temporary_name_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        let foreseen = dir.path().join(format!(".out.{}.tmp", std::process::id()));
        symlink(&victim, &foreseen).unwrap();
        let (_, new) = Replacement::create(&dir.path().join("out")).unwrap();
        assert_ne!(new.current(), foreseen);
        assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
    }

    #[test]
    fn an_earlier_file_stays_until_the_new_one_is_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "earlier").unwrap();
        drop(Replacement::create(&path).unwrap());
        Replacement::create(&path).unwrap().1.remove().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
        let (mut file, mut new) = Replacement::create(&path).unwrap();
        io::Write::write_all(&mut file, b"new").unwrap();
        for _ in 0..2 {
            new.rename().unwrap();
        }
        assert_eq!(new.current(), path);
        drop(new);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_name_that_must_be_new_replaces_neither_a_file_nor_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let [path, link, free] = ["out", "link", "free"].map(|name| dir.path().join(name));
        fs::write(&path, "mine").unwrap();
        symlink("nowhere", &link).unwrap();
        for there in [&path, &link] {
            let (_, mut new) = Replacement::create(there).unwrap();
            assert_eq!(new.rename_to_new().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        Replacement::create(&free).unwrap().1.rename_to_new().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn names_of_open_files_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("file")).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        for open in ["/proc/self/fd", "/dev/fd"].map(|folder| format!("{folder}/{number}")) {
            assert!(!is_replaceable(open.as_ref()), "{open}");
        }
        for stream in ["/dev/stdout", "/dev/null", "/dev/new"] {
            assert!(!is_replaceable(stream.as_ref()), "{stream}");
        }
        assert!(!is_replaceable(dir.path()));
        assert!(
            is_replaceable(&dir.path().join("file")) && is_replaceable(&dir.path().join("new"))
        );
    }

    #[test]
    fn a_link_is_replaced_only_where_nobody_else_could_put_it() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, link) = (dir.path().join("victim"), dir.path().join("link"));
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, &link).unwrap();
        let mode = |bits| {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(bits)).unwrap();
        };
        mode(0o777);
        assert_eq!(
            Replacement::create_checked(&link).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        assert!(Replacement::create_checked(&victim).is_ok());
        mode(0o755);
        assert!(Replacement::create_checked(&link).is_ok());
        assert!(Replacement::create_checked(&dir.path().join("new")).is_ok());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    }

    #[test]
    fn what_another_user_put_into_a_sticky_folder_is_refused() {
        if user() != 0 {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "theirs").unwrap();
        symlink("/etc/victim", &link).unwrap();
        std::os::unix::fs::chown(&file, Some(4711), None).unwrap();
        std::os::unix::fs::lchown(&link, Some(4711), None).unwrap();
        for planted in [&file, &link] {
            let error = Replacement::create_checked(planted).unwrap_err();
            assert!(error.to_string().contains("another user put it"), "{error}");
        }
        assert_eq!(fs::read_to_string(file).unwrap(), "theirs");
    }
}
