//! What the kernel says of its scheduler.

use crate::files::Root;
use latlab_model::sched::experiment::KernelFacts;

/// Reads it; what an ordinary user may not see (debugfs) is `None`.
pub fn facts(root: &Root, release: &str, hz: Option<u32>, cpu: Option<u32>) -> KernelFacts {
    let sysctl = |name: &str| format!("/proc/sys/kernel/{name}");
    let debug = |name: &str| format!("/sys/kernel/debug/sched/{name}");
    let server = cpu.and_then(|cpu| {
        let of = |what: &str| root.number::<u64>(&debug(&format!("fair_server/cpu{cpu}/{what}")));
        Some((of("runtime")?, of("period")?))
    });
    let slice = root
        .number(&debug("base_slice_ns"))
        .or_else(|| root.number(&debug("min_granularity_ns")))
        .or_else(|| root.number(&sysctl("sched_min_granularity_ns")));
    KernelFacts {
        release: release.to_owned(),
        hz,
        rr_timeslice_ms: root.number(&sysctl("sched_rr_timeslice_ms")),
        rt_runtime_us: root.number(&sysctl("sched_rt_runtime_us")),
        rt_period_us: root.number(&sysctl("sched_rt_period_us")),
        fair_server_ns: server,
        base_slice_ns: slice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_there_is_read_and_the_rest_is_none() {
        let t = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/sys/kernel/sched_rr_timeslice_ms", "100\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
            ("sys/kernel/debug/sched/fair_server/cpu1/runtime", "50000000\n"),
            ("sys/kernel/debug/sched/fair_server/cpu1/period", "1000000000\n"),
        ] {
            let path = t.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let facts = facts(&Root::at(t.path()), "6.18.0", Some(250), Some(1));
        assert_eq!(facts.rr_timeslice_ms, Some(100));
        assert_eq!(facts.rt_runtime_us, Some(-1));
        assert_eq!(facts.rt_period_us, None);
        assert_eq!(facts.fair_server_ns, Some((50_000_000, 1_000_000_000)));
    }
}
