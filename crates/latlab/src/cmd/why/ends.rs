//! The ends of spans: what `--from` and `--to` name, as events that are recorded and found again.
//!
//! | text | event |
//! |---|---|
//! | `sched:sched_waking` | a tracepoint, also of `user_events` |
//! | `syscall:ioctl`, `sysret:ioctl` | begin and end of a system call |
//! | `marker:frame *` | a text that a program writes to `trace_marker` |
//! | `uprobe:PATH:PLACE`, `uretprobe:PATH:FUNCTION` | a place of a program: function, `FILE:LINE`, `0xOFFSET` |
//! | `usdt:PATH:PROVIDER:NAME` | a static probe of a program |
//! | `kprobe:FUNCTION`, `kretprobe:FUNCTION` | a place of the kernel |
//!
//! Behind a probe what it records (`id=%di:u64`), behind any of them ` if FILTER`.

use super::place;
use crate::outcome::{HintExt, OwnHintExt};
use anyhow::{anyhow, bail};
use latlab_analysis::latency::activations::from_capture::{
    Chosen, Known, Thread, is_named, threads_to_the_end,
};
use latlab_analysis::latency::activations::spans::{self, Ending, Ends, Found, Key};
use latlab_analysis::latency::capture::Capture;
use latlab_sys::recorder::{EventSpec, RecordConfig};
use latlab_sys::tracefs::{PROBE_GROUPS, ProbeOn, Probes, Tracefs};
use latlab_trace::TraceFile;
use std::path::PathBuf;

/// The option that lets an instance have what is written to the top level's `trace_marker`.
const COPY: &str = "copy_trace_marker";

/// What an end is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Point {
    /// An event that the kernel has: `system:event`.
    Event(String),
    /// A text of `trace_marker`.
    Marker(String),
    /// A probe: on what, of the return, where, what it records.
    Probe { on: ProbeOn, is_return: bool, place: String, arguments: String },
}

/// An end as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    point: Point,
    filter: Option<String>,
}

impl Asked {
    fn parse(option: &str, text: &str) -> anyhow::Result<Self> {
        let (what, filter) = match text.split_once(" if ") {
            Some((what, filter)) => (what.trim(), Some(filter.trim().to_owned())),
            None => (text.trim(), None),
        };
        let Some((kind, rest)) = what.split_once(':').filter(|(_, rest)| !rest.is_empty()) else {
            return Err(anyhow!("{option} {text}: expected KIND:PLACE"))
                .hint("sched:sched_waking, syscall:ioctl, marker:TEXT, uprobe:PATH:FUNCTION");
        };
        let probe = |on, is_return: bool| {
            let (place, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
            let (place, arguments) = (place.to_owned(), arguments.trim().to_owned());
            Point::Probe { on, is_return, place, arguments }
        };
        let point = match kind {
            "uprobe" => probe(ProbeOn::User, false),
            "uretprobe" => probe(ProbeOn::User, true),
            "usdt" => Point::Probe {
                on: ProbeOn::User,
                is_return: false,
                place: format!("usdt:{}", rest.split(' ').next().unwrap_or(rest)),
                arguments: rest.split_once(' ').map_or("", |r| r.1).trim().to_owned(),
            },
            "kprobe" => probe(ProbeOn::Kernel, false),
            "kretprobe" => probe(ProbeOn::Kernel, true),
            "marker" => Point::Marker(rest.to_owned()),
            "syscall" => Point::Event(format!("syscalls:sys_enter_{rest}")),
            "sysret" => Point::Event(format!("syscalls:sys_exit_{rest}")),
            _ => Point::Event(what.to_owned()),
        };
        Ok(Self { point, filter })
    }

    /// The filter that finds it in a file; `name` is that of its probe.
    fn found_by(&self, name: &str) -> String {
        let (event, own) = match &self.point {
            Point::Event(event) => (event.replacen(':', "/", 1), None),
            Point::Marker(text) => {
                let text = text.replace(['"', '\\'], "?");
                ("ftrace/print".to_owned(), Some(format!("buf ~ \"{text}*\"")))
            }
            Point::Probe { .. } => (format!("{PROBE_GROUPS}*/{name}"), None),
        };
        let tests: Vec<String> = own.into_iter().chain(self.filter.clone()).collect();
        match tests.as_slice() {
            [] => event,
            [one] => format!("{event} : {one}"),
            all => format!("{event} : ({})", all.join(") && (")),
        }
    }
}

/// Both ends of spans, as they were asked for.
#[derive(Debug)]
pub(in crate::cmd) struct Both {
    asked: [End; 2],
    key: Key,
    /// Each probe has a name of its own, of the text that was asked for.
    are_several: bool,
}

/// One of them.
#[derive(Debug)]
struct End {
    option: &'static str,
    /// Of its probe. Where one event ends a span and begins the next, both are one probe.
    name: &'static str,
    text: String,
    asked: Asked,
}

impl End {
    fn new(option: &'static str, name: &'static str, text: &str) -> anyhow::Result<Self> {
        Ok(Self { option, name, text: text.to_owned(), asked: Asked::parse(option, text)? })
    }

