//! Wording: real-time tasks.

use super::super::args::Args;
use super::super::message::Text;

pub fn permission(a: &Args<'_>) -> Text {
    let text = match (a.find("priority_max"), a.is("refused")) {
        (Some(priority), _) => {
            return Text::claim(format!("Real-time priorities permitted up to {priority}"));
        }
        (None, false) => return Text::claim("Permission for real-time priorities not tested"),
        (None, true) if a.has("cgroup_rt_runtime") => Text::claim(
            "No real-time runtime in the control group of this process (cpu.rt_runtime_us is 0)",
        ),
        (None, true) => Text::claim("Real-time priorities not permitted for this user"),
    };
    text.why("Without a real-time priority the measuring task waits for other tasks, so the result includes the load of the machine.")
}

pub fn memory_lock(a: &Args<'_>) -> Text {
    let Some(limit) = a.find("limit") else {
        return Text::claim("Memory locking unlimited");
    };
    let text = Text::claim(format!("Memory locking limited to {limit}"));
    if !a.is("small") {
        return text;
    }
    text.why("Memory that is not locked can be paged out, and a page fault in the measuring loop is a late wake-up.")
}

pub fn preemption(a: &Args<'_>) -> Text {
    match a.text("model") {
        "" => Text::claim("Preemption model not readable"),
        "rt" => Text::claim(
            "Preemption model: PREEMPT_RT (threaded interrupts, priority inheritance for locks)",
        ),
        "full" => Text::claim("Preemption model: full (PREEMPT), not PREEMPT_RT").why(
            "Interrupt handlers, softirqs and sections under spinlocks are not preempted.",
        ),
        model @ ("none" | "voluntary" | "lazy") => {
            Text::claim(format!("Preemption model: {model}")).why(
                "A system call of a non-real-time task can delay a real-time task until it yields, by milliseconds in the worst case.",
            )
        }
        model => Text::claim(format!("Preemption model: {model}")),
    }
}

pub fn throttling(a: &Args<'_>) -> Text {
    if !a.has("enabled") {
        return Text::claim("Real-time throttling limits not readable");
    }
    if !a.is("enabled") {
        return Text::claim("Real-time throttling disabled").why(
            "A real-time task that never sleeps keeps its CPU; on a single-CPU machine it blocks the machine.",
        );
    }
    Text::claim(format!(
        "Real-time throttling: at most {} in each period of {}",
        a.get("runtime"),
        a.get("period")
    ))
    .why("A real-time task that uses up the budget is stopped for the rest of the period; a task that sleeps in each period normally does not reach the limit.")
}

pub fn isolation(a: &Args<'_>) -> Text {
    if a.is("single_cpu") {
        return Text::claim("Single CPU: no CPU isolation possible");
    }
    match (a.find("isolated"), a.find("nohz_full")) {
        (None, _) => Text::claim("No isolated CPUs (isolcpus, nohz_full, cpuset)").why(
            "Other tasks, their timers and their deferred work run on the same CPUs as real-time tasks.",
        ),
        (Some(cpus), None) => {
            Text::claim(format!("Isolated CPUs: {cpus} (isolcpus); the tick runs there"))
        }
        (Some(cpus), Some(tickless)) => Text::claim(format!(
            "Isolated CPUs: {cpus} (isolcpus); without a tick: {tickless} (nohz_full)"
        )),
    }
}

pub fn co_kernel(a: &Args<'_>) -> Text {
    Text::claim(format!("Real-time core beside Linux: {}", a.get("name")))
        .why("latlab measures tasks of Linux; those of the core have their own scheduler and are not affected by most findings here.")
}

pub fn other_tasks(a: &Args<'_>) -> Text {
    match a.number("tasks") {
        None => Text::claim("Real-time tasks of other users not readable"),
        Some(0.0) => Text::claim("No other user-space tasks with a real-time or deadline policy"),
        Some(_) => {
            let tasks = a.count("tasks", "other user-space task", "other user-space tasks");
            Text::claim(format!("{tasks} with a real-time or deadline policy"))
                .why("A task of the same or higher priority on the same CPU runs first.")
        }
    }
}
