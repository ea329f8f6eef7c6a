//! `--fault KIND:us=300,every=97.3ms`: a machine that is late on purpose.
//!
//! Faults of three sources. Those of the kernel are struck by the module in
//! `faults/` (GPL-2.0), which is built here for the machine's kernel with
//! Debian's headers, and cached under its source and the kernel's release.
//! Those of user space are struck by the board build itself (`latlab
//! fault-worker`). A stall of the whole machine is struck from outside, by
//! stopping QEMU.

use super::Host;
use super::catalog::Kind;
use super::fault_module::{self, MODULE};
use crate::initramfs::{Extra, module_path};
use crate::spec::VmTarget;
use crate::{Result, TargetError};
use latlab_wire::frame::Job;

const KERNEL_KINDS: [&str; 29] = [
    "hardirq",
    "hardirq-calls",
    "timer-calls",
    "tasklet",
    "kernel-loop",
    "irqs-off",
    "preempt-off",
    "raw-lock",
    "ipi",
    "ipi-function",
    "workqueue",
    "printk",
    "idle",
    "longer-path",
    INTERRUPT,
    THREADED,
    STORM,
    "work-irqs-off",
    "work-preempt-off",
    "unbound-irqs-off",
    "timer-irqs-off",
    "busy-irqs-off",
    "busy-preempt-off",
    CALL_IRQS_OFF,
    CALL_PREEMPT_OFF,
    "rcu",
    "stop-machine",
    "net-rx",
    "nmi",
];
const USER_KINDS: [&str; 9] = [
    "fifo",
    "inversion",
    "inversion-pi",
    "lock",
    "throttle",
    "page-fault",
    "memory",
    "compaction",
    "tlb",
];
/// Kinds of the module that strike at a given time, on one CPU. (A callback of RCU comes milliseconds later.)
const TIMED_KINDS: [&str; 15] = [
    "hardirq",
    "hardirq-calls",
    "tasklet",
    "irqs-off",
    "preempt-off",
    "raw-lock",
    "workqueue",
    "printk",
    INTERRUPT,
    STORM,
    "work-irqs-off",
    "work-preempt-off",
    "stop-machine",
    "net-rx",
    "nmi",
];
/// Never: `KTIME_MAX`.
const AT_REST_NS: u64 = i64::MAX as u64;
/// A device's interrupt, one whose handler may be a thread, and many of them: the machine needs that device.
const INTERRUPT: &str = "irq";
const THREADED: &str = "irq-thread";
const STORM: &str = "irq-storm";
/// Struck from a system call of a process that does nothing else.
const CALL_IRQS_OFF: &str = "call-irqs-off";
const CALL_PREEMPT_OFF: &str = "call-preempt-off";
/// That process; `read` is the shell's own.
const CALLER: &str =
    "while :; do read line < /sys/kernel/debug/latlab-faults/call; done 2> /dev/null";
/// Loads the module, so that it can be switched on inside, and strikes nothing.
const NONE: &str = "none";
const CONTROL: &str = "/sys/kernel/debug/latlab-faults/control";
/// The lock of `inversion`, `inversion-pi` and `lock`.
const LOCK: &str = "/dev/shm/latlab-lock";

/// Where a fault comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kernel module.
    Kernel,
    /// A process in the machine.
    User,
    /// QEMU, stopped by us.
    Outside,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name.
    pub kind: String,
    /// Where it comes from.
    pub source: Source,
    /// How long each stroke lasts, ns.
    pub ns: u64,
    /// From stroke to stroke, ns.
    pub every_ns: u64,
    /// Where.
    pub cpu: u32,
    /// Share of the period by which each is longer or shorter at random, percent.
    pub jitter: u32,
    /// Start of the random numbers.
    pub seed: u32,
    /// SCHED_FIFO priority (`fifo` and `throttle`).
    pub priority: u32,
    /// Only each so many-th stroke is whole, the others a hundredth of it (those of the module).
    pub rare: u32,
    /// Share of each millisecond for which the busy kinds compute, percent (those of the module).
    pub busy: u32,
    /// First stroke, ns of CLOCK_MONOTONIC (those of the module); one period after its start if it has none.
    pub at_ns: Option<u64>,
}

