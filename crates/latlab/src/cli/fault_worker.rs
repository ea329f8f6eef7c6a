//! `latlab fault-worker`: a process that makes a machine late on purpose. Hidden.

use clap::{Args, ValueEnum};

/// A process that makes a machine late on purpose; runs until it is killed.
#[derive(Debug, Args)]
pub struct FaultArgs {
    /// Which way.
    pub kind: FaultKind,
    /// How long each stroke lasts, ns.
    #[arg(long)]
    pub ns: u64,
    /// From stroke to stroke, ns.
    #[arg(long)]
    pub every_ns: u64,
    /// Where.
    #[arg(long, default_value_t = 0)]
    pub cpu: u32,
    /// SCHED_FIFO priority of `fifo` and `throttle`.
    #[arg(long, default_value_t = 95)]
    pub priority: u32,
    /// Share of the period by which each is longer or shorter, percent.
    #[arg(long, default_value_t = 0)]
    pub jitter: u32,
    /// Start of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u32,
}

/// The ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultKind {
    /// A SCHED_FIFO task that computes.
    Fifo,
    /// A task of low priority that holds a plain lock is kept from the CPU by one of middle priority.
    Inversion,
    /// The same with priority inheritance, for a critical section of that size.
    InversionPi,
    /// A SCHED_FIFO task that computes until the kernel throttles all real-time tasks.
    Throttle,
    /// Takes pages of other processes away, to a swap disk that is slow.
    PageFault,
    /// Allocates, touches and frees memory.
    Memory,
    /// Fragments memory and has the kernel compact it.
    Compaction,
    /// Threads that map and unmap memory, so that CPUs have to tell each other.
    Tlb,
}
