//! A directory for the files of the probes, gone on every way out.
//!
//! It is removed when dropped; what a SIGKILL left behind is removed at the
//! next start, by the process id in its name.

use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = "latlab-bench-";

/// The directory.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes one below `parent`, after removing those whose process is gone.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Empties it: a killed probe leaves its files.
    pub fn clear(&self) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = match entry.file_type().is_ok_and(|t| t.is_dir()) {
                true => std::fs::remove_dir_all(path),
                false => std::fs::remove_file(path),
            };
        }
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.0) {
            log::warn!("{} is left behind: {e}", self.0.display());
        }
    }
}

fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if let Some(pid) = pid
            && !Path::new(&format!("/proc/{pid}")).exists()
            && Path::new("/proc/self").exists()
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_process_left_is_removed_and_ours_too() {
        let parent = std::env::temp_dir().join(format!("latlab-temp-test-{}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        // No process has this id: pid_max is at most 2^22.
        let stale = parent.join("latlab-bench-99999999");
        std::fs::create_dir_all(stale.join("sub")).unwrap();
        let dir = TempDir::create(&parent).unwrap();
        assert!(!stale.exists());
        std::fs::write(dir.path().join("file"), b"x").unwrap();
        dir.clear();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists());
        std::fs::remove_dir(&parent).unwrap();
    }
}
