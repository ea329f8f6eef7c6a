//! How a setting is set that is no file with one value: threads of interrupts, coalescing, a partition of CPUs.

use anyhow::{Context, anyhow, bail};
use latlab_model::cpulist;
use latlab_model::tune::FileValue;
use latlab_sys::settings::{InterruptThread, Settings, interrupt_threads};
use std::fs;
use std::path::{Path, PathBuf};

/// How a setting is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Its value is written to its files.
    Files,
    /// `[NAME:]PRIORITY`: the policy of threads named `irq/N-NAME`, or of all.
    Threads,
    /// `INTERFACE:US`: the ioctl of ethtool.
    Coalescing,
    /// A control group of version 2 with these CPUs, which the measured tasks are in.
    Partition,
}

/// Delay of an interrupt at most, µs: more is no latency that anybody tries.
const DELAY_MAX: u32 = 1_000;
/// Name of the group.
const GROUP: &str = "latlab-tune";

impl Means {
    /// What a value looks like, for sentences.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Files | Self::Partition => "CPUS (such as 1 or 0-2)",
            Self::Threads => "[NAME:]PRIORITY (1 to 98, such as eth0:80)",
            Self::Coalescing => "INTERFACE:US (0 to 1000, such as eth0:0)",
        }
    }

    /// Whether it is a value.
    pub fn takes(self, value: &str) -> bool {
        match self {
            // A comma ends the option of a machine.
            Self::Files | Self::Partition => {
                !value.contains(',') && cpulist::parse(value).is_ok_and(|l| !l.is_empty())
            }
            Self::Threads => priority_of(value).is_some(),
            Self::Coalescing => delay_of(value).is_some(),
        }
    }

    /// Whether two values set the same thing.
    pub fn meets(self, a: &str, b: &str) -> bool {
        let name = |value: &str| value.rsplit_once(':').map(|(name, _)| name.to_owned());
        match (self, name(a), name(b)) {
            (Self::Threads | Self::Coalescing, Some(a), Some(b)) => a == b,
            _ => true,
        }
    }

    /// Whether this machine has it.
    pub fn exists(self) -> bool {
        match self {
            Self::Files => false,
            Self::Threads => !interrupt_threads().is_empty(),
            Self::Coalescing => fs::read_dir("/sys/class/net")
                .is_ok_and(|all| all.flatten().any(|e| e.path().join("device").exists())),
            Self::Partition => root().is_some(),
        }
    }

    /// What it is in a machine that was booted: nothing is known of its threads.
    #[cfg(feature = "host")]
    pub fn pattern(self, value: &str) -> FileValue {
        let (path, command) = match self {
            Self::Files => (String::new(), None),
            Self::Threads => {
                let (name, priority) = priority_of(value).unwrap_or_default();
                let threads = format!("irq/*-{}", name.unwrap_or("*"));
                let pattern =
                    name.map_or_else(|| "^irq/".to_owned(), |n| format!("^irq/[0-9]*-{n}"));
                (threads, Some(chrt(priority, &pattern)))
            }
            Self::Coalescing => {
                let (interface, us) = delay_of(value).unwrap_or_default();
                (interface.to_owned(), Some(ethtool(interface, us)))
            }
            Self::Partition => ("cpuset.cpus.partition".to_owned(), Some(partition(value))),
        };
        FileValue { path, value: value.to_owned(), before: String::new(), command }
    }

    /// Sets it on this machine; `Settings` undoes it.
    ///
    /// # Errors
    /// When the kernel or the driver refuses it, or nothing here has it.
    pub fn set(self, value: &str, settings: &mut Settings) -> anyhow::Result<Vec<FileValue>> {
        match self {
            Self::Files => Ok(Vec::new()),
            Self::Threads => set_threads(value, settings),
            Self::Coalescing => set_coalescing(value, settings),
            Self::Partition => set_partition(value, settings),
        }
    }

    /// Shell commands that set it in a machine, and fail where that is not possible.
    #[cfg(any(test, feature = "host"))]
    pub fn script(self, name: &str, value: &str) -> String {
        let failed = format!("{{ echo \"{name}: cannot be set here\" >&2; exit 1; }}; ");
        match self {
            Self::Files => String::new(),
            Self::Threads => {
                let (thread, priority) = priority_of(value).unwrap_or_default();
                let thread = thread.unwrap_or_default();
                format!(
                    "latlab set-priority --priority {priority} --interrupt '{thread}' >>$u || {failed}"
                )
            }
            Self::Coalescing => format!("false || {failed}"),
            Self::Partition => format!(
                "g=/sys/fs/cgroup; {{ [ -e $g/cgroup.procs ] || mount -t cgroup2 none $g; }} && echo +cpuset >$g/cgroup.subtree_control && mkdir $g/{GROUP} && echo \"rmdir $g/{GROUP}\" >>$u && echo {value} >$g/{GROUP}/cpuset.cpus && echo isolated >$g/{GROUP}/cpuset.cpus.partition && grep -qx isolated $g/{GROUP}/cpuset.cpus.partition && echo 0 >$g/{GROUP}/cgroup.procs || {failed}"
            ),
        }
    }
}

