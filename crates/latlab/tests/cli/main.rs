//! The command line from outside, one module a command: one program, so that what latlab depends on
//! is linked once.

mod bench;
mod bench_disk;
mod bench_network;
#[cfg(feature = "host")]
mod check;
#[cfg(feature = "host")]
mod clock_steps;
mod common;
mod compare;
#[cfg(feature = "host")]
mod complete;
mod doctor;
#[cfg(feature = "host")]
mod export;
#[cfg(feature = "host")]
mod failing_disk;
#[cfg(feature = "host")]
mod fleet;
#[cfg(feature = "host")]
mod fleet_campaign;
#[cfg(feature = "host")]
mod fleet_lava;
#[cfg(feature = "host")]
mod fleet_s3;
#[cfg(feature = "host")]
mod fleet_slurm;
#[cfg(feature = "host")]
mod history;
#[cfg(feature = "host")]
mod image;
#[cfg(feature = "host")]
mod labgrid;
mod leftovers;
mod load;
mod memory;
mod menu;
mod noise;
#[cfg(feature = "host")]
mod output;
mod parity;
#[cfg(feature = "host")]
mod profile;
mod record;
mod report;
mod runs_v1;
mod sched;
mod schema;
#[cfg(feature = "host")]
mod screens;
mod signals;
#[cfg(feature = "host")]
mod ssh;
#[cfg(feature = "host")]
mod ssh_limits;
mod survey;
mod sweep;
#[cfg(feature = "host")]
mod tune;
#[cfg(feature = "host")]
mod tune_board;
#[cfg(feature = "host")]
mod tune_vm;
mod unprivileged;
#[cfg(feature = "view")]
mod view;
#[cfg(feature = "host")]
mod vm;
#[cfg(feature = "host")]
mod vm_build;
#[cfg(feature = "host")]
mod vm_count;
#[cfg(feature = "host")]
mod vm_kernel;
#[cfg(feature = "host")]
mod vm_ssh;
#[cfg(feature = "host")]
mod vm_twin;
#[cfg(feature = "host")]
mod vm_unavailable;
mod wakeup;
mod wakeup_mechanisms;
#[cfg(feature = "host")]
mod watch;
#[cfg(feature = "host")]
mod watch_spans;
#[cfg(feature = "host")]
mod watch_vm;
mod why;
mod why_spans;
mod why_stacks;
mod why_task;
#[cfg(feature = "host")]
mod why_vm;
#[cfg(feature = "host")]
mod worst;
