//! Events of the kernel's tracers `osnoise` and `hwlat` as windows of a loop and what ran in them: the same data as those of
//! the loop in user space.
//!
//! `osnoise` records the noise of each interrupt, softirq, NMI and thread, then the interruption in which it was
//! (`sample_threshold`), and at the end of each window its length and the noise in it. `hwlat` records the longest
//! distance of a window, where it is over the threshold.

use super::attribute::{Piece, Pieces, Source};
use super::sum::Window;
use latlab_model::event::softirq_name;
use latlab_model::noise::{CpuWindow, Interruption, NoiseKind, NoiseTracer};
use latlab_model::units::{CpuId, Tid};
use latlab_stats::histogram::Histogram;
use latlab_trace::events::{Decoder, Typed};
use latlab_trace::{Missed, Select, TraceFile};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Interruptions of one window that are kept, at most.
const LISTED_MAX: usize = 1 << 15;
/// Names of interrupts without a number, as the tracer has them (arch/x86/kernel/trace.c).
const VECTORS: [&str; 11] = [
    "thermal_apic",
    "deferred_error",
    "threshold_apic",
    "call_function_single",
    "call_function",
    "reschedule",
    "irq_work",
    "x86_platform_ipi",
    "error_apic",
    "spurious_apic",
    "local_timer",
];

/// Windows from a tracer's events, which come in portions.
#[derive(Debug)]
pub struct KernelWindows {
    tracer: NoiseTracer,
    threshold_ns: u64,
    own: Tid,
    open: BTreeMap<CpuId, Open>,
}

/// A window that is not over yet.
#[derive(Debug, Default)]
struct Open {
    pieces: Vec<(u64, u64, Source)>,
    listed: Vec<Interruption>,
    /// When the thread that reads the trace began to run; interruptions by it and their time are not part of the window.
    own_from: Option<u64>,
    excluded_ns: u64,
    /// Interruptions and their time, also those that are not listed.
    count: u64,
    lost_ns: u64,
    missed: bool,
}

/// Windows that ended, each with what ran in it.
#[derive(Debug, Default)]
pub struct Ended {
    windows: Vec<(CpuWindow, Pieces, u64)>,
}

impl Ended {
    /// The windows, to be added up one by one.
    pub fn windows(&self) -> impl Iterator<Item = (Window<'_>, &CpuWindow)> {
        self.windows.iter().map(|(loops, pieces, overrun)| {
            let overrun = BTreeMap::from([(loops.cpu, *overrun)]);
            let one = std::slice::from_ref(loops);
            (Window { loops: one, pieces: Some(pieces), overrun }, loops)
        })
    }
}

impl KernelWindows {
    /// Of a tracer with that threshold. `own` reads the trace: the time of interruptions in which it ran counts as not
    /// measured.
    pub fn new(tracer: NoiseTracer, threshold_ns: u64, own: Tid) -> Self {
        Self { tracer, threshold_ns, own, open: BTreeMap::new() }
    }

    /// Takes the next portion; the windows that ended in it.
    pub fn take(&mut self, file: &TraceFile<'_>) -> Ended {
        let decoder = Decoder::new(file);
        let mut ended = Ended::default();
        file.scan(&Select::default(), 1, |record| {
            let cpu = CpuId(record.cpu);
            let open = self.open.entry(cpu).or_default();
            open.missed |= !matches!(record.missed, Missed::No);
            let event = decoder.decode(record);
            if let Typed::ThreadNoise(n) = &event
                && Tid(n.pid) == self.own
            {
                open.own_from.get_or_insert(n.start);
            }
            if let Some(window) = open.event(&event, record.time) {
                let open = std::mem::take(open);
                ended.windows.push(open.close(cpu, self.threshold_ns, window));
            }
            ControlFlow::Continue(())
        });
        ended
    }

    /// Ends a window of `hwlat` on each of these CPUs: it reports only windows with an interruption. `looped_ns` is the
    /// time for which each was measured. `None` for `osnoise`, which ends its windows itself.
    pub fn end(&mut self, cpus: &[CpuId], looped_ns: u64) -> Option<Ended> {
        let close = |&cpu: &CpuId| {
            let open = self.open.remove(&cpu).unwrap_or_default();
            open.close(
                cpu,
                self.threshold_ns,
                Length { end_ns: looped_ns, ns: looped_ns, noise: 0 },
            )
        };
        (self.tracer == NoiseTracer::Hwlat)
            .then(|| Ended { windows: cpus.iter().map(close).collect() })
    }
}

