//! Settings in combinations: fractional factorial designs of two levels.
//!
//! A round has one block for each run of the design, in random order; a run is a combination of settings, the first
//! one without any. Each effect is estimated from all blocks of a round: the mean of the runs with a setting minus that
//! of the runs without it, on the scale of logarithms, and for a pair the difference of both together to the sum of
//! their single effects. Student's t over the rounds decides as for single settings, in one family.
//!
//! Up to five settings, effects of settings and of pairs are estimated free of each other (resolution V and above); from
//! six on those of settings are free of those of pairs, and pairs of a group share one estimate (resolution IV). What
//! three and more settings do only together is taken to be nothing. G. E. P. Box, J. S. Hunter and W. G. Hunter,
//! "Statistics for Experimenters", second edition, chapters 5 and 6.

use super::verdict::{Block, Family, LEVEL, Test, Verdict};
use super::verdict::{fill, interaction_finding, met, side_effect};
use latlab_model::finding::Finding;
use latlab_model::tune::{Factorial, Interaction, Tried, TuneDetail, TuneEffect};
use latlab_stats::quantile::median;
use std::collections::BTreeMap;

/// Settings of a design, at least and at most.
pub const SETTINGS: std::ops::RangeInclusive<usize> = 2..=16;

/// Which settings each run of a round has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    /// For each setting the bits of the run's number whose parity tells whether the run has it.
    columns: Vec<u32>,
    runs: usize,
    resolution: usize,
}

impl Design {
    /// The smallest design in which effects of settings are free of those of pairs, and up to five settings also those
    /// of pairs of each other; none for numbers outside of [`SETTINGS`].
    pub fn new(settings: usize) -> Option<Self> {
        // Columns of odd weight: no two of them give a third one, so that pairs are never a setting.
        let odd = |bits: u32| {
            let mut columns: Vec<u32> =
                (1..1u32 << bits).filter(|c| c.count_ones() % 2 == 1).collect();
            columns.sort_by_key(|c| c.count_ones());
            columns.truncate(settings);
            columns
        };
        let (columns, bits, resolution) = match settings {
            // Without fractions, no effect has the estimate of another one.
            2..=4 => ((0..settings).map(|i| 1 << i).collect(), settings as u32, settings + 1),
            5 => (vec![1, 2, 4, 8, 15], 4, 5),
            6..=8 => (odd(4), 4, 4),
            9..=16 => (odd(5), 5, 4),
            _ => return None,
        };
        Some(Self { columns, runs: 1 << bits, resolution })
    }

    /// Runs of a round.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// The settings of a run, by number.
    pub fn settings_of(&self, run: usize) -> Vec<usize> {
        (0..self.columns.len()).filter(|&i| is_odd(self.columns[i], run)).collect()
    }

    /// Pairs of settings by the column of their interaction; those of one column have one estimate.
    fn pairs(&self) -> BTreeMap<u32, Vec<(usize, usize)>> {
        let mut groups: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
        for (a, column) in self.columns.iter().enumerate() {
            for (b, other) in self.columns.iter().enumerate().skip(a + 1) {
                groups.entry(column ^ other).or_default().push((a, b));
            }
        }
        groups
    }
}

fn is_odd(column: u32, run: usize) -> bool {
    (column & run as u32).count_ones() % 2 == 1
}

/// Mean of the runs whose parity in the column is odd minus that of the others.
fn contrast(column: u32, responses: &[f64]) -> f64 {
    let sign = |run: usize| if is_odd(column, run) { 1.0 } else { -1.0 };
    let sum: f64 = responses.iter().enumerate().map(|(run, y)| sign(run) * y).sum();
    2.0 * sum / responses.len() as f64
}

