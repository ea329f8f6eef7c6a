//! lmbench's result files: `NAME: VALUE microseconds`, `NAME: VALUE MB/sec`, and blocks of context switches.
//!
//! Known names become the records that latlab has of the same operation, with lmbench's
//! conventions undone (a semaphore's figure is one way, a page fault's is a page of sixteen);
//! the others keep their name behind `lmbench.`.

use super::error::ForeignError;
use super::imported_run::run_of;
use crate::compare::subject::Source;
use latlab_model::finding::Note;
use latlab_model::record::{Param, Record, Unit};
use latlab_model::run::Part;
use latlab_stats::histogram::Summary;
use std::collections::{BTreeMap, HashMap};

/// What lmbench writes, our record, factor.
const KNOWN: &[(&str, &str, f64)] = &[
    ("Simple syscall", "syscall.getppid", 1.0),
    ("Simple read", "syscall.read", 1.0),
    ("Simple write", "syscall.write", 1.0),
    ("Simple stat", "syscall.stat", 1.0),
    ("Simple fstat", "syscall.fstat", 1.0),
    ("Simple open/close", "syscall.open-close", 1.0),
    ("Signal handler installation", "signal.install", 1.0),
    ("Signal handler overhead", "signal.catch", 1.0),
    ("Protection fault", "signal.fault", 1.0),
    ("Pipe latency", "ipc.pipe", 1.0),
    ("Fifo latency", "ipc.fifo", 1.0),
    ("AF_UNIX sock stream latency", "ipc.unix-stream", 1.0),
    ("Semaphore latency", "ipc.sem-sysv", 2.0),
    ("TCP latency using localhost", "ipc.tcp", 1.0),
    ("UDP latency using localhost", "ipc.udp", 1.0),
    ("TCP/IP connection cost to localhost", "ipc.tcp-connect", 1.0),
    ("UNIX connection cost", "ipc.unix-connect", 1.0),
    ("Procedure call", "process.call", 1.0),
    ("Process fork+exit", "process.fork-exit", 1.0),
    ("Process fork+execve", "process.fork-exec", 1.0),
    ("Process fork+/bin/sh -c", "process.shell", 1.0),
    ("Pagefaults on cached", "memory.page-fault-file", 16.0),
    ("integer add", "arith.int-add", 1.0),
    ("integer mul", "arith.int-mul", 1.0),
    ("integer div", "arith.int-div", 1.0),
    ("integer mod", "arith.int-mod", 1.0),
    ("int64 div", "arith.int64-div", 1.0),
    ("float add", "arith.float-add", 1.0),
    ("float mul", "arith.float-mul", 1.0),
    ("float div", "arith.float-div", 1.0),
    ("double add", "arith.double-add", 1.0),
    ("double mul", "arith.double-mul", 1.0),
    ("double div", "arith.double-div", 1.0),
    ("Pipe bandwidth", "bw.pipe", 1.0),
    ("AF_UNIX sock stream bandwidth", "bw.unix", 1.0),
];

/// Larger numbers are none that was measured, in whatever unit.
const VALUE_MAX: f64 = 1e15;

/// Different results that are read: lmbench writes some hundreds, a file of 20 MB could have a million.
const RESULTS_MAX: usize = 20_000;

/// The file, or `None` when it has no line of lmbench's.
///
/// # Errors
/// [`ForeignError::TooManyResults`].
pub fn read(text: &str) -> Result<Option<Source>, ForeignError> {
    let mut records = Records::default();
    // Bytes that each process works on.
    let mut ring: Option<i64> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(block) = line.strip_prefix('"') {
            ring = block
                .strip_prefix("size=")
                .and_then(|r| r.split_once('k'))
                .and_then(|s| s.0.parse::<i64>().ok())
                .and_then(|kib| kib.checked_mul(1024));
            continue;
        }
        if let (Some(size), Some((procs, us))) = (ring, line.split_once(' '))
            && let (Ok(procs), Ok(us)) = (procs.parse::<i64>(), us.trim().parse::<f64>())
            && (0.0..=VALUE_MAX).contains(&us)
        {
            let params =
                [("size".to_owned(), Param::Int(size)), ("procs".to_owned(), Param::Int(procs))];
            records.add("ctx.ring", params.into(), Unit::Ns, us * 1e3)?;
            continue;
        }
        ring = None;
        if let Some((name, unit, value)) = figure(line) {
            let known = KNOWN.iter().find(|(words, ..)| *words == name);
            let (name, value) = match known {
                Some((_, ours, factor)) => ((*ours).to_owned(), value * factor),
                None => (["lmbench.", &slug(name)].concat(), value),
            };
            records.add(&name, BTreeMap::new(), unit, value)?;
        }
    }
    let records = records.finish();
    if records.is_empty() {
        return Ok(None);
    }
    let notes = vec![Note::new("compare.imported-single").value("tool", "lmbench")];
    let part = Part { name: "bench".into(), complete: true, results: records, ..Part::default() };
    Ok(Some(Source { run: run_of(part), notes, ..Source::default() }))
}

/// `NAME: VALUE UNIT` in ns or bytes a second.
fn figure(line: &str) -> Option<(&str, Unit, f64)> {
    let (name, rest) = line.rsplit_once(": ")?;
    let mut words = rest.split_whitespace();
    let value: f64 = words.next()?.parse().ok()?;
    let (unit, factor) = match words.next()? {
        "microseconds" => (Unit::Ns, 1e3),
        "nanoseconds" => (Unit::Ns, 1.0),
        "milliseconds" => (Unit::Ns, 1e6),
        "MB/sec" => (Unit::BytesPerSecond, 1e6),
        _ => return None,
    };
    let fits = (0.0..=VALUE_MAX).contains(&value) && words.next().is_none() && name.len() < 80;
    fits.then_some((name, unit, value * factor))
}

fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(plain).collect()
}

/// Records in the order of their first values.
#[derive(Default)]
struct Records {
    records: Vec<Record>,
    /// Where the record of a name and its parameters is.
    places: HashMap<(String, Vec<String>), usize>,
}

impl Records {
    /// Several values of one name (a results file of repeated runs) are its samples.
    fn add(
        &mut self,
        name: &str,
        params: BTreeMap<String, Param>,
        unit: Unit,
        value: f64,
    ) -> Result<(), ForeignError> {
        let next = self.records.len();
        let words = params.iter().map(|(k, v)| [k, "=", &v.to_string()].concat()).collect();
        let place = *self.places.entry((name.to_owned(), words)).or_insert(next);
        if place == RESULTS_MAX {
            return Err(ForeignError::TooManyResults { tool: "lmbench", most: RESULTS_MAX });
        }
        if place == next {
            let name = name.to_owned();
            self.records.push(Record { name, params, unit, ..Record::default() });
        }
        self.records[place].samples.push(value);
        Ok(())
    }

    fn finish(mut self) -> Vec<Record> {
        for record in &mut self.records {
            let median = latlab_stats::quantile::median(&record.samples);
            record.summary =
                Summary { count: record.samples.len() as u64, median, ..Summary::default() };
        }
        self.records
    }
}
