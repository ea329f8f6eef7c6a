//! What a campaign file has, and whether that can be measured.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Most lines of a plan.
pub const LINES: usize = 1_000_000;

/// What a campaign file has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// Its name.
    pub name: String,
    /// Seed of the order.
    #[serde(default)]
    pub seed: u64,
    /// Repetitions of each experiment on each board.
    #[serde(default = "one")]
    pub repetitions: u32,
    /// Tries of an experiment whose target does not answer.
    #[serde(default = "three")]
    pub attempts: u32,
    /// Seconds between two tries.
    #[serde(default)]
    pub wait_s: u64,
    /// Experiments in succession whose target does not answer, after which its board is left out.
    #[serde(default = "three")]
    pub quarantine: u32,
    /// Boards.
    #[serde(default)]
    pub board: Vec<Board>,
    /// Kernels; none: each board as it is.
    #[serde(default)]
    pub kernel: Vec<Kernel>,
    /// Experiments.
    #[serde(default)]
    pub experiment: Vec<Experiment>,
    /// Options of `sbatch` for every experiment, where Slurm is the engine.
    #[serde(default)]
    pub sbatch: Vec<String>,
    /// Options of `lavacli`, where LAVA is the engine.
    #[serde(default)]
    pub lavacli: Vec<String>,
}

/// A board.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// Its name.
    pub name: String,
    /// Where it is, as `--on` has it; empty if only LAVA knows it.
    #[serde(default)]
    pub target: String,
    /// Seconds that all experiments on it may take together.
    pub budget_s: Option<u64>,
    /// Options of `sbatch` for its experiments, after those of the campaign.
    #[serde(default)]
    pub sbatch: Vec<String>,
    /// How LAVA measures on it.
    pub lava: Option<LavaBoard>,
    /// Image of its card, written before the first experiment; relative to the campaign.
    pub image: Option<PathBuf>,
}

/// A kernel, and how a board gets it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Names of the boards that measure with it; empty: all.
    #[serde(default)]
    pub boards: Vec<String>,
    /// Options of a virtual machine (`build=latency`), after those of the board's target.
    pub options: Option<String>,
    /// Image of the board's card, instead of the board's; relative to the campaign.
    pub image: Option<PathBuf>,
    /// LAVA's job that deploys and boots it, instead of the board's; relative to the campaign.
    pub job: Option<PathBuf>,
}

/// What LAVA has to know of a board.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LavaBoard {
    /// File of a job that deploys and boots (YAML), relative to the campaign.
    pub job: PathBuf,
    /// Type of the device, instead of the file's.
    pub device_type: Option<String>,
    /// Tags of the device, instead of the file's.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The program on the device.
    #[serde(default = "latlab")]
    pub latlab: String,
    /// Commands before the first experiment.
    #[serde(default)]
    pub setup: Vec<String>,
    /// Other keys of the test action.
    #[serde(default)]
    pub test: BTreeMap<String, serde_json::Value>,
}

fn latlab() -> String {
    "latlab".into()
}

impl Board {
    /// Where it is, for identifiers too.
    pub fn place(&self) -> String {
        if self.target.is_empty() { ["lava:", &self.name].concat() } else { self.target.clone() }
    }
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// Command and options of latlab.
    pub command: Vec<String>,
    /// Seconds that it takes, for budgets.
    #[serde(default)]
    pub seconds: u64,
    /// Names of the boards that run it; empty: all.
    #[serde(default)]
    pub boards: Vec<String>,
    /// Names of the kernels that it is run with; empty: all.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// Requirements on its run: a file relative to the campaign, or `@PROFILE`.
    pub check: Option<String>,
    /// What runs on the same board after a run that exceeds a limit or does not meet its requirements.
    #[serde(default)]
    pub on_failure: Vec<String>,
}

fn one() -> u32 {
    1
}
fn three() -> u32 {
    3
}

/// What is wrong with a campaign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// A name that cannot be one of a file.
    #[error("{0:?}: a name has 1 to 64 letters, digits, '_', '-' and '.'")]
    Name(String),
    /// Nothing to measure.
    #[error("needs at least one [[board]] and one [[experiment]]")]
    Empty,
    /// Numbers that make no plan.
    #[error("repetitions and attempts are at least 1, and lines at most {LINES}")]
    Numbers,
    /// An experiment that takes too long.
    #[error("experiment {0}: seconds = {1}, at most {YEAR_S} (a year)")]
    Seconds(String, u64),
    /// A name that occurs twice.
    #[error("{0} {1}: named twice")]
    Twice(&'static str, String),
    /// Two boards of one target.
    #[error("board {0}: another board is {1} too")]
    SameTarget(String, String),
    /// Nowhere to measure.
    #[error("board {0}: neither a target nor [board.lava]")]
    NoTarget(String),
    /// An image for a board whose card nobody can reach.
    #[error("board {0}: image needs a target labgrid:PLACE")]
    NoCard(String),
    /// A command without a run.
    #[error("experiment {0}: {1:?} leaves no run; {all} do", all = COMMANDS.join(", "))]
    NoRun(String, String),
    /// An option of the engine.
    #[error("experiment {0}: {1} is set by the campaign")]
    OwnOption(String, String),
    /// A board or a kernel that is not there.
    #[error("{0} {1}: no {2} {3:?}")]
    Unknown(&'static str, String, &'static str, String),
    /// A kernel that a board cannot get.
    #[error(
        "kernel {0}: board {1} cannot change to it: options are of vm: targets, image of labgrid:PLACE, job of [board.lava]"
    )]
    NotChanged(String, String),
}

