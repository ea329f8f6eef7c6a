//! Wording: caches and TLBs.

use super::args::{Args, bytes};
use super::message::{Message, Text, fixed, message};
use latlab_model::cache::reported::{Agreement, Quantity};
use latlab_model::cache::{AccessPattern, Stage};

/// One wording for each identifier.
pub(super) const MESSAGES: &[Message] = &[
    fixed!("memory.cannot-tell", "Caches are not determined on this processor"),
    Message { id: "memory.level", text: level },
    Message {
        id: "memory.line",
        text: |a| {
            Text::claim(format!("Line: {}{}", a.get("line"), reported(a, a.find("reported"))))
        },
    },
    Message {
        id: "memory.tlb",
        text: |a| {
            Text::claim(format!(
                "Data TLB {}: {} entries for base pages; a miss costs {}{}",
                a.get("level"),
                a.get("entries"),
                a.get("miss"),
                reported(a, a.find("reported"))
            ))
        },
    },
    Message {
        id: "memory.latency",
        text: |a| Text::claim(format!("Memory latency: {}", a.get("latency"))),
    },
    Message {
        id: "memory.regimes",
        text: |a| {
            Text::claim(format!(
                "In the largest array the latency rises with the stride up to {}, the line; a miss of all caches costs {}",
                a.get("line"),
                a.get("miss")
            ))
            .why("T0 + D·s/b below a line, T0 + D from a line on (Saavedra and Smith, 1995), fitted to this array alone: D is of all caches together, T0 the intercept at stride 0")
        },
    },
    Message { id: "memory.cache-on", text: cache_on },
    Message {
        id: "memory.level-off",
        text: |a| {
            Text::claim(format!(
                "L{}: {} are reported, and arrays of {} to {} take as long as memory ({})",
                a.get("level"),
                a.get("reported"),
                a.get("from"),
                a.get("to"),
                a.get("memory")
            ))
            .why("The cache is switched off, or others use all of it")
        },
    },
    Message { id: "memory.shared", text: shared },
    Message {
        id: "memory.prefetch",
        text: |a| {
            Text::claim(format!(
                "Sequential loads take {} instead of {}: prefetchers hide the memory latency",
                a.get("sequential"),
                a.get("memory")
            ))
        },
    },
    Message {
        id: "memory.loops",
        text: |a| {
            Text::claim(format!(
                "Loops whose operations depend on one another take {} to {} of what operations and misses add up to, others {} to {}",
                a.get("dependent_least"),
                a.get("dependent_most"),
                a.get("others_least"),
                a.get("others_most")
            ))
            .why("Σ C·P + Σ F·D (Saavedra and Smith, 1995) has no overlap: less than 1 where operations or misses overlap")
        },
    },
    Message {
        id: "memory.switch-knee",
        text: |a| {
            Text::claim(format!(
                "Context switches: a KiB of the working set costs {} up to {} in all working sets, {} from {} on",
                a.get("before"),
                a.get("up_to"),
                a.get("after"),
                a.get("from")
            ))
            .why("Processes × working set exceed a cache, and each process misses its lines")
        },
    },
    fixed!("memory.limited", "The result is limited"),
    Message {
        id: "cache.emulated",
        text: |_| {
            Text::claim(
                "the processor is emulated (QEMU without KVM): it has no caches of its own, the curves show those of its host",
            )
        },
    },
    Message {
        id: "cache.flat",
        text: |a| {
            Text::claim(format!(
                "the latency is the same at all sizes up to {}: no cache is distinguished from memory",
                a.get("up_to")
            ))
        },
    },
    Message {
        id: "cache.entries-in-use",
        text: |a| {
            Text::claim(format!(
                "{} pages fit; pages of other programs and of the kernel use some of the entries",
                a.get("fit")
            ))
        },
    },
    fixed!(
        "cache.not-fitted",
        "the latency differs between sizes, and no models of caches fit the curve: no size is reported"
    ),
    Message {
        id: "cache.still-rising",
        text: |_| {
            Text::claim(
                "the latency still rises at the largest array: memory and the last level need a larger one (-s)",
            )
        },
    },
    Message {
        id: "cache.splintered",
        text: |_| {
            Text::claim(
                "huge pages are splintered by the hypervisor: base pages are used, whose physical placement is random",
            )
        },
    },
    fixed!("cache.interference", "interference detected: minimum of repeated measurements used"),
    fixed!("cache.incomplete", "the time limit was reached before everything was measured (-D)"),
    Message {
        id: "cache.curve-only",
        text: |_| {
            Text::claim(
                "associativity and TLBs need measurements that a curve over sizes does not have",
            )
        },
    },
    fixed!("cache.several-sizes", "several sizes fit the knee about as well"),
    Message {
        id: "cache.no-model",
        text: |_| {
            Text::claim("no miss-ratio model explains the knee; the interval holds all of it")
        },
    },
    fixed!(
        "cache.no-plateau",
        "the curve has no plateau of this level; a model of the knee has it"
    ),
    fixed!("cache.line-not-seen", "a pair of loads costs the same in one line and in two"),
    Message {
        id: "cache.adjacent-line-prefetch",
        text: |_| {
            Text::claim(
                "some distances cost neither one miss nor two: adjacent lines are prefetched",
            )
        },
    },
    fixed!("cache.gradual-knee", "the knee is gradual"),
    message("cache.cpu-lost", |a| {
        Text::claim(format!(
            "{} was taken from the measurement: it went offline, or another program changed the affinity",
            a.get("cpu")
        ))
    }),
    fixed!("cache.no-huge-pages", "there are no huge pages"),
    fixed!("cache.out-of-area", "an array exceeded its area of memory"),
    message("cache.less-memory", |a| {
        Text::claim(format!(
            "{} of {} for arrays were available: larger caches are not measured",
            a.get("available"),
            a.get("wanted")
        ))
    }),
    message("cache.fewer-huge-pages", |a| {
        Text::claim(format!(
            "{} of {} in huge pages of {} were available",
            a.get("available"),
            a.get("wanted"),
            a.get("page")
        ))
    }),
    message("cache.clock-changed", |a| {
        Text::claim(format!(
            "the same arithmetic took up to {} longer at times (the frequency changed, or another program used the core): not all times are of one frequency",
            a.get("longer")
        ))
    }),
    message("cache.limited-size", |a| {
        Text::claim(format!(
            "arrays may use {} of the available memory, less than {} (-s)",
            a.get("allowed"),
            a.get("wanted")
        ))
    }),
    message("cache.not-measured", |a| {
        let what = match a.text("what") {
            "strides" => "latency over strides",
            "stores" => "loads with stores",
            "all-cpus" => "all CPUs at once",
            "loops" => "times of loops",
            "bandwidth" => "bandwidth",
            other => other,
        };
        Text::claim(format!("not measured: {what} ({})", a.get("error")))
    }),
    fixed!(
        "cache.no-switch-knee",
        "no knee was found in the cost of a working set over processes × working set: there is none in these sizes, or noise hides it"
    ),
    message("cache.too-few-switch-points", |a| {
        Text::claim(format!(
            "too few points for a knee of the cost of a working set: {} of at least {}; measure more numbers of processes (--procs)",
            a.get("points"),
            a.get("needed")
        ))
    }),
    fixed!("remedy.measure-on-hardware", "measure on the processor itself"),
    Message {
        id: "remedy.idle-and-huge-pages",
        text: |_| {
            Text::claim(
                "the plateau ends well before the reported size: others use this cache, or physical pages collide in it; compare on an idle machine and with huge pages",
            )
        },
    },
];

