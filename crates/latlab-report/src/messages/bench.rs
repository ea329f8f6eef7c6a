//! Wording: micro-benchmarks.

use super::args::Args;
use super::message::{Message, Text, fixed};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    Message { id: "bench.impossible", text: impossible },
    Message { id: "bench.contradiction", text: contradiction },
    Message { id: "bench.two-modes", text: two_modes },
    Message { id: "bench.drift", text: drift },
    Message { id: "bench.steal", text: steal },
    Message { id: "bench.frequency", text: frequency },
    Message { id: "bench.below-resolution", text: below_resolution },
    Message { id: "bench.traced", text: traced },
    Message { id: "bench.shared", text: shared },
    Message { id: "bench.not-alone", text: not_alone },
    Message { id: "bench.switch-methods", text: switch_methods },
    Message { id: "bench.disturbed", text: disturbed },
    Message { id: "bench.two-states", text: two_states },
    Message { id: "bench.each", text: each },
    Message { id: "bench.size-effect", text: size_effect },
    Message { id: "bench.clock-period", text: clock_period },
    Message { id: "bench.clock-undecided", text: clock_undecided },
    Message { id: "bench.clock-differs", text: clock_differs },
    Message { id: "bench.cut-short", text: cut_short },
    Message { id: "bench.unsure", text: unsure },
    fixed!("bench.no-time", "no time left in the budget"),
    Message { id: "bench.wrong-switches", text: wrong_switches },
    fixed!("bench.remedy-idle-machine", "Measure again on an idle machine"),
    fixed!("bench.remedy-clock", "Check clocks that change with heat or load: latlab doctor"),
    fixed!("bench.remedy-governor", "Set the governor to performance during the measurement"),
    fixed!("bench.remedy-end-tracing", "End that tracing and measure again"),
    fixed!("bench.remedy-free-cpu", "End these processes, or measure on another CPU: -a CPU"),
    fixed!("bench.remedy-other-methods", "Use ctx.yield, ctx.futex or ctx.eventfd instead"),
    fixed!("bench.remedy-quiet-host", "Measure when the host is idle, which also takes less time"),
    fixed!(
        "bench.remedy-fixed-clock",
        "Measure with a fixed clock (no boost) and an idle sibling thread"
    ),
    fixed!("bench.remedy-more-time", "Extend the duration (-D 5m), or select fewer benchmarks"),
];

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] = &[
    ("separation", "separation, in spreads"),
    ("mann-kendall-p", "Mann–Kendall test of the process medians, p"),
    ("interval-95", "95 % interval"),
    ("busy-by-others", "CPU time of other processes"),
    ("control-workload-best", "control workload at its best"),
    ("change-with-disturbed-batches", "largest change with the disturbed batches"),
    ("results-with-disturbed-batches", "results that include disturbed batches"),
    ("results-from-a-minority-of-batches", "results from fewer than half of their batches"),
    ("control-workload-fast", "control workload in the fast state"),
    ("control-workload-slow", "control workload in the slow state"),
    ("widest-interval", "widest interval, half"),
    ("no-interval", "without an interval"),
];

fn impossible(a: &Args<'_>) -> Text {
    let benchmark = a.get("benchmark");
    Text::claim(match a.find("cycles") {
        Some(cycles) => {
            format!("Impossible result: {benchmark} takes {cycles} cycles, less than any processor")
        }
        None => format!("Impossible result: {benchmark} takes no time"),
    })
    .why("An impossible result shows an error of the measurement, not a fast machine.")
}

fn contradiction(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "Contradictory results: {} is faster than {}, which is part of it",
        a.get("whole"),
        a.get("part")
    ))
}

fn two_modes(a: &Args<'_>) -> Text {
    let (scope, why) = match a.text("scope") {
        "processes" => (
            "between processes",
            "Each process has one of the two values: page placement, addresses or the host's \
             placement decide.",
        ),
        _ => ("within processes", "A condition changes during the measurement."),
    };
    Text::claim(format!(
        "{}: two modes {scope}, {} ({}) and {} ({})",
        a.get("benchmark"),
        a.get("low"),
        a.get("low_share"),
        a.get("high"),
        a.get("high_share")
    ))
    .why(why)
}

