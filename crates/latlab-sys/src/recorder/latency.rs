//! Latency tracers: the kernel keeps the trace of the longest latency so far.
//!
//! `wakeup`, `wakeup_rt`, `wakeup_dl`, `irqsoff`, `preemptoff` and `preemptirqsoff` copy the buffer at each new
//! maximum (Documentation/trace/ftrace.rst). While such a tracer is set the copy can be read as text only.

use super::{RecordConfig, Result, Session};
use crate::tracefs::Tracefs;

/// The tracers that keep a maximum.
pub const LATENCY_TRACERS: [&str; 6] =
    ["irqsoff", "preemptoff", "preemptirqsoff", "wakeup", "wakeup_rt", "wakeup_dl"];

const MAXIMUM: &str = "tracing_max_latency";
/// A longer latency than any, µs: an hour.
const FROZEN_US: &str = "3600000000";

/// A running latency tracer.
#[derive(Debug)]
pub struct LatencyRecorder {
    session: Session,
    threshold_us: u64,
}

/// The longest latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Longest {
    /// Its length, µs.
    pub us: u64,
    /// Its trace, as the kernel prints it.
    pub text: String,
}

impl LatencyRecorder {
    /// Prepares the tracer of `config`, which keeps latencies of more than `threshold_us` only.
    ///
    /// # Errors
    /// As [`Session::prepare`]; a kernel without the tracer.
    pub fn prepare(tracefs: &Tracefs, config: &RecordConfig, threshold_us: u64) -> Result<Self> {
        let session = Session::prepare(tracefs, config)?;
        // The tracer has set it to 0.
        session.control().set(MAXIMUM, &threshold_us.to_string())?;
        Ok(Self { session, threshold_us })
    }

    /// Begins.
    ///
    /// # Errors
    /// When `tracing_on` cannot be written.
    pub fn begin(&self) -> Result<()> {
        let control = self.session.control();
        control.set_tracing(true)?;
        // What the tracer measured before is forgotten: it measures while nothing is recorded, too.
        Ok(control.set(MAXIMUM, &self.threshold_us.to_string())?)
    }

    /// The buffer that it uses.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The longest latency so far, µs; `None` where there was none over the threshold.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn longest_us(&self) -> Result<Option<u64>> {
        let us = self.session.control().get(MAXIMUM)?.trim().parse().unwrap_or(0);
        Ok((us > self.threshold_us).then_some(us))
    }

    /// Ends it: the longest latency with its trace.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn finish(self) -> Result<Option<Longest>> {
        let longest = self.longest_us()?;
        // Nothing takes its place while nothing is recorded: its trace would be empty.
        self.session.control().set(MAXIMUM, FROZEN_US)?;
        self.session.control().set_tracing(false)?;
        let Some(us) = longest else { return Ok(None) };
        Ok(Some(Longest { us, text: self.session.control().get("trace")? }))
    }
}