fn level(a: &Args<'_>) -> Text {
    let ways = |name: &str| a.find(name).map(|w| format!("{w}-way"));
    let measured: Vec<String> = [Some(a.get("size")), ways("ways")].into_iter().flatten().collect();
    let by_source: Vec<String> =
        [a.find("reported_size"), ways("reported_ways")].into_iter().flatten().collect();
    let by_source = Some(by_source.join(", ")).filter(|w| !w.is_empty());
    Text::claim(format!(
        "L{}: {}, {} a load{}",
        a.get("level"),
        measured.join(", "),
        a.get("latency"),
        reported(a, by_source)
    ))
}

fn reported(a: &Args<'_>, value: Option<String>) -> String {
    match (a.text("agreement"), value) {
        ("agree", _) => "; reported the same".into(),
        ("within", Some(r)) => format!("; reported {r}, within the interval"),
        (_, Some(r)) => format!("; reported {r}"),
        (_, None) => "; not reported".into(),
    }
}

fn cache_on(a: &Args<'_>) -> Text {
    Text::claim(if a.is("on") {
        "The data cache is on"
    } else {
        "An element costs the same at any stride: the data cache seems to be off"
    })
    .why("Without a cache a loop over all elements takes 16 times as long as over every sixteenth")
}

fn shared(a: &Args<'_>) -> Text {
    Text::claim(if a.is("shared") {
        format!(
            "L{} is shared: half of an array of {} misses with one CPU, of {} each with {} CPUs",
            a.get("level"),
            a.get("alone"),
            a.get("together"),
            a.get("cpus")
        )
    } else {
        format!(
            "L{} holds at least three quarters as much for each of {} CPUs as for one alone",
            a.get("level"),
            a.get("cpus")
        )
    })
}

