//! Memory hierarchy from the latency of dependent loads: caches, line, associativity, TLBs.
//!
//! ```text
//! Session ─plan─▶ Request ─LoadTimer─▶ ns ─observe─▶ Records ─▶ curves ─┬▶ plateau ▶ knee ▶ levels
//!                                                                      ├▶ line, associativity
//!                                                                      └▶ tlb
//! ```
//!
//! Planning, records and inference are plain data and pure functions; only a [`LoadTimer`](latlab_model::cache::LoadTimer) touches a machine, or a
//! simulator of one.
//!
//! Sources: R. H. Saavedra, A. J. Smith, IEEE ToC 44, 1995 (latency over size and stride); K. Yotov, K. Pingali,
//! P. Stodghill, SIGMETRICS 2005 (conflict sets); J. González-Domínguez et al., "Servet", IPDPS 2010 (random pages).

pub mod associativity;
pub mod findings;
pub mod import_lat_mem_rd;
pub mod knee;
pub mod level_off;
pub mod levels;
pub mod line;
pub mod loop_times;
pub mod miss_ratio;
mod observations;
pub mod part;
pub mod plateau;
pub mod record;
pub mod regime_map;
pub mod reported;
pub mod session;
pub mod stages;
pub mod stride_regimes;
pub mod switch_theory;
pub mod switching;
pub mod tlb;

pub use observations::Config;
pub use session::{Session, run};
