//! The engine of a cluster: a job array of Slurm for each board, a task for each experiment.
//!
//! ```text
//! submit: DIR/slurm/BOARD-HASH.json (experiments) ── sbatch --array=1-N[%1] ──▶ queue
//! task:   latlab fleet task FILE N, on a node ──▶ DIR/results/ID
//! ```
//!
//! Slurm queues, places and repeats after the loss of a node (`--requeue`); whether an experiment is finished is
//! decided by the directory below `results` alone, so that one that is queued twice is measured once.

use super::campaign::{self, UNREACHABLE, is_finished};
use super::local::{self, ATTEMPTS, Ended, Engine, Terms, say};
use super::queue::{append, one_line, shell_words};
use crate::cli::Global;
use crate::outcome::{HintExt, Outcome};
use crate::rundir::write_atomically;
use crate::term;
use anyhow::{Context, anyhow};
use latlab_analysis::fleet::campaign::{Campaign, Line, Plan};
use latlab_sys::signal;
use latlab_target::Target;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Tasks of an array; Slurm's own limit is 1001 unless it is configured (`MaxArraySize`).
const ARRAY_MAX: usize = 1000;
/// How often the queue is looked at.
const POLL: Duration = Duration::from_secs(2);
/// A line for each array that was submitted.
const ARRAYS: &str = "arrays.jsonl";

/// How it is submitted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Virtual machines of one board at the same time.
    pub jobs: usize,
    /// Print instead of submitting.
    pub dry_run: bool,
    /// Wait for the end.
    pub wait: bool,
}

/// The experiments of an array, as its tasks read them.
#[derive(Debug, Serialize, Deserialize)]
struct Tasks {
    terms: Terms,
    /// Length of the file of attempts at the submission: those before it say nothing of the board's state.
    attempts_from: u64,
    lines: Vec<Line>,
}

/// An array that was submitted.
#[derive(Debug, Serialize, Deserialize)]
struct Array {
    job: String,
    ids: Vec<String>,
}

/// Submits what is neither finished nor queued.
///
/// # Errors
/// When Slurm does not take it, or the directory cannot be written.
pub fn submit(
    global: &Global,
    dir: &Path,
    (campaign, plan): &(Campaign, Plan),
    options: Options,
) -> anyhow::Result<Outcome> {
    local::make_directories(dir)?;
    // Nodes have another working directory.
    let dir = &dir.canonicalize().with_context(|| dir.display().to_string())?;
    let slurm = dir.join("slurm");
    fs::create_dir_all(&slurm).with_context(|| slurm.display().to_string())?;
    let queued = if options.dry_run { BTreeSet::new() } else { queued(&slurm)? };
    let mut boards: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in plan.lines.iter().filter(|l| !is_finished(dir, l) && !queued.contains(&l.id)) {
        boards.entry(&line.board).or_default().push(line);
    }
    let attempts_from = fs::metadata(dir.join(ATTEMPTS)).map_or(0, |found| found.len());
    let mut jobs = Vec::new();
    for (board, lines) in &boards {
        let mut before: Option<String> = None;
        for lines in lines.chunks(ARRAY_MAX) {
            let lines: Vec<Line> = lines.iter().map(|l| (*l).clone()).collect();
            let tasks = Tasks { terms: Terms::of(campaign), attempts_from, lines };
            let file = slurm.join(name(board, &tasks));
            let words = sbatch(campaign, dir, &tasks, &file, options.jobs, before.as_deref())?;
            if options.dry_run {
                let mut out = term::stdout();
                writeln!(out, "sbatch {}", shell_words(&words))?;
                out.flush()?;
                continue;
            }
            write_atomically(&file, |to| Ok(serde_json::to_writer(to, &tasks)?))?;
            let job =
                run("sbatch", &words)?.trim().split(';').next().unwrap_or_default().to_owned();
            if job.is_empty() || !job.bytes().all(|b| b.is_ascii_digit()) {
                return Err(anyhow!("sbatch: no job number, but {job:?}"));
            }
            let ids = tasks.lines.iter().map(|l| l.id.clone()).collect();
            append(&slurm.join(ARRAYS), &Array { job: job.clone(), ids })?;
            // A virtual machine's tasks run side by side, and so do its arrays.
            before = (!is_machine(&tasks)).then(|| job.clone());
            jobs.push(job);
        }
    }
    if options.dry_run {
        return Ok(Outcome::Done);
    }
    let experiments: usize = boards.values().map(Vec::len).sum();
    let list = jobs.join(",");
    say(&match jobs.len() {
        0 => "nothing to submit: every experiment is finished or queued".to_owned(),
        n => format!("{experiments} experiments in {n} job arrays; scancel {list} removes them"),
    });
    if options.wait {
        while signal::stop_requested().is_none() && !self::queued(&slurm)?.is_empty() {
            signal::sleep(POLL);
        }
    }
    campaign::ended(global, plan, dir, options.wait)
}

