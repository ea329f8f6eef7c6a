//! Wording: what to change or to measure next against a cause of latency.

use super::args::Args;
use super::message::{Message, Text, fixed};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    // Remedies.
    fixed!("why.remedy-trace-more", "Record with function_graph, where available, or stack traces"),
    fixed!(
        "why.remedy-trace-more-captures",
        "Record more captures, with function_graph or stack traces"
    ),
    fixed!("why.remedy-one-kernel", "Analyse the captures of each kernel separately"),
    fixed!(
        "why.remedy-locate-irqs-off",
        "Trace with function_graph or the irqsoff tracer to locate the section"
    ),
    fixed!(
        "why.remedy-isolate-or-split",
        "Keep this work off the CPU (isolcpus, cpusets), or split the section"
    ),
    fixed!(
        "why.remedy-preempt-rt",
        "Use a PREEMPT_RT kernel, in which most of these sections are preemptible"
    ),
    fixed!("why.remedy-keep-task-off-cpu", "Keep that task off this CPU (taskset, cpuset)"),
    Message { id: "why.remedy-move-interrupt", text: remedy_move_interrupt },
    fixed!(
        "why.remedy-threaded-irqs",
        "Boot with threadirqs or use PREEMPT_RT: handlers become threads, except those with IRQF_NO_THREAD"
    ),
    fixed!(
        "why.remedy-avoid-ipi",
        "Keep processes that map and unmap memory or load modules off the task's CPU"
    ),
    fixed!("why.remedy-nohz-full", "Boot with isolcpus and nohz_full for that CPU"),
    fixed!("why.remedy-shorten-handler", "Shorten that function, or move it to a thread"),
    fixed!("why.remedy-move-hrtimer", "Start that timer on another CPU"),
    fixed!("why.remedy-check-call-rate", "Check call rate and caller, not only the duration"),
    fixed!(
        "why.remedy-migrate-timers",
        "Move timers off the CPU (isolcpus, nohz_full, timer_migration)"
    ),
    fixed!(
        "why.remedy-move-raising-interrupt",
        "Move the interrupt that raises the softirq to another CPU"
    ),
    fixed!(
        "why.remedy-softirq-thread-priority",
        "On PREEMPT_RT, give the softirq thread a lower priority than the task"
    ),
    fixed!(
        "why.remedy-workqueue-cpumask",
        "Keep work items off the CPU: /sys/devices/virtual/workqueue/cpumask"
    ),
    fixed!("why.remedy-realtime-policy", "Use a real-time policy for the task"),
    fixed!(
        "why.remedy-priorities",
        "Raise the priority of the task, or lower that of the other task"
    ),
    fixed!(
        "why.remedy-measurement",
        "Measure with a real-time priority (-p), or with latlab's main thread on another CPU (--mainaffinity)"
    ),
    fixed!("why.remedy-separate-cpus", "Run the two tasks on different CPUs (taskset)"),
    fixed!(
        "why.remedy-rt-runtime",
        "Find the real-time task that uses up the runtime; then sysctl kernel.sched_rt_runtime_us"
    ),
    fixed!("why.remedy-prio-inherit", "Use mutexes with PTHREAD_PRIO_INHERIT"),
    fixed!(
        "why.remedy-shorten-critical-section",
        "Shorten the critical section, or remove the lock"
    ),
    fixed!(
        "why.remedy-mlockall",
        "Call mlockall(MCL_CURRENT | MCL_FUTURE) and touch the memory in advance"
    ),
    fixed!("why.remedy-nmi-watchdog", "Disable the NMI watchdog: sysctl kernel.nmi_watchdog=0"),
    fixed!("why.remedy-dma-latency", "Hold a bound in /dev/cpu_dma_latency, or limit idle states"),
    fixed!("why.remedy-timer-slack", "Use a real-time policy, or prctl(PR_SET_TIMERSLACK, 1)"),
    fixed!(
        "why.remedy-profile-task",
        "Compare instructions and cache misses of slow and fast activations (perf stat, perf record -p)"
    ),
    fixed!(
        "why.remedy-clock",
        "Use the cpufreq governor performance; check temperature and power limits"
    ),
    fixed!(
        "why.remedy-cache",
        "Keep other work off the CPUs that share the cache, or divide the cache (resctrl)"
    ),
    fixed!(
        "why.remedy-counters",
        "Run it on a machine with performance counters, or give the virtual machine a PMU"
    ),
    fixed!(
        "why.remedy-waker",
        "Run `latlab why --task` on the task or interrupt that it waits for"
    ),
    fixed!("why.remedy-inner-sleep", "Sleep to an absolute time, once per activation"),
    fixed!("why.remedy-period", "Lengthen the period, or shorten the work"),
    fixed!(
        "why.remedy-stall-bare-metal",
        "On bare metal: check with the hwlat or osnoise tracer, the SMI counter and firmware settings"
    ),
    fixed!(
        "why.remedy-locate-preempt-off",
        "Trace with function_graph or the preemptoff tracer to locate the section"
    ),
    fixed!(
        "why.remedy-fair-server",
        "Lower the reservation: /sys/kernel/debug/sched/fair_server/cpuN/runtime"
    ),
    fixed!(
        "why.remedy-cpu-max",
        "Raise cpu.max of the task's cgroup, or the runtime of its SCHED_DEADLINE reservation"
    ),
    fixed!(
        "why.remedy-cpu-stat",
        "Equal nr_throttled in its cgroup's cpu.stat before and after exclude cpu.max"
    ),
    fixed!(
        "why.remedy-record-locks",
        "Record lock:contention_begin, syscalls:sys_enter_futex and page faults, or stack traces"
    ),
    fixed!(
        "why.remedy-clock-source",
        "Check the kernel log for the reason, and compare with clocksource= on the command line"
    ),
    fixed!(
        "why.remedy-interrupted",
        "Unless stacks were recorded: use --trace interrupted (from Linux 5.18 on) or --trace stacks; the functions that late wake-ups interrupt then decide it"
    ),
    fixed!(
        "why.remedy-preemptirq",
        "Use a kernel with CONFIG_IRQSOFF_TRACER and CONFIG_PREEMPT_TRACER: irq_disable and preempt_disable are then recorded, and decide it"
    ),
    fixed!(
        "why.remedy-more-captures",
        "Record more captures: a task that is affected more often than its share of the CPU is then named"
    ),
    fixed!(
        "why.remedy-stall-virtual",
        "In a virtual machine: pin its CPUs on the host, and check the host's scheduler"
    ),
    fixed!(
        "why.remedy-find-period",
        "Look for activity with that period: `latlab timer`, cron, polling daemons, the hypervisor"
    ),
    fixed!("why.remedy-pin-vcpus", "Pin the vCPUs to dedicated CPUs, or measure on bare metal"),
    fixed!(
        "why.remedy-firmware-settings",
        "Check firmware settings: USB legacy support, power capping, memory scrubbing, error polling"
    ),
];

fn remedy_move_interrupt(a: &Args<'_>) -> Text {
    let who = a.get("who");
    Text::claim(format!("Move interrupt {who} to another CPU: /proc/irq/N/smp_affinity_list"))
}
