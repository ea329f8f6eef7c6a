//! Statistics: one idea a file, each with its source.

pub mod quantile;
