//! The engine of a laboratory that has LAVA: a job for each board and repetition.
//!
//! ```text
//! submit:  DIR/lava/BOARD-REPETITION-HASH.yaml ── lavacli jobs submit ──▶ queue
//! device:  latlab COMMAND --lava ID ──▶ signals of the results, and the run as lines of the job's log
//! collect: lavacli jobs logs, or saved logs ──▶ DIR/results/ID, DIR/lava/JOB.log
//! ```
//!
//! A job has all experiments of one repetition, in their order: deploying and booting a board takes longer than most
//! experiments, and a boot for each repetition is what repetitions are for. A device is not trusted, and neither is a
//! log: of it only runs of this campaign's experiments are taken, each as hostile input.

use super::campaign::{self, is_finished};
use super::lake;
use super::lava_job;
use super::local::{self, ATTEMPTS, say};
use super::queue::{append, one_line, shell_words};
use super::requirements;
use crate::cli::Global;
use crate::outcome::{HintExt, Outcome, format_error_chain};
use crate::rundir::{self, RUN_FILE, write_atomically};
use crate::term;
use anyhow::{Context, anyhow};
use latlab_analysis::fleet::campaign::{Board, Campaign, LavaBoard, Line, Plan};
use latlab_sys::signal;
use latlab_wire::run_lines::{Reader, Received};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A line for each job that was submitted.
const JOBS: &str = "jobs.jsonl";
/// Largest job definition of a laboratory.
const TEMPLATE_BYTES: u64 = 1 << 20;
/// Largest log.
const LOG_BYTES: u64 = 1 << 30;
/// Longest line of a log that is looked at.
const LINE_BYTES: u64 = 64 << 10;
/// How often the queue is looked at.
const POLL: Duration = Duration::from_secs(10);

/// How it is submitted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Write the jobs only.
    pub dry_run: bool,
    /// Wait for the end.
    pub wait: bool,
}

/// A job that was submitted.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    job: String,
    ids: Vec<String>,
}

/// Submits what is neither finished nor queued, after taking what finished jobs have.
///
/// # Errors
/// When a job cannot be made, the server does not take it, or the directory cannot be written.
pub fn submit(
    global: &Global,
    file: &Path,
    dir: &Path,
    planned: &(Campaign, Plan),
    options: Options,
) -> anyhow::Result<Outcome> {
    let (campaign, plan) = planned;
    local::make_directories(dir)?;
    let lava = dir.join("lava");
    fs::create_dir_all(&lava).with_context(|| lava.display().to_string())?;
    let queued = if options.dry_run { BTreeSet::new() } else { take_finished(dir, planned)? };
    // A job boots one kernel.
    let mut blocks: BTreeMap<(u32, &str, Option<&str>), Vec<&Line>> = BTreeMap::new();
    for line in plan.lines.iter().filter(|l| !is_finished(dir, l) && !queued.contains(&l.id)) {
        let block = (line.repetition, line.board.as_str(), line.kernel.as_deref());
        blocks.entry(block).or_default().push(line);
    }
    // All are made before any is submitted.
    let mut jobs = Vec::new();
    for ((_, name, kernel), lines) in &blocks {
        let board = campaign.board.iter().find(|b| b.name == **name);
        let (board, settings) = board
            .and_then(|b| Some((b, b.lava.as_ref()?)))
            .ok_or_else(|| anyhow!("board {name}: has no [board.lava]"))
            .hint(
                "[board.lava] names the job definition that deploys and boots: job = \"FILE.yaml\"",
            )?;
        let mut settings = settings.clone();
        if let Some(kernel) = kernel {
            let kernel = campaign.kernel.iter().find(|k| k.name == *kernel);
            settings.job = kernel
                .and_then(|k| k.job.clone())
                .ok_or_else(|| anyhow!("board {name}: a kernel without a job of LAVA"))
                .hint("job = \"FILE.yaml\" in [[kernel]] names the definition that deploys and boots it")?;
        }
        let text = definition(file, campaign, board, &settings, lines)?;
        let path = lava.join(job_name(lines, &text));
        write_atomically(&path, |to| to.write_all(text.as_bytes()))
            .with_context(|| path.display().to_string())?;
        jobs.push((path, lines));
    }
    if options.dry_run {
        let mut out = term::stdout();
        for (path, _) in &jobs {
            let words = client_words(campaign, &["jobs", "submit", &path.display().to_string()])?;
            writeln!(out, "lavacli {}", shell_words(&words))?;
        }
        out.flush()?;
        return Ok(Outcome::Done);
    }
    for (path, lines) in &jobs {
        let printed = client(campaign, &["jobs", "submit", &path.display().to_string()])?;
        let job = printed.trim().to_owned();
        // lavacli ends with 0 where the server refuses a job.
        if job.is_empty() || !job.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(anyhow!("{}: lavacli: {}", path.display(), one_line(&job)))
                .hint("lavacli jobs validate FILE checks it; those before it are submitted");
        }
        let ids = lines.iter().map(|l| l.id.clone()).collect();
        append(&lava.join(JOBS), &Job { job, ids })?;
    }
    say(&match jobs.len() {
        0 => "nothing to submit: every experiment is finished or queued".to_owned(),
        n => {
            format!("{} experiments in {n} jobs", jobs.iter().map(|(_, l)| l.len()).sum::<usize>())
        }
    });
    while options.wait && signal::stop_requested().is_none() {
        if take_finished(dir, planned)?.is_empty() {
            break;
        }
        signal::sleep(POLL);
    }
    campaign::ended(global, plan, dir, options.wait)
}

