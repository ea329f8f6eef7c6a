//! A machine in virtual time whose instructions a plugin of QEMU counts while `latlab wakeup` runs in it.

use crate::cli::vm::{Counted, Machine};
use crate::cmd::vm;
use crate::outcome::{HintExt, Outcome, OwnHintExt, foreign_line};
use crate::rundir;
use crate::session::Session;
use anyhow::{Context, anyhow};
use latlab_analysis::path::kernel_code::cpu_variables;
use latlab_model::run::{Detail, Part, Run};
use latlab_sys::signal::{self, Signal};
use latlab_target::Arch;
use latlab_target::initramfs::Extra;
use latlab_target::pull::Mapping;
use latlab_target::spec::VmTarget;
use latlab_target::vm::plugin::{self, Plugin};
use latlab_target::vm::{Host, catalog, needs, qemu};
use latlab_wire::frame::Job;
use std::fs;
use std::path::{Path, PathBuf};

/// Results in the guest, and below the scratch folder here.
const RUN: &str = "r";
const KALLSYMS: &str = "kallsyms";
const INTERRUPTS: &str = "interrupts";
const OUTPUT: &str = "output";
const RECORDING: &str = "trace.dat";
/// Ring buffer of a recording.
const BUFFER_KB: &str = "32768";
/// What the guest's shell runs; its arguments are the seconds to settle and the command, which a signal reaches.
const SCRIPT: &str = "cat /proc/kallsyms > kallsyms
    cat /proc/interrupts > interrupts
    sleep $1
    shift
    exec \"$@\" > output 2>&1";
/// Before [`SCRIPT`], where there are modules to load.
const LOAD_MODULES: &str = "for module in /latlab-modules/*; do
        insmod $module > output 2>&1 || exit 1
    done
    ";
/// The largest plugin file that is read.
const FILE_MAX: u64 = 512 << 20;
/// Of a coarser clock nothing is left of a path.
const ICOUNT_MAX: u8 = 8;

/// What a machine and its plugin brought back.
pub struct Guest {
    /// The measurement in the guest.
    pub run: Run,
    /// Release of its kernel.
    pub release: String,
    /// The plugin's file.
    pub file: String,
    /// The guest's `/proc/kallsyms`.
    pub kallsyms: Vec<u8>,
    /// The guest's `/proc/interrupts`.
    pub interrupts: String,
    /// Where events were asked for, the plugin's list and the recording.
    pub recorded: Option<(String, Vec<u8>)>,
    /// Virtual time of one instruction, as a power of two of ns.
    pub shift: u8,
}

/// The machine in virtual time.
///
/// # Errors
/// When the machine does not exist, or its instructions cannot be counted.
pub fn target(machine: &Machine) -> anyhow::Result<VmTarget> {
    let mut target = vm::target(machine)?;
    let icount = *target.icount.get_or_insert(0);
    let wrong = |reason: &str, hint: &str| {
        Err(anyhow!("{}: {reason}", machine.machine)).hint(hint.to_owned())
    };
    if icount > ICOUNT_MAX {
        return wrong("icount above 8 is too coarse to count instructions", "leave out icount=");
    }
    if target.smp.is_some_and(|smp| smp != 1) {
        return wrong("virtual time has one CPU", "leave out smp=");
    }
    match catalog::find(&target.name).map(|kind| kind.arch) {
        None => wrong("no such virtual machine", &format!("available: {}", catalog::names())),
        Some(Arch::Aarch64) => wrong(
            "instructions are counted on 32-bit ARM and x86-64 only",
            "choose armv7-rt or x86_64-rt",
        ),
        Some(_) => Ok(target),
    }
}

/// Whether the state of the machine's CPU is found by its kernel's symbols.
pub fn needs_symbols(target: &VmTarget) -> bool {
    catalog::find(&target.name).is_some_and(|kind| kind.arch == Arch::X86_64)
}

/// What a plugin is told of where a machine's kernel has the variables of a CPU: nothing on ARM.
///
/// # Errors
/// Where the kernel's symbols lack them.
pub fn cpu_arguments(
    name: &str,
    target: &VmTarget,
    kallsyms: &[u8],
) -> anyhow::Result<Vec<(String, String)>> {
    if !needs_symbols(target) {
        return Ok(Vec::new());
    }
    let variables = cpu_variables(kallsyms)
        .ok_or_else(|| anyhow!("{name}: no symbols of the preemption count and the running task"))
        .hint("the kernel needs CONFIG_KALLSYMS_ALL")?;
    let arguments = [
        ("count", variables.count),
        ("current", variables.current),
        ("offsets", variables.offsets),
    ];
    Ok(arguments.map(|(name, at)| (name.to_owned(), format!("{at:x}"))).to_vec())
}

