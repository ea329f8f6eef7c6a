//! The timerlat tracer in an instance of our own; its settings, which are one for the whole
//! machine, are journalled and put back.

use super::super::WakeupError;
use crate::policy::{self, Budget};
use crate::process;
use crate::recorder::{RecordConfig, RecordError, Session};
use crate::settings::Settings;
use crate::tracefs::{Control, Tracefs, remove_left_behind, user_of};
use latlab_model::cpulist;
use latlab_model::wakeup::config::{Level, WakeupConfig};
use std::collections::BTreeMap;
use std::path::Path;

/// Size of each CPU's buffer: 50 ms of it are used between two looks, at the shortest interval.
const BUFFER_KB: u64 = 512;

/// A tracer at work. Dropping it ends the tracer, then puts its settings back.
pub struct Tracer {
    session: Session,
    _settings: Settings,
    /// The tracer's thread of each CPU.
    pub threads: BTreeMap<u32, i32>,
}

impl Tracer {
    /// Sets the tracer up and lets its threads run; nothing is recorded yet.
    ///
    /// # Errors
    /// When this kernel has no such tracer, somebody else uses it, or a setting is refused.
    pub fn start(
        config: &WakeupConfig,
        levels: &[Level],
        cpus: &[u32],
    ) -> Result<Self, WakeupError> {
        let tracefs = Tracefs::find().map_err(RecordError::from)?.tracefs;
        let tracers = tracefs.tracers().map_err(RecordError::from)?;
        if !tracers.iter().any(|t| t == "timerlat") {
            let levels: Vec<String> = levels.iter().map(ToString::to_string).collect();
            return Err(WakeupError::NoTimerlat { levels: levels.join(",") });
        }
        // A latlab that was killed leaves its tracer running.
        remove_left_behind(&tracefs);
        refuse_if_used(tracefs.root())?;
        let mut settings = Settings::new();
        let osnoise = tracefs.root().join("osnoise");
        settings
            .set(osnoise.join("timerlat_period_us"), &(config.interval_ns / 1_000).to_string())?;
        settings.set(osnoise.join("cpus"), &cpulist::format(cpus))?;
        // What would stop the tracer, or have it store a stack with each late sample.
        for name in ["stop_tracing_us", "stop_tracing_total_us", "print_stack"] {
            let path = osnoise.join(name);
            if path.exists() {
                settings.set(path, "0")?;
            }
        }
        let record = RecordConfig {
            tracer: Some("timerlat".into()),
            clock: Some("mono".into()),
            buffer_kb: Some(BUFFER_KB),
            ..RecordConfig::default()
        };
        let session = Session::prepare(&tracefs, &record)?;
        let threads = process::kernel_threads("timerlat/");
        for &tid in threads.values() {
            let (policy, priority) = (config.policy, config.priority);
            policy::set_of(tid, policy, priority, Budget::default())
                .map_err(|source| WakeupError::Policy { policy, priority, source })?;
        }
        Ok(Self { session, _settings: settings, threads })
    }

    /// Its buffer.
    pub fn control(&self) -> &Control {
        self.session.control()
    }

    /// Starts or stops recording.
    ///
    /// # Errors
    /// When the switch cannot be written.
    pub fn record(&self, on: bool) -> Result<(), WakeupError> {
        Ok(self.control().set_tracing(on).map_err(RecordError::from)?)
    }
}

/// Refuses when the tracer, or its sibling with the same settings, runs in any buffer.
fn refuse_if_used(root: &Path) -> Result<(), WakeupError> {
    match user_of(root, &["timerlat", "osnoise"]) {
        Some((tracer, by)) => Err(WakeupError::TimerlatBusy { tracer, by }),
        None => Ok(()),
    }
}

/// CPU time of a kernel thread so far, ns, where the kernel tells (`/proc/PID/schedstat`).
pub fn cpu_time_ns(tid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracer_that_others_use_is_left_to_them() {
        let root = tempfile::tempdir().unwrap();
        let buffer = root.path().join("instances/rtla");
        std::fs::create_dir_all(&buffer).unwrap();
        std::fs::write(root.path().join("current_tracer"), "nop\n").unwrap();
        assert!(refuse_if_used(root.path()).is_ok());
        std::fs::write(buffer.join("current_tracer"), "osnoise\n").unwrap();
        let refused = refuse_if_used(root.path()).unwrap_err();
        assert!(refused.to_string().starts_with("the osnoise tracer is in use by "), "{refused}");
        assert!(refused.hint().is_some());
    }
}
