//! Slice by slice and switch by switch, as they go by: nothing is kept.

use latlab_model::control::JsonEscaped;
use latlab_model::event::{Event, EventKind, Names};
use latlab_model::sched::schedule::Slice;
use latlab_report::text::clean;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

/// Milliseconds to the microsecond, as `perf sched` prints them.
fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// One line a slice: when it ended, where, whose, how long it was off, ready, and running.
#[derive(Debug)]
pub struct TimeHist<W> {
    out: W,
    json: bool,
}

impl<W: Write> TimeHist<W> {
    /// Writes to `out`, as text or as one JSON object a line.
    pub fn new(out: W, json: bool) -> Self {
        Self { out, json }
    }

    /// The column heads.
    pub fn head(&mut self) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(
            self.out,
            "{:>15}  {:>4}  {:<24}  {:>10}  {:>10}  {:>10}  ended",
            "time (s)", "CPU", "task", "off (ms)", "ready (ms)", "run (ms)"
        )
    }

    /// A slice that is over.
    pub fn slice(&mut self, s: &Slice, names: &Names) -> io::Result<()> {
        if self.json {
            let line = json!({
                "time_ns": s.end.0, "cpu": s.cpu, "tid": s.task.tid, "name": names.get(s.task.name),
                "prio": s.task.prio, "off_ns": s.off.map(|n| n.0), "ready_ns": s.delay.map(|n| n.0),
                "woken": s.woken, "run_ns": s.run().0, "ended": s.why, "next": s.next.tid,
                "doubtful": s.doubtful,
            });
            serde_json::to_writer(JsonEscaped(&mut self.out), &line)?;
            return writeln!(self.out);
        }
        let some = |n: Option<latlab_model::units::Nanos>| n.map_or("-".into(), |n| ms(n.0));
        let task = clean(&format!("{}[{}]", names.get(s.task.name), s.task.tid)).into_owned();
        let by = if matches!(s.why.word(), "preempted" | "throttled") {
            clean(&format!(" by {}[{}]", names.get(s.next.name), s.next.tid)).into_owned()
        } else {
            String::new()
        };
        let doubt = if s.doubtful { " (doubtful)" } else { "" };
        writeln!(
            self.out,
            "{:>15}  {:>4}  {task:<24}  {:>10}  {:>10}  {:>10}  {}{by}{doubt}",
            seconds(s.end.0),
            s.cpu,
            some(s.off),
            some(s.delay),
            ms(s.run().0),
            s.why.word()
        )
    }

    /// Everything is written.
    pub fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// One line a switch, one column a CPU, each task by two letters.
#[derive(Debug)]
pub struct Map<W> {
    out: W,
    json: bool,
    on: BTreeMap<u32, (i32, String)>,
    names: HashMap<i32, String>,
}

impl<W: Write> Map<W> {
    /// Writes to `out`, as text or as one JSON object a line.
    pub fn new(out: W, json: bool) -> Self {
        Self { out, json, on: BTreeMap::new(), names: HashMap::new() }
    }

    /// Two letters of a task: `A0`, `B0`… `Z0`, `A1`…; and whether they are new.
    fn letters(&mut self, tid: i32) -> (String, bool) {
        if tid == 0 {
            return (".".into(), false);
        }
        if let Some(known) = self.names.get(&tid) {
            return (known.clone(), false);
        }
        let n = self.names.len();
        let letter = char::from(b'A' + (n % 26) as u8);
        let name = format!("{letter}{}", n / 26);
        self.names.insert(tid, name.clone());
        (name, true)
    }

    /// A line where it is a switch.
    pub fn event(&mut self, event: &Event, names: &Names) -> io::Result<()> {
        let EventKind::Switch { next, .. } = event.kind else { return Ok(()) };
        if self.json {
            let line = json!({ "time_ns": event.time.0, "cpu": event.cpu, "tid": next.tid, "name": names.get(next.name) });
            serde_json::to_writer(JsonEscaped(&mut self.out), &line)?;
            return writeln!(self.out);
        }
        let (letters, new) = self.letters(next.tid.0);
        self.on.insert(event.cpu.0, (next.tid.0, letters));
        let mut line = String::new();
        for (cpu, (_, name)) in &self.on {
            let here = if *cpu == event.cpu.0 { '*' } else { ' ' };
            line += &format!("{here}{name:<5}");
        }
        line += &format!("  {} s", seconds(event.time.0));
        if new {
            line += &clean(&format!(
                "  {} = {}[{}]",
                self.on[&event.cpu.0].1,
                name(names.get(next.name)),
                next.tid
            ));
        }
        writeln!(self.out, "{line}")
    }

    /// Everything is written.
    pub fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn name(comm: &str) -> &str {
    if comm.is_empty() { "?" } else { comm }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::event::{Names, Task};
    use latlab_model::sched::schedule::End;
    use latlab_model::units::{Nanos, Tid, TraceNs};

    #[test]
    fn a_slice_is_a_line() {
        let mut names = Names::default();
        let mut task = |tid, name| Task { tid: Tid(tid), name: names.intern(name), prio: 120 };
        let slice = Slice {
            task: task(7, "cc1"),
            cpu: 1,
            start: TraceNs(5_000_001_000),
            end: TraceNs(5_004_001_000),
            off: None,
            delay: Some(Nanos(1_500)),
            woken: true,
            why: End::Preempted,
            next: task(9, "\x1b[31mevil"),
            doubtful: false,
        };
        let mut out = Vec::new();
        TimeHist::new(&mut out, false).slice(&slice, &names).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert!(line.contains("5.004001     1  cc1[7]"), "{line}");
        assert!(line.contains("  0.002       4.000  preempted by "), "{line}");
        assert!(!line.contains('\x1b'), "{line}");
        let mut out = Vec::new();
        TimeHist::new(&mut out, true).slice(&slice, &names).unwrap();
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            (line["run_ns"].as_u64(), line["ended"].as_str()),
            (Some(4_000_000), Some("preempted"))
        );
    }
}
