//! What is open on one CPU above its task, innermost last.

use super::actor::Actor;
use latlab_model::event::Symbol;
use latlab_model::units::{Tid, TraceNs};
use latlab_trace::names::IntMap;

/// Frames of one CPU at most; a deeper one is not kept.
const DEPTH_MAX: usize = 256;
/// Preempted tasks at most of which open frames are kept.
const PARKED_MAX: usize = 1 << 16;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An interrupt, a softirq, the function of a timer, a work item.
    Actor(Actor),
    /// A traced function of the actor beneath, or of the task.
    Function(Symbol),
}

impl What {
    /// Whether it is preempted with its task and comes back with it.
    fn stays_with_task(self) -> bool {
        match self {
            Self::Actor(actor) => actor.stays_with_task(),
            Self::Function(_) => true,
        }
    }
}

/// Something open on a CPU, with what the analysis at hand knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<M> {
    /// What it is.
    pub what: What,
    /// What its exit event names: a number, a symbol, the address of a timer or work item.
    pub key: u64,
    /// Its entry.
    pub start: TraceNs,
    /// Its entry, or when its task came back to a CPU.
    pub since: TraceNs,
    /// The analysis's own; default at its entry.
    pub mark: M,
    /// Depth of the innermost actor at or beneath it, counted from 1; 0: the task.
    actor: u16,
    /// The same for the innermost interrupt.
    interrupt: u16,
}

/// The open frames of one CPU, and those that ended with its last change.
#[derive(Clone, Debug)]
pub struct Stack<M> {
    /// The open ones, then ended ones, then what is left of earlier ones: nothing is moved or freed.
    frames: Vec<Frame<M>>,
    open: usize,
    ended: usize,
    /// The ended ones, where others were opened in their places.
    replaced: Vec<Frame<M>>,
}

impl<M> Default for Stack<M> {
    fn default() -> Self {
        Self { frames: Vec::new(), open: 0, ended: 0, replaced: Vec::new() }
    }
}

impl<M: Copy + Default> Stack<M> {
    /// The open frames, innermost last.
    #[inline]
    pub fn open(&self) -> &[Frame<M>] {
        &self.frames[..self.open]
    }

    /// The open frames, for their marks.
    #[inline]
    pub fn open_mut(&mut self) -> &mut [Frame<M>] {
        &mut self.frames[..self.open]
    }

    /// The frames that the last change ended, outermost first. Of those that an exit event ended,
    /// the first is what the event names: the others lost their exits.
    #[inline]
    pub fn ended(&self) -> &[Frame<M>] {
        if self.replaced.is_empty() {
            &self.frames[self.open..self.open + self.ended]
        } else {
            &self.replaced
        }
    }

    /// Forgets what ended.
    #[inline]
    pub(super) fn settle(&mut self) {
        self.ended = 0;
        self.replaced.clear();
    }

    /// Keeps what ended before its places are used again.
    #[inline]
    fn keep_ended(&mut self) {
        if self.ended > 0 {
            self.replaced.extend_from_slice(&self.frames[self.open..self.open + self.ended]);
            self.ended = 0;
        }
    }

    /// The innermost actor above the task.
    #[inline]
    pub fn actor(&self) -> Option<Actor> {
        self.actor_at(self.open().last()?.actor)
    }

    /// The innermost interrupt.
    #[inline]
    pub fn interrupt(&self) -> Option<Actor> {
        self.actor_at(self.open().last()?.interrupt)
    }

    /// The innermost interrupt beneath the innermost actor.
    #[inline]
    pub fn inside(&self) -> Option<Actor> {
        let actor = self.open().last()?.actor;
        let beneath = usize::from(actor).checked_sub(2)?;
        self.actor_at(self.frames[beneath].interrupt)
    }

    /// The outermost interrupt, without one the outermost actor.
    pub fn outermost(&self) -> Option<Actor> {
        let actors = || self.open().iter().filter_map(|f| actor_of(f.what));
        let in_interrupt = |a: &Actor| a.is_interrupt() || matches!(a, Actor::Hrtimer(_));
        actors().find(in_interrupt).or_else(|| actors().next())
    }

    /// The innermost function, where the innermost frame is one.
    #[inline]
    pub fn function(&self) -> Option<Symbol> {
        match self.open().last()?.what {
            What::Function(function) => Some(function),
            What::Actor(_) => None,
        }
    }

    fn actor_at(&self, depth: u16) -> Option<Actor> {
        actor_of(self.frames[usize::from(depth).checked_sub(1)?].what)
    }

