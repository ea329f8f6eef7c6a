//! Caches and TLBs: requests for measurements, curves, levels, and what the machine reports.

pub mod detail;
mod loop_addresses;
pub mod loops;
pub mod regime_map;
pub mod reported;
pub mod request;
pub mod timer;

pub use detail::{
    AccessPattern, CacheDetail, Curve, CurvePoint, Grade, Level, Limitation, LineSize, Pages,
    Parallelism, Regimes, StridePoint, SwitchKnee, SwitchPlateau, SwitchPoint, SwitchTheory,
    TlbLevel,
};
pub use reported::{Agreement, Comparison, Quantity, Reported, ReportedCache, ReportedTlb};
pub use request::{Limits, Request, Work};
pub use timer::{LoadTimer, Stage, TimerError};
