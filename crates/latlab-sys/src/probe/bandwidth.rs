//! Memory bandwidth: reading, writing, copying and filling arrays; STREAM's four kernels.
//!
//! `size` is the length of *each* array. Bytes are counted as lmbench counts
//! them: a copy counts what is copied, once. STREAM's kernels count as STREAM
//! does (J. D. McCalpin, 1995): every array that is read or written. The
//! `partial` kernels touch one 4-byte word in four and count all bytes, for
//! comparison with figures that were made so.

use super::{ParamSpec, Probe, ProbeError, Setting, Spec};
use crate::policy;
use latlab_model::finding::{Note, Quantity};
use latlab_model::record::Unit;
use std::hint::black_box;
use std::sync::{Arc, Barrier};

const SIZE: ParamSpec = ParamSpec {
    name: "size",
    what: "bytes of each array",
    default: &["16K", "64M"],
    full: &["512", "4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M"],
};
const THREADS: ParamSpec = ParamSpec {
    name: "threads",
    what: "threads, each with its own arrays and CPU",
    default: &["1"],
    full: &["1", "2"],
};
const PARAMS: &[ParamSpec] = &[SIZE, ParamSpec { full: &[], ..THREADS }];
const STREAM: &[ParamSpec] = &[ParamSpec { default: &["64M"], full: &["64M"], ..SIZE }, THREADS];

const fn spec(
    name: &'static str,
    what: &'static str,
    lmbench: &'static str,
    make: fn(&Setting) -> Result<Box<dyn Probe>, ProbeError>,
) -> Spec {
    Spec::new(name, what, lmbench, make).with(PARAMS).unit(Unit::BytesPerSecond)
}

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    spec("bw.read", "every word of an array read", "bw_mem frd", |s| make(s, 1, read)),
    spec("bw.write", "every word of an array written", "bw_mem fwr", |s| make(s, 1, write)),
    spec("bw.copy", "word by word from array to array", "bw_mem fcp", |s| make(s, 1, copy)),
    spec("bw.memcpy", "memcpy() of the C library", "bw_mem bcopy", |s| make(s, 1, memcpy)),
    spec("bw.memset", "memset() of the C library to 0", "bw_mem bzero", |s| make(s, 1, memset)),
    spec("bw.stream-store-fill", "filled past the caches, by streaming stores", "", |s| {
        make_streaming(s, |a| streaming::fill(&mut a.a))
    }),
    spec("bw.stream-store-copy", "copied past the caches, by streaming stores", "", |s| {
        make_streaming(s, |a| streaming::copy(&mut a.a, &a.b))
    }),
    spec("bw.read-partial", "one word of four read, all counted", "bw_mem rd", |s| {
        make(s, 1, read_partial)
    })
    .full(),
    spec("bw.write-partial", "one word of four written, all counted", "bw_mem wr", |s| {
        make(s, 1, write_partial)
    })
    .full(),
    spec(
        "bw.read-write-partial",
        "one word of four read and written, all counted",
        "bw_mem rdwr",
        |s| make(s, 1, read_write_partial),
    )
    .full(),
    spec("bw.copy-partial", "one word of four copied, all counted", "bw_mem cp", |s| {
        make(s, 1, copy_partial)
    })
    .full(),
    spec("stream.copy", "c = a, both counted", "stream", |s| make(s, 2, stream_copy)).with(STREAM),
    spec("stream.scale", "b = k·c, both counted", "stream", |s| make(s, 2, stream_scale))
        .with(STREAM),
    spec("stream.add", "c = a + b, all three counted", "stream", |s| make(s, 3, stream_add))
        .with(STREAM),
    spec("stream.triad", "a = b + k·c, all three counted", "stream", |s| make(s, 3, stream_triad))
        .with(STREAM),
];

/// Three arrays, the first two always there.
pub struct Arrays {
    a: Vec<u64>,
    b: Vec<u64>,
    x: Vec<f64>,
    y: Vec<f64>,
    z: Vec<f64>,
}

