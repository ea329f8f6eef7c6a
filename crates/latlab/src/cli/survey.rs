//! `latlab survey`.

use serde::Serialize;

/// Run every kind of measurement and write one report.
///
/// Runs the steps that this machine allows one after the other; the report begins
/// with a summary. A step that cannot run is reported with the reason, and the
/// survey continues. Ctrl-C saves the finished steps.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::SURVEY)]
pub struct Args {
    /// About a minute: a first look.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// About an hour: enough samples for the tail.
    #[arg(long)]
    full: bool,
    /// Only these steps, by name (repeat, or separate by commas).
    #[arg(long = "step", value_name = "NAME", value_delimiter = ',')]
    steps: Vec<String>,
    /// List the steps without measuring.
    #[arg(long)]
    pub list: bool,
}

/// Length of the survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// About a minute.
    Quick,
    /// Some minutes.
    Normal,
    /// About an hour: enough samples for the tail.
    Full,
}

/// What the options come to.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// Length of the survey.
    pub level: Level,
    /// Names of the steps to run; empty for all of the level.
    pub steps: Vec<String>,
}

impl Args {
    /// The validated configuration. Names of steps are checked by whoever has their table.
    pub fn config(&self) -> Config {
        let level = match (self.quick, self.full) {
            (true, _) => Level::Quick,
            (_, true) => Level::Full,
            _ => Level::Normal,
        };
        Config { level, steps: self.steps.clone() }
    }
}
