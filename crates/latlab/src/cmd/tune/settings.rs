//! Settings that may be tried: those here and no others, with the values that cannot lock a machine.

use crate::outcome::HintExt;
use anyhow::{anyhow, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A setting that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// As on the command line.
    pub name: String,
    /// Files and values.
    pub files: Vec<(PathBuf, String)>,
    /// Idle states are left out by `/dev/cpu_dma_latency`.
    pub idle: bool,
}

impl Chosen {
    /// All of these at once.
    ///
    /// # Errors
    /// When two of them set the same file.
    pub fn together(all: &[Self]) -> anyhow::Result<Self> {
        let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
        let name = names.join("+");
        let mut files: Vec<(PathBuf, String)> = Vec::new();
        for (path, value) in all.iter().flat_map(|c| &c.files) {
            if files.iter().any(|(known, _)| known == path) {
                return Err(anyhow!("{name}: both set {}", path.display()))
                    .hint("try values of one setting one by one");
            }
            files.push((path.clone(), value.clone()));
        }
        Ok(Self { name, files, idle: all.iter().any(|c| c.idle) })
    }
}

/// A setting of the list.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Name.
    pub name: &'static str,
    /// Files, with one `*` at most; empty for `idle`.
    pub files: &'static str,
    /// Values that are permitted; the first is tried by default.
    pub values: &'static [&'static str],
    /// What it does.
    pub what: &'static str,
}

const fn known(
    name: &'static str,
    files: &'static str,
    values: &'static [&'static str],
    what: &'static str,
) -> Known {
    Known { name, files, values, what }
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
];

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
        match self.files.is_empty() {
            true => Path::new("/dev/cpu_dma_latency").exists(),
            false => !self.paths().is_empty(),
        }
    }

    fn chosen(&self, value: &str) -> Chosen {
        let files = self.paths().into_iter().map(|p| (p, value.to_owned()));
        Chosen {
            name: format!("{}={value}", self.name),
            files: files.collect(),
            idle: self.files.is_empty(),
        }
    }
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
        let differs = |k: &&Known| {
            let values = k.paths();
            k.exists()
                && (values.is_empty()
                    || values.iter().any(|p| value(p).as_deref() != k.values.first().copied()))
        };
        let all = KNOWN.iter().filter(differs);
        return Ok(all.filter_map(|k| Some(k.chosen(k.values.first()?))).collect());
    }
    let mut out: Vec<Chosen> = Vec::new();
    for word in words {
        let parts = word.split('+').map(one).collect::<anyhow::Result<Vec<_>>>()?;
        let one = Chosen::together(&parts)?;
        if out.iter().any(|c| c.name == one.name) {
            bail!("--try {word}: given twice");
        }
        out.push(one);
    }
    Ok(out)
}

/// Whether `NAME` or `NAME=VALUE` begins with a setting that is tried.
pub fn is_known(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    KNOWN.iter().any(|k| k.name == name)
}

fn one(word: &str) -> anyhow::Result<Chosen> {
    let Some((name, value)) = word.split_once('=') else {
        return Err(anyhow!("--try {word}: expected NAME=VALUE"))
            .hint("latlab tune --list names them");
    };
    let known = KNOWN.iter().find(|k| k.name == name).ok_or_else(|| {
        anyhow!("--try {name}: not a setting that is tried; others can make a machine unreachable")
    });
    let known = known.hint("latlab tune --list names those that are")?;
    if !known.values.contains(&value) {
        bail!("--try {word}: expected one of {}", known.values.join(", "));
    }
    if !known.exists() {
        bail!("--try {word}: this machine does not have it");
    }
    Ok(known.chosen(value))
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
        assert_eq!((both[0].files.len(), both[0].idle), (2, false));
        let same = word("vm.swappiness=10+vm.swappiness=0").unwrap_err().to_string();
        assert!(same.contains("both set /proc/sys/vm/swappiness"), "{same}");
    }

    #[test]
    fn the_value_in_brackets_is_the_chosen_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "always [madvise] never\n").unwrap();
        assert_eq!(value(file.path()).as_deref(), Some("madvise"));
    }
}
