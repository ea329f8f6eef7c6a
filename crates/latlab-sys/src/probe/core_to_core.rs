//! A cache line that two CPUs write in turn: the round trip between two cores.

use super::{ParamSpec, Probe, ProbeError, Setting, Spec};
use crate::policy;
use latlab_model::units::CpuId;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

/// The value of `pair` that stands for every pair of CPUs.
pub const ALL_PAIRS: &str = "all";
/// More CPUs than these give more pairs than a suite has time for: the first ones are taken.
const CPUS_MAX: usize = 12;

/// The probes of this file.
pub const SPECS: &[Spec] =
    &[Spec::new("core.ping-pong", "a cache line to another CPU and back", "", ping_pong).with(&[
        ParamSpec {
            name: "pair",
            what: "two CPUs (0-1), or all pairs",
            default: &[ALL_PAIRS],
            full: &[],
        },
    ])];

/// Every pair of the CPUs that are allowed, `a-b`; one that says so where there is but one CPU.
pub fn pairs() -> Vec<String> {
    let cpus = policy::allowed().unwrap_or_default();
    let cpus = &cpus[..cpus.len().min(CPUS_MAX)];
    let mut pairs: Vec<String> = Vec::new();
    for (i, a) in cpus.iter().enumerate() {
        pairs.extend(cpus[i + 1..].iter().map(|b| format!("{a}-{b}")));
    }
    if pairs.is_empty() { vec![ALL_PAIRS.to_owned()] } else { pairs }
}

/// Alone on its cache line, and on the one that a prefetcher brings along.
#[repr(align(256))]
struct Ball {
    turn: AtomicU32,
}

struct PingPong {
    ball: Arc<Ball>,
    stop: Arc<AtomicBool>,
    next: u32,
    other: Option<JoinHandle<()>>,
}

impl Probe for PingPong {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            self.ball.turn.store(self.next | 1, Ordering::Release);
            self.next = self.next.wrapping_add(2);
            while self.ball.turn.load(Ordering::Acquire) != self.next {
                spin_loop();
            }
        }
        Ok(())
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(other) = self.other.take() {
            let _ = other.join();
        }
    }
}

fn ping_pong(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let text = setting.text("pair");
    if text == ALL_PAIRS {
        return Err(ProbeError::unavailable("probe.no-second-cpu"));
    }
    let cpu = |t: &str| t.parse().ok().map(CpuId);
    let pair = text.split_once('-').and_then(|(a, b)| cpu(a).zip(cpu(b)));
    let (here, there) = pair.ok_or_else(|| setting.bad("pair", "two CPUs, such as 0-1"))?;
    if here == there {
        return Err(setting.bad("pair", "two different CPUs, such as 0-1"));
    }
    let seat =
        |cpu: CpuId| policy::bind(&[cpu]).map_err(|e| ProbeError::cpu_refused(cpu, Some(&e)));
    let ball = Arc::new(Ball { turn: AtomicU32::new(0) });
    let (stop, seated) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (their_ball, their_stop, their_seat) = (ball.clone(), stop.clone(), seated.clone());
    let other = std::thread::spawn(move || {
        let ok = policy::bind(&[there]).is_ok();
        their_seat.store(if ok { 1 } else { 2 }, Ordering::Release);
        while ok && !their_stop.load(Ordering::Relaxed) {
            let turn = their_ball.turn.load(Ordering::Acquire);
            if turn & 1 == 1 {
                their_ball.turn.store(turn.wrapping_add(1), Ordering::Release);
            } else {
                spin_loop();
            }
        }
    });
    while seated.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    let probe = PingPong { ball, stop, next: 0, other: Some(other) };
    if seated.load(Ordering::Acquire) == 2 {
        return Err(ProbeError::cpu_refused(there, None));
    }
    seat(here)?;
    Ok(Box::new(probe))
}
