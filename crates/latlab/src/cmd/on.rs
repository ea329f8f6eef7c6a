//! `--on TARGET`: runs the same command line elsewhere and brings back what it left.
//!
//! The words that the user typed are passed on as they are, less `--on` and
//! with the paths of results replaced ([`Mapping`]); the target's latlab
//! parses them again.

use crate::cmd::vm;
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::term;
use anyhow::{Context, anyhow, bail};
use latlab_sys::files::random;
use latlab_sys::signal;
use latlab_target::labgrid::Place;
use latlab_target::pull::{Mapping, Receiver};
use latlab_target::ssh::{self, Board, Connection};
use latlab_target::vm::Host;
use latlab_target::{Target, TargetError, board};
use latlab_wire::frame::Job;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Commands that work on files here, or on targets themselves.
const AT_THE_DESK: [&str; 10] = [
    "vm",
    "image",
    "view",
    "report",
    "export",
    "compare",
    "history",
    "fleet",
    "man",
    "completions",
];

/// Runs this process's command line on `target`.
pub fn run(target: &str, command: &str) -> anyhow::Result<Outcome> {
    let target = Target::parse(target).with_hint()?;
    if AT_THE_DESK.contains(&command) {
        return Err(anyhow!(
            "{command} reads files of this machine; --on {target:?} has no effect",
            target = short(&target)
        ))
        .hint("leave out --on, which is for commands that measure or record");
    }
    let words: Vec<String> =
        crate::cli::words().iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let (words, mut mapping) = Mapping::rewrite(&without_on(&words));
    if command == "record" {
        mapping = mapping.with_default_recording();
    }
    if let Some(taken) = mapping.taken(&std::env::current_dir()?) {
        let what = if taken.is_dir() { "it has a run already" } else { "is there already" };
        return Err(anyhow!("{}: {what}", taken.display()))
            .hint("name a new directory or file; results of a target never replace existing ones");
    }
    match target {
        Target::Local => Err(anyhow!("--on local: this is the local machine")),
        Target::Vm(target) => {
            let argv = std::iter::once("/bin/latlab".to_owned()).chain(words).collect();
            let job = Job { argv, ..Job::default() };
            let finished = vm::execute(&target, job, vm::Plan { mapping, ..vm::Plan::default() })?;
            Ok(Outcome::Code(finished.code))
        }
        target @ (Target::Ssh(_) | Target::Labgrid(_)) => on_board(&target, words, mapping),
    }
}

/// Runs a command line on a board; what it leaves comes back, and then leaves the board.
fn on_board(target: &Target, words: Vec<String>, mapping: Mapping) -> anyhow::Result<Outcome> {
    with_board(target, |board| {
        let run = run_name()?;
        let live = term::stderr_is_terminal();
        let argv = std::iter::once("/bin/latlab".to_owned()).chain(words).collect();
        let job = Job { argv, env: vm::passed_environment(live), ..Job::default() };
        ssh::start(board, &job, &run).with_hint()?;
        bring_back(board, &run, live, mapping)
    })
}

/// `latlab --on ssh://… fetch [RUN]`: what a lost connection left on the board.
pub fn fetch(target: &str, run: Option<&str>) -> anyhow::Result<Outcome> {
    let parsed = Target::parse(target).with_hint()?;
    if !matches!(parsed, Target::Ssh(_) | Target::Labgrid(_)) {
        return Err(anyhow!(
            "fetch needs --on ssh://… or labgrid:…: {target} has no runs to fetch"
        ))
        .hint("latlab --on ssh://user@board fetch RUN");
    }
    with_board(&parsed, |board| {
        let kept = ssh::runs(board).with_hint()?;
        let Some(run) = run else {
            let mut out = term::stdout();
            kept.iter().try_for_each(|run| writeln!(out, "{run}"))?;
            out.flush()?;
            return Ok(Outcome::Done);
        };
        if !kept.iter().any(|k| k == run) {
            let names = if kept.is_empty() { "none".to_owned() } else { kept.join(", ") };
            return Err(anyhow!("{target}: no run {run:?} on the board"))
                .hint(format!("runs there: {names}"));
        }
        bring_back(board, run, term::stderr_is_terminal(), Mapping::of_fetched_run())
    })
}

