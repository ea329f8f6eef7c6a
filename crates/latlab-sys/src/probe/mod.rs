//! Probes: one quantity each, set up once and then run `n` times in a batch.
//!
//! A probe knows nothing of clocks or statistics: the harness times
//! [`Probe::run`], subtracts what [`Probe::baseline`] costs, and repeats both in
//! fresh processes. What a machine does not have (an old kernel, a seccomp
//! filter, one CPU) is [`ProbeError::Unavailable`], never a failure.

pub mod arithmetic;
pub mod bandwidth;
pub mod connect;
pub mod core_to_core;
pub mod cycles;
#[cfg(feature = "host")]
pub mod disk;
pub mod fd_calls;
pub mod files;
pub mod ipc_channels;
pub mod kernel_view;
pub mod mapping;
pub mod message;
mod operation;
pub mod pair;
pub mod peer;
pub mod process;
pub mod registry;
pub mod remote;
pub mod ring;
#[cfg(feature = "host")]
pub mod server;
pub mod services;
pub mod shared;
pub mod signals;
pub mod sleeping;
pub mod switch;
pub mod sync_channels;
pub mod syscall;
pub mod trace_capture;
pub mod transfer;
pub mod uring;
pub mod wait_many;
pub mod yields;

use latlab_model::bench::trial::SliceReply;
use latlab_model::bench::{Alternation, SwitchPart};
use latlab_model::event::{Event, Names};
use latlab_model::finding::{Note, Quantity};
use latlab_model::record::Unit;
use latlab_model::units::CpuId;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why a probe has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProbeError {
    /// This machine does not have what is measured.
    Unavailable(Note),
    /// A parameter that makes no sense.
    Parameter {
        /// Its name.
        name: String,
        /// What was given.
        value: String,
        /// Values that are allowed.
        allowed: &'static str,
    },
    /// A call failed.
    Call {
        /// Its name.
        call: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The measurement went wrong.
    Failed(Note),
}

impl ProbeError {
    /// Not available, for a reason without values.
    pub fn unavailable(id: &str) -> Self {
        Self::Unavailable(Note::new(id))
    }

    /// Failed, for a reason without values.
    pub fn failed(id: &str) -> Self {
        Self::Failed(Note::new(id))
    }

    /// A CPU on which this process may not run.
    pub fn cpu_refused(cpu: CpuId, error: Option<&dyn std::fmt::Display>) -> Self {
        let note = Note::new("probe.cpu-refused").value("cpu", Quantity::Cpu(cpu.0));
        Self::Unavailable(note.value_if("error", error.map(ToString::to_string)))
    }

    /// The reply of a trial that ended with this error.
    pub fn reply(self) -> SliceReply {
        let unavailable = self.is_unavailable();
        let reason = self.reason();
        match unavailable {
            true => SliceReply::Unavailable { reason },
            false => SliceReply::Failed { reason },
        }
    }

    /// Why.
    pub fn reason(self) -> Note {
        match self {
            Self::Unavailable(reason) | Self::Failed(reason) => reason,
            Self::Parameter { name, value, allowed } => Note::new("probe.parameter")
                .value("name", name)
                .value("value", value)
                .value("allowed", allowed),
            Self::Call { call, source } => Note::new("probe.call-failed")
                .value("call", call)
                .value("error", source.to_string()),
        }
    }

    /// Whether this machine does not have it: no such call, refused by a filter, no permission, no memory, no descriptors.
    pub fn is_unavailable(&self) -> bool {
        const MISSING: [i32; 14] = [
            libc::ENOSYS,
            libc::EPERM,
            libc::EACCES,
            libc::EOPNOTSUPP,
            libc::EAFNOSUPPORT,
            libc::EPROTONOSUPPORT,
            libc::ESOCKTNOSUPPORT,
            libc::EADDRNOTAVAIL,
            libc::ENETUNREACH,
            libc::ENOENT,
            libc::ENOSPC,
            libc::EROFS,
            libc::EMFILE,
            libc::ENFILE,
        ];
        match self {
            Self::Unavailable(_) => true,
            // EAGAIN of fork is RLIMIT_NPROC; nothing else here lets it through.
            Self::Call { source, .. } => source
                .raw_os_error()
                .is_some_and(|e| MISSING.contains(&e) || e == libc::EAGAIN || e == libc::ENOMEM),
            _ => false,
        }
    }
}

/// Names the call that failed.
pub trait Calling<T> {
    /// The result, with the call's name in its error.
    fn calling(self, call: &str) -> Result<T, ProbeError>;
}

impl<T, E: Into<io::Error>> Calling<T> for Result<T, E> {
    fn calling(self, call: &str) -> Result<T, ProbeError> {
        self.map_err(|e| {
            let source: io::Error = e.into();
            match source.raw_os_error() {
                Some(libc::EMFILE) => ProbeError::Unavailable(descriptor_limit(call)),
                _ => ProbeError::Call { call: call.to_owned(), source },
            }
        })
    }
}

/// The limit on descriptors was reached by a call.
pub(crate) fn descriptor_limit(call: &str) -> Note {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let note = Note::new("probe.descriptor-limit").value("call", call);
    note.value_if("limit", limit.map(Quantity::Count))
}

/// A probe that is set up.
pub trait Probe {
    /// Does the operation `n` times. This is what is timed.
    ///
    /// # Errors
    /// When the operation fails; the trial ends then.
    fn run(&mut self, n: u64) -> Result<(), ProbeError>;

    /// Whatever has to be done before a batch and must not be timed.
    ///
    /// # Errors
    /// As [`Probe::run`].
    fn before_batch(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }

    /// Whatever has to be done after a batch and must not be timed.
    ///
    /// # Errors
    /// As [`Probe::run`].
    fn after_batch(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }

    /// Does `n` times what belongs to the probe and not to the quantity; timed
    /// beside every batch and subtracted. `false` when there is nothing of the kind.
    ///
    /// # Errors
    /// As [`Probe::run`].
    fn baseline(&mut self, _n: u64) -> Result<bool, ProbeError> {
        Ok(false)
    }

    /// How many operations one turn of `run`'s loop does (unrolled loops).
    fn per_turn(&self) -> f64 {
        1.0
    }

    /// What a trace says of the last batch, where the probe asks the kernel instead of the clock: ns an
    /// operation, and how much of that the recording cost.
    fn seen(&mut self) -> Option<(f64, f64)> {
        None
    }

    /// The process that takes part besides this one, where exactly two alternate on one CPU.
    fn partner(&self) -> Option<i32> {
        None
    }

    /// From net ns an operation to the probe's unit.
    fn value(&self, ns: f64) -> f64 {
        ns
    }

    /// Context switches so far of all who take part, but this process; `None`
    /// when switches are no part of what is measured.
    fn peer_switches(&mut self) -> Option<u64> {
        None
    }

    /// Context switches that one operation should make; 0 when they are no matter.
    fn switches_expected(&self) -> f64 {
        0.0
    }

    /// Whether a batch with another number of switches is no measurement of the quantity.
    fn switches_must_match(&self) -> bool {
        false
    }

    /// Whether it keeps a CPU under SCHED_FIFO: the harness then leaves others a share.
    fn is_fifo(&self) -> bool {
        false
    }

    /// The largest batch that the probe can stand (files, memory); `None`: no limit.
    fn batch_max(&self) -> Option<u64> {
        None
    }

    /// What a reader of the figure must know.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }
}

/// A closure as a probe; inlined into its loop.
pub struct Repeat<F>(pub F);

impl<F: FnMut() -> Result<(), ProbeError>> Probe for Repeat<F> {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            (self.0)()?;
        }
        Ok(())
    }
}