/// Labels of evidence that differ from the identifier with spaces.
pub(super) const LABELS: &[(&str, &str)] = &[
    ("T0", "intercept (T0)"),
    ("pair-of-loads", "distance and time of a pair of loads"),
    ("loads", "shortest and longest load in these arrays"),
];

/// Name of an access pattern.
pub fn pattern(access: AccessPattern) -> &'static str {
    match access {
        AccessPattern::PageLocal => "eight pages at a time",
        AccessPattern::PageRandom => "another page each time",
        AccessPattern::Random => "random",
        AccessPattern::Sequential => "sequential",
        AccessPattern::LinePerPage => "one line per page",
        AccessPattern::Dense => "adjacent lines",
    }
}

/// Name of a stage of the measurement, for progress.
pub fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Splintering => "huge pages",
        Stage::Coarse | Stage::CoarseLine => "latency by size",
        Stage::Line => "line size",
        Stage::Associativity => "associativity",
        Stage::Translation => "TLBs",
        Stage::Knees => "knees",
        Stage::Again => "repetition",
        Stage::Parallelism => "memory-level parallelism",
        Stage::Regimes => "regimes by size and stride",
        Stage::Compared => "other access patterns",
    }
}

/// Name of a measured and reported quantity.
pub fn cache_quantity(q: Quantity) -> String {
    match q {
        Quantity::Size(level) => format!("L{level} size"),
        Quantity::Ways(level) => format!("L{level} ways"),
        Quantity::Line => "line".into(),
        Quantity::TlbEntries(level) => format!("data TLB {level} entries"),
    }
}

/// A value of such a quantity.
pub fn cache_value(q: Quantity, v: u64) -> String {
    match q {
        Quantity::Size(_) | Quantity::Line => bytes(v),
        Quantity::Ways(_) | Quantity::TlbEntries(_) => v.to_string(),
    }
}

/// How measured and reported values agree.
pub fn agreement(a: Agreement) -> &'static str {
    match a {
        Agreement::Agree => "agree",
        Agreement::Within => "within the interval",
        Agreement::Differ => "differ",
        Agreement::NotReported => "not reported",
        Agreement::NotMeasured => "not measured",
    }
}

