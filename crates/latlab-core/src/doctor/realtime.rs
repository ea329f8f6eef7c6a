//! What a real-time task is given: permission, time, a kernel that lets go, a CPU of its own.

use super::{Facts, Trial, cannot_tell, count, good, in_the_way, note};
use crate::finding::{Evidence, Finding};
use crate::machine::Machine;

/// What latlab itself locks when it measures with little history, with room to spare.
const MEMLOCK_ENOUGH: u64 = 64 << 20;
/// Tasks that are named; the rest are counted.
const NAMED: usize = 5;

pub fn judge(m: &Machine, f: &Facts, out: &mut Vec<Finding>) {
    out.extend([permission(m, f), memory_lock(m), preemption(m)]);
    out.extend([throttling(m), isolation(m), other_tasks(f)]);
    out.extend(one_cpu(m));
}

fn permission(m: &Machine, f: &Facts) -> Finding {
    let id = "rt.permission";
    let why = "Without it a measuring task waits behind every other, and measures the load instead of the kernel.";
    match &f.fifo {
        Trial::Worked => {
            good(id, format!("Real-time priorities up to {} can be used.", m.rt.priority_max.max(1)))
        }
        Trial::Refused(reason) if f.cgroup_rt_runtime_us == Some(0) => {
            in_the_way(id, "This control group has no real-time budget (cpu.rt_runtime_us is 0).")
                .because(why)
                .with(Evidence::new("sched_setattr(SCHED_FIFO, 1)", reason.clone()))
                .attempt("echo 900000 > /sys/fs/cgroup/cpu/…/cpu.rt_runtime_us, or move to the root group")
        }
        Trial::Refused(reason) => in_the_way(id, "This user may not use real-time priorities.")
            .because(why)
            .with(Evidence::new("sched_setattr(SCHED_FIFO, 1)", reason.clone()))
            .attempt("run as root")
            .attempt("setcap cap_sys_nice,cap_ipc_lock+ep on the latlab binary")
            .attempt("a line '@realtime - rtprio 99' in /etc/security/limits.conf, and the user in that group"),
        Trial::NotTried if m.rt.priority_max > 0 => {
            good(id, format!("Real-time priorities up to {} can be used.", m.rt.priority_max))
        }
        Trial::NotTried => cannot_tell(id, "Whether real-time priorities can be used was not tried."),
    }
}

fn memory_lock(m: &Machine) -> Finding {
    let id = "rt.memory-lock";
    match m.rt.memlock_bytes {
        None => good(id, "Memory can be locked without limit."),
        Some(n) if n >= MEMLOCK_ENOUGH => good(id, format!("{} MiB can be locked.", n >> 20)),
        Some(n) => in_the_way(id, format!("Only {} KiB of memory can be locked.", n >> 10))
            .because("What cannot be locked may be paged out, and a page fault in the loop is a late wake-up.")
            .attempt("ulimit -l unlimited (as root), or '@realtime - memlock unlimited' in /etc/security/limits.conf"),
    }
}

fn preemption(m: &Machine) -> Finding {
    let id = "rt.preemption";
    let rt = "CONFIG_PREEMPT_RT=y";
    match m.kernel.preemption.as_deref() {
        Some("rt") => good(id, "PREEMPT_RT: interrupts are threads, locks inherit priority."),
        Some("full") => note(id, "The kernel is preemptible (PREEMPT), and not PREEMPT_RT.")
            .because("Interrupt handlers, softirqs and sections under spinlocks still run to their end first.")
            .attempt(format!("a kernel with {rt} where a bound is needed")),
        Some(model @ ("none" | "voluntary" | "lazy")) => {
            let finding = in_the_way(id, format!("The preemption model is '{model}'."))
                .because("A system call of an ordinary task runs until it yields, before the real-time task does: milliseconds at worst.");
            let dynamic = m.kernel.version.contains("PREEMPT_DYNAMIC");
            let finding = match dynamic {
                true => finding.attempt("boot with preempt=full"),
                false => finding,
            };
            finding.attempt(format!("a kernel with {rt}"))
        }
        Some(model) => note(id, format!("The preemption model is '{model}'.")),
        None => cannot_tell(id, "The kernel does not say how it preempts.")
            .attempt("as root, with debugfs: cat /sys/kernel/debug/sched/preempt"),
    }
}

fn throttling(m: &Machine) -> Finding {
    let id = "rt.throttling";
    let period = m.rt.period_us.unwrap_or(1_000_000).max(1);
    let off = "sysctl kernel.sched_rt_runtime_us=-1, while somebody is at the console";
    match m.rt.runtime_us {
        None => cannot_tell(id, "The real-time throttling could not be read."),
        Some(..0) => note(id, "Real-time throttling is off.")
            .because("A real-time task that never sleeps takes its CPU for good; on one core, the machine.")
            .attempt("sysctl kernel.sched_rt_runtime_us=950000"),
        Some(us) => {
            let share = us as f64 / period as f64;
            let claim = format!("Real-time tasks get at most {us} µs of each {period} µs.");
            if share >= 0.9 {
                note(id, claim).because(
                    "A task that sleeps each period never meets it; one that is busy is stopped for the rest of each period, and what it measures then is the throttle.",
                )
            } else {
                in_the_way(id, claim)
                    .because("Real-time tasks are stopped early in each period.")
                    .attempt(off)
            }
        }
    }
}

fn isolation(m: &Machine) -> Finding {
    let id = "rt.isolation";
    match (m.rt.isolated.as_str(), m.cpu.count) {
        ("", ..=1) => note(id, "One CPU: there is none to set apart."),
        ("", _) => note(id, "No CPU is set apart (isolcpus, nohz_full, cpuset).")
            .because("Other tasks, their timers and their work share every CPU with the one that must be on time.")
            .attempt("boot with isolcpus=managed_irq,domain,N nohz_full=N rcu_nocbs=N irqaffinity=0 for the CPU N of the real-time task"),
        (list, _) if m.rt.nohz_full.is_empty() => {
            good(id, format!("Set apart from other tasks: CPU {list} (isolcpus); the tick still runs there."))
        }
        (list, _) => good(id, format!(
            "Set apart from other tasks: CPU {list} (isolcpus); without a tick: {} (nohz_full).",
            m.rt.nohz_full
        )),
    }
}

fn other_tasks(f: &Facts) -> Finding {
    let id = "rt.other-tasks";
    let Some(tasks) = &f.rt_tasks else {
        return cannot_tell(id, "Whether others run with real-time priority could not be seen.");
    };
    if tasks.is_empty() {
        return good(
            id,
            "Nobody else runs with real-time priority, the kernel's own threads apart.",
        );
    }
    let mut finding = in_the_way(
        id,
        format!(
            "{} with real-time or deadline policy.",
            count(tasks.len(), "other task runs", "other tasks run")
        ),
    )
    .because("What has the same or a higher priority on the same CPU goes first.");
    for t in tasks.iter().take(NAMED) {
        finding = finding.with(Evidence::new(
            format!("{} ({})", t.name, t.tid),
            format!("{} {}", t.policy, t.priority),
        ));
    }
    finding.attempt("stop them, keep them to other CPUs (taskset), or measure with a priority above theirs (-p)")
}

fn one_cpu(m: &Machine) -> Option<Finding> {
    (m.cpu.count == 1).then(|| {
        note("cpu.count", "This machine has one CPU.")
            .because("Load, measurement and recording share it: leave real-time throttling on, so that the machine can be reached, and expect tracing to change what is traced.")
    })
}
