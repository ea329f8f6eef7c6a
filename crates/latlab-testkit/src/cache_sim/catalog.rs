//! Catalogue of simulated memory hierarchies: named processors, made-up combinations and random draws.
//!
//! Parameters of named processors are those of their technical reference manuals and optimisation
//! guides, latencies rounded; the others are made up to cover combinations.

use super::tags::Policy;
use super::tags::Policy::{Brrip, Lru, Qlru, Random, Srrip, TreePlru};
use super::{CacheSpec, Fill, Hierarchy, Hostile, TlbSpec};
use latlab_stats::rng::SplitMix64;

const K: u32 = 1 << 10;
const M: u32 = 1 << 20;

fn cache(bytes: u32, ways: u32, ns: f64, policy: Policy) -> CacheSpec {
    CacheSpec { bytes, ways, ns, policy, fill: Fill::Plain, hashed: false }
}

fn tlb(entries: u32, ways: u32, miss_ns: f64) -> TlbSpec {
    TlbSpec { entries, ways, miss_ns }
}

fn machine(
    name: &'static str,
    line: u32,
    caches: Vec<CacheSpec>,
    tlbs: Vec<TlbSpec>,
    memory_ns: f64,
) -> Hierarchy {
    Hierarchy {
        name,
        line,
        caches,
        victim_lines: 0,
        tlbs,
        memory_ns,
        huge: false,
        splintered: false,
        noise: 0.01,
        outliers: 0.05,
        hostile: Hostile::default(),
    }
}

fn huge(h: Hierarchy) -> Hierarchy {
    Hierarchy { huge: true, ..h }
}

fn fill(c: CacheSpec, fill: Fill) -> CacheSpec {
    CacheSpec { fill, ..c }
}

fn hashed(c: CacheSpec) -> CacheSpec {
    CacheSpec { hashed: true, ..c }
}

/// `n` hierarchies drawn at random with a seed: one to three levels, each 8 to 21 times the one before, latencies
/// 2.8 to 4.7 times; policies, ways, TLBs, huge pages and noise at random.
pub fn drawn(n: usize, seed: u64) -> Vec<Hierarchy> {
    let mut rng = SplitMix64::new(seed);
    (0..n).map(|_| draw(&mut rng)).collect()
}

fn draw(rng: &mut SplitMix64) -> Hierarchy {
    fn one<T: Copy>(rng: &mut SplitMix64, of: &[T]) -> T {
        of[rng.below(of.len())]
    }
    let line = one(rng, &[64, 64, 64, 32, 128]);
    let levels = one(rng, &[1, 2, 2, 2, 3]);
    let mut caches: Vec<CacheSpec> = Vec::new();
    let (mut bytes, mut ns) =
        (one(rng, &[8, 16, 32, 32, 48, 64]) * K, 1.0 + rng.below(20) as f64 / 10.0);
    for i in 0..levels {
        let odd = bytes >> bytes.trailing_zeros();
        let ways: u32 = if odd == 3 { one(rng, &[6, 12]) } else { one(rng, &[4, 8, 8, 16]) };
        let policy = if ways.is_power_of_two() { one(rng, &[Lru, TreePlru, Random]) } else { Lru };
        let plain = cache(bytes, ways, ns, policy);
        caches.push(if i == 2 { hashed(plain) } else { plain });
        bytes = (bytes / odd) * one(rng, &[8, 8, 16]) * if odd == 3 { 4 } else { 1 };
        ns *= 2.8 + rng.below(20) as f64 / 10.0;
    }
    let entries = one(rng, &[16, 32, 48, 64]);
    let tlbs = vec![tlb(entries, entries, 2.0), tlb(one(rng, &[256, 512, 1024]), 4, 12.0)];
    let mut h = machine("drawn", line, caches, tlbs, (ns * 1.5).max(80.0));
    h.huge = rng.below(2) == 0;
    h.noise = one(rng, &[0.005, 0.01, 0.02]);
    h
}

/// `n` hierarchies of a wider family, drawn at random with a seed: levels 3 to 16 times the one before, latencies 1.8
/// to 4.5 times, inclusive and exclusive outer caches, set-associative first TLBs, splintered huge pages, more
/// outliers, and a replacement policy (SRRIP) of which the inference has no model.
pub fn wide(n: usize, seed: u64) -> Vec<Hierarchy> {
    let mut rng = SplitMix64::new(seed);
    (0..n).map(|_| draw_wide(&mut rng)).collect()
}

