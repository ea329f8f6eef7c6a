//! OS noise by the kernel's own tracers `osnoise` and `hwlat`, in an instance of our own; their settings, which are one
//! for the whole machine, are journalled and put back.
//!
//! `osnoise` has a busy loop in a kernel thread on each CPU, with interrupts enabled, and reports each distance of two
//! readings over the threshold with what ran in it (Documentation/trace/osnoise-tracer.rst). `hwlat` disables
//! interrupts for the length of a window and reports the longest distance of each: what is outside of the kernel
//! (Documentation/trace/hwlat_detector.rst). Times are those of the kernel's local clock.

use crate::policy::{self, Budget};
use crate::process;
use crate::recorder::{EventSpec, FlightRecorder, RecordConfig, RecordError, Snapshot};
use crate::settings::{SettingError, Settings};
use crate::tracefs::{Tracefs, TracefsError, remove_left_behind, user_of};
use latlab_model::cpulist;
use latlab_model::noise::NoiseTracer;
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::Policy;
use std::collections::BTreeSet;
use std::io;

/// Size of each CPU's buffer, KiB: some ten thousand interruptions with their events.
const BUFFER_KB: u64 = 4_096;

/// How it measures.
#[derive(Clone, Debug)]
pub struct TracerConfig {
    /// Which one.
    pub tracer: NoiseTracer,
    /// CPUs.
    pub cpus: Vec<CpuId>,
    /// From one window to the next, ns.
    pub period_ns: u64,
    /// Length of a window, ns; of `hwlat` with interrupts disabled.
    pub runtime_ns: u64,
    /// Shortest interruption, ns.
    pub threshold_ns: u64,
    /// SCHED_FIFO priority of the threads of `osnoise`; `None`: ordinary tasks.
    pub priority: Option<u32>,
}

/// Why it cannot measure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracerError {
    /// The kernel lacks the tracer.
    #[error("this kernel has no {0} tracer")]
    Missing(NoiseTracer),
    /// Somebody else uses it, or its sibling with the same settings.
    #[error("the {tracer} tracer is in use by {by}; its settings are one for the whole machine")]
    Busy {
        /// The tracer.
        tracer: String,
        /// The directory of the trace buffer.
        by: String,
    },
    /// tracefs refused.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A setting was refused.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The priority was refused.
    #[error("giving the threads of the tracer a priority")]
    Policy(#[source] io::Error),
}

impl TracerError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing(tracer) => format!(
                "without --by a loop in user space measures here; `latlab --on vm:armv7-rt noise --by {tracer}` uses a kernel that has it"
            ),
            Self::Busy { .. } => {
                "end rtla or whoever else traces with it, then try again".to_owned()
            }
            Self::Record(error) => return error.hint(),
            Self::Setting(_) => {
                "needs root; `latlab doctor --restore` restores settings of a killed latlab process"
                    .to_owned()
            }
            Self::Policy(_) => "needs root".to_owned(),
        })
    }
}

impl From<TracefsError> for TracerError {
    fn from(error: TracefsError) -> Self {
        Self::Record(error.into())
    }
}

/// A tracer at work. Dropping it ends the tracer, then puts its settings back.
#[derive(Debug)]
pub struct KernelNoise {
    flight: FlightRecorder,
    _settings: Settings,
}

impl KernelNoise {
    /// Starts the tracer and records.
    ///
    /// # Errors
    /// When this kernel has no such tracer, somebody else uses it, or a setting is refused.
    pub fn start(config: &TracerConfig) -> Result<Self, TracerError> {
        let tracefs = Tracefs::find()?.tracefs;
        let name = config.tracer.to_string();
        if !tracefs.tracers()?.contains(&name) {
            return Err(TracerError::Missing(config.tracer));
        }
        // A latlab that was killed leaves its tracer running.
        remove_left_behind(&tracefs);
        let siblings: &[&str] = match config.tracer {
            NoiseTracer::Osnoise => &["osnoise", "timerlat"],
            NoiseTracer::Hwlat => &["hwlat"],
        };
        if let Some((tracer, by)) = user_of(tracefs.root(), siblings) {
            return Err(TracerError::Busy { tracer, by });
        }
        let settings = settings(config, &tracefs)?;
        let cpus: BTreeSet<u32> = config.cpus.iter().map(|c| c.0).collect();
        let events = match config.tracer {
            NoiseTracer::Osnoise => vec![EventSpec::new("osnoise:*")],
            NoiseTracer::Hwlat => Vec::new(),
        };
        let record = RecordConfig {
            events,
            tracer: Some(name),
            cpus: Some(cpus),
            buffer_kb: Some(BUFFER_KB),
            ..RecordConfig::default()
        };
        let mut flight = FlightRecorder::prepare(&tracefs, &record)?;
        if let (NoiseTracer::Osnoise, Some(priority)) = (config.tracer, config.priority) {
            for &tid in process::kernel_threads("osnoise/").values() {
                policy::set_of(tid, Policy::Fifo, priority, Budget::default())
                    .map_err(TracerError::Policy)?;
            }
        }
        flight.rearm()?;
        Ok(Self { flight, _settings: settings })
    }

    /// What was recorded since the last call; the tracer goes on.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub fn take(&mut self) -> Result<Snapshot, TracerError> {
        let pages = self.flight.take_pages()?;
        Ok(self.flight.recording(pages))
    }
}

/// Sets the tracer up. What is lengthened first depends on what the kernel has: a window is never longer than its period.
fn settings(config: &TracerConfig, tracefs: &Tracefs) -> Result<Settings, TracerError> {
    let mut settings = Settings::new();
    let us = |ns: u64| (ns / 1_000).to_string();
    let (folder, period, length) = match config.tracer {
        NoiseTracer::Osnoise => ("osnoise", "period_us", "runtime_us"),
        NoiseTracer::Hwlat => ("hwlat_detector", "window", "width"),
    };
    let folder = tracefs.root().join(folder);
    settings.set(tracefs.root().join("tracing_thresh"), &us(config.threshold_ns))?;
    let now = std::fs::read_to_string(folder.join(length)).unwrap_or_default();
    let now: u64 = now.trim().parse().unwrap_or(0);
    if now * 1_000 > config.period_ns {
        settings.set(folder.join(length), &us(config.runtime_ns))?;
        settings.set(folder.join(period), &us(config.period_ns))?;
    } else {
        settings.set(folder.join(period), &us(config.period_ns))?;
        settings.set(folder.join(length), &us(config.runtime_ns))?;
    }
    match config.tracer {
        NoiseTracer::Osnoise => {
            let cpus: Vec<u32> = config.cpus.iter().map(|c| c.0).collect();
            settings.set(folder.join("cpus"), &cpulist::format(&cpus))?;
            // What would stop the tracer: limits are latlab's own.
            for name in ["stop_tracing_us", "stop_tracing_total_us"] {
                settings.set(folder.join(name), "0")?;
            }
        }
        NoiseTracer::Hwlat => {
            // Kernels before 5.14 know one thread that moves from CPU to CPU.
            let mode = folder.join("mode");
            if mode.exists() {
                settings.set(mode, "per-cpu")?;
            }
        }
    }
    Ok(settings)
}

/// Whether `hwlat` measures all CPUs at once here, not one after the other.
pub fn hwlat_is_per_cpu() -> bool {
    Tracefs::find().is_ok_and(|f| f.tracefs.root().join("hwlat_detector/mode").exists())
}
