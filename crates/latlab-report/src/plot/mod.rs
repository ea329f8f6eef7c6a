//! What all drawings of a [`crate::doc::Plot`] have in common: scales, ticks, cells.
//!
//! The terminal, the SVG and the interactive drawing agree on limits and tick
//! labels because they all take them from here.

pub mod distribution;
pub mod heat;
pub mod scale;
