//! JSON of cyclictest (`--json`) and of jitterdebugger: histograms keyed by latency, one a thread or CPU.

use super::error::{ForeignError, JsonDamage};
use super::histogram::{Column, Table, source};
use crate::compare::subject::Source;
use latlab_model::machine::Machine;
use serde_json::{Map, Value};

pub fn read(text: &str) -> Result<Source, ForeignError> {
    let value: Value = serde_json::from_str(text).map_err(|e| {
        let tool = if text.contains("\"rt_test_version") { "cyclictest" } else { "some tool" };
        ForeignError::Json { tool, what: JsonDamage::Syntax(e.to_string()) }
    })?;
    let root = value.as_object().ok_or(ForeignError::Unknown)?;
    match (root.get("thread"), root.get("cpu")) {
        (Some(Value::Object(threads)), _) => {
            let ns = root.get("resolution_in_ns").and_then(Value::as_u64) == Some(1);
            table("cyclictest", threads, if ns { 1 } else { 1_000 }, root)
        }
        (_, Some(Value::Object(cpus))) => {
            let step = root.get("sysinfo").and_then(|s| s.get("resolution_in_ns"));
            let step = step.and_then(Value::as_u64).filter(|s| *s > 0).unwrap_or(1_000);
            table("jitterdebugger", cpus, step, root)
        }
        _ => Err(ForeignError::Unknown),
    }
}

fn table(
    tool: &'static str,
    threads: &Map<String, Value>,
    step: u64,
    root: &Map<String, Value>,
) -> Result<Source, ForeignError> {
    let mut columns = Vec::new();
    for (name, thread) in threads {
        columns.push(column(tool, name, thread)?);
    }
    let interval_us = root.get("cmdline:").and_then(Value::as_str).and_then(interval);
    let table =
        Table { tool, name: "wakeup.user".into(), step, columns, interval_us, ..Table::default() };
    let mut source = source(&[table])?;
    source.run.machine = machine(root.get("sysinfo"));
    if let Some(start) = root.get("start_time").and_then(Value::as_str) {
        source.run.started = start.to_owned();
    }
    Ok(source)
}

fn column(tool: &'static str, name: &str, thread: &Value) -> Result<Column, ForeignError> {
    let bad = |what| ForeignError::Json { tool, what };
    let own = || name.to_owned();
    let histogram = thread.get("histogram").and_then(Value::as_object);
    let histogram = histogram.ok_or_else(|| bad(JsonDamage::NoHistogram { thread: own() }))?;
    let mut buckets = Vec::with_capacity(histogram.len());
    for (key, n) in histogram {
        let pair = key.parse::<u64>().ok().zip(n.as_u64());
        let damage = || JsonDamage::Bucket { key: key.clone(), thread: own() };
        buckets.push(pair.ok_or_else(|| bad(damage()))?);
    }
    buckets.sort_unstable();
    let number = |key: &str| thread.get(key).and_then(Value::as_u64);
    let counted = buckets.iter().map(|b| b.1).fold(0u64, u64::saturating_add);
    // Values that are in no bucket were over the end of the histogram.
    let cycles = number("cycles").or_else(|| number("count")).unwrap_or(counted);
    let (min, max) = (number("min"), number("max"));
    let last = buckets.last().map_or(0, |b| b.0);
    let over = if max.is_some_and(|m| m > last) { cycles.saturating_sub(counted) } else { 0 };
    Ok(Column { buckets, over, min, max, head: None })
}

/// The period in a command line: `-i 500`, `-i500`, `--interval=500`.
fn interval(command: &str) -> Option<u64> {
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        if word == "-i" || word == "--interval" {
            return words.next()?.parse().ok();
        }
        let of = |prefix| word.strip_prefix(prefix).and_then(|w: &str| w.parse().ok());
        if let Some(us) = of("--interval=").or_else(|| of("-i")) {
            return Some(us);
        }
    }
    None
}

fn machine(info: Option<&Value>) -> Machine {
    let text = |key: &str| {
        info.and_then(|i| i.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut machine =
        Machine { host: text("nodename"), arch: text("machine"), ..Machine::default() };
    machine.kernel.release = text("release");
    machine.kernel.version = text("version");
    machine
}
