//! The processor's clock by two ways that assume nothing of a single instruction: times of operations whose greatest
//! common divisor is its period (C. Staelin and L. McVoy, "mhz: Anatomy of a micro-benchmark", USENIX Annual
//! Technical Conference 1998), and the counter of cycles.
//!
//! Each operation is a chain, in assembly, in which every instruction waits for the one before. Which cycles it takes
//! is not known: the analysis finds the period of which all times are multiples.

use super::arithmetic::{Kernel, TURNS, UNROLLED, Unrolled, isa};
use super::{ParamSpec, Probe, ProbeError, Setting, Spec};
use crate::perf_ring::{Attr, EXCLUDE_KERNEL, HARDWARE, open};
use latlab_model::record::Unit;
use latlab_model::units::Tid;
use std::os::fd::OwnedFd;

const OPERATION: ParamSpec = ParamSpec {
    name: "op",
    what: "operation of the chain; a name with two has both in turn",
    default: &["add", "add-xor", "rotate-add", "mul", "mul-add", "load", "fadd", "fmul", "fdiv"],
    full: &[],
};

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new(
        "cpu.operation",
        "an operation that waits for the one before; the period of all is the clock's",
        "mhz",
        operation,
    )
    .with(&[OPERATION])
    .full(),
    Spec::new("cpu.cycles", "the processor's clock, from its counter of cycles", "mhz", counted)
        .unit(Unit::Hz)
        .full(),
];

fn operation(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let latency = |kernel: Option<Kernel>| kernel.map(|(latency, _)| latency);
    let kernel = match setting.text("op") {
        "add" => latency(isa::int_add),
        "add-xor" => chains::ADD_XOR,
        "rotate-add" => chains::ROTATE_ADD,
        "mul" => latency(isa::int_mul),
        "mul-add" => chains::MUL_ADD,
        "load" => chains::LOAD,
        "fadd" => latency(isa::double_add),
        "fmul" => latency(isa::double_mul),
        "fdiv" => latency(isa::double_div),
        _ => {
            let all = "add, add-xor, rotate-add, mul, mul-add, load, fadd, fmul, fdiv";
            return Err(setting.bad("op", all));
        }
    };
    let kernel = kernel.ok_or_else(|| ProbeError::unavailable("probe.no-instruction"))?;
    Ok(Box::new(Unrolled { kernel, turns: TURNS, hz: false }))
}

/// A chain whose cycles the processor counts.
struct Counted {
    counter: OwnedFd,
    chain: Unrolled,
    /// Cycles of one operation in the last batch.
    cycles: f64,
}

impl Counted {
    fn read(&self) -> Result<u64, ProbeError> {
        let mut bytes = [0; 8];
        super::Calling::calling(rustix::io::read(&self.counter, &mut bytes), "read")?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

impl Probe for Counted {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        let before = self.read()?;
        self.chain.run(n)?;
        let counted = self.read()? - before;
        self.cycles = counted as f64 / (n as f64 * self.chain.per_turn());
        Ok(())
    }
    fn per_turn(&self) -> f64 {
        self.chain.per_turn()
    }
    fn value(&self, ns: f64) -> f64 {
        self.cycles * 1e9 / ns
    }
}

fn counted(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let missing = |id: &str| ProbeError::unavailable(id);
    let (kernel, _) = isa::int_add.ok_or_else(|| missing("probe.no-instruction"))?;
    let cycles = |flags| open(Attr { kind: HARDWARE, flags, ..Attr::default() }, Tid(0), None);
    // Without the right to count in the kernel: a batch is in it for its ticks alone.
    let counter = cycles(0).or_else(|_| cycles(EXCLUDE_KERNEL));
    let counter = counter.map_err(|_| missing("probe.no-cycle-counter"))?;
    let chain = Unrolled { kernel, turns: TURNS, hz: false };
    let mut probe = Counted { counter, chain, cycles: 0.0 };
    probe.run(1)?;
    // A virtual machine may have a counter that stands still.
    if probe.cycles <= 0.0 {
        return Err(missing("probe.no-cycle-counter"));
    }
    Ok(Box::new(probe))
}

type Chain = Option<fn(u64)>;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm"))]
mod chains {
    use super::{Chain, UNROLLED};
    use std::arch::asm;
    use std::hint::black_box;

