//! cyclictest's output, as rt-tests 2.4 prints it: live and final lines, histogram, JSON.
//!
//! The figures are per wake-up, as cyclictest's are. Where it truncates a
//! negative or sub-microsecond remainder we truncate the nanoseconds.

use latlab_model::machine::Machine;
use latlab_model::wakeup::result::{StopReason, ThreadResult, UsHistogram, WakeupResult};
use latlab_stats::total::Total;
use std::io::{self, Write};

/// One thread's figures, so far or at the end; times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Index.
    pub index: usize,
    /// Thread id.
    pub tid: i32,
    /// Static priority.
    pub priority: u32,
    /// Period.
    pub interval_ns: u64,
    /// Wake-ups.
    pub cycles: u64,
    /// Smallest latency.
    pub min_ns: u64,
    /// Last latency.
    pub act_ns: u64,
    /// Mean latency.
    pub avg_ns: u64,
    /// Largest latency.
    pub max_ns: u64,
}

impl From<&ThreadResult> for Line {
    fn from(t: &ThreadResult) -> Self {
        Self {
            index: t.index,
            tid: t.tid,
            priority: t.priority,
            interval_ns: t.interval_ns,
            cycles: t.wakeups,
            min_ns: t.latency.min,
            act_ns: t.last_ns,
            avg_ns: t.latency.mean().unwrap_or(0.0) as u64,
            max_ns: t.latency.max,
        }
    }
}

/// A `T:` line; figures in µs, or in ns as with `-N`.
///
/// # Errors
/// The writer's.
pub fn line(l: &Line, nanoseconds: bool, out: &mut impl Write) -> io::Result<()> {
    let unit = if nanoseconds { 1 } else { 1_000 };
    // Before the first wake-up cyclictest shows a minimum of one second.
    let min = if l.cycles == 0 { 1_000_000 } else { l.min_ns / unit };
    let width = if nanoseconds { 8 } else { 5 };
    writeln!(
        out,
        "T:{:2} ({:5}) P:{:2} I:{} C:{:7} Min:{:7} Act:{:width$} Avg:{:width$} Max:{:8}",
        l.index,
        l.tid,
        l.priority,
        l.interval_ns / 1_000,
        l.cycles,
        min,
        l.act_ns / unit,
        l.avg_ns / unit,
        l.max_ns / unit,
    )
}

/// The head of the live display: policy and the line of `/proc/loadavg`.
///
/// # Errors
/// The writer's.
pub fn live_head(policy: &str, loadavg: &str, out: &mut impl Write) -> io::Result<()> {
    write!(out, "policy: {policy}: loadavg: {}          \n\n", loadavg.trim_end())
}

/// Takes the cursor back over the live display of `threads` threads, so that the next overwrites it.
///
/// # Errors
/// The writer's.
pub fn live_back(threads: usize, out: &mut impl Write) -> io::Result<()> {
    write!(out, "\x1b[{}A", threads + 2)
}

/// What is printed at the end: the lines with `-q`, the histogram with `-h`, what broke it with `-b`.
/// `lines` are wanted when the live display did not leave them there.
///
/// # Errors
/// The writer's.
pub fn end(result: &WakeupResult, options: &Options, out: &mut impl Write) -> io::Result<()> {
    let printed = !options.histogram_file && histogram(result, options, out)?;
    if options.lines && !printed {
        result.threads.iter().try_for_each(|t| line(&t.into(), options.nanoseconds, out))?;
    }
    if let Some(StopReason::BreakValue { thread, latency_ns, .. }) = &result.stopped_by {
        let tid = |i: usize| result.threads.get(i).map_or(0, |t| t.tid);
        let ids: String = result.threads.iter().map(|t| format!(" {}", t.tid)).collect();
        let unit = if options.nanoseconds { 1 } else { 1_000 };
        write!(
            out,
            "# Thread Ids:{ids}\n# Break thread: {}\n# Break value: {}\n",
            tid(*thread),
            latency_ns / unit
        )?;
    }
    Ok(())
}

/// How [`end`] prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Figures in ns (`-N`).
    pub nanoseconds: bool,
    /// The `T:` lines are wanted.
    pub lines: bool,
    /// A column over all threads (`-H`).
    pub total: bool,
    /// The histogram is written to a file of its own (`--histfile`).
    pub histogram_file: bool,
}

