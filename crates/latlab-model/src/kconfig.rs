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

/// One option. `latlab-report` has the reason for each.
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
}

const fn option(
    name: &'static str,
    want: Want,
    purpose: Purpose,
    weight: Weight,
    since: &'static str,
) -> KernelOption {
    KernelOption { name, want, purpose, weight, since }
}

use Purpose::{Debugging, Latency, Measuring, Tracing};
use Want::{Off, On, OnOrModule};
use Weight::{Needed, Useful};

/// Every option that is looked at, in the order in which a fragment names them.
pub const OPTIONS: &[KernelOption] = &[
    option("CONFIG_HIGH_RES_TIMERS", On, Measuring, Needed, ""),
    option("CONFIG_IKCONFIG_PROC", On, Measuring, Useful, ""),
    option("CONFIG_PERF_EVENTS", On, Measuring, Useful, ""),
    option("CONFIG_SCHEDSTATS", On, Measuring, Useful, ""),
    option("CONFIG_IRQ_TIME_ACCOUNTING", On, Measuring, Useful, ""),
    option("CONFIG_PARAVIRT_TIME_ACCOUNTING", On, Measuring, Useful, ""),
    option("CONFIG_FTRACE", On, Tracing, Needed, ""),
    option("CONFIG_FTRACE_SYSCALLS", On, Tracing, Useful, ""),
    option("CONFIG_FUNCTION_TRACER", On, Tracing, Needed, ""),
    option("CONFIG_FUNCTION_GRAPH_TRACER", On, Tracing, Needed, ""),
    option("CONFIG_DYNAMIC_FTRACE", On, Tracing, Needed, ""),
    option("CONFIG_IRQSOFF_TRACER", On, Tracing, Needed, ""),
    option("CONFIG_PREEMPT_TRACER", On, Tracing, Needed, ""),
    option("CONFIG_SCHED_TRACER", On, Tracing, Needed, ""),
    option("CONFIG_HWLAT_TRACER", On, Tracing, Needed, "4.9"),
    option("CONFIG_OSNOISE_TRACER", On, Tracing, Needed, "5.14"),
    option("CONFIG_TIMERLAT_TRACER", On, Tracing, Needed, "5.14"),
    option("CONFIG_HIST_TRIGGERS", On, Tracing, Useful, "4.7"),
    option("CONFIG_SYNTH_EVENTS", On, Tracing, Useful, "5.10"),
    option("CONFIG_TRACER_SNAPSHOT", On, Tracing, Useful, ""),
    option("CONFIG_KPROBE_EVENTS", On, Tracing, Useful, ""),
    option("CONFIG_UPROBE_EVENTS", On, Tracing, Useful, ""),
    option("CONFIG_STACKTRACE", On, Tracing, Needed, ""),
    option("CONFIG_KALLSYMS", On, Tracing, Needed, ""),
    option("CONFIG_PREEMPT_RT", On, Latency, Needed, "6.12"),
    option("CONFIG_EXPERT", On, Latency, Useful, ""),
    option("CONFIG_IRQ_FORCED_THREADING", On, Latency, Useful, ""),
    option("CONFIG_NO_HZ_FULL", On, Latency, Useful, ""),
    option("CONFIG_HZ_PERIODIC", Off, Latency, Useful, ""),
    option("CONFIG_HZ_100", Off, Latency, Useful, ""),
    option("CONFIG_CPU_ISOLATION", On, Latency, Useful, "4.15"),
    option("CONFIG_CPUSETS", On, Latency, Useful, ""),
    option("CONFIG_RCU_NOCB_CPU", On, Latency, Useful, ""),
    option("CONFIG_CPU_FREQ_GOV_PERFORMANCE", OnOrModule, Latency, Useful, ""),
    option("CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS", Off, Latency, Useful, ""),
    option("CONFIG_RT_GROUP_SCHED", Off, Latency, Useful, ""),
    option("CONFIG_PROVE_LOCKING", Off, Debugging, Needed, ""),
    option("CONFIG_LOCKDEP", Off, Debugging, Needed, ""),
    option("CONFIG_LOCK_STAT", Off, Debugging, Needed, ""),
    option("CONFIG_DEBUG_PREEMPT", Off, Debugging, Useful, ""),
    option("CONFIG_DEBUG_ATOMIC_SLEEP", Off, Debugging, Useful, ""),
    option("CONFIG_DEBUG_OBJECTS", Off, Debugging, Useful, ""),
    option("CONFIG_DEBUG_PAGEALLOC", Off, Debugging, Useful, ""),
    option("CONFIG_DEBUG_KMEMLEAK", Off, Debugging, Useful, ""),
    option("CONFIG_SLUB_DEBUG_ON", Off, Debugging, Needed, ""),
    option("CONFIG_KASAN", Off, Debugging, Needed, "4.0"),
    option("CONFIG_KCSAN", Off, Debugging, Needed, "5.8"),
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
