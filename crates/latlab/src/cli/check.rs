//! `latlab check`: its options.

use clap::ValueEnum;
use std::path::PathBuf;

/// Check whether measurements meet requirements.
///
/// Each requirement is met, not met, or not decided by the data. FILE has requirements as lines, such as `p99.9 < 80 us, max < 150 us, missed = 0, under vm:128M,
/// interval 500 us, 1 h`; @NAME is a profile (--list). With RUNs they are checked against these runs,
/// without against a measurement that is made now. Exit code 0: all met; 2: one is not met; 1: not
/// decided, or an error.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::CHECK)]
#[group(id = "check")]
pub struct Args {
    /// Requirements: a file, or @NAME of a profile.
    #[arg(value_name = "FILE", required_unless_present = "list")]
    pub file: Option<PathBuf>,
    /// Runs to check.
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// List the profiles with their requirements and sources.
    #[arg(long)]
    pub list: bool,
    /// Format of the output.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Latlab)]
    pub format: Format,
    /// Write a JUnit XML file: a test case for each requirement.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Formats of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The report.
    #[default]
    Latlab,
    /// TAP version 14.
    Tap,
    /// KTAP version 1.
    Ktap,
    /// Signals of LAVA.
    Lava,
    /// Annotations of GitHub.
    Github,
}
