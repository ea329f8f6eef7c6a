//! Witnesses of time that this kernel did not spend: steal time, the counter of
//! system-management interrupts, the CPUs' real speed, the clocks.
//!
//! `MSR_SMI_COUNT` (0x34), `IA32_MPERF` (0xE7) and `IA32_APERF` (0xE8) are of the Intel SDM,
//! volume 4; they are read through `/dev/cpu/N/msr` (msr(4)). A hypervisor may refuse them or
//! answer zero, another processor may not have them: what is missing is said.

use crate::clock;
use crate::files::Root;
use crate::machine;
use latlab_core::explain::cluster::Surroundings;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};

const SMI_COUNT: u64 = 0x34;
const MPERF: u64 = 0xE7;
const APERF: u64 = 0xE8;

/// What was read at one moment.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// Steal time of all CPUs, ns.
    pub steal_ns: Option<u64>,
    /// System-management interrupts of all CPUs.
    pub smi: Option<u64>,
    performance: Option<(u64, u64)>,
    khz: Vec<u64>,
    clock_source: Option<String>,
    /// Wall clock less CLOCK_MONOTONIC, ns.
    ahead_ns: i128,
    missing: Vec<String>,
}

/// The model-specific registers of every CPU, opened once.
#[derive(Debug, Default)]
pub struct Registers {
    files: Vec<File>,
    missing: Option<String>,
}

impl Registers {
    /// Opens them, as far as this machine has them.
    pub fn open() -> Self {
        if !cfg!(any(target_arch = "x86_64", target_arch = "x86")) {
            let missing = "a counter of firmware interrupts: only x86 has one".to_owned();
            return Self { files: Vec::new(), missing: Some(missing) };
        }
        let open = |cpu: u32| File::open(format!("/dev/cpu/{cpu}/msr"));
        match machine::online_cpus().into_iter().map(open).collect::<io::Result<Vec<_>>>() {
            Ok(files) => Self { files, missing: None },
            Err(error) => {
                let why = match error.kind() {
                    io::ErrorKind::NotFound => "/dev/cpu/0/msr is not there (modprobe msr)".into(),
                    _ => format!("/dev/cpu/0/msr: {error}"),
                };
                Self { files: Vec::new(), missing: Some(format!("the counter of SMIs: {why}")) }
            }
        }
    }

    /// Sum of a register over all CPUs; `None` where one of them does not tell it.
    fn sum(&self, register: u64) -> Option<u64> {
        if self.files.is_empty() {
            return None;
        }
        let read = |file: &File| {
            let mut bytes = [0u8; 8];
            file.read_exact_at(&mut bytes, register).ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        self.files.iter().try_fold(0u64, |sum, f| Some(sum.wrapping_add(read(f)?)))
    }

    /// Steal time and SMIs alone: cheap enough between two captures.
    pub fn glance(&self) -> Witness {
        Witness {
            steal_ns: machine::condition().steal_ns,
            smi: self.sum(SMI_COUNT),
            ..Witness::default()
        }
    }

    /// All that can be read.
    pub fn look(&self) -> Witness {
        let condition = machine::condition();
        let root = Root::here();
        let source = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let smi = self.sum(SMI_COUNT);
        let mut missing: Vec<String> = self.missing.iter().cloned().collect();
        if smi.is_none() && self.missing.is_none() {
            missing.push("the counter of SMIs: this machine does not tell MSR 0x34".into());
        }
        if condition.steal_ns.is_none() {
            missing.push("steal time: this kernel does not count it".into());
        }
        Witness {
            steal_ns: condition.steal_ns,
            smi,
            performance: self.sum(APERF).zip(self.sum(MPERF)),
            khz: condition.khz,
            clock_source: root.word(source),
            ahead_ns: wall.as_nanos() as i128 - i128::from(clock::now().0),
            missing,
        }
    }
}

impl Witness {
    /// Steal time and SMIs since an earlier look.
    pub fn since(&self, before: &Self) -> (Option<u64>, Option<u64>) {
        let grown = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        (grown(self.steal_ns, before.steal_ns), grown(self.smi, before.smi))
    }

    /// Fills in what two looks tell of the time between them.
    pub fn tell(before: &Self, after: &Self, around: &mut Surroundings) {
        (around.steal_ns, around.smi) = after.since(before);
        let khz = || before.khz.iter().chain(&after.khz).copied().filter(|&k| k > 0);
        around.khz = khz().min().zip(khz().max());
        around.speed = match (before.performance, after.performance) {
            (Some((a0, m0)), Some((a1, m1))) if m1 > m0 && a1 > a0 => {
                Some((a1 - a0) as f64 / (m1 - m0) as f64)
            }
            _ => None,
        };
        let step = (after.ahead_ns - before.ahead_ns).unsigned_abs();
        around.clock_step_ns = u64::try_from(step).ok();
        around.clock_source = match (&before.clock_source, &after.clock_source) {
            (Some(a), Some(b)) if a != b => Some((a.clone(), b.clone())),
            _ => None,
        };
        around.missing.clone_from(&after.missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_looks_tell_what_passed_between_them() {
        let before = Witness {
            steal_ns: Some(1_000),
            smi: Some(7),
            performance: Some((100, 100)),
            khz: vec![1_000_000],
            clock_source: Some("tsc".into()),
            ahead_ns: 5,
            missing: vec![],
        };
        let after = Witness {
            steal_ns: Some(11_000),
            smi: Some(9),
            performance: Some((150, 200)),
            khz: vec![600_000],
            clock_source: Some("hpet".into()),
            ahead_ns: -2_000_000,
            missing: vec!["something".into()],
        };
        let mut around = Surroundings::default();
        Witness::tell(&before, &after, &mut around);
        assert_eq!((around.steal_ns, around.smi), (Some(10_000), Some(2)));
        assert_eq!(around.khz, Some((600_000, 1_000_000)));
        assert_eq!(around.speed, Some(0.5));
        assert_eq!(around.clock_step_ns, Some(2_000_005));
        assert_eq!(around.clock_source, Some(("tsc".into(), "hpet".into())));
        assert_eq!(around.missing, ["something"]);
    }

    #[test]
    fn what_this_machine_does_not_tell_is_said() {
        let look = Registers::open().look();
        assert!(look.smi.is_some() || look.missing.iter().any(|m| m.contains("counter")));
    }
}
