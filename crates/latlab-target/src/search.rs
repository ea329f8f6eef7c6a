//! Files that are run or built and are looked for in more than one place.
//!
//! What is installed comes first. A checkout above the program or the working directory is
//! searched too, for developers; but a folder such as `/tmp` is above many working directories, so
//! there file and folders must belong to this user or root, and be writable by nobody else.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The first of `installed` that is there, then the first of `above` that nobody else could have
/// put there: with its real path, in which nobody else can exchange anything either.
pub(crate) fn first(
    installed: impl IntoIterator<Item = PathBuf>,
    above: impl IntoIterator<Item = PathBuf>,
) -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let found = installed.into_iter().find(|p| p.is_file());
    found.or_else(|| above.into_iter().find_map(|p| ours(&p, user)))
}

/// The real path of a file, where only root and `user` can have put it there and can exchange it: the file, the
/// folders above it, and the links that lead to it belong to them, and nobody else may write to them.
fn ours(file: &Path, user: u32) -> Option<PathBuf> {
    let is_safe = |place: &Path| {
        fs::symlink_metadata(place).is_ok_and(|meta| {
            // In a sticky folder nobody exchanges what belongs to another user. Links have no permissions.
            let is_sticky = meta.is_dir() && meta.mode() & 0o1000 != 0;
            let is_closed = meta.is_symlink() || meta.mode() & WRITABLE_BY_OTHERS == 0;
            [0, user].contains(&meta.uid()) && (is_closed || is_sticky)
        })
    };
    if !file.is_absolute() || !file.ancestors().all(is_safe) {
        return None;
    }
    let real = fs::canonicalize(file).ok()?;
    (real.is_file() && real.ancestors().all(is_safe)).then_some(real)
}

/// A program in PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|p| p.join(name)).find(|p| p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    fn mode(path: &Path, bits: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
    }

    #[test]
    fn what_others_may_have_put_there_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("dist"), dir.path().join("dist/latlab-armv7"));
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "x").unwrap();
        mode(&folder, 0o755);
        mode(&file, 0o755);
        let above = || first([], [file.clone()]);
        assert_eq!(above(), Some(file.clone()));
        for (path, bits) in [(&file, 0o775), (&file, 0o757), (&folder, 0o777), (&folder, 0o775)] {
            mode(path, bits);
            assert_eq!(above(), None, "{}: {bits:o}", path.display());
            mode(path, 0o755);
        }
        mode(dir.path(), 0o777);
        assert_eq!(above(), None, "the folder could be exchanged");
        mode(dir.path(), 0o1777);
        assert_eq!(above(), Some(file.clone()));
        if rustix::process::geteuid().is_root() {
            chown(&folder, Some(4711), None).unwrap();
            assert_eq!(above(), None);
            chown(&folder, Some(0), None).unwrap();
            chown(&file, Some(4711), None).unwrap();
            assert_eq!(above(), None);
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&file, Some(0), None).unwrap();
            assert_eq!(first([], [link.clone()]), Some(file.clone()), "the real path");
            // The link of another user leads to a file of ours: it may lead elsewhere at the next look.
            std::os::unix::fs::lchown(&link, Some(4711), None).unwrap();
            assert_eq!(first([], [link]), None);
            let (theirs, inside) = (dir.path().join("theirs"), dir.path().join("theirs/dist"));
            fs::create_dir_all(&inside).unwrap();
            fs::copy(&file, inside.join("x")).unwrap();
            assert!(first([], [inside.join("x")]).is_some());
            chown(&theirs, Some(4711), None).unwrap();
            assert_eq!(first([], [inside.join("x")]), None, "a folder above is theirs");
            chown(&file, Some(4711), None).unwrap();
        }
        // An installation is its owner's business.
        assert_eq!(first([file.clone()], []), Some(file));
    }

    #[test]
    fn what_is_installed_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let (installed, above) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&installed, "x").unwrap();
        fs::write(&above, "x").unwrap();
        assert_eq!(first([installed.clone()], [above]), Some(installed));
    }
}
