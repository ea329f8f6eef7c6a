//! Bisection over an ordered list of kernels, each of which is measured exactly: one measurement decides.
//!
//! The first one is good and the last one bad by definition; what lies between is halved. A candidate that cannot be
//! measured is skipped, and the untried one nearest to it taken instead, as `git bisect skip` does.

use latlab_model::path::{BisectDetail, Candidate, CandidateOutcome, MachinePaths};

/// What tells good from bad: the values of the first and of the last one, and a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    first: u64,
    last: u64,
    limit_percent: Option<f64>,
}

impl Rule {
    /// `None` where the last one is as good as the first: there is nothing to search for.
    pub fn new(first: u64, last: u64, limit_percent: Option<f64>) -> Option<Self> {
        let rule = Self { first, last, limit_percent };
        (first != last && rule.is_bad(last)).then_some(rule)
    }

    /// Whether a value is over the limit or, without one, no farther from the last one's than from the first one's.
    pub fn is_bad(&self, value: u64) -> bool {
        match self.limit_percent {
            // Not value / first: exactly the limit is within it.
            Some(limit) => (value as f64 - self.first as f64) * 100.0 > limit * self.first as f64,
            None => value.abs_diff(self.last) <= value.abs_diff(self.first),
        }
    }
}

/// What is known of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It is on the first one's side.
    Good,
    /// It is on the last one's side.
    Bad,
    /// It cannot be measured.
    Skipped,
}

/// The last good one before the first bad one.
pub fn bounds(tried: &[Option<Tried>]) -> [usize; 2] {
    let position = |of: Tried| move |t: &Option<Tried>| *t == Some(of);
    let bad = tried.iter().position(position(Tried::Bad)).unwrap_or(tried.len());
    let good = tried[..bad].iter().rposition(position(Tried::Good)).unwrap_or(0);
    [good, bad]
}

/// The candidate to try next: of those between the last good and the first bad one, the untried one nearest to the middle.
/// `None` at the end.
pub fn next(tried: &[Option<Tried>]) -> Option<usize> {
    let [good, bad] = bounds(tried);
    let middle = good + (bad - good) / 2;
    (good + 1..bad).filter(|at| tried[*at].is_none()).min_by_key(|at| at.abs_diff(middle))
}

/// The result. `total` kernels are in the list; `candidates` were tried, the paths are of the last good and the first
/// bad one.
pub fn detail(
    machine: &str,
    (function, limit_percent): (Option<&str>, Option<f64>),
    total: usize,
    mut candidates: Vec<Candidate>,
    paths: [MachinePaths; 2],
) -> BisectDetail {
    candidates.sort_by_key(|c| c.position);
    let mut tried = vec![None; total];
    for candidate in &candidates {
        tried[candidate.position] = Some(match &candidate.outcome {
            CandidateOutcome::Measured { bad: true, .. } => Tried::Bad,
            CandidateOutcome::Measured { .. } => Tried::Good,
            CandidateOutcome::Skipped { .. } => Tried::Skipped,
        });
    }
    BisectDetail {
        machine: machine.into(),
        function: function.map(Into::into),
        limit_percent,
        total,
        candidates,
        found: bounds(&tried),
        paths: super::detail(paths.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bisects a list whose candidates from `first_bad` on are bad and of which some cannot be measured.
    fn search(total: usize, first_bad: usize, skipped: &[usize]) -> ([usize; 2], usize) {
        let mut tried = vec![None; total];
        tried[0] = Some(Tried::Good);
        tried[total - 1] = Some(Tried::Bad);
        let mut steps = 0;
        while let Some(at) = next(&tried) {
            assert_eq!(tried[at], None);
            tried[at] = Some(match at {
                _ if skipped.contains(&at) => Tried::Skipped,
                _ if at >= first_bad => Tried::Bad,
                _ => Tried::Good,
            });
            steps += 1;
        }
        (bounds(&tried), steps)
    }

    #[test]
    fn each_first_bad_one_is_found_in_the_logarithm_of_the_length() {
        for total in 2..40 {
            for first_bad in 1..total {
                let (found, steps) = search(total, first_bad, &[]);
                assert_eq!(found, [first_bad - 1, first_bad], "{total}");
                assert!(steps <= total.ilog2() as usize + 1, "{total}: {steps}");
            }
        }
    }

    #[test]
    fn what_cannot_be_measured_is_passed_over_and_stays_under_suspicion() {
        // 4 and 5 do not build, 6 is the first bad one that does.
        assert_eq!(search(10, 5, &[4, 5]).0, [3, 6]);
        assert_eq!(search(10, 7, &[4, 5]).0, [6, 7]);
        let all: Vec<usize> = (1..9).collect();
        assert_eq!(search(10, 5, &all), ([0, 9], 8), "each is tried once");
    }

    #[test]
    fn a_limit_or_the_nearer_end_decides() {
        let rule = Rule::new(1000, 1100, Some(1.0)).unwrap();
        assert!(!rule.is_bad(1010) && rule.is_bad(1011) && !rule.is_bad(900));
        assert_eq!(Rule::new(1000, 1010, Some(1.0)), None);
        assert_eq!(Rule::new(1000, 900, Some(1.0)), None, "shorter is no regression");
        // What became shorter is found too, and a difference of one instruction.
        let rule = Rule::new(4000, 3000, None).unwrap();
        assert!(rule.is_bad(3500) && rule.is_bad(2000) && !rule.is_bad(3501));
        assert!(Rule::new(3616, 3617, None).unwrap().is_bad(3617));
        assert_eq!(Rule::new(3616, 3616, None), None);
        // A function that was not there before.
        assert!(Rule::new(0, 57, Some(1.0)).unwrap().is_bad(57));
    }

    #[test]
    fn a_result_has_its_candidates_in_the_order_of_the_list() {
        let candidate =
            |position, step, outcome| Candidate { position, step, outcome, ..Candidate::default() };
        let measured = |bad| CandidateOutcome::Measured { instructions: 9, deciding: 9, bad };
        let skipped = CandidateOutcome::Skipped { reason: "does not build".into() };
        let tried = vec![
            candidate(0, 1, measured(false)),
            candidate(9, 2, measured(true)),
            candidate(4, 3, skipped),
            candidate(5, 4, measured(true)),
            candidate(3, 5, measured(false)),
        ];
        let detail = detail("armv7-rt", (None, None), 10, tried, Default::default());
        let order: Vec<usize> = detail.candidates.iter().map(|c| c.position).collect();
        assert_eq!((order, detail.found), (vec![0, 3, 4, 5, 9], [3, 5]));
    }
}