fn drift(a: &Args<'_>) -> Text {
    let sign = if a.number("change").unwrap_or(0.0) > 0.0 { "+" } else { "" };
    Text::claim(format!("{}: drift of {sign}{}", a.get("benchmark"), a.get("change")))
        .why("The median of a drifting value depends on the time of the measurement.")
}

fn size_effect(a: &Args<'_>) -> Text {
    let range = format!("{}: {} to {}", a.get("benchmark"), a.get("from"), a.get("to"));
    let change = format!("{} over this range", percent(a, "change"));
    let interval = format!("95 % interval {} to {}", percent(a, "low"), percent(a, "high"));
    let claim = match a.get("effect").as_str() {
        "none" => format!("{range}: {} whatever the size ({change}, {interval})", a.get("mean")),
        "slope" => format!("{range}: {} for each byte ({change}, {interval})", a.get("slope")),
        _ => {
            format!("{range}: whether the time depends on the size is open ({change}, {interval})")
        }
    };
    Text::claim(claim).why("A line by least squares through the medians of all sizes.")
}

fn cut_short(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "{}: ended after {}: {}",
        a.get("benchmark"),
        a.count("processes", "process", "processes"),
        a.nested("reason").unwrap_or_default()
    ))
}

fn clock_period(a: &Args<'_>) -> Text {
    let share = a.number("half").unwrap_or(0.0) / a.number("period").unwrap_or(1.0) * 100.0;
    let fitting = match a.find("spoilt") {
        None => format!("of {} operations", a.get("operations")),
        Some(spoilt) => {
            format!("of {} of {} operations (not {spoilt})", a.get("fitting"), a.get("operations"))
        }
    };
    let mut claim = format!(
        "Clock {} ± {share:.2} %: period {}, the greatest common divisor {fitting}, which are whole multiples within {} cycles",
        a.get("hz"),
        picoseconds(a, "period"),
        a.get("residual"),
    );
    for (name, way) in WAYS {
        if let Some(hz) = a.find(name) {
            claim += &format!("; {way} {hz}");
        }
    }
    if let Some(hz) = a.find("slow_hz") {
        claim += &format!("; in the slow state {hz}");
    }
    Text::claim(claim).why(
        "Times alone do not tell a period from a multiple of it that all operations have in common.",
    )
}

/// Other ways to the clock, by the name of the value.
const WAYS: [(&str, &str); 3] = [
    ("chain", "chain of additions"),
    ("counter", "counter of cycles"),
    ("reported", "reported by the kernel"),
];

/// A time of less than some ns, to the picosecond.
fn picoseconds(a: &Args<'_>, name: &str) -> String {
    format!("{:.4} ns", a.number(name).unwrap_or(0.0))
}

fn clock_undecided(a: &Args<'_>) -> Text {
    let clocks = a.list("clocks");
    let operations = a.get("operations");
    Text::claim(match clocks.len() {
        0 => format!("No clock by greatest common divisor: the times of the {operations} operations have none"),
        1 => format!("No clock by greatest common divisor: times at random would fit {} as well", clocks[0]),
        _ => format!(
            "No clock by greatest common divisor: the times of the {operations} operations fit several: {}",
            clocks.join(", ")
        ),
    })
    .why("Interference, a clock that changes between the operations, or too few of them.")
}

fn clock_differs(a: &Args<'_>) -> Text {
    let way = WAYS.iter().find(|(name, _)| *name == a.text("way")).map_or("", |(_, way)| *way);
    Text::claim(format!(
        "The {way} gives {}, the greatest common divisor {}: {} times as much",
        a.get("hz"),
        a.get("divisor"),
        a.get("ratio")
    ))
    .why("An addition that takes more or less than a cycle, operations with a common factor, or another clock meanwhile.")
}

/// A change with its sign, in percent.
fn percent(a: &Args<'_>, name: &str) -> String {
    format!("{:+.1} %", a.number(name).unwrap_or(0.0) * 100.0)
}

