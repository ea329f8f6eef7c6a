//! From counters to rates, and from rates to how often the tick comes and whether it stops.

use latlab_model::finding::{Note, Quantity};
use latlab_model::timer::Counters;
use latlab_model::timer::{BusySample, Line, Table, Tick};
use latlab_model::timer::{BusyTick, Live, Rate, TickMode};

/// Rates of HZ that kernels are built with.
const USUAL_HZ: [u32; 10] = [24, 32, 48, 64, 100, 128, 250, 256, 300, 1000];
/// A CPU that was idle for this share of the time and took fewer timer interrupts than this share of HZ has a
/// tick that stops.
const IDLE: f64 = 0.2;
const FEWER: f64 = 0.85;

/// What happened between two tables, per second. Counters wrap at 2³².
pub fn rates(before: &Table, after: &Table, seconds: f64) -> Vec<Rate> {
    let seconds = if seconds > 0.0 { seconds } else { 1.0 };
    let rate = |line: &Line| {
        if line.counts.len() < after.cpus.len() {
            return None;
        }
        let same = before.lines.iter().find(|l| l.name == line.name && l.what == line.what);
        let then = |n: usize| -> u64 {
            // A CPU that came since has no column in the first table.
            let column = before.cpus.iter().position(|c| Some(c) == after.cpus.get(n));
            column.and_then(|c| same?.counts.get(c).copied()).unwrap_or(0)
        };
        let counts: Vec<u64> = line
            .counts
            .iter()
            .enumerate()
            .map(|(n, &now)| match now.checked_sub(then(n)) {
                Some(d) => d,
                None => (now + (1 << 32)).saturating_sub(then(n)),
            })
            .collect();
        let count: u64 = counts.iter().sum();
        (count > 0).then(|| Rate {
            name: line.label(),
            timer: line.is_timer(),
            per_second: counts.iter().map(|c| *c as f64 / seconds).collect(),
            count,
        })
    };
    after.lines.iter().filter_map(rate).collect()
}

/// Sum of rates by CPU, of timers only or of all.
pub fn by_cpu(rates: &[Rate], cpus: usize, timers: bool) -> Vec<f64> {
    let mut sums = vec![0.0; cpus];
    for rate in rates.iter().filter(|r| r.timer || !timers) {
        for (sum, r) in sums.iter_mut().zip(&rate.per_second) {
            *sum += r;
        }
    }
    sums
}

/// The tick of a CPU that was kept busy, with its timer interrupts per second.
pub fn busy_tick(sample: &BusySample) -> BusyTick {
    let interrupts =
        (sample.before.as_ref().zip(sample.after.as_ref())).and_then(|(before, after)| {
            let column = after.cpus.iter().position(|c| *c == sample.cpu)?;
            let all = rates(before, after, sample.seconds);
            by_cpu(&all, after.cpus.len(), true).get(column).copied()
        });
    BusyTick { cpu: sample.cpu, steps: sample.steps, step_ns: sample.step_ns, interrupts }
}

/// The usual HZ next to a measured rate, where one is within 2 %; else the rate itself, rounded.
pub fn nearest_hz(measured: f64) -> Option<u32> {
    if !(1.0..=100_000.0).contains(&measured) {
        return None;
    }
    let near = |hz: &&u32| (measured / f64::from(**hz) - 1.0).abs() <= 0.02;
    Some(USUAL_HZ.iter().find(near).copied().unwrap_or(measured.round() as u32))
}

