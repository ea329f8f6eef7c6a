//! Which events a pattern stands for.

use super::names::{glob, nearest};
use super::{EventName, Result, TracefsError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a pattern such as `sched`, `irq:*_entry` or `all` stands for on this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every event there is.
    All,
    /// A whole system.
    System(String),
    /// One event.
    Event(EventName),
}

impl Selection {
    /// The directory of its `enable`, `filter` and `trigger`, relative to the buffer's.
    pub(super) fn dir(&self) -> PathBuf {
        let events = Path::new("events");
        match self {
            Self::All => events.to_owned(),
            Self::System(system) => events.join(system),
            Self::Event(event) => events.join(&event.system).join(&event.name),
        }
    }
    /// For people.
    pub fn name(&self) -> String {
        match self {
            Self::All => "all events".into(),
            Self::System(system) => system.clone(),
            Self::Event(event) => event.to_string(),
        }
    }
    /// Whether the event belongs to it.
    pub fn holds(&self, event: &EventName) -> bool {
        match self {
            Self::All => true,
            Self::System(system) => *system == event.system,
            Self::Event(own) => own == event,
        }
    }
}

/// Resolves `all`, `SYSTEM`, `EVENT`, `SYSTEM:EVENT` (or `SYSTEM/EVENT`), with `*` and `?`.
/// ftrace's own pseudo-system cannot be enabled and never matches.
pub(crate) fn select(pattern: &str, events: &[EventName]) -> Result<Vec<Selection>> {
    if matches!(pattern, "all" | "*" | "*:*") {
        return Ok(vec![Selection::All]);
    }
    let real = || events.iter().filter(|e| e.system != "ftrace");
    if let Some((system, name)) = pattern.split_once([':', '/']) {
        let any = |p: &str, s: &str| p.is_empty() || glob(p, s);
        let found: Vec<_> = real()
            .filter(|e| any(system, &e.system) && any(name, &e.name))
            .map(|e| Selection::Event(e.clone()))
            .collect();
        return match found.is_empty() {
            false => Ok(found),
            true => {
                let all: Vec<String> = real().map(ToString::to_string).collect();
                let wanted = format!("{system}:{name}");
                Err(unknown("event", pattern, nearest(&wanted, all.iter().map(String::as_str))))
            }
        };
    }
    let systems: BTreeSet<&str> = real().map(|e| e.system.as_str()).collect();
    let mut found: Vec<_> = systems
        .iter()
        .filter(|s| glob(pattern, s))
        .map(|s| Selection::System((*s).to_owned()))
        .collect();
    for event in real().filter(|e| glob(pattern, &e.name)) {
        if !found.iter().any(|s| s.holds(event)) {
            found.push(Selection::Event(event.clone()));
        }
    }
    if found.is_empty() {
        let names = systems.into_iter().chain(real().map(|e| e.name.as_str()));
        return Err(unknown("event", pattern, nearest(pattern, names)));
    }
    Ok(found)
}

pub(super) fn unknown(kind: &'static str, name: &str, nearest: Vec<String>) -> TracefsError {
    TracefsError::Unknown { kind, name: name.to_owned(), nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<EventName> {
        [
            "ftrace:function",
            "irq:irq_handler_entry",
            "irq:softirq_entry",
            "sched:sched_switch",
            "sched:sched_wakeup",
            "timer:hrtimer_start",
            "timer:timer_start",
        ]
        .iter()
        .map(|e| e.split_once(':').unwrap())
        .map(|(s, n)| EventName { system: s.into(), name: n.into() })
        .collect()
    }

    fn selected(pattern: &str) -> Vec<String> {
        select(pattern, &events()).unwrap().iter().map(Selection::name).collect()
    }

    #[test]
    fn patterns_select_systems_and_events() {
        assert_eq!(selected("sched"), ["sched"]);
        assert_eq!(selected("sched_switch"), ["sched:sched_switch"]);
        assert_eq!(selected("irq:*_entry"), ["irq:irq_handler_entry", "irq:softirq_entry"]);
        assert_eq!(selected("sched/sched_wakeup"), ["sched:sched_wakeup"]);
        assert_eq!(selected("*timer_start"), ["timer:hrtimer_start", "timer:timer_start"]);
        // A system and its own events are not enabled twice.
        assert_eq!(selected("timer*"), ["timer"]);
        assert_eq!(selected("all"), ["all events"]);
    }

    #[test]
    fn an_unknown_event_brings_the_nearest_names() {
        let error = select("sched_swich", &events()).unwrap_err().to_string();
        assert_eq!(error, "this kernel has no event \"sched_swich\"; nearest: sched_switch");
        assert!(
            select("sched:sched_wakup", &events())
                .unwrap_err()
                .to_string()
                .contains("nearest: sched:sched_wakeup")
        );
        assert!(select("ftrace:function", &events()).is_err());
    }
}
