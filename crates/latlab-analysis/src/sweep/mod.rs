//! Which load, of which size, hurts, and where is the knee?
//!
//! ```text
//! axes ─▶ plan (random order, anchors) ─▶ points ─▶ knees, main effects, what the modes say ─▶ findings
//!             ▲                              │
//!             └── refinement round knees ────┘
//! ```
//!
//! A *point* is one setting of every axis and the wake-up latencies measured under that load. An
//! *anchor* is a point without load, repeated all along, so that drift of the machine shows. The
//! *response* is the logarithm of a tail quantile: factors, not differences, are what loads do.

pub mod analyse;
pub mod effects;
pub mod knee;
pub mod surface;

#[cfg(test)]
mod tests;
