//! `latlab vm sections`: the longest sections with interrupts off and with preemption off, by instructions.

use crate::cli::Global;
use crate::cli::vm::SectionsArgs;
use crate::cmd::{vm_count, vm_path};
use crate::outcome::{HintExt, Outcome};
use crate::session::Session;
use anyhow::Context;
use latlab_analysis::path::sections;
use latlab_model::run::{Part, Run};

/// Runs the command.
///
/// # Errors
/// When the machine cannot run, has no plugin, or nothing was counted.
pub fn run(args: &SectionsArgs, global: &Global) -> anyhow::Result<Outcome> {
    vm_count::target(&args.machine)?;
    let name = vm_path::name(&args.machine);
    let config = vm_count::config(&name, &args.counted);
    let session = Session::begin(global, "sections", &config)?;
    vm_count::finish(session, measure(&name, args))
}

fn measure(name: &str, args: &SectionsArgs) -> anyhow::Result<(Part, Run)> {
    let target = vm_count::target(&args.machine)?;
    let mut arguments = vec![("marks".to_owned(), args.counted.loops.to_string())];
    if vm_count::needs_symbols(&target) {
        let symbols = vm_count::symbols(name, &args.machine)?;
        arguments.extend(vm_count::cpu_arguments(name, &target, &symbols)?);
    }
    let all = |_| arguments.clone();
    let guest = vm_count::run(name, &args.machine, &args.counted, ("latlab_sections", &all))?;
    let file = sections::read(&guest.file)
        .context("the plugin's file")
        .hint("count more wake-ups (-l), or use a kernel of Debian's")?;
    let mut part = sections::part(name, &guest.release, &file, &guest.kallsyms);
    let wakeups = guest.run.records().filter(|(_, r)| r.name == "wakeup.user");
    part.results.extend(wakeups.map(|(_, record)| record.clone()));
    Ok((part, guest.run))
}
