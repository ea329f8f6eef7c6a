//! Programs that build: their output goes to a file, and a signal ends them with all their processes.

use crate::{Hooks, Step};
use latlab_target::{Result, TargetError, group};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a program's output goes.
#[derive(Clone, Debug)]
pub(super) struct Output {
    log: PathBuf,
    counts: bool,
}

impl Output {
    /// To the end of this file.
    pub fn kept(log: &Path) -> Self {
        Self { log: log.to_owned(), counts: false }
    }

    /// The same, and its lines that name a compiled file are counted for the user.
    pub fn counted(log: &Path) -> Self {
        Self { log: log.to_owned(), counts: true }
    }
}

/// Runs a program to its end.
///
/// # Errors
/// When it fails, with its first error; when it cannot be started; when the user stopped it.
pub(super) fn run(
    command: &mut Command,
    what: &str,
    output: &Output,
    hooks: &mut dyn Hooks,
) -> Result<()> {
    let log = &output.log;
    let open = || OpenOptions::new().create(true).append(true).open(log);
    let (out, errors) =
        open().and_then(|out| Ok((out.try_clone()?, out))).map_err(TargetError::file(log))?;
    let begun = fs::metadata(log).map_or(0, |m| m.len());
    // Its build uses none of our own make's jobs.
    command.stdin(Stdio::null()).stdout(out).stderr(errors);
    command.env("LC_ALL", "C").env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    hooks.tie(command);
    let program = command.get_program().to_string_lossy().into_owned();
    let (mut compiled, mut read) = (0, begun);
    let mut stopped = || {
        if output.counts {
            let text = tail(log, read).unwrap_or_default();
            read += text.len() as u64;
            compiled += text.lines().filter(|l| l.trim_start().starts_with("CC ")).count();
            hooks.step(Step::Compiling, None, &format!("{compiled} files"));
        }
        hooks.stopped()
    };
    let status = group::run(command, &mut stopped).map_err(TargetError::file(program.as_ref()))?;
    let status = status.ok_or(TargetError::Stopped)?;
    if status.success() {
        return Ok(());
    }
    Err(TargetError::Program {
        program: what.into(),
        message: complaint(log, begun).unwrap_or_else(|| status.to_string()),
        hint: format!("its output is in {}", log.display()),
    })
}

/// What a file has from an offset on.
fn tail(path: &Path, from: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    // As many characters as bytes: the length is added to the offset.
    Some(bytes.iter().map(|&b| if b.is_ascii() { b as char } else { '?' }).collect())
}

/// The first error in a log; without one its last line.
fn complaint(log: &Path, from: u64) -> Option<String> {
    let text = tail(log, from)?;
    let filled = || text.lines().map(str::trim).filter(|l| !l.is_empty());
    let is_error = |l: &&str| l.contains("error:") || l.contains("FAILED") || l.contains("***");
    filled().find(is_error).or_else(|| filled().next_back()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Silent;
    use std::time::Duration;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_first_error_of_this_program_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let output = Output::counted(&log);
        run(
            &mut shell("echo '  CC  a.o'; echo 'x.c: error: of before'"),
            "one",
            &output,
            &mut Silent::default(),
        )
        .unwrap();
        let script =
            "echo 'CC b.o'; echo 'b.c:1: error: no semicolon'; echo 'make: *** b.o'; exit 2";
        let error = run(&mut shell(script), "make", &output, &mut Silent::default()).unwrap_err();
        assert_eq!(error.to_string(), "make failed: b.c:1: error: no semicolon");
        assert!(error.hint().unwrap().ends_with("log"));
        assert!(fs::read_to_string(&log).unwrap().starts_with("  CC  a.o\n"));
        let silent =
            run(&mut shell("exit 3"), "make", &output, &mut Silent::default()).unwrap_err();
        assert!(silent.to_string().contains("exit status: 3"), "{silent}");
    }

    #[test]
    fn a_signal_ends_the_whole_group() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("mark");
        let script = format!("(sleep 1; touch {}) & wait", mark.display());
        let stopped = run(
            &mut shell(&script),
            "make",
            &Output::kept(&dir.path().join("log")),
            &mut Silent { stopped: true },
        );
        assert!(matches!(stopped, Err(TargetError::Stopped)));
        std::thread::sleep(Duration::from_millis(1_300));
        assert!(!mark.exists());
    }
}
