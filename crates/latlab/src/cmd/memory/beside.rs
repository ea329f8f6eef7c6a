//! What is measured beside the curves that caches are inferred from: stores, all CPUs at once,
//! reading in order, and loops whose time the model predicts.

use super::config::Config;
use super::config::not_measured;
use latlab_analysis::cache::loop_times;
use latlab_model::cache::detail::{AccessPattern, CacheDetail, Curve, CurvePoint};
use latlab_model::cache::request::{Limits, grid};
use latlab_model::machine::Machine;
use latlab_model::units::CpuId;
use latlab_sys::memory::beside;
use latlab_sys::memory::beside::Wanted;
use latlab_sys::memory::loops;
use latlab_sys::{clock, policy, signal};
use std::io;

/// Largest array of each CPU, bytes.
const LARGEST: u64 = 64 << 20;
/// Time for one curve, ns.
const EACH_NS: u64 = 4_000_000_000;
/// Time of one batch of a chain of operations, ns.
const CHAIN_NS: u64 = 200_000;
/// CPUs at the most: what many share shows with these.
const CPUS: usize = 16;

/// Adds the curves with stores and of all CPUs at once. `allowed`: CPUs that this process had.
pub fn curves(d: &mut CacheDetail, config: &Config, machine: &Machine, allowed: &[CpuId]) {
    if config.quick || d.levels.is_empty() || signal::stop_requested().is_some() {
        return;
    }
    let own =
        config.cpu.map_or_else(|| allowed.iter().copied().take(1).collect(), |c| vec![CpuId(c)]);
    let all: Vec<CpuId> = allowed.iter().copied().take(CPUS).collect();
    if let Err(error) = one(d, config, machine, &own, true) {
        d.limitations.push(not_measured("stores", &error));
    }
    if all.len() > 1
        && let Err(error) = one(d, config, machine, &all, false)
    {
        d.limitations.push(not_measured("all-cpus", &error));
    }
    if let Some(cpu) = config.cpu {
        // Threads had CPUs of their own; this one keeps its.
        let _ = policy::bind(&[CpuId(cpu)]);
    }
}

fn one(
    d: &mut CacheDetail,
    config: &Config,
    machine: &Machine,
    cpus: &[CpuId],
    stores: bool,
) -> io::Result<()> {
    let free = super::config::limit(machine).unwrap_or(u64::MAX) / 4;
    let bytes = LARGEST.min(config.bytes).min(free / cpus.len() as u64);
    let line = d.line.as_ref().map_or(64, |l| l.bytes.max(16));
    let page = u32::try_from(d.page_bytes).unwrap_or(4096);
    let sizes = grid(page, u32::try_from(bytes).unwrap_or(u32::MAX), 2);
    let wanted = Wanted {
        sizes,
        stride: line,
        page,
        stores,
        batch_ns: 300_000,
        seed: config.seed,
        end_ns: clock::now().0 + EACH_NS,
    };
    let found = beside::curve(cpus, &wanted)?;
    let points = wanted.sizes.iter().zip(found);
    d.curves.push(Curve {
        access: AccessPattern::PageLocal,
        stride_bytes: line,
        stores,
        threads: u32::try_from(cpus.len()).unwrap_or(u32::MAX),
        points: points.filter_map(|(x, ns)| CurvePoint::of((*x).into(), &[ns])).collect(),
        ..Curve::default()
    });
    Ok(())
}

/// Adds loops, predicted and measured.
pub fn loop_times(d: &mut CacheDetail, config: &Config, limits: &Limits) {
    let plan = loop_times::plan(d);
    let stop = || signal::stop_requested().is_some();
    if config.quick || plan.is_empty() || stop() {
        return;
    }
    let costs = loops::costs(CHAIN_NS);
    match loops::times(&plan, limits, loop_times::pages(d), config.seed, &stop) {
        Ok(times) if !costs.is_empty() => {
            d.loop_times = loop_times::times(d, costs, &times, limits, config.seed);
        }
        Ok(_) => {}
        Err(error) => d.limitations.push(not_measured("loops", &error)),
    }
}

/// Adds how many bytes a second each level gives to one CPU that reads in order.
pub fn bandwidth(d: &mut CacheDetail, config: &Config) {
    if d.levels.is_empty() || signal::stop_requested().is_some() {
        return;
    }
    // In the middle between a cache and the one before it; memory: the largest array.
    let mut before = 2048;
    let mut sizes = Vec::new();
    for l in &d.levels {
        let size = ((before as f64 * l.bytes as f64).sqrt().max(l.bytes as f64 / 4.0)) as u64;
        sizes.push(usize::try_from(size & !4095).unwrap_or(4096).max(4096));
        before = l.bytes;
    }
    sizes.push(usize::try_from(d.largest_bytes.min(64 << 20)).unwrap_or(64 << 20));
    let batch_ns = if config.quick { 1_000_000 } else { 5_000_000 };
    match beside::reading(&sizes, batch_ns) {
        Ok(rates) => {
            for (l, rate) in d.levels.iter_mut().zip(&rates) {
                l.bytes_per_s = Some(*rate);
            }
            if d.memory_ns.is_some() {
                d.memory_bytes_per_s = rates.last().copied();
            }
        }
        Err(error) => d.limitations.push(not_measured("bandwidth", &error)),
    }
}
