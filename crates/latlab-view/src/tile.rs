//! Tiles: what is drawn of a lane in a stretch of time, at one level of detail.
//!
//! Level *l* has bins of 4^*l* ns; a tile is [`BINS`] of them, counted from the
//! trace's first event. A tile that holds few items has them as they are;
//! otherwise each bin tells what took most of it, how much of it was taken and how
//! many items touch it, so that nothing vanishes between two pixels. Tiles of all
//! levels are made from the columns themselves and kept by who asks.
//!
//! ```text
//! reply: per tile, little endian
//!   u32 kind     1 items, 2 bins
//!   u32 n
//!   items: f64 start[n]  f64 end[n]  u32 id[n]  u32 aux[n]        ns after the origin
//!   bins:  u32 id[n]  u32 aux[n]  u32 count[n]  f32 fill[n]       n = BINS
//! ```

use crate::index::column::{Item, Items};

/// Bins of a tile.
pub const BINS: usize = 512;
/// A tile with at most so many items has them as they are.
pub const EXACT: usize = 1024;
/// The highest level: one tile is longer than any trace.
pub const LEVELS: u32 = 28;

/// One bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// What took most of it.
    pub id: u32,
    /// That item's `aux`.
    pub aux: u32,
    /// Items that touch it.
    pub count: u32,
    /// Share of it that is taken, 0 to 1.
    pub fill: f32,
}

/// A tile.
#[derive(Clone, Debug, PartialEq)]
pub enum Tile {
    /// All that there is.
    Items(Vec<Item>),
    /// Its density.
    Bins(Vec<Bin>),
}

/// What of a lane counts as taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Every item.
    All,
    /// Every item but idle and what is not known (pids).
    Busy,
    /// Running, waiting and blocked, not sleeping (states of a task).
    Awake,
}

impl Taken {
    #[inline]
    fn is(self, id: u32) -> bool {
        match self {
            Self::All => true,
            Self::Busy => id != 0 && id != u32::MAX,
            Self::Awake => matches!(id, 0 | 1 | 3),
        }
    }
}

/// Start and end of a tile in ns after the origin; `None` beyond all time.
pub fn extent(level: u32, number: u64) -> Option<(u64, u64)> {
    let shift = level.min(LEVELS) * 2 + 9;
    let start = number.checked_mul(1u64.checked_shl(shift)?)?;
    Some((start, start.checked_add(1 << shift)?))
}

/// A lane's tile. `origin` is the time that tiles count from.
pub fn tile<I: Items>(items: &I, taken: Taken, origin: u64, level: u32, number: u64) -> Tile {
    let Some((from, to)) = extent(level, number) else { return Tile::Items(Vec::new()) };
    let (from, to) = (origin.saturating_add(from), origin.saturating_add(to));
    let (first, last) = (items.first_after(from), items.first_from(to));
    let last = last.max(first);
    if last - first <= EXACT {
        return Tile::Items((first..last).map(|i| items.get(i)).collect());
    }
    let mut density = Density::new(from, level.min(LEVELS) * 2);
    for i in first..last {
        let item = items.get(i);
        density.add(item, taken.is(item.id));
    }
    density.finish();
    Tile::Bins(density.bins)
}

/// Bins while they are filled.
struct Density {
    from: u64,
    shift: u32,
    bins: Vec<Bin>,
    /// The bin at hand, and who took how much of it.
    at: usize,
    shares: Vec<(u32, u32, u64)>,
    taken: u64,
}

impl Density {
    fn new(from: u64, shift: u32) -> Self {
        let bins = vec![Bin::default(); BINS];
        Self { from, shift, bins, at: 0, shares: Vec::with_capacity(16), taken: 0 }
    }

    #[inline]
    fn add(&mut self, item: Item, taken: bool) {
        let width = 1u64 << self.shift;
        let (start, end) =
            (item.start.saturating_sub(self.from), item.end.saturating_sub(self.from));
        let first = (start >> self.shift).min(BINS as u64 - 1) as usize;
        // An item ends before its end.
        let last = (end.saturating_sub(1).max(start) >> self.shift).min(BINS as u64 - 1) as usize;
        for bin in first..=last {
            if bin != self.at {
                self.close();
                self.at = bin;
            }
            self.bins[bin].count += u32::from(taken);
            let from = start.max(bin as u64 * width);
            let length = end.min((bin as u64 + 1) * width).saturating_sub(from);
            self.taken = self.taken.saturating_add(if taken { length } else { 0 });
            // What is idle is named only where nothing else is.
            let weight = if taken { length.max(1) } else { 0 };
            match self.shares.iter().position(|s| s.0 == item.id) {
                Some(n) => self.shares[n].2 = self.shares[n].2.saturating_add(weight),
                None if self.shares.len() < 32 => self.shares.push((item.id, item.aux, weight)),
                None => {}
            }
        }
    }

