//! From events to chains, functions, periods, handlers, and what the tick costs; in one pass.

mod finish;
mod life_cycle;

use super::account::{
    CpuAccount, FunctionAccount, IrqAccount, IrqKey, OpenIrq, Started, TimerAccount, between,
};
use crate::sched::tally::{Map, Tally};
use latlab_model::event::{Event, EventKind, Names, Symbol};
use latlab_model::timer::Chain;
use latlab_model::units::{Tid, TraceNs};
use life_cycle::{Call, HIGHRES_STEPS, WHEEL_STEPS};

/// The functions that are the tick, by the kernels' names for them.
const TICKS: [&str; 3] = ["tick_sched_timer", "tick_nohz_handler", "tick_periodic"];
/// Timers that are told apart.
const TIMERS_MAX: usize = 1 << 16;
/// Softirqs whose timers these are.
const TIMER_SOFTIRQ: u32 = 1;
const HRTIMER_SOFTIRQ: u32 = 8;

/// Takes events in order of time.
#[derive(Debug)]
pub struct Analyzer {
    cpus: Vec<CpuAccount>,
    functions: Map<(bool, Symbol), FunctionAccount>,
    timers: Map<u64, TimerAccount>,
    irqs: Map<(i32, Symbol), IrqAccount>,
    softirqs: Vec<(Tally, Tally)>,
    tasks: Map<Tid, Symbol>,
    wheel: Vec<Tally>,
    highres: Vec<Tally>,
    late: Tally,
    chains: Vec<(Symbol, Chain)>,
    slowest: Vec<Chain>,
    chain_functions: Vec<Symbol>,
    jiffies: Option<(u64, TraceNs, u64, TraceNs)>,
    stopped: u64,
    not_stopped: Map<u32, u64>,
    first: Option<TraceNs>,
    last: TraceNs,
    events: u64,
    relevant: u64,
    holes: u64,
}

impl Default for Analyzer {
    /// Nothing seen yet.
    fn default() -> Self {
        Self {
            cpus: Vec::new(),
            functions: Map::default(),
            timers: Map::default(),
            irqs: Map::default(),
            softirqs: vec![Default::default(); 10],
            tasks: Map::default(),
            wheel: vec![Tally::default(); WHEEL_STEPS.len()],
            highres: vec![Tally::default(); HIGHRES_STEPS.len()],
            late: Tally::default(),
            chains: Vec::new(),
            slowest: Vec::new(),
            chain_functions: Vec::new(),
            jiffies: None,
            stopped: 0,
            not_stopped: Map::default(),
            first: None,
            last: TraceNs(0),
            events: 0,
            relevant: 0,
            holes: 0,
        }
    }
}

impl Analyzer {
    /// Events of interrupts and timers so far.
    pub fn relevant(&self) -> u64 {
        self.relevant
    }

    /// Takes one event.
    pub fn push(&mut self, event: &Event, names: &Names) {
        let lost = matches!(event.kind, EventKind::Lost { .. });
        self.events += u64::from(!lost);
        self.first.get_or_insert(event.time);
        self.last = self.last.max(event.time);
        let c = match self.cpus.iter().position(|c| c.cpu == event.cpu.0) {
            Some(c) => c,
            None => {
                self.cpus.push(CpuAccount { cpu: event.cpu.0, ..CpuAccount::default() });
                self.cpus.len() - 1
            }
        };
        let time = event.time;
        self.relevant += 1;
        match event.kind {
            EventKind::IrqEntry { irq, name } => self.enter_irq(c, time, irq, name),
            EventKind::IrqExit { irq } => self.leave_irq(c, time, |k| k.irq == irq),
            EventKind::VectorEntry { name } => self.enter_irq(c, time, -1, name),
            EventKind::VectorExit { name } => {
                self.leave_irq(c, time, |k| k.irq == -1 && k.name == name);
            }
            EventKind::SoftirqRaise { vec } => {
                if let Some(raised) = self.cpus[c].raised.get_mut(vec as usize) {
                    raised.get_or_insert(time);
                }
            }
            EventKind::SoftirqEntry { vec } => self.enter_softirq(c, time, vec),
            EventKind::SoftirqExit { vec } => self.leave_softirq(c, time, vec),
            EventKind::TimerStart { timer, function, expires, now } => {
                self.tell_jiffies(now, time);
                let start = Started { at: time, by: event.current, expires, now };
                self.start(timer, function, false, start);
            }
            EventKind::HrtimerStart { timer, function, expires, .. } => {
                let expires = u64::try_from(expires).unwrap_or(0);
                let start = Started { at: time, by: event.current, expires, now: 0 };
                self.start(timer, function, true, start);
            }
            // Before it expires, the kernel cancels a timer too: its setting stays known.
            EventKind::TimerCancel { .. } | EventKind::HrtimerCancel { .. } => {}
            EventKind::TimerEntry { timer, function, now } => {
                self.tell_jiffies(now, time);
                let call = Call { timer, function, highres: false, now: now as i64 };
                self.expire(c, time, call, names);
            }
            EventKind::HrtimerEntry { timer, function, now } => {
                self.expire(c, time, Call { timer, function, highres: true, now }, names);
            }
            EventKind::TimerExit { timer } => self.expired(c, event, timer, false, names),
            EventKind::HrtimerExit { timer } => self.expired(c, event, timer, true, names),
            EventKind::TickStop { stopped: true, .. } => self.stopped += 1,
            EventKind::TickStop { dependency, .. } => {
                *self.not_stopped.entry(dependency).or_default() += 1;
            }
            EventKind::Lost { .. } => {
                self.relevant -= 1;
                self.holes += 1;
                self.cpus[c].forget();
            }
            EventKind::Switch { next, .. } => {
                self.relevant -= 1;
                if self.tasks.len() < TIMERS_MAX || self.tasks.contains_key(&next.tid) {
                    self.tasks.insert(next.tid, next.name);
                }
            }
            _ => self.relevant -= 1,
        }
    }