/// Puts everything together: counters at the beginning and at the end, the ticks of busy CPUs,
/// and what the kernel says of itself (already in `live`).
pub fn conclude(mut live: Live, first: &Counters, last: &Counters, busy: Vec<BusyTick>) -> Live {
    let length = last.time_ns.saturating_sub(first.time_ns);
    let seconds = length as f64 / 1e9;
    live.length_ns = length;
    live.cpus = last.interrupts.cpus.clone();
    live.interrupts = rates(&first.interrupts, &last.interrupts, seconds);
    live.softirqs = rates(&first.softirqs, &last.softirqs, seconds);
    let of_all = last.interrupts.lines.iter().filter(|l| l.counts.len() < live.cpus.len());
    live.errors = of_all.filter(|l| l.counts.iter().any(|c| *c > 0)).cloned().collect();
    live.idle = (live.cpus.iter())
        .map(|cpu| {
            let of = |c: &Counters| c.idle_s.iter().find(|(n, _)| n == cpu).map(|(_, s)| *s);
            match (of(first), of(last)) {
                (Some(a), Some(b)) if seconds > 0.0 => ((b - a) / seconds).clamp(0.0, 1.0),
                _ => 0.0,
            }
        })
        .collect();
    let jiffies = |c: &Counters| c.ticks.iter().find_map(|t| t.jiffies);
    live.jiffies_hz = match (jiffies(first), jiffies(last)) {
        (Some(a), Some(b)) if b > a && seconds > 0.0 => Some((b - a) as f64 / seconds),
        _ => None,
    };
    live.busy = busy;
    live.ticks = last.ticks.clone();
    let steps = live.busy.iter().filter(|b| b.steps >= 5 && b.step_ns > 0).map(|b| b.step_ns).min();
    let measured = live.jiffies_hz.or_else(|| steps.map(|ns| 1e9 / ns as f64));
    live.hz = measured.and_then(nearest_hz);
    let (mode, why) = mode(&live, first);
    (live.mode, live.mode_why) = (mode, Some(why));
    live
}

