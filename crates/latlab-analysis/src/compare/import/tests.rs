use super::*;
use latlab_model::finding::{Note, Quantity};
use latlab_model::samples;
use latlab_model::wakeup::config::WakeupConfig;
use proptest::prelude::*;

/// As `cyclictest -q -p90 -i1000 -h 5 -S` of rt-tests 2.4 printed it, shortened.
const CYCLICTEST: &str = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000000\t000000\n000001 000002\t000000\n000002 000190\t000007\n000003 000005\t000190\n000004 000000\t000000\n# Total: 000000197 000000197\n# Min Latencies: 00001 00002\n# Avg Latencies: 00002 00003\n# Max Latencies: 00220 00004\n# Histogram Overflows: 00003 00000\n# Histogram Overflow at cycle number:\n# Thread 0: 00006 00103 00142\n# Thread 1:\n\n";

/// Counts whose sum no measurement has, in text and in JSON.
#[test]
fn counts_beyond_any_measurement_are_refused() {
    let most = u64::MAX;
    let text = format!("# Histogram\n000001 {most}\n000002 {most}\n# Total: 2\n");
    let json = format!(
        r#"{{"file_version":1,"thread":{{"0":{{"histogram":{{"1":{most},"2":{most}}},"cycles":2,"min":1,"max":2,"avg":1,"cpu":0}}}}}}"#
    );
    for file in [text, json] {
        let error = read("r", file.as_bytes()).unwrap_err().to_string();
        assert!(error.ends_with("more than 2^53 values"), "{error}");
    }
}

#[test]
fn a_histogram_of_cyclictest_keeps_what_was_over_its_end() {
    let s = read("a.txt", CYCLICTEST.as_bytes()).unwrap();
    let r = &s.run.parts[0].results[0];
    let h = r.histogram.as_ref().unwrap();
    assert_eq!((h.count, h.min, h.max), (397, 1_500, 220_500));
    let sample = &s.samples[&(0, 0)];
    assert_eq!((sample.step, sample.censored), (1_000, Some(5_500)));
    let over = Note::new("compare.over-range").value("values", Quantity::Count(3));
    assert!(s.notes.contains(&over), "{:?}", s.notes);
}

#[test]
fn tables_of_rtla_have_levels() {
    let text = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:10\nIndex   IRQ-000   Thr-000   IRQ-001   Thr-001\n0            90         0        95         0\n2            10        99         5        98\n9             0         1         0         2\nover:         0         0         0         0\ncount:      100       100       100       100\nmin:          0         2         0         2\navg:          0         2         0         2\nmax:          2         9         2         9\nALL:        IRQ       Thr\ncount:      200       200\n";
    let s = read("r", text.as_bytes()).unwrap();
    let names: Vec<&str> = s.run.parts[0].results.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["wakeup.irq", "wakeup.kernel"]);
    assert!(s.run.parts[0].results.iter().all(|r| r.summary.count == 200));
}

#[test]
fn xenomais_counts_are_one_too_many() {
    let text = "# 00:10:00 (periodic user-mode task, 1000 us period, priority 99)\n# ----lat min|----lat avg|----lat max|-overrun|---msw|\n#       0.621|      3.072|     16.133|       0|     0|\n0 1\n0.5 11\n1.5 1\n2.5 101\n3 1\n";
    let s = read("x", text.as_bytes()).unwrap();
    let r = &s.run.parts[0].results[0];
    let h = r.histogram.as_ref().unwrap();
    assert_eq!(h.count, 110);
    assert_eq!(s.samples[&(0, 0)].step, 1_000);
    assert_eq!(r.params.get("interval_us"), Some(&latlab_model::record::Param::Int(1_000)));
    // An old Xenomai writes no head.
    assert_eq!(read("x", b"0 1\n0.5 11\n1 1\n").unwrap().run.parts[0].results[0].summary.count, 10);
}

