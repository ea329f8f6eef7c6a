//! Kernel configuration: which options tracing and low latency need, and what a given kernel has.
//!
//! The list follows the kernel's own Kconfig texts (`kernel/trace/Kconfig`,
//! `kernel/Kconfig.preempt`, `kernel/time/Kconfig`, `lib/Kconfig.debug`).

use std::collections::BTreeMap;

/// What an option should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// `=y`.
    On,
    /// `=y` or `=m`.
    OnOrModule,
    /// Not set.
    Off,
}

/// What an option is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Measuring at all, and reading what the kernel is.
    Measuring,
    /// Seeing what the kernel did.
    Tracing,
    /// Low latency.
    Latency,
    /// Debugging aids that make every kernel slow, and do not belong where latency is measured.
    Debugging,
}

/// How much an option matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A question cannot be answered, or a deadline not be held, without it.
    Needed,
    /// It makes answers better, or matters in some set-ups.
    Useful,
}

/// One option with the reason for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOption {
    /// With `CONFIG_`.
    pub name: &'static str,
    /// What it should be.
    pub want: Want,
    /// For what.
    pub purpose: Purpose,
    /// How much it matters.
    pub weight: Weight,
    /// First mainline version that has it; empty where every supported kernel does.
    pub since: &'static str,
    /// One sentence.
    pub why: &'static str,
}

const fn option(
    name: &'static str,
    want: Want,
    purpose: Purpose,
    weight: Weight,
    since: &'static str,
    why: &'static str,
) -> KernelOption {
    KernelOption { name, want, purpose, weight, since, why }
}

use Purpose::{Debugging, Latency, Measuring, Tracing};
use Want::{Off, On, OnOrModule};
use Weight::{Needed, Useful};

