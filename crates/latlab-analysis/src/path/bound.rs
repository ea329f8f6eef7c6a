//! An upper bound of the latency of the thread of highest priority, from the components that the plugin of `latlab vm
//! bound` measured (docs/reference/vm-bound.md).
//!
//! de Oliveira, Casini, de Oliveira, Cucinotta: Demystifying the Real-Time Linux Scheduling Latency, ECRTS 2020,
//! doi 10.4230/LIPIcs.ECRTS.2020.9, theorem 8: the least positive L with
//!
//! L = max(D_ST, D_POID) + D_PAIE + D_PSD + I(L)
//!
//! where I(L) is the most that interrupts take in any interval of length L: for each source the largest sum of
//! execution times whose arrivals lie in one window, the sum over the sources. Their alignment need not have been
//! observed. Two terms are added, so that L is what `wakeup.user` measures: the return to user space, and the steps
//! of the timer. The response time of a task is the same with its execution time and that of the tasks of higher
//! priority (Joseph, Pandya: Finding Response Times in a Real-Time System, The Computer Journal 29, 1986), each job
//! with a switch to it and one from it.

use super::format::{FormatError, hex, number};
use super::functions::Functions;
use latlab_model::path::{BoundComponent, BoundDetail, BoundInterrupt, BoundKind, TaskResponse};
use latlab_model::record::{Record, Unit};
use latlab_model::run::{Detail, Part};
use latlab_stats::histogram::Histogram;

/// Lines that are read.
const LINES_MAX: usize = 1 << 24;
/// Steps of the fixed point; each is longer than the one before.
const STEPS_MAX: usize = 10_000;
/// A bound that is longer than this, instructions, is none.
const LONGEST: u64 = 10_000_000_000;
/// From the intended time to the timer's interrupt, ns: the time that is programmed is rounded up to the counter's
/// steps of 16 ns, by a multiplication that is exact to 67 ns (docs/validation/worst.md).
const TIMER_NS: u64 = 83;

/// What turns preemption off to schedule. `schedule_preempt_disabled()` does not: it has it off before.
const SCHEDULER: [&str; 9] = [
    "schedule",
    "__schedule",
    "schedule_rtlock",
    "schedule_tail",
    "preempt_schedule",
    "preempt_schedule_common",
    "preempt_schedule_irq",
    "preempt_schedule_notrace",
    "schedule_user",
];
const TIMERS: [&str; 4] = [
    "arch_timer_handler_virt",
    "arch_timer_handler_phys",
    "hrtimer_interrupt",
    "tick_handle_periodic",
];

/// The longest interval of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Longest {
    kind: BoundKind,
    length: u64,
    count: u64,
    begins: u64,
    ends: u64,
}

/// An interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    start: u64,
    length: u64,
}

/// Interrupts of one source, in the order of time, in spans between which the CPU waited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Source {
    spans: Vec<Vec<Arrival>>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundFile {
    arch: String,
    instructions: u64,
    marks: u64,
    checks: u64,
    wrong: u64,
    longest: Vec<Longest>,
    timer: Source,
    other: Source,
}

/// A task of a set: execution time and period, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Execution time, ns.
    pub execution_ns: u64,
    /// Period, and deadline, ns.
    pub period_ns: u64,
}

/// A range of addresses: the first, and the first behind it.
pub type Range = (u64, u64);

/// Where a kernel has what the plugin must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerCode {
    /// What turns preemption off to schedule.
    pub scheduler: Vec<Range>,
    /// Where `__schedule` begins.
    pub schedule: u64,
    /// `schedule_idle`.
    pub idle: Range,
    /// Where the handlers of the timer's interrupt begin.
    pub timers: Vec<u64>,
}

