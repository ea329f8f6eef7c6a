//! Sections that a plugin of QEMU counted beside the events `irq_disable`, `irq_enable`, `preempt_disable` and `preempt_enable`
//! (Documentation/trace/events.rst, system `preemptirq`) that the kernel recorded of them in the same run.
//!
//! The clock of the recording is the counter of the CPU, which in virtual time counts instructions and idle time. The
//! plugin lists each instruction that reads it with the number of instructions executed until then, so each event has its
//! place among the sections: their difference is constant but where the CPU waits (it grows), and where an instruction is executed
//! once more after a page fault (one less).

use super::format::{FormatError, hex, number};
use super::functions::Functions;
use latlab_model::record::{Param, Record, Unit};
use latlab_stats::histogram::Recorder;
use latlab_trace::TraceFile;
use std::collections::HashSet;

/// Lines of a list that are read.
const LINES_MAX: usize = 1 << 23;
/// Of so many events after one, so many are at a read of the clock where the difference is right.
const FOLLOWING: usize = 12;
const AGREEING: usize = 10;
/// Reads of the clock after a wait that may be the first one of an event.
const SKIPPED: usize = 400;

/// A section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    from: u64,
    to: u64,
    begins: u64,
    ends: u64,
}

/// All sections of a measurement, by instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SectionsList {
    /// Instructions executed when the clock's counter was read.
    reads: Vec<u64>,
    irqs: Vec<Section>,
    preempt: Vec<Section>,
    /// Instructions executed when the CPU waited.
    waits: Vec<u64>,
}

/// Reads the plugin's list (docs/reference/vm-sections.md).
///
/// # Errors
/// When a line is not understood, or the last one is missing.
pub fn read_list(text: &str) -> Result<SectionsList, FormatError> {
    let mut list = SectionsList::default();
    let mut is_whole = false;
    let mut n = 0;
    for line in text.lines() {
        n += 1;
        if line == "E" {
            is_whole = true;
            continue;
        }
        list.line(line).map_err(|reason| FormatError { line: n, reason })?;
        if n > LINES_MAX {
            return Err(FormatError { line: n, reason: "too many lines" });
        }
    }
    list.irqs.sort_by_key(|s| s.from);
    list.preempt.sort_by_key(|s| s.from);
    let reason = "the list of sections ends before its last line";
    if is_whole { Ok(list) } else { Err(FormatError { line: n, reason }) }
}

impl SectionsList {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, from, to, begins, ends] = words.as_slice() else {
            return Err("a line of an unknown kind");
        };
        let (from, to) = (number::<u64>(from)?, number::<u64>(to)?);
        let section = Section { from, to, begins: hex(begins)?, ends: hex(ends)? };
        match *what {
            "T" if self.reads.last().is_some_and(|last| *last >= from) => {
                return Err("reads of the clock are not in their order");
            }
            "T" => self.reads.push(from),
            "W" => self.waits.push(from),
            "i" | "p" if from > to => return Err("a section ends before it begins"),
            "i" => self.irqs.push(section),
            "p" => self.preempt.push(section),
            _ => return Err("a line of an unknown kind"),
        }
        Ok(())
    }
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    IrqsOff,
    IrqsOn,
    PreemptOff,
    PreemptOn,
}

/// Events of a recording with their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SectionEvents(Vec<(u64, What)>);

impl SectionEvents {
    /// The four events of a recording of one CPU; `None` where it has none of them.
    pub fn of(file: &TraceFile<'_>) -> Option<Self> {
        let names = [
            ("irq_disable", What::IrqsOff),
            ("irq_enable", What::IrqsOn),
            ("preempt_disable", What::PreemptOff),
            ("preempt_enable", What::PreemptOn),
        ];
        let ids: Vec<(u16, What)> = names
            .into_iter()
            .filter_map(|(name, what)| Some((file.formats.find(name)?.id, what)))
            .collect();
        let mut found = Vec::new();
        let mut events = file.events();
        while let Some(event) = events.next() {
            if let Some((_, what)) = ids.iter().find(|(id, _)| *id == event.id) {
                found.push((event.time, *what));
            }
        }
        (!found.is_empty()).then_some(Self(found))
    }
}

/// Sections of one kind beside their events.
#[derive(Clone, Debug, Default)]
struct Compared {
    /// Instructions from the beginning of a section to the time of its first event, between the first and the last one, and
    /// from there to its end.
    before: Recorder,
    between: Recorder,
    after: Recorder,
    /// Sections in which no event lies.
    without: Recorder,
    /// Events in no section.
    outside: u64,
    /// The longest section without an event.
    longest_without: Option<Section>,
}

/// The comparison.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Events whose time is that of a read of the clock, and others, in the time of the list.
    at_reads: u64,
    elsewhere: u64,
    /// Times that the difference of times and instructions became one less.
    repeated: u64,
    irqs: Compared,
    preempt: Compared,
}