impl Fault {
    /// Reads `irqs-off:us=300,every=97.3ms,cpu=0,jitter=10,seed=7`.
    pub fn parse(spec: &str) -> Result<Self> {
        let wrong = |reason: String| TargetError::Spec {
            spec: spec.into(),
            reason,
            hint: format!(
                "KIND:us=SIZE,every=97.3ms[,cpu=N][,jitter=PERCENT][,seed=N][,prio=N][,rare=N][,load=PERCENT]; kinds are {}, {}, stall, none",
                KERNEL_KINDS.join(", "),
                USER_KINDS.join(", ")
            ),
        };
        let (kind, options) = spec.split_once(':').unwrap_or((spec, ""));
        let source = match kind {
            k if k == NONE || KERNEL_KINDS.contains(&k) => Source::Kernel,
            k if USER_KINDS.contains(&k) => Source::User,
            "stall" => Source::Outside,
            _ => return Err(wrong(format!("there is no fault {kind:?}"))),
        };
        // 97.3 ms has no common multiple with the usual periods: every phase is met.
        let mut fault = Self {
            kind: kind.into(),
            source,
            ns: 100_000,
            every_ns: 97_300_000,
            cpu: 0,
            jitter: 0,
            seed: 1,
            priority: if kind == "throttle" { 50 } else { 95 },
            rare: 1,
            busy: 80,
            at_ns: None,
        };
        for option in options.split(',').filter(|o| !o.is_empty()) {
            let parsed = option.split_once('=').and_then(|(key, value)| fault.set(key, value));
            parsed.ok_or_else(|| wrong(format!("{option:?} is not understood")))?;
        }
        let busy = fault.ns.saturating_mul(fault.load());
        if busy.saturating_mul(110) > fault.every_ns.saturating_mul(u64::from(100 - fault.jitter)) {
            return Err(wrong("it lasts longer than its period".into()));
        }
        Ok(fault)
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "ns" => self.ns = duration(value, 1)?,
            "us" => self.ns = duration(value, 1_000)?,
            "ms" => self.ns = duration(value, 1_000_000)?,
            "every" => self.every_ns = duration(value, 1).filter(|n| *n >= 10_000)?,
            "cpu" => self.cpu = value.parse().ok()?,
            "jitter" => self.jitter = value.parse().ok().filter(|p| *p <= 90)?,
            "seed" => self.seed = value.parse().ok()?,
            "rare" if self.source == Source::Kernel => {
                self.rare = value.parse().ok().filter(|n| (1..=1000).contains(n))?;
            }
            "load" if self.source == Source::Kernel => {
                self.busy = value.parse().ok().filter(|p| (1..=100).contains(p))?;
            }
            "prio" => self.priority = value.parse().ok().filter(|p| (1..=99).contains(p))?,
            _ => return None,
        }
        Some(())
    }

    /// Sizes of CPU time that one stroke takes. A FIFO task may keep its CPU for ever: that
    /// makes the kernel's throttling strike.
    fn load(&self) -> u64 {
        match self.kind.as_str() {
            "fifo" => 0,
            "inversion" => 2,
            "inversion-pi" => 6,
            "throttle" => 4,
            _ => 1,
        }
    }

    /// Shell commands that have to run in the machine before it.
    fn preparation(&self) -> Vec<String> {
        let us = |ns: u64| ns.div_ceil(1000);
        match self.kind.as_str() {
            // Half of a short period is the real-time tasks'; the other half is the fault.
            // The kernel's timer may still run with the period that it had, a second.
            "throttle" => vec![format!(
                "cd /proc/sys/kernel && echo -1 > sched_rt_runtime_us && echo {} > sched_rt_period_us && echo {} > sched_rt_runtime_us && sleep 1.1",
                2 * us(self.ns),
                us(self.ns)
            )],
            "inversion" | "lock" => vec![format!("printf '\\0\\0\\0\\0\\0\\0\\0\\0' > {LOCK}")],
            "inversion-pi" => {
                vec![format!("printf '\\0\\0\\0\\0\\1\\0\\0\\0' > {LOCK}")]
            }
            "page-fault" => vec![
                "mkswap /dev/nullb0 > /dev/null && swapon /dev/nullb0".into(),
                "echo 0 > /proc/sys/vm/page-cluster".into(),
            ],
            _ => Vec::new(),
        }
    }

    /// What has to be written to the module's control file.
    pub fn control(&self) -> String {
        let at = self.at_ns.map(|at| format!(" at_ns={at}")).unwrap_or_default();
        format!(
            "{} ns={} every_ns={} cpu={} jitter={} seed={} rare={} load={}{at}",
            self.kind,
            self.ns,
            self.every_ns,
            self.cpu,
            self.jitter,
            self.seed,
            self.rare,
            self.busy
        )
    }

    /// The same, at rest until it is told when to strike (`KIND again at_ns=…` in the module's control).
    ///
    /// # Errors
    /// When this kind cannot strike at a given time, or its strokes are not all alike.
    pub fn at_rest(mut self) -> Result<Self> {
        let wrong = |reason: &str| TargetError::Spec {
            spec: self.kind.clone(),
            reason: reason.into(),
            hint: format!(
                "choose from {}; without jitter=, rare= and cpu=",
                TIMED_KINDS.join(", ")
            ),
        };
        if !TIMED_KINDS.contains(&&*self.kind) {
            return Err(wrong("this fault cannot be activated at a given time"));
        }
        if self.jitter > 0 || self.rare > 1 || self.cpu > 0 {
            return Err(wrong("activations at searched times are alike, and on one CPU"));
        }
        self.at_ns = Some(AT_REST_NS);
        Ok(self)
    }

    fn worker(&self) -> Vec<String> {
        let mut words = vec!["/bin/latlab".to_owned(), "fault-worker".into(), self.kind.clone()];
        for (option, value) in [
            ("--ns", self.ns),
            ("--every-ns", self.every_ns),
            ("--cpu", u64::from(self.cpu)),
            ("--priority", u64::from(self.priority)),
            ("--jitter", u64::from(self.jitter)),
            ("--seed", u64::from(self.seed)),
        ] {
            words.extend([option.to_owned(), value.to_string()]);
        }
        words
    }
}

