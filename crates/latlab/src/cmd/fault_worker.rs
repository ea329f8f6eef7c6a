//! `latlab fault-worker`: the faults of user space, for the virtual lab.

use crate::cli::fault_worker::{FaultArgs, FaultKind};
use crate::outcome::Outcome;
use anyhow::Context;
use latlab_core::units::CpuId;
use latlab_core::wakeup::Policy;
use latlab_sys::{policy, signal};
use std::time::{Duration, Instant};

/// What one stroke of `memory` and `tlb` allocates at a time; large enough to be mapped and unmapped.
const PIECE: usize = 4 << 20;

/// Strikes until it is asked to stop.
pub fn run(args: &FaultArgs) -> anyhow::Result<Outcome> {
    let size = Duration::from_nanos(args.ns);
    let every = Duration::from_nanos(args.every_ns);
    match args.kind {
        FaultKind::Fifo => {
            policy::bind(&[CpuId(args.cpu)]).context("binding to a CPU")?;
            let budget = policy::Budget::default();
            policy::set(Policy::Fifo, args.priority, budget).context("SCHED_FIFO")?;
            strike(size, every, &mut || {});
        }
        FaultKind::Memory => {
            policy::bind(&[CpuId(args.cpu)]).context("binding to a CPU")?;
            strike(size, every, &mut touch);
        }
        FaultKind::Tlb => std::thread::scope(|scope| {
            for _ in policy::online().unwrap_or_default() {
                scope.spawn(|| strike(size, every, &mut touch));
            }
        }),
    }
    Ok(Outcome::Done)
}

fn strike(size: Duration, every: Duration, body: &mut dyn FnMut()) {
    let mut next = Instant::now();
    while signal::stop_requested().is_none() {
        next += every;
        let now = Instant::now();
        if now < next {
            std::thread::sleep(next - now);
        }
        let start = Instant::now();
        while start.elapsed() < size {
            body();
        }
    }
}

/// Every page of a fresh piece is written once, then all is given back.
fn touch() {
    let mut piece: Vec<u8> = Vec::with_capacity(PIECE);
    piece.resize(PIECE, 1);
    std::hint::black_box(&piece);
}
