//! From plain data to text, JSON, HTML and SVG, into any `impl Write`.
//!
//! ```text
//! Run, findings ──sections/*──▶ doc::Doc ──text, html, svg, png──▶ impl Write
//! ```
//!
//! **Invariant:** this crate is pure; it never opens the file that it writes to.

#![forbid(unsafe_code)]

pub mod dialect;
pub mod doc;
pub mod html;
pub mod json;
#[cfg(feature = "host")]
pub mod junit;
pub mod markdown;
pub mod messages;
pub mod plot;
pub mod sections;
pub mod text;
pub mod values;
pub mod watch;