/// Runs one experiment of an array, on a node.
///
/// # Errors
/// When the file is none of an array, or results cannot be written.
pub fn task(file: &Path, number: usize) -> anyhow::Result<Outcome> {
    let shown = file.display().to_string();
    let text = fs::read(file).with_context(|| shown.clone())?;
    let tasks: Tasks = serde_json::from_slice(&text)
        .with_context(|| format!("{shown}: no experiments of a job array"))
        .hint("latlab fleet submit --engine slurm writes it")?;
    let line = (number.checked_sub(1).and_then(|n| tasks.lines.get(n)))
        .ok_or_else(|| anyhow!("{shown}: no experiment {number} of {}", tasks.lines.len()))?;
    let dir = file.parent().and_then(Path::parent).context("the directory of the campaign")?;
    let engine = Engine::new(tasks.terms.clone(), dir)?;
    engine.share()?;
    // Two tasks of one experiment: the second one waits, and finds it finished.
    let path = dir.join("running").join(format!("{}.lock", line.id));
    let held = File::create(&path).with_context(|| path.display().to_string())?;
    held.lock().with_context(|| path.display().to_string())?;
    if is_finished(dir, line) {
        return Ok(Outcome::Done);
    }
    if unanswered(dir, &tasks, &line.board)? >= tasks.terms.quarantine {
        say(&format!("board {} does not answer: its other experiments wait", line.board));
        return Ok(Outcome::Code(UNREACHABLE));
    }
    Ok(match engine.experiment(line)? {
        Ended::Finished => Outcome::Done,
        Ended::Failed => Outcome::Code(1),
        Ended::Unreachable => Outcome::Code(UNREACHABLE),
        Ended::Stopped => signal::stop_requested().map_or(Outcome::Code(1), Outcome::Stopped),
    })
}

/// A try, as the file of attempts has it.
#[derive(Deserialize)]
struct Attempt {
    id: String,
    #[serde(default)]
    board: String,
    attempt: u32,
    exit_code: Option<i32>,
}

/// Experiments of a board in succession, the latest ones since the submission, whose target did not answer.
fn unanswered(dir: &Path, tasks: &Tasks, board: &str) -> anyhow::Result<u32> {
    let path = dir.join(ATTEMPTS);
    let mut file = File::open(&path).with_context(|| path.display().to_string())?;
    file.seek(SeekFrom::Start(tasks.attempts_from))?;
    let mut count = 0;
    for line in BufReader::new(file).lines() {
        // A line that another node has begun is none yet.
        let Ok(attempt) = serde_json::from_str::<Attempt>(&line?) else { continue };
        let is_ours = attempt.board == board && tasks.lines.iter().any(|l| l.id == attempt.id);
        match (is_ours, attempt.exit_code) {
            (true, Some(code))
                if code == i32::from(UNREACHABLE) && attempt.attempt >= tasks.terms.attempts =>
            {
                count += 1
            }
            (true, Some(code)) if code == i32::from(UNREACHABLE) => {}
            (false, _) => {}
            (true, _) => count = 0,
        }
    }
    Ok(count)
}

/// Whether the experiments run in a machine of their own, of which there may be several.
fn is_machine(tasks: &Tasks) -> bool {
    tasks.lines.first().is_some_and(|line| line.target.starts_with("vm:"))
}

/// File of an array's experiments, after what they are.
fn name(board: &str, tasks: &Tasks) -> String {
    let ids: Vec<&[u8]> = tasks.lines.iter().map(|l| l.id.as_bytes()).collect();
    let from = tasks.attempts_from.to_le_bytes();
    let hash = latlab_target::cache::digest(ids.into_iter().chain([&from[..]]));
    format!("{board}-{}.json", &hash[..12])
}

/// The words of `sbatch`.
fn sbatch(
    campaign: &Campaign,
    dir: &Path,
    tasks: &Tasks,
    file: &Path,
    jobs: usize,
    before: Option<&str>,
) -> anyhow::Result<Vec<String>> {
    let Some(line) = tasks.lines.first() else { return Ok(Vec::new()) };
    let at_once = if is_machine(tasks) { jobs } else { 1 };
    // By its path: a node starts it.
    let program = std::env::current_exe().context("our own program")?;
    let mut words = vec![
        "--parsable".to_owned(),
        format!("--job-name=latlab-{}-{}", campaign.name, line.board),
        format!("--array=1-{}%{at_once}", tasks.lines.len()),
        "--requeue".into(),
        "--open-mode=append".into(),
        format!("--chdir={}", dir.display()),
        // %: a name may not have one, but the directory may.
        format!("--output={}/log/slurm-%A_%a.log", dir.display().to_string().replace('%', "%%")),
    ];
    let machine = |l: &Line| match Target::parse(&l.target) {
        Ok(Target::Vm(vm)) => Some(vm.smp.unwrap_or(1)),
        _ => None,
    };
    // Kernels of a board may differ in their options.
    if let Some(cpus) = tasks.lines.iter().filter_map(machine).max() {
        words.push(format!("--cpus-per-task={cpus}"));
    }
    words.extend(before.map(|job| format!("--dependency=afterany:{job}")));
    words.extend(campaign.sbatch.iter().cloned());
    let board = campaign.board.iter().find(|b| b.name == line.board);
    words.extend(board.iter().flat_map(|b| b.sbatch.iter().cloned()));
    let command = [program.as_path(), Path::new("fleet"), Path::new("task"), file];
    let command: Vec<String> = command.iter().map(|w| w.display().to_string()).collect();
    words.push(format!("--wrap=exec {} \"$SLURM_ARRAY_TASK_ID\"", shell_words(&command)));
    Ok(words)
}

