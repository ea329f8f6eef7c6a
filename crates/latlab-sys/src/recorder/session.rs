//! Settings in force: a buffer of our own that is ready to trace.

use super::{RecordConfig, RecordError, Result};
use crate::settings::Restoration;
use crate::tracefs::{
    Control, Instance, RemovedInstance, Selection, TopLevel, TraceStopper, Tracefs, TracefsError,
};

/// A buffer with everything set and tracing off. Dropping it removes the instance, or puts back
/// what was changed at the top level.
#[derive(Debug)]
pub struct Session {
    // Before the buffer: an instance cannot be removed while a file of it is open.
    trace_stopper: TraceStopper,
    buffer: Buffer,
    selections: Vec<Selection>,
    buffer_kb: u64,
    removed: Vec<RemovedInstance>,
}

/// Where it traces.
#[derive(Debug)]
enum Buffer {
    Own(Instance),
    Top(TopLevel),
}

impl std::ops::Deref for Buffer {
    type Target = Control;
    fn deref(&self) -> &Control {
        match self {
            Self::Own(instance) => instance,
            Self::Top(top) => top,
        }
    }
}

impl Session {
    /// Makes an instance and applies the settings. Where the tracer works at the top level only,
    /// that is taken instead, each change journalled: see [`Session::is_top_level`].
    ///
    /// # Errors
    /// The first setting that the kernel refuses; [`TracefsError::TopLevelBusy`] when the top
    /// level is needed and somebody uses it.
    pub fn prepare(tracefs: &Tracefs, config: &RecordConfig) -> Result<Self> {
        let (instance, removed) = Instance::create(tracefs)?;
        let size = buffer_kb(&instance, config);
        match apply(&instance, config, size) {
            Ok(selections) => Self::ready(Buffer::Own(instance), selections, size, removed),
            Err(error) => match needs_top_level(&instance, config, &error) {
                Some(tracer) => {
                    drop(instance);
                    let top = TopLevel::take(tracefs, tracer)?;
                    let selections = apply(&top, config, size)?;
                    Self::ready(Buffer::Top(top), selections, size, removed)
                }
                None => Err(error),
            },
        }
    }

    fn ready(
        buffer: Buffer,
        selections: Vec<Selection>,
        buffer_kb: u64,
        removed: Vec<RemovedInstance>,
    ) -> Result<Self> {
        let trace_stopper = buffer.trace_stopper()?;
        Ok(Self { trace_stopper, buffer, selections, buffer_kb, removed })
    }

    /// Its control files.
    pub fn control(&self) -> &Control {
        &self.buffer
    }
    /// Whether it uses the kernel's one top-level buffer, which is everybody's. Say so.
    pub fn is_top_level(&self) -> bool {
        matches!(self.buffer, Buffer::Top(_))
    }
    /// What a killed latlab had left at the top level and was put back on the way.
    pub fn put_back(&self) -> &[Restoration] {
        match &self.buffer {
            Buffer::Own(_) => &[],
            Buffer::Top(top) => top.put_back(),
        }
    }
    /// What its events resolved to.
    pub fn selections(&self) -> &[Selection] {
        &self.selections
    }
    /// Size of each CPU's buffer in KiB, as asked for.
    pub fn buffer_kb(&self) -> u64 {
        self.buffer_kb
    }
    /// Instances of dead latlabs that were removed on the way.
    pub fn removed(&self) -> &[RemovedInstance] {
        &self.removed
    }
    /// Whether the buffer is being written to.
    pub fn is_on(&self) -> bool {
        self.trace_stopper.is_on().unwrap_or(false)
    }
    /// Ends it; what was removed at its start.
    pub(super) fn finish(self) -> Vec<RemovedInstance> {
        self.removed
    }
}

/// The tracer, when what an instance refused works at the top level: the tracer itself, one of its
/// options, or a filter that only the top level has.
fn needs_top_level<'a>(
    instance: &Instance,
    config: &'a RecordConfig,
    error: &RecordError,
) -> Option<&'a str> {
    let tracer = config.tracer.as_deref()?;
    let missing = |used: bool, file: &str| {
        let (ours, top) = (instance.dir().join(file), instance.tracefs().root().join(file));
        used && !ours.exists() && top.exists()
    };
    let only = |e: &TracefsError| matches!(e, TracefsError::TopLevelOnly { .. });
    let refused = match error {
        RecordError::Tracefs(e) => only(e) || instance.set_tracer(tracer).is_err_and(|e| only(&e)),
        _ => false,
    };
    let top = refused
        || missing(!config.graph_functions.is_empty(), "set_graph_function")
        || missing(config.max_graph_depth.is_some(), "max_graph_depth");
    top.then_some(tracer)
}

/// Applies all settings but the switch itself. Order matters: sizes and clock empty the buffer,
/// filters come before the events that they restrain, the tracer last.
fn apply(control: &Control, config: &RecordConfig, buffer_kb: u64) -> Result<Vec<Selection>> {
    if let Some(clock) = &config.clock {
        control.set_clock(clock)?;
    }
    // Unknown names first: they are the user's most frequent mistake, and cheap to find.
    let mut chosen = Vec::new();
    if !config.events.is_empty() {
        let events = control.tracefs().events()?;
        for spec in &config.events {
            chosen.push((spec, crate::tracefs::select(&spec.pattern, &events)?));
        }
    }
    if let Some(tracer) = &config.tracer
        && !control.tracefs().tracers()?.contains(tracer)
    {
        // Refused, before an option that only this tracer has is.
        control.set_tracer(tracer)?;
    }
    control.set_buffer_kb(buffer_kb)?;
    if let Some(cpus) = &config.cpus {
        control.set_cpus(cpus)?;
    }
    for option in &config.options {
        control.set_option(option)?;
    }
    if config.stack {
        control.set_option("stacktrace")?;
    }
    if !config.pids.is_empty() {
        control.set_pids(&config.pids, config.follow_children)?;
    }
    control.add_functions("set_ftrace_filter", &config.functions)?;
    control.add_functions("set_ftrace_notrace", &config.notrace_functions)?;
    control.add_functions("set_graph_function", &config.graph_functions)?;
    if let Some(depth) = config.max_graph_depth {
        control.set("max_graph_depth", &depth.to_string())?;
    }
    let mut selections = Vec::new();
    for (spec, found) in chosen {
        for selection in found {
            if let Some(filter) = &spec.filter {
                control.set_filter(&selection, filter)?;
            }
            for trigger in &spec.triggers {
                control.add_trigger(&selection, trigger)?;
            }
            control.enable(&selection)?;
            selections.push(selection);
        }
    }
    if let Some(tracer) = &config.tracer {
        control.set_tracer(tracer)?;
    }
    Ok(selections)
}

/// Size of each CPU's buffer in KiB: as asked for, or what suits the memory that is free.
fn buffer_kb(control: &Control, config: &RecordConfig) -> u64 {
    let cpus = control.cpus().map_or(1, |c| c.len().max(1)) as u64;
    if let Some(kb) = config.buffer_kb {
        return kb;
    }
    if let Some(total) = config.buffer_total_kb {
        return (total / cpus).max(1);
    }
    let available = crate::machine::condition().available_bytes.unwrap_or(256 << 20);
    // A sixteenth of what is free, for all CPUs together; from the kernel's own default up to
    // what a CPU fills in a good half second of saturating load.
    ((available / 16 / cpus) >> 10).clamp(1408, 32 << 10)
}
