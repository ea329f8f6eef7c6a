//! Requests of the planner: arrays, strides, orders and placements as plain data, and the cycles of byte offsets that
//! they stand for.
//!
//! A cycle is a list of offsets: each is visited once, then the first again. A shuffled list closed to a ring is one
//! cycle over all its elements (S. Sattolo, IPL 22, 1986, has the same distribution in place).

use crate::cache::detail::{AccessPattern, Pages};
use latlab_stats::rng::SplitMix64;

/// Pages visited together by [`AccessPattern::PageLocal`]: fewer than the smallest first data TLB holds (10 entries,
/// Cortex-A7 TRM), more than one, because two misses in one page start the prefetchers of some processors.
pub const PAGES_TOGETHER: usize = 8;
/// Blocks that hold one pair of loads, bytes; larger than twice any line in use (128).
pub const PAIR_BLOCK: u32 = 1024;

/// Memory that a machine offers for measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Base page, bytes.
    pub page_bytes: u32,
    /// Area of base pages, bytes.
    pub base_bytes: u32,
    /// Area of huge pages, bytes; 0 where there are none.
    pub huge_bytes: u32,
    /// Huge page, bytes; 0 where there are none.
    pub huge_page_bytes: u32,
}

/// What is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Every `stride` bytes of an array of `bytes`.
    Array {
        /// Order.
        access: AccessPattern,
        /// Bytes from one element to the next.
        stride: u32,
        /// Size, bytes.
        bytes: u32,
    },
    /// Every `stride` bytes of an array of `bytes`: the elements of a line in rising order, and its lines in the order
    /// that prefetchers and translation disturb least.
    Lines {
        /// Bytes of a line.
        line: u32,
        /// Bytes from one element to the next.
        stride: u32,
        /// Size, bytes.
        bytes: u32,
    },
    /// One line in each of `count` blocks of `apart` bytes.
    LinePerPage {
        /// Bytes from block to block: a page, or a line for the baseline.
        apart: u32,
        /// Bytes of a line.
        line: u32,
        /// Blocks.
        count: u32,
    },
    /// Two loads `distance` bytes apart in each block of [`PAIR_BLOCK`] bytes.
    Pairs {
        /// Size of the array, bytes.
        bytes: u32,
        /// Distance, bytes.
        distance: u32,
    },
    /// `count` lines `stride` bytes apart, which share a set when the stride is a multiple of a way.
    SameSet {
        /// Bytes from line to line.
        stride: u32,
        /// Bytes that each line is moved on within its page, times its number: 0 for one set, a line for many sets.
        spread: u32,
        /// Lines.
        count: u32,
    },
    /// Independent chains, each over an array of its own of `bytes`.
    Chains {
        /// Chains.
        chains: u32,
        /// Bytes from one element to the next.
        stride: u32,
        /// Size of each array, bytes.
        bytes: u32,
    },
}

impl Work {
    /// Bytes from its first to its last.
    pub fn span(&self) -> u32 {
        match *self {
            Self::Array { bytes, .. } | Self::Lines { bytes, .. } | Self::Pairs { bytes, .. } => {
                bytes
            }
            Self::LinePerPage { apart, count, .. } => apart.saturating_mul(count),
            Self::SameSet { stride, count, .. } => stride.saturating_mul(count),
            Self::Chains { chains, bytes, .. } => bytes.saturating_mul(chains),
        }
    }
}

/// One measurement that the planner asks for: the time of a load, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Page size of the area.
    pub pages: Pages,
    /// What is visited.
    pub work: Work,
    /// Placement: byte offset of the work in its area.
    pub start: u32,
    /// Seed of the order.
    pub seed: u64,
}

impl Request {
    /// The order that prefetchers and translation disturb least.
    fn access(&self) -> AccessPattern {
        match self.pages {
            Pages::Base => AccessPattern::PageLocal,
            Pages::Huge => AccessPattern::Random,
        }
    }

    /// Byte offsets into the area, one list for each chain.
    pub fn cycles(&self, limits: &Limits) -> Vec<Vec<u32>> {
        let mut rng = SplitMix64::new(self.seed);
        let page = limits.page_bytes.max(1);
        let start = self.start;
        let mut shuffled = |offsets: &mut dyn Iterator<Item = u32>| {
            let mut all: Vec<u32> = offsets.collect();
            rng.shuffle(&mut all);
            all
        };
        let one = match self.work {
            Work::Array { access, stride, bytes } => {
                array(start, bytes, stride, page, access, &mut rng)
            }
            Work::LinePerPage { apart, line, count } => {
                // The line moves on by one from page to page, and by one more after each page full: evenly over the
                // sets of a first cache that is indexed by physical or by virtual address.
                let in_page = (page / line.max(1)).max(1);
                let inside =
                    |i: u32| if apart < page { 0 } else { (i + i / in_page) % in_page * line };
                shuffled(&mut (0..count).map(|i| start + i * apart + inside(i)))
            }
            Work::Pairs { bytes, distance } => {
                let blocks = shuffled(&mut (0..bytes / PAIR_BLOCK).map(|i| start + i * PAIR_BLOCK));
                blocks.into_iter().flat_map(|b| [b, b + distance % PAIR_BLOCK]).collect()
            }
            Work::SameSet { stride, spread, count } => {
                shuffled(&mut (0..count).map(|i| start + i * stride + i * spread % page))
            }
            Work::Lines { line, stride, bytes } => {
                let apart = line.max(stride);
                let lines = array(start, bytes, apart, page, self.access(), &mut rng);
                let inside = apart / stride.max(1);
                lines.into_iter().flat_map(|l| (0..inside).map(move |i| l + i * stride)).collect()
            }
            Work::Chains { chains, stride, bytes } => {
                let access = self.access();
                let chain = |k| array(start + k * bytes, bytes, stride, page, access, &mut rng);
                return (0..chains).map(chain).collect();
            }
        };
        vec![one]
    }
}

