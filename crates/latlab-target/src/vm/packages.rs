//! `--package NAME`: files of a Debian package in the machine, for programs to compare with.
//!
//! Only what programs need at run time is taken: `bin`, `sbin`, `lib` and their
//! like below `usr`. Dependencies have to be named too.

use crate::cache::Cache;
use crate::debian::Archive;
use crate::initramfs::Extra;
use crate::{Arch, Result, TargetError};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Folders of a package that programs need.
const TAKEN: [&str; 8] = ["bin", "sbin", "lib", "lib64", "usr/bin", "usr/sbin", "usr/lib", "etc"];

/// The files of these packages, fetched if they are not in the cache.
pub fn files(
    cache: &Cache,
    arch: Arch,
    names: &[String],
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Extra>> {
    let mut archive = Archive::new(cache, arch);
    let mut extras = Vec::new();
    for name in names {
        let folder = match archive.cached(name) {
            Some(folder) => folder,
            None => archive.fetch(name, say)?,
        };
        for taken in TAKEN {
            below(&folder, &folder.join(taken), &mut extras)?;
        }
    }
    Ok(extras)
}

fn below(root: &Path, folder: &Path, extras: &mut Vec<Extra>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries.flatten() {
        let path = entry.path();
        let to = path.clone();
        let path = resolved(root, path);
        // Character set converters are as large as everything else together.
        if entry.file_name() == "gconv" {
            continue;
        }
        // A link is followed: the machine gets a copy.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_dir() {
            below(root, &path, extras)?;
            continue;
        }
        let to = to.strip_prefix(root).map_err(|_| TargetError::Content {
            path: path.clone(),
            reason: "this file is outside its package".into(),
            hint: String::new(),
        })?;
        extras.push(Extra {
            to: to.to_string_lossy().into_owned(),
            mode: metadata.permissions().mode(),
            from: path,
        });
    }
    Ok(())
}

/// An absolute link of a package means a file of that package, not one of this machine's.
fn resolved(root: &Path, path: PathBuf) -> PathBuf {
    match fs::read_link(&path) {
        Ok(target) if target.is_absolute() => {
            root.join(target.strip_prefix("/").unwrap_or(&target))
        }
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_in_the_package_and_converters_stay_away() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in ["lib/arch", "lib64", "usr/lib/gconv", "usr/share/doc"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["lib/arch/ld.so", "usr/lib/gconv/x", "usr/share/doc/y"] {
            fs::write(root.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("/lib/arch/ld.so", root.join("lib64/ld.so")).unwrap();
        let mut extras = Vec::new();
        for taken in TAKEN {
            below(root, &root.join(taken), &mut extras).unwrap();
        }
        let names: Vec<&str> = extras.iter().map(|e| e.to.as_str()).collect();
        assert_eq!(names, ["lib/arch/ld.so", "lib64/ld.so"]);
        assert_eq!(extras[1].from, root.join("lib/arch/ld.so"));
    }
}