/// Identifiers of experiments that are in Slurm's queue, waiting or running.
fn queued(slurm: &Path) -> anyhow::Result<BTreeSet<String>> {
    let path = slurm.join(ARRAYS);
    let Ok(text) = fs::read_to_string(&path) else { return Ok(BTreeSet::new()) };
    let arrays: Vec<Array> = text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let words = ["--noheader", "--array", "--format=%F %K"].map(String::from);
    let list = run("squeue", &words)?;
    let mut ids = BTreeSet::new();
    for line in list.lines() {
        let mut fields = line.split_whitespace();
        let (Some(job), Some(task)) = (fields.next(), fields.next()) else { continue };
        let Some(array) = arrays.iter().rfind(|a| a.job == job) else { continue };
        let task = task.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        ids.extend(task.and_then(|n| array.ids.get(n)).cloned());
    }
    Ok(ids)
}

/// What a program of Slurm prints.
fn run(program: &str, words: &[String]) -> anyhow::Result<String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{program} cannot be started")).hint(
        "--engine slurm needs Slurm's commands here (Debian: slurm-client) and its configuration",
    )?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let line = one_line(&text);
        return Err(anyhow!("{program}: {}", line.trim_start_matches(&format!("{program}: "))))
            .hint("sinfo shows whether Slurm answers, and its partitions and nodes");
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(target: &str, n: usize) -> Tasks {
        let line = |i: usize| Line {
            id: format!("b-wakeup-{i}-00000000"),
            board: "b".into(),
            target: target.into(),
            kernel: None,
            experiment: "wakeup".into(),
            repetition: 1,
            command: vec!["wakeup".into()],
            seconds: 1,
            image: None,
            check: None,
            on_failure: Vec::new(),
        };
        let terms = Terms { campaign: "c".into(), attempts: 2, wait_s: 0, quarantine: 2 };
        Tasks { terms, attempts_from: 0, lines: (0..n).map(line).collect() }
    }

    #[test]
    fn a_board_measures_one_experiment_at_a_time_and_machines_side_by_side() {
        let campaign: Campaign = toml::from_str(
            "name = 'c'\nsbatch = ['--partition=lab']\n[[board]]\nname = 'b'\ntarget = 'ssh://b'\nsbatch = ['--constraint=b']",
        )
        .unwrap();
        let words = |target: &str, before| {
            let file = Path::new("/d/slurm/b's.json");
            sbatch(&campaign, Path::new("/d"), &tasks(target, 3), file, 8, before).unwrap()
        };
        let board = words("ssh://b", Some("7"));
        for word in
            ["--array=1-3%1", "--dependency=afterany:7", "--partition=lab", "--constraint=b"]
        {
            assert!(board.iter().any(|w| w == word), "{word}: {board:?}");
        }
        let wrap = board.last().unwrap();
        assert!(
            wrap.ends_with(r#" fleet task '/d/slurm/b'\''s.json' "$SLURM_ARRAY_TASK_ID""#),
            "{wrap}"
        );
        let machine = words("vm:armv7-rt,smp=2", None);
        for word in ["--array=1-3%8", "--cpus-per-task=2"] {
            assert!(machine.iter().any(|w| w == word), "{word}: {machine:?}");
        }
    }

    #[test]
    fn a_board_that_does_not_answer_is_left_alone_until_it_is_submitted_again() {
        let dir = tempfile::tempdir().unwrap();
        let attempt = |i: usize, attempt: u32, code: i32| {
            format!(
                "{{\"id\":\"b-wakeup-{i}-00000000\",\"board\":\"b\",\"attempt\":{attempt},\"exit_code\":{code}}}\n"
            )
        };
        let count = |text: &str, from: u64| {
            fs::write(dir.path().join(ATTEMPTS), text).unwrap();
            unanswered(dir.path(), &Tasks { attempts_from: from, ..tasks("ssh://b", 3) }, "b")
                .unwrap()
        };
        let two =
            [attempt(0, 1, 75), attempt(0, 2, 75), attempt(1, 1, 75), attempt(1, 2, 75)].concat();
        assert_eq!(count(&two, 0), 2);
        assert_eq!(count(&two, two.len() as u64), 0, "submitted again");
        assert_eq!(count(&(two.clone() + &attempt(2, 1, 0)), 0), 0, "it answers again");
        assert_eq!(count(&(two + "{\"id\": \"b-wak"), 0), 2, "a line that is being written");
    }
}
