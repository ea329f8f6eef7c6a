//! Counting what a trace holds.

use crate::print::ReportOptions;
use crate::{Diagnostics, Event, Missed, TraceFile};
use latlab_model::trace_stat::{BufferStat, CpuStat, KindStat, TraceStat};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;

/// Counts of one stretch of time.
struct Counts {
    by_cpu: BTreeMap<(u16, u32), CpuStat>,
    by_kind: Vec<u64>,
}

impl Counts {
    fn new() -> Self {
        Self { by_cpu: BTreeMap::new(), by_kind: vec![0; 1 << 16] }
    }

    fn add(&mut self, file: &TraceFile<'_>, e: &Event<'_>) {
        self.by_kind[usize::from(e.id)] += 1;
        let cpu = self.by_cpu.entry((e.buffer, e.cpu)).or_insert_with(|| CpuStat {
            buffer: file.buffers[usize::from(e.buffer)].name.clone(),
            cpu: e.cpu,
            first_ns: e.time,
            ..CpuStat::default()
        });
        cpu.events += 1;
        cpu.last_ns = e.time;
        match e.missed {
            Missed::No => {}
            Missed::Count(n) => cpu.lost = cpu.lost.saturating_add(n),
            Missed::Unknown => cpu.lost_unknown += 1,
        }
    }

    /// Adds those of a later stretch.
    fn extend(&mut self, later: Self) {
        for (all, n) in self.by_kind.iter_mut().zip(later.by_kind) {
            *all += n;
        }
        for (key, part) in later.by_cpu {
            match self.by_cpu.entry(key) {
                Entry::Vacant(v) => {
                    v.insert(part);
                }
                Entry::Occupied(mut o) => {
                    let all = o.get_mut();
                    all.events += part.events;
                    all.last_ns = part.last_ns;
                    all.lost = all.lost.saturating_add(part.lost);
                    all.lost_unknown += part.lost_unknown;
                }
            }
        }
    }
}

/// Counts the events that the options choose, a stretch of time a thread; with what was found damaged.
pub fn stat(file: &TraceFile<'_>, options: &ReportOptions) -> (TraceStat, Diagnostics) {
    let pid = file.common_pid();
    let chosen = |e: &Event<'_>| {
        let of_pid = || pid.map_or(0, |f| f.i64(e.payload) as i32);
        options.pids.as_ref().is_none_or(|p| p.contains(&of_pid()))
            && options.filter.passes(e, &file.comms)
    };
    let threads = options.threads.max(1);
    let (pieces, damage) = file.scan_pieces(&options.select, threads, Counts::new, |counts, e| {
        if chosen(e) {
            counts.add(file, e);
        }
        ControlFlow::Continue(())
    });
    let mut all = Counts::new();
    pieces.into_iter().for_each(|later| all.extend(later));
    let Counts { by_cpu, by_kind } = all;
    let cpus: Vec<CpuStat> = by_cpu.into_values().collect();
    let mut kinds: Vec<KindStat> = (0..=u16::MAX)
        .zip(&by_kind)
        .filter(|(_, n)| **n > 0)
        .map(|(id, n)| match file.formats.get(id) {
            Some(f) => {
                KindStat { system: f.system.to_string(), name: f.name.to_string(), events: *n }
            }
            None => KindStat { system: String::new(), name: id.to_string(), events: *n },
        })
        .collect();
    kinds.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| a.name.cmp(&b.name)));
    let stat = TraceStat {
        version: file.version,
        clock: file.clock().to_owned(),
        uname: file.options.uname.clone(),
        recorder: file.options.recorder.clone(),
        events: cpus.iter().map(|c| c.events).sum(),
        lost: cpus.iter().map(|c| c.lost).fold(0, u64::saturating_add),
        lost_unknown: cpus.iter().map(|c| c.lost_unknown).sum(),
        cpus,
        kinds,
        buffers: file.options.cpu_stats.iter().filter_map(|text| buffer(text)).collect(),
    };
    (stat, damage)
}

/// The statistics of a ring buffer as trace.dat has them: `CPU: N` and the lines of `per_cpu/cpuN/stats`.
fn buffer(text: &str) -> Option<BufferStat> {
    let value = |name: &str| {
        text.lines().find_map(|l| Some(l.strip_prefix(name)?.strip_prefix(':')?.trim()))
    };
    let count = |name| value(name)?.parse().ok();
    // Seconds with a fraction; a clock that is no time (`counter`) has a number alone.
    let time = |name| {
        let (seconds, fraction) = value(name)?.split_once('.')?;
        let fraction: u64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
        seconds.trim().parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
    };
    Some(BufferStat {
        cpu: value("CPU")?.parse().ok()?,
        entries: count("entries"),
        overrun: count("overrun"),
        commit_overrun: count("commit overrun"),
        bytes: count("bytes"),
        oldest_ns: time("oldest event ts"),
        now_ns: time("now ts"),
        dropped: count("dropped events"),
        read: count("read events"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_a_ring_buffer_are_read_as_far_as_the_kernel_has_them() {
        let text = "CPU: 3\nentries: 0\noverrun: 7\ncommit overrun: 1\nbytes: 4556\n\
            oldest event ts:  12.3\nnow ts:  12.500001\ndropped events: 2\nread events: 105\n";
        let all = buffer(text).unwrap();
        assert_eq!((all.cpu, all.entries, all.overrun), (3, Some(0), Some(7)));
        assert_eq!((all.commit_overrun, all.bytes, all.dropped), (Some(1), Some(4556), Some(2)));
        assert_eq!((all.oldest_ns, all.now_ns), (Some(12_300_000_000), Some(12_500_001_000)));
        assert_eq!(all.read, Some(105));
        let old = buffer("CPU: 0\nentries: x\nnow ts: 99999999999999.5\n").unwrap();
        assert_eq!(old, BufferStat::default());
        assert_eq!(buffer("entries: 5\n"), None);
    }
}