/// Takes the runs out of the logs of finished jobs: those of the server, or saved ones.
///
/// # Errors
/// When a log cannot be read, or results cannot be written.
pub fn collect(
    global: &Global,
    dir: &Path,
    planned: &(Campaign, Plan),
    logs: &[PathBuf],
) -> anyhow::Result<Outcome> {
    local::make_directories(dir)?;
    if logs.is_empty() {
        let queued = take_finished(dir, planned)?;
        if !queued.is_empty() {
            say(&format!("{} experiments are in jobs that are not finished", queued.len()));
        }
    }
    let all: Vec<&Line> = planned.1.lines.iter().collect();
    for log in logs {
        take(dir, planned, &all, log, &log.display().to_string())?;
    }
    campaign::ended(global, &planned.1, dir, false)
}

/// The text of a job.
fn definition(
    file: &Path,
    campaign: &Campaign,
    board: &Board,
    settings: &LavaBoard,
    lines: &[&Line],
) -> anyhow::Result<String> {
    let path = file.parent().unwrap_or(Path::new(".")).join(&settings.job);
    let what = format!("board {}: job {}", board.name, path.display());
    let hint = "a definition that deploys and boots, as your laboratory has it; docs/reference/fleet.md has an example";
    let size = fs::metadata(&path).with_context(|| what.clone()).hint(hint)?.len();
    if size > TEMPLATE_BYTES {
        return Err(anyhow!("{what}: larger than {} MiB", TEMPLATE_BYTES >> 20)).hint(hint);
    }
    let template = fs::read_to_string(&path).with_context(|| what.clone()).hint(hint)?;
    lava_job::job(&template, campaign, settings, lines, &steps(settings, lines))
        .with_context(|| what)
        .hint(hint)
}

