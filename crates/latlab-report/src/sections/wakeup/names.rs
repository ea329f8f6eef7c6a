//! Names of measurements and threads, shared by the table, the sentences and the plots.

use latlab_model::run::Part;
use latlab_model::wakeup::result::ThreadResult;

/// Worst wake-ups in the table and in a plot.
pub(super) const WORST: usize = 10;

/// What distinguishes one of the measurements of a survey.
pub fn circumstance(part: &Part) -> &str {
    match part.name.as_str() {
        "wakeup" => "idle",
        "wakeup-cpu" => "CPU load",
        "wakeup-memory" => "memory load",
        _ => title(part),
    }
}

/// The title of a measurement, also where it has none of its own.
pub(super) fn title(part: &Part) -> &str {
    if part.title.is_empty() { "Wake-up latency" } else { &part.title }
}

/// `CPU 0`, `thread 0` where it was not bound, or what woke it.
pub fn name(t: &ThreadResult) -> String {
    if let Some(woken) = t.woken {
        return crate::messages::woken(woken, t.cpu);
    }
    t.cpu.map_or_else(|| format!("thread {}", t.index), |cpu| format!("CPU {cpu}"))
}
