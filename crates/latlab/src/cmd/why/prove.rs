//! `--test-mitigation`: mitigates a named cause by a setting that is restored afterwards, and measures
//! alternately with and without it.

use super::capture_session::CaptureRunner;
use super::load::{Loads, start_load};
use crate::cli::why::Args;
use anyhow::Context;
use latlab_analysis::latency::mitigation::compare;
use latlab_model::finding::{Note, Quantity, Value};
use latlab_model::latency::Cause;
use latlab_model::latency::MitigationTest;
use latlab_model::latency::WhyResult;
use latlab_model::latency::Window;
use latlab_model::latency::{Mechanism, RootCause};
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::WakeupConfig;
use latlab_report::messages;
use latlab_stats::histogram::Histogram;
use latlab_sys::settings::{SettingError, Settings};
use latlab_sys::{policy, signal};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Pairs of blocks for each remedy.
const PAIRS: usize = 6;
/// Remedies at most: those against the causes that explain most.
const REMEDIES: usize = 3;
/// A load, or a kernel with a new setting, is left alone for so long before it is measured.
const SETTLE: Duration = Duration::from_millis(150);

/// Beginning of the files of real-time throttling.
const RT: &str = "/proc/sys/kernel/sched_rt_";
const TIMER_MIGRATION: &str = "/proc/sys/kernel/timer_migration";
const NO_OTHER_CPU: &str = "why.reason-no-other-cpu";
const OTHER_PROGRAM: &str = "why.reason-other-program";

/// What is measured in blocks: latlab's own threads, or a program.
pub(super) trait Blocks {
    /// The configuration of latlab's own threads; `None`: a program, whose affinity and memory are its own.
    fn own(&self) -> Option<&WakeupConfig>;
    /// How long it was measured until now, ns: all blocks of a remedy take as long.
    fn duration_ns(&self) -> u64;
    /// Tells what is done now.
    fn say(&mut self, words: &str);
    /// Measures for a time, with the remedy applied or not, as far as it is about what is measured.
    ///
    /// # Errors
    /// When nothing can be measured.
    fn block(&mut self, time: Duration, remedy: &Remedy, away: bool) -> anyhow::Result<Histogram>;
}

impl Blocks for CaptureRunner {
    fn own(&self) -> Option<&WakeupConfig> {
        Some(&self.asked.wakeup.measure)
    }

    fn duration_ns(&self) -> u64 {
        self.asked.duration_ns
    }

    fn say(&mut self, words: &str) {
        self.progress.set(None, words);
    }

    fn block(&mut self, time: Duration, remedy: &Remedy, away: bool) -> anyhow::Result<Histogram> {
        Self::block(self, time, &mut |config| match remedy {
            Remedy::IdleStates => config.dma_latency_us = away.then_some(0),
            Remedy::Paging => config.lock_memory = away,
            Remedy::Elsewhere { from, to } if away => placed(&mut config.threads, *from, to),
            _ => {}
        })
    }
}

/// What can be taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The load that we started.
    Load,
    /// Settings of the kernel, in this order: file and value.
    Settings(Vec<(PathBuf, String)>),
    /// Idle states: `/dev/cpu_dma_latency` is held at 0 µs.
    IdleStates,
    /// Memory that is not locked.
    Paging,
    /// What keeps to one CPU: the task is measured on others.
    Elsewhere { from: CpuId, to: Vec<CpuId> },
}

/// A remedy with its description.
#[derive(Clone, Debug)]
struct Trial {
    against: String,
    note: Note,
    remedy: Result<Remedy, Note>,
}

/// Tries the remedies against the causes that explain most.
///
/// # Errors
/// When nothing can be measured; a setting that cannot be changed is part of the result.
pub fn run(
    blocks: &mut impl Blocks,
    args: &Args,
    result: &WhyResult,
) -> anyhow::Result<Vec<MitigationTest>> {
    let loaded = !args.wakeup.load.is_empty() || args.load_command.is_some();
    let mut proofs = Vec::new();
    for trial in trials(result, loaded, blocks.own()) {
        if signal::stop_requested().is_some() {
            break;
        }
        blocks.say(&format!("testing: {}", messages::note(&trial.note)));
        proofs.push(prove(blocks, args, result.limit_ns, trial)?);
    }
    Ok(proofs)
}