/// What the device does. The shell ends at the first command that fails (`-e`), so that none of an experiment may.
fn steps(board: &LavaBoard, lines: &[&Line]) -> Vec<String> {
    // A pseudo-terminal is no reader of colours.
    let mut steps = vec!["export TERM=dumb NO_COLOR=1".to_owned()];
    steps.extend(board.setup.iter().cloned());
    for line in lines {
        let (id, name) = (&line.id, &line.experiment);
        let mut words = vec![board.latlab.clone(), line.command[0].clone()];
        words.extend(["--out", id, "--lava", id].map(str::to_owned));
        words.extend(line.command[1..].iter().cloned());
        steps.extend([
            format!("lava-test-set start {name}"),
            format!("code=0; {} || code=$?", shell_words(&words)),
            format!("echo \"latlab-run {id} exit $code\""),
            format!(
                "if [ $code = 0 ]; then lava-test-case {name} --result pass; else lava-test-case {name} --result fail; fi"
            ),
            // The device may have little space.
            format!("rm -rf {id}"),
            format!("lava-test-set stop {name}"),
        ]);
    }
    steps
}

/// File of a job, after what is in it.
fn job_name(lines: &[&Line], text: &str) -> String {
    let hash = latlab_target::cache::digest([text.as_bytes()]);
    let place = lines.first().map(|l| l.place("-")).unwrap_or_default();
    format!("{place}-{}.yaml", &hash[..12])
}

/// Takes the runs of jobs that are finished; identifiers of the experiments of the others.
fn take_finished(dir: &Path, planned: &(Campaign, Plan)) -> anyhow::Result<BTreeSet<String>> {
    let lava = dir.join("lava");
    let text = fs::read_to_string(lava.join(JOBS)).unwrap_or_default();
    let jobs = text.lines().filter_map(|l| serde_json::from_str::<Job>(l).ok());
    let mut queued = BTreeSet::new();
    for job in jobs {
        let log = lava.join(format!("{}.log", job.job));
        if log.exists() {
            continue;
        }
        let shown = client(&planned.0, &["jobs", "show", "--json", &job.job])?;
        let state: State = serde_json::from_str(&shown)
            .map_err(|_| anyhow!("lavacli jobs show {}: {}", job.job, one_line(&shown)))
            .hint("lavacli jobs list shows whether the server answers")?;
        if state.state != "Finished" {
            queued.extend(job.ids);
            continue;
        }
        let part = lava.join(format!("{}.part", job.job));
        save_log(&planned.0, &job.job, &part)?;
        let known: BTreeSet<&String> = job.ids.iter().collect();
        let lines: Vec<&Line> = planned.1.lines.iter().filter(|l| known.contains(&l.id)).collect();
        take(dir, planned, &lines, &part, &format!("job {}", job.job))?;
        fs::rename(&part, &log).with_context(|| log.display().to_string())?;
    }
    Ok(queued)
}

/// What `lavacli jobs show` tells.
#[derive(Deserialize)]
struct State {
    state: String,
}

/// Takes the runs of some experiments out of a log.
fn take(
    dir: &Path,
    planned: &(Campaign, Plan),
    lines: &[&Line],
    log: &Path,
    source: &str,
) -> anyhow::Result<()> {
    let file = File::open(log)
        .with_context(|| format!("{source}: cannot be read"))
        .hint("name the saved log of a job (lavacli jobs logs ID >LOG)")?;
    let mut reader = Reader::new(lines.iter().map(|l| l.id.clone()));
    let mut input = BufReader::new(file.take(LOG_BYTES));
    let mut line = Vec::new();
    // A longer line is read in parts: ours are short.
    while (&mut input).take(LINE_BYTES).read_until(b'\n', &mut line)? > 0 {
        reader.push(&line);
        line.clear();
    }
    let mut received = reader.finish();
    for line in lines.iter().filter(|l| !is_finished(dir, l)) {
        let got = received.remove(&line.id).unwrap_or_default();
        if got == Received::default() {
            continue;
        }
        let (code, problem) = match keep(dir, &planned.0, line, &got) {
            Ok(()) => (got.exit_code, None),
            Err(error) => (got.exit_code.filter(|c| *c != 0), Some(format_error_chain(&error))),
        };
        if let Some(problem) = problem {
            let problem = one_line(&problem);
            say(&format!("{source}: {}: {problem}", line.id));
            // What a console damaged is measured again; a command that failed is told as failed.
            if got.exit_code.is_some() && got.missing == 0 {
                let failed = dir.join("failed").join(&line.id);
                fs::create_dir_all(&failed).with_context(|| failed.display().to_string())?;
                fs::write(failed.join("reason.txt"), format!("{source}: {problem}\n"))?;
            }
        }
        let record = serde_json::json!({
            "id": line.id, "board": line.board, "attempt": 1, "exit_code": code, "source": source,
        });
        append(&dir.join(ATTEMPTS), &record)?;
    }
    Ok(())
}