/// Compares. `None` where the events' times are nowhere those of the list's reads.
pub fn compare(list: &SectionsList, events: &SectionEvents) -> Option<Comparison> {
    let mut comparison = Comparison::default();
    let placed = place(list, &events.0, &mut comparison)?;
    let of = |on: What, off: What| -> Vec<(u64, bool)> {
        let is = |w: What| (w == on || w == off).then_some(w == off);
        placed.iter().filter_map(|(at, w)| Some((*at, is(*w)?))).collect()
    };
    comparison.irqs = beside(&list.irqs, &of(What::IrqsOn, What::IrqsOff));
    comparison.preempt = beside(&list.preempt, &of(What::PreemptOn, What::PreemptOff));
    Some(comparison)
}

/// The events with the number of instructions executed until the read of the clock.
fn place(
    list: &SectionsList,
    events: &[(u64, What)],
    comparison: &mut Comparison,
) -> Option<Vec<(u64, What)>> {
    let reads: HashSet<u64> = list.reads.iter().copied().collect();
    let last = *list.reads.last()?;
    // How many of the events from the n-th one on, until the CPU waits, are at reads with this difference; 0 where it is wrong.
    let agreeing = |n: usize, offset: u64| {
        let at = |e: &(u64, What)| e.0.checked_sub(offset);
        let wait =
            events.get(n).and_then(at).map_or(0, |at| list.waits.partition_point(|w| *w <= at));
        let end = list.waits.get(wait).map_or(last, |wait| last.min(*wait));
        let next = events.iter().skip(n).take(FOLLOWING).filter_map(at).take_while(|at| *at <= end);
        let (mut asked, mut found) = (0, 0);
        for at in next {
            asked += 1;
            found += usize::from(reads.contains(&at));
            if asked - found > FOLLOWING - AGREEING {
                return 0;
            }
        }
        if found > 1 && found >= AGREEING.min(asked) { found } else { 0 }
    };
    let (mut n, mut offset) = list.reads.iter().take(FOLLOWING).find_map(|read| {
        let candidates = events.iter().enumerate();
        let mut offsets = candidates.filter_map(|(n, e)| Some((n, e.0.checked_sub(*read)?)));
        offsets.find(|(n, offset)| agreeing(*n, *offset) >= AGREEING)
    })?;
    let mut placed = Vec::new();
    // The first read behind the last event.
    let mut next = 0;
    while let Some((time, what)) = events.get(n) {
        n += 1;
        let Some(at) = time.checked_sub(offset) else { continue };
        let found = if reads.contains(&at) {
            Some(offset)
        } else if reads.contains(&(at + 1)) {
            comparison.repeated += 1;
            Some(offset - 1)
        } else {
            let later = list.reads[next..].iter().take(SKIPPED);
            let offsets = later.filter_map(|read| time.checked_sub(*read)).filter(|o| *o > offset);
            let scored = offsets.map(|o| (agreeing(n - 1, o), o)).filter(|(found, _)| *found > 0);
            // The first of the best.
            scored.rev().max_by_key(|(found, _)| *found).map(|(_, o)| o)
        };
        match found {
            Some(found) => {
                offset = found;
                let at = time - offset;
                next = list.reads.partition_point(|read| *read <= at);
                placed.push((at, *what));
            }
            None if at > last => break,
            None => comparison.elsewhere += 1,
        }
    }
    comparison.at_reads = placed.len() as u64;
    Some(placed)
}

/// Sections beside the events of their kind, which turn off or on.
fn beside(sections: &[Section], events: &[(u64, bool)]) -> Compared {
    let mut compared = Compared::default();
    let mut inside = 0;
    for section in sections {
        let from = events.partition_point(|e| e.0 < section.from);
        let to = events.partition_point(|e| e.0 <= section.to);
        let own = &events[from..to.max(from)];
        inside += own.len() as u64;
        let first = own.iter().find(|e| e.1);
        let last = own.iter().rev().find(|e| !e.1);
        match first.zip(last).filter(|(first, last)| first.0 <= last.0) {
            Some((first, last)) => {
                compared.before.record(first.0 - section.from);
                compared.between.record(last.0 - first.0);
                compared.after.record(section.to - last.0);
            }
            None if own.is_empty() => {
                let length = section.to - section.from;
                let longest = compared.longest_without.map_or(0, |s| s.to - s.from);
                if compared.longest_without.is_none() || length > longest {
                    compared.longest_without = Some(*section);
                }
                compared.without.record(length);
            }
            // Cut off by the first or last mark.
            None => {}
        }
    }
    compared.outside = (events.len() as u64).saturating_sub(inside);
    compared
}