/// `[NAME:]PRIORITY`.
fn priority_of(value: &str) -> Option<(Option<&str>, u32)> {
    let (name, priority) = match value.rsplit_once(':') {
        Some((name, priority)) => (Some(name), priority),
        None => (None, value),
    };
    let priority = priority.parse().ok().filter(|p| (1..=98).contains(p))?;
    (name.is_none_or(is_name)).then_some((name, priority))
}

/// `INTERFACE:US`.
fn delay_of(value: &str) -> Option<(&str, u32)> {
    let (interface, us) = value.rsplit_once(':')?;
    let us = us.parse().ok().filter(|us| *us <= DELAY_MAX)?;
    is_name(interface).then_some((interface, us))
}

/// A name that a shell, an option and a path take as it is.
fn is_name(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.:".contains(&b);
    !name.is_empty()
        && name.len() <= 15
        && !name.starts_with(['-', '.'])
        && name.bytes().all(is_plain)
}

fn chrt(priority: u32, pattern: &str) -> String {
    format!("for t in $(pgrep '{pattern}'); do chrt -f -p {priority} $t; done")
}

fn ethtool(interface: &str, us: u32) -> String {
    format!("ethtool -C {interface} adaptive-rx off rx-usecs {us}")
}

fn partition(cpus: &str) -> String {
    format!(
        "systemd-run --unit=realtime.service -p AllowedCPUs={cpus} COMMAND; echo isolated > /sys/fs/cgroup/system.slice/realtime.service/cpuset.cpus.partition"
    )
}

fn set_threads(value: &str, settings: &mut Settings) -> anyhow::Result<Vec<FileValue>> {
    let (name, priority) = priority_of(value).ok_or_else(|| anyhow!("expected [NAME:]PRIORITY"))?;
    let all = interrupt_threads();
    let fits = |t: &&InterruptThread| name.is_none_or(|n| t.is_of(n));
    let mut files = Vec::new();
    for thread in all.iter().filter(fits) {
        let change = settings.set_interrupt_priority(&thread.path, priority)?;
        files.push(FileValue {
            path: thread.name.clone(),
            value: change.now,
            before: change.from,
            command: Some(chrt(priority, &format!("^{}$", thread.name))),
        });
    }
    match (files.is_empty(), name) {
        (false, _) => Ok(files),
        (true, None) => {
            bail!("no interrupt has a thread here: a kernel with PREEMPT_RT or threadirqs has them")
        }
        (true, Some(name)) => {
            let names: Vec<&str> = all.iter().map(|t| t.name.as_str()).collect();
            bail!("no interrupt {name} has a thread here; there are {}", or_none(&names))
        }
    }
}

fn or_none(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn set_coalescing(value: &str, settings: &mut Settings) -> anyhow::Result<Vec<FileValue>> {
    let (interface, us) = delay_of(value).ok_or_else(|| anyhow!("expected INTERFACE:US"))?;
    let path = Path::new("/sys/class/net").join(interface);
    if !path.exists() {
        bail!("no network interface {interface} here");
    }
    let change = settings
        .set_coalescing(&path, us)
        .with_context(|| format!("the driver of {interface} does not change its coalescing"))?;
    Ok(vec![FileValue {
        path: format!("{interface} (ethtool -C)"),
        value: change.now,
        before: change.from,
        command: Some(ethtool(interface, us)),
    }])
}

/// Where control groups of version 2 are that have the controller.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mut places = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    });
    places.find(|place| has_cpuset(&place.join("cgroup.controllers")))
}

fn has_cpuset(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().any(|c| c == "cpuset")
}

/// This process and its children run on these CPUs then, and nobody else does.
fn set_partition(cpus: &str, settings: &mut Settings) -> anyhow::Result<Vec<FileValue>> {
    let root = root().ok_or_else(|| {
        anyhow!("no control groups of version 2 with the controller cpuset are mounted here")
    })?;
    let control = root.join("cgroup.subtree_control");
    if !has_cpuset(&control) {
        // It takes no value that it tells: what undoes it is its opposite.
        settings.set_and_put_back(&control, "+cpuset", Some("-cpuset"))?;
    }
    let group = root.join(GROUP);
    settings.make_group(&group)?;
    settings.set(group.join("cpuset.cpus"), cpus)?;
    let file = group.join("cpuset.cpus.partition");
    let change = settings.set(&file, "isolated")?;
    if change.now != "isolated" {
        bail!(
            "{}: the kernel makes no isolated partition of {cpus}: {}",
            file.display(),
            change.now
        );
    }
    let tasks = group.join("cgroup.procs");
    fs::write(&tasks, std::process::id().to_string())
        .with_context(|| tasks.display().to_string())?;
    Ok(vec![FileValue {
        path: file.display().to_string(),
        value: cpus.to_owned(),
        before: "no group".to_owned(),
        command: Some(partition(cpus)),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands for a machine, run by this machine's shell: no driver is asked there.
    #[test]
    fn a_script_says_which_setting_cannot_be_set() {
        let script = Means::Coalescing.script("coalescing", "eth0:7") + "exit 0";
        let out = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1));
        assert!(said.contains("coalescing: cannot be set here"), "{said}");
    }
}
