//! The effect of settings from interleaved blocks.
//!
//! A round has one block without any setting and one with each, in random order. The response of a block is a
//! quantile of its latencies, as a logarithm, because effects and disturbances are factors. Differences to the block
//! without settings of the same round are free of what wanders more slowly than a round. Student's t of these
//! differences decides, p values are adjusted by Holm's method, so that the probability of any false claim over all
//! settings is at most 5 %; a setting whose whole interval is within the margin has no effect of that size
//! (D. J. Schuirmann, 1987). Where settings were tried together and one by one, the difference of their common effect
//! to the sum of the single ones is tested in the same way, in the same family.
//!
//! With elimination the blocks are judged several times, each time at an equal part of the 5 % (Bonferroni): what is
//! decided is not measured any longer, and keeps its verdict.
//!
//! Instead of one setting at a time, [`factorial`] has blocks of combinations.

pub mod factorial;
mod verdict;

pub use verdict::{Block, ROUNDS_LEAST};

use latlab_model::finding::{Confidence, Finding, Quantity, Severity};
use latlab_model::run::{Detail, Part};
use latlab_model::tune::{SideEffect, SideMetric, Together, Tried, TuneDetail, TuneEffect};
use verdict::{Family, LEVEL, Test, fill, interaction_finding, met, side_effect};

/// Several looks at the blocks, with what they decided.
pub struct Elimination {
    level: f64,
    decided: Vec<Option<Tried>>,
}

impl Elimination {
    /// With so many looks, the last one included: 1 judges all blocks at the end.
    pub fn new(looks: u32, settings: usize) -> Self {
        Self { level: LEVEL / f64::from(looks.max(1)), decided: vec![None; settings] }
    }

    /// Whether a setting needs no more blocks.
    pub fn is_decided(&self, setting: usize) -> bool {
        self.decided.get(setting).is_some_and(Option::is_some)
    }

    /// Judges the blocks so far, those of each setting by round. Combinations, and settings that are part of one, are
    /// measured to the end: their interaction needs the blocks of all.
    pub fn look(&mut self, detail: &TuneDetail, plain: &[Block], blocks: &[Vec<Block>]) {
        let mut now = detail.clone();
        judge_at(self.level, &mut now, plain, blocks);
        let is_part = |name: &str| {
            let has = |t: &Tried| t.name != name && t.name.split('+').any(|part| part == name);
            name.contains('+') || detail.tried.iter().any(has)
        };
        for (decided, tried) in self.decided.iter_mut().zip(now.tried) {
            let is_clear = matches!(
                tried.effect,
                TuneEffect::Improves | TuneEffect::Worsens | TuneEffect::NoEffect
            );
            if decided.is_none() && is_clear && !is_part(&tried.name) {
                *decided = Some(tried);
            }
        }
    }

    /// The last look: fills in the effects of what was not decided before.
    pub fn finish(self, detail: &mut TuneDetail, plain: &[Block], blocks: &[Vec<Block>]) {
        judge_at(self.level, detail, plain, blocks);
        for (tried, decided) in detail.tried.iter_mut().zip(self.decided) {
            if let Some(decided) = decided {
                *tried = decided;
            }
        }
    }
}