/// The scheduler's code, by the text of `/proc/kallsyms`; `None` where `__schedule`, `schedule` or `schedule_idle` is
/// missing, or no address is shown.
pub fn scheduler_code(kallsyms: &[u8]) -> Option<SchedulerCode> {
    let mut all: Vec<(u64, &str)> = std::str::from_utf8(kallsyms)
        .ok()?
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?;
            let is_module = words.next().is_some();
            (is_code && address > 0 && !is_module && !name.starts_with('$'))
                .then_some((address, name))
        })
        .collect();
    all.sort_unstable();
    let end = |address| all.get(all.partition_point(|s| s.0 <= address)).map(|s| s.0);
    // The compiler's copies (`.isra.0`, `.part.0`) and what it moved away (`.cold`) are of the function.
    let of = |wanted: &str| -> Vec<Range> {
        let named = all.iter().filter(|s| s.1.split('.').next() == Some(wanted));
        named.filter_map(|s| Some((s.0, end(s.0)?))).collect()
    };
    let entry = |name: &str| all.iter().find(|s| s.1 == name).map(|s| s.0);
    entry("schedule")?;
    Some(SchedulerCode {
        scheduler: SCHEDULER.iter().flat_map(|name| of(name)).collect(),
        schedule: entry("__schedule")?,
        idle: *of("schedule_idle").first()?,
        timers: TIMERS.iter().filter_map(|name| entry(name)).collect(),
    })
}

/// Reads a file.
///
/// # Errors
/// When a line is not understood, or there are fewer than two wake-ups.
pub fn read(text: &str) -> Result<BoundFile, FormatError> {
    let mut file = BoundFile::default();
    // Behind the last mark is what the measurement does not cover, and where the writer was ended.
    let end = text.rfind("\nM ").map_or(0, |at| at + 1);
    let last = text[end..].find('\n').map_or(end, |length| end + length);
    for (n, line) in text[..last].lines().enumerate() {
        let at = |reason| FormatError { line: n + 1, reason };
        if n == 0 {
            let arch = line.strip_prefix("latlab-bound 1 ");
            file.arch = arch.ok_or_else(|| at("not a file of a bound of version 1"))?.to_owned();
        } else if n > LINES_MAX {
            return Err(at("too many lines"));
        } else {
            file.line(line).map_err(at)?;
        }
    }
    if file.marks > 1 {
        return Ok(file);
    }
    let line = text.lines().count();
    Err(FormatError { line, reason: "fewer than two wake-ups were counted" })
}

impl BoundFile {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["M", instructions, marks, _, checks, wrong] => {
                self.instructions = number(instructions)?;
                self.marks = number(marks)?;
                (self.checks, self.wrong) = (number(checks)?, number(wrong)?);
            }
            ["D", kind, length, count, begins, ends] => {
                let longest = Longest {
                    kind: kind_of(kind)?,
                    length: number(length)?,
                    count: number(count)?,
                    begins: hex(begins)?,
                    ends: hex(ends)?,
                };
                // A later line replaces an earlier one.
                match self.longest.iter_mut().find(|l| l.kind == longest.kind) {
                    Some(earlier) => *earlier = longest,
                    None => self.longest.push(longest),
                }
            }
            ["I", source, start, length] => {
                let arrival = Arrival { start: number(start)?, length: number(length)? };
                let source = match *source {
                    "t" => &mut self.timer,
                    "o" => &mut self.other,
                    _ => return Err("neither the timer nor another source"),
                };
                source.push(arrival)?;
            }
            ["W"] => [&mut self.timer, &mut self.other].into_iter().for_each(Source::wait),
            _ => return Err("a line of an unknown kind"),
        }
        Ok(())
    }

    fn of(&self, kind: BoundKind) -> u64 {
        self.longest.iter().filter(|l| l.kind == kind).map(|l| l.length).max().unwrap_or(0)
    }
}

fn kind_of(letter: &str) -> Result<BoundKind, &'static str> {
    Ok(match letter {
        "p" => BoundKind::Postponed,
        "t" => BoundKind::Switch,
        "a" => BoundKind::Pending,
        "s" => BoundKind::Scheduler,
        "o" => BoundKind::ReturnToUser,
        _ => return Err("no kind of interval"),
    })
}

