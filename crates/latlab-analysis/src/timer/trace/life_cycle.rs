//! A timer from its setting over the interrupt to its function: what its account learns, and its
//! chain, step by step.

use super::{Analyzer, HRTIMER_SOFTIRQ, TICKS, TIMER_SOFTIRQ, TIMERS_MAX};
use crate::sched::tally::Tally;
use crate::timer::account::{OpenTimer, Started, TimerAccount, between, note};
use latlab_model::event::{Event, Names, Symbol};
use latlab_model::timer::Chain;
use latlab_model::units::{Nanos, TraceNs};

/// Chains that are kept: the first ones, and the slowest.
const CHAINS: usize = 64;

pub(super) const WHEEL_STEPS: [&str; 6] = [
    "timer_start → interrupt",
    "interrupt → softirq_raise",
    "softirq_raise → end of the interrupt",
    "end of the interrupt → softirq_entry",
    "softirq_entry → timer_expire_entry",
    "timer_expire_entry → timer_expire_exit",
];
pub(super) const HIGHRES_STEPS: [&str; 3] = [
    "hrtimer_start → interrupt",
    "interrupt → hrtimer_expire_entry",
    "hrtimer_expire_entry → hrtimer_expire_exit",
];

/// A timer whose function is called; `now` in jiffies or ns of its clock.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub timer: u64,
    pub function: Symbol,
    pub highres: bool,
    pub now: i64,
}

impl Analyzer {
    pub(super) fn start(&mut self, timer: u64, function: Symbol, highres: bool, start: Started) {
        if let Some(account) = self.timer(timer) {
            if account.function != function || account.highres != highres {
                // Another timer at the same address.
                *account = TimerAccount { function, highres, ..TimerAccount::default() };
            }
            account.start = Some(start);
        }
        let account = self.functions.entry((highres, function)).or_default();
        note(&mut account.set_by, start.by);
    }

    fn timer(&mut self, timer: u64) -> Option<&mut TimerAccount> {
        if self.timers.len() >= TIMERS_MAX && !self.timers.contains_key(&timer) {
            return None;
        }
        Some(self.timers.entry(timer).or_default())
    }

    pub(super) fn expire(&mut self, c: usize, time: TraceNs, call: Call, names: &Names) {
        let Call { timer, function, highres, now } = call;
        let is_tick = match self.functions.get(&(highres, function)) {
            Some(account) if account.cost.count > 0 => account.tick,
            _ => TICKS.contains(&names.get(function)),
        };
        let cpu = &mut self.cpus[c];
        if let Some(irq) = cpu.irqs.last_mut() {
            (irq.timer, irq.tick) = (true, irq.tick || is_tick);
        }
        cpu.ticks += u64::from(is_tick);
        let number = cpu.cpu;
        let start = self.timer(timer).and_then(|account| {
            if account.function != function || account.highres != highres {
                *account = TimerAccount { function, highres, ..TimerAccount::default() };
            }
            account.called(time, number);
            account.start
        });
        // What was programmed is known where the setting was seen. A tick sets itself anew in its
        // own function, without an event: only a setting that is not yet used counts.
        let late = start.map(|s| {
            if highres {
                now - s.expires as i64
            } else {
                // Jiffies of a kernel of 32 bits wrap.
                i64::from((now as u32).wrapping_sub(s.expires as u32) as i32)
            }
        });
        if let Some(account) = self.timers.get_mut(&timer) {
            account.start = None;
        }
        if self.cpus[c].open.len() < 16 {
            self.cpus[c].open.push(OpenTimer { timer, function, highres, at: time, start, late });
        }
        let account = self.functions.entry((highres, function)).or_default();
        account.tick = is_tick;
        if let Some(late) = late {
            let late = Nanos(late.max(0) as u64);
            account.late.add(late, time);
            if highres {
                self.late.add(late, time);
            }
        }
        if let Some(s) = start.filter(|_| !highres) {
            let waited = (now as u32).wrapping_sub(s.now as u32);
            account.waited.add(Nanos(u64::from(waited)), s.at);
        }
    }