fn each(a: &Args<'_>) -> Text {
    let fewer = match (a.number("operations"), a.number("asked")) {
        (Some(n), Some(asked)) if n < asked => format!(" of {asked:.0} (the time was used up)"),
        _ => String::new(),
    };
    let [min, mean, sd, max, jitter, clock] =
        ["min", "mean", "sd", "max", "jitter", "clock"].map(|name| a.get(name));
    Text::claim(format!(
        "{}: {} single operations{fewer}: minimum {min}, mean {mean}, standard deviation {sd}, maximum {max}, jitter (maximum − minimum) {jitter}; a reading of the clock takes {clock}, and each value has one or two in it",
        a.get("probe"),
        a.get("operations"),
    ))
}

fn steal(a: &Args<'_>) -> Text {
    Text::claim(format!("{}: steal time {} of CPU time", a.get("benchmark"), a.get("share")))
}

fn frequency(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "{}: CPU frequency changes between {} and {}",
        a.get("benchmark"),
        a.get("low"),
        a.get("high")
    ))
}

fn below_resolution(a: &Args<'_>) -> Text {
    Text::claim(format!("{}: not distinguishable from its overhead", a.get("benchmark")))
}

fn traced(a: &Args<'_>) -> Text {
    Text::claim(format!("Tracing by other programs was active: {}", a.get("buffers"))).why(
        "Each recorded event costs some hundred ns in the wake-up, switch or call that has it.",
    )
}

fn shared(a: &Args<'_>) -> Text {
    Text::claim(format!("Other processes used {} of {}", a.get("share"), a.get("cpu"))).why(
        "They lengthen the run queue and evict cache lines; context switches are affected most.",
    )
}

fn not_alone(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "{}: {} of {} context switches involve other threads ({})",
        a.get("benchmark"),
        a.get("between"),
        a.get("switches"),
        a.get("threads")
    ))
    .why("The result includes the time of these threads: it is not the cost of a context switch.")
}

fn switch_methods(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "Context switch on one CPU: {} to {} by {} methods",
        a.get("low"),
        a.get("high"),
        a.get("methods")
    ))
    .why(
        "ctx.yield has no wake-up and is the lower bound; ctx.kernel is the same, from kernel events; \
         ctx.futex and ctx.eventfd are the cost of waiting for another thread; ctx.pipe and ctx.ring \
         correspond to lmbench. The overhead of the calls is measured and subtracted.",
    )
}

fn disturbed(a: &Args<'_>) -> Text {
    Text::claim(format!("Interference detected in {} of the batches", a.get("share"))).why(
        "A control workload next to every batch took longer than its minimum: other activity on the \
         core (a neighbour on the host, a sibling thread) or a changed clock. Results use the other \
         batches where at least two processes have any.",
    )
}

fn two_states(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "The machine has two states: the control workload is {} slower in all but {} of the batches",
        a.get("slower"),
        a.get("share")
    ))
    .why(
        "A boosted clock, or a core that is shared at times. Results use the fast state \
         where at least two processes have it; the report has the median in each.",
    )
}

fn unsure(a: &Args<'_>) -> Text {
    Text::claim(format!(
        "{} of {} results have an interval wider than ±{}",
        a.get("missed"),
        a.get("results"),
        a.get("target")
    ))
}

