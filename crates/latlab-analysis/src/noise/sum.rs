//! Windows added up: noise of each CPU by source, in bounded memory.

use super::attribute::{CpuPieces, Explained, Pieces, Source, explain};
use super::queue;
use latlab_model::noise::{CpuNoise, CpuWindow, NoiseKind, NoiseSource, QueueModel};
use latlab_model::units::CpuId;
use latlab_stats::histogram::Histogram;
use std::collections::BTreeMap;

/// Entry to and exit from the kernel, ns, where too few interruptions tell how long they take.
const ENTRY_EXIT_NS: u64 = 5_000;
/// Interruptions of one source from which its usual time of entry and exit is taken.
const ENOUGH: usize = 10;
/// Sources of a CPU that have a row of their own; the least frequent of the others are added up.
const SOURCES_MAX: usize = 256;

/// One window of all CPUs with its events.
#[derive(Debug)]
pub struct Window<'a> {
    /// The loops.
    pub loops: &'a [CpuWindow],
    /// What ran; `None` where nothing was traced.
    pub pieces: Option<&'a Pieces>,
    /// Events that were overwritten, by CPU.
    pub overrun: BTreeMap<CpuId, u64>,
}

/// Noise so far.
#[derive(Debug, Default)]
pub struct Sum {
    queue: Option<QueueModel>,
    cpus: BTreeMap<CpuId, Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    noise: CpuNoise,
    sources: BTreeMap<Source, Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    count: u64,
    total_ns: u64,
    time: Histogram,
}

impl Sum {
    /// With a queue that the loops serve.
    pub fn with_queue(queue: Option<QueueModel>) -> Self {
        Self { queue, ..Self::default() }
    }
    /// Adds a window.
    pub fn add(&mut self, window: &Window<'_>) {
        for w in window.loops {
            let tally = self.cpus.entry(w.cpu).or_default();
            tally.noise.cpu = w.cpu;
            tally.count(w);
            if let Some(model) = &self.queue {
                let longest = queue::longest(model, w);
                let known = tally.noise.queue_max.unwrap_or(0.0);
                tally.noise.queue_max = Some(known.max(longest));
            }
            let overrun = window.overrun.get(&w.cpu).copied().unwrap_or(0);
            tally.noise.events_lost += overrun;
            let none = CpuPieces::default();
            match window.pieces {
                Some(pieces) => {
                    let of = pieces.cpus.get(&w.cpu).unwrap_or(&none);
                    // Without events before that time it is not known what ran.
                    let from = if overrun > 0 { of.first.unwrap_or(u64::MAX) } else { 0 };
                    tally.attribute(w, of, &pieces.sources, from);
                }
                None => tally.attribute(w, &none, &[], u64::MAX),
            }
        }
    }

    /// The noise so far of each CPU, CPUs rising.
    pub fn so_far(&self) -> Vec<CpuNoise> {
        let copied = |t: &Tally| {
            let source = |(source, c): (&Source, &Counted)| NoiseSource {
                kind: source.0,
                name: source.1.clone(),
                count: c.count,
                total_ns: c.total_ns,
                time: c.time.clone(),
            };
            sorted(CpuNoise { sources: t.sources.iter().map(source).collect(), ..t.noise.clone() })
        };
        self.cpus.values().map(copied).collect()
    }
}

impl Tally {
    fn count(&mut self, w: &CpuWindow) {
        let n = &mut self.noise;
        n.windows += 1;
        n.looped_ns += w.end_ns.saturating_sub(w.start_ns);
        n.lost_ns += w.lost_ns;
        n.window_ns_max = n.window_ns_max.max(w.lost_ns);
        n.distances.merge(&w.distances);
        let not_listed = w.count - w.listed.len() as u64;
        n.not_listed += not_listed;
        let listed = || w.listed.iter().map(|i| i.length_ns);
        match not_listed {
            0 => n.interruptions.merge(&Histogram::of(listed())),
            _ => n.interruptions.merge(&tail(&w.distances, w.threshold_ns)),
        }
    }

