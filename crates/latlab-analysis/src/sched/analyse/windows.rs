//! Fairness in windows of time: what each task got of what was due to it.

use super::Analyzer;
use crate::sched::fair::jain;
use latlab_model::sched::schedule::FairWindow;
use latlab_model::units::{Nanos, TraceNs};

/// Windows of fairness at most.
const WINDOWS_MAX: usize = 10_000;

impl Analyzer {
    /// Ends every window of fairness that is over at `time`.
    pub(super) fn roll(&mut self, time: TraceNs) {
        let length = self.options.window_ns.max(1_000_000);
        while time.since(self.window_start).0 >= length {
            let end = self.window_start + Nanos(length);
            if self.windows.len() < WINDOWS_MAX {
                self.end_window(end);
            }
            // Over a long silence nothing changes: one window stands for it.
            let silent = time.since(end).0 / length;
            let skip = if self.windows.len() >= WINDOWS_MAX || silent > 1000 { silent } else { 0 };
            self.window_start = end + Nanos(skip.saturating_mul(length));
        }
    }

    pub(in crate::sched) fn end_window(&mut self, end: TraceNs) {
        for c in 0..self.cpus.len() {
            self.account(c, end);
        }
        let mut shares = Vec::new();
        let listed = std::mem::take(&mut self.listed);
        for i in listed {
            let c = self.queue(self.tasks[i].cpu);
            let clock = self.cpus[c].clock;
            let fair = &mut self.tasks[i].account.fair;
            fair.settle(&clock);
            let ideal = fair.ideal - fair.ideal_then;
            let actual = fair.actual.saturating_sub(fair.actual_then) as f64;
            (fair.ideal_then, fair.actual_then) = (fair.ideal, fair.actual);
            fair.listed = fair.joined.is_some();
            if fair.listed {
                self.listed.push(i);
            }
            if ideal * 100.0 >= self.options.window_ns as f64 {
                shares.push(actual / ideal);
            }
        }
        let at_ns = self.window_start.since(self.first()).0;
        let tasks = shares.len() as u32;
        if let Some(jain) = jain(shares).filter(|_| tasks > 1) {
            self.windows.push(FairWindow { at_ns, jain, tasks });
        }
    }
}
