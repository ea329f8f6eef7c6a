//! Wording: the causes of latency (`why`).

use super::args::Args;
use super::message::{Message, Text};
use latlab_model::units::format_ns;

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    // Causes.
    Message { id: "why.marker-clock", text: marker_clock },
    Message { id: "why.interrupts-off", text: interrupts_off },
    Message { id: "why.preemption-off", text: preemption_off },
    Message { id: "why.interrupt-handler", text: interrupt_handler },
    Message { id: "why.ipi", text: ipi },
    Message { id: "why.hrtimer-handler", text: hrtimer_handler },
    Message { id: "why.timer-callback", text: timer_callback },
    Message { id: "why.softirq", text: softirq },
    Message { id: "why.workqueue", text: workqueue },
    Message { id: "why.higher-priority", text: higher_priority },
    Message { id: "why.equal-priority", text: equal_priority },
    Message { id: "why.measurement", text: measurement },
    Message { id: "why.throttling", text: throttling },
    Message { id: "why.fair-server", text: fair_server },
    Message { id: "why.bandwidth", text: bandwidth },
    Message { id: "why.blocked", text: blocked },
    Message { id: "why.clock-source-changed", text: clock_source_changed },
    Message { id: "why.lock", text: lock },
    Message { id: "why.priority-inversion", text: priority_inversion },
    Message { id: "why.page-fault", text: page_fault },
    Message { id: "why.nmi", text: nmi },
    Message { id: "why.idle-exit", text: idle_exit },
    Message { id: "why.timer-slack", text: timer_slack },
    Message { id: "why.execution", text: execution },
    Message { id: "why.wait", text: wait },
    Message { id: "why.sleep", text: sleep },
    Message { id: "why.overrun", text: overrun },
    Message { id: "why.stall", text: stall },
    Message { id: "why.alternatives", text: alternatives },
    Message { id: "why.slow-path", text: slow_path },
    Message { id: "why.unexplained", text: unexplained },
    Message { id: "why.unexplained-share", text: unexplained_share },
    Message { id: "why.mixed-kernels", text: mixed_kernels },
    // Without a trace.
    Message { id: "why.no-trace", text: no_trace },
    Message { id: "why.rhythm", text: rhythm },
    Message { id: "why.together", text: together },
    Message { id: "why.steal-then", text: steal_then },
    Message { id: "why.smi-then", text: smi_then },
];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] = &[
    ("main-cause-share", "main cause of late wake-ups"),
    ("lateness-share", "share of the total lateness"),
    ("delay-median", "delay, median"),
    ("cause-duration-median", "duration of the cause, median"),
    (
        "cause-duration-estimated",
        "duration of the cause, estimated from the longest delay (no event marks its beginning)",
    ),
    (
        "cause-duration-interval",
        "interval of this duration (95 % or more, if delays are evenly spread)",
    ),
    ("occurrences-late", "occurrences per late window, median"),
    ("occurrences-on-time", "occurrences per on-time window, median"),
    ("period-jitter", "jitter of the period"),
    ("function-more-calls", "function called more often (calls late, on time; time per call)"),
    (
        "function-more-and-longer-calls",
        "function called more often, with longer calls (calls late, on time; time per call late, on time)",
    ),
    ("function-longer-calls", "function with longer calls (time per call late, on time)"),
    ("function-equal-calls", "function with equal time per call (time when late)"),
    ("function-late-only", "function in late windows only"),
    ("kernel-stack", "kernel stack, innermost first"),
    ("source-line-candidates", "source lines of functions with this name"),
    ("source-directory", "source directory (function, module, directory)"),
    ("excess-covered", "share of the excess covered"),
    ("cliffs-delta", "late against on-time: Cliff's delta"),
    ("excess-not-compared", "share of the excess behind the end of on-time windows"),
    ("late-windows", "late windows with this cause"),
    ("coincidence-p", "probability of coincidence"),
    ("interrupted-in", "interrupted most often in (function, late wake-ups, on-time wake-ups)"),
    ("ipi-sender", "inter-processor interrupts sent by (CPU, task, function)"),
    ("interrupted-in-p", "chance of so many late ones in that function"),
    ("cpu-occupancy", "CPU occupancy of the actor"),
    ("event-free-in-user-code", "event-free intervals that begin in user code"),
    (
        "usual-length-windows",
        "windows whose longest event-free interval in the function has its usual length",
    ),
    ("usual-length", "usual length of that interval, of all executions in the capture"),
    ("event-free-on-all-cpus", "intervals without events on all CPUs"),
    ("other-cpu-late-at-once", "another CPU late at the same time"),
    ("similar-durations-median", "similar durations, median"),
    ("similar-durations-mad", "similar durations, median absolute deviation"),
    ("steal-time", "steal time during the measurement"),
    ("smi-count", "system-management interrupts during the measurement"),
    ("idle-exit-latency-max", "longest idle exit latency, reported by sysfs"),
    ("windows-not-covered-from-start", "windows that begin before the trace buffer"),
    ("captures-with-steal", "captures with steal time between the readings round them"),
    ("captures-with-steal-p", "chance of so many captures with steal time"),
    (
        "captures-with-smi",
        "captures with system-management interrupts between the readings round them",
    ),
    ("captures-with-smi-p", "chance of so many captures with system-management interrupts"),
    (
        "event-free-with-interrupts-enabled",
        "event-free intervals that begin with interrupts enabled",
    ),
    (
        "event-free-with-interrupts-or-preemption-disabled",
        "event-free intervals with interrupts or preemption recorded as disabled",
    ),
    ("cpu-frequency", "CPU frequency during the measurement (lowest, highest)"),
    ("cpu-speed", "speed of the CPUs, share of the nominal frequency"),
    ("hwlat-gaps", "event-free intervals with a gap of the hwlat tracer"),
    (
        "timer-of-another-cpu-late-at-once",
        "event-free intervals in which a timer of another CPU was late too",
    ),
    ("idle-state-left", "idle state that was left, and its declared exit latency"),
    ("idle-exit-on-time-max", "longest exit from the same state on time"),
    ("on-time-windows", "on-time windows for comparison"),
    ("smi-counter-x86-only", "SMI counter not available: x86 only"),
    ("smi-counter-no-msr-device", "SMI counter not available: no /dev/cpu/0/msr (modprobe msr)"),
    ("smi-counter-unreadable", "SMI counter not available: /dev/cpu/0/msr"),
    ("smi-counter-no-msr", "SMI counter not available: MSR 0x34 not readable"),
    ("steal-time-not-counted", "steal time not counted by this kernel"),
    ("counter-not-available", "counter not available"),
    ("late-rate-bound-95", "rate of late wake-ups, upper bound (95 %) if wake-ups are independent"),
    ("late-without", "late wake-ups without the mitigation"),
    ("late-with", "late wake-ups with the mitigation"),
    ("excess-without", "excess per wake-up without the mitigation"),
    ("excess-with", "excess per wake-up with the mitigation"),
    ("block-rank-test-p", "rank test of the blocks, p"),
    ("setting-changed", "setting changed and restored (file, before, during)"),
    ("captures-of-kernel", "kernel"),
    ("instructions", "instructions of an activation (late, on time)"),
    ("user-instructions", "of them in user mode (late, on time)"),
    ("cycles-per-instruction", "cycles per instruction (late, on time)"),
    ("cycles-per-second", "cycles per second (late, on time)"),
    ("reference-cycles-per-second", "reference cycles per second (late, on time)"),
    ("cache-misses", "cache misses of an activation (late, on time)"),
    ("page-faults", "page faults of an activation (late, on time)"),
    (
        "execution-shares",
        "shares of the additional time (more instructions, more cycles per instruction, fewer cycles per second)",
    ),
];

