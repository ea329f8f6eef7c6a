//! `latlab tune --boot MACHINE`: boot parameters and settings, by booting a virtual machine or a board for each block.
//!
//! A block with boot parameters is a boot of its own, with those that are tried added to the machine's. The others of a
//! round, with settings that are set in the machine and undone there, or without any, share a boot, in random order. A
//! machine that does not boot with a parameter, or refuses a setting, makes it one that could not be set.

use super::board::{self, Kexec};
use super::factorial;
use super::rounds::{self, Measured};
use super::settings::{self, Chosen};
use crate::cli::tune::Args;
use crate::outcome::{HintExt, printed_error};
use crate::{own_run, rundir};
use anyhow::{Context, anyhow, bail};
use latlab_model::cpulist;
use latlab_model::run::Detail;
use latlab_model::tune::TuneDetail;
use latlab_sys::signal;
use latlab_target::Target;
use latlab_target::ssh::quoted;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Seconds until a board's services have started.
const BOARD_SETTLE_S: u64 = 30;
/// What a block takes beside its length, at most.
const BLOCK_SPARE: Duration = Duration::from_secs(30);

/// What a parameter takes.
enum Value {
    Flag,
    Cpus,
    One(&'static [&'static str]),
}

/// A boot parameter that may be tried (Documentation/admin-guide/kernel-parameters.rst).
struct Parameter {
    name: &'static str,
    value: Value,
    what: &'static str,
}

const fn parameter(name: &'static str, value: Value, what: &'static str) -> Parameter {
    Parameter { name, value, what }
}

/// All of them; the first value of each changes latency, CPU or interrupt work, and none hides a failure.
const PARAMETERS: &[Parameter] = &[
    parameter("isolcpus", Value::Cpus, "CPUs without load balancing"),
    parameter("nohz_full", Value::Cpus, "CPUs without tick while one task runs"),
    parameter("rcu_nocbs", Value::Cpus, "CPUs whose RCU callbacks run in threads"),
    parameter("rcu_nocb_poll", Value::Flag, "RCU threads poll instead of being woken"),
    parameter("irqaffinity", Value::Cpus, "CPUs of interrupts"),
    parameter("threadirqs", Value::Flag, "interrupt handlers run in threads"),
    parameter("preempt", Value::One(&["full", "voluntary", "none", "lazy"]), "preemption model"),
    parameter("idle", Value::One(&["poll", "halt", "nomwait"]), "idle loop (x86)"),
    parameter("nohlt", Value::Flag, "idle loop polls (ARM)"),
    parameter("cpuidle.off", Value::One(&["1"]), "no idle governor"),
    parameter("nohz", Value::One(&["off", "on"]), "tick of idle CPUs"),
    parameter("skew_tick", Value::One(&["1", "0"]), "ticks of CPUs at different times"),
    parameter("mitigations", Value::One(&["off", "auto"]), "mitigations of CPU vulnerabilities"),
    parameter("tsc", Value::One(&["reliable", "nowatchdog"]), "clocksource watchdog (x86)"),
    parameter("intel_pstate", Value::One(&["disable", "passive"]), "driver of CPU frequency (x86)"),
    parameter("nosoftlockup", Value::Flag, "no soft lockup detector"),
    parameter("nowatchdog", Value::Flag, "no lockup detectors"),
    parameter("transparent_hugepage", Value::One(&["never", "madvise", "always"]), "huge pages"),
    parameter("workqueue.power_efficient", Value::One(&["0", "1"]), "unbound work items"),
    parameter("rcupdate.rcu_expedited", Value::One(&["1", "0"]), "short grace periods of RCU"),
];

/// The lines of `--list` for boot parameters.
pub fn list() -> impl Iterator<Item = String> {
    PARAMETERS.iter().map(|p| {
        let values = match p.value {
            Value::Flag => String::new(),
            Value::Cpus => "=CPUS (such as 1 or 1-3)".to_owned(),
            Value::One(values) => ["=", &values.join(", ")].concat(),
        };
        format!("{:<58} {}", [p.name, &values].concat(), p.what)
    })
}

/// Whether `NAME` or `NAME=VALUE` begins with a boot parameter.
pub fn is_parameter(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    PARAMETERS.iter().any(|p| p.name == name)
}

