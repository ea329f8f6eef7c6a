//! Recording from the running kernel. Skipped, with the reason, where there is no root or no
//! tracefs; fails instead when `CI` is set.

#![expect(clippy::print_stdout, reason = "a test says why it skips")]

use latlab_sys::recorder::{EventSpec, FlightRecorder, Format, RecordConfig, Recorder};
use latlab_sys::tracefs::Tracefs;
use latlab_trace::write::Compression;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn tracefs() -> Option<Tracefs> {
    match Tracefs::find() {
        Ok(found) => Some(found.tracefs),
        Err(e) if std::env::var_os("CI").is_some() => panic!("no tracefs: {e}"),
        Err(e) => {
            println!("skipped: {e}");
            None
        }
    }
}

fn has_trace_cmd() -> bool {
    let there = Command::new("trace-cmd").arg("--help").output().is_ok();
    assert!(there || std::env::var_os("CI").is_none(), "trace-cmd is not installed");
    if !there {
        println!("skipped: trace-cmd is not installed");
    }
    there
}

/// Lines of `trace-cmd report` that are events, and those that say some were lost.
fn trace_cmd_counts(path: &Path) -> (u64, u64) {
    let output = Command::new("trace-cmd").args(["report", "-i"]).arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let events = text.lines().filter(|l| l.contains("sched_") && l.contains(": ")).count();
    let lost = text.lines().filter(|l| l.contains("EVENTS DROPPED")).count();
    assert!(!text.contains("UNKNOWN EVENT"), "{text}");
    (events as u64, lost as u64)
}

fn config() -> RecordConfig {
    RecordConfig { events: vec![EventSpec::new("sched")], ..RecordConfig::default() }
}

/// Makes the scheduler switch.
fn some_switches() {
    for _ in 0..200 {
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn every_format_is_read_by_trace_cmd_with_the_kernels_own_count() {
    let Some(tracefs) = tracefs() else { return };
    if !has_trace_cmd() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let formats = [
        Format { v6: true, ..Format::default() },
        Format { compression: Compression::None, ..Format::default() },
        Format { compression: Compression::Zlib, ..Format::default() },
        Format { compression: Compression::Zstd, ..Format::default() },
    ];
    for (n, format) in formats.into_iter().enumerate() {
        let path = dir.path().join(format!("{n}.dat"));
        let recorder = Recorder::start(&tracefs, &config(), &path, format).unwrap();
        some_switches();
        let instance = recorder.session().control().dir().to_owned();
        let summary = recorder.stop().unwrap();
        assert!(!instance.exists(), "the instance is removed");
        assert_eq!(summary.failures, [""; 0]);
        assert!(summary.events() >= 200, "{summary:?}");
        // trace-cmd 3.1.6 is built without zlib on some distributions.
        if format.v6 || format.compression != Compression::Zlib {
            assert_eq!(trace_cmd_counts(&path), (summary.events(), 0), "{format:?}");
        }
        let bytes = std::fs::read(&path).unwrap();
        let file = latlab_trace::TraceFile::parse(&bytes).unwrap();
        let mut events = file.events();
        let mut count = 0;
        while events.next().is_some() {
            count += 1;
        }
        assert_eq!(count, summary.events(), "{format:?}: our own reader");
        assert!(file.diagnostics.is_empty(), "{:?}", file.diagnostics);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), n + 1, "nothing is left over");
    }
}

#[test]
fn a_live_file_is_a_trace_at_every_moment() {
    let Some(tracefs) = tracefs() else { return };
    if !has_trace_cmd() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.dat");
    let recorder = Recorder::start(&tracefs, &config(), &path, Format::default()).unwrap();
    // Longer than the reader's interval of a second: whole pages have been moved by then.
    let end = std::time::Instant::now() + Duration::from_millis(1500);
    while std::time::Instant::now() < end {
        some_switches();
    }
    let copy = dir.path().join("copy.dat");
    let copied = Command::new("cp").arg("--sparse=always").args([&path, &copy]).status().unwrap();
    assert!(copied.success());
    let (events, _) = trace_cmd_counts(&copy);
    assert!(events > 0, "what was flushed can be read while recording goes on");
    let summary = recorder.stop().unwrap();
    assert!(trace_cmd_counts(&path).0 == summary.events() && events <= summary.events());
}