/// Every option that is looked at, in the order in which a fragment names them.
pub const OPTIONS: &[KernelOption] = &[
    option(
        "CONFIG_HIGH_RES_TIMERS",
        On,
        Measuring,
        Needed,
        "",
        "Without it a sleep ends at the next tick (1 to 10 ms), and no wake-up latency below that can be seen or had.",
    ),
    option(
        "CONFIG_IKCONFIG_PROC",
        On,
        Measuring,
        Useful,
        "",
        "Lets every run say with which configuration it was measured (/proc/config.gz).",
    ),
    option(
        "CONFIG_PERF_EVENTS",
        On,
        Measuring,
        Useful,
        "",
        "Hardware counters: instructions, cache and TLB misses beside the time.",
    ),
    option(
        "CONFIG_SCHEDSTATS",
        On,
        Measuring,
        Useful,
        "",
        "The scheduler's own waiting times, to check others against.",
    ),
    option(
        "CONFIG_IRQ_TIME_ACCOUNTING",
        On,
        Measuring,
        Useful,
        "",
        "Counts time in interrupts exactly instead of sampling it at the tick.",
    ),
    option(
        "CONFIG_PARAVIRT_TIME_ACCOUNTING",
        On,
        Measuring,
        Useful,
        "",
        "In a virtual machine: reports the time that the hypervisor took away (steal).",
    ),
    option("CONFIG_FTRACE", On, Tracing, Needed, "", "The tracer; everything below hangs on it."),
    option(
        "CONFIG_FTRACE_SYSCALLS",
        On,
        Tracing,
        Useful,
        "",
        "Events at entry and exit of system calls: what the late task had asked for.",
    ),
    option(
        "CONFIG_FUNCTION_TRACER",
        On,
        Tracing,
        Needed,
        "",
        "Records every call of a kernel function.",
    ),
    option(
        "CONFIG_FUNCTION_GRAPH_TRACER",
        On,
        Tracing,
        Needed,
        "",
        "Records how long each kernel function took: the way to the function that made it late.",
    ),
    option(
        "CONFIG_DYNAMIC_FTRACE",
        On,
        Tracing,
        Needed,
        "",
        "Makes the function tracers cost next to nothing while they are off, and selectable by function.",
    ),
    option(
        "CONFIG_IRQSOFF_TRACER",
        On,
        Tracing,
        Needed,
        "",
        "Finds the longest stretch with interrupts disabled, and adds the events irq_disable and irq_enable. Costs a little even when off: compare with and without.",
    ),
    option(
        "CONFIG_PREEMPT_TRACER",
        On,
        Tracing,
        Needed,
        "",
        "Finds the longest stretch with preemption disabled, and adds the events preempt_disable and preempt_enable. Needs a preemptible kernel.",
    ),
    option(
        "CONFIG_SCHED_TRACER",
        On,
        Tracing,
        Needed,
        "",
        "The tracers wakeup, wakeup_rt and wakeup_dl: from waking to running.",
    ),
    option(
        "CONFIG_HWLAT_TRACER",
        On,
        Tracing,
        Needed,
        "4.9",
        "Finds stalls that no code of this kernel made: SMI, secure world, hypervisor.",
    ),
    option(
        "CONFIG_OSNOISE_TRACER",
        On,
        Tracing,
        Needed,
        "5.14",
        "Counts what the kernel takes from a busy task: NMI, interrupts, softirqs, threads.",
    ),
    option(
        "CONFIG_TIMERLAT_TRACER",
        On,
        Tracing,
        Needed,
        "5.14",
        "Splits a wake-up into interrupt and thread latency within the kernel.",
    ),
    option(
        "CONFIG_HIST_TRIGGERS",
        On,
        Tracing,
        Useful,
        "4.7",
        "Histograms inside the kernel: long recordings without large files.",
    ),
    option(
        "CONFIG_SYNTH_EVENTS",
        On,
        Tracing,
        Useful,
        "5.10",
        "Events made of two others, as from waking to switching in.",
    ),
    option(
        "CONFIG_TRACER_SNAPSHOT",
        On,
        Tracing,
        Useful,
        "",
        "Keeps the trace of the worst case while tracing goes on.",
    ),
    option(
        "CONFIG_KPROBE_EVENTS",
        On,
        Tracing,
        Useful,
        "",
        "An event at any kernel function that has none.",
    ),
    option(
        "CONFIG_UPROBE_EVENTS",
        On,
        Tracing,
        Useful,
        "",
        "An event at any function of a program.",
    ),
    option(
        "CONFIG_STACKTRACE",
        On,
        Tracing,
        Needed,
        "",
        "Kernel stacks with events: who disabled interrupts, who held the lock.",
    ),
    option("CONFIG_KALLSYMS", On, Tracing, Needed, "", "Names instead of addresses."),
    option(
        "CONFIG_PREEMPT_RT",
        On,
        Latency,
        Needed,
        "6.12 (x86, arm64, riscv); before and on 32-bit Arm with the PREEMPT_RT patch",
        "Threads for interrupts, sleeping locks with priority inheritance: the bound on wake-up latency. Needs CONFIG_EXPERT=y.",
    ),
    option("CONFIG_EXPERT", On, Latency, Useful, "", "CONFIG_PREEMPT_RT is only offered with it."),
    option(
        "CONFIG_IRQ_FORCED_THREADING",
        On,
        Latency,
        Useful,
        "",
        "Interrupt handlers as threads with priorities (threadirqs on the command line), without PREEMPT_RT too.",
    ),
    option(
        "CONFIG_NO_HZ_FULL",
        On,
        Latency,
        Useful,
        "",
        "Lets isolated CPUs run one task without a tick (nohz_full=).",
    ),
    option(
        "CONFIG_HZ_PERIODIC",
        Off,
        Latency,
        Useful,
        "",
        "A tick on every CPU at all times, idle or not: that many interruptions a second for nobody (NO_HZ_IDLE or NO_HZ_FULL instead).",
    ),
    option(
        "CONFIG_HZ_100",
        Off,
        Latency,
        Useful,
        "",
        "What is still counted in ticks (ordinary timers, round-robin slices, ticks' accounting of CPU time) comes in steps of 10 ms; 250 or 1000 ticks are finer. High-resolution timers do not depend on it.",
    ),
    option(
        "CONFIG_CPU_ISOLATION",
        On,
        Latency,
        Useful,
        "4.15",
        "Keeps the kernel's own work off the CPUs of isolcpus= and nohz_full=.",
    ),
    option(
        "CONFIG_CPUSETS",
        On,
        Latency,
        Useful,
        "",
        "Keeps other tasks off a CPU while the system runs.",
    ),
    option(
        "CONFIG_RCU_NOCB_CPU",
        On,
        Latency,
        Useful,
        "",
        "Moves RCU callbacks out of softirqs, off the CPUs that must be on time.",
    ),
    option(
        "CONFIG_CPU_FREQ_GOV_PERFORMANCE",
        OnOrModule,
        Latency,
        Useful,
        "",
        "Holds the frequency: a ramp-up is latency. On boards without cpufreq it is not there and not missed.",
    ),
    option(
        "CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS",
        Off,
        Latency,
        Useful,
        "",
        "khugepaged and compaction take locks and time from tasks that never asked for huge pages; madvise is enough.",
    ),
    option(
        "CONFIG_RT_GROUP_SCHED",
        Off,
        Latency,
        Useful,
        "",
        "A task in a control group without a real-time budget may not use SCHED_FIFO: chrt and latlab get EPERM even as root.",
    ),
    option(
        "CONFIG_PROVE_LOCKING",
        Off,
        Debugging,
        Needed,
        "",
        "Checks every lock against every other: latencies grow several times over.",
    ),
    option(
        "CONFIG_LOCKDEP",
        Off,
        Debugging,
        Needed,
        "",
        "Keeps the history of every lock; comes with PROVE_LOCKING and LOCK_STAT.",
    ),
    option("CONFIG_LOCK_STAT", Off, Debugging, Needed, "", "Times every lock."),
    option("CONFIG_DEBUG_PREEMPT", Off, Debugging, Useful, "", "A check at every per-CPU access."),
    option(
        "CONFIG_DEBUG_ATOMIC_SLEEP",
        Off,
        Debugging,
        Useful,
        "",
        "A check at every place that may sleep.",
    ),
    option(
        "CONFIG_DEBUG_OBJECTS",
        Off,
        Debugging,
        Useful,
        "",
        "Tracks the life of timers, work items and RCU heads.",
    ),
    option("CONFIG_DEBUG_PAGEALLOC", Off, Debugging, Useful, "", "Unmaps every freed page."),
    option("CONFIG_DEBUG_KMEMLEAK", Off, Debugging, Useful, "", "Scans all memory now and then."),
    option(
        "CONFIG_SLUB_DEBUG_ON",
        Off,
        Debugging,
        Needed,
        "",
        "Poisons and checks every allocation.",
    ),
    option(
        "CONFIG_KASAN",
        Off,
        Debugging,
        Needed,
        "4.0",
        "Checks every memory access: two to three times slower.",
    ),
    option(
        "CONFIG_KCSAN",
        Off,
        Debugging,
        Needed,
        "5.8",
        "Delays memory accesses on purpose to find races.",
    ),
];