fn prove(
    blocks: &mut impl Blocks,
    args: &Args,
    limit_ns: u64,
    trial: Trial,
) -> anyhow::Result<MitigationTest> {
    let mut proof = MitigationTest {
        against: trial.against,
        remedy: Some(trial.note),
        ..MitigationTest::default()
    };
    let remedy = match trial.remedy {
        Ok(remedy) => remedy,
        Err(why) => {
            proof.note = Some(why);
            return Ok(proof);
        }
    };
    let share = Duration::from_nanos(blocks.duration_ns()) / (2 * PAIRS as u32);
    let block = share.clamp(Duration::from_millis(500), Duration::from_secs(5));
    let (mut plain, mut cured) = (Vec::new(), Vec::new());
    let mut load = (remedy != Remedy::Load).then(|| start_load(args)).transpose()?;
    'pairs: for pair in 0..PAIRS {
        // In turn, so that drift and order hit both alike.
        for away in [pair % 2 == 1, pair % 2 == 0] {
            if signal::stop_requested().is_some() {
                break 'pairs;
            }
            match measure(blocks, args, &remedy, away, block, &mut load, &mut proof)? {
                Some(histogram) if away => cured.push(histogram),
                Some(histogram) => plain.push(histogram),
                None => return Ok(proof),
            }
        }
    }
    proof.effect = Some(compare(&plain, &cured, limit_ns));
    Ok(proof)
}

/// One block; `None` when the remedy cannot be applied, which the proof then says.
fn measure(
    blocks: &mut impl Blocks,
    args: &Args,
    remedy: &Remedy,
    away: bool,
    block: Duration,
    load: &mut Option<Loads>,
    proof: &mut MitigationTest,
) -> anyhow::Result<Option<Histogram>> {
    // Dropped at the end of the block, on a signal or a panic: everything is restored.
    let mut settings = Settings::new();
    match remedy {
        Remedy::Load => *load = (!away).then(|| start_load(args)).transpose()?,
        Remedy::Settings(values) if away => {
            for (path, value) in values {
                match settings.set(path, value) {
                    Ok(change) => {
                        let line = Note::new("why.setting-changed")
                            .value("file", path.display().to_string())
                            .value("before", change.from.to_string())
                            .value("during", change.now.to_string());
                        if !proof.changes.contains(&line) {
                            proof.changes.push(line);
                        }
                    }
                    Err(
                        error @ (SettingError::Refused { .. } | SettingError::Unreadable { .. }),
                    ) => {
                        let error = crate::outcome::format_error_chain(&anyhow::Error::from(error));
                        proof.note = Some(reason_error(error));
                        return Ok(None);
                    }
                    Err(error) => return Err(error).context("changing a setting"),
                }
            }
        }
        _ => {}
    }
    std::thread::sleep(SETTLE);
    Ok(Some(blocks.block(block, remedy, away)?))
}

/// What is tried: first against the causes, then the load as a whole.
fn trials(result: &WhyResult, loaded: bool, config: Option<&WakeupConfig>) -> Vec<Trial> {
    let online = policy::online().unwrap_or_default();
    let mut trials: Vec<Trial> = Vec::new();
    for cluster in &result.explanation.causes {
        let cpu = cluster.example.and_then(|i| result.windows.get(i)).map_or(0, |w| w.cpu);
        let against = format!("{} {}", cluster.mechanism.id(), cluster.who);
        let mut tried = remedies(cluster, CpuId(cpu), &online, config);
        // In a virtual machine leaving idle is the hypervisor's doing too: this tells the two apart.
        if cluster.mechanism == Mechanism::Stall && mostly_idle(cluster, &result.windows) {
            tried.extend(shallow(config));
        }
        for (note, remedy) in tried {
            if trials.iter().all(|t| t.note != note) {
                trials.push(Trial { against: against.trim().to_owned(), note, remedy });
            }
        }
    }
    trials.truncate(REMEDIES);
    if loaded {
        let against = result.explanation.causes.first();
        let against = against.map_or(String::new(), |c| format!("{} {}", c.mechanism.id(), c.who));
        trials.push(Trial {
            against,
            note: Note::new("why.test-load-stopped"),
            remedy: Ok(Remedy::Load),
        });
    }
    trials
}