impl Arrays {
    /// As many as the kernel uses: STREAM's three of floating point, or two of words.
    fn new(bytes: usize, counted: usize) -> Self {
        let (words, floats) = if counted == 1 { (bytes / 8, 0) } else { (0, bytes / 8) };
        Self {
            // Not zero: every page must be real, and none the shared page of zeros.
            a: vec![1; words],
            b: vec![2; words],
            x: vec![1.0; floats],
            y: vec![2.0; floats],
            z: vec![3.0; floats],
        }
    }
}

type Kernel = fn(&mut Arrays);

fn read(a: &mut Arrays) {
    black_box(a.a.iter().fold(0u64, |sum, &w| sum.wrapping_add(w)));
}

fn write(a: &mut Arrays) {
    let value = black_box(3u64);
    for word in &mut a.a {
        *word = value;
    }
    black_box(&mut a.a);
}

fn copy(a: &mut Arrays) {
    for (to, from) in a.a.chunks_exact_mut(8).zip(a.b.chunks_exact(8)) {
        // Eight words at a time with a barrier for the compiler, which would call memcpy() otherwise.
        let line: [u64; 8] = std::array::from_fn(|i| from[i]);
        to.copy_from_slice(&line);
        black_box(&mut *to);
    }
}

fn memcpy(a: &mut Arrays) {
    // SAFETY: both arrays have the same length and do not overlap; u64 has no invalid values.
    unsafe { libc::memcpy(a.a.as_mut_ptr().cast(), a.b.as_ptr().cast(), a.a.len() * 8) };
    black_box(&mut a.a);
}

fn memset(a: &mut Arrays) {
    // SAFETY: the whole array and no more; all zeros is a valid u64.
    unsafe { libc::memset(a.a.as_mut_ptr().cast(), 0, a.a.len() * 8) };
    black_box(&mut a.a);
}

// One 4-byte word in four is half a word of ours in two.
fn read_partial(a: &mut Arrays) {
    black_box(a.a.iter().step_by(2).fold(0u32, |sum, &w| sum.wrapping_add(w as u32)));
}

fn write_partial(a: &mut Arrays) {
    let value = black_box(3u64);
    for word in a.a.iter_mut().step_by(2) {
        *word = value;
    }
    black_box(&mut a.a);
}

fn read_write_partial(a: &mut Arrays) {
    for word in a.a.iter_mut().step_by(2) {
        *word = word.wrapping_add(1);
    }
    black_box(&mut a.a);
}

fn copy_partial(a: &mut Arrays) {
    for (to, from) in a.a.iter_mut().zip(&a.b).step_by(2) {
        *to = *from;
    }
    black_box(&mut a.a);
}

fn stream_copy(a: &mut Arrays) {
    a.z.copy_from_slice(&a.x);
    black_box(&mut a.z);
}

fn stream_scale(a: &mut Arrays) {
    let k = black_box(3.0);
    for (y, z) in a.y.iter_mut().zip(&a.z) {
        *y = k * z;
    }
    black_box(&mut a.y);
}

fn stream_add(a: &mut Arrays) {
    for ((z, x), y) in a.z.iter_mut().zip(&a.x).zip(&a.y) {
        *z = x + y;
    }
    black_box(&mut a.z);
}

fn stream_triad(a: &mut Arrays) {
    let k = black_box(3.0);
    for ((x, y), z) in a.x.iter_mut().zip(&a.y).zip(&a.z) {
        *x = y + k * z;
    }
    black_box(&mut a.x);
}

/// Stores that do not read the line first and do not stay in the cache.
pub(crate) mod streaming {
    /// Whether this machine has them, and this build knows how.
    pub const KNOWN: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

    /// One word everywhere.
    pub fn fill(to: &mut [u64]) {
        pairs(to, None);
    }

    /// From one to the other.
    pub fn copy(to: &mut [u64], from: &[u64]) {
        pairs(to, Some(from));
    }

    #[cfg(target_arch = "x86_64")]
    fn pairs(to: &mut [u64], from: Option<&[u64]>) {
        use std::arch::x86_64::{_mm_sfence, _mm_stream_si64};
        for (i, word) in to.iter_mut().enumerate() {
            let value = from.map_or(7, |f| f[i]);
            // SAFETY: SSE2 is part of x86_64; the address is a whole, aligned word of `to`.
            unsafe { _mm_stream_si64(std::ptr::from_mut(word).cast(), value as i64) };
        }
        // SAFETY: orders the stores above; touches no memory itself.
        unsafe { _mm_sfence() };
    }