/// Who acts, with policy or priority where it is known.
fn actor(a: &Args<'_>) -> String {
    let who = a.find("who").unwrap_or_else(|| "another task".into());
    match a.text("class") {
        "deadline" => format!("{who} (SCHED_DEADLINE)"),
        "realtime" => format!("{who} (real-time priority {})", a.get("priority")),
        "fair" => format!("{who} (not real-time)"),
        _ => who,
    }
}

fn marker_clock(a: &Args<'_>) -> Text {
    let offset = a.number("offset").unwrap_or(0.0);
    let way = if offset < 0.0 { "ahead of" } else { "behind" };
    Text::claim(format!(
        "the marker's clock is {} {way} the trace's: the position of the marker in the trace is used",
        format_ns(offset.abs())
    ))
}

fn interrupts_off(a: &Args<'_>) -> Text {
    let (delay, who) = (a.get("delay"), actor(a));
    if a.is("after_waking") {
        return Text::claim(format!(
            "Interrupt of the CPU that woke the task delayed by {delay}: interrupts disabled in {who}"
        ))
        .why("A task that another CPU wakes runs when its own CPU has taken the interrupt for it.");
    }
    Text::claim(format!("Timer interrupt delayed by {delay}: interrupts disabled in {who}"))
        .why("The CPU takes no timer interrupt while interrupts are disabled.")
}

