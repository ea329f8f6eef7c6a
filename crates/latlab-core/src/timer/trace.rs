//! From events to chains, functions, periods, handlers, and what the tick costs; in one pass.

use super::account::{
    CpuAccount, FunctionAccount, IrqAccount, IrqKey, OpenIrq, OpenTimer, Started, TimerAccount,
    between, note,
};
use super::event::{Event, What, dependency, softirq};
use super::result::{Chain, Function, Handler, Periodic, Softirq, Step, TickCost, TimerTrace};
use crate::explain::capture::{Names, Symbol};
use crate::sched::Comm;
use crate::sched::tally::{Map, Tally};
use crate::units::{Nanos, TraceNs};

/// Timers that are told apart.
const TIMERS_MAX: usize = 1 << 16;
/// Chains that are kept: the first ones, and the slowest.
const CHAINS: usize = 64;
/// Softirqs whose timers these are.
const TIMER_SOFTIRQ: u32 = 1;
const HRTIMER_SOFTIRQ: u32 = 8;

const WHEEL_STEPS: [&str; 6] = [
    "timer_start → interrupt",
    "interrupt → softirq_raise",
    "softirq_raise → end of the interrupt",
    "end of the interrupt → softirq_entry",
    "softirq_entry → timer_expire_entry",
    "timer_expire_entry → timer_expire_exit",
];
const HIGHRES_STEPS: [&str; 3] = [
    "hrtimer_start → interrupt",
    "interrupt → hrtimer_expire_entry",
    "hrtimer_expire_entry → hrtimer_expire_exit",
];

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

    fn start(&mut self, timer: u64, function: u64, highres: bool, start: Started) {
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

    fn expire(
        &mut self,
        c: usize,
        time: TraceNs,
        timer: u64,
        function: u64,
        highres: bool,
        now: i64,
    ) {
        let is_tick = self.tick.contains(&function);
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
        if cpu_open(&self.cpus[c]) < 16 {
            self.cpus[c].open.push(OpenTimer { timer, function, highres, at: time, start, late });
        }
        let account = self.functions.entry((highres, function)).or_default();
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

    fn expired(&mut self, c: usize, event: &Event, timer: u64, highres: bool, names: &Names) {
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
            chain.irq_name = names.get(Symbol(key.name)).to_owned();
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

    fn keep_chain(&mut self, chain: Chain, function: u64) {
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

    /// Sums up. `name` gives a function's name by its address.
    pub fn finish(self, source: &str, names: &Names, name: impl Fn(u64) -> String) -> TimerTrace {
        let base = self.first.unwrap_or_default();
        let length_ns = self.last.since(base).0;
        let task = |tid: i32| self.task(tid);
        let mut functions: Vec<Function> = self
            .functions
            .iter()
            .filter(|(_, a)| a.cost.count > 0)
            .map(|((highres, address), a)| Function {
                name: name(*address),
                highres: *highres,
                cost: a.cost.durations(base),
                late: a.late.durations(base),
                waited_jiffies: a.waited.durations(base),
                interrupted: most(&a.interrupted, &task),
                set_by: most(&a.set_by, &task),
            })
            .collect();
        functions.sort_by_key(|f| (std::cmp::Reverse(f.cost.sum_ns), f.name.clone()));
        let steps = |names: &[&str], tallies: &[Tally]| -> Vec<Step> {
            let seen = names.iter().zip(tallies).filter(|(_, t)| t.count > 0);
            seen.map(|(n, t)| Step { name: (*n).into(), spread: t.durations(TraceNs(0)) }).collect()
        };
        let softirqs = self.softirqs.iter().enumerate().filter(|(_, (_, cost))| cost.count > 0);
        let softirqs = softirqs.map(|(vec, (latency, cost))| Softirq {
            name: softirq(vec as u32).into(),
            latency: latency.durations(base),
            cost: cost.durations(base),
        });
        let mut not_stopped: Vec<(String, u64)> =
            self.not_stopped.iter().map(|(bits, n)| (dependency(*bits).to_owned(), *n)).collect();
        not_stopped.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let histogram = |t: &Tally| (t.count > 0).then(|| t.histogram());
        TimerTrace {
            source: source.to_owned(),
            first_ns: base.0,
            length_ns,
            events: self.events,
            jiffies_hz: self.hz(),
            ticks: self.ticks(length_ns),
            periodic: self.periodic(&name),
            softirqs: softirqs.collect(),
            handlers: self.handlers(names, base),
            wheel_steps: steps(&WHEEL_STEPS, &self.wheel),
            highres_steps: steps(&HIGHRES_STEPS, &self.highres),
            stopped: self.stopped,
            not_stopped,
            late: histogram(&self.late),
            softirq_latency: histogram(&self.softirqs[TIMER_SOFTIRQ as usize].0),
            holes: self.holes,
            notes: self.notes(),
            functions,
            chains: self.examples(&name),
        }
    }

    fn task(&self, tid: i32) -> String {
        match self.tasks.get(&tid) {
            _ if tid == 0 => "idle".into(),
            Some(name) => format!("{name}:{tid}"),
            None => tid.to_string(),
        }
    }

    fn hz(&self) -> Option<f64> {
        let (first, from, last, to) = self.jiffies?;
        let ns = to.since(from).0;
        let passed = (last as u32).wrapping_sub(first as u32);
        (ns >= 100_000_000 && passed > 0).then(|| f64::from(passed) / (ns as f64 / 1e9))
    }

    fn ticks(&self, length_ns: u64) -> Vec<TickCost> {
        let mut ticks: Vec<TickCost> = (self.cpus.iter())
            .map(|c| TickCost {
                cpu: c.cpu,
                ticks: c.ticks,
                interrupt_ns: c.interrupt_ns,
                tick_ns: c.tick_ns,
                softirq_ns: c.softirq_ns,
                share: (c.interrupt_ns + c.softirq_ns) as f64 / length_ns.max(1) as f64,
            })
            .collect();
        ticks.sort_by_key(|t| t.cpu);
        ticks
    }

    fn periodic(&self, name: &impl Fn(u64) -> String) -> Vec<Periodic> {
        let mut all: Vec<Periodic> = self
            .timers
            .iter()
            .filter_map(|(timer, a)| {
                let (period_ns, jitter_ns, jitter_max_ns) = a.period()?;
                let (times, cpu) = (a.times, a.cpu);
                let function = name(a.function);
                Some(Periodic {
                    function,
                    timer: *timer,
                    cpu,
                    times,
                    period_ns,
                    jitter_ns,
                    jitter_max_ns,
                })
            })
            .collect();
        all.sort_by_key(|p| (std::cmp::Reverse(p.times), p.timer));
        all.truncate(100);
        all
    }

    fn handlers(&self, names: &Names, base: TraceNs) -> Vec<Handler> {
        let mut all: Vec<Handler> = self
            .irqs
            .iter()
            .map(|((irq, name), a)| {
                let mut cpus: Vec<(u32, u64)> = a.cpus.iter().map(|(c, n)| (*c, *n)).collect();
                cpus.sort_unstable();
                Handler {
                    name: names.get(Symbol(*name)).to_owned(),
                    irq: (*irq >= 0).then_some(*irq),
                    timer: a.timer,
                    cost: a.cost.durations(base),
                    cpus,
                }
            })
            .collect();
        all.sort_by_key(|h| (std::cmp::Reverse(h.cost.sum_ns), h.name.clone()));
        all
    }

    /// Of each kind the typical ones (by the time from the interrupt to the function), then the slowest.
    fn examples(&self, name: &impl Fn(u64) -> String) -> Vec<Chain> {
        let named = |chain: &Chain, function: u64| Chain {
            function: name(function),
            task: chain.task.parse().map_or_else(|_| chain.task.clone(), |tid| self.task(tid)),
            ..chain.clone()
        };
        let mut examples = Vec::new();
        for highres in [false, true] {
            let mut some: Vec<&(u64, Chain)> =
                self.chains.iter().filter(|(_, c)| c.highres == highres).collect();
            some.sort_by_key(|(_, c)| c.expire.saturating_sub(c.irq.unwrap_or(c.expire)));
            let middle = some.len() / 2;
            examples.extend(
                some.iter().skip(middle.saturating_sub(1)).take(3).map(|(f, c)| named(c, *f)),
            );
            examples.extend(some.iter().rev().take(3).map(|(f, c)| named(c, *f)));
        }
        let mut slow: Vec<usize> = (0..self.slowest.len()).collect();
        let cost = |c: &Chain| c.expire_exit - c.irq.unwrap_or(c.expire).min(c.expire_exit);
        slow.sort_by_key(|&n| std::cmp::Reverse(cost(&self.slowest[n])));
        examples
            .extend(slow.iter().take(6).map(|&n| named(&self.slowest[n], self.chain_functions[n])));
        examples
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.holes > 0 {
            notes.push(format!(
                "events were lost in {} places: what was open there is not counted",
                self.holes
            ));
        }
        if self.relevant > 0 && self.irqs.is_empty() {
            notes.push(
                "no interrupt was recorded (irq:irq_handler_entry, or irq_vectors:local_timer_entry \
                 on x86): what the tick costs and the first steps of a timer's way are not known"
                    .into(),
            );
        }
        notes
    }
}

fn cpu_open(cpu: &CpuAccount) -> usize {
    cpu.open.len()
}

/// The most frequent, by name.
fn most(map: &Map<i32, u64>, task: &impl Fn(i32) -> String) -> Vec<(String, u64)> {
    let mut all: Vec<(i32, u64)> = map.iter().map(|(t, n)| (*t, *n)).collect();
    all.sort_by_key(|(t, n)| (std::cmp::Reverse(*n), *t));
    all.into_iter().take(5).map(|(t, n)| (task(t), n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: u64 = 0xf1;
    const TICK: u64 = 0xf2;

    fn ev(us: u64, current: i32, what: What) -> Event {
        Event { time: TraceNs(us * 1_000), cpu: 0, current, lost: false, what }
    }

    /// The way of a timer of the wheel: set for two jiffies, served with the third tick.
    fn way(start: u64, irq: Option<Symbol>, names: Symbol) -> Vec<Event> {
        let irq_entry =
            irq.map_or(What::IrqEntry { irq: 18, name: names }, |name| What::VectorEntry { name });
        let irq_exit = irq.map_or(What::IrqExit { irq: 18 }, |name| What::VectorExit { name });
        vec![
            ev(
                start,
                7,
                What::TimerStart { timer: 1, function: PROCESS, expires: 1002, now: 1000 },
            ),
            ev(start + 8_000, 9, irq_entry),
            ev(start + 8_002, 9, What::HrtimerEntry { timer: 2, function: TICK, now: 8 }),
            ev(start + 8_005, 9, What::SoftirqRaise { vec: 1 }),
            ev(start + 8_006, 9, What::HrtimerExit { timer: 2 }),
            ev(start + 8_010, 9, irq_exit),
            ev(start + 8_013, 9, What::SoftirqEntry { vec: 1 }),
            ev(start + 8_015, 9, What::TimerCancel { timer: 1 }),
            ev(start + 8_015, 9, What::TimerEntry { timer: 1, function: PROCESS, now: 1003 }),
            ev(start + 8_019, 9, What::TimerExit { timer: 1 }),
            ev(start + 8_025, 9, What::SoftirqExit { vec: 1 }),
        ]
    }

    fn name(address: u64) -> String {
        if address == PROCESS { "process_timeout".into() } else { "tick_sched_timer".into() }
    }

    #[test]
    fn a_timers_way_is_followed_on_both_architectures() {
        let mut names = Names::default();
        let (arch, local) = (names.intern("arch_timer"), names.intern("local_timer"));
        for vector in [None, Some(local)] {
            let mut a = Analyzer::new(vec![TICK]);
            a.push(&ev(0, 7, What::Runs { tid: 7, name: Comm::new(b"sleeper") }), &names);
            way(100, vector, arch).iter().for_each(|e| a.push(e, &names));
            let t = a.finish("test", &names, name);
            let chain = t.chains.iter().find(|c| !c.highres).unwrap();
            assert_eq!(chain.function, "process_timeout");
            assert_eq!(chain.irq_name, if vector.is_some() { "local_timer" } else { "arch_timer" });
            let us = |n: Option<u64>| n.map(|n| n / 1_000);
            assert_eq!(
                [
                    us(chain.start),
                    us(chain.irq),
                    us(chain.raise),
                    us(chain.irq_exit),
                    us(chain.softirq),
                    us(chain.softirq_exit)
                ],
                [100, 8_100, 8_105, 8_110, 8_113, 8_125].map(Some)
            );
            assert_eq!((chain.expire, chain.expire_exit), (8_115_000, 8_119_000));
            assert_eq!((chain.set_for_jiffies, chain.late), (Some(2), Some(1)));
            let steps: Vec<u64> = t.wheel_steps.iter().map(|s| s.spread.max_ns / 1_000).collect();
            assert_eq!(steps, [8_000, 5, 5, 3, 2, 4]);
            let function = t.functions.iter().find(|f| f.name == "process_timeout").unwrap();
            assert_eq!((function.cost.count, function.cost.sum_ns), (1, 4_000));
            assert_eq!(function.waited_jiffies.max_ns, 3);
            assert_eq!(function.set_by, [("sleeper:7".to_owned(), 1)]);
            assert_eq!(function.interrupted, [("9".to_owned(), 1)]);
            let cost = t.ticks[0].clone();
            assert_eq!(
                (cost.ticks, cost.interrupt_ns, cost.tick_ns, cost.softirq_ns),
                (1, 10_000, 10_000, 12_000)
            );
            assert!((cost.share - 22.0 / 8_125.0).abs() < 1e-9);
            assert_eq!(t.softirqs[0].latency.max_ns, 8_000);
            assert!(t.handlers[0].timer && t.handlers[0].cost.max_ns == 10_000);
        }
    }

    #[test]
    fn periods_and_hz_are_found() {
        let names = Names::default();
        let mut a = Analyzer::new(vec![TICK]);
        for n in 0..300u64 {
            let at = n * 4_000 + (n % 3);
            let entry = What::TimerEntry {
                timer: 5,
                function: PROCESS,
                now: (0xffff_fff0 + n) & 0xffff_ffff,
            };
            a.push(&ev(at, 0, entry), &names);
            a.push(&ev(at + 1, 0, What::TimerExit { timer: 5 }), &names);
        }
        let t = a.finish("test", &names, name);
        assert!((t.jiffies_hz.unwrap() - 250.0).abs() < 0.5, "{:?}", t.jiffies_hz);
        let p = &t.periodic[0];
        assert_eq!((p.times, p.function.as_str()), (300, "process_timeout"));
        assert!(p.period_ns.abs_diff(4_000_000) <= 2_000 && p.jitter_max_ns <= 3_000);
        assert!(t.notes.iter().any(|n| n.contains("no interrupt was recorded")));
    }

    #[test]
    fn a_high_resolution_timer_is_late_by_what_it_was_programmed_for() {
        let names = Names::default();
        let mut a = Analyzer::new(vec![]);
        a.push(
            &ev(10, 7, What::HrtimerStart { timer: 3, function: PROCESS, expires: 500_000 }),
            &names,
        );
        a.push(&ev(500, 0, What::IrqEntry { irq: 1, name: Symbol(0) }), &names);
        a.push(
            &ev(503, 0, What::HrtimerEntry { timer: 3, function: PROCESS, now: 502_000 }),
            &names,
        );
        a.push(&ev(505, 0, What::HrtimerExit { timer: 3 }), &names);
        // Set anew by its own function without an event: nothing is known of its programming.
        a.push(
            &ev(900, 0, What::HrtimerEntry { timer: 3, function: PROCESS, now: 902_000 }),
            &names,
        );
        a.push(&ev(901, 0, What::HrtimerExit { timer: 3 }), &names);
        let t = a.finish("test", &names, name);
        let f = &t.functions[0];
        assert_eq!((f.late.count, f.late.max_ns, f.cost.count), (1, 2_000, 2));
        assert_eq!(t.chains[0].irq, Some(490_000));
    }

    #[test]
    fn what_was_open_when_events_were_lost_is_not_counted() {
        let mut names = Names::default();
        let arch = names.intern("arch_timer");
        let mut a = Analyzer::new(vec![TICK]);
        let mut events = way(100, None, arch);
        events[5].lost = true;
        events.iter().for_each(|e| a.push(e, &names));
        let t = a.finish("test", &names, name);
        assert_eq!((t.holes, t.handlers.len()), (1, 0));
        assert_eq!(t.softirqs[0].latency.count, 0);
        assert!(t.notes[0].contains("lost"));
    }
}