/// Boxes a closure.
pub fn repeat<F>(operation: F) -> Result<Box<dyn Probe>, ProbeError>
where
    F: FnMut() -> Result<(), ProbeError> + 'static,
{
    Ok(Box::new(Repeat(operation)))
}

/// Where and with what a probe is set up.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Its parameters.
    pub params: BTreeMap<String, String>,
    /// A directory for its files.
    pub dir: PathBuf,
    /// The CPU that this process is pinned to.
    pub cpu: Option<u32>,
    /// The CPUs that it was allowed before that.
    pub allowed: Vec<CpuId>,
    /// What evaluates the traces of probes that record one.
    pub analysis: TraceAnalysis,
    /// The server at the other end, where that is another machine.
    pub peer: Option<SocketAddr>,
}

/// Cost of a switch, and of recording it, in ns, from the events of a batch, the pair of tasks, the
/// part of the switch and the number of calls that measure the recording.
pub type SwitchCost = fn(&[Event], [i32; 2], SwitchPart, usize) -> Option<(f64, f64)>;

/// The analysis of traces that probes record; the caller supplies it, because this crate only measures.
#[derive(Clone, Copy, Debug)]
pub struct TraceAnalysis {
    /// For `ctx.kernel`.
    pub switch_cost: SwitchCost,
    /// Which threads had the CPU, from switches, the pair of tasks and the operations done.
    pub alternation: fn(&[Event], &Names, [i32; 2], u64) -> Alternation,
}

/// No analysis: nothing is concluded from a trace.
impl Default for TraceAnalysis {
    fn default() -> Self {
        Self { switch_cost: |_, _, _, _| None, alternation: |_, _, _, _| Alternation::default() }
    }
}

