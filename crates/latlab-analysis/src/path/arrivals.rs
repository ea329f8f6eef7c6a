//! Interrupts as arrivals with execution times, for the bound: of each source by itself, since their alignment need
//! not have been observed.

use std::collections::BTreeMap;

/// An interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    start: u64,
    length: u64,
}

/// Interrupts of one source, in the order of time, in spans between which the CPU waited: an interrupt before and one
/// after a wait delay nobody together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    /// The hardware's number (ARM) or the vector (x86).
    pub(super) number: Option<u64>,
    /// Address of its handler or vector; 0 where it was not seen.
    pub(super) handler: u64,
    /// Its name, where no address tells it.
    pub(super) name: String,
    spans: Vec<Vec<Arrival>>,
}

impl Source {
    pub(super) fn new(number: Option<u64>, handler: u64) -> Self {
        Self { number, handler, name: String::new(), spans: Vec::new() }
    }

    pub(super) fn named(number: Option<u64>, name: String) -> Self {
        Self { number, name, ..Self::default() }
    }

    /// Adds one.
    ///
    /// # Errors
    /// Where it begins before the one before has ended.
    pub(super) fn push(&mut self, start: u64, length: u64) -> Result<(), &'static str> {
        let span = match self.spans.last_mut() {
            Some(span) => span,
            None => self.spans.push_mut(Vec::new()),
        };
        let earlier =
            span.last().is_none_or(|last| last.start.saturating_add(last.length) <= start);
        if !earlier || start.checked_add(length).is_none() {
            return Err("an interrupt before the end of the one before");
        }
        span.push(Arrival { start, length });
        Ok(())
    }

    /// The CPU waited.
    pub(super) fn wait(&mut self) {
        if self.spans.last().is_some_and(|span| !span.is_empty()) {
            self.spans.push(Vec::new());
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.spans.iter().map(|span| span.len() as u64).sum()
    }

    /// Instructions of the longest one.
    pub(super) fn longest(&self) -> u64 {
        self.spans.iter().flatten().map(|a| a.length).max().unwrap_or(0)
    }

    /// Least instructions from the beginning of one to that of the next, between which the CPU did not wait.
    pub(super) fn least_distance(&self) -> Option<u64> {
        let distances =
            self.spans.iter().flat_map(|s| s.windows(2).map(|w| w[1].start - w[0].start));
        distances.min()
    }

    /// Most instructions of interrupts in any window of a length, which begins within the first one: of what was
    /// observed.
    pub(super) fn most_in(&self, window: u64) -> u64 {
        self.spans.iter().map(|span| most_in(span, window)).max().unwrap_or(0)
    }

    /// The same for interrupts that always come at their least distance and take the longest time (sporadic).
    pub(super) fn most_sporadic(&self, window: u64) -> u64 {
        let longest = self.longest();
        // The first one began at most its length before the window.
        let reach = window.saturating_add(longest);
        let more = self.least_distance().map_or(0, |distance| reach / distance.max(1));
        more.saturating_add(1).saturating_mul(longest)
    }
}

fn most_in(span: &[Arrival], window: u64) -> u64 {
    let (mut first, mut sum, mut most) = (0, 0u64, 0);
    for arrival in span {
        sum += arrival.length;
        while arrival.start.saturating_sub(span[first].start + span[first].length) > window {
            sum -= span[first].length;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

/// Names by the hardware's number, by the text of `/proc/interrupts`: of the lines of ARM's interrupt controller
/// (`GIC…`), whose numbers are those that its driver handles.
pub(super) fn names(interrupts: &str) -> BTreeMap<u64, String> {
    let mut lines = interrupts.lines();
    let cpus = lines.next().map_or(0, |l| l.split_ascii_whitespace().count());
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1 + cpus);
        words.next()?.starts_with("GIC").then_some(())?;
        let number = words.next()?.parse().ok()?;
        let name: Vec<&str> = words.filter(|w| !["Level", "Edge"].contains(w)).collect();
        (!name.is_empty()).then(|| (number, name.join(" ")))
    };
    lines.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_the_interrupt_controller_name_numbers() {
        let text = "           CPU0       CPU1\n 24:    1234  5     GIC-0  27 Level     arch_timer\n\
            \x20 25:  0  0     MSI  27 Edge   other\n 41:  9 1 GICv2  78 Edge  virtio0, virtio1\nIPI0:  1 2  wake-up\n";
        let names = names(text);
        assert_eq!(names.get(&27).map(String::as_str), Some("arch_timer"));
        assert_eq!(names.get(&78).map(String::as_str), Some("virtio0, virtio1"));
        assert_eq!(names.len(), 2);
    }

    #[test]
    fn what_comes_at_the_least_distance_is_at_least_what_was_observed() {
        let mut source = Source::new(Some(27), 0);
        for (start, length) in [(0, 100), (1_000, 300), (1_500, 50)] {
            source.push(start, length).unwrap();
        }
        assert_eq!((source.least_distance(), source.longest()), (Some(500), 300));
        assert_eq!(source.most_in(400), 350);
        // At 0, 500 and, since the first one may have begun 300 before the window, at 200 of it.
        assert_eq!(source.most_sporadic(400), 2 * 300);
        assert_eq!(source.most_sporadic(700), 3 * 300);
        source.wait();
        source.push(1_600, 10).unwrap();
        assert_eq!(source.least_distance(), Some(500), "a wait is between them");
        assert!(source.push(1_605, 1).is_err());
        assert_eq!(Source::new(None, 0).most_sporadic(10), 0);
    }

    proptest! {
        #[test]
        fn a_window_has_the_most_that_any_has(gaps in prop::collection::vec((0u64..50, 1u64..20), 1..30), window in 0u64..200) {
            let mut at = 0;
            let mut source = Source::new(None, 0);
            let span: Vec<Arrival> = gaps.iter().map(|&(gap, length)| {
                let arrival = Arrival { start: at + gap, length };
                at += gap + length;
                source.push(arrival.start, length).unwrap();
                arrival
            }).collect();
            let from = |i: usize| {
                let end = span[i].start + span[i].length;
                span[i..].iter().filter(|a| a.start.saturating_sub(end) <= window).map(|a| a.length).sum::<u64>()
            };
            let most = (0..span.len()).map(from).max().unwrap();
            prop_assert_eq!(most_in(&span, window), most);
            prop_assert!(source.most_sporadic(window) >= most);
        }
    }
}
