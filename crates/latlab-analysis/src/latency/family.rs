//! Instances of one kernel thread by one name.

/// A task's name without the numbers that tell instances of one kernel thread
/// apart: `kworker/1:2-events` and `kworker/u4:0` are both `kworker`,
/// `ksoftirqd/3` is `ksoftirqd`. Interrupt threads (`irq/34-eth0`) keep theirs.
pub fn family(comm: &str) -> &str {
    match comm.split_once('/') {
        Some((head, _)) if head != "irq" && !head.is_empty() => head,
        _ => comm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_a_kernel_thread_are_one_family() {
        assert_eq!(family("kworker/1:2-events"), "kworker");
        assert_eq!(family("ksoftirqd/0"), "ksoftirqd");
        assert_eq!(family("irq/34-eth0"), "irq/34-eth0");
        assert_eq!(family("stress"), "stress");
    }
}