/// Makes a result of what was received.
fn keep(dir: &Path, campaign: &Campaign, line: &Line, got: &Received) -> anyhow::Result<()> {
    if let Some(code) = got.exit_code.filter(|code| !matches!(code, 0 | 2)) {
        return Err(anyhow!("the command ended with exit code {code}"));
    }
    let Some(bytes) = &got.bytes else {
        return Err(match got.missing {
            0 => anyhow!("the log has no run of it"),
            n => anyhow!("{n} lines of its run are missing or damaged in the log"),
        });
    };
    let mut json = Vec::new();
    zstd::Decoder::new(bytes.as_slice())
        .and_then(|run| run.take(lake::RUN_BYTES + 1).read_to_end(&mut json))
        .context("its run cannot be decompressed")?;
    if json.len() as u64 > lake::RUN_BYTES {
        return Err(anyhow!("its run is larger than {} MiB", lake::RUN_BYTES >> 20));
    }
    let run = rundir::parse(&json).context("its run")?;
    lake::accept(&run).context("its run")?;
    if !run.complete {
        return Err(anyhow!("its run is incomplete"));
    }
    let out = dir.join("running").join(&line.id);
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| out.display().to_string())?;
    }
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    write_atomically(&out.join(RUN_FILE), |to| to.write_all(&json))?;
    write_atomically(&out.join("report.html"), |to| crate::output::html(&run, to))?;
    requirements::check(line, &out, got.exit_code)?;
    local::finish(dir, &campaign.name, line, &out)
}

/// The words of `lavacli`.
fn client_words(campaign: &Campaign, words: &[&str]) -> anyhow::Result<Vec<String>> {
    if campaign.lavacli.iter().any(|w| w.contains('@')) {
        return Err(anyhow!("lavacli: a token does not belong into a campaign")).hint(
            "lavacli identities add lab --uri URI --username USER --token TOKEN, and lavacli = [\"-i\", \"lab\"]",
        );
    }
    Ok(campaign.lavacli.iter().cloned().chain(words.iter().map(|w| (*w).to_owned())).collect())
}

fn command(campaign: &Campaign, words: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new("lavacli");
    command.args(client_words(campaign, words)?).stdin(Stdio::null());
    Ok(command)
}

const NO_CLIENT: &str = "--engine lava needs lavacli here (Debian: lavacli) and an identity of the server (lavacli identities add); \
                         --dry-run writes the jobs without it";

/// What `lavacli` prints.
fn client(campaign: &Campaign, words: &[&str]) -> anyhow::Result<String> {
    let output = command(campaign, words)?.output();
    let output = output.context("lavacli cannot be started").hint(NO_CLIENT)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        // Its errors are on standard output, those of Python on the other one.
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = if text.trim().is_empty() { errors } else { text };
        return Err(anyhow!("lavacli: {}", one_line(&said))).hint(NO_CLIENT);
    }
    Ok(text)
}

