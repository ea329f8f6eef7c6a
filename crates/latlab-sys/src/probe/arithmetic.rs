//! What an arithmetic instruction costs: in a chain, where each waits for the
//! one before (latency), and eight chains side by side (throughput); and the
//! processor's clock, from a chain of additions.
//!
//! The instructions are written down in assembly, so that no compiler removes
//! or joins them and figures stay comparable from one compiler to the next.
//! Integer division has no such form on every processor: there it is a chain
//! `x = a / x`, which a compiler cannot shorten either.

use super::{ParamSpec, Probe, ProbeError, Setting, Spec};
use latlab_model::record::Unit;
use std::hint::black_box;

const MODE: ParamSpec = ParamSpec {
    name: "mode",
    what: "latency (each waits for the last) or throughput (eight chains)",
    default: &["latency", "throughput"],
    full: &[],
};

const fn spec(
    name: &'static str,
    what: &'static str,
    make: fn(&Setting) -> Result<Box<dyn Probe>, ProbeError>,
) -> Spec {
    Spec::new(name, what, "lat_ops", make).with(&[MODE])
}

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    spec("arith.int-add", "32-bit integer addition", |s| choose(s, isa::int_add)),
    spec("arith.int-mul", "32-bit integer multiplication", |s| choose(s, isa::int_mul)),
    Spec::new("arith.int-div", "32-bit integer division, in a chain", "lat_ops", |_| {
        chain(|x: u32, a| a / x, 1_000_003, 1009)
    }),
    Spec::new("arith.int-mod", "32-bit integer remainder and an or, in a chain", "lat_ops", |_| {
        chain(|x: u32, a| (a % x) | 1024, 1_000_003, 1025)
    }),
    Spec::new("arith.int64-div", "64-bit integer division, in a chain", "lat_ops", |_| {
        chain(|x: u64, a| a / x, 1_000_000_000_000_007, 31_622_777)
    }),
    spec("arith.float-add", "32-bit floating addition", |s| choose(s, isa::float_add)),
    spec("arith.float-mul", "32-bit floating multiplication", |s| choose(s, isa::float_mul)),
    spec("arith.float-div", "32-bit floating division", |s| choose(s, isa::float_div)),
    spec("arith.double-add", "64-bit floating addition", |s| choose(s, isa::double_add)),
    spec("arith.double-mul", "64-bit floating multiplication", |s| choose(s, isa::double_mul)),
    spec("arith.double-div", "64-bit floating division", |s| choose(s, isa::double_div)),
    Spec::new(
        "cpu.clock",
        "the processor's clock, from a chain of one-cycle additions",
        "mhz",
        |_| choose_clock(isa::int_add),
    )
    .unit(Unit::Hz),
];

/// Operations in one turn of a kernel.
pub(crate) const UNROLLED: u32 = 64;
/// Turns of a kernel in one turn of the harness, whose loop an out-of-order processor hides behind the chain: what is
/// subtracted for it is then below a thousandth.
pub(super) const TURNS: u32 = 16;

/// Turns of a loop, as a number that 32-bit processors count down in two instructions: those in order do not hide more.
pub(super) fn turns(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Calls of `n` times 64 instructions: in one chain, or eight.
pub(crate) type Kernel = (fn(u64), fn(u64));

pub(super) struct Unrolled {
    pub(super) kernel: fn(u64),
    /// Turns of the kernel in one of the harness.
    pub(super) turns: u32,
    pub(super) hz: bool,
}

impl Probe for Unrolled {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        (self.kernel)(n * u64::from(self.turns));
        Ok(())
    }
    fn per_turn(&self) -> f64 {
        f64::from(UNROLLED * self.turns)
    }
    fn value(&self, ns: f64) -> f64 {
        if self.hz { 1e9 / ns } else { ns }
    }
}

fn choose(setting: &Setting, kernel: Option<Kernel>) -> Result<Box<dyn Probe>, ProbeError> {
    let missing = || ProbeError::unavailable("probe.no-instruction");
    let (latency, throughput) = kernel.ok_or_else(missing)?;
    let (kernel, turns) = match setting.text("mode") {
        "latency" => (latency, TURNS),
        // Eight chains do not hide the loop: what it costs is subtracted.
        "throughput" => (throughput, 1),
        _ => return Err(setting.bad("mode", "latency or throughput")),
    };
    Ok(Box::new(Unrolled { kernel, turns, hz: false }))
}

