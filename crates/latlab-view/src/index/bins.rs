//! Events counted in bins of time whose width grows with the trace.
//!
//! A bin is 4^k ns wide. When a trace outgrows the bins, four become one: their
//! number stays between a quarter of [`MOST`] and [`MOST`], whatever the
//! trace's length, and no second pass is needed.

/// Bins at most.
pub const MOST: usize = 1 << 20;
/// Bins of all CPUs at most (128 MiB), as long as each has [`LEAST`].
const ALL: usize = 1 << 25;
/// Bins that a CPU may have on any machine.
const LEAST: usize = 1 << 8;

/// Counts of one CPU.
#[derive(Clone, Debug)]
pub struct Bins {
    /// A bin is `1 << shift` ns wide; even.
    pub shift: u32,
    /// Events of each bin.
    pub counts: Vec<u32>,
    /// Bins at most.
    most: usize,
}

impl Default for Bins {
    fn default() -> Self {
        Self { shift: 8, counts: Vec::new(), most: MOST }
    }
}

impl Bins {
    /// Those of one of `cpus` CPUs, which share a number of bins.
    pub fn of_one_of(cpus: usize) -> Self {
        Self { most: (ALL / cpus.max(1)).clamp(LEAST, MOST), ..Self::default() }
    }

    /// Counts an event at `rel` ns after the origin.
    #[inline]
    pub fn add(&mut self, rel: u64) {
        let mut at = rel >> self.shift;
        while at >= self.most as u64 {
            self.coarsen();
            at = rel >> self.shift;
        }
        let at = at as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(1);
    }

    fn coarsen(&mut self) {
        for i in 0..self.counts.len().div_ceil(4) {
            let four = &self.counts[i * 4..(i * 4 + 4).min(self.counts.len())];
            self.counts[i] = four.iter().fold(0, |a, b| a.saturating_add(*b));
        }
        self.counts.truncate(self.counts.len().div_ceil(4));
        self.shift += 2;
    }

    /// Makes bins at least `1 << shift` ns wide.
    pub fn coarsen_to(&mut self, shift: u32) {
        while self.shift < shift {
            self.coarsen();
        }
    }

    /// Events in `[from, to)` ns after the origin, whole bins.
    pub fn sum(&self, from: u64, to: u64) -> u64 {
        let at = |t: u64| ((t >> self.shift).min(self.counts.len() as u64)) as usize;
        let (a, b) = (at(from), at(to));
        self.counts[a..b.max(a)].iter().map(|c| u64::from(*c)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_grow_and_lose_nothing() {
        let mut b = Bins::default();
        for i in 0..5000u64 {
            b.add(i * 1_000_003);
        }
        assert!(b.counts.len() <= MOST && b.counts.len() > MOST / 5);
        assert_eq!(b.sum(0, u64::MAX), 5000);
        let half = 2500 * 1_000_003u64;
        assert!((b.sum(0, half) as i64 - 2500).abs() <= 1);
        b.add(u64::MAX / 2);
        assert_eq!(b.sum(0, u64::MAX), 5001);
    }

    /// Each of 65,536 CPUs with a megabyte of bins would take 64 GiB.
    #[test]
    fn many_cpus_share_the_bins() {
        for (cpus, most) in
            [(0, MOST), (4, MOST), (256, ALL / 256), (65_536, ALL / 65_536), (usize::MAX, LEAST)]
        {
            let mut b = Bins::of_one_of(cpus);
            for i in 0..5000u64 {
                b.add(i * 1_000_003);
            }
            assert!(b.counts.len() <= most && b.counts.len() > most / 5, "{cpus}");
            assert_eq!(b.sum(0, u64::MAX), 5000);
        }
    }
}