/// The configuration of a run.
pub fn config(name: &str, counted: &Counted) -> serde_json::Value {
    serde_json::json!({
        "machine": name,
        "loops": counted.loops,
        "interval_us": counted.interval,
        "load": counted.load,
        "settle_s": counted.settle,
        "modules": counted.modules,
    })
}

/// Keeps what was measured in a machine, on which it was.
///
/// # Errors
/// The measurement's, which leaves no run, or of saving it. None where a signal asked to stop.
pub fn finish(
    mut session: Session,
    measured: anyhow::Result<(Part, Run)>,
) -> anyhow::Result<Outcome> {
    match measured {
        Ok((part, run)) => {
            session.run.machine = run.machine;
            session.run.parts.push(part);
            session.finish(signal::stop_requested().map(Signal::name))
        }
        Err(error) => session.abandon(error),
    }
}

/// The `/proc/kallsyms` of a machine's kernel. The addresses of its image are the same in each boot in virtual time.
///
/// # Errors
/// When the machine does not run.
pub fn symbols(name: &str, machine: &Machine) -> anyhow::Result<Vec<u8>> {
    let cache = vm::cache()?;
    let scratch = cache.scratch().with_hint()?;
    let target = target(machine)?;
    let plan = vm::Plan {
        extras: vm::extras(machine, &target)?,
        mapping: Mapping::of_own_command(),
        ..vm::Plan::default()
    };
    vm::say(&format!("{name}: reading the kernel's symbols"));
    let argv = ["/bin/sh", "-c", "cat /proc/kallsyms > kallsyms"].map(String::from).to_vec();
    let job = Job { argv, ..Job::default() };
    let (finished, _) = vm::execute_in(scratch.path(), &target, job, plan)?;
    finished?;
    read_symbols(scratch.path())
}

/// What the guest's shell kept of its symbols in a folder.
///
/// # Errors
/// When there are none.
pub fn read_symbols(folder: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(folder.join(KALLSYMS))
        .context("the machine brought back no /proc/kallsyms")
        .hint("the kernel needs CONFIG_KALLSYMS")
}

/// What the guest's shell kept of its interrupts; empty where it did not.
pub fn read_interrupts(folder: &Path) -> String {
    fs::read_to_string(folder.join(INTERRUPTS)).unwrap_or_default()
}

/// The plugin of this name for a machine, which writes a file.
///
/// # Errors
/// When it cannot be built, or what the machine needs is missing.
pub fn plugin(
    host: &Host<'_>,
    target: &VmTarget,
    name: &str,
    file: &Path,
    arguments: Vec<(String, String)>,
) -> anyhow::Result<Plugin> {
    let kind = catalog::find(&target.name).context("the machine was found before")?;
    needs::check(host, kind, target.kernel.is_some() || target.build.is_some()).with_hint()?;
    let out = ("out".to_owned(), file.display().to_string());
    Ok(Plugin {
        file: plugin::build(host, name, qemu::program(kind.arch).0, &mut vm::say).with_hint()?,
        arguments: [vec![out], arguments].concat(),
    })
}

/// Names and values for a plugin, from the virtual time of one instruction (`icount=`).
pub type Arguments<'a> = dyn Fn(u8) -> Vec<(String, String)> + 'a;

/// Boots the machine with the plugin of this name, measures, and reads what both wrote. `arguments` of the
/// plugin besides its file; `events` that the guest records meanwhile, with the processor's counter as their clock.
///
/// # Errors
/// When the plugin cannot be built, the machine does not run, or a result is missing.
pub fn run(
    name: &str,
    machine: &Machine,
    counted: &Counted,
    (plugin, arguments): (&str, &Arguments<'_>),
    events: &[&str],
) -> anyhow::Result<Guest> {
    if signal::stop_requested().is_some() {
        return Err(anyhow!("{name}: not begun"));
    }
    let cache = vm::cache()?;
    let host = vm::host(&cache)?;
    let scratch = cache.scratch().with_hint()?;
    let mut target = target(machine)?;
    let shift = target.icount.unwrap_or(0);
    let file = scratch.path().join("counted.txt");
    let list = scratch.path().join("list.txt");
    let mut arguments = arguments(shift);
    if !events.is_empty() {
        arguments.push(("log".to_owned(), list.display().to_string()));
    }
    target.plugin = Some(self::plugin(&host, &target, plugin, &file, arguments)?);
    let folder = scratch.path().join("results");
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    let plan = vm::Plan {
        faults: vm::faults_of(machine)?,
        extras: [vm::extras(machine, &target)?, modules(&counted.modules)?].concat(),
        mapping: Mapping::of_own_command(),
        ..vm::Plan::default()
    };
    vm::say(&format!("{name}: counting {} wake-ups in virtual time", counted.loops));
    let job = Job { argv: command(counted, events), ..Job::default() };
    let (finished, _) = vm::execute_in(&folder, &target, job, plan)?;
    let finished = finished?;
    let run = guest_run(&folder, finished.code);
    Ok(Guest {
        run: match events {
            [] => run?,
            _ => run.hint("the events are those of a kernel with tracers (build=tracers)")?,
        },
        release: finished.release,
        file: read(&file, FILE_MAX)?,
        kallsyms: read_symbols(&folder)?,
        interrupts: read_interrupts(&folder),
        recorded: match events {
            [] => None,
            _ => Some((read(&list, FILE_MAX)?, recording(&folder)?)),
        },
        shift,
    })
}

fn recording(folder: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(folder.join(RECORDING)).context("the machine brought back no recording")
}

/// Modules at the places where the guest's shell looks, in their order.
fn modules(files: &[PathBuf]) -> anyhow::Result<Vec<Extra>> {
    let extra = |(n, file): (usize, &PathBuf)| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !file.is_file() {
            return Err(anyhow!("--module {}: no such file", file.display()))
                .hint("name the module's .ko file, built for this machine's kernel");
        }
        // The shell sorts them, and splits names at spaces.
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let to = format!("latlab-modules/{n:03}-{}", name.chars().map(plain).collect::<String>());
        Ok(Extra { from: file.clone(), to, mode: 0o644 })
    };
    files.iter().enumerate().map(extra).collect()
}

