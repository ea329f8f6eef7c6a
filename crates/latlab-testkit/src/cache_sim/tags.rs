//! A set-associative array of tags: a cache, a TLB or a victim buffer.

use latlab_stats::rng::SplitMix64;

/// Replacement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Least recently used.
    Lru,
    /// Binary tree of bits (the number of ways must be a power of two).
    TreePlru,
    /// Random.
    Random,
    /// Static re-reference interval prediction, 2 bits (A. Jaleel et al., ISCA 2010). The inference has no
    /// model of it.
    Srrip,
    /// Bimodal re-reference interval prediction: as SRRIP, but a new line is the next victim except for one of
    /// 32 (the same paper; what an adaptive cache changes to under thrashing). No model either.
    Brrip,
    /// Quad-age LRU, the variant H11 M1 R1 U2 of second-level caches of Intel (A. Abel and J. Reineke, nanoBench,
    /// ISPASS 2020). No model either.
    Qlru,
}

impl Policy {
    /// Whether lines have ages.
    fn has_ages(self) -> bool {
        matches!(self, Self::Srrip | Self::Brrip | Self::Qlru)
    }
}

/// Bits of a line's number whose parity is a bit of its slice's: the functions of a sliced last-level cache of
/// up to eight cores (C. Maurice et al., "Reverse Engineering Intel Last-Level Cache Complex Addressing Using
/// Performance Counters", RAID 2015), address bits 6 and up.
const SLICE: [u32; 3] = [0x0D7D_5D51, 0x1AD7_EAA2, 0x1333_24C4];

/// Tags of one cache. Tags are stored plus one: 0 is empty.
#[derive(Clone, Debug)]
pub struct Tags {
    sets: usize,
    ways: usize,
    policy: Policy,
    /// Two to the power of it are the slices, 0 where there are none.
    slice_bits: usize,
    tags: Vec<u32>,
    tree: Vec<u32>,
    /// Re-reference prediction of each line, for policies with ages.
    age: Vec<u8>,
    rng: SplitMix64,
}

impl Tags {
    /// Empty. `hashed`: made of slices, of which a hash of the line's address picks one.
    pub fn new(sets: usize, ways: usize, policy: Policy, hashed: bool) -> Self {
        // As many slices as leave each of them a set for every line of a page.
        let most = (sets / 64).checked_ilog2().unwrap_or(0).min(SLICE.len() as u32) as usize;
        Self {
            sets,
            ways,
            policy,
            slice_bits: if hashed { most } else { 0 },
            tags: vec![0; sets * ways],
            tree: vec![0; sets],
            age: vec![3; if policy.has_ages() { sets * ways } else { 0 }],
            rng: SplitMix64::new(0x5EED),
        }
    }

    fn set(&self, line: u32) -> usize {
        let odd = |mask: &u32| (line & mask).count_ones() as usize & 1;
        let masks = SLICE[..self.slice_bits].iter().rev();
        let slice = masks.fold(0, |slice, mask| slice << 1 | odd(mask));
        let sets = self.sets >> self.slice_bits;
        slice * sets + line as usize % sets
    }

    /// Whether the line is there; it becomes the most recently used.
    pub fn touch(&mut self, line: u32) -> bool {
        let set = self.set(line);
        let at = set * self.ways;
        let Some(way) = self.tags[at..at + self.ways].iter().position(|&t| t == line + 1) else {
            return false;
        };
        match self.policy {
            Policy::Lru => self.tags[at..=at + way].rotate_right(1),
            Policy::TreePlru => self.point_away(set, way),
            Policy::Random => {}
            Policy::Srrip | Policy::Brrip => self.age[at + way] = 0,
            Policy::Qlru => self.age[at + way] = u8::from(self.age[at + way] > 1),
        }
        true
    }