/// The mitigation and how to apply it, or why it cannot be applied here.
type Attempt = (Note, Result<Remedy, Note>);

/// The reversible remedies against a cause on a CPU; none, where there never is one.
fn remedies(
    cluster: &RootCause,
    cpu: CpuId,
    online: &[CpuId],
    config: Option<&WakeupConfig>,
) -> Vec<Attempt> {
    let others: Vec<CpuId> = online.iter().copied().filter(|&c| c != cpu).collect();
    let elsewhere = elsewhere(cpu, &others, config);
    // Said even where it is not possible, for these causes have no other remedy.
    let away = || vec![elsewhere.clone()];
    // A remedy that is one of several, or of doubtful use, is left out where it is not possible.
    let away_if_possible =
        || -> Vec<Attempt> { away().into_iter().filter(|a| a.1.is_ok()).collect() };
    match cluster.mechanism {
        Mechanism::InterruptHandler => {
            vec![(interrupt_moved(cluster.who.as_str()), moved(&cluster.who, &others))]
        }
        Mechanism::HigherPriority | Mechanism::EqualPriority => {
            match kernel_thread(cluster.thread.as_deref().unwrap_or(&cluster.who)) {
                Some(Thread::Interrupt(number)) => {
                    vec![(interrupt_moved(number.to_string()), moved_numbers(&[number], &others))]
                }
                Some(Thread::UnboundWork) => vec![unbound_attempt(&others)],
                Some(Thread::Bound) => away(),
                None => vec![],
            }
        }
        Mechanism::Throttling => vec![unthrottled_attempt()],
        Mechanism::IdleExit => shallow(config).into_iter().collect(),
        Mechanism::PageFault => memory_locked(config).into_iter().collect(),
        Mechanism::TimerCallback => {
            match fs::read_to_string(TIMER_MIGRATION).as_deref().map(str::trim) {
                Ok("0") => vec![(
                    Note::new("why.test-timer-migration"),
                    Ok(Remedy::Settings(vec![(PathBuf::from(TIMER_MIGRATION), "1".into())])),
                )],
                _ => away(),
            }
        }
        Mechanism::Workqueue => match cluster.thread.as_deref().and_then(kernel_thread) {
            Some(Thread::UnboundWork) => vec![unbound_attempt(&others)],
            Some(_) => away(),
            // Whether the worker is bound is not known: where it is, only the second one helps.
            None => [vec![unbound_attempt(&others)], away_if_possible()].concat(),
        },
        Mechanism::Softirq
        | Mechanism::HrtimerHandler
        | Mechanism::InterruptsOff
        | Mechanism::PreemptionOff => away_if_possible(),
        Mechanism::Nmi => vec![(
            Note::new("why.test-nmi-watchdog-off"),
            Ok(Remedy::Settings(vec![("/proc/sys/kernel/nmi_watchdog".into(), "0".into())])),
        )],
        _ => vec![],
    }
}

fn shallow(config: Option<&WakeupConfig>) -> Option<Attempt> {
    let note = Note::new("why.test-shallow-idle");
    let is_held = config.is_some_and(|config| config.dma_latency_us == Some(0));
    (!is_held).then_some((note, Ok(Remedy::IdleStates)))
}

fn memory_locked(config: Option<&WakeupConfig>) -> Option<Attempt> {
    let note = Note::new("why.test-memory-locked");
    match config {
        Some(config) => (!config.lock_memory).then_some((note, Ok(Remedy::Paging))),
        None => Some((note, Err(Note::new(OTHER_PROGRAM)))),
    }
}

