//! What of a recording is in memory: the interval before, and as much of those before it as its activations need.
//!
//! The kernel's buffer is read while it records. What is analysed is contiguous, so that an activation that begins in one
//! interval and ends in a later one is seen from its begin to its end.

use latlab_model::units::{Nanos, TraceNs};
use latlab_sys::recorder::{Pages, Snapshot, append};

/// A window begins at most so long before the interval.
const LONGEST: Nanos = Nanos(10_000_000_000);

/// The pages that are kept between two intervals.
#[derive(Debug, Default)]
pub(super) struct Window {
    pages: Pages,
    /// From when on they have everything.
    since: Option<TraceNs>,
}

impl Window {
    /// From when on the window has everything, where it begins before the interval.
    pub(super) fn since(&self) -> Option<TraceNs> {
        self.since
    }

    /// An interval with what was kept of those before.
    pub(super) fn with(&mut self, interval: Snapshot) -> Snapshot {
        let before = std::mem::take(&mut self.pages);
        Snapshot { pages: joined(before, interval.pages), ..interval }
    }

    /// Whether what a window that ends at `end` has from a time on can be kept: at most `most` bytes of a CPU.
    pub(super) fn fits(window: &Snapshot, (from, end): (TraceNs, TraceNs), most: u64) -> bool {
        let page = window.meta.page_size as usize;
        let left = window.pages.iter().map(|part| part.1.len() - before(&part.1, from, page));
        end.since(from) <= LONGEST && left.max().unwrap_or(0) as u64 <= most
    }

    /// Keeps of a window what was recorded from a time on; `None`: nothing.
    pub(super) fn keep(&mut self, window: Snapshot, from: Option<TraceNs>) {
        *self = Self::default();
        let Some(from) = from else { return };
        let page = window.meta.page_size as usize;
        (self.pages, self.since) = (window.pages, Some(from));
        for (_, bytes) in &mut self.pages {
            bytes.drain(..before(bytes, from, page));
        }
    }
}

fn joined(mut before: Pages, after: Pages) -> Pages {
    if before.is_empty() {
        return after;
    }
    for (cpu, bytes) in after {
        append(&mut before, cpu, &bytes);
    }
    before
}

/// Bytes of the pages whose events come before a time: a page begins with the time of its first event.
fn before(pages: &[u8], from: TraceNs, page: usize) -> usize {
    let begins = |part: &[u8]| part.first_chunk().map_or(0, |head| u64::from_ne_bytes(*head));
    let last = pages.chunks(page.max(8)).rposition(|part| begins(part) <= from.0);
    last.unwrap_or(0) * page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(time: u64) -> Vec<u8> {
        [time.to_ne_bytes(), [7; 8]].concat()
    }

    #[test]
    fn pages_that_end_before_a_time_go() {
        let pages: Vec<u8> = [10, 20, 30].iter().flat_map(|t| page(*t)).collect();
        let before = |from| before(&pages, TraceNs(from), 16) / 16;
        assert_eq!((before(5), before(19)), (0, 0));
        assert_eq!((before(20), before(29)), (1, 1), "the page of 20 may have events until 30");
        assert_eq!(before(99), 2);
        assert_eq!(super::before(&[], TraceNs(99), 16), 0);
    }

    #[test]
    fn an_interval_follows_what_was_kept() {
        let all = joined(vec![(0, vec![1]), (1, vec![2])], vec![(0, vec![3]), (2, vec![4])]);
        assert_eq!(all, [(0, vec![1, 3]), (1, vec![2]), (2, vec![4])]);
    }
}
