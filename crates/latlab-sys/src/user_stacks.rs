//! User stacks of other threads, each time that one leaves its CPU, by perf_event_open(2).
//!
//! A sample has the user registers and the innermost [`STACK`] bytes of the stack (`PERF_SAMPLE_REGS_USER`,
//! `PERF_SAMPLE_STACK_USER`), copied by the kernel in `perf_event_task_sched_out()`, behind the event
//! `sched_switch`. Its time is that of CLOCK_MONOTONIC, as that of the clock `mono` of traces. Nothing of the program
//! is changed, and no symbol is needed; return addresses are found afterwards.

use crate::perf_ring::{Attr, Followed, Ring, SAMPLE_TIME, SOFTWARE, open, samples, word};
use latlab_model::units::Tid;
use std::io;
use std::os::fd::OwnedFd;

/// Bytes of a stack that are copied.
pub const STACK: u32 = 8 * 1024;
/// Bytes of the ring of a thread: 500 stacks, those of the time in which an interval is analysed.
const RING: usize = 4 << 20;

const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;
/// Type and number of the kernel's counter of context switches.
const CONTEXT_SWITCHES: (u32, u64) = (SOFTWARE, 3);
/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

/// Numbers of the registers that are sampled, rising, as a sample has them; `uapi/asm/perf_regs.h`.
#[cfg(target_arch = "x86_64")]
const REGISTERS: [u32; 3] = [6, 7, 8];
#[cfg(target_arch = "aarch64")]
const REGISTERS: [u32; 4] = [29, 30, 31, 32];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const REGISTERS: [u32; 0] = [];

/// The user registers from which a stack is unwound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Program counter.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Link register; 0 where the processor has none.
    pub lr: u64,
}

/// A thread that left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// When, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Its registers in user mode.
    pub registers: Registers,
    /// Memory from the stack pointer on.
    pub stack: &'a [u8],
}

fn sample(body: &[u8]) -> Option<Sample<'_>> {
    // Time; ABI, registers where there is one; size, memory, and how much of it was copied.
    if word(body, 1)? != ABI_64 {
        return None;
    }
    let at = |k: usize| word(body, 2 + k);
    let registers = match REGISTERS.len() {
        3 => Registers { fp: at(0)?, sp: at(1)?, ip: at(2)?, lr: 0 },
        4 => Registers { fp: at(0)?, lr: at(1)?, sp: at(2)?, ip: at(3)? },
        _ => return None,
    };
    let first = 2 + REGISTERS.len();
    let size = usize::try_from(word(body, first)?).ok()?;
    let memory = body.get(8 * first + 8..)?;
    let copied = match size {
        0 => 0,
        _ => word(memory.get(size..)?, 0)?,
    };
    let stack = memory.get(..size.min(usize::try_from(copied).ok()?))?;
    Some(Sample { at_ns: word(body, 0)?, registers, stack })
}

/// The samples of one thread.
struct Sampled {
    ring: Ring,
    _event: OwnedFd,
}

impl Sampled {
    fn open(tid: Tid) -> io::Result<Self> {
        if REGISTERS.is_empty() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (kind, config) = CONTEXT_SWITCHES;
        let attr = Attr {
            kind,
            config,
            sample_period: 1,
            sample_type: SAMPLE_TIME | SAMPLE_REGS_USER | SAMPLE_STACK_USER,
            sample_regs_user: REGISTERS.iter().map(|r| 1 << r).sum(),
            sample_stack_user: STACK,
            ..Attr::default()
        };
        let event = open(attr, tid, None)?;
        Ok(Self { ring: Ring::map(&event, RING)?, _event: event })
    }
}

/// The user stacks of threads.
#[derive(Default)]
pub struct UserStacks {
    followed: Followed<Sampled>,
    bytes: Vec<u8>,
}

impl UserStacks {
    /// Begins to sample these threads, 32 at most, and ends to sample others. One that cannot be sampled is left out:
    /// [`Self::error`].
    pub fn follow(&mut self, tids: &[Tid]) {
        self.followed.follow(tids, Sampled::open);
    }

    /// Why a thread could not be sampled, where that is so for each of them.
    pub fn error(&self) -> Option<&io::Error> {
        self.followed.error()
    }

    /// Takes the samples out of the kernel's rings, thread by thread, each in order of time. A ring holds some 500; what
    /// comes when it is full is lost.
    pub fn take(&mut self, mut each: impl FnMut(Tid, Sample<'_>)) {
        for (tid, sampled) in &self.followed.threads {
            sampled.ring.take(&mut self.bytes);
            for found in samples(&self.bytes).filter_map(sample) {
                each(*tid, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Of the kernel that runs: a mark on the stack of a sleeping thread is in the copy, where it lies in memory.
    #[test]
    fn the_stack_of_a_thread_that_sleeps_is_copied() {
        let (told, tid) = std::sync::mpsc::channel();
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            let mark = std::hint::black_box([0x1234_5678_9abc_def0_u64; 4]);
            let at = std::ptr::from_ref(std::hint::black_box(&mark)).addr() as u64;
            let _ = told.send((Tid(rustix::thread::gettid().as_raw_nonzero().get()), at));
            let _ = begun.recv();
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(2));
            }
            std::hint::black_box(mark[0])
        });
        let (tid, at) = tid.recv().unwrap();
        let mut stacks = UserStacks::default();
        stacks.follow(&[tid]);
        assert!(stacks.error().is_none(), "{:?}", stacks.error());
        begin.send(()).unwrap();
        worker.join().unwrap();
        let (mut times, mut marked) = (Vec::new(), 0);
        stacks.take(|of, sample| {
            assert_eq!(of, tid);
            assert!(sample.registers.ip != 0 && sample.registers.sp % 8 == 0, "{sample:?}");
            let offset = at.wrapping_sub(sample.registers.sp) as usize;
            let mark = sample.stack.get(offset..offset.saturating_add(8));
            marked += usize::from(mark == Some(&0x1234_5678_9abc_def0_u64.to_ne_bytes()));
            times.push(sample.at_ns);
        });
        assert!(times.len() >= 3 && times.is_sorted(), "{times:?}");
        assert!(marked >= 3, "{marked} of {}", times.len());
        stacks.take(|_, sample| panic!("twice: {sample:?}"));
    }

    #[test]
    fn a_sample_that_is_cut_off_or_of_32_bit_code_is_passed_over() {
        let words = |all: &[u64]| all.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        let registers = vec![1; REGISTERS.len()];
        let whole = words(&[&[7, ABI_64][..], &registers, &[16, 5, 6, 8]].concat());
        let found = sample(&whole).unwrap();
        assert_eq!((found.at_ns, found.stack.len()), (7, 8), "the kernel copied 8 of 16 bytes");
        assert!((0..whole.len()).all(|end| sample(&whole[..end]).is_none()));
        assert_eq!(sample(&words(&[&[7, 1][..], &registers, &[0]].concat())), None);
        let none = words(&[&[7, ABI_64][..], &registers, &[0]].concat());
        assert_eq!(sample(&none).unwrap().stack, b"");
        let huge = words(&[&[7, ABI_64][..], &registers, &[u64::MAX, 1, 1]].concat());
        assert_eq!(sample(&huge), None);
    }
}