    #[cfg(target_arch = "aarch64")]
    fn pairs(to: &mut [u64], from: Option<&[u64]>) {
        for (i, pair) in to.chunks_exact_mut(2).enumerate() {
            let (a, b) = from.map_or((7, 7), |f| (f[2 * i], f[2 * i + 1]));
            // SAFETY: STNP (Arm ARM C6.2) writes 16 bytes at the address, which are `pair`.
            unsafe {
                std::arch::asm!("stnp {a}, {b}, [{p}]", a = in(reg) a, b = in(reg) b,
                    p = in(reg) pair.as_mut_ptr(), options(nostack));
            }
        }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn pairs(to: &mut [u64], from: Option<&[u64]>) {
        for (i, word) in to.iter_mut().enumerate() {
            *word = from.map_or(7, |f| f[i]);
        }
    }
}

struct One {
    arrays: Arrays,
    kernel: Kernel,
    bytes: f64,
}

impl Probe for One {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            (self.kernel)(&mut self.arrays);
        }
        Ok(())
    }
    fn value(&self, ns: f64) -> f64 {
        self.bytes * 1e9 / ns
    }
}

/// The same on several CPUs at once. Everybody starts at a barrier, and the slowest ends the batch.
struct Many {
    mine: One,
    start: Arc<(Barrier, std::sync::atomic::AtomicU64)>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Probe for Many {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        self.start.1.store(n, std::sync::atomic::Ordering::Release);
        self.start.0.wait();
        self.mine.run(n)?;
        self.start.0.wait();
        Ok(())
    }
    fn value(&self, ns: f64) -> f64 {
        self.mine.value(ns) * (self.threads.len() as f64 + 1.0)
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        self.start.1.store(0, std::sync::atomic::Ordering::Release);
        self.start.0.wait();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn make_streaming(setting: &Setting, kernel: Kernel) -> Result<Box<dyn Probe>, ProbeError> {
    if !streaming::KNOWN {
        return Err(ProbeError::unavailable("probe.no-instruction"));
    }
    make(setting, 1, kernel)
}

fn make(setting: &Setting, counted: usize, kernel: Kernel) -> Result<Box<dyn Probe>, ProbeError> {
    let (size, threads) = (setting.size("size")?, setting.size("threads")?);
    if size < 64 || threads == 0 {
        let (name, allowed) =
            if size < 64 { ("size", "64 or more") } else { ("threads", "1 or more") };
        return Err(setting.bad(name, allowed));
    }
    let arrays = counted.max(2);
    super::fits_memory(&[size, arrays, threads])?;
    let one = move || One {
        arrays: Arrays::new(size, counted),
        kernel,
        bytes: ((size / 8 * 8) * counted) as f64,
    };
    if threads == 1 {
        return Ok(Box::new(one()));
    }
    if threads > setting.allowed.len() {
        let note = Note::new("probe.too-few-cpus")
            .value("threads", Quantity::Count(threads as u64))
            .value("allowed", Quantity::Count(setting.allowed.len() as u64));
        return Err(ProbeError::Unavailable(note));
    }
    let start = Arc::new((Barrier::new(threads), std::sync::atomic::AtomicU64::new(0)));
    let here = setting.cpu.map(latlab_model::units::CpuId);
    let others = setting.allowed.iter().rev().copied().filter(|c| Some(*c) != here);
    let handles = (others.take(threads - 1))
        .map(|cpu| {
            let start = Arc::clone(&start);
            std::thread::spawn(move || {
                let _ = policy::bind(&[cpu]);
                let mut mine = one();
                loop {
                    start.0.wait();
                    match start.1.load(std::sync::atomic::Ordering::Acquire) {
                        0 => return,
                        n => drop(mine.run(n)),
                    }
                    start.0.wait();
                }
            })
        })
        .collect();
    Ok(Box::new(Many { mine: one(), start, threads: handles }))
}