impl Source {
    fn push(&mut self, arrival: Arrival) -> Result<(), &'static str> {
        let span = match self.spans.last_mut() {
            Some(span) => span,
            None => self.spans.push_mut(Vec::new()),
        };
        let earlier =
            span.last().is_none_or(|last| last.start.saturating_add(last.length) <= arrival.start);
        if !earlier || arrival.start.checked_add(arrival.length).is_none() {
            return Err("an interrupt before the end of the one before");
        }
        span.push(arrival);
        Ok(())
    }

    /// The CPU waited: an interrupt before and one after delay nobody together.
    fn wait(&mut self) {
        if self.spans.last().is_some_and(|span| !span.is_empty()) {
            self.spans.push(Vec::new());
        }
    }

    fn arrivals(&self) -> impl Iterator<Item = &Arrival> {
        self.spans.iter().flatten()
    }

    /// Most instructions of interrupts in any window of a length, which begins within the first one.
    fn most_in(&self, window: u64) -> u64 {
        self.spans.iter().map(|span| most_in(span, window)).max().unwrap_or(0)
    }
}

fn most_in(span: &[Arrival], window: u64) -> u64 {
    let (mut first, mut sum, mut most) = (0, 0u64, 0);
    for arrival in span {
        sum += arrival.length;
        while arrival.start.saturating_sub(span[first].start + span[first].length) > window {
            sum -= span[first].length;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

/// A sum that stays at the largest number.
fn sum(all: impl IntoIterator<Item = u64>) -> u64 {
    all.into_iter().fold(0, u64::saturating_add)
}

/// The least fixed point of `own + grows(L)` from `own`; `None` above [`LONGEST`].
fn fixed_point(own: u64, grows: impl Fn(u64) -> u64) -> Option<u64> {
    let mut length = own;
    for _ in 0..STEPS_MAX {
        if length > LONGEST {
            return None;
        }
        let next = own.saturating_add(grows(length));
        if next == length {
            return Some(length);
        }
        length = next;
    }
    None
}

/// What is measured beside the components.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured<'a> {
    /// As the user named it.
    pub machine: &'a str,
    /// Release of its kernel.
    pub release: &'a str,
    /// Virtual time of one instruction, ns.
    pub insn_ns: u64,
    /// Wake-ups whose latency was measured: those of a warm-up only have marks.
    pub wakeups: u64,
    /// Largest latency of these wake-ups, ns.
    pub observed_ns: u64,
    /// The guest's `/proc/kallsyms`.
    pub kallsyms: &'a [u8],
}

/// The bound and its components.
pub fn detail(file: &BoundFile, measured: &Measured<'_>, tasks: &[Task]) -> BoundDetail {
    let mut functions = Functions::new(&file.arch, measured.kallsyms);
    let insn_ns = measured.insn_ns.max(1);
    let timer = TIMER_NS.div_ceil(insn_ns);
    let mut name = |address: u64| {
        let function = (address > 0).then(|| functions.at(address).function);
        function.map_or_else(String::new, |f| functions.name(f).to_owned())
    };
    let mut components: Vec<BoundComponent> = (file.longest.iter())
        .map(|l| BoundComponent {
            kind: l.kind,
            longest: l.length,
            count: l.count,
            begins: name(l.begins),
            ends: name(l.ends),
        })
        .collect();
    components.push(BoundComponent {
        kind: BoundKind::Timer,
        longest: timer,
        ..Default::default()
    });
    components.sort_by_key(|c| c.kind);
    let sources = [("timer", &file.timer), ("other", &file.other)];
    let interrupts = |window: u64| sum(sources.iter().map(|(_, s)| s.most_in(window)));
    let scheduler = file.of(BoundKind::Scheduler);
    let own = sum([
        file.of(BoundKind::Switch).max(file.of(BoundKind::Postponed)),
        file.of(BoundKind::Pending),
        scheduler,
        file.of(BoundKind::ReturnToUser),
        timer,
    ]);
    let bound = fixed_point(own, interrupts);
    let responses = (0..tasks.len()).map(|i| {
        let (own_ns, higher) = (tasks[i], &tasks[..i]);
        let in_insns = |ns: u64| ns.div_ceil(insn_ns);
        let grows = |length: u64| {
            let jobs = higher.iter().map(|t| {
                let each = sum([in_insns(t.execution_ns), scheduler, scheduler]);
                length.div_ceil(in_insns(t.period_ns).max(1)).saturating_mul(each)
            });
            jobs.fold(interrupts(length), u64::saturating_add)
        };
        let response = fixed_point(own.saturating_add(in_insns(own_ns.execution_ns)), grows);
        let response = response.and_then(|r| r.checked_mul(insn_ns));
        TaskResponse {
            execution_ns: own_ns.execution_ns,
            period_ns: own_ns.period_ns,
            response_ns: response.filter(|r| *r <= own_ns.period_ns),
        }
    });
    BoundDetail {
        machine: measured.machine.into(),
        release: measured.release.into(),
        insn_ns,
        wakeups: measured.wakeups,
        instructions: file.instructions,
        user_checks: file.checks,
        user_wrong: file.wrong,
        components,
        interrupts: sources
            .iter()
            .map(|(name, source)| BoundInterrupt {
                source: (*name).into(),
                count: source.arrivals().count() as u64,
                longest: source.arrivals().map(|a| a.length).max().unwrap_or(0),
                in_bound: bound.map_or(0, |bound| source.most_in(bound)),
            })
            .collect(),
        bound,
        observed_ns: measured.observed_ns,
        tasks: responses.collect(),
    }
}

/// The part of a run.
pub fn part(detail: BoundDetail) -> Part {
    let record = detail.bound.and_then(|b| b.checked_mul(detail.insn_ns)).map(|ns| {
        let histogram = Histogram::of([ns]);
        Record {
            name: "bound.user".into(),
            unit: Unit::Ns,
            summary: histogram.summary(),
            ..Record::default()
        }
    });
    Part {
        name: "bound".into(),
        title: "Bound of the wake-up latency".into(),
        complete: true,
        results: record.into_iter().collect(),
        detail: Some(Detail::Bound(Box::new(detail))),
        ..Part::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Components of armv7-rt beside hackbench.
    const HEAD: &str = "latlab-bound 1 arm\nM 0 1 1 0 0\nD p 2843 9 c0000200 c0000204\nM 100 2 1 50 0\nD p 2844 90 c0000100 c0000104\n\
        D t 3258 80 c0000200 c0000204\nD a 29 3 c0000100 c0000200\nD s 3314 80 c0000200 c0000204\nD o 519 70 c0000204 0\n";
    const KALLSYMS: &[u8] = b"c0000100 t lock\nc0000200 T __schedule\nc0000280 t __schedule.cold\nc0000300 T schedule\n\
        c0000400 T schedule_idle\nc0000500 T preempt_schedule_irq\nc0000600 t arch_timer_handler_virt\nc0000700 t end\n\
        bf000000 t hook\t[module]\n";

    fn bound(arrivals: &str, tasks: &[Task]) -> BoundDetail {
        let file = read(&[HEAD, arrivals, "M 900000 2001 1 500 0\nI t 99990000"].concat()).unwrap();
        let measured =
            Measured { insn_ns: 1, wakeups: 2000, kallsyms: KALLSYMS, ..Measured::default() };
        detail(&file, &measured, tasks)
    }

    #[test]
    fn the_plugin_is_told_where_the_scheduler_is() {
        let code = scheduler_code(KALLSYMS).unwrap();
        let starts = [0xc000_0300, 0xc000_0200, 0xc000_0280, 0xc000_0500];
        let lengths = [0x100, 0x80, 0x80, 0x100];
        let ranges: Vec<Range> = starts.iter().zip(lengths).map(|(&at, n)| (at, at + n)).collect();
        assert_eq!(code.scheduler, ranges);
        assert_eq!((code.schedule, code.idle), (0xc000_0200, (0xc000_0400, 0xc000_0500)));
        assert_eq!(code.timers, [0xc000_0600]);
        assert_eq!(scheduler_code(b"c0000100 t lock\n"), None);
        assert_eq!(scheduler_code(b"00000000 t schedule\n00000000 t __schedule\n"), None);
    }

    /// Longest intervals beside hackbench: 14 896 instructions, 519 of the return and 83 ns of the timer.
    #[test]
    fn the_bound_is_the_sum_of_the_longest_intervals_and_of_interrupts() {
        let detail = bound("I t 1000 8295\nW\nI t 20000 100\nI t 20200 300\nW\n", &[]);
        assert_eq!(detail.bound, Some(14_896 + 519 + 83));
        let timer = &detail.interrupts[0];
        assert_eq!((timer.count, timer.longest, timer.in_bound), (3, 8295, 8295));
        assert_eq!(detail.components[0].begins, "lock");
        assert_eq!(detail.components[1].ends, "__schedule");
        assert_eq!((detail.wakeups, detail.components[4].ends.as_str()), (2000, ""));
    }

    #[test]
    fn interrupts_of_one_window_add_up_and_a_wait_parts_them() {
        let two = "I t 1000 4000\nI t 12000 4000\n";
        assert_eq!(bound(two, &[]).interrupts[0].in_bound, 8000);
        let apart = "I t 1000 4000\nW\nI t 12000 4000\n";
        assert_eq!(bound(apart, &[]).interrupts[0].in_bound, 4000);
        // Their alignment need not have been seen.
        let sources = "I t 1000 4000\nW\nI o 900000 300\n";
        let own = 3258 + 29 + 3314 + 519 + 83;
        assert_eq!(bound(sources, &[]).bound, Some(own + 4300));
    }

    #[test]
    fn a_task_is_delayed_by_those_before_it() {
        let own = 3258 + 29 + 3314 + 519 + 83;
        let tasks = [(100_000, 1_000_000), (300_000, 2_000_000), (1_900_000, 2_000_000)];
        let tasks = tasks.map(|(execution_ns, period_ns)| Task { execution_ns, period_ns });
        let tasks = bound("I t 1000 4000\n", &tasks).tasks;
        assert_eq!(tasks[0].response_ns, Some(own + 4000 + 100_000));
        let job = 100_000 + 2 * 3314;
        assert_eq!(tasks[1].response_ns, Some(own + 4000 + 300_000 + job));
        assert_eq!(tasks[2].response_ns, None, "longer than its period");
    }

    #[test]
    fn what_is_cut_or_wrong_is_refused() {
        for few in ["", "latlab-bound 1 arm\nI t 1 1\n", "latlab-bound 1 arm\nM 0 1 1 0 0\nI t 1"] {
            assert!(read(few).unwrap_err().reason.contains("fewer than two"), "{few}");
        }
        for (line, lines) in [
            (2, "D x 1 1 0 0"),
            (2, "I x 1 1"),
            (3, "I t 10 5\nI t 12 5"),
            (2, "I t 18446744073709551615 5"),
            (2, "?"),
        ] {
            let text = format!("latlab-bound 1 arm\n{lines}\nM 9 3 1 0 0\n");
            assert_eq!(read(&text).unwrap_err().line, line, "{text}");
        }
        let other = "latlab-sections 1 arm\nM 9 3 1 0 0\n";
        assert_eq!(read(other).unwrap_err().line, 1);
    }

    #[test]
    fn interrupts_without_an_end_have_no_bound() {
        let file = read(HEAD).unwrap();
        let all = Source {
            spans: vec![
                (0..3000).map(|i| Arrival { start: i * 10_000_000, length: 9_999_999 }).collect(),
            ],
        };
        let file = BoundFile { timer: all, ..file };
        let detail = detail(&file, &Measured::default(), &[]);
        assert!(part(detail.clone()).results.is_empty());
        assert_eq!((detail.bound, detail.interrupts[0].in_bound), (None, 0));
    }

    proptest! {
        #[test]
        fn a_window_has_the_most_that_any_has(gaps in prop::collection::vec((0u64..50, 1u64..20), 1..30), window in 0u64..200) {
            let mut at = 0;
            let span: Vec<Arrival> = gaps.iter().map(|&(gap, length)| {
                let arrival = Arrival { start: at + gap, length };
                at += gap + length;
                arrival
            }).collect();
            let from = |i: usize| {
                let end = span[i].start + span[i].length;
                span[i..].iter().filter(|a| a.start.saturating_sub(end) <= window).map(|a| a.length).sum::<u64>()
            };
            let most = (0..span.len()).map(from).max().unwrap();
            prop_assert_eq!(most_in(&span, window), most);
        }
    }
}
