//! What the board build of `latlab tune` does not have: requirements, benchmarks beside the wake-ups, booted machines.

use super::boot;
use super::settings::{self, Chosen};
use crate::cli::tune::Args;
use crate::cmd::check::parse;
use crate::outcome::{HintExt, printed_error};
use crate::own_run;
use anyhow::{Context, anyhow};
use latlab_model::check::{Statistic, Subject};
use latlab_model::record::Record;
use latlab_sys::scratch::ScratchDir;
use latlab_sys::signal;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

/// What is tried in a machine that is booted; `None` without one.
///
/// # Errors
/// One sentence that names what cannot be tried.
pub(super) fn choose(args: &Args) -> anyhow::Result<Option<Vec<Chosen>>> {
    if args.boot().is_some() {
        return boot::choose(&args.tries).map(Some);
    }
    let is_parameter = |word: &&String| !settings::is_known(word) && boot::is_parameter(word);
    match args.tries.iter().find(is_parameter) {
        Some(word) => Err(anyhow!("--try {word}: a boot parameter"))
            .hint("--boot vm:NAME boots a machine with it, --boot ssh://root@BOARD a board"),
        None => Ok(None),
    }
}

/// Refuses options that do not go together.
///
/// # Errors
/// One sentence that names them.
pub(super) fn check(args: &Args) -> anyhow::Result<()> {
    let Some(machine) = args.boot() else { return Ok(()) };
    if args.apply {
        return Err(anyhow!(
            "--apply: not possible with --boot, which leaves each machine as it was"
        ))
        .hint("--format cmdline prints the boot parameters that improve");
    }
    if boot::is_board(machine) && !args.host.fault.is_empty() {
        return Err(anyhow!("--fault: not on a board")).hint("--boot vm:NAME has faults");
    }
    if !args.host.bench.is_empty() {
        return Err(anyhow!("--bench with --boot: side effects are measured on this machine"))
            .hint("latlab --on vm:NAME bench measures in a machine");
    }
    Ok(())
}

/// The configuration of a run with these options.
pub(super) fn with_options(mut config: serde_json::Value, args: &Args) -> serde_json::Value {
    let host = &args.host;
    config["bench"] = host.bench.clone().into();
    config["require"] = host.require.clone().into();
    config["boot"] = host.boot.clone().into();
    config["fault"] = host.fault.clone().into();
    config
}

/// The boot parameters that can be tried.
///
/// # Errors
/// When they cannot be written.
pub(super) fn list_parameters(out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "\nBoot parameters, with --boot MACHINE:")?;
    boot::list().try_for_each(|line| writeln!(out, "{line}"))
}

/// Makes the quantile of `--require` the response, and its circumstances those of the blocks.
///
/// # Errors
/// When it is none, or of something else.
pub(super) fn with_requirement(args: &Args) -> anyhow::Result<Args> {
    let mut args = args.clone();
    let Some(text) = args.host.require.clone() else { return Ok(args) };
    let named = || format!("--require {text}");
    let requirements = parse::parse(&text).map_err(|e| anyhow!(e.reason)).with_context(named)?;
    let [requirement] = &requirements[..] else {
        return Err(anyhow!("{}: one condition only", named()))
            .hint("latlab check decides on several");
    };
    args.quantile = match (&requirement.subject, &requirement.statistic) {
        (Subject::Wakeup, Statistic::Quantile(q)) => q * 100.0,
        (Subject::Wakeup, Statistic::Max) => 100.0,
        _ => {
            return Err(anyhow!("{}: not a quantile or maximum of wake-up latency", named()))
                .hint("such as `p99.9 < 80 us, under vm:128M`");
        }
    };
    let c = &requirement.circumstances;
    if c.by.is_some() || c.duration_ns.is_some() {
        return Err(anyhow!("{}: blocks have a timer's wake-ups, and their own length", named()))
            .hint("--block 10s is the length of a block");
    }
    args.interval = c.interval_ns.map_or(args.interval, |ns| ns / 1_000);
    args.priority = c.priority.unwrap_or(args.priority);
    args.affinity = c.cpus.clone().or_else(|| args.affinity.take());
    for load in &c.load {
        args.load.push(load.parse().map_err(|e| anyhow!("{}: {e}", named()))?);
    }
    args.host.requirement = Some(requirement.clone());
    Ok(args)
}

/// Time that the benchmarks of a block take, each.
const BENCH: Duration = Duration::from_millis(500);

/// The benchmarks, by a latlab of their own; none where a signal came.
///
/// # Errors
/// When a benchmark cannot be run.
pub(super) fn bench(args: &Args) -> anyhow::Result<Vec<Record>> {
    if args.host.bench.is_empty() {
        return Ok(Vec::new());
    }
    let dir =
        ScratchDir::create(&std::env::temp_dir()).context("a directory for the benchmarks")?;
    let run = dir.path().join("run");
    let length = format!("{}", BENCH.as_secs_f64() * args.host.bench.len() as f64);
    let mut command = own_run::command()?;
    command.arg("bench").args(&args.host.bench).args(["-D", &length, "--out"]).arg(&run);
    let measured = own_run::measure(command.stderr(Stdio::piped()), &run)?;
    if signal::stop_requested().is_some() {
        return Ok(Vec::new());
    }
    let printed = |_| printed_error(&measured.stderr).context("--bench");
    let run = measured.run.map_err(printed)?;
    Ok(run.records().map(|(_, record)| record.clone()).collect())
}
