//! Source trees of kernels: Debian's, with its patches for PREEMPT_RT, unpacked once.

use super::make::{Output, run};
use crate::Hooks;
use latlab_target::cache::Cache;
use latlab_target::debian::{Archive, Part};
use latlab_target::{Arch, Result, TargetError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source tree that nothing is built in.
#[derive(Clone, Debug)]
pub(super) struct SourceTree {
    pub folder: PathBuf,
    /// Debian's package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// Number of Debian's patches that were applied to it; for a kernel, those for PREEMPT_RT.
    pub patches: usize,
}

/// The architecture of this machine.
fn here() -> Arch {
    Arch::from_uname(std::env::consts::ARCH).unwrap_or(Arch::X86_64)
}

/// The newest source of a series (`6.1`) that the archive delivers, with patches for PREEMPT_RT where Debian has them.
///
/// # Errors
/// When the archive delivers none, a program fails, or a patch does not fit.
pub(super) fn kernel(
    cache: &Cache,
    series: &str,
    realtime: bool,
    hooks: &mut dyn Hooks,
) -> Result<SourceTree> {
    let _lock = cache.lock("fetch")?;
    let package = format!("linux-source-{series}");
    let mut archive = Archive::with_sources(cache, here());
    let mut last = None;
    for version in archive.versions(&package, &mut |w| hooks.say(w))? {
        let name = format!("linux-{version}{}", if realtime { "-rt" } else { "" });
        let folder = cache.folder("source")?.join(name.replace(':', "%3a"));
        let tree = |patches| SourceTree {
            folder: folder.clone(),
            package: package.clone(),
            version: version.clone(),
            patches,
        };
        if let Ok(text) = fs::read_to_string(marker(&folder)) {
            return Ok(tree(text.trim().parse().unwrap_or_default()));
        }
        // The archive of a security update is sometimes incomplete, and an older source will do.
        let fetched = fetch(&mut archive, &package, &version, realtime, hooks);
        match fetched {
            Ok((tar, debian)) => {
                let debian = debian.as_deref();
                let patches =
                    unpack(cache, &folder, &tar, debian.map(|d| (d, "patches-rt")), hooks)?;
                return Ok(tree(patches));
            }
            Err(error @ TargetError::Fetch { .. }) => {
                hooks.say(&error.to_string());
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| archive.cannot(&package, "apt's sources do not have it")))
}

/// The source of the boot loader whose package the archive has for an architecture.
///
/// # Errors
/// When the archive does not deliver it, a program fails, or a patch does not fit.
pub(super) fn u_boot(
    cache: &Cache,
    arch: Arch,
    package: &str,
    hooks: &mut dyn Hooks,
) -> Result<SourceTree> {
    let _lock = cache.lock("fetch")?;
    let mut archive = Archive::with_sources(cache, arch);
    let say = &mut |w: &str| hooks.say(w);
    let versions = archive.versions(package, say)?;
    let version = versions.into_iter().next().unwrap_or_default();
    let name = format!("u-boot-{version}").replace(':', "%3a");
    let folder = cache.folder("source")?.join(name);
    let patches = match fs::read_to_string(marker(&folder)) {
        Ok(text) => text.trim().parse().unwrap_or_default(),
        Err(_) => {
            let original = archive.fetch_source("u-boot", &version, Part::Original, say)?;
            let debian = archive.fetch_source("u-boot", &version, Part::Debian, say)?;
            unpack(cache, &folder, &original, Some((&debian, "patches")), hooks)?
        }
    };
    Ok(SourceTree { folder, package: "u-boot".into(), version, patches })
}

/// The file in a tree that is whole: the number of patches.
fn marker(folder: &Path) -> PathBuf {
    folder.join("latlab-patches")
}

fn fetch(
    archive: &mut Archive<'_>,
    package: &str,
    version: &str,
    realtime: bool,
    hooks: &mut dyn Hooks,
) -> Result<(PathBuf, Option<PathBuf>)> {
    let say = &mut |w: &str| hooks.say(w);
    let debian = match realtime {
        true => Some(archive.fetch_source("linux", version, Part::Debian, say)?),
        false => None,
    };
    let unpacked = archive.fetch_version(package, version, say)?;
    Ok((unpacked.join("usr/src").join(format!("{package}.tar.xz")), debian))
}

fn unpack(
    cache: &Cache,
    folder: &Path,
    tar: &Path,
    debian: Option<(&Path, &str)>,
    hooks: &mut dyn Hooks,
) -> Result<usize> {
    hooks.say(&format!("unpacking {}", folder.file_name().unwrap_or_default().display()));
    let scratch = cache.scratch()?;
    let part = folder.with_extension("part");
    let _ = fs::remove_dir_all(&part);
    extract(tar, &part, hooks)?;
    let mut patches = 0;
    if let Some((debian, kind)) = debian {
        let added = scratch.path().join("debian");
        extract(debian, &added, hooks)?;
        let folder = added.join(kind);
        for name in series(&folder)? {
            let mut command = Command::new("patch");
            command.args(["-p1", "-s", "-f", "--no-backup-if-mismatch", "-d"]).arg(&part);
            command.arg("-i").arg(folder.join(name));
            run(&mut command, "patch", &Output::kept(&scratch.path().join("log")), hooks)?;
            patches += 1;
        }
    }
    fs::write(marker(&part), format!("{patches}\n")).map_err(TargetError::file(&part))?;
    let _ = fs::remove_dir_all(folder);
    fs::rename(&part, folder).map_err(TargetError::file(folder))?;
    Ok(patches)
}

/// Unpacks an archive without its first folder.
pub(super) fn extract(tar: &Path, to: &Path, hooks: &mut dyn Hooks) -> Result<()> {
    fs::create_dir_all(to).map_err(TargetError::file(to))?;
    let mut command = Command::new("tar");
    command.args(["--no-same-owner", "--strip-components=1", "-xf"]).arg(tar).arg("-C").arg(to);
    let log = to.with_extension("log");
    let done = run(&mut command, "tar", &Output::kept(&log), hooks);
    let _ = fs::remove_file(log);
    done
}

/// Names of patches, in the order of quilt's file `series`; none where there is none.
pub(super) fn series(folder: &Path) -> Result<Vec<String>> {
    let path = folder.join("series");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(TargetError::File { path, reason: error }),
    };
    let names = text.lines().filter_map(|line| {
        let name = line.split('#').next()?.split_whitespace().next()?;
        Some(name.to_owned())
    });
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_read_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(series(dir.path()).unwrap(), Vec::<String>::new());
        let text = "# of quilt\nb.patch -p1\n\n a/first.patch # why\n#old.patch\n";
        fs::write(dir.path().join("series"), text).unwrap();
        assert_eq!(series(dir.path()).unwrap(), ["b.patch", "a/first.patch"]);
    }
}
