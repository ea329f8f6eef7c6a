//! Caches and data TLBs as CPUID reports them. The decoder takes register values, so that it is
//! tested on any machine.

use latlab_model::cache::{Reported, ReportedCache, ReportedTlb};

const KIB_4: u64 = 4 << 10;

const MIB_2: u64 = 2 << 20;

const MIB_4: u64 = 4 << 20;

const GIB_1: u64 = 1 << 30;

/// Decodes CPUID; `leaf(function, index)` is `[eax, ebx, ecx, edx]`.
///
/// Intel SDM vol. 2A, CPUID leaves 4 and 18H (deterministic cache and address translation parameters); AMD APM vol. 3,
/// appendix E.4, functions 8000_0005, 8000_0006, 8000_0019, 8000_001D and 8000_0021.
pub fn from_cpuid(leaf: impl Fn(u32, u32) -> [u32; 4]) -> Reported {
    let (basic, extended) = (leaf(0, 0)[0], leaf(0x8000_0000, 0)[0]);
    // TopologyExtensions: 8000_001D has the caches.
    let amd = extended >= 0x8000_001D && leaf(0x8000_0001, 0)[2] & 1 << 22 != 0;
    let function = if amd { 0x8000_001D } else { 4 };
    let mut caches = Vec::new();
    let subleaves = if amd || basic >= 4 { 16 } else { 0 };
    for index in 0..subleaves {
        let [eax, ebx, ecx, _] = leaf(function, index);
        let (kind, level) = (eax & 0x1F, eax >> 5 & 7);
        if kind == 0 {
            break;
        }
        let (line, parts, ways) = ((ebx & 0xFFF) + 1, (ebx >> 12 & 0x3FF) + 1, (ebx >> 22) + 1);
        let bytes = u64::from(line) * u64::from(parts) * u64::from(ways) * (u64::from(ecx) + 1);
        const INSTRUCTION: u32 = 2;
        if kind != INSTRUCTION {
            caches.push(ReportedCache { level, bytes, line_bytes: line, ways });
        }
    }
    let translation = if amd {
        amd_tlbs(&leaf, extended)
    } else if basic >= 0x18 {
        intel_tlbs(&leaf)
    } else {
        Vec::new()
    };
    // Two structures of one level that both hold base pages are one TLB to them (Golden Cove's second level).
    let base: Vec<&ReportedTlb> =
        translation.iter().filter(|t| t.page_bytes.contains(&KIB_4)).collect();
    let levels = base.chunk_by(|a, b| a.level == b.level);
    let tlbs = levels.map(|level| level.iter().map(|t| t.entries).sum()).collect();
    Reported { source: "CPUID".into(), caches, tlbs, translation }
}

fn amd_tlbs(leaf: &impl Fn(u32, u32) -> [u32; 4], extended: u32) -> Vec<ReportedTlb> {
    let (first, second) = (leaf(0x8000_0005, 0), leaf(0x8000_0006, 0));
    let large = if extended >= 0x8000_0019 { leaf(0x8000_0019, 0) } else { [0; 4] };
    let of_first = |register: u32, page: u64| {
        let (entries, ways) = (register >> 16 & 0xFF, register >> 24);
        let ways = if ways == 0xFF { entries } else { ways };
        ReportedTlb { level: 1, entries, ways, page_bytes: vec![page] }
    };
    let coded = |level: u32, unit: u32, register: u32, page: u64| {
        let entries = (register >> 16 & 0xFFF) * unit;
        let ways = amd_ways(register >> 28, entries);
        ReportedTlb { level, entries, ways, page_bytes: vec![page] }
    };
    // Without a known unit the second level has no entries, and is left out below.
    let unit = amd_second_level_unit(leaf, extended).unwrap_or(0);
    let mut all = vec![
        of_first(first[1], KIB_4),
        of_first(first[0], MIB_2),
        coded(1, 1, large[0], GIB_1),
        coded(2, unit, second[1], KIB_4),
        coded(2, unit, second[0], MIB_2),
        coded(2, unit, large[1], GIB_1),
    ];
    all.retain(|t| t.entries > 0);
    all
}

