//! Numbers of the ftrace events that Perfetto has a message of its own for, and of their fields.
//!
//! Source: `FtraceEvent` and the messages in it, from `perfetto_trace.proto` as the PyPI package
//! `perfetto` 0.59.1 carries it. Whatever is not here becomes a `GenericFtraceEvent`.

/// One event's message.
#[derive(Debug)]
pub(crate) struct Known {
    /// Name of the event in the kernel, and of the field in `FtraceEvent`.
    pub name: &'static str,
    /// Field number in `FtraceEvent`.
    pub number: u32,
    /// Names and numbers of the message's fields.
    pub fields: &'static [(&'static str, u32)],
}

/// Sorted by name.
pub(crate) const KNOWN: &[Known] = &[
    Known {
        name: "clock_disable",
        number: 15,
        fields: &[("name", 1), ("state", 2), ("cpu_id", 3)],
    },
    Known { name: "clock_enable", number: 14, fields: &[("name", 1), ("state", 2), ("cpu_id", 3)] },
    Known {
        name: "clock_set_rate",
        number: 16,
        fields: &[("name", 1), ("state", 2), ("cpu_id", 3)],
    },
    Known { name: "cpu_frequency", number: 11, fields: &[("state", 1), ("cpu_id", 2)] },
    Known {
        name: "cpu_frequency_limits",
        number: 12,
        fields: &[("min_freq", 1), ("max_freq", 2), ("cpu_id", 3)],
    },
    Known { name: "cpu_idle", number: 13, fields: &[("state", 1), ("cpu_id", 2)] },
    Known { name: "hrtimer_cancel", number: 552, fields: &[("hrtimer", 1)] },
    Known {
        name: "hrtimer_expire_entry",
        number: 553,
        fields: &[("hrtimer", 1), ("now", 2), ("function", 3)],
    },
    Known { name: "hrtimer_expire_exit", number: 554, fields: &[("hrtimer", 1)] },
    Known {
        name: "hrtimer_start",
        number: 551,
        fields: &[("hrtimer", 1), ("function", 2), ("expires", 3), ("softexpires", 4), ("mode", 5)],
    },
    Known { name: "ipi_entry", number: 21, fields: &[("reason", 1)] },
    Known { name: "ipi_exit", number: 22, fields: &[("reason", 1)] },
    Known { name: "ipi_raise", number: 23, fields: &[("target_cpus", 1), ("reason", 2)] },
    Known {
        name: "irq_handler_entry",
        number: 36,
        fields: &[("irq", 1), ("name", 2), ("handler", 3)],
    },
    Known { name: "irq_handler_exit", number: 37, fields: &[("irq", 1), ("ret", 2)] },
    Known { name: "local_timer_entry", number: 559, fields: &[("vector", 1)] },
    Known { name: "local_timer_exit", number: 560, fields: &[("vector", 1)] },
    Known { name: "print", number: 3, fields: &[("ip", 1), ("buf", 2)] },
    Known {
        name: "sched_blocked_reason",
        number: 18,
        fields: &[("pid", 1), ("caller", 2), ("io_wait", 3)],
    },
    Known {
        name: "sched_cpu_hotplug",
        number: 19,
        fields: &[("affected_cpu", 1), ("error", 2), ("status", 3)],
    },
    Known {
        name: "sched_migrate_task",
        number: 491,
        fields: &[
            ("comm", 1),
            ("pid", 2),
            ("prio", 3),
            ("orig_cpu", 4),
            ("dest_cpu", 5),
            ("running", 6),
            ("load", 7),
        ],
    },
    Known {
        name: "sched_pi_setprio",
        number: 353,
        fields: &[("comm", 1), ("newprio", 2), ("oldprio", 3), ("pid", 4)],
    },
    Known {
        name: "sched_process_exec",
        number: 237,
        fields: &[("filename", 1), ("pid", 2), ("old_pid", 3)],
    },
    Known {
        name: "sched_process_exit",
        number: 238,
        fields: &[("comm", 1), ("pid", 2), ("tgid", 3), ("prio", 4)],
    },
    Known {
        name: "sched_process_fork",
        number: 239,
        fields: &[("parent_comm", 1), ("parent_pid", 2), ("child_comm", 3), ("child_pid", 4)],
    },
    Known {
        name: "sched_process_free",
        number: 240,
        fields: &[("comm", 1), ("pid", 2), ("prio", 3)],
    },
    Known { name: "sched_process_hang", number: 241, fields: &[("comm", 1), ("pid", 2)] },
    Known {
        name: "sched_process_wait",
        number: 242,
        fields: &[("comm", 1), ("pid", 2), ("prio", 3)],
    },
    Known {
        name: "sched_switch",
        number: 4,
        fields: &[
            ("prev_comm", 1),
            ("prev_pid", 2),
            ("prev_prio", 3),
            ("prev_state", 4),
            ("next_comm", 5),
            ("next_pid", 6),
            ("next_prio", 7),
        ],
    },
    Known {
        name: "sched_wakeup",
        number: 17,
        fields: &[("comm", 1), ("pid", 2), ("prio", 3), ("success", 4), ("target_cpu", 5)],
    },
    Known {
        name: "sched_wakeup_new",
        number: 114,
        fields: &[("comm", 1), ("pid", 2), ("prio", 3), ("success", 4), ("target_cpu", 5)],
    },
    Known {
        name: "sched_waking",
        number: 20,
        fields: &[("comm", 1), ("pid", 2), ("prio", 3), ("success", 4), ("target_cpu", 5)],
    },
    Known {
        name: "signal_deliver",
        number: 324,
        fields: &[("code", 1), ("sa_flags", 2), ("sig", 3)],
    },
    Known {
        name: "signal_generate",
        number: 325,
        fields: &[("code", 1), ("comm", 2), ("group", 3), ("pid", 4), ("result", 5), ("sig", 6)],
    },
    Known { name: "softirq_entry", number: 24, fields: &[("vec", 1)] },
    Known { name: "softirq_exit", number: 25, fields: &[("vec", 1)] },
    Known { name: "softirq_raise", number: 26, fields: &[("vec", 1)] },
    Known {
        name: "suspend_resume",
        number: 113,
        fields: &[("action", 1), ("val", 2), ("start", 3)],
    },
    Known { name: "sys_exit", number: 330, fields: &[("id", 1), ("ret", 2)] },
    Known {
        name: "task_newtask",
        number: 235,
        fields: &[("pid", 1), ("comm", 2), ("clone_flags", 3), ("oom_score_adj", 4)],
    },
    Known {
        name: "task_rename",
        number: 236,
        fields: &[("pid", 1), ("oldcomm", 2), ("newcomm", 3), ("oom_score_adj", 4)],
    },
    Known { name: "timer_cancel", number: 556, fields: &[("timer", 1)] },
    Known {
        name: "timer_expire_entry",
        number: 557,
        fields: &[("timer", 1), ("now", 2), ("function", 3), ("baseclk", 4)],
    },
    Known { name: "timer_expire_exit", number: 558, fields: &[("timer", 1)] },
    Known {
        name: "timer_start",
        number: 555,
        fields: &[
            ("timer", 1),
            ("function", 2),
            ("expires", 3),
            ("now", 4),
            ("deferrable", 5),
            ("flags", 6),
            ("bucket_expiry", 7),
        ],
    },
    Known { name: "wakeup_source_activate", number: 404, fields: &[("name", 1), ("state", 2)] },
    Known { name: "wakeup_source_deactivate", number: 405, fields: &[("name", 1), ("state", 2)] },
    Known { name: "workqueue_activate_work", number: 56, fields: &[("work", 1), ("function", 2)] },
    Known { name: "workqueue_execute_end", number: 57, fields: &[("work", 1), ("function", 2)] },
    Known { name: "workqueue_execute_start", number: 58, fields: &[("work", 1), ("function", 2)] },
    Known {
        name: "workqueue_queue_work",
        number: 59,
        fields: &[("work", 1), ("function", 2), ("req_cpu", 4), ("cpu", 5), ("workqueue", 6)],
    },
];
