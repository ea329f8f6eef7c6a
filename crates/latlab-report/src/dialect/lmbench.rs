//! Lines shaped like those of lmbench's programs, for scripts that read them.
//!
//! The shape is lmbench's; the figures are ours, and are no results of lmbench.
//! Where its conventions differ they are followed, so that a reader of such
//! lines is not misled: a semaphore's figure is one way, a page fault's is per
//! page of the 64 KiB that a fault maps, MB are 10⁶ bytes, `k` is 1024.
//! What lmbench has no line for is left out.

use latlab_model::bench::{BenchDetail, BenchRow};
use latlab_model::csv::cell;
use std::io::{self, Write};

/// Pages that one fault on a cached file maps (fault_around_bytes, 64 KiB).
const PAGES_A_FAULT: f64 = 16.0;

/// Figures that are a name and microseconds: record, what lmbench writes, divisor.
const MICROSECONDS: &[(&str, &str, f64)] = &[
    ("syscall.getppid", "Simple syscall", 1.0),
    ("syscall.read", "Simple read", 1.0),
    ("syscall.write", "Simple write", 1.0),
    ("syscall.stat", "Simple stat", 1.0),
    ("syscall.fstat", "Simple fstat", 1.0),
    ("syscall.open-close", "Simple open/close", 1.0),
    ("signal.install", "Signal handler installation", 1.0),
    ("signal.catch", "Signal handler overhead", 1.0),
    ("signal.fault", "Protection fault", 1.0),
    ("ipc.pipe", "Pipe latency", 1.0),
    ("ipc.fifo", "Fifo latency", 1.0),
    ("ipc.unix-stream", "AF_UNIX sock stream latency", 1.0),
    ("ipc.sem-sysv", "Semaphore latency", 2.0),
    ("ipc.tcp", "TCP latency using localhost", 1.0),
    ("ipc.udp", "UDP latency using localhost", 1.0),
    ("ipc.tcp-connect", "TCP/IP connection cost to localhost", 1.0),
    ("ipc.unix-connect", "UNIX connection cost", 1.0),
    ("process.call", "Procedure call", 1.0),
    ("process.fork-exit", "Process fork+exit", 1.0),
    ("process.fork-exec", "Process fork+execve", 1.0),
    ("process.shell", "Process fork+/bin/sh -c", 1.0),
    ("memory.page-fault-file", "Pagefaults on cached", PAGES_A_FAULT),
];

/// Latencies of instructions: record, what lmbench writes.
const NANOSECONDS: &[(&str, &str)] = &[
    ("arith.int-add", "integer add"),
    ("arith.int-mul", "integer mul"),
    ("arith.int-div", "integer div"),
    ("arith.int-mod", "integer mod"),
    ("arith.int64-div", "int64 div"),
    ("arith.float-add", "float add"),
    ("arith.float-mul", "float mul"),
    ("arith.float-div", "float div"),
    ("arith.double-add", "double add"),
    ("arith.double-mul", "double mul"),
    ("arith.double-div", "double div"),
];

/// Writes every row that lmbench has a line for.
///
/// # Errors
/// The writer's.
pub fn write(detail: &BenchDetail, out: &mut dyn Write) -> io::Result<()> {
    for row in &detail.rows {
        match row.name.as_str() {
            "ctx.ring" | "fs.create" | "fs.delete" => {}
            _ => line(row, out)?,
        }
    }
    rings(detail, out)?;
    files(detail, out)
}

/// Records without parameters that have a line of their own.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    MICROSECONDS.iter().map(|m| m.0).chain(NANOSECONDS.iter().map(|n| n.0)).collect()
}

fn param<'a>(row: &'a BenchRow, key: &str) -> &'a str {
    row.params.get(key).map_or("", String::as_str)
}

fn number(row: &BenchRow, key: &str) -> f64 {
    param(row, key).parse().unwrap_or(0.0)
}

