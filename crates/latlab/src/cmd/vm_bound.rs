//! `latlab vm bound`: an upper bound of the wake-up latency, from the longest intervals that were executed.

use crate::cli::Global;
use crate::cli::vm::BoundArgs;
use crate::cmd::sched::file;
use crate::cmd::{vm_count, vm_path};
use crate::outcome::{HintExt, Outcome};
use crate::session::Session;
use crate::trace_input;
use anyhow::{Context, anyhow};
use latlab_analysis::path::bound::{self, Measured, Task};
use latlab_analysis::path::bound_trace;
use latlab_analysis::path::kernel_code::{Range, kernel_code};
use latlab_model::run::{Part, Run};
use latlab_target::spec::VmTarget;
use std::path::Path;

/// Runs the command.
///
/// # Errors
/// When the machine cannot run, has no plugin or no symbols, or nothing was counted.
pub fn run(args: &BoundArgs, global: &Global) -> anyhow::Result<Outcome> {
    let tasks: Vec<Task> = args.tasks.iter().map(|t| task(t)).collect::<anyhow::Result<_>>()?;
    if is_recording(&args.machine.machine) {
        return estimate(Path::new(&args.machine.machine), args, &tasks, global);
    }
    vm_count::target(&args.machine)?;
    let name = vm_path::name(&args.machine);
    let mut config = vm_count::config(&name, &args.counted);
    config["tasks"] = args.tasks.clone().into();
    let session = Session::begin(global, "bound", &config)?;
    vm_count::finish(session, measure(&name, args, &tasks))
}

/// Whether a file is meant, also one that does not exist; a machine's options may have paths.
fn is_recording(named: &str) -> bool {
    let looks_so = named.contains('/') || named.ends_with(".dat");
    Path::new(named).is_file() || looks_so && !named.contains(',')
}

/// The bound from the events of a recording, of any machine.
fn estimate(
    path: &Path,
    args: &BoundArgs,
    tasks: &[Task],
    global: &Global,
) -> anyhow::Result<Outcome> {
    let name = path.display().to_string();
    let config = serde_json::json!({ "recording": name, "tasks": args.tasks });
    let mut session = Session::begin_ephemeral(global, "bound", &config)?;
    let bytes = file::open(path)?;
    let file = file::parse(path, &bytes)?;
    trace_input::in_nanoseconds(&file, path)?;
    let (recorded, damage) = bound_trace::read(&file);
    trace_input::tell_damage(path, &file.diagnostics, &damage);
    let recorded = recorded
        .ok_or_else(|| anyhow!("{name}: no events of critical sections and of the scheduler"))
        .hint("latlab record -e preemptirq -e irq_handler_entry -e irq_vectors -e sched_switch -e sched_waking, on a kernel with tracers")?;
    let measured = Measured {
        machine: &name,
        insn_ns: 1,
        wakeups: recorded.wakeups,
        observed_ns: recorded.observed_ns,
        kallsyms: file.symbols.text(),
        ..Measured::default()
    };
    session.run.parts.push(bound::part(bound::detail(&recorded.file, &measured, tasks)));
    session.finish(None)
}

fn measure(name: &str, args: &BoundArgs, tasks: &[Task]) -> anyhow::Result<(Part, Run)> {
    let symbols = vm_count::symbols(name, &args.machine)?;
    let arguments = arguments(name, &vm_count::target(&args.machine)?, &symbols)?;
    let all = |_| arguments.clone();
    let guest = vm_count::run(name, &args.machine, &args.counted, ("latlab_bound", &all), &[])?;
    let file = bound::read(&guest.file)
        .context("the plugin's file")
        .hint("count fewer wake-ups (-l), or use a kernel of Debian's")?;
    let wakeups: Vec<_> = guest.run.records().filter(|(_, r)| r.name == "wakeup.user").collect();
    let observed = wakeups.iter().filter_map(|(_, r)| r.summary.max);
    let measured = Measured {
        machine: name,
        release: &guest.release,
        insn_ns: 1 << guest.shift,
        timer_ns: bound::TIMER_NS,
        wakeups: wakeups.iter().map(|(_, record)| record.summary.count).sum(),
        observed_ns: observed.fold(0.0, f64::max) as u64,
        kallsyms: &guest.kallsyms,
        interrupts: &guest.interrupts,
    };
    let mut part = bound::part(bound::detail(&file, &measured, tasks));
    part.results.extend(wakeups.iter().map(|(_, record)| (*record).clone()));
    Ok((part, guest.run))
}

/// What the plugin is told of a machine's kernel.
///
/// # Errors
/// Where its symbols lack the scheduler's.
pub fn arguments(
    name: &str,
    target: &VmTarget,
    kallsyms: &[u8],
) -> anyhow::Result<Vec<(String, String)>> {
    let code = kernel_code(kallsyms)
        .ok_or_else(|| anyhow!("{name}: no symbols of the scheduler"))
        .hint("the kernel needs CONFIG_KALLSYMS")?;
    let range = |&(first, end): &Range| format!("{first:x}-{end:x}");
    let all = |ranges: &[Range]| ranges.iter().map(range).collect::<Vec<_>>().join("+");
    let domain: Vec<String> = code.domain.iter().map(|at| format!("{at:x}")).collect();
    let arguments = [
        ("scheduler", all(&code.scheduler)),
        ("schedule", format!("{:x}", code.schedule)),
        ("idle", range(&code.idle)),
        ("event", all(&code.event)),
        ("domain", domain.join("+")),
        ("thunk", all(code.thunks.as_slice())),
    ];
    let arguments = arguments.map(|(name, value)| (name.to_owned(), value)).to_vec();
    Ok([arguments, vm_count::cpu_arguments(name, target, kallsyms)?].concat())
}

/// `EXECUTION/PERIOD`.
fn task(text: &str) -> anyhow::Result<Task> {
    let (execution, period) = text
        .split_once('/')
        .ok_or_else(|| anyhow!("--task-set {text}: no period"))
        .hint("EXECUTION/PERIOD, e.g. 200us/1ms")?;
    let ns = |text: &str| crate::cli::time::micros_ns("--task-set", text);
    let task = Task { execution_ns: ns(execution)?, period_ns: ns(period)? };
    if task.period_ns == 0 {
        return Err(anyhow!("--task-set {text}: the period is zero"))
            .hint("EXECUTION/PERIOD, e.g. 200us/1ms");
    }
    Ok(task)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_an_execution_time_and_a_period() {
        let expected = Task { execution_ns: 200_000, period_ns: 1_000_000 };
        assert_eq!(task("200us/1ms").unwrap(), expected);
        assert_eq!(task("200/1000").unwrap(), expected);
        for wrong in ["200us", "1us/0", "a/1ms", "/"] {
            let error = task(wrong).unwrap_err().to_string();
            assert!(error.starts_with("--task-set"), "{error}");
        }
    }
}
