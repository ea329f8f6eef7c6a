//! The sleeps of chosen tasks: how each began, what ended it, and what the task did until the next.

use crate::latency::clock_steps::ClockSteps;
use crate::timeline::cpu::PerCpu;
use latlab_model::event::{Event, EventKind, Names, OffCpu, Symbol, Task};
use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
use latlab_trace::names::IntMap;

/// Timers at most of which the time is kept.
const TIMERS: usize = 1 << 16;
/// Sleeps of all chosen tasks together at most: 300 MB.
const SLEEPS: usize = 1 << 21;
/// Tasks at most of which the name is kept.
const NAMES: usize = 1 << 18;

/// The timer whose function woke a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The timer's function.
    pub function: Symbol,
    /// It was set to a time from its start on, not to a time of the clock.
    pub relative: bool,
    /// When it was to expire, in the trace's clock, where it was seen to be started.
    pub intended: Option<TraceNs>,
    /// The time from its start to then, ns.
    pub asked: i64,
}

/// The timer of a sleep, which the task sets before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// The timer's function.
    pub function: Symbol,
    /// When it is to expire, of the timer's clock, ns: at the earliest, and at the latest.
    pub due: (i64, i64),
    /// It was set to a time from its start on, not to a time of the clock.
    pub relative: bool,
    /// The time from its start to then, ns.
    pub asked: i64,
}

impl Until {
    /// Whether this one is for the same time as an earlier one: the kernel sets the rest of an interrupted sleep to the
    /// latest time of that.
    pub fn goes_on(&self, earlier: &Self) -> bool {
        self.function == earlier.function
            && (self.due.0 == earlier.due.0 || self.due.0 == earlier.due.1)
    }
}

/// A sleep, and what follows until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// When the task left its CPU.
    pub out: TraceNs,
    /// In which state.
    pub left: OffCpu,
    /// An event shows that it waits for a lock or for a page.
    pub inside: bool,
    /// When it was woken. The same as `out` where it did not leave its CPU.
    pub woken: TraceNs,
    /// The timer that the task set for it.
    pub until: Option<Until>,
    /// The timer whose function woke it.
    pub timer: Option<Expiry>,
    /// The task that woke it, where no interrupt did.
    pub waker: Option<Task>,
    /// When it got a CPU.
    pub start: TraceNs,
    /// Which one.
    pub cpu: CpuId,
    /// Its kernel priority then.
    pub prio: i32,
    /// Time with a CPU until the next sleep, interrupts included.
    pub ran: Nanos,
    /// Time runnable without a CPU until the next sleep.
    pub preempted: Nanos,
    /// The switch to the task was not recorded: `start` is the earliest possible time.
    pub unsure: bool,
    /// Events were lost before the next sleep: the two are not connected.
    pub gap: bool,
}

impl Sleep {
    /// When what follows it was due: the time of its timer, without one that of the wake-up.
    pub fn due(&self) -> TraceNs {
        self.timer.and_then(|t| t.intended).unwrap_or(self.woken)
    }

    /// Its length.
    pub fn length(&self) -> Nanos {
        self.woken.since(self.out)
    }

    /// One that ends with an event, before anything else is known of it.
    fn at(e: &Event, prio: i32) -> Self {
        Self {
            out: e.time,
            left: OffCpu::Sleeping,
            inside: false,
            woken: e.time,
            until: None,
            timer: None,
            waker: None,
            start: e.time,
            cpu: e.cpu,
            prio,
            ran: Nanos(0),
            preempted: Nanos(0),
            unsure: false,
            gap: false,
        }
    }
}

/// A timer while it is armed.
#[derive(Clone, Copy, Debug)]
struct Armed {
    due: i64,
    asked: i64,
    relative: bool,
}

/// What interrupts a CPU, as far as it wakes tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Above {
    expiring: Option<Expiry>,
    timer: u64,
    depth: u32,
}

