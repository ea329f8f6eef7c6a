//! `latlab worst`: the search for the worst wake-up, and its replay.
//!
//! ```text
//! options ─▶ plan ─▶ virtual machine: `latlab search-worker PLAN` ─▶ what was found ─▶ run
//! run.json ─▶ plan ─▶ the same machine, the same plan ─▶ the same latencies, or an error
//! ```

use crate::cli::Global;
use crate::cli::vm::Machine;
use crate::cli::worst::Args;
use crate::cmd::{vm, vm_bound, vm_count};
use crate::outcome::{HintExt, Outcome, OwnHintExt, foreign_line};
use crate::rundir;
use crate::session::Session;
use anyhow::{Context, anyhow};
use latlab_analysis::path::bound;
use latlab_analysis::path::{self, format};
use latlab_analysis::worst as analysis;
use latlab_model::path::{BoundDetail, WakePath};
use latlab_model::run::Detail;
use latlab_model::worst::{
    Answer, Input, InputKind, SearchPlan, Searched, WorstDetail, WorstInputs,
};
use latlab_sys::load::LoadSpec;
use latlab_sys::worst::TICK_NS;
use latlab_target::pull::Mapping;
use latlab_target::vm::faults::{Fault, Source};
use latlab_wire::frame::Job;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What the tick is taken for: the kernel's work in it, ns.
const TICK_WORK_NS: u64 = 10_000;
/// Files of the guest.
const ANSWER: &str = "answer.json";
const OUTPUT: &str = "output";
/// What the guest's shell runs.
const SCRIPT: &str = "/bin/latlab search-worker \"$1\" --random $2 > answer.json 2> output; code=$?
    [ $3 = no ] || cat /proc/kallsyms > kallsyms
    [ $3 = no ] || cat /proc/interrupts > interrupts
    exit $code";
/// The largest file that the guest may bring back, and that a plugin may write.
const ANSWER_MAX: u64 = 16 << 20;
const COUNTED_MAX: u64 = 512 << 20;

/// What one boot brought back.
struct Boot {
    answer: Answer,
    release: String,
    path: Option<WakePath>,
    bound: Option<Box<BoundDetail>>,
    host_ns: u64,
}

/// What a plugin counts during the search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    Nothing,
    Path,
    Bound,
}

/// Runs the command.
///
/// # Errors
/// When the machine cannot run, nothing was measured, or a replay differs.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<Outcome> {
    let recorded = args.replay.as_deref().map(recorded).transpose()?;
    let (inputs, plan) = match &recorded {
        Some(detail) => (detail.inputs.clone(), SearchPlan { random: 0, ..detail.plan.clone() }),
        None => (inputs(args), plan(args)?),
    };
    let machine = machine(&inputs);
    let counting = match (args.path, args.bound) {
        (true, _) => Counting::Path,
        (_, true) => Counting::Bound,
        _ => Counting::Nothing,
    };
    vm_count::target(&machine)?;
    let config = serde_json::json!({
        "inputs": inputs, "plan": plan, "path": args.path, "bound": args.bound
    });
    let mut session = Session::begin(global, "worst", &config)?;
    let boot = match boot(&machine, &plan, counting) {
        Ok(boot) => boot,
        Err(error) => {
            return session.abandon(error);
        }
    };
    let differs =
        recorded.as_ref().and_then(|recorded| difference(recorded, &boot.answer.searched));
    session.run.machine = boot.answer.machine;
    session.run.parts.push(analysis::part(WorstDetail {
        inputs,
        plan,
        release: boot.release,
        searched: boot.answer.searched,
        host_ns: boot.host_ns,
        replay_of_ns: recorded.as_ref().and_then(worst_ns),
        path: boot.path,
        bound: boot.bound,
    }));
    let outcome = session.finish(None)?;
    match differs {
        None => Ok(outcome),
        Some(reason) => Err(anyhow!("the replay differs: {reason}")).hint(
            "kernel, board build (latlab vm doctor), fault module and QEMU must be those of the recorded run; on x86-64 latencies differ from boot to boot",
        ),
    }
}