/// Whether most of the windows that a cluster is the main cause of passed in idle.
fn mostly_idle(cluster: &RootCause, windows: &[Window]) -> bool {
    let idle = |w: &Window| {
        let longest = w.shares.iter().max_by_key(|(_, share)| share.ns);
        longest.is_some_and(|(group, _)| group.cause == Cause::IdleExit)
    };
    let those = cluster.main_of.iter().filter_map(|&i| windows.get(i));
    2 * those.filter(|w| idle(w)).count() > cluster.main_of.len()
}

/// The measured task on CPUs that the cause does not keep: what is bound to its CPU stays there.
fn elsewhere(cpu: CpuId, others: &[CpuId], config: Option<&WakeupConfig>) -> Attempt {
    let Some(config) = config else {
        return (Note::new("why.test-other-cpus"), Err(Note::new(OTHER_PROGRAM)));
    };
    let used = |c: &CpuId| config.threads.contains(&Some(*c));
    let free: Vec<CpuId> = others.iter().copied().filter(|c| !used(c)).collect();
    let note = Note::new("why.test-other-cpus");
    match free.is_empty() {
        _ if others.is_empty() => (note, Err(Note::new(NO_OTHER_CPU))),
        true => {
            let cpu = Quantity::Cpu(cpu.0);
            (note, Err(Note::new("why.reason-all-cpus-measured").value("cpu", cpu)))
        }
        false => {
            let cpus: Vec<Value> = free.iter().map(|c| Quantity::Cpu(c.0).into()).collect();
            (note.value("cpus", cpus), Ok(Remedy::Elsewhere { from: cpu, to: free }))
        }
    }
}

fn interrupt_moved(irq: impl Into<Value>) -> Note {
    Note::new("why.test-interrupt-moved").value("irq", irq)
}

fn reason_error(error: String) -> Note {
    Note::new("why.reason-error").value("error", error)
}

/// The threads of a measurement, those of one CPU (or of none) on others.
fn placed(threads: &mut [Option<CpuId>], from: CpuId, to: &[CpuId]) {
    let mut next = to.iter().copied().cycle();
    for thread in threads.iter_mut().filter(|t| t.is_none_or(|c| c == from)) {
        *thread = next.next();
    }
}

/// A thread of the kernel's by its name.
#[derive(Debug, PartialEq, Eq)]
enum Thread {
    /// `irq/24-eth0`: it follows its interrupt.
    Interrupt(u32),
    /// `kworker/u8:1`.
    UnboundWork,
    /// `ktimers/0`, `ksoftirqd/0`, `kworker/0:1`: one for each CPU.
    Bound,
}

fn kernel_thread(name: &str) -> Option<Thread> {
    let (kind, rest) = name.split_once('/')?;
    match kind {
        "irq" => Some(Thread::Interrupt(rest.split('-').next()?.parse().ok()?)),
        "kworker" if rest.starts_with('u') => Some(Thread::UnboundWork),
        "kworker" | "ktimers" | "ktimersoftd" | "ksoftirqd" | "rcuc" | "irq_work" => {
            rest.starts_with(|c: char| c.is_ascii_digit()).then_some(Thread::Bound)
        }
        _ => None,
    }
}

fn unthrottled_attempt() -> Attempt {
    let read = |file: &str| fs::read_to_string(format!("{RT}{file}_us"));
    let runtime = match (read("period"), read("runtime")) {
        (Ok(period), Ok(runtime)) => unthrottled(&period, &runtime),
        (Err(error), _) | (_, Err(error)) => Err(reason_error(format!("{RT}runtime_us: {error}"))),
    };
    let file = PathBuf::from(format!("{RT}runtime_us"));
    let setting = runtime.map(|us| Remedy::Settings(vec![(file, us)]));
    (Note::new("why.test-rt-runtime"), setting)
}

fn unbound_attempt(others: &[CpuId]) -> Attempt {
    (Note::new("why.test-unbound-work-moved"), unbound(others))
}

/// Nearly all of each period for real-time tasks, µs. Without any limit one that never sleeps would keep
/// a machine of one CPU to itself, and nobody could put the setting back.
fn unthrottled(period: &str, runtime: &str) -> Result<String, Note> {
    let us =
        |text: &str| text.trim().parse::<i64>().map_err(|e| reason_error(format!("{RT}*: {e}")));
    let (period, runtime) = (us(period)?, us(runtime)?);
    let most = period - (period / 100).max(1);
    if runtime < 0 || runtime >= most {
        return Err(Note::new("why.reason-rt-limit")
            .value("runtime_us", Quantity::Integer(runtime))
            .value("period_us", Quantity::Integer(period)));
    }
    Ok(most.to_string())
}

