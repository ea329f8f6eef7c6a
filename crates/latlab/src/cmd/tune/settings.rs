//! Settings that may be tried: those here and no others, with the values that cannot lock a machine.

use super::means::Means;
use crate::outcome::HintExt;
use anyhow::{anyhow, bail};
use latlab_model::cpulist;
#[cfg(feature = "host")]
use latlab_model::tune::FileValue;
use std::fs;
use std::path::{Path, PathBuf};

/// A setting that was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// As on the command line.
    pub name: String,
    /// Settings of the list with their value; empty for `idle`.
    pub settings: Vec<(&'static Known, String)>,
    /// Boot parameters.
    pub parameters: Vec<String>,
    /// Idle states are left out by `/dev/cpu_dma_latency`.
    pub idle: bool,
}

impl Chosen {
    /// All of these at once.
    ///
    /// # Errors
    /// When two of them set the same file or parameter.
    pub fn together(all: &[Self]) -> anyhow::Result<Self> {
        let mut joint = Self::default();
        let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
        joint.name = names.join("+");
        let twice = |what: &str| {
            Err(anyhow!("{}: both set {what}", names.join("+")))
                .hint("try values of one setting one by one")
        };
        for one in all {
            for (known, value) in &one.settings {
                if joint.settings.iter().any(|(k, v)| known.meets(value, k, v)) {
                    return twice(if known.files.is_empty() { known.name } else { known.files });
                }
                joint.settings.push((known, value.clone()));
            }
            for parameter in &one.parameters {
                let name = |p: &String| p.split('=').next().map(str::to_owned);
                if joint.parameters.iter().any(|p| name(p) == name(parameter)) {
                    return twice(parameter);
                }
                joint.parameters.push(parameter.clone());
            }
            joint.idle |= one.idle;
        }
        Ok(joint)
    }

    /// Its files on any machine, with patterns; what they had before is not known.
    #[cfg(feature = "host")]
    pub fn patterns(&self) -> Vec<FileValue> {
        let of = |(known, value): &(&Known, String)| match known.means {
            Means::Files => FileValue {
                path: known.files.to_owned(),
                value: value.clone(),
                ..FileValue::default()
            },
            means => means.pattern(value),
        };
        self.settings.iter().map(of).collect()
    }

    /// Shell commands that set it in a machine, and fail where that is not possible; a setting that fails is named.
    /// Commands that undo it are added to the file `$u`.
    #[cfg(any(test, feature = "host"))]
    pub fn script(&self) -> String {
        let mut script = String::new();
        for (known, value) in &self.settings {
            if known.means != Means::Files {
                script += &known.means.script(known.name, value);
                continue;
            }
            let files = known.files;
            if files.starts_with("/sys/kernel/debug/") {
                script += "mount -t debugfs none /sys/kernel/debug 2>/dev/null; ";
            }
            // One interrupt that cannot be moved is no error.
            let failed = if known.may_refuse { ":" } else { "s=; break" };
            script += &format!(
                "s=; for f in {files}; do [ -e $f ] || continue; o=$(cat $f); case $o in *\\[*) o=${{o#*[}}; o=${{o%%]*}};; esac; if echo {value} 2>/dev/null >$f; then echo \"echo '$o' >$f\" >>$u; s=1; else {failed}; fi; done; [ $s ] || {{ echo \"{}: cannot be set here\" >&2; exit 1; }}; ",
                known.name
            );
        }
        script
    }
}

/// A setting of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Name.
    pub name: &'static str,
    /// Files, with one `*` at most; empty for `idle` and for what is set by other means.
    pub files: &'static str,
    /// How it is set.
    pub means: Means,
    /// Values that are permitted; the first is tried by default. None: those that are named on the command line.
    pub values: &'static [&'static str],
    /// What it does.
    pub what: &'static str,
    /// Some of its files may refuse the value.
    pub may_refuse: bool,
    /// Tried only where it is named: it is about sockets or files, and not about wake-ups.
    pub named_only: bool,
}

const fn known(
    name: &'static str,
    files: &'static str,
    values: &'static [&'static str],
    what: &'static str,
) -> Known {
    Known { name, files, means: Means::Files, values, what, may_refuse: false, named_only: false }
}

const fn named(
    name: &'static str,
    files: &'static str,
    values: &'static [&'static str],
    what: &'static str,
) -> Known {
    Known { named_only: true, ..known(name, files, values, what) }
}

const fn by(means: Means, name: &'static str, what: &'static str) -> Known {
    Known { means, ..known(name, "", &[], what) }
}