/// The search of a recorded run.
fn recorded(run: &Path) -> anyhow::Result<WorstDetail> {
    let detail = rundir::load(run)?.parts.into_iter().find_map(|part| match part.detail {
        Some(Detail::Worst(detail)) => Some(*detail),
        _ => None,
    });
    let found = detail.filter(|detail| worst_ns(detail).is_some());
    found
        .ok_or_else(|| anyhow!("{}: this run has no worst wake-up", run.display()))
        .hint("name a run of latlab worst")
}

fn worst_ns(detail: &WorstDetail) -> Option<u64> {
    detail.searched.search.worst().map(|worst| worst.latency_ns)
}

/// In what a replay differs from what was recorded, in words.
fn difference(recorded: &WorstDetail, now: &Searched) -> Option<String> {
    let (before, after) = (&recorded.searched.search, &now.search);
    if before == after {
        return None;
    }
    let first = before.growth.iter().zip(&after.growth).find(|(a, b)| a != b);
    Some(match first {
        Some((a, b)) if a.wakeup == b.wakeup => {
            format!("wake-up {} took {} ns, recorded: {} ns", a.wakeup, b.latency_ns, a.latency_ns)
        }
        Some((a, b)) => format!(
            "wake-up {} exceeds all before with {} ns, recorded: wake-up {} with {} ns",
            b.wakeup, b.latency_ns, a.wakeup, a.latency_ns
        ),
        None => "the worst wake-up is another one".into(),
    })
}

fn inputs(args: &Args) -> WorstInputs {
    let text = |path: &Option<PathBuf>| path.as_ref().map(|p| p.display().to_string());
    WorstInputs {
        machine: args.machine.clone().unwrap_or_default(),
        kernel: text(&args.kernel),
        modules_from: text(&args.modules_from),
        initrd: text(&args.initrd),
        dtb: text(&args.dtb),
        faults: args.faults.clone(),
        loads: args.loads.clone(),
    }
}

fn machine(inputs: &WorstInputs) -> Machine {
    let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
    Machine {
        machine: inputs.machine.clone(),
        kernel: path(&inputs.kernel),
        modules_from: path(&inputs.modules_from),
        initrd: path(&inputs.initrd),
        dtb: path(&inputs.dtb),
        faults: inputs.faults.clone(),
        ..Machine::default()
    }
}

/// What is searched, from the options.
fn plan(args: &Args) -> anyhow::Result<SearchPlan> {
    let mut inputs = Vec::new();
    for fault in timed(&args.faults)? {
        let Fault { kind: name, ns, every_ns, .. } = fault;
        if inputs.iter().any(|i: &Input| i.name == name) {
            return Err(anyhow!("--fault {name}: there is one fault of each kind"))
                .hint("give each kind once");
        }
        inputs.push(Input { kind: InputKind::Fault, name, ns, every_ns });
    }
    for load in &args.loads {
        match load.parse() {
            Ok(LoadSpec::Built(1, worker)) if worker.cpu.is_none() && worker.rate.is_none() => {}
            Ok(_) => {
                return Err(anyhow!("--load {load}: rounds of one built-in load are begun"))
                    .hint("leave out N*, @CPU, /RATE and commands; latlab load --list");
            }
            Err(error) => {
                return Err(anyhow!("--load {load}: {error}")).hint("latlab load --list");
            }
        }
        inputs.push(Input { kind: InputKind::Load, name: load.clone(), ns: 0, every_ns: 0 });
    }
    if inputs.is_empty() {
        return Err(anyhow!("there is nothing whose time could be searched"))
            .hint("give --fault irqs-off:us=30,every=1ms or --load fork");
    }
    inputs.push(Input {
        kind: InputKind::Tick,
        name: "tick".into(),
        ns: TICK_WORK_NS,
        every_ns: TICK_NS,
    });
    Ok(SearchPlan {
        seed: args.seed,
        method: args.method.into(),
        wakeups: args.loops,
        random: if args.no_random { 0 } else { args.loops },
        priority: args.priority,
        inputs,
    })
}

