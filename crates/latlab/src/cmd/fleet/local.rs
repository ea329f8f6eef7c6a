//! The engine of one host: boards side by side, on each one experiment after the other.
//!
//! A virtual machine has host CPUs of its own while it measures, and an experiment on this host all of
//! them. CPUs and boards are locked by files, so that two campaigns of one user do not meet either.

use super::campaign::{self, UNREACHABLE, is_finished};
use super::requirements;
use crate::cli::Global;
use crate::outcome::{HintExt, Outcome};
use crate::program::own_program;
use crate::rundir::{RUN_FILE, write_atomically};
use crate::term;
use anyhow::{Context, anyhow};
use latlab_analysis::fleet::campaign::{Campaign, Line, Plan};
use latlab_model::units::CpuId;
use latlab_sys::{policy, process, signal};
use latlab_target::Target;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A line each time that a command was started.
pub const ATTEMPTS: &str = "attempts.jsonl";
/// How often a lock or a command is looked at.
const POLL: Duration = Duration::from_millis(100);

/// What an engine has to know of a campaign.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terms {
    /// Its name.
    pub campaign: String,
    /// Tries of an experiment whose target does not answer.
    pub attempts: u32,
    /// Seconds between two tries.
    pub wait_s: u64,
    /// Experiments in succession without an answer after which the others of the board wait.
    pub quarantine: u32,
}

impl Terms {
    /// Those of a campaign.
    pub fn of(campaign: &Campaign) -> Self {
        Self {
            campaign: campaign.name.clone(),
            attempts: campaign.attempts,
            wait_s: campaign.wait_s,
            quarantine: campaign.quarantine,
        }
    }
}

/// Runs experiments on this host. Its threads share it.
pub struct Engine<'a> {
    terms: Terms,
    dir: &'a Path,
    program: PathBuf,
    locks: PathBuf,
    cpus: Vec<CpuId>,
    attempts: Mutex<File>,
    /// Images that are on the cards of boards.
    written: Mutex<BTreeMap<String, PathBuf>>,
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its run is whole.
    Finished,
    /// The command failed.
    Failed,
    /// The target does not answer.
    Unreachable,
    /// A signal stopped it.
    Stopped,
}

/// Runs what is not finished.
///
/// # Errors
/// When the directory cannot be written, or another process runs this campaign.
pub fn submit(
    global: &Global,
    dir: &Path,
    (campaign, plan): &(Campaign, Plan),
    jobs: usize,
) -> anyhow::Result<Outcome> {
    let engine = Engine::new(Terms::of(campaign), dir)?;
    lock(&engine.attempts)
        .try_lock()
        .map_err(|_| anyhow!("{}: another process runs this campaign", dir.display()))
        .hint("latlab fleet status shows how far it is")?;
    let mut boards: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in plan.lines.iter().filter(|l| !is_finished(dir, l)) {
        engine.cpus_of(line)?;
        boards.entry(&line.board).or_default().push(line);
    }
    let queue: Mutex<VecDeque<Vec<&Line>>> = Mutex::new(boards.into_values().collect());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(lines) = lock(&queue).pop_front() {
                    engine.board(&lines);
                }
            });
        }
    });
    campaign::ended(global, plan, dir, true)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a remark on stderr.
pub fn say(text: &str) {
    let _ = writeln!(term::stderr(), "latlab: {text}");
}

/// Makes the directories of a campaign.
///
/// # Errors
/// When one cannot be made.
pub fn make_directories(dir: &Path) -> anyhow::Result<()> {
    for name in ["results", "running", "failed", "log"] {
        let dir = dir.join(name);
        fs::create_dir_all(&dir)
            .with_context(|| format!("{}: cannot be made", dir.display()))
            .hint("name a directory that this user may write to: --dir DIR")?;
    }
    Ok(())
}

impl<'a> Engine<'a> {
    /// The engine for a campaign whose results are in `dir`.
    ///
    /// # Errors
    /// When a directory or file of it cannot be made.
    pub fn new(terms: Terms, dir: &'a Path) -> anyhow::Result<Self> {
        make_directories(dir)?;
        let attempts = File::options().create(true).append(true).open(dir.join(ATTEMPTS));
        Ok(Self {
            terms,
            dir,
            program: own_program()?,
            locks: crate::cmd::vm::cache()?.folder("locks")?,
            cpus: policy::allowed()?,
            attempts: Mutex::new(attempts.with_context(|| dir.display().to_string())?),
            written: Mutex::default(),
        })
    }

