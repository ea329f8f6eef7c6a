//! How much is recorded, so that the watch keeps within its share of a CPU.
//!
//! The share is averaged exponentially over some ten seconds. Above the budget the next level is taken that
//! records less; after a time below half of the budget the one before is tried again. Each time that such a
//! trial fails the wait doubles, up to an hour.

use latlab_model::watch::Level;

/// Time constant of the average, s.
const AVERAGE_S: f64 = 10.0;
/// After a change of the level the average tells nothing for so long, s.
const SETTLE_S: f64 = 15.0;
/// The first wait before more is recorded again, s, and the longest.
const WAIT_S: f64 = 60.0;
const LONGEST_WAIT_S: f64 = 3_600.0;

/// Keeps a budget.
#[derive(Clone, Debug)]
pub struct Controller {
    budget: f64,
    level: Level,
    average: Option<f64>,
    /// Since the level was taken, s.
    since_s: f64,
    /// In a row below half of the budget, s.
    low_s: f64,
    wait_s: f64,
    /// The level was taken because less than the budget was used.
    trial: bool,
}

/// A change of the level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The new level.
    pub to: Level,
    /// The share that led to it.
    pub share: f64,
}

impl Controller {
    /// Starts with everything. `budget`: a share of one CPU.
    pub fn new(budget: f64) -> Self {
        Self {
            budget,
            level: Level::All,
            average: None,
            since_s: 0.0,
            low_s: 0.0,
            wait_s: WAIT_S,
            trial: false,
        }
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The average share; 0 before the first reading.
    pub fn share(&self) -> f64 {
        self.average.unwrap_or(0.0)
    }

    /// Takes what was used in the last `seconds`, as a share of one CPU.
    pub fn take(&mut self, share: f64, seconds: f64) -> Option<Change> {
        if !(share.is_finite() && seconds > 0.0) {
            return None;
        }
        let weight = 1.0 - (-seconds / AVERAGE_S).exp();
        let average = self.average.map_or(share, |a| a + weight * (share - a));
        self.average = Some(average);
        self.since_s += seconds;
        self.low_s = if average < self.budget / 2.0 { self.low_s + seconds } else { 0.0 };
        if self.since_s < SETTLE_S {
            return None;
        }
        if average > self.budget {
            let to = less(self.level)?;
            if self.trial {
                self.wait_s = (self.wait_s * 2.0).min(LONGEST_WAIT_S);
            }
            return Some(self.change(to, false, average));
        }
        if self.trial && self.since_s > 2.0 * self.wait_s {
            (self.trial, self.wait_s) = (false, WAIT_S);
        }
        if self.low_s >= self.wait_s {
            let to = more(self.level)?;
            return Some(self.change(to, true, average));
        }
        None
    }

    fn change(&mut self, to: Level, trial: bool, share: f64) -> Change {
        (self.level, self.trial) = (to, trial);
        (self.since_s, self.low_s, self.average) = (0.0, 0.0, None);
        Change { to, share }
    }
}

fn less(level: Level) -> Option<Level> {
    match level {
        Level::All => Some(Level::Interrupts),
        Level::Interrupts => Some(Level::Scheduler),
        Level::Scheduler => Some(Level::Off),
        Level::Off => None,
    }
}

fn more(level: Level) -> Option<Level> {
    match level {
        Level::All => None,
        Level::Interrupts => Some(Level::All),
        Level::Scheduler => Some(Level::Interrupts),
        Level::Off => Some(Level::Scheduler),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each level costs.
    fn run(controller: &mut Controller, seconds: u32, cost: impl Fn(Level) -> f64) -> Vec<Level> {
        let steps = (0..seconds).filter_map(|_| {
            let share = cost(controller.level());
            controller.take(share, 1.0).map(|c| c.to)
        });
        steps.collect()
    }

    #[test]
    fn less_is_recorded_until_the_budget_is_kept() {
        let mut controller = Controller::new(0.01);
        let cost = |level| match level {
            Level::All => 0.03,
            Level::Interrupts => 0.02,
            Level::Scheduler => 0.008,
            Level::Off => 0.001,
        };
        let steps = run(&mut controller, 3_600, cost);
        assert_eq!(
            steps,
            [Level::Interrupts, Level::Scheduler],
            "it stays above half of the budget"
        );
        assert!(controller.share() < 0.01);
    }

    #[test]
    fn within_the_budget_nothing_changes() {
        let mut controller = Controller::new(0.01);
        assert_eq!(run(&mut controller, 10_000, |_| 0.009), []);
        assert_eq!(controller.level(), Level::All);
    }

    #[test]
    fn a_short_peak_changes_nothing() {
        let mut controller = Controller::new(0.01);
        assert_eq!(run(&mut controller, 60, |_| 0.002), []);
        assert_eq!(controller.take(0.05, 1.0), None);
        assert_eq!(run(&mut controller, 60, |_| 0.002), []);
    }

    /// The next level is always too expensive: it is tried ever more rarely.
    #[test]
    fn failed_trials_become_rare() {
        let mut controller = Controller::new(0.01);
        let cost = |level| if level == Level::All { 0.02 } else { 0.001 };
        let hour =
            |c: &mut Controller| run(c, 3_600, cost).iter().filter(|l| **l == Level::All).count();
        let tries: Vec<usize> = (0..6).map(|_| hour(&mut controller)).collect();
        assert!(tries[0] >= 3 && tries[5] <= 1, "{tries:?}");
        // The load goes: everything is recorded again within the longest wait.
        run(&mut controller, 3_700, |_| 0.001);
        assert_eq!(controller.level(), Level::All);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let mut controller = Controller::new(0.01);
        assert_eq!(controller.take(f64::NAN, 1.0), None);
        assert_eq!(controller.take(0.5, 0.0), None);
        assert_eq!(controller.share(), 0.0);
    }
}