/// Fills in the effects of the settings (`factors`: their places among those that were tried), their interactions and
/// the best combination. `rounds` are blocks by round and run. A round in which a block has no values is left out.
pub fn judge(design: &Design, factors: &[usize], detail: &mut TuneDetail, rounds: &[Vec<Block>]) {
    let quantile = detail.quantile;
    let latency = |b: &Block| b.latency.quantile(quantile).map(|v| v.max(1) as f64);
    let whole = logarithms(design, rounds, &latency);
    let groups = design.pairs();
    let mains: Vec<Option<Test>> = design.columns.iter().map(|&c| main_test(c, &whole)).collect();
    let joint: Vec<Option<Test>> = groups.keys().map(|&c| pair_test(c, &whole)).collect();
    let sides: Vec<Vec<Option<Test>>> = (0..detail.side.len())
        .map(|n| {
            let of = |b: &Block| b.side.get(n).copied().flatten();
            let whole = logarithms(design, rounds, &of);
            design.columns.iter().map(|&c| main_test(c, &whole)).collect()
        })
        .collect();
    let all = mains.iter().chain(&joint).chain(sides.iter().flatten()).flatten();
    let mut family = Family::of(all, LEVEL, detail.margin);
    let (main_verdicts, joint_verdicts) = (family.verdicts(&mains), family.verdicts(&joint));
    let side_verdicts: Vec<_> = sides.iter().map(|s| family.verdicts(s)).collect();
    let of_run = |with: &dyn Fn(usize) -> bool| -> Vec<&Block> {
        let runs = rounds.iter().flat_map(|round| round.iter().enumerate());
        runs.filter(|(run, _)| with(*run)).map(|(_, block)| block).collect()
    };
    detail.met_without =
        met(detail, of_run(&|run| run == 0).into_iter()).map_or((0, 0), |met| (rounds.len(), met));
    let mets: Vec<Option<usize>> = design
        .columns
        .iter()
        .map(|&c| met(detail, of_run(&|run| is_odd(c, run)).into_iter()))
        .collect();
    let metrics = detail.side.clone();
    for (k, &place) in factors.iter().enumerate() {
        let tried = &mut detail.tried[place];
        tried.rounds = rounds.len() * design.runs / 2;
        tried.met = mets[k];
        fill(tried, mains[k].as_ref(), main_verdicts[k].as_ref());
        let of = side_verdicts.iter().zip(&metrics);
        tried.side = of.map(|(v, metric)| side_effect(v[k].as_ref(), metric)).collect();
    }
    let name = |k: usize| detail.tried[factors[k]].name.clone();
    let interactions: Vec<Interaction> = groups
        .values()
        .zip(&joint_verdicts)
        .filter_map(|(pairs, v)| {
            let v = v.as_ref()?;
            Some(Interaction {
                pairs: pairs.iter().map(|&(a, b)| (name(a), name(b))).collect(),
                change: v.change,
                interval: v.interval,
                p: v.p,
                effect: v.effect,
            })
        })
        .collect();
    let model = Model::of(&mains, &main_verdicts, &groups, &joint, &joint_verdicts);
    let best = model.best();
    detail.factorial = Some(Factorial {
        runs: design.runs,
        resolution: design.resolution,
        best_change: model.predict(best).exp_m1(),
        best: (0..factors.len()).filter(|k| best >> k & 1 == 1).map(name).collect(),
        interactions,
    });
}

/// Logarithms of the responses by round and run, of the rounds that are whole.
fn logarithms(
    design: &Design,
    rounds: &[Vec<Block>],
    response: &dyn Fn(&Block) -> Option<f64>,
) -> Vec<Vec<f64>> {
    let round = |blocks: &Vec<Block>| -> Option<Vec<f64>> {
        let y: Vec<f64> = blocks.iter().map(|b| Some(response(b)?.ln())).collect::<Option<_>>()?;
        (y.len() == design.runs).then_some(y)
    };
    rounds.iter().filter_map(round).collect()
}

fn main_test(column: u32, rounds: &[Vec<f64>]) -> Option<Test> {
    let d: Vec<f64> = rounds.iter().map(|y| contrast(column, y)).collect();
    // Geometric means of the runs without and with it.
    let mean = |y: &Vec<f64>, with: bool| {
        let of: Vec<f64> =
            (0..y.len()).filter(|&run| is_odd(column, run) == with).map(|run| y[run]).collect();
        (of.iter().sum::<f64>() / of.len() as f64).exp()
    };
    let level = |with: bool| median(&rounds.iter().map(|y| mean(y, with)).collect::<Vec<_>>());
    Test::of_differences(&d, (level(false)?, level(true)?))
}

/// Both settings of a pair against the sum of their single effects. Even parity is both or none.
fn pair_test(column: u32, rounds: &[Vec<f64>]) -> Option<Test> {
    let d: Vec<f64> = rounds.iter().map(|y| -2.0 * contrast(column, y)).collect();
    Test::of_differences(&d, (0.0, 0.0))
}

/// What is claimed about the response of a combination, as a logarithm.
struct Model {
    mains: Vec<f64>,
    pairs: Vec<(usize, usize, f64)>,
}

