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

use super::arrivals::{self, Source};
use super::format::{FormatError, STATE_UNKNOWN, hex, number};
use super::functions::{Functions, USER_SPACE};
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
/// From the intended time to the timer's interrupt in virtual time, ns: the time that is programmed is rounded up to the counter's
/// steps of 16 ns, by a multiplication that is exact to 67 ns (docs/validation/worst.md).
pub const TIMER_NS: u64 = 83;

/// A number that a file has for a source, at most.
const SOURCES_MAX: u64 = 1 << 10;

/// The longest interval of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Longest {
    kind: BoundKind,
    length: u64,
    count: u64,
    begins: u64,
    ends: u64,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundFile {
    arch: String,
    instructions: u64,
    marks: u64,
    places: u64,
    checks: u64,
    wrong: u64,
    longest: Vec<Longest>,
    sources: Vec<Source>,
}

/// A task of a set: execution time and period, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Execution time, ns.
    pub execution_ns: u64,
    /// Period, and deadline, ns.
    pub period_ns: u64,
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
            let arch = line.strip_prefix("latlab-bound 2 ");
            file.arch = arch.ok_or_else(|| at("not a file of a bound of version 2"))?.to_owned();
        } else if n > LINES_MAX {
            return Err(at("too many lines"));
        } else {
            file.line(line).map_err(at)?;
        }
    }
    let line = text.lines().count();
    if file.marks > 1 && file.places != 1 {
        return Err(FormatError { line, reason: STATE_UNKNOWN });
    }
    if file.marks > 1 {
        return Ok(file);
    }
    Err(FormatError { line, reason: "fewer than two wake-ups were counted" })
}

impl BoundFile {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["M", instructions, marks, places, checks, wrong] => {
                self.places = number(places)?;
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
            ["V", source, code, handler] => {
                let source: u64 = number(source)?;
                if source != self.sources.len() as u64 || source >= SOURCES_MAX {
                    return Err("sources are not numbered in their order");
                }
                let code = if *code == "-1" { None } else { Some(number(code)?) };
                self.sources.push(Source::new(code, hex(handler)?));
            }
            ["I", source, start, length] => {
                let source: usize = number(source)?;
                let source = self.sources.get_mut(source).ok_or("a source without a line V")?;
                source.push(number(start)?, number(length)?)?;
            }
            ["W"] => self.sources.iter_mut().for_each(Source::wait),
            _ => return Err("a line of an unknown kind"),
        }
        Ok(())
    }

    /// Adds the longest interval of a kind: its length, the number of such intervals, the addresses of its beginning and end.
    pub(super) fn add(&mut self, kind: BoundKind, length: u64, count: u64, at: (u64, u64)) {
        self.longest.push(Longest { kind, length, count, begins: at.0, ends: at.1 });
    }

    pub(super) fn add_source(&mut self, source: Source) {
        self.sources.push(source);
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
    /// From the intended time to the timer's interrupt, ns.
    pub timer_ns: u64,
    /// Wake-ups whose latency was measured: those of a warm-up only have marks.
    pub wakeups: u64,
    /// Largest latency of these wake-ups, ns.
    pub observed_ns: u64,
    /// The guest's `/proc/kallsyms`.
    pub kallsyms: &'a [u8],
    /// The guest's `/proc/interrupts`; empty: none.
    pub interrupts: &'a str,
}

/// The bound and its components.
pub fn detail(file: &BoundFile, measured: &Measured<'_>, tasks: &[Task]) -> BoundDetail {
    let mut functions = Functions::new(&file.arch, measured.kallsyms);
    let insn_ns = measured.insn_ns.max(1);
    let timer = measured.timer_ns.div_ceil(insn_ns);
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
    if timer > 0 {
        let kind = BoundKind::Timer;
        components.push(BoundComponent { kind, longest: timer, ..Default::default() });
    }
    components.sort_by_key(|c| c.kind);
    let interrupts = |window: u64| sum(file.sources.iter().map(|s| s.most_in(window)));
    let sporadic = |window: u64| sum(file.sources.iter().map(|s| s.most_sporadic(window)));
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
        interrupts: sources(file, measured, &mut functions, bound),
        bound,
        bound_sporadic: fixed_point(own, sporadic),
        observed_ns: measured.observed_ns,
        tasks: responses.collect(),
    }
}

