//! What fair sharing would be: weights, Jain's index, and the ideal that lag is measured against.
//!
//! The ideal is generalised processor sharing (Parekh and Gallager 1993; Stoica et al. 1996 for
//! its use in EEVDF): while a CPU runs fair tasks, each runnable one of weight w gets w/W of it, W
//! being the sum of the weights of all that are runnable there. Virtual time V advances by dt/W, so a
//! task's ideal service from V₀ to V₁ is w·(V₁ − V₀), whatever came and went between. Lag is
//! ideal minus received service. Fairness of an allocation x is Jain's index
//! (Σx)² / (n·Σx²) (Jain, Chiu and Hawe 1984): 1 when all are equal, 1/n when one has everything.

use latlab_model::sched::experiment::CellTask;
use latlab_model::wakeup::Policy;

/// Weight of SCHED_IDLE.
pub const IDLE_WEIGHT: f64 = 3.0;

/// Weight of a nice value: 1024 for 0, one step a factor of 1.25.
pub fn weight_of_nice(nice: i32) -> f64 {
    (1024.0 * 1.25f64.powi(-nice.clamp(-20, 19))).round()
}

/// Weight of a fair task by the kernel's priority (100–139); `None` for other classes.
pub fn weight_of_prio(prio: i32) -> Option<f64> {
    (100..=139).contains(&prio).then(|| weight_of_nice(prio - 120))
}

/// Weight of a task among fair tasks; `None` for other classes.
pub fn weight(task: &CellTask) -> Option<f64> {
    match task.policy {
        Policy::Other | Policy::Batch => {
            Some(task.group_weight.map_or_else(|| weight_of_nice(task.nice), |w| w as f64))
        }
        Policy::Idle => Some(IDLE_WEIGHT),
        Policy::Fifo | Policy::Rr | Policy::Deadline => None,
    }
}

/// Jain's index of fairness of what each got, divided by what each should have got.
/// `None` without anybody or when nobody got anything.
pub fn jain(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in shares {
        n += 1.0;
        sum += x;
        squares += x * x;
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

/// Virtual time of one CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VirtualTime {
    /// Virtual time, ns per unit of weight.
    now: f64,
    /// Sum of the weights of those who are runnable, the running one among them.
    weight: f64,
}

impl VirtualTime {
    /// `ns` during which the CPU ran a fair task.
    pub fn advance(&mut self, ns: u64) {
        if self.weight > 0.0 {
            self.now += ns as f64 / self.weight;
        }
    }
    /// A task comes: the point from which it is served.
    pub fn join(&mut self, weight: f64) -> f64 {
        self.weight += weight;
        self.now
    }
    /// A task goes.
    pub fn leave(&mut self, weight: f64) {
        self.weight = (self.weight - weight).max(0.0);
    }
    /// Ideal service of a task since it joined at `since`.
    pub fn served(&self, weight: f64, since: f64) -> f64 {
        weight * (self.now - since)
    }
    pub fn now(&self) -> f64 {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_follow_the_kernels_law() {
        assert_eq!(weight_of_nice(0), 1024.0);
        assert_eq!(weight_of_nice(5), 336.0);
        assert_eq!(weight_of_nice(19), 15.0);
        assert_eq!(weight_of_prio(120), Some(1024.0));
        assert_eq!(weight_of_prio(99), None);
        assert_eq!(weight_of_prio(-1), None);
    }

    #[test]
    fn jains_index_is_one_for_equals_and_one_nth_for_a_monopoly() {
        assert_eq!(jain([2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain([]), None);
        assert_eq!(jain([0.0]), None);
    }

    #[test]
    fn the_ideal_divides_by_weight_among_those_who_are_there() {
        let mut v = VirtualTime::default();
        let a = v.join(2.0);
        v.advance(300);
        let b = v.join(1.0);
        v.advance(300);
        assert_eq!(v.served(2.0, a), 300.0 + 200.0);
        assert_eq!(v.served(1.0, b), 100.0);
        v.leave(2.0);
        v.advance(50);
        assert_eq!(v.served(1.0, b), 150.0);
    }
}
