//! What was recorded lately, as pages of the ring buffer in memory, for captures.

use latlab_model::units::TraceNs;
use latlab_sys::recorder::{Pages, append};
use std::collections::VecDeque;

/// The pages of the last looks.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The end of each look, and the pages that it brought: what was recorded until it began, and some of what followed.
    looks: VecDeque<(TraceNs, Pages)>,
    bytes: usize,
    /// From when on it has everything.
    since: TraceNs,
}

impl History {
    /// Nothing, from this time on.
    pub(super) fn since_now(now: TraceNs) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// From when on it has everything.
    pub(super) fn since(&self) -> TraceNs {
        self.since
    }

    /// Adds the pages of a look that ended at `time`; keeps `most` bytes, and the last look.
    pub(super) fn push(&mut self, time: TraceNs, mut pages: Pages, most: usize) {
        pages.retain(|(_, bytes)| !bytes.is_empty());
        pages.iter_mut().for_each(|(_, bytes)| bytes.shrink_to_fit());
        self.bytes += size(&pages);
        self.looks.push_back((time, pages));
        while self.bytes > most && self.looks.len() > 1 {
            let Some((time, pages)) = self.looks.pop_front() else { break };
            self.bytes -= size(&pages);
            self.since = self.since.max(time);
        }
    }

    /// All pages with events since a time, in order, and from when on they have everything.
    pub(super) fn pages(&self, from: TraceNs) -> (TraceNs, Pages) {
        let first = self.looks.partition_point(|look| look.0 < from);
        let before = first.checked_sub(1).and_then(|i| self.looks.get(i));
        let begin = before.map_or(self.since, |look| look.0.max(self.since));
        let mut all = Pages::new();
        for (cpu, bytes) in self.looks.range(first..).flat_map(|look| &look.1) {
            append(&mut all, *cpu, bytes);
        }
        all.sort_unstable_by_key(|part| part.0);
        (begin, all)
    }
}

fn size(pages: &Pages) -> usize {
    pages.iter().map(|part| part.1.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(history: &mut History, time: u64, most: usize) {
        let pages = vec![(1, vec![time as u8; 2]), (0, vec![time as u8; 4]), (2, Vec::new())];
        history.push(TraceNs(time), pages, most);
    }

    #[test]
    fn the_oldest_looks_go() {
        let mut history = History::since_now(TraceNs(5));
        (1..=4).for_each(|i| look(&mut history, 10 * i, 18));
        assert_eq!((history.since(), history.bytes), (TraceNs(10), 18));
        look(&mut history, 50, 1);
        assert_eq!((history.since(), history.looks.len()), (TraceNs(40), 1), "the last one stays");
    }

    #[test]
    fn pages_of_a_time_are_those_of_looks_after_it() {
        let mut history = History::since_now(TraceNs(5));
        (1..=3).for_each(|i| look(&mut history, 10 * i, 100));
        let of = |from| history.pages(TraceNs(from));
        assert_eq!(
            of(0),
            (
                TraceNs(5),
                vec![
                    (0, [[10; 4], [20; 4], [30; 4]].concat()),
                    (1, [[10; 2], [20; 2], [30; 2]].concat()),
                ]
            )
        );
        assert_eq!(
            of(11),
            (
                TraceNs(10),
                vec![(0, [[20; 4], [30; 4]].concat()), (1, [[20; 2], [30; 2]].concat()),]
            )
        );
        assert_eq!(of(20).0, TraceNs(10), "the look at 20 has what was recorded until then");
        assert_eq!(of(31), (TraceNs(30), vec![]));
    }
}