/// The last bucket of `latency -g` counts the 150 values up to 9 ms that are beyond it.
#[test]
fn the_last_bucket_of_xenomai_has_no_upper_end() {
    let file = |last: u64, max: &str| {
        format!(
            "# 00:00:20 (periodic user-mode task, 1000 us period, priority 99)\n# ----lat min|----lat avg|----lat max|-overrun|---msw|\n#      7.100|     15.250|   {max}|       0|     0|\n7 1\n7.5 6\n8.5 29\n199.5 {}\n200 1\n",
            last + 1
        )
    };
    let of = |last, max| {
        let mut s = read("x", file(last, max).as_bytes()).unwrap();
        let record = s.run.parts.remove(0).results.remove(0);
        let (summary, h) = (record.summary, record.histogram.unwrap());
        assert_eq!((h.count, h.min), (33 + last, 7_100));
        assert_eq!((summary.min, summary.mean), (Some(7_100.0), Some(15_250.0)));
        (s.samples[&(0, 0)].censored, summary.max, h.max)
    };
    assert_eq!(of(150, "9000.000"), (Some(199_000), Some(9e6), 9_000_000));
    assert_eq!(of(1, "9000.000"), (None, Some(9e6), 9_000_000));
    assert_eq!(of(150, " 199.900"), (None, Some(199_900.0), 199_900));
    // A head of other values does not count.
    let other = file(3, "   9.000");
    let s = read("x", other.as_bytes()).unwrap();
    let h = s.run.parts[0].results[0].histogram.clone().unwrap();
    assert_eq!((h.min, h.max), (7_500, 199_500));
}

/// Without a maximum in the file nothing is known of a single value beyond the last bucket.
#[test]
fn a_single_value_over_the_end_is_known_by_the_maximum_only() {
    let of = |max: &str| {
        let text = format!(
            "# Histogram\n000001 000002\n000002 000190\n# Total: 000000193\n{max}# Histogram Overflows: 00001\n"
        );
        let s = read("a.txt", text.as_bytes()).unwrap();
        (s.samples[&(0, 0)].censored, s.run.parts[0].results[0].summary.max)
    };
    assert_eq!(of("# Max Latencies: 00220\n"), (None, Some(220_500.0)));
    assert_eq!(of(""), (Some(3_500), None));
}

#[test]
fn json_of_cyclictest_and_jitterdebugger() {
    let cyclictest = r#"{"file_version": 1, "cmdline:": "cyclictest -q -i500", "rt_test_version:": "2.40", "sysinfo": {"nodename": "bb", "release": "6.1"}, "num_threads": 1, "resolution_in_ns": 0, "thread": {"0": {"histogram": {"3": 90, "4": 9}, "cycles": 100, "min": 3, "max": 77, "avg": 4.1}}}"#;
    let s = read("c", cyclictest.as_bytes()).unwrap();
    let r = &s.run.parts[0].results[0];
    assert_eq!(s.run.machine.host, "bb");
    assert_eq!((r.summary.count, r.summary.max), (100, Some(77_500.0)));
    assert_eq!(r.params.get("interval_us"), Some(&latlab_model::record::Param::Int(500)));
    let jitter = r#"{"version": 3, "sysinfo": {"nodename": "vm", "resolution_in_ns": 1000}, "cpu": {"0": {"histogram": {"15": 3, "16": 6}, "count": 9, "min": 15, "max": 16, "avg": 15.6}, "1": {"histogram": {"15": 1}, "count": 1, "min": 15, "max": 15, "avg": 15.0}}}"#;
    let s = read("j", jitter.as_bytes()).unwrap();
    assert_eq!(s.run.parts[0].results[0].summary.count, 10);
    let note = Note::new("compare.imported-histogram").value("tool", "jitterdebugger");
    assert_eq!(s.notes[0], note.value("step", Quantity::Ns(1_000.0)));
}