    /// First and last jiffies with their times; a counter of 32 bits may wrap once between.
    fn tell_jiffies(&mut self, now: u64, time: TraceNs) {
        if now == 0 {
            return;
        }
        match &mut self.jiffies {
            None => self.jiffies = Some((now, time, now, time)),
            Some((_, _, last, at)) => (*last, *at) = (now, time),
        }
    }

    fn enter_irq(&mut self, c: usize, time: TraceNs, irq: i32, name: Symbol) {
        let key = IrqKey { irq, name };
        let cpu = &mut self.cpus[c];
        if cpu.irqs.len() < 16 {
            cpu.irqs.push(OpenIrq { key, at: time, timer: false, tick: false });
        }
        cpu.last_irq = Some((time, None, key));
    }

    fn leave_irq(&mut self, c: usize, time: TraceNs, is: impl Fn(IrqKey) -> bool) {
        let cpu = &mut self.cpus[c];
        let Some(at) = cpu.irqs.iter().rposition(|o| is(o.key)) else { return };
        let irq = cpu.irqs[at];
        cpu.irqs.truncate(at);
        let length = between(irq.at, time);
        if let Some((_, exit @ None, key)) = &mut cpu.last_irq
            && *key == irq.key
        {
            *exit = Some(time);
        }
        if irq.timer {
            cpu.interrupt_ns += length.0;
            cpu.tick_ns += if irq.tick { length.0 } else { 0 };
        }
        let account = self.irqs.entry((irq.key.irq, irq.key.name)).or_default();
        account.cost.add(length, irq.at);
        account.timer |= irq.timer;
        *account.cpus.entry(cpu.cpu).or_default() += 1;
    }

    fn enter_softirq(&mut self, c: usize, time: TraceNs, vec: u32) {
        let cpu = &mut self.cpus[c];
        let raised = cpu.raised.get_mut(vec as usize).and_then(Option::take);
        cpu.softirq = Some((vec, time, raised));
        if let (Some(raised), Some((latency, _))) = (raised, self.softirqs.get_mut(vec as usize)) {
            latency.add(between(raised, time), raised);
        }
    }

    fn leave_softirq(&mut self, c: usize, time: TraceNs, vec: u32) {
        let cpu = &mut self.cpus[c];
        let Some((open, at, _)) = cpu.softirq.take() else { return };
        if open != vec {
            return;
        }
        let length = between(at, time);
        if vec == TIMER_SOFTIRQ || vec == HRTIMER_SOFTIRQ {
            cpu.softirq_ns += length.0;
            let (number, base) = (cpu.cpu, self.first.unwrap_or_default());
            // The end of the chains that ended in it.
            for (_, chain) in self.chains.iter_mut().rev().take(8) {
                if chain.cpu == number && chain.softirq == Some(at.since(base).0) {
                    chain.softirq_exit = Some(time.since(base).0);
                }
            }
        }
        if let Some((_, cost)) = self.softirqs.get_mut(vec as usize) {
            cost.add(length, at);
        }
    }
}

#[cfg(test)]
mod tests;
