//! `latlab vm sections`: the longest sections with interrupts off and with preemption off, by instructions.

use crate::cli::Global;
use crate::cli::vm::SectionsArgs;
use crate::cmd::{vm_count, vm_path};
use crate::outcome::{HintExt, Outcome};
use crate::session::Session;
use anyhow::{Context, anyhow};
use latlab_analysis::path::sections;
use latlab_model::run::{Part, Run};
use latlab_target::Arch;
use latlab_target::vm::catalog;

/// Runs the command.
///
/// # Errors
/// When the machine cannot run, has no plugin, or nothing was counted.
pub fn run(args: &SectionsArgs, global: &Global) -> anyhow::Result<Outcome> {
    let target = vm_count::target(&args.machine)?;
    if catalog::find(&target.name).is_some_and(|kind| kind.arch != Arch::Armv7) {
        return Err(anyhow!("{}: sections are counted on 32-bit ARM only", args.machine.machine))
            .hint("choose armv7-rt or armv7");
    }
    let name = vm_path::name(&args.machine);
    let config = serde_json::json!({
        "machine": name,
        "loops": args.counted.loops,
        "interval_us": args.counted.interval,
        "load": args.counted.load,
        "settle_s": args.counted.settle,
    });
    let mut session = Session::begin(global, "sections", &config)?;
    match measure(&name, args) {
        Ok((part, run)) => {
            session.run.machine = run.machine;
            session.run.parts.push(part);
            session.finish(None)
        }
        Err(error) => {
            session.abandon();
            Err(error)
        }
    }
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
