//! `latlab survey`.

use serde::Serialize;

/// How does this machine do, at all of it? One report.
///
/// Runs every kind of measurement that this machine allows, one after the
/// other, and puts them into one report with the result in words first. A step
/// that cannot run here says why, and the others go on. Ctrl-C keeps the steps
/// that are finished.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// About a minute: a first look.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Take the time that the tail needs: an hour or so.
    #[arg(long)]
    full: bool,
    /// Only these steps, by name (repeat, or separate by commas).
    #[arg(long = "step", value_name = "NAME", value_delimiter = ',')]
    steps: Vec<String>,
    /// List the steps, measure nothing.
    #[arg(long)]
    pub list: bool,
}

/// How much time to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A first look, about a minute.
    Quick,
    /// Some minutes.
    Normal,
    /// As long as the tail needs.
    Full,
}

/// What the options come to.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// How much time to take.
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
