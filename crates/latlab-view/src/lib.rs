//! The trace viewer's server.

#![forbid(unsafe_code)]
