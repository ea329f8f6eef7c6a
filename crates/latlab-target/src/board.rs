//! Finds the static latlab for a target's processor (`make boards` → `dist/latlab-ARCH`).

use crate::vm::Host;
use crate::{Arch, Result, TargetError, search};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Path of the board build: in `named` (LATLAB_BOARDS), beside our own
/// program or in its `lib/latlab`, or in a `dist` folder above either the
/// program or the working directory that nobody else can write to.
pub fn find(arch: Arch, named: Option<&Path>, program: &Path, cwd: &Path) -> Result<PathBuf> {
    let file = format!("latlab-{}", arch.name());
    let beside = program.parent().map(|p| [p.join(&file), p.join("../lib/latlab").join(&file)]);
    let above = program.ancestors().skip(1).chain(cwd.ancestors());
    let found = match named {
        Some(folder) => search::first([folder.join(&file)], []),
        None => search::first(
            beside.into_iter().flatten(),
            above.map(|folder| folder.join("dist").join(&file)),
        ),
    };
    found.ok_or_else(|| TargetError::NoBoardBuild {
        arch: arch.name().into(),
        looked: match named {
            Some(folder) => folder.display().to_string(),
            None => {
                "the program's folder, its ../lib/latlab, and every dist/ above it and above the \
                working directory that only this user or root can write to"
                    .into()
            }
        },
    })
}

/// As [`find`]. Where there is none and latlab was built in a checkout that only this user or root
/// can write to, the checkout's `scripts/boards` builds it first.
///
/// # Errors
/// As [`find`]; and when the build fails.
pub fn find_or_build(host: &Host<'_>, arch: Arch, say: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let find = || find(arch, host.boards.as_deref(), &host.program, &host.cwd);
    let found = find();
    let script = match builder(&host.program) {
        Some(script) if found.is_err() && host.boards.is_none() => script,
        _ => return found,
    };
    let name = arch.name();
    say(&format!("no latlab for {name} is built; {} {name} builds it", script.display()));
    let mut command = Command::new(&script);
    // What it prints is no result.
    command.arg(name).stdin(Stdio::null()).stdout(io::stderr());
    (host.tie)(&mut command);
    let status = command.status().map_err(TargetError::file(&script))?;
    if !status.success() {
        return Err(TargetError::Program {
            program: format!("{} {name}", script.display()),
            message: status.to_string(),
            hint: "its messages are above; LATLAB_BOARDS names a folder of finished builds".into(),
        });
    }
    find()
}

/// Whether [`find_or_build`] can build.
pub(crate) fn can_build(host: &Host<'_>) -> bool {
    host.boards.is_none() && builder(&host.program).is_some()
}

/// `scripts/boards` of the checkout that the program was built in.
fn builder(program: &Path) -> Option<PathBuf> {
    let above = program.ancestors().skip(1).filter(|folder| folder.join("Cargo.toml").is_file());
    search::first([], above.map(|folder| folder.join("scripts/boards")))
}