/// All of them.
pub const KNOWN: &[Known] = &[
    known("idle", "", &["shallow"], "no idle state with an exit latency"),
    known(
        "governor",
        "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
        &["performance", "powersave", "schedutil", "ondemand"],
        "CPU frequency",
    ),
    known(
        "kernel.timer_migration",
        "/proc/sys/kernel/timer_migration",
        &["0", "1"],
        "timers of idle CPUs move to busy ones",
    ),
    known(
        "kernel.nmi_watchdog",
        "/proc/sys/kernel/nmi_watchdog",
        &["0", "1"],
        "hard lockup detector",
    ),
    known(
        "kernel.soft_watchdog",
        "/proc/sys/kernel/soft_watchdog",
        &["0", "1"],
        "soft lockup detector",
    ),
    known(
        "kernel.numa_balancing",
        "/proc/sys/kernel/numa_balancing",
        &["0", "1"],
        "page migration between nodes",
    ),
    known(
        "kernel.sched_autogroup_enabled",
        "/proc/sys/kernel/sched_autogroup_enabled",
        &["0", "1"],
        "groups of sessions",
    ),
    known(
        "kernel.sched_rt_runtime_us",
        "/proc/sys/kernel/sched_rt_runtime_us",
        &["990000", "950000"],
        "share of real-time tasks",
    ),
    known(
        "vm.stat_interval",
        "/proc/sys/vm/stat_interval",
        &["10", "1", "120"],
        "statistics work on each CPU, seconds",
    ),
    known(
        "vm.compaction_proactiveness",
        "/proc/sys/vm/compaction_proactiveness",
        &["0", "20"],
        "background compaction",
    ),
    known(
        "vm.compact_unevictable_allowed",
        "/proc/sys/vm/compact_unevictable_allowed",
        &["0", "1"],
        "locked pages may be moved",
    ),
    named(
        "kernel.hung_task_timeout_secs",
        "/proc/sys/kernel/hung_task_timeout_secs",
        &["600", "120"],
        "detector of hung tasks, seconds",
    ),
    named(
        "net.core.busy_read",
        "/proc/sys/net/core/busy_read",
        &["50", "0"],
        "reads of a socket poll its device, µs",
    ),
    named(
        "net.core.busy_poll",
        "/proc/sys/net/core/busy_poll",
        &["50", "0"],
        "poll and select poll the device, µs",
    ),
    named(
        "net.ipv4.tcp_fastopen",
        "/proc/sys/net/ipv4/tcp_fastopen",
        &["3", "1"],
        "data in the first packet of TCP",
    ),
    named(
        "vm.dirty_ratio",
        "/proc/sys/vm/dirty_ratio",
        &["10", "20", "40"],
        "memory of unwritten data at which a writer waits, %",
    ),
    named(
        "vm.dirty_background_ratio",
        "/proc/sys/vm/dirty_background_ratio",
        &["3", "5", "10"],
        "memory of unwritten data at which writing begins, %",
    ),
    known(
        "ignore_ce",
        "/sys/devices/system/machinecheck/machinecheck*/ignore_ce",
        &["1", "0"],
        "no polling for corrected errors (x86)",
    ),
    known("vm.swappiness", "/proc/sys/vm/swappiness", &["10", "0", "60"], "swapping"),
    known(
        "thp",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        &["never", "madvise", "always"],
        "transparent huge pages",
    ),
    known(
        "khugepaged",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        &["0", "1"],
        "khugepaged compacts",
    ),
    known("ksm", "/sys/kernel/mm/ksm/run", &["0", "1"], "merging of equal pages"),
    Known {
        may_refuse: true,
        ..known(
            IRQS,
            "/proc/irq/*/smp_affinity_list",
            &[],
            "CPUs of the interrupts that can be moved",
        )
    },
    known(WORKQUEUE, "/sys/devices/virtual/workqueue/cpumask", &[], "CPUs of unbound work items"),
    known("rcu_expedited", "/sys/kernel/rcu_expedited", &["1", "0"], "short grace periods of RCU"),
    known("rcu_normal", "/sys/kernel/rcu_normal", &["1", "0"], "no short grace periods of RCU"),
    known(
        "fair-server",
        "/sys/kernel/debug/sched/fair_server/cpu*/runtime",
        &["10000000", "50000000"],
        "time of ordinary tasks beside real-time ones, ns a second (from 6.12 on)",
    ),
    by(Means::Threads, "irq-threads", "SCHED_FIFO priority of the threads of interrupts"),
    by(Means::Coalescing, "coalescing", "delay of the interrupt of received packets, µs"),
    by(Means::Partition, "cpuset", "CPUs for the measured tasks alone (an isolated partition)"),
];

/// Its value is a list of CPUs.
const IRQS: &str = "irq-affinity";
/// Its value is a mask of CPUs.
const WORKQUEUE: &str = "workqueue-affinity";

