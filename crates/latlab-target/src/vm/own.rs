//! A kernel of the user's own: its image, its release, and where its modules are.
//!
//! ```text
//! --kernel arch/arm/boot/zImage --modules-from DIR     make modules_install INSTALL_MOD_PATH=DIR
//! --kernel linux-image-6.12.0_armhf.deb                make bindeb-pkg
//! --kernel boot/vmlinuz-6.12.0                         modules in lib/modules/6.12.0 beside boot/
//! --kernel zImage                                      everything built in
//! ```
//! Headers of images: Linux, `Documentation/arch/x86/boot.rst` (bzImage: `HdrS` at 0x202, offset of
//! the version at 0x20e), `arch/arm/boot/compressed/head.S` (zImage: 0x016f2818 at 0x24),
//! `Documentation/arch/arm64/booting.rst` (Image: `ARM\x64` at 0x38).

use crate::cache::Cache;
use crate::debian;
use crate::modules::ModuleTree;
use crate::spec::VmTarget;
use crate::{Arch, Result, TargetError};
use std::fs;
use std::path::{Path, PathBuf};

/// What was found of it.
#[derive(Debug)]
pub struct OwnKernel {
    /// The image that QEMU starts.
    pub image: PathBuf,
    /// Its modules, where there are any here.
    pub modules: Option<ModuleTree>,
}

/// What an image says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    arch: Option<Arch>,
    release: Option<String>,
}

/// Finds image and modules of the kernel that a target names; none where it names none.
/// `scratch` is a folder of this machine's.
pub fn find(
    cache: &Cache,
    target: &VmTarget,
    arch: Arch,
    scratch: &Path,
) -> Result<Option<OwnKernel>> {
    let Some(named) = &target.kernel else {
        return match &target.modules_from {
            Some(path) => Err(TargetError::Content {
                path: path.clone(),
                reason: "these modules belong to a kernel of your own, and none is named".into(),
                hint: "--kernel FILE (kernel=FILE) names it".into(),
            }),
            None => Ok(None),
        };
    };
    let root = unpacked(cache, named)?;
    let image = if root.is_dir() { image_in(&root, named)? } else { root.clone() };
    let header = Header::read(&fs::read(&image).map_err(TargetError::file(&image))?);
    if let Some(other) = header.arch.filter(|a| *a != arch) {
        return Err(TargetError::Content {
            path: image,
            reason: format!("this kernel is for {}, the machine is {}", other.name(), arch.name()),
            hint: format!("choose another machine ({})", super::catalog::names()),
        });
    }
    let folder = match &target.modules_from {
        Some(path) => Some(named_folder(cache, path, &image, &header)?),
        None if root.is_dir() => trees(&root).into_iter().next(),
        None => beside(&image, &header),
    };
    let modules = folder.map(|f| ModuleTree::open_or_sort(&f, scratch)).transpose()?;
    Ok(Some(OwnKernel { image, modules }))
}

/// The folder of a package, unpacked once; any other path as it is.
fn unpacked(cache: &Cache, path: &Path) -> Result<PathBuf> {
    if path.extension().is_none_or(|e| e != "deb") {
        return Ok(path.to_path_buf());
    }
    debian::unpack_own(cache, path, "is the file whole?")
}

/// The kernel in a folder that looks as a root file system does.
fn image_in(root: &Path, named: &Path) -> Result<PathBuf> {
    let images: Vec<PathBuf> = [root.join("boot"), root.to_path_buf()]
        .iter()
        .flat_map(|folder| sorted(folder))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.is_file()
                && ["vmlinuz", "zImage", "bzImage", "Image"].iter().any(|n| name.starts_with(n))
        })
        .collect();
    let (reason, hint) = match images.as_slice() {
        [one] => return Ok(one.clone()),
        [] => (
            "there is no kernel in it".to_owned(),
            "boot/vmlinuz-RELEASE is looked for, as a package linux-image-RELEASE has it",
        ),
        several => (format!("there are {} kernels in it", several.len()), "name one of the files"),
    };
    Err(TargetError::Content { path: named.to_path_buf(), reason, hint: hint.into() })
}