/// The settings of the command line: boot parameters and settings, several at once with `+` between.
///
/// # Errors
/// One sentence that names the parameter.
pub fn choose(words: &[String]) -> anyhow::Result<Vec<Chosen>> {
    if words.is_empty() {
        return Err(anyhow!("--boot: no parameter to try"))
            .hint("name them: --try threadirqs --try isolcpus=1+nohz_full=1");
    }
    let mut out: Vec<Chosen> = Vec::new();
    for word in words {
        let parts = word.split('+').map(part).collect::<anyhow::Result<Vec<_>>>()?;
        let one = Chosen::together(&parts).with_context(|| format!("--try {word}"))?;
        if out.iter().any(|c| c.name == one.name) {
            bail!("--try {word}: given twice");
        }
        out.push(one);
    }
    Ok(out)
}

fn part(word: &str) -> anyhow::Result<Chosen> {
    if settings::is_known(word) {
        return settings::one(word).map(|(_, chosen)| chosen);
    }
    check(word)?;
    Ok(Chosen { name: word.to_owned(), parameters: vec![word.to_owned()], ..Chosen::default() })
}

fn check(word: &str) -> anyhow::Result<()> {
    let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
    let Some(known) = PARAMETERS.iter().find(|p| p.name == name) else {
        return Err(anyhow!("--try {word}: not a boot parameter that is tried"))
            .hint("latlab tune --list names those that are");
    };
    let fits = match (&known.value, value) {
        (Value::Flag, None) => true,
        // A comma ends the option of a machine.
        (Value::Cpus, Some(v)) => {
            !v.contains(',') && cpulist::parse(v).is_ok_and(|l| !l.is_empty())
        }
        (Value::One(values), Some(v)) => values.contains(&v),
        _ => false,
    };
    if !fits {
        let expected = match known.value {
            Value::Flag => "no value".to_owned(),
            Value::Cpus => "CPUs, such as 1 or 1-3".to_owned(),
            Value::One(values) => values.join(", "),
        };
        bail!("--try {word}: expected {expected}");
    }
    Ok(())
}

/// A machine with parameters added to those that it has.
fn machine_with(machine: &str, parameters: &[String]) -> String {
    if parameters.is_empty() {
        return machine.to_owned();
    }
    let parameters = &parameters.join("+");
    let mut found = false;
    let mut options: Vec<String> = machine.split(',').map(str::to_owned).collect();
    for option in options.iter_mut().filter(|o| o.starts_with("append=")) {
        *option = [option, "+", parameters].concat();
        found = true;
    }
    if !found {
        options.push(["append=", parameters].concat());
    }
    options.join(",")
}

/// Whether a machine runs in virtual time, where waiting takes little unless it polls.
fn is_virtual(machine: &str) -> bool {
    let target = Target::parse(&["vm:", machine].concat());
    target.is_ok_and(|t| matches!(t, Target::Vm(vm) if vm.icount.is_some()))
}

/// What is booted.
enum Place<'a, 'b> {
    /// By `latlab vm run`.
    Vm,
    /// By kexec.
    Board(&'a mut Kexec<'b>),
}

/// Whether it is a board.
pub fn is_board(machine: &str) -> bool {
    machine.starts_with("ssh://")
}

/// Boots and measures. `dir` keeps the run of each block.
///
/// # Errors
/// When the machine does not even boot without a setting.
pub fn measure(
    args: &Args,
    machine: &str,
    chosen: &[Chosen],
    dir: &Path,
) -> anyhow::Result<TuneDetail> {
    if is_board(machine) {
        board::with(machine, |kexec| measure_on(args, machine, Place::Board(kexec), chosen, dir))
    } else {
        measure_on(args, machine, Place::Vm, chosen, dir)
    }
}