/// Options that are kept in a run beside those of [`OPTIONS`]: they say what kind of kernel it is.
const ALSO_KEPT: &[&str] = &[
    "CONFIG_HZ",
    "CONFIG_PREEMPT",
    "CONFIG_PREEMPT_NONE",
    "CONFIG_PREEMPT_VOLUNTARY",
    "CONFIG_PREEMPT_LAZY",
    "CONFIG_PREEMPT_DYNAMIC",
    "CONFIG_NO_HZ_IDLE",
    "CONFIG_HZ_PERIODIC",
    "CONFIG_SMP",
    "CONFIG_CPU_FREQ",
    "CONFIG_CPU_IDLE",
    "CONFIG_NUMA_BALANCING",
    "CONFIG_TRANSPARENT_HUGEPAGE_MADVISE",
    "CONFIG_SECURITY_LOCKDOWN_LSM",
    "CONFIG_LOCALVERSION",
];

/// Reads a `.config`: name → value, quotes removed; `n` for `# CONFIG_X is not set`.
/// Lines that are neither are comments.
pub fn parse(text: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("# ").and_then(|l| l.strip_suffix(" is not set")) {
            if name.starts_with("CONFIG_") {
                all.insert(name.to_owned(), "n".to_owned());
            }
        } else if let Some((name, value)) = line.split_once('=')
            && name.starts_with("CONFIG_")
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            all.insert(name.to_owned(), value.trim_matches('"').to_owned());
        }
    }
    all
}