fn line(row: &BenchRow, out: &mut dyn Write) -> io::Result<()> {
    let value = row.estimate.median;
    if let Some((_, words, divisor)) = MICROSECONDS.iter().find(|(n, ..)| *n == row.name) {
        return writeln!(out, "{words}: {:.4} microseconds", value / divisor / 1e3);
    }
    let latency = matches!(param(row, "mode"), "latency" | "");
    if let Some((_, words)) = NANOSECONDS.iter().find(|(n, _)| *n == row.name).filter(|_| latency) {
        return writeln!(out, "{words}: {value:.2} nanoseconds");
    }
    let megabytes = value / 1e6;
    let size = number(row, "size") / 1e6;
    match row.name.as_str() {
        "syscall.select" => {
            let kind = if param(row, "kind") == "tcp" { "tcp " } else { "" };
            let fds = param(row, "fds");
            writeln!(out, "Select on {fds} {kind}fd's: {:.4} microseconds", value / 1e3)
        }
        "memory.mmap" => {
            let us = value / 1e3;
            let digits = if us < 10.0 { 3 } else { 0 };
            writeln!(out, "{size:.6} {us:.digits$}")
        }
        "bw.pipe" => writeln!(out, "Pipe bandwidth: {megabytes:.2} MB/sec"),
        "bw.unix" => writeln!(out, "AF_UNIX sock stream bandwidth: {megabytes:.2} MB/sec"),
        "bw.tcp" => writeln!(out, "0.065536 {megabytes:.2} MB/sec"),
        "cpu.clock" => writeln!(out, "{megabytes:.0} MHz, {:.4} nanosec clock", 1e9 / value),
        n if n.starts_with("stream.") => stream(row, out),
        // Streaming stores have no counterpart there.
        n if n.starts_with("bw.") && !n.starts_with("bw.stream-store") => {
            let digits = if size < 1.0 { 6 } else { 2 };
            writeln!(out, "{size:.digits$} {megabytes:.2}")
        }
        _ => Ok(()),
    }
}

fn stream(row: &BenchRow, out: &mut dyn Write) -> io::Result<()> {
    let kernel = row.name.trim_start_matches("stream.");
    let bytes = if matches!(kernel, "add" | "triad") { 24.0 } else { 16.0 };
    let rate = row.estimate.median;
    writeln!(out, "STREAM {kernel} latency: {:.2} nanoseconds", bytes * 1e9 / rate)?;
    writeln!(out, "STREAM {kernel} bandwidth: {:.2} MB/sec", rate / 1e6)
}