    /// Keeps an engine of this host away from the campaign as long as this one lives.
    ///
    /// # Errors
    /// When one runs it.
    pub fn share(&self) -> anyhow::Result<()> {
        (lock(&self.attempts).try_lock_shared())
            .map_err(|_| anyhow!("{}: another process runs this campaign", self.dir.display()))
            .hint("latlab fleet status shows how far it is")
    }

    /// All experiments of a board, until it does not answer any more.
    fn board(&self, lines: &[&Line]) {
        let mut unreachable = 0;
        for line in lines {
            let ended = self.experiment(line).unwrap_or_else(|error| {
                say(&format!("{}: {error:#}", line.id));
                Ended::Failed
            });
            match ended {
                Ended::Stopped => return,
                Ended::Unreachable => unreachable += 1,
                Ended::Finished | Ended::Failed => unreachable = 0,
            }
            if unreachable >= self.terms.quarantine {
                say(&format!("board {} does not answer: its other experiments wait", line.board));
                return;
            }
        }
    }

    /// One experiment: tries until its target answers.
    ///
    /// # Errors
    /// When results cannot be written or the command cannot be started.
    pub fn experiment(&self, line: &Line) -> anyhow::Result<Ended> {
        let mut ended = Ended::Stopped;
        for attempt in 1..=self.terms.attempts {
            if attempt > 1 {
                signal::sleep(Duration::from_secs(self.terms.wait_s));
            }
            let Some(_board) = self.lock_board(line)? else { return Ok(Ended::Stopped) };
            let Some(cpus) = self.lock_cpus(self.cpus_of(line)?)? else {
                return Ok(Ended::Stopped);
            };
            ended = self.write_card(line, attempt)?;
            if ended == Ended::Finished {
                ended = self.attempt(line, attempt, &cpus)?;
            }
            if ended != Ended::Unreachable {
                break;
            }
        }
        Ok(ended)
    }

    /// Number of CPUs of this host that an experiment needs.
    ///
    /// # Errors
    /// When it has fewer.
    pub fn cpus_of(&self, line: &Line) -> anyhow::Result<usize> {
        let need = match Target::parse(&line.target)? {
            Target::Local => self.cpus.len(),
            Target::Ssh(_) | Target::Labgrid(_) => 0,
            Target::Vm(vm) => vm.smp.unwrap_or(1) as usize,
        };
        if need > self.cpus.len() {
            return Err(anyhow!("board {}: {} needs {need} CPUs", line.board, line.target))
                .hint(format!("latlab may use {} here", self.cpus.len()));
        }
        Ok(need)
    }

    /// Waits for a file's lock; `None` when latlab is asked to stop.
    fn lock_board(&self, line: &Line) -> anyhow::Result<Option<File>> {
        // Machines of one kind are several: they are limited by CPUs.
        let own = if line.target.starts_with("vm:") { line.board.as_str() } else { "" };
        let name = latlab_target::cache::digest([line.target.as_bytes(), own.as_bytes()]);
        let file = self.lock_file(&format!("board-{name}"))?;
        while signal::stop_requested().is_none() {
            if file.try_lock().is_ok() {
                return Ok(Some(file));
            }
            std::thread::sleep(POLL);
        }
        Ok(None)
    }

