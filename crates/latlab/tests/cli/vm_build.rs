//! Kernels from source: one is built, started, traced and made late; what cannot be built is told before anything long.
//!
//! The first test needs the kernel's source, minutes of compiling and QEMU; `make test STAGE=vm-build` runs it.

use crate::common::{in_machine, plain, printed, said};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

fn latlab(dir: &Path, args: &[&str]) -> Output {
    in_machine(dir, args).output().unwrap()
}

/// What a test's kernel does without, so that it is compiled in minutes.
const WITHOUT: &[&str] = &[
    "INET",
    "NETFILTER",
    "WIRELESS",
    "NETDEVICES",
    "ETHTOOL_NETLINK",
    "NETLABEL",
    "DCB",
    "DRM",
    "FB",
    "SOUND",
    "USB_SUPPORT",
    "SCSI",
    "ATA",
    "MD",
    "HID",
    "HWMON",
    "IOMMU_SUPPORT",
    "SECURITY",
    "INTEGRITY",
    "AUDIT",
    "XEN",
    "SUSPEND",
    "HIBERNATION",
    "CPU_FREQ",
    "THERMAL",
    "EFI",
    "QUOTA",
    "BPF_SYSCALL",
    "IO_URING",
    "MEDIA_SUPPORT",
    "I2C",
    "SPI",
    "NUMA",
    "X86_EXTENDED_PLATFORM",
    "MACINTOSH_DRIVERS",
    "CHROME_PLATFORMS",
    "X86_PLATFORM_DEVICES",
    "STAGING",
    "RC_CORE",
    "MTD",
    "PCIEPORTBUS",
    "HOTPLUG_PCI",
    "MFD_CORE",
    "REGULATOR",
    "NEW_LEDS",
    "EXT4_FS",
    "VFAT_FS",
    "NLS",
    "NFS_FS",
    "VIRTIO_NET",
];

