//! The files that a virtual machine starts from: kernel, modules, device trees, busybox.

use super::catalog::Kind;
use crate::cache::Cache;
use crate::debian::Archive;
use crate::modules::{ModuleTree, depmod, no_depmod};
use crate::{Arch, Result, TargetError};
use std::fs;
use std::path::{Path, PathBuf};

/// What was fetched for one kind of machine.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Folder of the unpacked kernel package.
    pub package: PathBuf,
    /// `vmlinuz`.
    pub image: PathBuf,
    /// Release, as `uname -r` will say.
    pub release: String,
    /// Static busybox for the architecture.
    pub busybox: PathBuf,
}

impl Kernel {
    /// What the cache holds; asks nothing of the network.
    pub fn cached(cache: &Cache, kind: &Kind) -> Option<Self> {
        let archive = Archive::new(cache, kind.arch);
        let busybox = archive.cached("busybox-static")?.join("bin/busybox");
        let pointer = cache.root().join("vms").join(kind.name);
        let package = PathBuf::from(fs::read_to_string(pointer).ok()?.trim());
        Self::in_package(&package, &busybox).ok()
    }

    /// Fetches what is missing or newer, and remembers it.
    pub fn fetch(cache: &Cache, kind: &Kind, say: &mut dyn FnMut(&str)) -> Result<Self> {
        let _lock = cache.lock("fetch")?;
        let mut archive = Archive::new(cache, kind.arch);
        let busybox = archive.fetch("busybox-static", say)?.join("bin/busybox");
        let prefix = format!("linux-image-{}", kind.series);
        let mut names = match kind.meta {
            Some(meta) => archive.dependencies(meta, say)?,
            None => Vec::new(),
        };
        names.retain(|d| d.starts_with(&prefix) && d.ends_with(kind.flavour));
        for name in archive.matching(&prefix, kind.flavour, say)? {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let package = archive.fetch_first(&names, say)?;
        let kernel = Self::in_package(&package, &busybox)?;
        kernel.make_dependencies()?;
        let pointer = cache.folder("vms")?.join(kind.name);
        cache.write(&pointer, format!("{}\n", package.display()).as_bytes())?;
        Ok(kernel)
    }

    /// A kernel in an unpacked package that is not Debian's own.
    pub fn of_package(package: &Path, busybox: &Path) -> Result<Self> {
        let kernel = Self::in_package(package, busybox)?;
        kernel.make_dependencies()?;
        Ok(kernel)
    }

    fn in_package(package: &Path, busybox: &Path) -> Result<Self> {
        let boot = package.join("boot");
        let image = fs::read_dir(&boot)
            .map_err(TargetError::file(&boot))?
            .flatten()
            .map(|e| e.path())
            .find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz-")))
            .ok_or_else(|| TargetError::Content {
                path: boot,
                reason: "there is no vmlinuz in it".into(),
                hint: "latlab vm clean, then fetch again".into(),
            })?;
        let name = image.file_name().unwrap_or_default().to_string_lossy();
        let release = name.trim_start_matches("vmlinuz-").to_owned();
        Ok(Self { package: package.to_path_buf(), image, release, busybox: busybox.to_path_buf() })
    }

    /// `/lib/modules/RELEASE` in the package.
    pub fn modules_folder(&self) -> PathBuf {
        self.package.join("lib/modules").join(&self.release)
    }

    /// The modules with their dependencies.
    pub fn modules(&self) -> Result<ModuleTree> {
        ModuleTree::open(&self.modules_folder())
    }

    /// A device tree of the package by file name.
    pub fn device_tree(&self, name: &str) -> PathBuf {
        self.package.join("usr/lib").join(format!("linux-image-{}", self.release)).join(name)
    }

    /// Debian makes `modules.dep` when a package is installed; here depmod does it in the unpacked tree.
    fn make_dependencies(&self) -> Result<()> {
        if self.modules_folder().join("modules.dep").is_file() {
            return Ok(());
        }
        let mut command = depmod();
        command.arg("-b").arg(&self.package).arg(&self.release);
        let output = command.output().map_err(|_| no_depmod())?;
        if output.status.success() {
            return Ok(());
        }
        Err(TargetError::Program {
            program: "depmod".into(),
            message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            hint: "latlab vm clean, then fetch again".into(),
        })
    }
}

/// Static busybox for a machine, fetched if it is not there.
pub fn busybox(cache: &Cache, kind: &Kind, say: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let mut archive = Archive::new(cache, kind.arch);
    let folder = match archive.cached("busybox-static") {
        Some(folder) => folder,
        None => {
            let _lock = cache.lock("fetch")?;
            archive.fetch("busybox-static", say)?
        }
    };
    Ok(folder.join("bin/busybox"))
}

/// Drivers that the agent needs to be heard, and that a job may need; those that a kernel has built in or lacks are left out.
pub fn transport_modules(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["virtio_pci", "virtio_console"],
        Arch::Armv7 | Arch::Aarch64 => &["virtio_mmio", "virtio_console"],
    }
}