#[test]
fn lmbench_figures_become_ours() {
    let text = "[lmbench3.0 results for Linux]\nSimple syscall: 0.5671 microseconds\nSimple open/close: 11.5381 microseconds\nSemaphore latency: 4.0 microseconds\nPipe bandwidth: 1000.00 MB/sec\n\"size=0k ovr=1.00\n2 3.50\n8 4.10\n";
    let s = read("l", text.as_bytes()).unwrap();
    let median = |s: &Source, n: &str| {
        s.run.parts[0].results.iter().find(|r| r.name == n).unwrap().summary.median.unwrap()
    };
    let of = |n: &str| median(&s, n);
    assert!((of("syscall.getppid") - 567.1).abs() < 1e-6);
    assert!((of("ipc.sem-sysv") - 8_000.0).abs() < 1e-6);
    assert!((of("bw.pipe") - 1e9).abs() < 1.0);
    assert_eq!(s.run.parts[0].results.iter().filter(|r| r.name == "ctx.ring").count(), 2);

    // Sizes and times that no machine has are no lines of lmbench.
    let rest = "\"size=8888888888888888880k ovr=1.00\n2 3.50\n\"size=4k ovr=1.00\n2 inf\n4 1e300\n8 nan\nPipe bandwidth: 1e307 MB/sec\n";
    let s = read("l", [text, rest].concat().as_bytes()).unwrap();
    assert_eq!(s.run.parts[0].results.iter().filter(|r| r.name == "ctx.ring").count(), 2);
    assert!((median(&s, "bw.pipe") - 1e9).abs() < 1.0);

    // Repeated runs: one record, whose values are samples.
    let s =
        read("l", [text, "Pipe bandwidth: 3000.00 MB/sec\n", text].concat().as_bytes()).unwrap();
    let pipe = s.run.parts[0].results.iter().find(|r| r.name == "bw.pipe").unwrap();
    assert_eq!(pipe.samples, [1e9, 3e9, 1e9]);
    assert_eq!((pipe.summary.count, pipe.summary.median), (3, Some(1e9)));

    let rows: String = (0..20_001).map(|n| format!("{n} 3.50\n")).collect();
    let error = read("l", [text, &rows].concat().as_bytes()).unwrap_err();
    assert_eq!(error, ForeignError::TooManyResults { tool: "lmbench", most: 20_000 });
}

#[test]
fn samples_keep_their_order() {
    let mut bytes = samples::header(&WakeupConfig::default());
    samples::block(
        0,
        (0..1_000u32).map(|i| (u64::from(i) * 1_000_000, 10_000 + u64::from(i))),
        &mut bytes,
    );
    let s = read("s", &bytes).unwrap();
    let crate::compare::sample::Order::Blocks(blocks) = &s.samples[&(0, 0)].order else {
        panic!("blocks")
    };
    assert!(blocks.len() > 50 && blocks[0].max < blocks[1].min);
}

#[test]
fn what_is_damaged_is_said_with_its_line() {
    let said = |text: &str| read("x", text.as_bytes()).unwrap_err().to_string();
    assert!(said("hello").starts_with("no run of latlab"));
    assert!(said("").starts_with("no run of latlab"));
    let cut = CYCLICTEST.replace("000003 000005\t000190", "000003 0000");
    assert_eq!(
        said(&cut),
        "output of cyclictest, but damaged at line 6: a row of the histogram has another number of columns"
    );
    assert!(said(&CYCLICTEST.replace("000190", "0001x0")).contains("line 5"));
    assert!(said("{\"rt_test_version:\": \"2.4\", \"thread\": {").contains("JSON of cyclictest"));
    assert!(said("{\"thread\": {\"0\": {\"histogram\": {\"3\": -1}}}}").contains("is not a count"));
    assert!(said("{\"thread\": {\"0\": {\"histogram\": {}}}}").contains("empty"));
    let empty = "# Histogram\n000000 000000\n# Total: 000000000\n# Max Latencies: 00000\n";
    assert!(said(empty).contains("its histogram is empty"));
    assert!(said("# RTLA timerlat histogram\n").contains("empty"));
}

proptest! {
    #[test]
    fn no_file_ends_the_program(at in 0usize..600, with: u8, cut in 0usize..700) {
        let mut bytes = CYCLICTEST.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = with;
        bytes.truncate(cut.max(1));
        let _ = read("x", &bytes);
    }

    #[test]
    fn no_text_ends_the_program(text in "[#0-9a-zA-Z:{}\" \t\n.|-]{0,300}") {
        let _ = read("x", text.as_bytes());
        let _ = read("x", format!("# RTLA timerlat histogram\nIndex IRQ-0\n{text}").as_bytes());
        let _ = read("x", format!("# ----lat min\n{text}").as_bytes());
    }
}