/// A CPU.
#[derive(Clone, Copy, Debug, Default)]
struct OnCpu {
    above: Above,
    /// Its last event.
    last: Option<TraceNs>,
}

/// What a task does when the trace ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Last {
    /// It had no event since events were lost, or none at all.
    #[default]
    Unknown,
    /// It has a CPU, from this time on.
    Running(TraceNs),
    /// It is runnable, from this time on.
    Runnable(TraceNs),
    /// It sleeps.
    Asleep {
        /// When it left its CPU.
        out: TraceNs,
        /// In which state.
        left: OffCpu,
        /// An event shows that it waits for a lock or for a page.
        inside: bool,
        /// The timer that it set for it.
        until: Option<Until>,
    },
    /// It was woken from this sleep, and has no CPU yet.
    Woken(Sleep),
}

/// The sleeps of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Slept {
    /// The thread.
    pub tid: Tid,
    /// Those that ended, in order of time.
    pub sleeps: Vec<Sleep>,
    /// What it does when the trace ends.
    pub last: Last,
}

/// One of the chosen tasks.
#[derive(Clone, Debug, Default)]
struct Watched {
    sleeps: Vec<Sleep>,
    now: Now,
    /// It waits for a lock or a page, as its last event shows.
    inside: bool,
    /// It called sched_yield: a deadline task gives the rest of its period away.
    yielded: bool,
    /// The timer of its next period, which it started then.
    replenishment: Option<u64>,
    /// A timer of its own that was due before it was started: it may go on without a sleep.
    passed: Option<Expiry>,
    /// The timer that it set for a sleep since it got a CPU after the last one.
    until: Option<Until>,
    /// The timer of its sleep that expired and did not wake it: it was frozen.
    expired: Option<Expiry>,
    /// The losses of events that it takes into account.
    losses: u64,
}

/// What a chosen task does.
#[derive(Clone, Copy, Debug, Default)]
enum Now {
    #[default]
    Unknown,
    Running {
        since: TraceNs,
    },
    Runnable {
        since: TraceNs,
    },
    Asleep {
        out: TraceNs,
        left: OffCpu,
    },
    Woken {
        sleep: Sleep,
    },
}

/// Collects the sleeps of chosen tasks from the events of a trace.
#[derive(Clone, Debug, Default)]
pub struct Sleeps {
    of: IntMap<Tid, Watched>,
    armed: IntMap<u64, Armed>,
    clocks: ClockSteps,
    tasks: IntMap<Tid, Task>,
    /// Sleeps so far.
    kept: usize,
    cpus: PerCpu<OnCpu>,
    /// The trace's clock is CLOCK_MONOTONIC, which most timers have.
    monotonic: bool,
    /// Names of the function that begins the next period of a deadline task.
    replenishments: Vec<Symbol>,
    /// Names of the function that ends a sleep.
    wakeups: Vec<Symbol>,
    /// The task that sleeps until each of these timers.
    sleepers: IntMap<u64, Tid>,
    /// The task that each timer of a next period belongs to.
    deadline: IntMap<u64, Tid>,
    /// Losses of events so far.
    losses: u64,
}

impl Watched {
    /// What was before lost events is not connected with what follows.
    #[inline]
    fn lose(&mut self, losses: u64) {
        if self.losses == losses {
            return;
        }
        self.losses = losses;
        if let Some(last) = self.sleeps.last_mut() {
            last.gap = true;
        }
        (self.now, self.passed) = (Now::Unknown, None);
        (self.until, self.expired) = (None, None);
    }

    /// What it does now.
    fn last(&self) -> Last {
        let (inside, until) = (self.inside, self.until);
        match self.now {
            Now::Unknown => Last::Unknown,
            Now::Running { since } => Last::Running(since),
            Now::Runnable { since } => Last::Runnable(since),
            Now::Asleep { out, left } => Last::Asleep { out, left, inside, until },
            Now::Woken { sleep } => Last::Woken(sleep),
        }
    }