impl Comparison {
    /// The figures as results: `sections.events`, and those of each kind.
    pub fn records(&self, functions: &mut Functions) -> Vec<Record> {
        let mut records: Vec<Record> = [
            ("at-reads", self.at_reads),
            ("elsewhere", self.elsewhere),
            ("repeated", self.repeated),
        ]
        .map(|(what, n)| count(["sections.events.", what].concat(), n))
        .into();
        for (kind, compared) in [("irqs-off", &self.irqs), ("preempt-off", &self.preempt)] {
            let name = |what: &str| ["sections.", kind, ".", what].concat();
            for (what, recorder) in [
                ("before", &compared.before),
                ("between", &compared.between),
                ("after", &compared.after),
                ("without", &compared.without),
            ] {
                let histogram = recorder.to_histogram();
                let mut record = Record {
                    name: name(what),
                    unit: Unit::Count,
                    summary: histogram.summary(),
                    histogram: Some(histogram),
                    ..Record::default()
                };
                if let Some(longest) = compared.longest_without.filter(|_| what == "without") {
                    for (key, at) in [("begins", longest.begins), ("ends", longest.ends)] {
                        let function = functions.at(at).function;
                        let name = Param::from(functions.name(function));
                        record.params.insert(key.into(), name);
                    }
                }
                records.push(record);
            }
            records.push(count(name("outside"), compared.outside));
        }
        records
    }
}

fn count(name: String, n: u64) -> Record {
    let histogram = latlab_stats::histogram::Histogram::of([n]);
    Record { name, unit: Unit::Count, summary: histogram.summary(), ..Record::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sections of 100 instructions every 1,000, in which the clock is read 20 instructions behind the beginning and 10 before
    /// the end; events at the same places of a clock that is 5,000 ahead, after the tenth section 7,300 more for a wait, and after the
    /// thirtieth one less for an instruction that was executed twice. Every fifth section has no event.
    fn made() -> (String, SectionEvents) {
        let mut text = String::new();
        let mut events = Vec::new();
        for n in 0..50 {
            let from = 10_000 + n * 1_000;
            let offset = 5_000 + if n >= 10 { 7_300 } else { 0 } - u64::from(n >= 30);
            if n == 10 {
                text += "W 19900 19900 0 0\n";
            }
            // Irregular, as code is: equal distances would fit anywhere.
            let first = from + 20 + n % 7;
            for (at, what) in [(first, What::IrqsOff), (from + 90, What::IrqsOn)] {
                text += &format!("T {at} {at} 0 0\n");
                if n % 5 != 4 {
                    events.push((at + offset, what));
                }
            }
            text += &format!("i {from} {} c0000010 c0000110\n", from + 100);
        }
        (text + "E\n", SectionEvents(events))
    }

    #[test]
    fn events_are_found_at_the_instructions_that_read_the_clock() {
        let (text, events) = made();
        let comparison = compare(&read_list(&text).unwrap(), &events).unwrap();
        assert_eq!((comparison.at_reads, comparison.elsewhere, comparison.repeated), (80, 0, 1));
        let irqs = &comparison.irqs;
        let of = |r: &Recorder| {
            let h = r.to_histogram();
            (h.count, h.min, h.max)
        };
        assert_eq!(of(&irqs.before), (40, 20, 26));
        assert_eq!(of(&irqs.between), (40, 64, 70));
        assert_eq!(of(&irqs.after), (40, 10, 10));
        assert_eq!((of(&irqs.without), irqs.outside), ((10, 100, 100), 0));
        let mut functions =
            Functions::new("arm", b"c0000000 t lock\nc0000100 t unlock\nc0000200 t end\n");
        let records = comparison.records(&mut functions);
        let without = records.iter().find(|r| r.name == "sections.irqs-off.without").unwrap();
        assert_eq!(without.params["ends"], Param::from("unlock"));
    }

    #[test]
    fn an_event_outside_of_sections_is_counted() {
        let (text, mut events) = made();
        let text = text.replace("i 11000 11100 c0000010 c0000110\n", "");
        let comparison = compare(&read_list(&text).unwrap(), &events).unwrap();
        assert_eq!((comparison.at_reads, comparison.irqs.outside), (80, 2));
        // One at which the clock was not read.
        events.0.insert(4, (17_300, What::IrqsOff));
        let comparison = compare(&read_list(&text).unwrap(), &events).unwrap();
        assert_eq!((comparison.at_reads, comparison.elsewhere), (80, 1));
    }

    #[test]
    fn times_of_another_clock_are_not_compared() {
        let (text, events) = made();
        let slower = SectionEvents(events.0.iter().map(|(t, w)| (t * 10 / 9, *w)).collect());
        assert!(compare(&read_list(&text).unwrap(), &slower).is_none());
        assert!(compare(&SectionsList::default(), &events).is_none());
    }

    #[test]
    fn what_is_cut_or_wrong_is_refused() {
        let (text, _) = made();
        assert!(read_list(text.strip_suffix("E\n").unwrap()).is_err());
        for text in ["X\n", "Q 1 1 0 0\nE\n", "i 2 1 0 0\nE\n", "T 2 2 0 0\nT 2 2 0 0\nE\n"] {
            assert!(read_list(text).is_err(), "{text}");
        }
    }
}