/// The histogram with its totals; false if `-h` was not given.
///
/// # Errors
/// The writer's.
pub fn histogram(
    result: &WakeupResult,
    options: &Options,
    out: &mut impl Write,
) -> io::Result<bool> {
    let all: Option<Vec<&UsHistogram>> =
        result.threads.iter().map(|t| t.us_histogram.as_ref()).collect();
    let Some(all) = all.filter(|h| !h.is_empty()) else { return Ok(false) };
    writeln!(out, "# Histogram")?;
    let limit = all.iter().map(|h| h.limit).max().unwrap_or(0);
    let mut at = vec![0usize; all.len()];
    for bucket in 0..limit {
        write!(out, "{bucket:06} ")?;
        let mut sum = 0;
        for (i, h) in all.iter().enumerate() {
            let n = match h.buckets.get(at[i]) {
                Some(&(b, n)) if b == bucket => {
                    at[i] += 1;
                    n
                }
                _ => 0,
            };
            sum += n;
            write!(out, "{}{n:06}", if i > 0 { "\t" } else { "" })?;
        }
        if options.total {
            write!(out, "\t{sum:06}")?;
        }
        writeln!(out)?;
    }
    let counted = |h: &UsHistogram| h.buckets.iter().map(|b| b.1).total();
    let counted: Vec<u64> = all.iter().map(|h| counted(h)).collect();
    let total = |v: u64| options.total.then_some(v);
    figures("# Total:", 9, &counted, total(counted.iter().total()), out)?;
    let unit = if options.nanoseconds { 1 } else { 1_000 };
    let of = |f: fn(&Line) -> u64| -> Vec<u64> {
        result.threads.iter().map(|t| f(&t.into()) / unit).collect()
    };
    figures("# Min Latencies:", 5, &of(|l| l.min_ns), None, out)?;
    figures("# Avg Latencies:", 5, &of(|l| l.avg_ns), None, out)?;
    let max = of(|l| l.max_ns);
    figures("# Max Latencies:", 5, &max, total(max.iter().copied().max().unwrap_or(0)), out)?;
    let over: Vec<u64> = all.iter().map(|h| h.overflows).collect();
    figures("# Histogram Overflows:", 5, &over, total(over.iter().total()), out)?;
    writeln!(out, "# Histogram Overflow at cycle number:")?;
    for (i, h) in all.iter().enumerate() {
        write!(out, "# Thread {i}:")?;
        h.overflow_cycles.iter().try_for_each(|c| write!(out, " {c:05}"))?;
        let others = h.overflows - h.overflow_cycles.len() as u64;
        if others > 0 {
            write!(out, " # {others:05} others")?;
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    Ok(true)
}

fn figures(
    name: &str,
    width: usize,
    values: &[u64],
    total: Option<u64>,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(out, "{name}")?;
    values.iter().chain(&total).try_for_each(|v| write!(out, " {v:0width$}"))?;
    writeln!(out)
}

/// What surrounds the figures in [`json`].
#[derive(Clone, Copy, Debug)]
pub struct Wrapper<'a> {
    /// The command line.
    pub command_line: &'a str,
    /// Version of latlab.
    pub version: &'a str,
    /// Start, `Sat, 21 Nov 2026 20:43:35 +0000`.
    pub start: &'a str,
    /// End, likewise.
    pub end: &'a str,
    /// Exit code.
    pub return_code: i32,
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Figures in ns (`-N`).
    pub nanoseconds: bool,
}

/// cyclictest's JSON, layout included: its keys end in odd places (`"cmdline:"`), and scripts know them.
///
/// # Errors
/// The writer's.
pub fn json(result: &WakeupResult, w: &Wrapper, out: &mut impl Write) -> io::Result<()> {
    let text = |s: &str| serde_json::Value::from(s).to_string();
    let m = w.machine;
    let realtime = i32::from(m.kernel.preemption.as_deref() == Some("rt"));
    write!(
        out,
        "{{\n  \"file_version\": 1,\n  \"cmdline:\": {},\n  \"rt_test_version:\": {},\n  \
         \"start_time\": {},\n  \"end_time\": {},\n  \"return_code\": {},\n  \"sysinfo\": {{\n    \
         \"sysname\": \"Linux\",\n    \"nodename\": {},\n    \"release\": {},\n    \
         \"version\": {},\n    \"machine\": {},\n    \"realtime\": {realtime}\n  }},\n",
        text(w.command_line),
        text(&format!("latlab {}", w.version)),
        text(w.start),
        text(w.end),
        w.return_code,
        text(&m.host),
        text(&m.kernel.release),
        text(&m.kernel.version),
        text(&m.arch),
    )?;
    write!(
        out,
        "  \"num_threads\": {},\n  \"resolution_in_ns\": {},\n  \"thread\": {{\n",
        result.threads.len(),
        i32::from(w.nanoseconds),
    )?;
    for (i, t) in result.threads.iter().enumerate() {
        json_thread(t, w.nanoseconds, out)?;
        writeln!(out, "{}", if i + 1 < result.threads.len() { "," } else { "" })?;
    }
    out.write_all(b"  }\n}\n")
}

fn json_thread(t: &ThreadResult, nanoseconds: bool, out: &mut impl Write) -> io::Result<()> {
    write!(out, "    \"{}\": {{\n      \"histogram\": {{", t.index)?;
    let buckets = t.us_histogram.as_ref().map_or(&[][..], |h| &h.buckets);
    for (i, (bucket, n)) in buckets.iter().enumerate() {
        write!(out, "{}\n        \"{bucket}\": {n}", if i > 0 { "," } else { "" })?;
    }
    if !buckets.is_empty() {
        writeln!(out)?;
    }
    let unit = if nanoseconds { 1 } else { 1_000 };
    let l = Line::from(t);
    write!(
        out,
        "      }},\n      \"cycles\": {},\n      \"min\": {},\n      \"max\": {},\n      \
         \"avg\": {:.2},\n      \"cpu\": {},\n      \"node\": {}\n    }}",
        l.cycles,
        l.min_ns / unit,
        l.max_ns / unit,
        t.latency.mean().unwrap_or(0.0) / unit as f64,
        t.cpu.map_or(-1, |c| i64::from(c.0)),
        t.node.map_or(-1, i64::from),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    fn text(f: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        f(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn final_lines_have_the_shape_of_cyclictest() {
        let options = Options { lines: true, ..Options::default() };
        let mut result = sample();
        result.threads.iter_mut().for_each(|t| t.us_histogram = None);
        assert_eq!(
            text(|out| end(&result, &options, out)),
            "T: 0 (20238) P:90 I:1000 C:    200 Min:     16 Act:   23 Avg:   30 Max:     341\n\
             T: 1 (20239) P: 3 I:1500 C:    143 Min:     18 Act:   40 Avg:   33 Max:      87\n"
        );
        let ns = Options { nanoseconds: true, ..options };
        assert!(text(|out| end(&result, &ns, out)).starts_with(
            "T: 0 (20238) P:90 I:1000 C:    200 Min:  16400 Act:   23100 Avg:   30610 Max:  341000\n"
        ));
    }

    #[test]
    fn the_live_display_is_cyclictests() {
        let mut out = Vec::new();
        live_head("fifo", "7.61 5.06 2.34 6/147 20282\n", &mut out).unwrap();
        line(
            &Line { tid: 28385, priority: 90, interval_ns: 1_000_000, ..Line::default() },
            false,
            &mut out,
        )
        .unwrap();
        live_back(1, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "policy: fifo: loadavg: 7.61 5.06 2.34 6/147 20282          \n\n\
             T: 0 (28385) P:90 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n\
             \x1b[3A"
        );
    }

    #[test]
    fn the_histogram_has_the_shape_of_cyclictest() {
        let options = Options { total: true, ..Options::default() };
        assert_eq!(
            text(|out| end(&sample(), &options, out)),
            "# Histogram\n\
             000000 000000\t000000\t000000\n\
             000001 000190\t000000\t000190\n\
             000002 000007\t000140\t000147\n\
             # Total: 000000197 000000140 000000337\n\
             # Min Latencies: 00016 00018\n\
             # Avg Latencies: 00030 00033\n\
             # Max Latencies: 00341 00087 00341\n\
             # Histogram Overflows: 00003 00003 00006\n\
             # Histogram Overflow at cycle number:\n\
             # Thread 0: 00006 00103 00142\n\
             # Thread 1: 00006 00009 # 00001 others\n\
             \n"
        );
    }

    #[test]
    fn a_break_names_the_thread() {
        let mut result = sample();
        result.threads.iter_mut().for_each(|t| t.us_histogram = None);
        result.stopped_by = Some(StopReason::BreakValue {
            thread: 1,
            cycle: 9,
            intended_ns: 1,
            latency_ns: 87_900,
        });
        assert_eq!(
            text(|out| end(&result, &Options::default(), out)),
            "# Thread Ids: 20238 20239\n# Break thread: 20239\n# Break value: 87\n"
        );
    }

    #[test]
    fn the_json_has_cyclictests_keys_and_is_json() {
        let machine = Machine { host: "vm\"x".into(), ..Machine::default() };
        let wrapper = Wrapper {
            command_line: "latlab wakeup",
            version: "0.1.0",
            start: "Sat, 21 Nov 2026 20:43:35 +0000",
            end: "Sat, 21 Nov 2026 20:43:36 +0000",
            return_code: 0,
            machine: &machine,
            nanoseconds: false,
        };
        let out = text(|out| json(&sample(), &wrapper, out));
        assert!(out.contains("      \"histogram\": {\n        \"1\": 190,\n        \"2\": 7\n      },\n      \"cycles\": 200,\n      \"min\": 16,\n      \"max\": 341,\n      \"avg\": 30.61,\n      \"cpu\": 0,\n      \"node\": 0\n    },\n    \"1\": {"), "{out}");
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = [
            "file_version",
            "cmdline:",
            "rt_test_version:",
            "start_time",
            "end_time",
            "return_code",
            "sysinfo",
            "num_threads",
            "resolution_in_ns",
            "thread",
        ];
        let mut keys = keys;
        keys.sort_unstable();
        expected.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!(value["thread"]["1"]["node"], -1);
    }
}
