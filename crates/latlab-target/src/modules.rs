//! The folder of one kernel's modules, `/lib/modules/RELEASE`, on this machine.

use crate::{Result, TargetError};
use flate2::read::GzDecoder;
use latlab_wire::modules::Dependencies;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The modules of one kernel.
#[derive(Clone, Debug)]
pub struct ModuleTree {
    folder: PathBuf,
    known: Dependencies,
}

impl ModuleTree {
    /// Reads `modules.dep` and `modules.builtin` in `/lib/modules/RELEASE`.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("modules.dep");
        let text = std::fs::read_to_string(&path).map_err(TargetError::file(&path))?;
        Ok(Self::parse(folder, &text))
    }

    /// As [`Self::open`]; where nobody ran depmod yet, what it would write is asked of it, and the
    /// folder is left as it is. `scratch` is an empty folder.
    pub fn open_or_sort(folder: &Path, scratch: &Path) -> Result<Self> {
        if folder.join("modules.dep").is_file() {
            return Self::open(folder);
        }
        // depmod knows a kernel's modules as BASE/lib/modules/RELEASE only.
        let release = folder.file_name().unwrap_or_default();
        let base = scratch.join("depmod/lib/modules");
        std::fs::create_dir_all(&base).map_err(TargetError::file(&base))?;
        let whole = std::path::absolute(folder).map_err(TargetError::file(folder))?;
        symlink(whole, base.join(release)).map_err(TargetError::file(&base))?;
        let mut command = depmod();
        command.arg("-n").arg("-b").arg(scratch.join("depmod")).arg(release);
        let output = command.output().map_err(|_| no_depmod())?;
        if !output.status.success() {
            return Err(TargetError::Content {
                path: folder.into(),
                reason: format!("depmod: {}", String::from_utf8_lossy(&output.stderr).trim()),
                hint: "make modules_install INSTALL_MOD_PATH=FOLDER makes a folder that is whole"
                    .into(),
            });
        }
        Ok(Self::parse(folder, &String::from_utf8_lossy(&output.stdout)))
    }

    fn parse(folder: &Path, dep: &str) -> Self {
        let builtin = std::fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        Self { folder: folder.to_path_buf(), known: Dependencies::parse(dep, &builtin) }
    }

    /// The folder, `…/lib/modules/RELEASE`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Paths, relative to the folder, of these modules and all that they need,
    /// in loading order. What is built in needs no file.
    pub fn resolve<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<String>> {
        self.known.resolve(names).map_err(|unknown| TargetError::Content {
            path: self.folder.clone(),
            reason: format!("this kernel has no module {}", unknown.0),
            hint: "modules= takes names of the kernel's modules, joined by +".into(),
        })
    }

    /// As [`Self::resolve`], leaving out the names that this kernel does not have.
    pub fn resolve_known(&self, names: &[&str]) -> Vec<String> {
        self.known.resolve_known(names)
    }
}

/// Where depmod is, which is not in an ordinary user's PATH.
pub fn depmod_path() -> Option<PathBuf> {
    let installed = ["/sbin/depmod", "/usr/sbin/depmod"].map(PathBuf::from);
    installed.into_iter().find(|p| p.is_file()).or_else(|| crate::search::find_program("depmod"))
}

/// depmod, to be run.
pub fn depmod() -> Command {
    Command::new(depmod_path().unwrap_or_else(|| "depmod".into()))
}

/// What to say where depmod is missing.
pub fn no_depmod() -> TargetError {
    TargetError::NoProgram {
        program: "depmod".into(),
        purpose: "sorting a kernel's modules".into(),
        package: "kmod".into(),
    }
}

/// The content of a module's file, which distributions compress in three ways. Not every kernel
/// that has compressed modules can take them apart itself.
pub fn content(path: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).map_err(TargetError::file(path))?;
    let mut plain = Vec::new();
    let unpacked = match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).map(|_| plain),
        Some("zst") => zstd::decode_all(bytes.as_slice()),
        Some("xz") => return by_xz(path),
        _ => Ok(bytes),
    };
    unpacked.map_err(TargetError::file(path))
}

fn by_xz(path: &Path) -> Result<Vec<u8>> {
    let output =
        Command::new("xz").arg("-dc").arg(path).output().map_err(|_| TargetError::NoProgram {
            program: "xz".into(),
            purpose: "a compressed kernel module".into(),
            package: "xz-utils".into(),
        })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(TargetError::Content {
        path: path.into(),
        reason: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        hint: "the file is damaged: install the modules again".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_folder_that_nobody_sorted_is_sorted_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, scratch) = (dir.path().join("6.1.0-own"), dir.path().join("scratch"));
        std::fs::create_dir_all(folder.join("kernel")).unwrap();
        std::fs::write(folder.join("modules.order"), "").unwrap();
        let tree = ModuleTree::open_or_sort(&folder, &scratch);
        if matches!(tree, Err(TargetError::NoProgram { .. })) && std::env::var_os("CI").is_none() {
            // Past the capture of the test's output: `scripts/test` counts it.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no depmod here\n");
            return;
        }
        assert!(tree.unwrap().resolve(&["virtio"]).unwrap_err().to_string().contains("no module"));
        assert!(!folder.join("modules.dep").exists());
    }

    #[test]
    fn compressed_modules_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(b"\x7fELF").unwrap();
        std::fs::write(at("a.ko.gz"), gz.finish().unwrap()).unwrap();
        std::fs::write(at("a.ko.zst"), zstd::encode_all(&b"\x7fELF"[..], 1).unwrap()).unwrap();
        std::fs::write(at("a.ko"), b"\x7fELF").unwrap();
        for name in ["a.ko", "a.ko.gz", "a.ko.zst"] {
            assert_eq!(content(&at(name)).unwrap(), b"\x7fELF", "{name}");
        }
        std::fs::write(at("b.ko.zst"), b"no").unwrap();
        assert!(content(&at("b.ko.zst")).unwrap_err().to_string().contains("b.ko.zst: "));
    }
}
