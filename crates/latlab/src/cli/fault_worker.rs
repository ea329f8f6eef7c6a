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
    #[arg(long)]
    pub cpu: u32,
    /// SCHED_FIFO priority of `fifo`.
    #[arg(long)]
    pub priority: u32,
}

/// The ways.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FaultKind {
    /// A SCHED_FIFO task that computes.
    Fifo,
    /// Allocates, touches and frees memory.
    Memory,
    /// Threads that map and unmap memory, so that CPUs have to tell each other.
    Tlb,
}