    fn lock_file(&self, name: &str) -> anyhow::Result<File> {
        let path = self.locks.join(name);
        File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("{}: cannot be opened", path.display()))
    }

    /// Waits for so many CPUs. Some that were got are given back while others lack: nobody waits in a circle.
    fn lock_cpus(&self, need: usize) -> anyhow::Result<Option<Vec<(CpuId, File)>>> {
        while signal::stop_requested().is_none() {
            let mut got = Vec::new();
            for cpu in &self.cpus {
                let file = self.lock_file(&format!("cpu-{}", cpu.0))?;
                if got.len() < need && file.try_lock().is_ok() {
                    got.push((*cpu, file));
                }
            }
            if got.len() == need {
                return Ok(Some(got));
            }
            drop(got);
            std::thread::sleep(POLL);
        }
        Ok(None)
    }

    fn attempt(&self, line: &Line, n: u32, cpus: &[(CpuId, File)]) -> anyhow::Result<Ended> {
        let out = self.dir.join("running").join(&line.id);
        let start = Instant::now();
        let code = self.measure(line, &line.command, &out, cpus)?;
        let seconds = start.elapsed().as_secs_f64();
        let over = is_whole(&out, code) && requirements::check(line, &out, code)?;
        let ended = self.keep(line, &out, code)?;
        self.record(line, n, code, seconds, cpus)?;
        if over && !line.on_failure.is_empty() && signal::stop_requested().is_none() {
            self.follow_up(line, cpus)?;
        }
        Ok(ended)
    }

    /// Runs a command of an experiment on its board, and on no other CPUs than these; its exit code.
    fn measure(
        &self,
        line: &Line,
        words: &[String],
        out: &Path,
        cpus: &[(CpuId, File)],
    ) -> anyhow::Result<Option<i32>> {
        if out.exists() {
            fs::remove_dir_all(out).with_context(|| out.display().to_string())?;
        }
        let log = self.log(line)?;
        // A child has the CPUs of the thread that starts it.
        if !cpus.is_empty() {
            policy::bind(&cpus.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>())?;
        }
        let mut command = Command::new(&self.program);
        if line.target != "local" {
            command.args(["--on", &line.target]);
        }
        command.arg(&words[0]).arg("--out").arg(out).args(&words[1..]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = spawn(&mut command);
        if !cpus.is_empty() {
            policy::bind(&self.cpus)?;
        }
        follow(child?)
    }

    fn log(&self, line: &Line) -> anyhow::Result<File> {
        let log = self.dir.join("log").join(format!("{}.log", line.id));
        File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| log.display().to_string())
    }

    fn record(
        &self,
        line: &Line,
        n: u32,
        code: Option<i32>,
        seconds: f64,
        cpus: &[(CpuId, File)],
    ) -> anyhow::Result<()> {
        let mut record = serde_json::json!({
            "id": line.id, "board": line.board, "attempt": n, "exit_code": code, "seconds": seconds,
            "cpus": cpus.iter().map(|(cpu, _)| cpu.0).collect::<Vec<_>>(),
        })
        .to_string();
        record.push('\n');
        Ok(lock(&self.attempts).write_all(record.as_bytes())?)
    }

    /// What the campaign asks for after a run that does not meet its requirements; it is kept beside the results.
    fn follow_up(&self, line: &Line, cpus: &[(CpuId, File)]) -> anyhow::Result<()> {
        say(&format!("{}: limits are exceeded: {}", line.id, line.on_failure.join(" ")));
        let out = self.dir.join("running").join(format!("{}.on_failure", line.id));
        let as_it_is = Line { target: without_power_cycle(&line.target), ..line.clone() };
        let code = self.measure(&as_it_is, &line.on_failure, &out, cpus)?;
        if !is_whole(&out, code) {
            say(&format!(
                "{}: its on_failure: exit code {code:?}, see log/{}.log",
                line.id, line.id
            ));
            return Ok(());
        }
        let kept = self.dir.join("on_failure");
        fs::create_dir_all(&kept).with_context(|| kept.display().to_string())?;
        let kept = kept.join(&line.id);
        if kept.exists() {
            fs::remove_dir_all(&kept).with_context(|| kept.display().to_string())?;
        }
        let experiment = format!("{}.on_failure", line.experiment);
        origin(&out, &self.terms.campaign, &experiment, line.kernel.as_deref())?;
        fs::rename(&out, &kept).with_context(|| kept.display().to_string())
    }

    /// Writes the image of a board's card, where it is not on it yet; finished where there is nothing to write.
    fn write_card(&self, line: &Line, n: u32) -> anyhow::Result<Ended> {
        let Some(image) = &line.image else { return Ok(Ended::Finished) };
        if lock(&self.written).get(&line.board) == Some(image) {
            return Ok(Ended::Finished);
        }
        let images = self.dir.join("images");
        fs::create_dir_all(&images).with_context(|| images.display().to_string())?;
        let log = self.log(line)?;
        let mut command = Command::new(&self.program);
        command.args(["image", "write", &line.target]).arg(image).args(["--yes", "--once"]);
        command.arg(images.join(&line.board));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let start = Instant::now();
        let code = follow(spawn(&mut command)?)?;
        if code == Some(0) {
            lock(&self.written).insert(line.board.clone(), image.clone());
            return Ok(Ended::Finished);
        }
        let out = self.dir.join("running").join(&line.id);
        let ended = self.keep(line, &out, code)?;
        self.record(line, n, code, start.elapsed().as_secs_f64(), &[])?;
        Ok(ended)
    }

    /// Moves what a command left to where it belongs.
    fn keep(&self, line: &Line, out: &Path, code: Option<i32>) -> anyhow::Result<Ended> {
        let failed = self.dir.join("failed").join(&line.id);
        if is_whole(out, code) {
            finish(self.dir, &self.terms.campaign, line, out)?;
            return Ok(Ended::Finished);
        }
        if failed.exists() {
            fs::remove_dir_all(&failed)?;
        }
        if signal::stop_requested().is_some() {
            return Ok(Ended::Stopped);
        }
        if code == Some(i32::from(UNREACHABLE)) {
            return Ok(Ended::Unreachable);
        }
        fs::create_dir_all(out)?;
        fs::rename(out, failed)?;
        say(&format!("{}: exit code {code:?}, see log/{}.log", line.id, line.id));
        Ok(Ended::Failed)
    }
}

