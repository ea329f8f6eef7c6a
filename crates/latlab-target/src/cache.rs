//! The cache: `${XDG_CACHE_HOME:-~/.cache}/latlab`.
//!
//! ```text
//! apt/ARCH/          apt's private state: package lists, never the host's
//! packages/ARCH/     unpacked packages, one folder each, name_version
//! own-kernels/       the user's own kernel packages, unpacked, named by the hash of the package
//! initramfs/         RAM disks, named by the hash of what went into them
//! source/NAME/       source trees of kernels, patched
//! kernels/NAME/      kernels that were built from source ([`crate::vm::built`])
//! u-boot/NAME/       boot loaders that were
//! bisect/KEY/        a git tree that is bisected: tree/ is built in, built/COMMIT/ has what was built
//! run/PID-N/         a machine that runs: console, job; gone when it ends
//! ```
//! Everything is written under a temporary name and renamed. Whoever changes
//! it holds a lock; readers need none.

use crate::{Result, TargetError};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The cache's folder.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// A lock that is held until it is dropped (or the process ends).
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A machine's scratch folder; removed when dropped, or by the next start if the process was killed.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Cache {
    /// The cache at its usual place; `xdg` and `home` are the variables' values.
    pub fn locate(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Result<Self> {
        let base = xdg
            .filter(|p| p.is_absolute())
            .or_else(|| home.filter(|p| p.is_absolute()).map(|h| h.join(".cache")))
            .ok_or_else(|| TargetError::Content {
                path: "~/.cache".into(),
                reason: "neither XDG_CACHE_HOME nor HOME is set".into(),
                hint: "set XDG_CACHE_HOME to a folder".into(),
            })?;
        Ok(Self { root: base.join("latlab") })
    }

    /// The cache in this folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A folder inside, made if need be.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(TargetError::file(&path))?;
        Ok(path)
    }

    /// Waits for the lock of this name.
    pub fn lock(&self, name: &str) -> Result<Lock> {
        let path = self.folder("lock")?.join(name);
        let file = File::create(&path).map_err(TargetError::file(&path))?;
        file.lock().map_err(TargetError::file(&path))?;
        Ok(Lock { _file: file })
    }

    /// Writes a file as a whole or not at all.
    pub fn write(&self, path: &Path, data: &[u8]) -> Result<()> {
        let temporary = path.with_extension(format!("part{}", std::process::id()));
        // What a killed process of the same number left.
        let _ = fs::remove_file(&temporary);
        let written = File::create_new(&temporary)
            .and_then(|mut file| file.write_all(data))
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written.map_err(TargetError::file(path))
    }

    /// A scratch folder of our own; those of processes that are gone are removed first.
    pub fn scratch(&self) -> Result<Scratch> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let run = self.folder("run")?;
        self.sweep(&run);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = run.join(format!("{}-{number}", std::process::id()));
        let lock_path = run.join(format!("{}-{number}.lock", std::process::id()));
        let lock = File::create(&lock_path).map_err(TargetError::file(&lock_path))?;
        lock.lock().map_err(TargetError::file(&lock_path))?;
        fs::create_dir_all(&path).map_err(TargetError::file(&path))?;
        Ok(Scratch { path, _lock: lock })
    }

    /// Removes what killed processes left: every lock that nobody holds, with its folder.
    fn sweep(&self, run: &Path) {
        let Ok(entries) = fs::read_dir(run) else { return };
        for lock_path in entries.flatten().map(|e| e.path()) {
            if lock_path.extension().is_none_or(|e| e != "lock") {
                continue;
            }
            let Ok(file) = File::open(&lock_path) else { continue };
            if file.try_lock().is_ok() {
                let _ = fs::remove_dir_all(lock_path.with_extension(""));
                let _ = fs::remove_file(&lock_path);
            }
        }
    }
}

impl Scratch {
    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_file(self.path.with_extension("lock"));
    }
}

/// SHA-256 over several pieces, each with its length, in hexadecimal.
pub fn digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update((piece.len() as u64).to_le_bytes());
        hash.update(piece);
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// SHA-256 of these bytes as `sha256sum` prints it.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_runs_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let run = cache.folder("run").unwrap();
        fs::create_dir(run.join("1-0")).unwrap();
        fs::write(run.join("1-0/console"), "x").unwrap();
        fs::write(run.join("1-0.lock"), "").unwrap();
        let first = cache.scratch().unwrap();
        assert!(!run.join("1-0").exists() && !run.join("1-0.lock").exists());
        let second = cache.scratch().unwrap();
        assert!(first.path().exists() && second.path().exists());
        let path = first.path().to_path_buf();
        drop(first);
        assert!(!path.exists() && second.path().exists());
        drop(second);
        assert_eq!(fs::read_dir(&run).unwrap().count(), 0);
    }

    #[test]
    fn the_digest_tells_where_one_piece_ends() {
        assert_ne!(digest([&b"ab"[..], b"c"]), digest([&b"a"[..], b"bc"]));
    }

    #[test]
    fn without_a_home_it_says_so() {
        let error = Cache::locate(None, None).unwrap_err();
        assert!(error.to_string().contains("neither XDG_CACHE_HOME nor HOME"));
        let cache = Cache::locate(None, Some("/home/u".into())).unwrap();
        assert_eq!(cache.root(), Path::new("/home/u/.cache/latlab"));
    }
}
