//! A trial: one fresh process that times a few batches of one probe.
//!
//! The batch is as long as the clock's step asks for (its quantisation below
//! 0.1%) and no longer, so that most batches have no tick in them. Clock, loop
//! and the probe's own baseline are measured in the same process, the baseline
//! beside each batch, so that a change of the machine meets both.

use crate::harness::meter::{self, Cost, now_ns};
use crate::harness::{account, each};
use crate::policy;
use crate::probe::trace_capture::{CapturedTrace, TraceCapture, TraceKind};
use crate::probe::{Probe, ProbeError, Setting, TraceAnalysis, registry};
use latlab_model::bench::Alternation;
use latlab_model::bench::trial::{Slice, SliceReply, SliceSpec};
use latlab_model::finding::Note;
use latlab_model::units::CpuId;
use std::path::PathBuf;
use std::time::Duration;

/// The clock's step may be at most this share of a batch.
const QUANTISATION: f64 = 1e-3;
/// The longest warm-up, as a share of the trial.
const WARM_UP: u64 = 4;
/// How long the batches of a trial wait for moments in which nothing disturbs, together, in lengths of
/// the trial's limit.
const WAIT: f64 = 0.5;
/// How far the number of switches may be off in a batch: a tick that preempts is no reason to reject it.
const SWITCH_TOLERANCE: f64 = 0.1;

/// Measures and answers. Call it in a process that does nothing else.
pub fn run(spec: &SliceSpec, analysis: TraceAnalysis) -> SliceReply {
    crate::process::die_with_parent();
    crate::signal::forget();
    match measure(spec, analysis) {
        Ok(slice) => SliceReply::Measured(Box::new(slice)),
        Err(e) => e.reply(),
    }
}

fn measure(spec: &SliceSpec, analysis: TraceAnalysis) -> Result<Slice, ProbeError> {
    let probe = registry::find(&spec.probe).ok_or_else(|| {
        ProbeError::Failed(Note::new("probe.unknown").value("probe", &*spec.probe))
    })?;
    let allowed = policy::allowed().unwrap_or_default();
    if let Some(cpu) = spec.cpu {
        policy::bind(&[CpuId(cpu)]).map_err(|e| ProbeError::cpu_refused(CpuId(cpu), Some(&e)))?;
    }
    let setting = Setting {
        params: spec.params.clone(),
        dir: PathBuf::from(&spec.dir),
        cpu: spec.cpu,
        allowed,
        analysis,
        peer: spec.peer.as_deref().and_then(crate::probe::remote::parse_address),
    };
    if setting.peer.is_none() && spec.params.contains_key("host") {
        return Err(setting.bad("host", "those with an address"));
    }
    let cost = meter::measure();
    let mut probe = (probe.make)(&setting)?;
    if spec.each > 0 {
        let mut slice = Slice { start_ns: now_ns(), read_ns: cost.read_ns, ..Slice::default() };
        warm_up(&mut *probe, 1, spec.limit_ns / WARM_UP)?;
        each::measure(&mut *probe, spec, &mut slice)?;
        slice.length_ns = now_ns() - slice.start_ns;
        slice.notes.extend(probe.notes());
        return Ok(slice);
    }
    let target_ns = (cost.step_ns / QUANTISATION).max(spec.batch_ns as f64);
    let n = match spec.batch {
        Some(n) => n.max(1),
        None => calibrate(&mut *probe, target_ns, spec.limit_ns)?,
    };
    warm_up(&mut *probe, n, spec.limit_ns / WARM_UP)?;
    #[cfg(feature = "host")]
    if spec.together {
        super::copies::wait_for_others()?;
    }
    // Reading /proc/cpuinfo may interrupt all CPUs: only for who asks for the clock.
    let is_clock = spec.probe.starts_with("cpu.");
    let before = Machine::read(spec.cpu, is_clock);
    let mut slice = Slice { batch: n, start_ns: now_ns(), ..Slice::default() };
    batches(&mut *probe, spec, &cost, &mut slice)?;
    slice.length_ns = now_ns() - slice.start_ns;
    let after = Machine::read(spec.cpu, is_clock);
    let since = |b: Option<u64>, a: Option<u64>| Some(a?.saturating_sub(b?));
    slice.steal_ns = since(before.steal_ns, after.steal_ns);
    slice.interrupts = since(before.interrupts, after.interrupts);
    slice.khz = before.khz.zip(after.khz);
    (slice.step_ns, slice.read_ns, slice.loop_ns) = (cost.step_ns, cost.read_ns, cost.loop_ns);
    slice.notes = probe.notes();
    if let (true, Some(partner), Some(cpu)) = (spec.watch, probe.partner(), spec.cpu) {
        match alternation(&mut *probe, n, cpu, partner, analysis) {
            Ok(seen) => slice.alternation = Some(seen),
            Err(e) => log::debug!("who had the CPU is not known: {e:?}"),
        }
    }
    Ok(slice)
}

