//! `latlab noise --by osnoise|hwlat`: the measurement of a kernel tracer, read in portions while it runs.

use crate::cli::noise::Config;
use crate::outcome::OwnHintExt;
use crate::trace_input;
use latlab_analysis::noise::kernel::{Ended, KernelWindows};
use latlab_analysis::noise::{Sum, queue};
use latlab_model::noise::{NoiseTracer, QueueModel};
use latlab_model::units::{CpuId, Tid};
use latlab_sys::kernel_noise::{KernelNoise, TracerConfig, hwlat_is_per_cpu};
use latlab_sys::process;
use latlab_sys::recorder::{Format, Kallsyms};
use latlab_trace::KnownFormats;
use std::time::{Duration, Instant};

/// From one reading to the next: reading is noise on the CPU on which this process runs.
pub(super) const PORTION: Duration = Duration::from_secs(1);

/// A running tracer and the windows that are not over yet.
pub(super) struct Kernel {
    device: KernelNoise,
    windows: KernelWindows,
    stop_ns: Option<u64>,
    stop_total_ns: Option<u64>,
    queue: Option<QueueModel>,
    formats: KnownFormats,
    /// Share of the time for which each CPU is measured by `hwlat`.
    share: f64,
    last: Instant,
}

/// Of the windows that ended in one portion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Portion {
    /// The longest interruption, ns.
    pub longest: Option<u64>,
    /// Whether a limit was exceeded.
    pub exceeded: bool,
}

impl Kernel {
    /// Starts the tracer.
    ///
    /// # Errors
    /// When this kernel lacks it, somebody else uses it, or a setting is refused.
    pub fn start(c: &Config, tracer: NoiseTracer) -> anyhow::Result<Self> {
        let config = TracerConfig {
            tracer,
            cpus: c.cpus.clone(),
            period_ns: c.period_ns,
            runtime_ns: c.runtime_ns,
            threshold_ns: c.threshold_ns,
            priority: c.priority,
        };
        let device = KernelNoise::start(&config).with_hint()?;
        let at_once = if hwlat_is_per_cpu() { 1 } else { c.cpus.len().max(1) };
        let share = c.runtime_ns as f64 / c.period_ns.max(1) as f64 / at_once as f64;
        let windows =
            KernelWindows::new(tracer, c.threshold_ns, Tid(process::thread_id().cast_signed()));
        let (stop_ns, stop_total_ns, last) = (c.stop_ns, c.stop_total_ns, Instant::now());
        let queue = c.queue;
        let formats = KnownFormats::default();
        Ok(Self { device, windows, stop_ns, stop_total_ns, queue, formats, share, last })
    }

    /// Adds what was recorded since the last call.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub fn portion(&mut self, cpus: &[CpuId], sum: &mut Sum) -> anyhow::Result<Portion> {
        let snapshot = self.device.take().with_hint()?;
        let format = Format { kallsyms: Kallsyms::None, ..Format::uncompressed() };
        let bytes = snapshot.to_bytes(format).with_hint()?;
        let file =
            trace_input::open_after(&bytes, "portion.dat".as_ref(), Some(&mut self.formats))?;
        let mut portion = Portion::default();
        let mut add = |ended: &Ended| {
            for (window, loops) in ended.windows() {
                sum.add(&window);
                let over = |limit: Option<u64>, ns: u64| limit.is_some_and(|l| ns > l);
                let max = loops.distances.max;
                portion.longest = portion.longest.max((loops.count > 0).then_some(max));
                portion.exceeded |=
                    over(self.stop_ns, max) || over(self.stop_total_ns, loops.lost_ns);
                if let Some(model) = &self.queue {
                    let longest = queue::longest(model, loops) as u64;
                    portion.exceeded |= over(model.limit, longest);
                }
            }
        };
        add(&self.windows.take(&file));
        let looped = self.last.elapsed().as_nanos() as f64 * self.share;
        if let Some(ended) = self.windows.end(cpus, looped as u64) {
            add(&ended);
        }
        self.last = Instant::now();
        Ok(portion)
    }
}
