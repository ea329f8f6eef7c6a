//! What latlab writes in the formats of other tools, `latlab compare` reads back as those tools' own.

use super::{cyclictest, lmbench, rtla, xenomai};
use latlab_analysis::compare::import;
use latlab_analysis::compare::subject::Source;
use latlab_model::bench::{BenchDetail, BenchRow};
use latlab_model::finding::{Note, Quantity};
use latlab_model::record::{Param, Record, Unit};
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::WakeupConfig;
use latlab_model::wakeup::result::{ThreadResult, UsHistogram, WakeupResult};
use latlab_stats::estimate::Estimate;
use latlab_stats::histogram::Histogram;
use latlab_stats::rng::SplitMix64;

/// Where the histograms end, µs.
const LIMIT: u32 = 60;

/// One thread that was late by these times.
fn thread(index: usize, values: &[u64]) -> ThreadResult {
    let mut us = UsHistogram { limit: LIMIT, unit_ns: 1_000, ..UsHistogram::default() };
    let mut counts = [0; LIMIT as usize];
    for (n, v) in values.iter().enumerate() {
        match counts.get_mut((v / 1_000) as usize) {
            Some(count) => *count += 1,
            None => {
                us.overflows += 1;
                us.overflow_cycles.push(n as u64);
            }
        }
    }
    us.buckets = (0..LIMIT).zip(counts).filter(|(_, n)| *n > 0).collect();
    ThreadResult {
        index,
        tid: 40,
        cpu: Some(CpuId(index as u32)),
        priority: 90,
        interval_ns: 1_000_000,
        wakeups: values.len() as u64,
        latency: Histogram::of(values.iter().copied()),
        us_histogram: Some(us),
        ..ThreadResult::default()
    }
}

/// Two threads, each over the end twice.
fn measured() -> (WakeupResult, Vec<u64>) {
    let mut rng = SplitMix64::new(9);
    let (mut all, mut threads) = (Vec::new(), Vec::new());
    for index in 0..2 {
        let mut values: Vec<u64> =
            (0..5_000).map(|_| 4_000 + rng.next_u64() % 9_000 * (1 + index as u64)).collect();
        values.extend([180_300, 251_900]);
        threads.push(thread(index, &values));
        all.extend(values);
    }
    (WakeupResult { threads, duration_ns: 5_002_000_000, ..WakeupResult::default() }, all)
}

fn read(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Source {
    let mut bytes = Vec::new();
    write(&mut bytes).unwrap();
    import::read("x", &bytes).unwrap()
}

/// The same wake-ups in the same microseconds; of what was beyond the end, how many and the largest.
fn is_the_same(source: &Source, values: &[u64]) {
    let [record] = &source.run.parts[0].results[..] else { panic!("one record") };
    let h = record.histogram.as_ref().unwrap();
    assert_eq!((record.name.as_str(), record.unit), ("wakeup.user", Unit::Ns));
    assert_eq!((h.count, h.min / 1_000, h.max / 1_000), (values.len() as u64, 4, 251));
    // Up to the last microsecond with anything in it: beyond it not every format says where it ends.
    for us in 0..22 {
        let read: u64 = h.buckets.iter().filter(|b| b.0 / 1_000 == us).map(|b| b.1).sum();
        assert_eq!(read, values.iter().filter(|v| **v / 1_000 == us).count() as u64, "{us} µs");
    }
    let over = Note::new("compare.over-range").value("values", Quantity::Count(4));
    assert!(source.notes.contains(&over), "{:?}", source.notes);
}

#[test]
fn the_histogram_of_cyclictest() {
    let (result, values) = measured();
    for total in [false, true] {
        let options = cyclictest::Options { total, ..cyclictest::Options::default() };
        is_the_same(&read(|out| cyclictest::end(&result, &options, out)), &values);
    }
}

#[test]
fn the_json_of_cyclictest() {
    let (result, values) = measured();
    let machine = latlab_model::machine::Machine { host: "bb".into(), ..Default::default() };
    let wrapper = cyclictest::Wrapper {
        command_line: "latlab wakeup -h 60 -i 1000",
        version: "1",
        start: "then",
        end: "later",
        return_code: 0,
        machine: &machine,
        nanoseconds: false,
    };
    let source = read(|out| cyclictest::json(&result, &wrapper, out));
    is_the_same(&source, &values);
    assert_eq!(source.run.machine.host, "bb");
}

#[test]
fn the_table_of_rtla() {
    let (result, values) = measured();
    is_the_same(&read(|out| rtla::histogram(&result, out)), &values);
}

#[test]
fn the_lines_of_xenomai() {
    let second = |min_ns, avg_ns, max_ns| xenomai::Second {
        min_ns,
        avg_ns,
        max_ns,
        overruns: 0,
        best_ns: 4_000,
        worst_ns: 251_900,
    };
    let seconds = [second(4_000, 9_000, 180_300), second(4_100, 9_500, 251_900)];
    let (result, _) = measured();
    let source = read(|out| {
        let config = WakeupConfig { interval_ns: 500_000, ..WakeupConfig::default() };
        xenomai::head(&config, out)?;
        xenomai::columns(&config, 1, out)?;
        seconds.iter().try_for_each(|s| xenomai::data(s, out))?;
        xenomai::end(&result, out)
    });
    let records = &source.run.parts[0].results;
    let names: Vec<&str> = records.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["wakeup.user.mean-each-second", "wakeup.user.worst-each-second"]);
    assert_eq!(records[0].samples, [9_000.0, 9_500.0]);
    assert_eq!(records[1].samples, [180_300.0, 251_900.0]);
    assert_eq!(records[1].params.get("interval_us"), Some(&Param::Int(500)));
    // The last line alone, as it is written without a live display.
    let source = read(|out| xenomai::end(&result, out));
    let records = &source.run.parts[0].results;
    assert_eq!(records.len(), 2);
    assert_eq!(
        (records[1].name.as_str(), &records[1].samples[..]),
        ("wakeup.user.worst", &[251_900.0][..])
    );
}

