//! The experiments of the menu as data: a command, and its parameters with their defaults.

/// How a parameter is given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind this option; left out where the value is empty.
    Option(&'static str),
    /// Behind this option, once for each word of the value.
    Each(&'static str),
    /// Each word of the value by itself.
    Words,
    /// The option alone, where the value is `yes`.
    Flag(&'static str),
}

/// What a parameter is before it is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// This text.
    Text(&'static str),
    /// The newest run below `runs`.
    NewestRun,
    /// The two newest runs of one kind, the older one first.
    #[cfg(feature = "host")]
    TwoNewestRuns,
    /// `trace.dat` of this directory, or the newest capture of a run.
    NewestTrace,
    /// Nothing, and the experiment needs something.
    Needed,
}

/// One parameter of an experiment.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "host"), expect(dead_code, reason = "boards have a list"))]
pub struct Parameter {
    /// Name beside the field.
    pub label: &'static str,
    /// Where it goes.
    pub place: Place,
    /// What it is at first.
    pub initial: Initial,
    /// Values to choose from; empty: any text.
    pub choices: &'static [&'static str],
    /// Value of a short measurement, where it differs from the initial one.
    pub brief: Option<&'static str>,
    /// One line on what it means.
    pub help: &'static str,
}

/// One line of the menu.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "host"), expect(dead_code, reason = "boards have a list"))]
pub struct Experiment {
    /// Heading that it stands below.
    pub group: &'static str,
    /// Name in the list.
    pub title: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// Words in front of the parameters, without `latlab`.
    pub command: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
}

const fn text(
    label: &'static str,
    place: Place,
    initial: &'static str,
    help: &'static str,
) -> Parameter {
    Parameter { label, place, initial: Initial::Text(initial), choices: &[], brief: None, help }
}

const fn choice(
    label: &'static str,
    place: Place,
    choices: &'static [&'static str],
    help: &'static str,
) -> Parameter {
    Parameter { label, place, initial: Initial::Text(choices[0]), choices, brief: None, help }
}

const fn flag(label: &'static str, option: &'static str, help: &'static str) -> Parameter {
    choice(label, Place::Flag(option), &["no", "yes"], help)
}

impl Parameter {
    /// The same, with the value of a short measurement.
    const fn brief(mut self, value: &'static str) -> Self {
        self.brief = Some(value);
        self
    }

    /// The same, beginning with `initial`.
    const fn initially(mut self, initial: Initial) -> Self {
        self.initial = initial;
        self
    }
}

const fn duration(initial: &'static str) -> Parameter {
    text("Duration", Place::Option("-D"), initial, "10s, 5m, 1h; a bare number is seconds")
        .brief("1s")
}

const CPU: Parameter =
    text("CPU", Place::Option("-a"), "", "CPU to measure on; empty: the command's default");
const INTERVAL: Parameter =
    text("Interval", Place::Option("-i"), "1000", "period of the measured task in µs");
const PRIORITY: Parameter =
    text("Priority", Place::Option("-p"), "80", "real-time priority of the measured task, 1 to 99");
const LOAD: Parameter =
    text("Load", Place::Each("--load"), "", "loads during the measurement: 4*cpu vm:64M io hdd");
const FILE: Parameter = text("Trace", Place::Words, "", "a trace.dat, or ftrace's text")
    .initially(Initial::NewestTrace);

const TASK: Parameter =
    text("Task", Place::Option("--task"), "", "name, process, thread or control group")
        .initially(Initial::Needed)
        .brief("control-loop");
#[cfg(feature = "host")]
const MACHINE: Parameter =
    text("Machine", Place::Words, "armv7-rt", "see `latlab vm list`; options behind commas");
#[cfg(feature = "host")]
const WAKEUPS: Parameter =
    text("Wake-ups", Place::Option("-l"), "200", "of a task with a period of 1 ms").brief("20");

