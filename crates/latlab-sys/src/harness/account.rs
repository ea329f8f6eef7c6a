//! What the kernel accounts for: time of CPUs, and of processes.
//!
//! Source: proc_stat(5), getrusage(2).

/// Time of a CPU (of all together: `None`) since boot, ns, in the order of `/proc/stat`, whose text
/// `stat` is: user, nice, system, idle, iowait, irq, softirq, steal, …
pub(super) fn cpu_ns(stat: &str, cpu: Option<u32>) -> Option<Vec<u64>> {
    let row = cpu.map_or_else(|| "cpu ".to_owned(), |c| format!("cpu{c} "));
    let fields = stat.lines().find_map(|l| l.strip_prefix(&row))?;
    // In ticks of USER_HZ.
    let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    fields.split_whitespace().map(|f| Some(f.parse::<u64>().ok()?.saturating_mul(tick))).collect()
}

/// What `RUSAGE_SELF` or `RUSAGE_CHILDREN` have used.
pub(super) fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: an all-zero rusage is valid, and the kernel fills it; neither of the two can fail.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    }
}