fn measure_on(
    args: &Args,
    machine: &str,
    place: Place<'_, '_>,
    chosen: &[Chosen],
    dir: &Path,
) -> anyhow::Result<TuneDetail> {
    let nothing = Chosen::default();
    let mut boots = Boots { args, machine, place, dir, nothing, ready: BTreeMap::new() };
    let measured = if args.factorial {
        // Of round 0 are the boots that tell which parameters the machine boots with.
        let probe =
            chosen.iter().enumerate().map(|(i, one)| (i + 1, Some(one))).collect::<Vec<_>>();
        let probed = std::cell::RefCell::new(&mut boots);
        let mut number = 0;
        factorial::measure(
            args,
            chosen,
            |one| {
                number += 1;
                let left = &probe[number - 1..];
                probed.borrow_mut().block(0, left).map(|_| one.patterns())
            },
            |round, left| match probed.borrow_mut().block(round, left) {
                Err(_) if signal::stop_requested().is_some() => Ok(None),
                measured => measured.map(Some),
            },
        )
    } else {
        rounds::measure(args, chosen, |round, left, arm| {
            let left: Vec<(usize, Option<&Chosen>)> = left
                .iter()
                .map(|arm| arm.map_or((0, None), |i| (i + 1, Some(&chosen[i]))))
                .collect();
            match (boots.block(round, &left), arm) {
                (Ok(measured), arm) => {
                    if let Some((i, tried)) = arm {
                        tried.files = chosen[i].patterns();
                    }
                    Ok(Some(measured))
                }
                // The machine was stopped as well.
                (Err(_), _) if signal::stop_requested().is_some() => Ok(None),
                (Err(error), Some((_, tried))) => {
                    rounds::not_tried(tried, &error);
                    Ok(None)
                }
                (Err(error), None) => Err(error),
            }
        })
    };
    if measured.is_err() {
        // Empty, where no machine was ever up.
        let _ = std::fs::remove_dir(dir);
    }
    measured
}

/// The machines that are booted: one for each block with boot parameters, and one in each round for all others.
struct Boots<'a, 'b> {
    args: &'a Args,
    machine: &'a str,
    place: Place<'a, 'b>,
    dir: &'a Path,
    nothing: Chosen,
    /// Blocks of this round that a boot has measured, by their numbers.
    ready: BTreeMap<(u32, usize), anyhow::Result<Measured>>,
}

impl Boots<'_, '_> {
    /// The first of the blocks of a round that are left.
    fn block(&mut self, round: u32, left: &[(usize, Option<&Chosen>)]) -> anyhow::Result<Measured> {
        let Some((first, _)) = left.first() else { bail!("no block is left") };
        if !self.ready.contains_key(&(round, *first)) {
            let of = |(number, chosen): &(usize, Option<&Chosen>)| {
                (*number, chosen.map_or_else(|| self.nothing.clone(), Chosen::clone))
            };
            let mut blocks: Vec<(usize, Chosen)> = left.iter().map(of).collect();
            if blocks[0].1.parameters.is_empty() {
                blocks.retain(|(_, chosen)| chosen.parameters.is_empty());
            } else {
                blocks.truncate(1);
            }
            self.boot(round, &blocks)?;
        }
        let measured = self.ready.remove(&(round, *first));
        measured.unwrap_or_else(|| Err(anyhow!("it was not measured")))
    }

    /// One boot, which measures these blocks one after the other.
    fn boot(&mut self, round: u32, blocks: &[(usize, Chosen)]) -> anyhow::Result<()> {
        let parameters = blocks.first().map_or(&[][..], |(_, chosen)| &chosen.parameters);
        let dir = self.dir.join(format!("round-{round}-{}", blocks.first().map_or(0, |b| b.0)));
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let machine = match &mut self.place {
            Place::Vm => {
                let machine = machine_with(self.machine, parameters);
                run_in_vm(self.args, &machine, blocks, &dir)?;
                machine
            }
            Place::Board(kexec) => {
                let settle = self.args.host.settle.unwrap_or(BOARD_SETTLE_S);
                let each = self.args.block + BLOCK_SPARE;
                let time = Duration::from_secs(settle) + each * blocks.len() as u32;
                let script = |latlab: &str| script_of(self.args, blocks, settle, latlab, "../undo");
                kexec.run(parameters, time, script, &dir).inspect_err(|_| {
                    let _ = std::fs::remove_dir(&dir);
                })?;
                self.machine.to_owned()
            }
        };
        for (number, _) in blocks {
            let measured = measured(&machine, &dir, *number);
            self.ready.insert((round, *number), measured);
        }
        Ok(())
    }
}

/// Runs the blocks in a virtual machine.
fn run_in_vm(
    args: &Args,
    machine: &str,
    blocks: &[(usize, Chosen)],
    dir: &Path,
) -> anyhow::Result<()> {
    let mut command = own_run::command()?;
    command.args(["vm", "run", machine]);
    command.args(args.host.fault.iter().flat_map(|f| ["--fault", f]));
    let settle = args.host.settle.unwrap_or(if is_virtual(machine) { 10 } else { 5 });
    let script = script_of(args, blocks, settle, "latlab", "/tmp/undo");
    command.args(["--", "sh", "-c", &script]);
    command.current_dir(dir).stderr(Stdio::piped());
    let first = dir.join(run_name(blocks.first().map_or(0, |b| b.0)));
    let measured = own_run::measure(&mut command, &first)?;
    if !measured.status.success() {
        // Empty, unless the machine left something.
        let _ = std::fs::remove_dir(dir);
        let error = printed_error(&measured.stderr);
        return Err(error.context(format!("{machine}: {}", measured.status)));
    }
    Ok(())
}