impl Setting {
    /// A parameter as text; empty when it is not given.
    pub fn text(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// A parameter as a number: `64`, `4K`, `16M` (powers of 1024).
    ///
    /// # Errors
    /// When it is missing or no such number.
    pub fn number(&self, name: &str) -> Result<u64, ProbeError> {
        let value = self.text(name);
        parse_size(value).ok_or_else(|| ProbeError::Parameter {
            name: name.to_owned(),
            value: value.to_owned(),
            allowed: "numbers such as 64, 4K, 16M",
        })
    }

    /// A number as a size in memory.
    ///
    /// # Errors
    /// As [`Setting::number`], and when it does not fit this machine's addresses.
    pub fn size(&self, name: &str) -> Result<usize, ProbeError> {
        usize::try_from(self.number(name)?)
            .map_err(|_| self.bad(name, "sizes that this machine can address"))
    }

    /// The error for a parameter that makes no sense.
    pub fn bad(&self, name: &str, allowed: &'static str) -> ProbeError {
        ProbeError::Parameter { name: name.to_owned(), value: self.text(name).to_owned(), allowed }
    }

    /// A file below the probe's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        Path::join(&self.dir, name)
    }
}

/// The most memory that a probe may use, bytes: a quarter of what is available
/// (16 MiB where that cannot be read), so that a small board does not swap.
fn memory_limit() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |key: &str| -> Option<u64> {
        let line = text.lines().find_map(|l| l.strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let kib = of("MemAvailable:").or_else(|| of("MemFree:"));
    let bytes = kib.map_or(16 << 20, |k| k.saturating_mul(1024) / 4);
    usize::try_from(bytes).unwrap_or(usize::MAX / 4)
}

/// Whether a product of sizes and counts stays below [`memory_limit`].
///
/// # Errors
/// When it does not.
pub(crate) fn fits_memory(factors: &[usize]) -> Result<(), ProbeError> {
    let needed = factors.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
    let limit = memory_limit();
    match needed {
        Some(needed) if needed <= limit => Ok(()),
        _ => {
            let note = Note::new("probe.no-memory")
                .value_if("needed", needed.map(|n| Quantity::Bytes(n as u64)))
                .value("limit", Quantity::Bytes(limit as u64));
            Err(ProbeError::Unavailable(note))
        }
    }
}

/// A parameter's number with the suffix K, M or G ([`crate::size::parse`]), spaces around it ignored.
pub fn parse_size(text: &str) -> Option<u64> {
    crate::size::parse(text.trim())
}

/// A parameter of a probe.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// Name.
    pub name: &'static str,
    /// What it means, and its values.
    pub what: &'static str,
    /// Values of the default suite; one empty value for a parameter that is absent unless it is given.
    pub default: &'static [&'static str],
    /// Values of the full suite; empty for the same.
    pub full: &'static [&'static str],
}

/// Which suites a probe belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// The default one, and with it every other.
    Default,
    /// Only the full one.
    Full,
    /// None: measured by name alone.
    Named,
}

/// A probe as it stands in the list.
#[derive(Clone, Copy)]
pub struct Spec {
    /// `family.quantity`.
    pub name: &'static str,
    /// What one operation is, in a few words.
    pub what: &'static str,
    /// Unit of its figure.
    pub unit: Unit,
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// What lmbench calls it; empty when it has none.
    pub lmbench: &'static str,
    /// Its suite.
    pub suite: Suite,
    /// Sets it up.
    pub make: fn(&Setting) -> Result<Box<dyn Probe>, ProbeError>,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spec").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Spec {
    /// Whether it has a parameter.
    pub fn has(&self, name: &str) -> bool {
        self.params.iter().any(|p| p.name == name)
    }

    /// A probe of the default suite without parameters, in ns.
    pub const fn new(
        name: &'static str,
        what: &'static str,
        lmbench: &'static str,
        make: fn(&Setting) -> Result<Box<dyn Probe>, ProbeError>,
    ) -> Self {
        Self { name, what, unit: Unit::Ns, params: &[], lmbench, suite: Suite::Default, make }
    }

    /// The same with parameters.
    #[must_use]
    pub const fn with(mut self, params: &'static [ParamSpec]) -> Self {
        self.params = params;
        self
    }

    /// The same in another unit.
    #[must_use]
    pub const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// The same, in no suite.
    #[must_use]
    pub const fn named(mut self) -> Self {
        self.suite = Suite::Named;
        self
    }

    /// The same, only in the full suite.
    #[must_use]
    pub const fn full(mut self) -> Self {
        self.suite = Suite::Full;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse_size("64"), Some(64));
        assert_eq!(parse_size("4k"), Some(4096));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size(""), None);
        assert_eq!(parse_size("K"), None);
        assert_eq!(parse_size("99999999999G"), None);
        assert_eq!(parse_size("-1"), None);
    }

    #[test]
    fn what_a_machine_lacks_is_no_failure() {
        let call =
            |e| ProbeError::Call { call: "x".into(), source: io::Error::from_raw_os_error(e) };
        assert!(call(libc::ENOSYS).is_unavailable());
        assert!(call(libc::EPERM).is_unavailable(), "a seccomp filter");
        assert!(!call(libc::EFAULT).is_unavailable());
    }
}