/// A number, with or without a unit of time, in ns; `unit` is that of a bare number.
fn duration(text: &str, unit: u64) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = match &text[split..] {
        "" => unit,
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let value = text[..split].parse::<f64>().ok()? * unit as f64;
    (value.is_finite() && (1.0..=3.6e12).contains(&value)).then_some(value.round() as u64)
}

/// The machine that the faults need: the one that was asked for, with a device that interrupts where
/// one of them is such a device's.
pub fn machine_for(target: &VmTarget, faults: &[Fault]) -> VmTarget {
    let interrupting_device =
        faults.iter().any(|f| [INTERRUPT, THREADED, STORM].contains(&&*f.kind));
    VmTarget { interrupting_device, ..target.clone() }
}

/// Adds what the faults need to a job: the module, the commands that start them.
pub fn install(
    host: &Host<'_>,
    kind: &Kind,
    target: &VmTarget,
    faults: &[Fault],
    job: &mut Job,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Extra>> {
    refuse_for_own_kernel(target, faults)?;
    let mut extras = Vec::new();
    let mut with_module = false;
    for fault in faults {
        if fault.kind == "page-fault" {
            slow_disk(host, kind, target, fault.ns, job, &mut extras, say)?;
        }
        for line in fault.preparation() {
            job.before.push(vec!["/bin/sh".into(), "-c".into(), line]);
        }
        match fault.source {
            Source::Kernel => {
                if !with_module {
                    with_module = true;
                    let from = fault_module::build(host, kind, target, say)?;
                    extras.push(Extra {
                        from,
                        to: format!("latlab/modules/{MODULE}"),
                        mode: 0o644,
                    });
                    job.modules.push(format!("/latlab/modules/{MODULE}"));
                }
                if fault.kind != NONE {
                    let line = format!("echo {} > {CONTROL}", fault.control());
                    job.before.push(vec!["/bin/sh".into(), "-c".into(), line]);
                }
                if [CALL_IRQS_OFF, CALL_PREEMPT_OFF].contains(&&*fault.kind) {
                    job.beside.push(vec!["/bin/sh".into(), "-c".into(), CALLER.into()]);
                }
            }
            Source::User => job.beside.push(fault.worker()),
            Source::Outside => {}
        }
    }
    Ok(extras)
}

/// The module, and that of the slow disk, are built for Debian's kernel.
fn refuse_for_own_kernel(target: &VmTarget, faults: &[Fault]) -> Result<()> {
    let bound = |f: &&Fault| f.source == Source::Kernel || f.kind == "page-fault";
    match (target.kernel.as_ref(), faults.iter().find(bound)) {
        (Some(_), Some(fault)) => Err(TargetError::Spec {
            spec: format!("vm:{}", target.name),
            reason: format!(
                "the fault {} is a module for Debian's kernels and those of latlab vm build, not for yours",
                fault.kind
            ),
            hint: "leave out the kernel, or choose a fault of processes: fifo, inversion, inversion-pi, \
                lock, throttle, memory, compaction, tlb"
                .into(),
        }),
        _ => Ok(()),
    }
}

/// A disk in memory that needs `ns` for each request, to swap to.
fn slow_disk(
    host: &Host<'_>,
    kind: &Kind,
    target: &VmTarget,
    ns: u64,
    job: &mut Job,
    extras: &mut Vec<Extra>,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let tree = fault_module::kernel(host, kind, target, say)?.modules()?;
    for path in tree.resolve(&["null_blk".to_owned()])? {
        let to = module_path(&path);
        let parameters = if path.contains("/null_blk.ko") {
            format!(" nr_devices=1 gb=1 memory_backed=1 irqmode=2 completion_nsec={ns}")
        } else {
            String::new()
        };
        job.modules.push(format!("{to}{parameters}"));
        let from = tree.folder().join(&path);
        extras.push(Extra { from, to: to.trim_start_matches('/').to_owned(), mode: 0o644 });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        let fault = Fault::parse("irqs-off:us=300,every=97.3ms,jitter=5,seed=7").unwrap();
        assert_eq!(
            fault.control(),
            "irqs-off ns=300000 every_ns=97300000 cpu=0 jitter=5 seed=7 rare=1 load=80"
        );
        assert_eq!(Fault::parse("hardirq:us=300,rare=10").unwrap().rare, 10);
        assert_eq!(Fault::parse("busy-irqs-off:load=95").unwrap().busy, 95);
        assert_eq!(Fault::parse("stall:ms=20,every=1s").unwrap().ns, 20_000_000);
        assert_eq!(Fault::parse("hardirq:us=2.5ms").unwrap().ns, 2_500_000);
        assert_eq!(Fault::parse("fifo:prio=80").unwrap().priority, 80);
        assert_eq!(Fault::parse("none").unwrap().source, Source::Kernel);
        let throttle = Fault::parse("throttle:ms=50,every=1s").unwrap();
        assert!(throttle.preparation()[0].contains("echo 50000 > sched_rt_runtime_us"));
    }

    #[test]
    fn what_is_wrong_with_a_fault_is_said() {
        let reason = |spec: &str| Fault::parse(spec).unwrap_err().to_string();
        assert!(reason("gremlin").contains("there is no fault \"gremlin\""));
        assert!(reason("irqs-off:us=x").contains("\"us=x\" is not understood"));
        assert!(reason("irqs-off:ms=50,every=40ms").contains("longer than its period"));
        assert!(reason("inversion-pi:ms=2,every=10ms").contains("longer than its period"));
        assert!(reason("irqs-off:us=-1").contains("not understood"));
        assert!(reason("irqs-off:us=nan").contains("not understood"));
        assert!(reason("fifo:rare=3").contains("not understood"));
        assert!(reason("fifo:load=60").contains("not understood"));
        assert!(reason("busy-irqs-off:load=101").contains("not understood"));
        assert!(reason("hardirq:rare=0").contains("not understood"));
        assert!(reason("fifo:prio=100").contains("not understood"));
    }
}
