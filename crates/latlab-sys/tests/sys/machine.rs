//! The machine description on trees: a BeagleBone-like board, an empty root, and this machine.

use latlab_sys::clock::Meter;
use latlab_sys::files::Root;
use latlab_sys::machine::{Live, read, read_from};
use std::fs;
use std::path::Path;

fn put(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// AM3358, Cortex-A8, Linux 3.8 with the files that such a kernel has: no cpuidle states,
/// no caches in sysfs, no MemAvailable, per-CPU cpufreq, 24 MHz timer without high resolution.
fn beaglebone(root: &Path) {
    put(root, "proc/device-tree/model", b"TI AM335x BeagleBone Black\0");
    put(root, "proc/device-tree/compatible", b"ti,am335x-bone-black\0ti,am33xx\0");
    put(
        root,
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: ARMv7 Processor rev 2 (v7l)\nFeatures\t: swp half thumb fastmult vfp edsp neon vfpv3\nCPU implementer\t: 0x41\nCPU architecture: 7\nCPU part\t: 0xc08\n\nHardware\t: Generic AM33XX (Flattened Device Tree)\n",
    );
    put(root, "proc/meminfo", "MemTotal: 507508 kB\nMemFree: 300000 kB\nCached: 100000 kB\n");
    put(root, "proc/loadavg", "0.08 0.03 0.05 1/94 1234\n");
    put(root, "proc/stat", "cpu  10 0 20 1000 5 0 1 0 0 0\ncpu0 10 0 20 1000 5 0 1 0 0 0\n");
    put(root, "proc/cmdline", "console=ttyO0,115200n8 root=/dev/mmcblk0p2 rootwait\n");
    put(root, "proc/sys/kernel/sched_rt_runtime_us", "950000\n");
    put(root, "proc/sys/kernel/sched_rt_period_us", "1000000\n");
    put(root, "proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
    put(root, "proc/irq/16/smp_affinity_list", "0\n");
    put(root, "sys/devices/system/cpu/online", "0\n");
    put(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "ondemand\n");
    put(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "300000\n");
    put(root, "sys/class/thermal/thermal_zone0/type", "omap_thermal\n");
    put(root, "sys/class/thermal/thermal_zone0/temp", "51000\n");
    put(root, "sys/devices/system/clocksource/clocksource0/current_clocksource", "gp_timer\n");
    put(
        root,
        "boot/config-3.8.13-bone70",
        "CONFIG_HZ=100\nCONFIG_PREEMPT=y\n# CONFIG_HIGH_RES_TIMERS is not set\n",
    );
}

fn board_live() -> Live {
    Live {
        host: "beaglebone".into(),
        release: "3.8.13-bone70".into(),
        version: "#1 SMP Fri Jan 23 02:15:42 UTC 2015".into(),
        arch: "armv7l".into(),
        page_bytes: 4096,
        resolution_ns: 10_000_000,
        meter: Meter { step_ns: 41, read_ns: 900 },
        ..Live::default()
    }
}

#[test]
fn a_beaglebone_is_described_without_what_it_has_not() {
    let t = tempfile::tempdir().unwrap();
    beaglebone(t.path());
    let m = read_from(&Root::at(t.path()), &board_live());
    assert_eq!(m.board.as_deref(), Some("TI AM335x BeagleBone Black"));
    assert_eq!(m.cpu.model.as_deref(), Some("Cortex-A8, ARMv7 Processor rev 2 (v7l)"));
    assert_eq!((m.cpu.online.as_str(), m.cpu.count), ("0", 1));
    assert_eq!(m.cpu.governors["cpu0"], "ondemand");
    assert_eq!(m.memory_bytes, Some(507_508 * 1024));
    assert_eq!(m.start.available_bytes, Some(400_000 * 1024), "MemFree + Cached before 3.14");
    assert_eq!(m.start.khz, [300_000]);
    assert_eq!(m.start.temperature_mc["omap_thermal"], 51_000);
    assert_eq!(m.start.throttled, None, "no cooling device");
    put(t.path(), "sys/class/thermal/cooling_device0/type", "thermal-cpufreq-0\n");
    put(t.path(), "sys/class/thermal/cooling_device0/cur_state", "2\n");
    put(t.path(), "sys/class/thermal/cooling_device1/type", "pwm-fan\n");
    put(t.path(), "sys/class/thermal/cooling_device1/cur_state", "3\n");
    put(t.path(), "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "40\n");
    let m = read_from(&Root::at(t.path()), &board_live());
    assert_eq!(m.start.throttled, Some(42), "a fan is no throttling");
    assert_eq!(m.clock.source.as_deref(), Some("gp_timer"));
    assert_eq!(m.clock.high_resolution_timers, Some(false), "the clock resolves a tick");
    assert_eq!(m.kernel.hz, Some(100));
    assert_eq!(m.kernel.preemption.as_deref(), Some("full"));
    assert_eq!(m.kernel.config_source.as_deref(), Some("/boot/config-3.8.13-bone70"));
    assert_eq!(m.rt.priority_max, 0);
    assert_eq!(m.virtualization, None);
    assert!(m.caches.is_empty() && m.mitigations.is_empty() && m.thp.is_none());
    assert_eq!(m.irq_affinity["16"], "0");
}

#[test]
fn an_empty_tree_is_a_machine_that_says_nothing() {
    let t = tempfile::tempdir().unwrap();
    let m = read_from(&Root::at(t.path()), &Live::default());
    assert_eq!(m.cpu.count, 0);
    assert_eq!(m.kernel.config_source, None);
    assert_eq!(m.clock.high_resolution_timers, None);
    assert_eq!(m.rt.runtime_us, None);
}

#[test]
fn a_packed_configuration_is_unpacked_and_a_bomb_is_not() {
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;
    let packed = |bytes: &[u8]| {
        let mut z = GzEncoder::new(Vec::new(), Compression::best());
        z.write_all(bytes).unwrap();
        z.finish().unwrap()
    };
    let t = tempfile::tempdir().unwrap();
    put(t.path(), "proc/config.gz", packed(b"CONFIG_HZ=1000\nCONFIG_PREEMPT_RT=y\n"));
    let m = read_from(&Root::at(t.path()), &Live::default());
    assert_eq!(m.kernel.hz, Some(1000));
    assert_eq!(m.kernel.preemption.as_deref(), Some("rt"));
    put(t.path(), "proc/config.gz", packed(&vec![b'#'; 64 << 20]));
    assert_eq!(read_from(&Root::at(t.path()), &Live::default()).kernel.config_source, None);
}

#[test]
fn virtual_machines_are_recognised_by_any_sign() {
    let seen = |path: &str, content: &[u8], signature: Option<&str>| {
        let t = tempfile::tempdir().unwrap();
        put(t.path(), path, content);
        let live = Live { hypervisor: signature.map(str::to_owned), ..Live::default() };
        read_from(&Root::at(t.path()), &live).virtualization.unwrap_or_default()
    };
    assert_eq!(seen("x", b"", Some("KVMKVMKVM")), "kvm");
    assert_eq!(seen("x", b"", Some("TCGTCGTCGTCG")), "qemu-tcg");
    assert_eq!(seen("proc/device-tree/compatible", b"linux,dummy-virt\0", None), "qemu");
    assert_eq!(seen("sys/class/dmi/id/sys_vendor", b"QEMU\n", None), "qemu");
    assert_eq!(seen("proc/cpuinfo", b"flags\t: fpu hypervisor\n", None), "unknown hypervisor");
    assert_eq!(seen(".dockerenv", b"", Some("KVMKVMKVM")), "kvm, docker");
    assert_eq!(seen("proc/1/environ", b"A=b\0container=lxc\0", None), "lxc");
    assert_eq!(seen("x", b"", None), "");
}

#[test]
fn this_machine_describes_itself() {
    let m = read();
    assert!(!m.host.is_empty() && !m.kernel.release.is_empty());
    assert!(m.cpu.count >= 1, "{:?}", m.cpu);
    assert!(m.memory_bytes.unwrap_or(0) > 1 << 20);
    assert!(m.clock.step_ns > 0 && m.page_bytes >= 4096);
    let json = serde_json::to_string(&m).unwrap();
    assert_eq!(serde_json::from_str::<latlab_model::machine::Machine>(&json).unwrap(), m);
}