/// Whether ticks stop: by the kernel's own count of stops, else by idle CPUs with too few ticks.
fn mode(live: &Live, first: &Counters) -> (TickMode, Note) {
    let Some(hz) = live.hz.map(f64::from) else {
        return (TickMode::Unknown, Note::new("timer.tick-rate-unknown"));
    };
    let count = |n: u64| Quantity::Count(n);
    let timers = by_cpu(&live.interrupts, live.cpus.len(), true);
    // Without such CPUs a busy one with few ticks is one that its host kept from running.
    let full = live.cmdline.iter().any(|w| w.starts_with("nohz_full="));
    let few = |b: &&BusyTick| full && b.interrupts.is_some_and(|i| i < hz / 4.0);
    if let Some(b) = live.busy.iter().find(few) {
        let why = Note::new("timer.busy-cpu-with-few-ticks")
            .value("cpu", Quantity::Cpu(b.cpu))
            .value("rate", Quantity::PerSecond(b.interrupts.unwrap_or(0.0)));
        return (TickMode::StopsWhenBusy, why);
    }
    let slept = |t: &Tick| {
        let before = first.ticks.iter().find(|f| f.cpu == t.cpu)?.idle_sleeps?;
        t.idle_sleeps.map(|now| now.saturating_sub(before))
    };
    let sleeps: Vec<u64> = live.ticks.iter().filter_map(slept).collect();
    let stops: u64 = sleeps.iter().sum();
    if stops > 0 {
        let why = Note::new("timer.tick-stops").value("stops", count(stops));
        return (TickMode::StopsWhenIdle, why);
    }
    if !live.ticks.is_empty() && live.ticks.iter().all(|t| t.nohz == Some(false)) {
        return (TickMode::Periodic, Note::new("timer.nohz-inactive"));
    }
    for ((cpu, rate), idle) in live.cpus.iter().zip(&timers).zip(&live.idle) {
        if *idle >= IDLE && *rate < hz * (1.0 - idle * (1.0 - FEWER)) * FEWER {
            let why = Note::new("timer.idle-cpu-with-few-ticks")
                .value("cpu", Quantity::Cpu(*cpu))
                .value("idle", Quantity::Ratio(*idle))
                .value("rate", Quantity::PerSecond(*rate))
                .value("tick_rate", Quantity::Hz(hz));
            return (TickMode::StopsWhenIdle, why);
        }
    }
    let idle_cpus = live.idle.iter().filter(|i| **i >= IDLE).count();
    if idle_cpus > 0 {
        let why =
            Note::new("timer.idle-cpus-with-all-ticks").value("cpus", count(idle_cpus as u64));
        return (TickMode::Periodic, why);
    }
    let ever: u64 = live.ticks.iter().filter_map(|t| t.idle_sleeps).sum();
    if ever > 0 && live.ticks.iter().all(|t| t.nohz == Some(true)) {
        let why = Note::new("timer.tick-stops-since-boot").value("stops", count(ever));
        return (TickMode::StopsWhenIdle, why);
    }
    (TickMode::Unknown, Note::new("timer.no-idle-cpu"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::timer::Table;

    fn table(cpus: u32, lines: &[(&str, &str, &[u64])]) -> Table {
        let line = |&(name, what, counts): &(&str, &str, &[u64])| Line {
            name: name.into(),
            counts: counts.to_vec(),
            what: what.into(),
        };
        Table { cpus: (0..cpus).collect(), lines: lines.iter().map(line).collect() }
    }

    fn counters(time_s: u64, loc: [u64; 2], idle: [f64; 2]) -> Counters {
        let lines: &[(&str, &str, &[u64])] =
            &[("LOC", "Local timer interrupts", &loc), ("9", "IO-APIC disk", &[5, 5])];
        Counters {
            time_ns: time_s * 1_000_000_000,
            interrupts: table(2, lines),
            idle_s: vec![(0, idle[0]), (1, idle[1])],
            ..Counters::default()
        }
    }

    fn busy(interrupts: f64) -> Vec<BusyTick> {
        vec![BusyTick { cpu: 1, steps: 40, step_ns: 4_000_000, interrupts: Some(interrupts) }]
    }

    #[test]
    fn rates_are_differences_by_time_and_counters_may_wrap() {
        let before = table(1, &[("LOC", "Local timer interrupts", &[4_294_967_290])]);
        let after = table(1, &[("LOC", "Local timer interrupts", &[4])]);
        let rates = rates(&before, &after, 2.0);
        assert_eq!((rates[0].count, rates[0].per_second[0]), (10, 5.0));
    }

    #[test]
    fn the_tick_is_found_and_whether_it_stops() {
        let (a, b) = (counters(0, [0, 0], [0.0, 0.0]), counters(10, [2_510, 300], [0.0, 9.0]));
        let live = conclude(Live::default(), &a, &b, busy(251.0));
        assert_eq!((live.hz, live.mode), (Some(250), TickMode::StopsWhenIdle));
        assert_eq!(live.interrupts.len(), 1, "what did not happen has no rate");
        let b = counters(10, [2_510, 2_505], [0.0, 9.0]);
        assert_eq!(conclude(Live::default(), &a, &b, busy(251.0)).mode, TickMode::Periodic);
        let b = counters(10, [2_510, 2_505], [0.0, 0.1]);
        assert_eq!(conclude(Live::default(), &a, &b, busy(251.0)).mode, TickMode::Unknown);
        let full = Live { cmdline: vec!["nohz_full=1".into()], ..Live::default() };
        assert_eq!(conclude(full, &a, &b, busy(2.0)).mode, TickMode::StopsWhenBusy);
        let kept = conclude(Live::default(), &a, &b, busy(2.0)).mode;
        assert_eq!(kept, TickMode::Unknown, "a host that keeps the CPU is no nohz_full");
        assert_eq!(conclude(Live::default(), &a, &b, vec![]).hz, None);
    }

    #[test]
    fn a_machine_without_idle_cpus_is_known_by_its_past() {
        let (mut a, mut b) = (counters(0, [0, 0], [0.0, 0.0]), counters(1, [250, 250], [0.0, 0.0]));
        let tick = Tick { nohz: Some(true), idle_sleeps: Some(7), ..Tick::default() };
        (a.ticks, b.ticks) = (vec![tick.clone()], vec![tick]);
        let live = conclude(Live::default(), &a, &b, busy(250.0));
        assert_eq!(live.mode, TickMode::StopsWhenIdle, "{:?}", live.mode_why);
        let why = Note::new("timer.tick-stops-since-boot").value("stops", Quantity::Count(7));
        assert_eq!(live.mode_why, Some(why));
    }

    #[test]
    fn usual_rates_are_recognised() {
        let found: Vec<_> = [249.7, 100.3, 1001.0, 299.0, 77.2, 0.0].map(nearest_hz).into();
        assert_eq!(found, [Some(250), Some(100), Some(1000), Some(300), Some(77), None]);
    }
}