#[test]
fn the_histogram_of_xenomai() {
    let (mut result, values) = measured();
    result.config.interval_ns = 500_000;
    let mut text = Vec::new();
    xenomai::plot(&result, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.starts_with("# 00:00:05 (periodic user-mode task, 500 us period, priority "),
        "{text}"
    );
    assert!(
        text.contains("\n4 1\n4.5 ") && text.ends_with("\n250.5 1\n251.5 3\n252 1\n"),
        "{text}"
    );
    let source = import::read("x", text.as_bytes()).unwrap();
    let [record] = &source.run.parts[0].results[..] else { panic!("one record") };
    let h = record.histogram.as_ref().unwrap();
    assert_eq!((record.name.as_str(), h.count), ("wakeup.user", values.len() as u64));
    assert_eq!(record.params.get("interval_us"), Some(&Param::Int(500)));
    // A bucket of the histogram may begin before a microsecond and end in it: 16 ns at 21 µs.
    for (us, moved) in [(4, 0), (12, 0), (21, 6), (180, 0), (251, 0)] {
        let read: u64 = h.buckets.iter().filter(|b| b.0 / 1_000 == us).map(|b| b.1).sum();
        let written = values.iter().filter(|v| **v / 1_000 == us).count() as u64;
        assert!(read.abs_diff(written) <= moved, "{us} µs: {read} of {written}");
    }
    let mut none = Vec::new();
    xenomai::plot(&WakeupResult::default(), &mut none).unwrap();
    assert_eq!(none.iter().filter(|c| **c == b'\n').count(), 3, "only the head");
}

#[test]
fn the_lines_of_lmbench() {
    let row = |name: &str, params: &[(&str, &str)], median: f64, unit| BenchRow {
        name: name.into(),
        params: params.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        unit,
        estimate: Estimate { median, ..Estimate::default() },
        overhead_ns: Some(700.0),
        ..BenchRow::default()
    };
    let names = lmbench::names();
    let mut rows: Vec<BenchRow> = (names.iter().enumerate())
        .map(|(i, name)| row(name, &[], 1_600.0 * (1 + i) as f64, Unit::Ns))
        .collect();
    rows.extend(["bw.pipe", "bw.unix"].map(|name| row(name, &[], 2e9, Unit::BytesPerSecond)));
    for procs in ["2", "8"] {
        rows.push(row("ctx.ring", &[("procs", procs), ("size", "4096")], 2_500.0, Unit::Ns));
    }
    let detail = BenchDetail { rows, ..BenchDetail::default() };
    let source = read(|out| lmbench::write(&detail, out));
    let records = &source.run.parts[0].results;
    assert_eq!(records.len(), detail.rows.len(), "{records:?}");
    for row in &detail.rows {
        let param = |r: &Record, k: &str| match r.params.get(k) {
            Some(Param::Int(n)) => n.to_string(),
            _ => String::new(),
        };
        let same =
            |r: &&Record| r.name == row.name && row.params.iter().all(|(k, v)| param(r, k) == *v);
        let back = records.iter().find(same).unwrap_or_else(|| panic!("{} is lost", row.name));
        let (was, is) = (row.estimate.median, back.summary.median.unwrap());
        assert!((is / was - 1.0).abs() < 1e-3, "{}: {was} became {is}", row.name);
        assert_eq!(back.unit, row.unit);
    }
}