/// The experiments, in the order of the menu.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        group: "Overview",
        title: "Survey",
        question: "Every kind of measurement in one report.",
        command: "survey",
        parameters: &[
            choice("Quick", Place::Flag("--quick"), &["yes", "no"], "yes: about a minute; no: six"),
            text(
                "Steps",
                Place::Each("--step"),
                "",
                "some steps only: doctor bench memory wakeup …",
            )
            .brief("timer"),
        ],
    },
    Experiment {
        group: "Overview",
        title: "Doctor",
        question: "Can this machine measure and trace, and which problems does it have?",
        command: "doctor",
        parameters: &[],
    },
    Experiment {
        group: "Latency",
        title: "Wake-up latency",
        question: "How late does a periodic real-time task wake up?",
        command: "wakeup",
        parameters: &[
            duration("10s"),
            INTERVAL,
            PRIORITY,
            text("Threads", Place::Option("-t"), "1", "measured threads"),
            CPU,
            LOAD,
            text("Limit", Place::Option("-b"), "", "stop at a latency above this, in µs"),
        ],
    },
    Experiment {
        group: "Latency",
        title: "Wake-up mechanisms",
        question: "Which way of waking a task is late: timers, futex, pipe, signal, message queue?",
        command: "wakeup",
        parameters: &[
            text(
                "Mechanisms",
                Place::Option("--by"),
                "timerfd,futex,pipe,signal",
                "comma-separated; `latlab wakeup --help` has all",
            ),
            duration("10s").brief("2s"),
            INTERVAL,
            PRIORITY,
        ],
    },
    Experiment {
        group: "Latency",
        title: "Causes of late wake-ups",
        question: "What makes a periodic real-time task late?",
        command: "why",
        parameters: &[
            duration("30s").brief("2s"),
            text("Limit", Place::Option("--limit"), "", "late above this: 100us; empty: proposed"),
            INTERVAL,
            LOAD,
            flag("Mitigation test", "--test-mitigation", "measure with and without the cause"),
        ],
    },
    Experiment {
        group: "Latency",
        title: "Causes in a program",
        question: "What makes a running program late?",
        command: "why",
        parameters: &[
            TASK,
            text("Deadline", Place::Option("--deadline"), "", "late above this: 1ms"),
            duration("30s").brief("2s"),
        ],
    },
    #[cfg(feature = "host")]
    Experiment {
        group: "Latency",
        title: "Watch a program",
        question: "How late is a running program over a long time? Captures of the worst activations.",
        command: "watch",
        parameters: &[
            Parameter { place: Place::Words, ..TASK },
            text("Deadline", Place::Option("--deadline"), "", "late above this; empty: the period"),
            text("Folder", Place::Option("--dir"), "watch", "of counts and captures"),
            duration("1h").brief("2s"),
        ],
    },
    Experiment {
        group: "Latency",
        title: "Latency by load",
        question: "Which load, of which size, increases latency, and where is the knee?",
        command: "sweep",
        parameters: &[
            choice(
                "Plan",
                Place::Words,
                &["memory", "cache", "everything"],
                "predefined grid of loads",
            ),
            choice(
                "Quick",
                Place::Flag("--quick"),
                &["yes", "no"],
                "yes: fewer and shorter points",
            ),
            text("Time in all", Place::Option("--budget"), "10m", "then stop; --resume goes on")
                .brief("4s"),
            INTERVAL,
        ],
    },
    Experiment {
        group: "Latency",
        title: "Latency by period",
        question: "How late are tasks of several periods, idle and under load, and how many periods are missed?",
        command: "sweep period",
        parameters: &[
            text("Periods", Place::Option("-i"), "300,500,1000", "in µs"),
            text("Time of a point", Place::Option("-D"), "10s", "of each period and load")
                .brief("200ms"),
        ],
    },
    Experiment {
        group: "Latency",
        title: "OS noise",
        question: "What interrupts a busy loop, for how long, and from which source?",
        command: "noise",
        parameters: &[
            duration("10s"),
            text("CPUs", Place::Option("-c"), "", "1,3-5; empty: all that are permitted"),
            LOAD,
        ],
    },
    #[cfg(feature = "host")]
    Experiment {
        group: "Latency",
        title: "Requirements",
        question: "Does this machine meet the requirements of a file or a profile?",
        command: "check",
        parameters: &[
            text(
                "Requirements",
                Place::Words,
                "@motor-1khz",
                "a file, or @NAME of `latlab check --list`",
            )
            .brief("brief.req"),
            text("Runs", Place::Words, "", "results to check; empty: measure now"),
        ],
    },
    #[cfg(feature = "host")]
    Experiment {
        group: "Latency",
        title: "Settings that help",
        question: "Which settings of this machine shorten wake-up latency?",
        command: "tune",
        parameters: &[
            text(
                "Settings",
                Place::Each("--try"),
                "",
                "NAME=VALUE of `latlab tune --list`; empty: all",
            )
            .brief("thp=never"),
            text("Rounds", Place::Option("--rounds"), "10", "blocks of each setting, 4 to 100")
                .brief("4"),
            text("Block", Place::Option("--block"), "1s", "length of a block").brief("100ms"),
            LOAD,
        ],
    },
    Experiment {
        group: "Costs",
        title: "Kernel operations",
        question: "What do system calls, switches, messages and processes cost?",
        command: "bench",
        parameters: &[
            text(
                "Probes",
                Place::Words,
                "syscall ctx ipc",
                "families or probes: process fs bw arith …",
            )
            .brief("syscall.getppid"),
            text("At most", Place::Option("-D"), "1m", "stop after this time").brief("2s"),
            CPU,
            text(
                "Beside",
                Place::Each("--against"),
                "",
                "a published machine: @beaglebone-black-2015",
            ),
        ],
    },
    Experiment {
        group: "Costs",
        title: "Single operations",
        question: "How do single context switches scatter: minimum, mean, maximum, jitter?",
        command: "bench",
        parameters: &[
            text(
                "Probes",
                Place::Words,
                "ctx.yield ctx.pipe:class=fifo",
                "see `latlab bench --list`",
            )
            .brief("ctx.yield"),
            text("Operations", Place::Option("--each"), "100000", "of each probe").brief("2000"),
            CPU,
        ],
    },
    Experiment {
        group: "Costs",
        title: "Switches by working set",
        question: "What does a context switch cost when the caches must be refilled?",
        command: "memory",
        parameters: &[
            choice("Plan", Place::Option("--switch"), &["macro", "micro"], "macro: more processes"),
            text("Processes", Place::Option("--procs"), "", "2,4,8; empty: those of the plan")
                .brief("2,3"),
            text(
                "Working sets",
                Place::Option("--working-sets"),
                "",
                "0,2K,24K; empty: those of the plan",
            )
            .brief("0,2K"),
            choice(
                "Class",
                Place::Option("--class"),
                &["other", "fifo"],
                "fifo: no other process between switches",
            ),
            flag("Cold", "--cold", "drop the kernel's caches before each round"),
            text("At most", Place::Option("-D"), "2m", "stop after this time").brief("1s"),
        ],
    },
    Experiment {
        group: "Costs",
        title: "Caches and TLBs",
        question: "Which caches, line sizes, ways and TLBs exist, and what does a miss cost?",
        command: "memory",
        parameters: &[
            choice("Quick", Place::Flag("--quick"), &["no", "yes"], "yes: below ten seconds")
                .brief("yes"),
            text("Largest array", Place::Option("-s"), "", "MiB").brief("8"),
            CPU,
        ],
    },
    Experiment {
        group: "Scheduler",
        title: "Tasks on one CPU",
        question: "How do policy and priority share the CPU between tasks?",
        command: "sched",
        parameters: &[
            choice(
                "Work",
                Place::Option("--work"),
                &["cpu", "io", "io-direct", "mixed"],
                "of each task",
            ),
            choice(
                "Policy",
                Place::Option("--policy"),
                &["other", "rr", "fifo", "batch", "idle"],
                "other: fair",
            ),
            text("Priorities", Place::Option("-p"), "", "of rr and fifo: 90,90 or 90,45"),
            text("Tasks", Place::Option("-t"), "2", "number"),
            duration("5s"),
        ],
    },
    Experiment {
        group: "Scheduler",
        title: "Experiments of the study",
        question: "CPU- and IO-bound tasks under fair, RR and FIFO scheduling: as theory says?",
        command: "sched --matrix",
        parameters: &[
            text("Only", Place::Each("--only"), "", "names that contain this: cpu-rr io-fifo")
                .brief("cpu-rr-90-45"),
            duration("5s"),
        ],
    },
    Experiment {
        group: "Scheduler",
        title: "Timers and ticks",
        question: "When do timer interrupts come, and what do they run?",
        command: "timer",
        parameters: &[duration("10s")],
    },
    Experiment {
        group: "Traces",
        title: "Record",
        question: "What did the kernel do?",
        command: "record",
        parameters: &[
            text("Events", Place::Each("-e"), "sched irq timer", "systems or SYSTEM:EVENT"),
            duration("5s"),
            text("File", Place::Option("-o"), "trace.dat", "is replaced when recording begins"),
        ],
    },
    Experiment {
        group: "Traces",
        title: "Longest latency",
        question: "What ran in the longest latency of a kind?",
        command: "record",
        parameters: &[
            choice(
                "Tracer",
                Place::Option("-p"),
                &["wakeup_rt", "wakeup", "wakeup_dl", "irqsoff", "preemptoff", "preemptirqsoff"],
                "what is long: a wake-up, interrupts or preemption off",
            ),
            text("Longer than", Place::Option("--threshold"), "", "in µs; exit code 2 above"),
            duration("10s"),
            text("File", Place::Option("-o"), "longest.txt", "`latlab profile` reads it"),
        ],
    },
    Experiment {
        group: "Traces",
        title: "Events as text",
        question: "Every event of a trace; counted: how many of each?",
        command: "report",
        parameters: &[
            FILE,
            choice("Counts", Place::Flag("--stat"), &["yes", "no"], "no: every event"),
        ],
    },
    Experiment {
        group: "Traces",
        title: "Scheduling in a trace",
        question: "Run time, waits and their maximum for every task of a trace.",
        command: "sched",
        parameters: &[
            FILE,
            choice(
                "View",
                Place::Option("--view"),
                &["summary", "timehist", "map"],
                "tables or lines",
            ),
        ],
    },
    Experiment {
        group: "Traces",
        title: "Timers in a trace",
        question: "Which timers expired late, and what did they run?",
        command: "timer",
        parameters: &[FILE],
    },
    #[cfg(feature = "host")]
    Experiment {
        group: "Traces",
        title: "Functions in a trace",
        question: "Which functions take the time, by length of calls or by their number?",
        command: "profile",
        parameters: &[FILE.brief("functions.txt")],
    },
    #[cfg(feature = "view")]
    Experiment {
        group: "Traces",
        title: "Viewer",
        question: "The trace in the browser; Ctrl-C ends the server.",
        command: "view",
        parameters: &[
            FILE,
            text("Page", Place::Option("--export"), "", "write a page instead of showing it")
                .brief("page.html"),
        ],
    },
    #[cfg(feature = "host")]
    Experiment {
        group: "Virtual lab",
        title: "Path of a wake-up",
        question: "Which kernel functions does a wake-up run, with how many instructions?",
        command: "vm path",
        parameters: &[
            MACHINE,
            text("Against", Place::Option("--against"), "", "another machine, or a kernel's file"),
            WAKEUPS,
        ],
    },
    #[cfg(feature = "host")]
    Experiment {
        group: "Virtual lab",
        title: "Critical sections",
        question: "Which sections with interrupts or preemption off are the longest?",
        command: "vm sections",
        parameters: &[MACHINE, LOAD, WAKEUPS],
    },
    #[cfg(feature = "host")]
    Experiment {
        group: "Virtual lab",
        title: "Upper bound",
        question: "Which wake-up latency is not exceeded, by sections, interrupts and path?",
        command: "vm bound",
        parameters: &[MACHINE, LOAD, WAKEUPS],
    },
    #[cfg(feature = "host")]
    Experiment {
        group: "Virtual lab",
        title: "Worst wake-up",
        question: "At which times of faults and loads is a wake-up latest?",
        command: "worst",
        parameters: &[
            MACHINE,
            text(
                "Faults",
                Place::Each("--fault"),
                "irqs-off:us=30,every=1ms",
                "docs/reference/faults.md",
            ),
            LOAD,
            text("Wake-ups", Place::Option("-l"), "2000", "of the search").brief("100"),
        ],
    },
    Experiment {
        group: "Load",
        title: "Load alone",
        question: "Load for other programs to be measured under.",
        command: "load",
        parameters: &[
            text(
                "Loads",
                Place::Words,
                "cpu vm:64M",
                "4*cpu io hdd:256M tlb; `latlab load --list`",
            )
            .brief("cpu"),
            text("Duration", Place::Option("-t"), "10s", "10s, 5m, 1h").brief("1s"),
        ],
    },
    Experiment {
        group: "Results",
        title: "Show a run",
        question: "What was measured?",
        command: "report",
        parameters: &[
            text("Run", Place::Words, "", "directory of a run").initially(Initial::NewestRun),
            flag("Everything", "--details", "all tables, plots and findings"),
        ],
    },
    #[cfg(feature = "host")]
    Experiment {
        group: "Results",
        title: "Compare two runs",
        question: "Is B worse than A, also in the tail?",
        command: "compare",
        parameters: &[text("Runs", Place::Words, "", "directories: before after")
            .initially(Initial::TwoNewestRuns)],
    },
];