/// Commands that measure the blocks of a boot, by the `latlab` there. `undo`: a file for what undoes a setting.
fn script_of(
    args: &Args,
    blocks: &[(usize, Chosen)],
    settle: u64,
    latlab: &str,
    undo: &str,
) -> String {
    let each = blocks.iter().map(|(number, c)| script(args, *number, c, latlab));
    format!("u={undo}; sleep {settle}; {}exit 0", each.collect::<String>())
}

/// Directory of a block's run.
fn run_name(number: usize) -> String {
    format!("run-{number}")
}

/// Commands that set a setting, measure, and undo what was set; what cannot be set is said in a file.
fn script(args: &Args, number: usize, chosen: &Chosen, latlab: &str) -> String {
    let length = args.block.as_secs_f64();
    let mut words =
        format!("{latlab} wakeup -q -D {length} -i {} --out {}", args.interval, run_name(number));
    // A virtual machine has no meter.
    if args.boot().is_some_and(is_board) {
        words += " --power";
    }
    words += &match args.priority {
        0 => " --policy other".to_owned(),
        priority => format!(" -m -p {priority}"),
    };
    // Idle states as configured, as in the blocks of run-time settings.
    words += if chosen.idle { " --latency 0" } else { " --idle-states" };
    words.extend(args.affinity.iter().map(|a| format!(" -a {a}")));
    words.extend(args.load.iter().map(|l| format!(" --load {}", quoted(&l.to_string()))));
    format!(
        ": >$u; ( {}exec {words} ) >/dev/null 2>error-{number}; sh $u 2>/dev/null; ",
        chosen.script()
    )
}

/// What a block measured, or why it did not.
fn measured(machine: &str, dir: &Path, number: usize) -> anyhow::Result<Measured> {
    let run = rundir::load(&dir.join(run_name(number)));
    let Ok(run) = run else {
        let said = std::fs::read(dir.join(format!("error-{number}"))).unwrap_or_default();
        return Err(printed_error(&said).context(machine.to_owned()));
    };
    let _ = std::fs::remove_file(dir.join(format!("error-{number}")));
    let found = run.parts.iter().find_map(|p| match &p.detail {
        Some(Detail::Wakeup(w)) => Some(w.all_wakeups()),
        _ => None,
    });
    let latency = found
        .filter(|h| h.count > 0)
        .ok_or_else(|| anyhow!("{machine}: no wake-up was measured"))?;
    let power = run.records().filter(|(_, r)| r.name.starts_with("power."));
    Ok(Measured { latency, records: power.map(|(_, r)| r.clone()).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parameters_of_the_list_with_their_values_are_tried() {
        for right in [
            "threadirqs",
            "isolcpus=1-3+nohz_full=1-3",
            "idle=poll",
            "idle=shallow",
            "threadirqs+irq-affinity=0",
        ] {
            assert!(choose(&[right.to_owned()]).is_ok(), "{right}");
        }
        for wrong in [
            "init=/bin/sh",
            "idle",
            "threadirqs=1",
            "isolcpus=x",
            "isolcpus=1,kernel=/etc/passwd",
            "idle=poll+panic=0",
            "idle=poll+idle=halt",
            "irq-affinity=0;reboot",
            "vm.swappiness=77",
        ] {
            assert!(choose(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
        assert!(choose(&["idle=poll".into(), "idle=poll".into()]).is_err());
    }

    #[test]
    fn parameters_are_added_to_those_of_the_machine() {
        let with = |machine, words: &[&str]| {
            machine_with(machine, &words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(with("armv7-rt", &[]), "armv7-rt");
        assert_eq!(with("armv7-rt", &["nohlt"]), "armv7-rt,append=nohlt");
        let with = with("x86_64,append=quiet,smp=2", &["isolcpus=1", "nohz_full=1"]);
        assert_eq!(with, "x86_64,append=quiet+isolcpus=1+nohz_full=1,smp=2");
    }
}
