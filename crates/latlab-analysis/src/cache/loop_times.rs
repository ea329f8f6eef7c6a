//! What equation 1 of Saavedra and Smith predicts of a loop: the operations of a step times what each costs in a chain,
//! and the misses of a step times what each adds.
//!
//! What a miss adds is the step from the latency of one level to that of the next. Misses are counted: the addresses of
//! the loop pass through a simulated LRU cache for each level and each data TLB, with the size that arrays can use, the
//! line and the ways that were measured; eight ways where none were, and for a TLB.

use latlab_model::cache::detail::{CacheDetail, Level, Limitation, Pages};
use latlab_model::cache::loops::{Loop, LoopTime, LoopTimes, Operation};
use latlab_model::cache::request::Limits;

/// Ways where none were determined.
const WAYS: u64 = 8;
/// Largest array of a loop, bytes: misses of each element are counted.
const LARGEST: u64 = 32 << 20;
/// Largest matrix.
const ORDER: u64 = 504;
/// Multiple of a cache's size that does not fit into it in any order.
const BEYOND: u64 = 4;

/// Pages of the arrays whose latencies the levels have.
pub fn pages(d: &CacheDetail) -> Pages {
    let splintered = d.limitations.contains(&Limitation::Splintered);
    let huge = d.curves.iter().any(|c| c.pages == Pages::Huge);
    if huge && !splintered { Pages::Huge } else { Pages::Base }
}

/// Loops in the middle of each cache and beyond the last; none where a latency is not known.
pub fn plan(d: &CacheDetail) -> Vec<Loop> {
    let capacities: Vec<u64> = d.levels.iter().map(|l| l.effective_bytes).collect();
    let (Some(&first), Some(&last), Some(_)) = (capacities.first(), capacities.last(), d.memory_ns)
    else {
        return Vec::new();
    };
    let whole = |bytes: u64| u32::try_from(bytes.max(4096) & !4095).unwrap_or(u32::MAX);
    let line = line(d);
    let between = |w: &[u64]| ((w[0] as f64) * (w[1] as f64)).sqrt() as u64;
    let far = (last * BEYOND).min(LARGEST).min(d.largest_bytes.max(first));
    let mut sizes = vec![whole(first / 2)];
    sizes.extend(capacities.windows(2).filter(|w| w[1] >= 2 * w[0]).map(|w| whole(between(w))));
    sizes.extend((far >= 2 * last).then(|| whole(far)));
    let mut loops: Vec<Loop> =
        sizes.iter().map(|bytes| Loop::PointerChase { bytes: *bytes, stride: line }).collect();
    let ends = [sizes[0], *sizes.last().unwrap_or(&sizes[0])];
    loops.extend(ends.map(|bytes| Loop::Polynomial { bytes }));
    loops.extend([4, line].map(|stride| Loop::Multiply { bytes: ends[1], stride }));
    // All three matrices in half of the first cache; one in twice the second.
    let second = capacities.get(1).copied().unwrap_or(first * BEYOND);
    let orders =
        [first / 2 / 24, (second / 4).min(ORDER * ORDER)].map(|x| order((x as f64).sqrt()));
    loops.extend(orders.map(|order| Loop::Matrix { order }));
    loops.dedup();
    loops
}

fn line(d: &CacheDetail) -> u32 {
    d.line.as_ref().map_or(64, |l| l.bytes).max(16)
}

/// An odd multiple of eight: a column then has no power of two as its stride, which would put it into few sets.
fn order(most: f64) -> u32 {
    let eights = (most / 8.0) as u32;
    (if eights.is_multiple_of(2) { eights.saturating_sub(1) } else { eights }).max(1) * 8
}

