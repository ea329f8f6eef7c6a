//! The data model: what is measured, saved and sent. Units, kernel events, the run and its
//! parts, findings, the machine. No algorithms: what computes with these types is in
//! `latlab-analysis`.

#![forbid(unsafe_code)]

pub mod bench;
pub mod cache;
pub mod check;
pub mod compare;
pub mod control;
pub mod cpulist;
pub mod csv;
pub mod doctor;
pub mod event;
pub mod finding;
pub mod fleet;
pub mod history;
pub mod kconfig;
pub mod lake;
pub mod latency;
pub mod machine;

pub mod noise;
pub mod osnoise;
pub mod path;
pub mod profile;
pub mod record;
pub mod reference;
pub mod run;
pub mod samples;
pub mod sched;
pub mod sweep;
pub mod timer;
pub mod trace_layout;
pub mod trace_stat;
pub mod tune;
pub mod twin;
pub mod units;
pub mod wakeup;
pub mod watch;
pub mod worst;
