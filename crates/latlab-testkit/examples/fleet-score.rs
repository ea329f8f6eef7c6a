//! Score of `latlab fleet regressions` on simulated fleets with known truth.
//!
//! ```text
//! cargo run --release -p latlab-testkit --example fleet-score -- BOARDS CLASSES METRICS NIGHTS REGRESSIONS ILL SEED PERCENT PERCENT
//! cargo run --release -p latlab-testkit --example fleet-score -- 1000 10 100 365 60 40 7 5 25
//! ```
//!
//! REGRESSIONS of classes by the first PERCENT, ILL devices by the second. A regression is found when an alarm with its
//! class and family (and device) comes within so many nights; an alarm without one in the last ten is false.

use latlab_analysis::fleet::regressions::{Alarm, Key, Observation, Watch};
use latlab_testkit::fleet_sim::{Fleet, Truth};
use std::io::Write;
use std::time::{Duration, Instant};

fn meets(a: &Alarm, t: &Truth) -> bool {
    a.class == t.class && a.family == t.family && a.device == t.device
}

/// All alarms of a fleet, and the time of the analysis.
fn watch(fleet: &Fleet) -> (Vec<Alarm>, Duration) {
    let (mut watch, mut sim) = (Watch::default(), fleet.start());
    let key = |k: latlab_testkit::fleet_sim::Series| Key {
        class: k.class,
        device: k.device,
        name: k.name,
        params: String::new(),
    };
    let ids: Vec<usize> = fleet.series().map(|k| watch.series(&key(k))).collect();
    let (mut alarms, mut spent) = (Vec::new(), Duration::ZERO);
    for night in 0..fleet.nights {
        let kernel = watch.kernel(&Fleet::kernel(night));
        let observations: Vec<Observation> = (ids.iter().zip(sim.night()))
            .map(|(&series, value)| Observation { series, kernel, value })
            .collect();
        let start = Instant::now();
        alarms.extend(watch.night(&observations));
        spent += start.elapsed();
    }
    (alarms, spent)
}

fn main() -> std::io::Result<()> {
    let words: Vec<u64> = std::env::args().skip(1).filter_map(|w| w.parse().ok()).collect();
    let mut out = std::io::stdout().lock();
    let &[boards, classes, metrics, nights, regressions, ill, seed, size, ill_size] = &words[..]
    else {
        return writeln!(out, "nine numbers: see the head of this file");
    };
    let fleet = Fleet {
        boards: boards as usize,
        classes: classes as usize,
        metrics: metrics as usize,
        nights: nights as usize,
        seed,
        ..Fleet::default()
    };
    let fleet = fleet
        .with_regressions(regressions as usize, 0, size as f64 / 100.0, seed + 100)
        .with_regressions(0, ill as usize, ill_size as f64 / 100.0, seed + 200);
    let (alarms, spent) = watch(&fleet);
    for (what, device) in [("classes", false), ("devices", true)] {
        let due: Vec<&Truth> =
            fleet.truth.iter().filter(|t| t.device.is_some() == device).collect();
        let of: Vec<&Alarm> = alarms.iter().filter(|a| a.device.is_some() == device).collect();
        let within = |nights: usize| {
            let soon = |t: &&&Truth| {
                of.iter().any(|a| meets(a, t) && (t.night..t.night + nights).contains(&a.night))
            };
            due.iter().filter(soon).count()
        };
        let known = |a: &&&Alarm| {
            fleet.truth.iter().any(|t| meets(a, t) && (t.night..t.night + 10).contains(&a.night))
        };
        let exact = |t: &&&Truth| of.iter().any(|a| meets(a, t) && a.since == t.night);
        writeln!(
            out,
            "{what}: {} regressions, found within 2, 3, 5 and 10 nights {} {} {} {}, first night exact {}; {} alarms, {} false",
            due.len(),
            within(2),
            within(3),
            within(5),
            within(10),
            due.iter().filter(exact).count(),
            of.len(),
            of.len() - of.iter().filter(known).count(),
        )?;
    }
    let values = boards * metrics * nights;
    let each = spent.as_secs_f64() * 1e6 / values as f64;
    writeln!(out, "{values} values in {:.1} s, {each:.2} µs each", spent.as_secs_f64())
}
