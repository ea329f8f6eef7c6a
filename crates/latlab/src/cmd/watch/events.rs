//! What a watch records: at each level, which events, and of which threads.
//!
//! What counts activations is recorded at each level, below the one that has all of it of the watched threads alone,
//! filtered in the kernel by thread id.

use latlab_model::units::Tid;
use latlab_model::watch::Level;

/// Threads at most that are filtered in the kernel; of more, all events are recorded.
const FILTERED: usize = 60;
/// No filter.
pub(super) const NO_FILTER: &str = "0";

/// An event, up to which level it is recorded of all threads, and the fields that name a thread where activations need it
/// (none: of all threads at every level).
struct Row(&'static str, Level, Option<&'static [&'static str]>);

const ROWS: &[Row] = &[
    Row("sched:sched_switch", Level::Scheduler, Some(&["prev_pid", "next_pid"])),
    Row("sched:sched_waking", Level::Scheduler, Some(&["pid"])),
    Row("sched:sched_pi_setprio", Level::Scheduler, None),
    Row("timer:hrtimer_start", Level::Scheduler, Some(&["common_pid"])),
    Row("timer:hrtimer_expire_entry", Level::Off, Some(&[])),
    Row("timer:hrtimer_expire_exit", Level::Off, Some(&[])),
    Row("irq:irq_handler_entry", Level::Off, Some(&[])),
    Row("irq:irq_handler_exit", Level::Off, Some(&[])),
    Row("irq:softirq_entry", Level::Interrupts, None),
    Row("irq:softirq_exit", Level::Interrupts, None),
    Row("irq_vectors:local_timer_entry", Level::Interrupts, None),
    Row("irq_vectors:local_timer_exit", Level::Interrupts, None),
    Row("irq_vectors:reschedule_entry", Level::Interrupts, None),
    Row("irq_vectors:reschedule_exit", Level::Interrupts, None),
    Row("irq_vectors:call_function_single_entry", Level::Interrupts, None),
    Row("irq_vectors:call_function_single_exit", Level::Interrupts, None),
    Row("ipi:ipi_entry", Level::Interrupts, None),
    Row("ipi:ipi_exit", Level::Interrupts, None),
    Row("nmi:nmi_handler", Level::Interrupts, None),
    Row("sched:sched_migrate_task", Level::Interrupts, None),
    Row("timer:timer_expire_entry", Level::Interrupts, None),
    Row("timer:timer_expire_exit", Level::Interrupts, None),
    Row("workqueue:workqueue_execute_start", Level::All, None),
    Row("workqueue:workqueue_execute_end", Level::All, None),
    Row("lock:contention_begin", Level::All, Some(&["common_pid"])),
    Row("lock:contention_end", Level::All, Some(&["common_pid"])),
];

/// Events without which nothing can be counted.
pub(super) const NEEDED: [&str; 2] = ["sched:sched_switch", "sched:sched_waking"];

/// All events, `system:name`.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.0)
}

/// Filter of an event at a level; `None`: it is not recorded.
pub(super) fn filter(event: &str, level: Level, tids: &[Tid]) -> Option<String> {
    let Row(_, up_to, fields) = ROWS.iter().find(|row| row.0 == event)?;
    // Levels rise with what they leave out.
    if level <= *up_to {
        return Some(NO_FILTER.into());
    }
    let fields = (*fields)?;
    Some(if fields.is_empty() { NO_FILTER.into() } else { of_threads(fields, tids) })
}

/// A filter of the kernel (Documentation/trace/events.rst): one of the fields is one of the threads.
pub(super) fn of_threads(fields: &[&str], tids: &[Tid]) -> String {
    if tids.len() > FILTERED {
        return NO_FILTER.into();
    }
    if tids.is_empty() {
        // No thread has this number.
        return format!("{} == {}", fields[0], i32::MAX);
    }
    let each =
        fields.iter().flat_map(|field| tids.iter().map(move |tid| format!("{field} == {}", tid.0)));
    each.collect::<Vec<_>>().join(" || ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_name_each_thread() {
        let tids = |n: i32| (1..=n).map(Tid).collect::<Vec<_>>();
        assert_eq!(of_threads(&["pid"], &tids(2)), "pid == 1 || pid == 2");
        let both = "prev_pid == 1 || next_pid == 1";
        assert_eq!(of_threads(&["prev_pid", "next_pid"], &tids(1)), both);
        assert_eq!(of_threads(&["pid"], &[]), "pid == 2147483647");
        assert_eq!(of_threads(&["pid"], &tids(61)), "0");
    }

    /// The parts of the latency breakdown go level by level; activations are counted at each.
    #[test]
    fn each_level_records_less() {
        let at = |level| names().filter(|e| filter(e, level, &[Tid(7)]).is_some()).count();
        let levels = [Level::All, Level::Interrupts, Level::Scheduler, Level::Off];
        assert_eq!(levels.map(at), [26, 24, 10, 9]);
        let of = |event, level| filter(event, level, &[Tid(7)]);
        let own = Some("pid == 7".to_owned());
        assert_eq!(of("sched:sched_waking", Level::Scheduler), Some("0".into()));
        assert_eq!(of("sched:sched_waking", Level::Off), own);
        assert_eq!(of("lock:contention_begin", Level::All), Some("0".into()));
        assert_eq!(of("lock:contention_begin", Level::Interrupts), Some("common_pid == 7".into()));
        assert_eq!(of("irq:softirq_entry", Level::Scheduler), None);
        assert_eq!(of("timer:hrtimer_expire_entry", Level::Off), Some("0".into()));
    }
}
