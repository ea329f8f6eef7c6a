//! The virtual lab: real kernels in QEMU.
//!
//! Ignored by default because they need QEMU, fetched kernels and board builds;
//! `make test` prepares all three and runs them (scripts/test.d/60-vm.sh).
#![cfg(feature = "host")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn latlab(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latlab"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    latlab(dir, args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn output_files_and_exit_code(machine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let script = "uname -m; echo talk >&2; mkdir -p a/b; head -c 200000 /dev/zero > a/b/c; grep MemTotal /proc/meminfo; exit 7";
    let output = run(dir.path(), &["vm", "run", machine, "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(printed(&output).contains("MemTotal:"), "{}", printed(&output));
    assert_eq!(said(&output), "talk\n");
    assert_eq!(fs::read(dir.path().join("a/b/c")).unwrap(), vec![0; 200_000]);
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

/// The wake-up histogram of one boot in virtual time.
fn histogram(machine: &str) -> (u64, serde_json::Value) {
    let dir = tempfile::tempdir().unwrap();
    let target = format!("vm:{machine},icount=0");
    let output = run(dir.path(), &["--on", &target, "wakeup", "-D", "1s", "--out", "r"]);
    assert!(output.status.success(), "{}", said(&output));
    let run = fs::read_to_string(dir.path().join("r/run.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    let records = run["parts"][0]["results"].as_array().unwrap();
    let user = records.iter().find(|r| r["name"] == "wakeup.user").unwrap();
    (user["histogram"]["count"].as_u64().unwrap(), user["histogram"].clone())
}

fn two_boots_are_equal(machine: &str) {
    let (count, first) = histogram(machine);
    let (_, second) = histogram(machine);
    assert!(count >= 900, "{count} samples");
    assert_eq!(first, second);
}

/// x86 counts time by a TSC that each boot calibrates against another clock: the same instructions are
/// executed, and a time stamp falls up to some ns elsewhere within them. Every decile stays where it was.
fn two_boots_are_alike(machine: &str, tolerance_ns: f64) {
    let (count, first) = histogram(machine);
    let (count_again, second) = histogram(machine);
    assert!(count >= 900, "{count} samples");
    assert_eq!(count, count_again);
    for tenth in 0..=10 {
        let at = |h: &serde_json::Value| {
            let rank = (count * tenth).div_ceil(10).max(1);
            let mut seen = 0;
            let buckets = h["buckets"].as_array().unwrap().iter();
            let mut reached = buckets.skip_while(|b| {
                seen += b[1].as_u64().unwrap();
                seen < rank
            });
            reached.next().unwrap()[0].as_f64().unwrap()
        };
        let (a, b) = (at(&first), at(&second));
        assert!((a - b).abs() <= tolerance_ns, "decile {tenth}: {a} and {b} ns");
    }
}

#[test]
#[ignore = "boots a virtual machine"]
fn in_virtual_time_two_boots_of_armv7_give_equal_histograms() {
    two_boots_are_equal("armv7-rt");
}

#[test]
#[ignore = "boots a virtual machine"]
fn in_virtual_time_two_boots_of_x86_64_differ_by_a_phase_at_most() {
    two_boots_are_alike("x86_64-rt", 16.0);
}

/// Largest latency in µs that Debian's cyclictest sees with these faults, in virtual time.
fn cyclictest(machine: &str, faults: &[&str]) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let machine = format!("{machine},icount=0");
    let mut args = vec!["vm", "run", &machine];
    for package in ["rt-tests", "libc6", "libnuma1"] {
        args.extend(["--package", package]);
    }
    for fault in faults {
        args.extend(["--fault", fault]);
    }
    args.extend(["--", "cyclictest", "-q", "-m", "-p90", "-i1000", "-l2000"]);
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    let text = printed(&output);
    let max = text.split("Max:").nth(1).and_then(|t| t.split_whitespace().next());
    max.and_then(|m| m.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

#[test]
#[ignore = "boots a virtual machine"]
fn an_independent_measurement_sees_a_fault_at_its_size_and_none_without() {
    assert!(cyclictest("armv7-rt", &[]) < 60);
    let irqs_off = cyclictest("armv7-rt", &["irqs-off:us=300,every=9.73ms"]);
    assert!((250..400).contains(&irqs_off), "{irqs_off} µs");
}

#[test]
#[ignore = "boots a virtual machine"]
fn the_levels_of_a_wake_up_stand_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--on", "vm:armv7-rt,icount=0", "wakeup", "--level", "irq,kernel,user"];
    let output = run(dir.path(), &[&args[..], &["-i", "1000", "-l", "500", "--out", "r"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    assert!(printed(&output).contains("Levels side by side"), "{}", printed(&output));
    let run = fs::read_to_string(dir.path().join("r/run.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    let medians = run["parts"].as_array().unwrap().iter().map(|part| {
        assert_eq!(part["detail"]["threads"][0]["wakeups"], 500, "{}", part["name"]);
        part["results"][0]["summary"]["median"].as_f64().unwrap()
    });
    let medians: Vec<f64> = medians.collect();
    // In virtual time: the thread runs after the interrupt, and user space needs more than it.
    assert_eq!(medians.len(), 3);
    assert!(medians[0] < medians[1], "{medians:?}");
    assert!(medians[0] < medians[2], "{medians:?}");
}

#[test]
#[ignore = "boots a virtual machine"]
fn the_tracer_of_the_levels_is_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null; cd /sys/kernel/tracing; \
        cat osnoise/timerlat_period_us; \
        latlab wakeup -q --level kernel -i 500 -b 1 -D 5 --out /tmp/r >/dev/null 2>&1; echo exit $?; \
        cat osnoise/timerlat_period_us current_tracer; ls instances; \
        echo timerlat > current_tracer; latlab wakeup --level irq -D 1 --out /tmp/q 2>&1";
    let output = run(dir.path(), &["vm", "run", "armv7-rt,icount=0", "--", "sh", "-c", script]);
    let printed = printed(&output);
    let (mine, theirs) = printed.split_at(printed.find("latlab: ").unwrap_or(printed.len()));
    assert_eq!(mine, "1000\nexit 2\n1000\nnop\n", "{}", said(&output));
    assert!(theirs.starts_with("latlab: the timerlat tracer is in use by "), "{printed}");
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_killed_measurement_of_levels_is_cleaned_up_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null; cd /sys/kernel/tracing; \
        latlab wakeup -q --level irq -i 700 -D 600 --out /tmp/r >/dev/null 2>&1 & \
        while ! ls instances | grep -q latlab; do sleep 0.1; done; sleep 0.5; \
        cat osnoise/timerlat_period_us; kill -9 $!; wait $!; ls instances | wc -l; \
        latlab wakeup -q --level irq -l 20 --out /tmp/q >/dev/null 2>&1; echo exit $?; \
        cat osnoise/timerlat_period_us; ls instances | wc -l";
    let output = run(dir.path(), &["vm", "run", "armv7-rt", "--", "sh", "-c", script]);
    assert_eq!(printed(&output), "700\n1\nexit 0\n1000\n0\n", "{}", said(&output));
}

#[test]
#[ignore = "boots a virtual machine"]
fn timers_without_high_resolution_are_a_finding() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--on", "vm:armv7-rt,append=highres=off", "wakeup", "-l", "50", "-i", "10000"];
    let output = run(dir.path(), &[&args[..], &["--out", "r"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    assert!(printed(&output).contains("every sleep ends at a tick"), "{}", printed(&output));
}

#[test]
#[ignore = "boots a virtual machine"]
fn what_a_machine_records_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "--on",
        "vm:armv7-rt",
        "record",
        "-p",
        "function",
        "-l",
        "do_sys_openat2",
        "-o",
        "f.dat",
        "--",
        "cat",
        "/proc/uptime",
    ];
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    let capture = fs::read(dir.path().join("f.dat")).unwrap();
    assert_eq!(&capture[..10], b"\x17\x08\x44tracing");
}

/// What is set at the top level of tracefs, one line a setting.
const SETTINGS: &str = "state() { for f in current_tracer tracing_on trace_clock set_graph_function \
    set_ftrace_filter set_ftrace_notrace set_ftrace_pid max_graph_depth set_event options/funcgraph-proc \
    options/stacktrace events/sched/sched_switch/filter; do echo $f: $(head -n 3 $f); done; \
    grep entries: per_cpu/cpu0/stats; ls instances; ls /run/latlab 2>/dev/null; }; \
    mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null; mkdir -p /run; cd /sys/kernel/tracing; ";

#[test]
#[ignore = "boots a virtual machine"]
fn the_top_level_is_taken_for_a_tracer_that_needs_it_and_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let record = "latlab record -p function_graph -g do_sys_openat2 -n '*raw_spin*' --max-graph-depth 4 \
        -O funcgraph-proc -e sched:sched_switch -f 'prev_pid == 0' -b 2048 -C mono";
    let script = format!(
        "{SETTINGS} state > /tmp/before; \
        {record} -o /tmp/g.dat -- cat /proc/uptime >/dev/null 2>/tmp/said; echo exit $?; \
        grep -c 'top-level buffer' /tmp/said; state | diff /tmp/before - && echo same; \
        latlab report /tmp/g.dat | grep -c 'do_sys_openat2() {{'; \
        {record} -o /tmp/x.dat -e no_such_event 2>/dev/null; echo exit $?; \
        state | diff /tmp/before - && echo same; \
        {record} -o /tmp/s.dat 2>/dev/null & sleep 3; kill -INT $!; wait $!; echo exit $?; \
        state | diff /tmp/before - && echo same"
    );
    let output = run(dir.path(), &["vm", "run", "armv7-rt", "--", "sh", "-c", &script]);
    let printed = printed(&output);
    let lines: Vec<&str> = printed.lines().collect();
    let drawn: u32 = lines.get(3).and_then(|n| n.parse().ok()).unwrap_or(0);
    assert!(drawn > 0, "{printed}{}", said(&output));
    let rest: Vec<&str> =
        lines.iter().enumerate().filter(|(n, _)| *n != 3).map(|(_, l)| *l).collect();
    assert_eq!(
        rest,
        ["exit 0", "1", "same", "exit 1", "same", "exit 130", "same"],
        "{printed}{}",
        said(&output)
    );
}

#[test]
#[ignore = "boots a virtual machine"]
fn the_top_level_is_restored_after_a_kill_and_refused_while_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "{SETTINGS} state > /tmp/before; \
        latlab record -p function_graph -g do_sys_openat2 -C mono -o /tmp/k.dat 2>/dev/null & \
        while ! grep -q function_graph current_tracer || ! grep -q 1 tracing_on; do sleep 0.1; done; sleep 1.5; \
        latlab record -p function_graph -o /tmp/o.dat 2>&1 | grep -c 'in use'; \
        kill -9 $!; wait $!; cat current_tracer; \
        latlab doctor --restore >/dev/null; echo exit $?; state | diff /tmp/before - && echo same; \
        latlab report /tmp/k.dat 2>/dev/null | grep -q 'do_sys_openat2() {{' && echo readable; \
        echo function > current_tracer; latlab record -p function_graph -o /tmp/o.dat 2>&1 | head -n 1; \
        cat current_tracer"
    );
    let output = run(dir.path(), &["vm", "run", "armv7-rt", "--", "sh", "-c", &script]);
    assert_eq!(
        printed(&output),
        "1\nfunction_graph\nexit 0\nsame\nreadable\n\
        latlab: the kernel's top-level buffer, which function_graph needs here, is in use: its tracer is function\n\
        function\n",
        "{}",
        said(&output)
    );
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_doctor_of_the_machine_knows_its_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["--on", "vm:x86_64-rt", "doctor"]);
    assert!(matches!(output.status.code(), Some(0 | 2)), "{}", said(&output));
    assert!(printed(&output).contains("PREEMPT_RT"), "{}", printed(&output));
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_panic_is_told_with_the_end_of_the_console() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(
        dir.path(),
        &["vm", "run", "x86_64-rt", "--", "sh", "-c", "echo c > /proc/sysrq-trigger"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("its kernel panicked"), "{}", said(&output));
    assert!(said(&output).contains("\n  | "), "{}", said(&output));
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_machine_that_does_not_come_up_in_time_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["vm", "boot", "armv7-rt,timeout=1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("did not come up within 1 s"), "{}", said(&output));
}

fn qemus_of(parent: u32) -> usize {
    let output =
        Command::new("pgrep").args(["-c", "-P", &parent.to_string(), "qemu"]).output().unwrap();
    printed(&output).trim().parse().unwrap()
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_killed_latlab_leaves_no_machine_and_the_next_start_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut child =
        latlab(dir.path(), &["vm", "run", "x86_64-rt", "--", "sleep", "600"]).spawn().unwrap();
    let start = Instant::now();
    while qemus_of(child.id()) == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "QEMU did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let qemu = Command::new("pgrep").args(["-P", &child.id().to_string()]).output().unwrap();
    let qemu = printed(&qemu).trim().to_owned();
    child.kill().unwrap();
    child.wait().unwrap();
    let gone =
        || fs::read_to_string(format!("/proc/{qemu}/stat")).map_or(true, |s| s.contains(") Z "));
    let start = Instant::now();
    while !gone() {
        assert!(start.elapsed() < Duration::from_secs(10), "QEMU {qemu} lives on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn bad_machines_are_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (vec!["vm", "boot", "mips"], "there is no virtual machine \"mips\""),
        (vec!["vm", "boot", "armv7-rt,mem=1"], "64M at least"),
        (
            vec!["vm", "run", "armv7-rt", "--fault", "gremlin", "--", "true"],
            "there is no fault \"gremlin\"",
        ),
        (vec!["--on", "nowhere", "wakeup"], "this is no kind of target"),
        (vec!["--on", "vm:armv7-rt", "report", "x"], "report works on files here"),
    ] {
        let output = run(dir.path(), &args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(said(&output).contains(expected), "{args:?}: {}", said(&output));
        assert!(said(&output).contains("hint: "), "{args:?}: {}", said(&output));
    }
}

#[test]
fn without_qemu_or_a_kernel_it_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = latlab(dir.path(), &["vm", "boot", "armv7-rt"]);
    let output =
        command.env("PATH", "/nonexistent").env("XDG_CACHE_HOME", dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("qemu-system-arm is not installed"), "{}", said(&output));
    assert!(said(&output).contains("apt-get install qemu-system-arm"));
}
