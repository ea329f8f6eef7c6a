//! The context switch as the kernel itself saw it: `sched_yield` between two SCHED_FIFO tasks of one
//! CPU, timed by the kernel's own events, or by its tracer of functions.
//!
//! The clock of a program sees a whole turn; here the parts of it are told apart, and what recording
//! costs is measured beside every batch and taken off: an event, by the time from the entry to the
//! exit of a call that does next to nothing; an event and a function that function_graph records, by
//! the time from the entry of that call to the end of its function.

use super::trace_capture::{TraceCapture, TraceKind};
use super::yields::{Turns, Way};
use super::{ParamSpec, Probe, ProbeError, Setting, Spec};
use latlab_model::bench::SwitchPart as Part;
use latlab_model::finding::Note;
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
    what: "whole; choose (call to sched_switch), switch (from there to the other's return); by \
           function_graph: graph (schedule()), context (context_switch())",
    default: &["whole"],
    full: &["whole", "choose", "switch", "graph", "context"],
}])];

/// Calls that do next to nothing, for the price of an event.
const CALLS: usize = 200;
/// A batch has to fit into the buffer.
const BATCH_MAX: u64 = 2_000;

struct KernelView {
    // Before the pair: what is traced is gone before whom it traces.
    trace: TraceCapture,
    turns: Turns,
    part: Part,
    pair: [i32; 2],
    seen: Option<(f64, f64)>,
    cost: super::SwitchCost,
}

fn kernel_view(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let part = match setting.text("part") {
        "whole" => Part::Whole,
        "choose" => Part::Choose,
        "switch" => Part::Switch,
        "graph" => Part::Graph,
        "context" => Part::Context,
        _ => return Err(setting.bad("part", "whole, choose, switch, graph or context")),
    };
    let turns = Turns::new(setting, Way::Yield)?;
    let pair = turns.pair();
    let view = match part {
        Part::Graph => TraceKind::Graph,
        Part::Context => TraceKind::Context,
        Part::Whole | Part::Choose | Part::Switch => TraceKind::Calls,
    };
    let trace = TraceCapture::prepare(view, turns.cpu(), pair)?;
    Ok(Box::new(KernelView {
        trace,
        turns,
        part,
        pair,
        seen: None,
        cost: setting.analysis.switch_cost,
    }))
}

impl Probe for KernelView {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        self.turns.run(n)
    }

    fn before_batch(&mut self) -> Result<(), ProbeError> {
        // In this order: once the other task gives way and takes turns, an ordinary one does not run.
        self.trace.start()?;
        self.turns.before_batch()
    }

    fn after_batch(&mut self) -> Result<(), ProbeError> {
        self.turns.after_batch()?;
        for _ in 0..CALLS {
            // SAFETY: getppid(2) has no arguments and cannot fail.
            black_box(unsafe { libc::getppid() });
        }
        let captured = self.trace.stop()?;
        self.seen = (self.cost)(&captured.events, self.pair, self.part, CALLS);
        match self.seen {
            Some(_) => Ok(()),
            None => Err(ProbeError::failed("probe.no-switch-in-trace")),
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

    fn notes(&self) -> Vec<Note> {
        vec![Note::new(match self.part {
            Part::Graph => "probe.function-graph",
            Part::Context => "probe.context-switch",
            _ => "probe.kernel-events",
        })]
    }
}