    /// Opens a frame; whether there was room for it.
    #[inline]
    pub(super) fn enter(&mut self, what: What, key: u64, time: TraceNs) -> bool {
        self.keep_ended();
        if self.open >= DEPTH_MAX {
            return false;
        }
        let (start, since, mark) = (time, time, M::default());
        self.put(Frame { what, key, start, since, mark, actor: 0, interrupt: 0 });
        true
    }

    #[inline]
    fn put(&mut self, mut frame: Frame<M>) {
        (frame.actor, frame.interrupt) =
            self.open().last().map_or((0, 0), |f| (f.actor, f.interrupt));
        if let What::Actor(actor) = frame.what {
            frame.actor = self.open as u16 + 1;
            if actor.is_interrupt() {
                frame.interrupt = frame.actor;
            }
        }
        match self.frames.get_mut(self.open) {
            Some(place) => *place = frame,
            None => self.frames.push(frame),
        }
        self.open += 1;
    }

    /// Ends the innermost actor for which `is` holds, and what is above it; whether there is one.
    #[inline]
    pub(super) fn leave(&mut self, is: impl Fn(Actor, u64) -> bool) -> bool {
        let found = |f: &Frame<M>| matches!(f.what, What::Actor(a) if is(a, f.key));
        let at = self.open().iter().rposition(found);
        self.end(at)
    }

    /// Ends the innermost call of a function, and what is above it: actors there lost their exits.
    #[inline]
    pub(super) fn leave_function(&mut self, function: Symbol) -> bool {
        let at = self.open().iter().rposition(|f| f.what == What::Function(function));
        self.end(at)
    }

    /// Ends functions of the innermost actor until at most `depth` functions are open in all.
    pub(super) fn limit_functions(&mut self, depth: usize) {
        let is = |f: &&Frame<M>| matches!(f.what, What::Function(_));
        let surplus = self.open().iter().filter(is).count().saturating_sub(depth);
        let own = self.open().iter().rev().take_while(is).count();
        let at = self.open - surplus.min(own);
        self.end(Some(at).filter(|&at| at < self.open));
    }

    #[inline]
    fn end(&mut self, at: Option<usize>) -> bool {
        self.ended = at.map_or(0, |at| self.open - at);
        self.open -= self.ended;
        at.is_some()
    }

    /// Ends all frames.
    pub(super) fn clear(&mut self) {
        (self.ended, self.open) = (self.open, 0);
    }

    /// Goes on with the frames that a task had open.
    pub(super) fn restore(&mut self, frames: &[Frame<M>], time: TraceNs) {
        self.keep_ended();
        for frame in frames {
            self.put(Frame { since: time, ..*frame });
        }
    }
}

#[inline]
fn actor_of(what: What) -> Option<Actor> {
    match what {
        What::Actor(actor) => Some(actor),
        What::Function(_) => None,
    }
}

/// Frames that preempted tasks took with them.
#[derive(Clone, Debug)]
pub struct Parked<M> {
    of: IntMap<Tid, Vec<Frame<M>>>,
    /// Emptied lists, to be used again.
    spare: Vec<Vec<Frame<M>>>,
}

impl<M> Default for Parked<M> {
    fn default() -> Self {
        Self { of: IntMap::default(), spare: Vec::new() }
    }
}

impl<M: Copy + Default> Parked<M> {
    /// Keeps what of a stack stays with its task. A frame above one that does not stay is not kept,
    /// unless it stays by itself: functions belong to the actor beneath.
    pub(super) fn park(&mut self, tid: Tid, open: &[Frame<M>]) {
        if open.is_empty() || tid.0 <= 0 || self.of.len() >= PARKED_MAX {
            return;
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        let mut stays = true;
        for frame in open {
            stays = match frame.what {
                What::Actor(_) => frame.what.stays_with_task(),
                What::Function(_) => stays,
            };
            if stays {
                kept.push(*frame);
            }
        }
        if kept.is_empty() {
            self.spare.push(kept);
        } else if let Some(old) = self.of.insert(tid, kept) {
            self.reuse(old);
        }
    }

    /// What a task had open, out of the table; give it back to [`Self::reuse`].
    #[inline]
    pub(super) fn take(&mut self, tid: Tid) -> Option<Vec<Frame<M>>> {
        if self.of.is_empty() { None } else { self.of.remove(&tid) }
    }

    pub(super) fn reuse(&mut self, mut list: Vec<Frame<M>>) {
        list.clear();
        if self.spare.len() < 64 {
            self.spare.push(list);
        }
    }

    /// Forgets a task.
    pub(super) fn forget(&mut self, tid: Tid) {
        if let Some(list) = self.take(tid) {
            self.reuse(list);
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.of.clear();
    }
}
