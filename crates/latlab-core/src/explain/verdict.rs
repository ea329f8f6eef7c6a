//! From clusters to findings: the claim, its evidence and something to try.

use super::cluster::{Cluster, Explanation, FunctionShare, Ground, Mechanism, Surroundings};
use super::place::{self, FunctionPlace};
use crate::finding::{Confidence, Evidence, Finding, Verdict};
use crate::units::format_ns;

impl Mechanism {
    /// Stable identifier of the finding.
    pub fn id(self) -> &'static str {
        match self {
            Self::InterruptsOff => "why.interrupts-off",
            Self::PreemptionOff => "why.preemption-off",
            Self::InterruptHandler => "why.interrupt-handler",
            Self::Ipi => "why.ipi",
            Self::HrtimerHandler => "why.hrtimer-handler",
            Self::TimerCallback => "why.timer-callback",
            Self::Softirq => "why.softirq",
            Self::Workqueue => "why.workqueue",
            Self::HigherPriority => "why.higher-priority",
            Self::EqualPriority => "why.equal-priority",
            Self::Throttling => "why.throttling",
            Self::Lock => "why.lock",
            Self::PriorityInversion => "why.priority-inversion",
            Self::PageFault => "why.page-fault",
            Self::Nmi => "why.nmi",
            Self::IdleExit => "why.idle-exit",
            Self::TimerSlack => "why.timer-slack",
            Self::Overrun => "why.overrun",
            Self::Stall => "why.stall",
            Self::SlowPath => "why.slow-path",
            Self::Unexplained => "why.unexplained",
        }
    }

    /// A few words for tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::InterruptsOff => "interrupts off",
            Self::PreemptionOff => "preemption off",
            Self::InterruptHandler => "interrupt handler",
            Self::Ipi => "inter-processor interrupts",
            Self::HrtimerHandler => "hrtimer handler",
            Self::TimerCallback => "timer callback",
            Self::Softirq => "softirq",
            Self::Workqueue => "work item",
            Self::HigherPriority => "task of higher priority",
            Self::EqualPriority => "task of equal priority",
            Self::Throttling => "throttled",
            Self::Lock => "waiting for a lock",
            Self::PriorityInversion => "priority inversion",
            Self::PageFault => "page fault",
            Self::Nmi => "NMI",
            Self::IdleExit => "idle exit",
            Self::TimerSlack => "timer programmed late",
            Self::Overrun => "own overrun",
            Self::Stall => "stall",
            Self::SlowPath => "slow ordinary path",
            Self::Unexplained => "unexplained",
        }
    }
}

/// The findings of an explanation, the cause that explains most first.
pub fn findings(
    explanation: &Explanation,
    around: &Surroundings,
    places: &[FunctionPlace],
) -> Vec<Finding> {
    let told = |c| finding(c, explanation, around, places);
    let mut findings: Vec<Finding> = explanation.clusters.iter().map(told).collect();
    if explanation.unexplained_share > 0.1 && explanation.contrast.late > 0 {
        let percent = percent(explanation.unexplained_share);
        findings.push(
            Finding::new(
                "why.unexplained-share",
                Verdict::Note,
                Confidence::Sure,
                format!("{percent} of the lateness is unexplained"),
            )
            .because("no event accounts for it, or the ordinary path itself took longer")
            .attempt("record with more: function_graph where the kernel has it, or stack traces"),
        );
    }
    findings
}

/// The bound on the rate of late wake-ups when none was seen among `n`, with 95% confidence
/// (the rule of three: J. A. Hanley and A. Lippman-Hand, 1983).
pub fn none_seen(n: u64) -> Option<f64> {
    (n > 0).then(|| 1.0 - 0.05f64.powf(1.0 / n as f64))
}

fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p > 0.0 && p < 1.0 { "under 1%".into() } else { format!("{p:.0}%") }
}

