//! What the accounts come to: functions, periods, handlers, examples, what the tick costs.

use super::Analyzer;
use super::life_cycle::{HIGHRES_STEPS, WHEEL_STEPS};
use crate::sched::tally::{Map, Tally};
use crate::timer::account::TIMER_SOFTIRQ;
use latlab_model::event::{Names, Symbol, softirq_name};
use latlab_model::finding::{Note, Quantity};
use latlab_model::timer::{
    Chain, Function, Handler, Periodic, Softirq, Step, TickCost, TimerTrace,
};
use latlab_model::units::{Tid, TraceNs};

impl Analyzer {
    /// Sums up; `names` are those of the events.
    pub fn finish(self, source: &str, names: &Names) -> TimerTrace {
        let base = self.first.unwrap_or_default();
        let length_ns = self.last.since(base).0;
        let task = |tid: Tid| self.task(tid, names);
        let name = |function: Symbol| names.get(function).to_owned();
        let mut functions: Vec<Function> = self
            .timers
            .functions
            .iter()
            .filter(|(_, a)| a.cost.count > 0)
            .map(|((highres, function), a)| Function {
                name: name(*function),
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
            name: softirq_name(vec as u32).into(),
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
            wheel_steps: steps(&WHEEL_STEPS, &self.timers.wheel),
            highres_steps: steps(&HIGHRES_STEPS, &self.timers.highres),
            stopped: self.stopped,
            not_stopped,
            late: histogram(&self.timers.late),
            softirq_latency: histogram(&self.softirqs[TIMER_SOFTIRQ as usize].0),
            holes: self.holes,
            notes: self.notes(),
            functions,
            chains: self.examples(names),
        }
    }

    fn task(&self, tid: Tid, names: &Names) -> String {
        match self.tasks.get(&tid) {
            _ if tid == Tid(0) => "idle".into(),
            Some(name) => [names.get(*name), ":", &tid.to_string()].concat(),
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
                cpu: c.on.id.0,
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

    fn periodic(&self, name: &impl Fn(Symbol) -> String) -> Vec<Periodic> {
        let mut all: Vec<Periodic> = self
            .timers
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
                    name: names.get(*name).to_owned(),
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
    fn examples(&self, names: &Names) -> Vec<Chain> {
        let named = |chain: &Chain, function: Symbol| Chain {
            function: names.get(function).to_owned(),
            task: (chain.task.parse())
                .map_or_else(|_| chain.task.clone(), |tid| self.task(Tid(tid), names)),
            ..chain.clone()
        };
        let mut examples = Vec::new();
        for highres in [false, true] {
            let mut some: Vec<&(Symbol, Chain)> =
                self.timers.chains.iter().filter(|(_, c)| c.highres == highres).collect();
            some.sort_by_key(|(_, c)| c.expire.saturating_sub(c.irq.unwrap_or(c.expire)));
            let middle = some.len() / 2;
            examples.extend(
                some.iter().skip(middle.saturating_sub(1)).take(3).map(|(f, c)| named(c, *f)),
            );
            examples.extend(some.iter().rev().take(3).map(|(f, c)| named(c, *f)));
        }
        let mut slow: Vec<&(Symbol, Chain)> = self.timers.slowest.iter().collect();
        let cost = |c: &Chain| c.expire_exit - c.irq.unwrap_or(c.expire).min(c.expire_exit);
        slow.sort_by_key(|(_, c)| std::cmp::Reverse(cost(c)));
        examples.extend(slow.iter().take(6).map(|(function, c)| named(c, *function)));
        examples
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.holes > 0 {
            notes.push(Note::new("timer.lost-events").value("gaps", Quantity::Count(self.holes)));
        }
        if self.relevant > 0 && self.irqs.is_empty() {
            notes.push(Note::new("timer.no-interrupts-recorded"));
        }
        notes
    }
}

/// The most frequent, by name.
fn most(map: &Map<Tid, u64>, task: &impl Fn(Tid) -> String) -> Vec<(String, u64)> {
    let mut all: Vec<(Tid, u64)> = map.iter().map(|(t, n)| (*t, *n)).collect();
    all.sort_by_key(|(t, n)| (std::cmp::Reverse(*n), *t));
    all.into_iter().take(5).map(|(t, n)| (task(t), n)).collect()
}

/// What keeps a tick from being stopped (`TICK_DEP_*`), by the first bit that is set.
fn dependency(bits: u32) -> &'static str {
    match bits.trailing_zeros() {
        0 => "POSIX timers of processes",
        1 => "perf events",
        2 => "the scheduler (more than one task)",
        3 => "an unstable clock",
        4 | 5 => "RCU",
        _ => "nothing",
    }
}
