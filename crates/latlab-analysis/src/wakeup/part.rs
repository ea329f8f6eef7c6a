//! From a measurement to a part of a run: comparable records and findings.

use super::findings::findings;
use latlab_model::record::{Param, Record, Unit, Window};
use latlab_model::run::{Detail, Part};
use latlab_model::wakeup::config::WakeupConfig;
use latlab_model::wakeup::result::{ThreadResult, WakeupResult};
use latlab_stats::histogram::{Histogram, Summary};
use std::collections::BTreeMap;

/// A part named `name`: `wakeup.LEVEL` over all threads and for each CPU, and
/// `wakeup.LEVEL.period`, which counts missed periods too.
pub fn part(name: &str, title: &str, result: &WakeupResult) -> Part {
    let mut results = Vec::new();
    let level = result.config.level;
    let wakeups = result.all_wakeups();
    let mut periods = wakeups.clone();
    periods.merge(&result.all_missed());
    let params = base_params(&result.config);
    let total = total_window(result);
    let name_of = |suffix: &str| ["wakeup.", &level.to_string(), suffix].concat();
    let [of_wakeups, of_periods] = result.summaries();
    results.push(record(name_of(""), &params, (wakeups, of_wakeups), total.clone()));
    results.push(record(name_of(".period"), &params, (periods, of_periods), total));
    if result.threads.len() > 1 {
        for t in &result.threads {
            let params = thread_params(&params, t);
            let window = Some(t.window.clone());
            let [summary, _] = t.summaries();
            results.push(record(name_of(""), &params, (t.latency.clone(), summary), window));
        }
    }
    Part {
        name: name.to_owned(),
        title: title.to_owned(),
        complete: result.complete,
        duration_ns: result.duration_ns,
        results,
        findings: findings(result),
        detail: Some(Detail::Wakeup(Box::new(result.clone()))),
    }
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