/// Fills in the effects, with this probability of a false claim. `blocks[i]` are the rounds of setting i, `plain` those
/// without any, both by round; a setting that could not be set has no blocks. A round in which one of the blocks has no
/// values is left out for what it is part of. `A+B` is compared with `A` and `B` where each was tried too. All tests are
/// one family.
fn judge_at(level: f64, detail: &mut TuneDetail, plain: &[Block], blocks: &[Vec<Block>]) {
    let quantile = detail.quantile;
    let latency = move |b: &Block| b.latency.quantile(quantile).map(|v| v.max(1) as f64);
    let against_plain = |arm: &Vec<Block>, response: &dyn Fn(&Block) -> Option<f64>| {
        let pairs = plain.iter().zip(arm);
        Test::of(pairs.filter_map(|(without, with)| Some((response(without)?, response(with)?))))
    };
    let mets: Vec<_> = blocks.iter().map(|arm| met(detail, arm.iter())).collect();
    detail.met_without = met(detail, plain.iter()).map_or((0, 0), |met| (plain.len(), met));
    let single: Vec<_> = blocks.iter().map(|arm| against_plain(arm, &latency)).collect();
    let parts: Vec<Vec<usize>> = detail.tried.iter().map(|t| parts_of(&t.name, detail)).collect();
    let joint: Vec<_> =
        (0..parts.len()).map(|i| interaction(plain, blocks, i, &parts[i], &latency)).collect();
    let side: Vec<Vec<_>> = blocks
        .iter()
        .map(|arm| {
            let of = |n: usize| against_plain(arm, &|b: &Block| b.side.get(n).copied().flatten());
            (0..detail.side.len()).map(of).collect()
        })
        .collect();
    let all = single.iter().chain(&joint).chain(side.iter().flatten()).flatten();
    let mut family = Family::of(all, level, detail.margin);
    let (verdicts, joints) = (family.verdicts(&single), family.verdicts(&joint));
    let sides: Vec<_> = side.iter().map(|s| family.verdicts(s)).collect();
    let names: Vec<String> = detail.tried.iter().map(|t| t.name.clone()).collect();
    let means: Vec<f64> = single.iter().map(|t| t.as_ref().map_or(0.0, |t| t.mean)).collect();
    let metrics = detail.side.clone();
    for (i, tried) in detail.tried.iter_mut().enumerate() {
        tried.rounds = blocks.get(i).map_or(0, Vec::len);
        tried.met = mets.get(i).copied().flatten();
        fill(tried, single[i].as_ref(), verdicts[i].as_ref());
        if let Some(v) = &joints[i] {
            tried.together = Some(Together {
                parts: parts[i].iter().map(|&k| names[k].clone()).collect(),
                expected: parts[i].iter().map(|&k| means[k]).sum::<f64>().exp_m1(),
                change: v.change,
                interval: v.interval,
                p: v.p,
                effect: v.effect,
            });
        }
        let sides = sides.get(i).into_iter().flatten().zip(&metrics);
        tried.side = sides.map(|(v, metric)| side_effect(v.as_ref(), metric)).collect();
    }
}

/// The response of settings together against that which their single effects give.
fn interaction(
    plain: &[Block],
    blocks: &[Vec<Block>],
    i: usize,
    parts: &[usize],
    response: &dyn Fn(&Block) -> Option<f64>,
) -> Option<Test> {
    // A part without blocks could not be set.
    let arms: Option<Vec<&Vec<Block>>> =
        parts.iter().map(|&k| blocks.get(k).filter(|b| !b.is_empty())).collect();
    let arms = arms.filter(|_| !parts.is_empty())?;
    let round = |(r, without): (usize, &Block)| {
        let without = response(without)?;
        let factor = |arm: &&Vec<Block>| Some(response(arm.get(r)?)? / without);
        let expected: Option<f64> = arms.iter().map(factor).product();
        Some((expected? * without, response(blocks.get(i)?.get(r)?)?))
    };
    Test::of(plain.iter().enumerate().filter_map(round))
}

/// The settings that a combination consists of, where each was tried too; none for others.
fn parts_of(name: &str, detail: &TuneDetail) -> Vec<usize> {
    let at = |part: &str| detail.tried.iter().position(|t| t.name == part);
    match name.contains('+') {
        true => name.split('+').map(at).collect::<Option<Vec<_>>>().unwrap_or_default(),
        false => Vec::new(),
    }
}

