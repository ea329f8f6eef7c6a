//! From a measurement to a part of a run: comparable records and findings.

use super::findings::{findings, no_power};
use latlab_model::record::{Param, Record, Unit, Window};
use latlab_model::run::{Detail, Part};
use latlab_model::wakeup::config::WakeupConfig;
use latlab_model::wakeup::mechanism::Mechanism;
use latlab_model::wakeup::result::{ThreadResult, WakeupResult};
use latlab_stats::histogram::{Histogram, Summary};
use std::collections::BTreeMap;

/// A part named `name`: `wakeup.LEVEL` over all threads and for each CPU, and
/// `wakeup.LEVEL.period`, which counts missed periods too. Of mechanisms in turns `wakeup.by.MECHANISM`
/// for each, with a parameter `sender` (`same-cpu`, `other-cpu`) where another thread makes the call, and
/// `wakeup.by.MECHANISM.stamp` for the part that follows the kernel's time stamp.
pub fn part(name: &str, title: &str, result: &WakeupResult) -> Part {
    Part {
        name: name.to_owned(),
        title: title.to_owned(),
        complete: result.complete,
        duration_ns: result.duration_ns,
        results: match result.config.by {
            Some(_) => by_mechanism(result),
            None => by_thread(result),
        },
        findings: findings(result),
        detail: Some(Detail::Wakeup(Box::new(result.clone()))),
    }
}

/// Adds the power that was read meanwhile, a record for each meter.
pub fn add_power(part: &mut Part, meters: Vec<Record>) {
    if meters.is_empty() {
        part.findings.push(no_power());
    }
    part.results.extend(meters);
}

fn by_mechanism(result: &WakeupResult) -> Vec<Record> {
    let of = |t: &ThreadResult| -> Vec<Record> {
        let Some(woken) = t.woken else { return Vec::new() };
        let mut params = base_params(&result.config);
        if let Some(from) = woken.from {
            let sender = if Some(from) == t.cpu { "same-cpu" } else { "other-cpu" };
            params.insert("sender".to_owned(), Param::from(sender.to_owned()));
        }
        params.extend(outside(woken.by, result));
        let [summary, _] = t.summaries();
        let name = ["wakeup.by.", woken.by.id()].concat();
        let stamp = t.since_stamp.as_ref().map(|part| {
            let name = [&name, ".stamp"].concat();
            record(name, &params, (part.clone(), part.summary()), None)
        });
        let whole = (t.latency.clone(), summary);
        let whole = record(name, &params, whole, Some(t.window.clone()));
        [whole].into_iter().chain(stamp).collect()
    };
    result.threads.iter().filter(|t| t.wakeups > 0).flat_map(of).collect()
}

/// The machine or the lines that a mechanism goes through.
fn outside(by: Mechanism, result: &WakeupResult) -> Option<(String, Param)> {
    let named = result.config.by.as_ref()?;
    match by {
        Mechanism::UdpHost => {
            Some(("host".to_owned(), Param::from(named.host.as_ref()?.name.clone())))
        }
        Mechanism::Gpio => {
            let wire = named.gpio.as_ref()?;
            let lines = [wire.output.to_string(), wire.input.to_string()].join(" ");
            Some(("lines".to_owned(), Param::from(lines)))
        }
        _ => None,
    }
}

fn by_thread(result: &WakeupResult) -> Vec<Record> {
    let mut results = Vec::new();
    let level = result.config.level;
    let wakeups = result.all_wakeups();
    let of_wakeup_count = wakeups.count;
    let mut periods = wakeups.clone();
    periods.merge(&result.all_missed());
    let params = base_params(&result.config);
    let total = total_window(result);
    let name_of = |suffix: &str| ["wakeup.", &level.to_string(), suffix].concat();
    let [of_wakeups, of_periods] = result.summaries();
    results.push(record(name_of(""), &params, (wakeups, of_wakeups), total.clone()));
    // Without their lateness missed periods cannot count.
    if result.missed_periods() == 0 || periods.count > of_wakeup_count {
        results.push(record(name_of(".period"), &params, (periods, of_periods), total));
    }
    if result.threads.len() > 1 {
        for t in &result.threads {
            let params = thread_params(&params, t);
            let window = Some(t.window.clone());
            let [summary, _] = t.summaries();
            results.push(record(name_of(""), &params, (t.latency.clone(), summary), window));
        }
    }
    results
}

fn base_params(config: &WakeupConfig) -> BTreeMap<String, Param> {
    let mut params = BTreeMap::from([
        ("policy".to_owned(), Param::from(config.policy.to_string())),
        ("interval_us".to_owned(), Param::Int((config.interval_ns / 1_000) as i64)),
        ("threads".to_owned(), Param::Int(config.threads.len() as i64)),
    ]);
    if config.policy.has_priority() {
        params.insert("priority".to_owned(), Param::Int(i64::from(config.priority)));
    }
    if let Some(core) = config.core {
        params.insert("core".to_owned(), Param::from(core.id().to_owned()));
    }
    if !config.timer.is_default() {
        params.insert("timer".to_owned(), Param::from(config.timer.id().to_owned()));
    }
    params
}

