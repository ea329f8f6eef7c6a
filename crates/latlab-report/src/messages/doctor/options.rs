//! Why an option of the kernel configuration matters.

/// Reasons by name of the option, in the order of `latlab_model::kconfig::OPTIONS`.
const REASONS: &[(&str, &str)] = &[
    (
        "CONFIG_HIGH_RES_TIMERS",
        "Without it a sleep ends at the next tick (1 to 10 ms), and shorter wake-up latencies can neither be reached nor measured.",
    ),
    ("CONFIG_IKCONFIG_PROC", "Records the kernel configuration with each run (/proc/config.gz)."),
    ("CONFIG_PERF_EVENTS", "Hardware counters: instructions, cache and TLB misses."),
    ("CONFIG_SCHEDSTATS", "Run-queue waiting times of the scheduler, for cross-checks."),
    (
        "CONFIG_IRQ_TIME_ACCOUNTING",
        "Measures time in interrupts exactly instead of sampling it at the tick.",
    ),
    ("CONFIG_PARAVIRT_TIME_ACCOUNTING", "Reports steal time in a virtual machine."),
    ("CONFIG_FTRACE", "Tracing infrastructure; the other tracing options depend on it."),
    ("CONFIG_FTRACE_SYSCALLS", "Events at entry and exit of system calls."),
    ("CONFIG_FUNCTION_TRACER", "Records calls of kernel functions."),
    (
        "CONFIG_FUNCTION_GRAPH_TRACER",
        "Records the duration of kernel functions, to locate the one that causes a delay.",
    ),
    (
        "CONFIG_DYNAMIC_FTRACE",
        "Makes disabled function tracers almost free, and functions selectable.",
    ),
    (
        "CONFIG_IRQSOFF_TRACER",
        "Finds the longest section with interrupts disabled, and adds the events irq_disable and irq_enable. Has a small overhead even when disabled.",
    ),
    (
        "CONFIG_PREEMPT_TRACER",
        "Finds the longest section with preemption disabled, and adds the events preempt_disable and preempt_enable. Requires a preemptible kernel.",
    ),
    (
        "CONFIG_SCHED_TRACER",
        "Tracers wakeup, wakeup_rt and wakeup_dl: latency from wake-up to execution.",
    ),
    (
        "CONFIG_HWLAT_TRACER",
        "Detects stalls not caused by kernel code: SMI, secure world, hypervisor.",
    ),
    ("CONFIG_OSNOISE_TRACER", "Measures OS noise by source: NMI, interrupts, softirqs, threads."),
    ("CONFIG_TIMERLAT_TRACER", "Splits wake-up latency into interrupt and thread latency."),
    (
        "CONFIG_HIST_TRIGGERS",
        "Histograms inside the kernel: long measurements without large files.",
    ),
    ("CONFIG_SYNTH_EVENTS", "Events composed of two others, such as wake-up to switch-in."),
    ("CONFIG_TRACER_SNAPSHOT", "Keeps the trace of the worst case while tracing continues."),
    ("CONFIG_KPROBE_EVENTS", "Events at kernel functions without a tracepoint."),
    ("CONFIG_UPROBE_EVENTS", "Events at functions of user programs."),
    (
        "CONFIG_STACKTRACE",
        "Kernel stacks with events: where interrupts were disabled, who held a lock.",
    ),
    ("CONFIG_KALLSYMS", "Symbol names instead of addresses."),
    (
        "CONFIG_PREEMPT_RT",
        "Threaded interrupts and sleeping locks with priority inheritance bound the wake-up latency. Requires CONFIG_EXPERT=y. Mainline on x86, arm64 and riscv; otherwise with the PREEMPT_RT patch.",
    ),
    ("CONFIG_EXPERT", "Required by CONFIG_PREEMPT_RT."),
    (
        "CONFIG_IRQ_FORCED_THREADING",
        "Threaded interrupt handlers with priorities (boot parameter threadirqs), without PREEMPT_RT too.",
    ),
    ("CONFIG_NO_HZ_FULL", "Lets isolated CPUs run a single task without a tick (nohz_full=)."),
    (
        "CONFIG_HZ_PERIODIC",
        "Periodic tick on every CPU, idle or not (use NO_HZ_IDLE or NO_HZ_FULL).",
    ),
    (
        "CONFIG_HZ_100",
        "Timer-wheel timers, round-robin quanta and tick-based CPU accounting have a granularity of 10 ms; with 250 or 1000 Hz it is finer. High-resolution timers do not depend on it.",
    ),
    ("CONFIG_CPU_ISOLATION", "Keeps kernel housekeeping off the CPUs of isolcpus= and nohz_full=."),
    ("CONFIG_CPUSETS", "Excludes other tasks from a CPU at run time."),
    ("CONFIG_RCU_NOCB_CPU", "Moves RCU callbacks out of softirqs and off isolated CPUs."),
    (
        "CONFIG_CPU_FREQ_GOV_PERFORMANCE",
        "Holds the frequency and avoids the latency of frequency changes. Not available, and not required, on boards without cpufreq.",
    ),
    (
        "CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS",
        "khugepaged and compaction take locks and CPU time for all tasks; madvise is sufficient.",
    ),
    (
        "CONFIG_RT_GROUP_SCHED",
        "Tasks in a control group without real-time runtime cannot use SCHED_FIFO: chrt and latlab get EPERM even as root.",
    ),
    ("CONFIG_PROVE_LOCKING", "Validates each lock acquisition: latencies increase several times."),
    (
        "CONFIG_LOCKDEP",
        "Records the history of each lock; selected by PROVE_LOCKING and LOCK_STAT.",
    ),
    ("CONFIG_LOCK_STAT", "Measures each lock."),
    ("CONFIG_DEBUG_PREEMPT", "Check at each per-CPU access."),
    ("CONFIG_DEBUG_ATOMIC_SLEEP", "Check at each function that may sleep."),
    ("CONFIG_DEBUG_OBJECTS", "Tracks the life of timers, work items and RCU heads."),
    ("CONFIG_DEBUG_PAGEALLOC", "Unmaps each freed page."),
    ("CONFIG_DEBUG_KMEMLEAK", "Scans all memory periodically."),
    ("CONFIG_SLUB_DEBUG_ON", "Poisons and checks each allocation."),
    ("CONFIG_KASAN", "Checks each memory access: two to three times slower."),
    ("CONFIG_KCSAN", "Delays memory accesses to detect data races."),
];

/// The reason for an option in one or more sentences; empty for an option without one.
pub fn reason(option: &str) -> &'static str {
    REASONS.iter().find(|(name, _)| *name == option).map_or("", |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::kconfig::OPTIONS;

    #[test]
    fn every_option_has_a_reason() {
        let names: Vec<&str> = REASONS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, OPTIONS.iter().map(|o| o.name).collect::<Vec<_>>());
        assert!(REASONS.iter().all(|(_, reason)| reason.ends_with('.')));
    }
}
