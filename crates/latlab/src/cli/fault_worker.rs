//! `latlab fault-worker`: a process that injects latency. Hidden.
//!
//! Ordinary comments: documentation comments become help texts in the program; those of hidden options are
//! never shown, and the board build is limited in size.

use clap::{Args, ValueEnum};

// Inject latency until killed.
#[derive(Debug, Args)]
pub struct FaultArgs {
    // Kind of fault.
    pub kind: FaultKind,
    // Duration of each activation, ns.
    #[arg(long)]
    pub ns: u64,
    // Period of activations, ns.
    #[arg(long)]
    pub every_ns: u64,
    // CPU.
    #[arg(long, default_value_t = 0)]
    pub cpu: u32,
    // SCHED_FIFO priority of `fifo` and `throttle`.
    #[arg(long, default_value_t = 95)]
    pub priority: u32,
    // Random variation of the period, per cent.
    #[arg(long, default_value_t = 0)]
    pub jitter: u32,
    // Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u32,
}

// Kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultKind {
    // A SCHED_FIFO task that computes.
    Fifo,
    // A task of low priority that holds a plain lock is kept from the CPU by one of middle priority.
    Inversion,
    // The same with priority inheritance, for a critical section of that size.
    InversionPi,
    // A SCHED_FIFO task that sleeps while it holds a plain lock.
    Lock,
    // A SCHED_FIFO task that computes until the kernel throttles all real-time tasks.
    Throttle,
    // Swaps out pages of other processes to a slow disk.
    PageFault,
    // Allocates, touches and frees memory.
    Memory,
    // Fragments memory and has the kernel compact it.
    Compaction,
    // Threads that map and unmap memory, so that CPUs flush each other's TLB.
    Tlb,
}