    fn attribute(&mut self, w: &CpuWindow, of: &CpuPieces, sources: &[Source], from: u64) {
        let (unknown, known): (Vec<_>, Vec<_>) =
            w.listed.iter().copied().partition(|i| i.start_ns < from);
        let mut rows = Rows::default();
        let nameless = |kind| (kind, String::new());
        for i in unknown {
            rows.add(nameless(NoiseKind::Unknown), i.length_ns, 1);
        }
        let explained = explain(&known, &of.pieces);
        let usual = Usual::of(&explained);
        for e in &explained {
            let Some(&(first, ..)) = e.shares.first() else {
                rows.add(nameless(NoiseKind::OutsideKernel), e.of.length_ns, 1);
                continue;
            };
            let activations: u64 = e.shares.iter().map(|s| s.2).sum();
            let outside = usual.excess(first, activations, e.rest);
            for (n, &(source, ns, count)) in e.shares.iter().enumerate() {
                let entry = if n == 0 { e.rest - outside } else { 0 };
                if let Some(source) = sources.get(source) {
                    rows.add(source.clone(), ns + entry, count);
                }
            }
            if outside > 0 {
                rows.add(nameless(NoiseKind::OutsideKernel), outside, 1);
            }
        }
        let listed_ns: u64 = w.listed.iter().map(|i| i.length_ns).sum();
        let row = rows.0.entry(nameless(NoiseKind::Unknown)).or_default();
        row.0 += w.count - w.listed.len() as u64;
        row.1 += w.lost_ns.saturating_sub(listed_ns);
        rows.0.retain(|_, row| row.0 > 0);
        self.merge(rows);
    }

    fn merge(&mut self, rows: Rows) {
        for (mut source, (count, total_ns, values)) in rows.0 {
            if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(&source) {
                source.1 = "others".to_owned();
            }
            let c = self.sources.entry(source).or_default();
            c.count += count;
            c.total_ns += total_ns;
            c.time.merge(&Histogram::of(values));
        }
    }
}

/// The values of a histogram from a limit on, as exact as its buckets.
fn tail(h: &Histogram, from: u64) -> Histogram {
    let buckets: Vec<_> = h.buckets.iter().copied().filter(|&(v, _)| v >= from).collect();
    Histogram {
        count: buckets.iter().map(|b| b.1).sum(),
        min: buckets.first().map_or(0, |b| b.0),
        max: if buckets.is_empty() { 0 } else { h.max },
        sum: buckets.iter().map(|&(v, n)| v as f64 * n as f64).sum(),
        buckets,
    }
}

fn sorted(mut noise: CpuNoise) -> CpuNoise {
    noise.sources.sort_by_key(|s| std::cmp::Reverse(s.total_ns));
    noise
}

/// Count, total and values of each source in one window.
#[derive(Debug, Default)]
struct Rows(BTreeMap<Source, (u64, u64, Vec<u64>)>);

impl Rows {
    fn add(&mut self, source: Source, ns: u64, count: u64) {
        let row = self.0.entry(source).or_default();
        row.0 += count;
        row.1 += ns;
        row.2.push(ns);
    }
}

/// Time of entry and exit that is usual with each source: the median rest of interruptions of one
/// activation, in this window.
struct Usual {
    of: BTreeMap<usize, u64>,
    all: Option<u64>,
}

impl Usual {
    fn of(explained: &[Explained]) -> Self {
        let mut values: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        let mut all = Vec::new();
        for e in explained {
            if let [(source, _, 1)] = e.shares[..] {
                values.entry(source).or_default().push(e.rest);
                all.push(e.rest);
            }
        }
        let median = |mut v: Vec<u64>| {
            (v.len() >= ENOUGH).then(|| {
                v.sort_unstable();
                v[v.len() / 2]
            })
        };
        let of = values.into_iter().filter_map(|(s, v)| Some((s, median(v)?))).collect();
        Self { of, all: median(all) }
    }

    /// What of a rest is more than entry and exit explain: all above the usual, where it is more than three
    /// times that and at least 5 µs longer.
    fn excess(&self, source: usize, activations: u64, rest: u64) -> u64 {
        let usual = self.of.get(&source).copied().or(self.all).unwrap_or(ENTRY_EXIT_NS);
        let usual = usual.saturating_mul(activations.max(1));
        let much = (3 * usual).max(usual + ENTRY_EXIT_NS);
        if rest > much { rest - usual } else { 0 }
    }
}