fn finding(
    c: &Cluster,
    e: &Explanation,
    around: &Surroundings,
    places: &[FunctionPlace],
) -> Finding {
    let verdict = match c.mechanism {
        Mechanism::SlowPath | Mechanism::Unexplained => Verdict::CannotTell,
        _ => Verdict::InTheWay,
    };
    let mut f = Finding::new(c.mechanism.id(), verdict, c.confidence, claim(c, around));
    f = f.because(reason(c.mechanism)).with(
        Evidence::new("late wake-ups that it is the main cause of", percent(c.share_of_late))
            .of(c.main_of.len() as u64),
    );
    f = f.with(Evidence::new("share of the total lateness", percent(c.share_of_lateness)));
    f = f.with(Evidence::new("delay, median", format_ns(c.excess_ns)).of(c.part_of.len() as u64));
    if c.size_ns > 1.05 * c.excess_ns {
        f = f.with(Evidence::new("length of the cause itself, median", format_ns(c.size_ns)));
    }
    if c.times > 1.5 * c.times_on_time.max(1.0) {
        let value = format!("{:.0} instead of {:.0}", c.times, c.times_on_time);
        f = f.with(Evidence::new("times in a late window", value));
    }
    if let Some((period, jitter)) = c.period_ns {
        let value = format!("every {} ± {}", format_ns(period), format_ns(jitter));
        f = f.with(Evidence::new("rhythm", value).of(c.part_of.len() as u64));
    }
    for function in c.functions.iter().take(3) {
        f = f.with(function_evidence(function));
    }
    if !c.stack.is_empty() {
        let frames: Vec<&str> = c.stack.iter().take(6).map(String::as_str).collect();
        f = f.with(Evidence::new("kernel stack", frames.join(" ← ")));
    }
    f = place::evidence(c, places).into_iter().fold(f, Finding::with);
    for ground in &c.grounds {
        f = f.with(ground_evidence(ground));
    }
    let controls = e.contrast.on_time as u64;
    f = f.with(Evidence::new("on-time windows compared with", controls.to_string()));
    attempts(c).into_iter().fold(f, Finding::attempt)
}

/// "Called more often" and "each call took longer" are different findings.
fn function_evidence(f: &FunctionShare) -> Evidence {
    // Runs of earlier versions do not tell a call's time.
    let told = |each: f64, ns: f64, calls: f64| if each > 0.0 { each } else { ns / calls.max(1.0) };
    let late_each = told(f.late_each_ns, f.late_ns, f.late_calls);
    let on_time_each = told(f.on_time_each_ns, f.on_time_ns, f.on_time_calls);
    let often = f.late_calls > 1.5 * f.on_time_calls.max(1.0);
    let called = format!("called {:.0} times instead of {:.0}", f.late_calls, f.on_time_calls);
    let seldom = if f.on_time_calls < 1.0 && f.on_time_windows > 0 {
        format!(" in the {} on-time windows that have it", f.on_time_windows)
    } else {
        String::new()
    };
    let longer = on_time_each > 0.0 && late_each > 1.5 * on_time_each;
    let times = late_each / on_time_each.max(1.0);
    let times = if times < 10.0 { format!("{times:.1}") } else { format!("{times:.0}") };
    let compared = format!("{} instead of {}", format_ns(late_each), format_ns(on_time_each));
    let value = match (often, longer) {
        (true, false) => format!("{called}, {} each", format_ns(late_each)),
        (true, true) => format!("{called}, and each call {times}× longer: {compared}{seldom}"),
        (false, true) => format!("the same call took {times}× longer: {compared}{seldom}"),
        (false, false) if on_time_each > 0.0 => {
            format!("{}, a call as long as on time", format_ns(f.late_ns))
        }
        (false, false) => format!("{}, in no on-time window", format_ns(f.late_ns)),
    };
    Evidence::new(format!("function {}", f.function), value)
}

