//! A queue that is served by a loop which is interrupted: what rt-tests' `queuelat` simulates.
//!
//! Packets arrive at a constant rate; the loop serves one after the other, each for a constant time. During an
//! interruption the queue grows by length × rate, afterwards it shrinks by 1/service − rate. What is shorter than the
//! threshold of the measurement counts as service.

use latlab_model::noise::{CpuWindow, QueueModel};

/// The longest queue of one window, packets. The window begins with an empty queue.
pub fn longest(model: &QueueModel, window: &CpuWindow) -> f64 {
    let arrivals = model.per_second as f64 / 1e9;
    let drained = (1.0 / model.service_ns.max(1) as f64 - arrivals).max(0.0);
    let (mut queue, mut longest, mut at) = (0.0f64, 0.0f64, window.start_ns);
    for i in &window.listed {
        queue = (queue - i.start_ns.saturating_sub(at) as f64 * drained).max(0.0);
        queue += i.length_ns as f64 * arrivals;
        longest = longest.max(queue);
        at = i.start_ns.saturating_add(i.length_ns);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::noise::Interruption;

    /// Two interruptions of 100 µs at a million packets per second: 100 packets each, and what is left of the first.
    #[test]
    fn interruptions_in_succession_add_up() {
        let of = |distance_ns: u64| CpuWindow {
            listed: vec![
                Interruption { start_ns: 1_000_000, length_ns: 100_000 },
                Interruption { start_ns: 1_100_000 + distance_ns, length_ns: 100_000 },
            ],
            ..CpuWindow::default()
        };
        let model = QueueModel { per_second: 1_000_000, service_ns: 500, limit: None };
        // Served are two million packets per second: 100 packets are gone after 100 µs.
        assert!((longest(&model, &of(0)) - 200.0).abs() < 1e-6);
        assert!((longest(&model, &of(40_000)) - 160.0).abs() < 1e-6);
        assert!((longest(&model, &of(200_000)) - 100.0).abs() < 1e-6);
        assert_eq!(longest(&model, &CpuWindow::default()), 0.0);
    }
}
