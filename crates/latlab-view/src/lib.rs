//! The trace viewer: an index of a trace, tiles of its lanes, and a server for one browser page.
//!
//! ```text
//! TraceFile ─index─▶ columns ─tile─▶ items or densities ─api─▶ page (viewer/trace)
//!     └──────────── rows, select, latency, late, event, flame ────────────┘
//! ```
//!
//! [`api::answer`] is a pure function from a request to a reply; [`server`] and
//! `http` are the only code that touches the network, and binds 127.0.0.1 alone. The page
//! and its script are part of the binary; nothing is served from the disk.

#![forbid(unsafe_code)]

pub mod api;
mod assets;
pub mod critical_path;
pub mod event;
pub mod export;
pub mod flame;
mod http;
pub mod index;
pub mod late;
pub mod latency;
pub mod rows;
pub mod select;
mod selection;
pub mod server;
pub mod tile;
pub mod view;

pub use view::{Input, View};