    /// Puts a line in; returns what had to go.
    pub fn insert(&mut self, line: u32) -> Option<u32> {
        let set = self.set(line);
        let at = set * self.ways;
        let ways = &mut self.tags[at..at + self.ways];
        let empty = ways.iter().position(|&t| t == 0);
        let way = match (self.policy, empty) {
            (Policy::Lru, _) => {
                let last = empty.unwrap_or(self.ways - 1);
                let gone = ways[last];
                ways[last] = line + 1;
                ways[..=last].rotate_right(1);
                return gone.checked_sub(1);
            }
            (_, Some(way)) => way,
            (Policy::Random, None) => self.rng.below(self.ways),
            (Policy::TreePlru, None) => self.pointed_at(set),
            (Policy::Srrip | Policy::Brrip | Policy::Qlru, None) => self.oldest(at),
        };
        let gone = std::mem::replace(&mut self.tags[at + way], line + 1);
        match self.policy {
            Policy::TreePlru => self.point_away(set, way),
            Policy::Srrip => self.age[at + way] = 2,
            Policy::Brrip => self.age[at + way] = if self.rng.below(32) == 0 { 2 } else { 3 },
            Policy::Qlru => self.age[at + way] = 1,
            Policy::Lru | Policy::Random => {}
        }
        gone.checked_sub(1)
    }

    /// Takes a line out; whether it was there.
    pub fn remove(&mut self, line: u32) -> bool {
        let at = self.set(line) * self.ways;
        let ways = &mut self.tags[at..at + self.ways];
        let Some(way) = ways.iter().position(|&t| t == line + 1) else { return false };
        ways[way] = 0;
        if self.policy == Policy::Lru {
            ways[way..].rotate_left(1);
        }
        true
    }

    fn oldest(&mut self, at: usize) -> usize {
        let ages = &mut self.age[at..at + self.ways];
        let most = ages.iter().copied().max().unwrap_or(3);
        ages.iter_mut().for_each(|a| *a += 3 - most);
        ages.iter().position(|a| *a == 3).unwrap_or(0)
    }

    fn pointed_at(&self, set: usize) -> usize {
        let (mut node, mut low, mut size) = (1, 0, self.ways);
        while size > 1 {
            size /= 2;
            let right = self.tree[set] >> node & 1;
            low += right as usize * size;
            node = node * 2 + right;
        }
        low
    }

    fn point_away(&mut self, set: usize, way: usize) {
        let (mut node, mut low, mut size) = (1, 0, self.ways);
        while size > 1 {
            size /= 2;
            let right = way >= low + size;
            // The bit points to the half that was not used.
            self.tree[set] = self.tree[set] & !(1 << node) | u32::from(!right) << node;
            low += if right { size } else { 0 };
            node = node * 2 + u32::from(right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses(policy: Policy, ways: usize, lines: u32, rounds: usize) -> usize {
        let mut tags = Tags::new(1, ways, policy, false);
        let mut misses = 0;
        for _ in 0..rounds {
            for line in 0..lines {
                if !tags.touch(line) {
                    tags.insert(line);
                    misses += 1;
                }
            }
        }
        misses
    }

    #[test]
    fn what_fits_misses_once_whatever_the_policy() {
        let ages = [Policy::Srrip, Policy::Brrip, Policy::Qlru];
        for policy in [Policy::Lru, Policy::TreePlru, Policy::Random].into_iter().chain(ages) {
            assert_eq!(misses(policy, 8, 8, 100), 8, "{policy:?}");
        }
    }

    #[test]
    fn one_line_too_many_in_order_misses_always_unless_victims_are_random() {
        assert_eq!(misses(Policy::Lru, 8, 9, 100), 900);
        let plru = misses(Policy::TreePlru, 8, 9, 100);
        let random = misses(Policy::Random, 8, 9, 1000);
        // In order, the tree's victim is always a line that is soon wanted: nearly as bad as LRU.
        assert!((800..=900).contains(&plru), "{plru} of 900");
        // One of nine is out, and the wait until it is wanted is uniform: 2 misses in 9 + 1 loads.
        assert!((1_700..2_400).contains(&random), "{random} of 9000");
    }

    #[test]
    fn a_bimodal_cache_keeps_most_of_what_does_not_fit() {
        // Nine lines in order through eight ways: LRU keeps none, bimodal insertion nearly seven of nine.
        let bimodal = misses(Policy::Brrip, 8, 9, 1_000);
        assert!((1_500..4_000).contains(&bimodal), "{bimodal} of 9000");
        let quad = misses(Policy::Qlru, 8, 9, 1_000);
        assert!((1_000..=9_000).contains(&quad), "{quad} of 9000");
    }

    #[test]
    fn removal_makes_room() {
        let mut tags = Tags::new(2, 2, Policy::Lru, false);
        assert_eq!([tags.insert(0), tags.insert(2)], [None, None]);
        assert!(tags.remove(0) && !tags.touch(0));
        assert_eq!(tags.insert(4), None);
        assert_eq!(tags.insert(6), Some(2));
    }
}