/// The guest's command.
fn command(counted: &Counted, events: &[&str]) -> Vec<String> {
    let load = if counted.modules.is_empty() { "" } else { LOAD_MODULES };
    let mut words: Vec<String> = ["/bin/sh", "-c"].map(String::from).to_vec();
    words.extend([format!("{load}{SCRIPT}"), "count".to_owned()]);
    words.push(counted.settle.to_string());
    if !events.is_empty() {
        let record = ["/bin/latlab", "record", "-o", RECORDING, "-C", "x86-tsc", "-b", BUFFER_KB];
        words.extend(record.map(String::from));
        words.extend(events.iter().flat_map(|event| ["-e".to_owned(), (*event).to_owned()]));
        words.push("--".to_owned());
    }
    words.extend(["/bin/latlab", "wakeup", "-q", "--out", RUN].map(String::from));
    words.extend([format!("-l{}", counted.loops), format!("-i{}", counted.interval)]);
    words.extend(counted.load.iter().flat_map(|load| ["--load".to_owned(), load.clone()]));
    words
}

/// The last line that a command in the machine printed, but for its hint.
pub fn reason(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join(OUTPUT)).unwrap_or_default();
    let line = foreign_line(text.lines().rev().filter(|l| !l.starts_with("hint: ")));
    line.unwrap_or_else(|| "no reason was given".to_owned())
}

fn guest_run(folder: &Path, code: u8) -> anyhow::Result<Run> {
    let is_stopped = signal::stop_requested().is_some_and(|s| s.exit_code() == code);
    if is_stopped && !folder.join(RUN).exists() {
        return Err(anyhow!("no wake-up was counted"));
    }
    if code != 0 && !is_stopped {
        let line = reason(folder);
        return Err(anyhow!("the measurement in the machine ended with exit code {code}: {line}"));
    }
    let run = rundir::load(&folder.join(RUN))?;
    let is_wakeup = |detail: &Option<Detail>| matches!(detail, Some(Detail::Wakeup(_)));
    if !run.parts.iter().any(|p| is_wakeup(&p.detail)) {
        return Err(anyhow!("the machine brought back no wake-up latency"));
    }
    Ok(run)
}

/// A plugin's file of at most so many bytes.
///
/// # Errors
/// When it does not exist, or is larger.
pub fn read(path: &Path, max: u64) -> anyhow::Result<String> {
    let length = fs::metadata(path)
        .context("the plugin wrote no result: no wake-up was counted")
        .hint("the board build (latlab vm doctor) must be of this version: make boards")?
        .len();
    if length > max {
        return Err(anyhow!("the plugin's file has {length} bytes")).hint("fewer wake-ups: -l");
    }
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guests_command_has_every_option() {
        let mut counted = Counted {
            loops: 7,
            interval: 500,
            load: vec!["hackbench -g 1".into()],
            settle: 3,
            modules: Vec::new(),
        };
        let words = command(&counted, &[]);
        let wakeup = "count 3 /bin/latlab wakeup -q --out r -l7 -i500 --load";
        assert_eq!(words[3..].join(" "), format!("{wakeup} hackbench -g 1"));
        assert!(!words[2].contains("insmod"));
        counted.modules.push("a.ko".into());
        let words = command(&counted, &["preemptirq"]);
        assert!(words[2].starts_with("for module"));
        assert!(words.join(" ").contains(" -e preemptirq -- /bin/latlab wakeup "));
    }
}