/// Interrupts by source, those that take most of the bound first.
fn sources(
    file: &BoundFile,
    measured: &Measured<'_>,
    functions: &mut Functions,
    bound: Option<u64>,
) -> Vec<BoundInterrupt> {
    let named = arrivals::names(measured.interrupts);
    let mut name = |source: &Source| {
        if !source.name.is_empty() {
            return source.name.clone();
        }
        if let Some(name) = source.number.and_then(|n| named.get(&n)) {
            return name.clone();
        }
        let function = functions.at(source.handler).function;
        match functions.name(function) {
            USER_SPACE => String::new(),
            // The vector's code of x86 is named by what it calls.
            name => name.strip_prefix("asm_").unwrap_or(name).to_owned(),
        }
    };
    let interrupt = |source: &Source| BoundInterrupt {
        number: source.number,
        source: name(source),
        count: source.count(),
        longest: source.longest(),
        least_distance: source.least_distance(),
        in_bound: bound.map_or(0, |bound| source.most_in(bound)),
    };
    let mut all: Vec<BoundInterrupt> = file.sources.iter().map(interrupt).collect();
    all.sort_by_key(|i| (std::cmp::Reverse((i.in_bound, i.longest)), i.number));
    all
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

    /// Components of armv7-rt beside hackbench.
    const HEAD: &str = "latlab-bound 2 arm\nM 0 1 1 0 0\nV 0 27 c0000600\nV 1 33 0\nV 2 -1 c0000200\nD p 2843 9 c0000200 c0000204\nM 100 2 1 50 0\nD p 2844 90 c0000100 c0000104\n\
        D t 3258 80 c0000200 c0000204\nD a 29 3 c0000100 c0000200\nD s 3314 80 c0000200 c0000204\nD o 519 70 c0000204 0\n";
    const KALLSYMS: &[u8] =
        b"c0000100 t lock\nc0000200 T __schedule\nc0000600 t arch_timer_handler_virt\nc0000700 t end\n";
    const INTERRUPTS: &str = "  CPU0\n 29:  4  GIC-0  33 Level  uart-pl011\n";

    fn bound(arrivals: &str, tasks: &[Task]) -> BoundDetail {
        let file = read(&[HEAD, arrivals, "M 900000 2001 1 500 0\nI 0 99990000"].concat()).unwrap();
        let measured = Measured {
            insn_ns: 1,
            timer_ns: TIMER_NS,
            wakeups: 2000,
            kallsyms: KALLSYMS,
            interrupts: INTERRUPTS,
            ..Measured::default()
        };
        detail(&file, &measured, tasks)
    }

    /// Longest intervals beside hackbench: 14 896 instructions, 519 of the return and 83 ns of the timer.
    #[test]
    fn the_bound_is_the_sum_of_the_longest_intervals_and_of_interrupts() {
        let detail = bound("I 0 1000 8295\nW\nI 0 20000 100\nI 0 20200 300\nW\n", &[]);
        assert_eq!(detail.bound, Some(14_896 + 519 + 83));
        let timer = &detail.interrupts[0];
        assert_eq!((timer.count, timer.longest, timer.in_bound), (3, 8295, 8295));
        assert_eq!(detail.components[0].begins, "lock");
        assert_eq!(detail.components[1].ends, "__schedule");
        assert_eq!((detail.wakeups, detail.components[4].ends.as_str()), (2000, ""));
        let names = detail.interrupts.iter().map(|i| (i.number, i.source.as_str()));
        let expected =
            [(Some(27), "arch_timer_handler_virt"), (None, "__schedule"), (Some(33), "uart-pl011")];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert_eq!(timer.least_distance, Some(200), "a wait parts the first two");
        assert_eq!(detail.bound_sporadic, None, "8295 instructions each 200");
    }

    #[test]
    fn interrupts_of_one_window_add_up_and_a_wait_parts_them() {
        let two = "I 0 1000 4000\nI 0 12000 4000\n";
        assert_eq!(bound(two, &[]).interrupts[0].in_bound, 8000);
        let apart = "I 0 1000 4000\nW\nI 0 12000 4000\n";
        assert_eq!(bound(apart, &[]).interrupts[0].in_bound, 4000);
        // Their alignment need not have been seen.
        let sources = "I 0 1000 4000\nW\nI 1 900000 300\n";
        let own = 3258 + 29 + 3314 + 519 + 83;
        let apart = bound(sources, &[]);
        assert_eq!((apart.bound, apart.bound_sporadic), (Some(own + 4300), Some(own + 4300)));
        // One each 8000 instructions: three in 19 203, each with the longest time.
        let unequal = bound("I 0 1000 4000\nI 0 9000 100\n", &[]);
        assert_eq!((unequal.bound, unequal.bound_sporadic), (Some(own + 4100), Some(own + 12_000)));
    }

    #[test]
    fn a_task_is_delayed_by_those_before_it() {
        let own = 3258 + 29 + 3314 + 519 + 83;
        let tasks = [(100_000, 1_000_000), (300_000, 2_000_000), (1_900_000, 2_000_000)];
        let tasks = tasks.map(|(execution_ns, period_ns)| Task { execution_ns, period_ns });
        let tasks = bound("I 0 1000 4000\n", &tasks).tasks;
        assert_eq!(tasks[0].response_ns, Some(own + 4000 + 100_000));
        let job = 100_000 + 2 * 3314;
        assert_eq!(tasks[1].response_ns, Some(own + 4000 + 300_000 + job));
        assert_eq!(tasks[2].response_ns, None, "longer than its period");
    }

    #[test]
    fn what_is_cut_or_wrong_is_refused() {
        for few in ["", "latlab-bound 2 arm\nI 0 1 1\n", "latlab-bound 2 arm\nM 0 1 1 0 0\nI 0 1"] {
            assert!(read(few).unwrap_err().reason.contains("fewer than two"), "{few}");
        }
        for (line, lines) in [
            (2, "D x 1 1 0 0"),
            (2, "I x 1 1"),
            (2, "I 0 1 1"),
            (4, "V 0 27 0\nI 0 10 5\nI 0 12 5"),
            (3, "V 0 27 0\nI 0 18446744073709551615 5"),
            (2, "V 1 27 0"),
            (2, "?"),
        ] {
            let text = format!("latlab-bound 2 arm\n{lines}\nM 9 3 1 0 0\n");
            assert_eq!(read(&text).unwrap_err().line, line, "{text}");
        }
        let other = "latlab-sections 1 arm\nM 9 3 1 0 0\n";
        assert_eq!(read(other).unwrap_err().line, 1);
    }

    #[test]
    fn interrupts_without_an_end_have_no_bound() {
        let file = read(HEAD).unwrap();
        let mut all = Source::new(None, 0);
        (0..3000).for_each(|i| all.push(i * 10_000_000, 9_999_999).unwrap());
        let file = BoundFile { sources: vec![all], ..file };
        let detail = detail(&file, &Measured::default(), &[]);
        assert!(part(detail.clone()).results.is_empty());
        assert_eq!((detail.bound, detail.interrupts[0].in_bound), (None, 0));
    }
}