fn with_board(
    target: &Target,
    work: impl FnOnce(&Board<'_>) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    with_connection(target, |connection, host| {
        let find = |arch| board::find_or_build(host, arch, &mut vm::say);
        let board = Board::install(connection, &find, &mut vm::say).with_hint()?;
        work(&board)
    })
}

/// Whether this process is asked to stop.
fn stop_requested() -> bool {
    signal::stop_requested().is_some()
}

/// Works with a board that ssh reaches. A place of labgrid is acquired before, and released when all is done.
///
/// # Errors
/// Those of `work`; when there is no way to the board.
pub(super) fn with_connection<T>(
    target: &Target,
    work: impl FnOnce(&Connection, &Host<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let cache = vm::cache()?;
    let host = vm::host(&cache)?;
    let scratch = cache.scratch().with_hint()?;
    let (place, ssh) = match target {
        Target::Labgrid(target) => {
            let place = Place::acquire(target, stop_requested, &mut vm::say).with_hint()?;
            let ssh = place.ssh().with_hint()?;
            (Some(place), ssh)
        }
        Target::Ssh(ssh) => (None, ssh.clone()),
        Target::Local | Target::Vm(_) => bail!("{}: not a board", short(target)),
    };
    let connection = Connection::new(&ssh, scratch.path(), stop_requested).with_hint()?;
    if let Some(place) = place.as_ref().filter(|place| place.boots()) {
        place.wait(&connection).with_hint()?;
    }
    work(&connection, &host)
}

fn bring_back(
    board: &Board<'_>,
    run: &str,
    live: bool,
    mapping: Mapping,
) -> anyhow::Result<Outcome> {
    let mut receiver = Receiver::new(&std::env::current_dir()?, mapping.clone());
    let mut console = vm::Terminal::new(&board.connection.target().to_string(), mapping);
    let followed = ssh::follow(board, run, live, &mut console, &mut receiver);
    let code = match followed {
        // The disk here may be full: on the board nothing is lost.
        Err(error @ (TargetError::File { .. } | TargetError::Content { .. })) => {
            let target = board.connection.target();
            let remedy = match &error {
                TargetError::File { .. } => "free some space here".to_owned(),
                other => other.hint().unwrap_or_default(),
            };
            return Err(error)
                .with_context(|| format!("the run {run} is kept on the board"))
                .hint(format!("{remedy}, then: latlab --on {target} fetch {run}"));
        }
        followed => followed.with_hint()?,
    };
    vm::say_moved(&receiver);
    let unreadable = vm::render_pages(&receiver);
    ssh::forget(board, run).with_hint()?;
    Ok(Outcome::Code(if unreadable && code == 0 { 1 } else { code }))
}

/// A name that nobody else uses: seconds since 1970, so that runs are listed in their order, and 64 random bits. Two hosts may
/// have the same process number in the same second, as containers do.
pub(super) fn run_name() -> anyhow::Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let bytes = random().context("/dev/urandom: no random number for the name of a run")?;
    Ok(format!("{now}-{:016x}", u64::from_le_bytes(bytes)))
}

fn short(target: &Target) -> String {
    match target {
        Target::Local => "local".into(),
        Target::Ssh(ssh) => ssh.to_string(),
        Target::Labgrid(place) => place.to_string(),
        Target::Vm(vm) => format!("vm:{}", vm.name),
    }
}

/// The command line without `--on X` and `--on=X`; what follows `--` is the measured command's.
fn without_on(words: &[String]) -> Vec<String> {
    let mut kept = Vec::with_capacity(words.len());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word.clone());
            kept.extend(words.cloned());
            break;
        }
        if word == "--on" {
            words.next();
        } else if !word.starts_with("--on=") {
            kept.push(word.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_one_second_and_process_have_two_names() {
        let names: Vec<String> = (0..100).map(|_| run_name().unwrap()).collect();
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        let is_plain = |c: char| c.is_ascii_hexdigit() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(is_plain)), "{names:?}");
    }

    #[test]
    fn only_our_own_on_is_taken_out() {
        let words =
            ["--on", "vm:armv7-rt", "record", "--on=x", "--", "sh", "--on", "y"].map(String::from);
        assert_eq!(without_on(&words), ["record", "--", "sh", "--on", "y"]);
    }
}