fn choose_clock(kernel: Option<Kernel>) -> Result<Box<dyn Probe>, ProbeError> {
    let missing = || ProbeError::unavailable("probe.no-instruction");
    let (kernel, _) = kernel.ok_or_else(missing)?;
    Ok(Box::new(Unrolled { kernel, turns: TURNS, hz: true }))
}

struct Chain<T, F> {
    step: F,
    a: T,
    x: T,
}

impl<T: Copy, F: FnMut(T, T) -> T> Probe for Chain<T, F> {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        let (a, mut x) = (black_box(self.a), black_box(self.x));
        for _ in 0..n {
            for _ in 0..UNROLLED {
                x = (self.step)(x, a);
            }
        }
        black_box(x);
        Ok(())
    }
    fn per_turn(&self) -> f64 {
        f64::from(UNROLLED)
    }
}

fn chain<T: Copy + 'static>(
    step: impl FnMut(T, T) -> T + 'static,
    a: T,
    x: T,
) -> Result<Box<dyn Probe>, ProbeError> {
    Ok(Box::new(Chain { step, a, x }))
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm"))]
pub(crate) mod isa {
    use std::arch::asm;

    /// One instruction on `{number}` (written and read) and `{8}` or `{1}` (read), as text of this processor.
    #[cfg(target_arch = "x86_64")]
    macro_rules! instruction {
        ($op:literal, $width:literal, $x:literal, $y:literal) => {
            concat!($op, " {", $x, $width, "}, {", $y, $width, "}")
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    macro_rules! instruction {
        ($op:literal, $width:literal, $x:literal, $y:literal) => {
            concat!($op, " {", $x, $width, "}, {", $x, $width, "}, {", $y, $width, "}")
        };
    }

    macro_rules! eight_times {
        ($op:literal, $w:literal, [$($x:literal)*], $y:literal) => {
            concat!($(instruction!($op, $w, $x, $y), "\n"),*)
        };
    }

    macro_rules! kernel {
        ($name:ident, $class:ident, $type:ty, $one:expr, $op:literal, $width:literal) => {
            #[expect(non_upper_case_globals, reason = "the names of the operations in reports")]
            pub const $name: Option<crate::probe::arithmetic::Kernel> = {
                fn latency(n: u64) {
                    let (mut x, y): ($type, $type) = ($one, $one);
                    for _ in 0..crate::probe::arithmetic::turns(n) {
                        // SAFETY: 64 arithmetic instructions on registers; no memory is touched.
                        unsafe {
                            asm!(
                                eight_times!($op, $width, [0 0 0 0 0 0 0 0], 1),
                                eight_times!($op, $width, [0 0 0 0 0 0 0 0], 1),
                                eight_times!($op, $width, [0 0 0 0 0 0 0 0], 1),
                                eight_times!($op, $width, [0 0 0 0 0 0 0 0], 1),
                                eight_times!($op, $width, [0 0 0 0 0 0 0 0], 1),
                                eight_times!($op, $width, [0 0 0 0 0 0 0 0], 1),
                                eight_times!($op, $width, [0 0 0 0 0 0 0 0], 1),
                                eight_times!($op, $width, [0 0 0 0 0 0 0 0], 1),
                                inout($class) x, in($class) y, options(nomem, nostack),
                            );
                        }
                    }
                    std::hint::black_box(x);
                }
                fn throughput(n: u64) {
                    let mut x: [$type; 8] = [$one; 8];
                    let [a, b, c, d, e, f, g, h] = &mut x;
                    let y: $type = $one;
                    for _ in 0..crate::probe::arithmetic::turns(n) {
                        // SAFETY: 64 arithmetic instructions on registers; no memory is touched.
                        unsafe {
                            asm!(
                                eight_times!($op, $width, [0 1 2 3 4 5 6 7], 8),
                                eight_times!($op, $width, [0 1 2 3 4 5 6 7], 8),
                                eight_times!($op, $width, [0 1 2 3 4 5 6 7], 8),
                                eight_times!($op, $width, [0 1 2 3 4 5 6 7], 8),
                                eight_times!($op, $width, [0 1 2 3 4 5 6 7], 8),
                                eight_times!($op, $width, [0 1 2 3 4 5 6 7], 8),
                                eight_times!($op, $width, [0 1 2 3 4 5 6 7], 8),
                                eight_times!($op, $width, [0 1 2 3 4 5 6 7], 8),
                                inout($class) *a, inout($class) *b, inout($class) *c,
                                inout($class) *d, inout($class) *e, inout($class) *f,
                                inout($class) *g, inout($class) *h, in($class) y,
                                options(nomem, nostack),
                            );
                        }
                    }
                    std::hint::black_box(x);
                }
                Some((latency, throughput))
            };
        };
    }

    #[cfg(target_arch = "x86_64")]
    mod table {
        use super::asm;
        kernel!(int_add, reg, u32, 1, "add", ":e");
        kernel!(int_mul, reg, u32, 1, "imul", ":e");
        kernel!(word_add, reg, usize, 1, "add", "");
        kernel!(word_mul, reg, usize, 1, "imul", "");
        kernel!(float_add, xmm_reg, f32, 1.0, "addss", "");
        kernel!(float_mul, xmm_reg, f32, 1.0, "mulss", "");
        kernel!(float_div, xmm_reg, f32, 1.0, "divss", "");
        kernel!(double_add, xmm_reg, f64, 1.0, "addsd", "");
        kernel!(double_mul, xmm_reg, f64, 1.0, "mulsd", "");
        kernel!(double_div, xmm_reg, f64, 1.0, "divsd", "");
    }
    #[cfg(target_arch = "aarch64")]
    mod table {
        use super::asm;
        kernel!(int_add, reg, u32, 1, "add", ":w");
        kernel!(int_mul, reg, u32, 1, "mul", ":w");
        kernel!(word_add, reg, usize, 1, "add", "");
        kernel!(word_mul, reg, usize, 1, "mul", "");
        kernel!(float_add, vreg, f32, 1.0, "fadd", ":s");
        kernel!(float_mul, vreg, f32, 1.0, "fmul", ":s");
        kernel!(float_div, vreg, f32, 1.0, "fdiv", ":s");
        kernel!(double_add, vreg, f64, 1.0, "fadd", ":d");
        kernel!(double_mul, vreg, f64, 1.0, "fmul", ":d");
        kernel!(double_div, vreg, f64, 1.0, "fdiv", ":d");
    }
    #[cfg(target_arch = "arm")]
    mod table {
        use super::asm;
        kernel!(int_add, reg, u32, 1, "add", "");
        kernel!(int_mul, reg, u32, 1, "mul", "");
        kernel!(word_add, reg, usize, 1, "add", "");
        kernel!(word_mul, reg, usize, 1, "mul", "");
        kernel!(float_add, sreg, f32, 1.0, "vadd.f32", "");
        kernel!(float_mul, sreg, f32, 1.0, "vmul.f32", "");
        kernel!(float_div, sreg, f32, 1.0, "vdiv.f32", "");
        kernel!(double_add, dreg, f64, 1.0, "vadd.f64", "");
        kernel!(double_mul, dreg, f64, 1.0, "vmul.f64", "");
        kernel!(double_div, dreg, f64, 1.0, "vdiv.f64", "");
    }
    pub use table::*;
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
pub(crate) mod isa {
    #![expect(non_upper_case_globals, reason = "the names of the operations in reports")]
    pub const int_add: Option<super::Kernel> = None;
    pub const int_mul: Option<super::Kernel> = None;
    pub const word_add: Option<super::Kernel> = None;
    pub const word_mul: Option<super::Kernel> = None;
    pub const float_add: Option<super::Kernel> = None;
    pub const float_mul: Option<super::Kernel> = None;
    pub const float_div: Option<super::Kernel> = None;
    pub const double_add: Option<super::Kernel> = None;
    pub const double_mul: Option<super::Kernel> = None;
    pub const double_div: Option<super::Kernel> = None;
}