    /// The timer of its sleep expires.
    fn expire(&mut self, expiry: Expiry) {
        match &mut self.now {
            // A signal has woken it just before: it sleeps no longer.
            Now::Woken { sleep } => sleep.timer = sleep.timer.or(Some(expiry)),
            Now::Running { .. } | Now::Runnable { .. } if self.until.is_none() => {
                if let Some(last) = self.sleeps.last_mut() {
                    last.timer = last.timer.or(Some(expiry));
                }
            }
            _ => self.expired = Some(expiry),
        }
    }

    /// It got a CPU after a sleep: what it did before is over.
    fn begin(&mut self) {
        (self.inside, self.yielded) = (false, false);
        (self.passed, self.replenishment) = (None, None);
        (self.until, self.expired) = (None, None);
    }
}

impl Sleeps {
    /// Those of these threads. Only where the trace's clock is CLOCK_MONOTONIC it is seen that a timer was due
    /// before it was started.
    pub fn of(tids: &[Tid], monotonic: bool, names: &Names) -> Self {
        let of = tids.iter().map(|tid| (*tid, Watched::default())).collect();
        let of_name = |name: &str| -> Vec<Symbol> {
            names.symbols().filter(|s| names.get(*s).starts_with(name)).collect()
        };
        let (replenishments, wakeups) = (of_name("dl_task_timer"), of_name("hrtimer_wakeup"));
        Self { of, monotonic, replenishments, wakeups, ..Self::default() }
    }

    /// The sleeps of each thread, in order of thread id.
    pub fn finish(mut self) -> Vec<Slept> {
        self.of.values_mut().for_each(|own| own.lose(self.losses));
        let slept = |(tid, w): (Tid, Watched)| Slept { tid, last: w.last(), sleeps: w.sleeps };
        let mut all: Vec<_> = self.of.into_iter().map(slept).collect();
        all.sort_by_key(|slept| slept.tid);
        all
    }

    /// Takes one event, in rising time.
    pub fn take(&mut self, e: &Event) {
        let at = self.cpus.place(e.cpu, OnCpu::default);
        self.see_current(e, at);
        self.cpus[at].last = Some(e.time);
        match e.kind {
            EventKind::Switch { prev, state, next } => {
                self.cpus[at].above = Above::default();
                self.switch(e, prev, state, next);
            }
            EventKind::Waking { task, .. }
            | EventKind::Wakeup { task, .. }
            | EventKind::WakeupNew { task, .. } => self.wake(e, at, task),
            EventKind::HrtimerStart { timer, function, relative, softexpires, expires } => {
                self.start_timer(e, (timer, function, relative), (softexpires, expires));
            }
            EventKind::HrtimerEntry { timer, function, now, .. } => {
                let armed = self.armed.remove(&timer);
                let late = armed.map(|a| self.clocks.late(a.due, now, e.time));
                let expiry = Expiry {
                    function,
                    relative: armed.is_some_and(|a| a.relative),
                    intended: late.map(|late| TraceNs(e.time.0.saturating_sub(late))),
                    asked: armed.map_or(0, |a| a.asked),
                };
                if self.replenishments.contains(&function) {
                    self.replenish(e, timer, expiry);
                } else if let Some(own) = self.sleepers.remove(&timer).and_then(|t| self.own(t)) {
                    own.expire(expiry);
                }
                let above = &mut self.cpus[at].above;
                (above.expiring, above.timer) = (Some(expiry), timer);
            }
            EventKind::HrtimerExit { timer } => {
                let above = &mut self.cpus[at].above;
                if above.timer == timer {
                    above.expiring = None;
                }
            }
            EventKind::IrqEntry { .. }
            | EventKind::VectorEntry { .. }
            | EventKind::IpiEntry { .. } => {
                let above = &mut self.cpus[at].above;
                above.depth = above.depth.saturating_add(1);
            }
            EventKind::IrqExit { .. }
            | EventKind::VectorExit { .. }
            | EventKind::IpiExit { .. } => {
                let above = &mut self.cpus[at].above;
                above.depth = above.depth.saturating_sub(1);
            }
            EventKind::LockBegin { .. } | EventKind::PageFault { .. } => self.mark(e.current, true),
            EventKind::SyscallEnter { yields: true, .. } => {
                if let Some(own) = self.own(e.current) {
                    own.yielded = true;
                }
            }
            EventKind::LockEnd { .. }
            | EventKind::SyscallEnter { .. }
            | EventKind::SyscallExit { .. } => self.mark(e.current, false),
            EventKind::SetPrio { task, new } if new < task.prio && task.tid != e.current => {
                self.mark(e.current, true);
            }
            _ => {}
        }
    }

