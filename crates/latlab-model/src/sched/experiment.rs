//! An experiment: tasks of known policy and work that compete for one CPU.

use crate::finding::Note;
use crate::units::CpuId;
use crate::wakeup::config::Policy;
use serde::{Deserialize, Serialize};

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Work {
    /// Products of square matrices of whole numbers, without end.
    Cpu {
        /// Rows and columns.
        size: u32,
    },
    /// Writes and reads blocks of a file of its own, without end.
    Io {
        /// Size of the file in bytes.
        bytes: u64,
        /// Past the page cache (O_DIRECT).
        direct: bool,
    },
}

impl Work {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu { .. } => "cpu",
            Self::Io { direct: false, .. } => "io",
            Self::Io { direct: true, .. } => "io-direct",
        }
    }
    /// Whether it never waits for anything but the CPU.
    pub fn is_cpu(self) -> bool {
        matches!(self, Self::Cpu { .. })
    }
}

/// One task of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellTask {
    /// Its name (`comm`).
    pub name: String,
    /// Its thread id; 0 before it runs.
    #[serde(default)]
    pub tid: i32,
    /// What it does.
    pub work: Work,
    /// Its policy.
    pub policy: Policy,
    /// Real-time priority, 1 to 99; 0 for policies without one.
    #[serde(default)]
    pub priority: u32,
    /// Nice value.
    #[serde(default)]
    pub nice: i32,
    /// Slice that it asks for (EEVDF, Linux 6.12 and later), ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ns: Option<u64>,
    /// Latency nice value, where a kernel knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_nice: Option<i32>,
    /// SCHED_DEADLINE: run time in each period, ns.
    #[serde(default)]
    pub runtime_ns: u64,
    /// SCHED_DEADLINE: period and deadline, ns.
    #[serde(default)]
    pub period_ns: u64,
    /// Weight of the control group that it is alone in, in units of which 1024 is nice 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_weight: Option<u64>,
}

impl CellTask {
    /// Whether it is of the FIFO or RR policy.
    pub fn is_rt(&self) -> bool {
        self.policy.has_priority()
    }
    /// As a table names it: `cpu fifo 90`.
    pub fn label(&self) -> String {
        let how = match self.policy {
            Policy::Fifo | Policy::Rr => format!("{} {}", self.policy, self.priority),
            Policy::Deadline => {
                format!(
                    "deadline {}/{} ms",
                    self.runtime_ns / 1_000_000,
                    self.period_ns / 1_000_000
                )
            }
            _ => format!("{} nice {}", self.policy, self.nice),
        };
        let slice = self
            .slice_ns
            .map_or(String::new(), |s| format!(" slice {}", crate::units::format_ns(s as f64)));
        let group = self.group_weight.map_or(String::new(), |w| format!(" group weight {w}"));
        let latency = self.latency_nice.map_or(String::new(), |l| format!(" latency nice {l}"));
        format!("{} {how}{slice}{group}{latency}", self.work.word())
    }
}

/// What the kernel says of its scheduler; `None` where it cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct KernelFacts {
    /// Release.
    pub release: String,
    /// Ticks a second.
    pub hz: Option<u32>,
    /// `sched_rr_timeslice_ms`.
    pub rr_timeslice_ms: Option<u64>,
    /// `sched_rt_runtime_us`; −1 for no throttling.
    pub rt_runtime_us: Option<i64>,
    /// `sched_rt_period_us`.
    pub rt_period_us: Option<u64>,
    /// Runtime and period of the fair server of the experiment's CPU, ns.
    pub fair_server_ns: Option<(u64, u64)>,
    /// Slice of fair tasks that ask for none, ns.
    pub base_slice_ns: Option<u64>,
}

impl KernelFacts {
    /// Major and minor version.
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.release.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
    /// Whether fair tasks are protected by a deadline server (Linux 6.12) and no longer by
    /// throttling alone; `None` when the version cannot be read.
    pub fn has_fair_server(&self) -> Option<bool> {
        if self.fair_server_ns.is_some() {
            return Some(true);
        }
        Some(self.version()? >= (6, 12))
    }
    /// Share of each period that is kept from real-time tasks, and the period in ns; `None`
    /// where nothing is.
    pub fn reserve(&self) -> Option<(f64, u64)> {
        if let Some((runtime, period)) = self.fair_server_ns {
            return (runtime > 0 && period > 0).then(|| (runtime as f64 / period as f64, period));
        }
        if self.has_fair_server() == Some(true) {
            // The kernel's own figures, where debugfs cannot be read.
            return Some((0.05, 1_000_000_000));
        }
        let (runtime, period) = (self.rt_runtime_us?, self.rt_period_us?);
        let runtime = u64::try_from(runtime).ok()?;
        (runtime < period).then(|| (1.0 - runtime as f64 / period as f64, period * 1000))
    }
    /// Whether nothing keeps a share of a CPU from real-time tasks: neither throttling nor the fair
    /// server. False where it cannot be read, because the kernel's own values keep 5 %.
    pub fn keeps_no_reserve(&self) -> bool {
        if let Some((runtime, _)) = self.fair_server_ns {
            return runtime == 0;
        }
        let period = self.rt_period_us.unwrap_or(1_000_000);
        self.has_fair_server() != Some(true)
            && self
                .rt_runtime_us
                .is_some_and(|runtime| u64::try_from(runtime).map_or(true, |r| r >= period))
    }
    /// Whether real-time tasks that never sleep on the CPUs of `used` leave other tasks no time:
    /// `housekeeping` are the CPUs of all others, such as a login, SSH and the kernel's threads.
    pub fn lets_starve(&self, used: &[CpuId], housekeeping: &[CpuId]) -> bool {
        self.keeps_no_reserve() && housekeeping.iter().all(|cpu| used.contains(cpu))
    }
    /// Length of a tick, ns; of 100 Hz where it is not known.
    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz.unwrap_or(100).max(1))
    }
}

