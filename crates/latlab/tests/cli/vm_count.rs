//! What is counted in instructions in virtual time: paths of wake-ups, sections, the bound.
//!
//! Ignored by default as those of [`crate::vm`].

use crate::common::{printed, said};
use crate::vm::{json, run};
use std::fs;
use std::path::Path;

/// The detail of a run of `vm path`, whose first machine's median and worst path add up.
fn path_detail(dir: &Path, run: &str, counted: u64) -> serde_json::Value {
    let run = json(&dir.join(run).join("run.json"));
    let part = &run["parts"][0];
    let machine = &part["detail"]["machines"][0];
    assert_eq!(
        (machine["wakeups"].as_u64(), machine["dropped"].as_u64()),
        (Some(counted), Some(0))
    );
    for path in [&machine["median"], &machine["worst"]] {
        let own = path["tree"].as_array().unwrap().iter().map(|c| c["own"].as_u64().unwrap());
        assert_eq!(own.sum::<u64>(), path["instructions"].as_u64().unwrap());
    }
    // Latency and instructions differ by what passes while the timer is programmed.
    let remainder = machine["remainder_ns"].as_array().unwrap();
    let [least, most] = [&remainder[0], &remainder[2]].map(|r| r.as_i64().unwrap());
    assert!((0..=150).contains(&least) && most <= 150, "{remainder:?}");
    part.clone()
}

