//! Miss-ratio models: share of the loads that miss when a cycle over N bytes goes round a cache of C bytes and `a` ways.
//!
//! A set that holds m lines of the cycle misses a share μ(m) of them: none for m ≤ a; beyond, all with LRU, fewer
//! with tree-PLRU or random replacement (found by simulating one set). The number of lines in a set is
//!
//! - *contiguous* (virtually indexed, or within a huge page): N·a/C rounded up or down;
//! - *random pages* (physically indexed, base pages): each page has one of K = C/(a·page) colours at random, so m is
//!   binomial (J. González-Domínguez et al., "Servet", IPDPS 2010);
//! - *hashed* (sliced last-level caches): lines fall at random, so m is Poisson.
//!
//! The share of all loads that miss is Σ P(m)·m·μ(m)/E(m).

use latlab_stats::rng::SplitMix64;
use std::sync::OnceLock;

/// Most ways of a model.
const MOST_WAYS: usize = 32;
/// A set with this many times its ways misses always, within a percent.
const OVERFULL: usize = 4;
/// Simulated loads of one set: the share of random replacement is known to half a percent.
const LOADS: usize = 16_384;

/// How lines are placed in sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One after the other.
    Contiguous,
    /// Page by page at random.
    RandomPages,
    /// Line by line at random.
    Hashed,
}

/// Replacement policy of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Least recently used.
    Lru,
    /// Binary tree of bits.
    TreePlru,
    /// Random.
    Random,
}

/// A cache as a miss-ratio model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Placement.
    pub placement: Placement,
    /// Replacement.
    pub replacement: Replacement,
    /// Size, bytes (or entries of a TLB).
    pub bytes: u64,
    /// Ways, at most `MOST_WAYS` unless LRU.
    pub ways: u32,
    /// Page, bytes.
    pub page: u32,
}

impl Model {
    /// Placement and replacement in short, for the run's file: `contiguous, lru`.
    pub fn name(&self) -> String {
        let placement = match self.placement {
            Placement::Contiguous => "contiguous",
            Placement::RandomPages => "random pages",
            Placement::Hashed => "hashed",
        };
        let replacement = match self.replacement {
            Replacement::Lru => "LRU",
            Replacement::TreePlru => "tree-PLRU",
            Replacement::Random => "random replacement",
        };
        [placement, replacement].join(", ")
    }

    /// Share of the loads that miss in an array of `n` bytes.
    pub fn miss_ratio(&self, n: f64) -> f64 {
        let ways = f64::from(self.ways);
        let load = n / self.bytes.max(1) as f64 * ways;
        match self.placement {
            Placement::Contiguous => {
                let (low, part) = (load.floor(), load.fract());
                let missing = |m: f64| m * self.set_misses(m as usize);
                (missing(low) * (1.0 - part) + missing(low + 1.0) * part) / load.max(1e-9)
            }
            Placement::RandomPages => {
                let page = f64::from(self.page.max(1));
                let colours = (self.bytes as f64 / ways / page).max(1.0);
                let others = ((n / page).round() - 1.0).max(0.0);
                let p = 1.0 / colours;
                let odds = p / (1.0 - p).max(1e-12);
                let none = (others * (1.0 - p).max(1e-12).ln()).exp();
                self.weighted(none, |k| ((others - k) / (k + 1.0)).max(0.0) * odds)
            }
            Placement::Hashed => self.weighted((-load).exp(), |k| load / (k + 1.0)),
        }
    }

    /// Share of misses when a line shares its set with 0, 1, 2… others: the first chance, and the factor to the next.
    fn weighted(&self, none: f64, next: impl Fn(f64) -> f64) -> f64 {
        let (mut chance, mut hits) = (none, 0.0);
        for others in 0..OVERFULL * self.ways as usize {
            let miss = self.set_misses(others + 1);
            if miss >= 1.0 {
                break;
            }
            hits += chance * (1.0 - miss);
            chance *= next(others as f64);
        }
        1.0 - hits.min(1.0)
    }

