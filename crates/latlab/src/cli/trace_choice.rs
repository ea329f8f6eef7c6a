//! Options that choose events of a trace.

/// Which events of a trace.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Choice {
    /// Traces: only these CPUs (0,2-3).
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Traces: only these events: names, systems, system/name, with * and ?.
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    pub event: Vec<String>,
    /// Traces: only events that match, e.g. 'sched_switch : next_prio < 100 && COMM ~ "rc*"'.
    #[arg(short = 'F', long = "filter", value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Traces: begin at this time, in seconds as printed.
    #[arg(long, value_name = "SECONDS")]
    pub from: Option<String>,
    /// Traces: end at this time, in seconds as printed.
    #[arg(long, value_name = "SECONDS")]
    pub to: Option<String>,
}

impl Choice {
    /// Whether a part is chosen, and not all.
    #[cfg(feature = "host")]
    pub fn is_part(&self) -> bool {
        let lists = self.event.is_empty() && self.filter.is_empty();
        !lists || self.cpu.is_some() || self.from.is_some() || self.to.is_some()
    }
}
