//! U-Boot from Debian's source, for a board.

use super::make::{Output, run};
use super::{Header, check_programs, epoch, make_in, read_record, tree, version_of, write_record};
use crate::board::UBoot;
use crate::{Hooks, Step};
use latlab_target::cache::{Cache, digest};
use latlab_target::vm::compiler::Compiler;
use latlab_target::{Arch, Result, TargetError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Its tools sign images with libcrypto.
const HEADERS: &[Header] = &[("openssl/evp.h", "libssl-dev")];

/// What U-Boot was built from; `BUILD.json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct BootLoaderRecord {
    /// Debian's package whose files it replaces.
    pub package: String,
    /// Version of Debian's source.
    pub version: String,
    /// File in `configs/`.
    pub config: String,
    /// First line of `gcc --version`.
    pub compiler: String,
    /// The clock of the build, seconds since 1970.
    pub epoch_s: u64,
    /// Of everything that it was built from.
    pub key: String,
}

/// Builds it, or finds it in the cache; with the folder of its files.
///
/// # Errors
/// When a program is missing, the archive does not deliver, the build fails, or the user stopped it.
pub fn build(
    cache: &Cache,
    board: &str,
    arch: Arch,
    u_boot: &UBoot,
    offline: bool,
    hooks: &mut dyn Hooks,
) -> Result<(BootLoaderRecord, PathBuf)> {
    let folder = cache.folder("u-boot")?.join(board);
    let build = folder.join("build");
    let known = || read_record::<BootLoaderRecord>(&folder);
    if offline {
        let known = known().filter(|r| r.config == u_boot.config);
        let record = known.ok_or_else(|| TargetError::Content {
            path: folder.clone(),
            reason: "U-Boot is not built, and --offline was given".into(),
            hint: "leave out --offline".into(),
        })?;
        return Ok((record, build));
    }
    let compiler = Compiler::of(arch);
    check_programs("U-Boot", &compiler, HEADERS)?;
    let tree = tree::u_boot(cache, arch, &u_boot.package, hooks)?;
    let compiler_version = version_of(&compiler)?;
    let pieces = [&tree.version, &u_boot.package, &u_boot.config, &compiler_version];
    let key = digest(pieces.map(|piece| piece.as_bytes()));
    let _lock = cache.lock(&format!("u-boot-{board}"))?;
    if let Some(record) = known().filter(|r| r.key == key) {
        return Ok((record, build));
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&build).map_err(TargetError::file(&build))?;
    let epoch_s = epoch(&tree)?;
    let log = folder.join("build.log");
    hooks.step(Step::Compiling, None, "");
    let make = || make_in(&tree, &build, &compiler, epoch_s);
    run(make().arg(&u_boot.config), "make (configuration of U-Boot)", &Output::kept(&log), hooks)?;
    run(&mut make(), "make (U-Boot)", &Output::counted(&log), hooks)?;
    let record = BootLoaderRecord {
        package: u_boot.package.clone(),
        version: tree.version,
        config: u_boot.config.clone(),
        compiler: compiler_version,
        epoch_s,
        key,
    };
    write_record(cache, &folder, &record)?;
    Ok((record, build))
}

/// A file that U-Boot's build makes, by the path of the same one in Debian's package.
///
/// # Errors
/// When the build has not made it.
pub fn file(build: &Path, path: &str) -> Result<Vec<u8>> {
    let name = Path::new(path).file_name().unwrap_or_default();
    let path = build.join(name);
    fs::read(&path).map_err(TargetError::file(&path))
}