impl Known {
    /// Its files on this machine.
    pub fn paths(&self) -> Vec<PathBuf> {
        match self.files.split_once('*') {
            None if self.files.is_empty() => Vec::new(),
            None => Some(PathBuf::from(self.files)).filter(|p| p.exists()).into_iter().collect(),
            Some((before, after)) => {
                let (dir, prefix) = before.rsplit_once('/').unwrap_or(("/", before));
                let entries = fs::read_dir(dir).into_iter().flatten().flatten();
                let fits = entries.filter(|e| e.file_name().to_string_lossy().starts_with(prefix));
                let mut paths: Vec<PathBuf> =
                    fits.map(|e| e.path().join(after.trim_start_matches('/'))).collect();
                paths.retain(|p| p.exists());
                paths.sort();
                paths
            }
        }
    }

    /// Whether this machine has it.
    pub fn exists(&self) -> bool {
        match (self.means, self.files.is_empty()) {
            (Means::Files, true) => Path::new("/dev/cpu_dma_latency").exists(),
            (Means::Files, false) => !self.paths().is_empty(),
            (means, _) => means.exists(),
        }
    }

    /// Whether both would set the same: one setting, or priorities and coalescing of one name.
    fn meets(&self, value: &str, other: &Self, others: &str) -> bool {
        self.name == other.name && self.means.meets(value, others)
    }

    fn chosen(&'static self, value: &str) -> Chosen {
        let name = format!("{}={value}", self.name);
        if self.means == Means::Files && self.files.is_empty() {
            return Chosen { name, idle: true, ..Chosen::default() };
        }
        let cpus = || cpulist::parse(value).unwrap_or_default();
        let value = match self.name {
            WORKQUEUE => mask(&cpus()),
            IRQS => cpulist::format(&cpus()),
            _ => value.to_owned(),
        };
        Chosen { name, settings: vec![(self, value)], ..Chosen::default() }
    }

    /// Whether it takes this value.
    fn takes(&self, value: &str) -> bool {
        if self.means != Means::Files {
            return self.means.takes(value);
        }
        match self.values {
            // A comma ends the option of a machine.
            [] => !value.contains(',') && cpulist::parse(value).is_ok_and(|l| !l.is_empty()),
            values => values.contains(&value),
        }
    }

    /// The values that it takes, for sentences.
    pub fn expected(&self) -> String {
        match self.values {
            [] => self.means.expected().to_owned(),
            values => values.join(", "),
        }
    }
}

/// CPUs as a mask of the kernel: hexadecimal, 32 bits a word.
fn mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |m| m / 32 + 1);
    let word = |w: u32| {
        let bits = cpus.iter().filter(|c| *c / 32 == w).fold(0u32, |all, c| all | 1 << (c % 32));
        format!("{bits:08x}")
    };
    (0..words).rev().map(word).collect::<Vec<_>>().join(",")
}

/// The value that a setting's file has; of a list with brackets the one in them.
pub fn value(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let chosen = text.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0));
    Some(chosen.unwrap_or(text.trim()).to_owned())
}

/// Settings by the words of the command line, `A+B` at once; without any, all whose first value this machine does not have.
///
/// # Errors
/// One sentence that names the setting.
pub fn choose(words: &[String]) -> anyhow::Result<Vec<Chosen>> {
    if words.is_empty() {
        let differs = |k: &&'static Known| {
            let values = k.paths();
            !k.named_only
                && k.exists()
                && !k.values.is_empty()
                && (values.is_empty()
                    || values.iter().any(|p| value(p).as_deref() != k.values.first().copied()))
        };
        let all = KNOWN.iter().filter(differs);
        return Ok(all.filter_map(|k| Some(k.chosen(k.values.first()?))).collect());
    }
    let mut out: Vec<Chosen> = Vec::new();
    for word in words {
        let parts = word.split('+').map(here).collect::<anyhow::Result<Vec<_>>>()?;
        let one = Chosen::together(&parts)?;
        if out.iter().any(|c| c.name == one.name) {
            bail!("--try {word}: given twice");
        }
        out.push(one);
    }
    Ok(out)
}

/// Whether `NAME` or `NAME=VALUE` begins with a setting that is tried, and no boot parameter has its value.
#[cfg(feature = "host")]
pub fn is_known(word: &str) -> bool {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    KNOWN.iter().any(|k| k.name == name && (name != "idle" || k.takes(value)))
}

/// A setting by its word; the machine that it is for may lack it.
///
/// # Errors
/// One sentence that names the setting.
pub fn one(word: &str) -> anyhow::Result<(&'static Known, Chosen)> {
    let Some((name, value)) = word.split_once('=') else {
        return Err(anyhow!("--try {word}: expected NAME=VALUE"))
            .hint("latlab tune --list names them");
    };
    let known = KNOWN.iter().find(|k| k.name == name).ok_or_else(|| {
        anyhow!("--try {name}: not a setting that is tried; others can make a machine unreachable")
    });
    let known = known.hint("latlab tune --list names those that are")?;
    if !known.takes(value) {
        match known.values.is_empty() {
            true => bail!("--try {word}: expected {}", known.expected()),
            false => bail!("--try {word}: expected one of {}", known.expected()),
        }
    }
    Ok((known, known.chosen(value)))
}

