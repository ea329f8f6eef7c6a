//! From events to chains, functions, periods, handlers, and what the tick costs; in one pass.

mod finish;
mod life_cycle;

use super::account::{
    CpuAccount, HRTIMER_SOFTIRQ, IrqAccount, IrqKey, Mark, Started, TIMER_SOFTIRQ, TIMERS_MAX,
    between,
};
use crate::sched::tally::{Map, Tally};
use crate::timeline::cpu::PerCpu;
use crate::timeline::stack::Parked;
use latlab_model::event::{Event, EventKind, Names, Symbol};
use latlab_model::units::{Tid, TraceNs};
use life_cycle::{Call, LifeCycles};

/// Takes events in order of time.
#[derive(Debug, Default)]
pub struct Analyzer {
    cpus: PerCpu<CpuAccount>,
    parked: Parked<Mark>,
    timers: LifeCycles,
    irqs: Map<(i32, Symbol), IrqAccount>,
    /// Latency and cost of each softirq.
    softirqs: [(Tally, Tally); 10],
    tasks: Map<Tid, Symbol>,
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
        let c = self.cpus.place(event.cpu, || CpuAccount::new(event.cpu));
        let time = event.time;
        if let EventKind::Lost { .. } = event.kind {
            self.holes += 1;
            return self.cpus[c].forget(&mut self.parked);
        }
        let cpu = &mut self.cpus[c];
        cpu.on.settle(event, &mut self.parked);
        if let EventKind::Switch { prev, state, next } = event.kind {
            cpu.on.switch(time, (prev.tid, state), next, &mut self.parked);
            if self.tasks.len() < TIMERS_MAX || self.tasks.contains_key(&next.tid) {
                self.tasks.insert(next.tid, next.name);
            }
            return;
        }
        let nested = cpu.on.nest(time, &event.kind);
        self.relevant += 1;
        match event.kind {
            EventKind::IrqEntry { irq, name } => {
                cpu.last_irq = Some((time, None, IrqKey { irq, name }));
            }
            EventKind::VectorEntry { name } => {
                cpu.last_irq = Some((time, None, IrqKey { irq: -1, name }));
            }
            EventKind::IrqExit { .. } | EventKind::VectorExit { .. } => {
                if nested.left {
                    self.leave_irq(c, time);
                }
            }
            EventKind::SoftirqRaise { vec } => {
                if let Some(raised) = cpu.raised.get_mut(vec as usize) {
                    raised.get_or_insert(time);
                }
            }
            EventKind::SoftirqEntry { vec } => self.enter_softirq(c, time, vec),
            EventKind::SoftirqExit { vec } => self.leave_softirq(c, time, vec),
            EventKind::TimerStart { timer, function, expires, now } => {
                self.tell_jiffies(now, time);
                let start = Started { at: time, by: event.current, expires, now };
                self.timers.start(timer, function, false, start);
            }
            EventKind::HrtimerStart { timer, function, expires, .. } => {
                let expires = u64::try_from(expires).unwrap_or(0);
                let start = Started { at: time, by: event.current, expires, now: 0 };
                self.timers.start(timer, function, true, start);
            }
            // Before it expires, the kernel cancels a timer too: its setting stays known.
            EventKind::TimerCancel { .. } | EventKind::HrtimerCancel { .. } => {}
            EventKind::TimerEntry { timer, function, now } => {
                self.tell_jiffies(now, time);
                let call = Call { timer, function, highres: false, now: now as i64 };
                self.timers.expire(&mut self.cpus[c], time, call, names);
            }
            EventKind::HrtimerEntry { timer, function, now, .. } => {
                let call = Call { timer, function, highres: true, now };
                self.timers.expire(cpu, time, call, names);
            }
            EventKind::TimerExit { .. } | EventKind::HrtimerExit { .. } => {
                if nested.left {
                    self.timers.expired(cpu, event, names, self.first.unwrap_or_default());
                }
            }
            EventKind::TickStop { stopped: true, .. } => self.stopped += 1,
            EventKind::TickStop { dependency, .. } => {
                *self.not_stopped.entry(dependency).or_default() += 1;
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

    /// The interrupt that the stack says has ended.
    fn leave_irq(&mut self, c: usize, time: TraceNs) {
        let cpu = &mut self.cpus[c];
        let Some(irq) = cpu.on.stack.ended().first() else { return };
        let Some(key) = IrqKey::of(irq.what) else { return };
        let length = between(irq.start, time);
        if let Some((_, exit @ None, last)) = &mut cpu.last_irq
            && *last == key
        {
            *exit = Some(time);
        }
        if irq.mark.timer {
            cpu.interrupt_ns = cpu.interrupt_ns.saturating_add(length.0);
            let of_tick = if irq.mark.tick { length.0 } else { 0 };
            cpu.tick_ns = cpu.tick_ns.saturating_add(of_tick);
        }
        let account = self.irqs.entry((key.irq, key.name)).or_default();
        account.cost.add(length, irq.start);
        account.timer |= irq.mark.timer;
        *account.cpus.entry(cpu.on.id.0).or_default() += 1;
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
        let Some((_, at, _)) = cpu.softirq.take().filter(|(open, ..)| *open == vec) else { return };
        let length = between(at, time);
        if vec == TIMER_SOFTIRQ || vec == HRTIMER_SOFTIRQ {
            cpu.softirq_ns = cpu.softirq_ns.saturating_add(length.0);
            let (number, base) = (cpu.on.id.0, self.first.unwrap_or_default());
            // The end of the chains that ended in it.
            for (_, chain) in self.timers.chains.iter_mut().rev().take(8) {
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
