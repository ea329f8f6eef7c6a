//! The kernel module of the faults, built for a machine's kernel from Debian's headers.

use super::catalog::Kind;
use super::compiler::Compiler;
use super::kernel::{Kernel, busybox};
use super::{Host, built, find_program};
use crate::cache::digest;
use crate::debian::Archive;
use crate::spec::VmTarget;
use crate::{Arch, Result, TargetError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the module's file.
pub const MODULE: &str = "latlab_faults.ko";
const SOURCE: &str = "latlab_faults.c";
/// What it includes.
const INCLUDED: &str = "latlab_gpio.h";

/// The machine's kernel: Debian's, fetched if need be, or the one that was built for the purpose that it names.
pub fn kernel(
    host: &Host<'_>,
    kind: &Kind,
    target: &VmTarget,
    say: &mut dyn FnMut(&str),
) -> Result<Kernel> {
    if let Some(package) = built::resolve(host.cache, target)?.kernel {
        return Kernel::of_package(&package, &busybox(host.cache, kind, say)?);
    }
    Kernel::cached(host.cache, kind).map_or_else(|| Kernel::fetch(host.cache, kind, say), Ok)
}

/// The module for a machine's kernel, from the cache or built now.
pub fn build(
    host: &Host<'_>,
    kind: &Kind,
    target: &VmTarget,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf> {
    let kernel = kernel(host, kind, target, say)?;
    // A kernel may be built again with another configuration under the same name.
    let folder = target.build.as_ref().map(|p| built::folder(host.cache, &target.name, p));
    let record = folder.as_ref().and_then(|f| fs::read(f.join(built::RECORD)).ok());
    let source = host.source("faults", SOURCE, "fault module")?;
    let read = |file| fs::read(source.join(file)).map_err(TargetError::file(&source));
    let (code, included) = (read(SOURCE)?, read(INCLUDED)?);
    let pieces = [code.as_slice(), included.as_slice(), kernel.release.as_bytes()];
    let key = digest(pieces.into_iter().chain(record.as_deref()));
    let target = host.cache.folder("faults")?.join(format!("{}-{}.ko", kernel.release, &key[..16]));
    if target.is_file() {
        return Ok(target);
    }
    let headers = match folder {
        Some(folder) => folder.join("build"),
        None => headers(host, kind, &kernel, say)?,
    };
    say(&format!("building the fault module for {}", kernel.release));
    let scratch = host.cache.scratch()?;
    let work = scratch.path().join("module");
    fs::create_dir_all(&work).map_err(TargetError::file(&work))?;
    for file in [SOURCE, INCLUDED, "Kbuild"] {
        fs::copy(source.join(file), work.join(file))
            .map_err(TargetError::file(&source.join(file)))?;
    }
    make(kind.arch, &headers, &work, &source)?;
    let module = fs::read(work.join(MODULE)).map_err(TargetError::file(&work.join(MODULE)))?;
    host.cache.write(&target, &module)?;
    Ok(target)
}

/// Builds in `work`; the module's debug information names `source`, which lasts.
fn make(arch: Arch, headers: &Path, work: &Path, source: &Path) -> Result<()> {
    let compiler = Compiler::of(arch);
    for program in ["make", &compiler.program()] {
        find_program(program).ok_or_else(|| TargetError::NoProgram {
            program: program.into(),
            purpose: "building the fault module".into(),
            package: format!("make {}", compiler.package),
        })?;
    }
    let lasting = source.canonicalize().unwrap_or_else(|_| source.to_owned());
    let flags = format!("-fdebug-prefix-map={}={}", work.display(), lasting.display());
    // The kernel's build would take a path with blanks apart.
    let flags = if flags.contains(char::is_whitespace) { String::new() } else { flags };
    let output = Command::new("make")
        .arg("-s")
        .arg("-C")
        .arg(headers)
        .arg(format!("M={}", work.display()))
        .args(compiler.arguments())
        .arg(format!("KCFLAGS={flags}"))
        // Type information for BPF, made by a program that few have installed.
        .arg("CONFIG_DEBUG_INFO_BTF_MODULES=")
        .arg("modules")
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .output()
        .map_err(TargetError::file("make".as_ref()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text
        .lines()
        .find(|l| l.contains("error") || l.contains("ERROR") || l.contains("***"))
        .unwrap_or("no reason was given");
    Err(TargetError::Program {
        program: "make (fault module)".into(),
        message: line.trim().to_owned(),
        hint: "the kernel's headers and the cross compiler have to be whole: latlab vm clean --all"
            .into(),
    })
}

/// The headers of a kernel, unpacked together in one place, with their absolute paths fixed.
fn headers(
    host: &Host<'_>,
    kind: &Kind,
    kernel: &Kernel,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf> {
    let root = host.cache.folder("headers")?.join(&kernel.release);
    let folder = root.join("usr/src").join(format!("linux-headers-{}", kernel.release));
    if folder.is_dir() {
        return Ok(folder);
    }
    let _lock = host.cache.lock("fetch")?;
    // Another process may have made them meanwhile.
    if folder.is_dir() {
        return Ok(folder);
    }
    let own = format!("linux-headers-{}", kernel.release);
    let mut target = Archive::new(host.cache, kind.arch);
    let mut packages = vec![target.fetch(&own, say)?];
    let mut tools = None;
    for package in target.dependencies(&own, say)? {
        if package.starts_with("linux-headers-") {
            packages.push(target.fetch(&package, say)?);
        } else if package.starts_with("linux-kbuild-") {
            tools = Some(package);
        }
    }
    // The build tools run here: they come for our own processor.
    if let Some(package) = tools {
        let here = match std::env::consts::ARCH {
            "aarch64" => Arch::Aarch64,
            "arm" => Arch::Armv7,
            _ => Arch::X86_64,
        };
        packages.push(Archive::new(host.cache, here).fetch(&package, say)?);
    }
    let part = root.with_extension("part");
    let _ = fs::remove_dir_all(&part);
    fs::create_dir_all(&part).map_err(TargetError::file(&part))?;
    for package in packages {
        let status = Command::new("cp").arg("-a").arg(package.join("usr")).arg(&part).status();
        if !status.is_ok_and(|s| s.success()) {
            return Err(TargetError::Program {
                program: "cp".into(),
                message: "the headers could not be copied".into(),
                hint: "is the disk of the cache full?".into(),
            });
        }
    }
    let makefile = part.join("usr/src").join(&own).join("Makefile");
    let text = fs::read_to_string(&makefile).map_err(TargetError::file(&makefile))?;
    let text = text.replace("/usr/src/", &format!("{}/usr/src/", root.display()));
    fs::write(&makefile, text).map_err(TargetError::file(&makefile))?;
    fs::rename(&part, &root).map_err(TargetError::file(&root))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::vm::catalog;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn headers_that_another_process_unpacks_meanwhile_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let lock = cache.lock("fetch").unwrap();
        let (began, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            let found = scope.spawn(|| {
                let host = Host {
                    cache: &cache,
                    boards: None,
                    program: PathBuf::new(),
                    cwd: PathBuf::new(),
                    tie: |_| {},
                };
                let kernel = Kernel {
                    package: PathBuf::new(),
                    image: PathBuf::new(),
                    release: "6.1.0-1-rt-armmp".into(),
                    busybox: PathBuf::new(),
                };
                began.send(()).unwrap();
                headers(&host, catalog::find("armv7-rt").unwrap(), &kernel, &mut |s| panic!("{s}"))
            });
            begun.recv().unwrap();
            // Long enough for it to wait for the lock.
            std::thread::sleep(Duration::from_millis(200));
            let folder = "headers/6.1.0-1-rt-armmp/usr/src/linux-headers-6.1.0-1-rt-armmp";
            fs::create_dir_all(dir.path().join(folder)).unwrap();
            drop(lock);
            assert_eq!(found.join().unwrap().unwrap(), dir.path().join(folder));
        });
    }
}