    /// Share of the loads of `m` lines of one set that miss.
    fn set_misses(&self, m: usize) -> f64 {
        static TREE: [OnceLock<Vec<f64>>; MOST_WAYS + 1] = [const { OnceLock::new() }; 33];
        static RANDOM: [OnceLock<Vec<f64>>; MOST_WAYS + 1] = [const { OnceLock::new() }; 33];
        let ways = self.ways as usize;
        if m <= ways {
            return 0.0;
        }
        let (table, simulate): (_, fn(usize, usize) -> f64) = match self.replacement {
            Replacement::Lru => return 1.0,
            Replacement::TreePlru if !ways.is_power_of_two() => return 1.0,
            Replacement::TreePlru => (&TREE, simulate_tree),
            Replacement::Random => (&RANDOM, simulate_random),
        };
        let Some(table) = table.get(ways) else { return 1.0 };
        let table =
            table.get_or_init(|| (ways + 1..=OVERFULL * ways).map(|m| simulate(ways, m)).collect());
        table.get(m - ways - 1).copied().unwrap_or(1.0)
    }
}

fn simulate_random(ways: usize, m: usize) -> f64 {
    let mut rng = SplitMix64::new(m as u64);
    simulate(ways, m, move |_| rng.below(ways), |_| {})
}

fn simulate_tree(ways: usize, m: usize) -> f64 {
    use std::cell::Cell;
    // Bit n of the word: node n of the heap points to its right half.
    let tree = Cell::new(0u64);
    let victim = |_| {
        let mut node = 1;
        while node < ways {
            node = node * 2 + (tree.get() >> node & 1) as usize;
        }
        node - ways
    };
    let used = |way: usize| {
        let mut node = way + ways;
        while node > 1 {
            let parent = node / 2;
            let away = u64::from(node.is_multiple_of(2));
            tree.set(tree.get() & !(1 << parent) | away << parent);
            node = parent;
        }
    };
    simulate(ways, m, victim, used)
}

/// Share of misses when `m` lines go round a set, after it has settled.
fn simulate(
    ways: usize,
    m: usize,
    mut victim: impl FnMut(usize) -> usize,
    mut used: impl FnMut(usize),
) -> f64 {
    let mut line_in: Vec<usize> = (0..ways).collect();
    let mut way_of: Vec<Option<usize>> = (0..m).map(|l| (l < ways).then_some(l)).collect();
    let rounds = LOADS / m + 1;
    let mut misses = 0;
    for round in 0..2 * rounds {
        for line in 0..m {
            let way = way_of[line].unwrap_or_else(|| {
                misses += usize::from(round >= rounds);
                let way = victim(line);
                way_of[line_in[way]] = None;
                (line_in[way], way_of[line]) = (line, Some(way));
                way
            });
            used(way);
        }
    }
    misses as f64 / (rounds * m) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(placement: Placement, replacement: Replacement) -> Model {
        Model { placement, replacement, bytes: 1 << 20, ways: 8, page: 4096 }
    }

    #[test]
    fn contiguous_lines_fit_up_to_the_size_whatever_the_policy() {
        for replacement in [Replacement::Lru, Replacement::TreePlru, Replacement::Random] {
            let m = model(Placement::Contiguous, replacement);
            assert!(m.miss_ratio((1 << 20) as f64).abs() < 1e-9);
            assert!(m.miss_ratio(1.05 * (1 << 20) as f64) > 0.05, "{replacement:?}");
            assert!(m.miss_ratio((5 << 20) as f64) > 0.99);
        }
        let lru = model(Placement::Contiguous, Replacement::Lru);
        assert!((lru.miss_ratio(1.125 * (1 << 20) as f64) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn random_placement_misses_before_the_size() {
        let pages = model(Placement::RandomPages, Replacement::Lru);
        let lines = model(Placement::Hashed, Replacement::Lru);
        for m in [pages, lines] {
            let at = |share: f64| m.miss_ratio(share * (1 << 20) as f64);
            assert!((0.005..0.1).contains(&at(0.5)), "{}", at(0.5));
            assert!((0.4..0.7).contains(&at(1.0)), "{}", at(1.0));
            assert!(at(3.0) > 0.99);
        }
    }

    #[test]
    fn random_replacement_of_one_line_too_many_misses_about_a_fifth() {
        // One of nine is out, and the wait until it is used is uniform: 2 misses in 9 + 1 loads.
        let m = model(Placement::Contiguous, Replacement::Random);
        assert!((m.set_misses(9) - 0.2).abs() < 0.03, "{}", m.set_misses(9));
        let tree = model(Placement::Contiguous, Replacement::TreePlru);
        assert!(tree.set_misses(9) > 0.85, "{}", tree.set_misses(9));
    }
}