/// One experiment: who competed, under which kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Cell {
    /// Stable name (`cpu-rr-90-90`).
    pub name: String,
    /// Who competed.
    pub tasks: Vec<CellTask>,
    /// On which CPU; `None` where they could not be bound to one.
    pub cpu: Option<u32>,
    /// For how long.
    pub duration_ns: u64,
    /// What the kernel says of itself.
    pub kernel: KernelFacts,
    /// What is not available, and its replacement.
    pub notes: Vec<Note>,
}

impl Cell {
    /// Whether the experiment would leave other tasks no time for as long as it lasts. SCHED_DEADLINE
    /// tasks leave what their budgets leave.
    pub fn starves_others(&self, housekeeping: &[CpuId]) -> bool {
        let used: Vec<CpuId> = self.cpu.map(CpuId).into_iter().collect();
        let budgets: f64 = (self.tasks.iter())
            .filter(|t| t.policy == Policy::Deadline && t.period_ns > 0)
            .map(|t| t.runtime_ns as f64 / t.period_ns as f64)
            .sum();
        let rests = budgets <= 0.95 && !self.tasks.iter().any(CellTask::is_rt);
        !rests && self.kernel.lets_starve(&used, housekeeping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(cpu: u32, policy: Policy, runtime_ns: u64) -> Cell {
        let task = CellTask {
            name: "a".into(),
            tid: 0,
            work: Work::Cpu { size: 64 },
            policy,
            priority: 0,
            nice: 0,
            slice_ns: None,
            latency_nice: None,
            runtime_ns,
            period_ns: 100,
            group_weight: None,
        };
        let kernel = KernelFacts {
            release: "6.1.0".into(),
            rt_runtime_us: Some(-1),
            rt_period_us: Some(1_000_000),
            ..KernelFacts::default()
        };
        Cell { cpu: Some(cpu), tasks: vec![task], kernel, ..Cell::default() }
    }

    #[test]
    fn others_starve_only_on_their_last_cpu_without_reserve() {
        let (one, two) = ([CpuId(0)], [CpuId(0), CpuId(1)]);
        assert!(cell(0, Policy::Fifo, 0).starves_others(&one));
        assert!(cell(0, Policy::Rr, 0).starves_others(&one));
        assert!(!cell(0, Policy::Other, 0).starves_others(&one));
        assert!(!cell(0, Policy::Fifo, 0).starves_others(&two));
        // The other CPU is isolated: nothing else runs there.
        assert!(!cell(1, Policy::Fifo, 0).starves_others(&one));
        assert!(!cell(0, Policy::Deadline, 95).starves_others(&one));
        assert!(cell(0, Policy::Deadline, 96).starves_others(&one));
    }

    #[test]
    fn throttling_the_fair_server_and_what_is_unknown_keep_a_reserve() {
        let with = |change: fn(&mut KernelFacts)| {
            let mut cell = cell(0, Policy::Fifo, 0);
            change(&mut cell.kernel);
            cell.starves_others(&[CpuId(0)])
        };
        assert!(!with(|k| k.rt_runtime_us = Some(950_000)));
        assert!(with(|k| k.rt_runtime_us = Some(1_000_000)));
        assert!(!with(|k| k.rt_runtime_us = None));
        assert!(!with(|k| k.release = "6.12.1".into()));
        assert!(!with(|k| k.fair_server_ns = Some((50, 1000))));
        assert!(with(|k| k.fair_server_ns = Some((0, 1000))));
    }

    #[test]
    fn the_reserve_is_the_servers_or_the_throttles() {
        let mut facts =
            KernelFacts { release: "6.1.0-50-rt-armmp".into(), ..KernelFacts::default() };
        assert_eq!(facts.version(), Some((6, 1)));
        assert_eq!(facts.reserve(), None);
        (facts.rt_runtime_us, facts.rt_period_us) = (Some(950_000), Some(1_000_000));
        let (share, period) = facts.reserve().unwrap();
        assert!((share - 0.05).abs() < 1e-9 && period == 1_000_000_000);
        facts.rt_runtime_us = Some(-1);
        assert_eq!(facts.reserve(), None);
        facts.release = "6.18.44".into();
        assert_eq!(facts.reserve(), Some((0.05, 1_000_000_000)));
        facts.fair_server_ns = Some((0, 1_000_000_000));
        assert_eq!(facts.reserve(), None);
    }
}
