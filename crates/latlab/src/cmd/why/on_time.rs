//! The last wake-ups of each measuring thread, written beside the marker of a late one: on-time wake-ups
//! end at the same event as the late one does, the thread's own clock reading.

use latlab_analysis::latency::wakeups::ON_TIME_MARK;
use latlab_model::wakeup::result::LateWake;
use std::io::Write;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Wake-ups that are kept of a thread.
const KEPT: usize = 60;
/// Largest length of the marker's text; kernels before 6.7 cut one at 1 KiB.
pub(super) const TEXT: usize = 1_000;

/// Rings that are written by one thread each: no allocation, no lock.
pub(super) struct OnTime {
    threads: Vec<Ring>,
}

struct Ring {
    /// Thread id; 0: it has not woken yet.
    tid: AtomicI32,
    next: AtomicUsize,
    /// Intended time and latency, ns; an intended time of 0: empty.
    rows: [[AtomicU64; 2]; KEPT],
}

impl OnTime {
    pub(super) fn new(threads: usize) -> Self {
        let row = || [const { AtomicU64::new(0) }; 2];
        let ring = || Ring {
            tid: AtomicI32::new(0),
            next: AtomicUsize::new(0),
            rows: std::array::from_fn(|_| row()),
        };
        Self { threads: std::iter::repeat_with(ring).take(threads).collect() }
    }

    /// The threads that have woken.
    pub(super) fn threads(&self) -> impl Iterator<Item = i32> {
        self.threads.iter().map(|r| r.tid.load(Ordering::Relaxed)).filter(|&t| t > 0)
    }

    /// Keeps a wake-up.
    pub(super) fn add(&self, wake: &LateWake) {
        let Some(ring) = self.threads.get(wake.thread) else { return };
        ring.tid.store(wake.tid, Ordering::Relaxed);
        let at = ring.next.fetch_add(1, Ordering::Relaxed) % KEPT;
        let [intended, latency] = &ring.rows[at];
        intended.store(wake.intended_ns, Ordering::Relaxed);
        latency.store(wake.latency_ns, Ordering::Relaxed);
    }

    /// The marker's text for the wake-ups before a late one, newest first, as many as there is room for.
    /// Returns its length.
    pub(super) fn text(&self, late: &LateWake, text: &mut [u8; TEXT]) -> usize {
        let mut rest = &mut text[..];
        let (tid, before) = (late.tid, late.intended_ns);
        let _ = write!(rest, "{ON_TIME_MARK} tid={tid} before={before}");
        if let Some(ring) = self.threads.get(late.thread) {
            let next = ring.next.load(Ordering::Relaxed);
            for i in 1..=KEPT.min(next) {
                let [intended, latency] = &ring.rows[(next - i) % KEPT];
                let intended = intended.load(Ordering::Relaxed);
                let (ns, latency) =
                    (before.saturating_sub(intended), latency.load(Ordering::Relaxed));
                // Two numbers of 64 bits and what is between them.
                if rest.len() < 44 {
                    break;
                }
                let _ = write!(rest, " {ns}:{latency}");
            }
        }
        let left = rest.len();
        TEXT - left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(thread: usize, intended_ns: u64, latency_ns: u64) -> LateWake {
        LateWake { thread, tid: 100, cycle: 1, intended_ns, latency_ns }
    }

    #[test]
    fn the_last_wake_ups_of_the_thread_are_written() {
        let kept = OnTime::new(2);
        kept.add(&wake(0, 1_000_000, 7_000));
        kept.add(&LateWake { tid: 101, ..wake(1, 1_500_000, 1) });
        assert_eq!(kept.threads().collect::<Vec<_>>(), [100, 101]);
        kept.add(&wake(0, 2_000_000, 8_000));
        let mut text = [0; TEXT];
        let used = kept.text(&wake(0, 3_000_000, 900_000), &mut text);
        let said = std::str::from_utf8(&text[..used]).unwrap();
        assert_eq!(said, "latlab on-time tid=100 before=3000000 1000000:8000 2000000:7000");
    }

    #[test]
    fn a_full_ring_stays_below_the_length_of_a_marker() {
        let kept = OnTime::new(1);
        (1..=500).for_each(|i| kept.add(&wake(0, i * 1_000_000_000, 999_999_999)));
        let mut text = [0; TEXT];
        let used = kept.text(&wake(0, 501_000_000_000, 5_000_000_000), &mut text);
        assert!(used <= TEXT && used > TEXT - 50, "{used}");
        let said = std::str::from_utf8(&text[..used]).unwrap();
        assert!(said.ends_with("000:999999999"), "{said}");
    }
}
