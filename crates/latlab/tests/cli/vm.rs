//! The virtual lab: real kernels in QEMU.
//!
//! Ignored by default because they need QEMU, fetched kernels and board builds;
//! `make test` prepares all three and runs them (scripts/test.d/60-vm.sh).

use crate::common::{in_machine as latlab, printed, said, shim, signal, wait_for};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

pub fn run(dir: &Path, args: &[&str]) -> Output {
    latlab(dir, args).output().unwrap()
}

/// What a script printed, cut at its lines `== NAME`.
pub fn sections(text: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        match line.strip_prefix("== ") {
            Some(next) => name = next.to_owned(),
            None => {
                let section: &mut String = all.entry(name.clone()).or_default();
                section.push_str(line);
                section.push('\n');
            }
        }
    }
    all
}

pub fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// One boot with 128 MiB and a fault: output, files of a recording by function_graph and of the doctor,
/// how often the fault struck, and the exit code come back.
fn output_files_and_exit_code(machine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo talk >&2; mkdir -p a/b; head -c 200000 /dev/zero > a/b/c
        latlab record -p function_graph -g do_sys_openat2 --max-graph-depth 4 -o g.dat -- cat /proc/uptime > /dev/null 2>&1
        latlab doctor --json > doctor.json 2> /dev/null
        latlab wakeup -q -l 300 --out r > /dev/null 2>&1
        cat /sys/kernel/debug/latlab-faults/control; exit 7";
    let args = ["vm", "run", machine, "--fault", "hardirq:us=100", "--", "sh", "-c", script];
    let output = run(dir.path(), &args);
    let at = |name: &str| dir.path().join(name);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(said(&output).ends_with("talk\n"), "{}", said(&output));
    assert_eq!(fs::read(at("a/b/c")).unwrap(), vec![0; 200_000]);
    let capture = fs::read(at("g.dat")).unwrap();
    assert_eq!(&capture[..10], b"\x17\x08\x44tracing");
    assert!(fs::read_to_string(at("doctor.json")).unwrap().contains("PREEMPT_RT"));
    assert_eq!(json(&at("r/run.json"))["parts"][0]["results"][0]["summary"]["count"], 300);
    let strikes = printed(&output);
    assert!(
        strikes.starts_with("hardirq ns=100000 ") && !strikes.contains("strikes=0"),
        "{strikes}"
    );
}

#[test]
#[ignore = "boots a virtual machine"]
fn armv7_in_128_mib_brings_back_output_files_and_exit_code() {
    output_files_and_exit_code("armv7-rt,mem=128M");
}

#[test]
#[ignore = "boots a virtual machine"]
fn x86_64_in_128_mib_brings_back_output_files_and_exit_code() {
    output_files_and_exit_code("x86_64-rt,mem=128M");
}

/// Virtual time goes on while a slow disk syncs what arrived: the machine is not turned off before the rest is here.
#[test]
#[ignore = "boots a virtual machine"]
fn files_of_a_machine_in_virtual_time_arrive_on_a_slow_disk() {
    let dir = tempfile::tempdir().unwrap();
    let Some(shim) = shim(dir.path(), "slow_sync.c") else { return };
    let script = "for i in 1 2 3 4 5; do head -c 3000000 /dev/zero >$i; done";
    let args = ["vm", "run", "armv7-rt,icount=0", "--", "sh", "-c", script];
    let output = latlab(dir.path(), &args).env("LD_PRELOAD", shim).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    for i in 1..=5 {
        assert_eq!(fs::metadata(dir.path().join(i.to_string())).unwrap().len(), 3_000_000);
    }
}

/// One boot in virtual time: the wake-up run, by all levels, that `--out r` left in the directory.
fn levels_in_virtual_time(machine: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let target = format!("vm:{machine},icount=0");
    let args =
        ["--on", &target, "wakeup", "--level", "irq,kernel,user", "-l", "1000", "--out", "r"];
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    assert!(printed(&output).contains("timer interrupt (irq)"), "{}", printed(&output));
    dir
}