/// The same, which this machine has.
fn here(word: &str) -> anyhow::Result<Chosen> {
    let (known, chosen) = one(word)?;
    if !known.exists() {
        bail!("--try {word}: this machine does not have it");
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_the_list_with_their_values_are_tried() {
        for wrong in ["kernel.sched_rt_runtime_us=-1", "kernel.panic=1", "governor", "idle=deep"] {
            assert!(choose(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_are_tried_at_once_unless_they_set_one_file() {
        let word = |w: &str| choose(&[w.to_owned()]);
        let both = word("vm.swappiness=10+vm.stat_interval=10").unwrap();
        assert_eq!((both[0].settings.len(), both[0].idle), (2, false));
        let same = word("vm.swappiness=10+vm.swappiness=0").unwrap_err().to_string();
        assert!(same.contains("both set /proc/sys/vm/swappiness"), "{same}");
    }

    #[test]
    fn priorities_of_two_interrupts_are_set_at_once_and_of_one_are_not() {
        let word = |w: &str| one(w).map(|(_, c)| c);
        let together = |a: &str, b: &str| Chosen::together(&[word(a).unwrap(), word(b).unwrap()]);
        assert!(together("irq-threads=eth0:80", "irq-threads=mmc0:40").is_ok());
        assert!(together("irq-threads=eth0:80", "irq-threads=eth0:40").is_err());
        assert!(together("irq-threads=eth0:80", "irq-threads=40").is_err());
        assert!(together("cpuset=1", "cpuset=2").is_err());
        for wrong in [
            "irq-threads=",
            "irq-threads=99",
            "irq-threads=eth0:0",
            "irq-threads=a b:3",
            "coalescing=eth0",
            "coalescing=eth0:1001",
            "coalescing=../x:1",
            "cpuset=",
            "cpuset=0,1",
        ] {
            let error = format!("{:#}", one(wrong).map(drop).unwrap_err());
            assert!(error.contains("expected"), "{wrong}: {error}");
        }
    }

    #[test]
    fn masks_of_cpus_are_those_of_the_kernel() {
        assert_eq!(mask(&[0, 1, 3]), "0000000b");
        assert_eq!(mask(&[33]), "00000002,00000000");
        let (_, chosen) = one("workqueue-affinity=0-2").unwrap();
        assert_eq!(chosen.settings[0].1, "00000007");
        assert!(one("irq-affinity=0,1").is_err() && one("irq-affinity=").is_err());
    }

    /// The commands for a machine, run by this machine's shell on files of its own.
    #[test]
    fn scripts_set_all_files_or_say_which_setting_cannot_be_set() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().display().to_string();
        let run = |may_refuse: bool, files: &str| {
            let files: &'static str = format!("{root}/{files}").leak();
            let known = Known { may_refuse, ..known("some", files, &["7"], "") };
            let known: &'static Known = Box::leak(Box::new(known));
            let script = format!("u={root}/undo; {}exit 0", known.chosen("7").script());
            std::process::Command::new("sh").args(["-c", &script]).output().unwrap()
        };
        for name in ["a1", "a2"] {
            fs::write(dir.path().join(name), "0\n").unwrap();
        }
        // A directory refuses what is written to it.
        fs::create_dir(dir.path().join("b1")).unwrap();
        fs::write(dir.path().join("b2"), "0").unwrap();
        assert!(run(false, "a*").status.success());
        let a2 = || fs::read_to_string(dir.path().join("a2")).unwrap();
        assert_eq!(a2(), "7\n");
        let undo =
            || std::process::Command::new("sh").arg(dir.path().join("undo")).status().unwrap();
        assert!(undo().success() && a2() == "0\n", "{}", a2());
        // Of a list the word in brackets is put back.
        fs::write(dir.path().join("a2"), "always [madvise] never\n").unwrap();
        assert!(run(false, "a2").status.success() && undo().success());
        assert_eq!(a2(), "madvise\n");
        for (may_refuse, files, success) in [
            (false, "b*", false),
            (true, "b*", true),
            (false, "b1", false),
            (true, "b1", false),
            (true, "c*", false),
        ] {
            let out = run(may_refuse, files);
            assert_eq!(out.status.success(), success, "{files}");
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(said.contains("some: cannot be set here"), !success, "{said}");
        }
    }

    #[test]
    fn the_value_in_brackets_is_the_chosen_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "always [madvise] never\n").unwrap();
        assert_eq!(value(file.path()).as_deref(), Some("madvise"));
    }
}
