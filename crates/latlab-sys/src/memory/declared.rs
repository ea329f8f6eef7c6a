//! What kernel, processor and device tree say of the caches of CPU 0.
//!
//! CPUID: Intel SDM vol. 2A, leaves 4 and 18H; AMD APM vol. 3, appendix E, functions 8000_0005,
//! 8000_0006 and 8000_001D. Device tree: Devicetree Specification v0.4, §3.8 (`d-cache-size`,
//! `d-cache-line-size`, `d-cache-sets`, `next-level-cache`). CTR_EL0: Arm ARM (DDI 0487), D24.2.34.

use latlab_core::machine::Machine;
use latlab_core::memory::declared::{Declared, DeclaredCache};
use std::path::Path;

/// Every source that says anything.
pub fn declared(machine: &Machine) -> Vec<Declared> {
    let all =
        [Some(kernel(machine)), processor(), device_tree(Path::new("/proc/device-tree/cpus"))];
    all.into_iter().flatten().filter(|d| !d.caches.is_empty() || !d.tlbs.is_empty()).collect()
}

fn kernel(machine: &Machine) -> Declared {
    let data = machine.caches.iter().filter(|c| c.kind != "Instruction");
    let caches = data.map(|c| DeclaredCache {
        level: c.level,
        bytes: c.size_bytes,
        line_bytes: c.line_bytes.unwrap_or(0),
        ways: c.ways.unwrap_or(0),
    });
    Declared { source: "sysfs".into(), caches: caches.collect(), tlbs: Vec::new() }
}

#[cfg(target_arch = "x86_64")]
fn processor() -> Option<Declared> {
    let leaf = |leaf: u32, sub: u32| {
        let r = std::arch::x86_64::__cpuid_count(leaf, sub);
        [r.eax, r.ebx, r.ecx, r.edx]
    };
    Some(cpuid(leaf))
}

#[cfg(target_arch = "aarch64")]
fn processor() -> Option<Declared> {
    let ctr: u64;
    // SAFETY: CTR_EL0 only reads; Linux lets user space read it, or reads it in its place.
    unsafe { std::arch::asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack)) };
    // DminLine: log2 of the words in the smallest line of all data caches.
    let line_bytes = 4u32 << (ctr >> 16 & 0xF);
    let caches = vec![DeclaredCache { level: 1, line_bytes, ..DeclaredCache::default() }];
    Some(Declared { source: "CTR_EL0".into(), caches, tlbs: Vec::new() })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn processor() -> Option<Declared> {
    None
}

/// What the registers of CPUID mean; `leaf(function, index)` is `[eax, ebx, ecx, edx]`.
#[cfg_attr(
    not(any(target_arch = "x86_64", test)),
    expect(dead_code, reason = "no CPUID on this processor")
)]
fn cpuid(leaf: impl Fn(u32, u32) -> [u32; 4]) -> Declared {
    let (basic, extended) = (leaf(0, 0)[0], leaf(0x8000_0000, 0)[0]);
    let amd = extended >= 0x8000_001D && leaf(0x8000_0001, 0)[2] & 1 << 22 != 0;
    let function = if amd { 0x8000_001D } else { 4 };
    let mut caches = Vec::new();
    for index in 0..16 {
        if function == 4 && basic < 4 {
            break;
        }
        let [eax, ebx, ecx, _] = leaf(function, index);
        let (kind, level) = (eax & 0x1F, eax >> 5 & 7);
        if kind == 0 {
            break;
        }
        let (line, parts, ways) = ((ebx & 0xFFF) + 1, (ebx >> 12 & 0x3FF) + 1, (ebx >> 22) + 1);
        let bytes = u64::from(line) * u64::from(parts) * u64::from(ways) * (u64::from(ecx) + 1);
        // 2 is a cache of instructions.
        if kind != 2 {
            caches.push(DeclaredCache { level, bytes, line_bytes: line, ways });
        }
    }
    let mut tlbs = Vec::new();
    if amd {
        tlbs.push(leaf(0x8000_0005, 0)[1] >> 16 & 0xFF);
        tlbs.push(leaf(0x8000_0006, 0)[1] >> 16 & 0xFFF);
    } else if basic >= 0x18 {
        let last = leaf(0x18, 0)[0].min(32);
        let mut found: Vec<(u32, u32)> = (0..=last)
            .map(|i| leaf(0x18, i))
            // Data or unified or loads only, for pages of 4 KiB.
            .filter(|r| matches!(r[3] & 0x1F, 1 | 3 | 4) && r[1] & 1 != 0)
            .map(|r| (r[3] >> 5 & 7, (r[1] >> 16) * r[2]))
            .collect();
        found.sort_unstable();
        tlbs.extend(found.into_iter().map(|t| t.1));
    }
    tlbs.retain(|t| *t > 0);
    Declared { source: "CPUID".into(), caches, tlbs }
}

