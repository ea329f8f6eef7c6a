//! `latlab vm twin`: the causes of a run of `latlab why`, repeated in a virtual machine.

use crate::cli::Global;
use crate::cli::vm::{Machine, TwinArgs};
use crate::cmd::{vm, vm_count};
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::rundir;
use crate::session::Session;
use anyhow::{Context, anyhow};
use latlab_analysis::twin::{self, Plan, Refused};
use latlab_model::run::Run;
use latlab_target::pull::Mapping;
use latlab_target::spec::VmTarget;
use latlab_wire::frame::Job;
use std::fs;

/// The guest's run.
const RUN: &str = "r";
/// What the guest's shell runs; [`vm_count::reason`] reads the output.
const SCRIPT: &str = "exec \"$@\" > output 2>&1";

/// Runs the command.
///
/// # Errors
/// When the run has no causes to repeat, or the machine cannot run.
pub fn run(args: &TwinArgs, global: &Global) -> anyhow::Result<Outcome> {
    let recorded = rundir::load(&args.run)?;
    let plan = planned(args, &recorded)?;
    let machine = machine(&plan);
    let target = vm_count::target(&machine)?;
    let measure = measure(&plan, args.captures);
    let command = command_line(&machine, &measure);
    let config = serde_json::json!({
        "run": args.run.display().to_string(), "machine": machine.machine, "captures": args.captures
    });
    if args.plan {
        let mut session = Session::begin_ephemeral(global, "twin", &config)?;
        session.run.parts.push(twin::part(twin::without_replay(plan, command), None));
        return session.finish(None);
    }
    if plan.faults().next().is_none() {
        return Err(anyhow!("{}: none of its causes can be repeated", args.run.display()))
            .hint("--plan prints each with the reason");
    }
    let session = Session::begin(global, "twin", &config)?;
    let replayed = replay(&machine, &target, measure);
    let replayed = replayed.map(|run| {
        let detail = twin::compare(plan, &run, &machine.machine, command);
        (twin::part(detail, Some(&run)), run)
    });
    vm_count::finish(session, replayed)
}

/// What is repeated of a run.
fn planned(args: &TwinArgs, recorded: &Run) -> anyhow::Result<Plan> {
    let (text, hint) = match twin::plan(recorded, args.machine.as_deref()) {
        Ok(plan) => return Ok(plan),
        Err(Refused::NoCauses) => {
            ("this run has no causes of late wake-ups", "name a run of latlab why")
        }
        Err(Refused::NoPeriod) => (
            "the task of this run has no period",
            "name a run with a task that is woken at regular times",
        ),
        Err(Refused::NoCount) => (
            "this run does not have the number of its wake-ups",
            "name a run in which latlab why took the captures itself",
        ),
        Err(Refused::NoMachine) => {
            ("there is no virtual machine of its processor", "--machine NAME (latlab vm list)")
        }
    };
    Err(anyhow!("{}: {text}", args.run.display())).hint(hint)
}

fn machine(plan: &Plan) -> Machine {
    let mut faults: Vec<String> = plan.faults().map(str::to_owned).collect();
    faults.sort();
    Machine { machine: plan.machine.clone(), faults, ..Machine::default() }
}

/// `latlab why` with the task of the recording.
fn measure(plan: &Plan, captures: u64) -> Vec<String> {
    let mut words: Vec<String> = ["why", "-q", "--out", RUN].map(String::from).to_vec();
    words.push(format!("-i{}", plan.task.interval_ns.div_ceil(1000)));
    match plan.task.priority {
        Some(priority) => words.push(format!("-p{priority}")),
        None => words.extend(["--policy", "other"].map(String::from)),
    }
    words.extend(["--limit".to_owned(), format!("{}us", plan.recorded.limit_ns.div_ceil(1000))]);
    words.extend(["--captures".to_owned(), captures.to_string()]);
    words.extend(["-D".to_owned(), plan.duration_ns(captures).div_ceil(1_000_000_000).to_string()]);
    words
}

/// The same for a user who repeats it.
fn command_line(machine: &Machine, measure: &[String]) -> Vec<String> {
    let mut words: Vec<String> = ["latlab", "vm", "run"].map(String::from).to_vec();
    words.push(match machine.machine.contains("icount=") {
        true => machine.machine.clone(),
        false => [&machine.machine, ",icount=0"].concat(),
    });
    words.extend(machine.faults.iter().flat_map(|f| ["--fault".to_owned(), f.clone()]));
    words.extend(["--", "latlab"].map(String::from));
    words.extend(measure.iter().cloned());
    words
}

/// Boots the machine with the faults, and reads the run that it brings back.
fn replay(machine: &Machine, target: &VmTarget, measure: Vec<String>) -> anyhow::Result<Run> {
    let cache = vm::cache()?;
    let scratch = cache.scratch().with_hint()?;
    let folder = scratch.path().join("results");
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    let plan = vm::Plan {
        faults: vm::faults_of(machine)?,
        extras: vm::extras(machine, target)?,
        mapping: Mapping::of_own_command(),
        ..vm::Plan::default()
    };
    let mut argv: Vec<String> =
        ["/bin/sh", "-c", SCRIPT, "twin", "/bin/latlab"].map(String::from).to_vec();
    argv.extend(measure);
    vm::say(&format!(
        "{}: repeating {} causes in virtual time",
        machine.machine,
        machine.faults.len()
    ));
    let (finished, _) = vm::execute_in(&folder, target, Job { argv, ..Job::default() }, plan)?;
    let code = finished?.code;
    if !folder.join(RUN).join(rundir::RUN_FILE).exists() {
        let line = vm_count::reason(&folder);
        return Err(anyhow!("latlab why in the machine ended with exit code {code}: {line}"));
    }
    let run = rundir::load(&folder.join(RUN))?;
    let why = twin::why_of(&run).context("the machine brought back no causes")?;
    if why.session.as_ref().is_none_or(|session| session.wakeups == 0) {
        return Err(anyhow!("no wake-up was measured in the machine"));
    }
    Ok(run)
}
