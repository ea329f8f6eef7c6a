//! Examples of the wording of causes.

use crate::messages::message::Message;
use crate::messages::{latency, latency_captures, latency_remedies};
use latlab_model::finding::{Note, Quantity, Statement, Value};

/// Examples of the causes.
pub(in crate::messages) fn examples() -> Vec<Statement> {
    of(latency::MESSAGES)
}

/// Examples of mitigation tests, captures, limits and presets.
pub(in crate::messages) fn capture_examples() -> Vec<Statement> {
    of(latency_captures::MESSAGES)
}

/// Examples of remedies.
pub(in crate::messages) fn remedy_examples() -> Vec<Statement> {
    of(latency_remedies::MESSAGES)
}

/// Examples of every identifier of a table: the wordings without values need none.
fn of(table: &[Message]) -> Vec<Statement> {
    let mut all = with_values();
    all.retain(|s| table.iter().any(|m| m.id == s.id));
    let plain = table.iter().filter(|m| !all.iter().any(|s| s.id == m.id));
    let plain: Vec<Statement> =
        plain.map(|m| Statement { id: m.id.to_owned(), values: Default::default() }).collect();
    all.extend(plain);
    all
}

fn with_values() -> Vec<Statement> {
    let mut all = Vec::new();
    let mut put = |id: &str, values: &[(&str, Value)]| {
        let note = values.iter().fold(Note::new(id), |n, (k, v)| n.value(k, v.clone()));
        if let Note::Typed(s) = note {
            all.push(s);
        }
    };
    let text = |t: &str| Value::from(t);
    let ns = |v: f64| Value::from(Quantity::Ns(v));
    let n = |v: u64| Value::from(Quantity::Count(v));
    let ratio = |v: f64| Value::from(Quantity::Ratio(v));
    let delay = ("delay", ns(312_000.0));
    let who = |w: &str| ("who", text(w));
    let class = |c: &str| ("class", text(c));
    let yes = |name: &'static str| (name, Value::from(true));
    let kvm = ("hypervisor", text("kvm"));
    put("why.interrupts-off", &[delay.clone(), who("writer"), class("fair")]);
    let remote = ("after_waking", Value::from(true));
    put("why.interrupts-off", &[delay.clone(), who("writer"), class("fair"), remote]);
    put("why.preemption-off", &[delay.clone(), who("writer"), class("deadline")]);
    put("why.interrupt-handler", &[delay.clone(), who("eth0")]);
    let times = ("times", Quantity::Number(3.0).into());
    put("why.ipi", &[delay.clone(), who("call_function"), times.clone()]);
    let from_cpu = ("sender_cpu", n(1));
    put("why.ipi", &[delay.clone(), who("reschedule"), times.clone(), from_cpu.clone()]);
    let sent = [from_cpu, ("sender", text("make")), ("function", text("flush_tlb_func"))];
    put("why.ipi", &[&[delay.clone(), who("call_function"), times][..], &sent].concat());
    put("why.hrtimer-handler", &[delay.clone(), who("on_hrtimer [latlab_faults]")]);
    put("why.timer-callback", &[delay.clone(), who("on_timer")]);
    put("why.softirq", &[delay.clone(), who("NET_RX")]);
    put("why.workqueue", &[delay.clone(), who("vmstat_update")]);
    let prio = ("priority", Quantity::Priority(60).into());
    put("why.higher-priority", &[delay.clone(), who("sh"), class("realtime"), prio]);
    put("why.equal-priority", &[delay.clone(), who("sh")]);
    put("why.measurement", &[delay.clone(), who("latlab"), class("fair")]);
    put("why.throttling", std::slice::from_ref(&delay));
    put("why.throttling", &[delay.clone(), who("make")]);
    put("why.equal-priority", &[delay.clone(), who("make"), class("fair")]);
    put("why.fair-server", &[delay.clone(), who("make")]);
    put("why.bandwidth", std::slice::from_ref(&delay));
    let kind = |k: &str| ("kind", text(k));
    let times = ("times", Quantity::Number(1.96).into());
    for k in ["more-work", "kernel-work", "cache-misses"] {
        put("why.execution", &[delay.clone(), kind(k), times.clone()]);
    }
    let times = ("times", Quantity::Number(0.55).into());
    put("why.execution", &[delay.clone(), kind("slower-clock"), times]);
    put("why.execution", &[delay.clone(), kind("page-faults"), ("faults", n(64))]);
    put("why.execution", &[delay.clone(), kind("not-executed")]);
    let shares = Value::List(vec![ratio(0.48), ratio(0.02), ratio(0.5)]);
    put("why.execution", &[delay.clone(), kind("mixed"), ("shares", shares)]);
    for doubt in [
        "no-counters",
        "no-instructions",
        "no-cycles",
        "no-cache-misses",
        "other-stalls",
        "clock-or-stopped",
        "too-few",
        "not-separated",
    ] {
        let values = [delay.clone(), kind("inconclusive"), ("doubt", text(doubt))];
        put("why.execution", &values);
    }
    put("why.wait", &[delay.clone(), who("producer")]);
    let waited = ("waited_for", text("producer"));
    put("why.higher-priority", &[delay.clone(), who("sh"), waited.clone()]);
    put("why.equal-priority", &[delay.clone(), who("sh"), waited.clone()]);
    put("why.equal-priority", &[delay.clone(), who("make"), class("fair"), waited]);
    put("why.blocked", &[delay.clone(), who("logger")]);
    put("why.blocked", std::slice::from_ref(&delay));
    put("why.clock-source-changed", &[("before", text("tsc")), ("after", text("hpet"))]);
    put("why.lock", &[delay.clone(), who("logger")]);
    put("why.lock", std::slice::from_ref(&delay));
    let instead = ("instead", vec!["cc1", "make"].into());
    put("why.priority-inversion", &[delay.clone(), who("logger"), instead]);
    put("why.stall", &[delay.clone(), kvm.clone(), yes("steal")]);
    put("why.stall", &[delay.clone(), kvm.clone()]);
    put("why.stall", &[delay.clone(), kvm.clone(), yes("steal"), yes("smi")]);
    let kvm2 = kvm.clone();
    put("why.stall", &[delay.clone(), kvm, yes("smi")]);
    put("why.stall", &[delay.clone(), yes("smi")]);
    let off = |id: &str, who: &str| Value::List(vec![text(id), text(who)]);
    let kernel = Value::List(vec![off("interrupts-off", "db_worker"), off("idle-exit", "")]);
    put("why.alternatives", &[delay.clone(), ("alternatives", kernel)]);
    let limit = Value::List(vec![off("equal-priority", "make"), off("bandwidth", "")]);
    put("why.alternatives", &[delay.clone(), ("alternatives", limit), yes("no_stall")]);
    let three = ["app", "net", "sh"].map(|who| off("interrupts-off", who)).to_vec();
    put("why.alternatives", &[delay.clone(), ("alternatives", Value::List(three)), kvm2]);
    for id in [
        "why.page-fault",
        "why.nmi",
        "why.idle-exit",
        "why.timer-slack",
        "why.execution",
        "why.wait",
        "why.sleep",
        "why.overrun",
        "why.stall",
        "why.slow-path",
        "why.unexplained",
    ] {
        put(id, std::slice::from_ref(&delay));
    }
    put("why.unexplained-share", &[("share", ratio(0.23))]);
    put("why.mixed-kernels", &[("kernels", vec!["6.1.0", "6.12.1"].into())]);
    let reason = ("reason", text("tracing needs root"));
    put(
        "why.no-trace",
        &[("late", n(40)), ("wakeups", n(10_000)), ("limit", ns(100_000.0)), reason],
    );
    put("why.rhythm", &[("period", ns(97.3e6)), ("jitter", ns(40_000.0))]);
    put("why.together", &[("together", n(18)), ("late", n(20))]);
    for id in ["why.steal-then", "why.smi-then"] {
        put(
            id,
            &[
                ("both", n(18)),
                ("late_intervals", n(20)),
                ("counted_only", n(2)),
                ("other_intervals", n(180)),
            ],
        );
    }
    let load = ("mitigation", text("why.test-load-stopped"));
    let effect = |removed: f64, low: f64, high: f64| {
        [("removed", ratio(removed)), ("low", ratio(low)), ("high", ratio(high))]
    };
    put("why.mitigation-effective", &[&[load.clone()][..], &effect(0.94, 0.9, 0.97)].concat());
    let moved = ("mitigation", text("why.test-interrupt-moved"));
    let irq = ("irq", text("eth0"));
    put(
        "why.mitigation-no-clear-effect",
        &[&[moved.clone(), irq.clone()][..], &effect(0.1, -0.2, 0.3)].concat(),
    );
    put(
        "why.mitigation-no-clear-effect",
        &[
            &[moved.clone(), irq.clone()][..],
            &effect(0.1, -0.2, 0.3)[..1],
            &effect(0.1, -0.2, 0.3)[2..],
        ]
        .concat(),
    );
    put(
        "why.mitigation-no-effect",
        &[&[moved.clone(), irq.clone()][..], &effect(0.01, -0.1, 0.1)].concat(),
    );
    put("why.mitigation-no-late", &[load]);
    let no_irq = ("reason", text("why.reason-no-such-interrupt"));
    put("why.mitigation-not-tested", &[moved, irq.clone(), no_irq]);
    put("why.test-interrupt-moved", std::slice::from_ref(&irq));
    put("why.test-other-cpus", &[("cpus", vec![Quantity::Cpu(1), Quantity::Cpu(3)].into())]);
    put("why.test-other-cpus", &[]);
    put("why.reason-all-cpus-measured", &[("cpu", Quantity::Cpu(0).into())]);
    put("why.reason-rt-limit", &[("runtime_us", n(995_000)), ("period_us", n(1_000_000))]);
    put("why.reason-no-such-interrupt", &[irq]);
    let error = ("error", text("/proc/interrupts: Permission denied"));
    put("why.reason-error", std::slice::from_ref(&error));
    put("why.preset-error", &[error]);
    put(
        "why.setting-changed",
        &[
            ("file", text("/proc/irq/24/smp_affinity_list")),
            ("before", text("0-1")),
            ("during", text("1")),
        ],
    );
    put("why.capture-begins-late", &[("wakeups", n(1))]);
    put("why.marker-clock", &[("offset", Quantity::Ns(-2_000_000.0).into())]);
    put("why.marker-clock", &[("offset", Quantity::Ns(2_000_000.0).into())]);
    put("why.capture-sampled", &[("used", n(2_000)), ("late", n(3_500))]);
    put("why.capture-damaged", &[("what", text("a page is cut off"))]);
    put("why.capture-damaged", &[("what", text("a page is cut off")), ("more", n(2))]);
    put("why.deadline-period", &[("period", ns(2e6))]);
    put("why.deadline-slowest", &[("late", n(20)), ("of", n(1_000))]);
    let auto = [("quantile", ratio(0.999)), ("wakeups", n(24_000))];
    put("why.limit-auto", &auto);
    put("why.limit-auto", &[&auto[..], &[("lowered_from", ns(250_000.0))]].concat());
    let window = [
        ("low", ns(80e3)),
        ("high", ns(90e3)),
        ("traced_low", ns(95e3)),
        ("traced_high", ns(107e3)),
    ];
    put("why.limit-window", &window);
    put("why.limit-window-unmapped", &window[..2]);
    put("why.limit-window-unmapped", &[]);
    let events = ("events", n(25));
    put("why.preset-events", &[events.clone(), yes("top_level")]);
    put(
        "why.preset-given-functions",
        &[events.clone(), ("functions", vec!["ksys_read", "do_exit"].into())],
    );
    for id in [
        "why.preset-all-functions",
        "why.preset-handler-functions",
        "why.preset-sections",
        "why.preset-stacks",
        "why.preset-interrupted",
    ] {
        put(id, std::slice::from_ref(&events));
    }
    put("why.preset-changed-distribution", &[("limit", ns(150_000.0))]);
    put("why.remedy-move-interrupt", &[who("eth0")]);
    all
}