fn ground_evidence(ground: &Ground) -> Evidence {
    match ground {
        Ground::Covers { share } => {
            Evidence::new("covers of those windows' excess", percent(*share))
        }
        Ground::Separates { delta, p } => Evidence::new(
            "late against on-time, rank test",
            format!("Cliff's delta {delta:.2}, corrected p {p:.1e}"),
        ),
        Ground::NoControls => Evidence::new("on-time windows", "none: nothing to compare with"),
        Ground::Few { windows } => {
            Evidence::new("only so many late windows show it", windows.to_string())
        }
        Ground::Victim { hits, of, occupancy, p } => Evidence::new(
            "chance that it is a victim of a stall",
            format!(
                "{p:.1e}: hit {hits} of {of} times, has the CPU {} of the time",
                percent(*occupancy)
            ),
        ),
        Ground::InUser { windows } => Evidence::new(
            "stretches without events that began in user code, which cannot hold off interrupts",
            windows.to_string(),
        ),
        Ground::AllSilent { windows, of } => {
            Evidence::new("no event on any other CPU either", format!("{windows} of {of}"))
        }
        Ground::Simultaneous { windows, of } => Evidence::new(
            "another CPU's wake-up was late at the same moment",
            format!("{windows} of {of}"),
        ),
        Ground::AlikeLengths { median_ns, mad_ns } => Evidence::new(
            "lengths are alike",
            format!("{} ± {}", format_ns(*median_ns), format_ns(*mad_ns)),
        ),
        Ground::Hypervisor { name } => Evidence::new("the machine is virtual", name.clone()),
        Ground::Steal { ns } => Evidence::new("steal time meanwhile", format_ns(*ns as f64)),
        Ground::Smi { count } => {
            Evidence::new("system-management interrupts meanwhile", count.to_string())
        }
        Ground::DeclaredExit { ns } => {
            Evidence::new("longest declared idle exit", format_ns(*ns as f64))
        }
        Ground::Lost { windows } => Evidence::new("windows with lost events", windows.to_string()),
        Ground::Uncovered { windows } => Evidence::new(
            "windows that the buffer does not cover from their beginning",
            windows.to_string(),
        ),
        Ground::StealThen { windows, of } => Evidence::new(
            "steal time was counted between this capture and the one before",
            format!("{windows} of {of}"),
        ),
        Ground::SmiThen { windows, of } => Evidence::new(
            "system-management interrupts were counted between this capture and the one before",
            format!("{windows} of {of}"),
        ),
        Ground::Missing { what } => Evidence::new("could not be had here", what.clone()),
    }
}

/// The kernel's priority as `sched_priority` and policy, in words.
fn priority(prio: Option<i32>) -> String {
    match prio {
        Some(p) if p < 0 => " (SCHED_DEADLINE)".into(),
        Some(p) if p < 100 => format!(" (real-time priority {})", 99 - p),
        Some(_) => " (ordinary task)".into(),
        None => String::new(),
    }
}

fn claim(c: &Cluster, around: &Surroundings) -> String {
    let (who, prio) = (&c.who, priority(c.prio));
    let delay = format_ns(c.excess_ns);
    match c.mechanism {
        Mechanism::InterruptsOff => {
            format!(
                "{who}{prio} ran with interrupts off and held the timer interrupt up by {delay}"
            )
        }
        Mechanism::PreemptionOff => {
            format!("{who}{prio} ran on with preemption off for {delay} after the task was woken")
        }
        Mechanism::InterruptHandler => {
            format!("the handler of interrupt {who} took {delay} before the task could run")
        }
        Mechanism::Ipi => format!(
            "interrupts from other CPUs ({who}, {:.0} a late window) took {delay}",
            c.times.max(1.0)
        ),
        Mechanism::HrtimerHandler => {
            format!("the timer function {who} ran for {delay} in interrupt context before the task")
        }
        Mechanism::TimerCallback => {
            format!("the timer callback {who} ran for {delay} in the timer softirq before the task")
        }
        Mechanism::Softirq => format!("the {who} softirq ran for {delay} before the task"),
        Mechanism::Workqueue => format!("the work item {who} ran for {delay} before the task"),
        Mechanism::HigherPriority => {
            format!("{who}{prio}, of higher priority, had the CPU for {delay}")
        }
        Mechanism::EqualPriority => {
            format!("{who}{prio}, of the same priority, had the CPU for {delay}")
        }
        Mechanism::Throttling => format!(
            "the task could run and the scheduler chose {} for {delay}: real-time throttling",
            if who.is_empty() { "idle" } else { who }
        ),
        Mechanism::Lock => format!("the task waited {delay} for a lock that {who} held"),
        Mechanism::PriorityInversion => format!(
            "the task waited {delay} for a lock of {who} while {} ran instead of it",
            c.instead.join(", ")
        ),
        Mechanism::PageFault => format!("a page fault on its way cost the task {delay}"),
        Mechanism::Nmi => format!("a non-maskable interrupt took {delay}"),
        Mechanism::IdleExit => format!("the idle CPU took {delay} to come back"),
        Mechanism::TimerSlack => {
            format!("the timer was programmed {delay} later than the task intended")
        }
        Mechanism::Overrun => {
            format!("the task was still busy with its previous activation, for {delay}")
        }
        Mechanism::Stall => stall_claim(c, around),
        Mechanism::SlowPath => {
            format!("the ordinary path took {delay} longer, and no event says why")
        }
        Mechanism::Unexplained => format!("no event accounts for {delay}"),
    }
}

