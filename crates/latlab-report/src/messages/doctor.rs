//! Wording: the doctor.

#[cfg(test)]
mod examples;
mod hardware;
mod noise;
mod options;
mod realtime;
mod remedies;
mod tracing;

use super::message::{Message, Text, fixed, message};

#[cfg(test)]
pub(super) use examples::examples;
pub use options::reason as kernel_option_reason;

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    message("clock.step", hardware::clock_step),
    message("clock.cost", hardware::clock_cost),
    message("clock.high-resolution", hardware::high_resolution),
    message("machine.virtualization", hardware::virtualization),
    message("cpu.governor", hardware::governor),
    message("cpu.idle", hardware::idle),
    message("cpu.smt", hardware::smt),
    message("cpu.mitigations", hardware::mitigations),
    message("cpu.counters", hardware::counters),
    message("cpu.count", hardware::single_cpu),
    message("memory.huge-pages", hardware::huge_pages),
    message("memory.swap", hardware::swap),
    message("rt.permission", realtime::permission),
    message("rt.memory-lock", realtime::memory_lock),
    message("rt.preemption", realtime::preemption),
    message("rt.throttling", realtime::throttling),
    message("rt.isolation", realtime::isolation),
    message("rt.other-tasks", realtime::other_tasks),
    message("rt.co-kernel", realtime::co_kernel),
    message("trace.tracefs", tracing::tracefs),
    message("trace.events", tracing::events),
    message("trace.tracers", tracing::tracers),
    message("trace.features", tracing::features),
    message("trace.lockdown", tracing::lockdown),
    message("config.readable", tracing::config_readable),
    message("config.measuring", |a| tracing::config(a, "measurements")),
    message("config.tracing", |a| tracing::config(a, "tracing")),
    message("config.latency", |a| tracing::config(a, "low latency")),
    message("config.debugging", tracing::config_debugging),
    message("noise.tracing", noise::tracing),
    message("noise.load", noise::load),
    message("noise.steal", noise::steal),
    message("noise.gaps", noise::interruptions),
    message("noise.interrupts", noise::interrupts),
    message("noise.heat", noise::heat),
    message("settings.left", noise::settings_left),
    message("settings.held", noise::settings_held),
    message("settings.journal", noise::journal),
    fixed!("doctor.hidden-tasks", "tasks of other users (/proc is mounted with hidepid)"),
    fixed!(
        "doctor.root-only",
        "files for root only: lockdown without access to securityfs, timer_list, debugfs"
    ),
    message("doctor.tracefs-closed", |a| {
        Text::claim(format!("tracers and events ({} is not accessible)", a.get("mount")))
    }),
    message("remedy.kernel-option", remedies::kernel_option),
    message("remedy.tracer", remedies::tracer),
    message("remedy.clock-source", remedies::clock_source),
    message("remedy.dma-latency", remedies::dma_latency),
    message("remedy.rt-runtime", remedies::rt_runtime),
    message("remedy.stop-services", remedies::stop_services),
    fixed!(
        "remedy.highres-boot-parameters",
        "Remove highres=off and nohz=off from the kernel command line"
    ),
    fixed!(
        "remedy.rejected-clock",
        "Check dmesg for a rejected clock source or clock event device"
    ),
    fixed!(
        "remedy.bare-metal",
        "Measure on bare metal, or pin the virtual CPUs and give them real-time priority on the host"
    ),
    fixed!(
        "remedy.performance-governor",
        "for g in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do echo performance > $g; done"
    ),
    fixed!("remedy.smt-off", "echo off > /sys/devices/system/cpu/smt/control"),
    fixed!(
        "remedy.smt-sibling-idle",
        "Keep the sibling of the measuring CPU idle, or disable SMT in the firmware"
    ),
    fixed!("remedy.thp-madvise", "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
    fixed!("remedy.swapoff", "swapoff -a"),
    fixed!("remedy.lock-memory", "Lock the memory of real-time tasks (mlockall, -m)"),
    fixed!("remedy.perf-event-paranoid", "sysctl kernel.perf_event_paranoid=1"),
    fixed!(
        "remedy.cgroup-rt-runtime",
        "echo 900000 > /sys/fs/cgroup/cpu/…/cpu.rt_runtime_us, or move the process to the root group"
    ),
    fixed!("remedy.root", "Run as root"),
    fixed!("remedy.rt-capabilities", "setcap cap_sys_nice,cap_ipc_lock+ep on the latlab binary"),
    fixed!(
        "remedy.rtprio-limit",
        "Add the line '@realtime - rtprio 99' to /etc/security/limits.conf, and the user to that group"
    ),
    fixed!(
        "remedy.memlock-limit",
        "ulimit -l unlimited (as root), or '@realtime - memlock unlimited' in /etc/security/limits.conf"
    ),
    fixed!(
        "remedy.preempt-rt",
        "Use a kernel with CONFIG_PREEMPT_RT=y where a latency bound is required"
    ),
    fixed!("remedy.preempt-full", "Boot with preempt=full"),
    fixed!(
        "remedy.preemption-model-file",
        "As root, with debugfs: cat /sys/kernel/debug/sched/preempt"
    ),
    fixed!(
        "remedy.isolation-boot-parameters",
        "Boot with isolcpus=managed_irq,domain,N nohz_full=N rcu_nocbs=N irqaffinity=0, N being the CPU of the real-time task"
    ),
    fixed!(
        "remedy.separate-rt-tasks",
        "Stop them, restrict them to other CPUs (taskset), or measure with a higher priority (-p)"
    ),
    fixed!(
        "remedy.co-kernel-tools",
        "Measure its tasks by its own latency or latmus: latlab wakeup --core cobalt, or --core evl"
    ),
    fixed!(
        "remedy.tracefs-access",
        "Run as root, or as root: mount -o remount,gid=GROUP,mode=770 on tracefs, GROUP being a group of this user"
    ),
    fixed!("remedy.tracefs-mount", "As root: mount -t tracefs nodev /sys/kernel/tracing"),
    fixed!(
        "remedy.kernel-fragment",
        "latlab doctor --kernel-config prints the configuration fragment and the build commands"
    ),
    fixed!(
        "remedy.stop-tracing",
        "Check who traces; if nobody does: echo nop > current_tracer, echo 0 > events/enable, rmdir the instance"
    ),
    fixed!(
        "remedy.disable-lockdown",
        "Boot without lockdown= and without Secure Boot, where policy permits"
    ),
    fixed!("remedy.securityfs-mount", "As root: mount -t securityfs none /sys/kernel/security"),
    fixed!(
        "remedy.readable-kernel-config",
        "CONFIG_IKCONFIG_PROC=y, modprobe configs, or the distribution's /boot/config-*"
    ),
    fixed!("remedy.check-load", "Check with top; wait, or measure on an otherwise idle machine"),
    fixed!(
        "remedy.longer-noise-measurement",
        "latlab survey measures longer; the hwlat tracer, where available, distinguishes hardware stalls from tasks"
    ),
    fixed!(
        "remedy.irq-affinity",
        "Boot with irqaffinity=0, or write the other CPUs to /proc/irq/*/smp_affinity_list, and measure on the CPU without interrupts (-a)"
    ),
    fixed!("remedy.cooling", "Improve cooling, or pause before each run"),
    fixed!("remedy.restore-settings", "latlab doctor --restore"),
];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] = &[
    ("load-average-1min", "load average (1 min)"),
    ("load-average-5min", "load average (5 min)"),
    ("steal-since-boot", "steal time since boot"),
];
