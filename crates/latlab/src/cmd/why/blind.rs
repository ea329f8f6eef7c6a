//! Without tracefs: wake-ups are measured, and the late ones are analysed without a trace.

use super::capture_session::measure_for;
use super::limit::auto_limit;
use super::load::start_load;
use crate::cli::Global;
use crate::cli::why::{Args, Config, Late};
use crate::outcome::{Outcome, OwnHintExt};
use crate::progress::Progress;
use crate::session::Session;
use latlab_analysis::latency::untraced::{Blind, Seen, Stretch, findings};
use latlab_model::run::Part;
use latlab_model::units::format_ns;
use latlab_model::wakeup::result::{LateWake, WakeupResult};
use latlab_sys::platform_counters::PlatformCounters;
use latlab_sys::tracefs::TracefsError;
use latlab_sys::wakeup::{Hooks, LiveThread, Next};
use latlab_sys::{clock, signal, wakeup};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Late wake-ups that are kept one by one; more are counted.
const KEPT: usize = 20_000;

/// Measures and tells.
///
/// # Errors
/// When it cannot be measured, or the result can be neither kept nor printed.
pub fn run(
    global: &Global,
    args: &Args,
    asked: &Config,
    untraceable: &TracefsError,
) -> anyhow::Result<Outcome> {
    let mut session = Session::begin(global, "why", asked)?;
    let load = start_load(args)?;
    let begun = clock::now();
    let measured = measure(asked, untraceable);
    load.finish()?;
    let (blind, wakeups) = measured?;
    session.run.parts.push(Part {
        name: "why".into(),
        title: "Late wake-ups without a trace".into(),
        complete: signal::stop_requested().is_none(),
        duration_ns: clock::now().since(begun).0,
        findings: findings(&blind),
        results: Vec::new(),
        detail: None,
    });
    let part = latlab_analysis::wakeup::part::part("wakeup", "Wake-up latency", &wakeups);
    session.run.parts.push(part);
    let outcome = session.finish(signal::stop_requested().map(|s| s.name()))?;
    let exceeded = blind.late > 0 && matches!(asked.late, Late::Over(_));
    Ok(outcome.exceeded_if(exceeded))
}

fn measure(asked: &Config, untraceable: &TracefsError) -> anyhow::Result<(Blind, WakeupResult)> {
    let mut progress = Progress::new("why");
    let mut length = Duration::from_nanos(asked.duration_ns);
    let (low, high) = match asked.late {
        Late::Over(ns) => (ns, u64::MAX),
        Late::Within(low, high) => (low, high),
        Late::Auto => {
            progress.set(Some(0.0), "calibrating");
            let quarter = length / 4;
            length -= quarter;
            let first = wakeup::run(&measure_for(asked, quarter), Hooks::default()).with_hint()?;
            (auto_limit(asked, &first.all_wakeups()).0, u64::MAX)
        }
    };
    let (late, log) = (AtomicU64::new(low), Log::new());
    let on_late = |late: &LateWake| {
        if late.latency_ns <= high {
            log.add(late);
        }
        Next::Continue
    };
    let counters = PlatformCounters::open();
    let (mut last_sample, mut stretches) = (counters.sample(), Vec::new());
    let begun = clock::now();
    let mut on_tick = |threads: &[LiveThread]| {
        let now = counters.sample();
        let (steal_ns, smi) = now.delta(&last_sample);
        last_sample = now;
        let end = clock::now();
        stretches.push(Stretch { end_ns: end.0, steal_ns, smi });
        let done = end.since(begun).0 as f64 / length.as_nanos() as f64;
        let max = threads.iter().map(|t| t.max_ns).max().unwrap_or(0);
        let found = log.used.load(Ordering::Relaxed);
        progress.set(Some(done), &format!("{found} late, max {}", format_ns(max as f64)));
        Next::Continue
    };
    let hooks = Hooks {
        late_ns: Some(&late),
        on_late: Some(&on_late),
        on_tick: Some(&mut on_tick),
        on_samples: None,
    };
    let result = wakeup::run(&measure_for(asked, length), hooks).with_hint()?;
    let all = result.all_wakeups();
    let blind = Blind {
        reason: (untraceable.to_string(), untraceable.hint().unwrap_or_default()),
        limit_ns: low,
        interval_ns: asked.wakeup.measure.interval_ns,
        wakeups: all.count,
        late: all.count_between(low, high),
        threads: result.threads.len(),
        seen: log.taken(),
        stretches,
    };
    Ok((blind, result))
}

/// Late wake-ups, written by the measuring threads: no allocation, no lock, no page that is not there yet.
struct Log {
    used: AtomicUsize,
    rows: Vec<[AtomicU64; 3]>,
}

impl Log {
    fn new() -> Self {
        let row = || [const { AtomicU64::new(u64::MAX) }; 3];
        Self { used: AtomicUsize::new(0), rows: std::iter::repeat_with(row).take(KEPT).collect() }
    }

    fn add(&self, late: &LateWake) {
        let at = self.used.fetch_add(1, Ordering::Relaxed);
        if let Some([intended, latency, thread]) = self.rows.get(at) {
            intended.store(late.intended_ns, Ordering::Relaxed);
            latency.store(late.latency_ns, Ordering::Relaxed);
            thread.store(late.thread as u64, Ordering::Relaxed);
        }
    }

    /// In rising order; the measuring threads have ended.
    fn taken(&self) -> Vec<Seen> {
        let used = self.used.load(Ordering::Acquire).min(KEPT);
        let of = |[intended, latency, thread]: &[AtomicU64; 3]| Seen {
            intended_ns: intended.load(Ordering::Relaxed),
            latency_ns: latency.load(Ordering::Relaxed),
            thread: thread.load(Ordering::Relaxed) as usize,
        };
        let mut seen: Vec<Seen> = self.rows[..used].iter().map(of).collect();
        seen.sort_unstable_by_key(|s| s.intended_ns);
        seen
    }
}