/// A window's end, its length and the noise in it, ns.
#[derive(Clone, Copy, Debug)]
struct Length {
    end_ns: u64,
    ns: u64,
    noise: u64,
}

impl Open {
    fn piece(&mut self, start: u64, duration: u64, kind: NoiseKind, name: &str) {
        if self.pieces.len() < 4 * LISTED_MAX {
            self.pieces.push((start, start.saturating_add(duration), (kind, name.to_owned())));
        }
    }

    fn interruption(&mut self, start_ns: u64, length_ns: u64) {
        if self.own_from.take().is_some_and(|own| own >= start_ns) {
            self.excluded_ns = self.excluded_ns.saturating_add(length_ns);
            self.pieces.retain(|p| p.0 < start_ns);
            return;
        }
        self.count += 1;
        self.lost_ns = self.lost_ns.saturating_add(length_ns);
        if self.listed.len() < LISTED_MAX {
            self.listed.push(Interruption { start_ns, length_ns });
        }
    }

    /// Takes an event; the length of the window that it ends.
    fn event(&mut self, event: &Typed<'_>, time: u64) -> Option<Length> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match event {
            Typed::IrqNoise(n) => {
                let name = text(n.desc);
                let named = VECTORS.contains(&name.as_str());
                let name = if named { name } else { [&n.vector.to_string(), " ", &name].concat() };
                self.piece(n.start, n.duration, NoiseKind::Interrupt, &name);
            }
            Typed::SoftirqNoise(n) => {
                let name = softirq_name(n.vector.unsigned_abs());
                self.piece(n.start, n.duration, NoiseKind::Softirq, name);
            }
            Typed::NmiNoise(n) => self.piece(n.start, n.duration, NoiseKind::Nmi, ""),
            Typed::ThreadNoise(n) => {
                self.piece(n.start, n.duration, NoiseKind::Thread, &text(n.comm));
            }
            Typed::SampleThreshold(s) => self.interruption(s.start, s.duration),
            Typed::Hwlat(h) => self.interruption(time, h.duration.max(h.outer_duration)),
            Typed::Osnoise(o) => {
                let (ns, noise) = (o.runtime.saturating_mul(1000), o.noise.saturating_mul(1000));
                let (ns, noise) =
                    [ns, noise].map(|x: u64| x.saturating_sub(self.excluded_ns)).into();
                return Some(Length { end_ns: time, ns, noise });
            }
            _ => {}
        }
        None
    }

    fn close(mut self, cpu: CpuId, threshold_ns: u64, length: Length) -> (CpuWindow, Pieces, u64) {
        self.pieces.sort_by_key(|p| p.0);
        let mut pieces = Pieces::new([]);
        // Of a window with gaps it is not known what ran: its first event is behind it.
        pieces.cpus.entry(cpu).or_default().first = self.missed.then_some(u64::MAX);
        for (start, end, source) in self.pieces {
            pieces.add_piece(cpu, Piece { start, end, source: 0, begins: true }, source);
        }
        // Interruptions whose events were overwritten are one whose length is what is missing.
        let unseen = length.noise.saturating_sub(self.lost_ns);
        let unseen = if self.missed { unseen } else { 0 };
        let window = CpuWindow {
            cpu,
            threshold_ns,
            start_ns: length.end_ns.saturating_sub(length.ns),
            end_ns: length.end_ns,
            count: self.count + u64::from(unseen > 0),
            lost_ns: self.lost_ns + unseen,
            distances: Histogram::of(self.listed.iter().map(|i| i.length_ns)),
            listed: self.listed,
            ..CpuWindow::default()
        };
        (window, pieces, u64::from(self.missed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Sum;
    use latlab_trace::events::{Hwlat, IrqNoise, Osnoise, SampleThreshold, SoftirqNoise};

    fn sample(start: u64, duration: u64) -> Typed<'static> {
        Typed::SampleThreshold(SampleThreshold { start, duration, interference: 1 })
    }

    fn window(noise_us: u64) -> Typed<'static> {
        Typed::Osnoise(Osnoise {
            runtime: 950_000,
            noise: noise_us,
            max_sample: 0,
            hw_count: 0,
            nmi_count: 0,
            irq_count: 0,
            softirq_count: 0,
            thread_count: 0,
        })
    }

    fn irq(desc: &'static [u8], vector: i32, start: u64, duration: u64) -> Typed<'static> {
        Typed::IrqNoise(IrqNoise { desc, vector, start, duration })
    }

    fn closed(open: Open, length: Length) -> Sum {
        let mut sum = Sum::default();
        let ended = Ended { windows: vec![open.close(CpuId(1), 5_000, length)] };
        ended.windows().for_each(|(w, _)| sum.add(&w));
        sum
    }

    /// A tick, in which another interrupt takes a part, and a time without any event of the kernel.
    #[test]
    fn a_window_of_osnoise_has_sources_that_add_up() {
        let mut open = Open::default();
        let softirq = SoftirqNoise { vector: 1, start: 14_000, duration: 3_000 };
        let events = [
            irq(b"local_timer", 236, 10_500, 2_500),
            irq(b"eth0", 24, 15_000, 1_000),
            Typed::SoftirqNoise(softirq),
            sample(10_000, 9_000),
            sample(50_000, 30_000),
        ];
        assert!(events.iter().all(|e| open.event(e, 0).is_none()));
        let length = open.event(&window(39), 1_000_000_000).unwrap();
        assert_eq!((length.ns, length.noise), (950_000_000, 39_000));
        let cpu = closed(open, length).so_far().remove(0);
        assert_eq!((cpu.looped_ns, cpu.lost_ns, cpu.interruptions.count), (950_000_000, 39_000, 2));
        let of = |kind, name: &str| {
            let s = cpu.sources.iter().find(|s| s.kind == kind && s.name == name);
            s.map(|s| (s.total_ns, s.count))
        };
        // Entry and exit, 2,500 ns, belong to what took most of the interruption.
        assert_eq!(of(NoiseKind::Softirq, "TIMER"), Some((3_000 + 2_500, 1)));
        assert_eq!(of(NoiseKind::Interrupt, "local_timer"), Some((2_500, 1)));
        assert_eq!(of(NoiseKind::Interrupt, "24 eth0"), Some((1_000, 1)));
        assert_eq!(of(NoiseKind::OutsideKernel, ""), Some((30_000, 1)));
    }

    /// The time in which the trace was read is not part of the window, with all that ran in it.
    #[test]
    fn interruptions_by_the_reader_are_left_out() {
        let mut open = Open::default();
        open.event(&irq(b"eth0", 24, 10_500, 4_000), 0);
        open.event(&sample(10_000, 9_000), 0);
        open.own_from = Some(100_000);
        open.event(&irq(b"eth0", 24, 150_000, 4_000), 0);
        open.event(&sample(90_000, 400_000), 0);
        open.event(&irq(b"eth0", 24, 600_500, 4_000), 0);
        open.event(&sample(600_000, 9_000), 0);
        let length = open.event(&window(418), 1_000_000_000).unwrap();
        let cpu = closed(open, length).so_far().remove(0);
        assert_eq!((cpu.looped_ns, cpu.lost_ns), (950_000_000 - 400_000, 18_000));
        assert_eq!((cpu.interruptions.count, cpu.interruptions.max), (2, 9_000));
    }

    #[test]
    fn a_window_with_overwritten_events_has_an_unknown_source() {
        let mut open = Open { missed: true, ..Open::default() };
        open.event(&irq(b"eth0", 24, 10_500, 4_000), 0);
        open.event(&sample(10_000, 9_000), 0);
        let length = open.event(&window(120), 1_000_000_000).unwrap();
        let cpu = closed(open, length).so_far().remove(0);
        assert_eq!(cpu.of_kind(NoiseKind::Unknown), (120_000, 2));
        assert_eq!((cpu.lost_ns, cpu.events_lost), (120_000, 1));
    }

    #[test]
    fn a_sample_of_hwlat_is_outside_of_the_kernel() {
        let mut windows = KernelWindows::new(NoiseTracer::Hwlat, 10_000, Tid(1));
        let h = Hwlat { duration: 12_000, outer_duration: 31_000, count: 3, seqnum: 1 };
        let open = windows.open.entry(CpuId(0)).or_default();
        assert!(open.event(&Typed::Hwlat(h), 70_000).is_none());
        let ended = windows.end(&[CpuId(0), CpuId(1)], 500_000_000).unwrap();
        let mut sum = Sum::default();
        ended.windows().for_each(|(w, _)| sum.add(&w));
        let cpus = sum.so_far();
        assert_eq!(cpus[0].of_kind(NoiseKind::OutsideKernel), (31_000, 1));
        assert_eq!((cpus[1].looped_ns, cpus[1].lost_ns), (500_000_000, 0));
        assert!(KernelWindows::new(NoiseTracer::Osnoise, 0, Tid(1)).end(&[], 1).is_none());
    }
}
