//! `latlab vm path`: the kernel functions between a timer's expiry and user space, by instructions.
//!
//! ```text
//! plugin/latlab_path.c ─ host's compiler ─▶ QEMU, virtual time, with `latlab wakeup` in the guest
//!      paths of wake-ups ◀─ plugin's file      │  /proc/kallsyms, run.json
//!                        └─▶ analysis::path ◀──┘
//! ```

use crate::cli::Global;
use crate::cli::vm::{Counted, Machine, PathArgs};
use crate::cmd::{vm, vm_count};
use crate::outcome::{HintExt, Outcome};
use crate::session::Session;
use anyhow::{Context, anyhow};
use latlab_analysis::path::format::{self, PathFile};
use latlab_analysis::path::{self, Measured};
use latlab_model::path::MachinePaths;
use latlab_model::record::Record;
use latlab_model::run::{Part, Run};
use std::path::PathBuf;

/// One machine, counted.
pub struct Side {
    /// The paths of its wake-ups.
    pub paths: MachinePaths,
    /// The plugin's file.
    pub file: PathFile,
    /// The measurement in the guest.
    pub run: Run,
}

/// Runs the command.
///
/// # Errors
/// When a machine cannot run, has no plugin, or no wake-up was counted.
pub fn run(args: &PathArgs, global: &Global) -> anyhow::Result<Outcome> {
    let mut machines = vec![args.machine.clone()];
    machines
        .extend(args.against.as_deref().map(|other| against(&args.machine, other)).transpose()?);
    for machine in &machines {
        vm_count::target(machine)?;
    }
    let mut config = vm_count::config(&name(&args.machine), &args.counted);
    config["machines"] = machines.iter().map(name).collect();
    let session = Session::begin(global, "path", &config)?;
    let sides = machines.iter().map(|m| measure(name(m), m, &args.counted));
    let sides = sides.collect::<anyhow::Result<Vec<_>>>();
    vm_count::finish(session, sides.map(|sides| (part(&sides), sides[0].run.clone())))
}

/// The name by which a machine is told from another.
pub fn name(machine: &Machine) -> String {
    match &machine.kernel {
        Some(kernel) => format!("{} {}", machine.machine, kernel.display()),
        None => machine.machine.clone(),
    }
}

/// The other machine: a file is a kernel for the same one.
fn against(machine: &Machine, other: &str) -> anyhow::Result<Machine> {
    let file = PathBuf::from(other);
    if file.exists() {
        return Ok(Machine { kernel: Some(file), modules_from: None, ..machine.clone() });
    }
    let other =
        Machine { machine: other.to_owned(), kernel: None, modules_from: None, ..machine.clone() };
    vm::target(&other).with_context(|| format!("--against {}", other.machine)).hint(
        "name a kernel's file, or a machine with its options such as armv7-rt,append=psi=0",
    )?;
    Ok(other)
}

/// Counts the wake-ups of a machine that is called `name` in results.
///
/// # Errors
/// When it cannot run, has no plugin, or no wake-up was counted.
pub fn measure(name: String, machine: &Machine, counted: &Counted) -> anyhow::Result<Side> {
    let shift = |shift: u8| vec![("shift".to_owned(), shift.to_string())];
    let guest = vm_count::run(&name, machine, counted, ("latlab_path", &shift), &[])?;
    let file = format::read(&guest.file).context("the plugin's file")?;
    let measured = Measured {
        name: &name,
        release: &guest.release,
        insn_ns: 1 << guest.shift,
        file: &file,
        kallsyms: &guest.kallsyms,
        counted: usize::try_from(counted.loops).unwrap_or(usize::MAX),
    };
    let paths = path::machine(&measured)
        .ok_or_else(|| anyhow!("{name}: no wake-up was counted"))
        .hint("the board build (latlab vm doctor) must be of this version: make boards")?;
    Ok(Side { paths, file, run: guest.run })
}

/// The paths, with the latencies that the guests measured.
fn part(sides: &[Side]) -> Part {
    let mut part = path::part(sides.iter().map(|s| (s.paths.clone(), &s.file)).collect());
    part.results.extend(sides.iter().flat_map(latencies));
    part
}

/// The latencies that the guest measured, with the machine's name.
pub fn latencies(side: &Side) -> Vec<Record> {
    let wakeups = side.run.records().filter(|(_, r)| r.name == "wakeup.user");
    let named = |(_, record): (_, &Record)| {
        let mut record = record.clone();
        record.params.insert("machine".into(), side.paths.name.as_str().into());
        record
    };
    wakeups.map(named).collect()
}