impl Model {
    /// Of the effects that are decided and above the margin. A group of pairs says nothing about one of them.
    fn of(
        mains: &[Option<Test>],
        main_verdicts: &[Option<Verdict>],
        groups: &BTreeMap<u32, Vec<(usize, usize)>>,
        joint: &[Option<Test>],
        joint_verdicts: &[Option<Verdict>],
    ) -> Self {
        let claimed = |test: &Option<Test>, verdict: &Option<Verdict>| {
            let is_claim =
                |v: &Verdict| matches!(v.effect, TuneEffect::Improves | TuneEffect::Worsens);
            let test = test.as_ref().filter(|_| verdict.as_ref().is_some_and(is_claim));
            test.map_or(0.0, |t| t.mean)
        };
        let pair = |((pairs, test), verdict): ((&Vec<(usize, usize)>, _), _)| match pairs[..] {
            [(a, b)] => Some((a, b, claimed(test, verdict))),
            _ => None,
        };
        Self {
            mains: mains.iter().zip(main_verdicts).map(|(t, v)| claimed(t, v)).collect(),
            pairs: groups.values().zip(joint).zip(joint_verdicts).filter_map(pair).collect(),
        }
    }

    /// Response of a combination (a bit for each setting) against that of none.
    fn predict(&self, combination: usize) -> f64 {
        let has = |k: usize| combination >> k & 1 == 1;
        let mains: f64 = (0..self.mains.len()).filter(|&k| has(k)).map(|k| self.mains[k]).sum();
        // An effect of a setting is the mean of that with and without the other one of the pair.
        let alone = self.pairs.iter().filter(|(a, b, _)| has(*a) != has(*b));
        mains - alone.map(|(_, _, d)| d / 2.0).sum::<f64>()
    }

    /// The combination with the shortest response; of equal ones that with the fewest settings.
    fn best(&self) -> usize {
        let mut order: Vec<usize> = (0..1usize << self.mains.len()).collect();
        order.sort_by_key(|c| (c.count_ones(), *c));
        let mut best = (0.0, 0);
        for combination in order {
            let response = self.predict(combination);
            if response < best.0 - 1e-9 {
                best = (response, combination);
            }
        }
        best.1
    }
}

/// The findings about pairs that are claimed; the others are in the table.
pub(super) fn findings(design: &Factorial) -> Vec<Finding> {
    let of = |i: &Interaction| {
        let names: Vec<String> = i.pairs.iter().map(|(a, b)| [a, "+", b].concat()).collect();
        interaction_finding(&names.join(" or "), i.effect, i.change, i.interval)
    };
    let is_claimed =
        |i: &&Interaction| matches!(i.effect, TuneEffect::Improves | TuneEffect::Worsens);
    design.interactions.iter().filter(is_claimed).map(of).collect()
}

