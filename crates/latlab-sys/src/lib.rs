//! The only code that is `unsafe` and the only access to a kernel.
//!
//! **Invariants:** every `unsafe` block is one system call or one hardware
//! instruction with a `SAFETY` comment, and no raw pointer is in a public
//! signature; every setting of the kernel that is changed goes through the settings journal.

pub mod bounded_file;
pub mod cgroup;
pub mod clock;
pub mod doctor;
pub mod fifo;
pub mod files;
pub mod gaps;
pub mod harness;
pub mod init;
pub mod kernel_noise;
pub mod lease;
pub mod load;
pub mod machine;
pub mod memory;
pub mod mmap;
pub mod noise;
pub mod page_cache;
mod perf_ring;
pub mod platform_counters;
pub mod policy;
pub mod power;
pub mod probe;
pub mod process;
pub mod reclaim;
pub mod recorder;
pub mod schedload;
pub mod scratch;
pub mod service;
pub mod settings;
pub mod shared_lock;
pub mod signal;
pub mod size;
#[cfg(all(not(feature = "host"), target_feature = "crt-static", target_env = "gnu"))]
mod static_glibc;
pub mod sysv;
pub mod thread_counters;
pub mod ticks;
pub mod tracefs;
pub mod user_stacks;
pub mod wakeup;
pub mod worst;