/// The faults, at rest until the search begins them.
fn timed(faults: &[String]) -> anyhow::Result<Vec<Fault>> {
    let timed = |spec: &String| {
        let fault = Fault::parse(spec).with_hint()?;
        if fault.source != Source::Kernel {
            return Err(anyhow!("--fault {spec}: only faults of the module begin at a given time"))
                .hint("choose from hardirq, irqs-off, preempt-off and others (docs/reference/worst.md)");
        }
        fault.at_rest().with_hint()
    };
    faults.iter().map(timed).collect()
}

/// Boots the machine, searches, and reads what was found.
fn boot(machine: &Machine, plan: &SearchPlan, counting: Counting) -> anyhow::Result<Boot> {
    let cache = vm::cache()?;
    let host = vm::host(&cache)?;
    let scratch = cache.scratch().with_hint()?;
    let mut target = vm_count::target(machine)?;
    let shift = target.icount.unwrap_or(0);
    let counted = scratch.path().join("counted.txt");
    let counted_by = match counting {
        Counting::Nothing => None,
        Counting::Path => Some(("latlab_path", vec![("shift".to_owned(), shift.to_string())])),
        Counting::Bound => {
            let symbols = vm_count::symbols(&machine.machine, machine)?;
            Some(("latlab_bound", vm_bound::arguments(&machine.machine, &target, &symbols)?))
        }
    };
    if let Some((name, arguments)) = counted_by {
        target.plugin = Some(vm_count::plugin(&host, &target, name, &counted, arguments)?);
    }
    let folder = scratch.path().join("results");
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    let execution = vm::Plan {
        faults: timed(&machine.faults)?,
        extras: vm::extras(machine, &target)?,
        mapping: Mapping::of_own_command(),
        ..vm::Plan::default()
    };
    vm::say(&format!(
        "{}: searching with {} wake-ups in virtual time",
        machine.machine,
        plan.wakeups.saturating_add(plan.random)
    ));
    let begun = Instant::now();
    let (finished, _) = vm::execute_in(&folder, &target, job(plan, counting)?, execution)?;
    let finished = finished?;
    let host_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let answer = answer(&folder, finished.code)?;
    let (mut path, mut bound) = (None, None);
    if counting != Counting::Nothing {
        let kallsyms = vm_count::read_symbols(&folder)?;
        let text = vm_count::read(&counted, COUNTED_MAX)?;
        if counting == Counting::Path {
            path = Some(worst_path(&text, &kallsyms, plan, &answer.searched, 1 << shift)?);
        } else {
            let file =
                bound::read(&text).context("the plugin's file").hint("fewer wake-ups: -l")?;
            let measured = bound::Measured {
                machine: &machine.machine,
                release: &finished.release,
                insn_ns: 1 << shift,
                timer_ns: bound::TIMER_NS,
                wakeups: measured_wakeups(&answer.searched),
                observed_ns: most_ns(&answer.searched),
                kallsyms: &kallsyms,
                interrupts: &vm_count::read_interrupts(&folder),
            };
            bound = Some(Box::new(bound::detail(&file, &measured, &[])));
        }
    }
    Ok(Boot { answer, release: finished.release, path, bound, host_ns })
}

/// The guest's command. Its words have the same length with and without random wake-ups and paths, and so has
/// the guest's memory: a replay executes the same instructions.
fn job(plan: &SearchPlan, counting: Counting) -> anyhow::Result<Job> {
    let text = serde_json::to_string(&SearchPlan { random: 0, ..plan.clone() })?;
    let mut argv: Vec<String> = ["/bin/sh", "-c", SCRIPT, "worst"].map(String::from).to_vec();
    argv.extend([text, format!("{:010}", plan.random)]);
    argv.push(if counting == Counting::Nothing { "no" } else { "ye" }.to_owned());
    Ok(Job { argv, ..Job::default() })
}

