//! The same loads with stores among them, on several CPUs at once; and reading in order.

use super::area::Area;
use super::{BATCHES, chase, timed};
use crate::{clock, policy, signal};
use latlab_model::cache::detail::{AccessPattern, Pages};
use latlab_model::cache::request::array;
use latlab_model::units::CpuId;
use latlab_stats::quantile::median;
use latlab_stats::rng::SplitMix64;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is visited.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Sizes of the arrays, bytes, rising.
    pub sizes: Vec<u32>,
    /// Bytes from one element to the next.
    pub stride: u32,
    /// Bytes of a page.
    pub page: u32,
    /// Store into each line that was loaded.
    pub stores: bool,
    /// Time of one batch, ns.
    pub batch_ns: u64,
    /// Seed of the orders.
    pub seed: u64,
    /// When to stop at the latest, on [`clock::now`].
    pub end_ns: u64,
}

/// Time of a load for each size, ns: each of `cpus` visits an array of its own, all at once, page
/// by page. The median over the CPUs; fewer than sizes when time ended or a signal came.
///
/// # Errors
/// When there is not so much memory, or a CPU may not be used.
pub fn curve(cpus: &[CpuId], wanted: &Wanted) -> io::Result<Vec<f64>> {
    let bytes = wanted.sizes.iter().copied().max().unwrap_or(0) as usize;
    let areas: Vec<Area> =
        cpus.iter().map(|_| Area::new(bytes, Pages::Base, 1)).collect::<io::Result<_>>()?;
    let (barrier, stop) = (Barrier::new(cpus.len()), AtomicBool::new(false));
    let each: Vec<io::Result<Vec<f64>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (areas.into_iter().zip(cpus))
            .map(|(area, &cpu)| {
                let (barrier, stop) = (&barrier, &stop);
                scope.spawn(move || one(area, cpu, wanted, barrier, stop))
            })
            .collect();
        let joined = threads.into_iter().map(|t| t.join());
        joined.map(|t| t.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))).collect()
    });
    let each: Vec<Vec<f64>> = each.into_iter().collect::<io::Result<_>>()?;
    let sizes = each.iter().map(Vec::len).min().unwrap_or(0);
    let of = |i: usize| median(&each.iter().map(|v| v[i]).collect::<Vec<f64>>());
    Ok((0..sizes).filter_map(of).collect())
}

fn one(
    mut area: Area,
    cpu: CpuId,
    wanted: &Wanted,
    barrier: &Barrier,
    stop: &AtomicBool,
) -> io::Result<Vec<f64>> {
    let bound = policy::bind(&[cpu]);
    let mut rng = SplitMix64::new(wanted.seed ^ u64::from(cpu.0) << 32);
    let mut out = Vec::with_capacity(wanted.sizes.len());
    for &bytes in &wanted.sizes {
        let (stride, page) = (wanted.stride, wanted.page);
        let cycle = array(0, bytes, stride, page, AccessPattern::PageLocal, &mut rng);
        let ring = chase::link(&mut area, &cycle);
        if clock::now().0 > wanted.end_ns || signal::stop_requested().is_some() || ring.is_none() {
            stop.store(true, Ordering::Relaxed);
        }
        // All meet here, so that all see the same: nobody waits for one who has gone.
        barrier.wait();
        let Some(mut ring) = ring.filter(|_| !stop.load(Ordering::Relaxed)) else { break };
        out.push(timed(wanted.batch_ns, ring.length(), |loads| {
            if wanted.stores { ring.run_storing(loads) } else { ring.run(loads) }
        }));
        barrier.wait();
    }
    bound.map(|()| out)
}

/// Bytes a second that one CPU reads in order from arrays of these sizes; huge pages where there are any.
///
/// # Errors
/// When there is not so much memory.
pub fn reading(sizes: &[usize], batch_ns: u64) -> io::Result<Vec<f64>> {
    let most = sizes.iter().copied().max().unwrap_or(0);
    let mut area = Area::new(most.max(4096), Pages::Huge, 1)?;
    let words = area.words();
    let read = |bytes: usize| {
        let part = &words[..(bytes / size_of::<usize>()).min(words.len())];
        let mut batches = [0.0f64; BATCHES];
        for batch in &mut batches {
            let (start, mut done) = (clock::now().0, 0usize);
            let mut over = 0;
            while over < batch_ns {
                // The sum is wanted, so that every word is read; its additions are independent.
                std::hint::black_box(part.iter().fold(0usize, |sum, w| sum.wrapping_add(*w)));
                done += std::mem::size_of_val(part);
                over = clock::now().0 - start;
            }
            *batch = done as f64 * 1e9 / over.max(1) as f64;
        }
        batches.sort_unstable_by(f64::total_cmp);
        batches[BATCHES - 2]
    };
    Ok(sizes.iter().map(|&bytes| read(bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cpus_visit_all_sizes_with_and_without_stores() {
        let cpus = policy::allowed().unwrap();
        for stores in [false, true] {
            let wanted = Wanted {
                sizes: vec![4096, 16384, 65536],
                stride: 64,
                page: 4096,
                stores,
                batch_ns: 10_000,
                seed: 1,
                end_ns: u64::MAX,
            };
            let found = curve(&cpus, &wanted).unwrap();
            assert!(found.len() == 3 && found.iter().all(|ns| *ns > 0.0), "{found:?}");
            let over = curve(&cpus, &Wanted { end_ns: 0, ..wanted }).unwrap();
            assert!(over.is_empty());
        }
    }

    #[test]
    fn reading_has_a_rate_at_each_size() {
        let found = reading(&[4096, 1 << 20], 10_000).unwrap();
        assert!(found.len() == 2 && found.iter().all(|rate| *rate > 1e6), "{found:?}");
    }
}
