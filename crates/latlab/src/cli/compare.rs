//! `latlab compare`: its options.

use crate::outcome::HintExt;
use anyhow::anyhow;
use latlab_model::compare::Options;
use std::path::PathBuf;

/// Compare runs: is B better or worse than A, also in the tail?
///
/// Compares runs of latlab and results of other tools (cyclictest's histogram and JSON, rtla's and
/// Xenomai's histograms, jitterdebugger's JSON, lmbench's results, files of --samples), and published
/// machines (@beaglebone-black-2015). The first is the base. With --base and --new, several
/// files form one side each.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::COMPARE)]
pub struct Args {
    /// Runs to compare: the base, then the others.
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Runs that form the base.
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "new", conflicts_with = "runs")]
    pub base: Vec<PathBuf>,
    /// Runs that form the other side.
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "base")]
    pub new: Vec<PathBuf>,
    /// Only metrics whose name contains this; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Exit with 2 if a metric is worse, or different. Needs three runs on each side, or --allow-single.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub fail_if: Option<FailIf>,
    /// Apply --fail-if to fewer than three runs on a side, whose variation from run to run is unknown.
    #[arg(long, requires = "fail_if")]
    pub allow_single: bool,
    /// Also compare the rate of samples above this limit (`100us`; a bare number is µs).
    #[arg(long, value_name = "TIME")]
    limit: Option<String>,
    /// Report whether these runs could have detected a tail shift of TIME at probability P (`10us@1e-6`).
    #[arg(long = "detectable", alias = "tell", value_name = "TIME@P")]
    tell: Option<String>,
    /// Probability of at least one false claim over all tests, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    level: f64,
    /// Ignore differences below this percentage.
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,
    /// Report "no difference" when the intervals exclude differences above this percentage.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    within: f64,
    /// Assumed mean cluster size of late wake-ups, for files without the order of values.
    #[arg(long, value_name = "N", default_value_t = 4.0)]
    cluster: f64,
    /// Seed of the resampling.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write a JUnit XML file: a test case for each metric, a failure if it is worse.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the report as Markdown.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write the report as one HTML file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Condition of exit code 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FailIf {
    /// A metric is worse.
    Worse,
    /// A metric is worse or better.
    Different,
}

impl Args {
    /// What counts as a difference.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn options(&self) -> anyhow::Result<Options> {
        let share = |option: &str, percent: f64, most: f64| {
            if percent > 0.0 && percent <= most {
                return Ok(percent / 100.0);
            }
            Err(anyhow!("--{option} {percent}: more than 0 % and at most {most} %"))
        };
        if !(self.cluster >= 1.0 && self.cluster <= 1e6) {
            return Err(anyhow!("--cluster {}: from 1 to a million", self.cluster));
        }
        Ok(Options {
            level: share("level", self.level, 50.0)?,
            margin: if self.margin == 0.0 { 0.0 } else { share("margin", self.margin, 1e4)? },
            within: share("within", self.within, 1e4)?,
            limit: self.limit.as_deref().map(|t| nanoseconds("--limit", t)).transpose()?,
            tell: self.tell.as_deref().map(tell).transpose()?,
            cluster: self.cluster,
            seed: self.seed,
            ..Options::default()
        })
    }
}

fn tell(text: &str) -> anyhow::Result<(f64, f64)> {
    let hint = "write a time and a probability: 10us@1e-6";
    let (time, p) =
        text.split_once('@').ok_or_else(|| anyhow!("--detectable {text}: no '@'")).hint(hint)?;
    let p: f64 = p.trim().parse().map_err(|e| anyhow!("--detectable {text}: {e}")).hint(hint)?;
    if !(p > 0.0 && p < 0.5) {
        return Err(anyhow!("--detectable {text}: the probability must be between 0 and 0.5"))
            .hint(hint);
    }
    Ok((nanoseconds("--detectable", time)?, p))
}

/// `100us`, `2ms`; a bare number is µs.
fn nanoseconds(option: &str, text: &str) -> anyhow::Result<f64> {
    if let Ok(us) = text.trim().parse::<u32>() {
        return Ok(f64::from(us) * 1e3);
    }
    let time = super::time::with_unit(text)
        .map_err(|e| anyhow!("{option} {text}: {e}"))
        .hint("100us, 2ms, or a number of µs")?;
    Ok(time.as_nanos() as f64)
}