/// Makes a directory with a whole run the result of an experiment.
///
/// # Errors
/// When it cannot be moved.
pub fn finish(dir: &Path, campaign: &str, line: &Line, out: &Path) -> anyhow::Result<()> {
    origin(out, campaign, &line.experiment, line.kernel.as_deref())?;
    let result = dir.join("results").join(&line.id);
    fs::rename(out, &result).with_context(|| result.display().to_string())?;
    let failed = dir.join("failed").join(&line.id);
    if failed.exists() {
        fs::remove_dir_all(&failed)?;
    }
    Ok(())
}

/// The target as it is now: a board that boots again has lost what made it late.
fn without_power_cycle(target: &str) -> String {
    if !target.starts_with("labgrid:") {
        return target.to_owned();
    }
    target.split(',').filter(|option| *option != "power=cycle").collect::<Vec<_>>().join(",")
}

/// Says to which campaign, experiment and kernel of it a run belongs.
fn origin(
    out: &Path,
    campaign: &str,
    experiment: &str,
    kernel: Option<&str>,
) -> anyhow::Result<()> {
    let mut origin = serde_json::json!({"campaign": campaign, "experiment": experiment});
    if let Some(kernel) = kernel {
        origin["kernel"] = kernel.into();
    }
    write_atomically(&out.join("origin.json"), |to| Ok(serde_json::to_writer(to, &origin)?))
        .with_context(|| out.display().to_string())
}

/// Whether a command left a whole run: within its limits, or beyond them.
fn is_whole(out: &Path, code: Option<i32>) -> bool {
    matches!(code, Some(0 | 2)) && out.join(RUN_FILE).is_file()
}

/// Starts a command that is asked to end when this process is killed: the locks of its board and CPUs end with us. The calling
/// thread has to wait for it, because the kernel takes the thread's end for ours.
fn spawn(command: &mut Command) -> anyhow::Result<std::process::Child> {
    process::ask_to_end_with_us(command);
    command.spawn().context("latlab cannot be started")
}

/// Waits for a command, and passes on what stops latlab; its exit code, or `None` for a signal.
fn follow(mut child: std::process::Child) -> anyhow::Result<Option<i32>> {
    // SIGINT: what is measured so far is kept by the command.
    Ok(process::wait_and_pass_on(&mut child, 2)?.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_failure_does_not_boot_the_board() {
        assert_eq!(without_power_cycle("labgrid:b,power=cycle,timeout=9"), "labgrid:b,timeout=9");
        assert_eq!(without_power_cycle("ssh://b"), "ssh://b");
    }
}