/// One batch; its length in ns.
fn timed(probe: &mut dyn Probe, n: u64) -> Result<u64, ProbeError> {
    probe.before_batch()?;
    let start = now_ns();
    probe.run(n)?;
    let took = now_ns() - start;
    probe.after_batch()?;
    Ok(took)
}

/// The number of operations that takes `target_ns`; at least one.
fn calibrate(probe: &mut dyn Probe, target_ns: f64, limit_ns: u64) -> Result<u64, ProbeError> {
    let most = probe.batch_max().unwrap_or(u64::MAX);
    let started = now_ns();
    let mut n = 1u64;
    loop {
        let took = timed(probe, n)?.max(1) as f64;
        if took >= target_ns * 0.7 || n >= most || now_ns() - started > limit_ns / 2 {
            // A first turn may have been ten times too slow (cold): never trust it alone.
            let took = if n == 1 { timed(probe, n)?.max(1) as f64 } else { took };
            let wanted = (n as f64 * target_ns / took).round().max(1.0) as u64;
            return Ok(wanted.min(most).min(n.saturating_mul(16)));
        }
        let factor = (target_ns / took).clamp(1.5, 16.0);
        n = ((n as f64 * factor).ceil() as u64).min(most);
    }
}

/// Batches that are traced until one has a switch in it: without any, the trace was not on.
const WATCHES: usize = 3;

/// One more batch, traced: who really had the CPU.
fn alternation(
    probe: &mut dyn Probe,
    n: u64,
    cpu: u32,
    partner: i32,
    analysis: TraceAnalysis,
) -> Result<Alternation, ProbeError> {
    let pair = [std::process::id() as i32, partner];
    let mut trace = TraceCapture::prepare(TraceKind::Switches, cpu, pair)?;
    let mut captured = CapturedTrace::default();
    for _ in 0..WATCHES {
        // Neither is done while a partner under SCHED_FIFO takes turns: this task is an ordinary one then.
        trace.start()?;
        probe.before_batch()?;
        probe.run(n)?;
        probe.after_batch()?;
        captured = trace.stop()?;
        if !captured.events.is_empty() {
            break;
        }
    }
    if captured.events.is_empty() {
        return Err(ProbeError::failed("probe.empty-trace"));
    }
    let operations = (n as f64 * probe.per_turn()) as u64;
    let seen = (analysis.alternation)(&captured.events, &captured.names, pair, operations);
    Ok(Alternation { lost: captured.lost, ..seen })
}

fn warm_up(probe: &mut dyn Probe, n: u64, limit_ns: u64) -> Result<(), ProbeError> {
    let start = now_ns();
    for _ in 0..3 {
        timed(probe, n)?;
        if now_ns() - start > limit_ns {
            break;
        }
    }
    probe.baseline(n).map(drop)
}

fn batches(
    probe: &mut dyn Probe,
    spec: &SliceSpec,
    cost: &Cost,
    slice: &mut Slice,
) -> Result<(), ProbeError> {
    let expected = probe.switches_expected();
    let mut switches = Vec::new();
    let mut patience_ns = (spec.limit_ns as f64 * WAIT) as u64;
    for i in 0..spec.batches.max(1) {
        let before = quiet_moment(spec.control_limit_ns, &mut patience_ns);
        probe.before_batch()?;
        let batch = one_batch(probe, slice.batch, cost, slice)?;
        probe.after_batch()?;
        let sentinel = before.max(meter::sentinel());
        switches.extend(batch.switches);
        let (ns, overhead) = match probe.seen() {
            Some((raw, recording)) => (raw, Some(recording)),
            None => (batch.ns, baseline(probe, slice.batch, cost)?),
        };
        if probe.switches_must_match()
            && batch
                .switches
                .is_some_and(|s| !near(s, expected, slice.batch as f64 * probe.per_turn()))
        {
            slice.rejected += 1;
        } else {
            if let Some(overhead) = overhead {
                slice.raw_ns.push(ns);
                slice.overhead_ns.push(overhead);
            }
            slice.control_ns.push(sentinel);
            slice.values.push(probe.value(ns - overhead.unwrap_or(0.0)));
        }
        if i > 0 && now_ns() - slice.start_ns > spec.limit_ns {
            break;
        }
        if probe.is_fifo() {
            // A tenth of the time for everybody else: a board with one CPU stays reachable.
            std::thread::sleep(Duration::from_nanos((batch.total_ns / 9.0) as u64));
        }
    }
    if !switches.is_empty() {
        slice.switches = Some(switches.iter().sum::<f64>() / switches.len() as f64);
        slice.switches_expected = Some(expected);
    }
    Ok(())
}

