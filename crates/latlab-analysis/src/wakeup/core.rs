//! What the program of a real-time core measured, as a result of our own.

use crate::compare::import::ForeignError;
use crate::compare::import::xenomai::{Plot, ns, plot};
use latlab_model::finding::{Note, Quantity};
use latlab_model::wakeup::config::{Core, WakeupConfig};
use latlab_model::wakeup::result::{StopReason, ThreadResult, WakeupResult, Worst};
use latlab_stats::histogram::Recorder;

/// When a measurement ran, and what ended it early.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Begin, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
    /// The signal that ended it.
    pub signal: Option<String>,
}

/// Reads the histogram file of `latency` or `latmus`.
///
/// # Errors
/// When it is damaged, or has no wake-up.
pub fn result(
    config: &WakeupConfig,
    core: Core,
    histogram: &str,
    ran: &Ran,
) -> Result<WakeupResult, ForeignError> {
    let plot = plot(histogram)?;
    let latency = latencies(&plot).to_histogram();
    if latency.count == 0 {
        return Err(ForeignError::Empty { tool: core.program() });
    }
    let worst = Worst { latency_ns: latency.max, ..Worst::default() };
    let thread = ThreadResult {
        cpu: config.threads.first().copied().flatten(),
        policy: config.policy,
        priority: config.priority,
        interval_ns: config.interval_ns,
        wakeups: latency.count,
        missed_periods: plot.overruns,
        latency,
        worst: vec![worst],
        ..ThreadResult::default()
    };
    let mut notes = vec![
        Note::new("wakeup.core")
            .value("core", core.id())
            .value("program", core.program())
            .value("width", Quantity::Ns(plot.width_ns)),
    ];
    notes.extend((plot.switches > 0).then(|| {
        Note::new("wakeup.core-switches").value("switches", Quantity::Count(plot.switches))
    }));
    notes.extend(
        plot.range_us.filter(|r| r.0 < 0.0).map(|(min, _)| {
            Note::new("wakeup.core-early").value("early", Quantity::Ns(-min * 1e3))
        }),
    );
    Ok(WakeupResult {
        config: config.clone(),
        method: core.program().to_owned(),
        complete: ran.signal.is_none() || config.duration_ns.is_none(),
        stopped_by: ran.signal.clone().map(|name| StopReason::Signal { name }),
        start_ns: ran.start_ns,
        duration_ns: ran.length_ns,
        notes,
        threads: vec![thread],
        ..WakeupResult::default()
    })
}

/// Each bucket at its middle, but the smallest and the largest latency exactly as the head has them.
fn latencies(plot: &Plot) -> Recorder {
    let mut all = Recorder::new();
    let filled: Vec<(u64, u64)> = plot.buckets.iter().copied().filter(|b| b.1 > 0).collect();
    let (min, max) = plot.range_us.map_or((0, u64::MAX), |(min, max)| (ns(min), ns(max)));
    let ends = [filled.first(), filled.last()].into_iter().flatten();
    let wanted = plot.range_us.is_some() && ends.map(|b| b.1).sum::<u64>() > 1;
    for (i, &(middle, n)) in filled.iter().enumerate() {
        let (first, last) = (wanted && i == 0, wanted && i + 1 == filled.len());
        // The last bucket also counts what is beyond it.
        let ends = u64::from(first) + u64::from(last);
        if first && n >= ends {
            all.record(min);
        }
        if last {
            all.record(max);
        }
        let taken = if n >= ends { ends } else { u64::from(last) };
        all.record_n(middle.clamp(min, max.max(min)), n - taken);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::wakeup::config::Level;

    /// What Xenomai 3.0.7's `latency -p 1000 -T 4 -g FILE` wrote, built for Linux alone, shortened.
    const LATENCY: &str = "\
# 00:00:04 (periodic user-mode task, 1000 us period, priority 80)
# ----lat min|----lat avg|----lat max|-overrun|---msw|
#      17.252|     47.557|   1767.875|       2|     0|
17 1
17.5 2
18.5 7
19.5 39
20.5 1
1767.5 2
1768 1
";

    fn of(text: &str, core: Core) -> WakeupResult {
        let config = WakeupConfig { core: Some(core), ..WakeupConfig::default() };
        result(&config, core, text, &Ran { length_ns: 4_000_000_000, ..Ran::default() }).unwrap()
    }

    #[test]
    fn counts_and_extremes_are_those_of_the_file() {
        let r = of(LATENCY, Core::Cobalt);
        let t = &r.threads[0];
        assert_eq!((t.wakeups, t.missed_periods), (1 + 6 + 38 + 1, 2));
        assert_eq!((t.latency.min, t.latency.max), (17_252, 1_767_875));
        assert_eq!(t.max().unwrap().latency_ns, 1_767_875);
        assert!((19_490..19_510).contains(&t.latency.quantile(0.5).unwrap()));
        assert!(r.complete, "{r:?}");
        assert_eq!(r.notes.len(), 1, "{:?}", r.notes);
    }

    #[test]
    fn latmus_has_switches_and_a_timer_that_comes_early() {
        let text = "\
# 00:01:00 (kernel, 100 us period, priority 90)
# ----lat min|----lat avg|----lat max|-overrun|---msw|
#      -0.250|      0.301|      1.700|       0|     3|
0 1
0.5 90
1.5 12
2 1
";
        let plot = plot(text).unwrap();
        assert_eq!((plot.name, plot.interval_us), ("wakeup.kernel", Some(100)));
        let r = of(text, Core::Evl);
        assert_eq!((r.threads[0].latency.min, r.threads[0].latency.max), (0, 1_700));
        let ids: Vec<_> = r.notes.iter().filter_map(Note::id).collect();
        assert_eq!(ids, ["wakeup.core", "wakeup.core-switches", "wakeup.core-early"]);
    }

    #[test]
    fn one_wakeup_is_enough_and_none_is_an_error() {
        let one = "# (x, 1000 us period)\n# 5.100| 5.1| 5.100| 0| 0|\n5 1\n5.5 2\n6 1\n";
        let r = of(one, Core::Cobalt);
        assert_eq!((r.threads[0].wakeups, r.threads[0].latency.max), (1, 5_100));
        let config = WakeupConfig { level: Level::User, ..WakeupConfig::default() };
        for none in ["", "5 1\n5.5 1\n6 1\n", "# x\n"] {
            assert!(result(&config, Core::Cobalt, none, &Ran::default()).is_err(), "{none}");
        }
    }
}
