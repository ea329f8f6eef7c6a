//! The program that `latlab why` explains: threads by name, number or control group, or a command.

use super::family;
use crate::outcome::HintExt;
use anyhow::{Context, anyhow};
use latlab_analysis::latency::activations::from_capture::{Chosen, is_named};
use latlab_model::units::Tid;
use latlab_sys::process::start_ticks;
use latlab_sys::recorder::{child, threads};
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Characters that the kernel keeps of the name of a thread of a program.
const NAME: usize = 15;

/// What is explained.
pub(in crate::cmd) enum Target {
    /// Threads of this name.
    Name(String),
    /// These threads of the kernel, each with its start: `/proc` has another name of them than events.
    Threads(Vec<(u32, u64)>),
    /// The threads of a process, or one thread.
    Number(u32),
    /// The threads of a control group and of those beneath it.
    Group(PathBuf),
    /// A process that was started for this.
    Started(Child),
    /// All threads.
    All,
}

/// A command that waits for its start.
pub(super) enum Begun {
    /// It runs already.
    Running(Target),
    /// It is held.
    Held(child::Held),
}

impl Begun {
    /// What the command line names.
    ///
    /// # Errors
    /// When there is no such task, or the command cannot be started.
    pub(super) fn new(task: Option<&str>, command: &[String]) -> anyhow::Result<Self> {
        if command.is_empty() {
            return Ok(Self::Running(match task {
                Some(task) => Target::find("--task", task)?,
                None => Target::All,
            }));
        }
        let words: Vec<OsString> = command.iter().map(OsString::from).collect();
        // The report has our standard output.
        let output = std::io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
        let output = output.unwrap_or_else(|_| Stdio::null());
        Ok(Self::Held(child::hold_with(&words, output).context("starting the command")?))
    }

    /// Lets a held command run.
    ///
    /// # Errors
    /// When there is no such command.
    pub(super) fn release(self, command: &[String]) -> anyhow::Result<Target> {
        let program = || command.first().cloned().unwrap_or_default();
        match self {
            Self::Running(target) => Ok(target),
            Self::Held(held) => held.release().map(Target::Started).with_context(program),
        }
    }
}

impl Target {
    /// `option` names the task in errors.
    fn find(option: &str, task: &str) -> anyhow::Result<Self> {
        if let Ok(pid) = task.parse::<u32>() {
            threads(pid).with_context(|| format!("{option} {task}"))?;
            return Ok(Self::Number(pid));
        }
        if task.starts_with('/') {
            let group = group(task);
            return match group.join("cgroup.procs").exists() {
                true => Ok(Self::Group(group)),
                false => Err(anyhow!("{option} {task}: no such control group"))
                    .hint("a path below /sys/fs/cgroup, as in /proc/PID/cgroup"),
            };
        }
        let all: Vec<(u32, String)> = names().filter(|n| is_named(task, &n.1)).collect();
        let exact = |n: &&(u32, String)| n.1 == task;
        if task.len() <= NAME && all.iter().any(|n| exact(&n)) {
            return Ok(Self::Name(task.to_owned()));
        }
        // Other threads may have the same first characters.
        let whole = all.iter().any(|n| exact(&n));
        let meant = all.iter().filter(|n| !whole || exact(n)).map(|n| n.0);
        let meant: Vec<_> = meant.filter_map(|tid| Some((tid, start_ticks(tid)?))).collect();
        if !meant.is_empty() {
            return Ok(Self::Threads(meant));
        }
        let like = similar(task);
        Err(anyhow!("{option} {task}: no thread has this name")).hint(match like.is_empty() {
            true => "a name is that of /proc/PID/comm, whole or its first 15 characters".to_owned(),
            false => format!("threads with similar names: {}", like.join(", ")),
        })
    }

    /// What a task names; one that does not exist yet is no error.
    ///
    /// # Errors
    /// When it can name none at any time.
    pub(in crate::cmd) fn of(option: &str, task: &str) -> anyhow::Result<Self> {
        match Self::find(option, task) {
            Err(_) if task.starts_with('/') => Ok(Self::Group(group(task))),
            Err(error) if task.parse::<u32>().is_ok() => Err(error),
            Err(_) if task.len() > NAME => {
                Err(anyhow!("{option} {task}: longer than the name of any thread"))
                    .hint("a name is that of /proc/PID/comm, at most 15 characters")
            }
            Err(_) => Ok(Self::Name(task.to_owned())),
            found => found,
        }
    }

    /// Its threads now.
    pub(in crate::cmd) fn tids(&self) -> Vec<Tid> {
        let tids = match (self, self.chosen()) {
            (Self::Name(name), _) => named(name),
            (_, Chosen::Tids(tids)) => return tids,
            _ => Vec::new(),
        };
        tids.into_iter().filter_map(|t| i32::try_from(t).ok()).map(Tid).collect()
    }

    /// Its threads now, as captures are searched for them.
    pub(super) fn chosen(&self) -> Chosen {
        let of = |pid: u32| threads(pid).unwrap_or_default();
        let tids = match self {
            Self::Name(name) => return Chosen::Name(name.clone()),
            Self::Threads(threads) => alive(threads).collect(),
            Self::Number(pid) => of(*pid),
            Self::Group(group) => members(group),
            Self::Started(child) => family(child.id()),
            Self::All => Vec::new(),
        };
        Chosen::Tids(tids.into_iter().filter_map(|t| i32::try_from(t).ok()).map(Tid).collect())
    }