/// The part named `tune`.
pub fn part(detail: TuneDetail, complete: bool) -> Part {
    let finding = |t: &Tried| {
        let (id, severity) = match t.effect {
            TuneEffect::Improves => ("tune.improves", Severity::Info),
            TuneEffect::Worsens => ("tune.worsens", Severity::Warning),
            TuneEffect::NoEffect => ("tune.no-effect", Severity::Info),
            TuneEffect::Undecided if !t.is_compared() => ("tune.too-few", Severity::Inconclusive),
            TuneEffect::Undecided => ("tune.undecided", Severity::Inconclusive),
            TuneEffect::NotTried => ("tune.not-tried", Severity::Inconclusive),
        };
        let finding =
            Finding::typed(id, severity, Confidence::High).value("setting", t.name.as_str());
        match t.effect {
            TuneEffect::NotTried => t.note.iter().cloned().fold(finding, Finding::note),
            _ if !t.is_compared() => finding,
            _ => finding
                .value("change", Quantity::Ratio(t.change))
                .value("low", Quantity::Ratio(t.interval.0))
                .value("high", Quantity::Ratio(t.interval.1)),
        }
    };
    let interaction = |t: &Tried| {
        let together = t.together.as_ref()?;
        Some(interaction_finding(&t.name, together.effect, together.change, together.interval))
    };
    let interactions = detail.tried.iter().filter_map(interaction);
    let side = |t: &Tried| -> Vec<Finding> {
        let of = |(s, metric): (&SideEffect, &SideMetric)| {
            let (id, severity) = match s.effect {
                TuneEffect::Improves => ("tune.side-better", Severity::Info),
                TuneEffect::Worsens => ("tune.side-worse", Severity::Warning),
                _ => return None,
            };
            let finding = Finding::typed(id, severity, Confidence::High)
                .value("setting", t.name.as_str())
                .value("metric", metric.name.as_str())
                .value("change", Quantity::Ratio(s.change))
                .value("low", Quantity::Ratio(s.interval.0))
                .value("high", Quantity::Ratio(s.interval.1));
            Some(finding)
        };
        t.side.iter().zip(&detail.side).filter_map(of).collect()
    };
    let sides = detail.tried.iter().flat_map(side);
    let blocks = match &detail.factorial {
        Some(design) => detail.rounds * design.runs,
        None => detail.rounds + detail.tried.iter().map(|t| t.rounds).sum::<usize>(),
    };
    let crossed = detail.factorial.iter().flat_map(factorial::findings);
    let findings = detail.tried.iter().map(finding).chain(interactions).chain(crossed);
    Part {
        name: "tune".to_owned(),
        title: "Settings".to_owned(),
        complete,
        duration_ns: detail.block_ns * blocks as u64,
        findings: findings.chain(sides).collect(),
        detail: Some(Detail::Tune(Box::new(detail))),
        ..Part::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::record::Unit;
    use latlab_stats::histogram::Histogram;
    use latlab_stats::rng::SplitMix64;

    /// Blocks whose level wanders from round to round, with bursts in some.
    fn simulated(rng: &mut SplitMix64, factors: &[f64], rounds: usize) -> Vec<Vec<Block>> {
        let mut uniform = || rng.next_u64() as f64 / u64::MAX as f64;
        let mut arms = vec![Vec::new(); factors.len()];
        for _ in 0..rounds {
            let level = 20_000.0 * (1.0 + uniform());
            for (arm, factor) in arms.iter_mut().zip(factors) {
                let own = level * factor * (0.9 + 0.2 * uniform());
                let values = (0..400).map(|_| (own * (0.5 - uniform().ln() / 4.0)) as u64);
                arm.push(Block { latency: Histogram::of(values), side: Vec::new() });
            }
        }
        arms
    }

    fn judged(arms: &[Vec<Block>]) -> Vec<TuneEffect> {
        let tried = vec![Tried::default(); arms.len() - 1];
        let mut detail = TuneDetail { quantile: 0.99, margin: 0.1, tried, ..TuneDetail::default() };
        Elimination::new(1, arms.len() - 1).finish(&mut detail, &arms[0], &arms[1..]);
        detail.tried.iter().map(|t| t.effect).collect()
    }

    #[test]
    fn a_large_effect_is_found_and_its_direction_is_right() {
        let mut rng = SplitMix64::new(3);
        let effects = judged(&simulated(&mut rng, &[1.0, 0.6, 1.6, 1.0], 12));
        assert_eq!(effects[..2], [TuneEffect::Improves, TuneEffect::Worsens]);
        assert!(matches!(effects[2], TuneEffect::NoEffect | TuneEffect::Undecided));
    }

    /// Eight settings that do nothing: a claim in at most 5 % of all experiments.
    #[test]
    fn false_claims_over_all_settings_are_as_stated() {
        let mut rng = SplitMix64::new(11);
        let experiments = 300;
        let claims = (0..experiments).filter(|_| {
            let effects = judged(&simulated(&mut rng, &[1.0; 9], 10));
            effects.iter().any(|e| matches!(e, TuneEffect::Improves | TuneEffect::Worsens))
        });
        // 5 % of 300 is 15, its deviation 3.8.
        let claims = claims.count();
        assert!(claims <= 26, "{claims} of {experiments}");
    }

    /// The level falls from round to round. A block without values must not move the blocks behind it into other
    /// rounds, where the setting would seem to help by the fall between two rounds.
    #[test]
    fn an_empty_block_leaves_its_round_out_and_moves_no_other() {
        let block = |ns: f64| Block {
            latency: Histogram::of((0..400).map(|i| ns as u64 + i)),
            side: Vec::new(),
        };
        let level = |round: i32| 1e6 * 0.7f64.powi(round);
        let plain: Vec<Block> = (0..8).map(|r| block(level(r))).collect();
        for empty in [0, 3, 7] {
            let mut with = plain.clone();
            with[empty] = Block::default();
            let effects = judged(&[plain.clone(), with]);
            assert_eq!(effects, [TuneEffect::NoEffect], "the setting's block {empty}");
            let mut without = plain.clone();
            without[empty] = Block::default();
            let effects = judged(&[without, plain.clone()]);
            assert_eq!(effects, [TuneEffect::NoEffect], "the plain block {empty}");
        }
    }

    /// Two settings and both together, whose common factor is the product of theirs or not.
    #[test]
    fn an_interaction_is_found_and_its_absence_claimed_where_there_is_none() {
        let both = |factor: f64, seed: u64| {
            let mut rng = SplitMix64::new(seed);
            let arms = simulated(&mut rng, &[1.0, 0.7, 0.7, factor], 12);
            let tried =
                ["a", "b", "a+b"].map(|name| Tried { name: name.into(), ..Tried::default() });
            let mut detail = TuneDetail {
                quantile: 0.99,
                margin: 0.1,
                tried: tried.into(),
                ..TuneDetail::default()
            };
            Elimination::new(1, arms.len() - 1).finish(&mut detail, &arms[0], &arms[1..]);
            assert!(detail.tried[0].together.is_none());
            detail.tried[2].together.clone().unwrap()
        };
        let weaker = both(0.7, 3);
        assert_eq!(
            (weaker.effect, weaker.parts),
            (TuneEffect::Worsens, vec!["a".into(), "b".into()])
        );
        assert!((weaker.expected + 0.51).abs() < 0.1, "{}", weaker.expected);
        assert!(weaker.interval.0 < 0.43 && 0.43 < weaker.interval.1, "{:?}", weaker.interval);
        assert_eq!(both(0.25, 4).effect, TuneEffect::Improves);
        // 5 % of 200 are 10, their deviation 3.1.
        let wrong = (0..200).filter(|&seed| {
            matches!(both(0.49, 100 + seed).effect, TuneEffect::Improves | TuneEffect::Worsens)
        });
        let wrong = wrong.count();
        assert!(wrong <= 19, "{wrong} of 200");
    }

    /// A benchmark in ns and one in bytes per second, both with a larger figure under the setting.
    #[test]
    fn side_effects_have_the_sign_of_their_unit() {
        let mut rng = SplitMix64::new(8);
        let mut arms = simulated(&mut rng, &[1.0, 1.0], 8);
        for (arm, factor) in arms.iter_mut().zip([1.0, 1.5]) {
            for (round, block) in arm.iter_mut().enumerate() {
                let value = factor * (100.0 + round as f64);
                block.side = vec![Some(value), Some(value * 1e6), None];
            }
        }
        let side = [("a", Unit::Ns), ("b", Unit::BytesPerSecond), ("c", Unit::Ns)];
        let side = side.map(|(name, unit)| SideMetric { name: name.into(), unit });
        let mut detail = TuneDetail {
            quantile: 0.99,
            margin: 0.1,
            side: side.into(),
            tried: vec![Tried { name: "x".into(), ..Tried::default() }],
            ..TuneDetail::default()
        };
        Elimination::new(1, arms.len() - 1).finish(&mut detail, &arms[0], &arms[1..]);
        let effects: Vec<TuneEffect> = detail.tried[0].side.iter().map(|s| s.effect).collect();
        assert_eq!(effects, [TuneEffect::Worsens, TuneEffect::Improves, TuneEffect::Undecided]);
        assert!((detail.tried[0].side[0].change - 0.5).abs() < 1e-9);
        let findings = part(detail, true).findings;
        let worse = findings.iter().filter(|f| f.id == "tune.side-worse").count();
        assert_eq!((worse, findings.len()), (1, 3));
    }

    /// Twelve rounds and three looks: what is decided is measured no longer, and false claims stay as rare as stated.
    #[test]
    fn elimination_saves_blocks_and_claims_no_more() {
        let experiment = |rng: &mut SplitMix64, factors: &[f64]| {
            let arms = simulated(rng, factors, 12);
            let tried =
                (1..factors.len()).map(|i| Tried { name: format!("s{i}"), ..Tried::default() });
            let mut detail = TuneDetail {
                quantile: 0.99,
                margin: 0.1,
                tried: tried.collect(),
                ..TuneDetail::default()
            };
            let mut looks = Elimination::new(3, factors.len() - 1);
            let mut blocks = vec![Vec::new(); factors.len() - 1];
            for round in 0..12 {
                for (i, blocks) in blocks.iter_mut().enumerate() {
                    if !looks.is_decided(i) {
                        blocks.push(arms[i + 1][round].clone());
                    }
                }
                if matches!(round, 3 | 7) {
                    looks.look(&detail, &arms[0][..=round], &blocks);
                }
            }
            looks.finish(&mut detail, &arms[0], &blocks);
            detail.tried
        };
        let mut rng = SplitMix64::new(17);
        let claim = |t: &Tried| matches!(t.effect, TuneEffect::Improves | TuneEffect::Worsens);
        let claims = (0..300).filter(|_| experiment(&mut rng, &[1.0; 9]).iter().any(claim)).count();
        // 5 % of 300 is 15, its deviation 3.8.
        assert!(claims <= 26, "{claims} of 300");
        // Large effects are decided by a look before the last one, and found with their direction.
        let (mut right, mut blocks) = (0, 0);
        for _ in 0..40 {
            let tried = experiment(&mut rng, &[1.0, 0.5, 2.0, 0.5, 2.0]);
            let expected = [TuneEffect::Improves, TuneEffect::Worsens];
            right +=
                tried.iter().zip(expected.iter().cycle()).filter(|(t, e)| t.effect == **e).count();
            blocks += tried.iter().map(|t| t.rounds).sum::<usize>();
        }
        assert!(right >= 156 && blocks <= 40 * 4 * 9, "{right} of 160 right, {blocks} blocks");
    }

    /// The interaction needs the blocks of both settings.
    #[test]
    fn parts_of_a_combination_are_measured_to_the_end() {
        let mut rng = SplitMix64::new(23);
        let arms = simulated(&mut rng, &[1.0, 0.3, 0.3, 0.1, 0.3], 12);
        let named = |name: &str| Tried { name: name.to_owned(), ..Tried::default() };
        let tried = ["a", "b", "a+b", "c"].map(named).into();
        let detail = TuneDetail { quantile: 0.99, margin: 0.1, tried, ..TuneDetail::default() };
        let mut looks = Elimination::new(3, 4);
        looks.look(&detail, &arms[0], &arms[1..]);
        assert_eq!([0, 1, 2, 3].map(|i| looks.is_decided(i)), [false, false, false, true]);
    }

    #[test]
    fn few_rounds_decide_nothing() {
        let mut rng = SplitMix64::new(5);
        assert_eq!(judged(&simulated(&mut rng, &[1.0, 0.5], 3)), [TuneEffect::Undecided]);
        // Without two rounds there is nothing to state, not an interval of 0 to 0 % either.
        for rounds in [0, 1] {
            let arms = simulated(&mut rng, &[1.0, 0.5], rounds);
            let tried = vec![Tried { name: "a".into(), ..Tried::default() }];
            let mut detail = TuneDetail { quantile: 0.99, tried, ..TuneDetail::default() };
            Elimination::new(1, 1).finish(&mut detail, &arms[0], &arms[1..]);
            assert!(!detail.tried[0].is_compared() && detail.tried[0].p >= 1.0);
            let findings = part(detail, false).findings;
            let ids: Vec<&str> = findings.iter().map(|f| f.id.as_str()).collect();
            assert_eq!(ids, ["tune.too-few"]);
        }
    }
}
