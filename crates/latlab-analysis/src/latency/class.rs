//! Scheduling classes by the kernel's priorities.

/// The first priority of fair tasks (`MAX_RT_PRIO`, `include/linux/sched/prio.h`); one that is not known is `i32::MAX`.
pub(super) const FAIR: i32 = 100;

/// Whether a priority is known, and that of a fair task.
pub(super) fn is_fair(prio: i32) -> bool {
    (FAIR..i32::MAX).contains(&prio)
}
