//! Plugins of QEMU's code generator, built from `plugin/` with the host's C compiler.

use super::Host;
use crate::cache::digest;
use crate::search::find_program;
use crate::{Result, TargetError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a plugin is built from; the first is what the compiler is given.
const HEADERS: [&str; 5] = ["decode.h", "plugin_api.h", "state.h", "state_arm.h", "state_x86.h"];
/// Raised when the compiler's options change.
const OPTIONS_VERSION: &[u8] = b"1";

/// A plugin that a machine runs with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugin {
    /// The shared object.
    pub file: PathBuf,
    /// Its arguments, `name` and `value`.
    pub arguments: Vec<(String, String)>,
}

/// The shared object of `plugin/NAME.c`, from the cache or built now; `qemu` is the program that is to load it.
///
/// # Errors
/// When QEMU was built without plugins, or there is no compiler, or no source in a trusted place.
pub fn build(
    host: &Host<'_>,
    name: &str,
    qemu: &str,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf> {
    require_support(qemu)?;
    let main = format!("{name}.c");
    let source = host.source("plugin", &main, "plugin")?;
    let files: Vec<&str> = [main.as_str()].into_iter().chain(HEADERS).collect();
    let mut texts = vec![OPTIONS_VERSION.to_vec()];
    for file in &files {
        let path = source.join(file);
        texts.push(fs::read(&path).map_err(TargetError::file(&path))?);
    }
    let key = digest(texts.iter().map(Vec::as_slice));
    let target = host.cache.folder("plugin")?.join(format!("{name}-{}.so", &key[..16]));
    if target.is_file() {
        return Ok(target);
    }
    let compiler = ["cc", "gcc", "clang"].into_iter().find(|c| find_program(c).is_some());
    let compiler = compiler.ok_or_else(|| TargetError::NoProgram {
        program: "cc".into(),
        purpose: "building the plugin that counts instructions".into(),
        package: "gcc libc6-dev".into(),
    })?;
    say("building the plugin that counts instructions");
    let scratch = host.cache.scratch()?;
    // What is compiled is what was read: nobody can exchange it in between.
    for (file, text) in files.iter().zip(&texts[1..]) {
        let path = scratch.path().join(file);
        fs::write(&path, text).map_err(TargetError::file(&path))?;
    }
    compile(compiler, scratch.path(), &main)?;
    let built = scratch.path().join("plugin.so");
    let object = fs::read(&built).map_err(TargetError::file(&built))?;
    host.cache.write(&target, &object)?;
    Ok(target)
}

fn compile(compiler: &str, folder: &Path, main: &str) -> Result<()> {
    let output = Command::new(compiler)
        .args(["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", "plugin.so", main])
        .current_dir(folder)
        .output()
        .map_err(TargetError::file(compiler.as_ref()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|l| l.contains("error")).unwrap_or("no reason was given");
    Err(TargetError::Program {
        program: format!("{compiler} (plugin)"),
        message: line.trim().to_owned(),
        hint: "the compiler needs the C library's headers: apt-get install gcc libc6-dev".into(),
    })
}

/// QEMU lists `-plugin` only where it was built with plugins.
fn require_support(qemu: &str) -> Result<()> {
    let Some(program) = find_program(qemu) else {
        return Ok(()); // What is missing is told, with all the rest, when the machine is prepared.
    };
    let output =
        Command::new(&program).arg("-help").output().map_err(TargetError::file(&program))?;
    let help = String::from_utf8_lossy(&output.stdout);
    if help.lines().any(|line| line.starts_with("-plugin ")) {
        return Ok(());
    }
    Err(TargetError::Program {
        program: qemu.into(),
        message: "it was built without plugins, which count the instructions".into(),
        hint: "Debian's QEMU has them; a QEMU of your own needs ./configure --enable-plugins"
            .into(),
    })
}