fn thread_params(base: &BTreeMap<String, Param>, t: &ThreadResult) -> BTreeMap<String, Param> {
    let mut params = base.clone();
    params.insert("thread".to_owned(), Param::Int(t.index as i64));
    if let Some(cpu) = t.cpu {
        params.insert("cpu".to_owned(), Param::Int(i64::from(cpu.0)));
    }
    params.insert("interval_us".to_owned(), Param::Int((t.interval_ns / 1_000) as i64));
    if t.policy.has_priority() {
        params.insert("priority".to_owned(), Param::Int(i64::from(t.priority)));
    }
    params
}

fn record(
    name: String,
    params: &BTreeMap<String, Param>,
    (histogram, summary): (Histogram, Summary),
    window: Option<Window>,
) -> Record {
    Record {
        name,
        params: params.clone(),
        unit: Unit::Ns,
        summary,
        histogram: Some(histogram),
        window,
        ..Record::default()
    }
}

/// The windows of all threads as one; a count that one thread could not read is unknown.
fn total_window(result: &WakeupResult) -> Option<Window> {
    let all = |of: fn(&Window) -> Option<u64>| -> Option<u64> {
        result.threads.iter().map(|t| of(&t.window)).sum()
    };
    (!result.threads.is_empty()).then(|| Window {
        start_ns: result.start_ns,
        length_ns: result.duration_ns,
        steal_ns: result.steal_ns,
        interrupts: result.interrupts,
        migrations: all(|w| w.migrations),
        major_faults: all(|w| w.major_faults),
        minor_faults: all(|w| w.minor_faults),
        involuntary_switches: all(|w| w.involuntary_switches),
        voluntary_switches: all(|w| w.voluntary_switches),
        khz: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::units::CpuId;

    #[test]
    fn each_mechanism_has_a_record_of_its_own() {
        use latlab_model::wakeup::mechanism::{Mechanisms, Woken};
        let row = |from| ThreadResult {
            cpu: Some(CpuId(1)),
            woken: Some(Woken { by: Mechanism::Futex, from: Some(CpuId(from)) }),
            wakeups: 2,
            latency: Histogram::of([3_000, 4_000]),
            ..ThreadResult::default()
        };
        let mut result = WakeupResult { threads: vec![row(1), row(0)], ..WakeupResult::default() };
        result.config.by = Some(Mechanisms::default());
        let records = part("wakeup-by", "", &result).results;
        assert!(records.iter().all(|r| r.name == "wakeup.by.futex" && r.summary.count == 2));
        let sender = |i: usize| records[i].params["sender"].clone();
        assert_eq!(sender(0), Param::from("same-cpu".to_owned()));
        assert_eq!(sender(1), Param::from("other-cpu".to_owned()));
    }

    #[test]
    fn the_part_after_the_stamp_is_a_record_with_the_host() {
        use latlab_model::wakeup::mechanism::{EchoHost, Mechanisms, Woken};
        let row = ThreadResult {
            cpu: Some(CpuId(1)),
            woken: Some(Woken { by: Mechanism::UdpHost, from: Some(CpuId(1)) }),
            wakeups: 2,
            latency: Histogram::of([30_000, 40_000]),
            since_stamp: Some(Histogram::of([3_000, 4_000])),
            ..ThreadResult::default()
        };
        let mut result = WakeupResult { threads: vec![row], ..WakeupResult::default() };
        let host = Some(EchoHost { name: "board".into(), ..EchoHost::default() });
        result.config.by = Some(Mechanisms { host, ..Mechanisms::default() });
        let records = part("wakeup-by", "", &result).results;
        let names: Vec<&str> = records.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["wakeup.by.udp-host", "wakeup.by.udp-host.stamp"]);
        assert_eq!(records[1].summary.max, Some(4_000.0));
        assert!(records.iter().all(|r| r.params["host"] == Param::from("board".to_owned())));
    }

    #[test]
    fn a_stall_of_ten_periods_weighs_ten_times_per_period() {
        let thread = ThreadResult {
            cpu: Some(CpuId(0)),
            interval_ns: 1_000_000,
            wakeups: 90,
            missed_periods: 10,
            latency: Histogram::of((0..89).map(|_| 5_000).chain([10_005_000])),
            missed: Histogram::of((0..10).map(|k| 5_000 + k * 1_000_000)),
            ..ThreadResult::default()
        };
        let result = WakeupResult { threads: vec![thread], ..WakeupResult::default() };
        let part = part("wakeup", "Wake-up latency", &result);
        let by_name = |n: &str| part.results.iter().find(|r| r.name == n).unwrap();
        assert_eq!(by_name("wakeup.user").summary.count, 90);
        assert_eq!(by_name("wakeup.user.period").summary.count, 100);
        let periods = by_name("wakeup.user.period").histogram.as_ref().unwrap();
        assert!(periods.quantile(0.95).unwrap() > 4_000_000, "{periods:?}");
        assert_eq!(part.results.len(), 2, "one thread has no record of its own beside the total");
    }
}