/// Entries that one unit of AMD's second-level TLB sizes stands for: 32 if L2TlbSIZEX32 (8000_0021 EAX bit 14) is set.
///
/// `None` if the bit cannot be relied on: the family may have it (1Ah and later), and a hypervisor, which may report the
/// sizes of the processor and clear the bit, states that it is present (leaf 1 ECX bit 31).
fn amd_second_level_unit(leaf: &impl Fn(u32, u32) -> [u32; 4], extended: u32) -> Option<u32> {
    const SIZE_X32: u32 = 1 << 14;
    const HYPERVISOR: u32 = 1 << 31;
    if extended >= 0x8000_0021 && leaf(0x8000_0021, 0)[0] & SIZE_X32 != 0 {
        return Some(32);
    }
    let [signature, _, features, _] = leaf(1, 0);
    let (base, extra) = (signature >> 8 & 0xF, signature >> 20 & 0xFF);
    let family = if base == 0xF { base + extra } else { base };
    let ambiguous = family >= 0x1A && features & HYPERVISOR != 0;
    (!ambiguous).then_some(1)
}

/// Ways by AMD's 4-bit code; a code for a range gives its lower end, 9 (see 8000_001D) nothing.
fn amd_ways(code: u32, entries: u32) -> u32 {
    match code {
        1..=4 => code,
        5 => 6,
        6 => 8,
        8 => 16,
        0xA => 32,
        0xB => 48,
        0xC => 64,
        0xD => 96,
        0xE => 128,
        0xF => entries,
        _ => 0,
    }
}

