//! Results of `latlab timer`. Times are ns; `*_at_ns` count from the trace's first event.

use crate::finding::Note;
use crate::sched::schedule::Durations;
use latlab_stats::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// How often something happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rate {
    /// What: an interrupt, a softirq.
    pub name: String,
    /// Whether it is the interrupt of a CPU's own timer.
    #[serde(default)]
    pub timer: bool,
    /// Per second, one a CPU.
    pub per_second: Vec<f64>,
    /// How often in all.
    pub count: u64,
}

/// A sample of all rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moment {
    /// From the beginning, ns.
    pub at_ns: u64,
    /// Timer interrupts per second, one a CPU.
    pub timer: Vec<f64>,
    /// All interrupts per second, one a CPU.
    pub all: Vec<f64>,
}

/// What a busy CPU's tick was measured to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusyTick {
    /// Which CPU.
    pub cpu: u32,
    /// Steps of CLOCK_MONOTONIC_COARSE that were seen.
    pub steps: u64,
    /// A low quantile of them, ns: the length of a tick.
    pub step_ns: u64,
    /// Timer interrupts of that CPU meanwhile, per second.
    pub interrupts: Option<f64>,
}

/// Whether and when ticks stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TickMode {
    /// The data do not decide.
    #[default]
    Unknown,
    /// Always, on every CPU (`nohz=off`, or CONFIG_HZ_PERIODIC).
    Periodic,
    /// They stop on a CPU that is idle.
    StopsWhenIdle,
    /// They stop on some CPUs that run a single task too (`nohz_full=`).
    StopsWhenBusy,
}

/// Rates from the kernel's counters over `length_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Live {
    /// For how long it was counted.
    pub length_ns: u64,
    /// CPUs of the columns.
    pub cpus: Vec<u32>,
    /// Interrupts that came.
    pub interrupts: Vec<Rate>,
    /// Softirqs that ran.
    pub softirqs: Vec<Rate>,
    /// Samples of the rates.
    pub moments: Vec<Moment>,
    /// Share of each CPU's time in which it was idle, where readable.
    pub idle: Vec<f64>,
    /// Ticks of busy CPUs.
    pub busy: Vec<BusyTick>,
    /// Length of a tick as the kernel states it (clock_getres of CLOCK_MONOTONIC_COARSE), ns.
    pub stated_tick_ns: Option<u64>,
    /// Jiffies per second, from `/proc/timer_list`.
    pub jiffies_hz: Option<f64>,
    /// Ticks a second, measured.
    pub hz: Option<u32>,
    /// `CONFIG_HZ`, where readable.
    pub config_hz: Option<u32>,
    /// What the configuration says of NO_HZ, where readable.
    pub config_nohz: Option<String>,
    /// `nohz=` and `nohz_full=` of the kernel's command line.
    pub cmdline: Vec<String>,
    /// Whether ticks stop, measured.
    pub mode: TickMode,
    /// The observation behind `mode` (`timer.*`).
    pub mode_why: Option<Note>,
    /// The ticks at the end, where `/proc/timer_list` can be read.
    pub ticks: Vec<Tick>,
    /// Interrupts with counters that do not belong to CPUs (`ERR`).
    pub errors: Vec<Line>,
    /// Limitations of the measurement (`timer.*`).
    pub notes: Vec<Note>,
}

/// A timer function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Of a high-resolution timer, or of the timer wheel.
    pub highres: bool,
    /// How long it ran, each time.
    pub cost: Durations,
    /// How late it was called: after the programmed time (high resolution), after the jiffy in
    /// which it was to expire (wheel, in whole ticks).
    pub late: Durations,
    /// Wheel: jiffies from its start to its call.
    pub waited_jiffies: Durations,
    /// In whose time it ran: tasks that it interrupted, most often first.
    pub interrupted: Vec<(String, u64)>,
    /// Who had set the timer, most often first.
    pub set_by: Vec<(String, u64)>,
}

/// A timer that comes again and again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Periodic {
    /// Its function.
    pub function: String,
    /// Its address, which identifies it.
    pub timer: u64,
    /// CPU of its last call.
    pub cpu: u32,
    /// How often it came.
    pub times: u64,
    /// Median distance, ns.
    pub period_ns: u64,
    /// Median deviation from that, ns.
    pub jitter_ns: u64,
    /// Largest deviation, ns.
    pub jitter_max_ns: u64,
}

/// A softirq.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Softirq {
    /// Its name.
    pub name: String,
    /// From the first raise to its entry.
    pub latency: Durations,
    /// Its length, interrupts in it included.
    pub cost: Durations,
}

/// An interrupt handler or vector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Handler {
    /// Its name.
    pub name: String,
    /// Interrupt number; none for a vector.
    pub irq: Option<i32>,
    /// Whether timers expired in it.
    pub timer: bool,
    /// Its length.
    pub cost: Durations,
    /// How often on which CPU.
    pub cpus: Vec<(u32, u64)>,
}

/// The moments of one timer's way; times from the trace's first event, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[expect(missing_docs, reason = "the names of the events")]
pub struct Chain {
    pub function: String,
    pub highres: bool,
    pub cpu: u32,
    /// The task that was interrupted.
    pub task: String,
    /// `timer_start`, `hrtimer_start`.
    pub start: Option<u64>,
    /// Jiffies that it was set for (expires − now), at its start.
    pub set_for_jiffies: Option<i64>,
    /// Entry of the interrupt.
    pub irq: Option<u64>,
    /// Its name.
    pub irq_name: String,
    pub raise: Option<u64>,
    pub irq_exit: Option<u64>,
    pub softirq: Option<u64>,
    pub expire: u64,
    pub expire_exit: u64,
    pub softirq_exit: Option<u64>,
    /// Behind the programmed time, ns (high resolution) or jiffies (wheel).
    pub late: Option<i64>,
}

