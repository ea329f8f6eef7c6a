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
    vm_count::arm_target(&args.machine)?;
    let name = vm_path::name(&args.machine);
    let config = vm_count::config(&name, &args.counted);
    let session = Session::begin(global, "sections", &config)?;
    vm_count::finish(session, measure(&name, args))
}

fn measure(name: &str, args: &SectionsArgs) -> anyhow::Result<(Part, Run)> {
    let marks = |_| vec![("marks".to_owned(), args.counted.loops.to_string())];
    let guest = vm_count::run(name, &args.machine, &args.counted, ("latlab_sections", &marks))?;
    let file = sections::read(&guest.file)
        .context("the plugin's file")
        .hint("count more wake-ups (-l), or use a kernel of Debian's")?;
    let mut part = sections::part(name, &guest.release, &file, &guest.kallsyms);
    let wakeups = guest.run.records().filter(|(_, r)| r.name == "wakeup.user");
    part.results.extend(wakeups.map(|(_, record)| record.clone()));
    Ok((part, guest.run))
}
