//! `latlab vm sections`: the longest sections with interrupts off and with preemption off, by instructions.

use crate::cli::Global;
use crate::cli::vm::SectionsArgs;
use crate::cmd::{vm_count, vm_path};
use crate::outcome::{HintExt, Outcome};
use crate::session::Session;
use crate::trace_input;
use anyhow::{Context, anyhow};
use latlab_analysis::path::section_events::{self, Comparison, SectionEvents};
use latlab_analysis::path::sections;
use latlab_model::run::{Part, Run};
use std::path::Path;

/// What tells of sections, where a kernel has it.
const EVENTS: [&str; 4] = [
    "preemptirq:irq_disable",
    "preemptirq:irq_enable",
    "preemptirq:preempt_disable",
    "preemptirq:preempt_enable",
];

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
    if args.events && !vm_count::needs_symbols(&target) {
        return Err(anyhow!("{name}: --events is for x86-64, whose clock counts instructions"))
            .hint("choose x86_64-rt,build=tracers");
    }
    let mut arguments = vec![("marks".to_owned(), args.counted.loops.to_string())];
    if vm_count::needs_symbols(&target) {
        let symbols = vm_count::symbols(name, &args.machine)?;
        arguments.extend(vm_count::cpu_arguments(name, &target, &symbols)?);
    }
    let all = |_| arguments.clone();
    let events: &[&str] = if args.events { &EVENTS } else { &[] };
    let guest =
        vm_count::run(name, &args.machine, &args.counted, ("latlab_sections", &all), events)?;
    let file = sections::read(&guest.file)
        .context("the plugin's file")
        .hint("count more wake-ups (-l), or use a kernel of Debian's")?;
    let comparison = match &guest.recorded {
        None => None,
        Some((list, recording)) => Some(compare(list, recording)?),
    };
    let (release, kallsyms) = (&guest.release, &guest.kallsyms);
    let mut part = sections::part(name, release, &file, kallsyms, comparison.as_ref());
    let wakeups = guest.run.records().filter(|(_, r)| r.name == "wakeup.user");
    part.results.extend(wakeups.map(|(_, record)| record.clone()));
    Ok((part, guest.run))
}

/// The plugin's sections beside the recording of the guest.
fn compare(list: &str, recording: &[u8]) -> anyhow::Result<Comparison> {
    let list = section_events::read_list(list)
        .context("the plugin's list of sections")
        .hint("count fewer wake-ups (-l)")?;
    let file = trace_input::open(recording, Path::new("the machine's recording"))?;
    let events = SectionEvents::of(&file)
        .context("--events: the machine's kernel recorded none of them")
        .hint("choose a kernel with tracers: vm:x86_64-rt,build=tracers")?;
    section_events::compare(&list, &events)
        .context(
            "--events: the times of the events are not those at which the kernel read the clock",
        )
        .hint("leave out icount=, which makes an instruction take 1 ns")
}
