//! What times the loads that a measurement asks for.

use crate::cache::request::Request;

/// A stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Whether huge pages are splintered.
    Splintering,
    /// Latency over size, evenly.
    Coarse,
    /// Line size.
    Line,
    /// Latency over size again, when lines are longer than 64 bytes.
    CoarseLine,
    /// Associativity of the first level and, with huge pages, of further ones.
    Associativity,
    /// TLBs.
    Translation,
    /// Points in the knees.
    Knees,
    /// Disturbed and all small points once more.
    Again,
    /// Memory-level parallelism.
    Parallelism,
    /// Other orders, for comparison.
    Compared,
}

/// What times the loads: a machine or a simulator.
pub trait LoadTimer {
    /// Time of one load of the request's cycles, ns: warmed up, the shortest of several batches. `None` where chains
    /// cannot run at once.
    ///
    /// # Errors
    /// When the time is over, a signal came, or the machine refuses.
    fn time(&mut self, request: &Request, stage: Stage) -> Result<Option<f64>, TimerError>;
}

/// Why there is no time of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimerError {
    /// The time limit is reached.
    #[error("the time limit is reached")]
    OutOfTime,
    /// A signal asked to stop.
    #[error("stopped by a signal")]
    Stopped,
    /// The machine refuses.
    #[error("{0}")]
    Machine(String),
}