/// Examples of every identifier, for the snapshots.
#[cfg(test)]
pub(super) fn examples() -> Vec<latlab_model::finding::Statement> {
    use super::examples::{example as s, with_fixed};
    use latlab_model::finding::Quantity::{Bytes, Count, Cpu, Ns, Number, Ratio};
    use latlab_model::finding::Value;
    let l2 = |agreement: &str, reported: bool| {
        let mut values: Vec<(&str, Value)> = vec![
            ("level", Count(2).into()),
            ("size", Bytes(768 << 10).into()),
            ("ways", Count(8).into()),
            ("latency", Ns(3.7).into()),
            ("agreement", agreement.into()),
        ];
        if reported {
            values.push(("reported_size", Bytes(1 << 20).into()));
            values.push(("reported_ways", Count(8).into()));
        }
        s("memory.level", &values)
    };
    let mut all = vec![
        s(
            "cache.too-few-switch-points",
            &[("points", Count(3).into()), ("needed", Count(6).into())],
        ),
        s("memory.cannot-tell", &[]),
        l2("within", true),
        l2("agree", true),
        l2("differ", true),
        l2("not-reported", false),
        s(
            "memory.line",
            &[
                ("line", Bytes(64).into()),
                ("agreement", "agree".into()),
                ("reported", Bytes(64).into()),
            ],
        ),
        s(
            "memory.tlb",
            &[
                ("level", Count(1).into()),
                ("entries", Count(96).into()),
                ("miss", Ns(2.1).into()),
                ("agreement", "not-reported".into()),
            ],
        ),
        s("memory.latency", &[("latency", Ns(104.0).into())]),
        s("memory.regimes", &[("line", Bytes(64).into()), ("miss", Ns(92.0).into())]),
        s("memory.cache-on", &[("on", true.into())]),
        s("memory.cache-on", &[("on", false.into())]),
        s(
            "memory.level-off",
            &[
                ("level", Count(2).into()),
                ("reported", Bytes(2 << 20).into()),
                ("from", Bytes(128 << 10).into()),
                ("to", Bytes(1 << 20).into()),
                ("memory", Ns(120.0).into()),
            ],
        ),
        s("memory.prefetch", &[("sequential", Ns(4.0).into()), ("memory", Ns(104.0).into())]),
        s(
            "memory.loops",
            &[
                ("dependent_least", Number(0.97).into()),
                ("dependent_most", Number(1.06).into()),
                ("others_least", Number(0.12).into()),
                ("others_most", Number(0.8).into()),
            ],
        ),
        s(
            "memory.switch-knee",
            &[
                ("before", Ns(12.0).into()),
                ("up_to", Bytes(32 << 10).into()),
                ("after", Ns(60.0).into()),
                ("from", Bytes(48 << 10).into()),
            ],
        ),
        s("cache.flat", &[("up_to", Bytes(64 << 20).into())]),
        s("cache.entries-in-use", &[("fit", Count(62).into())]),
        s("cache.not-fitted", &[]),
        s("cache.cpu-lost", &[("cpu", Cpu(1).into())]),
        s(
            "cache.less-memory",
            &[("wanted", Bytes(256 << 20).into()), ("available", Bytes(64 << 20).into())],
        ),
        s(
            "cache.fewer-huge-pages",
            &[
                ("wanted", Bytes(256 << 20).into()),
                ("page", Bytes(2 << 20).into()),
                ("available", Bytes(0).into()),
            ],
        ),
        s("cache.clock-changed", &[("longer", Ratio(0.25).into())]),
        s(
            "cache.limited-size",
            &[("wanted", Bytes(4 << 30).into()), ("allowed", Bytes(1 << 30).into())],
        ),
    ];
    for what in ["strides", "stores", "all-cpus", "bandwidth"] {
        let error = "Cannot allocate memory (os error 12)".into();
        all.push(s("cache.not-measured", &[("what", what.into()), ("error", error)]));
    }
    for shared in [true, false] {
        all.push(s(
            "memory.shared",
            &[
                ("level", Count(3).into()),
                ("alone", Bytes(24 << 20).into()),
                ("together", Bytes(12 << 20).into()),
                ("cpus", Count(2).into()),
                ("shared", shared.into()),
            ],
        ));
    }
    with_fixed(MESSAGES, all)
}