/// The modules that the user named: of this kernel, or the only ones there.
fn named_folder(cache: &Cache, named: &Path, image: &Path, header: &Header) -> Result<PathBuf> {
    let root = unpacked(cache, named)?;
    fs::read_dir(&root).map_err(TargetError::file(&root))?;
    let trees = trees(&root);
    let wrong = |reason: String, hint: &str| {
        Err(TargetError::Content { path: named.to_path_buf(), reason, hint: hint.into() })
    };
    let names = trees.iter().map(|t| name_of(t)).collect::<Vec<_>>().join(", ");
    let fits = |tree: &&PathBuf| Some(name_of(tree)) == header.release_of(image);
    match (trees.iter().find(fits), trees.as_slice(), &header.release) {
        (Some(tree), ..) => Ok(tree.clone()),
        (None, [], _) => wrong(
            "there are no kernel modules in it".into(),
            "make modules_install INSTALL_MOD_PATH=FOLDER makes such a folder; a package \
             linux-image-RELEASE has one",
        ),
        (None, _, Some(release)) => wrong(
            format!("it has modules for {names}, and the kernel is {release}"),
            "a module is loaded by the kernel that it was built for only",
        ),
        (None, [one], None) => Ok(one.clone()),
        (None, ..) => wrong(
            format!("it has modules for {names}"),
            "name the folder of one of them, lib/modules/RELEASE",
        ),
    }
}

/// Modules that lie where an installation puts them: `lib/modules/RELEASE` beside the image, or beside
/// its folder. Only for a release that is known: any others are somebody else's.
fn beside(image: &Path, header: &Header) -> Option<PathBuf> {
    let release = header.release_of(image)?;
    let whole = std::path::absolute(image).ok()?;
    let folder = whole.parent()?;
    let found: Vec<PathBuf> =
        [Some(folder), folder.parent()].into_iter().flatten().flat_map(trees).collect();
    found.into_iter().find(|tree| name_of(tree) == release)
}

