//! What runs on a CPU, as far as the events tell.

use latlab_model::event::Symbol;
use latlab_model::units::Tid;

/// What ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// Nothing to run.
    Idle,
    /// A task's own code, in user space or in the kernel on its behalf.
    Task(Tid),
    /// An interrupt handler.
    Irq(i32, Symbol),
    /// An interrupt without a number: a timer tick, an IPI.
    Vector(Symbol),
    /// A non-maskable interrupt.
    Nmi,
    /// A softirq.
    Softirq(u32),
    /// The function of a high-resolution timer, in hard-irq or softirq context.
    Hrtimer(Symbol),
    /// The function of a timer-wheel timer.
    Timer(Symbol),
    /// A work item.
    Work(Symbol),
}

impl Actor {
    /// Frames that belong to the task and are preempted with it.
    pub fn stays_with_task(self) -> bool {
        matches!(self, Self::Softirq(_) | Self::Timer(_) | Self::Work(_))
    }
    /// Whether it runs in interrupt context whatever the kernel.
    #[inline]
    pub fn is_interrupt(self) -> bool {
        matches!(self, Self::Irq(..) | Self::Vector(_) | Self::Nmi)
    }
}