/// Every interrupt with that name goes to other CPUs.
fn moved(name: &str, others: &[CpuId]) -> Result<Remedy, Note> {
    if others.is_empty() {
        return Err(Note::new(NO_OTHER_CPU));
    }
    let table = fs::read_to_string("/proc/interrupts")
        .map_err(|e| reason_error(format!("/proc/interrupts: {e}")))?;
    let numbers = numbers_of(&table, name);
    if numbers.is_empty() {
        return Err(Note::new("why.reason-no-such-interrupt").value("irq", name));
    }
    moved_numbers(&numbers, others)
}

/// Interrupts with these numbers go to other CPUs.
fn moved_numbers(numbers: &[u32], others: &[CpuId]) -> Result<Remedy, Note> {
    if others.is_empty() {
        return Err(Note::new(NO_OTHER_CPU));
    }
    let list: Vec<String> = others.iter().map(|c| c.0.to_string()).collect();
    let list = list.join(",");
    let file = |n: &u32| (PathBuf::from(format!("/proc/irq/{n}/smp_affinity_list")), list.clone());
    Ok(Remedy::Settings(numbers.iter().map(file).collect()))
}

/// Numbers of the interrupts that have this name among their actions (`/proc/interrupts`).
fn numbers_of(table: &str, name: &str) -> Vec<u32> {
    let number = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let named = rest.split([' ', ',']).any(|word| word == name) || rest.ends_with(name);
        number.trim().parse().ok().filter(|_| named)
    };
    table.lines().filter_map(number).collect()
}