/// The options that a run keeps.
pub fn of_interest(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let names = OPTIONS.iter().map(|o| o.name).chain(ALSO_KEPT.iter().copied());
    names.filter_map(|n| Some((n.to_owned(), all.get(n)?.clone()))).collect()
}

/// What a kernel has of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As wanted.
    Right,
    /// The other way, and the configuration names it.
    Wrong,
    /// The configuration does not name it: the kernel is older, of another architecture, or
    /// something that it depends on is off. Wrong for an option that is wanted on.
    Unnamed,
}

impl KernelOption {
    /// What a configuration has of this option.
    pub fn state(&self, config: &BTreeMap<String, String>) -> State {
        let value = config.get(self.name).map(String::as_str);
        match (self.want, value) {
            (Off, None | Some("n")) | (On, Some("y")) | (OnOrModule, Some("y" | "m")) => {
                State::Right
            }
            (_, Some(_)) => State::Wrong,
            (_, None) => State::Unnamed,
        }
    }

    /// The line of a `.config` that sets it as wanted.
    pub fn line(&self) -> String {
        match self.want {
            On | OnOrModule => format!("{}=y", self.name),
            Off => format!("# {} is not set", self.name),
        }
    }
}

/// The options that a configuration has not as wanted, in the order of [`OPTIONS`].
pub fn missing(config: &BTreeMap<String, String>) -> Vec<(&'static KernelOption, State)> {
    let all = OPTIONS.iter().map(|o| (o, o.state(config)));
    all.filter(|&(_, s)| s != State::Right).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_config() {
        let c = parse(
            "# Automatically generated\nCONFIG_HZ=250\n# CONFIG_KASAN is not set\nCONFIG_LOCALVERSION=\"-x\"\nCONFIG_A-B=y\njunk=1\n",
        );
        assert_eq!(c["CONFIG_HZ"], "250");
        assert_eq!(c["CONFIG_KASAN"], "n");
        assert_eq!(c["CONFIG_LOCALVERSION"], "-x");
        assert_eq!(c.len(), 3);
    }

    #[test]
    fn absent_is_wrong_only_for_what_is_wanted() {
        let empty = BTreeMap::new();
        let missing: Vec<_> = missing(&empty).iter().map(|(o, _)| o.name).collect();
        assert!(missing.contains(&"CONFIG_FUNCTION_TRACER"));
        assert!(!missing.contains(&"CONFIG_KASAN"));
    }

    #[test]
    fn a_fragment_of_all_lines_mends_everything() {
        let fragment: Vec<String> = OPTIONS.iter().map(KernelOption::line).collect();
        assert_eq!(missing(&parse(&fragment.join("\n"))), []);
    }

    #[test]
    fn every_option_is_named_once() {
        let names: std::collections::BTreeSet<_> = OPTIONS.iter().map(|o| o.name).collect();
        assert_eq!(names.len(), OPTIONS.len());
    }
}