/// Histograms of the levels irq, kernel, user.
fn histograms(dir: &Path) -> Vec<serde_json::Value> {
    let run = json(&dir.join("r/run.json"));
    let parts = run["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 3);
    let medians = parts.iter().map(|p| p["results"][0]["summary"]["median"].as_f64().unwrap());
    let medians: Vec<f64> = medians.collect();
    // The thread runs after the interrupt, and user space needs more than it.
    assert!(medians[0] < medians[1] && medians[0] < medians[2], "{medians:?}");
    let histograms = parts.iter().map(|p| p["results"][0]["histogram"].clone());
    let histograms: Vec<_> = histograms.collect();
    assert!(histograms.iter().all(|h| h["count"] == 1000), "{histograms:?}");
    histograms
}

fn gate(dir: &Path, before: &Path, after: &Path) -> Output {
    run(dir, &["vm", "gate", before.to_str().unwrap(), after.to_str().unwrap()])
}

/// Without a change two boots give the same histograms, and the gate is open; with 100 more
/// instructions on the way out of idle it is shut. Then, in the same boot: Debian's cyclictest sees
/// no fault where there is none, and one of 300 µs at its size; and the settings of the tracer that
/// the levels are taken with are as they were before.
#[test]
#[ignore = "boots a virtual machine"]
fn armv7_in_virtual_time_is_repeatable_and_shows_what_is_longer() {
    let (first, second) = (levels_in_virtual_time("armv7-rt"), levels_in_virtual_time("armv7-rt"));
    assert_eq!(histograms(first.path()), histograms(second.path()));
    let (a, b) = (first.path().join("r"), second.path().join("r"));
    let unchanged = gate(first.path(), &a, &b);
    assert_eq!(unchanged.status.code(), Some(0), "{}", said(&unchanged));
    assert!(printed(&unchanged).contains("(+0.00 %), within the limit"), "{}", printed(&unchanged));

    let third = tempfile::tempdir().unwrap();
    let script = "control=/sys/kernel/debug/latlab-faults/control; tracing=/sys/kernel/tracing
        latlab wakeup -q -l 1000 --out c > /dev/null 2>&1
        echo stop > $control
        echo == agent; grep ctxt /proc/1/task/*/status
        echo == none; cyclictest -q -m -p90 -i1000 -l1000 2> /dev/null
        echo == agent again; grep ctxt /proc/1/task/*/status
        echo irqs-off ns=300000 every_ns=9730000 > $control
        echo == irqs-off; cyclictest -q -m -p90 -i1000 -l1000 2> /dev/null
        echo stop > $control
        cd $tracing
        echo == before; cat osnoise/timerlat_period_us
        latlab wakeup -q --level kernel -i 500 -b 1 -D 5 --out /tmp/r > /dev/null 2>&1; echo exit $?
        echo == after; cat osnoise/timerlat_period_us current_tracer; ls instances
        echo == theirs; echo timerlat > current_tracer; latlab wakeup --level irq -D 1 --out /tmp/q 2>&1";
    let mut args = vec!["vm", "run", "armv7-rt,icount=0", "--fault", "longer-path:ns=100"];
    for package in ["rt-tests", "libc6", "libnuma1"] {
        args.extend(["--package", package]);
    }
    args.extend(["--", "sh", "-c", script]);
    let output = run(third.path(), &args);
    let longer = gate(third.path(), &a, &third.path().join("c"));
    assert_eq!(longer.status.code(), Some(2), "{} {}", printed(&longer), said(&longer));
    assert!(printed(&longer).contains("over the limit of 1 %"), "{}", printed(&longer));

    let sections = sections(&printed(&output));
    let largest = |name: &str| -> u64 {
        let text = &sections[name];
        let max = text.split("Max:").nth(1).and_then(|t| t.split_whitespace().next());
        max.and_then(|m| m.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    assert!(largest("none") < 60, "{sections:?}");
    // Process 1 did not run once while the other measured.
    assert_eq!(sections["agent"], sections["agent again"]);
    assert!(sections["agent"].contains("voluntary_ctxt_switches"), "{sections:?}");
    assert!((250..400).contains(&largest("irqs-off")), "{sections:?}");
    assert_eq!(sections["before"], "1000\nexit 2\n");
    assert_eq!(sections["after"], "1000\nnop\n");
    let theirs = &sections["theirs"];
    assert!(theirs.starts_with("latlab: the timerlat tracer is in use by "), "{theirs}");
}

/// x86 counts time by a TSC that each boot calibrates against another clock: the same instructions are
/// executed, and a time stamp falls up to some ns elsewhere within them. Every decile stays where it was.
#[test]
#[ignore = "boots a virtual machine"]
fn in_virtual_time_two_boots_of_x86_64_differ_by_a_phase_at_most() {
    let boots = [levels_in_virtual_time("x86_64-rt"), levels_in_virtual_time("x86_64-rt")];
    let [first, second] = boots.each_ref().map(|dir| histograms(dir.path()).remove(2));
    for tenth in 0..=10 {
        let at = |h: &serde_json::Value| {
            let rank = (100 * tenth).max(1);
            let mut seen = 0;
            let buckets = h["buckets"].as_array().unwrap().iter();
            let mut reached = buckets.skip_while(|b| {
                seen += b[1].as_u64().unwrap();
                seen < rank
            });
            reached.next().unwrap()[0].as_f64().unwrap()
        };
        let (a, b) = (at(&first), at(&second));
        assert!((a - b).abs() <= 16.0, "decile {tenth}: {a} and {b} ns");
    }
}

/// Faults of user space strike at their size: both inversions, a page on a slow disk, throttling.
#[test]
#[ignore = "boots a virtual machine"]
fn a_task_that_shares_a_lock_faults_or_is_throttled_is_late_by_as_much() {
    let dir = tempfile::tempdir().unwrap();
    // The largest latencies, µs, from the largest on.
    let worst = |fault: &str, options: &[&str]| -> Vec<f64> {
        let args = ["vm", "run", "armv7-rt,icount=0", "--fault", fault, "--", "latlab", "wakeup"];
        let name = fault.split(':').next().unwrap();
        let args = [&args[..], &["-q", "-l", "1000", "--out", name], options].concat();
        let output = run(dir.path(), &args);
        assert!(output.status.success(), "{fault}: {}", said(&output));
        let run = json(&dir.path().join(name).join("run.json"));
        let worst = run["parts"][0]["detail"]["threads"][0]["worst"].as_array().unwrap();
        worst.iter().map(|wake| wake["latency_ns"].as_f64().unwrap() / 1000.0).collect()
    };
    let lock = ["--lock", "/dev/shm/latlab-lock"];
    let plain = worst("inversion:us=300,every=9.73ms", &lock)[0];
    assert!((250.0..450.0).contains(&plain), "{plain} µs");
    let inheriting = worst("inversion-pi:us=300,every=9.73ms", &lock)[0];
    assert!((250.0..450.0).contains(&inheriting), "{inheriting} µs");
    // 300 µs of the disk, and the kernel's own work. Few faults take longer: on a page that is on its way to
    // the disk the kernel polls once in a tick.
    let pages = worst("page-fault:us=300,every=9.73ms", &[]);
    let page = pages[pages.len() / 2];
    assert!((300.0..800.0).contains(&page), "{pages:?} µs");
    let throttled = worst("throttle:ms=20,every=100ms", &[])[0];
    assert!((15_000.0..25_000.0).contains(&throttled), "{throttled} µs");
}

/// What is set at the top level of tracefs, one line a setting.
const SETTINGS: &str = "state() { for f in current_tracer tracing_on trace_clock set_graph_function \
    set_ftrace_filter set_ftrace_notrace set_ftrace_pid max_graph_depth set_event options/funcgraph-proc \
    options/stacktrace events/sched/sched_switch/filter; do echo $f: $(head -n 3 $f); done; \
    grep entries: per_cpu/cpu0/stats; ls instances; ls /run/latlab 2>/dev/null; }; cd /sys/kernel/tracing; \
    same() { state | diff /tmp/before - && echo same; }; state > /tmp/before; \
    drawing() { until grep -q function_graph current_tracer && grep -q 1 tracing_on; do sleep 0.1; done; }";

/// One boot: levels that were killed are cleaned up by the next; a recording comes back; a tracer that
/// needs the top level takes it, leaves it as it was, is restored after a kill, and refused while in use.
#[test]
#[ignore = "boots a virtual machine"]
fn armv7_records_and_what_was_set_is_put_back_also_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let record = "latlab record -p function_graph -g do_sys_openat2 -n '*raw_spin*' --max-graph-depth 4 \
        -O funcgraph-proc -e sched:sched_switch -f 'prev_pid == 0' -b 2048 -C mono";
    let script = format!(
        "{SETTINGS}
        latlab wakeup -q --level irq -i 700 -D 600 --out /tmp/r > /dev/null 2>&1 &
        until ls instances | grep -q latlab && grep -q 700 osnoise/timerlat_period_us; do sleep 0.1; done
        echo == levels killed
        cat osnoise/timerlat_period_us; kill -9 $!; wait $!; ls instances | wc -l
        latlab wakeup -q --level irq -l 20 --out /tmp/q > /dev/null 2>&1; echo exit $?
        cat osnoise/timerlat_period_us; ls instances | wc -l
        echo == longest
        latlab record -p wakeup_rt -o /work/longest.txt -- latlab wakeup -q -p 80 -l 200 --out /tmp/w >/dev/null 2>&1
        echo exit $?; same
        echo == hwlat; latlab noise --by hwlat -D 1 -p 200000 -r 100000 --out /tmp/h >/dev/null 2>&1; echo exit $?; same
        echo == function; latlab record -p function -l do_sys_openat2 -o /work/f.dat -- cat /proc/uptime > /dev/null
        echo == graph
        {record} -o /tmp/g.dat -- cat /proc/uptime >/dev/null 2>/tmp/said; echo exit $?
        grep -c 'top-level buffer' /tmp/said; same
        latlab report /tmp/g.dat | grep -q 'do_sys_openat2() {{' && echo drawn
        echo == wrong event; {record} -o /tmp/x.dat -e no_such_event 2>/dev/null; echo exit $?; same
        echo == interrupted; {record} -o /tmp/s.dat 2>/dev/null & drawing; kill -INT $!; wait $!; echo exit $?; same
        latlab record -p function_graph -g do_sys_openat2 -C mono -o /tmp/k.dat 2>/dev/null &
        drawing; for n in $(seq 60); do
            latlab report /tmp/k.dat 2>/dev/null | grep -q 'do_sys_openat2() {{' && break; sleep 0.2
        done
        echo == in use; latlab record -p function_graph -o /tmp/o.dat 2>&1 | grep -c 'in use'
        echo == killed; kill -9 $!; wait $!; cat current_tracer
        latlab doctor --restore >/dev/null; echo exit $?; same
        latlab report /tmp/k.dat 2>/dev/null | grep -q 'do_sys_openat2() {{' && echo readable
        echo == theirs; echo function > current_tracer
        latlab record -p function_graph -o /tmp/o.dat 2>&1 | head -n 1; cat current_tracer"
    );
    let output = run(dir.path(), &["vm", "run", "armv7-rt", "--", "sh", "-c", &script]);
    let sections = sections(&printed(&output));
    for (name, expected) in [
        ("levels killed", "700\n1\nexit 0\n1000\n0\n"),
        ("longest", "exit 0\nsame\n"),
        ("hwlat", "exit 0\nsame\n"),
        ("graph", "exit 0\n1\nsame\ndrawn\n"),
        ("wrong event", "exit 1\nsame\n"),
        ("interrupted", "exit 130\nsame\n"),
        ("in use", "1\n"),
        ("killed", "function_graph\nexit 0\nsame\nreadable\n"),
        (
            "theirs",
            "latlab: the kernel's top-level buffer, which function_graph needs here, is in use: its tracer is function\n\
             function\n",
        ),
    ] {
        let got = sections.get(name).map_or("", String::as_str);
        assert_eq!(got, expected, "{name}: {sections:?} {}", said(&output));
    }
    // Where the time of the longest latency passed.
    let output = run(dir.path(), &["profile", "longest.txt", "--json"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let latency = &found["parts"][0]["detail"]["profile"]["latency"];
    let steps = latency["steps"].as_array().unwrap();
    let sum: u64 = steps.iter().filter_map(|s| s["length_ns"].as_u64()).sum();
    let length = latency["length_ns"].as_u64().unwrap();
    assert!(
        latency["tracer"] == "wakeup_rt" && latency["task"] != "" && steps.len() > 3,
        "{latency:#}"
    );
    assert!(sum <= length + 1_000 && sum * 4 > length, "{latency:#}");
    let capture = fs::read(dir.path().join("f.dat")).unwrap();
    assert_eq!(&capture[..10], b"\x17\x08\x44tracing");
}

#[test]
#[ignore = "boots a virtual machine"]
fn timers_without_high_resolution_are_a_finding() {
    let dir = tempfile::tempdir().unwrap();
    let machine = "vm:armv7-rt,icount=0,append=highres=off";
    let args = ["--on", machine, "wakeup", "-l", "50", "-i", "10000", "--out", "r"];
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    assert!(printed(&output).contains("No high-resolution timers"), "{}", printed(&output));
}

/// At 16 ns an instruction seconds of tasks that only compute cost the emulator little.
#[test]
#[ignore = "boots a virtual machine"]
fn turns_of_round_robin_throttling_and_the_tick_are_as_configured() {
    let dir = tempfile::tempdir().unwrap();
    let script = "latlab sched --policy rr -p 90 -D 2300ms --out rr > /dev/null 2>&1
        latlab timer -D 1s --out tick > /dev/null 2>&1";
    let machine = "armv7-rt,icount=4,append=nohz=off";
    let output = run(dir.path(), &["vm", "run", machine, "--", "sh", "-c", script]);
    assert!(output.status.success(), "{}", said(&output));
    let detail =
        |name: &str| json(&dir.path().join(name).join("run.json"))["parts"][0]["detail"].clone();
    let checks = detail("rr")["expectations"].clone();
    for (n, id) in ["rr-slice", "rt-reserve"].into_iter().enumerate() {
        assert_eq!(checks[n]["id"], id, "{checks}");
        assert_eq!(checks[n]["decision"], "met", "{checks}");
    }
    let trace = detail("tick")["trace"].clone();
    let (hz, ticks) = (trace["jiffies_hz"].as_f64(), trace["ticks"][0]["ticks"].as_f64());
    assert!((249.0..251.0).contains(&hz.unwrap()), "{hz:?}");
    let rate = ticks.unwrap() * 1e9 / trace["length_ns"].as_f64().unwrap();
    assert!((247.0..253.0).contains(&rate), "{rate} ticks a second");
}

/// QEMU's only board with the BeagleBone's core; its results come through the kernel's log.
/// Two loops of nice 0 and 5: the one with the smallest virtual run time runs next, and its growth is weighted.
#[test]
#[ignore = "boots a virtual machine"]
fn the_smallest_virtual_run_time_runs_next() {
    let dir = tempfile::tempdir().unwrap();
    let on = ["--on", "vm:armv7-rt", "sched", "--nice", "0,5", "-D", "2", "--out", "r"];
    let output = run(dir.path(), &on);
    assert!(output.status.success(), "{}", said(&output));
    let schedule = &json(&dir.path().join("r/run.json"))["parts"][0]["detail"]["schedule"];
    let choices = &schedule["vruntime"];
    let (all, smallest) =
        (choices["choices"].as_f64().unwrap(), choices["smallest"].as_f64().unwrap());
    assert!(all >= 50.0 && smallest >= 0.95 * all, "{choices}");
    let tasks = schedule["tasks"].as_array().unwrap();
    for (name, factor) in [("latlab-a", 1.0), ("latlab-b", 1024.0 / 335.0)] {
        let task =
            tasks.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("{schedule:#}"));
        let of = |key: &str| task["vruntime"][key].as_f64().unwrap();
        let ratio = of("gained_ns") / of("charged_ns");
        assert!((ratio / factor - 1.0).abs() < 0.02, "{name}: {ratio}");
    }
    let report = printed(&run(dir.path(), &["report", "r", "--details"]));
    assert!(report.contains("Virtual run time (vruntime) while runnable"), "{report}");
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_cortex_a8_measures() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--on", "vm:armv7-rt,cpu=cortex-a8", "wakeup", "-l", "200", "--out", "r"];
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    let run = json(&dir.path().join("r/run.json"));
    assert_eq!(run["parts"][0]["results"][0]["summary"]["count"], 200);
}

/// In virtual time, where a nanosecond is an instruction: `context_switch()` is a part of what passes between the
/// switch and the return of the next task's call.
#[test]
#[ignore = "boots a virtual machine"]
fn context_switch_of_the_kernel_is_a_part_of_a_switch() {
    let dir = tempfile::tempdir().unwrap();
    let probe = "ctx.kernel:part=switch|context";
    let args = ["--on", "vm:armv7-rt,icount=0", "bench", probe, "-D", "2s", "--out", "r"];
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    let part = &json(&dir.path().join("r/run.json"))["parts"][0];
    let rows = part["detail"]["rows"].as_array().unwrap();
    let of = |name: &str| {
        let row = (part["results"].as_array().unwrap().iter())
            .position(|r| r["params"]["part"] == name)
            .unwrap_or_else(|| panic!("{name}: {part:#}"));
        let value = |at: &str| rows[row].pointer(at).unwrap().as_f64().unwrap();
        (value("/estimate/median"), value("/overhead_ns"))
    };
    let (switch, context) = (of("switch"), of("context"));
    assert!(context.0 > 200.0 && context.0 < switch.0, "{context:?} {switch:?}");
    assert!(context.1 > switch.1, "an event and a function: {context:?} {switch:?}");
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_panic_is_told_with_the_end_of_the_console() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(
        dir.path(),
        &["vm", "run", "armv7-rt", "--", "sh", "-c", "echo c > /proc/sysrq-trigger"],
    );
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<String> = said(&output).lines().map(str::to_owned).collect();
    let error = "latlab: vm:armv7-rt: its kernel panicked (Kernel panic - not syncing: ";
    let error =
        lines.iter().position(|l| l.starts_with(error)).unwrap_or_else(|| panic!("{lines:#?}"));
    let console: Vec<&str> =
        lines[error + 1..].iter().map_while(|l| l.strip_prefix("  | ")).collect();
    assert!(console.iter().any(|l| l.contains("sysrq: Trigger a crash")), "{lines:#?}");
    assert_eq!(lines[error + 1 + console.len()], "hint: the lines before it say why");
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_machine_that_does_not_come_up_in_time_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["vm", "boot", "armv7-rt,timeout=1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("did not come up within 1 s"), "{}", said(&output));
}

/// Zeros are instructions that do nothing: such a kernel never says a word.
#[test]
#[ignore = "boots a virtual machine"]
fn a_kernel_of_the_user_that_hangs_is_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("zImage"), vec![0; 1 << 20]).unwrap();
    let output = run(dir.path(), &["vm", "boot", "armv7-rt,timeout=2", "--kernel", "zImage"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("did not come up within 2 s"), "{}", said(&output));
}

/// Ctrl-C ends the measurement inside, which keeps what it has; the machine is gone then.
#[test]
#[ignore = "boots a virtual machine"]
fn an_interrupted_run_is_kept_and_no_machine_stays() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "(until [ -e r/run.json ]; do sleep 0.2; done; sleep 1; echo begun > /dev/console) &
        exec latlab wakeup -q -D 600 --out r";
    let args = ["vm", "run", "armv7-rt", "--", "sh", "-c", script];
    let child =
        latlab(dir.path(), &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_qemu(child.id());
    let qemu = first_child(child.id());
    let line = fs::read_to_string(format!("/proc/{qemu}/cmdline")).unwrap();
    let console = line.split("id=console,path=").nth(1).unwrap().split('\0').next().unwrap();
    let start = Instant::now();
    while !fs::read_to_string(console).unwrap_or_default().contains("begun") {
        assert!(start.elapsed() < Duration::from_secs(120), "the command did not begin");
        std::thread::sleep(Duration::from_millis(100));
    }
    signal(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert_eq!(json(&dir.path().join("r/run.json"))["complete"], false);
    wait_until_gone(&qemu);
}

fn qemus_of(parent: u32) -> usize {
    let output =
        Command::new("pgrep").args(["-c", "-P", &parent.to_string(), "qemu"]).output().unwrap();
    printed(&output).trim().parse().unwrap()
}

fn wait_for_qemu(parent: u32) {
    wait_for("QEMU", Duration::from_millis(20), || (qemus_of(parent) > 0).then_some(()));
}

fn first_child(parent: u32) -> String {
    let output = Command::new("pgrep").args(["-P", &parent.to_string()]).output().unwrap();
    printed(&output).trim().to_owned()
}

fn wait_until_gone(pid: &str) {
    let gone =
        || fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |s| s.contains(") Z "));
    let start = Instant::now();
    while !gone() {
        assert!(start.elapsed() < Duration::from_secs(10), "QEMU {pid} lives on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_killed_latlab_leaves_no_machine_and_the_next_start_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut child =
        latlab(dir.path(), &["vm", "run", "armv7-rt", "--", "sleep", "600"]).spawn().unwrap();
    wait_for_qemu(child.id());
    let qemu = first_child(child.id());
    // Its scratch folder is named in QEMU's command line.
    let line = fs::read_to_string(format!("/proc/{qemu}/cmdline")).unwrap();
    let disk = line.split('\0').find(|w| w.ends_with("/initrd")).unwrap().to_owned();
    assert!(Path::new(&disk).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_gone(&qemu);
    let output = run(dir.path(), &["vm", "boot", "armv7-rt,timeout=1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!Path::new(&disk).exists(), "{disk}");
}

/// QEMU has no model of a cache: what shows are those of its host, and those of its tables.
#[test]
#[ignore = "boots a virtual machine"]
fn where_no_cache_is_modelled_none_is_claimed() {
    for machine in ["vm:armv7-rt", "vm:x86_64-rt"] {
        let dir = tempfile::tempdir().unwrap();
        let output = run(dir.path(), &["--on", machine, "memory", "--quick", "--out", "r"]);
        assert!(output.status.success(), "{machine}: {}", said(&output));
        assert!(printed(&output).contains("not determined"), "{machine}: {}", printed(&output));
        let part = &json(&dir.path().join("r/run.json"))["parts"][0];
        let detail = &part["detail"];
        assert!(
            detail["cannot_tell"].as_str().unwrap().contains("emulated"),
            "{machine}: {detail}"
        );
        assert_eq!(detail["levels"].as_array().map(Vec::len), Some(0), "{machine}: {detail}");
        assert!(detail["curves"][0]["points"].as_array().unwrap().len() > 8, "{machine}: {detail}");
    }
}

/// An output of the fault module's chip wakes by the input that it is wired to, and the part after the edge's time stamp
/// is shorter than the whole. `all` but the two mechanisms that need a name.
#[test]
#[ignore = "boots a virtual machine"]
fn a_gpio_line_wakes_by_the_line_that_it_is_wired_to() {
    let dir = tempfile::tempdir().unwrap();
    let script = "for c in /dev/gpiochip*; do c=${c#/dev/}
        latlab wakeup -q -p 90 --by gpio:$c:0:1 -l 200 --out r >> out 2>> err && exit 0
        done; cat err; exit 1";
    let args = ["vm", "run", "armv7-rt,icount=0", "--fault", "none", "--", "sh", "-c", script];
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}{}", printed(&output), said(&output));
    let run = json(&dir.path().join("r/run.json"));
    let results = run["parts"][0]["results"].as_array().unwrap();
    let names: Vec<&str> = results.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["wakeup.by.gpio", "wakeup.by.gpio.stamp"]);
    let of = |i: usize, what: &str| results[i]["summary"][what].as_f64().unwrap();
    assert_eq!((of(0, "count"), of(1, "count")), (200.0, 200.0));
    // Thread of the interrupt and task, after the driver's write and the interrupt.
    assert!(of(1, "median") > 1_000.0 && of(1, "median") < of(0, "median"), "{run}");
    assert!(of(0, "max") < 1e6, "{run}");
}
