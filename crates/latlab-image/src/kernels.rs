//! Which kernel an image gets: Debian's PREEMPT_RT or ordinary one, or a package of one's own.

use super::Hooks;
use latlab_target::cache::Cache;
use latlab_target::debian;
use latlab_target::debian::Archive;
use latlab_target::vm::catalog;
use latlab_target::vm::catalog::Kind;
use latlab_target::vm::kernel::Kernel;
use latlab_target::{Arch, Result, TargetError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the user chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Debian's PREEMPT_RT kernel.
    Rt,
    /// Debian's ordinary kernel.
    Stock,
    /// A linux-image package of one's own (`make bindeb-pkg`).
    Deb(PathBuf),
}

/// Not among the virtual machines, but a kernel like theirs.
const AARCH64: Kind = Kind {
    name: "aarch64",
    arch: Arch::Aarch64,
    meta: Some("linux-image-arm64"),
    series: "",
    flavour: "-arm64",
    about: "64-bit ARM, standard kernel",
};

impl Flavour {
    /// The kernel of Debian's that this is, or begins with.
    pub(super) fn kind(&self, arch: Arch) -> &'static Kind {
        let name = match (arch, self) {
            (Arch::Aarch64, Self::Stock) => return &AARCH64,
            (Arch::Aarch64, _) => "aarch64-rt",
            (_, Self::Stock) => "armv7",
            _ => "armv7-rt",
        };
        catalog::find(name).unwrap_or(&AARCH64)
    }

    /// The kernel, fetched or from the cache.
    pub fn kernel(
        &self,
        cache: &Cache,
        arch: Arch,
        offline: bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Kernel> {
        let kind = self.kind(arch);
        let debian = match (offline, Kernel::cached(cache, kind)) {
            (true, Some(mut kernel)) => {
                // The same one that was taken with the network there, also where the cache has several.
                if let Some(folder) = Archive::new(cache, arch).unpacked("busybox-static") {
                    kernel.busybox = folder.join("bin/busybox");
                }
                kernel
            }
            (true, None) => {
                return Err(TargetError::Fetch {
                    package: kind.meta.unwrap_or(kind.name).into(),
                    arch: arch.debian().into(),
                    message: "it is not in the cache, and --offline was given".into(),
                });
            }
            (false, cached) => match (Kernel::fetch(cache, kind, say), cached) {
                (Ok(kernel), _) => kernel,
                (
                    Err(error @ (TargetError::Fetch { .. } | TargetError::StaleLists { .. })),
                    Some(cached),
                ) => {
                    say(&format!("{error}; going on with {}", cached.release));
                    cached
                }
                (Err(error), _) => return Err(error),
            },
        };
        match self {
            Self::Deb(file) => own(cache, file, arch, debian.busybox),
            _ => Ok(debian),
        }
    }

    /// The kernel that configures packages in QEMU: a kernel of one's own may lack what that needs.
    pub(super) fn for_configuring(
        &self,
        cache: &Cache,
        arch: Arch,
        kernel: &Kernel,
        hooks: &mut dyn Hooks,
    ) -> Result<Kernel> {
        match self {
            Self::Deb(_) => Self::Rt.kernel(cache, arch, true, &mut |w| hooks.say(w)),
            _ => Ok(kernel.clone()),
        }
    }
}

/// How such a package is made.
const HINT: &str = "make ARCH=… CROSS_COMPILE=… bindeb-pkg makes linux-image-….deb";

/// Unpacks a linux-image package of the user's into the cache, under its checksum.
fn own(cache: &Cache, file: &Path, arch: Arch, busybox: PathBuf) -> Result<Kernel> {
    fs::File::open(file).map_err(TargetError::file(file))?;
    let wrong = |reason: String| TargetError::Content {
        path: file.to_path_buf(),
        reason,
        hint: HINT.into(),
    };
    let field = |name: &str| {
        let output = Command::new("dpkg-deb").arg("-f").arg(file).arg(name).output();
        let output = output.ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let is = field("Architecture").ok_or_else(|| wrong("this is not a Debian package".into()))?;
    if is != arch.debian() {
        return Err(wrong(format!("this package is for {is}, the board is {}", arch.debian())));
    }
    let folder = debian::unpack_own(cache, file, HINT)?;
    let kernel = Kernel::of_package(&folder, &busybox)
        .map_err(|_| wrong("there is no boot/vmlinuz-… in it".into()))?;
    if !kernel.modules_folder().is_dir() {
        return Err(wrong(format!("there is no lib/modules/{} in it", kernel.release)));
    }
    Ok(kernel)
}

/// Whether a pattern, in which `*` stands for any text, means this name.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return name == pattern };
    name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
}

/// Names of the device trees of a kernel's package that these patterns mean, sorted.
pub(super) fn device_trees(kernel: &Kernel, patterns: &[String]) -> Result<Vec<String>> {
    let root = kernel.device_tree("");
    let mut found = Vec::new();
    for pattern in patterns {
        // Those of 64-bit ARM are in a folder for each maker.
        let folder = pattern.rsplit_once('/').map_or("", |(folder, _)| folder);
        let names = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let names = names.filter_map(|e| e.file_name().into_string().ok());
        let names = names.map(|name| match folder {
            "" => name,
            folder => format!("{folder}/{name}"),
        });
        let before = found.len();
        found.extend(names.filter(|n| matches(pattern, n)));
        if found.len() == before {
            return Err(TargetError::Content {
                path: root,
                reason: format!("this kernel has no device tree {pattern}"),
                hint: "device_trees in the board's file names files of the kernel's package".into(),
            });
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}