fn preemption_off(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "Preemption disabled in {} for {} after the task was woken",
        actor(a),
        a.get("delay")
    ))
    .why("The scheduler cannot switch to a woken task while preemption is disabled.")
}

const INTERRUPTS: &str = "Interrupt handlers run before any task, whatever its priority.";

fn interrupt_handler(a: &Args<'_>) -> Text {
    let (who, delay) = (a.get("who"), a.get("delay"));
    Text::claim(format!("Interrupt handler {who} ran for {delay} before the task")).why(INTERRUPTS)
}

fn ipi(a: &Args<'_>) -> Text {
    let (who, delay, times) = (a.get("who"), a.get("delay"), a.get("times"));
    let sent = a.find("sender_cpu").map_or_else(String::new, |cpu| {
        let task = a.find("sender").map_or_else(String::new, |task| format!(", {task}"));
        let function = a.find("function").map_or_else(String::new, |f| format!(", to call {f}"));
        format!("; sent by CPU {cpu}{task}{function}")
    });
    Text::claim(format!(
        "Inter-processor interrupts ({who}) took {delay}, {times} per late window{sent}"
    ))
    .why(INTERRUPTS)
}

fn hrtimer_handler(a: &Args<'_>) -> Text {
    let (who, delay) = (a.get("who"), a.get("delay"));
    Text::claim(format!(
        "Timer function {who} ran for {delay} in interrupt context before the task"
    ))
    .why("hrtimers that expire together run one after the other.")
}

const SOFTIRQS: &str = "Softirqs run before the interrupted CPU returns to tasks, or in a thread of \
                        higher priority than the task.";

fn timer_callback(a: &Args<'_>) -> Text {
    let (who, delay) = (a.get("who"), a.get("delay"));
    Text::claim(format!(
        "Timer function {who} ran for {delay} in the timer softirq before the task"
    ))
    .why(SOFTIRQS)
}

fn softirq(a: &Args<'_>) -> Text {
    let (who, delay) = (a.get("who"), a.get("delay"));
    Text::claim(format!("Softirq {who} ran for {delay} before the task")).why(SOFTIRQS)
}

const PREEMPTION: &str =
    "A task waits while a task that the scheduler does not rank behind it runs.";

fn workqueue(a: &Args<'_>) -> Text {
    let (who, delay) = (a.get("who"), a.get("delay"));
    Text::claim(format!("Work item {who} ran for {delay} before the task")).why(PREEMPTION)
}

fn higher_priority(a: &Args<'_>) -> Text {
    let delay = a.get("delay");
    let chain = chain(a);
    Text::claim(format!("Task of higher priority ran for {delay}: {}{chain}", actor(a)))
        .why(PREEMPTION)
}

fn equal_priority(a: &Args<'_>) -> Text {
    let delay = a.get("delay");
    if a.text("class") == "fair" {
        let why = match a.find("waited_for") {
            Some(_) => {
                "The scheduler shares the CPU among fair tasks, also while a real-time task waits for one of them: \
                 priority inversion, unless the wait is for a lock with priority inheritance."
            }
            None => "The scheduler shares the CPU among fair tasks; nice values weight the shares.",
        };
        return Text::claim(format!(
            "Task of equal priority (fair) ran for {delay}: {}{}",
            a.get("who"),
            chain(a)
        ))
        .why(why);
    }
    Text::claim(format!("Task of equal priority ran for {delay}: {}{}", actor(a), chain(a)))
        .why(PREEMPTION)
}

fn measurement(a: &Args<'_>) -> Text {
    let (who, delay) = (a.get("who"), a.get("delay"));
    Text::claim(format!("Effect of the measurement: latlab's own thread ran for {delay}: {who}"))
        .why("latlab's main thread runs as an ordinary task and saves the captures.")
}