fn draw_wide(rng: &mut SplitMix64) -> Hierarchy {
    fn one<T: Copy>(rng: &mut SplitMix64, of: &[T]) -> T {
        of[rng.below(of.len())]
    }
    let line = one(rng, &[64, 64, 64, 64, 32, 128]);
    let levels = one(rng, &[2, 2, 3]);
    let mut caches: Vec<CacheSpec> = Vec::new();
    let (mut bytes, mut ns) =
        (one(rng, &[16, 24, 32, 48, 64]) * K, 1.0 + rng.below(20) as f64 / 10.0);
    for i in 0..levels {
        let odd = bytes >> bytes.trailing_zeros();
        let ways: u32 = match odd {
            1 => one(rng, &[2, 4, 8, 8, 16, 16]),
            3 => one(rng, &[6, 12]),
            _ => 4 * odd,
        };
        let policy = match ways.is_power_of_two() {
            true => one(rng, &[Lru, TreePlru, Random, Srrip]),
            false => one(rng, &[Lru, Random, Srrip]),
        };
        let relation = match i {
            0 => Fill::Plain,
            _ => one(rng, &[Fill::Plain, Fill::Plain, Fill::Inclusive, Fill::Exclusive]),
        };
        let c = fill(cache(bytes, ways, ns, policy), relation);
        caches.push(if i == 2 { hashed(c) } else { c });
        let two = bytes / odd;
        bytes = match odd {
            1 => two * one(rng, &[4, 8, 16, 5, 6, 12]),
            _ => two * one(rng, &[16, 32, 20]),
        };
        ns *= 1.8 + rng.below(28) as f64 / 10.0;
    }
    let first = one(rng, &[(32, 32), (64, 64), (64, 4), (96, 6), (72, 72), (48, 48)]);
    let second = one(rng, &[(512, 4), (1024, 8), (1536, 12), (2048, 16)]);
    let tlbs = vec![tlb(first.0, first.1, 2.0), tlb(second.0, second.1, 10.0)];
    let mut h = machine("wide", line, caches, tlbs, (ns * 1.3).max(70.0));
    (h.huge, h.splintered) = one(rng, &[(false, false), (true, false), (true, true)]);
    h.noise = one(rng, &[0.005, 0.01, 0.02]);
    h.outliers = one(rng, &[0.05, 0.1, 0.2]);
    h
}

/// `n` hierarchies of [`wide`] with what the inference has no model of: quad-age, static and bimodal replacement in
/// the outer caches, wrong predictions of ways, a prefetcher of pairs of lines, a neighbour that takes
/// part of the last cache, pages of others in the TLBs, a sliced last level.
pub fn hostile(n: usize, seed: u64) -> Vec<Hierarchy> {
    let mut rng = SplitMix64::new(seed);
    (0..n).map(|_| draw_hostile(&mut rng)).collect()
}

fn draw_hostile(rng: &mut SplitMix64) -> Hierarchy {
    fn one<T: Copy>(rng: &mut SplitMix64, of: &[T]) -> T {
        of[rng.below(of.len())]
    }
    let mut h = draw_wide(rng);
    h.name = "hostile";
    let last = h.caches.len() - 1;
    for (i, c) in h.caches.iter_mut().enumerate().skip(1) {
        c.policy = one(rng, &[Qlru, Srrip, Brrip, c.policy]);
        c.hashed |= i == last && one(rng, &[true, false]);
    }
    h.hostile = Hostile {
        way_misses: one(rng, &[0.0, 0.0, 0.03, 0.1]),
        pairs: one(rng, &[true, false, false]),
        neighbour: one(rng, &[0.0, 0.0, 0.01, 0.05]),
        other_pages: one(rng, &[0, 2, 6, 12]),
    };
    h
}

/// The frozen set of [`hostile`], drawn after the inference was frozen; no machine of it was looked at. An earlier one
/// had 80 machines of the seed 771205.
pub fn frozen_hostile() -> Vec<Hierarchy> {
    hostile(80, 20_261_127)
}

/// The set of [`hostile`] that the inference was tuned on.
pub fn training_hostile() -> Vec<Hierarchy> {
    hostile(40, 33)
}

/// The set that the inference is judged by; its seeds are fixed and no machine of it was looked at while tuning.
pub fn frozen() -> Vec<Hierarchy> {
    [drawn(120, 771_203), wide(80, 771_204)].concat()
}

/// The set that the inference was tuned on, besides [`named`].
pub fn training() -> Vec<Hierarchy> {
    [drawn(30, 31), wide(30, 32)].concat()
}

/// Named processors and combinations of size, ways, policy and pages.
pub fn named() -> Vec<Hierarchy> {
    let mut all = arm();
    all.extend(x86());
    all.extend(made_up());
    all
}

