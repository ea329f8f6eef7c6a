//! The initial RAM disk: busybox, latlab as process 1, the kernel modules that are needed, and the job.
//!
//! It is two archives one behind the other. The first changes only with its
//! content and is cached under the hash of it; it is not compressed, because
//! an emulated CPU unpacks more slowly than it copies. The second holds the job.

use crate::cache::{Cache, digest};
use crate::cpio::Archive;
use crate::modules::{self, ModuleTree};
use crate::{Result, TargetError};
use latlab_wire::frame::Job;
use std::fs;
use std::path::{Path, PathBuf};

/// A file that goes into a RAM disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Where it is here.
    pub from: PathBuf,
    /// Where it will be, without the leading slash.
    pub to: String,
    /// Permissions.
    pub mode: u32,
}

/// What the cached archive is made of.
#[derive(Debug)]
pub struct Base<'a> {
    /// Static busybox; none for a machine that brings its own programs.
    pub busybox: Option<&'a Path>,
    /// latlab's board build.
    pub latlab: &'a Path,
    /// The kernel's modules, and which of them (paths within their folder).
    pub modules: Option<(&'a ModuleTree, &'a [String])>,
    /// Anything else.
    pub extras: &'a [Extra],
}

/// Where modules are put in the RAM disk.
pub fn module_path(path: &str) -> String {
    // It is put there without its compression.
    let name = path.rsplit('/').next().unwrap_or(path);
    format!("/latlab/modules/{}.ko", name.split(".ko").next().unwrap_or(name))
}

impl Base<'_> {
    /// The archive, from the cache if the same was made before.
    pub fn build(&self, cache: &Cache) -> Result<Vec<u8>> {
        let files = self.read()?;
        let pieces: Vec<Vec<u8>> =
            files.iter().map(|(path, mode, _)| format!("{path} {mode:o}").into_bytes()).collect();
        let key = digest(
            pieces
                .iter()
                .map(Vec::as_slice)
                .chain(files.iter().map(|(_, _, data)| data.as_slice())),
        );
        let path = cache.folder("initramfs")?.join(format!("{}.cpio", &key[..32]));
        if let Ok(bytes) = fs::read(&path) {
            return Ok(bytes);
        }
        let bytes = Self::archive(&files);
        cache.write(&path, &bytes)?;
        Ok(bytes)
    }

    fn archive(files: &[(String, u32, Vec<u8>)]) -> Vec<u8> {
        let mut archive = Archive::default();
        for folder in ["proc", "sys", "dev", "tmp", "run", "root", "etc", "work"] {
            archive.directory(folder);
        }
        archive.device("dev/console", 5, 1);
        archive.device("dev/null", 1, 3);
        for (path, mode, data) in files {
            archive.file(path, *mode, data);
        }
        archive.symlink("init", "bin/latlab");
        archive.finish()
    }

    fn read(&self) -> Result<Vec<(String, u32, Vec<u8>)>> {
        let load = |path: &Path| fs::read(path).map_err(TargetError::file(path));
        let mut files = vec![("bin/latlab".to_owned(), 0o755, load(self.latlab)?)];
        if let Some(busybox) = self.busybox {
            files.push(("bin/busybox".into(), 0o755, load(busybox)?));
        }
        if let Some((tree, paths)) = self.modules {
            for path in paths {
                let to = module_path(path).trim_start_matches('/').to_owned();
                files.push((to, 0o644, modules::content(&tree.folder().join(path))?));
            }
        }
        for extra in self.extras {
            let to = extra.to.trim_start_matches('/').to_owned();
            let module = to.starts_with("latlab/modules/");
            let data = if module { modules::content(&extra.from)? } else { load(&extra.from)? };
            files.push((to, extra.mode, data));
        }
        Ok(files)
    }
}

/// The second archive: what this machine is to do.
pub fn job_archive(job: &Job) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.file("latlab/job.json", 0o600, &serde_json::to_vec(job).unwrap_or_default());
    archive.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_is_built_once_and_other_content_anew() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("latlab");
        fs::write(&program, "one").unwrap();
        let cache = Cache::at(dir.path().join("cache"));
        let base = Base { busybox: None, latlab: &program, modules: None, extras: &[] };
        let first = base.build(&cache).unwrap();
        assert_eq!(first, base.build(&cache).unwrap());
        let count = || fs::read_dir(cache.root().join("initramfs")).unwrap().count();
        assert_eq!(count(), 1);
        fs::write(&program, "two").unwrap();
        assert_ne!(first, base.build(&cache).unwrap());
        assert_eq!(count(), 2);
    }

    #[test]
    fn a_missing_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let base =
            Base { busybox: None, latlab: Path::new("/no/latlab"), modules: None, extras: &[] };
        let error = base.build(&Cache::at(dir.path())).unwrap_err().to_string();
        assert!(error.starts_with("/no/latlab: "), "{error}");
    }
}