fn throttling(a: &Args<'_>) -> Text {
    let (who, delay) = (a.find("who").unwrap_or_else(|| "idle".into()), a.get("delay"));
    Text::claim(format!(
        "Real-time throttling: the task was runnable and the scheduler chose {who} for {delay}"
    ))
    .why("Real-time tasks get at most sched_rt_runtime_us of each sched_rt_period_us.")
}

fn fair_server(a: &Args<'_>) -> Text {
    let (who, delay) = (a.get("who"), a.get("delay"));
    Text::claim(format!("Fair server: {who} ran for {delay} while the task was runnable"))
        .why("Linux 6.12 and later reserves time of each CPU for fair tasks.")
}

fn bandwidth(a: &Args<'_>) -> Text {
    let delay = a.get("delay");
    Text::claim(format!(
        "No runtime left for {delay}: the task was runnable and the CPU idle or given away"
    ))
    .why("cpu.max of its cgroup limits a fair task, its reservation one of SCHED_DEADLINE.")
}

fn blocked(a: &Args<'_>) -> Text {
    let woken = a.find("who").map_or_else(String::new, |who| format!(", until {who} woke it"));
    Text::claim(format!("Task blocked for {}{woken}; no event shows by what", a.get("delay"))).why(
        "Without events of lock contention, futex calls and page faults, a lock, a page fault and I/O \
         look alike.",
    )
}

fn clock_source_changed(a: &Args<'_>) -> Text {
    let (before, after) = (a.get("before"), a.get("after"));
    Text::claim(format!("Clock source changed during the measurement: {before} to {after}")).why(
        "Times before and after the change are not equally exact; reading the clock costs more.",
    )
}

fn owner(a: &Args<'_>) -> String {
    a.find("who").unwrap_or_else(|| "an unknown task".into())
}

fn lock(a: &Args<'_>) -> Text {
    let delay = a.get("delay");
    Text::claim(format!("Lock wait of {delay}: the lock was held by {}", owner(a)))
        .why("A lock owner of lower priority determines when the task continues.")
}

fn priority_inversion(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "Priority inversion: the task waited {} for a lock held by {} while {} ran",
        a.get("delay"),
        owner(a),
        a.get("instead")
    ))
    .why(
        "Without priority inheritance, a task of intermediate priority keeps the lock owner from \
         running.",
    )
}

fn page_fault(a: &Args<'_>) -> Text {
    Text::claim(format!("Page fault on the wake-up path took {}", a.get("delay")))
        .why("A page that is not present must be located, allocated or read first.")
}

fn nmi(a: &Args<'_>) -> Text {
    Text::claim(format!("NMI took {}", a.get("delay"))).why(INTERRUPTS)
}

fn idle_exit(a: &Args<'_>) -> Text {
    Text::claim(format!("Idle exit took {}", a.get("delay")))
        .why("Deeper idle states have longer exit latencies.")
}

fn timer_slack(a: &Args<'_>) -> Text {
    Text::claim(format!("Timer programmed late: {} after the intended time", a.get("delay")))
        .why("Timer slack rounds up the timers of tasks that are not real-time.")
}

/// Where a cause kept another task from running, for which the measured one waited.
fn chain(a: &Args<'_>) -> String {
    a.find("waited_for").map_or_else(String::new, |task| format!("; the task waited for {task}"))
}

fn execution(a: &Args<'_>) -> Text {
    let longer = format!("Own execution of the task took {} longer", a.get("delay"));
    let times = a.get("times");
    let (how, why) = match a.text("kind") {
        "more-work" => (format!("more work, {times} times the instructions"), ""),
        "kernel-work" => (
            format!("more work in the kernel, {times} times the instructions"),
            "System calls and interrupts add instructions in the kernel; page faults did not.",
        ),
        "page-faults" => (
            format!("{} more page faults", a.get("faults")),
            "The kernel maps a page at the first access, and executes instructions for it.",
        ),
        "slower-clock" => (
            format!("slower clock, {times} of the usual cycles per second"),
            "Instructions and cycles per instruction are as usual.",
        ),
        "not-executed" => (
            "the CPU executed nothing for a part of it".to_owned(),
            "Reference cycles stopped as well: a hypervisor or the firmware had the CPU.",
        ),
        "cache-misses" => (
            format!("cache misses, {times} times as many per instruction"),
            "The instructions are as many as usual. Other code that uses the cache, and data that was not used for \
             long, look alike.",
        ),
        "mixed" => {
            let shares = a.list("shares");
            let of =
                ["more instructions", "more cycles per instruction", "fewer cycles per second"];
            let all: Vec<String> =
                shares.iter().zip(of).map(|(share, of)| format!("{share} by {of}")).collect();
            (format!("several reasons ({})", all.join(", ")), "")
        }
        "inconclusive" => (
            format!("why is inconclusive, {}", doubt(a.text("doubt"))),
            "It had the CPU. Counters tell more work, a slower clock, and cache and memory interference apart.",
        ),
        _ => {
            return Text::claim(longer).why(
                "These events show that it had the CPU, not what it did: more work, a slower clock, cache and \
                 memory interference, and a stall of the machine look alike.",
            );
        }
    };
    Text::claim(format!("{longer}: {how}")).why(why)
}

