//! Who else runs with a real-time policy (`/proc/PID/task/TID/stat`, proc(5)).

use crate::files::Root;
use latlab_model::doctor::RtTask;

/// `PF_KTHREAD` of include/linux/sched.h.
const PF_KTHREAD: u64 = 0x0020_0000;

/// What was found.
#[derive(Debug, Default)]
pub struct RealTime {
    /// Tasks of user space; `None` when `/proc` could not be read.
    pub user: Option<Vec<RtTask>>,
    /// Threads of the kernel.
    pub kernel: Option<u32>,
    /// Whether `/proc` hides other users' tasks from this one.
    pub hidden: bool,
}

/// All tasks but this process's own.
pub fn real_time(root: &Root) -> RealTime {
    let own = std::process::id();
    let pids = root.numbered("proc", "");
    if pids.is_empty() {
        return RealTime::default();
    }
    let hidden = !pids.iter().any(|(pid, _)| *pid == 1);
    let (mut user, mut kernel) = (Vec::new(), 0);
    for (_, pid) in pids.iter().filter(|(pid, _)| *pid != own) {
        for (_, tid) in root.numbered(&format!("proc/{pid}/task"), "") {
            let stat = root.text(&format!("proc/{pid}/task/{tid}/stat"));
            match stat.as_deref().and_then(parse) {
                Some(Task { kernel: true, .. }) => kernel += 1,
                Some(Task { task, .. }) => user.push(task),
                None => {}
            }
        }
    }
    RealTime { user: Some(user), kernel: Some(kernel), hidden }
}

struct Task {
    task: RtTask,
    kernel: bool,
}

/// A task with a real-time or deadline policy; `None` for every other.
fn parse(stat: &str) -> Option<Task> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (tid, name) = head.split_once(" (")?;
    // `tail` begins with field 3.
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let policy = match number(41)? {
        1 => "fifo",
        2 => "rr",
        6 => "deadline",
        _ => return None,
    };
    let task = RtTask {
        tid: tid.parse().ok()?,
        name: name.to_owned(),
        policy: policy.to_owned(),
        priority: u32::try_from(number(40)?).ok()?,
    };
    Some(Task { task, kernel: number(9)? & PF_KTHREAD != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux writes it, with `policy`, `priority` and `flags` put in.
    fn line(name: &str, flags: u64, priority: u32, policy: u32) -> String {
        format!(
            "77 ({name}) S 1 77 77 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 50 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 0 {priority} {policy} 0 0 0 0 0 0 0 0 0 0 0"
        )
    }

    #[test]
    fn finds_policy_and_priority_behind_any_name() {
        let t = parse(&line("a) b (c", 4_194_304, 80, 1)).unwrap();
        assert_eq!((t.task.tid, t.task.name.as_str(), t.kernel), (77, "a) b (c", false));
        assert_eq!((t.task.policy.as_str(), t.task.priority), ("fifo", 80));
        assert!(parse(&line("migration/0", PF_KTHREAD, 99, 1)).unwrap().kernel);
        assert!(parse(&line("sh", 0, 0, 0)).is_none());
        assert!(parse("garbage").is_none());
    }
}