/// An experiment takes at most so long, s: of all lines together the sum is a number.
const YEAR_S: u64 = 365 * 24 * 3_600;

/// Commands that leave a run.
const COMMANDS: [&str; 9] =
    ["wakeup", "why", "bench", "memory", "sched", "timer", "sweep", "survey", "doctor"];

/// Whether a text is a name of a campaign, a board, a kernel or an experiment, and so of a file.
pub(in crate::fleet) fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    (1..=64).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(plain)
}

/// Whether a campaign can be measured.
///
/// # Errors
/// What is wrong with it first.
pub(super) fn check(c: &Campaign) -> Result<(), CampaignError> {
    let names = (c.board.iter().map(|b| &b.name))
        .chain(c.kernel.iter().map(|k| &k.name))
        .chain(c.experiment.iter().map(|e| &e.name));
    if let Some(name) = std::iter::once(&c.name).chain(names).find(|n| !is_name(n)) {
        return Err(CampaignError::Name(name.clone()));
    }
    if c.board.is_empty() || c.experiment.is_empty() {
        return Err(CampaignError::Empty);
    }
    let lines = c.board.len().saturating_mul(c.kernel.len().max(1));
    let lines = lines.saturating_mul(c.experiment.len());
    if c.repetitions == 0 || c.attempts == 0 || lines.saturating_mul(c.repetitions as usize) > LINES
    {
        return Err(CampaignError::Numbers);
    }
    let (mut boards, mut targets, mut experiments) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for b in &c.board {
        if !boards.insert(&b.name) {
            return Err(CampaignError::Twice("board", b.name.clone()));
        }
        if b.target.is_empty() && b.lava.is_none() {
            return Err(CampaignError::NoTarget(b.name.clone()));
        }
        if b.image.is_some() && !b.target.starts_with("labgrid:") {
            return Err(CampaignError::NoCard(b.name.clone()));
        }
        // Several machines of one kind are several machines; a board is one.
        if !b.target.starts_with("vm:") && !targets.insert(b.place()) {
            return Err(CampaignError::SameTarget(b.name.clone(), b.target.clone()));
        }
    }
    let kernels = check_kernels(c, &boards)?;
    for e in &c.experiment {
        if !experiments.insert(&e.name) {
            return Err(CampaignError::Twice("experiment", e.name.clone()));
        }
        if e.seconds > YEAR_S {
            return Err(CampaignError::Seconds(e.name.clone(), e.seconds));
        }
        check_command(&e.name, &e.command)?;
        if !e.on_failure.is_empty() {
            check_command(&e.name, &e.on_failure)?;
        }
        known(("experiment", &e.name), "board", &e.boards, &boards)?;
        known(("experiment", &e.name), "kernel", &e.kernels, &kernels)?;
    }
    Ok(())
}

/// That every name is one of those that there are.
fn known(
    (what, of): (&'static str, &str),
    kind: &'static str,
    names: &[String],
    there: &BTreeSet<&String>,
) -> Result<(), CampaignError> {
    match names.iter().find(|n| !there.contains(n)) {
        Some(name) => Err(CampaignError::Unknown(what, of.to_owned(), kind, name.clone())),
        None => Ok(()),
    }
}

/// That each kernel is one that its boards can get.
fn check_kernels<'a>(
    c: &'a Campaign,
    boards: &BTreeSet<&String>,
) -> Result<BTreeSet<&'a String>, CampaignError> {
    let mut kernels = BTreeSet::new();
    for k in &c.kernel {
        if !kernels.insert(&k.name) {
            return Err(CampaignError::Twice("kernel", k.name.clone()));
        }
        known(("kernel", &k.name), "board", &k.boards, boards)?;
        for b in c.board.iter().filter(|b| k.boards.is_empty() || k.boards.contains(&b.name)) {
            let (vm, labgrid) = (b.target.starts_with("vm:"), b.target.starts_with("labgrid:"));
            let bad = (k.options.is_some() && !vm)
                || (k.image.is_some() && !labgrid)
                || (k.job.is_some() && b.lava.is_none())
                || (k.options.is_none() && k.image.is_none() && k.job.is_none());
            if bad {
                return Err(CampaignError::NotChanged(k.name.clone(), b.name.clone()));
            }
        }
    }
    Ok(kernels)
}

/// That a command leaves a run, where the campaign says.
fn check_command(experiment: &str, words: &[String]) -> Result<(), CampaignError> {
    let command = words.first().map_or("", String::as_str);
    if !COMMANDS.contains(&command) {
        return Err(CampaignError::NoRun(experiment.to_owned(), command.to_owned()));
    }
    let own = ["--out", "--on", "--lava"];
    match words.iter().find(|w| w.split('=').next().is_some_and(|o| own.contains(&o))) {
        Some(word) => Err(CampaignError::OwnOption(experiment.to_owned(), word.clone())),
        None => Ok(()),
    }
}
