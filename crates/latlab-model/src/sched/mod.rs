//! Scheduling: the tasks of an experiment, the schedule that a trace shows, and what theory expects.

pub mod expectation;
pub mod experiment;
pub mod schedule;