/// A page is read while it is being written to when events are rare. What comes then, in any number,
/// is neither lost nor counted twice nor moved in time.
#[test]
fn events_that_are_rare_and_then_many_are_all_there_in_order() {
    let Some(tracefs) = tracefs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.dat");
    let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let config = RecordConfig {
        events: vec![EventSpec::new("syscalls:sys_enter_getppid")],
        pids: vec![tid],
        ..RecordConfig::default()
    };
    let pause = Duration::from_millis(1300);
    let recorder = Recorder::start(&tracefs, &config, &path, Format::default()).unwrap();
    let groups = [3, 2, 30_000, 1];
    for (n, calls) in groups.into_iter().enumerate() {
        for _ in 0..calls {
            let _ = rustix::process::getppid();
        }
        if n < groups.len() - 1 {
            std::thread::sleep(pause);
        }
    }
    let summary = recorder.stop().unwrap();
    assert_eq!((summary.events(), summary.lost()), (30_006, 0), "{summary:?}");
    let bytes = std::fs::read(&path).unwrap();
    let file = latlab_trace::TraceFile::parse(&bytes).unwrap();
    let mut events = file.events();
    let mut times = Vec::new();
    while let Some(event) = events.next() {
        times.push(event.time);
    }
    assert!(file.diagnostics.is_empty(), "{:?}", file.diagnostics);
    assert_eq!(times.len(), 30_006);
    assert!(times.is_sorted());
    for last in [2, 4, 30_004] {
        assert!(times[last + 1] - times[last] >= 1_300_000_000, "{last}");
    }
}

#[test]
fn a_flight_recorder_keeps_the_last_and_can_be_armed_again() {
    let Some(tracefs) = tracefs() else { return };
    if !has_trace_cmd() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flight.dat");
    let config = RecordConfig { buffer_kb: Some(1024), ..config() };
    let mut flight = FlightRecorder::start(&tracefs, &config).unwrap();
    for round in 0..2 {
        some_switches();
        let mark = format!("round {round}");
        flight.marker().unwrap().write(mark.as_bytes()).unwrap();
        flight.trace_stopper().unwrap().stop().unwrap();
        assert!(!flight.is_on());
        let snapshot = flight.snapshot().unwrap();
        assert!(snapshot.events() > 200, "{:?}", snapshot.cpus);
        snapshot.save(&path, Format::default()).unwrap();
        let text = Command::new("trace-cmd").args(["report", "-i"]).arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert!(text.contains(&mark), "the mark is in it");
        assert_eq!(text.contains("round 0"), round == 0, "rearm() empties the buffer");
        flight.rearm().unwrap();
        assert!(flight.is_on());
    }
}

#[test]
fn bad_settings_are_told_in_the_kernels_words() {
    let Some(tracefs) = tracefs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let error = |config: RecordConfig| {
        Recorder::prepare(&tracefs, &config, &dir.path().join("x.dat"), Format::default())
            .unwrap_err()
            .to_string()
    };
    let with = |pattern: &str, filter: Option<&str>, trigger: Option<&str>| RecordConfig {
        events: vec![EventSpec {
            pattern: pattern.into(),
            filter: filter.map(Into::into),
            triggers: trigger.iter().map(|t| (*t).to_owned()).collect(),
        }],
        ..RecordConfig::default()
    };
    let text = error(with("sched_swich", None, None));
    assert!(text.contains("nearest: sched_switch"), "{text}");
    let text = error(with("sched:sched_switch", Some("prev_prioo < 3"), None));
    assert!(text.contains("sched:sched_switch") && text.contains("Field not found"), "{text}");
    let text = error(with("sched:sched_switch", None, Some("explode")));
    assert!(text.contains("the trigger \"explode\""), "{text}");
    let text = error(RecordConfig { cpus: Some([4095].into()), ..config() });
    assert!(text.starts_with("there is no CPU 4095; this machine has 0"), "{text}");
    let text = error(RecordConfig { clock: Some("sundial".into()), ..config() });
    assert!(text.contains("mono"), "{text}");
    let text = error(RecordConfig { tracer: Some("functoin".into()), ..config() });
    assert!(text.starts_with("this kernel has no tracer \"functoin\""), "{text}");
}
