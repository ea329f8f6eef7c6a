//! Settings in force: a buffer of our own that is ready to trace.

use super::{RecordConfig, Result, buffer_kb};
use crate::tracefs::{Control, Freezer, Instance, RemovedInstance, Selection, Tracefs};

/// A buffer with everything set and tracing off. Dropping it removes the instance.
#[derive(Debug)]
pub struct Session {
    // Before the instance: it cannot be removed while a file of it is open.
    freezer: Freezer,
    instance: Instance,
    selections: Vec<Selection>,
    buffer_kb: u64,
    removed: Vec<RemovedInstance>,
}

impl Session {
    /// Makes an instance and applies the settings.
    ///
    /// # Errors
    /// The first setting that the kernel refuses.
    pub fn prepare(tracefs: &Tracefs, config: &RecordConfig) -> Result<Self> {
        let (instance, removed) = Instance::create(tracefs)?;
        let buffer_kb = buffer_kb(&instance, config);
        let selections = apply(&instance, config, buffer_kb)?;
        let freezer = instance.freezer()?;
        Ok(Self { freezer, instance, selections, buffer_kb, removed })
    }

    /// Its control files.
    pub fn control(&self) -> &Control {
        &self.instance
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
        self.freezer.is_on().unwrap_or(false)
    }
    /// Ends it; what was removed at its start.
    pub(super) fn finish(self) -> Vec<RemovedInstance> {
        self.removed
    }
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
