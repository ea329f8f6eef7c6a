//! Takes captures of late activations: what was recorded around them, the cause, its file, the alarm.

use super::{Service, hour_now};
use latlab_analysis::watch::choice::Incident;
use latlab_analysis::watch::counts::add_cause;
use latlab_analysis::watch::thinning;
use latlab_model::watch::{CaptureEntry, CauseCount};
use latlab_report::messages;
use latlab_sys::service::{cpu_ns, return_memory};
use std::time::SystemTime;

impl Service {
    /// Takes a capture of one of them, if it may be kept and there is CPU time for it.
    pub(super) fn capture_one(&mut self, incidents: &[Incident]) {
        let (hour, each) = (hour_now(), self.config.captures);
        let Some((incident, has_left)) = self.choice.choose(incidents, &hour, each) else {
            return;
        };
        let judged_ns = incident.late.judged(&incident.job).0;
        let captures = self.store.captures();
        let is_wanted =
            has_left || thinning::is_wanted(captures, &incident.label, &hour, judged_ns, each);
        if self.credit_ns <= 0.0 || !is_wanted {
            return;
        }
        self.choice.captured(&incident);
        self.capture(&incident, hour, judged_ns);
        // A capture in memory is some times as large as everything else.
        return_memory();
    }

    fn capture(&mut self, incident: &Incident, hour: String, judged_ns: u64) {
        let before = cpu_ns();
        let taken = match self.recording.capture(incident) {
            Ok(taken) => taken,
            Err(error) => return log::warn!("a capture cannot be made: {error}"),
        };
        // One that has not ended is counted when it ends.
        let counted = u64::from(!incident.is_open);
        let missed = &mut self.pending.counters.not_captured;
        *missed = missed.saturating_sub(counted);
        let lead = taken.lead(incident, self.recording.known());
        let lead = lead.unwrap_or_else(|error| {
            log::warn!("a capture cannot be read: {error:#}");
            None
        });
        self.pending.counters.uncovered += u64::from(lead.as_ref().is_none_or(|l| l.uncovered));
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
        match taken.save(&path) {
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