/// Predicts each loop and puts it beside its measured time. `costs` are those of all operations but the load.
pub fn times(
    d: &CacheDetail,
    costs: Vec<(Operation, f64)>,
    measured: &[(Loop, f64)],
    limits: &Limits,
    seed: u64,
) -> Option<LoopTimes> {
    let mut costs = costs;
    costs.insert(0, (Operation::Load, d.levels.first()?.ns));
    let cost = |o: Operation| costs.iter().find(|c| c.0 == o).map(|c| c.1);
    let beyond = d.levels.iter().skip(1).map(|l| l.ns).chain([d.memory_ns?]);
    let steps = d.levels.iter().zip(beyond).map(|(l, next)| (next - l.ns).max(0.0));
    let walks = tlbs(d).map(|t| t.1);
    let miss_ns: Vec<f64> = steps.chain(walks).collect();
    let of = |(of, measured_ns): &(Loop, f64)| {
        let parts = of.operations().into_iter().map(|(o, n)| Some(cost(o)? * n));
        let operations_ns = parts.sum::<Option<f64>>()?;
        let misses = misses(of, d, limits, seed);
        let misses_ns = misses.iter().zip(&miss_ns).map(|(n, ns)| n * ns).sum();
        let (of, measured_ns) = (*of, *measured_ns);
        Some(LoopTime { of, operations_ns, misses, misses_ns, measured_ns })
    };
    let loops: Vec<LoopTime> = measured.iter().filter_map(of).collect();
    (!loops.is_empty()).then_some(LoopTimes { costs, loops })
}

/// Reach in bytes and cost of a miss of each TLB that the arrays use; huge pages miss none.
fn tlbs(d: &CacheDetail) -> impl Iterator<Item = (u64, f64)> + '_ {
    let base = pages(d) == Pages::Base;
    let all = d.tlbs.iter().filter(move |_| base);
    all.map(|t| (u64::from(t.entries) * d.page_bytes, t.penalty_ns))
}

/// Misses of a step in each cache and TLB.
fn misses(of: &Loop, d: &CacheDetail, limits: &Limits, seed: u64) -> Vec<f64> {
    let ways = |l: &Level| l.ways.map_or(WAYS, u64::from);
    let caches = d.levels.iter().map(|l| Lru::new(l.effective_bytes, line(d).into(), ways(l)));
    let tlbs = tlbs(d).map(|(reach, _)| Lru::new(reach, d.page_bytes, WAYS));
    let mut all: Vec<Lru> = caches.chain(tlbs).collect();
    let mut counts = vec![0u64; all.len()];
    of.addresses(limits, pages(d), seed, &mut |address, second| {
        for (cache, count) in all.iter_mut().zip(&mut counts) {
            *count += u64::from(cache.misses(address) && second);
        }
    });
    counts.iter().map(|n| *n as f64 / of.steps().max(1) as f64).collect()
}

/// A cache with sets in which the least recently used line is replaced.
struct Lru {
    line: u64,
    ways: usize,
    /// Lines of each set, the most recently used one last.
    sets: Vec<Vec<u64>>,
}

impl Lru {
    fn new(bytes: u64, line: u64, ways: u64) -> Self {
        let line = line.max(1);
        let lines = (bytes / line).max(1);
        let ways = ways.clamp(1, lines);
        let sets = vec![Vec::new(); usize::try_from(lines / ways).unwrap_or(1).max(1)];
        Self { line, ways: ways as usize, sets }
    }

    fn misses(&mut self, address: u64) -> bool {
        let line = address / self.line;
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(line % sets) as usize];
        let found = set.iter().rposition(|l| *l == line);
        match found {
            Some(at) => {
                set.remove(at);
            }
            None if set.len() == self.ways => {
                set.remove(0);
            }
            None => {}
        }
        set.push(line);
        found.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::cache::detail::LineSize;