/// Why counters do not decide it.
fn doubt(id: &str) -> &'static str {
    match id {
        "no-counters" => "this machine has no counters of instructions and cycles",
        "no-instructions" => "this machine has no counter of instructions",
        "no-cycles" => "this machine has no counter of cycles",
        "no-cache-misses" => "more cycles per instruction and no counter of cache misses",
        "other-stalls" => "more cycles per instruction without more cache misses",
        "clock-or-stopped" => "fewer cycles per second: slower clock, hypervisor or firmware",
        "too-few" => "too few activations have counters",
        _ => "on-time activations differ as much",
    }
}

fn wait(a: &Args<'_>) -> Text {
    let of = a.find("who").map_or_else(String::new, |who| format!(" for {who}"));
    Text::claim(format!("The task waited{of} {} longer", a.get("delay")))
        .why("An activation ends no earlier than what it waits for.")
}

fn sleep(a: &Args<'_>) -> Text {
    Text::claim(format!("Own sleep of the task took {} longer", a.get("delay"))).why(
        "A timer of its own ended it. A sleep inside of an activation adds to its response time.",
    )
}

fn overrun(a: &Args<'_>) -> Text {
    let delay = a.get("delay");
    Text::claim(format!("Previous activation of the task still ran, for {delay}"))
        .why("A task that is not asleep cannot be woken.")
}

/// A mechanism with who acted, within a sentence.
fn alternative(id: &str, who: &str) -> String {
    let in_who = |what: &str| format!("{what} in {who}");
    let of_who = |what: &str| format!("{what} {who}");
    match id {
        "interrupts-off" => in_who("interrupts disabled"),
        "preemption-off" => in_who("preemption disabled"),
        "ipi" if who.is_empty() => "an interrupt from another CPU".into(),
        "interrupt-handler" | "ipi" => of_who("interrupt handler"),
        "higher-priority" | "equal-priority" | "measurement" => {
            format!(
                "task {who} of {} priority",
                if id == "higher-priority" { "higher" } else { "equal" }
            )
        }
        "softirq" => of_who("softirq"),
        "hrtimer-handler" | "timer-callback" => of_who("timer function"),
        "idle-exit" => "idle exit".into(),
        "bandwidth" => "no runtime left (cpu.max)".into(),
        "overrun" => "previous activation of the task".into(),
        other => of_who(&other.replace('-', " ")).trim().to_owned(),
    }
}

/// What events do not distinguish; equal mechanisms share their words.
fn alternatives(a: &Args<'_>) -> Text {
    let pairs = a.pairs("alternatives");
    let mut all: Vec<String> = Vec::new();
    for id in ["interrupts-off", "preemption-off"] {
        let who: Vec<&str> = pairs.iter().filter(|p| p.0 == id).map(|p| p.1).take(3).collect();
        if !who.is_empty() {
            all.push(alternative(id, &who.join(", ")));
        }
    }
    let code = |p: &&(&str, &str)| !p.0.ends_with("s-off") && p.0 != "preemption-off";
    all.extend(pairs.iter().filter(code).take(3).map(|p| alternative(p.0, p.1)));
    let outside = match a.find("hypervisor") {
        Some(name) => format!("a stall (hypervisor {name} or firmware)"),
        None => "a stall (firmware, secure world or hardware)".into(),
    };
    let no_stall = a.is("no_stall");
    if !no_stall {
        all.push(outside);
    }
    let mut said = all.join(", or ");
    if let Some(first) = said.get(..1) {
        said = first.to_uppercase() + &said[1..];
    }
    let why = if no_stall {
        "A control group got runtime meanwhile; no event tells whether it was the task's."
    } else {
        "No event was recorded during the delay. A task that has the CPU most of the time is affected \
         most often by its own sections and by stalls alike."
    };
    Text::claim(format!("{said}, for {}: not distinguished", a.get("delay"))).why(why)
}

