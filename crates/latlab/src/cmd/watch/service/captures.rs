//! Takes captures of late activations: what the ring buffer has, its cause, its file, the alarm.

use super::{SHORTEST_LOOK, Service, hour_now};
use latlab_analysis::watch::choice::Incident;
use latlab_analysis::watch::counts::add_cause;
use latlab_analysis::watch::thinning;
use latlab_model::watch::{CaptureEntry, CauseCount};
use latlab_report::messages;
use latlab_sys::service::{cpu_ns, return_memory};
use std::time::SystemTime;

impl Service {
    /// Takes a capture of one of them, if it may be kept and there is CPU time for it.
    pub(super) fn capture_one(&mut self, incidents: &[Incident]) -> anyhow::Result<()> {
        let (hour, each) = (hour_now(), self.config.captures);
        let Some((incident, has_left)) = self.choice.choose(incidents, &hour, each) else {
            return Ok(());
        };
        let judged_ns = incident.late.judged(&incident.job).0;
        let captures = self.store.captures();
        let is_wanted =
            has_left || thinning::is_wanted(captures, &incident.label, &hour, judged_ns, each);
        if self.credit_ns <= 0.0 || !is_wanted || self.flight.is_none() {
            return Ok(());
        }
        self.choice.captured(&incident);
        let captured = self.capture(&incident, hour, judged_ns);
        // A capture in memory is some times as large as everything else.
        return_memory();
        captured
    }

    fn capture(&mut self, incident: &Incident, hour: String, judged_ns: u64) -> anyhow::Result<()> {
        let Some(flight) = self.flight.as_mut() else { return Ok(()) };
        let before = cpu_ns();
        let frozen = match flight.freeze() {
            Ok(frozen) => frozen,
            Err(error) => return self.begin_again(&format!("{error:#}")),
        };
        if self.stopped == 0 {
            self.pending.counters.dead_ns += frozen.dead.as_nanos() as u64;
        }
        self.pending.counters.not_captured = self.pending.counters.not_captured.saturating_sub(1);
        let known = self.detector.known();
        let lead = frozen.lead(incident.tid, incident.job, incident.late, known);
        let lead = lead.unwrap_or_else(|error| {
            log::warn!("a capture cannot be read: {error:#}");
            None
        });
        let uncovered = lead.as_ref().is_none_or(|l| l.uncovered);
        self.pending.counters.uncovered += u64::from(uncovered);
        if uncovered {
            self.look = (self.look / 2).max(SHORTEST_LOOK);
        }
        let (cause, who) =
            lead.map_or(("unknown", String::new()), |l| (messages::cause(l.cause), l.who));
        let entry = CaptureEntry {
            task: incident.label.clone(),
            hour,
            judged_ns,
            cause: cause.to_owned(),
            who,
            ..CaptureEntry::default()
        };
        let file = thinning::file_name(&compact(SystemTime::now()), &entry);
        let path = self.store.capture_path(&file);
        match frozen.save(&path) {
            Ok(()) => {
                let (stays, removed) = self.store.keep(&file);
                self.pending.counters.captures += u64::from(stays);
                self.pending.counters.removed += removed;
            }
            Err(error) => {
                self.pending.counters.write_errors += 1;
                self.store.capture_failed(std::io::Error::other(error.to_string()));
            }
        }
        let (task, cause, who) = (entry.task, entry.cause, entry.who);
        self.tell(&task, judged_ns, &cause, &who, &path);
        add_cause(&mut self.pending, CauseCount { task, cause, who, captures: 1 });
        let used = cpu_ns().saturating_sub(before);
        self.capture_cpu_ns += used;
        self.credit_ns -= used as f64;
        Ok(())
    }

    fn tell(&mut self, task: &str, ns: u64, cause: &str, who: &str, path: &std::path::Path) {
        let (ns, path) = (ns.to_string(), path.display().to_string());
        self.alarm.start(&[
            ("LATLAB_TASK", task),
            ("LATLAB_NS", &ns),
            ("LATLAB_CAUSE", cause),
            ("LATLAB_WHO", who),
            ("LATLAB_CAPTURE", &path),
        ]);
    }
}

/// `20261124T230517Z`.
fn compact(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.chars().filter(|c| !matches!(c, '-' | ':')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_of_files_are_those_of_hours() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_025_517);
        assert_eq!(compact(time), "20251124T230517Z");
    }
}
