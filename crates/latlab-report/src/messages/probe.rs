//! Wording: why a benchmark's probe has no result, and limits of its values.

use super::args::Args;
use super::message::{Message, Text, fixed, message};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    // What the machine lacks.
    message("probe.no-memory", |a| {
        let needed = a.find("needed").map_or_else(String::new, |n| format!("{n} needed, "));
        Text::claim(format!("not enough memory: {needed}{} allowed", a.get("limit")))
    }),
    message("probe.no-program", |a| Text::claim(format!("there is no {}", a.get("program")))),
    fixed!("probe.program-not-run", "the program cannot be executed"),
    message("probe.no-realtime", |a| {
        Text::claim(format!("SCHED_FIFO is not permitted: {}", a.get("error")))
    }),
    fixed!("probe.no-cpu", "no CPU is allowed"),
    fixed!("probe.no-second-cpu", "no second CPU is allowed"),
    fixed!("probe.no-second-core", "no CPU of a second core is allowed"),
    message("probe.no-sibling", |a| {
        Text::claim(format!("no other hardware thread of the core of {} is allowed", a.get("cpu")))
    }),
    message("probe.too-few-cpus", |a| {
        Text::claim(format!(
            "{} threads need as many CPUs; {} are allowed",
            a.get("threads"),
            a.get("allowed")
        ))
    }),
    message("probe.cpu-refused", |a| {
        Text::claim(with_error(format!("not allowed to run on {}", a.get("cpu")), a))
    }),
    message("probe.process-limit", |a| {
        Text::claim(format!("the limit of processes is reached (ulimit -u: {})", limit(a)))
    }),
    message("probe.descriptor-limit", |a| {
        let (call, limit) = (a.get("call"), limit(a));
        Text::claim(format!(
            "{call}: the limit of file descriptors is reached (ulimit -n: {limit})"
        ))
    }),
    message("probe.select-range", |a| {
        Text::claim(format!("select() takes no descriptor above {}", a.get("last")))
    }),
    fixed!("probe.no-instruction", "not available on this processor"),
    fixed!(
        "probe.no-direct",
        "this file system has no O_DIRECT; --dir, or path= of a disk, names another one"
    ),
    fixed!("probe.no-cycle-counter", "this machine, or its hypervisor, has no counter of cycles"),
    message("probe.no-server", |a| {
        Text::claim(format!("no server at {}: {}", a.get("address"), a.get("error")))
    }),
    message("probe.other-server", |a| {
        Text::claim(with_error(format!("{} is no latlab bench --serve", a.get("address")), a))
    }),
    message("probe.server-version", |a| {
        Text::claim(format!(
            "the server at {} has version {} of the protocol, this latlab version {}",
            a.get("address"),
            a.get("theirs"),
            a.get("ours")
        ))
    }),
    message("probe.server-busy", |a| {
        Text::claim(format!("the server at {} has as many sessions as it takes", a.get("address")))
    }),
    message("probe.no-trace", |a| Text::claim(format!("no trace: {}", a.get("error")))),
    fixed!("probe.seccomp", "a seccomp filter ended the process at one of its system calls"),
    // What failed.
    message("probe.call-failed", |a| Text::claim(format!("{}: {}", a.get("call"), a.get("error")))),
    message("probe.parameter", |a| {
        let (name, value) = (a.get("name"), a.get("value"));
        Text::claim(format!("parameter {name}={value}: allowed are {}", a.get("allowed")))
    }),
    message("probe.unknown", |a| Text::claim(format!("there is no probe {}", a.get("probe")))),
    fixed!("probe.path-zero-byte", "the path of the directory has a zero byte"),
    fixed!("probe.peer-ended", "the other process ended"),
    fixed!("probe.server-refused", "the server refuses such a session"),
    message("probe.peer-lost", |a| {
        Text::claim(format!("the connection to {} was lost: {}", a.get("address"), a.get("error")))
    }),
    fixed!("probe.peer-not-ready", "the other task did not run in time"),
    fixed!("probe.thread-panicked", "the thread panicked"),
    fixed!("probe.uring-offsets", "offsets of the io_uring are outside its mapping"),
    fixed!("probe.uring-no-completion", "io_uring_enter returned without a completion"),
    fixed!("probe.no-switch-in-trace", "the trace has no switch between the two tasks"),
    fixed!("probe.empty-trace", "the trace of a batch is empty"),
    message("probe.tracing-failed", |a| Text::claim(format!("tracing: {}", a.get("error")))),
    fixed!(
        "probe.killed",
        "the measuring process was killed, by another program or without memory"
    ),
    fixed!("probe.cpu-time-limit", "the measuring process exceeded its CPU time under SCHED_FIFO"),
    message("probe.no-result", |a| {
        Text::claim(format!("the measuring process ended without a result ({})", a.get("status")))
    }),
    message("probe.no-reply", |a| {
        Text::claim(format!(
            "the measuring process gave no result within {} and was killed",
            a.get("limit")
        ))
    }),
    message("probe.trial-failed", |a| {
        Text::claim(format!("the measuring process: {}", a.get("error")))
    }),
    // Limits of the values.
    fixed!(
        "probe.placed-by-scheduler",
        "the scheduler chooses the CPUs: the result differs from run to run"
    ),
    fixed!(
        "probe.function-graph",
        "schedule() by function_graph without time off the CPU; includes the tracer between its two clock readings"
    ),
    fixed!(
        "probe.context-switch",
        "context_switch() from sched_switch to the return of finish_task_switch() by function_graph; the cost of recording an event and a function is subtracted"
    ),
    fixed!(
        "probe.kernel-events",
        "by events of the kernel; the cost of recording them is subtracted"
    ),
    fixed!("probe.switch-only", "a lower bound: neither a wake-up nor a message is included"),
    fixed!(
        "probe.timer-included",
        "includes a timer interrupt and, on some kernels, a softirq thread; the 10 µs of sleep are subtracted"
    ),
    fixed!(
        "probe.fault-around",
        "per fault, which maps up to sixteen pages; lmbench divides by pages"
    ),
];