fn answer(folder: &Path, code: u8) -> anyhow::Result<Answer> {
    if code != 0 {
        let text = fs::read_to_string(folder.join(OUTPUT)).unwrap_or_default();
        let line = foreign_line(text.lines()).unwrap_or_else(|| "no reason was given".to_owned());
        return Err(anyhow!("the search in the machine ended with exit code {code}: {line}"));
    }
    let path = folder.join(ANSWER);
    let length = fs::metadata(&path).context("the machine brought back no result")?.len();
    if length > ANSWER_MAX {
        return Err(anyhow!("the machine's result has {length} bytes"));
    }
    let bytes = fs::read(&path).context("the machine's result")?;
    let answer: Answer = serde_json::from_slice(&bytes)
        .context("the machine's result")
        .hint("the board build (latlab vm doctor) must be of this version: make boards")?;
    if answer.searched.search.worst().is_none() {
        return Err(anyhow!("the machine counted no wake-up"));
    }
    Ok(answer)
}

/// Wake-ups whose latency the search program measured.
fn measured_wakeups(searched: &Searched) -> u64 {
    let again = searched.again.as_ref().map_or(0, |a| a.wakeups);
    let random = searched.random.as_ref().map_or(0, |t| t.wakeups);
    searched.search.wakeups + random + again
}

/// The largest latency of all wake-ups, ns.
fn most_ns(searched: &Searched) -> u64 {
    let trails = [Some(&searched.search), searched.random.as_ref()];
    let most = trails.into_iter().flatten().filter_map(|t| t.worst()).map(|w| w.latency_ns).max();
    most.unwrap_or(0).max(searched.again.as_ref().map_or(0, |a| a.latency_ns))
}

/// The functions of the worst wake-up of the search.
fn worst_path(
    text: &str,
    kallsyms: &[u8],
    plan: &SearchPlan,
    searched: &Searched,
    insn_ns: u64,
) -> anyhow::Result<WakePath> {
    let mut file = format::read(text).context("the plugin's file")?;
    // Behind the search: its worst wake-up again, and random ones. Before it: wake-ups to warm up.
    let again = searched.again.as_ref().map_or(0, |a| a.wakeups);
    let behind = usize::try_from(plan.random.saturating_add(again)).unwrap_or(usize::MAX);
    file.wakeups.truncate(file.wakeups.len().saturating_sub(behind));
    let measured = path::Measured {
        name: "",
        release: "",
        insn_ns,
        file: &file,
        kallsyms,
        counted: usize::try_from(plan.wakeups).unwrap_or(usize::MAX),
    };
    let paths = path::machine(&measured).context("the plugin kept no path of a wake-up")?;
    let worst = searched.search.worst().map_or(0, |w| w.latency_ns);
    if paths.worst.latency_ns != worst {
        return Err(anyhow!("the plugin did not keep the path of the worst wake-up"))
            .hint("fewer wake-ups: -l");
    }
    Ok(paths.worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::worst::{Growth, Trail};

    fn detail(latencies: &[u64]) -> WorstDetail {
        let growth =
            latencies.iter().zip(1..).map(|(&latency_ns, wakeup)| Growth { wakeup, latency_ns });
        let search = Trail { wakeups: 100, growth: growth.collect(), ..Trail::default() };
        let searched = Searched { search, ..Searched::default() };
        WorstDetail { searched, ..WorstDetail::default() }
    }

    #[test]
    fn a_replay_differs_in_a_single_ns() {
        let recorded = detail(&[4000, 61_000]);
        assert_eq!(difference(&recorded, &detail(&[4000, 61_000]).searched), None);
        let text = difference(&recorded, &detail(&[4000, 61_001]).searched).unwrap();
        assert_eq!(text, "wake-up 2 took 61001 ns, recorded: 61000 ns");
        let text = difference(&recorded, &detail(&[4000]).searched).unwrap();
        assert_eq!(text, "the worst wake-up is another one");
    }

    #[test]
    fn the_guests_words_have_one_length() {
        let plan = SearchPlan { wakeups: 100, random: 100, ..SearchPlan::default() };
        let length = |plan: &SearchPlan, counting| {
            job(plan, counting).unwrap().argv.iter().map(String::len).collect::<Vec<_>>()
        };
        let without = SearchPlan { random: 0, ..plan.clone() };
        assert_eq!(length(&plan, Counting::Nothing), length(&without, Counting::Path));
    }
}