    /// The name of its probe, where there is one span, or where there are several.
    fn probe(&self, are_several: bool) -> String {
        let name = self.name;
        match are_several {
            true => spans::probe_name(name, &self.text),
            false => name.to_owned(),
        }
    }
}

/// What is looked for in a recording: activations of tasks, or spans.
pub(super) struct Finder {
    both: Option<Both>,
}

impl Both {
    /// Of `--from`, `--to` and `--key`. `are_several`: other spans are recorded at the same time.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub(in crate::cmd) fn new(
        (from, to): (&str, &str),
        key: &str,
        are_several: bool,
    ) -> anyhow::Result<Self> {
        let last = if from == to { "from" } else { "to" };
        let asked = [End::new("--from", "from", from)?, End::new("--to", last, to)?];
        Ok(Self { asked, key: Key::parse(key), are_several })
    }

    /// How they are found in what is recorded now.
    pub(in crate::cmd) fn ends(&self) -> Ends {
        let [from, to] = &self.asked;
        self.found_by(from.probe(self.are_several), to.probe(self.are_several))
    }

    /// How they are found in a file: one of a watch has several spans.
    fn ends_in(&self, file: &TraceFile<'_>) -> Ends {
        let [from, to] = self.asked.each_ref().map(|end| {
            let of_several = end.probe(true);
            let is_there = file
                .formats
                .iter()
                .any(|f| *f.name == *of_several && f.system.starts_with(PROBE_GROUPS));
            if is_there { of_several } else { end.probe(false) }
        });
        self.found_by(from, to)
    }

    fn found_by(&self, from_probe: String, to_probe: String) -> Ends {
        let [from, to] = &self.asked;
        Ends {
            from: from.asked.found_by(&from_probe),
            to: to.asked.found_by(&to_probe),
            key: self.key.clone(),
            names: (from.text.clone(), to.text.clone()),
        }
    }

    /// Adds what has to be recorded for the ends: the events, of which probes are made. They stay as long as `probes`.
    ///
    /// # Errors
    /// When a place is not found, or this kernel lacks what it takes.
    pub(in crate::cmd) fn prepare(
        &self,
        tracefs: &Tracefs,
        config: &mut RecordConfig,
        probes: &mut Probes,
    ) -> anyhow::Result<Vec<String>> {
        let mut events = Vec::new();
        for end in &self.asked {
            let option = end.option;
            let event = match &end.asked.point {
                Point::Event(event) => {
                    if !tracefs.events().with_hint()?.iter().any(|e| e.to_string() == *event) {
                        return Err(anyhow!("{option} {event}: this kernel has no such event"))
                            .hint("latlab record --list events");
                    }
                    event.clone()
                }
                Point::Marker(_) => {
                    if !tracefs.root().join("options").join(COPY).exists() {
                        return Err(anyhow!("{option} marker: this kernel has no option {COPY}, which brings texts of trace_marker to other buffers"))
                            .hint("name a function of the program: uprobe:PATH:FUNCTION");
                    }
                    if !config.options.iter().any(|o| o == COPY) {
                        config.options.push(COPY.to_owned());
                    }
                    continue;
                }
                Point::Probe { on, is_return, place, arguments } => {
                    let place = match on {
                        ProbeOn::User => place::of_program(option, place)?,
                        ProbeOn::Kernel => place.clone(),
                    };
                    let name = end.probe(self.are_several);
                    probes.add(*on, &name, *is_return, &place, arguments).with_hint()?
                }
            };
            let covers = |e: &EventSpec| {
                e.pattern == event || e.pattern.strip_suffix(":*") == event.split(':').next()
            };
            if !config.events.iter().any(covers) {
                config.events.push(EventSpec::new(event.clone()));
            }
            events.push(event);
        }
        Ok(events)
    }

    /// The programs and libraries that have probes.
    pub(in crate::cmd) fn programs(&self) -> impl Iterator<Item = PathBuf> {
        self.asked.iter().filter_map(|end| match &end.asked.point {
            Point::Probe { on: ProbeOn::User, place, .. } => {
                let place = place.strip_prefix("usdt:").unwrap_or(place);
                place.split(':').next().map(place::file)
            }
            _ => None,
        })
    }