#[test]
#[ignore = "builds a kernel and boots it"]
fn a_kernel_from_source_has_its_tracers_and_takes_faults() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines = WITHOUT.iter().map(|name| format!("# CONFIG_{name} is not set\n"));
    fs::write(dir.join("small.config"), lines.collect::<String>()).unwrap();
    let build = |more: &[&str]| {
        let args =
            [&["vm", "build", "--json", "x86_64-rt", "tracers+./small.config"], more].concat();
        let output = latlab(dir, &args);
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let record = build(&["--deb", "kernel.deb"]);
    let release = record["release"].as_str().unwrap();
    assert!(release.contains("-rt") && release.ends_with("-tracers-small"), "{record:#}");
    assert!(record["realtime_patches"].as_u64() > Some(10), "{record:#}");
    // What it was built from is the same: it is not built again.
    assert_eq!(build(&[]), record);

    let script = "uname -r; cat /sys/kernel/realtime /sys/kernel/tracing/available_tracers; \
        ls /sys/kernel/tracing/events/preemptirq; latlab wakeup -q -p 80 -l 500 --out r > /dev/null";
    let args = [
        "vm",
        "run",
        "x86_64-rt,build=tracers+small,icount=0",
        "--fault",
        "irqs-off:us=700,every=7.1ms",
        "--",
    ];
    let output = latlab(dir, &[&args[..], &["sh", "-c", script]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let text = printed(&output);
    assert!(text.starts_with(&format!("{release}\n1\n")), "{text}");
    for word in
        ["osnoise", "timerlat", "hwlat", "irqsoff", "preemptoff", "function_graph", "irq_disable"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    let run: Value = serde_json::from_slice(&fs::read(dir.join("r/run.json")).unwrap()).unwrap();
    let summary = &run["parts"][0]["results"][0]["summary"];
    let max = summary["max"].as_f64().unwrap();
    assert!((500e3..1_500e3).contains(&max), "{summary:#}");
    assert_eq!(run["machine"]["kernel"]["release"], release);
    // The sections of executed instructions beside the kernel's own events of them: each event lies in one.
    let args = [
        "vm",
        "sections",
        "x86_64-rt,build=tracers+small",
        "--events",
        "-l",
        "20",
        "--settle",
        "2",
    ];
    let output = latlab(dir, &[&args[..], &["--out", "s"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let run: Value = serde_json::from_slice(&fs::read(dir.join("s/run.json")).unwrap()).unwrap();
    let result = |name: &str, what: &str| {
        let results = run["parts"][0]["results"].as_array().unwrap();
        let found = results.iter().find(|r| r["name"] == name).unwrap();
        found["summary"][what].as_f64().unwrap()
    };
    assert!(result("sections.events.at-reads", "max") > 1_000.0);
    assert_eq!(result("sections.events.elsewhere", "max"), 0.0);
    assert_eq!(result("sections.irqs-off.outside", "max"), 0.0);
    // What lies around the events is the tracing's own work.
    assert!(result("sections.irqs-off.before", "max") < 1_000.0);
    assert!(result("sections.irqs-off.without", "max") < 100.0);
    // A bound from a recording, as on a board: not below the longest wake-up to a switch, and with the fault in it.
    let record = "latlab record -C mono -b 65536 -e preemptirq -e irq_handler_entry -e irq_vectors -e sched_switch \
        -e sched_waking --kallsyms all -o t.dat -- latlab wakeup -q -p 80 -l 200 > /dev/null";
    let args = [
        "vm",
        "run",
        "x86_64-rt,build=tracers+small,icount=0",
        "--fault",
        "preempt-off:us=90,every=1.01ms",
    ];
    let output = latlab(dir, &[&args[..], &["--", "sh", "-c", record]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let output = latlab(dir, &["vm", "bound", "t.dat", "--json"]);
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let detail = &run["parts"][0]["detail"];
    let bound = detail["bound"].as_u64().unwrap();
    assert!(bound >= detail["observed_ns"].as_u64().unwrap() && bound < 1_000_000, "{detail:#}");
    let of = |kind: &str| {
        let components = detail["components"].as_array().unwrap();
        components.iter().find(|c| c["kind"] == kind).unwrap()["longest"].as_u64().unwrap()
    };
    assert!((90_000..150_000).contains(&of("postponed")), "{detail:#}");
    // The package is a kernel of one's own for any machine of the architecture.
    let packaged = ["vm", "run", "x86_64", "--kernel", "kernel.deb", "--", "uname", "-r"];
    assert_eq!(printed(&latlab(dir, &packaged)).trim(), release);
    let listed = latlab(dir, &["vm", "list"]);
    assert!(printed(&listed).contains("build=tracers+small"), "{}", printed(&listed));
}

#[test]
fn what_cannot_be_built_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let refused = |args: &[&str], words: &[&str]| {
        let output = plain(dir, args).env("XDG_CACHE_HOME", dir.join("cache")).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        for word in words {
            assert!(said(&output).contains(word), "{word}: {}", said(&output));
        }
    };
    refused(&["vm", "build", "armv7-rtx", "tracers"], &["no virtual machine \"armv7-rtx\""]);
    refused(
        &["vm", "build", "armv7-rt", "fast"],
        &["fast: no purpose of a kernel", "tracers, latency"],
    );
    refused(&["vm", "build", "armv7-rt", "./none.config"], &["./none.config: No such file"]);
    fs::write(dir.join("empty.config"), "# nothing\n").unwrap();
    refused(&["vm", "build", "armv7-rt", "empty.config"], &["no line sets an option"]);
    let run = ["vm", "run", "armv7-rt,build=tracers", "--", "true"];
    refused(&run, &["this kernel is not built", "latlab vm build armv7-rt tracers"]);
    let both = ["vm", "run", "armv7-rt,build=tracers,kernel=zImage", "--", "true"];
    refused(&both, &["two kernels are named"]);
    // Programs that are missing are named at once.
    let output =
        plain(dir, &["vm", "build", "armv7-rt", "latency"]).env("PATH", dir).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.contains("building a kernel needs make, flex, bison, bc"), "{text}");
    assert!(text.contains("apt-get install make flex bison bc"), "{text}");
}
