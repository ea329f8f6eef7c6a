//! From events to chains, functions, periods, handlers, and what the tick costs; in one pass.

mod finish;
mod way;

use super::account::{
    CpuAccount, FunctionAccount, IrqAccount, IrqKey, OpenIrq, Started, TimerAccount, between,
};
use super::event::{Event, What};
use super::result::Chain;
use crate::explain::capture::{Names, Symbol};
use crate::sched::Comm;
use crate::sched::tally::{Map, Tally};
use crate::units::TraceNs;
use way::{HIGHRES_STEPS, WHEEL_STEPS};

/// Timers that are told apart.
const TIMERS_MAX: usize = 1 << 16;
/// Softirqs whose timers these are.
const TIMER_SOFTIRQ: u32 = 1;
const HRTIMER_SOFTIRQ: u32 = 8;

/// Takes events in order of time.
#[derive(Debug)]
pub struct Analyzer {
    /// Addresses of the functions that are the tick.
    tick: Vec<u64>,
    cpus: Vec<CpuAccount>,
    functions: Map<(bool, u64), FunctionAccount>,
    timers: Map<u64, TimerAccount>,
    irqs: Map<(i32, u32), IrqAccount>,
    softirqs: Vec<(Tally, Tally)>,
    tasks: Map<i32, Comm>,
    wheel: Vec<Tally>,
    highres: Vec<Tally>,
    late: Tally,
    chains: Vec<(u64, Chain)>,
    slowest: Vec<Chain>,
    chain_functions: Vec<u64>,
    jiffies: Option<(u64, TraceNs, u64, TraceNs)>,
    stopped: u64,
    not_stopped: Map<u32, u64>,
    first: Option<TraceNs>,
    last: TraceNs,
    events: u64,
    relevant: u64,
    holes: u64,
}

impl Analyzer {
    /// Nothing seen yet. `tick` has the addresses of the functions that are the tick
    /// (`tick_sched_timer`, since 6.9 `tick_nohz_handler`).
    pub fn new(tick: Vec<u64>) -> Self {
        Self {
            tick,
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

    /// Events of interrupts and timers so far.
    pub fn relevant(&self) -> u64 {
        self.relevant
    }

    /// Takes one event. `names` knows the interrupts' names.
    pub fn push(&mut self, event: &Event, names: &Names) {
        self.events += 1;
        self.first.get_or_insert(event.time);
        self.last = self.last.max(event.time);
        let c = match self.cpus.iter().position(|c| c.cpu == event.cpu) {
            Some(c) => c,
            None => {
                self.cpus.push(CpuAccount { cpu: event.cpu, ..CpuAccount::default() });
                self.cpus.len() - 1
            }
        };
        if event.lost {
            self.holes += 1;
            self.cpus[c].forget();
        }
        self.relevant += u64::from(!matches!(event.what, What::Other | What::Runs { .. }));
        let time = event.time;
        match event.what {
            What::IrqEntry { irq, name } => self.enter_irq(c, time, irq, name),
            What::IrqExit { irq } => self.leave_irq(c, time, |k| k.irq == irq),
            What::VectorEntry { name } => self.enter_irq(c, time, -1, name),
            What::VectorExit { name } => {
                self.leave_irq(c, time, |k| k.irq == -1 && k.name == name.0);
            }
            What::SoftirqRaise { vec } => {
                if let Some(raised) = self.cpus[c].raised.get_mut(vec as usize) {
                    raised.get_or_insert(time);
                }
            }
            What::SoftirqEntry { vec } => self.enter_softirq(c, time, vec),
            What::SoftirqExit { vec } => self.leave_softirq(c, time, vec),
            What::TimerStart { timer, function, expires, now } => {
                self.tell_jiffies(now, time);
                let start = Started { at: time, by: event.current, expires, now };
                self.start(timer, function, false, start);
            }
            What::HrtimerStart { timer, function, expires } => {
                let expires = u64::try_from(expires).unwrap_or(0);
                let start = Started { at: time, by: event.current, expires, now: 0 };
                self.start(timer, function, true, start);
            }
            // Before it expires, the kernel cancels a timer too: its setting stays known.
            What::TimerCancel { .. } | What::HrtimerCancel { .. } => {}
            What::TimerEntry { timer, function, now } => {
                self.tell_jiffies(now, time);
                self.expire(c, time, timer, function, false, now as i64);
            }
            What::HrtimerEntry { timer, function, now } => {
                self.expire(c, time, timer, function, true, now);
            }
            What::TimerExit { timer } => self.expired(c, event, timer, false, names),
            What::HrtimerExit { timer } => self.expired(c, event, timer, true, names),
            What::TickStop { stopped: true, .. } => self.stopped += 1,
            What::TickStop { dependency, .. } => {
                *self.not_stopped.entry(dependency).or_default() += 1;
            }
            What::Runs { tid, name } => {
                if self.tasks.len() < TIMERS_MAX || self.tasks.contains_key(&tid) {
                    self.tasks.insert(tid, name);
                }
            }
            What::Other => {}
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
        let key = IrqKey { irq, name: name.0 };
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