    /// Whether the places of all probes are found now.
    ///
    /// # Errors
    /// When one is not.
    pub(in crate::cmd) fn check(&self) -> anyhow::Result<()> {
        for end in &self.asked {
            if let Point::Probe { on: ProbeOn::User, place, .. } = &end.asked.point {
                place::of_program(end.option, place)?;
            }
        }
        Ok(())
    }
}

impl Finder {
    /// Of `--from`, `--to` and `--key`; without them activations.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub(super) fn new(ends: Option<(&str, &str)>, key: &str) -> anyhow::Result<Self> {
        Ok(Self { both: ends.map(|ends| Both::new(ends, key, false)).transpose()? })
    }

    /// The names of the ends, where spans are looked for.
    pub(super) fn names(&self) -> Option<(&str, &str)> {
        let [from, to] = &self.both.as_ref()?.asked;
        Some((&from.text, &to.text))
    }

    /// Adds what has to be recorded for the ends. The probes stay as long as the value that is returned.
    ///
    /// # Errors
    /// When a place is not found, or this kernel lacks what it takes.
    pub(super) fn prepare(
        &self,
        tracefs: &Tracefs,
        config: &mut RecordConfig,
    ) -> anyhow::Result<Probes> {
        let mut probes = Probes::new(tracefs);
        if let Some(both) = &self.both {
            both.prepare(tracefs, config, &mut probes)?;
        }
        Ok(probes)
    }

    /// The threads of a recording with their activations, or with the spans that end in a part of it, and how many events
    /// of both ends were seen.
    ///
    /// # Errors
    /// When the recording has no such events or fields.
    pub(super) fn find(
        &self,
        file: &TraceFile<'_>,
        capture: &Capture,
        chosen: &Chosen,
        known: &Known,
        part: Ending,
    ) -> anyhow::Result<(Vec<Thread>, Found)> {
        let Some(both) = &self.both else {
            return Ok((threads_to_the_end(capture, chosen, known), Found::default()));
        };
        let ends = both.ends_in(file);
        let mut found = spans::spans(file, &ends, part)?;
        let all = spans::threads(capture, &std::mem::take(&mut found.spans), &ends);
        let is_chosen = |thread: &Thread| match chosen {
            Chosen::Tids(tids) => tids.is_empty() || tids.contains(&thread.tid),
            Chosen::Name(name) => is_named(name, &thread.name),
        };
        Ok((all.into_iter().filter(is_chosen).collect(), found))
    }

    /// Nothing was found: why that may be.
    ///
    /// # Errors
    /// Always.
    pub(super) fn nothing(&self, task: Option<&str>, seen: &Found) -> anyhow::Result<()> {
        let Some((from, to)) = self.names() else { return Ok(()) };
        let of = task.map_or(String::new(), |t| format!(" that ends in {t}"));
        let (first, last) = seen.events;
        let counts = format!("{first} first events and {last} last events were recorded");
        match (first, last) {
            (1.., 1..) => Err(anyhow!("no span from {from} to {to}{of}: {counts}"))
                .hint("--key: what is equal in both: tid, cpu, none, or a field of both"),
            _ => bail!("no span from {from} to {to}{of}: {counts}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> String {
        Asked::parse("--from", text).unwrap().found_by("from")
    }

    #[test]
    fn each_kind_of_end_becomes_a_filter() {
        for (text, expected) in [
            ("sched:sched_waking", "sched/sched_waking"),
            (
                "sched:sched_waking if pid == 7 && prio < 9",
                "sched/sched_waking : pid == 7 && prio < 9",
            ),
            ("syscall:ioctl", "syscalls/sys_enter_ioctl"),
            ("sysret:ioctl if ret < 0", "syscalls/sys_exit_ioctl : ret < 0"),
            ("marker:frame", "ftrace/print : buf ~ \"frame*\""),
            ("marker:a\"b if PID == 3", "ftrace/print : (buf ~ \"a?b*\") && (PID == 3)"),
            ("uprobe:/bin/a:main", "latlab_*/from"),
        ] {
            assert_eq!(filter(text), expected);
        }
        for text in ["", "sched", "uprobe:"] {
            assert!(Asked::parse("--from", text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_a_probe_records_follows_its_place() {
        let point = |text| Asked::parse("--to", text).unwrap().point;
        let probe = |is_return, place: &str, arguments: &str| Point::Probe {
            on: ProbeOn::User,
            is_return,
            place: place.into(),
            arguments: arguments.into(),
        };
        assert_eq!(point("uprobe:./a:f id=%di:u64"), probe(false, "./a:f", "id=%di:u64"));
        assert_eq!(point("uretprobe:./a:f"), probe(true, "./a:f", ""));
        assert_eq!(point("usdt:./a:app:done x=%si"), probe(false, "usdt:./a:app:done", "x=%si"));
    }
}