/// The sentinel's last reading, once it is undisturbed or the patience is used up.
fn quiet_moment(control_limit_ns: Option<f64>, patience_ns: &mut u64) -> f64 {
    let start = now_ns();
    loop {
        let reading = meter::sentinel();
        let waited = now_ns() - start;
        if control_limit_ns.is_none_or(|quiet| reading <= quiet) || waited >= *patience_ns {
            *patience_ns = patience_ns.saturating_sub(waited);
            return reading;
        }
    }
}

/// Whether the number of switches an operation is what it should be. The preempting tick, and the
/// first and last hand-over of a batch, make a small difference: three switches, however short the batch.
fn near(switches: f64, expected: f64, operations: f64) -> bool {
    (switches - expected).abs() <= SWITCH_TOLERANCE * expected + 3.0 / operations
}

/// What one batch gave.
struct Batch {
    /// ns an operation, clock and loop taken off.
    ns: f64,
    /// ns in all.
    total_ns: f64,
    /// Context switches an operation, where they are counted.
    switches: Option<f64>,
}

fn one_batch(
    probe: &mut dyn Probe,
    n: u64,
    cost: &Cost,
    slice: &mut Slice,
) -> Result<Batch, ProbeError> {
    let usage = Usage::read();
    let peers = probe.peer_switches();
    let start = now_ns();
    probe.run(n)?;
    let total_ns = (now_ns() - start) as f64;
    let used = Usage::read().since(&usage);
    let peers =
        probe.peer_switches().zip(peers).map(|(after, before)| after.saturating_sub(before));
    used.add_to(slice);
    if peers.is_none() && used.involuntary > 0 {
        slice.preempted += 1;
    }
    let operations = n as f64 * probe.per_turn();
    Ok(Batch {
        ns: (total_ns - cost.read_ns) / operations - cost.loop_ns / probe.per_turn(),
        total_ns,
        switches: peers.map(|p| (p + used.voluntary + used.involuntary) as f64 / operations),
    })
}

fn baseline(probe: &mut dyn Probe, n: u64, cost: &Cost) -> Result<Option<f64>, ProbeError> {
    let start = now_ns();
    let any = probe.baseline(n)?;
    let ns = (now_ns() - start) as f64 - cost.read_ns;
    Ok(any.then(|| (ns / n as f64 - cost.loop_ns) / probe.per_turn()))
}

/// What the kernel counts for this process.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    voluntary: u64,
    involuntary: u64,
    minor: u64,
    major: u64,
}

impl Usage {
    fn read() -> Self {
        let usage = account::usage(libc::RUSAGE_SELF);
        Self {
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
            minor: usage.ru_minflt as u64,
            major: usage.ru_majflt as u64,
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            voluntary: self.voluntary.wrapping_sub(earlier.voluntary),
            involuntary: self.involuntary.wrapping_sub(earlier.involuntary),
            minor: self.minor.wrapping_sub(earlier.minor),
            major: self.major.wrapping_sub(earlier.major),
        }
    }

    fn add_to(&self, slice: &mut Slice) {
        slice.voluntary += self.voluntary;
        slice.involuntary += self.involuntary;
        slice.minor_faults += self.minor;
        slice.major_faults += self.major;
    }
}

/// The clock of a CPU in /proc/cpuinfo, as x86 has it.
fn cpuinfo_khz(cpu: u32) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut lines = text.lines().filter_map(|l| l.split_once(':'));
    let own = |(key, value): &(&str, &str)| {
        key.trim_end() == "processor" && value.trim().parse() == Ok(cpu)
    };
    lines.find(own)?;
    let (_, mhz) = lines.find(|(key, _)| key.trim_end() == "cpu MHz")?;
    Some((mhz.trim().parse::<f64>().ok()? * 1e3) as u64)
}

/// What the whole machine counts.
#[derive(Clone, Copy, Debug, Default)]
struct Machine {
    steal_ns: Option<u64>,
    interrupts: Option<u64>,
    khz: Option<u64>,
}

impl Machine {
    fn read(cpu: Option<u32>, is_clock: bool) -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let khz = cpu.and_then(|c| {
            let path = format!("/sys/devices/system/cpu/cpu{c}/cpufreq/scaling_cur_freq");
            match std::fs::read_to_string(path) {
                Ok(khz) => khz.trim().parse().ok(),
                Err(_) if is_clock => cpuinfo_khz(c),
                Err(_) => None,
            }
        });
        Self {
            steal_ns: account::cpu_ns(&stat, cpu).and_then(|times| times.get(7).copied()),
            interrupts: (stat.lines().find_map(|l| l.strip_prefix("intr ")))
                .and_then(|l| l.split_whitespace().next()?.parse().ok()),
            khz,
        }
    }
}