/// Every `stride` bytes of an array at `start`, in an order.
pub fn array(
    start: u32,
    bytes: u32,
    stride: u32,
    page: u32,
    access: AccessPattern,
    rng: &mut SplitMix64,
) -> Vec<u32> {
    let (stride, page) = (stride.max(1), page.max(1));
    let mut all: Vec<u32> = (0..bytes / stride).map(|i| start + i * stride).collect();
    let in_page = (page / stride).max(1) as usize;
    match access {
        AccessPattern::Sequential | AccessPattern::Dense | AccessPattern::LinePerPage => {}
        AccessPattern::Random => rng.shuffle(&mut all),
        AccessPattern::PageLocal => {
            let mut pages: Vec<&[u32]> = all.chunks(in_page).collect();
            rng.shuffle(&mut pages);
            all = pages.concat();
            all.chunks_mut(in_page * PAGES_TOGETHER).for_each(|lines| rng.shuffle(lines));
        }
        AccessPattern::PageRandom => {
            all.chunks_mut(in_page).for_each(|lines| rng.shuffle(lines));
            let mut pages: Vec<&[u32]> = all.chunks(in_page).collect();
            let mut out = Vec::with_capacity(all.len());
            for round in 0..in_page {
                rng.shuffle(&mut pages);
                out.extend(pages.iter().filter_map(|p| p.get(round)));
            }
            all = out;
        }
    }
    all
}

/// Sizes from `low` to `high` bytes, `per_octave` in each doubling: multiples of a page of 4 KiB from 64 KiB on, of 128
/// bytes below; powers of two exactly.
pub fn grid(low: u32, high: u32, per_octave: u32) -> Vec<u32> {
    let mut out = Vec::new();
    let mut octave = f64::from(low);
    while octave <= f64::from(high) {
        let steps = (0..per_octave).map(|i| 2f64.powf(f64::from(i) / f64::from(per_octave)));
        out.extend(steps.map(|s| whole(octave * s)).filter(|x| *x <= high));
        octave *= 2.0;
    }
    out.dedup();
    out
}

/// A size in whole units of [`grid`].
pub fn whole(bytes: f64) -> u32 {
    let unit = if bytes >= 65536.0 { 4096.0 } else { 128.0 };
    ((bytes / unit).round() * unit).max(unit) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages_of(lines: &[u32]) -> usize {
        lines.iter().map(|l| l / 4096).collect::<std::collections::BTreeSet<u32>>().len()
    }

    #[test]
    fn each_order_visits_each_line_once() {
        let mut rng = SplitMix64::new(1);
        use AccessPattern::{PageLocal, PageRandom, Random, Sequential};
        for access in [PageLocal, PageRandom, Random, Sequential] {
            // The last page is not full.
            let mut all = array(8192, 3 * 4096 + 640, 64, 4096, access, &mut rng);
            all.sort_unstable();
            let expected: Vec<u32> = (0..202).map(|i| 8192 + i * 64).collect();
            assert_eq!(all, expected, "{access:?}");
        }
    }

    #[test]
    fn page_local_takes_eight_pages_at_a_time_and_page_random_changes_the_page() {
        let mut rng = SplitMix64::new(2);
        let changes = |v: &[u32]| v.windows(2).filter(|w| w[0] / 4096 != w[1] / 4096).count();
        let local = array(0, 32 * 4096, 64, 4096, AccessPattern::PageLocal, &mut rng);
        assert!(local.chunks(8 * 64).all(|lines| pages_of(lines) == 8));
        assert!(changes(&local) > 2048 * 3 / 4);
        let random = array(0, 16 * 4096, 64, 4096, AccessPattern::PageRandom, &mut rng);
        assert!(changes(&random) >= 1023 - 63);
    }

    #[test]
    fn elements_of_a_line_follow_one_another_and_lines_do_not() {
        let limits = Limits { page_bytes: 4096, ..Limits::default() };
        let of = |stride| {
            let work = Work::Lines { line: 64, stride, bytes: 16384 };
            Request { pages: Pages::Base, work, start: 4096, seed: 4 }.cycles(&limits).remove(0)
        };
        let fine = of(16);
        assert!(fine.chunks(4).all(|l| l[0] % 64 == 0 && l.windows(2).all(|w| w[1] == w[0] + 16)));
        assert!(!fine.is_sorted());
        for (stride, expected) in [(16u32, 1024), (64, 256), (4096, 4), (8192, 2)] {
            let mut all = of(stride);
            all.sort_unstable();
            let in_order: Vec<u32> = (0..expected).map(|i| 4096 + i * stride).collect();
            assert_eq!(all, in_order, "{stride}");
        }
    }

    #[test]
    fn one_line_a_page_fills_the_sets_evenly() {
        let limits = Limits { page_bytes: 4096, ..Limits::default() };
        let work = Work::LinePerPage { apart: 4096, line: 64, count: 256 };
        let request = Request { pages: Pages::Base, work, start: 0, seed: 3 };
        for sets in [64u32, 128, 256] {
            let mut used = vec![0; sets as usize];
            request.cycles(&limits)[0].iter().for_each(|o| used[(o / 64 % sets) as usize] += 1);
            assert!(used.iter().all(|&u| u == 256 / sets), "{sets} sets: {used:?}");
        }
    }
}