/// Kernel, hypervisor, firmware or hardware: as far as the evidence goes, and no further.
fn stall_claim(c: &Cluster, around: &Surroundings) -> String {
    let smi = c.grounds.iter().any(|g| matches!(g, Ground::Smi { .. }));
    let steal = c.grounds.iter().any(|g| matches!(g, Ground::Steal { .. }));
    let whose = match (&around.hypervisor, steal, smi) {
        (Some(name), true, false) => format!("the hypervisor ({name}) took the CPU"),
        (Some(name), false, false) => {
            format!("hypervisor ({name}) or firmware: not distinguishable here")
        }
        (None, _, true) => "firmware (system-management interrupts were counted)".into(),
        (Some(_), _, true) => "hypervisor or firmware: both left traces".into(),
        (None, ..) => "firmware, secure world or hardware: not distinguishable here".into(),
    };
    format!("no code of this kernel ran for {}: {whose}", format_ns(c.excess_ns))
}

fn reason(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::InterruptsOff => "while interrupts are off no timer interrupt can be taken",
        Mechanism::PreemptionOff => {
            "while preemption is off the scheduler cannot switch to a woken task"
        }
        Mechanism::InterruptHandler | Mechanism::Ipi | Mechanism::Nmi => {
            "an interrupt handler runs before any task, whatever its priority"
        }
        Mechanism::HrtimerHandler => "timers that expire together run one after the other",
        Mechanism::TimerCallback | Mechanism::Softirq => {
            "softirqs run before the interrupted CPU goes back to tasks, or in a thread above the task"
        }
        Mechanism::Workqueue | Mechanism::HigherPriority | Mechanism::EqualPriority => {
            "a task waits while one that the scheduler does not put behind it runs"
        }
        Mechanism::Throttling => {
            "real-time tasks get sched_rt_runtime_us of each sched_rt_period_us and no more"
        }
        Mechanism::Lock => "a holder of lower priority decides when the task goes on",
        Mechanism::PriorityInversion => {
            "without priority inheritance a task between the two keeps the holder from running"
        }
        Mechanism::PageFault => "a page that is not there has to be found, made or read first",
        Mechanism::IdleExit => "deeper idle states take longer to leave",
        Mechanism::TimerSlack => "ordinary tasks' timers are rounded up by their timer slack",
        Mechanism::Overrun => "a task that has not gone to sleep cannot be woken",
        Mechanism::Stall => {
            "those that were hit are spread as the CPU's time is: victims, not culprits"
        }
        Mechanism::SlowPath | Mechanism::Unexplained => "a wrong name would be worse than none",
    }
}