/// Folders of modules in a folder that is one, holds some, or looks as a root file system does.
fn trees(root: &Path) -> Vec<PathBuf> {
    let is_tree = |path: &PathBuf| {
        ["modules.dep", "modules.order"].iter().any(|name| path.join(name).is_file())
    };
    let whole = root.to_path_buf();
    if is_tree(&whole) {
        return vec![whole];
    }
    ["lib/modules", "usr/lib/modules", "."]
        .iter()
        .map(|below| sorted(&root.join(below)).into_iter().filter(is_tree).collect::<Vec<_>>())
        .find(|trees| !trees.is_empty())
        .unwrap_or_default()
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Header {
    fn read(image: &[u8]) -> Self {
        let at = |from: usize, magic: &[u8]| image.get(from..from + magic.len()) == Some(magic);
        if at(0x202, b"HdrS") {
            let offset = image.get(0x20e..0x210).map(|b| u16::from_le_bytes([b[0], b[1]]));
            let text = offset.and_then(|o| image.get(usize::from(o) + 0x200..));
            return Self { arch: Some(Arch::X86_64), release: text.and_then(first_word) };
        }
        let arch = if at(0x24, &0x016f_2818_u32.to_le_bytes()) {
            Some(Arch::Armv7)
        } else if at(0x38, b"ARM\x64") {
            Some(Arch::Aarch64)
        } else {
            None
        };
        // An Image is not compressed: what /proc/version will say stands in it.
        const BANNER: &[u8] = b"Linux version ";
        let release = (arch == Some(Arch::Aarch64))
            .then(|| image.windows(BANNER.len()).position(|w| w == BANNER))
            .flatten()
            .and_then(|found| image.get(found + BANNER.len()..))
            .and_then(first_word);
        Self { arch, release }
    }

    /// As the image says; otherwise as its name does (`vmlinuz-6.12.0`).
    fn release_of(&self, image: &Path) -> Option<String> {
        let by_name = || name_of(image).split_once('-').map(|(_, release)| release.to_owned());
        self.release.clone().or_else(by_name)
    }
}

/// Up to the first space or NUL; a release is short.
fn first_word(bytes: &[u8]) -> Option<String> {
    let word = bytes.iter().take(64).take_while(|b| b.is_ascii_graphic()).copied().collect();
    String::from_utf8(word).ok().filter(|w| !w.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bzimage(release: &str) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x80_u16.to_le_bytes());
        let text = format!("{release} (me@home) #1 SMP\0");
        image[0x280..0x280 + text.len()].copy_from_slice(text.as_bytes());
        image
    }

    fn zimage() -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[0x24..0x28].copy_from_slice(&0x016f_2818_u32.to_le_bytes());
        image
    }

    /// A folder with files of these names, each with this content.
    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    /// What is found of `kernel` and `modules_from` in a folder: image, folder of modules, below it.
    fn found(
        dir: &tempfile::TempDir,
        arch: Arch,
        kernel: &str,
        from: Option<&str>,
    ) -> std::result::Result<(String, Option<String>), String> {
        let target = VmTarget {
            kernel: Some(dir.path().join(kernel)),
            modules_from: from.map(|f| dir.path().join(f)),
            ..VmTarget::default()
        };
        let cache = Cache::at(dir.path().join("cache"));
        let own = find(&cache, &target, arch, &dir.path().join("scratch"));
        let below = |path: &Path| {
            path.strip_prefix(dir.path()).unwrap_or(path).to_string_lossy().into_owned()
        };
        let own = own.map_err(|e| e.to_string())?.ok_or("none")?;
        Ok((below(&own.image), own.modules.map(|m| below(m.folder()))))
    }

    #[test]
    fn images_say_what_they_are() {
        let x86 = Header { arch: Some(Arch::X86_64), release: Some("6.12.0-own".into()) };
        assert_eq!(Header::read(&bzimage("6.12.0-own")), x86);
        assert_eq!(Header::read(&zimage()), Header { arch: Some(Arch::Armv7), release: None });
        let mut image = vec![0; 0x400];
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        image.extend_from_slice(b"Linux version 6.6.1 (me@home)");
        let arm64 = Header { arch: Some(Arch::Aarch64), release: Some("6.6.1".into()) };
        assert_eq!(Header::read(&image), arm64);
        assert_eq!(Header::read(b"short"), Header::default());
        // An offset that points behind the end.
        let mut bad = bzimage("x");
        bad[0x20e..0x210].copy_from_slice(&0xffff_u16.to_le_bytes());
        assert_eq!(Header::read(&bad).release, None);
    }

    #[test]
    fn modules_are_found_beside_a_kernel_of_the_same_release() {
        let dir = folder(&[
            ("boot/vmlinuz", &bzimage("6.12.0-own")),
            ("lib/modules/6.12.0-own/modules.dep", b""),
            ("lib/modules/6.1.0/modules.dep", b""),
            ("other/zImage-6.6.1", &zimage()),
            ("other/zImage", &zimage()),
            ("other/usr/lib/modules/6.6.1/modules.dep", b""),
        ]);
        let x86 = found(&dir, Arch::X86_64, "boot/vmlinuz", None);
        assert_eq!(x86, Ok(("boot/vmlinuz".into(), Some("lib/modules/6.12.0-own".into()))));
        let named = found(&dir, Arch::Armv7, "other/zImage-6.6.1", None).unwrap();
        assert_eq!(named.1.as_deref(), Some("other/usr/lib/modules/6.6.1"));
        // Nobody knows whose modules these are, unless the user says so.
        assert_eq!(found(&dir, Arch::Armv7, "other/zImage", None).unwrap().1, None);
        let said = found(&dir, Arch::Armv7, "other/zImage", Some("other")).unwrap();
        assert_eq!(said.1.as_deref(), Some("other/usr/lib/modules/6.6.1"));
    }

    #[test]
    fn what_does_not_belong_together_is_told() {
        let dir = folder(&[
            ("vmlinuz", &bzimage("6.12.0-own")),
            ("zImage", &zimage()),
            ("m/lib/modules/6.1.0/modules.dep", b""),
            ("m/lib/modules/6.6.1/modules.order", b""),
            ("empty/readme", b""),
            ("k.deb", b"no package"),
        ]);
        let error = |arch, kernel, from| found(&dir, arch, kernel, from).unwrap_err();
        let other = error(Arch::Armv7, "vmlinuz", None);
        assert!(other.contains("this kernel is for x86_64, the machine is armv7"), "{other}");
        let release = error(Arch::X86_64, "vmlinuz", Some("m"));
        assert!(
            release.contains("it has modules for 6.1.0, 6.6.1, and the kernel is 6.12.0-own"),
            "{release}"
        );
        let several = error(Arch::Armv7, "zImage", Some("m"));
        assert!(several.ends_with("it has modules for 6.1.0, 6.6.1"), "{several}");
        let none = error(Arch::Armv7, "zImage", Some("empty"));
        assert!(none.contains("there are no kernel modules in it"), "{none}");
        assert!(error(Arch::Armv7, "zImage", Some("nowhere")).contains("nowhere: "));
        assert!(error(Arch::Armv7, "empty", None).contains("there is no kernel in it"));
        assert!(error(Arch::Armv7, "k.deb", None).contains("k.deb: dpkg-deb cannot unpack it"));
    }
}
