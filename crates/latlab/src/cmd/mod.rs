//! One file a command: from configuration to a run, a report and an exit code.

mod bench;
#[cfg(feature = "host")]
mod check;
mod check_events;
#[cfg(feature = "host")]
mod compare;
#[cfg(feature = "host")]
mod complete;
pub mod doctor;
#[cfg(feature = "host")]
mod export;
mod fault_worker;
#[cfg(feature = "host")]
mod fleet;
#[cfg(feature = "host")]
mod generate;
#[cfg(feature = "host")]
mod history;
#[cfg(feature = "host")]
mod image;
mod kernel_config;
pub mod load;
mod memory;
pub mod menu;
mod noise;
#[cfg(feature = "host")]
mod on;
mod on_board;
#[cfg(feature = "host")]
mod profile;
#[cfg(feature = "host")]
mod profile_live;
mod record;
mod report;
mod sched;
mod search_worker;
mod set_priority;
mod survey;
mod sweep;
mod timer;
mod tune;
#[cfg(feature = "view")]
mod view;
#[cfg(feature = "host")]
mod vm;
#[cfg(feature = "host")]
mod vm_actions;
#[cfg(feature = "host")]
mod vm_bisect;
#[cfg(feature = "host")]
mod vm_bound;
#[cfg(feature = "host")]
mod vm_build;
#[cfg(feature = "host")]
mod vm_count;
#[cfg(feature = "host")]
mod vm_gate;
#[cfg(feature = "host")]
mod vm_path;
#[cfg(feature = "host")]
mod vm_sections;
#[cfg(feature = "host")]
mod vm_twin;
mod wakeup;
mod watch;
mod why;
#[cfg(feature = "host")]
mod worst;

use crate::cli::{Cli, Command};
use crate::outcome::Outcome;

/// Runs what was asked for.
pub fn dispatch(cli: Cli) -> anyhow::Result<Outcome> {
    let Some(command) = cli.command else {
        return menu::choose(dispatch);
    };
    let global = &cli.global;
    crate::trace_input::limit_memory(global.max_memory);
    #[cfg(feature = "host")]
    if let Some(target) = global.on.as_deref().filter(|target| *target != "local") {
        if let Command::Fetch { run } = &command {
            return on::fetch(target, run.as_deref());
        }
        return on::run(target, &crate::cli::command_name());
    }
    match command {
        Command::Watch(args) => watch::run(global, &args),
        Command::Bench(args) => bench::run(global, &args),
        Command::Memory(args) => memory::run(global, &args),
        #[cfg(feature = "host")]
        Command::Check(args) => check::run(global, &args),
        Command::Tune(args) => tune::run(global, &args),
        #[cfg(feature = "host")]
        Command::Compare(args) => compare::run(global, &args),
        #[cfg(feature = "host")]
        Command::History(args) => history::run(global, &args),
        #[cfg(feature = "host")]
        Command::Fleet(args) => fleet::run(global, &args),
        Command::Doctor(args) => doctor::run(global, &args),
        Command::Survey(args) => survey::run(global, &args),
        #[cfg(feature = "host")]
        Command::Export(args) => export::run(global, &args),
        Command::Record(args) => record::run(global, &args),
        Command::Report(args) => report::run(global, &args),
        Command::Sched(args) => sched::run(global, &args),
        Command::Timer(args) => timer::run(global, &args),
        #[cfg(feature = "host")]
        Command::Profile(args) => profile::run(global, &args),
        Command::Menu(args) => menu::print(&args),
        Command::SchedTask(args) => sched::task::run(&args),
        #[cfg(feature = "view")]
        Command::View(args) => view::run(global, &args),
        #[cfg(feature = "host")]
        Command::Vm(args) => vm_actions::run(&args, global),
        #[cfg(feature = "host")]
        Command::Image(args) => image::run(&args, global),
        #[cfg(feature = "host")]
        Command::Fetch { .. } => on::fetch("local", None),
        #[cfg(feature = "host")]
        Command::Generate(args) => generate::run(&args),
        Command::Sweep(args) => sweep::run(global, &args),
        Command::Noise(args) => noise::run(global, &args),
        Command::Load(args) => load::run(global, &args),
        Command::LoadWorker(args) => load::worker(&args),
        Command::Wakeup(args) => wakeup::run(global, &args),
        #[cfg(feature = "host")]
        Command::Worst(args) => worst::run(&args, global),
        Command::SetPriority(args) => set_priority::run(&args),
        Command::FaultWorker(args) => fault_worker::run(&args),
        Command::SearchWorker(args) => search_worker::run(&args),
        Command::OnBoard(args) => on_board::run(&args),
        Command::Why(args) => why::run(global, &args),
    }
}
