//! What kernel, processor and device tree report of the caches of CPU 0.
//!
//! Device tree: Devicetree Specification v0.4, §3.8 (`d-cache-size`,
//! `d-cache-line-size`, `d-cache-sets`, `next-level-cache`). CTR_EL0: Arm ARM (DDI 0487), D24.2.34.

#[cfg(target_arch = "x86_64")]
use super::cpuid::from_cpuid;
use latlab_model::cache::reported::{Reported, ReportedCache};
use latlab_model::machine::Machine;
use std::path::Path;

/// Every source that reports anything.
pub fn reported(machine: &Machine) -> Vec<Reported> {
    let all =
        [Some(kernel(machine)), processor(), device_tree(Path::new("/proc/device-tree/cpus"))];
    all.into_iter().flatten().filter(|d| !d.caches.is_empty() || !d.tlbs.is_empty()).collect()
}

fn kernel(machine: &Machine) -> Reported {
    let data = machine.caches.iter().filter(|c| c.kind != "Instruction");
    let caches = data.map(|c| ReportedCache {
        level: c.level,
        bytes: c.size_bytes,
        line_bytes: c.line_bytes.unwrap_or(0),
        ways: c.ways.unwrap_or(0),
    });
    Reported { source: "sysfs".into(), caches: caches.collect(), ..Reported::default() }
}

#[cfg(target_arch = "x86_64")]
fn processor() -> Option<Reported> {
    let leaf = |leaf: u32, sub: u32| {
        let r = std::arch::x86_64::__cpuid_count(leaf, sub);
        [r.eax, r.ebx, r.ecx, r.edx]
    };
    Some(from_cpuid(leaf))
}

#[cfg(target_arch = "aarch64")]
fn processor() -> Option<Reported> {
    let ctr: u64;
    // SAFETY: CTR_EL0 only reads; Linux lets user space read it, or reads it in its place.
    unsafe { std::arch::asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack)) };
    // DminLine: log2 of the words in the smallest line of all data caches.
    let line_bytes = 4u32 << (ctr >> 16 & 0xF);
    let caches = vec![ReportedCache { level: 1, line_bytes, ..ReportedCache::default() }];
    Some(Reported { source: "CTR_EL0".into(), caches, ..Reported::default() })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn processor() -> Option<Reported> {
    None
}

/// Caches of the first processor in a device tree, outwards along `next-level-cache`.
fn device_tree(cpus: &Path) -> Option<Reported> {
    let mut names: Vec<_> = std::fs::read_dir(cpus).ok()?.flatten().map(|e| e.path()).collect();
    names.retain(|p| p.join("reg").is_file() && p.join("device_type").is_file());
    names.sort();
    let cell = |path: &Path| -> Option<u32> {
        let bytes = std::fs::read(path).ok()?;
        Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
    };
    let mut node = names.into_iter().next()?;
    let mut caches = Vec::new();
    for level in 1..=4 {
        // A first cache is one of data, those further out hold both.
        let of = |name: &str| {
            let unified = || cell(&node.join(format!("cache-{name}")));
            cell(&node.join(format!("d-cache-{name}"))).or_else(unified)
        };
        let (bytes, sets) = (of("size").unwrap_or(0), of("sets").unwrap_or(0));
        let line_bytes = of("line-size").or_else(|| of("block-size")).unwrap_or(0);
        let way = sets.saturating_mul(line_bytes);
        let ways = bytes.checked_div(way).unwrap_or(0);
        if bytes > 0 || line_bytes > 0 {
            caches.push(ReportedCache { level, bytes: bytes.into(), line_bytes, ways });
        }
        let Some(next) = cell(&node.join("next-level-cache")) else { break };
        let Some(found) = by_phandle(cpus.parent()?, next, 0) else { break };
        node = found;
    }
    Some(Reported { source: "device tree".into(), caches, ..Reported::default() })
}

/// The node with a phandle, among those that may be caches: below the root and below `cpus`.
fn by_phandle(dir: &Path, wanted: u32, depth: u32) -> Option<std::path::PathBuf> {
    let own = |p: &Path| {
        let bytes = std::fs::read(p.join("phandle")).ok()?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?) == wanted)
    };
    for entry in std::fs::read_dir(dir).ok()?.flatten() {
        let path = entry.path();
        if !entry.file_type().is_ok_and(|t| t.is_dir()) {
            continue;
        }
        if own(&path) == Some(true) {
            return Some(path);
        }
        if depth < 3
            && let Some(found) = by_phandle(&path, wanted, depth + 1)
        {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_tree_is_followed_outwards() {
        let dir = std::env::temp_dir().join(format!("latlab-dt-{}", std::process::id()));
        let write = |path: &str, bytes: &[u8]| {
            let file = dir.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, bytes).unwrap();
        };
        let cell = |path: &str, v: u32| write(path, &v.to_be_bytes());
        write("cpus/cpu@0/device_type", b"cpu\0");
        cell("cpus/cpu@0/reg", 0);
        for (name, v) in [("size", 0x8000), ("line-size", 64), ("sets", 128)] {
            cell(&format!("cpus/cpu@0/d-cache-{name}"), v);
        }
        cell("cpus/cpu@0/next-level-cache", 7);
        cell("cpus/l2-cache0/phandle", 7);
        cell("cpus/l2-cache0/cache-size", 0x10_0000);
        let found = device_tree(&dir.join("cpus")).unwrap().caches;
        std::fs::remove_dir_all(&dir).unwrap();
        let first = ReportedCache { level: 1, bytes: 32 << 10, line_bytes: 64, ways: 4 };
        let second = ReportedCache { level: 2, bytes: 1 << 20, line_bytes: 0, ways: 0 };
        assert_eq!(found, [first, second]);
        assert!(device_tree(Path::new("/nonexistent")).is_none());
    }
}