    /// 32 KiB and 512 KiB with lines of 64 bytes.
    fn detail() -> CacheDetail {
        let level = |level, bytes: u64, ways, ns| Level {
            level,
            bytes,
            effective_bytes: bytes,
            ways,
            ns,
            ..Level::default()
        };
        CacheDetail {
            levels: vec![level(1, 32 << 10, Some(8), 2.0), level(2, 512 << 10, None, 12.0)],
            memory_ns: Some(112.0),
            line: Some(LineSize { bytes: 64, ..LineSize::default() }),
            largest_bytes: 64 << 20,
            page_bytes: 4096,
            ..CacheDetail::default()
        }
    }

    fn limits() -> Limits {
        Limits { page_bytes: 4096, base_bytes: 64 << 20, ..Limits::default() }
    }

    fn all_costs() -> Vec<(Operation, f64)> {
        use Operation::{FloatAdd, FloatMul, IntAdd, IntMul, Iteration, Store};
        let costs = [1.0, 0.5, 1.5, 3.0, 4.0, 0.25];
        [Store, IntAdd, IntMul, FloatAdd, FloatMul, Iteration].into_iter().zip(costs).collect()
    }

    #[test]
    fn misses_are_those_of_the_regimes() {
        let d = detail();
        let of = |l: Loop| misses(&l, &d, &limits(), 1);
        for (bytes, expected) in
            [(16u32 << 10, [0.0, 0.0]), (128 << 10, [1.0, 0.0]), (2 << 20, [1.0, 1.0])]
        {
            assert_eq!(of(Loop::PointerChase { bytes, stride: 64 }), expected, "{bytes}");
        }
        // Regime 2.a: eight elements share a line.
        assert_eq!(of(Loop::Polynomial { bytes: 2 << 20 }), [0.125, 0.125]);
        assert_eq!(of(Loop::Multiply { bytes: 2 << 20, stride: 4 }), [0.0625, 0.0625]);
        // A column of 248 lines fits into the first cache, and is there for the next seven columns.
        let [first, second] = of(Loop::Matrix { order: 248 })[..] else { panic!() };
        assert!((0.12..0.3).contains(&first), "{first}");
        assert!(second < 0.01, "480 KiB of one matrix fit, and rows of the others: {second}");
        assert_eq!(of(Loop::Matrix { order: 24 }), [0.0, 0.0]);
    }

    #[test]
    fn loops_lie_in_each_cache_and_beyond() {
        let plan = plan(&detail());
        let chases: Vec<u32> = (plan.iter())
            .filter_map(|l| match l {
                Loop::PointerChase { bytes, .. } => Some(*bytes),
                _ => None,
            })
            .collect();
        assert_eq!(chases, [16 << 10, 128 << 10, 2 << 20]);
        let orders: Vec<u32> = (plan.iter())
            .filter_map(|l| if let Loop::Matrix { order } = l { Some(*order) } else { None })
            .collect();
        assert_eq!(orders, [24, 360]);
        assert!(plan.iter().all(|l| u64::from(l.bytes()) <= LARGEST));
        assert!(super::plan(&CacheDetail::default()).is_empty());
        assert_eq!((order(0.0), order(16.0), order(31.9)), (8, 8, 24));
    }

    #[test]
    fn a_machine_of_the_model_takes_what_is_predicted() {
        let chase = Loop::PointerChase { bytes: 128 << 10, stride: 64 };
        let step = 2.0 + 8.0 * 0.5 + 4.0 * 1.5 + 0.25 / 8.0 + 10.0;
        let found = times(&detail(), all_costs(), &[(chase, step)], &limits(), 1).unwrap();
        assert!((found.loops[0].ratio() - 1.0).abs() < 1e-12, "{found:?}");
        assert_eq!(found.costs.len(), 7);
        // An operation without a cost: nothing is predicted.
        let few = all_costs().into_iter().filter(|c| c.0 != Operation::IntMul).collect();
        assert_eq!(times(&detail(), few, &[(chase, step)], &limits(), 1), None);
        assert_eq!(
            times(&CacheDetail::default(), all_costs(), &[(chase, step)], &limits(), 1),
            None
        );
    }
}