/// Paths of wake-ups: the functions that every wake-up takes are named, instructions add up to the
/// latency, the histogram is the one without the plugin, and 50 more instructions are found in the function that
/// has them.
#[test]
#[ignore = "boots a virtual machine"]
fn armv7_paths_add_up_and_the_gate_names_what_grew() {
    let dir = tempfile::tempdir().unwrap();
    let path = |fault: &str, out: &str| {
        let args = [
            "vm", "path", "armv7-rt", "-l", "100", "--settle", "2", "--fault", fault, "--out", out,
        ];
        let output = run(dir.path(), &args);
        assert!(output.status.success(), "{}", said(&output));
        assert!(printed(&output).lines().count() <= 40, "{}", printed(&output));
        path_detail(dir.path(), out, 100)
    };
    let before = path("none", "a");
    let tree = before["detail"]["machines"][0]["median"]["tree"].to_string();
    for function in ["hrtimer_interrupt", "try_to_wake_up", "__schedule", "(user space)"] {
        assert!(tree.contains(function), "{function}: {tree}");
    }
    let after = path("longer-path:ns=50", "b");
    let gate = run(dir.path(), &["vm", "gate", "a", "b", "--junit", "gate.xml"]);
    assert_eq!(gate.status.code(), Some(2), "{}", said(&gate));
    let text = printed(&gate);
    assert!(
        text.contains(" instructions: ") && text.contains("strike_path [latlab_faults]"),
        "{text}"
    );
    let junit = fs::read_to_string(dir.path().join("gate.xml")).unwrap();
    assert!(
        junit.contains("failures=\"") && junit.contains("strike_path [latlab_faults]"),
        "{junit}"
    );
    assert_ne!(before["results"][1]["histogram"], after["results"][1]["histogram"]);

    // The same commands in the guest, without the plugin.
    let script = "cat /proc/kallsyms > kallsyms
    cat /proc/interrupts > interrupts
    sleep $1
    shift
    exec \"$@\" > output 2>&1";
    let args = ["vm", "run", "armv7-rt,icount=0", "--fault", "none", "--"];
    let command = ["/bin/sh", "-c", script, "count", "2"];
    let measure = ["/bin/latlab", "wakeup", "-q", "--out", "r", "-l100", "-i1000"];
    let output = run(dir.path(), &[&args[..], &command[..], &measure[..]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let plain = json(&dir.path().join("r/run.json"));
    assert_eq!(plain["parts"][0]["results"][0]["histogram"], before["results"][1]["histogram"]);
}

#[test]
#[ignore = "boots a virtual machine"]
fn x86_64_paths_add_up() {
    let dir = tempfile::tempdir().unwrap();
    // An interval that is no divisor of the tick's: the timer expires in every part of the idle loop.
    let args = ["vm", "path", "x86_64-rt", "-l700", "-i997", "--settle", "1", "--out", "a"];
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    let tree =
        path_detail(dir.path(), "a", 700)["detail"]["machines"][0]["median"]["tree"].to_string();
    for function in ["hrtimer_interrupt", "try_to_wake_up", "__schedule", "(user space)"] {
        assert!(tree.contains(function), "{function}: {tree}");
    }
}

/// What cannot be counted is refused before anything boots.
#[test]
fn what_has_no_path_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (machine, reason) in [
        ("aarch64-rt", "instructions are counted on 32-bit ARM and x86-64 only"),
        ("armv7-rt,icount=9", "icount above 8 is too coarse"),
        ("armv7-rt,icount=0,smp=2", "smp"),
        ("nosuch", "no virtual machine"),
    ] {
        let output = run(dir.path(), &["vm", "path", machine]);
        assert_eq!(output.status.code(), Some(1), "{machine}");
        assert!(said(&output).contains(reason), "{machine}: {}", said(&output));
    }
    // A file that does not exist is no machine.
    for named in ["t.dat", "runs/1"] {
        let output = run(dir.path(), &["vm", "bound", named]);
        assert_eq!(output.status.code(), Some(1), "{named}");
        let said = said(&output);
        assert!(said.contains(named) && said.contains("No such file"), "{said}");
        assert!(!said.contains("machine"), "{said}");
    }
    for action in ["sections", "bound"] {
        let output = run(dir.path(), &["vm", action, "aarch64-rt"]);
        let said = said(&output);
        assert!(said.contains("counted on 32-bit ARM and x86-64 only"), "{said}");
    }
    for (tasks, reason) in [("200us", "no period"), ("1us/0", "the period is zero")] {
        let output = run(dir.path(), &["vm", "bound", "armv7-rt", "--task-set", tasks]);
        assert!(said(&output).contains(reason), "{}", said(&output));
    }
    fs::write(dir.path().join("a"), "").unwrap();
    let git = ["--git", ".", "--good", "v1"];
    for (arguments, reason) in [
        (&["a"][..], "1 kernels to bisect"),
        (&["a", "a", "--limit", "x"], "--limit x: expected a percentage"),
        (&["a", "./b"], "./b: no such file"),
        (&git, "--build"),
        (&[&git[..], &["--build", "make"]].concat(), "nothing of the tree would be measured"),
        (&[&git[..], &["--build", "make", "--module", "a.ko"]].concat(), "not a git repository"),
        (&["a", "a", "--good", "v1"], "--git"),
    ] {
        let output = run(dir.path(), &[&["vm", "bisect", "armv7-rt"], arguments].concat());
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
        assert!(said(&output).contains(reason), "{arguments:?}: {}", said(&output));
    }
    assert!(!dir.path().join("runs").exists());
}

/// A module's commits: one does not build, the fifth takes 50 rounds more at each end of idle.
#[test]
#[ignore = "boots a virtual machine"]
fn armv7_bisect_finds_the_commit() {
    const DRIVER: &str = r#"#include <linux/module.h>
#include <trace/events/power.h>
static noinline void extra_work(void)
{
	unsigned int i;
	for (i = 0; i < ROUNDS; i++)
		asm volatile("nop");
}
static void on_idle(void *data, unsigned int state, unsigned int cpu)
{
	if (state == (u32)PWR_EVENT_EXIT)
		extra_work();
}
static int __init begin(void)
{
	return register_trace_cpu_idle(on_idle, NULL);
}
module_init(begin);
MODULE_LICENSE("GPL");
"#;
    let dir = tempfile::tempdir().unwrap();
    // The fault module's build unpacks the kernel's headers.
    let output =
        run(dir.path(), &["vm", "run", "armv7-rt", "--fault", "none", "--", "uname", "-r"]);
    assert!(output.status.success(), "{}", said(&output));
    let release = printed(&output).trim().to_owned();
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(|| Path::new(&std::env::var_os("HOME").unwrap()).join(".cache"), Into::into);
    let headers = cache.join(format!("latlab/headers/{release}/usr/src/linux-headers-{release}"));
    let tree = dir.path().join("driver");
    fs::create_dir(&tree).unwrap();
    let git = |arguments: &[&str]| {
        let author = ["-c", "user.name=n", "-c", "user.email=n@example.org"];
        let mut command = std::process::Command::new("git");
        let output = command.args(author).arg("-C").arg(&tree).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    };
    git(&["init", "--quiet"]);
    fs::write(tree.join("Kbuild"), "obj-m := driver.o\n").unwrap();
    for (n, rounds) in ["1", "1", "nonsense", "1", "51", "51"].into_iter().enumerate() {
        let text = format!("/* {n} */\n#define ROUNDS {rounds}\n{DRIVER}");
        fs::write(tree.join("driver.c"), text).unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", &format!("driver: change {n}")]);
    }
    let build = format!(
        "make -s -C '{}' M=\"$PWD\" ARCH=arm CROSS_COMPILE=arm-linux-gnueabihf- CONFIG_DEBUG_INFO_BTF_MODULES= modules",
        headers.display()
    );
    let args =
        ["vm", "bisect", "armv7-rt", "--git", "driver", "--good", "HEAD~5", "--build", &build];
    let counted = ["--module", "driver.ko", "-l", "50", "--settle", "0", "--out", "found"];
    let output = run(dir.path(), &[&args[..], &counted].concat());
    assert!(output.status.success(), "{}", said(&output));
    let text = printed(&output);
    assert!(
        text.contains("\"driver: change 4\"") && text.contains("extra_work [driver]"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let detail = &json(&dir.path().join("found/run.json"))["parts"][0]["detail"];
    assert_eq!(detail["found"], serde_json::json!([3, 4]));
    let candidates = detail["candidates"].as_array().unwrap();
    let skipped = candidates.iter().find(|c| c["position"] == 2).unwrap();
    let reason = skipped["outcome"]["skipped"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("the build failed: ") && reason.contains("nonsense"), "{reason}");
    let change = &detail["paths"]["changes"][0];
    assert_eq!(change["name"], "extra_work [driver]");
    assert!(
        change["own"][1].as_u64().unwrap() >= change["own"][0].as_u64().unwrap() + 100,
        "{change}"
    );
}

/// Sections: the timer's interrupt is the longest with interrupts off on an idle machine, lengths add up, and the
/// preemption count is zero in user space.
fn sections_have_their_functions(machine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let args = ["vm", "sections", machine, "-l", "100", "--settle", "2", "--out", "s"];
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    assert!(printed(&output).lines().count() <= 40, "{}", printed(&output));
    let detail = json(&dir.path().join("s/run.json"))["parts"][0]["detail"].clone();
    assert_eq!(detail["user_wrong"], 0);
    assert!(detail["user_checks"].as_u64().unwrap() > 1000, "{}", detail["user_checks"]);
    for kind in detail["kinds"].as_array().unwrap() {
        let longest = &kind["longest"][0];
        let tree = longest["tree"].as_array().unwrap().iter();
        let own: u64 = tree.map(|c| c["own"].as_u64().unwrap()).sum();
        assert_eq!(longest["longest"], own, "{longest}");
    }
    let tree = detail["kinds"][0]["longest"][0]["tree"].to_string();
    assert!(tree.contains("hrtimer_interrupt"), "{tree}");
}

#[test]
#[ignore = "boots a virtual machine"]
fn armv7_sections_have_their_functions() {
    sections_have_their_functions("armv7-rt");
}

#[test]
#[ignore = "boots a virtual machine"]
fn x86_64_sections_have_their_functions() {
    sections_have_their_functions("x86_64-rt");
}

/// The bound is above each measured latency, on an idle machine and beside a fault, which is in it with its function.
/// The timer is an interrupt of its own, with this number and name.
fn no_wake_up_exceeds_the_bound(machine: &str, timer: (u64, &str)) {
    let dir = tempfile::tempdir().unwrap();
    let bound = |fault: &str, out: &str| {
        let args = ["vm", "bound", machine, "-l", "100", "--settle", "2", "--fault", fault];
        let more = ["--task-set", "200us/1ms,900us/1ms", "--out", out];
        let output = run(dir.path(), &[&args[..], &more[..]].concat());
        assert!(output.status.success(), "{}", said(&output));
        assert!(printed(&output).lines().count() <= 40, "{}", printed(&output));
        assert!(!printed(&output).contains("longer than the bound"), "{}", printed(&output));
        let detail = json(&dir.path().join(out).join("run.json"))["parts"][0]["detail"].clone();
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let (bound, observed) = (number(&detail["bound"]), number(&detail["observed_ns"]));
        assert!(observed > 0 && observed <= bound && bound <= 3 * observed, "{detail:#}");
        assert_eq!(detail["user_wrong"], 0);
        assert_eq!(detail["wakeups"], 100);
        assert!(number(&detail["user_checks"]) > 1000, "{detail:#}");
        for component in detail["components"].as_array().unwrap() {
            let pending = component["kind"] == "pending";
            assert!(pending || number(&component["longest"]) > 0, "{component}");
        }
        let interrupts = detail["interrupts"].as_array().unwrap();
        let first = &interrupts[0];
        assert_eq!((number(&first["number"]), first["source"].as_str().unwrap()), timer);
        assert!(number(&first["count"]) >= 100 && number(&first["in_bound"]) > 0, "{first}");
        let responses: Vec<_> = detail["tasks"].as_array().unwrap().iter().collect();
        assert!(number(&responses[0]["response_ns"]) >= bound + 200_000, "{detail:#}");
        assert!(responses[1]["response_ns"].is_null(), "{detail:#}");
        detail
    };
    bound("none", "a");
    let detail = bound("irqs-off:us=30,every=1.03ms", "b");
    let postponed = &detail["components"][0];
    assert_eq!(postponed["kind"], "postponed");
    assert!((30_000..36_000).contains(&postponed["longest"].as_u64().unwrap()), "{postponed}");
    assert!(postponed["begins"].to_string().contains("latlab_faults"), "{postponed}");
}

#[test]
#[ignore = "boots a virtual machine"]
fn armv7_no_wake_up_exceeds_the_bound() {
    no_wake_up_exceeds_the_bound("armv7-rt", (27, "arch_timer"));
}

#[test]
#[ignore = "boots a virtual machine"]
fn x86_64_no_wake_up_exceeds_the_bound() {
    no_wake_up_exceeds_the_bound("x86_64-rt", (0xec, "sysvec_apic_timer_interrupt"));
}
