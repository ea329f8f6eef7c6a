//! Control groups of this process, and what they allow (cgroups(7); the kernel's
//! `admin-guide/cgroup-v1/memory.rst` and `admin-guide/cgroup-v2.rst`).

use crate::files::Root;

/// Directories of this process's group of a controller, below the root, the innermost first, then each
/// that it lies in. Empty where nothing is mounted at the usual places.
///
/// In a container `/proc/self/cgroup` may name a path of the host's that is not to be seen: the directories
/// that there are remain.
fn directories(root: &Root, controller: &str) -> Vec<String> {
    let text = root.text("proc/self/cgroup").unwrap_or_default();
    let mut all = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mounts: Vec<String> = if controllers.is_empty() {
            vec!["sys/fs/cgroup".into()]
        } else if controllers.split(',').any(|c| c == controller) {
            vec![format!("sys/fs/cgroup/{controller}"), format!("sys/fs/cgroup/{controllers}")]
        } else {
            continue;
        };
        for mount in mounts {
            let mut path = path.trim_matches('/');
            loop {
                let dir = if path.is_empty() { mount.clone() } else { format!("{mount}/{path}") };
                if root.exists(&dir) && !all.contains(&dir) {
                    all.push(dir);
                }
                if path.is_empty() {
                    break;
                }
                path = path.rsplit_once('/').map_or("", |(outer, _)| outer);
            }
        }
    }
    all
}

/// Memory that the groups of this process leave it, bytes: the least of limit less use, where what the
/// kernel would drop from its page cache first does not count as used. `None` without a limit.
pub fn memory_left(root: &Root) -> Option<u64> {
    let left = |dir: &String| {
        let number = |name: &str| root.number::<u64>(&format!("{dir}/{name}"));
        let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
        let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
        let stat = root.text(&format!("{dir}/memory.stat")).unwrap_or_default();
        let of = |key: &str| {
            let value = stat.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<u64>().ok());
            value.unwrap_or(0)
        };
        let cached = of("inactive_file ").max(of("total_inactive_file "));
        // Version 1 without a limit says the largest number of whole pages.
        (limit < 1 << 60).then(|| limit.saturating_sub(used.saturating_sub(cached)))
    };
    directories(root, "memory").iter().filter_map(left).min()
}

/// The real-time budget of this process's group, µs a period, where groups have one (version 1).
pub fn rt_runtime_us(root: &Root) -> Option<i64> {
    let of = |dir: &String| root.number(&format!("{dir}/cpu.rt_runtime_us"));
    directories(root, "cpu").iter().find_map(of)
}

/// Periods of the limits (`cpu.max`, version 1: `cpu.cfs_quota_us`) of this process's groups so far, and those of them at
/// whose end a group had no runtime left (`cpu.stat`), added up over its groups. `None` where a group outside is not to
/// be seen, or none at all.
pub fn throttled_periods(root: &Root) -> Option<(u64, u64)> {
    let all = directories(root, "cpu");
    // The outermost group of all has no limit: this one is that of a container.
    if root.exists(&format!("{}/cpu.max", all.last()?)) {
        return None;
    }
    let mut sum = (0u64, 0u64);
    for dir in &all {
        let stat = root.text(&format!("{dir}/cpu.stat")).unwrap_or_default();
        for (key, value) in stat.lines().filter_map(|line| line.split_once(' ')) {
            let add = |to: &mut u64| *to = to.saturating_add(value.parse().unwrap_or(0));
            match key {
                "nr_periods" => add(&mut sum.0),
                "nr_throttled" => add(&mut sum.1),
                _ => {}
            }
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    fn the_tightest_group_on_the_way_counts() {
        let (_dir, root) = tree(&[
            ("proc/self/cgroup", "0::/system/latlab\n"),
            ("sys/fs/cgroup/system/memory.max", "268435456\n"),
            ("sys/fs/cgroup/system/memory.current", "100000000\n"),
            ("sys/fs/cgroup/system/memory.stat", "anon 1\nactive_file 7\ninactive_file 60000000\n"),
            ("sys/fs/cgroup/system/latlab/memory.max", "max\n"),
            ("sys/fs/cgroup/system/latlab/memory.current", "5\n"),
        ]);
        assert_eq!(memory_left(&root), Some(268_435_456 - 40_000_000));
    }

    #[test]
    fn version_one_and_a_container_that_does_not_see_its_own_path() {
        let (_dir, root) = tree(&[
            ("proc/self/cgroup", "4:memory:/docker/123\n2:cpu,cpuacct:/\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "34217728\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us", "950000\n"),
        ]);
        assert_eq!(memory_left(&root), Some(100_000_000));
        assert_eq!(rt_runtime_us(&root), Some(950_000));
        let (_dir, unlimited) = tree(&[
            ("proc/self/cgroup", "4:memory:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
        ]);
        assert_eq!((memory_left(&unlimited), rt_runtime_us(&unlimited)), (None, None));
    }

    #[test]
    fn limits_are_counted_in_each_group_and_not_in_a_container() {
        let own = ("proc/self/cgroup", "0::/a/b\n");
        let stat = "usage_usec 7\nnr_periods 40\nnr_throttled 12\nthrottled_usec 99\n";
        let files = [
            own,
            ("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 7\n"),
            ("sys/fs/cgroup/a/cpu.stat", stat),
        ];
        let (_dir, root) = tree(&files);
        assert_eq!(throttled_periods(&root), Some((40, 12)));
        let (_dir, root) =
            tree(&[&files[..], &[("sys/fs/cgroup/cpu.max", "max 100000\n")]].concat());
        assert_eq!(throttled_periods(&root), None, "a limit outside of the container");
        let (_dir, root) = tree(&[own]);
        assert_eq!(throttled_periods(&root), None, "nothing is mounted");
    }
}