fn arm() -> Vec<Hierarchy> {
    let two = |l1, l2| vec![l1, l2];
    vec![
        machine(
            "Cortex-A8",
            64,
            two(cache(32 * K, 4, 3.0, Random), cache(256 * K, 8, 14.0, Random)),
            vec![tlb(32, 32, 40.0)],
            220.0,
        ),
        machine(
            "Cortex-A8, LRU",
            64,
            two(cache(32 * K, 4, 3.0, Lru), cache(256 * K, 8, 14.0, Lru)),
            vec![tlb(32, 32, 40.0)],
            220.0,
        ),
        machine(
            "Cortex-A7, 512K",
            64,
            two(cache(32 * K, 4, 3.0, Random), cache(512 * K, 8, 10.0, Random)),
            vec![tlb(10, 10, 3.0), tlb(256, 2, 30.0)],
            150.0,
        ),
        machine(
            "Cortex-A9",
            32,
            two(cache(32 * K, 4, 4.0, Random), cache(512 * K, 8, 25.0, Random)),
            vec![tlb(32, 32, 8.0), tlb(128, 2, 40.0)],
            120.0,
        ),
        machine(
            "Cortex-A15",
            64,
            two(cache(32 * K, 2, 2.7, Lru), cache(M, 16, 14.0, Random)),
            vec![tlb(32, 32, 5.0), tlb(512, 4, 30.0)],
            130.0,
        ),
        machine(
            "Cortex-A15, 2M",
            64,
            two(cache(32 * K, 2, 2.7, Lru), cache(2 * M, 16, 14.0, Random)),
            vec![tlb(32, 32, 5.0), tlb(512, 4, 30.0)],
            130.0,
        ),
        machine(
            "Cortex-A53, 512K",
            64,
            two(cache(32 * K, 4, 2.5, Random), cache(512 * K, 16, 12.5, Random)),
            vec![tlb(10, 10, 2.0), tlb(512, 4, 25.0)],
            140.0,
        ),
        machine(
            "Cortex-A53, 256K",
            64,
            two(cache(16 * K, 4, 2.5, Random), cache(256 * K, 16, 12.5, Random)),
            vec![tlb(10, 10, 2.0), tlb(512, 4, 25.0)],
            160.0,
        ),
        huge(machine(
            "Cortex-A72",
            64,
            two(cache(32 * K, 2, 2.2, Lru), cache(M, 16, 11.0, Lru)),
            vec![tlb(32, 32, 4.0), tlb(1024, 4, 20.0)],
            140.0,
        )),
        huge(machine(
            "Cortex-A76",
            64,
            vec![
                cache(64 * K, 4, 1.6, TreePlru),
                cache(256 * K, 8, 4.0, TreePlru),
                cache(2 * M, 16, 14.0, Lru),
            ],
            vec![tlb(48, 48, 2.0), tlb(1280, 5, 12.0)],
            120.0,
        )),
        huge(machine(
            "128-byte lines",
            128,
            two(cache(128 * K, 8, 1.0, Lru), cache(4 * M, 16, 5.0, Lru)),
            vec![tlb(160, 160, 2.0), tlb(3072, 12, 10.0)],
            100.0,
        )),
        huge(machine(
            "128-byte lines, small",
            128,
            two(cache(64 * K, 8, 1.5, Lru), cache(2 * M, 16, 6.0, Lru)),
            vec![tlb(128, 4, 2.0)],
            110.0,
        )),
    ]
}