fn intel_tlbs(leaf: &impl Fn(u32, u32) -> [u32; 4]) -> Vec<ReportedTlb> {
    // Subleaves beyond this have not been seen; a hypervisor may report any number.
    let last = leaf(0x18, 0)[0].min(32);
    let mut all = Vec::new();
    for [_, ebx, ecx, edx] in (0..=last).map(|i| leaf(0x18, i)) {
        // Data, unified, loads only; not instructions (2) and stores only (5).
        if !matches!(edx & 0x1F, 1 | 3 | 4) {
            continue;
        }
        let sizes = [KIB_4, MIB_2, MIB_4, GIB_1].into_iter().enumerate();
        let page_bytes = sizes.filter(|(bit, _)| ebx >> bit & 1 != 0).map(|(_, s)| s).collect();
        let entries = (ebx >> 16) * ecx;
        let ways = if edx >> 8 & 1 != 0 { entries } else { ebx >> 16 };
        all.push(ReportedTlb { level: edx >> 5 & 7, entries, ways, page_bytes });
    }
    all.sort_by_key(|t| t.level);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u32, level: u32, line: u32, ways: u32, sets: u32) -> [u32; 4] {
        [kind | level << 5, (line - 1) | (ways - 1) << 22, sets - 1, 0]
    }
    /// Registers of an AMD EPYC 9004 (Zen 4).
    #[test]
    fn amd_leaves() {
        let found = from_cpuid(|leaf, index| match (leaf, index) {
            (0, _) => [0x10, 0, 0, 0],
            (0x8000_0000, _) => [0x8000_0028, 0, 0, 0],
            (0x8000_0001, _) => [0, 0, 1 << 22, 0],
            (0x8000_001D, 0) => entry(1, 1, 64, 8, 64),
            (0x8000_001D, 1) => entry(2, 1, 64, 8, 64),
            (0x8000_001D, 2) => entry(3, 2, 64, 8, 2048),
            (0x8000_001D, 3) => entry(3, 3, 64, 16, 32768),
            (0x8000_0005, _) => [0xFF48_FF40, 0xFF48_FF40, 0x2008_0140, 0x2008_0140],
            (0x8000_0006, _) => [0x5C00_2200, 0x6C00_4200, 0x0400_6140, 0x0080_9140],
            (0x8000_0019, _) => [0xF048_F040, 0, 0, 0],
            _ => [0; 4],
        });
        let sizes: Vec<_> = found.caches.iter().map(|c| (c.level, c.bytes, c.ways)).collect();
        assert_eq!(sizes, [(1, 32 << 10, 8), (2, 1 << 20, 8), (3, 32 << 20, 16)]);
        assert_eq!(found.tlbs, [72, 3072]);
        let tlb = |level, entries, ways, page| ReportedTlb {
            level,
            entries,
            ways,
            page_bytes: vec![page],
        };
        assert_eq!(
            found.translation,
            [
                tlb(1, 72, 72, KIB_4),
                tlb(1, 72, 72, MIB_2),
                tlb(1, 72, 72, GIB_1),
                tlb(2, 3072, 8, KIB_4),
                tlb(2, 3072, 6, MIB_2),
            ]
        );
    }
    /// Second-level TLBs as `(entries, ways, page)` from registers of an AMD EPYC 9005 (Zen 5, family 1Ah).
    fn zen_5(features: u32, extended_features: u32) -> Vec<(u32, u32, u64)> {
        let found = from_cpuid(|leaf, _| match leaf {
            0 => [0x10, 0, 0, 0],
            1 => [0x00B0_0F21, 0, features, 0],
            0x8000_0000 => [0x8000_0028, 0, 0, 0],
            0x8000_0001 => [0, 0, 1 << 22, 0],
            0x8000_0005 => [0xFF60_FF40, 0xFF60_FF40, 0, 0],
            0x8000_0006 => [0x6080_4040, 0x6080_4040, 0, 0],
            0x8000_0019 => [0xF060_F040, 0x5020_4040, 0, 0],
            0x8000_0021 => [extended_features, 0, 0, 0],
            _ => [0; 4],
        });
        let (first, second) = found.translation.split_at(3);
        assert!(first.iter().all(|t| (t.level, t.entries) == (1, 96)), "{first:?}");
        assert!(second.iter().all(|t| t.level == 2));
        assert_eq!(found.tlbs.len(), if second.is_empty() { 1 } else { 2 });
        second.iter().map(|t| (t.entries, t.ways, t.page_bytes[0])).collect()
    }

    #[test]
    fn amd_second_level_sizes_have_a_unit() {
        let times_32 = [(4096, 8, KIB_4), (4096, 8, MIB_2), (1024, 6, GIB_1)];
        assert_eq!(zen_5(0, 0x4204), times_32);
        assert_eq!(zen_5(1 << 31, 0x4204), times_32, "in a guest that sees the bit");
        // A KVM guest with sizes of the processor and without the bit.
        assert_eq!(zen_5(1 << 31, 0x0204), []);
        assert_eq!(zen_5(0, 0x0204), [(128, 8, KIB_4), (128, 8, MIB_2), (32, 6, GIB_1)]);
    }

    /// Leaf 18H of a Golden Cove core: 96 entries for loads, 2048 in the second level (Intel optimization manual, 2.5).
    #[test]
    fn intel_leaves() {
        let found = from_cpuid(|leaf, index| match (leaf, index) {
            (0, _) => [0x20, 0, 0, 0],
            (4, 0) => entry(1, 1, 64, 12, 64),
            (4, 1) => entry(2, 1, 64, 8, 64),
            (4, 2) => entry(3, 2, 64, 16, 2048),
            (0x18, 0) => [8, 0, 0, 0],
            (0x18, 1) => [0, 0x0008_0001, 0x20, 0x4022],
            (0x18, 3) => [0, 0x0010_000F, 1, 0x4125],
            (0x18, 4) => [0, 0x0006_0001, 0x10, 0x4024],
            (0x18, 5) => [0, 0x0004_0006, 8, 0x4024],
            (0x18, 7) => [0, 0x0008_0007, 0x80, 0x4043],
            (0x18, 8) => [0, 0x0008_0009, 0x80, 0x4043],
            _ => [0; 4],
        });
        let sizes: Vec<_> = found.caches.iter().map(|c| (c.level, c.bytes, c.ways)).collect();
        assert_eq!(sizes, [(1, 48 << 10, 12), (2, 2 << 20, 16)]);
        assert_eq!(found.tlbs, [96, 2048]);
        assert_eq!((found.translation[0].ways, found.translation[1].entries), (6, 32));
    }
}
