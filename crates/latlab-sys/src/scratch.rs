//! Files under names that another user could foresee: scratch folders, temporary names, results.
//!
//! In `/tmp` any user may put a link or a file where a program is about to write. A [`ScratchDir`]
//! is a new folder of mode 0700; a [`Replacement`] is a temporary file that was not there
//! (`O_CREAT|O_EXCL`, which follows no link); [`Replacement::create_checked`] applies the rule of
//! `fs.protected_symlinks` and `fs.protected_regular` (Documentation/admin-guide/sysctl/fs.rst)
//! to what would be replaced.

use std::fs::{self, DirBuilder, File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = "latlab-";
/// Names that are tried before giving up.
const TRIES: u32 = 100;
const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A folder for files that nobody else sees. It is removed when dropped; what a SIGKILL left
/// behind is removed when the same user makes the next one, by the process id in its name.
#[derive(Debug)]
pub struct ScratchDir(PathBuf);

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
            let name = format!("{PREFIX}{}-{chance:016x}", std::process::id());
            let path = parent.join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => last = e,
                Err(e) => return Err(e),
            }
        }
        Err(last)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Empties it: a killed probe leaves its files.
    pub fn clear(&self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
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
        if let Err(e) = fs::remove_dir_all(&self.0) {
            log::warn!("{} is left behind: {e}", self.0.display());
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

/// The process that made a folder of this name.
fn maker(name: &str) -> Option<u32> {
    let (pid, chance) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let is_ours = chance.len() == 16 && chance.bytes().all(|b| b.is_ascii_hexdigit());
    is_ours.then(|| pid.parse().ok())?
}

fn sweep(parent: &Path) {
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(maker) else { continue };
        let ours = entry.metadata().is_ok_and(|m| m.is_dir() && m.uid() == user());
        if ours && !Path::new(&format!("/proc/{pid}")).exists() {
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
        let stale = parent.path().join("latlab-99999999-0123456789abcdef");
        fs::create_dir_all(stale.join("sub")).unwrap();
        let foreign = parent.path().join("latlab-99999999-notes");
        fs::create_dir(&foreign).unwrap();
        let dir = ScratchDir::create(parent.path()).unwrap();
        let second = ScratchDir::create(parent.path()).unwrap();
        assert_ne!(dir.path(), second.path());
        assert!(!stale.exists() && foreign.exists());
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
        fs::write(dir.path().join("file"), b"x").unwrap();
        dir.clear();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists());
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