    fn close(&mut self) {
        if let Some(most) = self.shares.iter().max_by_key(|s| s.2) {
            let bin = &mut self.bins[self.at];
            (bin.id, bin.aux) = (most.0, most.1);
            bin.fill = (self.taken as f64 / (1u64 << self.shift) as f64).min(1.0) as f32;
        }
        self.shares.clear();
        self.taken = 0;
    }

    fn finish(&mut self) {
        self.close();
    }
}

/// Appends a tile as it goes over the wire.
pub fn encode(tile: &Tile, origin: u64, out: &mut Vec<u8>) {
    let word = |out: &mut Vec<u8>, n: u32| out.extend_from_slice(&n.to_le_bytes());
    match tile {
        Tile::Items(items) => {
            word(out, 1);
            word(out, items.len() as u32);
            let rel = |t: u64| (t as i128 - origin as i128) as f64;
            items.iter().for_each(|i| out.extend_from_slice(&rel(i.start).to_le_bytes()));
            items.iter().for_each(|i| out.extend_from_slice(&rel(i.end).to_le_bytes()));
            items.iter().for_each(|i| word(out, i.id));
            items.iter().for_each(|i| word(out, i.aux));
        }
        Tile::Bins(bins) => {
            word(out, 2);
            word(out, bins.len() as u32);
            bins.iter().for_each(|b| word(out, b.id));
            bins.iter().for_each(|b| word(out, b.aux));
            bins.iter().for_each(|b| word(out, b.count));
            bins.iter().for_each(|b| out.extend_from_slice(&b.fill.to_le_bytes()));
        }
    }
}

/// A lane of moments that are given as a sorted list.
#[derive(Clone, Copy, Debug)]
pub struct List<'l>(pub &'l [Item]);

impl Items for List<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Item {
        self.0[i]
    }
    fn start(&self, i: usize) -> u64 {
        self.0[i].start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::column::Spans;

    fn lane(n: u64) -> Spans {
        let mut s = Spans::default();
        for i in 0..n {
            s.push(Item { start: i * 1000, end: i * 1000 + 100, id: 1 + (i % 3) as u32, aux: 7 });
        }
        s
    }

    #[test]
    fn few_items_are_exact_and_many_are_a_density() {
        let s = lane(100_000);
        let Tile::Items(items) = tile(&s, Taken::All, 0, 5, 3) else { panic!("exact") };
        let (from, to) = extent(5, 3).unwrap();
        assert!(items.iter().all(|i| i.end > from && i.start < to));
        assert_eq!(items.len() as u64, (to - 1) / 1000 - (from - 1) / 1000);
        let Tile::Bins(bins) = tile(&s, Taken::All, 0, 9, 0) else { panic!("bins") };
        let full: Vec<&Bin> = bins.iter().filter(|b| b.count > 0).collect();
        assert_eq!(full.len(), (100_000_000usize).div_ceil(1 << 18));
        assert!(full[3].fill > 0.09 && full[3].fill < 0.11, "{:?}", full[3]);
        assert!((260..=264).contains(&full[3].count));
    }

    #[test]
    fn a_single_short_item_is_seen_at_every_level() {
        let mut s = lane(3000);
        s.push(Item { start: 1 << 40, end: (1 << 40) + 1, id: 9, aux: 0 });
        for level in 0..LEVELS {
            let number = (1u64 << 40) >> (level * 2 + 9);
            let seen = match tile(&s, Taken::All, 0, level, number) {
                Tile::Items(items) => items.iter().any(|i| i.id == 9),
                Tile::Bins(bins) => {
                    let at = ((1u64 << 40) >> (level * 2)) as usize % BINS;
                    bins[at].count > 0
                }
            };
            assert!(seen, "level {level}");
        }
        assert!(extent(40, u64::MAX).is_none());
        assert_eq!(tile(&s, Taken::All, 0, 28, u64::MAX), Tile::Items(vec![]));
    }

    #[test]
    fn idle_is_not_taken() {
        let mut s = Spans::default();
        for i in 0..4096u64 {
            let id = if i % 2 == 0 { 0 } else { 42 };
            s.push(Item { start: i * 64, end: i * 64 + 64, id, aux: 0 });
        }
        let Tile::Bins(bins) = tile(&s, Taken::Busy, 0, 5, 0) else { panic!("bins") };
        assert!(bins[..200].iter().all(|b| b.id == 42 && (b.fill - 0.5).abs() < 1e-6));
    }

    #[test]
    fn the_wire_is_as_documented() {
        let mut out = Vec::new();
        let items = Tile::Items(vec![Item { start: 1005, end: 1010, id: 3, aux: 4 }]);
        encode(&items, 1000, &mut out);
        assert_eq!(out.len(), 8 + 24);
        assert_eq!(out[..8], [1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(out[8..16], 5f64.to_le_bytes());
        out.clear();
        encode(&Tile::Bins(vec![Bin::default(); BINS]), 0, &mut out);
        assert_eq!(out.len(), 8 + 16 * BINS);
    }
}