fn x86() -> Vec<Hierarchy> {
    vec![
        huge(machine(
            "i7-5500U",
            64,
            vec![
                cache(32 * K, 8, 1.4, TreePlru),
                cache(256 * K, 8, 4.2, TreePlru),
                hashed(fill(cache(4 * M, 16, 13.0, Lru), Fill::Inclusive)),
            ],
            vec![tlb(64, 4, 2.5), tlb(1536, 6, 10.0)],
            75.0,
        )),
        machine(
            "i7-5500U, ordinary pages",
            64,
            vec![
                cache(32 * K, 8, 1.4, TreePlru),
                cache(256 * K, 8, 4.2, TreePlru),
                hashed(fill(cache(4 * M, 16, 13.0, Lru), Fill::Inclusive)),
            ],
            vec![tlb(64, 4, 2.5), tlb(1536, 6, 10.0)],
            75.0,
        ),
        huge(machine(
            "Zen 4, 8M of L3",
            64,
            vec![
                cache(32 * K, 8, 1.1, TreePlru),
                cache(M, 8, 3.8, TreePlru),
                hashed(fill(cache(8 * M, 16, 13.0, Lru), Fill::Exclusive)),
            ],
            vec![tlb(72, 72, 1.9), tlb(3072, 24, 7.0)],
            110.0,
        )),
        huge(machine(
            "Zen 2, 8M of L3",
            64,
            vec![
                cache(32 * K, 8, 1.1, TreePlru),
                cache(512 * K, 8, 3.3, TreePlru),
                hashed(fill(cache(8 * M, 16, 11.0, Lru), Fill::Exclusive)),
            ],
            vec![tlb(64, 64, 1.9), tlb(2048, 16, 7.0)],
            90.0,
        )),
        huge(machine(
            "48K and 1.25M",
            64,
            vec![
                cache(48 * K, 12, 1.2, Lru),
                cache(5 * M / 4, 20, 4.0, Lru),
                hashed(cache(6 * M, 12, 18.0, Lru)),
            ],
            vec![tlb(64, 4, 2.0), tlb(2048, 16, 8.0)],
            95.0,
        )),
        huge(machine(
            "48K and 2M",
            64,
            vec![cache(48 * K, 12, 1.2, Lru), cache(2 * M, 16, 4.3, Lru)],
            vec![tlb(96, 6, 2.0), tlb(2048, 16, 8.0)],
            100.0,
        )),
        huge(machine(
            "Silvermont",
            64,
            vec![cache(24 * K, 6, 1.4, Lru), cache(M, 16, 6.5, Lru)],
            vec![tlb(48, 48, 2.0), tlb(128, 4, 12.0)],
            90.0,
        )),
        machine(
            "Silvermont, ordinary pages",
            64,
            vec![cache(24 * K, 6, 1.4, Lru), cache(M, 16, 6.5, Lru)],
            vec![tlb(48, 48, 2.0), tlb(128, 4, 12.0)],
            90.0,
        ),
        machine(
            "K8, exclusive",
            64,
            vec![cache(64 * K, 2, 1.5, Lru), fill(cache(512 * K, 16, 6.0, Lru), Fill::Exclusive)],
            vec![tlb(32, 32, 2.0), tlb(512, 4, 10.0)],
            70.0,
        ),
        huge(machine(
            "Nehalem-like",
            64,
            vec![
                cache(32 * K, 8, 1.3, TreePlru),
                cache(256 * K, 8, 3.3, TreePlru),
                fill(cache(8 * M, 16, 13.0, Lru), Fill::Inclusive),
            ],
            vec![tlb(64, 4, 2.3), tlb(512, 4, 9.0)],
            65.0,
        )),
    ]
}

/// Combinations of size, ways, policy and pages.
fn made_up() -> Vec<Hierarchy> {
    let mut all = Vec::new();
    let names = [
        "8K/2 64K/4",
        "8K/4 128K/8",
        "16K/2 256K/4",
        "16K/4 256K/8",
        "16K/8 512K/16",
        "32K/4 128K/4",
        "32K/8 256K/4",
        "32K/8 1M/8",
        "64K/2 512K/8",
        "64K/4 1M/16",
        "64K/8 2M/8",
        "128K/8 1M/16",
    ];
    let sizes = [
        (8, 2, 64, 4),
        (8, 4, 128, 8),
        (16, 2, 256, 4),
        (16, 4, 256, 8),
        (16, 8, 512, 16),
        (32, 4, 128, 4),
        (32, 8, 256, 4),
        (32, 8, 1024, 8),
        (64, 2, 512, 8),
        (64, 4, 1024, 16),
        (64, 8, 2048, 8),
        (128, 8, 1024, 16),
    ];
    for (i, (name, (b1, a1, b2, a2))) in names.into_iter().zip(sizes).enumerate() {
        let policies = [(Lru, Lru), (TreePlru, Lru), (Random, Random), (Lru, TreePlru)];
        for (j, (p1, p2)) in policies.into_iter().enumerate().filter(|(j, _)| (i + j) % 2 == 0) {
            let t2 = 5.0 + i as f64;
            let caches = vec![cache(b1 * K, a1, 1.5, p1), cache(b2 * K, a2, t2, p2)];
            let mut h = machine(
                name,
                64,
                caches,
                vec![tlb(48, 48, 3.0), tlb(512, 4, 20.0)],
                90.0 + 5.0 * i as f64,
            );
            h.huge = (i / 2 + j) % 2 == 0;
            h.noise = if j == 3 { 0.02 } else { 0.01 };
            h.victim_lines = if i == 3 { 4 } else { 0 };
            all.push(h);
        }
    }
    for (name, line, ns) in [("flat, 60 ns", 64, 60.0), ("flat, 5 ns", 64, 5.0)] {
        all.push(machine(name, line, vec![], vec![tlb(32, 32, 5.0)], ns));
    }
    all
}