/// Saves the log of a job.
fn save_log(campaign: &Campaign, job: &str, path: &Path) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let mut command = command(campaign, &["jobs", "logs", "--raw", "--no-follow", job])?;
    let status = command.stdout(file).stderr(Stdio::null()).status();
    if !status.context("lavacli cannot be started").hint(NO_CLIENT)?.success() {
        let _ = fs::remove_file(path);
        return Err(anyhow!("lavacli jobs logs {job}: no log"))
            .hint("lavacli jobs logs JOB >LOG, then latlab fleet collect with LOG");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::run::{Run, SCHEMA_VERSION};
    use latlab_wire::run_lines;

    fn planned() -> (Campaign, Plan) {
        let text = "name = 'c'\n[[board]]\nname = 'b'\n[board.lava]\njob = 'b.yaml'\nsetup = ['uname']\n\
                    [[experiment]]\nname = 'w'\ncommand = ['wakeup', '-l', \"it's\"]\n";
        let campaign: Campaign = toml::from_str(text).unwrap();
        let plan = latlab_analysis::fleet::campaign::plan(&campaign).unwrap();
        (campaign, plan)
    }

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 1).unwrap()
    }

    fn a_run(id: &str) -> Vec<u8> {
        let run = Run {
            schema_version: SCHEMA_VERSION,
            id: id.into(),
            complete: true,
            started: "2026-01-01T00:00:00Z".into(),
            ..Run::default()
        };
        compressed(&serde_json::to_vec(&run).unwrap())
    }

    /// What becomes of an experiment whose log has these bytes and this exit code: its directory, and the reason.
    fn collected(bytes: &[u8], exit_code: &str) -> (bool, String) {
        let t = tempfile::tempdir().unwrap();
        let planned = planned();
        let line = &planned.1.lines[0];
        local::make_directories(t.path()).unwrap();
        let mut log: Vec<String> = run_lines::lines(&line.id, bytes).collect();
        log.extend(run_lines::lines("b-other-1-00000000", bytes));
        log.push(format!("latlab-run {} exit {exit_code}", line.id));
        let path = t.path().join("job.log");
        fs::write(&path, log.join("\r\n")).unwrap();
        take(t.path(), &planned, &[line], &path, "job 1").unwrap();
        let count = |of: &str| fs::read_dir(t.path().join(of)).unwrap().count();
        assert_eq!(count("results") + count("failed"), 1);
        let reason = t.path().join("failed").join(&line.id).join("reason.txt");
        (is_finished(t.path(), line), fs::read_to_string(reason).unwrap_or_default())
    }

    #[test]
    fn a_run_from_a_log_is_taken_as_hostile_input() {
        let uuid = "01234567-89ab-4cde-8f01-23456789abcd";
        assert_eq!(collected(&a_run(uuid), "0"), (true, String::new()));
        assert_eq!(collected(&a_run(uuid), "2"), (true, String::new()));
        let refused = |bytes: &[u8], code: &str, reason: &str| {
            let (finished, said) = collected(bytes, code);
            assert!(!finished && said.contains(reason), "{said}");
        };
        refused(&a_run(uuid), "1", "ended with exit code 1");
        refused(&a_run("../x"), "0", "no UUID");
        refused(b"nothing", "0", "cannot be decompressed");
        refused(&compressed(b"{}"), "0", "its run");
        refused(
            &compressed(&vec![b' '; (lake::RUN_BYTES + 1) as usize]),
            "0",
            "larger than 64 MiB",
        );
    }

    #[test]
    fn a_step_that_fails_does_not_end_the_job() {
        let (campaign, plan) = planned();
        let steps = steps(campaign.board[0].lava.as_ref().unwrap(), &[&plan.lines[0]]);
        let id = &plan.lines[0].id;
        assert_eq!(steps[1..3], ["uname", "lava-test-set start w"]);
        let measured =
            format!("code=0; latlab wakeup --out {id} --lava {id} -l 'it'\\''s' || code=$?");
        assert_eq!(steps[3], measured);
        assert_eq!(steps[4], format!("echo \"latlab-run {id} exit $code\""));
    }

    #[test]
    fn a_token_in_a_campaign_is_refused() {
        let (mut campaign, _) = planned();
        campaign.lavacli = vec!["--uri".into(), "http://me:secret@lab/RPC2".into()];
        let error = client_words(&campaign, &["jobs"]).unwrap_err();
        assert!(error.to_string().contains("a token does not belong"), "{error}");
    }
}
