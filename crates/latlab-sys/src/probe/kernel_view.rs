//! The context switch as the kernel itself saw it: `sched_yield` between two SCHED_FIFO tasks of one
//! CPU, timed by the kernel's own events, or by its tracer of functions.
//!
//! The clock of a program sees a whole turn; here the parts of it are told apart, and what recording
//! costs is measured beside every batch and taken off: an event, by the time from the entry to the
//! exit of a call that does next to nothing.

use super::watch::{View, Watch};
use super::yields::{Turns, Way};
use super::{ParamSpec, Probe, ProbeError, Setting, Spec};
use latlab_core::bench::kernel;
use latlab_core::stats::quantile::median;
use std::hint::black_box;

/// The probes of this file.
pub const SPECS: &[Spec] = &[Spec::new(
    "ctx.kernel",
    "one switch as the kernel's own events see it: sched_yield of one task to that of the next",
    "",
    kernel_view,
)
.with(&[ParamSpec {
    name: "part",
    what: "whole; choose (call to sched_switch), switch (from there to the other's return), or \
           graph (schedule() by function_graph)",
    default: &["whole"],
    full: &["whole", "choose", "switch", "graph"],
}])];

/// Calls that do next to nothing, for the price of an event.
const CALLS: usize = 200;
/// A batch has to fit into the buffer.
const BATCH_MAX: u64 = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Choose,
    Switch,
    Graph,
}

struct KernelView {
    // Before the pair: what is traced is gone before whom it traces.
    watch: Watch,
    turns: Turns,
    part: Part,
    pair: [i32; 2],
    seen: Option<(f64, f64)>,
}

fn kernel_view(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let part = match setting.text("part") {
        "whole" => Part::Whole,
        "choose" => Part::Choose,
        "switch" => Part::Switch,
        "graph" => Part::Graph,
        _ => return Err(setting.bad("part", "whole, choose, switch or graph")),
    };
    let turns = Turns::new(setting, Way::Yield)?;
    let pair = turns.pair();
    let view = if part == Part::Graph { View::Graph } else { View::Calls };
    let watch = Watch::prepare(view, turns.cpu(), pair)?;
    Ok(Box::new(KernelView { watch, turns, part, pair, seen: None }))
}

impl KernelView {
    /// ns a switch, and how much of that is recording.
    fn judge(&self, sight: &super::watch::Sight) -> Option<(f64, f64)> {
        let events = &sight.events;
        if self.part == Part::Graph {
            return Some((median(&kernel::functions(events, self.pair))?, 0.0));
        }
        let mut calls = kernel::calls(events, self.pair[0]);
        let event = median(&calls.split_off(calls.len().saturating_sub(CALLS)))?;
        let (ns, events_within): (fn(&kernel::Seen) -> u64, f64) = match self.part {
            Part::Choose => (|s| s.choose_ns, 1.0),
            Part::Switch => (|s| s.switch_ns, 1.0),
            _ => (|s| s.choose_ns + s.switch_ns, 2.0),
        };
        let switches = kernel::switches(events, self.pair);
        let values: Vec<f64> = switches.iter().map(|s| ns(s) as f64).collect();
        Some((median(&values)?, events_within * event))
    }
}

impl Probe for KernelView {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        self.turns.run(n)
    }

    fn before_batch(&mut self) -> Result<(), ProbeError> {
        // In this order: once the other task gives way and takes turns, an ordinary one does not run.
        self.watch.start()?;
        self.turns.before_batch()
    }

    fn after_batch(&mut self) -> Result<(), ProbeError> {
        self.turns.after_batch()?;
        for _ in 0..CALLS {
            // SAFETY: getppid(2) has no arguments and cannot fail.
            black_box(unsafe { libc::getppid() });
        }
        let sight = self.watch.stop()?;
        self.seen = self.judge(&sight);
        match self.seen {
            Some(_) => Ok(()),
            None => Err(ProbeError::Failed("the trace has no switch of the pair in it".into())),
        }
    }

    fn seen(&mut self) -> Option<(f64, f64)> {
        self.seen.take()
    }

    fn per_turn(&self) -> f64 {
        self.turns.per_turn()
    }

    fn peer_switches(&mut self) -> Option<u64> {
        self.turns.peer_switches()
    }

    fn switches_expected(&self) -> f64 {
        self.turns.switches_expected()
    }

    fn switches_must_match(&self) -> bool {
        true
    }

    fn is_fifo(&self) -> bool {
        true
    }

    fn batch_max(&self) -> Option<u64> {
        Some(BATCH_MAX)
    }

    fn notes(&self) -> Vec<String> {
        let note = match self.part {
            Part::Graph => {
                "schedule() by function_graph, less the time off the CPU; the tracer's own work \
                 between its two clock readings is in it"
            }
            _ => "by the kernel's own events; the price of recording them is taken off",
        };
        vec![note.into()]
    }
}
