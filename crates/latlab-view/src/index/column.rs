//! Spans of one lane in columns: sorted, without overlaps.

use latlab_model::event::OffCpu;

/// Something that lasts from `start` to `end`, with a number that says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Start, ns of the trace's clock.
    pub start: u64,
    /// End.
    pub end: u64,
    /// What: a pid, a name's number, a value.
    pub id: u32,
    /// More: kind, state, CPU; each lane says what.
    pub aux: u32,
}

/// A lane's items, in order of time and without overlaps.
pub trait Items {
    /// How many.
    fn len(&self) -> usize;
    /// One of them.
    fn get(&self, i: usize) -> Item;
    /// Start of one of them.
    fn start(&self, i: usize) -> u64;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The first item that ends after `t`.
    fn first_after(&self, t: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start(middle) <= t {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        match low.checked_sub(1) {
            Some(before) if self.get(before).end > t => before,
            _ => low,
        }
    }
    /// The first item that starts at or after `t`.
    fn first_from(&self, t: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start(middle) < t {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Spans with gaps between them.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// Starts, rising.
    pub start: Vec<u64>,
    /// Ends: not after the next start.
    pub end: Vec<u64>,
    /// What.
    pub id: Vec<u32>,
    /// More.
    pub aux: Vec<u32>,
}

impl Spans {
    /// Appends a span; it is cut where it would overlap the one before.
    #[inline]
    pub fn push(&mut self, item: Item) {
        let start = self.end.last().map_or(item.start, |e| item.start.max(*e));
        self.start.push(start);
        self.end.push(item.end.max(start));
        self.id.push(item.id);
        self.aux.push(item.aux);
    }
}

impl Items for Spans {
    fn len(&self) -> usize {
        self.start.len()
    }
    #[inline]
    fn get(&self, i: usize) -> Item {
        Item { start: self.start[i], end: self.end[i], id: self.id[i], aux: self.aux[i] }
    }
    #[inline]
    fn start(&self, i: usize) -> u64 {
        self.start[i]
    }
}

/// Which task ran on a CPU: each entry lasts until the next.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// When it began to run, rising.
    pub time: Vec<u64>,
    /// The task; 0 idle, −1 not known (events were lost).
    pub pid: Vec<i32>,
    /// How the task before it left.
    pub left: Vec<Left>,
    /// When the last one ends.
    pub end: u64,
}

/// How a task left its CPU, as the lanes' numbers say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Left {
    /// Still runnable.
    Runnable = 0,
    /// Sleeping.
    Sleeping = 1,
    /// Waiting uninterruptibly.
    Blocked = 2,
    /// Ended.
    Gone = 3,
    /// No event says.
    Unknown = 4,
}

impl Left {
    /// Of what a switch reports.
    pub fn of(state: OffCpu) -> Self {
        match state {
            OffCpu::Runnable | OffCpu::Preempted => Self::Runnable,
            OffCpu::Sleeping => Self::Sleeping,
            OffCpu::Blocked => Self::Blocked,
            OffCpu::Stopped | OffCpu::Dead => Self::Gone,
        }
    }
}

impl Runs {
    /// From now on `pid` runs.
    #[inline]
    pub fn push(&mut self, time: u64, pid: i32, left: Left) {
        self.time.push(time);
        self.pid.push(pid);
        self.left.push(left);
    }
}

impl Items for Runs {
    fn len(&self) -> usize {
        self.time.len()
    }
    #[inline]
    fn get(&self, i: usize) -> Item {
        let start = self.time[i];
        let end = self.time.get(i + 1).copied().unwrap_or(self.end).max(start);
        let left = self.left.get(i + 1).map_or(Left::Unknown, |l| *l);
        Item { start, end, id: self.pid[i] as u32, aux: left as u32 }
    }
    #[inline]
    fn start(&self, i: usize) -> u64 {
        self.time[i]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_by_time() {
        let mut s = Spans::default();
        for (start, end) in [(10, 20), (20, 25), (30, 40)] {
            s.push(Item { start, end, id: 1, aux: 0 });
        }
        let of = |t| s.first_after(t);
        assert_eq!([of(0), of(10), of(19), of(20), of(26), of(35), of(40)], [0, 0, 0, 1, 2, 2, 3]);
        assert_eq!([s.first_from(10), s.first_from(11), s.first_from(41)], [0, 1, 3]);
        s.push(Item { start: 35, end: 50, id: 2, aux: 0 });
        assert_eq!(s.get(3).start, 40, "an overlap is cut");
    }
}