    /// A task that has events of its own has a CPU, also where the switch to it was not recorded.
    fn see_current(&mut self, e: &Event, at: usize) {
        let Some(own) = self.of.get_mut(&e.current) else { return };
        own.lose(self.losses);
        let since = match own.now {
            Now::Woken { sleep } => sleep.woken,
            Now::Runnable { since } => since,
            _ => return,
        };
        let before = self.cpus[at].last.unwrap_or(e.time);
        // Times of a damaged trace may fall.
        let start = before.max(since).min(e.time);
        match own.now {
            Now::Woken { sleep } if self.kept < SLEEPS => {
                own.begin();
                self.kept += 1;
                own.sleeps.push(Sleep { start, cpu: e.cpu, unsure: true, ..sleep });
            }
            _ => {
                if let Some(last) = own.sleeps.last_mut() {
                    last.preempted = last.preempted + start.since(since);
                    last.unsure = true;
                }
            }
        }
        own.now = Now::Running { since: start };
    }

    /// One of the chosen tasks.
    #[inline]
    fn own(&mut self, tid: Tid) -> Option<&mut Watched> {
        let own = self.of.get_mut(&tid)?;
        own.lose(self.losses);
        Some(own)
    }

    fn mark(&mut self, tid: Tid, inside: bool) {
        if let Some(own) = self.own(tid) {
            own.inside = inside;
        }
    }

    /// What was before lost events is not connected with what follows. Each thread learns it with its next event.
    pub fn lose(&mut self) {
        self.losses += 1;
        self.cpus.iter_mut().for_each(|cpu| cpu.above = Above::default());
    }

    fn start_timer(
        &mut self,
        e: &Event,
        (timer, function, relative): (u64, Symbol, bool),
        (due, latest): (i64, i64),
    ) {
        let asked = match self.monotonic {
            true => due.saturating_sub(i64::try_from(e.time.0).unwrap_or(i64::MAX)),
            false => 0,
        };
        if self.armed.len() < TIMERS || self.armed.contains_key(&timer) {
            self.armed.insert(timer, Armed { due, asked, relative });
        }
        let Some(own) = self.of.get_mut(&e.current) else { return };
        own.lose(self.losses);
        // The timer of a sleep: others may be the kernel's own, which an interrupt starts while the task runs.
        if self.wakeups.contains(&function) {
            own.until = Some(Until { function, due: (due, latest), relative, asked });
            own.expired = None;
            if self.sleepers.len() < TIMERS || self.sleepers.contains_key(&timer) {
                self.sleepers.insert(timer, e.current);
            }
        }
        if self.replenishments.contains(&function) {
            own.replenishment = Some(timer).filter(|_| own.yielded);
            if own.yielded && (self.deadline.len() < TIMERS || self.deadline.contains_key(&timer)) {
                self.deadline.insert(timer, e.current);
            }
        } else if self.monotonic {
            let intended = u64::try_from(due).ok().map(TraceNs).filter(|due| *due <= e.time);
            own.passed =
                intended.map(|due| Expiry { function, relative, intended: Some(due), asked });
        }
    }