/// Hypervisor, firmware or hardware: as far as the evidence goes.
fn stall(a: &Args<'_>) -> Text {
    let origin = match (a.find("hypervisor"), a.is("steal"), a.is("smi")) {
        (Some(name), true, false) => format!("hypervisor ({name}) likely, steal time was counted"),
        (Some(name), false, false) => {
            format!("hypervisor ({name}) or firmware, not distinguishable")
        }
        (Some(name), true, true) => format!(
            "hypervisor ({name}) or firmware, steal time and system-management interrupts were counted"
        ),
        (Some(name), false, true) => {
            format!("hypervisor ({name}) or firmware, system-management interrupts were counted")
        }
        (None, _, true) => "firmware likely, system-management interrupts were counted".into(),
        (None, _, false) => "firmware, secure world or hardware, not distinguishable".into(),
    };
    Text::claim(format!("Stall, no kernel code ran for {}: {origin}", a.get("delay")))
        .why("Events of the same captures show that no code could run, or counters of time outside of the kernel rose with them.")
}

const NO_EVIDENCE: &str = "No cause is named without evidence.";

fn slow_path(a: &Args<'_>) -> Text {
    let delay = a.get("delay");
    Text::claim(format!("Slow wake-up path: it took {delay} longer; no event shows the reason"))
        .why(NO_EVIDENCE)
}

fn unexplained(a: &Args<'_>) -> Text {
    Text::claim(format!("Unexplained: no event accounts for {}", a.get("delay"))).why(NO_EVIDENCE)
}

fn unexplained_share(a: &Args<'_>) -> Text {
    Text::claim(format!("Unexplained share of the lateness: {}", a.get("share")))
        .why("No event accounts for it, or the wake-up path itself took longer.")
}

fn mixed_kernels(a: &Args<'_>) -> Text {
    let kernels = a.count("kernels", "kernel", "different kernels");
    Text::claim(format!("Captures of {kernels} are mixed")).why(
        "The cost of the same path differs between kernels, and late wake-ups are compared with \
         on-time wake-ups of all captures.",
    )
}

fn no_trace(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "{} of {} wake-ups later than {}; no cause identified without a trace",
        a.get("late"),
        a.get("wakeups"),
        a.get("limit")
    ))
    .why(format!("No trace is available: {}.", a.get("reason")))
}

fn rhythm(a: &Args<'_>) -> Text {
    let (period, jitter) = (a.get("period"), a.get("jitter"));
    Text::claim(format!("Late wake-ups are periodic: every {period} ± {jitter}"))
        .why("They cluster at one phase of this period, more than expected by chance.")
}

fn together(a: &Args<'_>) -> Text {
    let (together, late) = (a.get("together"), a.get("late"));
    Text::claim(format!(
        "{together} of {late} late wake-ups coincide with a late wake-up of another thread"
    ))
    .why(
        "A delay of several CPUs at once rarely comes from code of one CPU; typical sources are \
         firmware, a hypervisor, a lock or an interrupt to all CPUs.",
    )
}

/// A counter that rose in intervals with late wake-ups.
fn then(a: &Args<'_>, what: &str) -> Text {
    Text::claim(format!(
        "{what} in {} of {} intervals with late wake-ups, and in {} of {} without",
        a.get("both"),
        a.get("late_intervals"),
        a.get("counted_only"),
        a.get("other_intervals")
    ))
    .why("The association with late wake-ups is stronger than expected by chance.")
}

fn steal_then(a: &Args<'_>) -> Text {
    then(a, "Steal time (hypervisor)")
}

fn smi_then(a: &Args<'_>) -> Text {
    then(a, "System-management interrupts (firmware)")
}

#[cfg(test)]
#[path = "latency_examples.rs"]
mod examples;
#[cfg(test)]
pub(super) use examples::{capture_examples, examples, remedy_examples};
