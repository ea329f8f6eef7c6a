//! A timer from its setting over the interrupt to its function: what its account learns, and its
//! chain, step by step.

use crate::sched::tally::{Map, Tally};
use crate::timeline::actor::Actor;
use crate::timeline::stack::What;
use crate::timer::account::{
    CpuAccount, FunctionAccount, HRTIMER_SOFTIRQ, IrqKey, Started, TIMER_SOFTIRQ, TIMERS_MAX,
    TimerAccount, between, note,
};
use latlab_model::event::{Event, Names, Symbol};
use latlab_model::timer::Chain;
use latlab_model::units::{Nanos, TraceNs};

/// The functions that are the tick, by the kernels' names for them.
const TICKS: [&str; 3] = ["tick_sched_timer", "tick_nohz_handler", "tick_periodic"];
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

/// All timers.
#[derive(Debug, Default)]
pub(super) struct LifeCycles {
    pub functions: Map<(bool, Symbol), FunctionAccount>,
    pub timers: Map<u64, TimerAccount>,
    /// Durations of the steps, of the timer wheel and of high-resolution timers.
    pub wheel: [Tally; WHEEL_STEPS.len()],
    pub highres: [Tally; HIGHRES_STEPS.len()],
    pub late: Tally,
    /// Whole chains, with their functions, then the slowest.
    pub chains: Vec<(Symbol, Chain)>,
    pub slowest: Vec<(Symbol, Chain)>,
    /// Cost of the cheapest of them, ns.
    least: u64,
}

impl LifeCycles {
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

    /// A timer's function is called: its frame is the innermost one.
    pub(super) fn expire(
        &mut self,
        cpu: &mut CpuAccount,
        time: TraceNs,
        call: Call,
        names: &Names,
    ) {
        let Call { timer, function, highres, now } = call;
        let is_tick = match self.functions.get(&(highres, function)) {
            Some(account) if account.cost.count > 0 => account.tick,
            _ => TICKS.contains(&names.get(function)),
        };
        if let Some(irq) = cpu.irq() {
            (irq.mark.timer, irq.mark.tick) = (true, irq.mark.tick || is_tick);
        }
        cpu.ticks += u64::from(is_tick);
        let number = cpu.on.id.0;
        // What was programmed is known where the setting was seen. A tick sets itself anew in its
        // own function, without an event: only a setting that is not yet used counts.
        let start = self.timer(timer).and_then(|account| {
            if account.function != function || account.highres != highres {
                *account = TimerAccount { function, highres, ..TimerAccount::default() };
            }
            account.called(time, number);
            account.start.take()
        });
        let late = start.map(|s| {
            if highres {
                now - s.expires as i64
            } else {
                // Jiffies of a kernel of 32 bits wrap.
                i64::from((now as u32).wrapping_sub(s.expires as u32) as i32)
            }
        });
        if let Some(frame) = cpu.on.stack.open_mut().last_mut().filter(|f| f.key == timer) {
            (frame.mark.start, frame.mark.late) = (start, late);
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

    /// A timer's function has returned: its frame is the one that ended. Times of chains count from `base`.
    pub(super) fn expired(
        &mut self,
        cpu: &mut CpuAccount,
        event: &Event,
        names: &Names,
        base: TraceNs,
    ) {
        let Some(frame) = cpu.on.stack.ended().first().copied() else { return };
        let (function, highres) = match frame.what {
            What::Actor(Actor::Hrtimer(function)) => (function, true),
            What::Actor(Actor::Timer(function)) => (function, false),
            _ => return,
        };
        let account = self.functions.entry((highres, function)).or_default();
        account.cost.add(between(frame.start, event.time), frame.start);
        note(&mut account.interrupted, event.current);
        let at = |t: TraceNs| t.since(base).0;
        let mut chain = Chain {
            highres,
            cpu: cpu.on.id.0,
            task: String::new(),
            start: frame.mark.start.map(|s| at(s.at)),
            set_for_jiffies: (frame.mark.start)
                .filter(|_| !highres)
                .map(|s| i64::from((s.expires as u32).wrapping_sub(s.now as u32) as i32)),
            expire: at(frame.start),
            expire_exit: at(event.time),
            late: frame.mark.late,
            ..Chain::default()
        };
        let softirq =
            cpu.softirq.filter(|(vec, ..)| *vec == TIMER_SOFTIRQ || *vec == HRTIMER_SOFTIRQ);
        let open = cpu.irq().and_then(|f| Some((f.start, None, IrqKey::of(f.what)?)));
        let irq = match softirq {
            None => open,
            // The interrupt that raised it, if that was the last one.
            Some((.., raised)) => cpu.last_irq.filter(|(entry, exit, _)| {
                raised.is_some_and(|r| *entry <= r && exit.is_none_or(|e| r <= e))
            }),
        };
        if let Some((entry, exit, _)) = irq {
            (chain.irq, chain.irq_exit) = (Some(at(entry)), exit.map(at));
        }
        if let Some((_, entry, raised)) = softirq {
            (chain.softirq, chain.raise) = (Some(at(entry)), raised.map(at));
        }
        self.count_steps(&chain);
        self.keep_chain(chain, function, |chain| {
            chain.task = event.current.to_string();
            if let Some((.., key)) = irq {
                chain.irq_name = names.get(key.name).to_owned();
            }
        });
    }

    fn count_steps(&mut self, c: &Chain) {
        let add = |tally: &mut Tally, from: Option<u64>, to: Option<u64>| {
            if let (Some(from), Some(to)) = (from, to)
                && from <= to
            {
                tally.add(Nanos(to - from), TraceNs(from));
            }
        };
        let (expire, exit) = (Some(c.expire), Some(c.expire_exit));
        if c.highres {
            let steps = [(c.start, c.irq), (c.irq, expire), (expire, exit)];
            self.highres.iter_mut().zip(steps).for_each(|(t, (from, to))| add(t, from, to));
        } else {
            let steps = [
                (c.start, c.irq),
                (c.irq, c.raise),
                (c.raise, c.irq_exit),
                (c.irq_exit, c.softirq),
                (c.softirq, expire),
                (expire, exit),
            ];
            self.wheel.iter_mut().zip(steps).for_each(|(t, (from, to))| add(t, from, to));
        }
    }

    /// Keeps a chain as an example, with its names, if it is one of the first or of the slowest.
    fn keep_chain(&mut self, mut chain: Chain, function: Symbol, name: impl FnOnce(&mut Chain)) {
        // Whole ones first: they show the way.
        let whole = chain.start.is_some() && chain.irq.is_some();
        let kind = || self.chains.iter().filter(|(_, c)| c.highres == chain.highres).count();
        if whole && self.chains.len() < 2 * CHAINS && kind() < CHAINS {
            name(&mut chain);
            self.chains.push((function, chain));
            return;
        }
        let cost = |c: &Chain| c.expire_exit - c.irq.unwrap_or(c.expire).min(c.expire_exit);
        if self.slowest.len() < CHAINS {
            name(&mut chain);
            self.slowest.push((function, chain));
            self.least = self.slowest.iter().map(|(_, c)| cost(c)).min().unwrap_or(0);
        } else if self.least < cost(&chain) {
            name(&mut chain);
            let least = self.slowest.iter_mut().min_by_key(|(_, c)| cost(c));
            if let Some(least) = least {
                *least = (function, chain);
            }
            self.least = self.slowest.iter().map(|(_, c)| cost(c)).min().unwrap_or(0);
        }
    }
}