fn attempts(c: &Cluster) -> Vec<String> {
    let who = &c.who;
    let tries: &[&str] = match c.mechanism {
        Mechanism::InterruptsOff => &[
            "trace it with function_graph or the irqsoff tracer to see the section's place",
            "keep the work behind it off this CPU (isolcpus, cpusets), or break its section up",
        ],
        Mechanism::PreemptionOff => &[
            "a PREEMPT_RT kernel makes most of these sections preemptible",
            "keep that task off this CPU (taskset, cpuset)",
        ],
        Mechanism::InterruptHandler => &[
            "move that interrupt to another CPU: /proc/irq/N/smp_affinity_list",
            "boot with threadirqs, or use a PREEMPT_RT kernel: handlers become threads (but those with IRQF_NO_THREAD)",
        ],
        Mechanism::Ipi => &[
            "keep processes that map and unmap memory or load modules off the task's CPU",
            "boot with isolcpus and nohz_full for that CPU",
        ],
        Mechanism::HrtimerHandler => {
            &["shorten that function, or move it to a thread", "start that timer on another CPU"]
        }
        Mechanism::TimerCallback => &[
            "look how often it is called and why, not only how long it runs",
            "migrate timers away from the CPU (isolcpus, nohz_full, timer_migration)",
        ],
        Mechanism::Softirq => &[
            "move the interrupt that raises it to another CPU",
            "on PREEMPT_RT give its thread a priority below the task's",
        ],
        Mechanism::Workqueue => &[
            "keep work items off the CPU: /sys/devices/virtual/workqueue/cpumask",
            "give the task a real-time policy",
        ],
        Mechanism::HigherPriority | Mechanism::EqualPriority => &[
            "give the task a higher priority, or the other one a lower",
            "put the two on different CPUs (taskset)",
        ],
        Mechanism::Throttling => &[
            "find the real-time task that uses up its share; then sysctl kernel.sched_rt_runtime_us",
        ],
        Mechanism::Lock | Mechanism::PriorityInversion => {
            &["use mutexes with PTHREAD_PRIO_INHERIT", "hold the lock for less, or do without it"]
        }
        Mechanism::PageFault => &["mlockall(MCL_CURRENT | MCL_FUTURE) and touch the memory first"],
        Mechanism::Nmi => &["turn the NMI watchdog off: sysctl kernel.nmi_watchdog=0"],
        Mechanism::IdleExit => &["hold /dev/cpu_dma_latency at a bound, or limit idle states"],
        Mechanism::TimerSlack => &["run under a real-time policy, or prctl(PR_SET_TIMERSLACK, 1)"],
        Mechanism::Overrun => &["lengthen the period or shorten the work"],
        Mechanism::Stall => &[
            "on the bare machine: hwlat or osnoise tracer, SMI counter, firmware settings",
            "in a virtual machine: pin its CPUs on the host, and look at the host's scheduler",
        ],
        Mechanism::SlowPath | Mechanism::Unexplained => {
            &["record with function_graph or stack traces, and more captures"]
        }
    };
    let mut tries: Vec<String> = tries.iter().map(|t| (*t).to_owned()).collect();
    if c.mechanism == Mechanism::InterruptHandler {
        tries[0] = format!("move interrupt {who} to another CPU: /proc/irq/N/smp_affinity_list");
    }
    tries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_in_a_million_is_fewer_than_three() {
        let bound = none_seen(1_000_000).unwrap();
        assert!((bound * 1e6 - 2.9957).abs() < 1e-3);
        assert_eq!(none_seen(0), None);
    }

    #[test]
    fn more_calls_and_longer_calls_are_told_apart() {
        let said = |late: (f64, f64), on_time: (f64, f64), seen: usize| {
            let f = FunctionShare {
                function: "poll".into(),
                late_ns: late.0 * late.1,
                late_calls: late.0,
                late_each_ns: late.1,
                on_time_ns: on_time.0 * on_time.1,
                on_time_calls: on_time.0,
                on_time_each_ns: on_time.1,
                on_time_windows: seen,
            };
            function_evidence(&f).value
        };
        assert_eq!(
            said((38.0, 500.0), (2.0, 500.0), 40),
            "called 38 times instead of 2, 500 ns each"
        );
        assert_eq!(
            said((1.0, 300_000.0), (1.0, 3_000.0), 40),
            "the same call took 100× longer: 300 µs instead of 3.00 µs"
        );
        assert_eq!(
            said((1.0, 300_000.0), (0.0, 3_000.0), 7),
            "the same call took 100× longer: 300 µs instead of 3.00 µs in the 7 on-time windows that have it"
        );
        assert_eq!(
            said((8.0, 6_000.0), (2.0, 3_000.0), 40),
            "called 8 times instead of 2, and each call 2.0× longer: 6.00 µs instead of 3.00 µs"
        );
        assert_eq!(said((1.0, 5_000.0), (0.0, 5_000.0), 3), "5.00 µs, a call as long as on time");
        assert_eq!(said((1.0, 5_000.0), (0.0, 0.0), 0), "5.00 µs, in no on-time window");
    }

    #[test]
    fn kernel_priorities_are_shown_as_users_set_them() {
        assert_eq!(priority(Some(9)), " (real-time priority 90)");
        assert_eq!(priority(Some(120)), " (ordinary task)");
        assert_eq!(priority(Some(-1)), " (SCHED_DEADLINE)");
    }
}
