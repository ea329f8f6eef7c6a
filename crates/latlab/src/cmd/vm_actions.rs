//! `latlab vm`: which action is whose.

use crate::cli::Global;
use crate::cli::vm::{VmAction, VmArgs};
use crate::cmd::{vm, vm_bisect, vm_bound, vm_build, vm_gate, vm_path, vm_sections, vm_twin};
use crate::outcome::Outcome;

/// Runs `latlab vm`.
pub fn run(args: &VmArgs, global: &Global) -> anyhow::Result<Outcome> {
    match &args.action {
        VmAction::List => vm::list(global),
        VmAction::Doctor { names } => vm::doctor(names, global),
        VmAction::Fetch { names } => vm::fetch(names),
        VmAction::Build(build) => vm_build::run(build, global),
        VmAction::Boot(machine) => vm::boot(machine),
        VmAction::Shell(machine) => vm::shell(machine),
        VmAction::Run(run) => vm::run_command(run),
        VmAction::Gate(gate) => vm_gate::run(gate, global),
        VmAction::Path(path) => vm_path::run(path, global),
        VmAction::Sections(sections) => vm_sections::run(sections, global),
        VmAction::Bound(bound) => vm_bound::run(bound, global),
        VmAction::Twin(twin) => vm_twin::run(twin, global),
        VmAction::Bisect(bisect) => vm_bisect::run(bisect, global),
        VmAction::Clean { all } => vm::clean(*all),
    }
}