    pub(super) fn expired(
        &mut self,
        c: usize,
        event: &Event,
        timer: u64,
        highres: bool,
        names: &Names,
    ) {
        let open = &mut self.cpus[c].open;
        let Some(at) = open.iter().rposition(|o| o.timer == timer && o.highres == highres) else {
            return;
        };
        let open_timer = open[at];
        open.truncate(at);
        let account = self.functions.entry((highres, open_timer.function)).or_default();
        account.cost.add(between(open_timer.at, event.time), open_timer.at);
        note(&mut account.interrupted, event.current);
        self.chain(c, event, open_timer, names);
    }

    /// The way of a timer that has just been served.
    fn chain(&mut self, c: usize, event: &Event, timer: OpenTimer, names: &Names) {
        let base = self.first.unwrap_or_default();
        let at = |t: TraceNs| t.since(base).0;
        let cpu = &self.cpus[c];
        let mut chain = Chain {
            highres: timer.highres,
            cpu: cpu.cpu,
            task: event.current.to_string(),
            start: timer.start.map(|s| at(s.at)),
            set_for_jiffies: timer
                .start
                .filter(|_| !timer.highres)
                .map(|s| i64::from((s.expires as u32).wrapping_sub(s.now as u32) as i32)),
            expire: at(timer.at),
            expire_exit: at(event.time),
            late: timer.late,
            ..Chain::default()
        };
        let softirq =
            cpu.softirq.filter(|(vec, ..)| *vec == TIMER_SOFTIRQ || *vec == HRTIMER_SOFTIRQ);
        let irq = match (softirq, cpu.irqs.last()) {
            (None, Some(open)) => Some((open.at, None, open.key)),
            // The interrupt that raised it, if that was the last one.
            (Some((_, _, raised)), _) => cpu.last_irq.filter(|(entry, exit, _)| {
                raised.is_some_and(|r| *entry <= r && exit.is_none_or(|e| r <= e))
            }),
            _ => None,
        };
        if let Some((entry, exit, key)) = irq {
            chain.irq = Some(at(entry));
            chain.irq_exit = exit.map(at);
            chain.irq_name = names.get(key.name).to_owned();
        }
        if let Some((_, entry, raised)) = softirq {
            (chain.softirq, chain.raise) = (Some(at(entry)), raised.map(at));
        }
        self.count_steps(&chain);
        self.keep_chain(chain, timer.function);
    }

    fn count_steps(&mut self, chain: &Chain) {
        let add = |tallies: &mut Vec<Tally>, n: usize, from: Option<u64>, to: Option<u64>| {
            if let (Some(from), Some(to)) = (from, to)
                && from <= to
            {
                tallies[n].add(Nanos(to - from), TraceNs(from));
            }
        };
        let c = chain;
        if c.highres {
            add(&mut self.highres, 0, c.start, c.irq);
            add(&mut self.highres, 1, c.irq, Some(c.expire));
            add(&mut self.highres, 2, Some(c.expire), Some(c.expire_exit));
        } else {
            add(&mut self.wheel, 0, c.start, c.irq);
            add(&mut self.wheel, 1, c.irq, c.raise);
            add(&mut self.wheel, 2, c.raise, c.irq_exit);
            add(&mut self.wheel, 3, c.irq_exit, c.softirq);
            add(&mut self.wheel, 4, c.softirq, Some(c.expire));
            add(&mut self.wheel, 5, Some(c.expire), Some(c.expire_exit));
        }
    }

    fn keep_chain(&mut self, chain: Chain, function: Symbol) {
        // Whole ones first: they show the way.
        let whole = chain.start.is_some() && chain.irq.is_some();
        let kind = self.chains.iter().filter(|(_, c)| c.highres == chain.highres).count();
        if whole && kind < CHAINS {
            self.chains.push((function, chain));
            return;
        }
        let cost = |c: &Chain| c.expire_exit - c.irq.unwrap_or(c.expire).min(c.expire_exit);
        if self.slowest.len() < CHAINS {
            self.slowest.push(chain);
            self.chain_functions.push(function);
        } else if let Some((n, least)) =
            self.slowest.iter().enumerate().min_by_key(|(_, c)| cost(c))
            && cost(least) < cost(&chain)
        {
            (self.slowest[n], self.chain_functions[n]) = (chain, function);
        }
    }
}
