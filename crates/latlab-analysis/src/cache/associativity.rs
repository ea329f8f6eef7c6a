//! Associativity: `n` lines of one set cost more than as many lines of many sets as soon as `n` exceeds the ways.
//!
//! K. Yotov, K. Pingali, P. Stodghill, "Automatic measurement of memory hierarchy parameters", SIGMETRICS 2005. Lines a
//! power of two apart that no way exceeds share a set where addresses name it: in a first cache that is indexed within
//! a page, and in huge pages. The same lines, each moved on within its page, have the same translations and no conflict.

use super::record::Records;
use latlab_model::cache::detail::Pages;
use latlab_model::cache::request::Work;

/// Lines that are looked for, at most: 32 ways.
pub const MOST: u32 = 33;
/// Share of the step, and of a hit, that a conflict in a first cache costs at least.
const CONFLICT: f64 = 0.06;
/// Share of one miss a round that a conflict further out costs: one line of `n` is out at least.
const ONE_MISS: f64 = 0.7;
/// Lines without a conflict further out take within this factor of the latency of a hit there; less means that the
/// level before serves some of them.
const HIT: f64 = 1.1;

/// A level whose associativity is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Index of the level, 0 for the first.
    pub level: usize,
    /// Bytes from line to line.
    pub stride: u32,
    /// Line, bytes.
    pub line: u32,
    /// Latency of a hit, ns.
    pub hit_ns: f64,
    /// Latency of a miss, ns.
    pub miss_ns: f64,
    /// Lines at most.
    pub most: u32,
}

impl Probe {
    /// `count` lines of one set, and as many of many sets.
    pub fn works(&self, count: u32) -> [Work; 2] {
        let stride = self.stride;
        [0, self.line].map(|spread| Work::SameSet { stride, spread, count })
    }
}

/// Ways by a probe: the count that all placements but one in six agree on (interference makes one smaller, never
/// larger). `None` when they do not, or when the level before holds as many lines of a set.
pub fn ways(records: &Records, pages: Pages, probe: &Probe, inner: u32) -> Option<u32> {
    let [one, _] = probe.works(2);
    let counts: Vec<Option<u32>> =
        records.samples(pages, one).iter().map(|s| count(records, pages, probe, s.start)).collect();
    let most = counts.iter().flatten().max().copied()?;
    let alike = counts.iter().filter(|c| **c == Some(most)).count();
    let known = counts.iter().all(Option::is_some) && alike + counts.len() / 6 >= counts.len();
    (known && (probe.level == 0 || most > inner)).then_some(most)
}

/// Largest number of lines without a conflict at one placement.
fn count(records: &Records, pages: Pages, probe: &Probe, start: u32) -> Option<u32> {
    let at = |work| records.samples(pages, work).iter().find(|s| s.start == start).map(|s| s.ns);
    let conflict = |n: u32| -> Option<bool> {
        let [one, many] = probe.works(n);
        let (one, many) = (at(one)?, at(many)?);
        let step = probe.miss_ns - probe.hit_ns;
        Some(if probe.level == 0 {
            one > many + CONFLICT * step.max(probe.hit_ns)
        } else {
            one > probe.hit_ns * HIT + ONE_MISS * step / f64::from(n)
        })
    };
    // Two in a row: interference with one timing ends no count.
    let both = |n: u32| Some(conflict(n)? && conflict(n + 1)?);
    let count = (2..probe.most).find(|&n| both(n) == Some(true))? - 1;
    let reached = probe.level == 0 || at(probe.works(count)[0])? * HIT > probe.hit_ns;
    reached.then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::cache::request::Request;

    fn records(ways_at: impl Fn(u32) -> u32) -> (Records, Probe) {
        let probe =
            Probe { level: 0, stride: 32768, line: 64, hit_ns: 1.0, miss_ns: 4.0, most: MOST };
        let mut records = Records::default();
        for placement in 0..6 {
            for n in 2..=MOST {
                for (work, conflicts) in probe.works(n).into_iter().zip([true, false]) {
                    let ns = if conflicts && n > ways_at(placement) { 3.0 } else { 1.0 };
                    let request =
                        Request { pages: Pages::Base, work, start: placement * 4096, seed: 0 };
                    records.add(&request, ns);
                }
            }
        }
        (records, probe)
    }

    #[test]
    fn placements_have_to_agree_except_one() {
        let of = |ways_at: &dyn Fn(u32) -> u32| {
            let (records, probe) = records(ways_at);
            ways(&records, Pages::Base, &probe, 0)
        };
        assert_eq!(of(&|_| 12), Some(12));
        assert_eq!(of(&|placement| if placement == 3 { 11 } else { 12 }), Some(12));
        assert_eq!(of(&|placement| 4 + placement), None);
    }
}
