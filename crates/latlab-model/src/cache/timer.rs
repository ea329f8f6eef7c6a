//! What times the loads that a measurement asks for.

use super::detail::Limitation;
use crate::cache::request::Request;
use crate::finding::{Note, Quantity};

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
    /// Regimes by size and stride.
    Regimes,
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
    /// The process runs on another CPU than the one that was chosen.
    #[error(
        "CPU {0} was taken from the measurement: it went offline, or another program changed the affinity"
    )]
    CpuLost(u32),
    /// A measurement needs huge pages and there are none.
    #[error("there are no huge pages")]
    NoHugePages,
    /// An array does not fit into its area.
    #[error("an array exceeds its area of memory")]
    OutOfArea,
}

impl TimerError {
    /// The limitation of what was measured until then; `None` for the end of the time, which [`Limitation::Incomplete`]
    /// states.
    pub fn limitation(&self) -> Option<Limitation> {
        let note = match self {
            Self::OutOfTime | Self::Stopped => return None,
            Self::CpuLost(cpu) => Note::new("cache.cpu-lost").value("cpu", Quantity::Cpu(*cpu)),
            Self::NoHugePages => Note::new("cache.no-huge-pages"),
            Self::OutOfArea => Note::new("cache.out-of-area"),
        };
        Some(Limitation::Note(note))
    }
}