fn wrong_switches(a: &Args<'_>) -> Text {
    let batches = a.count("batches", "batch has", "batches have");
    Text::claim(format!("{batches} the wrong number of context switches"))
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::{example, with_fixed};
    use latlab_model::finding::{Quantity, Value};
    let n = |v: u64| Value::from(Quantity::Count(v));
    let ns = |v: f64| Value::from(Quantity::Ns(v));
    let ratio = |v: f64| Value::from(Quantity::Ratio(v));
    let text = |t: &str| Value::from(t);
    let benchmark = ("benchmark", text("syscall.read"));
    let modes = |scope: &str| {
        let values = [
            benchmark.clone(),
            ("scope", text(scope)),
            ("low", ns(200.0)),
            ("low_share", ratio(0.4)),
            ("high", ns(260.0)),
            ("high_share", ratio(0.6)),
        ];
        example("bench.two-modes", &values)
    };
    let with = |id: &str, more: &[(&str, Value)]| {
        example(id, &[std::slice::from_ref(&benchmark), more].concat())
    };
    let hz = |v: f64| Value::from(Quantity::Hz(v));
    let size_effect = |effect: &str| {
        let values = [
            ("benchmark", text("ipc.unix-stream")),
            ("effect", text(effect)),
            ("from", Quantity::Bytes(1).into()),
            ("to", Quantity::Bytes(512).into()),
            ("mean", ns(45_800.0)),
            ("slope", ns(3.4)),
            ("change", ratio(0.038)),
            ("low", ratio(0.031)),
            ("high", ratio(0.045)),
        ];
        example("bench.size-effect", &values)
    };
    let clock = [
        ("hz", hz(3.67e9)),
        ("period", ns(0.2725)),
        ("half", ns(0.0002)),
        ("operations", n(9)),
        ("fitting", n(8)),
        ("residual", Quantity::Number(0.021).into()),
        ("chain", hz(3.66e9)),
        ("reported", hz(2.6e9)),
    ];
    let more = [("spoilt", vec!["fdiv"].into()), ("counter", hz(3.67e9)), ("slow_hz", hz(2.6e9))];
    let single = |operations: u64| {
        let values = [
            ("probe", text("ctx.yield")),
            ("operations", n(operations)),
            ("asked", n(2_000_000)),
            ("min", ns(2_100.0)),
            ("mean", ns(2_800.0)),
            ("sd", ns(310.0)),
            ("max", ns(41_000.0)),
            ("jitter", ns(38_900.0)),
            ("clock", ns(52.0)),
        ];
        example("bench.each", &values)
    };
    let all = vec![
        with("bench.impossible", &[]),
        with("bench.impossible", &[("cycles", Quantity::Number(0.22).into())]),
        example(
            "bench.contradiction",
            &[("whole", text("process.fork-exec")), ("part", text("process.fork-exit"))],
        ),
        modes("processes"),
        modes("batches"),
        with("bench.drift", &[("change", ratio(0.034))]),
        with("bench.drift", &[("change", ratio(-0.034))]),
        with("bench.steal", &[("share", ratio(0.012))]),
        with("bench.frequency", &[("low", hz(8e8)), ("high", hz(3.2e9))]),
        with("bench.below-resolution", &[]),
        example("bench.traced", &[("buffers", vec!["latlab-7"].into())]),
        example("bench.shared", &[("share", ratio(0.3)), ("cpu", Quantity::Cpu(1).into())]),
        with(
            "bench.not-alone",
            &[("between", n(36)), ("switches", n(40)), ("threads", vec!["idle"].into())],
        ),
        example(
            "bench.switch-methods",
            &[("low", ns(800.0)), ("high", ns(2_100.0)), ("methods", n(5))],
        ),
        example("bench.disturbed", &[("share", ratio(0.5))]),
        example("bench.two-states", &[("slower", ratio(0.2)), ("share", ratio(0.02))]),
        example("bench.unsure", &[("missed", n(3)), ("results", n(40)), ("target", ratio(0.01))]),
        example("bench.wrong-switches", &[("batches", n(11))]),
        size_effect("none"),
        size_effect("slope"),
        size_effect("open"),
        example(
            "bench.cut-short",
            &[
                ("benchmark", text("ipc.tcp:host=board,size=1")),
                ("processes", n(7)),
                ("reason", text("probe.peer-lost")),
                ("address", text("192.0.2.7:27380")),
                ("error", text("it was closed")),
            ],
        ),
        example("bench.clock-period", &clock),
        example("bench.clock-period", &[&clock[..], &more].concat()),
        example("bench.clock-undecided", &[("operations", n(9)), ("clocks", Value::List(vec![]))]),
        example(
            "bench.clock-undecided",
            &[("operations", n(3)), ("clocks", vec![Quantity::Hz(3.7e9)].into())],
        ),
        example(
            "bench.clock-undecided",
            &[
                ("operations", n(9)),
                ("clocks", vec![Quantity::Hz(1.7e9), Quantity::Hz(3.4e9)].into()),
            ],
        ),
        example(
            "bench.clock-differs",
            &[
                ("way", text("chain")),
                ("hz", hz(1.8e9)),
                ("divisor", hz(3.6e9)),
                ("ratio", Quantity::Number(2.0).into()),
            ],
        ),
        single(2_000_000),
        single(1_200_000),
    ];
    with_fixed(MESSAGES, all)
}