/// One block for each working set: a head with the overhead, then processes and µs a switch.
fn rings(detail: &BenchDetail, out: &mut dyn Write) -> io::Result<()> {
    let rings: Vec<&BenchRow> = detail.rows.iter().filter(|r| r.name == "ctx.ring").collect();
    let mut blocks: Vec<(&str, &str, &str)> = Vec::new();
    let key = |r: &&BenchRow| -> (String, String, String) {
        (param(r, "size").into(), param(r, "pages").into(), param(r, "place").into())
    };
    for row in &rings {
        let block = (param(row, "size"), param(row, "pages"), param(row, "place"));
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    for (size, pages, place) in blocks {
        let of = |r: &&&BenchRow| key(r) == (size.into(), pages.into(), place.into());
        let first = rings.iter().find(of);
        let overhead = first.and_then(|r| r.overhead_ns).unwrap_or(0.0) / 1e3;
        let kib = size.parse::<f64>().unwrap_or(0.0) / 1024.0;
        writeln!(out, "\n\"size={kib:.0}k ovr={overhead:.2}")?;
        for row in rings.iter().filter(of).filter(|r| r.estimate.median > 0.0) {
            writeln!(out, "{} {:.2}", param(row, "procs"), row.estimate.median / 1e3)?;
        }
    }
    Ok(())
}

/// Size, number of files, made a second, removed a second.
fn files(detail: &BenchDetail, out: &mut dyn Write) -> io::Result<()> {
    for create in detail.rows.iter().filter(|r| r.name == "fs.create") {
        let same = |r: &&BenchRow| r.name == "fs.delete" && r.params == create.params;
        if let Some(delete) = detail.rows.iter().find(same) {
            let rate = |r: &BenchRow| 1e9 / r.estimate.median;
            let kib = number(create, "size") / 1024.0;
            let (made, removed) = (rate(create), rate(delete));
            let files = create.estimate.batches * create.batch;
            writeln!(out, "{kib:.0}k\t{files}\t{made:.0}\t{removed:.0}")?;
        }
    }
    Ok(())
}

/// One line a figure, for spreadsheets.
///
/// # Errors
/// The writer's.
pub fn csv(detail: &BenchDetail, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "name,params,unit,median,low,high,is_95,min,max,mad,noise_floor,processes,batches,raw_ns,overhead_ns,switches,selection,disturbed,median_of_all,fast_median,slow_median"
    )?;
    let some = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    for row in &detail.rows {
        let e = &row.estimate;
        let params: Vec<String> = row.params.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let params = params.join(" ");
        let unit = serde_json::to_value(row.unit).unwrap_or_default();
        let selection = serde_json::to_value(row.selection).unwrap_or_default();
        let state = |i: usize| row.states.get(i).and_then(|s| s.median);
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            cell(&row.name),
            cell(&params),
            unit.as_str().unwrap_or(""),
            e.median,
            e.low,
            e.high,
            e.interval_is_95,
            e.min,
            e.max,
            e.mad,
            some(e.noise_floor),
            e.processes,
            e.batches,
            some(row.raw_ns),
            some(row.overhead_ns),
            some(row.switches),
            selection.as_str().unwrap_or(""),
            row.disturbed,
            some(row.median_of_all),
            some(state(0)),
            some(state(1))
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_stats::estimate::Estimate;

    fn row(name: &str, params: &[(&str, &str)], median: f64) -> BenchRow {
        BenchRow {
            name: name.into(),
            params: params.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            estimate: Estimate { median, ..Estimate::default() },
            overhead_ns: Some(700.0),
            ..BenchRow::default()
        }
    }

    fn lines(rows: Vec<BenchRow>) -> String {
        let mut out = Vec::new();
        write(&BenchDetail { rows, ..BenchDetail::default() }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_have_the_shape_that_scripts_expect() {
        assert_eq!(
            lines(vec![row("syscall.getppid", &[], 51.6)]),
            "Simple syscall: 0.0516 microseconds\n"
        );
        assert_eq!(
            lines(vec![row("syscall.select", &[("fds", "100"), ("kind", "tcp")], 5656.9)]),
            "Select on 100 tcp fd's: 5.6569 microseconds\n"
        );
        assert_eq!(
            lines(vec![row("bw.memcpy", &[("size", "67108864")], 32_225_140_000.0)]),
            "67.11 32225.14\n"
        );
        assert_eq!(lines(vec![row("cpu.clock", &[], 3.67e9)]), "3670 MHz, 0.2725 nanosec clock\n");
    }

    #[test]
    fn csv_says_which_batches_a_median_is_from() {
        use latlab_model::bench::Selection;
        let mut r = row("syscall.read", &[], 200.0);
        (r.selection, r.disturbed, r.median_of_all) = (Selection::FewUndisturbed, 40, Some(230.0));
        let mut out = Vec::new();
        csv(&BenchDetail { rows: vec![r], ..BenchDetail::default() }, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let (head, line) = out.trim_end().split_once('\n').unwrap();
        assert!(head.ends_with(",selection,disturbed,median_of_all,fast_median,slow_median"));
        assert!(line.ends_with(",few-undisturbed,40,230,,"), "{line}");
        assert_eq!(head.split(',').count(), line.split(',').count());
    }

    #[test]
    fn no_text_in_csv_is_a_formula() {
        let r = row("=1+1", &[("path", "a,\"b\"")], 200.0);
        let mut out = Vec::new();
        csv(&BenchDetail { rows: vec![r], ..BenchDetail::default() }, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("\n\"'=1+1\",\"path=a,\"\"b\"\"\","), "{out}");
    }

    #[test]
    fn a_semaphore_is_one_way_there() {
        let line = lines(vec![row("ipc.sem-sysv", &[], 3731.8)]);
        assert_eq!(line, "Semaphore latency: 1.8659 microseconds\n");
    }

    #[test]
    fn rings_are_blocks() {
        let ring = |procs: &str, ns| {
            row("ctx.ring", &[("procs", procs), ("size", "2048"), ("place", "same")], ns)
        };
        assert_eq!(
            lines(vec![ring("2", 20_700.0), ring("8", 21_000.0)]),
            "\n\"size=2k ovr=0.70\n2 20.70\n8 21.00\n"
        );
    }
}
