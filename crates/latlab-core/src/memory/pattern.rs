//! Cycles of byte offsets: each visited once, then the first again.
//!
//! The list is the order of the visit. A random list closed to a ring is a single cycle over
//! all its elements (S. Sattolo, "An algorithm to generate a random cyclic permutation", IPL 22,
//! 1986, yields the same distribution in place): no short cycle can hide in it.

use super::curve::Order;
use crate::stats::rng::SplitMix64;

/// Pages that are visited together: fewer than the smallest first TLB holds (10 on a Cortex-A7), and
/// more than one, because what is missed twice in one page lets some processors fetch the rest of it.
const TOGETHER: usize = 8;

/// Every `stride` bytes of an array that begins at `start`, in an order.
pub fn array(
    start: u32,
    bytes: u32,
    stride: u32,
    page: u32,
    order: Order,
    rng: &mut SplitMix64,
) -> Vec<u32> {
    let (stride, page) = (stride.max(1), page.max(1));
    let mut all: Vec<u32> = (0..bytes / stride).map(|i| start + i * stride).collect();
    let in_page = (page / stride).max(1) as usize;
    match order {
        Order::Sequential | Order::Dense | Order::LinePerPage => {}
        Order::Random => rng.shuffle(&mut all),
        Order::PageLocal => {
            all = shuffled_chunks(&all, in_page, rng);
            all.chunks_mut(in_page * TOGETHER).for_each(|lines| rng.shuffle(lines));
        }
        Order::PageRandom => {
            for lines in all.chunks_mut(in_page) {
                rng.shuffle(lines);
            }
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

fn shuffled_chunks(all: &[u32], length: usize, rng: &mut SplitMix64) -> Vec<u32> {
    let mut chunks: Vec<&[u32]> = all.chunks(length).collect();
    rng.shuffle(&mut chunks);
    chunks.concat()
}

/// One line of each of `n` pages, random.
///
/// The line moves on by one from page to page, and by one more each time it has gone through the
/// page: so lines are spread evenly over the sets of a first level that is indexed by physical
/// address, and of one that is indexed by virtual address with ways larger than a page.
pub fn line_per_page(start: u32, n: u32, page: u32, line: u32, rng: &mut SplitMix64) -> Vec<u32> {
    let in_page = (page / line.max(1)).max(1);
    let offset = |i: u32| start + i * page + (i + i / in_page) % in_page * line;
    let mut all: Vec<u32> = (0..n).map(offset).collect();
    rng.shuffle(&mut all);
    all
}

/// Two loads `distance` apart in each block of `block` bytes, block after block in random order.
pub fn pairs(start: u32, bytes: u32, block: u32, distance: u32, rng: &mut SplitMix64) -> Vec<u32> {
    let block = block.max(1);
    let mut blocks: Vec<u32> = (0..bytes / block).map(|i| start + i * block).collect();
    rng.shuffle(&mut blocks);
    blocks.into_iter().flat_map(|b| [b, b + distance % block]).collect()
}

/// `n` places `stride` bytes apart, random: they fight for one set when the stride is a multiple of a way.
pub fn conflict(start: u32, n: u32, stride: u32, rng: &mut SplitMix64) -> Vec<u32> {
    let mut all: Vec<u32> = (0..n).map(|i| start + i * stride).collect();
    rng.shuffle(&mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_visits_every_line_once() {
        let mut rng = SplitMix64::new(1);
        for order in [Order::PageLocal, Order::PageRandom, Order::Random, Order::Sequential] {
            // A last page that is not full, too.
            let mut all = array(8192, 3 * 4096 + 640, 64, 4096, order, &mut rng);
            all.sort_unstable();
            let expected: Vec<u32> = (0..202).map(|i| 8192 + i * 64).collect();
            assert_eq!(all, expected, "{order:?}");
        }
    }

    #[test]
    fn orders_keep_their_promise_about_pages() {
        let mut rng = SplitMix64::new(2);
        let changes = |v: &[u32]| v.windows(2).filter(|w| w[0] / 4096 != w[1] / 4096).count();
        let local = array(0, 32 * 4096, 64, 4096, Order::PageLocal, &mut rng);
        let pages = |lines: &[u32]| {
            let pages: std::collections::BTreeSet<u32> = lines.iter().map(|l| l / 4096).collect();
            pages.len()
        };
        // Eight pages at a time, whole ones, and within them hardly ever two lines of one.
        assert!(local.chunks(8 * 64).all(|lines| pages(lines) == 8));
        assert!(changes(&local) > 2048 * 3 / 4);
        let random = array(0, 16 * 4096, 64, 4096, Order::PageRandom, &mut rng);
        assert!(changes(&random) >= 1023 - 63);
    }

    #[test]
    fn one_line_a_page_fills_the_sets_evenly() {
        let mut rng = SplitMix64::new(3);
        for sets in [64u32, 128, 256] {
            let mut used = vec![0; sets as usize];
            for o in line_per_page(0, 256, 4096, 64, &mut rng) {
                used[(o / 64 % sets) as usize] += 1;
            }
            assert!(used.iter().all(|&u| u == 256 / sets), "{sets} sets: {used:?}");
        }
    }
}