    /// How often it is worth looking whether it is no more: a search of all threads costs milliseconds.
    pub(super) fn every(&self) -> Duration {
        match self {
            Self::Started(_) => Duration::ZERO,
            Self::Number(_) | Self::Threads(_) => Duration::from_millis(200),
            Self::Name(_) | Self::Group(_) | Self::All => Duration::from_secs(2),
        }
    }

    /// Whether it is no more.
    pub(super) fn is_gone(&mut self) -> bool {
        match self {
            Self::Name(name) => named(name).is_empty(),
            Self::Threads(threads) => alive(threads).next().is_none(),
            Self::Number(pid) => threads(*pid).is_err(),
            Self::Group(group) => members(group).is_empty(),
            Self::Started(child) => !matches!(child.try_wait(), Ok(None)),
            Self::All => false,
        }
    }
}

impl Drop for Target {
    /// What was started for this ends with it, and what that started.
    fn drop(&mut self) {
        if let Self::Started(child) = self {
            family::end(child);
        }
    }
}

/// The folder of a control group.
fn group(path: &str) -> PathBuf {
    Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/'))
}

/// Process ids of this machine.
fn processes() -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Each thread with its name.
fn names() -> impl Iterator<Item = (u32, String)> {
    processes().into_iter().flat_map(|pid| {
        let tasks = threads(pid).unwrap_or_default();
        tasks.into_iter().filter_map(move |tid| {
            let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
            Some((tid, name.trim_end_matches('\n').to_owned()))
        })
    })
}

fn named(name: &str) -> Vec<u32> {
    names().filter(|n| is_named(name, &n.1)).map(|n| n.0).collect()
}

/// Those of threads that are there: an id may be used again.
fn alive(threads: &[(u32, u64)]) -> impl Iterator<Item = u32> + '_ {
    let is_same = |thread: &&(u32, u64)| start_ticks(thread.0) == Some(thread.1);
    threads.iter().filter(is_same).map(|thread| thread.0)
}

/// Names that contain the given one or are contained in it, whatever the case.
fn similar(name: &str) -> Vec<String> {
    let lower = name.to_lowercase();
    let is_like = |n: &str| {
        let n = n.to_lowercase();
        !n.is_empty() && (n.contains(&lower) || lower.contains(&n))
    };
    let mut all: Vec<String> = names().map(|n| n.1).filter(|n| is_like(n)).collect();
    all.sort();
    all.dedup();
    all.truncate(5);
    all
}

/// The threads of a process and of those that it started.
fn family(pid: u32) -> Vec<u32> {
    let (mut all, mut next) = (Vec::new(), vec![pid]);
    while let Some(pid) = next.pop() {
        let tasks = threads(pid).unwrap_or_default();
        for tid in &tasks {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
            let children = children.unwrap_or_default();
            next.extend(children.split_whitespace().filter_map(|c| c.parse::<u32>().ok()));
        }
        all.extend(tasks);
    }
    all
}

/// The threads of a control group and of the groups beneath it.
fn members(group: &Path) -> Vec<u32> {
    let mut all = Vec::new();
    let mut next = vec![group.to_owned()];
    while let Some(group) = next.pop() {
        let numbers =
            |text: String| -> Vec<u32> { text.lines().filter_map(|l| l.parse().ok()).collect() };
        match fs::read_to_string(group.join("cgroup.procs")) {
            Ok(pids) => {
                let threads = |pid| threads(pid).unwrap_or_default();
                all.extend(numbers(pids).into_iter().flat_map(threads));
            }
            // A threaded group names its threads alone (Documentation/admin-guide/cgroup-v2.rst).
            Err(_) => {
                let threads = fs::read_to_string(group.join("cgroup.threads"));
                all.extend(numbers(threads.unwrap_or_default()));
            }
        }
        let beneath = fs::read_dir(&group).into_iter().flatten().flatten();
        next.extend(beneath.filter(|e| e.path().is_dir()).map(|e| e.path()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a thread of the kernel whose name in `/proc` is longer than that in events both names are accepted.
    #[test]
    fn a_thread_of_the_kernel_is_found_by_its_whole_name_and_by_its_first_15_bytes() {
        // Workers of workqueues change their names, but for those that rescue.
        let is_long = |n: &(u32, String)| n.1.len() > NAME && n.1.starts_with("kworker/R-");
        let Some((tid, name)) = names().find(is_long) else { return };
        let tid = Tid(i32::try_from(tid).unwrap());
        let found = Target::of("--task", &name).unwrap().chosen();
        assert_eq!(found, Chosen::Tids(vec![tid]), "{name}");
        let mut cut = Target::of("--task", &name[..NAME]).unwrap();
        assert!(cut.tids().contains(&tid) && !cut.is_gone(), "{name}");
        assert!(matches!(cut, Target::Threads(_)));
    }

    #[test]
    fn a_thread_that_has_ended_is_gone() {
        let own = std::process::id();
        let start = start_ticks(own).unwrap();
        let chosen = |start| Target::Threads(vec![(own, start)]).chosen();
        assert_ne!(chosen(start), Chosen::Tids(Vec::new()));
        assert_eq!(chosen(start + 1), Chosen::Tids(Vec::new()), "another one with its id");
        assert!(Target::Threads(vec![(own, start + 1)]).is_gone());
    }
}
