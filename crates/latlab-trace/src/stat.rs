//! Counting what a trace holds.

use crate::print::ReportOptions;
use crate::{Diagnostics, Missed, TraceFile};
use latlab_core::trace_stat::{CpuStat, KindStat, TraceStat};
use std::collections::BTreeMap;

/// Counts the events that the options choose; with what was found damaged.
pub fn stat(file: &TraceFile<'_>, options: &ReportOptions) -> (TraceStat, Diagnostics) {
    let mut by_cpu: BTreeMap<(u16, u32), CpuStat> = BTreeMap::new();
    let mut by_kind = vec![0u64; 1 << 16];
    let pid = file.common_pid();
    let mut events = file.select(&options.select);
    while let Some(e) = events.next() {
        let of_pid = || pid.map_or(0, |f| f.i64(e.payload) as i32);
        if options.pids.as_ref().is_some_and(|p| !p.contains(&of_pid()))
            || !options.filter.passes(&e, &file.comms)
        {
            continue;
        }
        by_kind[usize::from(e.id)] += 1;
        let cpu = by_cpu.entry((e.buffer, e.cpu)).or_insert_with(|| CpuStat {
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
    let damage = events.diagnostics();
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
    };
    (stat, damage)
}
