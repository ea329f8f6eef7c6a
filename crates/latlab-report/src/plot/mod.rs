//! What all drawings of a [`crate::doc::Plot`] have in common, and the drawings in SVG.
//!
//! The terminal, the SVG and the interactive drawing agree on limits and tick
//! labels because they all take them from [`scale`].

pub mod distribution;
mod draw;
pub mod heat;
pub mod palette;
#[cfg(feature = "png")]
pub mod png;
pub mod scale;
pub mod svg;
pub mod thin;