/// Settings that were set, by number, of those that were tried.
pub fn factors(tried: &[Tried]) -> Vec<usize> {
    (0..tried.len()).filter(|&i| tried[i].effect != TuneEffect::NotTried).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_stats::histogram::Histogram;
    use latlab_stats::rng::SplitMix64;

    /// In each design all settings are in half of the runs, effects of settings are free of those of each other and of
    /// pairs, and up to five settings pairs are free of each other.
    #[test]
    fn designs_have_the_resolution_that_they_state() {
        for settings in SETTINGS {
            let design = Design::new(settings).unwrap();
            assert_eq!(design.columns.len(), settings);
            assert!(design.settings_of(0).is_empty());
            for column in &design.columns {
                let with = (0..design.runs()).filter(|&run| is_odd(*column, run)).count();
                assert_eq!(2 * with, design.runs(), "{settings}");
            }
            let pairs = design.pairs();
            let unique: std::collections::BTreeSet<u32> = design.columns.iter().copied().collect();
            assert_eq!(unique.len(), settings);
            assert!(pairs.keys().all(|c| *c != 0 && !unique.contains(c)), "{settings}");
            let is_free = pairs.values().all(|p| p.len() == 1);
            assert_eq!(is_free, settings <= 5, "{settings}");
            assert_eq!(design.resolution >= 5 || settings <= 3, is_free, "{settings}");
        }
        assert_eq!((Design::new(1), Design::new(17)), (None, None));
    }

    /// Blocks of a design whose settings have these factors, and pairs of them.
    fn simulated(
        rng: &mut SplitMix64,
        factors: &[f64],
        pairs: &[(usize, usize, f64)],
        rounds: usize,
    ) -> TuneDetail {
        let design = Design::new(factors.len()).unwrap();
        let mut uniform = || rng.next_u64() as f64 / u64::MAX as f64;
        let mut round = || -> Vec<Block> {
            let level = 20_000.0 * (1.0 + uniform());
            let mut run = |run: usize| {
                let with = design.settings_of(run);
                let single: f64 = with.iter().map(|&k| factors[k]).product();
                let both = |(a, b, f): &(usize, usize, f64)| {
                    if with.contains(a) && with.contains(b) { *f } else { 1.0 }
                };
                let joint: f64 = pairs.iter().map(both).product();
                let own = level * single * joint * (0.9 + 0.2 * uniform());
                let values = (0..400).map(|_| (own * (0.5 - uniform().ln() / 4.0)) as u64);
                Block { latency: Histogram::of(values), side: Vec::new() }
            };
            (0..design.runs()).map(&mut run).collect()
        };
        let blocks: Vec<Vec<Block>> = (0..rounds).map(|_| round()).collect();
        let named = |k: usize| Tried { name: format!("s{k}"), ..Tried::default() };
        let tried: Vec<Tried> = (0..factors.len()).map(named).collect();
        let mut detail = TuneDetail { quantile: 0.99, margin: 0.1, tried, ..TuneDetail::default() };
        judge(&design, &super::factors(&detail.tried), &mut detail, &blocks);
        detail
    }

    #[test]
    fn effects_and_an_interaction_are_found_and_the_best_combination_is_named() {
        use TuneEffect::{Improves, Worsens};
        let mut rng = SplitMix64::new(4);
        // s1 shortens alone, and lengthens beside s0, which is the better one.
        let detail = simulated(&mut rng, &[0.5, 0.7, 1.0, 1.5], &[(0, 1, 2.0)], 6);
        let design = detail.factorial.as_ref().unwrap();
        assert_eq!(detail.tried[0].effect, Improves);
        assert_eq!(detail.tried[3].effect, Worsens);
        let pair = &design.interactions[0];
        assert_eq!(pair.pairs, [("s0".to_owned(), "s1".to_owned())]);
        assert_eq!(pair.effect, Worsens);
        assert!(pair.interval.0 < 1.0 && 1.0 < pair.interval.1, "{:?}", pair.interval);
        assert_eq!(design.best, ["s0"]);
        assert!((design.best_change + 0.5).abs() < 0.1, "{}", design.best_change);
        let best: Vec<&str> = detail.improving().iter().map(|t| t.name.as_str()).collect();
        assert_eq!(best, ["s0"]);
    }

    /// Two of eight settings help, and only together: their pair shares its estimate with three others.
    #[test]
    fn pairs_that_cannot_be_told_apart_are_named_together() {
        let mut rng = SplitMix64::new(9);
        let mut factors = [1.0; 8];
        factors[2] = 0.6;
        let detail = simulated(&mut rng, &factors, &[(0, 1, 0.4)], 6);
        let design = detail.factorial.as_ref().unwrap();
        let claimed: Vec<&Interaction> =
            design.interactions.iter().filter(|i| i.effect == TuneEffect::Improves).collect();
        assert_eq!(claimed.len(), 1, "{:?}", design.interactions);
        assert_eq!(claimed[0].pairs.len(), 4);
        assert!(claimed[0].pairs.contains(&("s0".to_owned(), "s1".to_owned())));
        // The mean over the other one of the pair: each shortens, so that both are in the best combination.
        assert_eq!(design.best, ["s0", "s1", "s2"]);
        let said = findings(design);
        assert!(said.iter().any(|f| f.id == "tune.interaction"), "{said:?}");
    }

    /// A claim about any of eight settings and their pairs that do nothing, in at most 5 % of the experiments.
    #[test]
    fn false_claims_over_settings_and_pairs_are_as_stated() {
        let mut rng = SplitMix64::new(21);
        let claim = |e: TuneEffect| matches!(e, TuneEffect::Improves | TuneEffect::Worsens);
        let claims = (0..200).filter(|_| {
            let detail = simulated(&mut rng, &[1.0; 8], &[], 5);
            let pairs = &detail.factorial.as_ref().unwrap().interactions;
            detail.tried.iter().any(|t| claim(t.effect)) || pairs.iter().any(|i| claim(i.effect))
        });
        // 5 % of 200 is 10, its deviation 3.1.
        let claims = claims.count();
        assert!(claims <= 19, "{claims} of 200");
    }

    /// A round with a block without values counts for nothing.
    #[test]
    fn a_round_that_is_not_whole_is_left_out() {
        let design = Design::new(2).unwrap();
        let block = |ns: u64| Block { latency: Histogram::of([ns; 100]), side: Vec::new() };
        let round = |level: u64| [level, level / 2, level, level / 2].map(block).to_vec();
        let mut rounds: Vec<Vec<Block>> = (1..=5).map(|r| round(10_000 * r)).collect();
        rounds[2][1] = Block::default();
        let tried = vec![Tried { name: "a".into(), ..Tried::default() }; 2];
        let mut detail = TuneDetail { quantile: 0.99, margin: 0.1, tried, ..TuneDetail::default() };
        judge(&design, &[0, 1], &mut detail, &rounds);
        assert_eq!(detail.tried[0].effect, TuneEffect::Improves);
        assert!((detail.tried[0].change + 0.5).abs() < 0.01, "{}", detail.tried[0].change);
        assert_eq!(detail.tried[1].effect, TuneEffect::NoEffect);
    }
}