/// Caches of the first processor in a device tree, outwards along `next-level-cache`.
fn device_tree(cpus: &Path) -> Option<Declared> {
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
            caches.push(DeclaredCache { level, bytes: bytes.into(), line_bytes, ways });
        }
        let Some(next) = cell(&node.join("next-level-cache")) else { break };
        let Some(found) = by_phandle(cpus.parent()?, next, 0) else { break };
        node = found;
    }
    Some(Declared { source: "device tree".into(), caches, tlbs: Vec::new() })
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

    /// Registers of an AMD EPYC (Zen 4) and of an Intel processor, as their manuals lay them out.
    #[test]
    fn registers_become_caches_and_tlbs() {
        let entry = |kind: u32, level: u32, line: u32, ways: u32, sets: u32| {
            [kind | level << 5, (line - 1) | (ways - 1) << 22, sets - 1, 0]
        };
        let amd = cpuid(|leaf, index| match (leaf, index) {
            (0, _) => [0x10, 0, 0, 0],
            (0x8000_0000, _) => [0x8000_0028, 0, 0, 0],
            (0x8000_0001, _) => [0, 0, 1 << 22, 0],
            (0x8000_001D, 0) => entry(1, 1, 64, 8, 64),
            (0x8000_001D, 1) => entry(2, 1, 64, 8, 64),
            (0x8000_001D, 2) => entry(3, 2, 64, 8, 2048),
            (0x8000_001D, 3) => entry(3, 3, 64, 16, 32768),
            (0x8000_0005, _) => [0, 0xFF48_FF40, 0, 0],
            (0x8000_0006, _) => [0, 0x6C00_6200, 0, 0],
            _ => [0; 4],
        });
        let sizes: Vec<(u32, u64, u32)> =
            amd.caches.iter().map(|c| (c.level, c.bytes, c.ways)).collect();
        assert_eq!(sizes, [(1, 32 << 10, 8), (2, 1 << 20, 8), (3, 32 << 20, 16)]);
        assert_eq!(amd.tlbs, [72, 3072]);
        let intel = cpuid(|leaf, index| match (leaf, index) {
            (0, _) => [0x1F, 0, 0, 0],
            (4, 0) => entry(1, 1, 64, 12, 64),
            (0x18, 0) => [2, 0, 0, 0],
            (0x18, 1) => [0, 1 | 6 << 16, 16, 1 | 1 << 5],
            (0x18, 2) => [0, 3 | 16 << 16, 128, 3 | 2 << 5],
            _ => [0; 4],
        });
        assert_eq!((intel.caches[0].bytes, intel.caches[0].ways), (48 << 10, 12));
        assert_eq!(intel.tlbs, [96, 2048]);
    }

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
        let first = DeclaredCache { level: 1, bytes: 32 << 10, line_bytes: 64, ways: 4 };
        let second = DeclaredCache { level: 2, bytes: 1 << 20, line_bytes: 0, ways: 0 };
        assert_eq!(found, [first, second]);
        assert!(device_tree(Path::new("/nonexistent")).is_none());
    }
}
