//! Loads that depend on one another.
//!
//! Each word of the array holds the address of the next; a load cannot begin before the one before
//! it has ended, so that the time of a round over the number of loads is the latency of one.

use super::area::Area;

/// Writes a cycle of byte offsets into an area as a ring of addresses, and returns its first.
///
/// `None` for an empty cycle, or one that reaches past the area.
pub fn link<'a>(area: &'a mut Area, cycle: &[u32]) -> Option<Ring<'a>> {
    const WORD: usize = size_of::<usize>();
    let bytes = area.bytes();
    let words = area.words();
    let base = words.as_ptr() as usize;
    let fits = |&o: &u32| o as usize + WORD <= bytes && (o as usize).is_multiple_of(WORD);
    if cycle.is_empty() || !cycle.iter().all(fits) {
        return None;
    }
    let followers = cycle.iter().skip(1).chain(cycle.first());
    for (&here, &next) in cycle.iter().zip(followers) {
        words[here as usize / WORD] = base + next as usize;
    }
    Some(Ring { at: base + cycle[0] as usize, length: cycle.len(), _words: words })
}

/// A ring of addresses within an area, borrowed so that nobody writes to it meanwhile.
#[derive(Debug)]
pub struct Ring<'a> {
    at: usize,
    length: usize,
    _words: &'a mut [usize],
}

impl Ring<'_> {
    /// As [`Ring::run`]; what each load found is stored again where it was, so that its line is written.
    pub fn run_storing(&mut self, loads: usize) -> usize {
        for _ in 0..loads {
            let word = self.at as *mut usize;
            // SAFETY: as in `run`; the borrow of the area is exclusive, and the value stored is the
            // one that was there, so that the ring stays what it is.
            self.at = unsafe {
                let next = word.read_volatile();
                word.write_volatile(next);
                next
            };
        }
        loads
    }

    /// Follows the ring by another function, which is given where to begin and `turns`, and returns where it ended.
    ///
    /// # Safety
    /// `follow` only reads, and only words that it reaches from the first.
    pub unsafe fn run_by(&mut self, turns: usize, follow: unsafe fn(usize, usize) -> usize) {
        // SAFETY: as in `run`, and the caller's promise.
        self.at = unsafe { follow(self.at, turns) };
    }

    /// Number of loads in one round.
    pub fn length(&self) -> usize {
        self.length
    }

    /// At least `loads` loads, in whole blocks of 64; returns how many. Goes on where the last one ended.
    pub fn run(&mut self, loads: usize) -> usize {
        let blocks = loads.div_ceil(64).max(1);
        // SAFETY: `at` is a word of the ring and every word of the ring holds the address of
        // another one (`link`); the borrow of the area keeps them mapped and unwritten.
        self.at = unsafe { follow(self.at as *const usize, blocks) } as usize;
        blocks * 64
    }
}

/// Follows `blocks` × 64 addresses.
///
/// # Safety
/// `at` and every word that is reached from it must point to a readable, aligned word.
#[inline(never)]
unsafe fn follow(mut at: *const usize, blocks: usize) -> *const usize {
    macro_rules! loads {
        ($($n:literal)*) => {
            $(
                let _ = $n;
                // SAFETY: the caller's promise.
                at = unsafe { at.read_volatile() } as *const usize;
            )*
        };
    }
    for _ in 0..blocks {
        loads!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        loads!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        loads!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        loads!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
    at
}

/// Several cycles in one area, to be followed at once.
#[derive(Debug)]
pub struct Rings<'a> {
    at: Vec<usize>,
    _words: &'a [usize],
}

/// Writes cycles that share no word; as [`link`].
pub fn link_many<'a>(area: &'a mut Area, cycles: &[Vec<u32>]) -> Option<Rings<'a>> {
    let mut at = Vec::with_capacity(cycles.len());
    for cycle in cycles {
        at.push(link(area, cycle)?.at);
    }
    Some(Rings { at, _words: area.words() })
}

impl Rings<'_> {
    /// `steps` loads of each ring in turn: all their loads are independent of one another.
    pub fn run(&mut self, steps: usize) {
        match self.at.len() {
            1 => self.together::<1>(steps),
            2 => self.together::<2>(steps),
            4 => self.together::<4>(steps),
            8 => self.together::<8>(steps),
            16 => self.together::<16>(steps),
            _ => {}
        }
    }

    fn together<const N: usize>(&mut self, steps: usize) {
        let mut at = [0; N];
        at.copy_from_slice(&self.at[..N]);
        // SAFETY: as in `Ring::run`, for each ring.
        unsafe { follow_together(&mut at, steps) };
        self.at.copy_from_slice(&at);
    }
}

/// # Safety
/// As [`follow`], for each address.
#[inline(never)]
unsafe fn follow_together<const N: usize>(at: &mut [usize; N], steps: usize) {
    let mut here = *at;
    for _ in 0..steps {
        for a in &mut here {
            // SAFETY: the caller's promise.
            *a = unsafe { (*a as *const usize).read_volatile() };
        }
    }
    *at = here;
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::cache::detail::Pages;

    #[test]
    fn a_ring_goes_round_all_its_words() {
        let mut area = Area::new(1 << 16, Pages::Base, 1).unwrap();
        let cycle = [128, 64, 4096, 65528];
        let first = area.words().as_ptr() as usize;
        let mut ring = link(&mut area, &cycle).unwrap();
        assert_eq!(ring.length(), 4);
        assert_eq!(ring.run(1), 64);
        // 64 is a multiple of 4: back at the first.
        assert_eq!(ring.at, first + 128);
        for (i, &o) in cycle.iter().enumerate() {
            let next = cycle[(i + 1) % 4] as usize;
            assert_eq!(area.words()[o as usize / size_of::<usize>()], first + next);
        }
    }

    #[test]
    fn a_ring_that_leaves_its_area_is_refused() {
        let mut area = Area::new(4096, Pages::Base, 1).unwrap();
        for bad in [&[4096u32][..], &[3], &[], &[0, u32::MAX]] {
            assert!(link(&mut area, bad).is_none(), "{bad:?}");
        }
        let mut many = link_many(&mut area, &[vec![0, 64], vec![128, 192]]).unwrap();
        many.run(3);
        assert_eq!(many.at[1] - many.at[0], 128);
        assert!(link_many(&mut area, &[vec![0], vec![4096]]).is_none());
    }
}
