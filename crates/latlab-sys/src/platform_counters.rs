//! Platform counters of time that this kernel did not spend: steal time, system-management
//! interrupts, the CPUs' real speed, the clock source.
//!
//! `MSR_SMI_COUNT` (0x34), `IA32_MPERF` (0xE7) and `IA32_APERF` (0xE8) are of the Intel SDM,
//! volume 4; they are read through `/dev/cpu/N/msr` (msr(4)). A hypervisor may refuse them or
//! answer zero, another processor may not have them: what is missing is said.

use crate::files::Root;
use crate::{cgroup, machine};
use latlab_model::finding::Note;
use latlab_model::latency::SystemContext;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const SMI_COUNT: u64 = 0x34;
const MPERF: u64 = 0xE7;
const APERF: u64 = 0xE8;

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct CounterSample {
    /// Steal time of all CPUs, ns.
    pub steal_ns: Option<u64>,
    /// System-management interrupts of all CPUs.
    pub smi: Option<u64>,
    /// Periods of the limits of this process's control groups, and those at whose end a group was throttled.
    periods: Option<(u64, u64)>,
    performance: Option<(u64, u64)>,
    khz: Vec<u64>,
    clock_source: Option<String>,
    missing: Vec<Note>,
}

/// The model-specific registers of every CPU, opened once.
#[derive(Debug, Default)]
pub struct PlatformCounters {
    files: Vec<File>,
    missing: Option<Note>,
}

impl PlatformCounters {
    /// Opens them, as far as this machine has them.
    pub fn open() -> Self {
        if !cfg!(any(target_arch = "x86_64", target_arch = "x86")) {
            let missing = Some(Note::new("smi-counter-x86-only"));
            return Self { files: Vec::new(), missing };
        }
        let open = |cpu: u32| File::open(format!("/dev/cpu/{cpu}/msr"));
        match machine::online_cpus().into_iter().map(open).collect::<io::Result<Vec<_>>>() {
            Ok(files) => Self { files, missing: None },
            Err(error) => {
                let missing = match error.kind() {
                    io::ErrorKind::NotFound => Note::new("smi-counter-no-msr-device"),
                    _ => Note::new("smi-counter-unreadable").value("error", error.to_string()),
                };
                Self { files: Vec::new(), missing: Some(missing) }
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
    pub fn sample(&self) -> CounterSample {
        CounterSample {
            steal_ns: machine::condition().steal_ns,
            smi: self.sum(SMI_COUNT),
            ..CounterSample::default()
        }
    }

    /// The same, with the limits of this process's control groups.
    pub fn sample_with_limits(&self) -> CounterSample {
        CounterSample { periods: cgroup::throttled_periods(&Root::here()), ..self.sample() }
    }

    /// All counters that can be read.
    pub fn sample_all(&self) -> CounterSample {
        let condition = machine::condition();
        let root = Root::here();
        let source = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        let smi = self.sum(SMI_COUNT);
        let mut missing: Vec<Note> = self.missing.iter().cloned().collect();
        if smi.is_none() && self.missing.is_none() {
            missing.push(Note::new("smi-counter-no-msr"));
        }
        if condition.steal_ns.is_none() {
            missing.push(Note::new("steal-time-not-counted"));
        }
        CounterSample {
            steal_ns: condition.steal_ns,
            smi,
            periods: None,
            performance: self.sum(APERF).zip(self.sum(MPERF)),
            khz: condition.khz,
            clock_source: root.word(source),
            missing,
        }
    }
}

impl CounterSample {
    /// Why counters are missing.
    pub fn missing(&self) -> &[Note] {
        &self.missing
    }

    /// Steal time and SMIs since an earlier sample.
    pub fn delta(&self, before: &Self) -> (Option<u64>, Option<u64>) {
        let grown = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        (grown(self.steal_ns, before.steal_ns), grown(self.smi, before.smi))
    }

    /// Whether this process's control groups had no runtime left at the end of each of their periods since an earlier
    /// sample; `None`: in a part of them, or it is not known. On several CPUs one of them is enough for the
    /// kernel's count, and it may be another one: there only that it never was so is known.
    pub fn throttled(&self, before: &Self) -> Option<bool> {
        self.throttled_on(before, || machine::online_cpus().len())
    }

    fn throttled_on(&self, before: &Self, cpus: impl FnOnce() -> usize) -> Option<bool> {
        let (now, then) = (self.periods?, before.periods?);
        match (now.0.wrapping_sub(then.0), now.1.wrapping_sub(then.1)) {
            (_, 0) => Some(false),
            (periods, throttled) => (throttled == periods && cpus() == 1).then_some(true),
        }
    }

    /// Fills in what changed between two samples.
    pub fn describe_change(before: &Self, after: &Self, around: &mut SystemContext) {
        (around.steal_ns, around.smi) = after.delta(before);
        let khz = || before.khz.iter().chain(&after.khz).copied().filter(|&k| k > 0);
        around.khz = khz().min().zip(khz().max());
        around.speed = match (before.performance, after.performance) {
            (Some((a0, m0)), Some((a1, m1))) if m1 > m0 && a1 > a0 => {
                Some((a1 - a0) as f64 / (m1 - m0) as f64)
            }
            _ => None,
        };
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
    fn two_samples_give_what_passed_between_them() {
        let before = CounterSample {
            steal_ns: Some(1_000),
            smi: Some(7),
            periods: None,
            performance: Some((100, 100)),
            khz: vec![1_000_000],
            clock_source: Some("tsc".into()),
            missing: vec![],
        };
        let after = CounterSample {
            steal_ns: Some(11_000),
            smi: Some(9),
            periods: None,
            performance: Some((150, 200)),
            khz: vec![600_000],
            clock_source: Some("hpet".into()),
            missing: vec![Note::new("smi-counter-no-msr")],
        };
        let mut around = SystemContext::default();
        CounterSample::describe_change(&before, &after, &mut around);
        assert_eq!((around.steal_ns, around.smi), (Some(10_000), Some(2)));
        assert_eq!(around.khz, Some((600_000, 1_000_000)));
        assert_eq!(around.speed, Some(0.5));
        assert_eq!(around.clock_source, Some(("tsc".into(), "hpet".into())));
        assert_eq!(around.missing, [Note::new("smi-counter-no-msr")]);
    }

    #[test]
    fn a_group_was_throttled_in_each_period_or_in_none_or_it_is_not_known() {
        let throttled = |before, after, cpus| {
            let of = |periods| CounterSample { periods, ..CounterSample::default() };
            of(after).throttled_on(&of(before), || cpus)
        };
        assert_eq!(throttled(Some((0, 0)), Some((0, 0)), 4), Some(false), "no group has a limit");
        assert_eq!(throttled(Some((10, 4)), Some((20, 4)), 4), Some(false));
        assert_eq!(throttled(Some((10, 4)), Some((20, 9)), 1), None, "in half of them");
        assert_eq!(throttled(Some((10, 4)), Some((20, 14)), 1), Some(true));
        assert_eq!(throttled(Some((10, 4)), Some((20, 14)), 2), None, "on one of two CPUs");
        assert_eq!(throttled(Some((0, 0)), None, 1), None);
    }

    #[test]
    fn an_unreadable_smi_counter_is_listed() {
        let look = PlatformCounters::open().sample_all();
        let listed = |m: &Note| m.id().is_some_and(|id| id.starts_with("smi-counter"));
        assert!(look.smi.is_some() || look.missing.iter().any(listed));
    }
}
