//! What else was going on: counters of the kernel before and after.
//!
//! Sources: `/proc/stat` (proc_stat(5): the eighth column of a CPU is steal, in ticks of
//! `sysconf(_SC_CLK_TCK)`), `/proc/interrupts` (a column a CPU), `/proc/thread-self/sched`
//! (`nr_migrations`, where the kernel was built with scheduler debugging).

use latlab_model::units::CpuId;
use std::collections::BTreeMap;

/// Counters of the machine at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Steal time of each CPU, ticks.
    steal: BTreeMap<u32, u64>,
    /// Interrupt → count on each CPU.
    interrupts: BTreeMap<String, BTreeMap<u32, u64>>,
}

impl Counters {
    /// Reads them now; what cannot be read is left out.
    pub fn read() -> Self {
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            steal: parse_steal(&text("/proc/stat")),
            interrupts: parse_interrupts(&text("/proc/interrupts")),
        }
    }

    /// Steal time of some CPUs since `before`, ns.
    pub fn steal_ns_since(&self, before: &Self, cpus: &[CpuId]) -> Option<u64> {
        let ticks = cpus
            .iter()
            .map(|cpu| Some(self.steal.get(&cpu.0)?.saturating_sub(*before.steal.get(&cpu.0)?)));
        Some(ticks.sum::<Option<u64>>()? * tick_ns())
    }

    /// Interrupts that some CPUs took since `before`, most frequent first.
    pub fn interrupts_since(&self, before: &Self, cpus: &[CpuId]) -> Vec<(String, u64)> {
        let mut list: Vec<(String, u64)> = (self.interrupts.iter())
            .filter_map(|(name, now)| {
                let then = before.interrupts.get(name);
                let count = |cpu: &CpuId| {
                    let then = then.and_then(|t| t.get(&cpu.0)).copied().unwrap_or(0);
                    now.get(&cpu.0).map_or(0, |n| n.saturating_sub(then))
                };
                let n: u64 = cpus.iter().map(count).sum();
                (n > 0).then(|| (name.clone(), n))
            })
            .collect();
        list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        list
    }

    /// Whether interrupts could be read at all.
    pub fn knows_interrupts(&self) -> bool {
        !self.interrupts.is_empty()
    }
}

fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

fn parse_steal(stat: &str) -> BTreeMap<u32, u64> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        Some((cpu, words.nth(7)?.parse().ok()?))
    };
    stat.lines().filter_map(line).collect()
}

/// Named `24 virtio0-input` or `LOC Local timer interrupts`.
fn parse_interrupts(text: &str) -> BTreeMap<String, BTreeMap<u32, u64>> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let cpus: Vec<u32> =
        head.split_ascii_whitespace().filter_map(|w| w.strip_prefix("CPU")?.parse().ok()).collect();
    let mut all = BTreeMap::new();
    for line in lines {
        let Some((id, rest)) = line.split_once(':') else { continue };
        let mut words = rest.split_ascii_whitespace();
        let counts: BTreeMap<u32, u64> =
            cpus.iter().map_while(|&cpu| Some((cpu, words.next()?.parse().ok()?))).collect();
        // ERR and MIS have one count for the machine, not one a CPU.
        if counts.len() == cpus.len() {
            all.insert(interrupt_name(id.trim(), &words.collect::<Vec<_>>()), counts);
        }
    }
    all
}

/// `24` and `[PCI-MSIX-0000:00:05.0, 1-edge, virtio0-input]` → `24 virtio0-input`;
/// `LOC` and `[Local, timer, interrupts]` → `LOC Local timer interrupts`.
fn interrupt_name(id: &str, words: &[&str]) -> String {
    let what = match id.parse::<u32>() {
        // Controller and hardware number come before the names of those who asked for it.
        Ok(_) => words.last().copied().unwrap_or_default().to_owned(),
        Err(_) => words.join(" "),
    };
    if what.is_empty() { id.to_owned() } else { format!("{id} {what}") }
}

/// Migrations of the calling thread since it was born, where the kernel tells.
pub fn migrations() -> Option<u64> {
    parse_migrations(&std::fs::read_to_string("/proc/thread-self/sched").ok()?)
}

fn parse_migrations(sched: &str) -> Option<u64> {
    sched
        .lines()
        .find(|l| l.starts_with("se.nr_migrations"))?
        .rsplit(':')
        .next()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "           CPU0       CPU1
  1:          9          0   IO-APIC   1-edge      i8042
 24:        100        200  PCI-MSIX-0000:00:05.0   1-edge      virtio0-input
LOC:       1000       2000   Local timer interrupts
ERR:          3
";
    const AFTER: &str = "           CPU0       CPU1
  1:          9          0   IO-APIC   1-edge      i8042
 24:        100        207  PCI-MSIX-0000:00:05.0   1-edge      virtio0-input
LOC:       1500       2600   Local timer interrupts
ERR:          9
";

    fn counters(stat: &str, interrupts: &str) -> Counters {
        Counters { steal: parse_steal(stat), interrupts: parse_interrupts(interrupts) }
    }

    #[test]
    fn interrupts_are_those_of_the_cpus_concerned() {
        let (before, after) = (counters("", BEFORE), counters("", AFTER));
        assert_eq!(
            after.interrupts_since(&before, &[CpuId(1)]),
            [("LOC Local timer interrupts".into(), 600), ("24 virtio0-input".into(), 7)]
        );
        assert_eq!(
            after.interrupts_since(&before, &[CpuId(0)]),
            [("LOC Local timer interrupts".into(), 500)]
        );
    }

    #[test]
    fn steal_is_the_eighth_column() {
        let before = counters("cpu  1 2 3 4 5 6 7 80 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n", "");
        let after = counters("cpu  1 2 3 4 5 6 7 90 9 0\ncpu0 1 2 3 4 5 6 7 11 9 0\n", "");
        assert_eq!(after.steal_ns_since(&before, &[CpuId(0)]), Some(3 * tick_ns()));
        assert_eq!(after.steal_ns_since(&before, &[CpuId(7)]), None, "not known, not zero");
    }

    #[test]
    fn migrations_are_read_where_the_kernel_tells() {
        let sched = "latlab (1, #threads: 1)\n-----\nse.exec_start     :      1.5\nse.nr_migrations     :     12\n";
        assert_eq!(parse_migrations(sched), Some(12));
        assert_eq!(parse_migrations(""), None);
    }
}
