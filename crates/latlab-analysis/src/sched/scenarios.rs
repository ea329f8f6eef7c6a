//! The experiments of `latlab sched --matrix`: the ten cells of a study of 2015 on a BeagleBone
//! (two CPU-bound or IO-bound tasks under CFS, RR and FIFO, priorities 90/90 and 90/45), and what
//! schedulers support since.

use latlab_model::sched::experiment::{Cell, CellTask, Work};
use latlab_model::wakeup::config::Policy;

/// What the cells have in common.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// Work of CPU-bound tasks.
    pub cpu: Work,
    /// Work of IO-bound tasks.
    pub io: Work,
    /// Length of each cell, ns.
    pub duration_ns: u64,
}

/// A task of this work and policy; `which` names it.
pub(super) fn task(which: &str, work: Work, policy: Policy) -> CellTask {
    CellTask {
        name: ["latlab-", which].concat(),
        tid: 0,
        work,
        policy,
        priority: 0,
        nice: 0,
        slice_ns: None,
        latency_nice: None,
        runtime_ns: 0,
        period_ns: 0,
        group_weight: None,
    }
}

fn cell(name: &str, common: Common, tasks: Vec<CellTask>) -> Cell {
    Cell { name: name.into(), tasks, duration_ns: common.duration_ns, ..Cell::default() }
}

/// Two tasks that differ by what `change` does to them.
fn two(
    name: &str,
    common: Common,
    work: Work,
    policy: Policy,
    change: impl Fn(usize, &mut CellTask),
) -> Cell {
    let mut tasks = vec![task("a", work, policy), task("b", work, policy)];
    for (n, task) in tasks.iter_mut().enumerate() {
        change(n, task);
    }
    cell(name, common, tasks)
}

/// The ten cells of the study.
pub fn study(common: Common) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (word, work) in [("cpu", common.cpu), ("io", common.io)] {
        cells.push(two(&[word, "-other"].concat(), common, work, Policy::Other, |_, _| {}));
        for (policy, name) in [(Policy::Rr, "rr"), (Policy::Fifo, "fifo")] {
            for (second, title) in [(90, "-90-90"), (45, "-90-45")] {
                let name = [word, "-", name, title].concat();
                cells.push(two(&name, common, work, policy, |n, t| {
                    t.priority = if n == 0 { 90 } else { second };
                }));
            }
        }
    }
    cells
}

/// What came since, and what the study did not look at.
pub fn today(common: Common) -> Vec<Cell> {
    let cpu = common.cpu;
    let fair = |name: &str, change: &dyn Fn(usize, &mut CellTask)| {
        two(name, common, cpu, Policy::Other, change)
    };
    let mut mixed = two("mixed-other", common, cpu, Policy::Other, |_, _| {});
    mixed.tasks[1].work = common.io;
    let mut idle = two("cpu-other-idle", common, cpu, Policy::Other, |_, _| {});
    idle.tasks[1].policy = Policy::Idle;
    let mut reserve = two("cpu-fifo-other", common, cpu, Policy::Fifo, |_, t| t.priority = 90);
    (reserve.tasks[1].policy, reserve.tasks[1].priority) = (Policy::Other, 0);
    let deadline = two("cpu-deadline", common, cpu, Policy::Deadline, |n, t| {
        (t.runtime_ns, t.period_ns) =
            if n == 0 { (10_000_000, 50_000_000) } else { (30_000_000, 100_000_000) };
    });
    vec![
        fair("cpu-nice-0-5", &|n, t| t.nice = if n == 0 { 0 } else { 5 }),
        two("cpu-batch", common, cpu, Policy::Batch, |_, _| {}),
        idle,
        mixed,
        fair("cpu-slices", &|n, t| {
            t.slice_ns = Some(if n == 0 { 4_000_000 } else { 20_000_000 });
        }),
        fair("cpu-latency-nice", &|n, t| t.latency_nice = Some(if n == 0 { -10 } else { 10 })),
        fair("cpu-groups", &|n, t| t.group_weight = Some(if n == 0 { 2048 } else { 1024 })),
        deadline,
        reserve,
        two("io-direct-fifo-90-90", common, direct(common.io), Policy::Fifo, |_, t| {
            t.priority = 90
        }),
    ]
}

fn direct(io: Work) -> Work {
    match io {
        Work::Io { bytes, .. } => Work::Io { bytes, direct: true },
        cpu => cpu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_study_had_ten_cells_and_every_name_is_one_of_its_kind() {
        let common = Common {
            cpu: Work::Cpu { size: 64 },
            io: Work::Io { bytes: 1 << 20, direct: false },
            duration_ns: 1,
        };
        let (study, today) = (study(common), today(common));
        assert_eq!(study.len(), 10);
        let names: std::collections::BTreeSet<&str> =
            study.iter().chain(&today).map(|c| c.name.as_str()).collect();
        assert_eq!(names.len(), study.len() + today.len());
        assert!(names.contains("io-rr-90-45") && names.contains("cpu-fifo-90-90"));
    }
}