    macro_rules! eight {
        ($($step:literal)*) => {
            concat!($($step, "\n",)* $($step, "\n",)* $($step, "\n",)* $($step, "\n",)*
                $($step, "\n",)* $($step, "\n",)* $($step, "\n",)* $($step, "\n",)*)
        };
    }

    /// A chain of 64 times `$step` on registers: `x` is written and read, `y` read.
    macro_rules! registers {
        ($name:ident, [$($step:literal)*]) => {
            pub const $name: Chain = {
                fn chain(n: u64) {
                    let (mut x, y) = (black_box(1u32), black_box(0x9e37_79b9_u32));
                    for _ in 0..crate::probe::arithmetic::turns(n) {
                        // SAFETY: arithmetic instructions on registers; no memory is touched.
                        unsafe {
                            asm!(
                                eight!($($step)*), eight!($($step)*), eight!($($step)*),
                                eight!($($step)*), eight!($($step)*), eight!($($step)*),
                                eight!($($step)*), eight!($($step)*),
                                x = inout(reg) x, y = in(reg) y, options(nomem, nostack),
                            );
                        }
                    }
                    black_box(x);
                }
                Some(chain)
            };
        };
    }

    /// A chain of 64 loads, each from the address that the one before it loaded.
    macro_rules! loads {
        ($step:literal) => {
            pub const LOAD: Chain = {
                fn chain(n: u64) {
                    let mut own = 0usize;
                    own = black_box(&raw mut own).expose_provenance();
                    let mut x = black_box(&raw const own);
                    for _ in 0..crate::probe::arithmetic::turns(n) {
                        // SAFETY: each load reads `own`, which lives to the end of this function and has its own
                        // address, so that the next load reads it as well.
                        unsafe {
                            asm!(
                                eight!($step), eight!($step), eight!($step), eight!($step),
                                eight!($step), eight!($step), eight!($step), eight!($step),
                                x = inout(reg) x, options(readonly, nostack),
                            );
                        }
                    }
                    black_box(x);
                }
                Some(chain)
            };
        };
    }

    // Eight lines of eight.
    const _: () = assert!(UNROLLED == 64);

    #[cfg(target_arch = "x86_64")]
    mod table {
        use super::*;
        registers!(ADD_XOR, ["add {x:e}, {y:e}" "xor {x:e}, {y:e}"]);
        registers!(ROTATE_ADD, ["rol {x:e}, 7" "add {x:e}, {y:e}"]);
        registers!(MUL_ADD, ["imul {x:e}, {y:e}" "add {x:e}, {y:e}"]);
        loads!("mov {x}, [{x}]");
    }
    #[cfg(target_arch = "aarch64")]
    mod table {
        use super::*;
        registers!(ADD_XOR, ["add {x:w}, {x:w}, {y:w}" "eor {x:w}, {x:w}, {y:w}"]);
        registers!(ROTATE_ADD, ["ror {x:w}, {x:w}, #7" "add {x:w}, {x:w}, {y:w}"]);
        registers!(MUL_ADD, ["mul {x:w}, {x:w}, {y:w}" "add {x:w}, {x:w}, {y:w}"]);
        loads!("ldr {x}, [{x}]");
    }
    #[cfg(target_arch = "arm")]
    mod table {
        use super::*;
        registers!(ADD_XOR, ["add {x}, {x}, {y}" "eor {x}, {x}, {y}"]);
        registers!(ROTATE_ADD, ["ror {x}, {x}, #7" "add {x}, {x}, {y}"]);
        registers!(MUL_ADD, ["mul {x}, {x}, {y}" "add {x}, {x}, {y}"]);
        loads!("ldr {x}, [{x}]");
    }
    pub use table::*;
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
mod chains {
    pub const ADD_XOR: super::Chain = None;
    pub const ROTATE_ADD: super::Chain = None;
    pub const MUL_ADD: super::Chain = None;
    pub const LOAD: super::Chain = None;
}
