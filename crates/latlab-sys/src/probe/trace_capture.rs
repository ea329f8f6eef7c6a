//! A trace of one CPU for as long as a batch lasts, in an instance of our own: the evidence of a
//! probe that asks the kernel instead of the clock.
//!
//! Preparing and reading take longer than a real-time task may run: both are done as an ordinary one.
//!
//! It needs the right to use tracefs; without it there is no such evidence, and the reason is said.

use super::{Calling, ProbeError};
use crate::policy;
use crate::recorder::{EventSpec, FlightRecorder, Format, Kallsyms, RecordConfig};
use crate::tracefs::Tracefs;
use latlab_model::event::{Event, EventKind, Names};
use latlab_model::finding::Note;
use latlab_trace::decode::{EventDecoder, Groups, scan};
use latlab_trace::write::Compression;
use latlab_trace::{Select, TraceFile};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Room for a batch of switches and calls with plenty to spare, KiB.
const BUFFER_KB: u64 = 2048;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// Who gets the CPU.
    Switches,
    /// Who gets it, and the system calls of the pair.
    Calls,
    /// The function `schedule` of the pair, by the tracer `function_graph`.
    Graph,
    /// Who gets it, system calls, and by function_graph `finish_task_switch` and `getppid`, of all tasks.
    Context,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct CapturedTrace {
    /// Switches, system calls and ends of functions on the CPU, in order of time.
    pub events: Vec<Event>,
    /// Names of its tasks.
    pub names: Names,
    /// Events that were lost.
    pub lost: u64,
}

/// A trace that is ready to be started.
pub struct TraceCapture(FlightRecorder);

impl TraceCapture {
    /// Prepares it for a CPU and, with [`TraceKind::Calls`] and [`TraceKind::Graph`], a pair of tasks.
    ///
    /// # Errors
    /// Unavailable without tracefs, without the right to use it, or without the tracer.
    pub fn prepare(kind: TraceKind, cpu: u32, pair: [i32; 2]) -> Result<Self, ProbeError> {
        let missing = |error: String| {
            ProbeError::Unavailable(Note::new("probe.no-trace").value("error", error))
        };
        let found = Tracefs::find().map_err(|e| missing(e.to_string()))?;
        let events: &[&str] = match kind {
            TraceKind::Switches => &["sched:sched_switch"],
            TraceKind::Calls => {
                &["sched:sched_switch", "raw_syscalls:sys_enter", "raw_syscalls:sys_exit"]
            }
            TraceKind::Graph => &[],
            TraceKind::Context => &["sched:sched_switch", "raw_syscalls:sys_enter"],
        };
        let mut config = RecordConfig {
            events: events.iter().map(|e| EventSpec::new(*e)).collect(),
            cpus: Some(BTreeSet::from([cpu])),
            buffer_kb: Some(BUFFER_KB),
            ..RecordConfig::default()
        };
        // The filter by task has probes of its own at each switch.
        if matches!(kind, TraceKind::Calls | TraceKind::Graph) {
            config.pids = pair.iter().filter_map(|&p| u32::try_from(p).ok()).collect();
        }
        if kind == TraceKind::Graph {
            config.tracer = Some("function_graph".into());
            config.graph_functions = vec!["schedule".into()];
            config.max_graph_depth = Some(1);
            // Time off the CPU is no time of the function.
            config.options = vec!["nosleep-time".into()];
        }
        if kind == TraceKind::Context {
            config.tracer = Some("function_graph".into());
            // Compilers append a suffix; each architecture has a prefix.
            config.functions = vec!["finish_task_switch*".into(), "*sys_getppid".into()];
        }
        let flight = ordinary(|| FlightRecorder::prepare(&found.tracefs, &config))?;
        flight.map(Self).map_err(|e| missing(e.to_string()))
    }

    /// Empties it and starts.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(&mut self) -> Result<(), ProbeError> {
        ordinary(|| self.0.rearm())?.map_err(|e| tracing_failed(&e))
    }

    /// Stops, and reads what it saw.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub fn stop(&mut self) -> Result<CapturedTrace, ProbeError> {
        ordinary(|| self.read())?
    }

    fn read(&mut self) -> Result<CapturedTrace, ProbeError> {
        let snapshot = self.0.snapshot().map_err(|e| tracing_failed(&e))?;
        let format = Format { v6: false, compression: Compression::None, kallsyms: Kallsyms::None };
        let bytes = snapshot.to_bytes(format).map_err(|e| tracing_failed(&e))?;
        let file = TraceFile::parse(&bytes).map_err(|e| tracing_failed(&e))?;
        Ok(captured(&file))
    }
}

fn tracing_failed(error: &dyn std::fmt::Display) -> ProbeError {
    ProbeError::Failed(Note::new("probe.tracing-failed").value("error", error.to_string()))
}

fn ordinary<T>(work: impl FnOnce() -> T) -> Result<T, ProbeError> {
    policy::as_ordinary(work).calling("sched_setattr")
}

fn captured(file: &TraceFile<'_>) -> CapturedTrace {
    let groups = Groups::SWITCH | Groups::SYSCALL | Groups::FUNCTION;
    let mut decoder = EventDecoder::new(file, groups);
    let mut captured = CapturedTrace::default();
    scan(file, &Select::default(), 1, &mut decoder, |event, _| {
        match event.kind {
            EventKind::Lost { count } => captured.lost += count.unwrap_or(1),
            EventKind::Switch { .. }
            | EventKind::SyscallEnter { .. }
            | EventKind::SyscallExit { .. }
            | EventKind::FunctionExit { .. } => captured.events.push(*event),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    captured.names = decoder.into_names();
    captured
}