fn limit(a: &Args<'_>) -> String {
    a.find("limit").unwrap_or_else(|| "unlimited".into())
}

fn with_error(claim: String, a: &Args<'_>) -> String {
    match a.find("error") {
        Some(error) => format!("{claim}: {error}"),
        None => claim,
    }
}

#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::{statements, with_fixed};
    use latlab_model::finding::{Note, Quantity as Q};
    let n = Note::new;
    let valued = [
        n("probe.no-memory").value("needed", Q::Bytes(1 << 30)).value("limit", Q::Bytes(64 << 20)),
        n("probe.no-memory").value("limit", Q::Bytes(64 << 20)),
        n("probe.no-program").value("program", "/bin/true"),
        n("probe.no-realtime").value("error", "Operation not permitted (os error 1)"),
        n("probe.no-sibling").value("cpu", Q::Cpu(3)),
        n("probe.too-few-cpus").value("threads", Q::Count(4)).value("allowed", Q::Count(2)),
        n("probe.cpu-refused").value("cpu", Q::Cpu(3)),
        n("probe.cpu-refused").value("cpu", Q::Cpu(3)).value("error", "Invalid argument"),
        n("probe.process-limit").value("limit", Q::Count(64)),
        n("probe.process-limit"),
        n("probe.descriptor-limit").value("call", "pipe").value("limit", Q::Count(64)),
        n("probe.select-range").value("last", Q::Count(1023)),
        n("probe.no-server")
            .value("address", "192.0.2.7:27380")
            .value("error", "Connection refused (os error 111)"),
        n("probe.other-server").value("address", "192.0.2.7:22"),
        n("probe.other-server")
            .value("address", "192.0.2.7:22")
            .value("error", "failed to fill whole buffer"),
        n("probe.server-version")
            .value("address", "192.0.2.7:27380")
            .value("theirs", Q::Count(2))
            .value("ours", Q::Count(1)),
        n("probe.server-busy").value("address", "192.0.2.7:27380"),
        n("probe.peer-lost")
            .value("address", "192.0.2.7:27380")
            .value("error", "no reply within 5 s"),
        n("probe.no-trace").value("error", "tracefs is not mounted"),
        n("probe.call-failed")
            .value("call", "io_uring_setup")
            .value("error", "Function not implemented (os error 38)"),
        n("probe.parameter")
            .value("name", "size")
            .value("value", "0")
            .value("allowed", "64 or more"),
        n("probe.unknown").value("probe", "syscall.x"),
        n("probe.tracing-failed").value("error", "Device or resource busy"),
        n("probe.no-result").value("status", "exit status: 3"),
        n("probe.no-reply").value("limit", Q::S(20.0)),
        n("probe.trial-failed").value("error", "Interrupted system call"),
    ];
    with_fixed(MESSAGES, statements(valued))
}
