//! What a host and a board or virtual machine say to each other: frames over a byte stream
//! ([`frame`]), the same as lines of the kernel's log ([`log_lines`]), a run as lines of any log
//! ([`run_lines`]), and the order in which kernel modules are loaded ([`modules`]).

#![forbid(unsafe_code)]

mod base64;
pub mod frame;
pub mod log_lines;
pub mod modules;
pub mod run_lines;
