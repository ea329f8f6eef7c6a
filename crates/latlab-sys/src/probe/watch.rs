//! A trace of one CPU for as long as a batch lasts, in an instance of our own: the evidence of a
//! probe that asks the kernel instead of the clock.
//!
//! Preparing and reading take longer than a real-time task may run: both are done as an ordinary one.
//!
//! It needs the right to use tracefs; without it there is no such evidence, and the reason is said.

use super::ProbeError;
use crate::policy;
use crate::recorder::{EventSpec, FlightRecorder, Format, Kallsyms, RecordConfig};
use crate::tracefs::Tracefs;
use latlab_core::bench::kernel::{Event, Turn, What};
use latlab_trace::TraceFile;
use latlab_trace::events::{Decoder, Typed};
use latlab_trace::ring::Missed;
use latlab_trace::write::Compression;
use std::collections::BTreeSet;

/// Room for a batch of switches and calls with plenty to spare, KiB.
const BUFFER_KB: u64 = 2048;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Who gets the CPU.
    Switches,
    /// Who gets it, and the system calls of the pair.
    Calls,
    /// The function `schedule` of the pair, by the tracer `function_graph`.
    Graph,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Sight {
    /// Events of the CPU in order of time.
    pub events: Vec<Event>,
    /// Its switches, with names.
    pub turns: Vec<Turn>,
    /// Events that were lost.
    pub lost: u64,
}

/// A trace that is ready to be started.
pub struct Watch(FlightRecorder);

impl Watch {
    /// Prepares it for a CPU and, but for [`View::Switches`], a pair of tasks.
    ///
    /// # Errors
    /// Unavailable without tracefs, without the right to use it, or without the tracer.
    pub fn prepare(view: View, cpu: u32, pair: [i32; 2]) -> Result<Self, ProbeError> {
        let missing = |why: String| ProbeError::Unavailable(format!("no trace: {why}"));
        let found = Tracefs::find().map_err(|e| missing(e.to_string()))?;
        let events: &[&str] = match view {
            View::Switches => &["sched:sched_switch"],
            View::Calls => {
                &["sched:sched_switch", "raw_syscalls:sys_enter", "raw_syscalls:sys_exit"]
            }
            View::Graph => &[],
        };
        let mut config = RecordConfig {
            events: events.iter().map(|e| EventSpec::new(*e)).collect(),
            cpus: Some(BTreeSet::from([cpu])),
            buffer_kb: Some(BUFFER_KB),
            ..RecordConfig::default()
        };
        if view != View::Switches {
            config.pids = pair.iter().filter_map(|&p| u32::try_from(p).ok()).collect();
        }
        if view == View::Graph {
            config.tracer = Some("function_graph".into());
            config.graph_functions = vec!["schedule".into()];
            config.max_graph_depth = Some(1);
            // Time off the CPU is no time of the function.
            config.options = vec!["nosleep-time".into()];
        }
        let flight = ordinary(|| FlightRecorder::prepare(&found.tracefs, &config))?;
        flight.map(Self).map_err(|e| missing(e.to_string()))
    }

    /// Empties it and starts.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(&mut self) -> Result<(), ProbeError> {
        ordinary(|| self.0.rearm())?.map_err(|e| ProbeError::Failed(format!("tracing: {e}")))
    }

    /// Stops, and reads what it saw.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub fn stop(&mut self) -> Result<Sight, ProbeError> {
        ordinary(|| self.read())?
    }

    fn read(&mut self) -> Result<Sight, ProbeError> {
        let failed =
            |e: &dyn std::fmt::Display| ProbeError::Failed(format!("reading the trace: {e}"));
        let snapshot = self.0.snapshot().map_err(|e| failed(&e))?;
        let format = Format { v6: false, compression: Compression::None, kallsyms: Kallsyms::None };
        let bytes = snapshot.to_bytes(format).map_err(|e| failed(&e))?;
        let file = TraceFile::parse(&bytes).map_err(|e| failed(&e))?;
        Ok(sight(&file))
    }
}

fn ordinary<T>(work: impl FnOnce() -> T) -> Result<T, ProbeError> {
    policy::as_ordinary(work).map_err(|e| ProbeError::Failed(format!("sched_setattr: {e}")))
}

fn sight(file: &TraceFile<'_>) -> Sight {
    let decoder = Decoder::new(file);
    let mut sight = Sight::default();
    let mut events = file.events();
    while let Some(event) = events.next() {
        sight.lost += match event.missed {
            Missed::No => 0,
            Missed::Unknown => 1,
            Missed::Count(n) => n,
        };
        let tid = decoder.common(&event).pid;
        let what = match decoder.decode(&event) {
            Typed::SchedSwitch(s) => {
                sight.turns.push(Turn {
                    ns: event.time,
                    prev: s.prev_pid,
                    next: s.next_pid,
                    name: String::from_utf8_lossy(s.next_comm).into_owned(),
                });
                What::Switch { prev: s.prev_pid, next: s.next_pid }
            }
            Typed::SysEnter(_) => What::Enter,
            Typed::SysExit(_) => What::Exit,
            Typed::FuncgraphExit(f) => What::Function(f.rettime.saturating_sub(f.calltime)),
            _ => continue,
        };
        sight.events.push(Event { ns: event.time, tid, what });
    }
    sight
}