    fn name(&mut self, task: Task) {
        if self.tasks.len() < NAMES || self.tasks.contains_key(&task.tid) {
            self.tasks.insert(task.tid, task);
        }
    }

    fn switch(&mut self, e: &Event, prev: Task, left: OffCpu, next: Task) {
        self.name(prev);
        self.name(next);
        if let Some(own) = self.own(prev.tid) {
            if let Now::Running { since } = own.now
                && let Some(last) = own.sleeps.last_mut()
            {
                last.ran = last.ran + e.time.since(since);
            }
            own.now = match left {
                // It is runnable, and has no runtime until its next period.
                OffCpu::Runnable | OffCpu::Preempted if own.replenishment.is_some() => {
                    Now::Asleep { out: e.time, left: OffCpu::Sleeping }
                }
                OffCpu::Runnable | OffCpu::Preempted => Now::Runnable { since: e.time },
                _ => Now::Asleep { out: e.time, left },
            };
        }
        if let Some(own) = self.of.get_mut(&next.tid) {
            own.lose(self.losses);
            match own.now {
                Now::Runnable { since } => {
                    if let Some(last) = own.sleeps.last_mut() {
                        last.preempted = last.preempted + e.time.since(since);
                    }
                }
                Now::Woken { sleep } if self.kept < SLEEPS => {
                    own.begin();
                    let prio = if sleep.prio == i32::MAX { next.prio } else { sleep.prio };
                    self.kept += 1;
                    own.sleeps.push(Sleep { start: e.time, cpu: e.cpu, prio, ..sleep });
                }
                _ => {}
            }
            own.now = Now::Running { since: e.time };
        }
    }

    /// The next period of a deadline task begins, for which there is no wake-up.
    fn replenish(&mut self, e: &Event, timer: u64, expiry: Expiry) {
        let Some(own) = self.deadline.remove(&timer).and_then(|tid| self.own(tid)) else { return };
        let Now::Asleep { out, left } = own.now else { return };
        if own.replenishment == Some(timer) {
            own.replenishment = None;
            let sleep = Sleep { out, left, timer: Some(expiry), ..Sleep::at(e, i32::MAX) };
            own.now = Now::Woken { sleep };
        }
    }

    fn wake(&mut self, e: &Event, at: usize, task: Task) {
        self.name(task);
        let above = self.cpus[at].above;
        let Some(own) = self.of.get_mut(&task.tid) else { return };
        own.lose(self.losses);
        let timer = above.expiring;
        // Without events of interrupts the record's flags tell that one woke it.
        let in_interrupt = timer.is_some() || above.depth > 0 || e.kind.in_interrupt();
        let by_task = !in_interrupt && e.current != Tid(0) && e.current != task.tid;
        let unnamed = Task { tid: e.current, name: Symbol(0), prio: i32::MAX };
        let waker = by_task.then(|| self.tasks.get(&e.current).copied().unwrap_or(unnamed));
        let (inside, until) = (own.inside, own.until);
        // A frozen task is woken later, by who thaws it.
        let timer = timer.or(own.expired);
        let fresh = Sleep { inside, until, timer, waker, ..Sleep::at(e, task.prio) };
        match own.now {
            Now::Asleep { out, left } => {
                own.now = Now::Woken { sleep: Sleep { out, left, ..fresh } };
            }
            // Its time had passed when it wanted to sleep: it goes on at once.
            Now::Running { since } if self.kept < SLEEPS => {
                let Some(passed) = own.passed.take() else { return };
                if let Some(last) = own.sleeps.last_mut() {
                    last.ran = last.ran + e.time.since(since);
                }
                self.kept += 1;
                own.sleeps.push(Sleep { timer: Some(passed), waker: None, ..fresh });
                own.now = Now::Running { since: e.time };
            }
            _ => {}
        }
    }
}
