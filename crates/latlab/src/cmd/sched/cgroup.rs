//! Control groups with weights for the tasks of an experiment, in either version of cgroups.
//!
//! The controller, directories and weights go through the settings journal: they are gone again
//! when this is dropped, or after a SIGKILL at the next start.

use anyhow::{Context, anyhow};
use latlab_sys::files::Root;
use latlab_sys::settings::Settings;
use std::fs;
use std::path::{Path, PathBuf};

/// Groups that are in use.
#[derive(Debug)]
pub struct Groups {
    settings: Settings,
    made: Vec<PathBuf>,
}

/// Where groups with CPU weights can be made.
enum Hierarchy {
    /// Version 1, controller `cpu`: `cpu.shares`, 1024 is nice 0.
    One(PathBuf),
    /// Version 2: `cpu.weight`, 100 is nice 0.
    Two(PathBuf),
}

fn find() -> anyhow::Result<Hierarchy> {
    let mounts = Root::here().text("/proc/mounts").unwrap_or_default();
    let mounted = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, place, of, options, ..] = words[..] else { return None };
            let has = option.is_none_or(|o| options.split(',').any(|x| x == o));
            (of == kind && has).then(|| PathBuf::from(place))
        })
    };
    if let Some(place) = mounted("cgroup", Some("cpu")) {
        return Ok(Hierarchy::One(place));
    }
    let place = match mounted("cgroup2", None) {
        Some(place) => place,
        None => {
            let place = PathBuf::from("/sys/fs/cgroup");
            latlab_sys::init::mount_virtual("cgroup2", &place)
                .context("no control groups are mounted, and mounting them failed")?;
            place
        }
    };
    let controllers = fs::read_to_string(place.join("cgroup.controllers")).unwrap_or_default();
    if controllers.split_whitespace().any(|c| c == "cpu") {
        return Ok(Hierarchy::Two(place));
    }
    Err(anyhow!("this kernel's control groups have no CPU weights"))
}

impl Groups {
    /// Makes a group of each weight (1024 is nice 0).
    ///
    /// # Errors
    /// When there are no control groups, or this user may not make any.
    pub fn make(weights: &[u64]) -> anyhow::Result<Self> {
        let mut groups = Self { settings: Settings::new(), made: Vec::new() };
        let hierarchy = find()?;
        if let Hierarchy::Two(place) = &hierarchy {
            let control = place.join("cgroup.subtree_control");
            let on = fs::read_to_string(&control).unwrap_or_default();
            if !on.split_whitespace().any(|c| c == "cpu") {
                // It takes no value that it tells: what undoes it is its opposite.
                (groups.settings.set_and_put_back(&control, "+cpu", Some("-cpu")))
                    .context("giving groups the cpu controller")?;
            }
        }
        for (n, weight) in weights.iter().enumerate() {
            let (place, file, value) = match &hierarchy {
                Hierarchy::One(place) => (place, "cpu.shares", *weight),
                Hierarchy::Two(place) => (place, "cpu.weight", (weight * 100 / 1024).max(1)),
            };
            let dir = place.join(format!("latlab-{}-{n}", std::process::id()));
            groups.settings.make_dir(&dir)?;
            groups.settings.set(dir.join(file), &value.to_string())?;
            groups.made.push(dir);
        }
        Ok(groups)
    }

    /// Puts a process into the nth group.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enter(&self, n: usize, pid: i32) -> anyhow::Result<()> {
        let dir: &Path = self.made.get(n).ok_or_else(|| anyhow!("no group {n}"))?;
        fs::write(dir.join("cgroup.procs"), pid.to_string())
            .with_context(|| format!("putting a task into {}", dir.display()))
    }
}