/// Checks that a file is a program for this processor: the ELF header's class and machine.
/// Source: ELF specification 1.2, figure 1-3; e_machine 40 ARM, 62 x86-64, 183 AArch64.
pub fn check(path: &Path, program: &[u8], arch: Arch) -> Result<()> {
    let wrong = |reason: String| TargetError::Content {
        path: path.to_path_buf(),
        reason,
        hint: "make boards builds it anew".into(),
    };
    if program.len() < 20 || program[..4] != *b"\x7fELF" {
        return Err(wrong("this is not a program (no ELF header)".into()));
    }
    let machine = u16::from_le_bytes([program[18], program[19]]);
    let (expected, name) = match arch {
        Arch::Armv7 => (40, "32-bit ARM"),
        Arch::X86_64 => (62, "x86-64"),
        Arch::Aarch64 => (183, "64-bit ARM"),
    };
    if machine != expected {
        return Err(wrong(format!(
            "this program is not for {name} (its ELF machine number is {machine})"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_above_the_program_and_a_named_folder_is_the_only_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("dist")).unwrap();
        std::fs::create_dir_all(root.join("target/debug")).unwrap();
        std::fs::write(root.join("dist/latlab-armv7"), "x").unwrap();
        let program = root.join("target/debug/latlab");
        let found = find(Arch::Armv7, None, &program, Path::new("/")).unwrap();
        assert_eq!(found, root.join("dist/latlab-armv7"));
        let error = find(Arch::Armv7, Some(&root.join("empty")), &program, root).unwrap_err();
        assert_eq!(error.to_string(), "no latlab for armv7 is built");
        let hint = error.hint().unwrap();
        assert!(hint.contains("make boards") && hint.contains("empty"));
    }

    #[test]
    fn an_installed_program_has_its_own_before_those_of_a_checkout() {
        let dir = tempfile::tempdir().unwrap();
        let (prefix, checkout) = (dir.path().join("usr"), dir.path().join("checkout"));
        for folder in [prefix.join("bin"), prefix.join("lib/latlab"), checkout.join("dist")] {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("latlab-armv7"), "x").unwrap();
        }
        std::fs::remove_file(prefix.join("bin/latlab-armv7")).unwrap();
        let found = find(Arch::Armv7, None, &prefix.join("bin/latlab"), &checkout).unwrap();
        assert_eq!(found, prefix.join("bin/../lib/latlab/latlab-armv7"));
    }

    #[test]
    fn a_missing_build_is_made_by_the_checkout_that_the_program_is_in() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("checkout");
        std::fs::create_dir_all(root.join("scripts")).unwrap();
        std::fs::write(root.join("Cargo.toml"), "").unwrap();
        let script = root.join("scripts/boards");
        std::fs::write(&script, "#!/bin/sh\nmkdir -p dist && : >dist/latlab-$1\n").unwrap();
        let mode = |path: &Path, bits| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
        };
        [root.clone(), root.join("scripts"), script.clone()].iter().for_each(|p| mode(p, 0o755));
        let program = root.join("target/debug/latlab");
        assert_eq!(builder(&program), Some(script.clone()));
        // What somebody else may have written is not run.
        mode(&script, 0o757);
        assert_eq!(builder(&program), None);
        mode(&script, 0o755);
        std::fs::remove_file(root.join("Cargo.toml")).unwrap();
        assert_eq!(builder(&program), None);
        std::fs::write(root.join("Cargo.toml"), "").unwrap();

        let cache = crate::cache::Cache::locate(Some(dir.path().join("cache")), None).unwrap();
        let host = Host { cache: &cache, boards: None, program, cwd: root.clone(), tie: |_| {} };
        std::fs::write(&script, "#!/bin/sh\necho broken >&2; exit 3\n").unwrap();
        let failed = find_or_build(&host, Arch::Armv7, &mut |_| {}).unwrap_err();
        assert!(failed.to_string().contains("scripts/boards armv7 failed: exit status: 3"));
        let build = format!("#!/bin/sh\nmkdir {0}/dist; : >{0}/dist/latlab-$1\n", root.display());
        std::fs::write(&script, build).unwrap();
        let mut said = Vec::new();
        let found = find_or_build(&host, Arch::Armv7, &mut |s| said.push(s.to_owned())).unwrap();
        assert_eq!(found, root.join("dist/latlab-armv7"));
        assert!(said[0].starts_with("no latlab for armv7 is built; "), "{said:?}");
        // The second time it is there.
        find_or_build(&host, Arch::Armv7, &mut |s| panic!("{s}")).unwrap();
    }

    #[test]
    fn a_program_for_another_processor_is_told() {
        let mut elf = b"\x7fELF\x01\x01\x01".to_vec();
        elf.resize(18, 0);
        elf.extend([62, 0]);
        assert!(check(Path::new("f"), &elf, Arch::X86_64).is_ok());
        let error = check(Path::new("f"), &elf, Arch::Armv7).unwrap_err().to_string();
        assert_eq!(error, "f: this program is not for 32-bit ARM (its ELF machine number is 62)");
        assert!(check(Path::new("f"), b"#!/bin/sh", Arch::Armv7).is_err());
    }
}