/// Unbound work items are kept on other CPUs.
fn unbound(others: &[CpuId]) -> Result<Remedy, Note> {
    if others.is_empty() {
        return Err(Note::new(NO_OTHER_CPU));
    }
    let mut words = vec![0u32; others.iter().map(|c| c.0 as usize / 32 + 1).max().unwrap_or(1)];
    for cpu in others {
        words[cpu.0 as usize / 32] |= 1 << (cpu.0 % 32);
    }
    let mask: Vec<String> = words.iter().rev().map(|w| format!("{w:08x}")).collect();
    let file = PathBuf::from("/sys/devices/virtual/workqueue/cpumask");
    Ok(Remedy::Settings(vec![(file, mask.join(","))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_found_by_their_actions() {
        let table = "           CPU0       CPU1\n  1:  5  6  IO-APIC  1-edge  i8042\n \
             11:  5  6  IO-APIC  11-fasteoi  uhci_hcd, eth0\n \
             34:  5  6  PCI-MSI 1048576-edge      virtio1-req.0\nLOC:  5 6 Local timer interrupts\n";
        assert_eq!(numbers_of(table, "eth0"), [11]);
        assert_eq!(numbers_of(table, "virtio1-req.0"), [34]);
        assert!(numbers_of(table, "eth").is_empty());
        assert!(numbers_of(table, "interrupts").is_empty());
    }

    /// A hog of real-time priority must not be set free on a machine with one CPU.
    #[test]
    fn throttling_is_never_taken_away_whole() {
        assert_eq!(unthrottled("1000000\n", "950000\n"), Ok("990000".into()));
        assert_eq!(unthrottled("40000", "20000"), Ok("39600".into()));
        assert!(unthrottled("1000000", "-1").is_err_and(|e| e.id() == Some("why.reason-rt-limit")));
        assert!(
            unthrottled("1000000", "995000").is_err_and(|e| e.id() == Some("why.reason-rt-limit"))
        );
    }

    #[test]
    fn threads_of_the_kernel_are_moved_with_what_they_follow() {
        assert_eq!(kernel_thread("irq/24-virtio0-c"), Some(Thread::Interrupt(24)));
        assert_eq!(kernel_thread("kworker/u8:1"), Some(Thread::UnboundWork));
        for bound in ["kworker/0:1H", "ktimers/1", "ksoftirqd/0"] {
            assert_eq!(kernel_thread(bound), Some(Thread::Bound), "{bound}");
        }
        for other in ["sh", "irq/x-y", "pr/ttyS0", "cpuhp/0", "my/0"] {
            assert_eq!(kernel_thread(other), None, "{other}");
        }
    }

    /// The name that readers see has no number: the mitigation is chosen by the whole one.
    #[test]
    fn mitigations_of_kernel_threads_follow_from_the_captured_name() {
        let cause = |mechanism: &str, thread: &str| -> RootCause {
            serde_json::from_value(serde_json::json!({
                "mechanism": mechanism, "who": thread.split('/').next(), "thread": thread,
                "stage": null, "prio": null, "main_of": [], "part_of": [], "share_of_late": 1.0,
                "share_of_lateness": 1.0, "excess_ns": 1.0, "size_ns": 1.0, "times": 1.0,
                "times_on_time": 0.0, "functions": [], "stack": [], "instead": [],
                "period_ns": null, "confidence": "high", "evidence": [], "example": null
            }))
            .unwrap()
        };
        let online = [CpuId(0), CpuId(1)];
        let ids = |mechanism: &str, thread: &str| -> Vec<String> {
            let cause = cause(mechanism, thread);
            let all = remedies(&cause, CpuId(0), &online, Some(&WakeupConfig::default()));
            all.iter().filter_map(|a| a.0.id().map(str::to_owned)).collect()
        };
        let unbound = ["why.test-unbound-work-moved"];
        assert_eq!(ids("higher-priority", "kworker/u4:1"), unbound);
        assert_eq!(ids("workqueue", "kworker/u4:1"), unbound);
        for bound in ["ktimers/0", "ksoftirqd/0", "kworker/0:1H"] {
            assert_eq!(ids("higher-priority", bound), ["why.test-other-cpus"], "{bound}");
        }
        assert_eq!(ids("workqueue", "kworker/0:1-events"), ["why.test-other-cpus"]);
    }

    #[test]
    fn the_task_goes_where_the_cause_is_not() {
        let config = |threads: &[Option<u32>]| WakeupConfig {
            threads: threads.iter().map(|t| t.map(CpuId)).collect(),
            ..WakeupConfig::default()
        };
        let cpus = [CpuId(1), CpuId(2)];
        let one = config(&[Some(0), Some(2)]);
        let (note, remedy) = elsewhere(CpuId(0), &cpus, Some(&one));
        let cpus_of = vec![Value::from(Quantity::Cpu(1))];
        assert_eq!(note, Note::new("why.test-other-cpus").value("cpus", cpus_of));
        let Ok(Remedy::Elsewhere { from, to }) = remedy else { panic!("{remedy:?}") };
        let mut threads = one.threads;
        placed(&mut threads, from, &to);
        assert_eq!(threads, [Some(CpuId(1)), Some(CpuId(2))]);
        let all = config(&[Some(0), Some(1), Some(2)]);
        assert!(
            elsewhere(CpuId(0), &cpus, Some(&all))
                .1
                .is_err_and(|e| e.id() == Some("why.reason-all-cpus-measured"))
        );
        assert!(elsewhere(CpuId(0), &[], Some(&all)).1.is_err());
        // The threads of another program stay where they are.
        let reason = elsewhere(CpuId(0), &cpus, None).1.unwrap_err();
        assert_eq!(reason.id(), Some(OTHER_PROGRAM));
        assert!(memory_locked(None).unwrap().1.is_err() && shallow(None).is_some());
    }

    #[test]
    fn a_mask_names_the_other_cpus() {
        let mask = |cpus: &[u32]| match unbound(&cpus.iter().map(|&c| CpuId(c)).collect::<Vec<_>>())
        {
            Ok(Remedy::Settings(k)) => k[0].1.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(mask(&[1, 3]), "0000000a");
        assert_eq!(mask(&[0, 33]), "00000002,00000001");
        assert!(mask(&[]).contains("no-other-cpu"));
    }
}