/// From one step of the way to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// `interrupt → softirq_raise`.
    pub name: String,
    /// How long it took.
    pub spread: Durations,
}

/// What the tick costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TickCost {
    /// Which.
    pub cpu: u32,
    /// Ticks that were seen.
    pub ticks: u64,
    /// Time in timer interrupts, ns.
    pub interrupt_ns: u64,
    /// Of these, interrupts in which the tick ran.
    pub tick_ns: u64,
    /// Time in the softirqs TIMER and HRTIMER, ns.
    pub softirq_ns: u64,
    /// Share of the trace in timer interrupts and these softirqs.
    pub share: f64,
}

/// What a trace says of timers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TimerTrace {
    /// Where the events came from.
    pub source: String,
    /// Time stamp of the first event.
    pub first_ns: u64,
    /// To the last event, ns.
    pub length_ns: u64,
    /// Events that were looked at.
    pub events: u64,
    /// Jiffies per second, by the jiffies that timer events carry.
    pub jiffies_hz: Option<f64>,
    /// What the tick costs, CPU by CPU.
    pub ticks: Vec<TickCost>,
    /// Timer functions, largest total time first.
    pub functions: Vec<Function>,
    /// Timers that come again and again, most frequent first.
    pub periodic: Vec<Periodic>,
    /// Softirqs.
    pub softirqs: Vec<Softirq>,
    /// Interrupts.
    pub handlers: Vec<Handler>,
    /// From step to step, timer wheel.
    pub wheel_steps: Vec<Step>,
    /// From step to step, high resolution.
    pub highres_steps: Vec<Step>,
    /// Examples: typical ones, then the slowest.
    pub chains: Vec<Chain>,
    /// Attempts to stop the tick that succeeded, and those that did not, with what needed it.
    pub stopped: u64,
    /// See `stopped`.
    pub not_stopped: Vec<(String, u64)>,
    /// Distribution of the lateness of high-resolution timers.
    pub late: Option<Histogram>,
    /// Distribution of softirq TIMER's latency from raise to entry.
    pub softirq_latency: Option<Histogram>,
    /// Places where events were lost; what was open there is not counted.
    pub holes: u64,
    /// Limitations of the trace.
    pub notes: Vec<Note>,
}

/// What `latlab timer` found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TimerDetail {
    /// By the kernel's counters.
    pub live: Option<Live>,
    /// By a trace.
    pub trace: Option<TimerTrace>,
}

/// One line of counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Number or short name (`27`, `LOC`, `TIMER`).
    pub name: String,
    /// The rest of the line: controller, trigger, handlers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// Counts, one a CPU of the table's head.
    pub counts: Vec<u64>,
}

impl Line {
    /// Whether it is the interrupt of a CPU's own timer.
    pub fn is_timer(&self) -> bool {
        let what = self.what.to_ascii_lowercase();
        match self.name.as_str() {
            "LOC" => true,
            "TIMER" | "HRTIMER" => false,
            // Broadcasts are sent by another CPU's timer; `rtc` and watchdogs are no ticks.
            _ => {
                let timers = ["arch_timer", "timer", "clockevent", "twd", "mct_tick", "tick"];
                !what.contains("broadcast")
                    && what.split_whitespace().any(|w| timers.iter().any(|t| w.contains(t)))
                    && !what.contains("watchdog")
                    && !what.contains("hpet")
            }
        }
    }
    /// Name and description, as a table shows it.
    pub fn label(&self) -> String {
        if self.what.is_empty() {
            self.name.clone()
        } else {
            format!("{} {}", self.name, self.what)
        }
    }
}

/// A table of counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Table {
    /// CPUs of the columns.
    pub cpus: Vec<u32>,
    /// Lines in the kernel's order.
    pub lines: Vec<Line>,
}

/// What `/proc/timer_list` says of one CPU's tick.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tick {
    /// CPU.
    pub cpu: u32,
    /// Whether the tick can be stopped when idle (`nohz_mode`, `nohz`), where said.
    pub nohz: Option<bool>,
    /// Whether high-resolution timers are in use.
    pub highres: Option<bool>,
    /// Whether it is stopped now.
    pub stopped: Option<bool>,
    /// How often it was stopped when the CPU became idle.
    pub idle_sleeps: Option<u64>,
    /// Jiffies now.
    pub jiffies: Option<u64>,
    /// Functions of high-resolution timers that are pending.
    pub functions: Vec<String>,
}

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// When, ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// `/proc/interrupts`.
    pub interrupts: Table,
    /// `/proc/softirqs`.
    pub softirqs: Table,
    /// Idle time of CPUs, in seconds, by CPU.
    pub idle_s: Vec<(u32, f64)>,
    /// `/proc/timer_list`; empty where it cannot be read.
    pub ticks: Vec<Tick>,
}

/// Counters of one CPU that was kept busy.
#[derive(Clone, Debug, PartialEq)]
pub struct BusySample {
    /// The CPU.
    pub cpu: u32,
    /// Steps of the coarse clock that were seen.
    pub steps: u64,
    /// Length of a step, ns: a low quantile.
    pub step_ns: u64,
    /// Length of the sample, s.
    pub seconds: f64,
    /// `/proc/interrupts` at the beginning, where it can be read.
    pub before: Option<Table>,
    /// `/proc/interrupts` at the end.
    pub after: Option<Table>,
}
